"""Processes of this machine as /proc shows them: who lives, who belongs to a server, how they are ended for certain.

A pid alone proves nothing, it is used again: a process is named by pid and start time (clock ticks since boot,
field 22 of /proc/PID/stat) and signalled through a pidfd.
"""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tuner.errors import NodeSick

logger = logging.getLogger(__name__)

MARKER = "TUNER_MARKER"
_PR_SET_CHILD_SUBREAPER = 36
_OPEN_FILES = 65536
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
# Python's own process that removes the shared memory which killed processes leave in /dev/shm (vLLM: 0.4 GB of it). It
# ends by itself after the last of them, TERM it ignores.
_TRACKER = "multiprocessing.resource_tracker"
_TRACKER_WAIT_S = 3.0


class Member(NamedTuple):
    """One process, for certain: pid and start time in clock ticks since boot."""

    pid: int
    start_time: int


@dataclass(frozen=True)
class Stat:
    """What /proc/PID/stat says. `cpu_seconds` includes children that were waited for; `threads` that are left."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    start_time: int
    cpu_seconds: float
    threads: int

    @property
    def member(self) -> Member:
        return Member(self.pid, self.start_time)

    @property
    def lives(self) -> bool:
        """A zombie holds nothing but its number. One whose first thread ended alone, or first under SIGKILL, looks like
        one while the other threads still hold its memory, and cannot be waited for yet."""
        return self.state not in "ZX" or self.threads > 1


class Family:
    """The processes of one server: its leader's group and session, the carriers of its marker, their descendants.

    Who was seen once stays known when it leaves the group (setsid, double fork). Never includes this process
    or its ancestors. Safe to ask from several threads.
    """

    def __init__(self, leader: Member | None, marker: str, known: Iterable[tuple[int, int]] = ()) -> None:
        self._leader = leader
        self._marker = marker
        self._known = {Member(*member) for member in known}
        self._lock = threading.Lock()

    def look(self) -> list[Stat]:
        """All of them as they are now, zombies too."""
        with self._lock:
            table = table_of_processes()
            pids = self._proven(table)
            pids |= _descendants(table, pids)
            pids -= _ancestry(table)
            self._known = {table[pid].member for pid in pids}
            return [table[pid] for pid in sorted(pids)]

    def living(self) -> list[Member]:
        return [stat.member for stat in self.look() if stat.lives]

    def _proven(self, table: Mapping[int, Stat]) -> set[int]:
        known = self._known | ({self._leader} if self._leader else set())
        pids = {pid for pid, start in known if pid in table and table[pid].start_time == start}
        pids |= _carriers(self._marker, table)
        # The number of a group stays taken while a process is in it: one proven member proves the whole group.
        number = self._leader.pid if self._leader else 0
        if number and any(number in (table[pid].group, table[pid].session) for pid in pids):
            pids |= {pid for pid, stat in table.items() if number in (stat.group, stat.session)}
        return pids


def boot_id() -> str:
    """Changes with every boot of the machine; '' where the kernel does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def stat_of(pid: int) -> Stat | None:
    """None: there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(text) < 20:
        return None
    ticks = sum(int(word) for word in text[11:15])
    return Stat(
        pid, text[0].decode(), int(text[1]), int(text[2]), int(text[3]), int(text[19]), ticks / _CLOCK_TICKS,
        int(text[17]),
    )  # fmt: skip


def lives(member: Member) -> bool:
    stat = stat_of(member.pid)
    return stat is not None and stat.lives and stat.start_time == member.start_time


def table_of_processes() -> dict[int, Stat]:
    stats = (stat_of(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {stat.pid: stat for stat in stats if stat}


def command_of(pid: int) -> str:
    """Its command line as one line, '' where it cannot be read."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode(errors="replace") for word in words if word)[:200]


def end(
    living: Callable[[], Collection[Member]],
    grace_s: float,
    kill_wait_s: float = 30.0,
    send: Callable[[Member, int], None] | None = None,
) -> list[int]:
    """TERM to all of them, up to `grace_s` to go, then KILL until none is left; the pids that were signalled.

    An interruption (Ctrl-C) while they are given time goes on to KILL before it leaves.

    Raises:
        NodeSick: one is still there `kill_wait_s` after the first SIGKILL.
    """
    send = send or send_signal
    ended = set(living())
    try:
        for member in ended:
            send(member, signal.SIGTERM)
        _wait_until_none(living, grace_s)
    finally:
        ended |= _kill(living, kill_wait_s, send)
    return sorted(member.pid for member in ended)


def send_signal(member: Member, number: int) -> None:
    """Signal exactly this process; nothing happens if it is gone or another now has its pid."""
    try:
        descriptor = os.pidfd_open(member.pid)
    except ProcessLookupError:
        return
    try:
        if lives(member):
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return
    except PermissionError:
        logger.warning("not allowed to signal process %d (%s)", member.pid, command_of(member.pid))
    finally:
        os.close(descriptor)


def become_subreaper() -> None:
    """Let orphans of our children come to this process, not to init, so that they stay ours to find and to end."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def bury_adopted(stats: Iterable[Stat], leader: int) -> None:
    """Take the zombies among these that came to us as orphans; the leader is left to its owner."""
    for stat in stats:
        if not stat.lives and stat.parent == os.getpid() and stat.pid != leader:
            try:
                os.waitpid(stat.pid, os.WNOHANG)
            except ChildProcessError:
                continue


def raise_open_files() -> None:
    """Raise the soft limit of open files, which children inherit: a server of 1000 streams needs more than 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _carriers(marker: str, table: Mapping[int, Stat]) -> set[int]:
    if not marker:
        return set()
    entry = f"{MARKER}={marker}".encode()
    return {pid for pid, stat in table.items() if stat.lives and entry in _environment(pid)}


def _environment(pid: int) -> list[bytes]:
    """Empty for another user's process."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return []
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _descendants(table: Mapping[int, Stat], pids: Collection[int]) -> set[int]:
    found: set[int] = set()
    layer = set(pids)
    while layer:
        layer = {pid for pid, stat in table.items() if stat.parent in layer} - found
        found |= layer
    return found


def _ancestry(table: Mapping[int, Stat]) -> set[int]:
    """This process and all above it: never to be signalled."""
    pids = {0, 1}
    pid = os.getpid()
    while pid in table and pid not in pids:
        pids.add(pid)
        pid = table[pid].parent
    return pids


def _kill(living: Callable[[], Collection[Member]], wait_s: float, send: Callable[[Member, int], None]) -> set[Member]:
    ended: set[Member] = set()
    begun = time.monotonic()
    while left := living():
        cleaning = time.monotonic() < begun + _TRACKER_WAIT_S
        for member in left:
            if not (cleaning and _TRACKER in command_of(member.pid)):
                send(member, signal.SIGKILL)
        ended.update(left)
        if time.monotonic() > begun + wait_s:
            names = ", ".join(f"{member.pid} ({command_of(member.pid) or 'unknown'})" for member in left)
            raise NodeSick(
                f"a process must end when it is killed, but after {wait_s:g} s of SIGKILL there is still {names}; "
                "it hangs in the kernel or in a driver: restart the node, then run the study again to continue"
            )
        time.sleep(0.02)
    return ended


def _wait_until_none(living: Callable[[], Collection[Member]], wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    pause = 0.01
    while living() and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)

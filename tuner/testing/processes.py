"""The child processes that a real engine has beside its front end: they do nothing but live and die."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from dataclasses import dataclass

from tuner.testing import dialects

_AFTER_PARENT_S = 1.0
_LEFT_OVER_S = 120.0


@dataclass(frozen=True)
class Child:
    """A child and the end of a pipe that reads as closed once it is gone."""

    pid: int
    alive: int

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.reap()

    def reap(self) -> None:
        """Let the kernel forget it, if it has ended and is ours."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)


def fork(child: dialects.Child, scale: float, orphan: str, listener: socket.socket | None) -> Child:
    """Start one. `orphan`: it leaves by `setsid` (its own group) or `doublefork` (its own parent)."""
    alive, alive_child = os.pipe()
    tells, told = os.pipe()  # the child learns its pid's new owner: the parent's end closes with the parent
    pids, pids_child = os.pipe()
    pid = os.fork()
    if pid == 0:
        for end in (alive, told, pids):
            os.close(end)
        if listener is not None:
            listener.close()
        if orphan == "setsid":
            os.setsid()
        if orphan == "doublefork" and os.fork():
            os._exit(0)
        os.write(pids_child, str(os.getpid()).encode())
        os.close(pids_child)
        _live(child, scale, tells, bool(orphan))
    for end in (alive_child, tells, pids_child):
        os.close(end)
    known = int(os.read(pids, 32))
    os.close(pids)
    if known != pid:
        os.waitpid(pid, 0)
    return Child(known, alive)


def _live(child: dialects.Child, scale: float, parent: int, orphan: bool) -> None:
    """Never returns. A child that follows its parent ends a second after it, any other after two minutes."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN if orphan else signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as name:
        name.write(child.title[:15])
    select.select([parent], [], [])
    time.sleep(_AFTER_PARENT_S * scale if child.follows_parent and not orphan else _LEFT_OVER_S)
    os._exit(0)

"""Servers as processes of this machine, each in a session of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import tuner
from tuner.errors import SpecError
from tuner.launchers import Identity
from tuner.node import ports, processes
from tuner.node.processes import Family, Member
from tuner.trial import Launch

_REAP_GRACE_S = 3.0
_STAND_IN = "tuner.testing.engine"


def launcher(path: str | None = None, prefix: Sequence[str] = (), simulated: bool = False) -> ProcessLauncher:
    """The launcher that starts `prefix` + the launch's command.

    `path` is a bin folder in which programs are looked for first. `prefix` is a list of words, or one line as a
    shell reads it. `simulated` starts the stand-in engine with the same command line instead.

    Raises:
        SpecError: an option of the wrong type, or `path` together with `simulated`.
    """
    if path is not None and not isinstance(path, str):
        raise SpecError(f"launcher option path must be a folder's name (got {path!r})")
    if not isinstance(simulated, bool):
        raise SpecError(f"launcher option simulated must be true or false (got {simulated!r})")
    if path and simulated:
        raise SpecError(f"a simulated engine is not looked for in a folder (got path {path}); drop one of the two")
    return ProcessLauncher(path, _words(prefix), simulated)


class ProcessLauncher:
    """Starts the command in its own session, output to the log, input from nowhere."""

    type = "process"
    url = None

    def __init__(self, path: str | None, prefix: tuple[str, ...], simulated: bool) -> None:
        self._path = os.path.abspath(os.path.expanduser(path)) if path else None
        self._prefix = prefix
        self._simulated = simulated

    def start(self, launch: Launch, log: Path, marker: str, cwd: Path) -> ProcessHandle:
        env = environment(launch, marker, os.environ, self._path)
        if self._simulated:
            env["PYTHONPATH"] = _joined(str(Path(tuner.__file__).parents[1]), env.get("PYTHONPATH"))
        argv = self._found(self._started(launch), env["PATH"])
        processes.become_subreaper()
        processes.raise_open_files()
        with log.open("ab") as output:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        return ProcessHandle(process, marker)

    def command(self, launch: Launch) -> list[str]:
        words = self._started(launch)
        at = len(self._prefix)
        inside = shutil.which(words[at], path=self._path) if self._path and "/" not in words[at] else None
        return [*words[:at], inside or words[at], *words[at + 1 :]]

    def reap(self, identity: Identity) -> list[int]:
        if identity.boot_id != processes.boot_id():
            return []
        known = [Member(*member) for member in identity.members]
        leader = None
        if identity.pid is not None and identity.start_time is not None:
            leader = Member(identity.pid, identity.start_time)
        family = Family(leader, identity.marker, known)
        return processes.end(family.living, _REAP_GRACE_S)

    def _started(self, launch: Launch) -> list[str]:
        stand_in = [sys.executable, "-m", _STAND_IN] if self._simulated else []
        return [*self._prefix, *stand_in, *launch.argv]

    def _found(self, words: list[str], search: str) -> list[str]:
        """The words with the first one's full path; the program behind a prefix must be there too."""
        found = {at: shutil.which(words[at], path=search) for at in (0, len(self._prefix))}
        for at, program in found.items():
            if program is None:
                where = f"{self._path} or on PATH" if self._path else "on PATH"
                raise FileNotFoundError(
                    f"the program {words[at]!r} is not {where}; install it, or give the launcher the option "
                    "`path` with the bin folder of the environment that has it"
                )
        full = {at: os.path.abspath(program or "") for at, program in found.items() if at == 0 or "/" in words[at]}
        return [full.get(at, word) for at, word in enumerate(words)]


class ProcessHandle:
    """A started process and all that came of it. Its leader stays a zombie until `stop`, so its number stays ours."""

    def __init__(self, process: subprocess.Popen[bytes], marker: str) -> None:
        stat = processes.stat_of(process.pid)
        assert stat is not None, "an unwaited child is always in /proc"
        self._process = process
        self._marker = marker
        self._leader = stat.member
        self._family = Family(stat.member, marker)

    def identity(self) -> Identity:
        members = tuple((member.pid, member.start_time) for member in self._living())
        return Identity("process", self._marker, processes.boot_id(), *self._leader, members)

    def returncode(self) -> int | None:
        if self._process.returncode is not None:
            return self._process.returncode
        try:
            ended = os.waitid(os.P_PID, self._leader.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return self._process.poll()
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def owns_listener(self, port: int) -> bool | None:
        return ports.owned_by(port, [member.pid for member in self._living()])

    def cpu_seconds(self) -> float:
        return sum(stat.cpu_seconds for stat in self._family.look())

    def stop(self, grace_s: float) -> None:
        try:
            processes.end(self._living, grace_s)
        finally:
            self._process.poll()
            self._living()

    def _living(self) -> list[Member]:
        stats = self._family.look()
        processes.bury_adopted(stats, self._leader.pid)
        return [stat.member for stat in stats if stat.lives]


def environment(launch: Launch, marker: str, base: Mapping[str, str], path: str | None = None) -> dict[str, str]:
    """What the server sees: ours without the tuner's own names, the launch's, and the marker that proves it ours."""
    ours = {
        name: text for name, text in base.items() if not name.startswith("TUNER_") or name.startswith("TUNER_FAKE_")
    }
    env = {**ours, **launch.env, **launch.own_env, processes.MARKER: marker}
    # Engines rename their children with setproctitle, which wipes the environment unless told not to.
    env["SPT_NOENV"] = "1"
    env["PATH"] = env.get("PATH", os.defpath)
    if path:
        env["PATH"] = _joined(path, env["PATH"])
    return env


def _words(prefix: Sequence[str]) -> tuple[str, ...]:
    try:
        words = shlex.split(prefix) if isinstance(prefix, str) else list(prefix)
    except (TypeError, ValueError) as error:
        raise SpecError(f"launcher option prefix must be words (got {prefix!r}: {error})") from error
    if not all(isinstance(word, str) and word for word in words):
        raise SpecError(f"launcher option prefix must be words (got {prefix!r}); quote the numbers among them")
    return tuple(words)


def _joined(first: str, rest: str | None) -> str:
    return os.pathsep.join([first, rest] if rest else [first])

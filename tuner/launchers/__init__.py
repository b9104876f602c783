"""Launchers: ways of starting a server, and of proving which processes are it. One file a way.

A launcher knows how to start, to own, to stop and to find again; `tuner.server` knows when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Protocol

from tuner.errors import SpecError
from tuner.trial import Launch


@dataclass(frozen=True)
class Identity:
    """What is stored before anything waits, so that a later process can find and end exactly this server.

    `marker` is a random word in the environment of every process of the server. `members` are (pid, start
    time in clock ticks since boot) of the processes seen in its group. An attached server has no pid.
    """

    launcher: str
    marker: str
    boot_id: str
    pid: int | None = None
    start_time: int | None = None
    members: tuple[tuple[int, int], ...] = ()
    facts: Mapping[str, str] | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Identity:
        """What `as_json` wrote."""
        members = tuple((int(pid), int(start)) for pid, start in stored["members"])
        return cls(**{**stored, "members": members})


class Handle(Protocol):
    """A server somebody started. Every method answers at once except `stop`, which is bounded."""

    def identity(self) -> Identity:
        """What is known now; grows as children appear."""
        ...

    def returncode(self) -> int | None:
        """None while its main process lives; negative: ended by that signal."""
        ...

    def owns_listener(self, port: int) -> bool | None:
        """Whether the listener on this port is a process of this server; None where it cannot be proven."""
        ...

    def cpu_seconds(self) -> float:
        """CPU time used so far by all its processes: tells work from a stall."""
        ...

    def stop(self, grace_s: float) -> None:
        """Ask (TERM), wait up to `grace_s` for the whole group, KILL the group, wait until all are gone.

        Raises:
            NodeSick: a process survived SIGKILL.
        """
        ...


class Launcher(Protocol):
    """One way of starting. `start` returns at once; output goes to `log`, never to a pipe."""

    type: str

    @property
    def url(self) -> str | None:
        """Where its server already answers; None: it is started, at the launch's own url, whose port must be free."""
        ...

    def start(self, launch: Launch, log: Path, marker: str, cwd: Path) -> Handle:
        """Raises:
        FileNotFoundError: the program is not there.
        """
        ...

    def command(self, launch: Launch) -> list[str]:
        """What a person would type to start this launch this way, environment aside."""
        ...

    def reap(self, identity: Identity) -> list[int]:
        """End what is left of a server that an earlier, killed tuner started; the pids ended.

        Only processes proven to be it by pid and start time, or by the marker, in this boot; nothing else.
        """
        ...


_MODULES = {"process": "process", "attach": "attach"}
LAUNCHERS = tuple(_MODULES)


def launcher(type: str, **options: Any) -> Launcher:
    """The launcher of this type.

    Raises:
        SpecError: no such launcher, or an option it does not have.
    """
    if type not in _MODULES:
        raise SpecError(f"there is no launcher {type!r}; launchers are {', '.join(LAUNCHERS)}")
    make = import_module(f"tuner.launchers.{_MODULES[type]}").launcher
    try:
        signature(make).bind(**options)
    except TypeError as error:
        takes = ", ".join(signature(make).parameters)
        raise SpecError(f"launcher {type}: {error}; it takes {takes}") from error
    made: Launcher = make(**options)
    return made

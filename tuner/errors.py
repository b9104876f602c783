"""Everything the tuner raises on purpose. The command line prints `str(error)` and exits with `exit_code`.

TunerError
├── SpecError         what a person wrote cannot be right; nothing was started (exit 2)
├── StudyLocked       somebody else is running this study, these GPUs or this port (exit 1)
├── StorageError      the study folder or its database cannot be read or written (exit 1)
└── NodeSick          the node cannot go on: a process survives SIGKILL, memory does not come back (exit 1)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One thing wrong in what a person wrote: where it is, what it is, which rule it breaks, the way out."""

    rule: str
    file: str = ""
    line: int | None = None
    path: str = ""
    value: str = ""
    way_out: str = ""

    def __str__(self) -> str:
        where = self.file + (f":{self.line}" if self.line is not None else "")
        place = ": ".join(part for part in (where, self.path) if part)
        value = f" (got {self.value})" if self.value else ""
        way_out = f"; {self.way_out}" if self.way_out else ""
        return f"{place + ': ' if place else ''}{self.rule}{value}{way_out}"


def without_password(url: str) -> str:
    """A database URL, even one that cannot be parsed, as it may be shown: `***` for its secrets."""
    hidden = re.sub(r"^(\w[\w+.-]*://[^:@/]*:|[^:@]*:(?!//))\S*@", r"\1***@", url)
    return re.sub(r"([?&][^=&]*(?:password|secret|token)[^=&]*=)[^&]*", r"\1***", hidden, flags=re.IGNORECASE)


class TunerError(Exception):
    """Root of all errors raised on purpose; its text is for people."""

    exit_code = 1


class SpecError(TunerError):
    """What a person wrote cannot be right. Carries every fault found, not only the first."""

    exit_code = 2

    def __init__(self, faults: Iterable[Fault] | str) -> None:
        self.faults = (Fault(rule=faults),) if isinstance(faults, str) else tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class StudyLocked(TunerError):
    """Another process holds the study folder, a GPU or a port; the text says who."""


class StorageError(TunerError):
    """The study folder or its database cannot be read or written."""


class NodeSick(TunerError):
    """The node cannot be trusted any more; going on would only produce failing trials."""

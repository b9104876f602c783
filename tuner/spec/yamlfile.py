"""YAML as this project reads it: every value with its line, no surprises, bounded in time and memory.

Unlike YAML 1.1, only `true` and `false` are booleans (`on`, `yes`, `off` stay text), `1e-3` is a number, dates
and `08:00` stay text, a name is always text, no name is given twice, and there are no tags and no merge keys.
"""

from __future__ import annotations

import errno
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tuner.errors import Fault, SpecError, without_password
from tuner.spec.yamlevents import MAX_VALUES, SHOWN, TOO_DEEP, Mark, Place, Reader, where
from tuner.trial import is_secret

MAX_BYTES = 1_000_000
MOST_WRITTEN = 10_000  # values in what a person writes by hand: more would only make faults slow to tell


@dataclass(frozen=True)
class Document:
    """What a file holds. `faults` are those that still let the rest be read (a name given twice, a tag)."""

    file: str
    data: Any
    marks: Mapping[Place, Mark] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()

    def line(self, place: Sequence[str | int]) -> int | None:
        """The line of the value at `place`, or of the nearest thing around it."""
        for end in range(len(place), -1, -1):
            if mark := self.marks.get(tuple(place[:end])):
                return mark.line
        return None

    def text(self, place: Sequence[str | int]) -> str | None:
        """The scalar at `place` as written when it is unquoted, None else."""
        mark = self.marks.get(tuple(place))
        return mark.text if mark and mark.plain else None

    def at(self, place: Sequence[str | int]) -> Any:
        """The value at `place`, None where there is none."""
        value = self.data
        for step in place:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def fault(self, place: Sequence[str | int], rule: str, value: Any = None, way_out: str = "") -> Fault:
        """A fault at `place`; `value` is shown as it would be written, shortened, and not at all if it is a secret."""
        rule, way_out = _short(rule), _short(way_out)
        if any(is_secret(str(step).lstrip("-").replace("-", "_")) for step in place) and value != place[-1]:
            value = None
        return Fault(rule, self.file, self.line(place), where(tuple(place)), shown(value), way_out)


def read(path: Path, limit: int = MAX_BYTES, values: int = MAX_VALUES) -> Document:
    """The document in a file, without any fault; at most `limit` bytes and so many `values`, aliases followed.

    Raises:
        SpecError: with every fault that was found.
    """
    document = scan(path, limit, values)
    if document.faults:
        raise SpecError(document.faults)
    return document


def scan(path: Path, limit: int = MAX_BYTES, values: int = MAX_VALUES) -> Document:
    """The document in a file, with the faults that still let the rest of it be read.

    Raises:
        SpecError: it cannot be read, is longer than `limit` bytes or has more `values`, or is not YAML.
    """
    file = str(path)
    try:
        content = _content(path, limit)
    except (OSError, ValueError) as error:
        raise SpecError([Fault(_trouble(error), file)]) from None
    if len(content) > limit:
        way_out = f"the most is {limit:,} bytes; keep data sets and results in files of their own"
        raise SpecError([Fault("the file is too large to be read as YAML", file, way_out=way_out)])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SpecError([Fault("the file is not text in UTF-8", file, line, way_out="save it as UTF-8")]) from None
    return parse(text, file, values)


def parse(text: str, file: str = "", values: int = MAX_VALUES) -> Document:
    """The document in a text; see `scan`."""
    if found := _FORBIDDEN.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise SpecError([Fault("there is a character that YAML does not allow", file, line, "", repr(found.group()))])
    reader = Reader(file, values)
    try:
        data = reader.document(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        raise SpecError([_syntax(error, text, file)]) from None
    except yaml.YAMLError:
        raise SpecError([Fault("this is not YAML", file)]) from None
    return Document(file, data, reader.marks, tuple(reader.faults))


def shown(value: Any) -> str:
    """A value as it would be written, short enough for one line; '' for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return f"a mapping of {', '.join(str(key)[:20] for key in list(value)[:4])}"[:SHOWN] if value else "{}"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}" if value else "[]"
    if isinstance(value, str) and re.match(r"\w[\w+.-]*://", value):
        value = without_password(value)
    text = repr(value[: 2 * SHOWN]) if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TROUBLES = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "there is no such file",
    errno.EACCES: "there is no permission to read it",
    errno.EPERM: "there is no permission to read it",
    errno.ENAMETOOLONG: "the name is too long for a file",
    errno.ELOOP: "the link leads in a circle",
}


def _short(text: str) -> str:
    """Rules and ways out may quote what was written; nobody reads 9000 characters of it."""
    return text if len(text) <= 500 else text[:480] + "..."


def _content(path: Path, limit: int) -> bytes:
    """At most one byte more than `limit`. A pipe or device is never opened: it could wait for ever."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise ValueError("it is a folder, not a file")
    if not stat.S_ISREG(mode):
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        return file.read(limit + 1)


def _trouble(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return _TROUBLES.get(error.errno or 0, f"it cannot be read: {error.strerror}")
    return "this is not the name of a file" if "null" in str(error) else str(error)


def _syntax(error: yaml.MarkedYAMLError, text: str, file: str) -> Fault:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "it does not parse"
    if "nesting depth" in problem:
        return Fault(TOO_DEEP, file, mark.line + 1 if mark else None)
    line = text.splitlines()[mark.line : mark.line + 1] if mark else []
    tab = any("\t" in part[: len(part) - len(part.lstrip())] for part in line)
    way_out = "indent with spaces, not tabs" if tab else ""
    return Fault(f"this is not YAML: {problem}", file, mark.line + 1 if mark else None, way_out=way_out)

"""Tables of flags as text, one row a flag, over all versions of an engine. Pure.

    name|alias|-short  kind  choice choice ...

Every word may carry the versions that have it (`tuner.engines.versions`): `cuda-graph-max-bs-decode@0.5.14..`. A row
goes on in lines that begin with a space. A flag that changed its kind has a row for each; one whose choices are not
there at a version takes any value then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tuner.engines.flags import Flag, Home, Kind
from tuner.engines.versions import Dated, Span, Version, at, dated, dots


@dataclass(frozen=True)
class Row:
    """One flag of an engine, while it was of this kind."""

    name: Dated
    aliases: tuple[Dated, ...]
    kind: Kind
    choices: tuple[Dated, ...] = ()

    def flag(self, version: Version, home: Home) -> Flag:
        return Flag(self.name.word, self.kind, at(self.aliases, version), home, at(self.choices, version))


def read(text: str) -> tuple[Row, ...]:
    """The rows of a table; lines that begin with `#` are comments."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(" ") and lines:
            lines[-1] += line
        elif line.strip() and not line.startswith("#"):
            lines.append(line)
    return tuple(_row(line) for line in lines)


def _row(line: str) -> Row:
    names, kind, *choices = line.split()
    name, *aliases = map(dated, names.split("|"))
    return Row(name, tuple(aliases), kind, tuple(map(dated, choices)))  # type: ignore[arg-type]


def flags_at(rows: Iterable[Row], version: Version, homes: Mapping[str, Home]) -> dict[str, Flag]:
    """The flags of one version; `homes` names those that are not of the command line."""
    return {
        row.name.word: row.flag(version, homes.get(row.name.word, "argv")) for row in rows if version in row.name.span
    }


def absent(rows: Iterable[Row], version: Version, engine: str) -> dict[str, str]:
    """Every name of another version that this one does not have, and when it was there."""
    spans: dict[str, list[Span]] = {}
    for row in rows:
        for name in (row.name, *row.aliases):
            since = max(filter(None, (name.span.since, row.name.span.since)), default=None)
            until = min(filter(None, (name.span.until, row.name.span.until)), default=None)
            spans.setdefault(name.word, []).append(Span(since, until))
    return {
        name: _when(known, version, engine)
        for name, known in spans.items()
        if not any(version in span for span in known) and not name.startswith("-")
    }


def _when(spans: Sequence[Span], version: Version, engine: str) -> str:
    later = [span.since for span in spans if span.since is not None and version < span.since]
    if later:
        return f"it came with {engine} {dots(min(later))}"
    return f"it went with {engine} {dots(max(span.until for span in spans if span.until is not None))}"


def ways_out(text: str, version: Version) -> dict[str, str]:
    """Rows `name what to write instead`, those of this version; a name may carry its versions."""
    rows = [line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    named = [(dated(name), words.strip()) for name, words in rows]
    return {name.word: words for name, words in named if version in name.span}


def renamed(text: str, flags: Mapping[str, Flag]) -> dict[str, str]:
    """Rows `name name ...` of one setting under its names over time: for each that is no flag, the one that is."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        names = line.split()
        here = [name for name in names if name in flags]
        found |= {name: f"it is --{here[0]} here" for name in names if here and name not in flags}
    return found

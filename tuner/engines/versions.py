"""Versions as numbers, and words that hold only from one version to another. Pure.

`word@0.14..0.20` is there from 0.14 on and no longer in 0.20; `word@0.14..` and `word@..0.20` are open at one end, a
bare word at both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tuner.errors import SpecError

Version: TypeAlias = "tuple[int, ...]"


@dataclass(frozen=True)
class Span:
    """The versions from `since` on and below `until`; None is without end."""

    since: Version | None = None
    until: Version | None = None

    def __contains__(self, version: Version) -> bool:
        return (self.since is None or version >= self.since) and (self.until is None or version < self.until)

    def __str__(self) -> str:
        """In words, from a version that is not in it: `from 0.14 to below 0.20`."""
        first = f"from {dots(self.since)} on" if self.since else ""
        last = f"before {dots(self.until)}" if self.until else ""
        return " and ".join(filter(None, (first, last))) or "in every version"


ALWAYS = Span()


@dataclass(frozen=True)
class Dated:
    """A word and the versions that have it."""

    word: str
    span: Span = ALWAYS


def dated(text: str) -> Dated:
    """`word`, or `word@SINCE..UNTIL`."""
    word, at, ends = text.partition("@")
    return Dated(word, span(ends)) if at else Dated(word)


def span(text: str) -> Span:
    """`0.14..0.20`, `0.14..`, `..0.20`; '' is every version."""
    since, _, until = text.partition("..")
    return Span(number(since) if since else None, number(until) if until else None)


def at(words: Iterable[Dated], version: Version) -> tuple[str, ...]:
    """Those that this version has, in their order."""
    return tuple(each.word for each in words if version in each.span)


def number(text: str) -> Version:
    """The first three numbers of a version as people write it (`v0.5.3.post1` is 0.5.3); () where there are none."""
    match = re.match(r"v?(\d+(?:\.\d+){0,2})", text.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def dots(version: Version) -> str:
    """As people write it: 0.32 for 0.32.0."""
    short = version[:2] if len(version) == 3 and version[2] == 0 else version
    return ".".join(map(str, short))


def release(engine: str, version: str | None, oldest: Version, newest: Version, below: Version) -> tuple[str, Version]:
    """The version as text and as three numbers; None is the newest known.

    Raises:
        SpecError: no version, older than `oldest`, or `below` and newer.
    """
    if version is None:
        return ".".join(map(str, newest)), newest
    found = number(version)
    if not found or (*found, 0, 0)[:3] < oldest or found >= below:
        known = f"known are {dots(oldest)} to {dots(newest)}, and what comes before {dots(below)}"
        raise SpecError(f"{engine} {version} is not known here; {known}")
    return version.strip().removeprefix("v"), (*found, 0, 0)[:3]

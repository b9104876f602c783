"""Flags as data: what one engine version's flags are called, which values they take, and whose they are. Pure.

A `Table` says which flag a spelling means. What a value is in its canonical form is `tuner.engines.values`; how
flags stand on a command line is `tuner.engines.commands`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Literal, TypeAlias

from tuner.engines import FlagError

# bare: presence only; bool: has a --no- form; size: an int that may be written 8k or 8K; optional: with or
# without a value; json: a mapping or list; any: whatever YAML says.
Kind: TypeAlias = Literal[
    "bare", "bool", "int", "size", "float", "str", "list", "ints", "floats", "json", "optional", "any"
]
# argv: a flag of the command line; slot: belongs to whoever lends the slot (host, port, names, keys, log paths);
# model: the model itself; config: a file of flags; file: no flag, only a key of the engine's configuration file.
Home: TypeAlias = Literal["argv", "slot", "model", "config", "file"]

LISTS: Mapping[Kind, Kind] = {"list": "str", "ints": "int", "floats": "float"}
VALUELESS = frozenset({"bare", "bool"})
DOTTED = "*.*"  # the choice of a class of one's own, by its dotted name


@dataclass(frozen=True)
class Limits:
    """The numbers a flag takes: from `low` (itself only if not `above`) to `high`, and those in `also`."""

    low: float
    high: float | None = None
    above: bool = False
    also: tuple[float, ...] = ()

    def __contains__(self, number: float) -> bool:
        over = number > self.low if self.above else number >= self.low
        return number in self.also or (over and (self.high is None or number <= self.high))

    def __str__(self) -> str:
        least = f"more than {self.low:g}" if self.above else f"at least {self.low:g}"
        most = f" and at most {self.high:g}" if self.high is not None else ""
        return f"{least}{most}" + "".join(f", or {number:g}" for number in self.also)


@dataclass(frozen=True)
class Flag:
    """One flag by its canonical long name, without dashes. An alias with a leading `-` is a short form."""

    name: str
    kind: Kind
    aliases: tuple[str, ...] = ()
    home: Home = "argv"
    choices: tuple[str, ...] = ()
    limits: Limits | None = None

    def takes(self, word: str) -> bool:
        """Whether a value, as text, is one of `choices` (patterns, as of file names); any is where there are none."""
        return not self.choices or any(fnmatchcase(word, choice) for choice in self.choices)


@dataclass(frozen=True)
class Spelling:
    """What a written flag means: the flag, the key inside its JSON (`--flag.key.sub`), whether it says no."""

    flag: Flag
    path: tuple[str, ...] = ()
    negated: bool = False
    append: bool = False


@dataclass(frozen=True)
class Table:
    """All flags of one engine version and how it takes their spelling.

    `parts` maps a flag that says one key of a JSON flag to its dotted form; `gone` a flag that this version does
    not have to the way out. `abbreviations`: unique prefixes are taken (argparse's default).
    """

    engine: str
    flags: Mapping[str, Flag]
    gone: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    separator: str = "-"
    interchangeable: bool = False
    abbreviations: bool = False
    dotted: bool = False
    auto_sizes: bool = False
    level_key: str = ""

    @cached_property
    def long(self) -> Mapping[str, Flag]:
        """Every long spelling, with the table's own separator."""
        names = {alias: flag for flag in self.flags.values() for alias in flag.aliases if not alias.startswith("-")}
        return {**names, **self.flags}

    @cached_property
    def short(self) -> Mapping[str, Flag]:
        """Every short form, with its dash."""
        return {alias: flag for flag in self.flags.values() for alias in flag.aliases if alias.startswith("-")}

    def find(self, written: str) -> Spelling:
        """The flag meant by `--name`, `-n`, or `name` without dashes (then any form is tried).

        Raises:
            FlagError: unknown (with the nearest name), ambiguous, or gone in this version.
        """
        dashes = len(written) - len(written.lstrip("-"))
        word, *path = written.lstrip("-").split(".") if self.dotted else (written.lstrip("-"),)
        append = bool(path) and path[-1].endswith("+")
        keys = tuple(part.removesuffix("+") for part in path)
        found = self._look_up(word, dashes)
        if found.path or not keys:
            return found
        if found.flag.kind != "json" or not all(keys):
            raise FlagError(written, "only a flag that takes JSON has keys", f"write --{found.flag.name} alone")
        return replace(found, path=keys, append=append)

    def named(self, field: str) -> str | None:
        """The canonical name of the setting that the engine's own configuration calls `field`, None if it is none."""
        flag = self.long.get(self._with_separator(field, 0))
        return flag.name if flag is not None and flag.home in ("argv", "file") else None

    def _look_up(self, word: str, dashes: int) -> Spelling:
        if dashes < 2 and f"-{word}" in self.short:
            return Spelling(self.short[f"-{word}"])
        name = self._with_separator(word, dashes)
        if name in self.parts:
            return self.find("--" + self.parts[name])
        positive = name.removeprefix(f"no{self.separator}")
        if dashes != 1 and name in self.long:
            return Spelling(self.long[name])
        if dashes != 1 and positive != name and positive in self.long and self.long[positive].kind == "bool":
            return Spelling(self.long[positive], negated=True)
        if name in self.gone:
            raise FlagError("-" * dashes + word, f"{self.engine} does not have this flag", self.gone[name])
        if self.abbreviations and dashes != 1 and len(name) > 1:
            return self._abbreviated(word, name)
        raise self.unknown(word, dashes)

    def unknown(self, word: str, dashes: int = 0) -> FlagError:
        """The refusal of a name that no flag has."""
        near = difflib.get_close_matches(self._with_separator(word, 0), [*self.long, *self.parts], n=1, cutoff=0.5)
        short = f"-{word}" if f"-{word}" in self.short else ""
        way_out = f"did you mean {short or '--' + near[0]}?" if short or near else "look at the engine's --help"
        return FlagError("-" * dashes + word, f"{self.engine} has no such flag", way_out)

    def _with_separator(self, word: str, dashes: int) -> str:
        free = self.interchangeable or dashes == 0
        return word.replace("_" if self.separator == "-" else "-", self.separator) if free else word

    def _abbreviated(self, word: str, name: str) -> Spelling:
        matches = sorted(known for known in self.long if known.startswith(name))
        if len(matches) == 1:
            return Spelling(self.long[matches[0]])
        if not matches:
            raise self.unknown(word, 2)
        raise FlagError(word, f"an abbreviation of several flags: {', '.join(matches[:6])}", "write one in full")


def flags(home: Home = "argv", **words: str) -> dict[str, Flag]:
    """Flags from words by kind: `flags(int="tensor-parallel-size|-tp seed")`; after each name its aliases."""
    named: dict[str, Flag] = {}
    for kind, text in words.items():
        for word in text.split():
            name, *aliases = word.split("|")
            named[name] = Flag(name, kind, tuple(aliases), home)  # type: ignore[arg-type]
    return named


def within(known: Mapping[str, Flag], limits: Mapping[Limits, str]) -> dict[str, Flag]:
    """The same flags, those named taking only numbers within these limits; a name that is not there is passed over."""
    by_name = {name: limit for limit, names in limits.items() for name in names.split()}
    return {name: replace(flag, limits=by_name.get(name, flag.limits)) for name, flag in known.items()}


COUNT = Limits(1)
FROM_ZERO = Limits(0)
FRACTION = Limits(0, 1, above=True)

"""A document's value out of YAML events: where everything stands, what is refused, how much there may be."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from tuner.errors import Fault, SpecError

Place: TypeAlias = "tuple[str | int, ...]"
MAX_DEPTH = 50
MAX_VALUES = 100_000
TOO_DEEP = f"values are nested more than {MAX_DEPTH} deep"
SHOWN = 60


@dataclass(frozen=True)
class Mark:
    """Where a value stands: its line (from 1) and, for a scalar, its text as written and whether it is unquoted."""

    line: int
    text: str = ""
    plain: bool = False


def where(place: Place) -> str:
    """`("stages", 1, "options")` as people write it: `stages[1].options`."""
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else ("." if text else "") + step[:SHOWN]
    return text


class Reader:
    """One pass over the events of a document: builds the value, notes where everything stands, counts."""

    def __init__(self, file: str, most: int = MAX_VALUES) -> None:
        self.file = file
        self.most = most
        self.marks: dict[Place, Mark] = {}
        self.faults: list[Fault] = []
        self.values = 0
        self.anchors: dict[str, tuple[Any, int]] = {}

    def document(self, events: Iterator[yaml.Event]) -> Any:
        next(events)  # the stream's start
        event = next(events)
        data = None
        if not isinstance(event, yaml.StreamEndEvent):
            data = self.value(events, next(events), ())
            next(events)  # the document's end
            event = next(events)
        if isinstance(event, yaml.DocumentStartEvent):
            self.refuse(event, (), "there is a second document in the file", "keep one document a file, without ---")
        return data

    def value(self, events: Iterator[yaml.Event], event: yaml.Event, place: Place) -> Any:
        self.count(1, event, place)
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, place)
        before = self.values - 1
        self.marks.setdefault(place, Mark(_line(event)))
        self.tag(event, place)
        if isinstance(event, yaml.ScalarEvent):
            data = self.scalar(event, place)
        elif len(place) >= MAX_DEPTH:
            raise self.stop(event, place, TOO_DEEP, "")
        elif isinstance(event, yaml.MappingStartEvent):
            data = self.mapping(events, place)
        else:
            data = self.sequence(events, place)
        anchor = getattr(event, "anchor", None)
        if anchor:
            self.anchors[anchor] = (data, self.values - before)
        return data

    def alias(self, event: yaml.AliasEvent, place: Place) -> Any:
        """What the anchor stands for, shared; its values count again, for whoever reads them will meet them again."""
        self.marks[place] = Mark(_line(event))
        if event.anchor not in self.anchors:
            self.refuse(event, place, f"*{event.anchor} stands for nothing written before it", f"write &{event.anchor}")
            return None
        data, size = self.anchors[event.anchor]
        self.count(size, event, place)
        return data

    def mapping(self, events: Iterator[yaml.Event], place: Place) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            name = self.name(events, event, place)
            inner = (*place, name)
            twice = name in data
            if twice:
                first = self.marks[inner].line
                self.refuse(event, inner, f"the name is given twice (first in line {first})", "keep one of the two")
            else:
                self.marks[inner] = Mark(_line(event))
            value = self.value(events, next(events), (*place, f"{name} (again)") if twice else inner)
            data.setdefault(name, value)
        return data

    def sequence(self, events: Iterator[yaml.Event], place: Place) -> list[Any]:
        data: list[Any] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            data.append(self.value(events, event, (*place, len(data))))
        return data

    def name(self, events: Iterator[yaml.Event], event: yaml.Event, place: Place) -> str:
        """A mapping's key: text as it is written."""
        if not isinstance(event, yaml.ScalarEvent):
            raise self.stop(event, place, "a name must be text", "quote it")
        self.count(1, event, place)
        self.tag(event, place)
        name = str(event.value)
        if event.anchor:
            self.anchors[event.anchor] = (name, 1)
        inner = (*place, name)
        if name == "<<" and event.implicit[0]:
            self.refuse(event, inner, "merge keys are not read", "write the values out")
        elif event.implicit[0] and not isinstance(_resolved(name), str):
            self.refuse(event, inner, "a name must be text", f'quote it: "{name}"')
        return name

    def scalar(self, event: yaml.ScalarEvent, place: Place) -> Any:
        text, plain = str(event.value), bool(event.implicit[0])
        self.marks[place] = Mark(self.marks[place].line, text, plain)
        if _unusable(text):
            self.refuse(event, place, "text holds a character that no command or file name can have", "")
            return ""
        return _resolved(text) if plain else text

    def tag(self, event: yaml.Event, place: Place) -> None:
        tag = getattr(event, "tag", None)
        if tag and not (isinstance(event, yaml.ScalarEvent) and tag in _TEXT_TAGS):
            self.refuse(event, place, "tags are not read", f"leave out {_bare(tag)[:SHOWN]!r}")

    def count(self, more: int, event: yaml.Event, place: Place) -> None:
        self.values += more
        if self.values > self.most:
            way_out = "write fewer, or alias (*name) less" if self.anchors else "write fewer"
            raise self.stop(event, place, f"there are more than {self.most:,} values", way_out)

    def refuse(self, event: yaml.Event, place: Place, rule: str, way_out: str) -> None:
        self.faults.append(Fault(rule, self.file, _line(event), where(place), way_out=way_out))

    def stop(self, event: yaml.Event, place: Place, rule: str, way_out: str) -> SpecError:
        self.refuse(event, place[:6], rule, way_out)
        return SpecError(self.faults)


_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")


def _line(event: yaml.Event) -> int:
    return int(event.start_mark.line) + 1 if event.start_mark else 1


def _bare(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")


def _unusable(text: str) -> bool:
    """NUL, which ends a C string, and halves of surrogate pairs, which UTF-8 cannot say."""
    return "\0" in text or any("\ud800" <= c <= "\udfff" for c in text)


def _resolved(text: str) -> Any:
    """What an unquoted scalar stands for. Numbers past 18 digits or past a double's range stay text."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "false"):
        return text == "true"
    if _INT.match(text):
        return int(text) if len(text) <= 18 else text
    if len(text) <= 40 and _FLOAT.match(text) and not text.lstrip("+-").isdigit():
        number = float(text)
        return number if math.isfinite(number) else text
    return text

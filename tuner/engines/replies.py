"""What engines print about their configuration, read as data: JSON, Prometheus labels, Python reprs. Pure.

Every reader answers with what it could read; text that is not what it expects gives nothing.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST_REPR = 200_000


def json_object(text: str | None) -> dict[str, Any]:
    """A JSON object, or an empty one."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def labels(metrics: str | None, name: str) -> dict[str, Any]:
    """The labels of the first sample of a Prometheus metric, their values read as Python literals."""
    for line in (metrics or "").splitlines():
        if line.startswith(name + "{"):
            pairs = re.findall(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"', line[:20_000])
            return {key: literal(value) for key, value in pairs}
    return {}


def fields(text: str) -> dict[str, Any]:
    """`a=1, b=Config(c='x'), d=[1, 2]` as a mapping; nested `Name(...)` become mappings too."""
    found: dict[str, Any] = {}
    for part in _split(text[:LONGEST_REPR]):
        key, equals, value = part.strip().partition("=")
        if equals and key.isidentifier():
            found[key] = literal(value)
    return found


def literal(text: str) -> Any:
    """A Python literal, an enum's value (`<Mode.X: 3>`), a nested `Name(a=1)` as a mapping, else the text."""
    text = text.strip()
    call = re.fullmatch(r"[A-Za-z_][\w.]*\((.*)\)", text, re.DOTALL)
    if call and (nested := fields(call[1])):
        return nested
    plain = re.sub(r"<[A-Za-z_][\w.]*: ((?:[^<>']|'[^']*')*)>", r"\1", text)
    try:
        return _plain(ast.literal_eval(plain))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def between(text: str, opening: str) -> str:
    """What stands between `opening` (which ends in a bracket) and its closing bracket; '' if it is not there.

    Of text that was cut short, what stands on the line up to its last comma.
    """
    start = text.find(opening)
    if start < 0:
        return ""
    rest = text[start + len(opening) :][:LONGEST_REPR]
    for end, depth in _depths(rest, 1):
        if depth == 0:
            return rest[:end]
    return rest.partition("\n")[0].rpartition(",")[0]


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested mappings as `a.b` keys; lists stay whole."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{name}.")
        else:
            yield name, value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _split(text: str) -> Iterator[str]:
    """The parts between commas that stand outside brackets and quotes."""
    start = 0
    for position, depth in _depths(text, 0):
        if depth == 0 and text[position] == ",":
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _depths(text: str, depth: int) -> Iterator[tuple[int, int]]:
    """The bracket depth after each character that is a bracket or a comma, quotes left out."""
    quote = ""
    skip = False
    for position, character in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip = character == "\\"
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
            yield position, depth
        elif character in ")]}":
            depth -= 1
            yield position, depth
        elif character == ",":
            yield position, depth

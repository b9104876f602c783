"""Values as data: the one canonical form of what a flag is given, wherever it was written. Pure."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tuner.engines import FlagError, as_json
from tuner.engines.flags import DOTTED, LISTS, VALUELESS, Flag, Kind, Spelling, Table
from tuner.trial import Value, is_secret


def canonical(table: Table, args: Mapping[str, Value]) -> dict[str, Value]:
    """`args` in canonical spelling and values. `False` of a flag without a negative form is `None` (remove).

    Raises:
        FlagError: see `Engine.canonical`.
    """
    found: dict[str, Value] = {}
    written: dict[str, str] = {}
    for key, raw in args.items():
        spelling = table.find(str(key))
        name = spelling.flag.name
        refuse_foreign(table, spelling.flag, str(key))
        value = valued(table, spelling, raw, str(key))
        if name in found:
            value = _together(found[name], value, str(key), written[name])
        found[name], written[name] = value, str(key)
    return found


def refuse_foreign(table: Table, flag: Flag, written: str) -> None:
    """Refuse what is not a setting: secrets, the slot's flags, the model, a file of flags."""
    if flag.home == "slot" and is_secret(flag.name.replace("-", "_")):
        raise _secret(written)
    if flag.home == "slot":
        raise FlagError(written, "belongs to the slot: whoever starts the server chooses it", "leave it out")
    if flag.home == "model":
        raise FlagError(written, "the model is no flag here", "write it as the study's or the option's `model:`")
    if flag.home == "config":
        raise FlagError(written, f"a file of flags hides what {table.engine} is asked for", "write its flags out")


def valued(table: Table, spelling: Spelling, raw: Value, written: str) -> Value:
    """The canonical value of `raw` under this spelling, nested where the spelling names a key of JSON."""
    if spelling.path:
        return nested(spelling.path, as_json(raw))
    if spelling.negated:
        if not isinstance(raw, bool):
            raise FlagError(written, "takes no value", "write true")
        raw = not raw
    return normal(table, spelling.flag, raw, written)


def nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    """`value` under the keys of `path`."""
    head, *rest = path
    return {head: nested(rest, value) if rest else value}


def normal(table: Table, flag: Flag, raw: Value, written: str) -> Value:
    """The one form of this flag's value: numbers as numbers, JSON as a mapping or list, lists as lists.

    Raises:
        FlagError: a value that cannot be said to this flag.
    """
    if raw is None:
        return None
    if flag.kind == "any":
        anything: Value = as_json(raw)
        return anything
    if isinstance(raw, bool):
        return _boolean(flag, raw, written)
    if flag.home != "slot" and flag.kind in ("str", "optional", "list") and is_secret(flag.name.replace("-", "_")):
        raise _secret(written)
    if flag.kind in VALUELESS:
        negative = f" or --no-{flag.name}" if flag.kind == "bool" else ""
        raise FlagError(written, "takes no value", f"it is --{flag.name}{negative}: true or false here", raw)
    if flag.kind == "json":
        return _json(table, flag, raw, written)
    if flag.kind in LISTS:
        items = raw if isinstance(raw, (list, tuple)) else (raw,)
        if not items:
            raise FlagError(written, "needs at least one value", "leave it out, or write null to remove it")
        return [_scalar(table, flag, LISTS[flag.kind], item, written) for item in items]
    return _scalar(table, flag, flag.kind, raw, written)


def deep_merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`, mappings merged."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = deep_merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _secret(written: str) -> FlagError:
    way_out = "set what the server needs in the shell that runs the tuner: servers inherit it"
    return FlagError(written, "a secret does not belong in a study", way_out)


def _boolean(flag: Flag, raw: bool, written: str) -> Value:
    if flag.kind == "bool":
        return raw
    if flag.kind in ("bare", "optional"):
        return True if raw else None
    if raw:
        raise FlagError(written, "needs a value", "write the value in place of true", raw)
    raise FlagError(written, "false cannot be said to it", "write null to remove it, or a value", raw)


_TYPES: Mapping[Kind, str] = {
    "int": "a whole number",
    "size": "a whole number, or one such as 8k or 8K",
    "float": "a finite number",
    "str": "one text",
    "optional": "one text",
}


def _scalar(table: Table, flag: Flag, kind: Kind, raw: Any, written: str) -> Value:
    wrong = FlagError(written, f"takes {_TYPES[kind]}", "", raw)
    if isinstance(raw, (Mapping, list, tuple, bool)) or raw is None:
        raise wrong
    try:
        value = _convert(table, kind, raw)
    except (ValueError, OverflowError):
        raise wrong from None
    if not flag.takes(str(value)):
        raise FlagError(written, "is not one of its values", _choices(flag.choices, str(value)), raw)
    if flag.limits is not None and isinstance(value, (int, float)) and value not in flag.limits:
        raise FlagError(written, f"takes {flag.limits}", "", raw)
    return value


def _choices(choices: Sequence[str], word: str) -> str:
    """A way out: the nearest of the values, and all of them."""
    near = difflib.get_close_matches(word.lower(), {choice.lower(): None for choice in choices}, 1, 0.6)
    meant = next((choice for choice in choices if near and choice.lower() == near[0]), None)
    names = ["a dotted name of Python" if choice == DOTTED else choice for choice in choices]
    return (f"did you mean {meant}? " if meant else "") + f"they are {', '.join(names)}"


def _convert(table: Table, kind: Kind, raw: Any) -> Value:
    """The value as this kind holds it.

    Raises:
        ValueError, OverflowError: it is none of this kind.
    """
    if kind in ("str", "optional"):
        return str(raw)
    if kind == "float":
        value = float(raw)
        if not math.isfinite(value):
            raise ValueError(raw)
        return value
    if isinstance(raw, float):
        if not raw.is_integer():
            raise ValueError(raw)
        return int(raw)
    if isinstance(raw, str) and kind == "size":
        return _size(raw.strip(), table.auto_sizes)
    return int(raw)


_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG])")


def _size(text: str, auto: bool) -> int:
    """1k is 1000 and 1K is 1024; decimals only before k, m, g; auto is -1 (vLLM and SGLang, human_readable_int)."""
    if auto and text == "auto":
        return -1
    match = _SIZE.fullmatch(text)
    if match is None:
        return int(text)
    number, unit = match.groups()
    power = "kmg".index(unit.lower()) + 1
    if unit.islower():
        return int(float(number) * 1000.0**power)
    return int(number) * int(1024**power)


def _json(table: Table, flag: Flag, raw: Any, written: str) -> Value:
    value = raw
    if isinstance(raw, str):
        try:
            value = json.loads(raw)
        except ValueError as error:
            raise FlagError(written, "takes JSON", f"as JSON it fails: {str(error).lower()}", raw) from None
    if isinstance(value, int) and not isinstance(value, bool) and table.level_key and flag.name == "compilation-config":
        value = {table.level_key: value}
    if not isinstance(value, (Mapping, list, tuple)):
        raise FlagError(written, "takes a JSON mapping or list", "write a mapping", raw)
    result: Value = as_json(value)
    return result


def _together(first: Value, second: Value, written: str, other: str) -> Value:
    if isinstance(first, Mapping) and isinstance(second, Mapping) and not _conflict(first, second):
        return deep_merge(first, second)
    if first != second:
        raise FlagError(written, f"{other} says the same with another value ({first!r}, {second!r})", "keep one")
    return second


def _conflict(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    def differ(old: Any, new: Any) -> bool:
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            return _conflict(old, new)
        return bool(old != new)

    return any(differ(first[key], second[key]) for key in _both(first, second))


def _both(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterable[str]:
    return (key for key in first if key in second)

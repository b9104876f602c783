"""What an engine's log says of its effective configuration and no endpoint does. Pure.

The workers decide late: the graphs' mode, the attention backend, how many tokens the KV pool holds. What their lines
say goes over what the front end believes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.engines.lines import LONGEST_LINE, stripped
from tuner.trial import Effective

KV_TOKENS = "kv-cache-tokens"
SOURCE = "log"


@dataclass(frozen=True)
class Fact:
    """A line and what it says: `key` has the pattern's group as its value, or `value` where there is one.

    `over`: a flag whose reported value gives way, `section.name` for a key of JSON. `names`: other words for a value.
    """

    key: str
    pattern: str
    value: Any = None
    over: str = ""
    names: Mapping[str, str] = field(default_factory=dict)


def facts(known: Sequence[Fact], log: str) -> dict[str, Any]:
    """What the lines say by key; of several lines on one key the last."""
    found: dict[str, Any] = {}
    for line in re.split(r"[\r\n]+", log):
        text = stripped(line[:LONGEST_LINE])[1]
        for fact in known:
            if match := re.search(fact.pattern, text):
                found[fact.key] = _value(fact, match)
    return found


def observed(known: Sequence[Fact], effective: Effective, log: str) -> Effective:
    """`effective` with what the log says, and the KV pool's size by one name whoever told it."""
    said = facts(known, log)
    values = {**effective.values, **said}
    for fact in known:
        if fact.over and fact.key in said:
            values = _put(values, fact.over, said[fact.key])
    tokens = kv_tokens(values)
    if tokens is not None:
        values[KV_TOKENS] = tokens
    source = ", ".join(filter(None, (effective.source, f"{SOURCE} lines" if said else "")))
    return replace(effective, values=values, source=source)


def kv_tokens(values: Mapping[str, Any]) -> int | None:
    """How many tokens the KV pool of one rank holds; None where nobody says."""
    for key in (KV_TOKENS, "max_total_num_tokens", "cache_config.kv_cache_size_tokens"):
        if _counts(values.get(key)):
            return int(values[key])
    blocks, size = values.get("cache_config.num_gpu_blocks"), values.get("block-size")
    return int(blocks) * int(size) if _counts(blocks) and _counts(size) else None  # type: ignore[arg-type]


def _counts(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _value(fact: Fact, match: re.Match[str]) -> Any:
    if fact.value is not None or not match.groups():
        return fact.value
    text = next((group for group in match.groups() if group), "")
    digits = text.replace(",", "")
    return int(digits) if digits.isdigit() else fact.names.get(text, text)


def _put(values: dict[str, Any], path: str, said: Any) -> dict[str, Any]:
    key, _, inner = path.partition(".")
    if not inner:
        return {**values, key: said}
    section = values.get(key)
    return {**values, key: {**section, inner: said}} if isinstance(section, Mapping) else values

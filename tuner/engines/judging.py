"""Asked against effective: a verdict for each key, side effects, and whether the whole change was a no-op. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.trial import Effective, KeyVerdict, Settings, SideEffect, Status

_MISSING = object()


@dataclass(frozen=True)
class Judging:
    """What one engine's effective values need to be read right.

    `benign`: (key, asked, effective) that are two names of one thing. `derived`: an effective key, and the asked
    keys whose change moves it by the engine's own rule. `volatile`: keys (patterns) that move by themselves.
    `enums`: names of values that the engine reports as numbers.
    """

    benign: frozenset[tuple[str, Any, Any]] = frozenset()
    derived: Mapping[str, frozenset[str]] = field(default_factory=dict)
    volatile: Sequence[str] = ()
    enums: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def judge(
    judging: Judging,
    settings: Settings,
    effective: Effective,
    base: Settings | None = None,
    base_effective: Effective | None = None,
) -> Effective:
    """See `Engine.judge`. A key with the base's own request and value is never called ignored for standing still."""
    before = base_effective.values if base_effective is not None else {}
    verdicts = tuple(
        _verdict(judging, key, asked, effective.values.get(key, _MISSING), _unmoved(key, asked, base, before))
        for key, asked in settings.args.items()
    )
    changed = _changed(settings, base)
    return replace(
        effective,
        verdicts=verdicts,
        side_effects=tuple(_side_effects(judging, effective.values, before, changed)),
        no_op=base is not None and _no_op(settings, base, verdicts, changed, effective.values, before),
    )


def same(asked: Any, effective: Any) -> bool:
    """Equal as the engines print values: numbers by value, `torch.` dropped, case and dashes of words aside."""
    if isinstance(asked, bool) or isinstance(effective, bool):
        return asked is effective
    if isinstance(asked, (int, float)) and isinstance(effective, (int, float)):
        return math.isclose(asked, effective, rel_tol=1e-9)
    if isinstance(asked, (list, tuple)) and isinstance(effective, (list, tuple)):
        return len(asked) == len(effective) and all(map(same, asked, effective))
    if isinstance(asked, Mapping) and isinstance(effective, Mapping):
        return all(key in effective and same(value, effective[key]) for key, value in asked.items())
    if isinstance(asked, str) and isinstance(effective, str):
        return _word(asked) == _word(effective)
    return bool(asked == effective)


def _word(text: str) -> str:
    return text.removeprefix("torch.").replace("-", "_").lower()


def _unmoved(key: str, asked: Any, base: Settings | None, before: Mapping[str, Any]) -> Any:
    """What the engine had for this key though the base did not ask it for the same; `_MISSING` if unknown."""
    if base is not None and key in base.args and same(base.args[key], asked):
        return _MISSING
    return before.get(key, _MISSING)


def _verdict(judging: Judging, key: str, asked: Any, effective: Any, unmoved: Any) -> KeyVerdict:
    if effective is _MISSING:
        return KeyVerdict(key, asked, None, "unknown")
    return KeyVerdict(key, asked, effective, _status(judging, key, asked, effective, unmoved))


def _status(judging: Judging, key: str, asked: Any, effective: Any, unmoved: Any) -> Status:
    if isinstance(asked, Mapping) and isinstance(effective, Mapping):
        return _status_of_keys(judging, key, asked, effective, unmoved)
    if _agree(judging, key, asked, effective):
        return "as-asked"
    if isinstance(asked, bool) and isinstance(effective, bool):
        return "ignored"
    if isinstance(asked, Mapping) and not effective:
        return "ignored"
    if unmoved is not _MISSING and same(effective, unmoved) and same(unmoved, effective):
        return "ignored"
    return "rewritten"


def _status_of_keys(
    judging: Judging, key: str, asked: Mapping[str, Any], effective: Mapping[str, Any], unmoved: Any
) -> Status:
    """JSON is judged by the keys asked for: ignored only if all are, as asked only if all are."""
    old = unmoved if isinstance(unmoved, Mapping) else {}
    statuses = {
        _verdict(judging, f"{key}.{name}", value, effective.get(name, _MISSING), old.get(name, _MISSING)).status
        for name, value in asked.items()
    }
    if len(statuses) <= 1:
        return statuses.pop() if statuses else "as-asked"
    return "unknown" if statuses <= {"as-asked", "unknown"} else "rewritten"


def _agree(judging: Judging, key: str, asked: Any, effective: Any) -> bool:
    if same(asked, effective) or (isinstance(asked, str) and asked.lower() == "auto"):
        return True
    names = judging.enums.get(key.rpartition(".")[2], {})
    if isinstance(asked, str) and asked.upper() in names:
        return same(names[asked.upper()], effective)
    return _hashable(asked) and _hashable(effective) and (key, asked, effective) in judging.benign


def _hashable(value: Any) -> bool:
    return not isinstance(value, (dict, list, Mapping))


def _changed(settings: Settings, base: Settings | None) -> frozenset[str]:
    """Keys whose request differs from the base's, those the base alone asks for included."""
    old = base.args if base is not None else {}
    return frozenset(key for key in {*settings.args, *old} if settings.args.get(key) != old.get(key))


def _side_effects(
    judging: Judging, after: Mapping[str, Any], before: Mapping[str, Any], changed: frozenset[str]
) -> Iterable[SideEffect]:
    for key in before:
        if key not in after or key in changed or after[key] == before[key] or _volatile(judging, key):
            continue
        yield SideEffect(key, before[key], after[key], derived=bool(judging.derived.get(key, frozenset()) & changed))


def _volatile(judging: Judging, key: str) -> bool:
    return any(re.fullmatch(pattern, key) for pattern in judging.volatile)


def _no_op(
    settings: Settings,
    base: Settings,
    verdicts: Sequence[KeyVerdict],
    changed: frozenset[str],
    after: Mapping[str, Any],
    before: Mapping[str, Any],
) -> bool:
    if (settings.engine, settings.model, settings.replicas) != (base.engine, base.model, base.replicas):
        return False
    if dict(settings.env) != dict(base.env) or not changed:
        return False
    ignored = {verdict.key for verdict in verdicts if verdict.status == "ignored"}
    return all(key in ignored if key in settings.args else _stayed(key, after, before) for key in changed)


def _stayed(key: str, after: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """A flag that is no longer asked for changed nothing if both values are known and equal."""
    return key in after and key in before and bool(after[key] == before[key])

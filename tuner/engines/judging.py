"""Asked against effective: a verdict for each key, side effects, and whether the whole change was a no-op. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.trial import Effective, KeyVerdict, Settings, SideEffect, Status

_MISSING = object()
# A size that moves less than that is the same; less than the second, it cannot matter.
UNSEEN, SMALL = 0.005, 0.02


@dataclass(frozen=True)
class Judging:
    """What one engine's effective values need to be read right.

    `benign`: (key, asked, effective) that are two names of one thing. `derived`: an effective key, and the asked
    keys whose change moves it by the engine's own rule. `volatile`: keys (patterns) that move by themselves.
    `enums`: names of values that the engine reports as numbers. `sizes`: what profiling measures anew at each start.
    `implied`: a switch that is reported nowhere, and the (key, path in it, value) that says it is on.
    """

    benign: frozenset[tuple[str, Any, Any]] = frozenset()
    derived: Mapping[str, frozenset[str]] = field(default_factory=dict)
    volatile: Sequence[str] = ()
    enums: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sizes: frozenset[str] = frozenset()
    implied: Mapping[str, tuple[str, str, Any]] = field(default_factory=dict)


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
        _verdict(judging, key, asked, _reported(judging, key, effective.values), _unmoved(key, asked, base, before))
        for key, asked in settings.args.items()
    )
    changed = _changed(settings, base)
    return replace(
        effective,
        verdicts=verdicts,
        side_effects=tuple(_side_effects(judging, effective, base_effective, changed)),
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


def _reported(judging: Judging, key: str, values: Mapping[str, Any]) -> Any:
    """What the engine says of a key; `_MISSING` if nothing."""
    if key in values or key not in judging.implied:
        return values.get(key, _MISSING)
    other, path, on = judging.implied[key]
    found: Any = values.get(other, _MISSING)
    for name in path.split("."):
        found = found.get(name, _MISSING) if isinstance(found, Mapping) else _MISSING
    return _MISSING if found is _MISSING else bool(found == on)


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
    judging: Judging, after: Effective, before: Effective | None, changed: frozenset[str]
) -> Iterable[SideEffect]:
    """What one alone reports counts where both were asked in the same way; what is not there is None."""
    if before is None:
        return
    keys = [*before.values, *(key for key in after.values if key not in before.values)]
    for key in keys if after.source == before.source else (key for key in before.values if key in after.values):
        old, new = _plain(before.values.get(key)), _plain(after.values.get(key))
        if key in changed or old == new or _volatile(judging, key):
            continue
        derived = bool(judging.derived.get(key, frozenset()) & changed)
        if key in judging.sizes and (share := _share(old, new)) is not None:
            if share < UNSEEN:
                continue
            derived = derived or share < SMALL
        yield SideEffect(key, old, new, derived=derived)


def _plain(value: Any) -> Any:
    """Without the addresses of objects, which are others in every process."""
    if isinstance(value, str):
        return re.sub(r" at 0x[0-9a-f]+", "", value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _share(old: Any, new: Any) -> float | None:
    """How far a size moved, relative to what it was."""
    if isinstance(old, (int, float)) and isinstance(new, (int, float)) and old:
        return abs(new - old) / abs(old)
    return None


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
    return all(key in ignored or _stayed(key, after, before) for key in changed)


def _stayed(key: str, after: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """A flag changed nothing if both values are known and equal: what is asked for was so already, or what is no
    longer asked for is so still."""
    return key in after and key in before and bool(after[key] == before[key])

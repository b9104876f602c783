"""Static rules on settings: what is known before a launch, one row each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.engines import Notice
from tuner.engines.versions import ALWAYS, Span, Version
from tuner.trial import Settings


@dataclass(frozen=True)
class Asked:
    """Settings and the workload's largest number of requests at once (None: not known), easy to ask."""

    settings: Settings
    concurrency: int | None = None

    def __contains__(self, flag: str) -> bool:
        return flag in self.settings.args

    def get(self, flag: str, default: Any = None) -> Any:
        return self.settings.args.get(flag, default)

    def on(self, flag: str) -> bool:
        return self.get(flag) is True

    def off(self, flag: str) -> bool:
        return self.get(flag) is False

    def number(self, flag: str, default: float) -> float:
        value = self.get(flag)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else default

    def part(self, flag: str, key: str) -> Any:
        """One key of a JSON flag, None where it is not asked for."""
        value = self.get(flag)
        return value.get(key) if isinstance(value, dict) else None

    def beyond(self, places: float) -> bool:
        return self.concurrency is not None and self.concurrency > places


@dataclass(frozen=True)
class Rule:
    """One row: `says` gives the text, or '' where the rule does not apply; `span` the versions that it is about."""

    name: str
    source: str
    keys: tuple[str, ...]
    says: Callable[[Asked], str]
    severity: str = "warning"
    span: Span = ALWAYS


def at(rules: Iterable[Rule], version: Version) -> tuple[Rule, ...]:
    """Those that are about this version."""
    return tuple(rule for rule in rules if version in rule.span)


def notices(rules: Sequence[Rule], settings: Settings, concurrency: int | None) -> list[Notice]:
    """What the rules say about these settings, in the table's order."""
    asked = Asked(settings, concurrency)
    return [
        Notice(rule.name, text, rule.source, rule.severity, rule.keys) for rule in rules if (text := rule.says(asked))
    ]


def when(condition: bool, text: str) -> str:
    """`text` where the condition holds."""
    return text if condition else ""

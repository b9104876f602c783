"""What an engine refuses to start with, known before it is launched: rules as text, one row each. Pure.

    name@SINCE..UNTIL | rule that must hold | what it means and what to do | where it is known from

A row goes on in lines that begin with a space. Rules are those of `tuner.rules`; names are flags (what is not asked for
has its default, below), keys of JSON flags (`speculative-config-method`), environment variables, what the model's
config.json says (`tuner.engines.models`), `gpus-taken` and `node-gpus`. What cannot be told holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner import rules
from tuner.engines import Notice
from tuner.engines.versions import Span, Version, dated
from tuner.trial import Settings


@dataclass(frozen=True)
class Constraint:
    """One row. `names` are the flags and facts that it speaks of."""

    name: str
    span: Span
    rule: rules.Rule
    meaning: str
    source: str

    def text(self, values: Mapping[str, Any]) -> str:
        """The meaning with the numbers that it is about."""
        known = ", ".join(f"{name} {values[name]}" for name in dict.fromkeys(self.rule.names) if name in values)
        return f"{self.meaning} ({known})" if known else self.meaning


def read(text: str) -> tuple[Constraint, ...]:
    """The rows of a table; lines that begin with `#` are comments."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(" ") and lines:
            lines[-1] += " " + line.strip()
        elif line.strip() and not line.startswith("#"):
            lines.append(line)
    return tuple(_constraint(line) for line in lines)


def _constraint(line: str) -> Constraint:
    name, rule, meaning, source = (part.strip() for part in line.split("|"))
    named = dated(name)
    return Constraint(named.word, named.span, rules.rule(rule), meaning, source)


def at(constraints: Iterable[Constraint], version: Version) -> tuple[Constraint, ...]:
    """Those that this version knows."""
    return tuple(each for each in constraints if version in each.span)


def broken(constraints: Sequence[Constraint], values: Mapping[str, Any]) -> list[Notice]:
    """A notice for each that does not hold, in the table's order."""
    return [
        Notice(each.name, each.text(values), each.source, "refused", tuple(dict.fromkeys(each.rule.names)))
        for each in constraints
        if not each.rule.holds(values)
    ]


def values(settings: Settings, defaults: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """By name what the rules may speak of; `known` is what is no flag. `defaults`: of flags that are not asked for."""
    parts = {
        f"{flag}-{key}": part
        for flag, value in settings.args.items()
        if isinstance(value, Mapping)
        for key, part in value.items()
    }
    return {**known, **defaults, **settings.env, **parts, **settings.args}

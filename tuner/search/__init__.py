"""Search: a pure decision over the stored trials, and the Optuna sampler around it.

Contract: `decide(space, trials, method, objective)` answers with one of the three values below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tuner.trial import Configuration

# The phase in which finalists and baseline are launched again, in turns.
CONFIRM = "confirm"


@dataclass(frozen=True)
class Evaluate:
    """Launch and measure this configuration next, in this phase.

    `base` is the incumbent it will be compared with (None for the first ones). `threshold` is the value it has
    to beat to matter: None where it must be measured in full (warm-up, baseline, confirm).
    """

    configuration: Configuration
    phase: str
    base: Configuration | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class Wait:
    """Nothing to launch until a running trial has finished."""


@dataclass(frozen=True)
class Step:
    """What one phase concluded: the incumbent before and after it, their values, and the gain it kept.

    `gain` is relative to the incumbent before (for the first phase: to the baseline); None when nothing was kept.
    `band` is the relative noise band in force then, None when there were no repeats to learn it from.
    """

    phase: str
    before: Configuration | None
    after: Configuration | None
    value_before: float | None = None
    value_after: float | None = None
    gain: float | None = None
    band: float | None = None
    best_rejected: Configuration | None = None
    value_rejected: float | None = None


@dataclass(frozen=True)
class Done:
    """The search is over. `best` is None when nothing could be measured. `value` is the one `best` won with.

    `steps` is the way to `best`; `ways` holds those of every lineage that the search ended with, also where
    confirming launches then chose the baseline.
    """

    best: Configuration | None
    value: float | None = None
    baseline: Configuration | None = None
    baseline_value: float | None = None
    confirmed: bool = False
    steps: tuple[Step, ...] = ()
    ways: tuple[tuple[Step, ...], ...] = ()


Decision: TypeAlias = "Evaluate | Wait | Done"

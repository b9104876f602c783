"""Several loads on one server: which comes next, from the results so far. Pure.

A load is a maximum concurrency or a request rate. `Ladder.loads` are walked in their order; without them the highest
load is sought at which a share of the requests meets the limits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

MOST_STEPS = 16
CLOSE = 1.05  # the search ends when the lowest load that fails is no more than so much above the highest that holds


@dataclass(frozen=True)
class Ladder:
    """What is walked or sought. `share` of all requests has to meet the limits; no load above `most` is tried."""

    kind: Literal["concurrency", "rate"]
    loads: tuple[float, ...] = ()
    most: float = math.inf
    share: float = 0.99

    @property
    def first(self) -> float:
        return min(8.0 if self.kind == "concurrency" else 1.0, self.most)


@dataclass(frozen=True)
class Rung:
    """One load that was tried, and the share of its requests that met the limits."""

    load: float
    share: float


def next_load(ladder: Ladder, rungs: Sequence[Rung]) -> float | None:
    """The load to try after these, None at the end.

    Sought: from `first` up by doubling until a load fails, down by halving until one holds, then between the two by
    their geometric mean, at most `MOST_STEPS` in all. A load that holds above one that fails is not believed.
    """
    if ladder.loads:
        return ladder.loads[len(rungs)] if len(rungs) < len(ladder.loads) else None
    if not rungs:
        return ladder.first
    low, high = holding(ladder, rungs), failing(ladder, rungs)
    if len(rungs) >= MOST_STEPS or (low is not None and low >= ladder.most):
        return None
    if high is None:
        return min(2 * (low or ladder.first), ladder.most)
    if low is None:
        return _whole(ladder, high / 2) if high > _least(ladder) else None
    between = _whole(ladder, math.sqrt(low * high))
    return between if high > CLOSE * low and low < between < high else None


def holding(ladder: Ladder, rungs: Sequence[Rung]) -> float | None:
    """The highest load tried that meets the limits and lies below all that do not; None: there is none."""
    high = failing(ladder, rungs) or math.inf
    return max((rung.load for rung in rungs if rung.share >= ladder.share and rung.load < high), default=None)


def failing(ladder: Ladder, rungs: Sequence[Rung]) -> float | None:
    """The lowest load tried that does not meet the limits."""
    return min((rung.load for rung in rungs if rung.share < ladder.share), default=None)


def _least(ladder: Ladder) -> float:
    """The lowest load worth trying."""
    return 1.0 if ladder.kind == "concurrency" else ladder.first / 64


def _whole(ladder: Ladder, load: float) -> float:
    return max(1.0, float(math.floor(load))) if ladder.kind == "concurrency" else float(f"{load:.3g}")

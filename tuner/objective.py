"""What is optimised, under which limits, and by which method a change is accepted. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

# How good a measured configuration is: (violation, -value or value), smaller is better. Total order:
# a baseline that misses a limit still ranks, behind every configuration that misses less.
Rank: TypeAlias = "tuple[float, float]"


@dataclass(frozen=True)
class Objective:
    """The metric that decides, its direction, the workload it is measured on, and upper limits (SLOs)."""

    metric: str = "total_token_throughput"
    maximize: bool = True
    workload: str = "default"
    limits: Mapping[str, float] = field(default_factory=dict)

    def violation(self, metrics: Mapping[str, float]) -> float:
        """Summed relative excess over the limits; a limited metric that was not measured counts as 1."""
        return sum(
            max(0.0, (metrics[name] - limit) / limit) if name in metrics else 1.0 for name, limit in self.limits.items()
        )

    def rank(self, value: float, violation: float = 0.0) -> Rank:
        return (violation, -value if self.maximize else value)

    def gain(self, value: float, base: float) -> float:
        """Relative improvement of `value` over `base`: 0.076 is 7.6 % better, whichever way is better.

        Over a base of 0 any improvement is infinite.
        """
        better = value - base if self.maximize else base - value
        return better / abs(base) if base else math.copysign(math.inf, better) if better else 0.0


@dataclass(frozen=True)
class Method:
    """How the search goes and when a change is kept.

    `beam`: how many engines are tuned further. `min_gain`: smallest relative gain kept (0: any). `noise`:
    whether a gain must also exceed the noise band learned from repeats and re-launches. `confirm`: interleaved
    re-launches of each finalist and the baseline after the search (0: none). `quantile`: half-width of the
    noise band in standard deviations of the difference of two measurements.
    """

    name: str
    beam: int = 1
    min_gain: float = 0.0
    noise: bool = False
    confirm: int = 0
    quantile: float = 2.0


PUBLISHED = Method("published")
NORMAL = Method("normal", beam=2, min_gain=0.01, noise=True, confirm=2)
METHODS: Mapping[str, Method] = {method.name: method for method in (PUBLISHED, NORMAL)}

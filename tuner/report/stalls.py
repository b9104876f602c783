"""How much of a run seems to have passed before the first token of any request. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.benchmarks import Workload
from tuner.history import History
from tuner.report.facts import sides
from tuner.trial import Measurement

# The share of a run from which on a stall is named, and the seconds below which it is ordinary latency.
NAMED = 0.10
LEAST_S = 1.0


@dataclass(frozen=True)
class Stall:
    """`seconds` of `duration` before the first tokens, of the baseline or the winner on one workload."""

    side: str
    workload: str
    seconds: float
    duration: float

    @property
    def share(self) -> float:
        return self.seconds / self.duration


def start_stall(metrics: Mapping[str, float]) -> float | None:
    """Seconds before the first tokens by the shape of TTFT: 2 x median - p99, not below 0.

    For requests sent at once and answered evenly from a first moment on, TTFT is uniform between that moment and
    its maximum, so the moment is as far before the median as the maximum (about p99) is after it.
    """
    if "median_ttft_ms" not in metrics or "p99_ttft_ms" not in metrics:
        return None
    return max(0.0, 2 * metrics["median_ttft_ms"] - metrics["p99_ttft_ms"]) / 1000


def stalled(history: History) -> list[Stall]:
    """Stalls of at least LEAST_S and NAMED of their run on baseline and winner, the largest share first.

    Only workloads that send everything at once: elsewhere TTFT has no such ramp.
    """
    found = []
    for workload, *both in sides(history):
        if not _burst(history.study.workloads.get(workload)):
            continue
        for side, measured in zip(("baseline", "winner"), both, strict=True):
            if isinstance(measured, Measurement) and measured.metrics.get("duration"):
                took = start_stall(measured.metrics)
                found.append(Stall(side, workload, took or 0.0, measured.metrics["duration"]))
    return sorted((s for s in found if s.seconds >= LEAST_S and s.share >= NAMED), key=lambda stall: -stall.share)


def _burst(workload: Workload | None) -> bool:
    return workload is not None and workload.request_rate is None and workload.concurrency >= workload.num_prompts

"""Runs of baseline and winner of which much passed before the first token of any request. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.benchmarks.stall import named_stall, start_stall
from tuner.history import History
from tuner.report.facts import sides
from tuner.trial import Measurement

__all__ = ["Stall", "stalled", "start_stall"]


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


def stalled(history: History) -> list[Stall]:
    """Stalls worth naming on baseline and winner, the largest share first."""
    found = []
    for name, *both in sides(history):
        workload = history.study.workloads.get(name)
        for side, measured in zip(("baseline", "winner"), both, strict=True):
            if workload is None or not isinstance(measured, Measurement):
                continue
            seconds = named_stall(measured.metrics, workload)
            if seconds is not None:
                found.append(Stall(side, name, seconds, measured.metrics["duration"]))
    return sorted(found, key=lambda stall: -stall.share)

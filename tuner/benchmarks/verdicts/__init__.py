"""Can a measurement be trusted? Pure.

`check` answers with what there is to say and nothing else: a verdict with `valid=False` keeps the measurement from
being ranked, one with `valid=True` is a note for people. No verdict: nothing to object to.

`figures` judges the metrics alone, as they may come from anywhere; `answers` the single responses of a run;
`conditions` what it was measured under.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from tuner.benchmarks import Run, Workload
from tuner.benchmarks.verdicts import answers, conditions, figures
from tuner.trial import Measurement, Verdict

STEADY_TOLERANCE = 0.05


def check(subject: Run | Measurement, workload: Workload) -> tuple[Verdict, ...]:
    """Every objection to what was measured, checked against what was asked.

    Of a measurement each repeat is checked, or the metrics if it has none; metrics that were not recorded are not
    missed. A run is also checked by its responses and by what the client and the server's counters say of it; one
    that was ended since it could not win says its bound and nothing else, one in which no request succeeded why.
    """
    if isinstance(subject, Run):
        return tuple(_of_run(subject, workload))
    passes: Sequence[Mapping[str, float]] = subject.repeats or (subject.metrics,)
    found = [verdict for metrics in passes for verdict in figures.objections(metrics, workload)]
    return (*dict.fromkeys(found), *conditions.by_shape(subject.metrics, workload))


def together(passes: Sequence[Sequence[Verdict]]) -> tuple[Verdict, ...]:
    """The verdicts of all passes of one measurement, each said once.

    Passes say the same with other numbers: the first that says it speaks for all, with how many of them said it.
    """
    first: dict[tuple[str, bool, str], Verdict] = {}
    said: dict[tuple[str, bool, str], int] = {}
    for verdicts in passes:
        keys = {}
        for verdict in verdicts:
            keys[verdict.check, verdict.valid, _without_numbers(verdict.message)] = verdict
        for key, verdict in keys.items():
            first.setdefault(key, verdict)
            said[key] = said.get(key, 0) + 1
    return tuple(_counted(verdict, said[key], len(passes)) for key, verdict in first.items())


def steady(previous: float, latest: float, tolerance: float = STEADY_TOLERANCE) -> bool:
    """Whether a metric of two passes, one after the other, differs by no more than this share of the larger."""
    if not (math.isfinite(previous) and math.isfinite(latest)):
        return False
    return abs(latest - previous) <= tolerance * max(abs(previous), abs(latest))


def _of_run(run: Run, workload: Workload) -> Iterator[Verdict]:
    if run.bound is not None:
        yield from conditions.ended(run)
        return
    yield from figures.objections(run.metrics, workload, run.facts, run.responses)
    if not figures.none_succeeded(run.metrics):
        yield from answers.objections(run, workload)
        yield from conditions.objections(run, workload)


def _without_numbers(message: str) -> str:
    return re.sub(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?", "#", message)


def _counted(verdict: Verdict, count: int, passes: int) -> Verdict:
    if passes == 1:
        return verdict
    which = f"all {passes}" if count == passes else f"{count} of {passes}"
    return Verdict(verdict.check, verdict.valid, f"{verdict.message} (in {which} passes)")

"""Is what was recorded a measurement at all? Faults of the file, and verdicts on its figures. Pure."""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from tuner.benchmarks import Workload
from tuner.benchmarks.verdicts import check as verdicts_of
from tuner.errors import Fault
from tuner.spec.schema import LATENCIES, THROUGHPUTS
from tuner.spec.yamlevents import Place
from tuner.spec.yamlfile import Document
from tuner.trial import Failure, Measurement, Verdict


def faults(metrics: Mapping[str, float], deciding: str | None, document: Document, place: Place) -> Iterator[Fault]:
    """What no measurement at `place` has: a negative number, a name that is another's misspelled, no value of the
    metric that it is to be decided by."""
    for name, value in metrics.items():
        if value < 0 or not math.isfinite(value):
            yield document.fault((*place, name), "no metric has such a value", value, "leave the entry out")
        elif not _known(name) and (near := difflib.get_close_matches(name, _NAMES, 1, 0.85)):
            yield document.fault((*place, name), "there is no metric of this name", name, f"did you mean {near[0]}?")
    if deciding is not None and deciding not in metrics:
        rule = f"{deciding}, by which the study decides, is not among the metrics"
        yield document.fault(place, rule, None, "add it, or leave the entry out")


def checked(measurement: Measurement, workload: Workload) -> Measurement:
    """With its verdicts. A recording is taken at its word where its totals and rates do not agree: that is noted."""
    verdicts = [
        replace(verdict, valid=True) if verdict.check == _INCONSISTENT else verdict
        for verdict in verdicts_of(measurement, workload)
    ]
    verdicts += _failed_beside(measurement.metrics, {verdict.check for verdict in verdicts})
    verdicts += _out_of_order(measurement.metrics)
    return replace(measurement, verdicts=tuple(verdicts))


def invalid(measurement: Measurement | None) -> Failure | None:
    broken = [verdict.message for verdict in measurement.verdicts if not verdict.valid] if measurement else []
    return Failure("invalid-measurement", "; ".join(broken)) if broken else None


def doubts(measurement: Measurement | None) -> tuple[str, ...]:
    """What people must know of a recording that was taken at its word."""
    verdicts = measurement.verdicts if measurement else ()
    return tuple(f"recorded figures disagree: {v.message}" for v in verdicts if v.check == _INCONSISTENT)


_NAMES = (
    *LATENCIES, *THROUGHPUTS, "duration", "completed", "failed", "success_rate", "total_input_tokens",
    "total_output_tokens", "max_output_tokens_per_s", "max_concurrent_requests", "num_prompts",
)  # fmt: skip
_PERCENTILE = re.compile(r"(median|p\d+(?:\.\d+)?)_(\w+)_ms")
_INCONSISTENT = "inconsistent"


def _known(name: str) -> bool:
    latency = re.fullmatch(r"(?:mean|median|std|min|max|p\d+(?:\.\d+)?)_(?:ttft|tpot|itl|e2el)_ms", name)
    return name in _NAMES or latency is not None


def _failed_beside(metrics: Mapping[str, float], told: Collection[str]) -> Iterator[Verdict]:
    """Requests that failed although as many as were asked are said to have succeeded."""
    failed = metrics.get("failed", 0.0)
    if failed > 0 and "success-rate" not in told:
        yield Verdict("success-rate", False, f"{failed:.0f} requests failed")


def _out_of_order(metrics: Mapping[str, float]) -> Iterator[Verdict]:
    """A percentile is never above a higher one of the same latency."""
    by_latency: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for name, value in metrics.items():
        if match := _PERCENTILE.fullmatch(name):
            percent = 50.0 if match[1] == "median" else float(match[1][1:])
            by_latency[match[2]].append((percent, value, name))
    for found in by_latency.values():
        for (low, less, one), (high, more, other) in itertools.pairwise(sorted(found)):
            if low < high and less > more * (1 + 1e-9):
                yield Verdict("impossible-value", False, f"{one} ({less:g}) is above {other} ({more:g})")

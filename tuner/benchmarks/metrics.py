"""What a pass amounts to, by the definitions of `vllm bench serve` 0.32.0 (`calculate_metrics`). Pure, without numpy.

Names are those of its JSON result; `success_rate` is ours. Times in the names' units, throughputs per second.
Only requests that succeeded count, in everything but `failed` and `success_rate`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from tuner.benchmarks import Response, Run
from tuner.trial import Measurement, Verdict

DISTRIBUTIONS = ("ttft", "tpot", "itl", "e2el")


def measure(responses: Sequence[Response], duration: float, percentiles: Sequence[float] = (99,)) -> dict[str, float]:
    """Every metric of one pass that took `duration` seconds (with 0, rates are 0).

    - TPOT: (latency - TTFT) / (output tokens - 1), of requests with more than one; each request weighs the same.
    - ITL: the gaps between events of all requests together; each event weighs the same, however many tokens it has.
    - mean, median, std (of the population) and percentiles of nothing are 0.
    """
    good = [response for response in responses if response.success]
    inputs = sum(response.prompt_len for response in good)
    outputs = sum(response.output_len for response in good)
    metrics = {
        "duration": duration,
        "completed": float(len(good)),
        "failed": float(len(responses) - len(good)),
        "success_rate": len(good) / len(responses) if responses else 0.0,
        "total_input_tokens": float(inputs),
        "total_output_tokens": float(outputs),
        "request_throughput": _rate(len(good), duration),
        "output_throughput": _rate(outputs, duration),
        "total_token_throughput": _rate(inputs + outputs, duration),
        "max_output_tokens_per_s": float(_peak_events(good)),
        "max_concurrent_requests": float(_peak_requests(good)),
    }
    for name, values in _distributions(good).items():
        metrics |= _summary(name, values, percentiles)
    return metrics


def aggregate(runs: Iterable[Run], verdicts: Sequence[Verdict] = (), source: str = "") -> Measurement:
    """Repeats on one server as one measurement: of each metric the median over the runs that have it.

    Raises:
        ValueError: no run.
    """
    repeats = tuple(dict(run.metrics) for run in runs)
    if not repeats:
        raise ValueError("there is no measurement without a run")
    return Measurement(medians(repeats), repeats, tuple(verdicts), source)


def medians(repeats: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each metric, in the order in which the metrics first appear."""
    names = dict.fromkeys(name for repeat in repeats for name in repeat)
    return {name: float(median([repeat[name] for repeat in repeats if name in repeat])) for name in names}


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def deviation(values: Sequence[float]) -> float:
    """Standard deviation of the population (numpy's default)."""
    centre = mean(values)
    return math.sqrt(mean([(value - centre) ** 2 for value in values]))


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear interpolation between the nearest ranks (numpy's default)."""
    return _percentile(sorted(values), percent)


def percentile_name(percent: float) -> str:
    """99 is "p99", 99.9 is "p99.9"."""
    return f"p{int(percent) if int(percent) == percent else percent}"


def _rate(count: float, duration: float) -> float:
    return count / duration if duration > 0 else 0.0


def _distributions(good: Sequence[Response]) -> dict[str, list[float]]:
    """Seconds."""
    return {
        "ttft": [response.ttft for response in good],
        "tpot": [(r.latency - r.ttft) / (r.output_len - 1) for r in good if r.output_len > 1],
        "itl": [gap for response in good for gap in response.itls],
        "e2el": [response.latency for response in good],
    }


def _summary(name: str, seconds: Sequence[float], percentiles: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    summary = {
        f"mean_{name}_ms": mean(ordered) * 1000,
        f"median_{name}_ms": _percentile(ordered, 50) * 1000,
        f"std_{name}_ms": deviation(ordered) * 1000,
    }
    return summary | {f"{percentile_name(p)}_{name}_ms": _percentile(ordered, p) * 1000 for p in percentiles}


def _percentile(ordered: Sequence[float], percent: float) -> float:
    if not ordered:
        return 0.0
    rank = (len(ordered) - 1) * percent / 100
    below = min(int(rank), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    share, low, high = rank - below, ordered[below], ordered[above]
    if share < 0.5:
        return low + (high - low) * share
    return high - (high - low) * (1 - share)


def _peak_events(good: Sequence[Response]) -> int:
    """Most events in one of the seconds counted from the first start. Events, not tokens: as vLLM counts."""
    if not good:
        return 0
    first = min(response.start for response in good)
    seconds: Counter[int] = Counter()
    for response in good:
        at = response.start + response.ttft
        seconds[int(at - first)] += 1
        for gap in response.itls:
            at += gap
            seconds[int(at - first)] += 1
    return max(seconds.values())


def _peak_requests(good: Sequence[Response]) -> int:
    """Most requests that touch one of the seconds counted from the first start.

    A request and its successor in the same second both count: the figure may exceed the concurrency, as vLLM's does.
    """
    if not good:
        return 0
    first = min(response.start for response in good)
    changes: Counter[int] = Counter()
    for response in good:
        changes[int(response.start - first)] += 1
        changes[int(response.start + response.latency - first) + 1] -= 1
    running = peak = 0
    for second in sorted(changes):
        running += changes[second]
        peak = max(peak, running)
    return peak

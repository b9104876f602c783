"""What a pass amounts to, by the definitions of `vllm bench serve` (`calculate_metrics` of 0.11.0 and 0.32.0). Pure.

Names are those of its JSON result; `success_rate` is ours. Times in the names' units, throughputs per second.
Only requests that succeeded count, in everything but `failed` and `success_rate`. From the same records the figures
are equal to vLLM's to the last digit: they are computed in its order, with numpy.

What 0.11 does otherwise: input tokens are the dataset's, not the server's; of a chat the latency lasts until the
message that counts the tokens, and an answer without any event has succeeded (with a TTFT of 0).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuner.benchmarks import Definitions, Response, Run, Workload
from tuner.trial import Measurement, Verdict

Times: TypeAlias = NDArray[np.float64]

DISTRIBUTIONS = ("ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue")
GOODPUT_NAMES = ("ttft", "tpot", "e2el")


def measure(
    responses: Sequence[Response],
    duration: float,
    percentiles: Sequence[float] = (99,),
    definitions: Definitions = "vllm-0.32",
    goodput: Mapping[str, float] | None = None,
    endpoint: Literal["completions", "chat"] = "completions",
) -> dict[str, float]:
    """Every metric of one pass that took `duration` seconds (with 0, rates are 0).

    - TPOT: (latency - TTFT) / (output tokens - 1), of requests with more than one; each request weighs the same.
    - ITL: the gaps between events of all requests together; each event weighs the same, however many tokens it has.
    - `goodput` are limits in ms: with them `request_goodput` counts the requests that meet all. A request of one
      token has a TPOT of 0 there.
    - mean, median, std (of the population) and percentiles of nothing are 0.
    """
    good = [response for response in responses if succeeded(response, definitions, endpoint)]
    dated = definitions == "vllm-0.11"
    latencies = _array(latency(response, definitions, endpoint) for response in good)
    inputs = sum(response.asked_prompt_len if dated else response.prompt_len for response in good)
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
        "max_output_tokens_per_s": float(_peak_events(good, latencies)),
        "max_concurrent_requests": float(_peak_requests(good, latencies)),
    }
    if goodput:
        metrics["request_goodput"] = _rate(int(_meet(good, latencies, goodput).sum()), duration)
    for name in DISTRIBUTIONS:
        metrics |= _summary(name, _distribution(name, good, latencies), percentiles)
    return metrics


def measure_as(
    workload: Workload, responses: Sequence[Response], duration: float, percentiles: Sequence[float] = (99,)
) -> dict[str, float]:
    """`measure` by a workload's definitions, endpoint and limits."""
    return measure(responses, duration, percentiles, workload.definitions, workload.goodput or None, workload.endpoint)


def succeeded(response: Response, definitions: Definitions, endpoint: str) -> bool:
    """Whether that version of vLLM counts the request as successful."""
    return response.success or (
        definitions == "vllm-0.11" and endpoint == "chat" and response.failure == "no-tokens" and response.status == 200
    )


def latency(response: Response, definitions: Definitions, endpoint: str) -> float:
    """Seconds to the end of the answer, as that version of vLLM sees it."""
    if definitions == "vllm-0.11" and endpoint == "chat":
        return max(response.latency, response.usage_latency)
    return response.latency


def share_within(responses: Sequence[Response], limits: Mapping[str, float]) -> float:
    """The share of all requests that succeeded within every limit (ms, by `GOODPUT_NAMES`)."""
    good = [response for response in responses if response.success]
    latencies = _array(response.latency for response in good)
    return float(_meet(good, latencies, limits).sum()) / len(responses) if responses else 0.0


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
    return math.fsum(values) / len(values) if len(values) else 0.0


def deviation(values: Sequence[float]) -> float:
    """Standard deviation of the population (numpy's default)."""
    return float(np.std(values)) if len(values) else 0.0


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear interpolation between the nearest ranks (numpy's default); 0 of nothing."""
    return float(np.percentile(values, percent)) if len(values) else 0.0


def percentile_name(percent: float) -> str:
    """99 is "p99", 99.9 is "p99.9"."""
    return f"p{int(percent) if int(percent) == percent else percent}"


def _rate(count: float, duration: float) -> float:
    return count / duration if duration > 0 else 0.0


def _array(values: Iterable[float]) -> Times:
    return np.fromiter(values, dtype=np.float64)


def _distribution(name: str, good: Sequence[Response], latencies: Times) -> Times:
    """Seconds. An array of its own, which may be sorted."""
    match name:
        case "ttft":
            return _array(response.ttft for response in good)
        case "tpot":
            return _tpots(good, latencies)[[response.output_len > 1 for response in good]] if good else latencies.copy()
        case "itl":
            return np.concatenate([np.asarray(r.itls, dtype=np.float64) for r in good]) if good else latencies.copy()
        case "e2el":
            return latencies.copy()
        case "client_queue_time":
            return _array(response.queue_time for response in good)
        case _:
            return latencies + _array(response.queue_time for response in good)


def _tpots(good: Sequence[Response], latencies: Times) -> Times:
    """0 for a request of one token."""
    gaps = np.fromiter((response.output_len - 1 for response in good), dtype=np.int64)
    after = latencies - _array(response.ttft for response in good)
    return np.where(gaps > 0, after / np.maximum(gaps, 1), 0.0)


def _meet(good: Sequence[Response], latencies: Times, limits: Mapping[str, float]) -> NDArray[np.bool_]:
    """Which requests are within every limit (ms)."""
    met = np.ones(len(good), dtype=np.bool_)
    for name in GOODPUT_NAMES:
        if name in limits:
            values = _tpots(good, latencies) if name == "tpot" else _distribution(name, good, latencies)
            met &= limits[name] / 1000 >= values
    return met


def _summary(name: str, seconds: Times, percentiles: Sequence[float]) -> dict[str, float]:
    if not len(seconds):
        seconds = np.zeros(1)
    average, spread = np.mean(seconds), np.std(seconds)
    seconds.sort()  # what follows only looks for ranks
    return {
        f"mean_{name}_ms": float(average * 1000),
        f"median_{name}_ms": float(np.median(seconds, overwrite_input=True) * 1000),
        f"std_{name}_ms": float(spread * 1000),
        **{
            f"{percentile_name(p)}_{name}_ms": float(np.percentile(seconds, p, overwrite_input=True) * 1000)
            for p in percentiles
        },
    }


def _peak_events(good: Sequence[Response], latencies: Times) -> int:
    """Most events in one of the seconds counted from the first start. Events, not tokens: as vLLM counts."""
    if not good:
        return 0
    starts = _array(response.start for response in good)
    first = starts.min()
    seconds = _seconds((starts + latencies).max() - first) + 1
    counts: NDArray[np.int64] = np.zeros(seconds, dtype=np.int64)
    for response in good:
        at = np.empty(len(response.itls) + 1)
        at[0] = response.start + response.ttft
        at[1:] = response.itls
        np.cumsum(at, out=at)
        at -= first
        second = at.astype(np.int64)
        counts += np.bincount(second[(second >= 0) & (second < seconds)], minlength=seconds)
    return int(counts.max())


def _peak_requests(good: Sequence[Response], latencies: Times) -> int:
    """Most requests that touch one of the seconds counted from the first start.

    A request and its successor in the same second both count: the figure may exceed the concurrency, as vLLM's does.
    """
    if not good:
        return 0
    starts = _array(response.start for response in good)
    first = starts.min()
    begun = (starts - first).astype(np.int64)
    over = (starts + latencies - first).astype(np.int64) + 1
    length = int(over.max()) + 1
    changes: Any = np.bincount(begun, minlength=length) - np.bincount(over, minlength=length)
    return int(np.cumsum(changes).max())


def _seconds(span: float) -> int:
    return math.ceil(span)

"""How much of a run seems to have passed before the first token of any request. Pure.

All of it rests on figures that every benchmark prints, so that a published result can be judged as well as our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.benchmarks import Workload

# The share of a run from which on a stall is named, and the seconds below which it is ordinary latency.
NAMED = 0.10
LEAST_S = 1.0
# First tokens are never spread quite evenly: an estimate below this share of their spread says nothing.
UNEVEN = 0.25
# First tokens that come over so many times the time of an answer, from so few at a time, wait for each other.
QUEUE_WAVES = 8.0
QUEUE_SHARE = 0.5


@dataclass(frozen=True)
class Waves:
    """Requests that wait for a place in the server, by the shape of the figures: first tokens came over `spread`
    seconds, an answer took `each` seconds from its first token on, about `running` were answered at a time."""

    spread: float
    each: float
    running: float


def before_first_tokens(metrics: Mapping[str, float]) -> float | None:
    """Seconds before the first tokens by the shape of TTFT: 2 x median - p99. Near or below 0 without a stall.

    For requests sent at once and answered evenly from a first moment on, TTFT is uniform between that moment and
    its maximum, so the moment is as far before the median as the maximum (about p99) is after it.
    """
    if "median_ttft_ms" not in metrics or "p99_ttft_ms" not in metrics:
        return None
    return (2 * metrics["median_ttft_ms"] - metrics["p99_ttft_ms"]) / 1000


def start_stall(metrics: Mapping[str, float]) -> float | None:
    """As `before_first_tokens`, not below 0."""
    seconds = before_first_tokens(metrics)
    return None if seconds is None else max(0.0, seconds)


def named_stall(metrics: Mapping[str, float], workload: Workload, first: float | None = None) -> float | None:
    """Seconds of a stall worth naming: LEAST_S, and NAMED of the run, or more; None where there is none.

    Only of workloads that send everything at once: elsewhere TTFT has no such ramp. `first`, where it is known, is
    when the first tokens really came (seconds): a stall is no longer than that. A queue behind few running requests
    looks a little like a stall and is none (see `waves`).
    """
    seconds, duration = before_first_tokens(metrics), metrics.get("duration", 0.0)
    if seconds is None or not duration > 0 or not burst(workload):
        return None
    seconds = seconds if first is None else min(seconds, first)
    spread = (metrics["p99_ttft_ms"] - metrics["median_ttft_ms"]) / 500
    if not max(LEAST_S, NAMED * duration, UNEVEN * spread) <= seconds <= duration:
        return None
    return None if seconds < spread and waves(metrics, workload) else seconds


def waves(metrics: Mapping[str, float], workload: Workload) -> Waves | None:
    """Whether requests sent at once were answered in many waves, few at a time; None where they were not.

    By Little's law the answers under way at a time are requests per second x seconds of an answer, which is
    TPOT x (tokens - 1). The first tokens come over twice the distance of median and p99 of TTFT.
    """
    names = ("median_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "completed", "total_output_tokens", "duration")
    if not burst(workload) or any(name not in metrics for name in names):
        return None
    completed, duration = metrics["completed"], metrics["duration"]
    if not (completed > 0 and duration > 0):
        return None
    each = metrics["mean_tpot_ms"] / 1000 * (metrics["total_output_tokens"] / completed - 1)
    spread = (metrics["p99_ttft_ms"] - metrics["median_ttft_ms"]) / 500
    running = each * completed / duration
    few = running <= QUEUE_SHARE * workload.concurrency
    slow = spread >= max(LEAST_S, QUEUE_WAVES * each)
    return Waves(spread, each, running) if each > 0 and few and slow else None


def burst(workload: Workload) -> bool:
    """Whether the workload sends all its requests at once."""
    return workload.all_at_once and workload.concurrency >= workload.num_prompts

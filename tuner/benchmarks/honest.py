"""What a pass amounts to by our own definitions, under names of their own. Pure.

Where `vllm bench serve` counts events in fixed seconds, and requests that touch a second, these count tokens and
moments. Times and rates in the units of the names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuner.benchmarks import Response
from tuner.benchmarks.occupancy import Span, answering, average, in_flight, most, steps, waits, widest

Floats: TypeAlias = NDArray[np.float64]

# The steady window: at least this share of the most answers under way at a time are under way.
STEADY_SHARE = 0.5
FIRST_PART = 0.1
FEWEST_FOR_PARTS = 20
# The grid on which tokens are counted; coarser in passes so long that it would have more cells than that.
FINEST_PER_S, COARSEST_PER_S, CELLS = 1000, 10, 200_000


def honest(responses: Sequence[Response], duration: float, facts: Mapping[str, Any]) -> dict[str, float]:
    """Every figure there is something to compute from.

    - `*_ttft_from_write_ms`: from just before the request was written to an open connection to the first event; of
      all requests that succeeded. Neither a connection's opening nor the client's queue is in it.
    - `*_connect_ms` of requests that had to wait for a new connection, `connect_before_s` what was spent on
      connections before the clock started.
    - `*_client_queue_ms`: how long requests waited in the client after they were due, of all that were sent.
    - `true_max_in_flight`, `mean_in_flight`: requests between their writing and the end of their reply, failed ones
      too. `max_answering`: of these the ones between first and last token.
    - `sliding_peak_output_tokens_per_s`: the most tokens in any second, wherever it begins (on a grid of 1 ms, of
      1/10 s in very long passes), of all answers. The tokens of a request are shared evenly among its events.
    - `steady_window_s`: from the first to the last moment at which half of `max_answering` or more are answered, so
      without ramp-up and tail; `steady_output_throughput` is of the tokens after its begin and up to its end, in
      `steady_total_token_throughput` prompts count when their first token comes.
    - `cold_start_ratio`: seconds from writing to last token for each output token, of the first tenth of the
      requests over that of the others; where the tenth was over before the last request began, of 20 or more.
    """
    good = [response for response in responses if response.success]
    sent = [response for response in responses if response.start > 0]
    return {
        **_summary("ttft_from_write", [r.ttft for r in good if r.ttft > 0], ("mean", "median", "p99")),
        **_summary("connect", [r.connect_time for r in sent if r.connect_time > 0], ("mean", "max")),
        **({"connect_before_s": float(facts["connect_s"])} if "connect_s" in facts else {}),
        **_summary("client_queue", waits(sent, duration), ("mean", "median", "p99", "max")),
        **_under_way(sent),
        **_rates(sent, duration),
        **_cold_start(good),
    }


def _summary(name: str, seconds: Sequence[float], kinds: Sequence[str]) -> dict[str, float]:
    if not seconds:
        return {}
    values = np.asarray(seconds, dtype=np.float64) * 1000
    found = {
        "mean": np.mean(values),
        "median": np.median(values),
        "p99": np.percentile(values, 99),
        "max": np.max(values),
    }
    return {f"{kind}_{name}_ms": float(found[kind]) for kind in kinds}


def _under_way(sent: Sequence[Response]) -> dict[str, float]:
    if not sent:
        return {}
    flight = steps(in_flight(sent))
    return {
        "true_max_in_flight": float(most(flight)),
        "mean_in_flight": average(flight),
        "max_answering": float(most(steps(answering(sent)))),
    }


def _rates(sent: Sequence[Response], duration: float) -> dict[str, float]:
    answered = [response for response in sent if response.ttft > 0]
    if not answered:
        return {}
    tokens = _Grid(answered)
    found = {"sliding_peak_output_tokens_per_s": tokens.peak()}
    half = STEADY_SHARE * most(steps(answering(answered)))
    window = widest(steps(answering(answered)), half) if half else None
    return found | (_steady(answered, tokens, window) if window else {})


def _steady(answered: Sequence[Response], tokens: _Grid, window: Span) -> dict[str, float]:
    begin, end = window
    prompts = sum(r.prompt_len for r in answered if begin < r.start + r.ttft <= end)
    outputs = tokens.between(begin, end)
    return {
        "steady_window_s": end - begin,
        "steady_output_throughput": outputs / (end - begin),
        "steady_total_token_throughput": (prompts + outputs) / (end - begin),
    }


class _Grid:
    """Tokens by the cell of time in which they came: one array for a pass, however many events it has."""

    def __init__(self, answered: Sequence[Response]) -> None:
        self._zero = min(response.start for response in answered)
        span = max(response.start + max(response.latency, response.ttft) for response in answered) - self._zero
        self._per_s = int(min(FINEST_PER_S, max(COARSEST_PER_S, CELLS / max(span, 1e-9))))
        cells = np.zeros(int(span * self._per_s) + 2)
        for times, weight in _events(answered, self._zero):
            np.add.at(cells, np.clip((times * self._per_s).astype(np.int64), 0, len(cells) - 1), weight)
        self._sums: Floats = np.concatenate(([0.0], np.cumsum(cells)))

    def peak(self) -> float:
        """The most in one second."""
        if len(self._sums) <= self._per_s:
            return float(self._sums[-1])
        return float(np.max(self._sums[self._per_s :] - self._sums[: -self._per_s]))

    def between(self, begin: float, end: float) -> float:
        """After `begin` and up to `end`, to a cell."""
        first, last = (int((time - self._zero) * self._per_s) + 1 for time in (begin, end))
        return float(self._sums[min(last, len(self._sums) - 1)] - self._sums[first])


def _events(answered: Sequence[Response], zero: float) -> Iterator[tuple[Floats, float]]:
    """Of each answer the times of its events in seconds after `zero`, and the tokens in each."""
    for response in answered:
        gaps = _floats(response.itls)
        times = np.empty(len(gaps) + 1)
        times[0] = response.start - zero + response.ttft
        np.cumsum(gaps, out=times[1:])
        times[1:] += times[0]
        yield np.nan_to_num(times), max(response.output_len, 1) / len(times)


def _floats(gaps: Sequence[float]) -> Floats:
    """Without a copy where the gaps lie in a buffer of doubles."""
    try:
        view = memoryview(gaps)  # type: ignore[arg-type]
    except TypeError:
        return np.asarray(gaps, dtype=np.float64)
    return np.frombuffer(view, dtype=np.float64) if view.format == "d" and view.nbytes else np.asarray(gaps, np.float64)


def _cold_start(good: Sequence[Response]) -> dict[str, float]:
    ordered = sorted(good, key=lambda response: response.start)
    count = int(len(ordered) * FIRST_PART)
    first, others = ordered[:count], ordered[count:]
    if len(ordered) < FEWEST_FOR_PARTS or max(r.start + r.latency for r in first) >= ordered[-1].start:
        return {}
    early, late = _seconds_each(first), _seconds_each(others)
    return {"cold_start_ratio": early / late} if late > 0 else {}


def _seconds_each(responses: Sequence[Response]) -> float:
    tokens = sum(response.output_len for response in responses)
    return sum(response.latency for response in responses) / tokens if tokens else 0.0

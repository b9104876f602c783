"""Our own figures of a pass, each against what its words say, computed plainly."""

from __future__ import annotations

import tracemalloc
from array import array
from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.benchmarks import Response
from tuner.benchmarks.honest import honest
from tuner.benchmarks.occupancy import average, most, share, steps, widest


def answer(start: float, ttft: float, gaps: Sequence[float], tokens: int | None = None, **more: float) -> Response:
    latency = ttft + sum(gaps)
    count = len(gaps) + 1 if tokens is None else tokens
    facts = {"prompt_len": 10, "end": latency + 0.001, **more}
    return Response(True, start, ttft, array("d", gaps), latency, output_len=count, **facts)  # type: ignore[arg-type]


def test_nothing_was_sent() -> None:
    assert honest([], 1.0, {}) == {}
    assert honest([Response(False, error="never sent")], 1.0, {}) == {}


def test_ttft_from_the_write_connections_and_queue() -> None:
    responses = [
        answer(100.0, 0.2, [0.1], queue_time=0.0),
        answer(100.0, 0.4, [0.1], queue_time=0.02, connect_time=0.01),
        Response(False, 100.0, end=9.0, queue_time=0.1, connect_time=0.03),
    ]
    found = honest(responses, 1.0, {"connect_s": 0.5})
    assert found["mean_ttft_from_write_ms"] == pytest.approx(300)
    assert found["median_ttft_from_write_ms"] == pytest.approx(300)
    assert found["p99_ttft_from_write_ms"] == pytest.approx(398)
    assert found["mean_connect_ms"] == pytest.approx(20)
    assert found["max_connect_ms"] == pytest.approx(30)
    assert found["connect_before_s"] == 0.5
    assert found["mean_client_queue_ms"] == pytest.approx(40)
    assert found["max_client_queue_ms"] == pytest.approx(100)


def test_a_wait_longer_than_the_run_has_no_meaning() -> None:
    found = honest([answer(100.0, 0.2, [0.1], queue_time=15_796.0), answer(100.0, 0.2, [0.1], queue_time=0.2)], 1.0, {})
    assert found["max_client_queue_ms"] == pytest.approx(200)


def test_in_flight_are_all_that_were_sent_and_not_over() -> None:
    responses = [
        answer(1.0, 0.1, [0.9], end=1.0),
        answer(2.0, 0.1, [0.9], end=1.0),  # after the end of the first, in the same moment
        Response(False, 1.5, end=1.0, error="reset"),
        Response(False, error="never sent"),
    ]
    found = honest(responses, 2.0, {})
    assert found["true_max_in_flight"] == 2
    assert found["mean_in_flight"] == pytest.approx(1.5)
    assert found["max_answering"] == 1


def test_the_peak_slides_and_counts_tokens() -> None:
    """Ten events between 0.5 and 1.4 s lie in two of the fixed seconds; the window that has all of them counts."""
    slow = answer(50.0, 0.5, [0.1] * 9, tokens=40)
    assert honest([slow], 1.5, {})["sliding_peak_output_tokens_per_s"] == pytest.approx(40)
    apart = answer(50.0, 0.1, [2.0, 2.0])
    assert honest([apart], 5.0, {})["sliding_peak_output_tokens_per_s"] == pytest.approx(1)


def test_the_steady_window_has_neither_ramp_up_nor_tail() -> None:
    """Ten streams of 10 tokens per second for 10 s, begun a second apart: five, ten and five again in 11 s."""
    streams = [answer(100.0 + number, 0.1, [0.1] * 100) for number in range(10)]
    found = honest(streams, 20.0, {})
    assert found["steady_window_s"] == pytest.approx(11.0, abs=0.01)
    assert found["steady_output_throughput"] == pytest.approx(80 * 10 / 11, rel=0.03)
    assert found["steady_total_token_throughput"] == pytest.approx(80 * 10 / 11 + 10 * 5 / 11, rel=0.03)
    whole = sum(stream.output_len for stream in streams) / 20.0
    assert found["steady_output_throughput"] > 1.3 * whole


def test_single_tokens_have_no_steady_window() -> None:
    assert "steady_window_s" not in honest([answer(1.0 + number, 0.1, []) for number in range(30)], 30.0, {})


@pytest.mark.parametrize(("factor", "ratio"), [(1.0, 1.0), (9.0, 9.0)])
def test_a_cold_start_is_the_first_tenth_against_the_rest(factor: float, ratio: float) -> None:
    times = [factor if number < 10 else 1.0 for number in range(100)]
    starts = accumulate(times, initial=10.0)
    responses = [answer(start, 0.1 * t, [0.1 * t] * 8) for start, t in zip(starts, times, strict=False)]
    assert honest(responses, 100.0, {})["cold_start_ratio"] == pytest.approx(ratio)


def test_no_cold_start_is_seen_where_all_ran_together() -> None:
    together = [answer(10.0, 0.1, [0.1] * 8) for _ in range(100)]
    assert "cold_start_ratio" not in honest(together, 1.0, {})
    assert "cold_start_ratio" not in honest([answer(float(n), 0.1, []) for n in range(1, 11)], 11.0, {})


def test_a_thousand_long_answers_take_little_memory() -> None:
    responses = [answer(100.0 + n / 1000, 0.2, array("d", [0.02]) * 1999) for n in range(1000)]
    tracemalloc.start()
    found = honest(responses, 41.2, {})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 2**20  # the events alone are 16 MB
    assert found["steady_output_throughput"] == pytest.approx(50_000, rel=0.01)


GAPS = st.lists(st.floats(0.0, 2.0), max_size=12)
ANSWERS = st.lists(st.builds(answer, st.floats(1.0, 20.0), st.floats(0.001, 3.0), GAPS), min_size=1, max_size=12)


@given(ANSWERS)
def test_against_a_plain_count(responses: list[Response]) -> None:
    found = honest(responses, 100.0, {})
    events = [r.start + at for r in responses for at in accumulate(r.itls, initial=r.ttft)]
    fewest = max(sum(at <= other < at + 0.99 for other in events) for at in events)
    largest = max(sum(at - 0.001 <= other <= at + 1.001 for other in events) for at in events)
    assert fewest - 1e-6 <= found["sliding_peak_output_tokens_per_s"] <= largest + 1e-6
    moments = [r.start for r in responses]
    flight = max(sum(r.start <= moment < r.start + r.end for r in responses) for moment in moments)
    assert found["true_max_in_flight"] == flight
    assert found["max_answering"] <= flight
    if "steady_window_s" in found:
        tokens = found["steady_output_throughput"] * found["steady_window_s"]
        assert tokens <= sum(r.output_len for r in responses) + 1e-6


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)).map(lambda pair: (min(pair), max(pair))), max_size=20))
def test_steps_are_what_is_under_way(spans: list[tuple[float, float]]) -> None:
    stairs = steps(spans)
    assert [time for time, _ in stairs] == sorted({time for span in spans if span[0] < span[1] for time in span})
    assert all(count == sum(begin <= time < end for begin, end in spans) for time, count in stairs)
    assert most(stairs) == max((count for _, count in stairs), default=0)
    if stairs:
        assert stairs[-1][1] == 0
        busy = sum(end - begin for begin, end in spans)
        assert average(stairs) * (stairs[-1][0] - stairs[0][0]) == pytest.approx(busy)
        assert widest(stairs, 1) == (stairs[0][0], stairs[-1][0])


def test_share_of_the_time_in_which_something_holds() -> None:
    outer, inner = steps([(0.0, 10.0), (0.0, 10.0)]), steps([(2.0, 6.0)])
    assert share(outer, inner, lambda all_, _: all_ == 2, lambda _, now: now == 1) == pytest.approx(0.4)
    assert share(outer, inner, lambda all_, _: all_ == 3, lambda _, now: True) == 0.0

"""Metrics, their aggregation and the forms in which a pass is reported, against a real `vllm bench serve` result."""

from __future__ import annotations

import json
import math
import statistics
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.benchmarks import Response, Run, Workload
from tuner.benchmarks.metrics import aggregate, deviation, mean, measure, percentile, percentile_name
from tuner.benchmarks.result import as_json, block

DATA = Path(__file__).parent / "data"
SAMPLE: dict[str, Any] = json.loads((DATA / "vllm_bench_serve_0.32_c16.json").read_text())
PERCENTILES = (50, 90, 99)
WORKLOAD = Workload(num_prompts=64, input_len=128, output_len=64, max_concurrency=16)


def sample_responses() -> list[Response]:
    keys = ("start_times", "ttfts", "itls", "latencies", "input_lens", "output_lens", "queue_times")
    return [
        Response(True, start, ttft, tuple(itls), latency, inputs, outputs, queue_time=waited)
        for start, ttft, itls, latency, inputs, outputs, waited in zip(*(SAMPLE[key] for key in keys), strict=True)
    ]


def sample_run() -> Run:
    responses, duration = tuple(sample_responses()), SAMPLE["duration"]
    return Run(measure(responses, duration, PERCENTILES), responses, duration)


def answer(
    start: float = 0.0, ttft: float = 0.1, gaps: tuple[float, ...] = (0.1,), tokens: int = 2, **more: Any
) -> Response:
    return Response(True, start, ttft, gaps, ttft + sum(gaps), prompt_len=10, output_len=tokens, **more)


# -- the real result


def test_every_figure_of_a_real_vllm_result_is_recomputed() -> None:
    metrics = sample_run().metrics
    settings = {"num_prompts", "burstiness", "max_concurrency", "rtfx"}
    figures = {k: v for k, v in SAMPLE.items() if isinstance(v, int | float) and k not in settings}
    assert len(figures) == 34
    assert metrics == {**{k: pytest.approx(v, rel=1e-9) for k, v in figures.items()}, "success_rate": 1.0}


def test_the_block_is_the_one_vllm_printed() -> None:
    printed = (DATA / "vllm_bench_serve_0.32_c16.txt").read_text().rstrip("\n")
    assert block(sample_run(), WORKLOAD) == printed


def test_the_json_has_vllms_keys() -> None:
    result = json.loads(
        json.dumps(as_json(sample_run(), WORKLOAD, "tiny-llama", date="20261201-044635", detailed=True))
    )
    assert set(SAMPLE) - set(result) == {"rtfx"}
    assert set(result) - set(SAMPLE) == {"success_rate", "facts", "generated_texts"}
    same = set(SAMPLE) - {"rtfx", "endpoint_type", "backend"}
    assert {key: result[key] for key in same} == {key: _near(SAMPLE[key]) for key in same}
    assert isinstance(result["completed"], int)


def test_the_json_is_json_even_of_nonsense() -> None:
    result = as_json(Run({"duration": math.nan, "output_throughput": math.inf}), WORKLOAD, "m", date="d")
    assert (result["duration"], result["output_throughput"]) == (None, None)
    assert "ttfts" not in result


def test_the_block_leaves_out_what_is_missing() -> None:
    text = block({"completed": 3, "total_token_throughput": 5482.591}, Workload(request_rate=2.5))
    assert text.split("\n")[1:-1] == [
        "Successful requests:                     3         ",
        "Request rate configured (RPS):           2.50      ",
        "Total token throughput (tok/s):          5482.59   ",
    ]


def _near(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


# -- definitions


def test_only_what_succeeded_counts() -> None:
    failed = Response(False, 0.0, 50.0, (9.0,), 99.0, prompt_len=999, output_len=999)
    metrics = measure([answer(), failed, answer()], 2.0)
    assert metrics == measure([answer(), answer()], 2.0) | {"failed": 1, "success_rate": pytest.approx(2 / 3)}
    assert metrics["total_token_throughput"] == (20 + 4) / 2


def test_tpot_is_of_requests_with_more_than_one_token() -> None:
    metrics = measure([answer(gaps=(), tokens=1), answer(ttft=0.5, gaps=(0.2, 0.4), tokens=7)], 1.0)
    assert metrics["mean_tpot_ms"] == pytest.approx(100)
    assert metrics["mean_itl_ms"] == pytest.approx(300)


def test_nothing_measured_is_all_zero() -> None:
    for responses in ([], [Response(False)]):
        metrics = measure(responses, 0.0)
        assert {value for name, value in metrics.items() if name != "failed"} == {0.0}


def test_peaks_are_of_whole_seconds_from_the_first_start() -> None:
    first = answer(start=100.5, ttft=0.2, gaps=(0.2,), tokens=2)  # second 0
    second = answer(start=101.0, ttft=0.4, gaps=(0.2, 0.2, 0.2), tokens=4)  # starts in 0, ends in 1
    metrics = measure([first, second], 2.0)
    assert metrics["max_output_tokens_per_s"] == 3  # both of the first, one of the second (at 101.4)
    assert metrics["max_concurrent_requests"] == 2


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.floats(0, 100))
def test_percentiles_lie_where_they_must(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert min(values) <= found <= max(values)
    assert percentile(values, 0) == min(values)
    assert percentile(values, 100) == max(values)
    assert percentile(values, 50) == pytest.approx(statistics.median(values))
    assert percentile(values, min(100, percent + 10)) >= found - 1e-9 * abs(found)


def test_percentiles_interpolate_as_numpy_does() -> None:
    # numpy.percentile([15, 20, 35, 40, 50], q) for these q, default method
    wanted = {5: 16.0, 30: 23.0, 40: 29.0, 99: 49.6}
    assert {q: percentile([50, 15, 40, 20, 35], q) for q in wanted} == {q: pytest.approx(v) for q, v in wanted.items()}
    assert [percentile_name(p) for p in (99, 99.0, 99.9)] == ["p99", "p99", "p99.9"]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_mean_and_deviation_agree_with_the_standard_library(values: list[float]) -> None:
    assert mean(values) == pytest.approx(statistics.fmean(values), abs=1e-6)
    assert deviation(values) == pytest.approx(statistics.pstdev(values), abs=1e-6)


responses = st.builds(
    lambda start, ttft, gaps, tokens, good: Response(
        good, start, ttft, tuple(gaps), list(accumulate([ttft, *gaps]))[-1], 7, tokens
    ),
    st.floats(0, 50),
    st.floats(1e-4, 5),
    st.lists(st.floats(0, 3), max_size=8),
    st.integers(0, 20),
    st.booleans(),
)


@given(st.lists(responses, max_size=12), st.floats(0.1, 1e4))
def test_what_holds_for_every_pass(given_responses: list[Response], duration: float) -> None:
    metrics = measure(given_responses, duration, (1, 99))
    good = [response for response in given_responses if response.success]
    assert metrics["completed"] + metrics["failed"] == len(given_responses)
    assert metrics["request_throughput"] * duration == pytest.approx(len(good))
    total = metrics["total_input_tokens"] + metrics["total_output_tokens"]
    assert metrics["total_token_throughput"] * duration == pytest.approx(total)
    assert all(math.isfinite(value) and value >= 0 for value in metrics.values())
    for name in ("ttft", "tpot", "itl", "e2el"):
        assert metrics[f"p1_{name}_ms"] <= metrics[f"median_{name}_ms"] <= metrics[f"p99_{name}_ms"]
    assert metrics["mean_ttft_ms"] <= metrics["mean_e2el_ms"] * (1 + 1e-9)
    assert metrics["max_concurrent_requests"] <= len(good)
    assert metrics == measure(given_responses[::-1], duration, (1, 99))


# -- repeats


def test_repeats_give_the_median_of_each_metric_and_are_kept() -> None:
    runs = [Run({"a": 3.0, "b": 1}), Run({"a": 1.0}), Run({"a": 2.0, "b": 2})]
    measurement = aggregate(runs, source="here")
    assert measurement.metrics == {"a": 2.0, "b": 1.5}
    assert measurement.repeats == ({"a": 3.0, "b": 1}, {"a": 1.0}, {"a": 2.0, "b": 2})
    assert measurement.valid
    assert measurement.source == "here"
    with pytest.raises(ValueError, match="without a run"):
        aggregate([])

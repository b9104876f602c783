"""Metrics, their aggregation and the forms in which a pass is reported, against real `vllm bench serve` results."""

from __future__ import annotations

import json
import math
import statistics
from array import array
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.benchmarks import RampUp, Response, Run, Workload
from tuner.benchmarks.counters import Counters, difference
from tuner.benchmarks.metrics import (
    aggregate,
    deviation,
    mean,
    measure,
    measure_as,
    percentile,
    percentile_name,
    share_within,
)
from tuner.benchmarks.result import Report, as_json, as_text, block

DATA = Path(__file__).parent / "data"
GIVEN = DATA / "bench_serve"
ENGINE: dict[str, Any] = json.loads((DATA / "vllm_bench_serve_0.32_c16.json").read_text())
WORKLOAD = Workload(num_prompts=64, input_len=128, output_len=64, max_concurrency=16)
FOUR = ("ttft", "tpot", "itl", "e2el")
SIX = (*FOUR, "client_queue_time", "e2el_including_client_queue")
OURS = {"success_rate", "honest", "facts"}
PASSES: dict[str, tuple[Workload, Report]] = {
    "0.32-rate": (
        Workload(num_prompts=24, max_concurrency=6, request_rate=20.0,
                 goodput={"ttft": 45, "tpot": 90, "e2el": 1500}),
        Report(SIX, (50, 90, 99, 99.9), "openai", tokenizer="tok-word", detailed=True),
    ),
    "0.32-chat-failures-speculation": (
        Workload(num_prompts=20, max_concurrency=8, endpoint="chat"),
        Report(percentiles=(99,), label="lab", tokenizer="tok-word", metadata={"tp": "8", "note": "x"}, detailed=True),
    ),
    "0.32-ramp-up": (
        Workload(num_prompts=16, ramp_up=RampUp("linear", 4, 20)),
        Report(percentiles=(25, 99), backend="vllm", tokenizer="tok-word", detailed=True),
    ),
    "0.11-chat": (
        Workload(num_prompts=20, max_concurrency=8, request_rate=30.0, endpoint="chat", definitions="vllm-0.11",
                 goodput={"tpot": 70}),
        Report(FOUR, (90, 99), tokenizer="tok-word", detailed=True),
    ),
    "0.11-completions": (
        Workload(num_prompts=20, definitions="vllm-0.11"),
        Report(percentiles=(99,), tokenizer="tok-word", detailed=True),
    ),
    "engine": (WORKLOAD, Report(FOUR, (50, 90, 99), "vllm", tokenizer="tiny-llama", detailed=True)),
}  # fmt: skip


def given_result(name: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """vLLM's result, what was given beside it, its block."""
    if name == "engine":
        texts = {"generated_texts": [""] * 64}
        return {**ENGINE, **texts}, {}, (DATA / "vllm_bench_serve_0.32_c16.txt").read_text()
    saved = json.loads((GIVEN / f"{name}.json").read_text())
    return saved["result"], saved.get("given", {}), (GIVEN / f"{name}.txt").read_text()


def responses_of(result: dict[str, Any], beside: dict[str, Any]) -> tuple[Response, ...]:
    """The records of a result: what our own client would have written down of the same answers."""
    every = {**result, **beside}
    count = len(result["ttfts"])
    asked = beside.get("prompt_lens", result["input_lens"])
    return tuple(
        Response(
            success=not result["errors"][i],
            start=every["start_times"][i],
            ttft=result["ttfts"][i],
            itls=array("d", result["itls"][i]),
            latency=every["latencies"][i] - (0.02 if beside and "chat" in result["backend"] else 0),
            usage_latency=every["latencies"][i],
            prompt_len=result["input_lens"][i],
            output_len=result["output_lens"][i],
            error=result["errors"][i],
            queue_time=result.get("queue_times", [0.0] * count)[i],
            text=result["generated_texts"][i],
            asked_prompt_len=asked[i],
        )
        for i in range(count)
    )


def run_of(name: str) -> Run:
    result, beside, _ = given_result(name)
    workload, report = PASSES[name]
    responses = responses_of(result, beside)
    metrics = measure_as(workload, responses, result["duration"], report.percentiles or ())
    return Run(metrics, responses, result["duration"], facts={"counters": counted(result)})


def counted(result: dict[str, Any]) -> dict[str, Any]:
    """What a reading of the server's counters before and after gives, of the raw counts that the result tells."""
    if "spec_decode_num_drafts" not in result:
        return {}
    drafts = result["spec_decode_num_drafts"]
    accepted = tuple(rate * drafts for rate in result["spec_decode_per_position_acceptance_rates"])
    after = Counters(
        drafts=1000 + drafts,
        draft_tokens=2000 + result["spec_decode_draft_tokens"],
        accepted_tokens=500 + result["spec_decode_accepted_tokens"],
        accepted_at=tuple(10 + round(count) for count in accepted),
    )
    before = Counters(drafts=1000, draft_tokens=2000, accepted_tokens=500, accepted_at=(10,) * len(accepted))
    return difference(before, after)


def answer(
    start: float = 0.0, ttft: float = 0.1, gaps: tuple[float, ...] = (0.1,), tokens: int = 2, **more: Any
) -> Response:
    return Response(True, start, ttft, gaps, ttft + sum(gaps), prompt_len=10, output_len=tokens, **more)


# -- the real results


@pytest.mark.parametrize("name", PASSES)
def test_a_real_result_is_recomputed_from_its_details_to_the_last_digit(name: str) -> None:
    result, _, _ = given_result(name)
    workload, report = PASSES[name]
    whole = as_json(run_of(name), workload, result["model_id"], date=result["date"], report=report)
    made = json.loads("".join(as_text(whole)))
    changes, theirs = made.pop("rps_change_events", None), result.pop("rps_change_events", None)
    assert {key: value for key, value in made.items() if key not in OURS} == result
    assert (changes is None) == (theirs is None)
    if changes:
        assert [change["rps"] for change in changes] == [change["rps"] for change in theirs]


@pytest.mark.parametrize("name", [name for name in PASSES if name != "engine"])
def test_the_json_has_vllms_keys_in_vllms_order_and_ours_after_them(name: str) -> None:
    result, _, _ = given_result(name)
    workload, report = PASSES[name]
    made = as_json(run_of(name), workload, "mock", date=result["date"], report=report)
    assert [key for key in made if key not in OURS] == list(result)
    assert list(made)[-3:] == ["success_rate", "honest", "facts"]


@pytest.mark.parametrize("name", PASSES)
def test_the_block_is_the_one_that_vllm_printed(name: str) -> None:
    workload, report = PASSES[name]
    assert block(run_of(name), workload, report) + "\n" == given_result(name)[2]


def test_lists_are_only_in_a_detailed_result() -> None:
    run = run_of("0.32-rate")
    small = as_json(run, PASSES["0.32-rate"][0], "m", date="20261201-000000")
    assert not {"input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts", "errors"} & set(small)
    assert len(small["latencies"]) == len(small["queue_times"]) == 24  # as vLLM keeps them
    old = as_json(run, PASSES["0.11-completions"][0], "m", date="20261201-000000")
    assert not {"latencies", "queue_times", "failed", "rtfx"} & set(old)


def test_the_json_is_json_even_of_nonsense() -> None:
    run = Run({"duration": math.nan, "output_throughput": math.inf}, facts={"errors": {3: math.nan}})
    result = as_json(run, WORKLOAD, "m", date="d", beside={"limited_by": "server"})
    assert (result["duration"], result["output_throughput"]) == (None, None)
    assert result["facts"] == {"errors": {"3": None}}
    assert result["limited_by"] == "server"
    assert json.loads("".join(as_text(result))) == result
    assert "".join(as_text({})) == "{}"


def test_the_block_leaves_out_what_is_missing() -> None:
    text = block({"completed": 3, "total_token_throughput": 5482.591}, Workload(request_rate=2.5))
    assert text.split("\n")[1:-1] == [
        "Successful requests:                     3         ",
        "Request rate configured (RPS):           2.50      ",
        "Total token throughput (tok/s):          5482.59   ",
    ]


# -- definitions


def test_0_11_counts_the_datasets_tokens_and_lets_a_chats_latency_last_until_its_usage() -> None:
    response = answer(gaps=(0.2,), tokens=3, usage_latency=0.7, asked_prompt_len=8)
    new, old = (measure([response], 1.0, definitions=name, endpoint="chat") for name in ("vllm-0.32", "vllm-0.11"))
    assert (new["total_input_tokens"], old["total_input_tokens"]) == (10, 8)
    assert new["mean_tpot_ms"] == pytest.approx(100)
    assert old["mean_tpot_ms"] == pytest.approx(300)
    completions = measure([response], 1.0, definitions="vllm-0.11")
    assert completions["mean_tpot_ms"] == new["mean_tpot_ms"]


def test_0_11_takes_a_chat_without_tokens_for_a_success() -> None:
    empty = Response(False, status=200, failure="no-tokens", error="the reply held no token", asked_prompt_len=8)
    assert measure([empty], 1.0, definitions="vllm-0.11", endpoint="chat")["completed"] == 1
    assert measure([empty], 1.0, definitions="vllm-0.11")["completed"] == 0
    assert measure([empty], 1.0, endpoint="chat")["completed"] == 0


def test_goodput_counts_requests_within_every_limit() -> None:
    fast, slow, single = answer(), answer(ttft=0.5), answer(gaps=(), tokens=1)
    responses = [fast, slow, single, Response(False)]
    assert measure(responses, 2.0, goodput={"ttft": 100})["request_goodput"] == 1.0
    assert measure(responses, 2.0, goodput={"ttft": 100, "tpot": 50})["request_goodput"] == 0.5  # the single token
    assert measure(responses, 2.0, goodput={"e2el": 700})["request_goodput"] == 1.5
    assert "request_goodput" not in measure(responses, 2.0)
    assert share_within(responses, {"ttft": 100}) == 0.5
    assert share_within([], {"ttft": 100}) == 0


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
    backwards = measure(given_responses[::-1], duration, (1, 99))
    assert metrics == pytest.approx(backwards, rel=1e-9, abs=1e-9)


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

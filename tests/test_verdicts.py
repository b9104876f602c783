"""The validity gate: what keeps a measurement from being ranked, and what is only noted."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.histories import WORKLOADS
from tests.servers import DONE, END, HEAD, Asked, Serving, Wire, chunk, stream, token, usage
from tuner.benchmarks import Response, Run, Workload
from tuner.benchmarks.metrics import aggregate, measure
from tuner.benchmarks.stall import before_first_tokens, named_stall, waves
from tuner.benchmarks.streaming import Client
from tuner.benchmarks.verdicts import check, steady, together
from tuner.trial import Measurement, Verdict

WORKLOAD = Workload(num_prompts=10, input_len=100, output_len=20)
PUBLISHED = {
    "completed": 1000.0, "duration": 76.59, "total_input_tokens": 219171.0, "total_output_tokens": 200752.0,
    "request_throughput": 13.06, "output_throughput": 2621.05, "total_token_throughput": 5482.59,
    "mean_ttft_ms": 17743.08, "p99_ttft_ms": 24371.87, "mean_tpot_ms": 227.45,
}  # fmt: skip
SHAREGPT = Workload(dataset="sharegpt", num_prompts=1000)


def answers(count: int = 10, **changes: Any) -> list[Response]:
    good = Response(True, 1.0, 0.1, (0.01,) * 19, 0.1 + 19 * 0.01, prompt_len=100, output_len=20)
    return [replace(good, **changes)] * count


def passed(responses: list[Response], duration: float = 0.5, **facts: Any) -> Run:
    return Run(measure(responses, duration), tuple(responses), duration, facts=facts)


def found(subject: Run | Measurement, workload: Workload = WORKLOAD) -> dict[str, bool]:
    return {verdict.check: verdict.valid for verdict in check(subject, workload)}


def test_nothing_is_said_of_a_good_run() -> None:
    assert check(passed(answers()), WORKLOAD) == ()
    assert check(aggregate([passed(answers())] * 3), WORKLOAD) == ()


def test_one_failed_request_is_one_too_many() -> None:
    responses = [*answers(7), *[Response(False, error="HTTP 500")] * 2, Response(False, error="reset")]
    run = passed(responses, errors={"HTTP 500": 2, "reset": 1})
    (verdict,) = check(run, WORKLOAD)
    assert (verdict.check, verdict.valid) == ("success-rate", False)
    assert verdict.message == "7 of 10 requests succeeded: 2 x HTTP 500; 1 x reset"


def test_of_a_run_in_which_nothing_succeeded_only_why() -> None:
    refused = [Response(False, 1.0, end=0.002, queue_time=0.3, failure="connect", error="refused")] * 10
    run = passed(refused, 0.002, client_cpu_s=0.002, loop_lag_ms=500.0, loop_lag_mean_ms=500.0, timed_out=True)
    (verdict,) = check(run, WORKLOAD)
    assert (verdict.check, verdict.valid) == ("success-rate", False)
    assert verdict.message == "0 of 10 requests succeeded: 10 x connect: refused"
    (verdict,) = check(replace(passed([Response(False)] * 10, 0.0), stopped_early=True), WORKLOAD)
    assert verdict.message == "0 of 10 requests succeeded"
    (verdict,) = check(aggregate([run]), WORKLOAD)
    assert verdict.message == "0 of 10 requests succeeded"


def test_of_a_run_that_could_not_win_only_its_bound() -> None:
    cut = [*answers(3), *[Response(False, 1.0, failure="unfinished", error="ended")] * 7]
    run = replace(passed(cut, loop_lag_ms=500.0), stopped_early=True, bound=123.45)
    (verdict,) = check(run, WORKLOAD)
    assert (verdict.check, verdict.valid) == ("stopped-early", False)
    assert "123.5 tokens per second is the most it could have reached, a bound and no result" in verdict.message
    (verdict,) = check(replace(passed([Response(False)] * 10), stopped_early=True, bound=0.0), WORKLOAD)
    assert verdict.check == "stopped-early"


def test_recorded_metrics_are_checked_by_what_is_there() -> None:
    assert check(Measurement(PUBLISHED), SHAREGPT) == ()
    assert check(Measurement({"total_token_throughput": 5000.0}), SHAREGPT) == ()
    assert check(Measurement({}), SHAREGPT) == ()
    assert found(Measurement({"completed": 516.0}), SHAREGPT) == {"success-rate": False}
    assert found(Measurement({"success_rate": 0.516}), SHAREGPT) == {"success-rate": False}


def test_every_repeat_is_checked_and_the_same_is_said_once() -> None:
    bad = {**PUBLISHED, "completed": 999.0}
    measurement = Measurement(PUBLISHED, repeats=(PUBLISHED, bad, bad))
    assert [verdict.check for verdict in check(measurement, SHAREGPT)] == ["success-rate"]


@pytest.mark.parametrize("name", ["total_token_throughput", "duration", "mean_ttft_ms"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_impossible_values(name: str, value: float) -> None:
    said = found(Measurement({name: value}), SHAREGPT)
    assert said == {"impossible-value": False}


def test_more_impossible_values() -> None:
    assert found(Measurement({"duration": 0.0})) == {"impossible-value": False}
    assert found(Measurement({"output_throughput": 0.0})) == {"impossible-value": False}
    assert found(Measurement({"output_throughput": 1e9})) == {"impossible-value": False}
    assert found(Measurement({"mean_ttft_ms": 10.0, "mean_e2el_ms": 9.0})) == {"impossible-value": False}
    assert found(Measurement({"std_itl_ms": 0.0, "mean_itl_ms": 0.0})) == {}


def test_answers_that_cannot_be() -> None:
    assert found(passed(answers(ttft=9.0))) == {"impossible-value": False}
    assert found(passed(answers(itls=(-1.0, 2.0)))) == {"impossible-value": False}
    assert found(passed(answers(output_len=0))) == {"output-tokens": False, "impossible-value": False}


def test_figures_that_contradict_each_other() -> None:
    assert found(Measurement({**PUBLISHED, "total_token_throughput": 8000.0}), SHAREGPT) == {"inconsistent": False}
    assert found(Measurement({**PUBLISHED, "duration": 38.0}), SHAREGPT) == {"inconsistent": False}


def test_output_tokens_where_end_of_sequence_is_ignored() -> None:
    short = passed(answers(output_len=19))
    assert found(short) == {"output-tokens": False}
    assert found(short, replace(WORKLOAD, ignore_eos=False)) == {}
    assert found(passed(answers(output_len=40))) == {"output-tokens": False}
    assert found(passed(answers(output_len=40)), replace(WORKLOAD, ignore_eos=False)) == {"output-tokens": False}
    body = replace(WORKLOAD, extra_body={"max_tokens": 40})
    assert found(passed(answers(output_len=40)), body) == {}
    assert (
        found(passed(answers(output_len=40)), replace(body, extra_body={"max_tokens": 40, "ignore_eos": False})) == {}
    )
    drawn = replace(WORKLOAD, range_ratio=0.5)
    assert found(passed(answers(output_len=24)), drawn) == {}
    fixed = Workload(dataset="sharegpt", num_prompts=10, fixed_output_len=30, ignore_eos=True)
    assert found(short, fixed) == {"output-tokens": False}


def test_other_input_tokens_are_noted() -> None:
    run = passed(answers(prompt_len=130))
    assert found(run) == {"input-tokens": True}
    assert aggregate([run], check(run, WORKLOAD)).valid
    (verdict,) = check(run, WORKLOAD)
    assert verdict.message == (
        "the server counted 130.0 tokens in each prompt, 100 were asked (1.30 of what the client counts)"
    )


@pytest.mark.parametrize(
    ("counted", "tokenizer", "valid"),
    [
        (170, "t.json", True),  # 10 % and a template
        (180, "t.json", False),
        (30, "t.json", True),
        (20, "t.json", False),
        (250, None, True),
        (460, None, True),
        (470, None, False),
        (50, None, True),
        (49, None, False),
    ],
)
def test_input_tokens_that_cannot_be(counted: int, tokenizer: str | None, valid: bool) -> None:
    workload = replace(WORKLOAD, tokenizer=tokenizer)
    run = passed(answers(prompt_len=counted), prompt_tokens_known=1000, prompt_words=1000, prompt_bytes=5000)
    assert found(run, workload) == {"input-tokens": valid}
    assert found(Measurement(run.metrics), workload) == {"input-tokens": valid}


def test_input_tokens_of_any_text() -> None:
    """Without a tokenizer its length is a guess, and a sentence of some languages is one word."""
    workload = Workload(dataset="sharegpt", num_prompts=10)
    english = {"prompt_tokens_known": 1000, "prompt_words": 800, "prompt_bytes": 4000}
    assert found(passed(answers(prompt_len=130), **english), workload) == {}
    assert found(passed(answers(prompt_len=230), **english), workload) == {"input-tokens": True}
    assert found(passed(answers(prompt_len=500), **english), workload) == {"input-tokens": False}
    chinese = {"prompt_tokens_known": 1000, "prompt_words": 20, "prompt_bytes": 4000}
    assert found(passed(answers(prompt_len=150), **chinese), workload) == {}


def test_single_answers_are_counted_against_what_they_were_allowed() -> None:
    unlimited = replace(WORKLOAD, ignore_eos=False)
    assert found(passed(answers(), longer_than_asked=1), unlimited) == {"output-tokens": False}
    assert found(passed(answers(), counted_as_none=2), unlimited) == {"output-tokens": False}
    few = passed(answers(output_len=15))
    (verdict,) = check(few, unlimited)
    assert (verdict.check, verdict.valid) == ("output-tokens", True)
    assert "200 events with text came, the server counted 150 tokens (ratio 0.75)" in verdict.message


def test_a_client_that_is_the_limit_is_noted() -> None:
    assert found(passed(answers(), client_cpu_s=0.45)) == {"client-limited": True}
    assert found(passed(answers(), loop_lag_ms=500.0)) == {"client-limited": True}
    assert found(passed(answers(), loop_lag_ms=20.0, client_cpu_s=0.1)) == {}
    assert found(passed(answers(), guessed_output_lens=3)) == {"approximate-tokens": True}


def test_a_pass_that_did_not_end_is_not_ranked() -> None:
    assert found(replace(passed(answers()), stopped_early=True)) == {"stopped-early": False}
    assert found(passed(answers(), timed_out=True)) == {"timed-out": False}


@given(st.dictionaries(st.sampled_from([*PUBLISHED, "success_rate", "p99_e2el_ms"]), st.floats()))
def test_any_figures_are_judged_and_none_crashes(metrics: dict[str, float]) -> None:
    verdicts = check(Measurement(metrics), SHAREGPT)
    if not all(math.isfinite(value) for value in metrics.values()):
        assert not all(verdict.valid for verdict in verdicts)
    assert all(verdict.message for verdict in verdicts)


RECORDED = Path(__file__).parent.parent / "studies" / "deepseek-r1-h200" / "recorded.yaml"
PUBLISHED_RUNS = {
    (entry["workload"], entry["command"].split()[0], len(entry["command"])): entry["metrics"]
    for entry in yaml.safe_load(RECORDED.read_text())["measurements"]
}


def recorded(workload: str, program: str, nth: int = 0) -> dict[str, float]:
    """The nth run of a program on a workload, the shorter commands first."""
    runs = sorted((key for key in PUBLISHED_RUNS if key[:2] == (workload, program)), key=lambda key: key[2])
    return dict(PUBLISHED_RUNS[runs[nth]])


@pytest.mark.parametrize(
    ("workload", "program", "nth", "seconds", "duration", "named"),
    [
        ("sharegpt", "vllm", 0, 11.0, 76.6, True),
        ("short", "vllm", 0, 16.5, 22.1, True),
        ("sharegpt", "trtllm-serve", 0, 17.3, 124.0, True),
        ("sharegpt", "python3", 0, -0.1, 63.3, False),
        ("sharegpt", "python3", 1, 2.3, 58.8, False),
        ("sharegpt", "python3", 2, 3.0, 61.7, False),
        ("short", "python3", 0, 1.9, 6.4, True),
        ("sharegpt", "python3", 3, 19.8, 189.4, False),
    ],
)
def test_stalls_of_the_published_runs(
    workload: str, program: str, nth: int, seconds: float, duration: float, named: bool
) -> None:
    metrics, asked = recorded(workload, program, nth), WORKLOADS[workload]
    assert round(before_first_tokens(metrics) or 0.0, 1) == seconds
    assert round(metrics["duration"], 1) == duration
    assert (named_stall(metrics, asked) is not None) == named
    said = {verdict.check: verdict for verdict in check(Measurement(metrics), asked)}
    assert ("start-stall" in said) == named
    assert all(verdict.valid for verdict in said.values())
    if named:
        assert f"about {seconds:.1f} of {duration:.1f} s" in said["start-stall"].message


def test_the_queue_under_speculation_is_no_stall() -> None:
    """48 running requests: by Little's law 45 were between first and last token at a time."""
    metrics = recorded("sharegpt", "python3", 3)
    found = waves(metrics, WORKLOADS["sharegpt"])
    assert found is not None
    assert 40 < found.running < 48
    (verdict,) = check(Measurement(metrics), WORKLOADS["sharegpt"])
    assert (verdict.check, verdict.valid) == ("server-queue", True)
    assert "about 45 of 1000 requests were answered at a time" in verdict.message


def test_every_published_run_can_be_ranked() -> None:
    """9952 of 10000 tokens, and a peak of 9 requests at a concurrency of 4, are what honest figures hold."""
    asked = recorded("very-long", "python3"), recorded("sharegpt-concurrency-4", "vllm")
    assert (asked[0]["total_output_tokens"], asked[1]["max_concurrent_requests"]) == (9952, 9)
    for (workload, *_), metrics in PUBLISHED_RUNS.items():
        assert all(verdict.valid for verdict in check(Measurement(metrics), WORKLOADS[workload])), workload


def test_a_stall_is_no_longer_than_until_the_first_tokens_of_a_run() -> None:
    spread = [20.0 + 0.1 * number for number in range(100)]
    late = [answers(1, ttft=at, itls=(0.1,) * 19, latency=at + 1.9)[0] for at in spread]
    workload = replace(WORKLOAD, num_prompts=100)
    assert found(passed(late, 32.0), workload) == {"start-stall": True}
    early = [*answers(5), *late[5:]]
    assert found(passed(early, 32.0), workload) == {}
    assert found(passed(late, 32.0), replace(workload, request_rate=50.0)) == {}


def test_classes_of_failures_with_their_commonest_error() -> None:
    failed = [Response(False, failure="overloaded", error="HTTP 503 busy")] * 2
    failed += [Response(False, failure="stalled", error="no whole answer within 9 s")]
    (verdict,) = check(passed([*answers(7), *failed]), WORKLOAD)
    assert verdict.message == (
        "7 of 10 requests succeeded: 2 x overloaded: HTTP 503 busy; 1 x stalled: no whole answer within 9 s"
    )


def test_figures_that_do_not_fit_into_their_duration() -> None:
    assert found(Measurement({"duration": 10.0, "p99_ttft_ms": 10_100.0})) == {"impossible-value": False}
    assert found(Measurement({"duration": 10.0, "p99_e2el_ms": 9_990.0})) == {}
    four = replace(WORKLOAD, num_prompts=100, max_concurrency=4)
    metrics = {"duration": 10.0, "completed": 100.0, "mean_e2el_ms": 500.0}
    assert found(Measurement(metrics), four) == {"impossible-value": False}  # 50 s of requests, 4 at a time: 12.5 s
    assert found(Measurement({**metrics, "duration": 12.5}), four) == {}
    assert found(Measurement({"mean_ttft_ms": 0.0, "completed": 10.0})) == {"impossible-value": False}
    assert found(Measurement({**PUBLISHED, "max_output_tokens_per_s": 250_000.0}), SHAREGPT) == {
        "impossible-value": False
    }


def test_runs_that_do_not_fit_their_answers() -> None:
    run = passed(answers())
    assert found(passed(answers(), 0.2)) == {"impossible-value": False}  # each took 0.29 s
    assert found(replace(run, metrics={**run.metrics, "max_output_tokens_per_s": 201.0})) == {"impossible-value": False}
    assert found(replace(run, honest={"true_max_in_flight": 11.0})) == {"impossible-value": False}
    assert found(replace(run, honest={"true_max_in_flight": 10.0})) == {}
    assert found(passed(answers(ttft=0.0))) == {"impossible-value": False}
    assert found(passed(answers(itls=array("d", [0.01] * 18 + [-0.01])))) == {"impossible-value": False}


def test_output_lengths_of_a_file_s_requests() -> None:
    workload = Workload(dataset="jsonl", num_prompts=10, ignore_eos=True)
    assert found(passed(answers(asked_output_len=20)), workload) == {}
    assert found(passed(answers(asked_output_len=25)), workload) == {"output-tokens": False}
    assert found(passed(answers(asked_output_len=15)), workload) == {"output-tokens": False}
    assert found(passed(answers(asked_output_len=25)), replace(workload, ignore_eos=None)) == {}


def test_answers_that_ended_early_are_noted() -> None:
    ended = passed(answers(output_len=8, itls=(0.01,) * 7, latency=0.17))
    assert found(ended, replace(WORKLOAD, ignore_eos=False)) == {"output-tokens": True}
    assert found(ended) == {"output-tokens": False}


@pytest.mark.parametrize(
    ("share", "changes", "said"),
    [
        (0.04, {}, {}),
        (0.2, {}, {"prefix-cache": True}),
        (0.9, {}, {"prefix-cache": False}),
        (0.9, {"dataset": "sharegpt"}, {"prefix-cache": True}),
        (0.9, {"dataset": "shared-prefix"}, {}),
        (0.5, {"prefix_len": 50, "input_len": 50}, {}),
        (0.5, {"endpoint": "chat"}, {}),  # the template
    ],
)
def test_prompts_that_were_in_the_prefix_cache(share: float, changes: dict[str, Any], said: dict[str, bool]) -> None:
    workload = replace(WORKLOAD, **changes)
    by_counters = passed(answers(), counters={"prefix_queries": 1000.0, "prefix_hits": 1000 * share})
    assert found(by_counters, workload) == said
    by_answers = passed(answers(cached_len=round(100 * share)))
    assert found(by_answers, workload) == said


def test_hits_of_requests_that_were_preempted_are_no_repeats() -> None:
    counted = {"prefix_queries": 1000.0, "prefix_hits": 900.0, "preemptions": 40.0}
    assert found(passed(answers(), counters=counted)) == {"prefix-cache": True}


def test_a_cold_start_is_noted() -> None:
    assert found(replace(passed(answers()), honest={"cold_start_ratio": 9.0})) == {"cold-start": True}
    assert found(replace(passed(answers()), honest={"cold_start_ratio": 1.2})) == {}


def test_counts_that_are_not_the_server_s_are_marked() -> None:
    assert found(passed(answers(counted_by="tokenizer"))) == {"retokenised": True}
    assert found(passed(answers(counted_by="tokenizer"), guessed_output_lens=10)) == {"retokenised": True}
    (verdict,) = check(passed(answers(counted_by="events"), guessed_output_lens=10), WORKLOAD)
    assert (verdict.check, verdict.message.split(":")[0]) == (
        "approximate-tokens", "the server did not count the tokens of 10 answers",
    )  # fmt: skip
    assert found(passed(answers(), guessed_input_lens=10, dataset_lens="approximate")) == {"approximate-tokens": True}


def test_a_server_s_queue_and_a_rate_that_was_kept_up_with_are_noted() -> None:
    gauges = {"samples": 8.0, "max_running": 4.0, "max_waiting": 6.0, "waiting_share": 1.0, "running_beside_queue": 4.0}
    (verdict,) = check(passed(answers(), gauges=gauges), WORKLOAD)
    assert verdict.message.startswith("up to 6 requests waited in the server while 4 ran: a limit of 4 running")
    paced = [answers(1, start=1.0 + number)[0] for number in range(10)]
    (verdict,) = check(passed(paced, 10.0, offered_rate=1.0), replace(WORKLOAD, request_rate=1.0))
    assert (verdict.check, verdict.valid) == ("arrival-limited", True)


def test_the_passes_of_a_measurement_say_the_same_once() -> None:
    def note(seconds: float) -> Verdict:
        return Verdict("start-stall", True, f"about {seconds} of 20 s seem to have passed")

    bad = Verdict("success-rate", False, "7 of 10 requests succeeded")
    assert together([[note(1.5)], [note(2.25), bad], [note(3.0)]]) == (
        Verdict("start-stall", True, "about 1.5 of 20 s seem to have passed (in all 3 passes)"),
        Verdict("success-rate", False, "7 of 10 requests succeeded (in 1 of 3 passes)"),
    )
    assert together([[bad, bad]]) == (bad,)
    assert together([]) == ()


ODD = st.floats(-1.0, 1e6) | st.just(math.nan)


@given(
    st.lists(
        st.builds(
            Response,
            st.booleans(),
            start=st.floats(0.0, 100.0),
            ttft=ODD,
            itls=st.lists(ODD, max_size=4),
            latency=ODD,
            output_len=st.integers(0, 1000),
            end=ODD,
            cached_len=st.integers(0, 1000),
            asked_output_len=st.integers(0, 1000),
        ),
        max_size=10,
    ),
    st.floats(0.0, 100.0),
)
def test_any_run_is_judged_and_none_crashes(responses: list[Response], duration: float) -> None:
    for verdict in check(Run({"duration": duration}, tuple(responses), duration), WORKLOAD):
        assert verdict.message


def test_steady() -> None:
    assert steady(100.0, 104.9)
    assert steady(104.9, 100.0)
    assert not steady(100.0, 106.0)
    assert steady(0.0, 0.0)
    assert not steady(0.0, 1.0)
    assert not steady(math.nan, 1.0)
    assert steady(100.0, 130.0, tolerance=0.25)


def test_a_real_run_with_failures() -> None:
    async def answer(asked: Asked, wire: Wire) -> bool | None:
        if asked.number == 3:
            return False
        return await stream(ttft=0.01)(asked, wire)

    with Serving(answer) as server:
        run = Client().run([server.url], "m", replace(WORKLOAD, max_concurrency=2), seed=0, timeout_s=30)
    (verdict,) = [verdict for verdict in check(run, WORKLOAD) if not verdict.valid]
    assert verdict.message == (
        "9 of 10 requests succeeded: 1 x broken: the server closed the connection without a reply"
    )


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (2.0, "the server counted more tokens than were allowed in 10 of 10 answers"),
        (0.5, "10.0 tokens came for each request, 20 were asked with end-of-sequence ignored"),
        (0.0, "the server counted no token in 10 of 10 answers that have text"),
    ],
)
def test_a_server_that_counts_wrongly_is_not_ranked(factor: float, said: str) -> None:
    async def answer(asked: Asked, wire: Wire) -> None:
        await wire.write(HEAD + b"".join(chunk(token()) for _ in range(20)))
        total = usage(len(asked.body["prompt"].split()), int(20 * factor))
        await wire.write(chunk(total + DONE) + END)

    with Serving(answer) as server:
        run = Client().run([server.url], "m", WORKLOAD, seed=0, timeout_s=30)
    assert said in [verdict.message for verdict in check(run, WORKLOAD) if not verdict.valid]


def test_the_limit_of_the_workload_s_own_body_is_what_is_asked() -> None:
    workload = replace(WORKLOAD, extra_body={"max_tokens": 5})
    with Serving(stream()) as server:
        run = Client().run([server.url], "m", workload, seed=0, timeout_s=30)
    assert check(run, workload) == ()
    assert run.metrics["total_output_tokens"] == 50

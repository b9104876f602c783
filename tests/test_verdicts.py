"""The validity gate: what keeps a measurement from being ranked, and what is only noted."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers import DONE, END, HEAD, Asked, Serving, Wire, chunk, stream, token, usage
from tuner.benchmarks import Response, Run, Workload
from tuner.benchmarks.metrics import aggregate, measure
from tuner.benchmarks.streaming import Client
from tuner.benchmarks.verdicts import check, steady
from tuner.trial import Measurement

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
    fixed = Workload(dataset="sharegpt", num_prompts=10, sharegpt_output_len=30, ignore_eos=True)
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
    assert verdict.message == ("9 of 10 requests succeeded: 1 x the server closed the connection without a reply")


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

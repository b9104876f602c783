"""The bound of a pass under way: a proof, so it may never be below what the pass then reaches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers import Serving, stream
from tuner.benchmarks import Event, RampUp, Request, Workload
from tuner.benchmarks.bound import bounded, most_prompt_tokens, most_tokens, throughput_bound
from tuner.benchmarks.streaming import Client


def test_the_published_vllm_run_is_cut_where_it_cannot_win_any_more() -> None:
    # 420085 tokens in 76.6 s, 5482.59 tok/s, against 6635.73: provable once 420085 / 6635.73 s have passed
    tokens = 5482.59 * 76.6216
    last, first = throughput_bound(tokens, 63.3), throughput_bound(tokens, 63.32)
    assert last is not None
    assert first is not None
    assert last > 6635.73 > first
    assert throughput_bound(tokens, 0.0) is None


@given(
    lengths=st.lists(st.tuples(st.integers(1, 500), st.integers(1, 500), st.booleans()), min_size=1, max_size=20),
    share=st.floats(0.01, 1.0),
    duration=st.floats(0.1, 1000.0),
)
def test_no_bound_is_below_the_end(lengths: list[tuple[int, int, bool]], share: float, duration: float) -> None:
    workload = Workload(num_prompts=len(lengths), tokenizer="t")
    requests = [Request("x", prompt, output) for prompt, output, _ in lengths]
    most = most_tokens(requests, workload)
    actual = [(prompt + output) * (not failed) for prompt, output, failed in lengths]
    over = len(lengths) // 2  # at some moment, half of them are over
    at_most = sum(actual[:over]) + sum(most[over:])
    bound = throughput_bound(at_most, share * duration)
    assert bound is not None
    assert bound >= sum(actual) / duration


def test_what_a_prompt_can_have_at_most() -> None:
    words = Request("the of and to", 4, 10)
    assert most_prompt_tokens(words, Workload()) == 4 * 4 + 64
    assert most_prompt_tokens(words, Workload(tokenizer="t")) == pytest.approx(4 * 1.1 + 64)
    assert most_prompt_tokens(words, Workload(dataset="sharegpt")) == len("the of and to") + 64
    assert most_prompt_tokens(words, Workload(), counted=5) == 13
    chat = Request(({"role": "user", "content": "abc"}, {"role": "user", "content": [{"text": "de"}]}), 4, 10)
    assert most_prompt_tokens(chat, Workload(dataset="jsonl", endpoint="chat")) == len("abc\nde") + 64


def test_open_arrivals_have_no_bound() -> None:
    assert bounded(Workload())
    assert bounded(Workload(max_concurrency=3))
    assert not bounded(Workload(request_rate=3.0))
    assert not bounded(Workload(ramp_up=RampUp("linear", 1.0, 2.0)))
    assert not bounded(Workload(dataset="trace"))
    seen: list[Event] = []
    with Serving(stream(itl=0.1, events=8)) as server:
        workload = Workload(num_prompts=2, input_len=5, output_len=8, request_rate=100.0)
        measured = Client().run([server.url], "m", workload, seed=0, timeout_s=30, on_event=seen.append, beat=1e9)
    assert {event.bound for event in seen} == {None}
    assert measured.metrics["completed"] == 2
    assert measured.bound is None


def test_a_pass_that_cannot_win_ends_and_says_what_it_could_have_reached() -> None:
    workload = Workload(num_prompts=4, input_len=5, output_len=100)
    with Serving(stream(itl=0.1)) as server:  # 10 s
        measured = Client().run([server.url], "m", workload, seed=0, timeout_s=30, beat=1000.0)
    # at most (4 x 5 + 64 + 100) tokens each
    assert measured.stopped_early
    assert measured.bound is not None
    assert 500 < measured.bound < 1000
    assert measured.duration == pytest.approx(4 * 184 / measured.bound, abs=0.2)
    assert {response.error for response in measured.responses} == {
        "the pass was ended, as it could not reach the throughput to beat any more"
    }
    assert {response.failure for response in measured.responses} == {"unfinished"}


def test_a_pass_that_could_have_won_is_never_cut() -> None:
    workload = Workload(num_prompts=4, input_len=5, output_len=10)
    client = Client()
    with Serving(stream(itl=0.05)) as server:
        first = client.run([server.url], "m", workload, seed=0, timeout_s=30)
        beaten = first.metrics["total_token_throughput"] * 0.95
        again = client.run([server.url], "m", workload, seed=0, timeout_s=30, beat=beaten)
    assert not again.stopped_early
    assert again.bound is None


def test_prompts_counted_before_tighten_the_bound() -> None:
    workload = Workload(num_prompts=4, input_len=50, output_len=30)
    client = Client()
    bounds = []
    with Serving(stream(itl=0.02)) as server:
        for _ in range(2):
            seen: list[Event] = []
            client.run([server.url], "m", workload, seed=0, timeout_s=30, on_event=seen.append)
            (event,) = seen[:1]
            assert event.bound is not None
            bounds.append(event.bound * event.elapsed)
    assert bounds == [pytest.approx(4 * (50 * 4 + 64 + 30)), pytest.approx(4 * (50 + 8 + 30))]

"""What a run was limited by, from its answers, its facts and the server's metrics."""

from __future__ import annotations

import heapq
import random
from dataclasses import replace
from itertools import accumulate
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers import Serving, stream
from tests.test_testing_engine import MODEL, serving
from tuner.benchmarks import RampUp, Response, Run, Workload
from tuner.benchmarks.limits import What, client_why, limited_by, server_queue
from tuner.benchmarks.metrics import measure
from tuner.benchmarks.scrape import Beside
from tuner.benchmarks.streaming import Client
from tuner.benchmarks.verdicts import check

TTFT, GAP, TOKENS = 0.2, 0.02, 51
EACH = TTFT + (TOKENS - 1) * GAP
BURST = Workload(num_prompts=200, input_len=10, output_len=TOKENS)


def served(starts: list[float], running: int, ttft: float = TTFT, **more: Any) -> list[Response]:
    """What a server makes of requests that come then, `running` at a time, the others waiting in it."""
    free = [0.0] * running
    responses = []
    for start in sorted(starts):
        begun = max(start, heapq.heappop(free))
        wait = begun - start
        latency = wait + ttft + (TOKENS - 1) * GAP
        heapq.heappush(free, start + latency)
        gaps = (GAP,) * (TOKENS - 1)
        answer = Response(True, 100.0 + start, wait + ttft, gaps, latency, 10, TOKENS, end=latency)
        responses.append(replace(answer, **more))
    return responses


def ran(responses: list[Response], **facts: Any) -> Run:
    duration = max(r.start + r.latency for r in responses) - min(r.start for r in responses)
    return Run(measure(responses, duration), tuple(responses), duration, facts=facts)


def closed_loop(concurrency: int, count: int, running: int) -> list[Response]:
    """So many in flight at a time: each start is the end of an earlier request."""
    starts = [0.0] * concurrency
    while len(starts) < count:
        ends = sorted(r.start - 100.0 + r.latency for r in served(starts, running))
        starts = [0.0] * concurrency + ends[: min(len(starts), count - concurrency)]
    return served(starts, running)


def test_a_server_that_answers_all_at_once_is_the_limit() -> None:
    limit = limited_by(ran(served([0.0] * 200, 200)), BURST)
    assert (limit.what, server_queue(ran(served([0.0] * 200, 200)))) == ("server", None)


def test_a_queue_behind_few_running_requests_is_named_by_the_shape_of_the_answers() -> None:
    run = ran(served([0.0] * 200, 16))
    found = server_queue(run)
    assert found is not None
    assert (found.running, found.waiting, found.source) == (16, 184, "shape")
    limit = limited_by(run, BURST)
    assert limit.what == "server"
    assert "never more than 16 answers were under way" in limit.why


def test_metrics_name_the_queue_better_than_the_shape() -> None:
    gauges = {"samples": 8.0, "max_running": 48.0, "max_waiting": 952.0, "waiting_share": 1.0}
    run = ran(served([0.0] * 200, 200), gauges=gauges | {"running_beside_queue": 48.0})
    found = server_queue(run)
    assert found is not None
    assert (found.running, found.waiting, found.source) == (48, 952, "metrics")
    assert "up to 952 requests waited in the server while 48 ran" in limited_by(run, BURST).why
    short = ran(served([0.0] * 200, 200), gauges=gauges | {"waiting_share": 0.2, "running_beside_queue": 100.0})
    assert server_queue(short) is None


def test_prompts_worked_on_one_after_the_other_are_no_cap() -> None:
    """First tokens every 50 ms, all answered from there on: ever more answers are under way."""
    responses = [
        Response(True, 100.0, TTFT * n / 4, (GAP,) * 500, TTFT * n / 4 + 10, 10, 501, end=TTFT * n / 4 + 10)
        for n in range(1, 201)
    ]
    assert server_queue(ran(responses)) is None


def test_prompts_worked_on_in_turn_make_a_plateau_and_are_no_cap() -> None:
    """First tokens every 50 ms, answers of 500 ms: never more than ten at a time, from the beginning on."""
    responses = [
        Response(True, 100.0, n / 20, (0.05,) * 10, n / 20 + 0.5, 10, 11, end=n / 20 + 0.5) for n in range(1, 101)
    ]
    assert server_queue(ran(responses)) is None
    behind = served([0.0] * 100, 10, ttft=0.001)
    assert server_queue(ran(behind)) is not None


@pytest.mark.parametrize(
    ("running", "waiting", "most_running"), [(3.0, 1.0, 16.0), (3.0, 6.0, 16.0), (16.0, 1.0, 16.0)]
)
def test_a_few_requests_that_wait_for_the_next_step_are_no_queue(
    running: float, waiting: float, most_running: float
) -> None:
    gauges = {"samples": 8.0, "max_running": most_running, "max_waiting": waiting, "waiting_share": 1.0}
    assert server_queue(ran(served([0.0] * 20, 20), gauges=gauges | {"running_beside_queue": running})) is None


def test_one_reading_of_a_short_pass_sees_no_queue_but_the_ramp_of_its_prefills() -> None:
    # vLLM 0.25.1 on an H200: 200 prompts at once, over after 2 s
    gauges = {"samples": 1.0, "max_running": 45.0, "max_waiting": 109.0, "waiting_share": 1.0}
    assert server_queue(ran(served([0.0] * 200, 200), gauges=gauges | {"running_beside_queue": 45.0})) is None


def test_arrivals_that_the_server_keeps_up_with_are_the_limit() -> None:
    paced = replace(BURST, request_rate=10.0)
    starts = [number / 10 for number in range(1, 201)]
    limit = limited_by(ran(served(starts, 100), offered_rate=10.0), paced)
    assert limit.what == "arrival-rate"
    assert "10 requests per second" in limit.why
    slow = limited_by(ran(served(starts, 6), offered_rate=10.0), paced)  # 6 / 1.2 s = 5 requests per second
    assert slow.what == "server"
    assert slow.why == "10 requests per second came, about 5 were answered"


def test_paced_requests_that_wait_for_a_place_in_the_client() -> None:
    """10 requests per second come, 6 may be in flight, each for 1.2 s: 5 per second are sent, later and later."""
    responses = []
    places = [0.0] * 6
    for number in range(1, 201):
        due, free = number / 10, heapq.heappop(places)
        (response,) = served([max(due, free)], 1)
        responses.append(replace(response, queue_time=response.start - 100.0 - due))
        heapq.heappush(places, response.start - 100.0 + response.latency)
    limit = limited_by(ran(responses, offered_rate=10.0), replace(BURST, request_rate=10.0, max_concurrency=6))
    assert limit.what == "concurrency"
    assert "for one of 6 places" in limit.why


def test_a_closed_loop_that_is_answered_at_once_is_limited_by_itself() -> None:
    workload = replace(BURST, max_concurrency=8)
    quick = closed_loop(8, 80, 8)
    limit = limited_by(ran([replace(r, ttft=0.01) for r in quick]), workload)
    assert limit.what == "concurrency"
    assert "8 requests were in flight at a time" in limit.why


@pytest.mark.parametrize("concurrency", [1, 4, 5])
@pytest.mark.parametrize(("ttft", "ttft_text"), [(1.0, 0.0), (0.001, 1.0)])
def test_first_tokens_that_take_long_for_all_alike_are_no_queue(
    concurrency: int, ttft: float, ttft_text: float
) -> None:
    """Whether a role comes at once, and text later, makes no difference."""
    workload = replace(BURST, num_prompts=60, max_concurrency=concurrency)
    same = [replace(r, ttft=ttft, ttft_text=ttft_text) for r in closed_loop(concurrency, 60, concurrency)]
    limit = limited_by(ran(same), workload)
    assert limit.what == "concurrency"
    assert limit.why.startswith("1 request was in flight" if concurrency == 1 else f"{concurrency} requests were in")


@pytest.mark.parametrize("role", [False, True])
@pytest.mark.parametrize("running", [2, 4, 6])
def test_requests_of_a_closed_loop_that_wait_in_the_server(running: int, role: bool) -> None:
    waiting = closed_loop(8, 80, running)
    if role:
        waiting = [replace(r, ttft=0.001, ttft_text=r.ttft) for r in waiting]
    limit = limited_by(ran(waiting), replace(BURST, num_prompts=80, max_concurrency=8))
    assert limit.what == "server"


def test_long_prompts_that_take_longer_than_short_ones_do_not_wait() -> None:
    loop = closed_loop(8, 80, 8)
    drawn = [replace(r, prompt_len=10 + 10 * (n % 9), ttft=0.1 * (1 + n % 9)) for n, r in enumerate(loop)]
    assert limited_by(ran(drawn), replace(BURST, num_prompts=80, max_concurrency=8)).what == "concurrency"


RAMP = replace(BURST, num_prompts=6, request_rate=None, ramp_up=RampUp("linear", 5.0, 20.0))


def test_a_run_too_short_to_say_what_the_server_keeps_up_with() -> None:
    ramp = [0.0, 0.15, 0.27, 0.37, 0.46, 0.54]
    limit = limited_by(ran(served(ramp, 6), offered_rate=11.1), RAMP)
    assert limit.what == "unknown"
    assert limit.why.startswith("6 requests came within 0.54 s, and one takes 1.2 s: too few")
    one = limited_by(ran(served([0.0], 6), offered_rate=11.1), replace(RAMP, num_prompts=1))
    assert (one.what, one.why.split(" came")[0]) == ("unknown", "1 request")


def test_the_tail_of_a_paced_run_is_not_what_the_server_does() -> None:
    """Ten per second for 4 s, each answered in 1.2 s: 40 in 5.2 s are 7.7 per second, and yet it kept up."""
    paced = replace(BURST, request_rate=10.0)
    starts = [number / 10 for number in range(1, 41)]
    assert limited_by(ran(served(starts, 100), offered_rate=10.0), paced).what == "arrival-rate"
    assert limited_by(ran(served(starts, 2), offered_rate=10.0), paced).what == "server"


def test_a_ramp_that_the_server_only_falls_behind_in_the_end() -> None:
    due = list(accumulate(1 / (2 + 18 * n / 200) for n in range(200)))  # 2 to 20 per second in 25 s
    workload = replace(RAMP, num_prompts=200)
    assert limited_by(ran(served(due, 30)), workload).what == "arrival-rate"
    behind = limited_by(ran(served(due, 10)), workload)  # 8.3 per second
    assert behind.what == "server"


@pytest.mark.parametrize(("rate", "seed"), [(10.0, seed) for seed in range(5)])
def test_chance_in_arrivals_and_lengths_is_not_falling_behind(rate: float, seed: int) -> None:
    chance = random.Random(seed)
    due = list(accumulate(chance.expovariate(rate) for _ in range(300)))
    drawn = [replace(r, latency=r.latency * chance.uniform(0.2, 2), end=0.0) for r in served(due, 300)]
    assert limited_by(ran(drawn), replace(BURST, num_prompts=300, request_rate=rate)).what == "arrival-rate"
    assert limited_by(ran(served(due, 6)), replace(BURST, num_prompts=300, request_rate=rate)).what == "server"


def test_a_server_that_refuses_or_dies_is_no_limit() -> None:
    good = served([0.0] * 50, 50)
    refused = [Response(False, 100.0, end=0.01, failure="overloaded", error="HTTP 429")] * 150
    limit = limited_by(ran([*good, *refused]), BURST)
    assert (limit.what, limit.why) == ("failures", "150 of 200 requests failed: 150 x overloaded: HTTP 429")
    one = limited_by(ran([*served([0.0] * 199, 199), *refused[:1]]), BURST)
    assert one.what == "server"
    late = [Response(False, 100.0, end=60.0, failure="unfinished", error="the pass had not ended")] * 150
    assert limited_by(ran([*good, *late], timed_out=True), BURST).what == "failures"


def test_runs_that_were_ended_early() -> None:
    """The one while tokens came, the other since none came any more."""
    cut = [Response(False, 100.0, 0.2, (0.02,) * 10, 1.2, failure="unfinished")] * 100
    run = replace(ran([*served([0.0] * 100, 100), *cut]), stopped_early=True)
    assert limited_by(run, BURST).what == "unknown"
    hung = limited_by(replace(run, duration=40.0), BURST)
    assert hung.what == "failures"
    assert "nothing came from the server in the last 38.8 s" in hung.why


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"client_cpu_s": 1.1}, "busy for 92%"),
        ({"client_cpu_s": 4.4, "processes": 4}, "busy for 92%"),
        ({"loop_lag_mean_ms": 200.0}, "200 ms late on average"),
    ],
)
def test_a_client_that_cannot_keep_up(facts: dict[str, Any], said: str) -> None:
    run = ran(served([0.0] * 200, 200), **facts)
    assert limited_by(run, BURST).what == "client"
    assert said in limited_by(run, BURST).why


def test_a_client_with_time_to_spare() -> None:
    run = ran(served([0.0] * 200, 200), client_cpu_s=2.0, processes=4, loop_lag_mean_ms=3.0)
    assert client_why(run, BURST) == ""


def test_late_sends_are_the_client_s_only_where_nothing_else_holds_requests_back() -> None:
    late = served([0.0] * 200, 200, queue_time=0.5)
    assert "500 ms late" in client_why(ran(late), BURST)
    assert client_why(ran(late), replace(BURST, max_concurrency=50)) == ""


def test_waits_longer_than_the_run_and_of_runs_without_an_answer_have_no_meaning() -> None:
    odd = served([0.0] * 200, 200, queue_time=15_796.983)
    assert client_why(ran(odd), BURST) == ""
    failed = [Response(False, 100.0, end=0.004, queue_time=0.2, failure="broken", error="reset")] * 200
    run = Run(measure(failed, 0.3), tuple(failed), 0.3, facts={"client_cpu_s": 0.3, "loop_lag_mean_ms": 200.0})
    assert client_why(run, BURST) == ""
    assert limited_by(run, BURST).what == "failures"


@given(
    st.lists(st.floats(0.0, 5.0), min_size=1, max_size=30),
    st.integers(1, 30),
    st.dictionaries(
        st.sampled_from(["client_cpu_s", "loop_lag_ms", "loop_lag_mean_ms", "offered_rate"]), st.floats(0.1, 100)
    ),
    st.sampled_from([BURST, replace(BURST, request_rate=3.0), replace(BURST, max_concurrency=4)]),
)
def test_every_run_has_a_limit_with_a_reason(
    starts: list[float], running: int, facts: dict[str, float], workload: Workload
) -> None:
    limit = limited_by(ran(served(starts, running), **facts), workload)
    assert limit.what in get_args(What)
    assert limit.why
    assert limited_by(Run({}), workload).what == "server"


# --- over sockets


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_real_server_that_takes_as_long_for_every_first_token(concurrency: int) -> None:
    workload = Workload(num_prompts=12, input_len=5, output_len=5, max_concurrency=concurrency)
    with Serving(stream(ttft=0.1, itl=0.005)) as server:
        run = Client().run([server.url], "m", workload, seed=0, timeout_s=60)
    assert limited_by(run, workload).what in ("concurrency", "client")


def test_a_real_run_at_a_rate_far_below_what_the_server_does() -> None:
    workload = Workload(num_prompts=40, input_len=5, output_len=3, request_rate=40.0)
    with Serving(stream(ttft=0.005, itl=0.001)) as server:
        run = Client().run([server.url], "m", workload, seed=0, timeout_s=60)
    assert limited_by(run, workload).what in ("arrival-rate", "client")


@pytest.mark.slow
def test_a_real_engine_with_a_cap_on_running_requests(tmp_path: Any) -> None:
    workload = Workload(num_prompts=60, input_len=16, output_len=60)
    flags = ("--enable-metrics", "--max-running-requests", "5")
    with serving(tmp_path, "sglang", *flags, scale=0.5) as server:
        url = f"http://127.0.0.1:{server.port}"
        Client().run([url], MODEL, replace(workload, num_prompts=10), seed=9, timeout_s=60)  # the cold start
        with Beside([url], timeout=10.0) as beside:
            run = Client().run([url], MODEL, workload, seed=0, timeout_s=60)
    by_metrics = replace(run, facts={**run.facts, **beside.facts})
    for judged in (run, by_metrics):
        found = server_queue(judged)
        assert found is not None
        assert found.running == 5
        assert "server-queue" in {verdict.check for verdict in check(judged, workload)}

"""The benchmark client against real servers whose answers, times and faults are known."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import ssl
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers import DONE, END, HEAD, Asked, Serving, Wire, chunk, event, raw, stream, token, usage
from tuner import benchmarks
from tuner.benchmarks import Event, Run, Workload
from tuner.benchmarks.arrivals import arrivals
from tuner.benchmarks.http import Garbled, Reply, Target
from tuner.benchmarks.sse import Events
from tuner.benchmarks.streaming import Client, allow_files
from tuner.errors import SpecError, TunerError

DATA = Path(__file__).parent / "data"


def run(server: Serving | str, workload: Workload | None = None, client: Client | None = None, **more: object) -> Run:
    url = server if isinstance(server, str) else server.url
    options = {"seed": 0, "timeout_s": 30.0, **more}
    return (client or Client()).run([url], "a-model", workload or small(), **options)  # type: ignore[arg-type]


def small(**changes: object) -> Workload:
    return Workload(**{"num_prompts": 4, "input_len": 5, "output_len": 3, **changes})  # type: ignore[arg-type]


def only_error(measured: Run) -> str:
    assert measured.metrics["completed"] == 0
    (error,) = {response.error for response in measured.responses}
    return error


# -- what is measured


def test_the_contract_finds_the_client() -> None:
    assert [benchmarks.client("tuner").name for _ in range(2)] == ["tuner", "tuner"]
    with pytest.raises(SpecError, match="no benchmark client 'ab'"):
        benchmarks.client("ab")


def test_tokens_requests_and_rates_are_counted() -> None:
    with Serving(stream()) as server:
        measured = run(server, small(num_prompts=20, output_len=7))
    metrics = measured.metrics
    assert (metrics["completed"], metrics["failed"], metrics["success_rate"]) == (20, 0, 1.0)
    assert (metrics["total_input_tokens"], metrics["total_output_tokens"]) == (100, 140)
    assert metrics["output_throughput"] == pytest.approx(140 / measured.duration)
    assert all(len(response.itls) == 6 and response.status == 200 for response in measured.responses)
    assert not measured.stopped_early


def test_times_agree_with_what_the_server_wrote() -> None:
    with Serving(stream(ttft=0.08, itl=0.03)) as server:
        measured = run(server, small(num_prompts=3, output_len=5, max_concurrency=1))
    assert len(server.asked) == 3
    for asked, response in zip(server.asked, measured.responses, strict=True):
        # The client cannot see an event before it is written, and sees each write as an event of its own.
        assert 0.08 <= asked.written[0] - asked.received <= response.ttft
        assert response.start <= asked.received
        first, last = response.start + response.ttft, response.start + response.latency
        assert first >= asked.written[0]
        assert asked.written[4] <= last < asked.written[4] + 0.5
        assert response.latency == pytest.approx(response.ttft + sum(response.itls))
        assert len(response.itls) == 4


def test_a_second_connection_is_open_before_the_clock_starts() -> None:
    with Serving(stream(ttft=0.05)) as server:
        measured = run(server, small(num_prompts=8))
    assert server.connections == measured.facts["connections"] == 8
    assert measured.facts["max_in_flight"] == server.most_active == 8


def test_max_concurrency_holds_and_connections_are_used_again() -> None:
    with Serving(stream(ttft=0.02)) as server:
        measured = run(server, small(num_prompts=12, max_concurrency=3))
    assert server.most_active == measured.facts["max_in_flight"] == 3
    assert server.connections == 3
    assert sum(response.queue_time > 0.01 for response in measured.responses) >= 9


def test_one_event_may_hold_several_tokens() -> None:
    with Serving(stream(events=4, tokens_each=3)) as server:
        measured = run(server, small(output_len=12))
    assert measured.metrics["total_output_tokens"] == 48
    assert all(len(response.itls) == 3 for response in measured.responses)
    assert measured.facts["guessed_output_lens"] == 0


def test_without_usage_events_are_counted_and_it_is_said() -> None:
    with Serving(stream(events=4, counted=False)) as server:
        measured = run(server)
    assert [response.output_len for response in measured.responses] == [4] * 4
    assert [response.prompt_len for response in measured.responses] == [5] * 4
    assert measured.facts["guessed_output_lens"] == measured.facts["guessed_input_lens"] == 4


def test_usage_in_the_last_event_counts() -> None:
    last = {"choices": [{"text": "", "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "completion_tokens": 17}}
    with Serving(raw(HEAD + chunk(token() + event(last) + DONE) + END)) as server:
        measured = run(server)
    assert {(response.prompt_len, response.output_len) for response in measured.responses} == {(9, 17)}


def test_latency_ends_with_the_last_event_that_has_choices() -> None:
    async def answer(asked: Asked, wire: Wire) -> None:
        await wire.write(HEAD + chunk(token()))
        await asyncio.sleep(0.3)
        await wire.write(chunk(b": ping\n\n" + usage(3, 1) + DONE) + END)

    with Serving(answer) as server:
        measured = run(server, small(num_prompts=1))
    (response,) = measured.responses
    assert response.success
    assert response.latency == response.ttft < 0.25
    assert measured.duration > 0.29


def test_the_client_reports_itself() -> None:
    with Serving(stream()) as server:
        facts = run(server).facts
    assert facts["client_cpu_s"] > 0
    assert facts["loop_lag_ms"] >= 0
    assert (facts["seed"], facts["timed_out"], facts["connect_failures"]) == (0, False, {})
    assert len(facts["prompts_sha256"]) == 64
    json.dumps(facts)


def test_what_the_server_counts_meanwhile_is_read() -> None:
    asked: list[int] = []

    def metrics() -> str:
        asked.append(1)
        return f'vllm:prefix_cache_queries_total{{model_name="m"}} {100 * len(asked)}\n' + (
            f'vllm:prefix_cache_hits_total{{model_name="m"}} {25 * len(asked)}\n'
        )

    with Serving(stream(), metrics=metrics) as server:
        facts = run(server).facts
    assert len(asked) == 2  # before and after
    assert facts["counters"] == {"prefix_queries": 100, "prefix_hits": 25}


def test_honest_figures_and_what_limited_the_run_come_with_it() -> None:
    with Serving(stream(ttft=0.05)) as server:
        measured = run(server, small(num_prompts=6, max_concurrency=2))
    assert measured.honest["true_max_in_flight"] == 2
    assert 50 <= measured.honest["mean_ttft_from_write_ms"] == pytest.approx(measured.metrics["mean_ttft_ms"])
    assert measured.facts["limited_by"]["what"] in ("concurrency", "server")
    assert "2 requests were in flight at a time" in measured.facts["limited_by"]["why"]


def test_another_seed_asks_other_prompts() -> None:
    with Serving(stream()) as server:
        prompts = [run(server, seed=seed).facts["prompts_sha256"] for seed in (1, 1, 2)]
    assert prompts[0] == prompts[1] != prompts[2]


def test_the_garbage_collector_is_as_before() -> None:
    with Serving(stream()) as server:
        run(server)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


# -- what is asked


def test_the_body_of_a_completion() -> None:
    with Serving(stream()) as server:
        run(server, small(num_prompts=1), headers={"Authorization": "Bearer secret"})
    (asked,) = server.asked
    prompt = asked.body.pop("prompt")
    assert len(prompt.split()) == 5
    assert asked.body == {
        "model": "a-model", "temperature": 0.0, "repetition_penalty": 1.0, "max_tokens": 3, "logprobs": None,
        "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True,
    }  # fmt: skip
    assert asked.path == "/v1/completions"
    assert asked.headers["authorization"] == "Bearer secret"
    assert asked.headers["host"] == f"127.0.0.1:{server.port}"


def test_the_body_of_a_chat() -> None:
    with Serving(stream()) as server:
        measured = run(server, small(num_prompts=1, endpoint="chat", ignore_eos=False, extra_body={"top_p": 0.9}))
    (asked,) = server.asked
    (message,) = asked.body.pop("messages")
    assert message["role"] == "user"
    assert message["content"][0]["type"] == "text"
    assert asked.body == {
        "model": "a-model", "temperature": 0.0, "max_completion_tokens": 3, "stream": True,
        "stream_options": {"include_usage": True}, "top_p": 0.9,
    }  # fmt: skip
    assert asked.path == "/v1/chat/completions"
    assert measured.metrics["completed"] == 1


def test_extra_body_is_laid_over_and_none_removes() -> None:
    with Serving(stream()) as server:
        run(server, small(num_prompts=1, extra_body={"temperature": None, "repetition_penalty": 1.1}))
    assert "temperature" not in server.asked[0].body
    assert server.asked[0].body["repetition_penalty"] == 1.1


@pytest.mark.parametrize("path", ["/base/path", "/base/path/", "/base/path/v1", "/base/path/v1/"])
def test_a_base_url_may_have_a_path(path: str) -> None:
    with Serving(stream()) as server:
        measured = run(server.url + path)
    assert measured.metrics["success_rate"] == 1
    assert {asked.path for asked in server.asked} == {"/base/path/v1/completions"}


def test_several_urls_are_dealt_in_turn() -> None:
    with Serving(stream()) as one, Serving(stream()) as two:
        measured = Client().run([one.url, two.url], "m", small(num_prompts=7), seed=0, timeout_s=30)
    assert (len(one.asked), len(two.asked)) == (4, 3)
    assert measured.metrics["completed"] == 7


def test_https() -> None:
    serve = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serve.load_cert_chain(DATA / "loopback.pem")
    trust = ssl.create_default_context(cafile=str(DATA / "loopback.pem"))
    with Serving(stream(ttft=0.02, itl=0.005), tls=serve) as server:
        measured = run(server, small(num_prompts=12, max_concurrency=4, output_len=20), Client(tls=trust))
        refused = run(server)
    assert measured.metrics["total_output_tokens"] == 240
    assert measured.facts["connections"] == 4
    assert "certificate" in only_error(refused)


def test_ipv6() -> None:
    try:
        with Serving(stream(), host="::1") as server:
            measured = run(f"http://[::1]:{server.port}")
            assert measured.metrics["success_rate"] == 1
    except OSError:  # a machine without IPv6: the address is still read right, and the failure told as one
        assert "::1" in only_error(run("http://[::1]:9")) or socket.has_ipv6 is False


# -- when it is sent


def test_a_rate_spreads_the_requests() -> None:
    with Serving(stream()) as server:
        measured = run(server, small(num_prompts=20, request_rate=40.0))
    received = [asked.received for asked in server.asked]
    assert measured.duration >= 0.5
    assert received[-1] - min(response.start for response in measured.responses) > 0.25
    assert measured.metrics["completed"] == 20


@given(st.integers(1, 200), st.floats(0.01, 1e4), st.floats(1e-3, 1e3), st.integers())
def test_arrivals_end_at_count_over_rate(count: int, rate: float, burstiness: float, seed: int) -> None:
    due = arrivals(count, rate, burstiness, seed)
    assert len(due) == count
    assert due == sorted(due)
    assert due[0] >= 0
    assert due[-1] == count / rate
    assert due == arrivals(count, rate, burstiness, seed)


def test_burstiness_shapes_the_gaps() -> None:
    def unevenness(burstiness: float) -> float:
        due = arrivals(4000, 10.0, burstiness, 3)
        gaps = [later - earlier for earlier, later in zip([0.0, *due], due, strict=False)]
        return sum((gap - 0.1) ** 2 for gap in gaps) / len(gaps) / 0.01  # 1/burstiness for a gamma distribution

    assert unevenness(1.0) == pytest.approx(1.0, rel=0.2)
    assert unevenness(4.0) == pytest.approx(0.25, rel=0.2)
    assert unevenness(float("inf")) == pytest.approx(0, abs=1e-9)
    assert arrivals(3, None, 1.0, 0) == [0, 0, 0]
    with pytest.raises(ValueError, match="above 0"):
        arrivals(3, 0.0, 1.0, 0)


# -- whatever the server does


FAULTS = {
    "status 500": (
        raw(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 16\r\n\r\n{'detail': 'no'}", close=False),
        "HTTP 500 Internal Server Error: {'detail': 'no'}",
    ),
    "a redirect": (raw(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /\r\ncontent-length: 0\r\n\r\n"), "HTTP 307"),
    "closed at once": (raw(), "closed the connection without a reply"),
    "closed in the head": (raw(b"HTTP/1.1 200 O"), "in the middle of the reply"),
    "closed in the stream": (raw(HEAD, chunk(token()), pause=0.01), "in the middle of the reply"),
    "not HTTP": (raw(b"SSH-2.0-OpenSSH_9.2\r\n"), "not HTTP/1.x"),
    "a head without end": (raw(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000), "head is longer"),
    "a bad chunk size": (raw(HEAD + b"zz\r\n"), "chunk's size"),
    "a negative chunk size": (raw(HEAD + b"-1\r\n"), "chunk's size"),
    "a chunk longer than said": (raw(HEAD + b"1\r\nabc"), "longer than it says"),
    "a line without end between chunks": (raw(HEAD + b"1" * 5000), "longer than 1024"),
    "an event without end": (raw(HEAD + chunk(b"data: " + b"x" * 2_000_000)), "event is longer"),
    "an event that is no JSON": (raw(HEAD + chunk(b"data: {oops\n\n")), "not a JSON object: {oops"),
    "an event nested too deep": (raw(HEAD + chunk(b"data: " + b"[" * 100_000 + b"\n\n")), "not a JSON object"),
    "an error in the stream": (
        raw(HEAD + chunk(token() + event({"error": {"message": "engine died"}}) + DONE) + END),
        "engine died",
    ),
    "a web page": (
        raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>"),
        "without a single event with choices (text/html)",
    ),
    "no token": (raw(HEAD + chunk(usage(3, 0) + DONE) + END), "without a single event"),
    "a bad length": (raw(b"HTTP/1.1 200 OK\r\ncontent-length: 1e3\r\n\r\n"), "content-length"),
    "an end that could be a crash": (
        raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + token()),
        "without [DONE] or a finish reason",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_fail_the_request_and_say_why(name: str) -> None:
    answer, why = FAULTS[name]
    with Serving(answer) as server:
        measured = run(server)
    assert why in only_error(measured)
    assert len(server.asked) == 4  # nothing is tried twice
    assert measured.facts["errors"] == {only_error(measured): 4}
    assert not measured.facts["timed_out"]


WHOLE = {
    "content-length": token() + usage(5, 1) + DONE,
    "closed at the end": token() + DONE,
    "a finish reason and no [DONE]": token(finish="stop"),
    "CR LF": (token() + DONE).replace(b"\n", b"\r\n"),
    "no blank line at the end": (token() + DONE).rstrip(),
    "comments and other fields": b": ping\n\nevent: x\nid: 1\n\nretry: 5\n" + token() + b":\n\n" + DONE,
    "no space after the colon": (token() + DONE).replace(b"data: ", b"data:"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_every_proper_form_of_a_stream_is_understood(name: str) -> None:
    text = WHOLE[name]
    length = b"content-length: %d\r\n" % len(text) if name == "content-length" else b""
    reply = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + length + b"\r\n" + text
    with Serving(raw(reply)) as server:
        measured = run(server)
    assert measured.metrics["completed"] == 4, measured.facts["errors"]
    assert measured.metrics["total_output_tokens"] == 4


def test_a_stream_cut_after_done_is_whole() -> None:
    with Serving(raw(HEAD + chunk(token() + DONE))) as server:
        assert run(server).metrics["completed"] == 4


def test_an_interim_reply_is_passed_over() -> None:
    with Serving(raw(b"HTTP/1.1 100 Continue\r\n\r\n", HEAD + chunk(token() + DONE) + END, pause=0.01)) as server:
        assert run(server).metrics["completed"] == 4


def test_some_requests_fail_and_the_rest_count() -> None:
    async def answer(asked: Asked, wire: Wire) -> bool | None:
        if asked.number % 4 == 1:
            wire.reset()
            return False
        return await stream()(asked, wire)

    with Serving(answer) as server:
        measured = run(server, small(num_prompts=20, max_concurrency=2))
    assert (measured.metrics["completed"], measured.metrics["failed"]) == (15, 5)
    assert measured.metrics["total_output_tokens"] == 45


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        measured = run(f"http://127.0.0.1:{port}", small(num_prompts=50))
    assert f"cannot connect to 127.0.0.1:{port}: ConnectionRefusedError" in only_error(measured)
    assert measured.facts["connect_failures"]["ConnectionRefusedError"] >= 50


def test_the_name_of_the_server_does_not_exist() -> None:
    assert "cannot connect to a..b:8000: UnicodeError" in only_error(run("http://a..b:8000"))


def test_a_server_that_never_answers_ends_with_the_pass() -> None:
    began = time.monotonic()
    with Serving(raw(close=False, pause=60)) as server:
        measured = run(server, timeout_s=0.5)
    assert "had not ended within 0.5 s" in only_error(measured)
    assert measured.facts["timed_out"]
    assert not measured.stopped_early
    assert 0.5 <= time.monotonic() - began < 20


def test_a_server_that_never_accepts_ends_with_the_pass() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        measured = run(f"http://127.0.0.1:{deaf.getsockname()[1]}", small(num_prompts=30), timeout_s=0.7)
    assert "had not ended within 0.7 s" in only_error(measured)


@pytest.mark.parametrize("piece", [b"x", b": ping\n\n", token()], ids=["bytes", "comments", "tokens"])
def test_a_trickle_without_end_ends_with_the_pass(piece: bytes) -> None:
    with Serving(raw(HEAD, *[chunk(piece)] * 10_000, pause=0.01)) as server:
        measured = run(server, timeout_s=0.6)
    assert "had not ended within 0.6 s" in only_error(measured)


def test_a_flood_without_end_ends_with_the_pass() -> None:
    with Serving(raw(HEAD, *[chunk(token() * 500)] * 100_000)) as server:
        measured = run(server, small(num_prompts=2), timeout_s=0.8)
    assert "had not ended within 0.8 s" in only_error(measured)
    assert measured.responses[0].itls


def test_a_request_has_a_limit_of_its_own() -> None:
    async def answer(asked: Asked, wire: Wire) -> None:
        await stream(ttft=30 if asked.number == 0 else 0)(asked, wire)

    with Serving(answer) as server:
        measured = run(server, small(max_concurrency=1), Client(request_timeout_s=0.3))
    assert [response.success for response in measured.responses] == [False, True, True, True]
    assert measured.responses[0].error == "no whole answer within 0.3 s"


def test_a_connection_closed_while_idle_is_replaced() -> None:
    async def answer(asked: Asked, wire: Wire) -> None:
        await stream()(asked, wire)
        await asyncio.sleep(0.05)
        if asked.number < 3:
            wire.reset()  # the reply was whole; the next request needs another connection

    with Serving(answer) as server:
        measured = run(server, small(num_prompts=6, request_rate=4.0, burstiness=float("inf"), max_concurrency=1))
    assert measured.metrics["completed"] == 6
    assert server.connections >= 4


def test_a_request_lost_with_an_idle_connection_is_sent_again_once() -> None:
    async def answer(asked: Asked, wire: Wire) -> bool | None:
        return False if asked.number < losses else await stream()(asked, wire)

    late = small(num_prompts=1, request_rate=0.8, burstiness=float("inf"))  # due after 1.25 s of an idle connection
    outcomes = []
    for losses in (1, 2):  # noqa: B007
        with Serving(answer) as server:
            measured = run(server, late)
        outcomes.append((measured.metrics["completed"], measured.metrics["failed"], measured.facts["resent"]))
        assert len(server.asked) == 2
    assert outcomes == [(1, 0, 1), (0, 1, 1)]


# -- stopping


def test_stop_ends_the_pass_at_once() -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    with Serving(stream(ttft=30)) as server:
        measured = run(server, small(num_prompts=10, max_concurrency=2), stop=stop)
    assert measured.stopped_early
    assert time.monotonic() - began < 10
    assert len(measured.responses) == 10
    assert only_error(measured) == "the pass was stopped"


def test_on_event_sees_progress_and_may_end_the_pass() -> None:
    seen: list[Event] = []

    def on_event(event: Event) -> bool:
        seen.append(event)
        return event.output_tokens > 20

    with Serving(stream(itl=0.02, events=100_000)) as server:
        measured = run(server, small(num_prompts=2), on_event=on_event)
    assert measured.stopped_early
    assert seen[-1].output_tokens > 20
    assert all(event.total == 2 and event.completed == event.failed == 0 for event in seen)
    assert all(later.elapsed - event.elapsed > 0.15 for event, later in pairwise(seen))
    assert measured.responses[0].itls  # what came is kept


def test_a_progress_function_that_raises_ends_the_pass() -> None:
    def on_event(event: Event) -> None:
        raise RuntimeError("mine")

    with Serving(stream(ttft=30)) as server, pytest.raises(RuntimeError, match="mine"):
        run(server, on_event=on_event)
    assert gc.isenabled()


# -- before anything is sent


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8000", "ftp://x", "http://", "http://x:notaport", "http://u:p@x", "http://x?a=b", "http://a b"],
)
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(SpecError, match="http"):
        run(url)


def test_no_url() -> None:
    with pytest.raises(SpecError, match="at least one URL"):
        Client().run([], "m", small(), seed=0, timeout_s=1)


@pytest.mark.parametrize("headers", [{"a": "b\r\nc: d"}, {"a b": "c"}, {"": "c"}, {"a": "\u20ac"}])
def test_headers_cannot_smuggle(headers: dict[str, str]) -> None:
    with Serving(stream()) as server, pytest.raises(SpecError, match="header"):
        run(server, headers=headers)
    assert server.asked == []


def test_no_request_is_no_run() -> None:
    with Serving(stream()) as server:
        measured = run(server, small(num_prompts=0))
    assert measured.responses == ()
    assert measured.metrics["success_rate"] == 0


def test_more_files_than_the_process_may_open() -> None:
    with pytest.raises(TunerError, match="lower max_concurrency or raise the hard limit"):
        allow_files(2**31, certain=True)
    allow_files(10, certain=True)


# -- the parsers, whichever way the bytes are cut


REPLY = HEAD + b"".join(chunk(part) for part in (token(), token(" \u00e9"), usage(1, 2) + DONE)) + END


@given(st.lists(st.integers(0, len(REPLY)), max_size=12))
def test_a_reply_cut_anywhere_is_the_same_reply(cuts: list[int]) -> None:
    reply, events, found = Reply(), Events(), []
    edges = [0, *sorted(cuts), len(REPLY)]
    for start, end in pairwise(edges):
        found += events.feed(reply.feed(REPLY[start:end]))
    assert reply.complete
    assert reply.keep_alive
    assert [payload[:12] for payload in found] == [b'{"id": "x", '] * 2 + [b'{"choices": ', b"[DONE]"]


@given(st.lists(st.binary(max_size=50), max_size=8))
def test_garbage_is_refused_or_awaited_and_nothing_else(pieces: list[bytes]) -> None:
    reply = Reply()
    with suppress(Garbled):
        for piece in pieces:
            reply.feed(piece)
    assert not reply.complete


@given(st.lists(st.sampled_from([b"data: a", b"data:b", b": c", b"event: d", b"\n", b"\r\n", b"\r", b"\n\n"])))
def test_events_do_not_depend_on_the_cuts(parts: list[bytes]) -> None:
    text = b"".join(parts)
    whole, single = Events(), Events()
    at_once = whole.feed(text) + whole.end()
    by_byte = [found for n in range(len(text)) for found in single.feed(text[n : n + 1])] + single.end()
    assert at_once == by_byte


def test_a_target_says_where_it_is() -> None:
    assert Target.parse("https://example.org/x/v1").authority == "example.org"
    assert Target.parse("http://[::1]:80").authority == "[::1]"
    assert Target.parse("http://example.org:8000").path("/v1/chat/completions") == "/v1/chat/completions"

"""Odd streams over real sockets, cut at any byte."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers import DONE, END, HEAD, Asked, Serving, Wire, chunk, event, raw, token, usage
from tuner.benchmarks import FAILURES, Request, Response, Run, Workload
from tuner.benchmarks.exchange import Exchange, Tally
from tuner.benchmarks.generated import Kept, has_text
from tuner.benchmarks.sse import single_event, whole_events
from tuner.benchmarks.streaming import Client


def run(server: Serving, client: Client | None = None, **changes: Any) -> Run:
    workload = Workload(**{"num_prompts": 3, "input_len": 5, "output_len": 3, **changes})
    return (client or Client(keep_text=True)).run([server.url], "a-model", workload, seed=0, timeout_s=30)


def delta(**parts: Any) -> bytes:
    return event({"id": "x", "choices": [{"index": 0, "delta": parts, "finish_reason": None}]})


def answered(*pieces: bytes) -> Response:
    """What a client makes of one reply, read piece by piece at the seconds 1, 2, 3, ... of a pass."""

    async def main() -> Response:
        over = asyncio.get_running_loop().create_future()
        exchange = Exchange(Request("a prompt", 2, 10), Tally(), over, keep_text=True)
        exchange.send(0.0, lambda: None)
        start = exchange.start
        for number, piece in enumerate(pieces):
            exchange.feed(piece, start + number + 1)
        if not exchange.finished:
            exchange.lost(None)
        return exchange.response()

    return asyncio.run(main())


CHAT = b"".join(
    chunk(part)
    for part in (
        delta(role="assistant", content=""),
        delta(reasoning_content="Let me \u201cthink\u201d"),
        b": ping\n\n",
        delta(reasoning=" more"),
        delta(content="H\u00e9llo\n\\"),
        delta(content=None, tool_calls=[{"index": 0, "function": {"arguments": '{"a": 1}'}}]),
        usage(7, 6) + DONE,
    )
)
REPLY = HEAD + CHAT + END


@settings(max_examples=200)
@given(st.lists(st.integers(0, len(REPLY)), max_size=12))
def test_wherever_a_reply_is_cut_the_answer_is_the_same(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(REPLY)]
    response = answered(*(REPLY[start:end] for start, end in pairwise(edges) if end > start))
    assert response.success, response.error
    assert (response.prompt_len, response.output_len, response.counted_by) == (7, 6, "server")
    assert len(response.itls) == 4
    assert response.text == 'Let me \u201cthink\u201d moreH\u00e9llo\n\\{"a": 1}'
    assert 0 < response.ttft <= response.ttft_text <= response.latency <= response.usage_latency <= response.end
    assert response.ttft + sum(response.itls) == pytest.approx(response.latency)


def test_an_event_has_the_time_of_the_read_that_brought_it() -> None:
    first, rest = HEAD + chunk(delta(role="assistant")), chunk(delta(content="a")) + chunk(delta(content="b"))
    response = answered(first, rest, chunk(usage(1, 2) + DONE), END)
    assert (response.ttft, response.ttft_text, list(response.itls)) == (1, 2, [1, 0])
    assert (response.latency, response.usage_latency, response.end) == (2, 3, 4)


def test_the_short_cuts_take_whole_events_and_nothing_else() -> None:
    one, two = chunk(token(" a")), chunk(token(" b"))
    assert single_event(one) == token(" a")[6:-2]
    assert single_event(one + two) == b""
    assert whole_events(one + two + END) == ([token(" a")[6:-2], token(" b")[6:-2]], END)
    assert whole_events(one + two[:9]) == ([token(" a")[6:-2]], two[:9])
    for odd in (
        chunk(token(" a") + token(" b")),  # two events in a chunk
        chunk(b": ping\n\n"),
        chunk(b"event: x\n" + token(" a")),
        chunk(b"data: a\ndata: b\n\n"),
        chunk(token(" a").replace(b"\n", b"\r\n")),
        b"3" + one[1:],  # another size than it has
        b"+" + one[1:],
        one[:-2],
        b"",
    ):
        assert single_event(odd) == b"", odd
        assert whole_events(odd) == ([], odd), odd


@given(st.lists(st.sampled_from([chunk(token(" a")), chunk(token()), chunk(b": x\n\n"), END, b"\r\n", b"4\r\n"])))
def test_the_short_cut_agrees_with_the_long_way(parts: list[bytes]) -> None:
    text = b"".join(parts)
    whole, single = answered(HEAD, text), answered(HEAD, *(bytes([byte]) for byte in text))
    assert whole.error.partition("(")[0] == single.error.partition("(")[0]
    if whole.success:
        assert (len(whole.itls), whole.text) == (len(single.itls), single.text)


@given(st.lists(st.text(max_size=8)))
def test_text_is_kept_as_it_was_generated(texts: list[str]) -> None:
    events = []
    for number, text in enumerate(texts):
        message = {"choices": [{"text": text} if number % 2 else {"delta": {"content": text}}]}
        events.append(
            json.dumps(message, ensure_ascii=number % 3 == 0, separators=(",", ":")).encode("utf-8", "replace")
        )
    several, single = Kept(), Kept()
    several.add(events)
    for payload in events:
        single.add([payload])
    assert several.text() == single.text() == "".join(texts)


def test_an_event_without_text_has_none() -> None:
    assert not has_text(delta(role="assistant", content=""))
    assert has_text(delta(reasoning="a"))
    assert not has_text(token(""))


def test_tokens_that_the_server_does_not_count_are_counted_by_the_tokenizer(tokenizer_file: str) -> None:
    text = [" alpha beta", " gamma", " delta epsilon zeta"]
    reply = HEAD + b"".join(chunk(token(piece)) for piece in text) + chunk(DONE) + END
    with Serving(raw(reply, close=False)) as server:
        measured = run(server, Client(), tokenizer=tokenizer_file)
        events = run(server, Client())
    assert [(r.output_len, r.counted_by) for r in measured.responses] == [(6, "tokenizer")] * 3
    assert measured.metrics["total_output_tokens"] == 18
    assert [(r.output_len, r.counted_by) for r in events.responses] == [(3, "events")] * 3


@pytest.fixture
def tokenizer_file(tmp_path: Any) -> str:
    """A word is a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "the", "of", "and", "to", "in", "is", "was"]
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0} | {w: n + 1 for n, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return str(path)


def test_usage_in_every_event_counts_once() -> None:
    def counting(n: int) -> bytes:
        usage = {"prompt_tokens": 9, "completion_tokens": n}
        return chunk(event({"choices": [{"index": 0, "text": "w"}], "usage": usage}))

    with Serving(raw(HEAD + counting(2) + counting(4) + counting(6) + chunk(DONE) + END, close=False)) as server:
        measured = run(server)
    assert {(r.prompt_len, r.output_len, len(r.itls)) for r in measured.responses} == {(9, 6, 2)}


def test_what_the_server_found_in_its_prefix_cache() -> None:
    counted = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 8}}
    reply = HEAD + chunk(token()) + chunk(event({"choices": [], "usage": counted}) + DONE) + END
    with Serving(raw(reply, close=False)) as server:
        assert {response.cached_len for response in run(server).responses} == {8}


STATUS = b"HTTP/1.1 %d Oh\r\ncontent-length: 2\r\n\r\nno"
CLASSES = {
    "rejected": STATUS % 400,
    "overloaded": STATUS % 429,
    "server-error": STATUS % 500,
    "broken": HEAD + chunk(token()),
    "no-tokens": HEAD + chunk(usage(1, 1) + DONE) + END,
}


@pytest.mark.parametrize("failure", CLASSES)
def test_failures_have_a_class(failure: str) -> None:
    with Serving(raw(CLASSES[failure])) as server:
        measured = run(server)
    assert {response.failure for response in measured.responses} == {failure}
    assert failure in FAILURES
    assert all(response.error for response in measured.responses)


def test_an_error_in_the_stream_is_the_servers() -> None:
    reply = HEAD + chunk(token() + event({"error": {"message": "died"}})) + END
    with Serving(raw(reply)) as server:
        assert {response.failure for response in run(server).responses} == {"server-error"}


def test_a_stalled_stream_ends_as_its_requests_failure() -> None:
    async def answer(asked: Asked, wire: Wire) -> None:
        await wire.write(HEAD + chunk(token()))
        if asked.number == 0:
            for _ in range(300):  # comments are no tokens
                await wire.write(chunk(b": ping\n\n"))
                await asyncio.sleep(0.1)
        await wire.write(chunk(usage(5, 1) + DONE) + END)

    with Serving(answer) as server:
        measured = run(server, Client(stall_s=0.5), max_concurrency=1)
    assert [response.failure for response in measured.responses] == ["stalled", "", ""]
    assert measured.responses[0].error == "the stream brought no token for 0.5 s"
    assert measured.duration < 10


@given(st.binary(max_size=60))
def test_no_bytes_break_the_client(data: bytes) -> None:
    response = answered(HEAD + data)
    assert response.success or response.failure in FAILURES

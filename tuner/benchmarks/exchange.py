"""One request and what comes of it: bytes in, a `Response` out. Knows no socket."""

from __future__ import annotations

import asyncio
import json
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

from tuner.benchmarks import Request, Response
from tuner.benchmarks.generated import Kept, has_text
from tuner.benchmarks.http import Garbled, Reply
from tuner.benchmarks.sse import Events, single_event, whole_events

MAX_ERROR_BODY = 2048
OVERLOADED = (429, 503)
EVENT_END = b"\n\n\r\n"  # in a chunk of its own


@dataclass
class Tally:
    """What a pass counts while it runs. Shared by its exchanges, all in one thread.

    `most_tokens`: the most tokens of prompts and answers that the pass can end with.
    """

    tokens: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    done: int = 0
    failed: int = 0
    most_tokens: float = 0.0


class Exchange:
    """One request on its way. Made when the request is due, `sent` when its bytes are about to be written.

    An *event* is a message with non-empty `choices`; its text may be empty. Its time is that of the read which brought
    it: events that come bundled have the same, and the gaps between them are 0. `most` are the most tokens that the
    request and its answer can have.
    """

    __slots__ = (
        "_done_marker", "_error", "_events", "_kept", "_last_payload", "_lost", "_refusal", "_request", "_steady",
        "_tally", "_usage", "connect_time", "end", "error", "failure", "finished", "itls", "last", "most", "over",
        "queue_time", "reply", "start", "target", "ttft", "ttft_text", "usage_latency",
    )  # fmt: skip

    def __init__(
        self,
        request: Request,
        tally: Tally,
        over: asyncio.Future[None],
        *,
        most: float = 0.0,
        keep_text: bool = False,
    ) -> None:
        self.over = over
        self.reply = Reply()
        self.start = self.last = self.end = self.ttft = self.ttft_text = self.usage_latency = 0.0
        self.queue_time = self.connect_time = 0.0
        self.itls = array("d")
        self.finished = False
        self.error = self.failure = ""
        self.most = most
        self.target = 0
        self._request = request
        self._tally = tally
        self._events = Events()
        self._usage: dict[str, Any] = {}
        self._last_payload = b""
        self._done_marker = False
        self._refusal = b""
        self._error = ""
        self._lost = False
        self._steady = False  # whether the next byte begins a chunk and an event
        self._kept = Kept() if keep_text else None

    @property
    def sent(self) -> bool:
        return self.start > 0

    @property
    def success(self) -> bool:
        return self.finished and not self.error

    @property
    def unanswered(self) -> bool:
        """Whether the connection was lost before a byte of the answer."""
        return self.finished and bool(self.error) and self._lost and not self.reply.started

    @property
    def input_tokens(self) -> int:
        """As the server counted them; 0 if it did not."""
        return _count(self._usage.get("prompt_tokens"))

    @property
    def output_tokens(self) -> int:
        """As the server counted them; 0 if it did not."""
        return _count(self._usage.get("completion_tokens"))

    @property
    def longer_than_asked(self) -> bool:
        """Whether the server counted more tokens than the request allowed."""
        return self.output_tokens > self._request.output_len

    @property
    def counted_as_none(self) -> bool:
        """Whether text came of which the server counted no token, or which it counted below zero."""
        count = self._usage.get("completion_tokens")
        return self.ttft > 0 and isinstance(count, int | float) and count < 1

    def send(self, due: float, write: Callable[[], None]) -> None:
        """Start the clock and write the request, which was due at `due`."""
        self._tally.in_flight += 1
        self._tally.max_in_flight = max(self._tally.max_in_flight, self._tally.in_flight)
        self.start = self.last = self.end = perf_counter()
        self.queue_time = max(0.0, self.start - due)
        write()

    def feed(self, data: bytes, at: float) -> None:
        """Bytes came from the connection, read at `at`."""
        if self.finished:
            return
        self.end = at
        try:
            if self._steady and (event := single_event(data)):
                self._take((event,), at)
            else:
                self._feed_more(data, at)
        except Garbled as fault:
            self.finish(str(fault), "broken")

    def lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self._lost = True
        try:
            if error is not None:
                raise Garbled(f"the connection broke: {type(error).__name__}: {error}")
            self.reply.end()
            self._end_of_stream()
        except Garbled as fault:
            self.finish(str(fault), "broken")

    def finish(self, error: str = "", failure: str = "") -> None:
        """Nothing more will be taken. The first call decides; an answer that had said [DONE] is whole."""
        if self.finished:
            return
        self.finished = True
        self._settle_usage()
        if error and not self._whole_already():
            self.error, self.failure = error, failure
            self.end = perf_counter() if self.sent else 0.0
        tally = self._tally
        tally.in_flight -= self.sent
        tally.done += 1
        tally.failed += bool(self.error)
        tally.most_tokens += self._tokens_in_the_end() - self.most
        if not self.over.done():
            self.over.set_result(None)

    def withdraw(self) -> None:
        """This exchange does not count: its request is sent again."""
        tally = self._tally
        tally.done -= 1
        tally.failed -= bool(self.error)
        tally.most_tokens += self.most - self._tokens_in_the_end()

    def response(self) -> Response:
        """What came, as far as it came. Tokens the server did not count are the dataset's and one for each event."""
        request = self._request
        if not self.sent:
            return Response(
                False,
                prompt_len=request.prompt_len,
                error=self.error or "never sent",
                failure=self.failure or "unfinished",
                asked_prompt_len=request.prompt_len,
                asked_output_len=request.output_len,
            )
        events = len(self.itls) + (self.ttft > 0)
        counted: Literal["server", "events"] = "server" if self.output_tokens else "events"
        return Response(
            success=self.success,
            start=self.start,
            ttft=self.ttft,
            itls=self.itls,
            latency=self.last - self.start if self.ttft else 0.0,
            prompt_len=self.input_tokens or request.prompt_len,
            output_len=self.output_tokens or events,
            status=self.reply.status,
            error=self.error,
            queue_time=self.queue_time,
            text=self._kept.text() if self._kept else "",
            failure=self.failure,
            connect_time=self.connect_time,
            usage_latency=self.usage_latency,
            end=self.end - self.start,
            ttft_text=self.ttft_text,
            counted_by=counted,
            cached_len=self._cached(),
            target=self.target,
            asked_prompt_len=request.prompt_len,
            asked_output_len=request.output_len,
        )

    def _feed_more(self, data: bytes, at: float) -> None:
        """Anything but a single event: the head, several events, parts of one, the end."""
        if self.reply.status is None and (after_head := data.find(b"\r\n\r\n") + 4) > 3:
            self._feed_part(data[:after_head], at)
            data = data[after_head:]
        elif not self._steady and (after_event := data.find(EVENT_END) + len(EVENT_END)) >= len(EVENT_END):
            self._feed_part(data[:after_event], at)
            data = data[after_event:]
        if self._steady:
            payloads, data = whole_events(data)
            self._take(payloads, at)
        if data:
            self._feed_part(data, at)

    def _feed_part(self, data: bytes, at: float) -> None:
        body = self.reply.feed(data)
        if body and self.reply.status == 200:
            self._take(self._events.feed(body), at)
        elif body and len(self._refusal) < MAX_ERROR_BODY:
            self._refusal += body[:MAX_ERROR_BODY]
        self._steady = self.reply.status == 200 and self.reply.between_chunks and self._events.between_events
        if self.reply.complete:
            self._end_of_stream()

    def _take(self, payloads: Sequence[bytes], at: float) -> None:
        events: list[bytes] = []
        for payload in payloads:
            # A JSON string cannot hold these bytes: its quotation marks are escaped.
            if b'"choices":[{' in payload or b'"choices": [{' in payload:
                events.append(payload)
            elif payload == b"[DONE]":
                self._done_marker = True
            elif self._other(payload, at):
                events.append(payload)
        if not events:
            return
        count = len(events)
        self._last_payload = events[-1]
        self._tally.tokens += count
        if not self.ttft_text and any(map(has_text, events)):
            self.ttft_text = at - self.start
        if self._kept is not None:
            self._kept.add(events)
        if self.ttft:
            self.itls.append(at - self.last)
        else:
            self.ttft = at - self.start
        if count > 1:
            self.itls.frombytes(bytes(8 * (count - 1)))  # so many zeros
        self.last = at

    def _other(self, payload: bytes, at: float) -> bool:
        """A message of another form; whether it is an event after all."""
        message = _parsed(payload)
        if message.get("choices"):
            return True
        if isinstance(usage := message.get("usage"), dict):
            self._usage = usage
            self.usage_latency = at - self.start
        elif "error" in message:
            self._error = f"the server reported in the stream: {_short(message['error'])}"
        return False

    def _end_of_stream(self) -> None:
        status = self.reply.status
        if status != 200:
            refusal = _short(self._refusal.decode("utf-8", "replace"))
            self.finish(f"HTTP {status} {self.reply.reason}: {refusal}".rstrip(": "), _refused(status))
            return
        self._take(self._events.end(), self.end)
        if self._error:
            self.finish(self._error, "server-error")
        elif not self.ttft:
            kind = self.reply.headers.get("content-type", "no content type")
            self.finish(f"HTTP 200 without a single event with choices ({kind})", "no-tokens")
        elif not (self._done_marker or self.reply.framed or _finish_reason(self._last_payload)):
            self.finish("the stream ended without [DONE] or a finish reason", "broken")
        else:
            self.finish()

    def _whole_already(self) -> bool:
        return self._done_marker and self.ttft > 0 and not self._error

    def _tokens_in_the_end(self) -> float:
        """Of a request that is over: none where it failed."""
        if self.error:
            return 0.0
        return (self.input_tokens or self._request.prompt_len) + (self.output_tokens or len(self.itls) + 1)

    def _settle_usage(self) -> None:
        """Of the usage message, or else of the last event: some servers send it there."""
        if self._usage or b'"usage"' not in self._last_payload:
            return
        try:
            found = _parsed(self._last_payload).get("usage")
        except Garbled:
            return
        if isinstance(found, dict):
            self._usage, self.usage_latency = found, self.last - self.start

    def _cached(self) -> int:
        details = self._usage.get("prompt_tokens_details")
        return _count(details.get("cached_tokens")) if isinstance(details, dict) else 0


def _refused(status: int | None) -> str:
    if status in OVERLOADED:
        return "overloaded"
    return "rejected" if status is not None and 300 <= status < 500 else "server-error"


def _parsed(payload: bytes) -> dict[str, Any]:
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise Garbled(f"an event is not a JSON object: {_short(payload.decode('utf-8', 'replace'))}")
    return message


def _finish_reason(payload: bytes) -> bool:
    return b'"finish_reason":"' in payload or b'"finish_reason": "' in payload


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else text[:200] + "…"

"""One request and what comes of it: bytes in, a `Response` out. Knows no socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from tuner.benchmarks import Request, Response
from tuner.benchmarks.http import Garbled, Reply
from tuner.benchmarks.sse import Events

MAX_ERROR_BODY = 2048


@dataclass
class Tally:
    """What a pass counts while it runs. Shared by its exchanges, all in one thread."""

    tokens: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    done: int = 0
    failed: int = 0


class Exchange:
    """One request on its way. Made when the request is due, `sent` when its bytes are about to be written.

    An *event* is a message with non-empty `choices`; its text may be empty. Each is stamped by its own reading of
    the clock, taken before anything is parsed, so tokens that come bundled are a few microseconds apart
    (as `vllm bench serve` does).
    """

    __slots__ = (
        "_done_marker", "_error", "_events", "_last_payload", "_lost", "_refusal", "_request", "_tally", "_usage",
        "error", "finished", "itls", "last", "over", "queue_time", "reply", "start", "ttft",
    )  # fmt: skip

    def __init__(self, request: Request, tally: Tally, over: asyncio.Future[None]) -> None:
        self.over = over
        self.reply = Reply()
        self.start = self.last = self.ttft = self.queue_time = 0.0
        self.itls: list[float] = []
        self.finished = False
        self.error = ""
        self._request = request
        self._tally = tally
        self._events = Events()
        self._usage: dict[str, Any] = {}
        self._last_payload = b""
        self._done_marker = False
        self._refusal = b""
        self._error = ""
        self._lost = False

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
        return _count(self._all_usage().get("prompt_tokens"))

    @property
    def output_tokens(self) -> int:
        """As the server counted them; 0 if it did not."""
        return _count(self._all_usage().get("completion_tokens"))

    @property
    def longer_than_asked(self) -> bool:
        """Whether the server counted more tokens than the request allowed."""
        return self.output_tokens > self._request.output_len

    @property
    def counted_as_none(self) -> bool:
        """Whether text came of which the server counted no token, or which it counted below zero."""
        count = self._all_usage().get("completion_tokens")
        return self.ttft > 0 and isinstance(count, int | float) and count < 1

    def send(self, due: float, write: Callable[[], None]) -> None:
        """Start the clock and write the request, which was due at `due`."""
        self._tally.in_flight += 1
        self._tally.max_in_flight = max(self._tally.max_in_flight, self._tally.in_flight)
        self.start = self.last = perf_counter()
        self.queue_time = max(0.0, self.start - due)
        write()

    def feed(self, data: bytes) -> None:
        """Bytes came from the connection."""
        try:
            body = self.reply.feed(data)
            if not body:
                pass
            elif self.reply.status == 200:
                for payload in self._events.feed(body):
                    self._take(payload)
            elif len(self._refusal) < MAX_ERROR_BODY:
                self._refusal += body[:MAX_ERROR_BODY]
            if self.reply.complete:
                self._end_of_stream()
        except Garbled as fault:
            self.finish(str(fault))

    def lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self._lost = True
        try:
            if error is not None:
                raise Garbled(f"the connection broke: {type(error).__name__}: {error}")
            self.reply.end()
            self._end_of_stream()
        except Garbled as fault:
            self.finish(str(fault))

    def finish(self, error: str = "") -> None:
        """Nothing more will be taken. The first call decides; an answer that had said [DONE] is whole."""
        if self.finished:
            return
        self.finished = True
        self.error = "" if error and self._whole_already() else error
        if self.sent:
            self._tally.in_flight -= 1
        self._tally.done += 1
        self._tally.failed += bool(self.error)
        if not self.over.done():
            self.over.set_result(None)

    def response(self) -> Response:
        """What came, as far as it came. Tokens the server did not count are the dataset's and one for each event.

        `text` is never kept: nothing here needs it.
        """
        if not self.sent:
            return Response(False, prompt_len=self._request.prompt_len, error=self.error or "never sent")
        return Response(
            success=self.success,
            start=self.start,
            ttft=self.ttft,
            itls=tuple(self.itls),
            latency=self.last - self.start if self.ttft else 0.0,
            prompt_len=self.input_tokens or self._request.prompt_len,
            output_len=self.output_tokens or len(self.itls) + (self.ttft > 0),
            status=self.reply.status,
            error=self.error,
            queue_time=self.queue_time,
        )

    def _take(self, payload: bytes) -> None:
        now = perf_counter()
        # A JSON string cannot hold these bytes: its quotation marks are escaped.
        if b'"choices":[{' in payload or b'"choices": [{' in payload:
            self._token(payload, now)
        elif payload == b"[DONE]":
            self._done_marker = True
        else:
            self._other(payload, now)

    def _token(self, payload: bytes, now: float) -> None:
        if self.ttft:
            self.itls.append(now - self.last)
        else:
            self.ttft = now - self.start
        self.last = now
        self._last_payload = payload
        self._tally.tokens += 1

    def _other(self, payload: bytes, now: float) -> None:
        message = _parsed(payload)
        if message.get("choices"):
            self._token(payload, now)
        elif isinstance(usage := message.get("usage"), dict):
            self._usage = usage
        elif "error" in message:
            self._error = f"the server reported in the stream: {_short(message['error'])}"

    def _end_of_stream(self) -> None:
        if self.reply.status != 200:
            refusal = _short(self._refusal.decode("utf-8", "replace"))
            self.finish(f"HTTP {self.reply.status} {self.reply.reason}: {refusal}".rstrip(": "))
            return
        for payload in self._events.end():
            self._take(payload)
        if self._error:
            self.finish(self._error)
        elif not self.ttft:
            kind = self.reply.headers.get("content-type", "no content type")
            self.finish(f"HTTP 200 without a single event with choices ({kind})")
        elif not (self._done_marker or self.reply.framed or _finish_reason(self._last_payload)):
            self.finish("the stream ended without [DONE] or a finish reason")
        else:
            self.finish()

    def _whole_already(self) -> bool:
        return self._done_marker and self.ttft > 0 and not self._error

    def _all_usage(self) -> dict[str, Any]:
        """Of the usage message, or else of the last event: some servers send it there."""
        if self._usage or b'"usage"' not in self._last_payload:
            return self._usage
        try:
            found = _parsed(self._last_payload).get("usage")
        except Garbled:
            return {}
        return found if isinstance(found, dict) else {}


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

"""A small HTTP/1.1 server on asyncio: keep-alive, bodies with a length or in chunks, chunked answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

_MAX_HEAD = 64 * 1024
_MAX_BODY = 64 * 1024 * 1024


@dataclass(frozen=True)
class Request:
    """One request; header names in lower case, `path` without the query."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    query: str = ""


class BadRequest(Exception):
    """Bytes that are no HTTP request this server takes."""


class Connection(asyncio.Protocol):
    """One client. `app` is called with each request in turn and answers through `reply` or `stream`."""

    def __init__(self, app: Callable[[Request, Connection], None], open_connections: set[Connection]) -> None:
        self._app = app
        self._open = open_connections
        self._buffer = b""
        self._keep_alive = True
        self._transport: asyncio.Transport
        self.busy = False
        self.closed = False
        self.on_close: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._open.discard(self)
        if self.on_close:
            self.on_close()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._advance()

    def reply(self, status: int, body: Any = "", media: str = "application/json") -> None:
        """A whole answer; anything but text is sent as JSON."""
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        head = self._head(status, media, f"content-length: {len(content)}")
        self._write(head + content)
        self._done()

    def stream(self, media: str = "text/event-stream; charset=utf-8") -> None:
        """Begin an answer in chunks."""
        self._write(self._head(200, media, "transfer-encoding: chunked"))

    def send(self, data: bytes) -> None:
        """One chunk of a streamed answer."""
        self._write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        """The streamed answer is complete."""
        self._write(b"0\r\n\r\n")
        self._done()

    def close(self) -> None:
        """After what was written is sent."""
        self._transport.close()

    def abort(self) -> None:
        """At once, whatever is still to be sent."""
        self._transport.abort()

    def _write(self, data: bytes) -> None:
        if not self.closed:
            self._transport.write(data)

    def _head(self, status: int, media: str, length: str) -> bytes:
        phrase = HTTPStatus(status).phrase
        keep = "" if self._keep_alive else "connection: close\r\n"
        fields = f"server: tuner-simulated\r\ncontent-type: {media}\r\n{length}\r\n{keep}"
        return f"HTTP/1.1 {status} {phrase}\r\n{fields}\r\n".encode()

    def _done(self) -> None:
        self.busy = False
        self.on_close = None
        if not self._keep_alive:
            self.close()
        elif self._buffer:
            self._advance()

    def _advance(self) -> None:
        """Hand on the next request, if one is complete and none is being answered."""
        if self.busy or self.closed:
            return
        try:
            parsed = parse(self._buffer)
        except BadRequest as error:
            self._keep_alive = False
            self.reply(400, {"error": str(error)})
            return
        if parsed is None:
            return
        request, used = parsed
        self._buffer = self._buffer[used:]
        self._keep_alive = request.headers.get("connection", "").lower() != "close"
        self.busy = True
        self._app(request, self)


def parse(data: bytes) -> tuple[Request, int] | None:
    """The first request in `data` and how many bytes it took; None while it is incomplete.

    Raises:
        BadRequest: not HTTP/1, or larger than this server takes.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > _MAX_HEAD:
            raise BadRequest("request head too large")
        return None
    first, *lines = data[:end].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1"):
        raise BadRequest("not an HTTP/1 request")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = _body(data, end + 4, headers)
    if body is None:
        return None
    path, _, query = words[1].partition("?")
    return Request(words[0], path, headers, body[0], query), body[1]


def _body(data: bytes, start: int, headers: dict[str, str]) -> tuple[bytes, int] | None:
    """The body and where it ends; None while it is incomplete."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return _chunks(data, start)
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > _MAX_BODY:
        raise BadRequest(f"content-length must be a number up to {_MAX_BODY}")
    end = start + int(length)
    return (data[start:end], end) if len(data) >= end else None


def _chunks(data: bytes, start: int) -> tuple[bytes, int] | None:
    parts: list[bytes] = []
    while True:
        line = data.find(b"\r\n", start)
        if line < 0:
            return None
        try:
            size = int(data[start:line].split(b";")[0], 16)
        except ValueError as error:
            raise BadRequest("a chunk without its size") from error
        start = line + 2 + size + 2
        if len(data) < start:
            return None
        if size == 0:
            return b"".join(parts), start
        parts.append(data[line + 2 : line + 2 + size])

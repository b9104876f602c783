"""Small HTTP servers for tests: real sockets on loopback, in a thread of their own, and a record of the truth.

`with Serving(answer) as server:` runs `answer(asked, wire)` for every request; what it writes goes out at once and is
recorded with the time (`time.perf_counter`, the client's own clock). An answer that returns False closes the
connection.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Asked:
    """One request as the server saw it. `written` holds the time before each write of the answer."""

    number: int
    connection: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    raw: bytes
    received: float
    written: list[float] = field(default_factory=list)


class Wire:
    """Where an answer goes."""

    def __init__(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        self._asked, self._writer = asked, writer

    async def write(self, data: bytes) -> None:
        self._asked.written.append(time.perf_counter())
        self._writer.write(data)
        await self._writer.drain()

    def reset(self) -> None:
        """Break the connection with a reset."""
        self._writer.transport.abort()


Answer = Callable[[Asked, Wire], Awaitable[bool | None]]


class Serving:
    """A server on a port of loopback (0: a free one), from `with` to its end.

    `/metrics` is answered with `metrics` (a text, or what gives one each time), or 404, and counts as nothing asked.
    """

    def __init__(
        self,
        answer: Answer,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        metrics: str | Callable[[], str] | None = None,
        port: int = 0,
    ) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.active = 0
        self.most_active = 0
        self._answer, self._tls, self._host, self._metrics = answer, tls, host, metrics
        self.port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    def __enter__(self) -> Serving:
        self._thread.start()
        starting = asyncio.start_server(self._serve, self._host, self.port, ssl=self._tls, backlog=2048)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _stop(self) -> None:
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        try:
            while (asked := await self._read(reader, writer, number)) is not None:
                self.active += 1
                self.most_active = max(self.most_active, self.active)
                try:
                    if await self._answer(asked, Wire(asked, writer)) is False:
                        return
                finally:
                    self.active -= 1
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> Asked | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, OSError, ssl.SSLError):
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines if line)}
        if first.startswith("GET ") and first.split(" ")[1].endswith("/metrics"):
            self.connections -= 1
            writer.write(_page(self._metrics() if callable(self._metrics) else self._metrics))
            return None
        payload = await reader.readexactly(int(headers.get("content-length", 0)))
        received = time.perf_counter()
        path = first.split(" ")[1]
        body = json.loads(payload) if payload else {}
        asked = Asked(len(self.asked), connection, path, headers, body, head + payload, received)
        self.asked.append(asked)
        return asked


def _page(text: str | None) -> bytes:
    body = (text or "").encode()
    status = b"404 Not Found" if text is None else b"200 OK"
    return b"HTTP/1.1 %s\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(message: Any) -> bytes:
    return b"data: " + (message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n\n"


def token(text: str = " w", finish: str | None = None) -> bytes:
    return event({"id": "x", "choices": [{"index": 0, "text": text, "finish_reason": finish}], "usage": None})


def usage(prompt: int, completion: int) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}})


DONE = event(b"[DONE]")


def stream(
    ttft: float = 0.0, itl: float = 0.0, events: int | None = None, tokens_each: int = 1, counted: bool = True
) -> Answer:
    """A well-behaved engine: first event `ttft` seconds after the request, one every `itl` from then on.

    `events` None: as many as are asked. `counted`: a usage message comes, where it was asked for.
    """

    async def answer(asked: Asked, wire: Wire) -> None:
        count = events if events is not None else asked.body.get("max_tokens") or asked.body["max_completion_tokens"]
        for number in range(count):
            await sleep_until(asked.received + ttft + number * itl)
            last = number == count - 1
            await wire.write((HEAD if number == 0 else b"") + chunk(token(finish="length" if last else None)))
        prompt = asked.body.get("prompt") or asked.body["messages"][0]["content"][0]["text"]
        total = usage(len(prompt.split()), count * tokens_each) if counted else b""
        await wire.write(chunk(total + DONE) + END)

    return answer


async def sleep_until(at: float) -> None:
    if (wait := at - time.perf_counter()) > 0:
        await asyncio.sleep(wait)


def raw(*pieces: bytes, close: bool = True, pause: float = 0.0) -> Answer:
    """Exactly these bytes, one write each."""

    async def answer(asked: Asked, wire: Wire) -> bool | None:
        for piece in pieces:
            await wire.write(piece)
            await asyncio.sleep(pause)
        return False if close else None

    return answer

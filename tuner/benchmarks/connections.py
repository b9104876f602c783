"""Kept-alive connections to the servers under load, on asyncio."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter
from typing import cast

from tuner.benchmarks.exchange import Exchange
from tuner.benchmarks.http import Target

CONNECT_TIMEOUT_S = 10.0
OPEN_AT_ONCE = 32
TURN_S = 0.001
MOST_WAITING = 16 * 2**20


class CannotConnect(Exception):
    """No connection; the text says to where and why, `kind` is the type of the error and `failure` its class."""

    def __init__(self, target: Target, error: BaseException) -> None:
        self.kind = type(error).__name__
        self.failure = "tls" if isinstance(error, ssl.SSLError) else "connect"
        why = f"no answer within {CONNECT_TIMEOUT_S:g} s" if isinstance(error, TimeoutError) else str(error)
        super().__init__(f"cannot connect to {target.authority}: {self.kind}: {why}")


class Inbox:
    """What came from all connections of a loop, in order: read at once, understood a little later.

    Reading costs microseconds, understanding ten times that. The time of an event is that of its read, so every read
    that is due goes before what has been read is looked into; when much comes at once, a turn gives way to the loop
    after `TURN_S` for new reads. With more than `MOST_WAITING` bytes nothing is read before they are understood: what
    comes then waits in the kernel.
    """

    def __init__(self) -> None:
        self.behind_s = 0.0  # how long, at most, something read has waited to be understood
        self._waiting: deque[tuple[Connection, bytes, float]] = deque()
        self._planned = False
        self._bytes = 0

    def put(self, connection: Connection, data: bytes) -> None:
        self._waiting.append((connection, data, perf_counter()))
        self._bytes += len(data)
        if self._bytes > MOST_WAITING:
            self.flush()
        elif not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._turn)

    def flush(self) -> None:
        """Understand all that was read."""
        while self._waiting:
            self._next()

    def _turn(self) -> None:
        self._planned = False
        if not self._waiting:
            return
        now = perf_counter()
        self.behind_s = max(self.behind_s, now - self._waiting[0][2])
        end = now + TURN_S
        while self._waiting and now < end:
            self._next()
            now = perf_counter()
        if self._waiting:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _next(self) -> None:
        connection, data, at = self._waiting.popleft()
        self._bytes -= len(data)
        connection.understand(data, at)


class Connection(asyncio.Protocol):
    """One connection; carries one exchange at a time."""

    def __init__(self, inbox: Inbox) -> None:
        self.usable = False
        self.fresh = True  # opened for the one who takes it, who waits for that
        self.idle_since = 0.0
        self._inbox = inbox
        self._exchange: Exchange | None = None
        self._transport: asyncio.Transport | None = None

    async def carry(self, exchange: Exchange, wire: bytes, due: float) -> None:
        """Send `wire` and wait until the exchange is over, one way or another."""
        self._exchange = exchange
        self.fresh = False
        exchange.send(due, lambda: self._write(wire))
        await exchange.over
        self._exchange = None
        self.idle_since = perf_counter()
        if not (exchange.reply.complete and exchange.reply.keep_alive):
            self.drop()

    def drop(self) -> None:
        """Close at once, whatever is under way."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by its methods only
        self.usable = True
        self.idle_since = perf_counter()

    def data_received(self, data: bytes) -> None:
        self._inbox.put(self, data)

    def understand(self, data: bytes, at: float) -> None:
        """Bytes of this connection, read at `at`."""
        exchange = self._exchange
        if exchange is None or exchange.finished:
            self.drop()  # bytes nobody asked for
        else:
            exchange.feed(data, at)

    def eof_received(self) -> None:
        """Returning nothing lets the transport close itself; `connection_lost` follows."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        self._inbox.flush()
        if self._exchange is not None:
            self._exchange.lost(exc)

    def _write(self, wire: bytes) -> None:
        if self._transport is not None:
            self._transport.write(wire)


class Pool:
    """The connections of one pass: idle ones are used again, the youngest first; new ones are opened on demand."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.opened = 0
        self.failures: Counter[str] = Counter()
        self.inbox = Inbox()
        self._tls = tls
        self._idle: defaultdict[Target, list[Connection]] = defaultdict(list)
        self._all: list[Connection] = []
        self._addresses: dict[Target, list[tuple[str, int]]] = {}

    async def fill(self, targets: Sequence[Target], count: int) -> None:
        """Open `count` connections to each target, a few at a time; give up on a target at its first failure."""
        await asyncio.gather(*(self._fill(target, count) for target in dict.fromkeys(targets)))

    async def take(self, target: Target) -> Connection:
        """An idle connection, or a new one.

        Raises:
            CannotConnect: it could not be opened within `CONNECT_TIMEOUT_S`.
        """
        idle = self._idle[target]
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
        return await self._open(target)

    def give(self, target: Target, connection: Connection) -> None:
        if connection.usable:
            self._idle[target].append(connection)

    async def close(self) -> None:
        for connection in self._all:
            connection.drop()
        for _ in range(3):  # the transports close themselves in callbacks
            await asyncio.sleep(0)

    async def _fill(self, target: Target, count: int) -> None:
        left = iter(range(count))
        failed = False

        async def opener() -> None:
            nonlocal failed
            for _ in left:
                if failed:
                    return
                try:
                    connection = await self._open(target)
                    connection.fresh = False
                    self.give(target, connection)
                except CannotConnect:  # counted; each request will try for itself
                    failed = True

        await asyncio.gather(*(opener() for _ in range(min(count, OPEN_AT_ONCE))))

    async def _open(self, target: Target) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                connection = await self._connect(target)
        except (OSError, TimeoutError, ValueError) as error:
            failure = CannotConnect(target, error)
            self.failures[failure.kind] += 1
            raise failure from error
        self.opened += 1
        self._all.append(connection)
        return connection

    async def _connect(self, target: Target) -> Connection:
        """To the first of the target's addresses that answers; that one is used from then on."""
        loop = asyncio.get_running_loop()
        if target not in self._addresses:
            self._addresses[target] = [(host, target.port) for host in await _addresses(target.host)]
        problem: OSError = OSError(f"{target.host} has no address")
        for host, port in self._addresses[target]:
            try:
                _, connection = await loop.create_connection(
                    lambda: Connection(self.inbox),
                    host,
                    port,
                    ssl=self._trust() if target.tls else None,
                    server_hostname=target.host if target.tls else None,
                )
            except OSError as error:
                problem = error
            else:
                self._addresses[target] = [(host, port)]
                return connection
        raise problem

    def _trust(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()  # reads the system's certificates: once
        return self._tls


async def _addresses(host: str) -> list[str]:
    """In a thread that nobody waits for: the loop's own executor would hold up the end of a pass until DNS gives up."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def settle(found: list[str], problem: Exception | None) -> None:
        if answer.done():
            return
        if problem is not None:
            answer.set_exception(problem)
        else:
            answer.set_result(found)

    def look_up() -> None:
        found: list[str] = []
        problem: Exception | None = None
        try:
            entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except (OSError, ValueError) as error:  # ValueError: no resolver takes such a name
            problem = error
        with suppress(RuntimeError):  # the loop is closed: the pass is over
            loop.call_soon_threadsafe(settle, found, problem)

    threading.Thread(target=look_up, daemon=True, name="tuner-dns").start()
    return await answer

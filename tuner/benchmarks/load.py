"""The load of one pass: requests in order, at their times, so many in flight; and what was seen of it."""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvloop

from tuner.benchmarks import Event, Request, Response
from tuner.benchmarks.bound import throughput_bound
from tuner.benchmarks.connections import CannotConnect, Pool
from tuner.benchmarks.exchange import Exchange, Tally
from tuner.benchmarks.http import Target, Wires
from tuner.descriptors import open_standard_files

TICK_S = 0.05
SCAN_EVERY_S = 1.0
DRAINED_WITHIN_S = 0.5
STALE_AFTER_S = 1.0
START_TOGETHER = 16
OPEN_BEFORE_PACED = 64

GAVE_UP = {
    "stopped": "the pass was stopped",
    "ended early": "the pass was ended early",
    "cannot win": "the pass was ended, as it could not reach the throughput to beat any more",
    "client lost": "the pass was ended, as a client process had ended by itself (was it killed, or the memory short?)",
    "timed out": "the pass had not ended within {:g} s",
}


@dataclass(frozen=True)
class Plan:
    """What one pass sends: `wires` are the bytes of each request, `due` its time in seconds after the
    start, `most_tokens` the most it can cost (prompt and answer). `deadline` is on `time.perf_counter`'s clock."""

    targets: Sequence[Target]
    requests: Sequence[Request]
    wires: Wires
    due: Sequence[float]
    most_tokens: Sequence[float]
    concurrency: int
    deadline: float
    timeout_s: float
    request_timeout_s: float | None = None
    stall_s: float = math.inf
    tls: ssl.SSLContext | None = None
    insecure: bool = False
    keep_text: bool = False

    @property
    def all_at_once(self) -> bool:
        return not any(self.due)

    def trust(self) -> ssl.SSLContext | None:
        """What proves an https server; None: the system's certificates."""
        if not self.insecure:
            return self.tls
        anybody = ssl.create_default_context()
        anybody.check_hostname = False
        anybody.verify_mode = ssl.CERT_NONE
        return anybody


@dataclass(frozen=True)
class Progress:
    """How far a pass is. `most_tokens`: the most tokens it can end with."""

    elapsed: float
    done: int
    failed: int
    total: int
    tokens: int
    in_flight: int
    most_tokens: float

    def event(self, *, bounded: bool) -> Event:
        bound = throughput_bound(self.most_tokens, self.elapsed) if bounded else None
        good = self.done - self.failed
        return Event(self.elapsed, good, self.failed, self.total, self.tokens, self.in_flight, bound)


@dataclass(frozen=True)
class Seen:
    """What came of a pass: every response in request order, its first and last moment on `time.perf_counter`'s clock
    (equal if it never began), and why it ended before its last answer ('' if it did not)."""

    responses: tuple[Response, ...]
    began: float
    ended: float
    ended_by: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def duration(self) -> float:
        return self.ended - self.began


# Called every `TICK_S`: why the pass ends now, or ''. With `DRAIN` nothing more is sent, and it ends with the answers
# that are under way.
Judge = Callable[[Progress], str]
DRAIN = "drain"


async def _at_once() -> float:
    return time.perf_counter()


class Load:
    """One pass: workers take the requests in order, as many workers as may be in flight.

    `gate` is awaited when the connections are open; the clock starts at the moment it gives (None: never).
    """

    def __init__(self, plan: Plan, judge: Judge, gate: Callable[[], Awaitable[float | None]] = _at_once) -> None:
        self._plan, self._judge, self._gate = plan, judge, gate
        self._exchanges: list[Exchange | None] = [None] * len(plan.requests)
        self._left = iter(range(len(plan.requests)))
        self._tally = Tally(most_tokens=math.fsum(plan.most_tokens))
        self._outstanding = [0] * len(plan.targets)
        self._dealt = 0
        self._pool = Pool(plan.trust())
        self._began = 0.0
        self._cpu = 0.0
        self._lags: list[float] = []
        self._draining = False
        self._resent = 0
        self._connect_s = 0.0
        self._result: Seen | None = None

    def run(self) -> Seen:
        """Carry it out, in a loop of its own."""
        open_standard_files()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._run())
        assert self._result is not None
        return self._result

    async def _run(self) -> None:
        """Returns nothing: what a main task returns, `asyncio.run` writes into a text that nobody reads, which takes
        seconds for millions of events."""
        load = asyncio.create_task(self._load())
        watch = asyncio.create_task(self._watch())
        try:
            await asyncio.wait({load, watch}, return_when=asyncio.FIRST_COMPLETED)
            ended_by = ("stopped" if self._draining else "") if load.done() else watch.result()
            ended = time.perf_counter()
            self._give_up(ended_by)
            if load.done():
                load.result()  # a bug shows itself
        finally:
            for task in (load, watch):
                task.cancel()
            await asyncio.gather(load, watch, return_exceptions=True)
            await self._pool.close()
        self._result = self._seen(ended, ended_by)

    async def _load(self) -> object:
        started = time.perf_counter()
        await self._pool.fill(self._plan.targets, self._connections_at_first())
        self._connect_s = time.perf_counter() - started
        began = await self._gate()
        if began is None:
            return await asyncio.Event().wait()  # until the watch ends the pass
        await asyncio.sleep(max(0.0, began - time.perf_counter()))
        self._cpu = time.thread_time()
        self._began = began
        workers = []
        try:
            for number in range(self._plan.concurrency):
                workers.append(asyncio.create_task(self._work()))
                if number % START_TOGETHER == 0:  # answers are read between starts, not after the last of them
                    await asyncio.sleep(0)
            return await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()

    def _connections_at_first(self) -> int:
        """To each target. Paced requests may never need all of theirs: the rest are opened on demand."""
        most = math.ceil(self._plan.concurrency / len(self._plan.targets))
        return most if self._plan.all_at_once else min(most, OPEN_BEFORE_PACED)

    async def _work(self) -> None:
        for index in self._left:
            due = self._began + self._plan.due[index]
            while not self._draining and (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(min(wait, DRAINED_WITHIN_S))
            if self._draining:
                return
            target = self._route()
            self._outstanding[target] += 1
            try:
                await self._ask(index, target, due)
            finally:
                self._outstanding[target] -= 1

    def _route(self) -> int:
        """The target with the fewest requests outstanding; among equals, in turn."""
        count = len(self._outstanding)
        if count == 1:
            return 0
        turn, self._dealt = self._dealt, self._dealt + 1
        return min(range(count), key=lambda target: (self._outstanding[target], (target - turn) % count))

    async def _ask(self, index: int, number: int, due: float) -> None:
        """Send one request and wait for its end; once more if the idle connection was found to be closed."""
        target = self._plan.targets[number]
        wire = self._plan.wires(index, target)
        for attempt in (1, 2):
            exchange = self._new_exchange(index)
            exchange.target = number
            asked_for = time.perf_counter()
            try:
                connection = await self._pool.take(target)
            except CannotConnect as problem:
                exchange.finish(str(problem), problem.failure)
                return
            now = time.perf_counter()
            if connection.fresh:
                exchange.connect_time = now - asked_for
            stale = attempt == 1 and now - connection.idle_since > STALE_AFTER_S
            with self._bounded(exchange):
                await connection.carry(exchange, wire, due)
            self._pool.give(target, connection)
            if not (stale and exchange.unanswered):
                return
            self._resent += 1
            exchange.withdraw()

    @contextmanager
    def _bounded(self, exchange: Exchange) -> Iterator[None]:
        limit = self._plan.request_timeout_s
        if limit is None:
            yield
            return
        error = f"no whole answer within {limit:g} s"
        handle = asyncio.get_running_loop().call_later(limit, exchange.finish, error, "stalled")
        try:
            yield
        finally:
            handle.cancel()

    async def _watch(self) -> str:
        """Why the pass ends before its last answer. Measures, while it waits, how late the loop runs."""
        scanned = time.perf_counter()
        while True:
            due = time.perf_counter() + TICK_S
            await asyncio.sleep(TICK_S)
            now = time.perf_counter()
            if self._began:
                self._lags.append(now - due)
            if now >= self._plan.deadline:
                return "timed out"
            ended_by = self._judge(self._progress(now))
            self._draining = self._draining or ended_by == DRAIN
            if ended_by not in ("", DRAIN):
                return ended_by
            if now - scanned >= SCAN_EVERY_S:
                scanned = now
                self._end_stalled(now)

    def _end_stalled(self, now: float) -> None:
        """Streams that have begun and brought no token for too long. The wait for a first one is the server's queue."""
        limit = self._plan.stall_s
        for exchange in self._exchanges:
            if exchange is not None and exchange.ttft and not exchange.finished and now - exchange.last > limit:
                exchange.finish(f"the stream brought no token for {limit:g} s", "stalled")

    def _progress(self, now: float) -> Progress:
        tally, total = self._tally, len(self._plan.requests)
        elapsed = max(0.0, now - self._began) if self._began else 0.0
        return Progress(elapsed, tally.done, tally.failed, total, tally.tokens, tally.in_flight, tally.most_tokens)

    def _give_up(self, ended_by: str) -> None:
        self._pool.inbox.flush()
        why = GAVE_UP.get(ended_by, "never answered").format(self._plan.timeout_s)
        self._cpu = time.thread_time() - self._cpu if self._began else 0.0
        for index, exchange in enumerate(self._exchanges):
            (exchange or self._new_exchange(index)).finish(why, "unfinished")

    def _new_exchange(self, index: int) -> Exchange:
        plan, over = self._plan, asyncio.get_running_loop().create_future()
        exchange = self._exchanges[index] = Exchange(
            plan.requests[index], self._tally, over, most=plan.most_tokens[index], keep_text=plan.keep_text
        )
        return exchange

    def _seen(self, ended: float, ended_by: str) -> Seen:
        exchanges = [exchange for exchange in self._exchanges if exchange is not None]
        responses = tuple(exchange.response() for exchange in exchanges)
        answered = [exchange for exchange in exchanges if exchange.success]
        facts = {
            "timed_out": ended_by == "timed out",
            "processes": 1,
            "client_cpu_s": self._cpu,
            "loop_lag_ms": max(self._lags, default=0.0) * 1000,
            "loop_lag_mean_ms": math.fsum(self._lags) / len(self._lags) * 1000 if self._lags else 0.0,
            "behind_ms": self._pool.inbox.behind_s * 1000,
            "connect_s": self._connect_s,
            "connections": self._pool.opened,
            "connect_failures": dict(self._pool.failures),
            "resent": self._resent,
            "max_in_flight": self._tally.max_in_flight,
            "events": self._tally.tokens,
            "errors": most_common_errors(responses),
            "guessed_output_lens": sum(not exchange.output_tokens for exchange in answered),
            "guessed_input_lens": sum(not exchange.input_tokens for exchange in answered),
            "longer_than_asked": sum(exchange.longer_than_asked for exchange in answered),
            "counted_as_none": sum(exchange.counted_as_none for exchange in answered),
        }
        return Seen(responses, self._began or ended, ended, ended_by, facts)


def most_common_errors(responses: Sequence[Response]) -> dict[str, int]:
    return dict(Counter(response.error for response in responses if not response.success).most_common(10))

"""The load of one pass: requests in order, at their times, so many in flight; and what was seen of it."""

from __future__ import annotations

import asyncio
import math
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tuner.benchmarks import Event, Request, Response, Run
from tuner.benchmarks.connections import CannotConnect, Pool
from tuner.benchmarks.exchange import Exchange, Tally
from tuner.benchmarks.http import Target
from tuner.benchmarks.metrics import measure

TICK_S = 0.05
EVENT_EVERY_S = 0.25
STALE_AFTER_S = 1.0
START_TOGETHER = 16
OPEN_BEFORE_PACED = 64

GAVE_UP = {
    "stopped": "the pass was stopped",
    "ended early": "the pass was ended early",
    "timed out": "the pass had not ended within {:g} s",
}


@dataclass(frozen=True)
class Plan:
    """What one pass sends. `wires` are the bytes of each request, `due` its time in seconds after the start;
    request i goes to target i modulo their number. `deadline` is on `time.perf_counter`'s clock."""

    targets: Sequence[Target]
    requests: Sequence[Request]
    wires: Sequence[bytes]
    due: Sequence[float]
    concurrency: int
    deadline: float
    timeout_s: float
    request_timeout_s: float | None = None
    tls: ssl.SSLContext | None = None

    @property
    def all_at_once(self) -> bool:
        return not any(self.due)

    def target(self, index: int) -> Target:
        return self.targets[index % len(self.targets)]


class Load:
    """One pass: workers take the requests in order, as many workers as may be in flight."""

    def __init__(
        self, plan: Plan, stop: threading.Event | None = None, on_event: Callable[[Event], bool | None] | None = None
    ) -> None:
        self._plan, self._stop, self._on_event = plan, stop, on_event
        self._exchanges: list[Exchange | None] = [None] * len(plan.requests)
        self._left = iter(range(len(plan.requests)))
        self._tally = Tally()
        self._pool = Pool(plan.tls)
        self._began = 0.0
        self._cpu = 0.0
        self._lag = 0.0
        self._resent = 0
        self._connect_s = 0.0

    async def run(self) -> Run:
        load = asyncio.create_task(self._load())
        watch = asyncio.create_task(self._watch())
        try:
            await asyncio.wait({load, watch}, return_when=asyncio.FIRST_COMPLETED)
            ended_by = "" if load.done() else watch.result()
            ended = time.perf_counter()
            self._give_up(ended_by)
            if load.done():
                load.result()  # a bug shows itself
        finally:
            for task in (load, watch):
                task.cancel()
            await asyncio.gather(load, watch, return_exceptions=True)
            await self._pool.close()
        return self._result(ended - self._began if self._began else 0.0, ended_by)

    async def _load(self) -> None:
        started = time.perf_counter()
        await self._pool.fill(self._plan.targets, self._connections_at_first())
        self._cpu = time.thread_time()
        self._began = time.perf_counter()
        self._connect_s = self._began - started
        workers = []
        try:
            for number in range(self._plan.concurrency):
                workers.append(asyncio.create_task(self._work()))
                if number % START_TOGETHER == 0:  # answers are read between starts, not after the last of them
                    await asyncio.sleep(0)
            await asyncio.gather(*workers)
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
            while (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            await self._ask(index, due)

    async def _ask(self, index: int, due: float) -> None:
        """Send one request and wait for its end; once more if the idle connection was found to be closed."""
        target = self._plan.target(index)
        for attempt in (1, 2):
            exchange = self._new_exchange(index)
            try:
                connection = await self._pool.take(target)
            except CannotConnect as problem:
                exchange.finish(str(problem))
                return
            stale = attempt == 1 and time.perf_counter() - connection.idle_since > STALE_AFTER_S
            with self._bounded(exchange):
                await connection.carry(exchange, self._plan.wires[index], due)
            self._pool.give(target, connection)
            if not (stale and exchange.unanswered):
                return
            self._resent += 1
            self._tally.done, self._tally.failed = self._tally.done - 1, self._tally.failed - 1

    @contextmanager
    def _bounded(self, exchange: Exchange) -> Iterator[None]:
        limit = self._plan.request_timeout_s
        if limit is None:
            yield
            return
        handle = asyncio.get_running_loop().call_later(limit, exchange.finish, f"no whole answer within {limit:g} s")
        try:
            yield
        finally:
            handle.cancel()

    async def _watch(self) -> str:
        """Why the pass ends before its last answer. Measures, while it waits, how late the loop runs."""
        started = time.perf_counter()
        told = started
        while True:
            due = time.perf_counter() + TICK_S
            await asyncio.sleep(TICK_S)
            now = time.perf_counter()
            if self._began:
                self._lag = max(self._lag, now - due)
            if self._stop is not None and self._stop.is_set():
                return "stopped"
            if now >= self._plan.deadline:
                return "timed out"
            if self._on_event is not None and now - told >= EVENT_EVERY_S:
                told = now
                if self._on_event(self._progress(now)):
                    return "ended early"

    def _progress(self, now: float) -> Event:
        tally = self._tally
        elapsed = now - self._began if self._began else 0.0
        total = len(self._plan.requests)
        return Event(elapsed, tally.done - tally.failed, tally.failed, total, tally.tokens, tally.in_flight)

    def _give_up(self, ended_by: str) -> None:
        why = GAVE_UP.get(ended_by, "never answered").format(self._plan.timeout_s)
        self._cpu = time.thread_time() - self._cpu if self._began else 0.0
        for index, exchange in enumerate(self._exchanges):
            (exchange or self._new_exchange(index)).finish(why)

    def _new_exchange(self, index: int) -> Exchange:
        over = asyncio.get_running_loop().create_future()
        exchange = self._exchanges[index] = Exchange(self._plan.requests[index], self._tally, over)
        return exchange

    def _result(self, duration: float, ended_by: str) -> Run:
        exchanges = [exchange for exchange in self._exchanges if exchange is not None]
        responses = tuple(exchange.response() for exchange in exchanges)
        answered = [exchange for exchange in exchanges if exchange.success]
        facts = {
            "timed_out": ended_by == "timed out",
            "client_cpu_s": self._cpu,
            "loop_lag_ms": self._lag * 1000,
            "connect_s": self._connect_s,
            "connections": self._pool.opened,
            "connect_failures": dict(self._pool.failures),
            "resent": self._resent,
            "max_in_flight": self._tally.max_in_flight,
            "events": self._tally.tokens,
            "errors": _most_common_errors(responses),
            "guessed_output_lens": sum(not exchange.output_tokens for exchange in answered),
            "guessed_input_lens": sum(not exchange.input_tokens for exchange in answered),
            "longer_than_asked": sum(exchange.longer_than_asked for exchange in answered),
            "counted_as_none": sum(exchange.counted_as_none for exchange in answered),
        }
        early = ended_by in ("stopped", "ended early")
        return Run(measure(responses, duration), responses, duration, early, facts)


def _most_common_errors(responses: Sequence[Response]) -> dict[str, int]:
    return dict(Counter(response.error for response in responses if not response.success).most_common(10))

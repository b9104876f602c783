"""One pass carried by several processes, where one core cannot.

Process k of n sends the requests k, k + n, k + 2n, ... with its share of the concurrency, on connections and a loop of
its own. Nothing crosses between processes while the load runs but ten small progress messages a second from each, so
capacity grows with the cores. All start their clocks at one moment, which the parent gives when every connection is
open; `time.perf_counter` is one clock for all processes of a machine. A process whose parent is gone ends.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from tuner.benchmarks import Response
from tuner.benchmarks.load import TICK_S, Judge, Load, Plan, Progress, Seen, most_common_errors
from tuner.benchmarks.quiet import quiet_collector
from tuner.errors import SpecError, TunerError

PROGRESS_EVERY_S = 0.1
START_DELAY_S = 0.02
LAST_WORDS_S = 10.0
LARGEST = ("loop_lag_ms", "loop_lag_mean_ms", "behind_ms", "connect_s", "timed_out")


def run(plan: Plan, judge: Judge, processes: int) -> Seen:
    """Carry out the plan with so many processes.

    Raises:
        SpecError: the plan has a trust of its own, which no other process can be given.
        TunerError: a process ended by itself.
    """
    if plan.tls is not None:
        raise SpecError("several client processes cannot share a TLS context of one's own; use one process")
    context = multiprocessing.get_context("spawn")
    shards = []
    try:
        for number in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_carry, args=(theirs, shard(plan, number, processes)), daemon=True)
            process.start()
            theirs.close()
            shards.append(_Shard(process, ours))
        return _merged(_conduct(shards, plan, judge), plan)
    finally:
        for one in shards:
            one.end()


def shard(plan: Plan, number: int, of: int) -> Plan:
    """The part of one of `of` processes."""
    share, larger = divmod(plan.concurrency, of)
    requests = plan.requests[number::of]
    return replace(
        plan,
        requests=requests,
        wires=plan.wires.shard(number, of),
        due=plan.due[number::of],
        most_tokens=plan.most_tokens[number::of],
        concurrency=min(len(requests), share + (number < larger)),
    )


class _Shard:
    """A process and what it has said so far."""

    def __init__(self, process: BaseProcess, pipe: Connection) -> None:
        self.pipe = pipe
        self.ready = False
        self.progress: Progress | None = None
        self.seen: Seen | None = None
        self._process = process

    def hear(self) -> None:
        """Take one message.

        Raises:
            TunerError: it has ended without its last word.
        """
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            raise TunerError("a client process ended by itself; was it killed, or the memory short?") from None
        if isinstance(said, Seen):
            self.seen = said
        elif isinstance(said, Progress):
            self.progress = said
        else:
            self.ready = True

    def tell(self, message: Any) -> None:
        with suppress(OSError):
            self.pipe.send(message)

    def end(self) -> None:
        self.pipe.close()  # by itself, when it notices
        self._process.join(0.0 if self.seen is None else 1.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()


def _conduct(shards: Sequence[_Shard], plan: Plan, judge: Judge) -> list[Seen]:
    """Start them together, follow their progress, end them together."""
    started, ended_by = False, ""
    give_up = math.inf
    while not all(one.seen for one in shards):
        for pipe in wait([one.pipe for one in shards if one.seen is None], timeout=TICK_S):
            next(one for one in shards if one.pipe is pipe).hear()
        if not started and all(one.ready for one in shards):
            started = True
            _tell_all(shards, time.perf_counter() + START_DELAY_S)
        now = time.perf_counter()
        if now > give_up:
            raise TunerError(f"a client process did not end within {LAST_WORDS_S:g} s")
        if not ended_by and (ended_by := _ended_by(shards, plan, judge, now)):
            give_up = now + LAST_WORDS_S
            _tell_all(shards, ended_by)
    return [one.seen for one in shards if one.seen]


def _ended_by(shards: Sequence[_Shard], plan: Plan, judge: Judge, now: float) -> str:
    return "timed out" if now >= plan.deadline else judge(_sum(shards, plan))


def _tell_all(shards: Sequence[_Shard], message: float | str) -> None:
    for one in shards:
        one.tell(message)


def _sum(shards: Sequence[_Shard], plan: Plan) -> Progress:
    known = [one.progress for one in shards if one.progress]
    silent = math.fsum(plan.most_tokens) if len(known) < len(shards) else 0.0
    return Progress(
        elapsed=max((p.elapsed for p in known), default=0.0),
        done=sum(p.done for p in known),
        failed=sum(p.failed for p in known),
        total=len(plan.requests),
        tokens=sum(p.tokens for p in known),
        in_flight=sum(p.in_flight for p in known),
        most_tokens=max(silent, math.fsum(p.most_tokens for p in known)),
    )


def _merged(parts: Sequence[Seen], plan: Plan) -> Seen:
    responses: list[Response] = [Response(False)] * len(plan.requests)
    for number, part in enumerate(parts):
        responses[number :: len(parts)] = part.responses
    facts: dict[str, Any] = {}
    for key, first in parts[0].facts.items():
        values = [part.facts[key] for part in parts]
        if isinstance(first, dict):
            facts[key] = {name: sum(value.get(name, 0) for value in values) for value in values for name in value}
        else:
            facts[key] = max(values) if key in LARGEST else sum(values)
    facts |= {"errors": most_common_errors(responses), "max_in_flight": _most_in_flight(responses)}
    ended_by = next((part.ended_by for part in parts if part.ended_by), "")
    return Seen(tuple(responses), min(p.began for p in parts), max(p.ended for p in parts), ended_by, facts)


def _most_in_flight(responses: Sequence[Response]) -> int:
    sent = [response for response in responses if response.start]
    changes = [(response.start, 1) for response in sent] + [(response.start + response.end, -1) for response in sent]
    running = most = 0
    for _, change in sorted(changes):
        running += change
        most = max(most, running)
    return most


def _carry(pipe: Connection, plan: Plan) -> None:
    """The process: says that it is ready, waits for the moment to start, says how far it is, and what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to end
    orders = _Orders(pipe)
    said = 0.0

    def judge(progress: Progress) -> str:
        nonlocal said
        now = time.perf_counter()
        if now - said >= PROGRESS_EVERY_S:
            said = now
            pipe.send(progress)
        return orders.ended_by

    async def gate() -> float:
        pipe.send("ready")
        return await asyncio.to_thread(orders.start)

    with suppress(BrokenPipeError), quiet_collector():
        pipe.send(Load(plan, judge, gate).run())


class _Orders:
    """What the parent says, heard in a thread of its own."""

    def __init__(self, pipe: Connection) -> None:
        self.ended_by = ""
        self._moment = 0.0
        self._started = threading.Event()
        threading.Thread(target=self._listen, args=(pipe,), daemon=True).start()

    def start(self) -> float:
        """Wait for the moment to start, on `time.perf_counter`'s clock."""
        self._started.wait()
        return self._moment

    def _listen(self, pipe: Connection) -> None:
        while not self.ended_by:
            try:
                order = pipe.recv()
            except (EOFError, OSError):
                order = "stopped"
            if isinstance(order, str):
                self.ended_by = order
            else:
                self._moment = order
            self._started.set()

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
from tuner.benchmarks.load import DRAIN, GAVE_UP, TICK_S, Judge, Load, Plan, Progress, Seen, most_common_errors
from tuner.benchmarks.occupancy import in_flight, most, steps
from tuner.benchmarks.quiet import quiet_collector
from tuner.errors import SpecError, TunerError

PROGRESS_EVERY_S = 0.1
START_DELAY_S = 0.02
LAST_WORDS_S = 10.0
LARGEST = ("loop_lag_ms", "loop_lag_mean_ms", "behind_ms", "connect_s", "timed_out")


def run(plan: Plan, judge: Judge, processes: int) -> Seen:
    """Carry out the plan with so many processes.

    When a process ends by itself, the others are ended too and what they have is kept.

    Raises:
        SpecError: the plan has a trust of its own, which no other process can be given.
        TunerError: all processes ended by themselves, or one does not end when it is told.
    """
    if plan.tls is not None:
        raise SpecError("several client processes cannot share a TLS context of one's own; use one process")
    context = multiprocessing.get_context("spawn")
    shards = []
    try:
        for number in range(processes):
            ours, theirs = context.Pipe()
            part = shard(plan, number, processes)
            process = context.Process(target=_carry, args=(theirs, part), daemon=True)
            process.start()
            theirs.close()
            shards.append(_Shard(process, ours, part))
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

    def __init__(self, process: BaseProcess, pipe: Connection, part: Plan) -> None:
        self.pipe = pipe
        self._part = part
        self.ready = False
        self.progress: Progress | None = None
        self.seen: Seen | None = None
        self._process = process

    def hear(self) -> None:
        """Take one message; with none to come, it has seen nothing."""
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            said = _nothing_seen(self._part)
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
    started, ended_by, draining = False, "", False
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
        verdict = "" if ended_by else _ended_by(shards, plan, judge, now)
        if verdict and not (verdict == DRAIN and draining):
            draining = verdict == DRAIN
            ended_by = "" if draining else verdict
            give_up = math.inf if draining else now + LAST_WORDS_S
            _tell_all(shards, verdict)
    return [one.seen for one in shards if one.seen]


def _ended_by(shards: Sequence[_Shard], plan: Plan, judge: Judge, now: float) -> str:
    if any(one.seen is not None and one.seen.ended_by == "client lost" for one in shards):
        return "client lost"
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


def _nothing_seen(part: Plan) -> Seen:
    """Of a process that ended by itself: its requests were sent or not, nobody knows any more."""
    lost = [
        Response(
            False,
            prompt_len=request.prompt_len,
            error=GAVE_UP["client lost"],
            failure="unfinished",
            asked_prompt_len=request.prompt_len,
            asked_output_len=request.output_len,
        )
        for request in part.requests
    ]
    return Seen(tuple(lost), 0.0, 0.0, "client lost")


def _merged(parts: Sequence[Seen], plan: Plan) -> Seen:
    responses: list[Response] = [Response(False)] * len(plan.requests)
    for number, part in enumerate(parts):
        responses[number :: len(parts)] = part.responses
    facts: dict[str, Any] = {}
    whole = [part for part in parts if part.facts]
    if not whole:
        raise TunerError("every client process ended by itself; were they killed, or the memory short?")
    for key, first in whole[0].facts.items():
        values = [part.facts[key] for part in whole]
        if isinstance(first, dict):
            facts[key] = {name: sum(value.get(name, 0) for value in values) for value in values for name in value}
        else:
            facts[key] = max(values) if key in LARGEST else sum(values)
    facts |= {"errors": most_common_errors(responses), "max_in_flight": most(steps(in_flight(responses)))}
    ended_by = next((part.ended_by for part in parts if part.ended_by), "")
    return Seen(tuple(responses), min(p.began for p in whole), max(p.ended for p in whole), ended_by, facts)


def _carry(pipe: Connection, plan: Plan) -> None:
    """The process: says that it is ready, waits for the moment to start, says how far it is, and what came of it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent says when to end
    orders = _Orders(pipe)
    said = 0.0

    def judge(progress: Progress) -> str:
        nonlocal said
        now = time.perf_counter()
        if now - said >= PROGRESS_EVERY_S:
            said = now
            pipe.send(progress)
        return orders.ended_by

    async def gate() -> float | None:
        pipe.send("ready")
        return await asyncio.to_thread(orders.start)

    with suppress(BrokenPipeError), quiet_collector():
        pipe.send(Load(plan, judge, gate).run())


class _Orders:
    """What the parent says, heard in a thread of its own."""

    def __init__(self, pipe: Connection) -> None:
        self.ended_by = ""
        self._moment: float | None = None
        self._started = threading.Event()
        threading.Thread(target=self._listen, args=(pipe,), daemon=True).start()

    def start(self) -> float | None:
        """Wait for the moment to start, on `time.perf_counter`'s clock; None if there will be none."""
        self._started.wait()
        return self._moment

    def _listen(self, pipe: Connection) -> None:
        while self.ended_by in ("", DRAIN):
            try:
                order = pipe.recv()
            except (EOFError, OSError):
                order = "stopped"
            if isinstance(order, str):
                self.ended_by = order
            else:
                self._moment = order
            self._started.set()

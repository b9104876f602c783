"""What a run was limited by: the server, the arrivals, the load's own concurrency, the client, or failures. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tuner.benchmarks import Response, Run, Workload
from tuner.benchmarks.failed import failed_why
from tuner.benchmarks.occupancy import answering, in_flight, most, share, steps, waiting_share, waits
from tuner.benchmarks.pace import pace

What: TypeAlias = Literal["server", "arrival-rate", "concurrency", "client", "failures", "unknown"]

BUSY_CLIENT = 0.8
LATE_MS, LATE_SHARE = 100.0, 0.1  # requests that wait in the client: so long, and so much of their TTFT
SLOW_LOOP_MS, SLOW_LOOP_SHARE = 5.0, 0.05  # of the mean latency of a request
WAITED = 0.1  # of their time in flight requests wait in the server where there is a queue
QUEUE_AT_MOST = 0.5  # of the requests in flight are answered where the others wait for places
PLATEAU, PLATEAU_SHARE = 0.8, 0.7
QUEUE_WAVES = 3
QUEUE_READINGS = 0.5
FEWEST_READINGS = 4  # of a pass of a few seconds one or two readings see the ramp of its prefills
QUEUED_OF_RUNNING = 0.25
FASTER = 0.5


@dataclass(frozen=True)
class Limit:
    """What the figures are figures of, and how that was seen."""

    what: What
    why: str


@dataclass(frozen=True)
class Queue:
    """Requests waited in the server while `running` were worked on; `waiting` at most. `source`: the server's own
    `metrics`, or the `shape` of the answers."""

    running: int
    waiting: int
    source: Literal["metrics", "shape"]

    def __str__(self) -> str:
        if self.source == "metrics":
            return f"up to {_requests(self.waiting)} waited in the server while {self.running} ran"
        return f"never more than {self.running} answers were under way while up to {_requests(self.waiting)} waited"


def limited_by(run: Run, workload: Workload) -> Limit:
    """What kept the run from being faster: the first of failures, client, arrivals, server's queue, concurrency,
    server for which there is evidence. Evidence that is not there (facts, responses) speaks for the server; a run
    that was too short, or ended early, for nothing."""
    if why := failed_why(run, workload):
        return Limit("failures", why)
    if run.stopped_early:
        return Limit("unknown", "the pass was ended before its last answer")
    if why := client_why(run, workload):
        return Limit("client", why)
    if paced := _arrivals(run, workload):
        return paced
    if found := server_queue(run):
        return Limit("server", f"{found}: a limit of {found.running} running requests, or room for no more")
    if workload.all_at_once and (workload.concurrency < len(run.responses) or workload.concurrency == 1):
        return _closed(run, workload)
    return Limit("server", "all requests were sent in time and the client had time to spare")


def client_why(run: Run, workload: Workload) -> str:
    """Why the client itself may be what was measured; '' if it was not.

    By its CPU time, by the time from the arrival of bytes to their processing, and by requests that were sent late
    though nothing but the client held them back. Where every request failed nothing was measured.
    """
    if run.responses and not any(response.success for response in run.responses):
        return ""
    facts = run.facts
    processes = max(1, int(facts.get("processes") or 1))
    busy = facts.get("client_cpu_s", 0.0) / (run.duration * processes) if run.duration > 0 else 0.0
    if busy > BUSY_CLIENT:
        return f"the client itself was busy for {busy:.0%} of the pass: it may be the limit"
    lag, latency = facts.get("loop_lag_mean_ms", 0.0), run.metrics.get("mean_e2el_ms", 0.0)
    if lag > max(SLOW_LOOP_MS, SLOW_LOOP_SHARE * latency):
        return f"the client took up what came {lag:.0f} ms late on average, {lag / max(latency, lag):.0%} of a request"
    if late := _late_ms(run, workload):
        return f"the client sent requests {late:.0f} ms late on average: it could not send as fast as it was to"
    return ""


def server_queue(run: Run) -> Queue | None:
    """A queue in the server behind few running requests: as its metrics said while the run went on
    (`facts["gauges"]`), without such by the shape of the answers."""
    gauges = run.facts.get("gauges") or {}
    told = gauges.get("samples", 0) >= FEWEST_READINGS
    return _queue_by_gauges(gauges) if told else _queue_by_shape(run.responses)


def _late_ms(run: Run, workload: Workload) -> float:
    """How late requests were sent on average, where that is the client's doing: with a cap on the requests in flight
    they wait for a place."""
    sent = waits(run.responses, run.duration)
    if not sent or workload.concurrency < len(run.responses):
        return 0.0
    late = 1000 * sum(sent) / len(sent)
    return late if late > max(LATE_MS, LATE_SHARE * run.metrics.get("mean_ttft_ms", 0.0)) else 0.0


def _queue_by_gauges(gauges: Mapping[str, Any]) -> Queue | None:
    """Requests waited in most readings, and as many ran then as ever did: there was no place for more."""
    if not gauges["max_waiting"] or gauges["waiting_share"] < QUEUE_READINGS:
        return None
    running, waiting = gauges["running_beside_queue"], gauges["max_waiting"]
    full = running >= PLATEAU * gauges["max_running"] and waiting >= QUEUED_OF_RUNNING * running
    return Queue(round(running), round(waiting), "metrics") if full else None


def _queue_by_shape(responses: tuple[Response, ...]) -> Queue | None:
    """Whether answers under way stood at one number, far below the requests in flight, for as long as others waited,
    several times as many had their turn, and the first of them came much faster: prompts that are worked on one
    after the other make such a number, too, but at one pace from the beginning."""
    flight, turns = steps(in_flight(responses)), sorted(answering(responses))
    answers = steps(turns)
    cap, sent = most(answers), most(flight)
    if not 1 < cap <= QUEUE_AT_MOST * sent or len(turns) < QUEUE_WAVES * cap or waiting_share(responses) <= WAITED:
        return None
    others = max(1.0, (1 - PLATEAU) * cap)
    at_cap = share(flight, answers, lambda all_, now: all_ - now > others, lambda _, now: now >= PLATEAU * cap)
    first, filled, last = (turns[place][0] for place in (0, cap - 1, -1))
    pace, later = (filled - first) / (cap - 1), (last - filled) / (len(turns) - cap)
    return Queue(cap, sent - cap, "shape") if at_cap >= PLATEAU_SHARE and pace <= FASTER * later else None


def _arrivals(run: Run, workload: Workload) -> Limit | None:
    """Requests at times of their own: whether the server kept up with them. None for other loads."""
    found = None if workload.all_at_once else pace(run.responses, run.duration)
    if found is None:
        return None
    steady = workload.ramp_up is None and workload.dataset != "trace"
    rate = (run.facts.get("offered_rate") if steady else None) or found.rate
    if found.kept_up:
        return Limit("arrival-rate", f"the server kept up with {rate:.3g} requests per second: more were not asked")
    queued = waits(run.responses, run.duration)
    waited = sum(queued) / len(queued)
    if workload.concurrency < len(run.responses) and waited > LATE_MS / 1000:
        return Limit("concurrency", f"requests waited {waited:.1f} s for one of {workload.concurrency} places")
    if found.kept_up is None:
        seen = f"{_requests(len(queued))} came within {found.span:.2g} s, and one takes {found.each:.2g} s"
        return Limit("unknown", f"{seen}: too few in too short a time to say what the server keeps up with")
    answered = rate * found.answered / found.rate
    return Limit("server", f"{rate:.3g} requests per second came, about {answered:.3g} were answered")


def _closed(run: Run, workload: Workload) -> Limit:
    """So many in flight, and no more: whether the server began with each of them at once or made some wait."""
    places = workload.concurrency
    why = f"{_requests(places)} {'was' if places == 1 else 'were'} in flight at a time"
    waiting = waiting_share(run.responses) if places > 1 else 0.0
    if waiting > WAITED:
        return Limit("server", f"{why}, and waited in the server for {waiting:.0%} of their time before it began")
    at_once = ", and the server let none of them wait" if places > 1 else ""
    return Limit("concurrency", f"{why}{at_once}: more may give more")


def _requests(count: int) -> str:
    return f"{count} request{'' if count == 1 else 's'}"

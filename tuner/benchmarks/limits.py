"""What a run was limited by: the server, the arrivals, the load's own concurrency, or the client. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tuner.benchmarks import Response, Run, Workload
from tuner.benchmarks.occupancy import answering, in_flight, most, share, steps

What: TypeAlias = Literal["server", "arrival-rate", "concurrency", "client"]

BUSY_CLIENT = 0.8
LATE_MS, LATE_SHARE = 100.0, 0.1  # requests that wait in the client: so long, and so much of their TTFT
SLOW_LOOP_MS, SLOW_LOOP_SHARE = 5.0, 0.05  # of the mean latency of a request
KEPT_UP = 0.9  # of the arrivals in their second half
ANSWERED = 0.9
QUEUE_AT_MOST = 0.5  # of the requests in flight are answered where the others wait for places
PLATEAU, PLATEAU_SHARE = 0.8, 0.7
QUEUE_WAVES = 3
QUEUE_READINGS = 0.5
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
            return f"up to {self.waiting} requests waited in the server while {self.running} ran"
        return f"never more than {self.running} answers were under way while up to {self.waiting} requests waited"


def limited_by(run: Run, workload: Workload) -> Limit:
    """What kept the run from being faster: the first of client, server's queue, arrivals, concurrency, server for
    which there is evidence. Evidence that is not there (facts, responses) speaks for the server."""
    if why := client_why(run, workload):
        return Limit("client", why)
    if paced := _arrivals(run, workload):
        return paced
    if found := server_queue(run):
        return Limit("server", f"{found}: a limit of {found.running} running requests, or room for no more")
    if workload.all_at_once and workload.concurrency < len(run.responses):
        return _closed(run, workload)
    return Limit("server", "all requests were sent in time and the client had time to spare")


def client_why(run: Run, workload: Workload) -> str:
    """Why the client itself may be what was measured; '' if it was not.

    By its CPU time, by the time from the arrival of bytes to their processing, and by requests that were sent late
    though nothing but the client held them back.
    """
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
    return _queue_by_gauges(gauges) if gauges else _queue_by_shape(run.responses)


def _late_ms(run: Run, workload: Workload) -> float:
    """How late requests were sent on average, where that is the client's doing: with a cap on the requests in flight
    they wait for a place."""
    sent = [response.queue_time for response in run.responses if response.start > 0]
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
    if not 1 < cap <= QUEUE_AT_MOST * sent or len(turns) < QUEUE_WAVES * cap:
        return None
    others = max(1.0, (1 - PLATEAU) * cap)
    at_cap = share(flight, answers, lambda all_, now: all_ - now > others, lambda _, now: now >= PLATEAU * cap)
    first, filled, last = (turns[place][0] for place in (0, cap - 1, -1))
    pace, later = (filled - first) / (cap - 1), (last - filled) / (len(turns) - cap)
    return Queue(cap, sent - cap, "shape") if at_cap >= PLATEAU_SHARE and pace <= FASTER * later else None


def _arrivals(run: Run, workload: Workload) -> Limit | None:
    """Requests at times of their own: the server kept up if those that were over in the second half of the arrivals
    are about as many as came in it. None for other loads, and where it did not keep up but nothing held them back."""
    due = sorted(response.start - response.queue_time for response in run.responses if response.start > 0)
    if workload.all_at_once or len(due) < 2:
        return None
    half, last = (due[0] + due[-1]) / 2, due[-1]
    came = sum(half < time <= last for time in due)
    over = sum(half < end <= last for _, end in in_flight(run.responses))
    rate = run.facts.get("offered_rate") or came / ((last - half) or 1.0)
    if over >= KEPT_UP * came - came**0.5:
        return Limit("arrival-rate", f"the server kept up with {rate:.3g} requests per second: more were not asked")
    queued = [response.queue_time for response in run.responses if response.start > 0]
    waited = sum(queued) / len(queued)
    if workload.concurrency < len(run.responses) and waited > LATE_MS / 1000:
        return Limit("concurrency", f"requests waited {waited:.1f} s for one of {workload.concurrency} places")
    return Limit("server", f"{rate:.3g} requests per second came, {rate * over / came:.3g} were answered")


def _closed(run: Run, workload: Workload) -> Limit:
    """So many in flight, and no more: whether the server answered all of them at once or made some wait."""
    flight, answers = steps(in_flight(run.responses)), steps(answering(run.responses))
    together = share(flight, answers, lambda all_, _: all_ > 0, lambda all_, now: now >= ANSWERED * all_)
    why = f"{workload.concurrency} requests were in flight at a time"
    if together >= PLATEAU_SHARE:
        return Limit("concurrency", f"{why}, and all of them were answered at once: more may give more")
    return Limit("server", f"{why}, and some waited for their first token most of the time")

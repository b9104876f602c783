"""Single answers that cannot be, and a run that cannot be of its answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuner.benchmarks import Response, Run, Workload
from tuner.benchmarks.occupancy import in_flight
from tuner.trial import Verdict

TOKENS_TOLERANCE = 0.02
EVENTS_WITHOUT_TOKEN = 3
CLOCK_S = 0.001


def objections(run: Run, workload: Workload) -> Iterator[Verdict]:
    good = [response for response in run.responses if response.success]
    yield from _impossible(good)
    yield from _shorter_than_its_requests(run)
    yield from _more_than_came(run, good, workload)
    yield from _counts(run, good)


def _impossible(good: Sequence[Response]) -> Iterator[Verdict]:
    wrong = [r for r in good if not (0 < r.ttft <= r.latency * (1 + 1e-9)) or min(r.itls, default=0.0) < 0]
    if wrong:
        message = f"{len(wrong)} answers have no time to their first token, or it after their last, or time running"
        yield Verdict("impossible-value", False, f"{message} backwards")


def _shorter_than_its_requests(run: Run) -> Iterator[Verdict]:
    spans = in_flight(response for response in run.responses if response.success)
    took = max((end for _, end in spans), default=0.0) - min((begin for begin, _ in spans), default=0.0)
    if 0 < run.duration < took - CLOCK_S:
        message = f"the pass is said to have taken {run.duration:.3f} s, its requests {took:.3f} s"
        yield Verdict("impossible-value", False, message)


def _more_than_came(run: Run, good: Sequence[Response], workload: Workload) -> Iterator[Verdict]:
    """More events in a second than came at all, more requests at once than there were places for.

    That a figure like 9 at a concurrency of 4 comes of counting requests by the second is known, and no objection.
    """
    came = sum(len(response.itls) + (response.ttft > 0) for response in good)
    peak = run.metrics.get("max_output_tokens_per_s", 0.0)
    if good and peak > came:
        yield Verdict("impossible-value", False, f"a peak of {peak:g} in a second, but {came} events came in all")
    most, places = run.honest.get("true_max_in_flight", 0.0), workload.concurrency
    if most > places:
        message = f"{most:g} requests were in flight at a time, {places} were to be at most"
        yield Verdict("impossible-value", False, message)


def _counts(run: Run, good: Sequence[Response]) -> Iterator[Verdict]:
    """The server's counts of tokens against what came and what was asked."""
    empty = sum(response.output_len == 0 for response in good)
    if empty:
        yield Verdict("output-tokens", False, f"{empty} of {len(good)} answers that succeeded have no token")
    if longer := run.facts.get("longer_than_asked"):
        message = f"the server counted more tokens than were allowed in {longer} of {len(good)} answers"
        yield Verdict("output-tokens", False, message)
    if none := run.facts.get("counted_as_none"):
        message = f"the server counted no token in {none} of {len(good)} answers that have text"
        yield Verdict("output-tokens", False, message)
    yield from _more_events(good)


def _more_events(good: Sequence[Response]) -> Iterator[Verdict]:
    """A note: an event brings a token or more, but a role, the end, or half a character may come as one of its own."""
    events = sum(len(response.itls) + (response.ttft > 0) for response in good)
    tokens = sum(response.output_len for response in good)
    if tokens and events > tokens * (1 + TOKENS_TOLERANCE) + EVENTS_WITHOUT_TOKEN * len(good):
        message = f"{events} events with text came, the server counted {tokens} tokens (ratio {tokens / events:.2f})"
        yield Verdict("output-tokens", True, message)

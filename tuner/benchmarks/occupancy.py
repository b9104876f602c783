"""How many of something are under way at each time, and how long requests wait. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from tuner.benchmarks import Response

Span: TypeAlias = tuple[float, float]
Steps: TypeAlias = Sequence[tuple[float, int]]

SAME_TTFT = 2.0  # times as long as the fastest first token: up to that it is work and chance, beyond it a wait


def in_flight(responses: Iterable[Response]) -> list[Span]:
    """From the request's first byte to the end of its reply, of all that were sent, whatever came of them."""
    return [(r.start, r.start + max(r.end, r.latency, r.ttft)) for r in responses if r.start > 0]


def answering(responses: Iterable[Response]) -> list[Span]:
    """From the first token to the last, of all that had one."""
    spans = ((r.start, first_token(r), r.latency) for r in responses if r.start > 0)
    return [(start + first, start + max(latency, first)) for start, first, latency in spans if first > 0]


def first_token(response: Response) -> float:
    """Seconds to it, 0 if none came. Some servers send an event without text, the role, as soon as they are asked."""
    return response.ttft_text or response.ttft


def waits(responses: Iterable[Response], duration: float) -> list[float]:
    """Seconds in the client after they were due, of the requests that were sent. Nothing waits longer than its run
    takes: a time that says so has no meaning, and is 0."""
    return [r.queue_time if 0 <= r.queue_time <= duration else 0.0 for r in responses if r.start > 0]


def waiting_share(responses: Iterable[Response]) -> float:
    """The share of their time in flight that answered requests waited in the server before it began with them.

    A prompt's first token takes no longer by itself than the fastest of a prompt as long or longer did: what is more
    than `SAME_TTFT` times that was a wait. TTFT that is the same for all requests, however long, is none.
    """
    answered = [r for r in responses if r.start > 0 and first_token(r) > 0]
    answered.sort(key=lambda r: (-r.prompt_len, first_token(r)))
    alone = itertools.accumulate(map(first_token, answered), min)
    waited = sum(max(0.0, first_token(r) - SAME_TTFT * fastest) for r, fastest in zip(answered, alone, strict=True))
    whole = sum(end - begin for begin, end in in_flight(answered))
    return waited / whole if whole > 0 else 0.0


def steps(spans: Iterable[Span]) -> list[tuple[float, int]]:
    """(time, how many are under way from then on), by time. What ends when another begins is over first."""
    changes = sorted(itertools.chain.from_iterable(((begin, 1), (end, -1)) for begin, end in spans if end > begin))
    counts = itertools.accumulate(change for _, change in changes)
    found: list[tuple[float, int]] = []
    for (time, _), count in zip(changes, counts, strict=True):
        if found and found[-1][0] == time:
            found[-1] = (time, count)
        else:
            found.append((time, count))
    return found


def most(stairs: Steps) -> int:
    return max((count for _, count in stairs), default=0)


def average(stairs: Steps) -> float:
    """Over the time between the first and the last step."""
    total = sum((later - time) * count for (time, count), (later, _) in itertools.pairwise(stairs))
    return total / (stairs[-1][0] - stairs[0][0]) if len(stairs) > 1 else 0.0


def widest(stairs: Steps, count: float) -> Span | None:
    """From the first to the last moment at which at least `count` are under way."""
    at_least = [(time, later) for (time, many), (later, _) in itertools.pairwise(stairs) if many >= count]
    return (at_least[0][0], at_least[-1][1]) if at_least else None


def share(one: Steps, other: Steps, where: Callable[[int, int], bool], holds: Callable[[int, int], bool]) -> float:
    """The share of the time `where` is true of the two counts in which `holds` is, too; 0 if it never is."""
    times = sorted({time for time, _ in (*one, *other)})
    inside = both = 0.0
    at = {0: iter(one), 1: iter(other)}
    ahead = [next(at[0], None), next(at[1], None)]
    counts = [0, 0]
    for time, later in itertools.pairwise(times):
        for which in (0, 1):
            while (step := ahead[which]) is not None and step[0] <= time:
                counts[which], ahead[which] = step[1], next(at[which], None)
        if where(counts[0], counts[1]):
            inside += later - time
            both += (later - time) * holds(counts[0], counts[1])
    return both / inside if inside > 0 else 0.0

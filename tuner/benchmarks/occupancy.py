"""How many of something are under way at each time. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from tuner.benchmarks import Response

Span: TypeAlias = tuple[float, float]
Steps: TypeAlias = Sequence[tuple[float, int]]


def in_flight(responses: Iterable[Response]) -> list[Span]:
    """From the request's first byte to the end of its reply, of all that were sent, whatever came of them."""
    return [(r.start, r.start + max(r.end, r.latency, r.ttft)) for r in responses if r.start > 0]


def answering(responses: Iterable[Response]) -> list[Span]:
    """From the first token to the last, of all that had one."""
    return [(r.start + r.ttft, r.start + max(r.latency, r.ttft)) for r in responses if r.start > 0 and r.ttft > 0]


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

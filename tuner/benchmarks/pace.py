"""Whether a server kept up with requests that came at times of their own. Pure.

A server that falls behind takes longer for each request than for the one before it: where the time from a request's
arrival to its end grows by `growth` seconds in a second, of `1 + growth` requests one is answered in time. That holds
while requests come; the tail after the last of them, long in a short run, says nothing and is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from tuner.benchmarks import Response
from tuner.benchmarks.occupancy import waits

Point: TypeAlias = tuple[float, float]  # when a request was due, and seconds from there to its end

KEPT_UP = 0.9  # of the arrivals
FEWEST = 5
SETTLED = 3.0  # times as long as an answer takes requests must come: before that places only fill up
OUTGROWN = 3.0  # times as long as the first the last must take to show in a shorter run


@dataclass(frozen=True)
class Pace:
    """`rate` requests came per second, of which `answered` would be; both of the later half of the `span` seconds in
    which requests came. `each`: seconds for a request at first. `kept_up` None: too short to say."""

    rate: float
    answered: float
    span: float
    each: float
    kept_up: bool | None


def pace(responses: Sequence[Response], duration: float) -> Pace | None:
    """Of the requests that succeeded; None if there is no such."""
    points = sorted(_points(responses, duration))
    if not points:
        return None
    quarter = max(1, len(points) // 4)
    first, last = (fmean(took for _, took in part) for part in (points[:quarter], points[-quarter:]))
    span = points[-1][0] - points[0][0]
    if len(points) < FEWEST or span <= 0:
        return Pace(len(points) / duration if duration > 0 else 0.0, 0.0, span, first, None)
    later = [point for point in points if point[0] >= points[0][0] + span / 2]
    later = later if len(later) >= FEWEST and later[0][0] < later[-1][0] else points
    growth, error = _growth(later)
    behind = growth > 1 / (KEPT_UP - 0.5 / math.sqrt(len(later))) - 1 + 2 * error
    rate = (len(later) - 1) / (later[-1][0] - later[0][0])
    settled = span >= SETTLED * first or (behind and last >= OUTGROWN * first)
    return Pace(rate, rate / max(1.0, 1 + growth), span, first, not behind if settled else None)


def _points(responses: Sequence[Response], duration: float) -> list[Point]:
    sent = [response for response in responses if response.success and response.start > 0]
    points = []
    for response, waited in zip(sent, waits(sent, duration), strict=True):
        took = waited + max(response.end, response.latency, response.ttft)
        if math.isfinite(took):
            points.append((response.start - waited, took))
    return points


def _growth(points: Sequence[Point]) -> Point:
    """The slope of a line by least squares through points that differ in time, and its standard error."""
    middle, level = fmean(at for at, _ in points), fmean(took for _, took in points)
    width = math.fsum((at - middle) ** 2 for at, _ in points)
    slope = math.fsum((at - middle) * (took - level) for at, took in points) / width
    rest = math.fsum((took - level - slope * (at - middle)) ** 2 for at, took in points)
    return slope, math.sqrt(rest / max(1, len(points) - 2) / width)

"""The staircase: every trial's value, and the incumbent's path, as inline SVG. Pure."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.report import formats
from tuner.report.summary import Row, Summary
from tuner.trial import State

WIDTH, HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 68, 76, 18, 40


@dataclass(frozen=True)
class _Scale:
    """Trial numbers and values to pixels."""

    first: int
    last: int
    top: float

    def x(self, number: float) -> float:
        span = max(1, self.last - self.first)
        return _LEFT + (number - self.first) / span * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - value / self.top * (HEIGHT - _TOP - _BOTTOM)


def staircase(summary: Summary) -> str:
    """An `<svg>` element; '' where nothing was measured."""
    values = [row.value for row in summary.trials if row.value is not None]
    if not values or max(values) <= 0:
        return ""
    step = _step(max(values))
    scale = _Scale(summary.trials[0].number, summary.trials[-1].number, step * math.ceil(max(values) / step * 1.02))
    head = summary.headline
    name = f"{formats.metric(head.metric)} ({formats.unit(head.metric)}) by trial"
    name += ", simulated" if summary.simulated else ""
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(name)}">',
        f"<title>{html.escape(name)}</title>",
        *_axes(scale, step, summary),
        *_path(scale, summary),
        *(_mark(scale, row, summary) for row in summary.trials),
        "</svg>",
    ]
    return "\n".join(parts)


def _step(most: float) -> float:
    """A round distance of grid lines: about four of them."""
    power = 10 ** math.floor(math.log10(most / 4))
    return float(next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= most / 4))


def _axes(scale: _Scale, step: float, summary: Summary) -> Iterator[str]:
    for index in range(round(scale.top / step) + 1):
        y = scale.y(index * step)
        yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{index * step:g}</text>'
    every = max(1, math.ceil(len(summary.trials) / 20))
    for row in summary.trials[::every]:
        x = scale.x(row.number)
        yield f'<text class="tick" x="{x:.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{row.number}</text>'
    yield f'<text class="tick" x="{(_LEFT + WIDTH - _RIGHT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">trial</text>'


def _path(scale: _Scale, summary: Summary) -> Iterator[str]:
    if not summary.path:
        return
    (number, value), *moves = summary.path
    drawn = f"M{scale.x(number):.1f} {scale.y(value):.1f}"
    for number, value in moves:
        drawn += f" H{scale.x(number):.1f} V{scale.y(value):.1f}"
    drawn += f" H{WIDTH - _RIGHT:.1f}"
    end = summary.path[-1][1]
    yield f'<path class="path" d="{drawn}"/>'
    yield f'<text class="label" x="{WIDTH - _RIGHT + 6}" y="{scale.y(end) + 4:.1f}">incumbent</text>'


def _mark(scale: _Scale, row: Row, summary: Summary) -> str:
    x = scale.x(row.number)
    said = f"trial {row.number}, {row.phase}: {row.changed}"
    if row.state is State.MEASURED and row.value is not None:
        said += f", {formats.with_unit(summary.headline.metric, row.value)}" + (", no-op" if row.no_op else "")
        kind = "dot best" if row.best else "dot"
        shape = f'<circle class="{kind}" cx="{x:.1f}" cy="{scale.y(row.value):.1f}" r="{6 if row.best else 5}"/>'
    else:
        said += f", {row.failure or row.state.value}"
        y = scale.y(0) - 8
        shape = f'<path class="cross" d="M{x - 4:.1f} {y - 4:.1f} l8 8 m0 -8 l-8 8"/>'
    return f"<g><title>{html.escape(said)}</title>{shape}</g>"

"""The staircase: every trial's value, the best single launch so far, and the winner, as inline SVG. Pure."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.report import formats
from tuner.report.summary import Row, Summary
from tuner.trial import State

# Room for text of twice the size: on a phone the picture is half as wide, and its style makes the text larger.
WIDTH, HEIGHT = 760, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 88, 112, 24, 64
# Trial numbers along the axis.
_MOST_TICKS = 12


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
        *_winner(scale, summary),
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
    every = max(1, math.ceil(len(summary.trials) / _MOST_TICKS))
    for row in summary.trials[::every]:
        x = scale.x(row.number)
        yield f'<text class="tick" x="{x:.1f}" y="{HEIGHT - _BOTTOM + 26}" text-anchor="middle">{row.number}</text>'
    yield f'<text class="tick" x="{(_LEFT + WIDTH - _RIGHT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">trial</text>'


def _path(scale: _Scale, summary: Summary) -> Iterator[str]:
    if not summary.path:
        return
    (number, value), *moves = summary.path
    drawn = f"M{scale.x(number):.1f} {scale.y(value):.1f}"
    for number, value in moves:
        drawn += f" H{scale.x(number):.1f} V{scale.y(value):.1f}"
    drawn += f" H{WIDTH - _RIGHT:.1f}"
    yield f'<g><title>best so far</title><path class="path" d="{drawn}"/></g>'


def _winner(scale: _Scale, summary: Summary) -> Iterator[str]:
    """The value the headline says, at the right end: it may be a median, below the best single launch."""
    head = summary.headline
    if head.value is None:
        return
    y, edge = scale.y(head.value), WIDTH - _RIGHT
    name = "winner" if head.finished else "best"
    said = f"{name}: {formats.with_unit(head.metric, head.value)}"
    yield f"<g><title>{html.escape(said)}</title>"
    yield f'<path class="end" d="M{edge + 2:.1f} {y:.1f} l12 -7 v14 z"/>'
    yield f'<text class="label" x="{edge + 18}" y="{y + 5:.1f}">{name}</text></g>'


def legend(summary: Summary) -> tuple[tuple[str, str], ...]:
    """What each shape of the picture is: (class, words)."""
    head = summary.headline
    word = "winner" if head.finished else "best so far"
    made = formats.median_of(head.median_of)
    return (
        ("dot", "a trial"),
        ("dot best", f"launches of the {word}"),
        ("cross", "a trial without a value"),
        ("path", "best so far: the best single launch up to there, no-ops left out"),
        ("end", f"{word}: {formats.with_unit(head.metric, head.value)}" + (f", {made}" if made else "")),
    )


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

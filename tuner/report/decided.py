"""What each stage decided, for every engine that was followed to the end, and what confirming launches said. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeAlias

from tuner.history import History
from tuner.report import formats
from tuner.report.facts import baseline, changed, named
from tuner.search import CONFIRM, Step
from tuner.trial import Configuration, State

Noise: TypeAlias = Literal[
    "above", "within", "below", "small", "failed", "limit", "holds a limit", "unknown", "kept by the beam", "",
]  # fmt: skip


@dataclass(frozen=True)
class Decided:
    """What one phase decided. `gain` is None when it kept nothing. `rejected` is the best of what it did not keep, with
    its gain over the same value.

    `noise` judges the gain that was kept, else the rejected one, against the noise band: above, within or below it;
    `small`: less than the method's least gain; `limit`: it misses a limit, and the other way round; `unknown`: there
    were no repeats to learn a band from; empty: there is nothing to judge.
    """

    phase: str
    tried: tuple[str, ...]
    kept: str
    gain: float | None
    noise: Noise
    band: float | None
    rejected: str = ""
    rejected_gain: float | None = None


def decisions(history: History) -> Iterator[Decided]:
    """Stage by stage, the winner's way first, then those of the other engines, then the confirming launches."""
    ways = _ways(history)
    for way in ways:
        for step in way:
            engine = history.study.space.engine_of(step.after) if len(ways) > 1 and step.after is not None else ""
            yield _decided(history, step, f" on {formats.line(engine)}" if engine else "")
    if history.done is not None and history.done.confirmed:
        yield from _confirmed(history)


def fallen_back(history: History) -> str:
    """Where the confirming launches chose the baseline: how the best of what the search had kept did in them."""
    done, base = history.done, baseline(history)
    if done is None or not done.confirmed or not _same(history, done.best, base):
        return ""
    others = [name for name in _finalists(history) if not _same(history, name, base)]
    values = [(value, one) for one in others if (value := _confirming(history, one)) is not None]
    if not values:
        return "what the search had kept failed when it was launched again" if others else ""
    value, one = min(values, key=lambda pair: history.study.objective.rank(pair[0]))
    against = formats.percent(_gain(history, value, done.value))
    return f"{named(changed(one, base))}, which the search had kept, was {against} when both were launched again"


def _ways(history: History) -> tuple[tuple[Step, ...], ...]:
    done = history.done
    if done is None:
        return ()
    others = tuple(way for way in done.ways if way and way != done.steps)
    return ((done.steps,) if done.steps else ()) + others


def _decided(history: History, step: Step, where: str) -> Decided:
    rejected_gain = _gain(history, step.value_rejected, step.value_before)
    tried = tuple(dict.fromkeys(_tried(history, step)))
    rejected = _option(step.best_rejected, step.before, step.phase) if step.best_rejected is not None else ""
    noise = _noise(history, step) if step.gain is not None else _rejection(history, step, rejected_gain, bool(tried))
    kept = _option(step.after, step.before, step.phase) if step.after is not None else "nothing"
    return Decided(formats.title(step.phase) + where, tried, kept, step.gain, noise, step.band, rejected, rejected_gain)


def _tried(history: History, step: Step) -> Iterator[str]:
    """What this lineage tried in the phase, its own base left out."""
    engine_of = history.study.space.engine_of
    for trial in history.trials:
        if trial.phase != step.phase or trial.configuration == trial.base:
            continue
        if trial.base is not None and step.after and engine_of(trial.configuration) != engine_of(step.after):
            continue
        yield _option(trial.configuration, step.before, step.phase)


def _option(configuration: Configuration, before: Configuration | None, phase: str) -> str:
    """The option a configuration has in this phase; where the phase has none, what it changed."""
    own = configuration.get(phase)
    moved = before is None or configuration == before or before.get(phase) != own
    return formats.title(own) if own is not None and moved else named(changed(configuration, before))


def _noise(history: History, step: Step) -> Noise:
    gain = step.gain or 0.0
    if gain <= 0:
        return "kept by the beam" if step.phase == history.study.space.stages[0].name else "holds a limit"
    if step.band is None:
        return "unknown"
    return "above" if gain > step.band else "within"


def _rejection(history: History, step: Step, gain: float | None, tried: bool) -> Noise:
    """Why the best of what was tried was not kept."""
    if gain is None:
        return "failed" if tried and step.best_rejected is None else ""
    if step.band is not None and abs(gain) <= step.band:
        return "within"
    if gain < 0:
        return "below"
    method = history.study.method
    if gain <= method.min_gain:
        return "small"
    return "unknown" if method.noise and step.band is None else "limit" if history.study.objective.limits else ""


def _confirmed(history: History) -> Iterator[Decided]:
    """Gains are over the baseline in the same launches."""
    done, base = history.done, baseline(history)
    if done is None or done.best is None:
        return
    finalists = _finalists(history)
    won = _same(history, done.best, base)
    values = [(c, v) for c in finalists if (v := _confirming(history, c)) is not None]
    others = [(c, v) for c, v in values if not _same(history, c, done.best) and not _same(history, c, base)]
    rank = history.study.objective.rank
    second = min(others, key=lambda pair: rank(pair[1]), default=None)
    gain = None if won else _gain(history, done.value, done.baseline_value)
    rejected_gain = _gain(history, second[1], done.baseline_value) if second else None
    band = next((way[-1].band for way in done.ways if way), None)
    judged = rejected_gain if won else gain
    yield Decided(
        phase=CONFIRM,
        tried=tuple(_finalist(history, c) for c in finalists),
        kept=_finalist(history, done.best),
        gain=gain,
        noise="" if judged is None or band is None else _against(judged, band),
        band=band,
        rejected=_finalist(history, second[0]) if second else "",
        rejected_gain=rejected_gain,
    )


def _against(gain: float, band: float) -> Noise:
    return "within" if abs(gain) <= band else "above" if gain > 0 else "below"


def _finalists(history: History) -> list[Configuration]:
    """The baseline and what every lineage ended with."""
    ends = [way[-1].after for way in _ways(history)]
    every = [baseline(history), *(end for end in ends if end is not None)]
    return list({history.study.space.identity(one): one for one in reversed(every)}.values())[::-1]


def _finalist(history: History, configuration: Configuration) -> str:
    """The baseline, an engine as it is by default, or what the search made of it: each engine is followed once."""
    base, first = baseline(history), history.study.space.stages[0].name
    if _same(history, configuration, base):
        return "baseline"
    engine = formats.line(history.study.space.engine_of(configuration))
    return f"tuned {engine}" if changed(configuration, base).keys() - {first} else engine


def _confirming(history: History, configuration: Configuration) -> float | None:
    launches = [t for t in history.of(configuration) if t.phase == CONFIRM and t.state is State.MEASURED]
    values = [launch.value for launch in launches if launch.value is not None]
    return median(values) if values else None


def _gain(history: History, value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None else history.study.objective.gain(value, base)


def _same(history: History, one: Configuration | None, other: Configuration) -> bool:
    identity = history.study.space.identity
    return one is not None and identity(one) == identity(other)

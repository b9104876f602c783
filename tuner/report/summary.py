"""The facts of a study, computed from its history: what every form of the report shows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeAlias

from tuner.history import Caution, History
from tuner.report import formats
from tuner.report.facts import LOSS, Side, baseline, changed, command_of, deciding, sides, winner
from tuner.report.facts import best_so_far as best_so_far
from tuner.search import Evaluate, Step
from tuner.trial import EMPTY, Failure, Measurement, State, Trial

# The least a reader must see of baseline and winner on every workload.
COMPARED = ("total_token_throughput", "mean_tpot_ms")
# What is looked at for losses.
WATCHED = ("total_token_throughput", "mean_tpot_ms", "mean_ttft_ms", "p99_ttft_ms")

Noise: TypeAlias = Literal["above", "within", "unknown", "kept by the beam", ""]


@dataclass(frozen=True)
class Headline:
    """The best launch so far. `gain` is relative to the baseline; without a measurement `trial` is None."""

    trial: int | None
    command: str
    metric: str
    workload: str
    value: float | None
    baseline: float | None
    gain: float | None
    confirmed: bool
    finished: bool
    is_baseline: bool


@dataclass(frozen=True)
class Decided:
    """What one phase decided. `gain` is None when it kept nothing. `noise`: how the gain compares with the noise
    band (`unknown`: there were no repeats to learn one from; empty: there is no gain to judge)."""

    phase: str
    tried: tuple[str, ...]
    kept: str
    gain: float | None
    noise: Noise
    band: float | None


@dataclass(frozen=True)
class Change:
    """One metric on baseline and winner; `ratio` is the relative change, None where a side is missing."""

    metric: str
    before: float | None
    after: float | None
    ratio: float | None


@dataclass(frozen=True)
class Compared:
    """Baseline and winner on one workload. `absent` says why a side has no figures ('' where it has them)."""

    workload: str
    changes: tuple[Change, ...]
    baseline_absent: str
    winner_absent: str


@dataclass(frozen=True)
class Loss:
    """A metric that got worse by more than LOSS on a workload; without a ratio the winner failed there."""

    workload: str
    metric: str
    change: Change | None
    failure: str = ""


@dataclass(frozen=True)
class Row:
    """One trial as the table shows it. `changed` is its configuration against the incumbent it was compared with."""

    number: int
    phase: str
    changed: str
    value: float | None
    state: State
    failure: str
    no_op: bool
    best: bool


@dataclass(frozen=True)
class Summary:
    """Everything the report says. `missing` lists what was asked for and not recorded, as commands."""

    study: str
    model: str
    method: str
    origin: str
    headline: Headline
    losses: tuple[Loss, ...]
    cautions: tuple[Caution, ...]
    decided: tuple[Decided, ...]
    compared: tuple[Compared, ...]
    trials: tuple[Row, ...]
    path: tuple[tuple[int, float], ...]
    time: Mapping[str, float]
    missing: tuple[str, ...]
    next: str
    provenance: Mapping[str, str]
    source: str

    @property
    def simulated(self) -> bool:
        return self.origin == "simulated"


def summarise(history: History) -> Summary:
    compared = tuple(_compared(history))
    return Summary(
        study=history.study.name,
        model=history.study.model,
        method=history.study.method.name,
        origin=history.origin,
        headline=_headline(history),
        losses=tuple(_losses(history, compared)),
        cautions=history.cautions,
        decided=tuple(_decided(history, step) for step in _steps(history)),
        compared=compared,
        trials=tuple(_rows(history)),
        path=tuple(_path(history)),
        time=_time(history),
        missing=tuple(dict.fromkeys(_missing(history, trial) for trial in history.not_recorded)),
        next=_next(history),
        provenance=history.provenance,
        source=_source(history),
    )


def _headline(history: History) -> Headline:
    objective, done, trial = history.study.objective, history.done, best_so_far(history)
    space = history.study.space
    value = done.value if done and done.value is not None else trial.value if trial else None
    base = done.baseline_value if done and done.baseline_value is not None else _baseline_value(history)
    return Headline(
        trial=trial.number if trial else None,
        command=command_of(history, trial) if trial else "",
        metric=objective.metric,
        workload=objective.workload,
        value=value,
        baseline=base,
        gain=objective.gain(value, base) if value is not None and base else None,
        confirmed=bool(done and done.confirmed),
        finished=done is not None,
        is_baseline=trial is not None and space.identity(trial.configuration) == space.identity(baseline(history)),
    )


def _baseline_value(history: History) -> float | None:
    values = [t.value for t in history.of(baseline(history)) if t.state is State.MEASURED and t.value is not None]
    return median(values) if values else None


def _losses(history: History, compared: Iterable[Compared]) -> Iterator[Loss]:
    by_workload = {workload: (before, after) for workload, before, after in sides(history)}
    metrics = dict.fromkeys((history.study.objective.metric, *WATCHED))
    for workload, (before, after) in by_workload.items():
        if isinstance(after, Failure) and isinstance(before, Measurement):
            yield Loss(workload, "", None, formats.line(str(after)))
    for name in metrics:
        for row in compared:
            change = _change(name, *by_workload[row.workload])
            worse = 0.0 if change.ratio is None else change.ratio * (-1 if _higher_is_better(history, name) else 1)
            if worse > LOSS:
                yield Loss(row.workload, name, change)


def _higher_is_better(history: History, name: str) -> bool:
    objective = history.study.objective
    return objective.maximize if name == objective.metric else formats.higher_is_better(name)


def _compared(history: History) -> Iterator[Compared]:
    metrics = tuple(dict.fromkeys((*COMPARED, history.study.objective.metric)))
    for workload, before, after in sides(history):
        changes = tuple(_change(name, before, after) for name in metrics)
        yield Compared(workload, changes, _absent(history, before), _absent(history, after))


def _absent(history: History, side: Side) -> str:
    if isinstance(side, Failure):
        return f"failed: {side.kind}" if side.kind != "not-recorded" else "not published"
    if side is None:
        return "not published" if history.origin == "recorded" else "not measured"
    return ""


def _change(name: str, before: Side, after: Side) -> Change:
    old = before.metrics.get(name) if isinstance(before, Measurement) else None
    new = after.metrics.get(name) if isinstance(after, Measurement) else None
    return Change(name, old, new, (new - old) / old if old and new is not None else None)


def _steps(history: History) -> tuple[Step, ...]:
    return history.done.steps if history.done else ()


def _decided(history: History, step: Step) -> Decided:
    tried = tuple(dict.fromkeys(_tried(history, step)))
    return Decided(formats.title(step.phase), tried, _kept(step), step.gain, _noise(step), step.band)


def _tried(history: History, step: Step) -> Iterator[str]:
    """What the winner's lineage tried in this phase, its own base left out."""
    engine_of = history.study.space.engine_of
    for trial in history.trials:
        if trial.phase != step.phase or trial.configuration == trial.base:
            continue
        if trial.base is not None and step.after and engine_of(trial.configuration) != engine_of(step.after):
            continue
        own = trial.configuration.get(step.phase)
        yield formats.title(own) if own is not None else _named(changed(trial.configuration, step.before))


def _kept(step: Step) -> str:
    if step.after is None:
        return "nothing"
    if step.phase in step.after:
        return formats.title(step.after[step.phase])
    return _named(changed(step.after, step.before)) if step.before is not None else "-"


def _named(chosen: Mapping[str, object]) -> str:
    return ", ".join(f"{formats.line(str(name))}={formats.line(str(value))}" for name, value in chosen.items()) or "-"


def _noise(step: Step) -> Noise:
    if step.gain is None:
        return ""
    if step.gain <= 0:
        return "kept by the beam"
    if step.band is None:
        return "unknown"
    return "above" if step.gain > step.band else "within"


def _rows(history: History) -> Iterator[Row]:
    best = best_so_far(history)
    for trial in history.trials:
        yield Row(
            number=trial.number,
            phase=formats.title(trial.phase),
            changed=_changes(history, trial),
            value=trial.value,
            state=trial.state,
            failure=formats.line(str(trial.failure)) if trial.failure else "",
            no_op=trial.no_op,
            best=best is not None and trial.number == best.number,
        )


def _changes(history: History, trial: Trial) -> str:
    first = history.study.space.baseline
    if trial.base is None and trial.phase in trial.configuration:
        return _named({trial.phase: trial.configuration[trial.phase]})
    differs = changed(trial.configuration, trial.base or first)
    return _named(differs) if differs else "baseline" if trial.configuration == first else "as its base"


def _path(history: History) -> Iterator[tuple[int, float]]:
    """(trial, value) of the incumbent: where it starts and wherever a finished phase moved it; unfinished, the
    best so far."""
    objective = history.study.objective
    held: tuple[float, float] | None = None
    concluded = {step.phase: step for step in _steps(history)}
    for trial in history.measured:
        if trial.value is None or (concluded and held is not None):
            continue
        rank = objective.rank(trial.value, trial.violation)
        if held is None or rank < held:
            held = rank
            yield trial.number, trial.value
    for phase in concluded:
        last = max((trial.number for trial in history.trials if trial.phase == phase), default=None)
        values = [s.value_after for s in _steps(history) if s.phase == phase and s.value_after is not None]
        if last is not None and values:
            yield last, (max if objective.maximize else min)(values)


def _time(history: History) -> dict[str, float]:
    spent: dict[str, float] = {}
    for trial in history.trials:
        for hop, took in (trial.outcome.timings if trial.outcome else EMPTY).items():
            spent[hop] = spent.get(hop, 0.0) + took
    return spent


def _missing(history: History, trial: Trial) -> str:
    return command_of(history, trial) or f"{formats.title(trial.phase)}: {formats.line(str(trial.configuration))}"


def _next(history: History) -> str:
    decision = history.decision
    if not isinstance(decision, Evaluate):
        return ""
    asked = _named(changed(decision.configuration, decision.base or history.study.space.baseline))
    return f"{formats.title(decision.phase)}: {asked if asked != '-' else 'as its base'}"


def _source(history: History) -> str:
    """Where recorded measurements come from, as far as they say."""
    best = deciding(history, winner(history))
    return formats.line(best.source) if isinstance(best, Measurement) else ""

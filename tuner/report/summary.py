"""The facts of a study, computed from its history: what every form of the report shows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from tuner.history import Caution, History
from tuner.report import formats
from tuner.report.decided import Decided, decisions, fallen_back
from tuner.report.facts import LOSS, Side, baseline, behind, changed, command_of, counts, deciding, named, sides, winner
from tuner.report.facts import best_so_far as best_so_far
from tuner.search import Evaluate
from tuner.trial import EMPTY, Failure, Measurement, State, Trial

# The least a reader must see of baseline and winner on every workload.
COMPARED = ("total_token_throughput", "mean_tpot_ms")
# What is looked at for losses.
WATCHED = ("total_token_throughput", "mean_tpot_ms", "mean_ttft_ms", "p99_ttft_ms")

# How many of its last lines a failure's log is shown with.
_LOG_LINES = 8
# Endings of a trial that say nothing about its configuration and are no failure of it.
_ENDED = ("interrupted", "abandoned", "not-recorded")


@dataclass(frozen=True)
class Headline:
    """The best launch so far. `gain` is relative to the baseline; without a measurement `trial` is None.

    `median_of` are the trials whose median `value` is. `fallen_back` says, where the baseline won against what the
    search had kept, how that did when it was launched again.
    """

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
    median_of: tuple[int, ...] = ()
    fallen_back: str = ""


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
    """One trial as the table shows it. `changed` is its configuration against the one it was compared with, and which
    trial launched the same before. `best`: the headline is this launch, or the median of several such."""

    number: int
    phase: str
    engine: str
    changed: str
    value: float | None
    state: State
    failure: str
    no_op: bool
    best: bool


@dataclass(frozen=True)
class Failed:
    """A trial whose configuration failed: the last lines of its log and where the log is ('' where there is none)."""

    number: int
    kind: str
    text: str
    lines: tuple[str, ...]
    path: str


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
    failures: tuple[Failed, ...]
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
        method=formats.method(history.study.method),
        origin=history.origin,
        headline=_headline(history),
        losses=tuple(_losses(history, compared)),
        cautions=history.cautions,
        decided=tuple(decisions(history)),
        compared=compared,
        trials=tuple(_rows(history)),
        failures=tuple(_failures(history)),
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
        median_of=behind(history),
        fallen_back=fallen_back(history),
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


def _rows(history: History) -> Iterator[Row]:
    best, behind_it = best_so_far(history), behind(history)
    space = history.study.space
    first: dict[str, int] = {}
    for trial in history.trials:
        earlier = first.setdefault(space.identity(trial.configuration), trial.number)
        again = f" (as trial {earlier})" if earlier != trial.number else ""
        yield Row(
            number=trial.number,
            phase=formats.title(trial.phase),
            engine=formats.line(space.engine_of(trial.configuration)),
            changed=_changes(history, trial) + again,
            value=trial.value,
            state=trial.state,
            failure=formats.failure(trial.failure) if trial.failure else "",
            no_op=trial.no_op,
            best=best is not None and (trial.number == best.number or trial.number in behind_it),
        )


def _changes(history: History, trial: Trial) -> str:
    first = history.study.space.baseline
    if trial.base is None and trial.phase in trial.configuration:
        return named({trial.phase: trial.configuration[trial.phase]})
    differs = changed(trial.configuration, trial.base or first)
    return named(differs) if differs else "baseline" if trial.configuration == first else "nothing"


def _failures(history: History) -> Iterator[Failed]:
    """What a replay is made from has no logs of its own."""
    launched_here = history.origin != "recorded" and "source" not in history.provenance
    for trial in history.trials:
        failure = trial.failure
        if failure is None or failure.kind in _ENDED or not (failure.log or launched_here):
            continue
        said = failure.kind if failure.log else formats.line(str(failure))
        text = f"trial {trial.number} ({formats.title(trial.phase)}): {said}"
        path = f"trials/{trial.number:04d}/server.log" if launched_here else ""
        yield Failed(trial.number, failure.kind, text, formats.last_lines(failure.log, _LOG_LINES), path)


def _path(history: History) -> Iterator[tuple[int, float]]:
    """(trial, value) wherever a single launch beat every one before it. No-ops and launches that miss a limit are left
    out, unless every one misses some."""
    objective = history.study.objective
    ranked = [t for t in history.measured if t.value is not None and not t.no_op and counts(history, t)]
    held: float | None = None
    for trial in [t for t in ranked if not t.violation] or ranked:
        value = trial.value or 0.0
        if held is None or objective.rank(value) < objective.rank(held):
            held = value
            yield trial.number, value


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
    asked = named(changed(decision.configuration, decision.base or history.study.space.baseline))
    return f"{formats.title(decision.phase)}: {asked if asked != '-' else 'what it is compared with, again'}"


def _source(history: History) -> str:
    """Where recorded measurements come from, as far as they say."""
    best = deciding(history, winner(history))
    return formats.line(best.source) if isinstance(best, Measurement) else ""

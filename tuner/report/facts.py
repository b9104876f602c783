"""Which trials and measurements the report speaks of: best so far, winner, baseline, each on every workload. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isclose
from statistics import median
from typing import TypeAlias

from tuner.history import History
from tuner.report import formats
from tuner.search import CONFIRM
from tuner.trial import Configuration, Failure, Measurement, State, Trial

Side: TypeAlias = "Measurement | Failure | None"
# The relative change from which on a loss is named.
LOSS = 0.05


def best_so_far(history: History) -> Trial | None:
    """The trial to launch from: of a finished search a launch of its winner, else the best-ranked measured one.

    None when nothing was measured. A no-op never stands for itself while anything else was measured: what it
    asked for did nothing.
    """
    if history.done is not None:
        return _representative(history, history.done.best, history.done.value)
    objective = history.study.objective
    ranked = [trial for trial in history.measured if trial.value is not None]
    honest = [trial for trial in ranked if not trial.no_op] or ranked
    return min(honest, key=lambda t: objective.rank(t.value or 0.0, t.violation), default=None)


def winner(history: History) -> Configuration | None:
    """The configuration of the best launch so far."""
    if history.done is not None:
        return history.done.best
    trial = best_so_far(history)
    return trial.configuration if trial else None


def baseline(history: History) -> Configuration:
    """What gains are relative to."""
    done = history.done
    return done.baseline if done is not None and done.baseline is not None else history.study.space.baseline


def deciding(history: History, configuration: Configuration | None) -> Side:
    """A configuration on the workload that decides: the median over the launches that make the headline."""
    trials = history.of(configuration)
    measured = [trial for trial in trials if trial.state is State.MEASURED]
    launches = _counting(history, measured)
    measurements = [t.outcome.measurement for t in launches if t.outcome and t.outcome.measurement]
    if len(measurements) == 1:
        return measurements[0]
    if measurements:
        return Measurement(_medians(m.metrics for m in measurements), verdicts=measurements[0].verdicts)
    return next((trial.failure for trial in reversed(trials) if trial.failure), None)


def behind(history: History) -> tuple[int, ...]:
    """The trials whose median the headline is, in order: launches of the winner, and no-ops that count as one.

    Empty where that cannot be told.
    """
    trial, done = best_so_far(history), history.done
    if done is None or done.value is None:
        return (trial.number,) if trial is not None else ()
    launches = _counting(
        history, [t for t in history.of(done.best) if t.state is State.MEASURED and counts(history, t)]
    )
    phases = {launch.phase == CONFIRM for launch in launches}
    twins = [t for t in _twins(history, launches) if (t.phase == CONFIRM) in phases and counts(history, t)]
    for chosen in (launches, [*launches, *twins]):
        values = [t.value for t in chosen if t.value is not None]
        if values and isclose(median(values), done.value):
            return tuple(sorted(t.number for t in chosen))
    return ()


def counts(history: History, trial: Trial) -> bool:
    """Whether the search looks at this trial: its phase is one of the study's, or it has none (imported)."""
    return trial.phase in ("", CONFIRM, *(stage.name for stage in history.study.space.stages))


def sides(history: History) -> Iterator[tuple[str, Side, Side]]:
    """(workload, baseline, winner): the workload that decides, then `compare_on`, then what else was compared."""
    known = {comparison.workload: comparison for comparison in history.comparisons}
    decides = history.study.objective.workload
    for workload in dict.fromkeys((decides, *history.study.compare_on, *known)):
        if workload in known:
            yield workload, known[workload].baseline, known[workload].winner
        elif workload == decides:
            yield workload, deciding(history, baseline(history)), deciding(history, winner(history))
        else:
            yield workload, None, None


def changed(configuration: Configuration, base: Configuration | None) -> dict[str, object]:
    """The names on which a configuration differs from another, with its own values."""
    return {name: value for name, value in configuration.items() if base is None or base.get(name) != value}


def named(chosen: Mapping[str, object]) -> str:
    """`parallelism=dp8, memory=more`; `-` for nothing."""
    return ", ".join(f"{formats.line(str(name))}={formats.line(str(value))}" for name, value in chosen.items()) or "-"


def is_winner(history: History, trial: Trial) -> bool:
    best = winner(history)
    space = history.study.space
    return best is not None and space.identity(trial.configuration) == space.identity(best)


def command_of(history: History, trial: Trial) -> str:
    """The command that was measured, secrets cut out; '' if it was not stored."""
    identity = history.study.space.identity(trial.configuration)
    launched = trial.outcome.command if trial.outcome else ""
    return formats.redacted(history.commands.get(identity) or launched)


def _representative(history: History, best: Configuration | None, value: float | None) -> Trial | None:
    launches = [trial for trial in history.of(best) if trial.state is State.MEASURED]
    counting = _counting(history, launches)
    exact = [trial for trial in counting if trial.value == value]
    return next(iter(exact or counting), None)


def _twins(history: History, launches: Sequence[Trial]) -> list[Trial]:
    """Trials that share a score with these launches since one of the two did nothing."""
    identity = history.study.space.identity
    own = {identity(launch.configuration) for launch in launches}
    bases = {identity(launch.base) for launch in launches if launch.no_op and launch.base is not None}
    return [
        trial
        for trial in history.measured
        if identity(trial.configuration) not in own
        and (identity(trial.configuration) in bases or (trial.no_op and trial.base and identity(trial.base) in own))
    ]


def _counting(history: History, launches: list[Trial]) -> list[Trial]:
    """The confirming launches where they decided, else those of the search."""
    confirmed = history.done is not None and history.done.confirmed
    return [trial for trial in launches if (trial.phase == "confirm") == confirmed] or launches


def _medians(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    kept = list(rows)
    return {name: median([row[name] for row in kept if name in row]) for name in kept[0]}

"""What a reader must know before believing or launching: rules over a history, each naming its source. Pure.

None of them knows a study. A rule is a function `History -> Iterator[Caution]`; a new one is added to `_BEFORE`
or `_AFTER`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from tuner.engines import Notice
from tuner.history import Caution, History
from tuner.report import formats, trials
from tuner.report.facts import LOSS, baseline, deciding, is_winner, sides, winner
from tuner.report.stalls import stalled
from tuner.search import Step
from tuner.trial import Configuration, Failure, Measurement, State, Trial

Rule: TypeAlias = Callable[[History], Iterator[Caution]]
Notices: TypeAlias = Mapping[str, Sequence[Notice]]

# How far two measurements of one configuration in one published report lie apart: smaller gains of single runs
# say nothing.
SINGLE_RUN_SPREAD = 0.16
SPREAD_SOURCE = (
    "published tuning reports: one configuration measured twice in one report differs by 16 %; a flag without "
    "effect reads +39 % in a second and -1.8 % in a third"
)


def cautions(history: History, notices: Notices | None = None) -> tuple[Caution, ...]:
    """Every caution of this history, warnings before notes, each kind in the order of importance.

    `notices`: the engine adapters' static rules on each launch, by its fingerprint.
    """
    found = [caution for rule in _BEFORE for caution in rule(history)]
    found += _noticed(history, notices or {})
    found += [caution for rule in _AFTER for caution in rule(history)]
    return tuple(sorted(found, key=lambda caution: caution.severity != "warning"))


def _simulated(history: History) -> Iterator[Caution]:
    if history.origin == "simulated":
        yield Caution(
            "simulated",
            "every figure here is simulated: it comes from a stand-in engine's performance model, not from a GPU",
            "the study's engines are stand-ins (tuner.testing)",
        )


def _nothing_measured(history: History) -> Iterator[Caution]:
    if history.done is not None and history.done.best is None:
        yield Caution("nothing-measured", "nothing could be measured; there is no command to recommend", "the trials")


def _unfinished(history: History) -> Iterator[Caution]:
    if history.done is None and history.trials:
        yield Caution("unfinished", "the search is not finished: best so far, not the result", "the search", "note")


def _slower_elsewhere(history: History) -> Iterator[Caution]:
    objective = history.study.objective
    for workload, before, after in sides(history):
        if workload == objective.workload or not isinstance(before, Measurement):
            continue
        if isinstance(after, Failure) and after.kind != "not-recorded":
            yield Caution("cliff", f"the winner fails on {workload}: {formats.line(str(after))}", "compare_on")
        if not isinstance(after, Measurement):
            continue
        old, new = before.metrics.get(objective.metric), after.metrics.get(objective.metric)
        if old and new is not None and objective.gain(new, old) < -LOSS:
            yield Caution(
                "cliff",
                f"the winner is worse than the baseline on {workload}: {formats.metric(objective.metric)} "
                f"{formats.with_unit(objective.metric, new)} against {formats.number(old)} "
                f"({formats.percent((new - old) / old)})",
                f"baseline and winner compared on {workload}",
            )


def _limits_missed(history: History) -> Iterator[Caution]:
    objective = history.study.objective
    for name, who, severity in (
        ("the winner", winner(history), "warning"),
        ("the baseline", baseline(history), "note"),
    ):
        side = deciding(history, who)
        if not isinstance(side, Measurement):
            continue
        missed = [
            f"{formats.metric(key)} {formats.with_unit(key, side.metrics.get(key))} (limit {limit:g})"
            for key, limit in objective.limits.items()
            if side.metrics.get(key, float("inf")) > limit
        ]
        if missed:
            yield Caution("limit-missed", f"{name} misses {'; '.join(missed)}", "objective.limits", severity)


def _overridden(history: History) -> Iterator[Caution]:
    for key, value in history.provenance.items():
        if key.startswith("overridden"):
            yield Caution("overridden", f"overridden: {formats.line(value)}", f"provenance, {key}")
    if history.study.node.foreign == "warn" and history.origin == "live":
        yield Caution(
            "overridden",
            "trials ran whether or not somebody else used the GPUs; their figures may be too low",
            "study.yaml, node.foreign: warn",
        )


def _unresolved(history: History) -> Iterator[Caution]:
    for step in _kept_steps(history):
        gain = step.gain or 0.0
        measured = [t for t in history.of(step.after) if t.state is State.MEASURED and t.phase != "confirm"]
        trials = tuple(trial.number for trial in measured)
        what = f"the {formats.percent(gain)} of stage {formats.title(step.phase)}"
        if step.band is not None and gain <= step.band:
            text = f"{what} lies within the noise band of {formats.percent(step.band)}"
            yield Caution("within-noise", text, "repeats and re-launches of this study", trials=trials)
        elif step.band is None and gain < SINGLE_RUN_SPREAD and sum(max(1, len(t.values)) for t in measured) == 1:
            text = f"single measurements cannot resolve {what}: one launch, one run on each side"
            yield Caution("single-measurement", text, SPREAD_SOURCE, trials=trials)


def _noticed(history: History, notices: Notices) -> Iterator[Caution]:
    """Engine notices on the launches that were tried, one caution for each rule, with the trials it is about."""
    about: dict[tuple[str, str], tuple[Notice, list[Trial]]] = {}
    for trial in history.trials:
        for notice in notices.get(history.study.space.identity(trial.configuration), ()):
            about.setdefault((notice.rule, notice.text), (notice, []))[1].append(trial)
    for notice, launched in about.values():
        numbers = tuple(trial.number for trial in launched)
        won = ", the winner among them" if any(is_winner(history, trial) for trial in launched) else ""
        gains = "".join(_rests_on(history, notice, launched))
        text = f"{formats.line(notice.text).rstrip('.')} ({formats.trial_numbers(numbers)}{won}){gains}"
        yield Caution(notice.rule, text, formats.line(notice.source), notice.severity, numbers)


def _rests_on(history: History, notice: Notice, launched: Sequence[Trial]) -> Iterator[str]:
    """The gains credited to a change of nothing but the flags that the notice is about."""
    keys = {key.lstrip("-") for key in notice.keys}
    about = {history.study.space.identity(trial.configuration) for trial in launched}
    for step in _kept_steps(history):
        if step.before is None or step.after is None or history.study.space.identity(step.after) not in about:
            continue
        before, after = (history.study.space.settings(c) for c in (step.before, step.after))
        names = before.args.keys() | after.args.keys()
        differs = {name for name in names if before.args.get(name) != after.args.get(name)}
        if before.engine == after.engine and differs and differs <= keys:
            stage = formats.title(step.phase)
            yield f"; stage {stage} changed nothing else and was credited {formats.percent(step.gain)}"


def _carried_loser(history: History) -> Iterator[Caution]:
    """A stage's `with:` put on an option that had lost in its own stage."""
    steps = {step.phase: step for step in (history.done.steps if history.done else ())}
    for stage in history.study.space.stages:
        for name, option in stage.with_.items():
            step = steps.get(name)
            if step is None or step.after is None or step.after.get(name) == option:
                continue
            lost = [t for t in history.measured if t.phase == name and t.configuration.get(name) == option]
            carried = tuple(
                t.number for t in history.trials if t.phase == stage.name and t.configuration.get(name) == option
            )
            if lost and carried:
                yield Caution(
                    "carried-loser",
                    f"stage {formats.title(stage.name)} was tried with {formats.title(name)}={formats.title(option)} "
                    f"although that had lost in its own stage{_lost_by(history, lost, step)}; what it shows is both "
                    "together",
                    f"the search space {history.study.space.name}, stage {stage.name}, `with:`".replace(" ,", ","),
                    trials=carried,
                )


def _lost_by(history: History, lost: Sequence[Trial], step: Step) -> str:
    values = [trial.value for trial in lost if trial.value is not None]
    if not values or not step.value_after:
        return ""
    best = max(values) if history.study.objective.maximize else min(values)
    change = formats.percent((best - step.value_after) / step.value_after)
    return f" ({formats.number(best)} against {formats.number(step.value_after)}, {change})"


def _start_stalls(history: History) -> Iterator[Caution]:
    stalls = stalled(history)
    if not stalls:
        return
    parts = [f"{s.seconds:.1f} of {s.duration:.1f} s ({s.side}, {s.workload})" for s in stalls]
    shown = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    yield Caution(
        "start-stall",
        f"about {shown} seem to have passed before the first tokens: a cold or stalled start, which repeats and "
        "warm-up would take out of the figures",
        "2 x median - p99 of TTFT: where the requests of a burst are answered evenly from a first moment on, that "
        "moment is as far before the median as p99 is after it",
        "warning" if stalls[0].share >= 0.25 else "note",
    )


def _not_confirmed(history: History) -> Iterator[Caution]:
    if history.done is not None and history.done.best is not None and not history.done.confirmed:
        yield Caution(
            "not-confirmed",
            "the winner was not confirmed by launching it and the baseline again",
            f"method {formats.method(history.study.method)}",
            "note" if history.origin == "recorded" else "warning",
        )


def _kept_steps(history: History) -> list[Step]:
    steps = history.done.steps if history.done else ()
    return [step for step in steps if step.gain is not None and step.gain > 0 and _changed(step.before, step.after)]


def _changed(before: Configuration | None, after: Configuration | None) -> bool:
    return after is not None and after != before


_BEFORE: Sequence[Rule] = (_simulated, _nothing_measured, _slower_elsewhere, _limits_missed, _overridden, _unresolved)
_AFTER: Sequence[Rule] = (_carried_loser, _start_stalls, _not_confirmed, *trials.RULES, _unfinished)

"""Stored Optuna trials read as our trials, and ours written as theirs. The only mapping between the two.

| what came of it                          | Optuna state | value             | beside it                              |
|------------------------------------------|--------------|-------------------|----------------------------------------|
| measured                                 | COMPLETE     | median of repeats | user attributes below                  |
| a limit missed                           | COMPLETE     | the value         | constraint `METRIC`, measured - limit  |
| a no-op that moved nothing else          | COMPLETE     | its own value     | constraint `no-op`, 1                  |
| failure, invalid measurement, abandoned  | FAIL         | none              | `failure`                              |
| provably lost                            | PRUNED       | last report       |                                        |

User attributes, readable in optuna-dashboard: `phase`, `engine`, `command`, `metrics`, `failure`; for us
`configuration`, `base`, `threshold` (the claim, written when the trial is made) and `outcome`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState
from pydantic import TypeAdapter

from tuner.objective import Objective
from tuner.search import Evaluate
from tuner.space import SearchSpace
from tuner.trial import Configuration, Outcome, State, Trial

NO_OP = "no-op"
# The study's user attribute with the numbers of trials that no longer count, and the phase they are then read with.
SET_ASIDE = "set-aside"
_STATES = {
    TrialState.COMPLETE: State.MEASURED,
    TrialState.FAIL: State.FAILED,
    TrialState.PRUNED: State.PRUNED,
    TrialState.RUNNING: State.RUNNING,
}


def distributions(space: SearchSpace) -> dict[str, CategoricalDistribution]:
    """One static categorical distribution a stage, with all its option names."""
    return {
        stage.name: CategoricalDistribution([option.name for option in stage.options])
        for stage in space.stages
        if stage.options
    }


def claim(evaluate: Evaluate) -> dict[str, Any]:
    """The user attributes that say, from a trial's first moment, what it is for.

    `phase` comes last: others take a trial as claimed once they see it.
    """
    return {
        "configuration": dict(evaluate.configuration),
        "base": dict(evaluate.base) if evaluate.base is not None else None,
        "threshold": evaluate.threshold,
        "phase": evaluate.phase,
    }


def read(trials: Iterable[FrozenTrial], objective: Objective | None = None) -> list[Trial]:
    """Our trials, in order; those that wait in Optuna's queue are left out."""
    return Reader(objective)(trials)


class Reader:
    """`read` for one storage, remembering finished trials: they never change."""

    def __init__(self, objective: Objective | None = None) -> None:
        self._objective = objective
        self._finished: dict[int, Trial] = {}

    def __call__(self, trials: Iterable[FrozenTrial], set_aside: Collection[int] = ()) -> list[Trial]:
        """`set_aside`: numbers of trials that are shown and count nowhere."""
        found = [self._read(trial) for trial in trials if trial.state in _STATES]
        return [replace(trial, phase=SET_ASIDE) if trial.number in set_aside else trial for trial in found]

    def _read(self, frozen: FrozenTrial) -> Trial:
        if not frozen.state.is_finished():
            return to_trial(frozen, self._objective)
        if frozen._trial_id not in self._finished:
            self._finished[frozen._trial_id] = to_trial(frozen, self._objective)
        return self._finished[frozen._trial_id]


def to_trial(frozen: FrozenTrial, objective: Objective | None = None) -> Trial:
    """One stored trial. A finished one counts by its real parameters, a running one by its claim."""
    attributes, state = frozen.user_attrs, _STATES[frozen.state]
    claimed = attributes.get("configuration") or {}
    chosen = (claimed or frozen.params) if state is State.RUNNING else (frozen.params or claimed)
    base = attributes.get("base")
    outcome = load_outcome(attributes["outcome"]) if "outcome" in attributes else None
    if state is State.FAILED and (outcome is None or outcome.failure is None):
        outcome = Outcome.failed("unknown", "the objective gave no value")
    return Trial(
        number=frozen.number,
        phase=attributes.get("phase") or "",
        configuration=Configuration(chosen),
        state=state,
        value=frozen.value if state is State.MEASURED else None,
        values=_repeats(outcome, objective),
        violation=_violation(frozen, outcome, objective),
        no_op=frozen.constraints.get(NO_OP, 0.0) > 0,
        base=Configuration(base) if base is not None else None,
        outcome=outcome,
        started=frozen.datetime_start.timestamp() if frozen.datetime_start else None,
        finished=frozen.datetime_complete.timestamp() if frozen.datetime_complete else None,
    )


def tell(study: optuna.Study, trial: optuna.Trial, outcome: Outcome, objective: Objective, engine: str) -> None:
    """Store what came of a trial: attributes first, the state last, for a finished trial cannot be changed."""
    for key, value in attributes(outcome, engine).items():
        trial.set_user_attr(key, value)
    measurement = outcome.measurement
    if outcome.failure is not None or measurement is None:
        study.tell(trial, state=TrialState.FAIL)
        return
    for metric, limit in objective.limits.items():
        trial.set_constraint(metric, measurement.metrics.get(metric, 2 * limit) - limit)
    if outcome.effective is not None and outcome.effective.pools:
        trial.set_constraint(NO_OP, 1.0)
    study.tell(trial, measurement.metrics[objective.metric])


def live(study: optuna.Study, frozen: FrozenTrial) -> optuna.Trial:
    """A handle on a trial that another process made, to tell what came of it."""
    return optuna.trial.Trial(study, frozen._trial_id)


def attributes(outcome: Outcome, engine: str) -> dict[str, Any]:
    """The user attributes of an outcome; those for people first."""
    readable: dict[str, Any] = {"engine": engine, "command": outcome.command}
    if outcome.measurement is not None:
        readable["metrics"] = dict(outcome.measurement.metrics)
    if outcome.failure is not None:
        readable["failure"] = str(outcome.failure)
    return readable | {"outcome": dump_outcome(outcome)}


def dump_outcome(outcome: Outcome) -> dict[str, Any]:
    """The outcome as JSON types."""
    dumped: dict[str, Any] = _adapter().dump_python(outcome, mode="json", warnings=False)
    return dumped


def load_outcome(stored: Mapping[str, Any]) -> Outcome:
    """The outcome from its JSON types."""
    return _adapter().validate_python(stored)


@cache
def _adapter() -> TypeAdapter[Outcome]:
    return TypeAdapter(Outcome)


def _repeats(outcome: Outcome | None, objective: Objective | None) -> tuple[float, ...]:
    if outcome is None or outcome.measurement is None or objective is None:
        return ()
    return tuple(repeat[objective.metric] for repeat in outcome.measurement.repeats if objective.metric in repeat)


def _violation(frozen: FrozenTrial, outcome: Outcome | None, objective: Objective | None) -> float:
    if objective is not None and outcome is not None and outcome.measurement is not None:
        return objective.violation(outcome.measurement.metrics)
    return sum(max(0.0, excess) for name, excess in frozen.constraints.items() if name != NO_OP)

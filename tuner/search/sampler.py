"""The staged decision as an ordinary Optuna sampler, for studies of our own and for anybody's objective.

    space = load_space("search_spaces/mine.yaml")
    study = optuna.create_study(direction="maximize", sampler=StagedSampler(space))
    study.optimize(lambda trial: measure(suggest(space, trial)))

Everything is read from the study each time, so a study resumes by running it again and several processes may
share one storage. The space belongs to the study: an edited space needs a study of a new name.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optuna.exceptions import TrialPruned
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection
from optuna.trial import BaseTrial, FrozenTrial, TrialState

from tuner.objective import METHODS, Method, Objective
from tuner.search import Decision, Done, Evaluate, Wait
from tuner.search.decide import decide
from tuner.search.numeric import distribution
from tuner.search.records import SET_ASIDE, Reader, claim, distributions
from tuner.space import SearchSpace
from tuner.trial import Configuration, Scalar, State, Trial

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution

_DONE = "done"
_POLL_S = 0.05


class StagedSampler(BaseSampler):
    """Proposes what `tuner.search.decide` asks for; stops `study.optimize` when the search is over.

    Args:
        space: the stages.
        method: a name in `tuner.objective.METHODS`, or a method of one's own.
        objective: metric and limits, where trials carry metrics; by default the study's own value and direction.
        seed: of the samplers inside numeric stages, and of names the space does not know.
        wait_s: the longest a trial waits for another process whose result it needs.

    A name that the space does not know is sampled at random. On a study whose search is over one trial more is
    made and pruned. A trial that is enqueued with fixed parameters, or claimed already, is left as it is.

    Raises:
        ValueError: several objectives; there is no such method.
        TimeoutError: in `ask`, when a needed trial did not finish within `wait_s`.
    """

    def __init__(
        self,
        space: SearchSpace,
        method: Method | str = "normal",
        objective: Objective | None = None,
        seed: int = 0,
        wait_s: float = 7200.0,
    ) -> None:
        if isinstance(method, str) and method not in METHODS:
            raise ValueError(f"there is no method {method!r}; methods are {', '.join(METHODS)}")
        self.space = space
        self.method = METHODS[method] if isinstance(method, str) else method
        self._objective = objective
        self._seed = seed
        self._wait_s = wait_s
        self._random = RandomSampler(seed=seed)
        self._distributions = distributions(space)
        self.read = Reader(objective)

    def trials(self, study: Study) -> list[Trial]:
        """The study's trials as they count."""
        return self.read(study.get_trials(deepcopy=False), _set_aside(study))

    def reseed_rng(self) -> None:
        self._random.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Claim: write what this trial is for before anybody else can decide the same."""
        self._raise_error_if_multi_objective(study)
        if _claimed(trial):
            return
        decision = self._decide_for(study, trial.number)
        claimed = claim(decision) if isinstance(decision, Evaluate) else {"phase": _DONE}
        for key, value in claimed.items():
            study._storage.set_trial_user_attr(trial._trial_id, key, value)
            trial.set_user_attr(key, value)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        self._raise_error_if_multi_objective(study)
        return {name: self.sample_independent(study, trial, name, domain) for name, domain in search_space.items()}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        self._raise_error_if_multi_objective(study)
        claimed = study._storage.get_trial(trial._trial_id).user_attrs
        configuration = claimed.get("configuration") or {}
        if param_name in configuration:
            return configuration[param_name]
        if param_name in self._distributions and claimed.get("phase") == _DONE:
            raise TrialPruned("the search is over")
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """End `optimize` once the search is over. This trial's outcome is not stored yet, so it is folded in."""
        phase = study._storage.get_trial(trial._trial_id).user_attrs.get("phase")
        ours = phase == _DONE or self._distributions.keys() & trial.params.keys()
        if not ours or not getattr(study._thread_local, "in_optimize_loop", False):
            return
        if phase == _DONE or isinstance(self._decide(study, self._finished(study, trial, state, values)), Done):
            study.stop()

    def _decide_for(self, study: Study, number: int) -> Decision:
        """Elder first: trial n sees every trial below it and finished ones above; it waits for unclaimed elders."""
        deadline = time.monotonic() + self._wait_s
        while time.monotonic() < deadline:
            every = study._storage.get_all_trials(study._study_id, deepcopy=False)
            elders = [t for t in every if t.number < number]
            if all(t.state is not TrialState.RUNNING or _claimed(t) for t in elders):
                finished = [t for t in every if t.number > number and t.state.is_finished()]
                decision = self._decide(study, self.read(_counting(elders + finished), _set_aside(study)))
                if not isinstance(decision, Wait):
                    return decision
            time.sleep(_POLL_S)
        raise TimeoutError(f"a trial that trial {number} depends on did not finish within {self._wait_s:g} s")

    def _decide(self, study: Study, trials: Sequence[Trial]) -> Decision:
        objective = self._objective or Objective("value", maximize=study.direction is StudyDirection.MAXIMIZE)
        return decide(self.space, trials, self.method, objective, self._seed)

    def _finished(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> list[Trial]:
        every = study._storage.get_all_trials(study._study_id, deepcopy=False)
        ended = {
            TrialState.COMPLETE: State.MEASURED,
            TrialState.PRUNED: State.PRUNED,
        }.get(state, State.FAILED)
        return [
            replace(known, state=ended, value=values[0] if values and ended is State.MEASURED else None)
            if known.number == trial.number
            else known
            for known in self.read(_counting(every), _set_aside(study))
        ]


def suggest(space: SearchSpace, trial: BaseTrial) -> Configuration:
    """The configuration this trial is to measure, suggested parameter by parameter so that Optuna stores it.

    Numeric parameters are there only where their stage has been reached.
    """
    chosen: dict[str, Scalar] = {
        name: trial.suggest_categorical(name, domain.choices) for name, domain in distributions(space).items()
    }
    engine = space.engine_of(chosen)
    wanted = trial.user_attrs.get("configuration") or trial.params
    for stage in space.stages:
        for parameter in stage.parameters:
            if parameter.name in wanted and engine in parameter.engines:
                chosen[parameter.name] = _suggest(trial, parameter.name, distribution(parameter.engines[engine]))
    return Configuration(chosen)


def _suggest(trial: BaseTrial, name: str, domain: Any) -> Scalar:
    value: Scalar = trial._suggest(name, domain)  # type: ignore[attr-defined]
    return value


def _claimed(trial: FrozenTrial) -> bool:
    return "phase" in trial.user_attrs or "fixed_params" in trial.system_attrs


def _set_aside(study: Study) -> list[int]:
    return list(study.user_attrs.get(SET_ASIDE, ()))


def _counting(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    return [trial for trial in trials if trial.user_attrs.get("phase") != _DONE]

"""A sampler inside a stage: proposes values of a stage's parameters from the records of this stage alone.

The seed comes from the study's seed, the stage and the number of counted trials, so that the same history
always gives the same proposal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tuner.rules import holds
from tuner.search.scores import Scores
from tuner.space import Domain, Parameter, SearchSpace, Stage
from tuner.trial import Configuration, Scalar, fingerprint

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

# Draws before a stage whose space is (nearly) exhausted ends.
_MOST_DRAWS = 64


def proposals(
    space: SearchSpace, stage: Stage, base: Configuration, scores: Scores, seed: int = 0
) -> list[Configuration]:
    """What was proposed on this base so far, and the next proposal once all of those are settled."""
    parameters = [p for p in stage.parameters if space.engine_of(base) in p.engines]
    if not parameters:
        return []
    tried = _tried(parameters, base, scores)
    unsettled = any(scores.attempts(configuration) < 1 for configuration in tried)
    if unsettled or len(tried) >= stage.trials:
        return tried
    proposal = _propose(space, stage, parameters, base, tried, scores, seed)
    return [*tried, proposal] if proposal is not None else tried


def distribution(domain: Domain) -> BaseDistribution:
    """The Optuna distribution of a domain."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if domain.type == "categorical":
        return CategoricalDistribution(domain.choices)
    low, high = domain.low or 0.0, domain.high or 0.0
    if domain.type == "int":
        return IntDistribution(int(low), int(high), log=domain.log, step=int(domain.step or 1))
    return FloatDistribution(low, high, log=domain.log, step=domain.step)


def _tried(parameters: Sequence[Parameter], base: Configuration, scores: Scores) -> list[Configuration]:
    names = {parameter.name for parameter in parameters}
    found = [
        trial.configuration
        for trial in scores.trials
        if names <= trial.configuration.keys()
        and all(trial.configuration.get(name) == value for name, value in base.items() if name not in names)
    ]
    return list(dict.fromkeys(found))


def _propose(
    space: SearchSpace,
    stage: Stage,
    parameters: Sequence[Parameter],
    base: Configuration,
    tried: Sequence[Configuration],
    scores: Scores,
    seed: int,
) -> Configuration | None:
    """The sampler's next point that is new and keeps the stage's rules; None when the draws are used up."""
    engine = space.engine_of(base)
    domains = {parameter.name: distribution(parameter.engines[engine]) for parameter in parameters}
    taken = {space.identity(configuration) for configuration in tried}
    for draw in range(_MOST_DRAWS):
        sampler = _sampler(stage.sampler, int(fingerprint([seed, stage.name, len(tried), draw])[:8], 16))
        study = _quiet_study(sampler, scores.objective.maximize)
        study.add_trials(_frozen(domains, tried, scores))
        point: dict[str, Scalar] = dict(study.ask(domains).params)
        configuration = base.merged(point)
        arguments = space.settings(configuration).args
        if space.identity(configuration) not in taken and all(holds(rule, arguments) for rule in stage.rules):
            return configuration
    return None


def _quiet_study(sampler: BaseSampler, maximize: bool) -> Study:
    """An in-memory study; Optuna announces every study it makes, and this one is nobody's business."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(sampler=sampler, direction="maximize" if maximize else "minimize")
    finally:
        optuna.logging.set_verbosity(verbosity)


def _sampler(name: str, seed: int) -> BaseSampler:
    from optuna.samplers import RandomSampler, TPESampler

    return RandomSampler(seed=seed) if name == "random" else TPESampler(seed=seed, n_startup_trials=4)


def _frozen(domains: dict[str, Any], tried: Sequence[Configuration], scores: Scores) -> list[Any]:
    """The trials so far for the sampler; one that failed counts as the worst value seen, for it must learn from it."""
    import optuna

    values = {configuration: scores.value(configuration) for configuration in tried}
    seen = [value for value in values.values() if value is not None]
    if not seen:
        return []
    worst = min(seen) if scores.objective.maximize else max(seen)
    return [
        optuna.trial.create_trial(
            params={name: configuration[name] for name in domains},
            distributions=domains,
            value=worst if value is None else value,
        )
        for configuration, value in values.items()
        if all(domains[name]._contains(domains[name].to_internal_repr(configuration[name])) for name in domains)
    ]

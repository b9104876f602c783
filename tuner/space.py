"""The staged search space: stages, options, parameters, and how a configuration becomes settings. Pure.

A space is *canonical* once `tuner.spec` has spelled every option's flags the way its engine's current
version does; merging and identity are then plain dictionary work and need no engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from tuner.trial import Configuration, Scalar, Settings, Trial, Value, fingerprint


@dataclass(frozen=True)
class Changes:
    """What an option changes on one engine. In `args`, `None` removes a flag an earlier stage set."""

    args: Mapping[str, Value] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)
    model: str | None = None
    replicas: int | None = None


@dataclass(frozen=True)
class Option:
    """A named choice in a stage, offered to the engines it names; naming none it changes nothing, for all."""

    name: str
    engines: Mapping[str, Changes] = field(default_factory=dict)

    def offered_to(self, engine: str) -> bool:
        return not self.engines or engine in self.engines


@dataclass(frozen=True)
class Domain:
    """The values a numeric (or categorical) parameter may take on one engine; `low` and `high` included."""

    type: Literal["int", "float", "categorical"]
    low: float | None = None
    high: float | None = None
    log: bool = False
    step: float | None = None
    choices: tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class Parameter:
    """A flag tuned over a domain, for the engines that have it. `name` is the canonical flag."""

    name: str
    engines: Mapping[str, Domain]


@dataclass(frozen=True)
class Stage:
    """One decision with its options, or several parameters tuned together by an Optuna sampler.

    `with_` names options of earlier stages that are put on while this stage's options are tried.
    `sampler` and `trials` belong to a stage with parameters; `rules` are expressions over flags that a
    proposal must satisfy (`max_num_seqs <= max_num_batched_tokens`).
    """

    name: str
    options: tuple[Option, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    with_: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    sampler: str = "tpe"
    trials: int = 10

    def option(self, name: Scalar) -> Option:
        return next(option for option in self.options if option.name == name)


@dataclass(frozen=True)
class SearchSpace:
    """Stages in order, on top of what is fixed for each engine.

    `engines` are the engines that may be used, in the study's order; `models` the checkpoint each one loads
    (`model` where it names none); `fixed` what the person fixed for each.
    """

    stages: tuple[Stage, ...]
    name: str = ""
    model: str = ""
    engines: tuple[str, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Changes] = field(default_factory=dict)

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the space with everything that is fixed in it."""
        return fingerprint(repr(self))

    @property
    def baseline(self) -> Configuration:
        """The first configuration: every stage at its first option."""
        return Configuration({stage.name: stage.options[0].name for stage in self._choices()})

    def stage(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)

    def engine_of(self, configuration: Mapping[str, Scalar]) -> str:
        """The engine of the first chosen option that names exactly one; the study's only engine if none does."""
        for option in self._chosen(configuration):
            if len(option.engines) == 1:
                return next(iter(option.engines))
        return self.engines[0] if self.engines else ""

    def offered(self, stage: Stage, engine: str) -> list[Option]:
        """The stage's options this engine can be given."""
        return [option for option in stage.options if option.offered_to(engine)]

    def candidates(self, stage: Stage, base: Configuration) -> list[Configuration]:
        """`base` with each option of `stage` that its engine is offered, the stage's `with_` put on first."""
        if stage is self.stages[0]:
            return [base.having(**{stage.name: option.name}) for option in stage.options]
        engine = self.engine_of(base)
        put_on = {
            name: option for name, option in stage.with_.items() if self.stage(name).option(option).offered_to(engine)
        }
        return [base.merged({**put_on, stage.name: option.name}) for option in self.offered(stage, engine)]

    def settings(self, configuration: Mapping[str, Scalar]) -> Settings:
        """What the engine is asked for: fixed settings, then every stage in order (see `merge`)."""
        engine = self.engine_of(configuration)
        changes = [self.fixed[engine]] if engine in self.fixed else []
        changes += [option.engines[engine] for option in self._chosen(configuration) if engine in option.engines]
        args: dict[str, Value] = {}
        env: dict[str, str] = {}
        model, replicas = self.models.get(engine, self.model), 1
        for change in changes:
            args = merge(args, change.args)
            env = merge(env, change.env)
            model = change.model or model
            replicas = change.replicas or replicas
        for parameter in self._parameters(engine):
            if parameter.name in configuration:
                args[parameter.name] = configuration[parameter.name]
        return Settings(engine, model, args, env, replicas)

    def identity(self, configuration: Configuration) -> str:
        """The fingerprint of the launch this configuration leads to."""
        identity = self._identities.get(configuration)
        if identity is None:
            identity = self._identities[configuration] = self.settings(configuration).fingerprint
        return identity

    def trials_of(self, configuration: Configuration | None, trials: Iterable[Trial]) -> list[Trial]:
        """Those of this configuration's launch, under whatever name, in order; none for None."""
        if configuration is None:
            return []
        identity = self.identity(configuration)
        return [trial for trial in trials if self.identity(trial.configuration) == identity]

    def replacing(self, **fields: Any) -> SearchSpace:
        return replace(self, **fields)

    @cached_property
    def _identities(self) -> dict[Configuration, str]:
        """Remembered identities: deciding over 1000 trials asks for each of them many times."""
        return {}

    def _choices(self) -> Iterator[Stage]:
        return (stage for stage in self.stages if stage.options)

    def _chosen(self, configuration: Mapping[str, Scalar]) -> Iterator[Option]:
        for stage in self._choices():
            if stage.name in configuration:
                yield stage.option(configuration[stage.name])

    def _parameters(self, engine: str) -> Iterator[Parameter]:
        return (parameter for stage in self.stages for parameter in stage.parameters if engine in parameter.engines)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`: the later wins, mappings merge, lists replace, `None` removes."""
    merged = dict(base)
    for key, value in over.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged

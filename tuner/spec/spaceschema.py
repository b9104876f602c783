"""The shape of a search space, field by field. What must hold between stages is checked in `tuner.spec.spacefile`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tuner import rules
from tuner.spec.faults import Model, bad
from tuner.spec.fields import EngineName, EnvName, EnvValue, ModelName, Name

RESERVED_NAMES = ("confirm", "undo", "combine")


def _rule(value: str) -> str:
    try:
        rules.rule(value)
    except rules.RuleError as error:
        way_out = "write a comparison of flags and numbers: max_num_seqs <= max_num_batched_tokens"
        raise bad(f"the rule {error}", way_out) from None
    return value


def _stage_name(value: str) -> str:
    if value in RESERVED_NAMES:
        raise bad("is the name of a phase of the search, not of a stage", "choose another name")
    return value


def _number(value: Any) -> Any:
    """A whole number stays one."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise bad("must be a number")


def _plain(value: Any) -> Any:
    if isinstance(value, (dict, list)) or value is None:
        raise bad("a choice must be text, a number, true or false")
    return value


Number = Annotated[Any, BeforeValidator(_number)]


class Change(Model):
    """What an option changes on one engine. Of what is `where_known` each is left out where the engine's version does
    not have the flag or the value, or does not read the variable; with the last of it goes the option."""

    args: dict[str, Any] = Field(default_factory=dict, max_length=500)
    args_where_known: Annotated[dict[str, Any], Field(alias="args-where-known", max_length=500)] = Field(
        default_factory=dict
    )
    env: dict[EnvName, EnvValue | None] = Field(default_factory=dict)
    env_where_known: Annotated[dict[EnvName, EnvValue | None], Field(alias="env-where-known")] = Field(
        default_factory=dict
    )
    model: ModelName | None = None
    replicas: Annotated[int, Field(ge=1, le=1024)] | None = None


class Domain(Model):
    """The values of one parameter on one engine."""

    type: Literal["int", "float", "categorical"]
    low: Number = None
    high: Number = None
    log: bool = False
    step: Number = None
    choices: Annotated[list[Annotated[Any, BeforeValidator(_plain)]], Field(max_length=1000)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Domain:
        if self.type == "categorical":
            self._check_choices()
        else:
            self._check_range()
        return self

    def _check_choices(self) -> None:
        if not self.choices:
            raise bad("a categorical parameter needs choices", "add choices: [a, b]")
        if len({repr(choice) for choice in self.choices}) < len(self.choices):
            raise bad("a choice is listed twice", "name each once", "choices")
        for name in ("low", "high", "step", "log"):
            if name in self.model_fields_set:
                raise bad("does not belong to a categorical parameter", "leave it out", name)

    def _check_range(self) -> None:
        if self.choices is not None:
            raise bad(f"does not belong to a parameter of type {self.type}", "write type: categorical", "choices")
        if self.low is None or self.high is None:
            raise bad("a range needs low and high", "add both")
        for name in ("low", "high", "step"):
            if self.type == "int" and isinstance(getattr(self, name), float):
                raise bad("must be a whole number for type int", "write type: float", name)
        if self.low >= self.high:
            raise bad(f"must be less than high ({self.high})", "swap or widen them", "low")
        if self.log and self.low <= 0:
            raise bad("must be more than 0 on a logarithmic scale", "leave out log, or raise low", "low")
        if self.step is not None and (self.step <= 0 or self.log):
            raise bad("must be more than 0, and cannot be combined with log", "leave out one", "step")


class Search(Model):
    """How a stage with parameters is searched."""

    sampler: Literal["tpe", "random"] = "tpe"
    trials: Annotated[int, Field(ge=1, le=1000)] = 10


class Stage(Model):
    required: ClassVar[tuple[str, ...]] = ("name",)

    name: Annotated[Name, AfterValidator(_stage_name)] | None = None
    options: Annotated[dict[Name, dict[EngineName, Change]], Field(min_length=1, max_length=1000)] | None = None
    parameters: Annotated[dict[str, dict[EngineName, Domain]], Field(min_length=1, max_length=100)] | None = None
    with_: Annotated[dict[str, str], Field(alias="with")] = Field(default_factory=dict)
    rules: Annotated[list[Annotated[str, AfterValidator(_rule)]], Field(max_length=100)] = Field(default_factory=list)
    search: Search | None = None


class Space(Model):
    required: ClassVar[tuple[str, ...]] = ("stages",)

    stages: Annotated[list[Any], Field(min_length=1, max_length=100)] | None = None

"""The shape of study.yaml, field by field; that of a workload is in `tuner.spec.workloadschema`, that of a search space
in `tuner.spec.spaceschema`.

A model says what each value must be by itself. What must hold between values is checked in `tuner.spec.studyfile`.
"""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from tuner.benchmarks import CLIENTS
from tuner.errors import without_password
from tuner.launchers import LAUNCHERS
from tuner.objective import METHODS
from tuner.spec.faults import Model, bad, nearest
from tuner.spec.fields import EngineName, EnvName, EnvValue, ModelName, Name, Seconds, Text, seconds
from tuner.spec.workloadschema import Workload

_SPREAD = ("mean", "median", "std", "p50", "p90", "p95", "p99")
LATENCIES = tuple(f"{spread}_{name}_ms" for name in ("ttft", "tpot", "itl", "e2el") for spread in _SPREAD)
THROUGHPUTS = ("total_token_throughput", "output_throughput", "request_throughput", "request_goodput")
COSTS = (*LATENCIES, "duration")
PLANNED_METHODS = ("quick", "thorough")
PLANNED_KEYS = ("confidence", "racing", "undo", "combine")
PLANNED_LAUNCHERS = ("docker", "container", "command")


def _gpus(value: Any) -> Any:
    """`auto`, a number, UUIDs, or `{simulated: n}` (which stays a mapping)."""
    way_out = "write a number, 0, auto, a list of UUIDs or {simulated: 8}"
    if isinstance(value, dict):
        number = value.get("simulated")
        if list(value) != ["simulated"] or not _is_count(number, 1):
            raise bad("must be {simulated: a whole number from 1 to 1024}", way_out)
        return value
    if isinstance(value, list):
        if not value or not all(isinstance(v, str) and re.fullmatch(r"(GPU|MIG)-[\w./-]{1,80}", v) for v in value):
            raise bad("a list of GPUs holds UUIDs as nvidia-smi -L prints them", "GPU-xxxxxxxx-...; " + way_out)
        if len(set(value)) < len(value):
            raise bad("a GPU is listed twice", "name each GPU once")
        return tuple(value)
    if value == "auto" or _is_count(value, 0):
        return value
    raise bad("must say which GPUs", way_out)


def _is_count(value: Any, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= 1024


def _foreign(value: Any) -> Any:
    """What to do about other people's processes, and for how many seconds to wait."""
    way_out = "write refuse, warn or wait with a time, such as wait 30m"
    words = value.split() if isinstance(value, str) else []
    if words in (["refuse"], ["warn"]):
        return words[0], 0.0
    if len(words) == 2 and words[0] == "wait":
        return "wait", seconds(words[1])
    raise bad("must say what to do when others are on the GPUs", way_out)


class Node(Model):
    gpus: Annotated[Any, BeforeValidator(_gpus)] = "auto"
    foreign: Annotated[Any, BeforeValidator(_foreign)] = ("refuse", 0.0)
    port: Annotated[int, Field(ge=1, le=65535)] | None = None


def _words(value: Any) -> Any:
    """One line as a shell reads it, or a list of words."""
    if not isinstance(value, str):
        return value
    try:
        return shlex.split(value)
    except ValueError as error:
        raise bad(f"is not a command line: {str(error).lower()}") from None


class Process(Model):
    type: Literal["process"]
    path: Text | None = None
    prefix: Annotated[list[Text], BeforeValidator(_words)] | None = None
    simulated: bool | None = None

    @model_validator(mode="after")
    def _one_program(self) -> Process:
        if self.path is not None and self.simulated:
            raise bad("a simulated engine is not looked for in a folder", "keep path or simulated", "path")
        return self


def _address(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]{1,300}(/\S{0,300})?", value):
        raise bad("is not an http address", "write http://127.0.0.1:8000")
    return value


class Attach(Model):
    type: Literal["attach"]
    url: Annotated[str, AfterValidator(_address)]


def _launcher(value: Any) -> Any:
    """`type` may be left out: process."""
    if not isinstance(value, dict):
        raise bad("must be a mapping", "write {type: process, path: /opt/vllm/bin}")
    kind = value.get("type", "process")
    if kind in PLANNED_LAUNCHERS and kind not in LAUNCHERS:
        raise bad("this version has no such launcher yet", f"launchers are {', '.join(LAUNCHERS)}", "type")
    if kind not in LAUNCHERS:
        raise bad("there is no launcher of this type", nearest(kind, LAUNCHERS, "launchers"), "type")
    return {**value, "type": kind}


Launcher = Annotated[Process | Attach, Field(discriminator="type"), BeforeValidator(_launcher)]


class Engine(Model):
    version: Text | None = None
    launcher: Launcher = Process(type="process")
    model: ModelName | None = None
    args: dict[str, Any] = Field(default_factory=dict, max_length=500)
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    start_timeout: Seconds = 1800.0
    stall_timeout: Seconds = 600.0


class Baseline(Model):
    command: Text
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)


def _warmup(value: Any) -> Any:
    if value == "auto":
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1_000_000:
        return value
    raise bad("must be auto or a number of requests", "write auto, or 0 for none")


def _client(value: str) -> str:
    if value not in CLIENTS:
        raise bad("there is no benchmark client of this name", nearest(value, CLIENTS, "clients"))
    return value


class Benchmark(Model):
    client: Annotated[str, AfterValidator(_client)] = "tuner"
    warmup: Annotated[Any, BeforeValidator(_warmup)] = None
    repeats: Annotated[int, Field(ge=1, le=100)] = 3
    timeout: Seconds = 3600.0
    processes: Annotated[int, Field(ge=1, le=128)] = 1
    records: bool = True


def _metric(value: str) -> str:
    if value not in THROUGHPUTS + COSTS:
        raise bad("there is no metric of this name", nearest(value, THROUGHPUTS + COSTS, "metrics"))
    return value


def _more_is_better(value: str) -> str:
    if _metric(value) in COSTS:
        raise bad("more of this is worse", f"write minimize: {value}")
    return value


def _less_is_better(value: str) -> str:
    if _metric(value) in THROUGHPUTS:
        raise bad("less of this is worse", f"write maximize: {value}")
    return value


def _limited(value: str) -> str:
    if _metric(value) in THROUGHPUTS:
        raise bad("a limit is the most a metric may be, and more of this is better", "limit a latency or duration")
    return value


class Objective(Model):
    maximize: Annotated[str, AfterValidator(_more_is_better)] | None = None
    minimize: Annotated[str, AfterValidator(_less_is_better)] | None = None
    workload: Text | None = None
    limits: dict[Annotated[str, AfterValidator(_limited)], Annotated[float, Field(gt=0)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_direction(self) -> Objective:
        if self.maximize and self.minimize:
            raise bad("there is one objective: maximize or minimize", "keep one, put the other under limits")
        return self


def method_name(value: str) -> str:
    if value in PLANNED_METHODS and value not in METHODS:
        raise bad("this version does not have this method yet", f"methods are {', '.join(METHODS)}")
    if value not in METHODS:
        raise bad("there is no method of this name", nearest(value, METHODS, "methods"))
    return value


MethodName = Annotated[str, AfterValidator(method_name)]


def _no_planned_key(value: Any) -> Any:
    for key in value if isinstance(value, dict) else ():
        if key in PLANNED_KEYS:
            raise bad("this version does not have this part of a method yet", "leave it out", key)
    return value


class MethodTable(Model):
    base: MethodName = "normal"
    beam: Annotated[int, Field(ge=1, le=20)] | None = None
    min_gain: Annotated[float, Field(ge=0, lt=1)] | None = None
    confirm: Annotated[int, Field(ge=0, le=20)] | None = None


def _kind(value: Any) -> str:
    return "table" if isinstance(value, dict) else "name"


Method = Annotated[
    Annotated[MethodName, Tag("name")]
    | Annotated[MethodTable, Tag("table")],
    Discriminator(_kind),
    BeforeValidator(_no_planned_key),
]  # fmt: skip


class Budget(Model):
    wall_time: Seconds | None = None
    until: str | None = None
    trials: Annotated[int, Field(ge=1, le=1_000_000)] | None = None

    @model_validator(mode="after")
    def _clock_time(self) -> Budget:
        if self.until is not None and not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", self.until):
            raise bad("must be a clock time", 'write hours and minutes: "08:00"', "until")
        return self


def _search_space(value: Any) -> Any:
    if value is None or isinstance(value, dict) or (isinstance(value, str) and value.strip()):
        return value
    raise bad("must be the name of a search space, a path, or stages", "tuner spaces lists the names")


def _storage(value: str) -> str:
    shown = without_password(value)
    if not re.match(r"[a-z][a-z0-9+]*://", value):
        way_out = "write sqlite:///study.db or postgresql://host/name, or leave it out"
        raise bad("must be a database URL", way_out, shown=shown)
    if "@" in value.split("?")[0].rpartition("@")[0]:
        raise bad("must have one @, before the host", "write an @ of the password as %40, a / as %2F", shown=shown)
    return value


class Study(Model):
    required: ClassVar[tuple[str, ...]] = ("model", "search_space", "workloads")
    named: ClassVar[tuple[str, ...]] = ("engines", "workloads")

    model: ModelName | None = None
    search_space: Annotated[Any, BeforeValidator(_search_space)] = None
    node: Node = Node()
    engines: Annotated[dict[EngineName, Engine | None], Field(min_length=1)] | None = None
    baseline: Baseline | None = None
    workloads: Annotated[dict[Name, Workload], Field(min_length=1)] | None = None
    benchmark: Benchmark = Benchmark()
    objective: Objective = Objective()
    compare_on: list[str] = Field(default_factory=list)
    method: Method = "normal"
    budget: Budget = Budget()
    storage: Annotated[str, AfterValidator(_storage)] | None = None

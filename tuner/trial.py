"""The values one trial is made of: configuration, settings, launch, measurement, failure, outcome, trial.

Pure and frozen: nothing here starts, waits or writes. A change is a new value.
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from tuner.policy import FailureKind, Policy, policy

Scalar: TypeAlias = "str | int | float | bool | None"
Value: TypeAlias = "Scalar | Sequence[Any] | Mapping[str, Any]"
EMPTY: Mapping[str, Any] = MappingProxyType({})


class Configuration(Mapping[str, Scalar]):
    """The option chosen in every stage and the value of every numeric parameter, by name.

    What was asked for. Immutable, hashable and JSON-able; equal whatever the order of its names.
    """

    __slots__ = ("_hash", "_items")

    def __init__(self, chosen: Mapping[str, Scalar] = EMPTY) -> None:
        self._items = dict(chosen)
        self._hash = hash(frozenset(self._items.items()))

    def __getitem__(self, name: str) -> Scalar:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Configuration) and self._hash == other._hash and self._items == other._items
        )

    def __repr__(self) -> str:
        return f"Configuration({self._items})"

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self._items.items())

    def having(self, **chosen: Scalar) -> Configuration:
        return self.merged(chosen)

    def merged(self, chosen: Mapping[str, Scalar]) -> Configuration:
        return Configuration({**self._items, **chosen})


@dataclass(frozen=True)
class Settings:
    """A configuration resolved: what one engine is asked for, in that engine's canonical flags.

    `args` maps a canonical long flag without its dashes to its value: `True` is the bare flag, `False` the
    negative form, a list several values, a mapping JSON. Identity, host, port, served name and log paths
    aside: two configurations with equal settings are one launch.
    """

    engine: str
    model: str
    args: Mapping[str, Value] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits: the identity of the launch these settings lead to."""
        return fingerprint([self.engine, self.model, dict(self.args), dict(self.env), self.replicas])


def fingerprint(value: Any) -> str:
    """16 hexadecimal digits of the SHA-256 of `value` as JSON with sorted keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Slot:
    """What the executor lends one launch: where to listen, which GPUs (indices or UUIDs), a folder of its own."""

    port: int
    folder: Path
    gpus: tuple[str, ...] = ()
    host: str = "127.0.0.1"


@dataclass(frozen=True)
class Launch:
    """What will be started. `argv`, `env` and `files` are the exported command, slot included.

    `own_env` is what the tuner adds for its own reading (such as vLLM's dev mode); it is never exported
    and is empty on confirming launches. `files` maps a path inside the slot's folder to its text.
    """

    engine: str
    argv: tuple[str, ...]
    fingerprint: str
    url: str
    model: str
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    own_env: Mapping[str, str] = field(default_factory=dict)


# Environment whose value is known to the server only; written as ${NAME:?}.
SECRET_NAME = r"[A-Za-z0-9_]*(?:API_?KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)"


def is_secret(name: str) -> bool:
    """Whether an environment variable of this name holds something that must not be written down."""
    return re.fullmatch(SECRET_NAME, name, re.IGNORECASE) is not None


def shell(argv: Sequence[str], env: Mapping[str, str] = EMPTY) -> str:
    """One line for a POSIX shell: environment first, everything quoted, secrets by name only."""
    assignments = [
        f'{name}="${{{name}:?}}"' if is_secret(name) else f"{name}={shlex.quote(value)}" for name, value in env.items()
    ]
    return " ".join([*assignments, shlex.join(argv)])


@dataclass(frozen=True)
class Failure:
    """Why a trial has no value. `message` is the cause as the log says it, `line` where it stands there (from 1),
    `way_out` what to do where more is known than `policy(kind)` says, `log` the part of the log that shows it, `hop`
    where it happened."""

    kind: str
    message: str
    log: str = ""
    hop: str = ""
    line: int | None = None
    way_out: str = ""

    @property
    def policy(self) -> Policy:
        return policy(self.kind)

    @property
    def attempt(self) -> Fraction:
        """How much of an attempt this was: 1 where the launch is not made again, a part of 1 where it is, 0 where
        the person interrupted it."""
        return Fraction(0) if self.kind == "interrupted" else Fraction(1, 1 + self.policy.retries)

    @property
    def told(self) -> str:
        """The cause, and where in the log of its server it stands."""
        return self.message if self.line is None else f"{self.message} (line {self.line} of its log)"

    def __str__(self) -> str:
        return f"{self.kind}: {self.told}" + (f"; {self.way_out}" if self.way_out else "")


@dataclass(frozen=True)
class Verdict:
    """One check of a measurement. A verdict with `valid=False` keeps the measurement from being ranked."""

    check: str
    valid: bool
    message: str


@dataclass(frozen=True)
class Measurement:
    """One workload measured on one server: the median over repeats of each metric, and every repeat.

    Metric names follow the JSON keys of `vllm bench serve` (units in the name: `mean_ttft_ms`, `duration`
    in seconds, `total_token_throughput` in tokens per second, input and output together).
    """

    metrics: Mapping[str, float]
    repeats: tuple[Mapping[str, float], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    source: str = ""

    @property
    def valid(self) -> bool:
        return all(verdict.valid for verdict in self.verdicts)


Status: TypeAlias = Literal["as-asked", "rewritten", "ignored", "unknown"]


@dataclass(frozen=True)
class KeyVerdict:
    """What the engine did with one requested flag (`asked` and `effective` in the engine's own values)."""

    key: str
    asked: Any
    effective: Any
    status: Status


@dataclass(frozen=True)
class SideEffect:
    """An effective setting that differs from the base's though nobody asked for it.

    `derived`: the engine's adapter declares that it follows from what was asked or cannot matter.
    """

    key: str
    before: Any
    after: Any
    derived: bool = False


@dataclass(frozen=True)
class Effective:
    """The configuration as the running engine reports it, and how it compares with what was asked."""

    values: Mapping[str, Any]
    source: str = ""
    version: str | None = None
    verdicts: tuple[KeyVerdict, ...] = ()
    side_effects: tuple[SideEffect, ...] = ()
    no_op: bool = False

    @property
    def pools(self) -> bool:
        """Whether a measurement under it is one of its base too: a no-op that moved nothing else of its own."""
        return self.no_op and all(effect.derived for effect in self.side_effects)


@dataclass(frozen=True)
class Outcome:
    """What came of one trial: a measurement or a failure, and everything learned on the way.

    `comparisons` holds the other workloads measured on the same server. `timings` maps a hop (launch, ready,
    effective, warm-up, benchmark, stop) to seconds. `command` is the shell form of what was launched.
    """

    measurement: Measurement | None = None
    failure: Failure | None = None
    effective: Effective | None = None
    comparisons: Mapping[str, Measurement | Failure] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    command: str = ""
    fingerprint: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def failed(cls, kind: FailureKind, message: str, **facts: Any) -> Outcome:
        return cls(failure=Failure(kind, message), **facts)


class State(enum.Enum):
    """Where a trial stands. MEASURED alone has a value that ranks."""

    RUNNING = "running"
    MEASURED = "measured"
    FAILED = "failed"
    PRUNED = "pruned"


@dataclass(frozen=True)
class Trial:
    """One launch put to the test in one phase: our record of an Optuna trial.

    `value` is the objective's metric (median of this launch's repeats), `values` the repeats themselves,
    `violation` the summed relative excess over the objective's limits (0 = all held). `base` is the incumbent
    this trial was compared with; `started` and `finished` are seconds since the epoch.
    """

    number: int
    phase: str
    configuration: Configuration
    state: State
    value: float | None = None
    values: tuple[float, ...] = ()
    violation: float = 0.0
    no_op: bool = False
    base: Configuration | None = None
    outcome: Outcome | None = None
    started: float | None = None
    finished: float | None = None

    @property
    def failure(self) -> Failure | None:
        return self.outcome.failure if self.outcome else None

    def with_outcome(self, outcome: Outcome, **facts: Any) -> Trial:
        return replace(self, outcome=outcome, **facts)

"""What every engine's adapter does alike, from its tables; an engine adds its program words and its replies. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from tuner.engines import FlagError, Notice, Probe, constraints, judging, logs, models, rules, values
from tuner.engines.commands import asked_env, read, split_env, write
from tuner.engines.flags import Table
from tuner.trial import Effective, Failure, Launch, Settings, Slot, Value


@dataclass(frozen=True)
class Adapter:
    """One engine at one version. `programs`: how it is started, as patterns of the first words."""

    name: str
    version: str
    table: Table
    programs: tuple[tuple[str, ...], ...]
    logs: logs.Logs
    judging: judging.Judging
    rules: tuple[rules.Rule, ...] = ()
    constraints: tuple[constraints.Constraint, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)  # environment variables of other versions: the way out
    health_path: str = "/health"

    def canonical(self, args: Mapping[str, Value]) -> dict[str, Value]:
        return values.canonical(self.table, args)

    def parse(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None
    ) -> Settings:
        leading, words = split_env(argv)
        positionals, named, args = read(self.table, after_program(self.table.engine, self.programs, words))
        model = self.model_of(words, positionals, named)
        return Settings(self.name, model, args, asked_env(env, leading))

    def launch(self, settings: Settings, slot: Slot, reading: bool = True) -> Launch:
        listen = ("--host", slot.host, "--port", str(slot.port))
        return Launch(
            engine=self.name,
            argv=(*self.program(settings.model), *listen, *write(self.table, settings.args)),
            fingerprint=settings.fingerprint,
            url=url(slot),
            model=self.served(settings.model),
            env={**settings.env, **visible(slot)},
            own_env=self.own_env() if reading else {},
        )

    def probes(self) -> Sequence[Probe]:
        return ()

    def judge(
        self,
        settings: Settings,
        effective: Effective,
        base: Settings | None = None,
        base_effective: Effective | None = None,
    ) -> Effective:
        return judging.judge(self.judging, settings, effective, base, base_effective)

    def failure(self, log: str, returncode: int | None) -> Failure | None:
        return logs.failure(self.logs, log, returncode)

    def progress(self, log: str) -> str:
        return logs.progress(self.logs, log)

    def notices(self, settings: Settings, concurrency: int | None = None) -> Sequence[Notice]:
        refused = [replace(notice, severity="warning") for notice in self.refusals(settings)]
        return [*refused, *self._unread(settings), *rules.notices(self.rules, settings, concurrency)]

    def _unread(self, settings: Settings) -> list[Notice]:
        return [
            Notice(
                "variable-not-read",
                f"{self.table.engine} does not read {name}; {self.unread[name]}",
                self.table.engine + ", the environment variables that it reads",
                keys=(name,),
            )
            for name in settings.env
            if name in self.unread
        ]

    def refusals(
        self, settings: Settings, gpus: int | None = None, model: Mapping[str, Any] | None = None
    ) -> Sequence[Notice]:
        known = {"gpus-taken": self.gpus(settings) * settings.replicas, **models.facts(model or {})}
        node = {} if gpus is None else {"node-gpus": gpus}
        asked = constraints.values(settings, self.defaults, {**known, **node})
        return constraints.broken(self.constraints, asked)

    def gpus(self, settings: Settings) -> int:
        """How many GPUs one replica takes."""
        raise NotImplementedError

    def program(self, model: str) -> tuple[str, ...]:
        """The words that start it, the model among them."""
        raise NotImplementedError

    def served(self, model: str) -> str:
        """The model's name in /v1/models."""
        return model

    def own_env(self) -> dict[str, str]:
        """What is added for our own reading."""
        return {}

    def model_of(self, words: Sequence[str], positionals: Sequence[str], named: str | None) -> str:
        """The one model a command names."""
        models = [*positionals, *([named] if named is not None else [])]
        if len(models) != 1:
            what = f"{len(models)} words that could be it: {' '.join(models)}" if models else "it names none"
            raise FlagError("model", f"the command must name one model, {what}", "look for a value without its flag")
        return models[0]


def after_program(engine: str, programs: Sequence[Sequence[str]], words: Sequence[str]) -> list[str]:
    """The words after the program's own.

    Raises:
        FlagError: the command does not start with one of `programs`.
    """
    for program in programs:
        heads = [word.rpartition("/")[2] for word in words[: len(program)]]
        if len(heads) == len(program) and all(map(fnmatchcase, heads, program)):
            return list(words[len(program) :])
    forms = " or ".join(" ".join(program) for program in programs)
    way_out = f"write the command from `{forms}` on; what stands before it is the launcher's prefix"
    raise FlagError(" ".join(words[:3]), f"this is not how {engine} is started", way_out)


def url(slot: Slot) -> str:
    """Where to reach a server that listens as the slot says; one that listens everywhere is reached on loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(slot.host, slot.host)
    return f"http://[{host}]:{slot.port}" if ":" in host else f"http://{host}:{slot.port}"


def visible(slot: Slot) -> dict[str, str]:
    """The environment that keeps a server on its slot's GPUs; nothing where the slot names none."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(slot.gpus)} if slot.gpus else {}

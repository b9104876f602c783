"""Engines: what one serving engine's flags are, how it is launched, what it says of itself, why it failed.

An engine is pure: it starts nothing, opens nothing. This file is the contract; `vllm`, `sglang` and `tensorrt_llm`
are the engines, `tables/` holds what is known of each as data, and the other files read those tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.abc import InspectLoader
from importlib.util import find_spec
from itertools import dropwhile
from pkgutil import iter_modules
from typing import Any, Protocol

from tuner.errors import SpecError
from tuner.trial import Effective, Failure, Launch, Settings, Slot, Value

UNREAD = "variable-not-read"  # the rule of a notice that says of its `keys` that this version does not read them


@dataclass(frozen=True)
class Notice:
    """Something known about these settings before they are launched; `source` says where it is known from."""

    rule: str
    text: str
    source: str
    severity: str = "warning"  # refused (the engine would not start) | warning | note
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Probe:
    """A GET on the running server that tells something of its effective configuration."""

    name: str
    path: str


class FlagError(ValueError):
    """A flag or value that this version of the engine does not take; `way_out` names what to write instead.

    The rule does not repeat `value`, which is None where none is at fault or it must not be shown.
    """

    def __init__(self, flag: str, rule: str, way_out: str = "", value: Any = None) -> None:
        self.flag, self.rule, self.way_out, self.value = flag, rule, way_out, value
        got = "" if value is None else f" (got {json.dumps(as_json(value), default=str)[:200]})"
        super().__init__(f"{flag}: {rule}{got}" + (f"; {way_out}" if way_out else ""))


class Engine(Protocol):
    """One engine at one version. Pure; every method is a function of its arguments.

    Flags are spelled without leading dashes and in the engine's canonical long form once `canonical` has seen
    them; `Settings.args` always holds canonical ones.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def health_path(self) -> str: ...

    def canonical(self, args: Mapping[str, Value]) -> dict[str, Value]:
        """The same flags in canonical spelling and with values normalised.

        Takes any spelling the engine takes (aliases, underscores, short forms). `None` (remove) is kept.
        `False` becomes the negative form where there is one (kept as False), None (remove) where absence says it.

        Raises:
            FlagError: unknown flag, a flag that belongs to the slot (host, port, served name), two spellings of
                one flag with different values, or a value that cannot be said to this engine.
        """
        ...

    def parse(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None
    ) -> Settings:
        """A command as people paste it, read back: the model and canonical args, slot flags left out.

        `parse(launch.argv, launch.env, launch.files)` gives the launch's settings again (of one replica).
        `files`: the texts of the files it names, by path. Environment assignments may stand before the program.

        Raises:
            FlagError: not a command line of this engine, or a flag this version does not have.
        """
        ...

    def launch(self, settings: Settings, slot: Slot, reading: bool = True) -> Launch:
        """The command for these settings in this slot. With `reading`, `own_env` has what the tuner needs to
        read the effective configuration back; a confirming launch is made without it."""
        ...

    def gpus(self, settings: Settings) -> int:
        """How many GPUs one replica takes."""
        ...

    def probes(self) -> Sequence[Probe]:
        """What to GET, once ready, to learn the effective configuration. None of them has to answer."""
        ...

    def effective(self, replies: Mapping[str, str], log: str) -> Effective:
        """The effective configuration (values, source, version only) from the replies by probe name and the log."""
        ...

    def judge(
        self,
        settings: Settings,
        effective: Effective,
        base: Settings | None = None,
        base_effective: Effective | None = None,
    ) -> Effective:
        """`effective` with a verdict for each requested key, the side effects against the base's effective
        configuration, and `no_op`: every key that differs from the base's request was ignored."""
        ...

    def failure(self, log: str, returncode: int | None) -> Failure | None:
        """The cause that the log shows, if it is fatal: called on every new piece of log and on exit.

        With `returncode` (the process ended) there is always an answer; without, only a line after which the
        server cannot become ready or go on counts.
        """
        ...

    def progress(self, log: str) -> str:
        """In a few words what the start is doing now, from the end of the log ('' if unknown)."""
        ...

    def notices(self, settings: Settings, concurrency: int | None = None) -> Sequence[Notice]:
        """Static rules on these settings, before launch. `concurrency`: most requests at once of the workload."""
        ...

    def refusals(
        self, settings: Settings, gpus: int | None = None, model: Mapping[str, Any] | None = None
    ) -> Sequence[Notice]:
        """Why this launch would end before it is ready, as far as that is known; none where nothing is known.

        `gpus`: how many the node has. `model`: the model's config.json, read.
        """
        ...


_FIRST = ("vllm", "sglang", "tensorrt_llm")  # the order in which a study takes engines that it does not list


def _names() -> list[str]:
    """The name of every module of this package that has `engine(version)`, with - for _."""
    found = [info.name for info in iter_modules(__path__) if _is_engine(f"{__name__}.{info.name}")]
    return [name.replace("_", "-") for name in sorted(found, key=_place)]


def _is_engine(module: str) -> bool:
    """Whether a module's source has it: to import every module would cost much more."""
    spec = find_spec(module)
    source = spec.loader.get_source(module) if spec and isinstance(spec.loader, InspectLoader) else None
    return "\ndef engine(" in (source or "")


def _place(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


ENGINES: Sequence[str] = tuple(_names())


def engine(name: str, version: str | None = None) -> Engine:
    """The adapter of an engine at a version (None: the newest one known).

    Raises:
        SpecError: no such engine, or a version it has no adapter for.
    """
    if name not in ENGINES:
        raise SpecError(f"there is no engine {name!r}; engines are {', '.join(ENGINES)}")
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    adapter: Engine = module.engine(version)
    return adapter


def engine_of_command(argv: Sequence[str]) -> str:
    """Which engine a command line starts, by its program words; environment assignments may stand before them.

    Raises:
        FlagError: none of the engines known.
    """
    words = [word.rpartition("/")[2] for word in dropwhile(_before_program, argv)][:3]
    program, module = words[:1], words[1:3]
    if program == ["trtllm-serve"]:
        return "tensorrt-llm"
    if program == ["sglang"] or module == ["-m", "sglang.launch_server"]:
        return "sglang"
    if program == ["vllm"] or module == ["-m", "vllm.entrypoints.openai.api_server"]:
        return "vllm"
    for name in ENGINES:
        programs: Sequence[Sequence[str]] = getattr(engine(name), "programs", ())
        if any(len(words) >= len(each) and all(map(fnmatchcase, words, each)) for each in programs):
            return name
    way_out = f"engines are {', '.join(ENGINES)}; what stands before the program is the launcher's prefix"
    raise FlagError(" ".join(argv[:4]), "not the command of an engine known here", way_out)


def _before_program(word: str) -> bool:
    return word == "env" or (word.partition("=")[0].isidentifier() and "=" in word)


def as_json(value: Any) -> Any:
    """Tuples as lists, mappings as dicts: the shape JSON gives back."""
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    return value

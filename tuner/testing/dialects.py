"""How the simulated engine plays one of the real ones: its command line, what it silently changes, its log.

A dialect is made of a command line, answers questions about it and starts nothing. One file a dialect:
`vllm`, `sglang`, `tensorrt_llm`. This file is what they share.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import PurePath
from typing import Any, ClassVar, Literal

from tuner.testing.performance import GPU_GIB, Memory, Setup, Shape, memory, shape_of

SIMULATED = "simulated engine: figures are simulated"


class StartFailed(Exception):
    """The start ends here, as the real engine's does, with this return code (negative: by that signal)."""

    def __init__(self, returncode: int) -> None:
        self.returncode = returncode
        super().__init__(returncode)


@dataclass(frozen=True)
class Listen:
    """Where to listen, and whether the port is bound before the model is loaded."""

    host: str
    port: int
    early: bool


@dataclass(frozen=True)
class Counters:
    """What `/metrics` tells: requests now, tokens, requests and speculation since the start.

    `queue_s` are the seconds that `admitted` requests waited for a place in the batch.
    """

    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    finished: int = 0
    kv_usage: float = 0.0
    admitted: int = 0
    queue_s: float = 0.0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_at: tuple[int, ...] = ()

    @property
    def accepted_tokens(self) -> int:
        return sum(self.accepted_at)


@dataclass(frozen=True)
class Child:
    """A process beside the front end. `follows_parent`: ends about a second after a parent that was killed."""

    title: str
    follows_parent: bool


@dataclass(frozen=True)
class Endpoint:
    """One thing the engine answers a GET (or POST) with: body as JSON, or text."""

    body: Any = ""
    status: int = 200
    media: str = "application/json"


@dataclass
class Dialect:
    """One command line of one engine. Subclasses fill in how theirs speaks."""

    name: ClassVar[str] = ""
    versions: ClassVar[tuple[str, ...]] = ()
    children: ClassVar[tuple[Child, ...]] = ()
    stop: ClassVar[Literal["abort", "drain"]] = "abort"
    models_before_ready: ClassVar[bool] = False

    model: str
    asked: dict[str, Any]
    out_of_memory: bool = False
    room: int | None = None  # tokens that fit into the KV pool where somebody else holds memory
    version: str = ""
    child_pid: int = 0
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        self.version = self.version or os.environ.get("TUNER_FAKE_VERSION") or self.versions[0]
        self.shape = shape_of(self.model)

    @property
    def setup(self) -> Setup:
        """What it really runs with."""
        raise NotImplementedError

    @property
    def listen(self) -> Listen:
        raise NotImplementedError

    @property
    def served_name(self) -> str:
        raise NotImplementedError

    @property
    def context(self) -> int:
        """The most prompt and output tokens of one request."""
        raise NotImplementedError

    def start(self) -> Iterator[tuple[float, str]]:
        """The log of a start: (share of the start's time that passes first, text with its line ends).

        Raises:
            StartFailed: where the real engine would end; what it prints then was yielded before.
        """
        raise NotImplementedError

    def endpoints(self, counters: Counters, ready: bool) -> Mapping[str, Callable[[], Endpoint]]:
        """Everything it answers beside completions, by path. Method and query make no difference."""
        raise NotImplementedError

    def error(self, status: int, message: str) -> dict[str, Any]:
        """The body of a refusal."""
        raise NotImplementedError

    def port_taken(self) -> tuple[str, int | None]:
        """What it prints when the port is taken, and its return code; None: it stays and does nothing."""
        raise NotImplementedError

    def child_died(self) -> tuple[str, int | None]:
        """What it prints when its child process was killed, and its return code; None: it stays."""
        raise NotImplementedError

    def stopping(self) -> str:
        """What it prints on SIGTERM."""
        return ""

    def returncode(self) -> int:
        """How it ends after SIGTERM once ready."""
        return 0

    @property
    def memory(self) -> Memory:
        fits = memory(self.setup)
        if self.out_of_memory and fits.fits:
            return Memory(fits.weights_gib, fits.kv_gib, fits.kv_tokens, "capture")
        return fits if self.room is None else replace(fits, kv_tokens=min(self.room, fits.kv_tokens))

    def get(self, flag: str, default: Any = None) -> Any:
        value = self.asked.get(flag)
        return default if value is None else value


def dialect(argv: Sequence[str]) -> Dialect:
    """The dialect of a command line such as `vllm serve M`, `python3 -m sglang.launch_server ...`.

    Raises:
        SystemExit: not a command line of an engine, or one that engine refuses (2, with its own usage text).
    """
    words = list(argv)
    program = PurePath(words[0]).name if words else ""
    if program.startswith("python") and words[1:2] == ["-m"]:
        program, words = words[2] if len(words) > 2 else "", words[2:]
    module = _PROGRAMS.get(program)
    if module is None:
        raise SystemExit(
            f"{SIMULATED}\nusage: python -m tuner.testing.engine PROGRAM ...\n"
            f"PROGRAM must be one of {', '.join(_PROGRAMS)} (got {program or 'nothing'})"
        )
    made: Dialect = import_module(f"tuner.testing.{module}").parse(words)
    return made


def add_flags(parser: argparse.ArgumentParser, kinds: Mapping[str, str], negatable: bool = False) -> None:
    """Flags by kind: `int`, `float`, `str`, `ints` (several), `strs`, `json`, `switch`; names split by blanks.

    `a|b` are two spellings of one flag, kept under the first. What was not given is left out.
    """
    types: dict[str, Any] = {"int": int, "float": float, "str": str, "ints": int, "strs": str, "json": as_json}
    for kind, names in kinds.items():
        for name in names.split():
            spellings = [word if word.startswith("-") else f"--{word}" for word in name.split("|")]
            facts: dict[str, Any] = {"dest": spellings[0].lstrip("-").replace("-", "_"), "default": argparse.SUPPRESS}
            if kind == "switch":
                facts["action"] = argparse.BooleanOptionalAction if negatable else "store_true"
            else:
                facts["type"] = types[kind]
                facts.update({"nargs": "+"} if kind in ("ints", "strs") else {})
            parser.add_argument(*spellings, **facts)


def as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to <function loads>.") from error


def progress(label: str, total: int, steps: int = 4) -> str:
    """A tqdm bar as it looks in a file: every state of it after a carriage return."""
    shown = []
    for step in range(steps + 1):
        done = total * step // steps
        bar = "█" * (10 * step // steps)
        shown.append(f"\r{label}: {100 * step // steps:3d}%|{bar:<10}| {done}/{total} [00:00<00:00, 97.13it/s]")
    return "".join(shown) + "\n"


def gpus_here() -> int:
    """How many GPUs the simulated node has: TUNER_FAKE_GPUS, else as CUDA_VISIBLE_DEVICES says, else 8."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return int(os.environ.get("TUNER_FAKE_GPUS") or (len(visible.split(",")) if visible else 8))


def cuda_out_of_memory(free_gib: float) -> str:
    """PyTorch's sentence for it."""
    return (
        f"CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity of {GPU_GIB} GiB of which "
        f"{max(0.0, free_gib) * 1024 % 700:.2f} MiB is free. Including non-PyTorch memory, this process has "
        f"{GPU_GIB - 0.04:.2f} GiB memory in use."
    )


def model_card(dialect: Dialect, owner: str) -> dict[str, Any]:
    """What `/v1/models` answers."""
    card = {
        "id": dialect.served_name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": owner,
        "root": dialect.model,
        "parent": None,
        "max_model_len": dialect.context,
    }
    return {"object": "list", "data": [card]}


_PROGRAMS = {
    "vllm": "vllm",
    "vllm.entrypoints.openai.api_server": "vllm",
    "sglang": "sglang",
    "sglang.launch_server": "sglang",
    "trtllm-serve": "tensorrt_llm",
    "tensorrt-llm": "tensorrt_llm",
}

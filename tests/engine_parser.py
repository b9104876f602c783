"""Runs inside an engine's environment: shows its own parser's options, and parses command lines with it.

    python engine_parser.py vllm|sglang < commands.json > answer.json

In: a list of command lines, each a list of the words after `vllm serve` or `-m sglang.launch_server`. Out:
`{"options": [...], "errors": [...]}`, an error being the parser's last line, or null. No engine is started and no model
is read. Nothing of the tuner is imported: this is another environment than ours.

An engine imports most of itself before it parses. What it imports and does not need for that is stubbed where it is
not installed (`STUBBED`), and two things that a release between two others does not find in this environment's
versions of torch and transformers are mended (`mend`).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

STUBBED = {
    "vllm": ("diskcache", "gguf"),
    "sglang": ("IPython", "orjson", "pybase64", "setproctitle", "sgl_kernel", "torchvision", "triton"),
}
NOT_THERE = "get_current_target"  # of triton: engines ask for it to learn the device, and go on without


class Stub(types.ModuleType):
    """A module, class, decorator or constant that is named while modules are imported, and never used."""

    __path__: Sequence[str] = ()
    __version__ = "3.0.0"

    def __getattr__(self, name: str) -> Stub:
        if name.startswith("__") or name == NOT_THERE:
            raise AttributeError(name)
        return Stub(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else Stub(self.__name__)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)

    def __getitem__(self, key: Any) -> Stub:
        return self

    def __or__(self, other: Any) -> Stub:
        return self

    __ror__ = __or__


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of these names where nothing else does."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        known = fullname.partition(".")[0] in self.names
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if known else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Stub:
        return Stub(spec.name)

    def exec_module(self, module: types.ModuleType) -> None: ...


def mend(engine: str) -> None:
    """What releases between the oldest and the newest do not find as they knew it."""
    if engine == "vllm":
        import torch

        for name in ("_is_avx512_supported", "_is_avx2_supported"):
            if not hasattr(torch._C._cpu, name):
                setattr(torch._C._cpu, name, lambda: True)
        return
    from transformers.models.auto import configuration_auto

    register = configuration_auto._LazyConfigMapping.register
    configuration_auto._LazyConfigMapping.register = (  # transformers has come to know models that the engine adds
        lambda self, key, value, exist_ok=False: register(self, key, value, exist_ok=True)
    )


def vllm() -> tuple[argparse.ArgumentParser, Callable[[Sequence[str]], Any]]:
    from vllm.entrypoints.cli import serve

    parser = serve.FlexibleArgumentParser(description="vLLM CLI")
    own = serve.cmd_init()[0].subparser_init(parser.add_subparsers(required=False, dest="subparser"))
    return own, lambda words: parser.parse_args(["serve", *words])


def sglang() -> tuple[argparse.ArgumentParser, Callable[[Sequence[str]], Any]]:
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    return parser, parser.parse_args


def option(action: argparse.Action) -> dict[str, Any]:
    """What the tables say of a flag, as the parser knows it."""
    return {
        "names": list(action.option_strings),
        "action": type(action).__name__,
        "type": type_name(action.type),
        "choices": None if action.choices is None else [str(c) for c in action.choices if c not in (None, "None")],
        "nargs": action.nargs,
        "default": repr(action.default)[:80],
    }


def type_name(converter: Any) -> str | None:
    """The converter's name, or of the one that it wraps (`_optional_type(int)` is `int`)."""
    for cell in getattr(converter, "__closure__", None) or ():
        if callable(cell.cell_contents):
            return type_name(cell.cell_contents)
    return None if converter is None else getattr(converter, "__name__", str(converter))


def error(parse: Callable[[Sequence[str]], Any], words: Sequence[str]) -> str | None:
    """Why the parser refuses these words."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parse(words)
    except SystemExit:
        return (said.getvalue().strip().splitlines() or ["the parser ended the process"])[-1]
    except Exception as raised:
        return f"{type(raised).__name__}: {raised}"
    return None


def main(engine: str) -> None:
    commands, answer = json.load(sys.stdin), sys.stdout
    sys.stdout = sys.stderr  # engines print and log while they are imported
    sys.meta_path.append(Stubs(STUBBED[engine]))
    mend(engine)
    parser, parse = {"vllm": vllm, "sglang": sglang}[engine]()
    options = [option(action) for action in parser._actions]
    json.dump({"options": options, "errors": [error(parse, words) for words in commands]}, answer)


if __name__ == "__main__":
    main(sys.argv[1])

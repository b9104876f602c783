"""vLLM's own `bench serve`, unmodified, without installing vLLM.

    python vllm_client.py FOLDER [the options of `vllm bench serve`]

FOLDER is where a wheel was unpacked (`vllm/benchmarks` is enough). Its client needs little of the rest of vLLM: what
`_given` lists is given, every other name is an empty class, good for annotations and for what is never called.
Starting is quicker than with the real program, which also imports torch.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


class Nothing:
    """Stands for an optional package that is not there, and for every attribute of it."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __getattr__(self, name: str) -> Nothing:
        return self

    def __call__(self, *_: object, **__: object) -> Nothing:
        return self


class Stub(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = _given().get(name) or type(name, (), {})
        setattr(self, name, found)
        return found


class Stubs(MetaPathFinder, Loader):
    """Finds every module of vllm but those of `vllm.benchmarks`, which are the wheel's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        ours = name == "vllm" or (name.startswith("vllm.") and not name.startswith("vllm.benchmarks"))
        return ModuleSpec(name, self, is_package=True) if ours else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = Stub(spec.name)
        module.__path__ = [str(self._folder / "vllm")] if spec.name == "vllm" else []
        return module

    def exec_module(self, module: ModuleType) -> None: ...


def main(folder: str, options: list[str]) -> None:
    sys.path.pop(0)  # this script's folder, whose modules are nobody else's
    sys.meta_path.insert(0, Stubs(Path(folder)))
    from vllm.benchmarks import serve  # type: ignore[import-not-found]

    parser = argparse.ArgumentParser()
    serve.add_cli_args(parser)
    serve.main(parser.parse_args(options))


def _given() -> dict[str, Any]:
    return {
        "get_tokenizer": _tokenizer,
        "FlexibleArgumentParser": argparse.ArgumentParser,
        "PlaceholderModule": Nothing,
        "init_logger": logging.getLogger,
        "join_host_port": lambda host, port: f"{host}:{port}",
        "freeze_gc_heap": _freeze,
    }


def _tokenizer(name: str, *_: object, **__: object) -> Any:
    from transformers import AutoTokenizer  # type: ignore[import-not-found]

    return AutoTokenizer.from_pretrained(name)


def _freeze() -> None:
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

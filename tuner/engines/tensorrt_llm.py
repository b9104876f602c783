"""TensorRT-LLM 1.0 to 1.2 (`trtllm-serve`, PyTorch backend).

Any release from 1.0 to below 1.3 is taken and read by its own table. A setting is a flag where 1.0 has one and else a
key of the YAML file that the launch brings along; none is in both, for the file silently wins over flags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from tuner.engines import Engine, FlagError, Probe, as_json, constraints, versions
from tuner.engines.adapter import Adapter, after_program
from tuner.engines.commands import asked_env, split_env
from tuner.engines.flags import Table
from tuner.engines.replies import between, fields, json_object, literal
from tuner.engines.tables import constraints as refused
from tuner.engines.tables import effective as facts
from tuner.engines.tables import logs as lines
from tuner.engines.tables import tensorrt_llm, tensorrt_llm_rules
from tuner.trial import Effective, Launch, Settings, Slot, Value

FILE = "extra_llm_api_options.yaml"
_FILE_FLAG = "--extra_llm_api_options"
_PROGRAMS = (("trtllm-serve", "serve"), ("trtllm-serve",))


def engine(version: str | None = None) -> Engine:
    """The adapter of a TensorRT-LLM release (see the module).

    Raises:
        SpecError: a release below 1.0, or 1.3 and above.
    """
    oldest, newest = tensorrt_llm.OLDEST, tensorrt_llm.NEWEST
    text, number = versions.release("TensorRT-LLM", version, oldest, newest, tensorrt_llm.BELOW)
    return TensorrtLlm(
        "tensorrt-llm",
        text,
        tensorrt_llm.table(number),
        _PROGRAMS,
        lines.TENSORRT_LLM,
        facts.TENSORRT_LLM,
        tensorrt_llm_rules.TENSORRT_LLM,
        constraints.at(refused.TENSORRT_LLM, number),
        refused.TENSORRT_LLM_DEFAULTS,
    )


@dataclass(frozen=True)
class TensorrtLlm(Adapter):
    """`trtllm-serve MODEL ...`, with a YAML file for what has no flag."""

    def program(self, model: str) -> tuple[str, ...]:
        return ("trtllm-serve", model)

    def served(self, model: str) -> str:
        """A folder is served under its last part (TensorRT-LLM serve/openai_server.py)."""
        return model.rstrip("/").rpartition("/")[2] if model.startswith(("/", "./", "../", "~")) else model

    def parse(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None
    ) -> Settings:
        leading, words = split_env(argv)
        rest, path = _without_file(after_program(self.table.engine, self.programs, words))
        head = words[: len(words) - len(after_program(self.table.engine, self.programs, words))]
        settings = super().parse([*head, *rest])
        keys = self.canonical(_read(path, files)) if path is not None else {}
        if twice := sorted(set(keys) & set(settings.args)):
            raise FlagError(twice[0], "given as a flag and in the YAML file, which silently wins", "keep one of them")
        return replace(settings, args={**settings.args, **keys}, env=asked_env(env, leading))

    def launch(self, settings: Settings, slot: Slot, reading: bool = True) -> Launch:
        keys = {name: value for name, value in settings.args.items() if self.table.flags[name].home == "file"}
        flags = {name: value for name, value in settings.args.items() if name not in keys}
        launch = super().launch(replace(settings, args=flags), slot, reading)
        launch = replace(launch, fingerprint=settings.fingerprint)
        if not keys:
            return launch
        text = yaml.safe_dump(as_json(keys), sort_keys=False, allow_unicode=True)
        return replace(launch, argv=(*launch.argv, _FILE_FLAG, str(slot.folder / FILE)), files={FILE: text})

    def gpus(self, settings: Settings) -> int:
        sizes = ("tp_size", "pp_size", "context_parallel_size")
        tp, pp, cp = (int(str(settings.args.get(size, 1))) for size in sizes)
        return tp * pp * cp

    def probes(self) -> Sequence[Probe]:
        return (Probe("server_info", "/server_info"), Probe("version", "/version"))

    def effective(self, replies: Mapping[str, str], log: str) -> Effective:
        info = json_object(replies.get("server_info"))
        logged = _llm_args(log)
        values = {**_named(self.table, logged), **_named(self.table, info)}
        sources = [name for name, part in (("/server_info", info), ("log, `LLM Args`", logged)) if part]
        version = json_object(replies.get("version")).get("version")
        return Effective(values, ", ".join(sources), version)


def _without_file(words: Sequence[str]) -> tuple[list[str], str | None]:
    """The words without the flag that names the YAML file, and that file's path."""
    rest: list[str] = []
    path: str | None = None
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if name not in (_FILE_FLAG, "--config"):
            rest.append(word)
        elif equals or left:
            path = value if equals else left.pop(0)
        else:
            raise FlagError(word, "expects a value", f"write {word} FILE")
    return rest, path


def _read(path: str, files: Mapping[str, str] | None) -> dict[str, Value]:
    """The YAML file of a command, from the texts given with it."""
    named = {name: text for name, text in (files or {}).items() if name == path or path.endswith("/" + name)}
    if not named:
        raise FlagError(_FILE_FLAG, f"the file {path} is not read here", "write its keys as args of the option")
    try:
        keys = yaml.safe_load(next(iter(named.values()))) or {}
    except yaml.YAMLError as error:
        raise FlagError(_FILE_FLAG, f"{path} is not YAML", str(error).partition("\n")[0]) from None
    if not isinstance(keys, dict):
        raise FlagError(_FILE_FLAG, f"{path} must hold a mapping of keys")
    return keys


def _llm_args(log: str) -> dict[str, Any]:
    """The arguments as the log shows them after `LLM Args`: a repr with fields, or a dict."""
    start = log.find("LLM Args")
    if start < 0:
        return {}
    text = log[start : start + 200_000]
    if call := re.search(r"\b\w*LlmArgs\(", text):
        return fields(between(text, call[0]))
    opening = text.find("{")
    read = literal("{" + between(text, "{") + "}") if opening >= 0 else None
    return read if isinstance(read, dict) else fields(text.partition(":")[2].partition("\n")[0])


def _named(table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
    """By flag or key of the YAML; the KV cache's fraction also by its flag."""
    found = {table.named(key) or f"server_info.{key}": value for key, value in values.items()}
    cache = values.get("kv_cache_config")
    if isinstance(cache, dict) and "free_gpu_memory_fraction" in cache:
        found.setdefault("kv_cache_free_gpu_memory_fraction", cache["free_gpu_memory_fraction"])
    return found

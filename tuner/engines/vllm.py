"""vLLM 0.11 to 0.32.

Any release from 0.11 to below 0.33 is taken and read by its own table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.engines import Engine, FlagError, Probe, constraints, rules, versions
from tuner.engines.adapter import Adapter
from tuner.engines.flags import Table
from tuner.engines.replies import fields, flat, json_object, labels, literal
from tuner.engines.tables import constraints as refused
from tuner.engines.tables import effective as facts
from tuner.engines.tables import logs as lines
from tuner.engines.tables import vllm, vllm_rules
from tuner.trial import Effective, Settings

_PROGRAMS = (("vllm", "serve"), ("python*", "-m", "vllm.entrypoints.openai.api_server"))


def engine(version: str | None = None) -> Engine:
    """The adapter of a vLLM release (see the module).

    Raises:
        SpecError: a release below 0.11, or 0.33 and above.
    """
    text, number = versions.release("vLLM", version, vllm.OLDEST, vllm.NEWEST, vllm.BELOW)
    return Vllm(
        "vllm",
        text,
        vllm.table(number),
        _PROGRAMS,
        lines.VLLM,
        facts.VLLM,
        rules.at(vllm_rules.VLLM, number),
        constraints.at(refused.VLLM, number),
        refused.VLLM_DEFAULTS,
        vllm.variables(number),
    )


@dataclass(frozen=True)
class Vllm(Adapter):
    """`vllm serve MODEL ...`, or the module `vllm.entrypoints.openai.api_server`."""

    def program(self, model: str) -> tuple[str, ...]:
        return ("vllm", "serve", model)

    def own_env(self) -> dict[str, str]:
        return {"VLLM_SERVER_DEV_MODE": "1"}

    def model_of(self, words: Sequence[str], positionals: Sequence[str], named: str | None) -> str:
        if named is not None and "serve" in words[:2] and self.table.level_key == "level":
            raise FlagError("--model", f"{self.table.engine} refuses it after `serve`", f"write vllm serve {named} ...")
        return super().model_of(words, positionals, named)

    def gpus(self, settings: Settings) -> int:
        sizes = ("tensor", "pipeline", "data", "prefill-context")
        return _product(settings.args.get(f"{size}-parallel-size", 1) for size in sizes)

    def probes(self) -> Sequence[Probe]:
        return (
            Probe("server_info", "/server_info?config_format=json"),
            Probe("metrics", "/metrics"),
            Probe("version", "/version"),
        )

    def effective(self, replies: Mapping[str, str], log: str) -> Effective:
        config = json_object(replies.get("server_info")).get("vllm_config")
        parts = {
            "/server_info": _of_sections(self.table, config)
            if isinstance(config, dict)
            else _of_text(self.table, config),
            "/metrics": _of_labels(self.table, labels(replies.get("metrics"), "vllm:cache_config_info")),
            "log, `with config`": _of_text(self.table, _config_line(log)),
            "log, `non-default args`": _of_echo(self.table, log),
        }
        values: dict[str, Any] = {}
        for part in parts.values():
            values = {**part, **values}
        version = json_object(replies.get("version")).get("version") or _version(log)
        return Effective(values, ", ".join(name for name, part in parts.items() if part), version)


def _product(sizes: Any) -> int:
    total = 1
    for size in sizes:
        total *= int(size)
    return total


def _of_sections(table: Table, config: Mapping[str, Any]) -> dict[str, Any]:
    """The typed dict of `config_format=json`: a section that is a JSON flag whole, the others by their fields."""
    found: dict[str, Any] = {"enable-lora": config.get("lora_config") is not None}
    for section, content in config.items():
        whole = _json_flag(table, section)
        if whole is not None or not isinstance(content, Mapping):
            found[whole or table.named(section) or section] = content
        if isinstance(content, Mapping):
            found = {**_of_fields(table, section, content, whole is not None), **found}
    return found


def _of_fields(table: Table, section: str, content: Mapping[str, Any], known: bool) -> dict[str, Any]:
    """One section's fields by flag; what is no flag as `section.field`, unless the section is `known` whole."""
    inner = {name: value for key, value in content.items() if (name := _json_flag(table, key)) is not None}
    found: dict[str, Any] = {} if known else inner
    plain = {key: value for key, value in content.items() if not key.startswith("_") and not _json_flag(table, key)}
    for path, value in flat(plain, f"{section}."):
        flag = facts.VLLM_FIELDS.get(path) or (None if known else table.named(path.rpartition(".")[2]))
        if flag in table.flags:
            found.setdefault(str(flag), _clean(value))
        elif not known:
            found[path] = _clean(value)
    return found


def _json_flag(table: Table, key: str) -> str | None:
    name = table.named(key)
    return name if name is not None and table.flags[name].kind == "json" else None


def _of_text(table: Table, text: Any) -> dict[str, Any]:
    """The `key=value, ...` form, as older releases answer and every release logs."""
    read = fields(text) if isinstance(text, str) else {}
    named = {"max_seq_len": "max-model-len", **facts.VLLM_FIELDS}
    return {named.get(key) or table.named(key) or f"vllm_config.{key}": _clean(value) for key, value in read.items()}


def _of_labels(table: Table, read: Mapping[str, Any]) -> dict[str, Any]:
    named = {"cache_dtype": "kv-cache-dtype"}
    return {
        named.get(key) or table.named(key) or f"cache_config.{key}": value
        for key, value in read.items()
        if key != "engine" and not key.startswith("_")
    }


def _of_echo(table: Table, log: str) -> dict[str, Any]:
    """What the front end understood of the flags: better than nothing, and read last."""
    match = re.search(r"non-default args: (\{.{0,20000}\})\s*$", log, re.MULTILINE)
    read = literal(match[1]) if match else None
    return {name: value for key, value in read.items() if (name := table.named(key))} if isinstance(read, dict) else {}


def _config_line(log: str) -> str:
    start = log.find(" with config: ")
    return log[start + len(" with config: ") :].partition("\n")[0] if start >= 0 else ""


def _clean(value: Any) -> Any:
    """Names as the flags spell them: no `torch.`, and the short names of the logged speculative config."""
    if isinstance(value, str):
        return value.removeprefix("torch.")
    if isinstance(value, dict) and "num_spec_tokens" in value:
        return {**value, "num_speculative_tokens": value["num_spec_tokens"]}
    return value


def _version(log: str) -> str | None:
    match = re.search(r"LLM engine \(v([\w.+]+)\)|API server version ([\w.+]+)|  version (\d[\w.+]+)", log)
    return next((group for group in match.groups() if group), None) if match else None

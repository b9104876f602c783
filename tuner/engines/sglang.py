"""SGLang 0.5.

Any release from 0.5.3 to below 0.6 is taken and read by its own table; one above 0.5.23 by that of 0.5.23.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.engines import Engine, Probe, constraints, rules, versions
from tuner.engines.adapter import Adapter
from tuner.engines.flags import Table
from tuner.engines.replies import between, fields, flat, json_object
from tuner.engines.tables import constraints as refused
from tuner.engines.tables import effective as facts
from tuner.engines.tables import logs as lines
from tuner.engines.tables import sglang, sglang_rules
from tuner.trial import Effective, Settings

_PROGRAMS = (("python*", "-m", "sglang.launch_server"), ("sglang", "serve"))


def engine(version: str | None = None) -> Engine:
    """The adapter of an SGLang release (see the module).

    Raises:
        SpecError: a release below 0.5.3, or 0.6 and above.
    """
    text, number = versions.release("SGLang", version, sglang.OLDEST, sglang.NEWEST, sglang.BELOW)
    return Sglang(
        "sglang",
        text,
        sglang.table(number),
        _PROGRAMS,
        lines.SGLANG,
        facts.SGLANG,
        rules.at(sglang_rules.SGLANG, number),
        constraints.at(refused.SGLANG, number),
        refused.SGLANG_DEFAULTS,
    )


@dataclass(frozen=True)
class Sglang(Adapter):
    """`python3 -m sglang.launch_server --model-path MODEL ...`."""

    def program(self, model: str) -> tuple[str, ...]:
        return ("python3", "-m", "sglang.launch_server", "--model-path", model)

    def gpus(self, settings: Settings) -> int:
        """Data-parallel replicas take GPUs of their own; under DP attention they share the tensor-parallel group."""
        number = {size: int(str(settings.args.get(size, 1))) for size in ("tp-size", "pp-size", "dp-size")}
        replicas = 1 if settings.args.get("enable-dp-attention") is True else number["dp-size"]
        return number["tp-size"] * number["pp-size"] * replicas

    def probes(self) -> Sequence[Probe]:
        return (Probe("get_server_info", "/get_server_info"), Probe("server_info", "/server_info"))

    def effective(self, replies: Mapping[str, str], log: str) -> Effective:
        """The HTTP process's arguments, overridden by what the first scheduler says of itself."""
        for name in ("server_info", "get_server_info"):
            info = json_object(replies.get(name))
            if info:
                return Effective(_of_info(self.table, info), f"/{name}", info.get("version"))
        values = _named(self.table, fields(between(log, "server_args=ServerArgs(")), "server_args.")
        return Effective(values, "log, `server_args`" if values else "")


def _of_info(table: Table, info: Mapping[str, Any]) -> dict[str, Any]:
    states = info.get("internal_states")
    first = states[0] if isinstance(states, list) and states and isinstance(states[0], dict) else {}
    asked = {key: value for key, value in info.items() if key != "internal_states"}
    own = {key: value for key, value in first.items() if table.named(key) is not None}
    rest = {key: value for key, value in first.items() if key not in own and key not in asked and key[:1] != "_"}
    return {**_named(table, {**asked, **own}, ""), **dict(flat(rest, "internal_states."))}


def _named(table: Table, values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """By flag; where the server reports JSON text, as the JSON."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = table.named(key)
        if name is not None and table.flags[name].kind == "json" and isinstance(value, str):
            found[name] = json_object(value)
        else:
            found[name or f"{prefix}{key}"] = value
    return found

"""Toy: a made-up engine, started as `toyserve MODEL --port N`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.engines import Engine, Probe
from tuner.engines.adapter import Adapter
from tuner.engines.flags import COUNT, FRACTION, Table, flags, within
from tuner.engines.judging import Judging
from tuner.engines.logs import Cause, Logs
from tuner.engines.replies import json_object
from tuner.engines.rules import Rule, when
from tuner.engines.versions import dots, release
from tuner.trial import Effective, Settings

FLAGS = {
    **flags(int="gpus|-g slots", float="memory", bool="overlap", str="cache-type", json="draft"),
    **flags("slot", str="host", int="port"),
}
LIMITS = {COUNT: "gpus slots", FRACTION: "memory"}
LOGS = Logs(
    causes=(Cause("out-of-memory", r"^toy: not enough memory"), Cause("bad-flag", r"^toyserve: error: ")),
    symptoms=(r"^toy: giving up",),
    under_load=r"^toy: worker lost",
    progress=((r"^toy: (\d+) % loaded", "loading weights, {0} %"),),
    ready=r"^toy: listening",
)
RULES = (
    Rule(
        "few-slots",
        "toyserve --help",
        ("slots",),
        lambda asked: when(asked.beyond(asked.number("slots", 8)), f"{asked.concurrency} requests wait for a slot"),
    ),
)


def engine(version: str | None = None) -> Engine:
    """The adapter of a release from 1.0 to below 2.0."""
    text, number = release("Toy", version, oldest=(1, 0, 0), newest=(1, 2, 0), below=(2, 0))
    table = Table(f"Toy {dots(number)}", within(FLAGS, LIMITS))
    return Toy("toy", text, table, (("toyserve",),), LOGS, Judging(), RULES)


@dataclass(frozen=True)
class Toy(Adapter):
    """`toyserve MODEL ...`; GET /config answers with its settings."""

    def program(self, model: str) -> tuple[str, ...]:
        return ("toyserve", model)

    def probes(self) -> Sequence[Probe]:
        return (Probe("config", "/config"),)

    def gpus(self, settings: Settings) -> int:
        return int(str(settings.args.get("gpus", 1)))

    def effective(self, replies: Mapping[str, str], log: str) -> Effective:
        config = json_object(replies.get("config"))
        values = {self.table.named(key) or key: value for key, value in config.items() if key != "version"}
        return Effective(values, "/config" if config else "", config.get("version"))

"""Sample histories for tests of reports and exporters: the published study, and changes of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tests.spaces import PUBLISHED_SPACE
from tuner.benchmarks import Workload
from tuner.history import Comparison, History
from tuner.objective import PUBLISHED, Objective
from tuner.search import Evaluate
from tuner.search.decide import decide
from tuner.spec import EngineSpec, StudySpec
from tuner.trial import Configuration, Failure, Launch, Measurement, Outcome, Settings, Slot, State, Trial

RECORDED = Path(__file__).parent.parent / "studies" / "deepseek-r1-h200" / "recorded.yaml"
MODEL = "deepseek-ai/DeepSeek-R1-0528"
COMPARE_ON = ("short", "medium", "long", "very-long", "sharegpt-concurrency-4")
Changed = Callable[[Outcome, Configuration], Outcome]


SPACE = replace(PUBLISHED_SPACE, model=MODEL, models={"tensorrt-llm": "/workspace/DeepSeek-R1-0528"})
WORKLOADS = {
    "sharegpt": Workload("sharegpt", "sharegpt", num_prompts=1000),
    "short": Workload("short", num_prompts=1000, input_len=128, output_len=4),
    "medium": Workload("medium", num_prompts=500, input_len=2000, output_len=100),
    "long": Workload("long", num_prompts=500, input_len=4000, output_len=200),
    "very-long": Workload("very-long", num_prompts=100, input_len=32000, output_len=100),
    "sharegpt-concurrency-4": Workload("sharegpt-concurrency-4", "sharegpt", num_prompts=100, max_concurrency=4),
}


def study(**fields: Any) -> StudySpec:
    versions = {"vllm": "0.11.0", "sglang": "0.5.3", "tensorrt-llm": "1.0.0"}
    facts: dict[str, Any] = {
        "name": "deepseek-r1-h200", "folder": Path("studies/deepseek-r1-h200"), "model": MODEL, "space": SPACE,
        "engines": {name: EngineSpec(name, version) for name, version in versions.items()}, "workloads": WORKLOADS,
        "objective": Objective(workload="sharegpt"), "method": PUBLISHED, "compare_on": COMPARE_ON,
    }  # fmt: skip
    return StudySpec(**{**facts, **fields})


def published(
    change: Changed = lambda outcome, configuration: outcome,
    trials: int | None = None,
    origin: str = "recorded",
    **fields: Any,
) -> History:
    """The published study, decided by the search from the recorded measurements.

    `change` may replace what came of a configuration; `trials` stops the search after that many.
    """
    spec = study(**fields)
    done: list[Trial] = []
    decision = decide(spec.space, done, spec.method, spec.objective)
    while isinstance(decision, Evaluate) and (trials is None or len(done) < trials):
        outcome = change(recorded(spec, decision.configuration), decision.configuration)
        done.append(tried(spec, decision, len(done), outcome))
        decision = decide(spec.space, done, spec.method, spec.objective)
    commands = {t.outcome.fingerprint: t.outcome.command for t in done if t.outcome and t.outcome.command}
    history = History(spec, tuple(done), decision, commands=commands, origin=origin)
    return replace(history, comparisons=comparisons(history))


def scaled(factors: Mapping[str, float | Failure]) -> Changed:
    """Throughput times a factor, or a failure, for configurations with an option of that name (the last counts)."""

    def change(outcome: Outcome, configuration: Configuration) -> Outcome:
        chosen = [factors[str(name)] for name in configuration.values() if str(name) in factors]
        if not chosen or outcome.measurement is None:
            return outcome
        if isinstance(chosen[-1], Failure):
            return replace(outcome, measurement=None, failure=chosen[-1])
        metrics = dict(outcome.measurement.metrics)
        metrics["total_token_throughput"] *= chosen[-1]
        return replace(outcome, measurement=replace(outcome.measurement, metrics=metrics))

    return change


def tried(spec: StudySpec, decision: Evaluate, number: int, outcome: Outcome) -> Trial:
    trial = Trial(number, decision.phase, decision.configuration, State.FAILED, base=decision.base, outcome=outcome)
    if outcome.measurement is None:
        return trial
    metrics = outcome.measurement.metrics
    value = metrics[spec.objective.metric]
    violation = spec.objective.violation(metrics)
    return replace(trial, state=State.MEASURED, value=value, values=(value,), violation=violation)


def recorded(spec: StudySpec, configuration: Configuration, workload: str = "sharegpt") -> Outcome:
    settings = spec.space.settings(configuration)
    found = [row for row in rows() if row["workload"] == workload and _args(row["command"]) == _asked(settings)]
    if not found:
        return Outcome.failed("not-recorded", "the recording has no such launch", fingerprint=settings.fingerprint)
    return Outcome(Measurement(found[0]["metrics"]), command=found[0]["command"], fingerprint=settings.fingerprint)


def comparisons(history: History) -> tuple[Comparison, ...]:
    done = history.done
    if done is None or done.best is None or done.baseline is None:
        return ()
    best, base = done.best, done.baseline

    def side(configuration: Configuration, workload: str) -> Measurement | None:
        return recorded(history.study, configuration, workload).measurement

    return tuple(Comparison(name, side(base, name), side(best, name)) for name in history.study.compare_on)


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(RECORDED.read_text())["measurements"]
    return found


def _asked(settings: Settings) -> set[str]:
    """The flags of settings, enough to tell the published launches apart."""
    return {settings.engine} | {flag for flag in settings.args if flag.startswith(("enable", "spec"))}


def _args(command: str) -> set[str]:
    words = shlex.split(command)
    engine = {"vllm": "vllm", "python3": "sglang", "trtllm-serve": "tensorrt-llm"}[words[0]]
    return {engine} | {word[2:] for word in words if word.startswith(("--enable", "--spec"))}


class PlainEngine:
    """An adapter that says `NAME-serve MODEL --flag value`; `files` go beside it, `forget` is lost on reading back."""

    health_path = "/health"

    def __init__(self, name: str, files: Mapping[str, str] | None = None, forget: Sequence[str] = ()) -> None:
        self.name, self.version = name, "1.0"
        self._files, self._forget = dict(files or {}), forget

    def launch(self, settings: Settings, slot: Slot, reading: bool = True) -> Launch:
        argv = [f"{self.name}-serve", settings.model]
        for flag, value in settings.args.items():
            argv += [f"--{flag}"] if value is True else [f"--{flag}", str(value)]
        argv += ["--host", slot.host, "--port", str(slot.port)]
        own = {"READING": "1"} if reading else {}
        url = f"http://{slot.host}:{slot.port}"
        return Launch(
            settings.engine, tuple(argv), settings.fingerprint, url, settings.model, settings.env, self._files, own
        )

    def parse(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None
    ) -> Settings:
        args: dict[str, Any] = {}
        words = list(argv[2:])
        while words:
            flag = words.pop(0).removeprefix("--")
            value: Any = words.pop(0) if words and not words[0].startswith("--") else True
            if flag not in ("host", "port", *self._forget):
                args[flag] = int(value) if isinstance(value, str) and value.isdigit() else value
        return Settings(self.name, argv[1], args, dict(env or {}))

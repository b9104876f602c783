"""Small search spaces and a pretended study loop for tests of the decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tuner.objective import NORMAL, Method, Objective
from tuner.search import Done, Evaluate
from tuner.search.decide import decide
from tuner.space import Changes, Domain, Option, Parameter, SearchSpace, Stage
from tuner.trial import Configuration, Failure, Outcome, State, Trial, Value


def option(name: str, **engines: Mapping[str, Value]) -> Option:
    return Option(name, {engine.replace("_", "-"): Changes(args=args) for engine, args in engines.items()})


MTP: Mapping[str, Value] = {
    "speculative-algorithm": "EAGLE", "speculative-num-steps": 1, "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 2,
}  # fmt: skip
PUBLISHED_SPACE = SearchSpace(
    name="deepseek-r1-h200",
    model="deepseek",
    engines=("vllm", "sglang", "tensorrt-llm"),
    stages=(
        Stage(
            "engine",
            (
                option("vllm", vllm={"tensor-parallel-size": 8}),
                option("sglang", sglang={"tp-size": 8}),
                option("tensorrt-llm", tensorrt_llm={"tp_size": 8, "ep_size": 8}),
            ),
        ),
        Stage("parallelism", (option("default"), option("tp+dp-attention", sglang={"enable-dp-attention": True}))),
        Stage("torch-compile", (option("off"), option("on", sglang={"enable-torch-compile": True}))),
        Stage(
            "speculative",
            (option("none"), option("mtp", sglang=MTP)),
            with_={"torch-compile": "on"},
        ),
    ),
)
PUBLISHED_VALUES = {
    ("vllm", "default", "off", "none"): 5482.59,
    ("sglang", "default", "off", "none"): 6635.73,
    ("tensorrt-llm", "default", "off", "none"): 3385.88,
    ("sglang", "tp+dp-attention", "off", "none"): 7143.30,
    ("sglang", "tp+dp-attention", "on", "none"): 6804.17,
    ("sglang", "tp+dp-attention", "on", "mtp"): 2217.12,
}

NUMERIC = SearchSpace(
    stages=(
        Stage("engine", (option("vllm", vllm={"t": 8}),)),
        Stage(
            "batching",
            parameters=(
                Parameter("tokens", {"vllm": Domain("int", 1024, 65536, log=True)}),
                Parameter("seqs", {"vllm": Domain("int", 64, 2048)}),
            ),
            rules=("seqs <= tokens",),
            trials=12,
        ),
    ),
    engines=("vllm",),
)

Measure = Callable[[Configuration, int], "float | tuple[float, ...] | Failure | None"]


def run(
    space: SearchSpace,
    measure: Measure,
    method: Method = NORMAL,
    objective: Objective | None = None,
    most: int = 200,
    trials: list[Trial] | None = None,
) -> tuple[list[Trial], Done]:
    """Decide and pretend to measure until done. `measure(configuration, number)` gives repeats or a failure."""
    trials = [] if trials is None else trials
    for _ in range(most):
        decision = decide(space, trials, method, objective)
        if isinstance(decision, Done):
            return trials, decision
        assert isinstance(decision, Evaluate)
        trials.append(finished(decision, len(trials), measure(decision.configuration, len(trials))))
    raise AssertionError(f"not done after {most} trials")


def finished(decision: Evaluate, number: int, result: float | tuple[float, ...] | Failure | None) -> Trial:
    trial = Trial(number, decision.phase, decision.configuration, State.MEASURED, base=decision.base)
    if isinstance(result, Failure):
        return trial.with_outcome(Outcome(failure=result), state=State.FAILED)
    if result is None:
        return trial.with_outcome(Outcome.failed("not-recorded", "not there"), state=State.FAILED)
    values = result if isinstance(result, tuple) else (result,)
    middle = sorted(values)[len(values) // 2]
    return trial.with_outcome(Outcome(), value=middle, values=values)


def published(values: Mapping[tuple[str, ...], float | Failure] = PUBLISHED_VALUES) -> Measure:
    """A recording with one measurement of each launch; a second one is not recorded."""
    left = dict(values)
    return lambda configuration, number: left.pop(tuple(str(option) for option in configuration.values()), None)

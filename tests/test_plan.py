"""`tuner plan`: what it says of a study holds for every course the study can take."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.histories import study
from tests.spaces import NUMERIC, PUBLISHED_SPACE, option, run
from tuner.objective import NORMAL, PUBLISHED, Method
from tuner.report.bounds import bounds
from tuner.report.plan import plan
from tuner.search import Done
from tuner.space import Domain, Parameter, SearchSpace, Stage
from tuner.spec import load
from tuner.trial import Configuration, Failure

STUDIES = Path(__file__).parents[1] / "studies"
SHIPPED = ("quickstart", "deepseek-r1-h200", "vllm-cpu-tiny")
OOM = Failure("out-of-memory", "CUDA out of memory")
ANY_METHOD = st.builds(
    Method,
    st.just("any"),
    beam=st.integers(1, 3),
    min_gain=st.sampled_from([0.0, 0.01]),
    noise=st.booleans(),
    confirm=st.integers(0, 3),
)


def walked(space: SearchSpace, method: Method, seed: int, spread: float, failing: float = 0.0) -> tuple[int, Done]:
    """Trials of a course of random outcomes: launches within `spread` of each other, some out of memory."""
    draw = random.Random(seed)
    broken: dict[Configuration, bool] = {}

    def measure(configuration: Configuration, number: int) -> tuple[float, ...] | Failure:
        if broken.setdefault(configuration, draw.random() < failing):
            return OOM
        value = 1000.0 * (1 + spread * draw.uniform(-1, 1))
        return tuple(value * (1 + spread / 4 * draw.uniform(-1, 1)) for _ in range(2))

    trials, done = run(space, measure, method)
    return len(trials), done


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SHIPPED), ANY_METHOD, st.integers(0, 10**9), st.sampled_from([0.001, 0.03, 0.3]))
def test_no_course_of_a_shipped_study_leaves_the_bounds(name: str, method: Method, seed: int, spread: float) -> None:
    space = load(STUDIES / name).space
    within = bounds(space, method)
    taken, _ = walked(space, method, seed, spread)
    assert within.fewest <= taken <= within.most
    assert within.once <= within.most
    failing, _ = walked(space, method, seed, spread, failing=0.3)
    assert failing <= within.most


@pytest.mark.parametrize("method", [PUBLISHED, NORMAL, replace(NORMAL, beam=1, confirm=0)])
@pytest.mark.parametrize("seed", range(6))
def test_samplers_and_many_options_stay_below_the_most(method: Method, seed: int) -> None:
    numeric = Stage("n", parameters=(Parameter("n", {"vllm": Domain("int", 1, 64)}),), trials=4)
    letters = [Stage(letter, (option("off"), option("on", vllm={letter: 1}))) for letter in "abc"]
    wide = SearchSpace(stages=(*PUBLISHED_SPACE.stages[:1], numeric, *letters), engines=PUBLISHED_SPACE.engines)
    first = SearchSpace(stages=(numeric, *letters), engines=("vllm",))
    many = [Stage(f"s{i}", tuple(option(f"o{j}", vllm={f"f{i}": j}) for j in range(4))) for i in range(7)]
    for space in (NUMERIC, wide, first, SearchSpace(stages=tuple(many), engines=("vllm",))):
        taken, _ = walked(space, method, seed, 0.02)
        assert taken <= bounds(space, method).most


def test_the_most_is_reached_where_each_challenger_falls_back() -> None:
    """Every candidate leads narrowly at first and loses when launched again: each is launched twice."""
    options = tuple(option(name, vllm={"f": name}) for name in ("none", "a", "b", "c"))
    space = SearchSpace(
        stages=(Stage("engine", (option("vllm", vllm={"t": 8}),)), Stage("flag", options)), engines=("vllm",)
    )
    seen: dict[Configuration, int] = {}

    def measure(configuration: Configuration, number: int) -> tuple[float, ...]:
        seen[configuration] = seen.get(configuration, 0) + 1
        if configuration["flag"] == "none":
            return (1000.0, 990.0, 1010.0)
        value = 1030.0 if seen[configuration] == 1 else 900.0
        return (value, value - 10, value + 10)

    method = replace(NORMAL, beam=1, confirm=0)
    trials, _ = run(space, measure, method)
    assert len(trials) == bounds(space, method).most == 8


def test_plan_says_what_is_counted() -> None:
    text = plan(load(STUDIES / "quickstart"))
    assert "10 to 27 trials" in text
    assert "up to 17 where every gain is plain" in text
    assert "each finalist and the baseline 2 times" in text
    assert "not counted: launches tried again" in text


def test_a_simulated_study_is_said_to_be_one_and_given_no_hours() -> None:
    text = plan(load(STUDIES / "quickstart"))
    assert "simulated: stand-in engines, seconds a launch, no GPU" in text
    assert "hours" not in text


def test_hours_of_a_real_study() -> None:
    text = plan(load(STUDIES / "deepseek-r1-h200", "published"))
    assert "3 to 6 trials of these" in text
    assert "0.2 to 2.0 hours at 4 to 20 minutes a launch (a guess), 2 to 16 GPU-hours on 8 GPUs" in text
    assert "simulated" not in text
    assert "then up to 2 launches more to compare on short" in text


def test_a_changed_method_says_what_was_changed() -> None:
    changed = study(method=replace(NORMAL, name="normal, changed", confirm=1, min_gain=0.02))
    assert "method normal with changes: min gain 0.02, confirm 1" in plan(changed)

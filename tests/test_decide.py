"""The decision: a pure function of the trials so far."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spaces import NUMERIC, PUBLISHED_SPACE, PUBLISHED_VALUES, finished, option, published, run
from tuner.objective import NORMAL, PUBLISHED, Method, Objective
from tuner.search import Done, Evaluate, Wait
from tuner.search.decide import decide
from tuner.space import Changes, Domain, Option, Parameter, SearchSpace, Stage
from tuner.trial import Configuration, Failure, Outcome, State, Trial

OOM = Failure("out-of-memory", "CUDA out of memory")


def values(trials: list[Trial]) -> list[float | None]:
    return [trial.value for trial in trials]


def test_published_six_trials_in_order() -> None:
    trials, done = run(PUBLISHED_SPACE, published(), PUBLISHED)
    assert values(trials) == [5482.59, 6635.73, 3385.88, 7143.30, 6804.17, 2217.12]
    assert done.value == 7143.30
    assert done.best == Configuration(
        {"engine": "sglang", "parallelism": "tp+dp-attention", "torch-compile": "off", "speculative": "none"}
    )
    gains = [None if step.gain is None else round(100 * step.gain, 1) for step in done.steps]
    assert gains == [21.0, 7.6, None, None]
    assert done.baseline_value == 5482.59


def test_every_permutation_of_published_values_keeps_the_rule() -> None:
    keys = list(PUBLISHED_VALUES)
    for seed in range(40):
        shuffled = random.Random(seed).sample(list(PUBLISHED_VALUES.values()), len(keys))
        trials, done = run(PUBLISHED_SPACE, published(dict(zip(keys, shuffled, strict=True))), PUBLISHED)
        engines = {trial.configuration["engine"]: trial.value or 0.0 for trial in trials[:3]}
        assert done.best is not None
        assert done.best["engine"] == max(engines, key=lambda name: engines[name])
        incumbent = max(engines.values())
        for trial in trials[3:]:
            incumbent = max(incumbent, trial.value or 0.0)
        assert done.value == incumbent


def test_speculative_win_keeps_the_flag_it_was_tried_with() -> None:
    won = {**PUBLISHED_VALUES, ("sglang", "tp+dp-attention", "on", "mtp"): 8000.0}
    _, done = run(PUBLISHED_SPACE, published(won), PUBLISHED)
    assert done.value == 8000.0
    assert done.best is not None
    assert done.best["torch-compile"] == "on"


def test_vllm_best_leaves_nothing_further_to_try() -> None:
    trials, done = run(
        PUBLISHED_SPACE, published({**PUBLISHED_VALUES, ("vllm", "default", "off", "none"): 9000.0}), PUBLISHED
    )
    assert len(trials) == 3
    assert done.best == PUBLISHED_SPACE.baseline
    assert [step.gain for step in done.steps] == [None] * 4


def test_a_tie_goes_to_the_incumbent() -> None:
    tie = {**PUBLISHED_VALUES, ("sglang", "tp+dp-attention", "off", "none"): 6635.73}
    tie[("sglang", "default", "on", "none")] = 1.0
    tie[("sglang", "default", "on", "mtp")] = 2.0
    trials, done = run(PUBLISHED_SPACE, published(tie), PUBLISHED)
    assert done.best is not None
    assert done.best["parallelism"] == "default"
    assert values(trials)[4:] == [1.0, 2.0]


def test_a_failed_option_leaves_the_incumbent() -> None:
    failed = {**PUBLISHED_VALUES, ("sglang", "tp+dp-attention", "off", "none"): OOM}
    trials, done = run(PUBLISHED_SPACE, published(failed), PUBLISHED)
    assert done.value == 6635.73
    assert [trial.failure.kind for trial in trials if trial.failure] == ["out-of-memory"] + ["not-recorded"] * 2


def test_a_failed_baseline_leaves_a_study_with_a_winner() -> None:
    failed = {**PUBLISHED_VALUES, ("vllm", "default", "off", "none"): OOM}
    _, done = run(PUBLISHED_SPACE, published(failed), PUBLISHED)
    assert done.value == 7143.30
    assert done.baseline_value is None
    assert done.steps[0].gain is None


def test_nothing_measured_is_done_without_a_best() -> None:
    trials, done = run(PUBLISHED_SPACE, lambda configuration, number: OOM, NORMAL)
    assert len(trials) == 3
    assert done.best is None


@pytest.mark.parametrize(("kind", "launches"), [("abandoned", 3), ("port-taken", 3), ("start-stall", 2), ("crash", 1)])
def test_failures_are_repeated_as_far_as_they_blame_the_node(kind: str, launches: int) -> None:
    trials, _ = run(PUBLISHED_SPACE, lambda configuration, number: Failure(kind, ""), PUBLISHED)
    assert len(trials) == 3 * launches


def test_an_interrupted_trial_is_always_launched_again() -> None:
    results = iter([Failure("interrupted", "")] * 7)
    measure = published()
    trials, done = run(PUBLISHED_SPACE, lambda c, n: next(results, None) or measure(c, n), PUBLISHED)
    assert len(trials) == 13
    assert done.value == 7143.30


def test_an_abandoned_trial_keeps_its_place() -> None:
    results = iter([Failure("abandoned", "")] * 2)
    measure = published()
    trials, _ = run(PUBLISHED_SPACE, lambda c, n: next(results, None) or measure(c, n), PUBLISHED)
    assert [trial.configuration["engine"] for trial in trials[:4]] == ["vllm", "vllm", "vllm", "sglang"]


def test_one_launch_under_two_names_is_launched_once() -> None:
    trials, _ = run(PUBLISHED_SPACE, published(), PUBLISHED)
    identities = [PUBLISHED_SPACE.identity(trial.configuration) for trial in trials]
    assert len(set(identities)) == len(identities)


def test_normal_asks_for_more_instead_of_crediting_single_measurements() -> None:
    trials, done = run(PUBLISHED_SPACE, published(), NORMAL)
    assert done.value == 6635.73
    assert done.best is not None
    assert done.best["parallelism"] == "default"
    assert not done.confirmed
    missing = [trial.configuration for trial in trials if trial.failure]
    assert any(configuration["torch-compile"] == "on" for configuration in missing)


def landscape(configuration: Configuration, noise: float, rng: random.Random) -> tuple[float, ...]:
    """vLLM is second by default and first when tuned."""
    base = {"vllm": 5000.0, "sglang": 6000.0, "tensorrt-llm": 4000.0}[str(configuration["engine"])]
    if configuration["engine"] == "vllm":
        base *= 1.5 if configuration["batch"] == "large" else 1.0
    base *= 1.1 if configuration["graphs"] == "on" else 1.0
    return tuple(base * rng.gauss(1.0, noise) for _ in range(3))


TUNABLE = SearchSpace(
    stages=(
        Stage(
            "engine",
            (
                option("vllm", vllm={"t": 8}),
                option("sglang", sglang={"t": 8}),
                option("tensorrt-llm", tensorrt_llm={"t": 8}),
            ),
        ),
        Stage("batch", (option("small"), option("large", vllm={"b": 1}, sglang={"b": 1}))),
        Stage("graphs", (option("off"), option("on", vllm={"g": True}, sglang={"g": True}))),
        Stage("nothing", (option("off"), option("on", vllm={"n": True}, sglang={"n": True}))),
    ),
    engines=("vllm", "sglang", "tensorrt-llm"),
)


def test_the_beam_finds_the_engine_that_is_second_by_default() -> None:
    rng = random.Random(1)
    trials, done = run(TUNABLE, lambda c, n: landscape(c, 0.005, rng), NORMAL)
    assert done.best is not None
    assert (done.best["engine"], done.best["batch"], done.best["graphs"]) == ("vllm", "large", "on")
    assert done.confirmed
    confirming = [trial for trial in trials if trial.phase == "confirm"]
    assert len(confirming) == 6
    order = [TUNABLE.identity(trial.configuration) for trial in confirming]
    assert order[:3] == order[3:]
    assert len(set(order)) == 3
    assert done.baseline_value == pytest.approx(5000, rel=0.02)


def test_noise_is_seldom_accepted_by_normal_and_always_tried() -> None:
    accepted = 0
    for seed in range(60):
        rng = random.Random(seed)
        _, done = run(TUNABLE, lambda c, n, rng=rng: landscape(c, 0.03, rng), NORMAL)  # type: ignore[misc]
        assert done.best is not None
        accepted += done.best["nothing"] == "on"
    assert accepted <= 6


def test_a_no_op_shares_its_twin_s_score_and_is_not_accepted() -> None:
    trials: list[Trial] = []
    for _ in range(40):
        decision = decide(PUBLISHED_SPACE, trials, NORMAL)
        if isinstance(decision, Done):
            break
        assert isinstance(decision, Evaluate)
        no_op = decision.configuration["parallelism"] == "tp+dp-attention"
        value = 6000.0 if decision.configuration["engine"] == "sglang" else 5000.0
        trial = finished(decision, len(trials), tuple(value * f * (1.3 if no_op else 1) for f in (0.99, 1, 1.01)))
        trials.append(replace(trial, no_op=no_op))
    assert isinstance(decision, Done)
    assert decision.best is not None
    assert decision.best["parallelism"] == "default"
    assert sum(trial.no_op for trial in trials) == 1


def test_a_record_counts_from_its_own_phase_on() -> None:
    trials, done = run(PUBLISHED_SPACE, published(), PUBLISHED)
    late = Trial(len(trials), "confirm", trials[3].configuration, State.MEASURED, value=1.0)
    assert decide(PUBLISHED_SPACE, [*trials, late], PUBLISHED) == done


def test_running_trials_make_others_wait_or_go_on() -> None:
    first = decide(PUBLISHED_SPACE, [], PUBLISHED)
    assert isinstance(first, Evaluate)
    running = [Trial(0, first.phase, first.configuration, State.RUNNING)]
    second = decide(PUBLISHED_SPACE, running, PUBLISHED)
    assert isinstance(second, Evaluate)
    assert second.configuration["engine"] == "sglang"
    for name in ("sglang", "tensorrt-llm"):
        configuration = PUBLISHED_SPACE.baseline.having(engine=name)
        running.append(Trial(len(running), "engine", configuration, State.RUNNING))
    assert decide(PUBLISHED_SPACE, running, PUBLISHED) == Wait()


def test_resuming_anywhere_asks_for_the_same() -> None:
    def measure(configuration: Configuration, number: int) -> tuple[float, ...]:
        return landscape(configuration, 0.02, random.Random(number))

    whole, done = run(TUNABLE, measure, NORMAL)
    for cut in range(len(whole)):
        again, finish = run(TUNABLE, measure, NORMAL, trials=whole[:cut])
        assert again == whole
        assert finish == done


def test_limits_order_before_values() -> None:
    objective = Objective(limits={"p99_ttft_ms": 100.0})
    decision = decide(PUBLISHED_SPACE, [], PUBLISHED, objective)
    trials: list[Trial] = []
    while isinstance(decision, Evaluate):
        slow = decision.configuration["engine"] == "sglang"
        trial = finished(decision, len(trials), 9000.0 if slow else 5000.0)
        trials.append(replace(trial, violation=0.5 if slow else 0.2))
        decision = decide(PUBLISHED_SPACE, trials, PUBLISHED, objective)
    assert isinstance(decision, Done)
    assert decision.best is not None
    assert decision.best["engine"] == "vllm"


def test_minimising_prefers_the_smaller() -> None:
    _, done = run(PUBLISHED_SPACE, published(), PUBLISHED, Objective("mean_ttft_ms", maximize=False))
    assert done.best is not None
    assert done.best["engine"] == "tensorrt-llm"


def numeric(configuration: Configuration, number: int) -> float | Failure:
    tokens = configuration.get("tokens")
    if tokens is None:
        return 1000.0
    assert isinstance(tokens, int)
    return OOM if tokens > 40000 else 1000.0 + tokens / 100


def test_a_numeric_stage_tunes_and_resumes_the_same() -> None:
    whole, done = run(NUMERIC, numeric, PUBLISHED)
    assert len(whole) == 13
    assert len({trial.configuration for trial in whole}) == 13
    assert all(trial.configuration["seqs"] <= trial.configuration["tokens"] for trial in whole[1:])  # type: ignore[operator]
    assert done.best is not None
    assert done.value == max(trial.value or 0 for trial in whole)
    for cut in (3, 7, 12):
        again, _ = run(NUMERIC, numeric, PUBLISHED, trials=whole[:cut])
        assert [trial.configuration for trial in again] == [trial.configuration for trial in whole]


def test_an_exhausted_numeric_stage_ends() -> None:
    tiny = replace(
        NUMERIC,
        stages=(
            NUMERIC.stages[0],
            Stage("n", parameters=(Parameter("x", {"vllm": Domain("categorical", choices=(1, 2, 3))}),), trials=20),
        ),
    )
    trials, done = run(tiny, lambda c, n: float(str(c.get("x", 0))), PUBLISHED)
    assert len(trials) == 4
    assert done.value == 3.0


SPACES = st.lists(st.integers(1, 3), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(SPACES, st.randoms(use_true_random=False), st.sampled_from([PUBLISHED, NORMAL, Method("m", 3, 0.0, True, 1)]))
def test_any_space_ends_and_the_winner_was_measured(sizes: list[int], rng: random.Random, method: Method) -> None:
    engines = Stage("engine", tuple(option(f"e{i}", **{f"e{i}": {"x": i}}) for i in range(3)))
    others = tuple(
        Stage(
            f"s{i}",
            tuple(
                Option(f"o{j}", {f"e{e}": Changes(args={f"s{i}": j}) for e in range(3)} if j else {})
                for j in range(size + 1)
            ),
        )
        for i, size in enumerate(sizes)
    )
    space = SearchSpace(stages=(engines, *others), engines=("e0", "e1", "e2"))

    def measure(configuration: Configuration, number: int) -> float | Failure | tuple[float, ...]:
        roll = rng.random()
        if roll < 0.2:
            return Failure(rng.choice(["out-of-memory", "abandoned", "crash-under-load"]), "")
        return tuple(rng.uniform(1, 100) for _ in range(rng.choice([1, 3])))

    trials, done = run(space, measure, method)
    assert len(trials) < 200
    if done.best is not None:
        identities = {space.identity(t.configuration) for t in trials if t.state is State.MEASURED}
        assert space.identity(done.best) in identities


def test_outcome_default_is_no_failure() -> None:
    assert Trial(0, "x", Configuration(), State.MEASURED, outcome=Outcome()).failure is None

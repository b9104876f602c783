"""StagedSampler: the decision under plain Optuna, without any server of ours."""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)
from optuna.trial import TrialState

from tests.spaces import NUMERIC, PUBLISHED_SPACE, PUBLISHED_VALUES
from tuner.search.records import read
from tuner.search.sampler import StagedSampler, suggest

SIX = [5482.59, 6635.73, 3385.88, 7143.30, 6804.17, 2217.12]


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def objective(trial: optuna.Trial) -> float:
    configuration = suggest(PUBLISHED_SPACE, trial)
    return PUBLISHED_VALUES[tuple(str(option) for option in configuration.values())]


def study(storage: str | None = None, **options: object) -> optuna.Study:
    return optuna.create_study(
        storage=storage,
        study_name="published",
        load_if_exists=True,
        direction="maximize",
        sampler=StagedSampler(PUBLISHED_SPACE, **({"method": "published"} | options)),  # type: ignore[arg-type]
    )


def values(of: optuna.Study) -> list[float | None]:
    return [trial.value for trial in of.trials if trial.state is TrialState.COMPLETE]


def test_optimize_gives_the_published_six_and_stops() -> None:
    made = study()
    made.optimize(objective, n_trials=50)
    assert values(made) == SIX
    assert made.best_value == 7143.30
    assert [trial.user_attrs["phase"] for trial in made.trials] == ["engine"] * 3 + [
        "parallelism", "torch-compile", "speculative"
    ]  # fmt: skip


def test_ask_and_tell_gives_the_same() -> None:
    made = study()
    for _ in SIX:
        trial = made.ask()
        made.tell(trial, objective(trial))
    assert values(made) == SIX


def test_plain_suggest_categorical_works_too() -> None:
    def plain(trial: optuna.Trial) -> float:
        options = {stage.name: [option.name for option in stage.options] for stage in PUBLISHED_SPACE.stages}
        return PUBLISHED_VALUES[tuple(trial.suggest_categorical(name, names) for name, names in options.items())]

    made = study()
    made.optimize(plain, n_trials=50)
    assert values(made) == SIX


def test_a_finished_study_costs_one_pruned_trial() -> None:
    made = study()
    made.optimize(objective, n_trials=50)
    made.optimize(objective, n_trials=50)
    assert values(made) == SIX
    assert Counter(trial.state for trial in made.trials) == {TrialState.COMPLETE: 6, TrialState.PRUNED: 1}


def test_resumes_from_storage_after_every_trial(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    for _ in SIX:
        study(url).optimize(objective, n_trials=1)
    assert values(study(url)) == SIX


def test_a_failing_objective_is_not_asked_again() -> None:
    asked: list[str] = []

    def failing(trial: optuna.Trial) -> float:
        engine = str(suggest(PUBLISHED_SPACE, trial)["engine"])
        asked.append(engine)
        if engine == "sglang":
            raise RuntimeError("out of memory")
        return objective(trial)

    made = study()
    made.optimize(failing, n_trials=50, catch=(RuntimeError,))
    assert asked == ["vllm", "sglang", "tensorrt-llm"]
    assert made.best_trial.params["engine"] == "vllm"


@pytest.mark.parametrize("jobs", [2, 4])
def test_threads_make_no_duplicate(jobs: int, tmp_path: Path) -> None:
    made = study(f"sqlite:///{tmp_path}/study.db", wait_s=60.0)
    made.optimize(objective, n_trials=50, n_jobs=jobs)
    assert sorted(v for v in values(made) if v is not None) == sorted(SIX)


def _worker(url: str) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study(url, wait_s=60.0).optimize(objective, n_trials=20)


@pytest.mark.slow
def test_processes_on_one_file_make_no_duplicate(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    study(url)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_worker, args=(url,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert sorted(v for v in values(study(url)) if v is not None) == sorted(SIX)


def test_a_bare_ask_blocks_nobody() -> None:
    made = study(wait_s=0.3)
    made.ask()
    assert made.ask().user_attrs["configuration"]["engine"] == "sglang"
    made.ask()
    with pytest.raises(TimeoutError, match="trial 3"):
        made.ask()


def test_waiting_ends_when_the_elder_finishes() -> None:
    made = study(wait_s=30.0)
    elders = [made.ask() for _ in range(3)]

    def finish() -> None:
        for trial in elders:
            made.tell(trial, objective(trial))

    timer = threading.Timer(0.3, finish)
    timer.start()
    assert made.ask().user_attrs["phase"] == "parallelism"
    timer.join()


def test_an_enqueued_trial_is_left_as_it_is_and_counts() -> None:
    made = study()
    made.enqueue_trial({"engine": "sglang", "parallelism": "default", "torch-compile": "off", "speculative": "none"})
    made.optimize(objective, n_trials=50)
    assert values(made) == [6635.73, 5482.59, 3385.88, 7143.30, 6804.17, 2217.12]


def test_numeric_parameters_are_suggested_where_reached() -> None:
    def measure(trial: optuna.Trial) -> float:
        return float(suggest(NUMERIC, trial).get("tokens") or 1.0)  # type: ignore[arg-type]

    made = optuna.create_study(direction="maximize", sampler=StagedSampler(NUMERIC, method="published"))
    made.optimize(measure, n_trials=50)
    assert len(made.trials) == 13
    assert "tokens" not in made.trials[0].params
    assert {"tokens", "seqs"} <= made.trials[1].params.keys()
    assert all(trial.configuration for trial in read(made.trials))


def test_an_unknown_method_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="published, normal"):
        StagedSampler(PUBLISHED_SPACE, method="greedy")


class StagedSamplerFixture:
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: StagedSampler(PUBLISHED_SPACE)


class TestBasic(StagedSamplerFixture, BasicSamplerTestCase):
    pass


class TestRelative(StagedSamplerFixture, RelativeSamplerTestCase):
    pass


class TestSingleOnly(StagedSamplerFixture, SingleOnlySamplerTestCase):
    pass

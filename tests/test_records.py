"""What came of a trial, as Optuna stores it, and read back."""

from __future__ import annotations

import optuna
import pytest
from optuna.trial import TrialState

from tests.spaces import PUBLISHED_SPACE
from tuner.objective import Objective
from tuner.search.records import dump_outcome, live, load_outcome, read, tell
from tuner.search.sampler import StagedSampler, suggest
from tuner.trial import Effective, Failure, KeyVerdict, Measurement, Outcome, SideEffect, State, Trial

OBJECTIVE = Objective(limits={"p99_ttft_ms": 1000.0})
IGNORED = (KeyVerdict("enable-dp-attention", True, False, "ignored"),)


def measured(value: float = 7143.3, ttft: float = 500.0, effective: Effective | None = None) -> Outcome:
    metrics = {"total_token_throughput": value, "p99_ttft_ms": ttft}
    repeats = tuple(metrics | {"total_token_throughput": value * factor} for factor in (0.99, 1.0, 1.01))
    return Outcome(
        measurement=Measurement(metrics, repeats),
        effective=effective,
        comparisons={"long": Measurement({"total_token_throughput": 1.0}), "short": Failure("crash", "died")},
        timings={"ready": 1.5},
        command="vllm serve m",
        fingerprint="0123456789abcdef",
    )


def stored(outcome: Outcome) -> tuple[optuna.Study, Trial]:
    study = optuna.create_study(direction="maximize", sampler=StagedSampler(PUBLISHED_SPACE, objective=OBJECTIVE))
    trial = study.ask()
    suggest(PUBLISHED_SPACE, trial)
    tell(study, trial, outcome, OBJECTIVE, "vllm")
    return study, read(study.trials, OBJECTIVE)[0]


def test_a_measurement_is_complete_with_its_own_median() -> None:
    study, trial = stored(measured())
    (frozen,) = study.trials
    assert (frozen.state, frozen.value) == (TrialState.COMPLETE, 7143.3)
    assert frozen.user_attrs["command"] == "vllm serve m"
    assert frozen.user_attrs["engine"] == "vllm"
    assert frozen.user_attrs["metrics"]["p99_ttft_ms"] == 500.0
    assert trial.values == (7143.3 * 0.99, 7143.3, 7143.3 * 1.01)
    assert trial.outcome == measured()
    assert trial.started is not None
    assert trial.finished is not None


def test_a_limit_missed_is_complete_and_no_best_trial() -> None:
    study, trial = stored(measured(ttft=1500.0))
    assert study.trials[0].constraints == {"p99_ttft_ms": 500.0}
    assert trial.violation == 0.5
    assert trial.value == 7143.3
    with pytest.raises(ValueError, match="feasible"):
        _ = study.best_trial


def test_a_limit_on_what_was_not_measured_is_missed() -> None:
    metrics = {"total_token_throughput": 1.0}
    study, trial = stored(Outcome(measurement=Measurement(metrics, (metrics,))))
    assert study.trials[0].constraints["p99_ttft_ms"] > 0
    assert trial.violation == 1.0


def test_a_no_op_keeps_its_value_and_pools() -> None:
    derived = (SideEffect("mem-fraction-static", 0.897, 0.881, derived=True),)
    study, trial = stored(measured(effective=Effective({}, verdicts=IGNORED, side_effects=derived, no_op=True)))
    assert study.trials[0].constraints["no-op"] == 1.0
    assert trial.no_op
    assert trial.value == 7143.3


def test_a_no_op_that_moved_something_else_does_not_pool() -> None:
    moved = (SideEffect("block-size", 16, 64),)
    study, trial = stored(measured(effective=Effective({}, verdicts=IGNORED, side_effects=moved, no_op=True)))
    assert "no-op" not in study.trials[0].constraints
    assert not trial.no_op
    assert trial.outcome is not None
    assert trial.outcome.effective is not None
    assert trial.outcome.effective.no_op


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome.failed("out-of-memory", "CUDA out of memory"),
        Outcome(measurement=measured().measurement, failure=Failure("invalid-measurement", "516 of 1000")),
    ],
)
def test_a_failure_has_no_value(outcome: Outcome) -> None:
    study, trial = stored(outcome)
    assert (study.trials[0].state, study.trials[0].value) == (TrialState.FAIL, None)
    assert outcome.failure is not None
    assert study.trials[0].user_attrs["failure"].startswith(outcome.failure.kind)
    assert trial.state is State.FAILED
    assert trial.failure == outcome.failure
    assert trial.value is None


def test_outcomes_survive_json() -> None:
    effective = Effective({"a": [1, {"b": None}]}, "log", "0.11.0", IGNORED, (SideEffect("k", 1, 2),), True)
    for outcome in (measured(effective=effective), Outcome.failed("crash", "died", notes=("a", "b")), Outcome()):
        assert load_outcome(dump_outcome(outcome)) == outcome


def test_another_process_closes_what_it_finds() -> None:
    study = optuna.create_study(direction="maximize", sampler=StagedSampler(PUBLISHED_SPACE))
    suggest(PUBLISHED_SPACE, study.ask())
    (running,) = study.trials
    tell(study, live(study, running), measured(), OBJECTIVE, "vllm")
    assert study.trials[0].value == 7143.3
    assert study.trials[0].user_attrs["phase"] == "engine"
    assert len(study.trials) == 1

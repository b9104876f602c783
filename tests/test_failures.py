"""What failures mean: the table of policies, failures that are the study's own, and retries that change something."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
import yaml

from tests.live import status, tuner, write_study
from tests.spaces import option
from tuner.policy import POLICIES, FailureKind, policy
from tuner.search.hopeless import hopeless
from tuner.space import SearchSpace, Stage
from tuner.trial import Configuration, Failure, Outcome, State, Trial

ENGINES = ("vllm", "sglang", "tensorrt-llm")
SPACE = SearchSpace(
    engines=ENGINES,
    stages=(
        Stage(
            "engine",
            (
                option("vllm", vllm={"tensor-parallel-size": 8}),
                option("sglang", sglang={"tp-size": 8}),
                option("tensorrt-llm", tensorrt_llm={"tp_size": 8}),
                option("vllm-tp4", vllm={"tensor-parallel-size": 4}),
                option("vllm-tp2", vllm={"tensor-parallel-size": 2}),
            ),
        ),
        Stage(
            "memory",
            (option("default"), *(option(f"m{n}", vllm={"gpu-memory-utilization": n / 100}) for n in (95, 97, 99))),
        ),
    ),
)
LOST = Failure("crash", "RuntimeError: /opt/a lost 1.5 GiB", line=7)


def trials(*came: tuple[str, Failure | None], memory: Sequence[str] = ()) -> list[Trial]:
    chosen = [*memory, *["default"] * len(came)]
    return [
        Trial(
            number,
            "engine",
            Configuration({"engine": engine, "memory": chosen[number]}),
            State.FAILED if failure else State.MEASURED,
            outcome=Outcome(failure=failure),
        )
        for number, (engine, failure) in enumerate(came)
    ]


def test_every_kind_has_its_row() -> None:
    assert set(POLICIES) == set(get_args(FailureKind))
    for kind, row in POLICIES.items():
        assert bool(row.on_retry) == bool(row.retries), kind
        assert row.way_out or kind in ("interrupted", "not-recorded", "unknown")
    assert policy("never heard of") == POLICIES["unknown"]


@pytest.mark.parametrize(
    ("kind", "counts", "retries"),
    [
        ("bad-flag", True, 0), ("invalid-config", True, 0), ("unsupported", True, 0), ("out-of-memory", True, 0),
        ("out-of-memory-graphs", True, 0), ("out-of-memory-under-load", True, 0), ("gpu-busy", False, 2),
        ("port-taken", False, 2), ("shm-full", False, 2), ("cache-poisoned", False, 1), ("start-stall", True, 1),
        ("start-timeout", True, 1), ("crash-under-load", True, 1), ("hang-under-load", True, 1),
        ("invalid-measurement", True, 1), ("model-gated", False, 0), ("disk-full", False, 2),
    ],
)  # fmt: skip
def test_policies_of_the_kinds(kind: str, counts: bool, retries: int) -> None:
    row = policy(kind)
    assert (row.counts, row.retries) == (counts, retries)
    assert Failure(kind, "").attempt == pytest.approx(1 / (1 + retries))


def test_a_failure_tells_cause_place_and_way_out() -> None:
    failure = Failure("out-of-memory", "CUDA out of memory", line=812, way_out="take more GPUs")
    assert str(failure) == "out-of-memory: CUDA out of memory (line 812 of its log); take more GPUs"
    assert str(Failure("crash", "gone")) == "crash: gone"


def test_one_failure_of_three_that_share_nothing_ends_it() -> None:
    found = hopeless(SPACE, trials(*((engine, LOST) for engine in ENGINES)))
    assert found is not None
    assert "3 configurations in a row that share nothing but the study" in found
    assert "(trials 0, 1, 2): crash: RuntimeError: /opt/a lost 1.5 GiB (line 7 of its log)" in found
    assert "--retry-failed" in found


@pytest.mark.parametrize(
    "came",
    [
        [("vllm", LOST), ("sglang", LOST)],
        [("vllm", LOST), ("vllm", LOST), ("vllm", LOST)],  # one configuration
        [("vllm", LOST), ("sglang", None), ("tensorrt-llm", LOST), ("vllm-tp4", LOST)],
        [("vllm", LOST), ("sglang", Failure("crash", "another")), ("tensorrt-llm", LOST)],
        [("vllm", LOST), ("vllm-tp4", LOST), ("vllm-tp2", LOST)],  # perhaps the engine's fault
        [("sglang", None), ("vllm", LOST), ("vllm-tp4", LOST), ("vllm-tp2", LOST)],
        [(engine, Failure("interrupted", "by hand")) for engine in ENGINES],
    ],
)
def test_there_is_hope(came: list[tuple[str, Failure | None]]) -> None:
    assert hopeless(SPACE, trials(*came)) is None


def test_options_of_one_stage_may_be_at_fault_each_by_itself() -> None:
    oom = Failure("out-of-memory", "CUDA out of memory")
    came = trials(("vllm", None), *[("vllm", oom)] * 3, memory=("default", "m95", "m97", "m99"))
    assert hopeless(SPACE, came) is None
    full = Failure("disk-full", "no space")  # is never the configuration's fault
    came = trials(("vllm", None), *[("vllm", full)] * 3, memory=("default", "m95", "m97", "m99"))
    assert hopeless(SPACE, came) is not None


def test_what_failed_in_an_earlier_run_may_be_mended_and_what_worked_still_counts() -> None:
    assert hopeless(SPACE, trials(*((engine, LOST) for engine in ENGINES)), before={0}) is None
    oom = Failure("out-of-memory", "CUDA out of memory")
    alone = SearchSpace(engines=("vllm",), stages=SPACE.stages)
    came = trials(("vllm", None), *[("vllm", oom)] * 3, memory=("default", "m95", "m97", "m99"))
    assert hopeless(alone, came, before={0}) is None


def test_failures_that_engines_word_differently_are_the_same_where_no_configuration_is_at_fault() -> None:
    said = ["Repo id must be in the form", "not a valid model identifier", "Failed to load model"]
    came = [(engine, Failure("model-not-found", text)) for engine, text in zip(ENGINES, said, strict=True)]
    assert hopeless(SPACE, trials(*came)) is not None


def test_a_sick_node_ends_it_at_once() -> None:
    found = hopeless(SPACE, trials(("vllm", Failure("node-sick", "uncorrectable ECC error"))))
    assert found is not None
    assert found.startswith("the node cannot go on: node-sick: uncorrectable ECC error; mend the node first")


# --- over the simulated engine ----------------------------------------------------------------------------------


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Six configurations of two engines in the first stage."""
    folder = write_study(tmp_path / "live", method="published")
    text = yaml.safe_load((folder / "study.yaml").read_text())
    text["search_space"]["stages"][0]["options"] |= {
        f"{name}-{size}": {name: {"args": {flag: size}}}
        for size in (4, 2)
        for name, flag in (("vllm", "tensor-parallel-size"), ("sglang", "tp-size"))
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(text, sort_keys=False))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "kind"), [("no-model", "model-not-found"), ("exit=3", "crash")])
def test_a_study_that_cannot_work_says_so_after_three(study: Path, fault: str, kind: str) -> None:
    done = tuner("run", study, env={"TUNER_FAKE_FAULT": fault})
    assert done.returncode == 1
    assert "3 configurations in a row that share nothing but the study" in done.stderr
    found = status(study)
    assert [trial["failure"].split(":")[0] for trial in found["trials"]] == [kind] * 3
    again = tuner("run", study, "--retry-failed")
    assert again.returncode == 0, again.stderr
    assert status(study)["done"]


@pytest.mark.slow
def test_a_dead_gpu_ends_the_study_with_the_first_trial(study: Path) -> None:
    done = tuner("run", study, env={"TUNER_FAKE_FAULT": "dead-gpu"})
    assert done.returncode == 1
    assert "the node cannot go on: node-sick: " in done.stderr
    assert "uncorrectable ECC error" in done.stderr
    assert len(status(study)["trials"]) == 1


@pytest.mark.slow
def test_after_a_broken_cache_the_launch_has_one_of_its_own(study: Path) -> None:
    done = tuner("run", study, "--trials", "2", env={"TUNER_FAKE_FAULT": "broken-cache"})
    assert done.returncode == 0, done.stderr
    first, second = status(study)["trials"]
    assert first["failure"].startswith("cache-poisoned: json.decoder.JSONDecodeError")
    assert second["state"] == "measured"
    assert second["configuration"] == first["configuration"]

"""One trial over a real server process: what comes back, and in which order things happen."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.live import tuner
from tuner.benchmarks import Workload, client, records
from tuner.engines import engine
from tuner.evaluation import Place, evaluate
from tuner.executors import Job
from tuner.launchers import Identity, launcher
from tuner.node.locks import free_port
from tuner.search import CONFIRM
from tuner.search import records as records_of_trials
from tuner.server import serve
from tuner.spec import BenchmarkSpec
from tuner.trial import Configuration, Failure, Measurement, Outcome, Settings, Slot

pytestmark = pytest.mark.slow

SECRETS = {"HF_TOKEN": "hf_verysecret1", "MY_API_KEY": "not-by-its-form-7", "WANDB_API_KEY": "aaaabbbbccccdddd"}
WORKLOAD = Workload("all", num_prompts=12, input_len=24, output_len=6, seed=3)
PLAIN = Settings("sglang", "simulated/tiny", {"tp-size": 8})


class Bench:
    """Evaluates jobs on the simulated engine and keeps what is told meanwhile."""

    def __init__(self, folder: Path, repeats: int = 2, warmup: int | None = 0, version: str | None = None) -> None:
        self.folder, self.told = folder, [""]
        self.identities: list[Identity] = []
        self.stop = threading.Event()
        self.place = Place(
            engine("sglang", "0.5.3"),
            launcher("process", simulated=True),
            client("tuner"),
            BenchmarkSpec(warmup=warmup, repeats=repeats),
            version=version,
        )

    def run(self, settings: Settings = PLAIN, **fields: object) -> Outcome:
        job = Job(0, "engine", Configuration({"engine": "sglang"}), settings, WORKLOAD, **fields)  # type: ignore[arg-type]
        with free_port() as port:
            return evaluate(
                job, self.place, Slot(port=port, folder=self.folder),
                record=self.identities.append, stop=self.stop, notify=self.told.append,
            )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "0000"


def test_a_measurement_with_everything_learned(folder: Path) -> None:
    bench = Bench(folder)
    outcome = bench.run(compare_on=(Workload("other", num_prompts=4, input_len=24, output_len=4),))
    assert outcome.failure is None
    assert outcome.measurement is not None
    assert len(outcome.measurement.repeats) == 2
    assert outcome.measurement.metrics["completed"] == 12
    assert outcome.measurement.metrics["total_output_tokens"] == 72
    assert outcome.fingerprint == PLAIN.fingerprint
    assert outcome.command.startswith("python3 -m sglang.launch_server --model-path simulated/tiny")
    assert {"launch", "ready", "effective", "warm-up", "benchmark", "stop"} == outcome.timings.keys()
    assert outcome.effective is not None
    assert outcome.effective.version == "0.5.3"
    assert [(v.key, v.status) for v in outcome.effective.verdicts] == [("tp-size", "as-asked")]
    assert isinstance(outcome.comparisons["other"], Measurement)


def test_every_request_of_every_pass_is_kept(folder: Path) -> None:
    outcome = Bench(folder).run(compare_on=(Workload("other", num_prompts=4, input_len=24, output_len=4),))
    kept = sorted(path.name for path in (folder / "records").iterdir())
    assert kept == ["all-1.npz", "all-2.npz", "other-1.npz", "other-2.npz"]
    assert outcome.measurement is not None
    for number, repeat in enumerate(outcome.measurement.repeats, 1):
        run, workload, model = records.read(folder / "records" / f"all-{number}.npz")
        assert run.metrics == pytest.approx(repeat)
        assert (workload, model) == (WORKLOAD, "simulated/tiny")
        assert run.facts["simulated"]
        assert [len(response.itls) for response in run.responses] == [5] * 12


def test_records_that_cannot_be_kept_lose_nothing_else(folder: Path) -> None:
    folder.mkdir()
    (folder / "records").write_text("in the way")
    outcome = Bench(folder).run()
    assert outcome.measurement is not None
    assert outcome.failure is None
    (note,) = outcome.notes
    assert note.startswith("records of single requests were not kept: ")
    assert "all-1.npz cannot be written" in note


def test_the_identity_is_stored_before_anything_is_waited_for(folder: Path) -> None:
    bench = Bench(folder, repeats=1)
    bench.run()
    assert bench.identities[0].pid is None
    assert bench.identities[0].marker
    assert bench.identities[1].pid is not None
    stored = json.loads(json.dumps(bench.identities[-1].as_json()))
    assert Identity.from_json(stored) == bench.identities[-1]


def test_a_no_op_is_recognised_against_its_base(folder: Path) -> None:
    bench = Bench(folder, repeats=1)
    base = bench.run()
    asked = Settings("sglang", "simulated/tiny", {"tp-size": 8, "enable-dp-attention": True})
    outcome = bench.run(asked, base=PLAIN, base_effective=base.effective)
    assert outcome.effective is not None
    assert outcome.effective.no_op
    assert outcome.effective.pools
    assert {effect.key for effect in outcome.effective.side_effects} <= {"mem-fraction-static", "kv-cache-tokens"}


def test_another_version_than_claimed_is_refused(folder: Path) -> None:
    outcome = Bench(folder, version="0.5.17").run()
    assert outcome.failure is not None
    assert outcome.failure.kind == "version-mismatch"
    assert "0.5.17" in outcome.failure.message
    assert outcome.measurement is None


def test_repeats_use_fresh_prompts_and_every_launch_the_same_ones(folder: Path) -> None:
    first, second = (Bench(folder, repeats=2).run().measurement for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.metrics["total_input_tokens"] == second.metrics["total_input_tokens"]


def test_warm_up_ends_when_two_passes_agree(folder: Path) -> None:
    bench = Bench(folder, repeats=1, warmup=None)
    bench.run()
    passes = [text for text in bench.told if text.startswith("warm-up")]
    assert 2 <= len(passes) <= 4


@pytest.mark.parametrize("after", [2, 10])
def test_a_server_that_hangs_under_load_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """In the warm-up or in a measured pass."""
    monkeypatch.setenv("TUNER_FAKE_FAULT", f"hang-after={after}")
    bench = Bench(folder, repeats=3, warmup=2)
    bench.place = replace(bench.place, hang_s=2.0)
    outcome = bench.run()
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.hop) == ("hang-under-load", "benchmark")
    assert outcome.failure.message.startswith("no token of any request for 2 s: ")
    assert outcome.failure.log
    assert outcome.measurement is None


@pytest.mark.parametrize("factor", ["2", "0.5"])
def test_an_engine_that_counts_wrongly_is_not_ranked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, factor: str
) -> None:
    monkeypatch.setenv("TUNER_FAKE_FAULT", f"wrong-usage={factor}")
    outcome = Bench(folder, repeats=1).run()
    assert outcome.failure is not None
    assert outcome.failure.kind == "invalid-measurement"
    assert "6 were asked with end-of-sequence ignored" in outcome.failure.message


def test_a_server_that_only_says_that_it_is_healthy_is_given_up_soon(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_FAKE_FAULT", "zombie-health")
    bench = Bench(folder)
    begun = time.monotonic()
    outcome = bench.run()
    assert outcome.failure is not None
    assert outcome.failure.kind == "crash"
    assert "/health answers 200, but for " in outcome.failure.message
    assert "a completion of one token is answered with 500" in outcome.failure.message
    assert time.monotonic() - begun < 60
    assert "starting: waiting for a first completion" in bench.told
    assert "starting: ready" not in bench.told


def test_a_stop_request_ends_it_and_the_server(folder: Path) -> None:
    bench = Bench(folder)
    bench.stop.set()
    outcome = bench.run()
    assert outcome.failure is not None
    assert outcome.failure.kind == "interrupted"


def test_a_confirming_launch_adds_nothing_of_the_tuner_s(folder: Path) -> None:
    bench = Bench(folder, repeats=1)
    bench.place = Place(
        engine("vllm", "0.11.0"),
        launcher("process", simulated=True),
        client("tuner"),
        BenchmarkSpec(warmup=0, repeats=1),
    )
    settings = Settings("vllm", "simulated/tiny", {"tensor-parallel-size": 8})
    read, verbatim = bench.run(settings), bench.run(settings, verbatim=True)
    assert read.effective is not None
    assert verbatim.effective is not None
    assert read.effective.source != verbatim.effective.source
    assert CONFIRM == "confirm"
    assert verbatim.measurement is not None


def test_a_crash_on_another_workload_leaves_the_measurement_that_decides(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_FAKE_FAULT", "die-after=16")  # 12 of the deciding workload, then it dies
    others = (Workload("more", num_prompts=12, input_len=24, output_len=4), Workload("most", num_prompts=12))
    outcome = Bench(folder, repeats=1).run(compare_on=others)
    assert outcome.failure is None
    assert outcome.measurement is not None
    assert {name: type(result) for name, result in outcome.comparisons.items()} == {"more": Failure, "most": Failure}


def test_the_bench_command_says_that_a_stand_in_is_one(folder: Path) -> None:
    bench = Bench(folder)
    with free_port() as port:
        slot = Slot(port=port, folder=folder)
        launch = bench.place.engine.launch(PLAIN, slot)
        with serve(launch, bench.place.engine, bench.place.launcher, slot) as server:
            done = tuner("bench", server.url, "--num-prompts", "4", "--random-input-len", "16")
    assert done.returncode == 0, done.stderr
    assert "Successful requests:                     4" in done.stdout
    assert done.stdout.splitlines()[-1] == "(simulated: the server is a stand-in engine)"


# --- what keeps a measurement from counting, and what is never kept ---------------------------------------------


@pytest.mark.parametrize("asked", [{}, {"schedule-policy": "lpm"}, {"enable-dp-attention": True}])
def test_a_pool_far_below_the_base_s_is_invalid_and_not_slow(
    folder: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    base = Bench(folder, repeats=1).run()
    assert base.effective is not None
    assert base.effective.values["kv-cache-tokens"] > 1_000_000
    monkeypatch.setenv("TUNER_FAKE_FAULT", "memory-held=37765")
    settings = replace(PLAIN, args={**PLAIN.args, **asked})
    outcome = Bench(folder, repeats=1).run(settings, base=PLAIN, base_effective=base.effective)
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.hop) == ("invalid-measurement", "effective")
    assert outcome.failure.message.startswith("the KV pool holds 37,765 tokens where its base's held ")
    assert outcome.measurement is None


def test_a_small_pool_that_was_asked_for_counts(folder: Path) -> None:
    base = Bench(folder, repeats=1).run()
    settings = replace(PLAIN, args={**PLAIN.args, "max-total-tokens": 40_000})
    outcome = Bench(folder, repeats=1).run(settings, base=PLAIN, base_effective=base.effective)
    assert outcome.failure is None
    assert outcome.measurement is not None


def test_secrets_reach_the_server_and_nothing_that_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TUNER_FAKE_FAULT", "leak")
    outcome = Bench(folder, repeats=1).run()
    said = (folder / "server.log").read_text()
    assert all(value in said for value in SECRETS.values())
    assert outcome.failure is not None
    assert "401 Client Error" in outcome.failure.message
    stored = json.dumps(records_of_trials.dump_outcome(outcome)) + str(outcome.failure) + repr(outcome)
    assert not [value for value in SECRETS.values() if value in stored]
    assert outcome.failure.kind == "model-gated"


def test_what_could_not_start_is_not_launched(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"num_attention_heads": 12}')
    bench = Bench(folder)
    outcome = bench.run(replace(PLAIN, model=str(model)))
    assert outcome.failure is not None
    assert outcome.failure.kind == "invalid-config"
    assert outcome.failure.message.startswith("not launched, as it could not start: ")
    assert "12" in outcome.failure.message
    assert outcome.command.startswith("python3 -m sglang.launch_server")
    assert bench.identities == []
    assert not (folder / "server.log").exists()

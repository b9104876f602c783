"""The published study, decided again from its recording by the very loop that live studies use."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml

from tuner import driving
from tuner.archive import Archive
from tuner.errors import SpecError, TunerError
from tuner.executors import Job
from tuner.executors.recorded import Entry, RecordedExecutor, Recording, load_recording
from tuner.search import Done
from tuner.storage import read_json
from tuner.study import history
from tuner.trial import Outcome, State

STUDY = Path(__file__).parents[1] / "studies" / "deepseek-r1-h200"
SIX = [5482.59, 6635.73, 3385.88, 7143.30, 6804.17, 2217.12]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A copy of the published study, to change."""
    folder = tmp_path / "deepseek-r1-h200"
    folder.mkdir()
    for name in ("study.yaml", "recorded.yaml"):
        shutil.copy(STUDY / name, folder)
    return folder


def change(study: Path, values: dict[str, float | dict[str, str] | None]) -> None:
    """Set the deciding value of recorded commands that contain a word, make them fail, or drop them."""
    path = study / "recorded.yaml"
    recorded = yaml.safe_load(path.read_text())
    kept = []
    for entry in recorded["measurements"]:
        word = next((word for word in values if word in entry["command"]), None)
        if entry["workload"] != "sharegpt" or word is None:
            kept.append(entry)
            continue
        value = values[word]
        if isinstance(value, dict):
            kept.append({k: v for k, v in entry.items() if k != "metrics"} | {"failure": value})
        elif value is not None:
            kept.append(entry | {"metrics": entry["metrics"] | {"total_token_throughput": value}})
    path.write_text(yaml.safe_dump(recorded | {"measurements": kept}))


def replay(study: Path, method: str | None = None) -> str:
    return driving.replay(study, method, say=lambda text: None)


def told(folder: Path) -> Any:
    spec, paths = driving.study_of(folder)
    return history(Archive(spec, paths))


def exported(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(driving.exported(folder, "json"))
    return found


def test_six_trials_winner_and_method(study: Path) -> None:
    text = replay(study)
    found = told(study / "replay")
    assert [trial.value for trial in found.trials] == SIX
    assert isinstance(found.decision, Done)
    assert found.decision.value == 7143.30
    assert found.study.method.name == "published"
    assert "method published" in text
    assert "replayed from recorded measurements" in text


def test_the_database_is_an_optuna_study_with_readable_names(study: Path) -> None:
    replay(study)
    url = f"sqlite:///{study}/replay/study.db"
    (name,) = optuna.get_all_study_names(url)
    stored = optuna.load_study(study_name=name, storage=url)
    assert name.startswith("deepseek-r1-h200-")
    assert [trial.value for trial in stored.trials] == SIX
    assert stored.best_value == 7143.30
    assert stored.trials[3].params == {
        "engine": "sglang", "parallelism": "tp+dp-attention", "torch-compile": "off", "speculative": "none"
    }  # fmt: skip
    assert [trial.user_attrs["phase"] for trial in stored.trials] == [
        *["engine"] * 3, "parallelism", "torch-compile", "speculative"
    ]  # fmt: skip
    assert stored.trials[3].user_attrs["command"].startswith("python3 -m sglang.launch_server")


def test_the_summary_says_what_the_report_published(study: Path) -> None:
    text = replay(study)
    words = " ".join(text.split())
    for gain in ("+21.0 %", "+7.6 %", "+30.3 %", "+244.8 %", "+7.5 %", "+1.8 %", "+3.7 %"):
        assert gain in words
    for value in ("5931.25", "20448.42", "17690.89", "19024.33", "15808.55", "16096.80", "15514.57", "16091.68",
                  "227.45", "304.71", "351.83", "802.48", "237.02", "154.49", "365.79", "198.62"):  # fmt: skip
        assert value in words
    assert "not published" in words
    worse = words.index("mean TPOT +34 % on sharegpt, +128 % on short")
    assert worse < words.index("+21.0 %")


@pytest.mark.parametrize(
    "warning",
    [
        "enable-dp-attention does nothing without dp-size",
        "speculation caps running requests at 48: 1000 at once",
        "torch.compile=on although that had lost",
        "single measurements cannot resolve the +7.6 %",
        "about 16.5 of 22.1 s (baseline, short)",
        "11.0 of 76.6 s (baseline, sharegpt)",
    ],
)
def test_warnings(study: Path, warning: str) -> None:
    assert warning in " ".join(replay(study).split())


def test_export_is_runnable_and_canonical_beside_what_was_measured(study: Path) -> None:
    replay(study)
    found = exported(study / "replay")
    assert found["command"] == shlex.split(
        "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1-0528 --host 0.0.0.0 --port 8000 "
        "--tp-size 8 --enable-dp-attention"
    )
    assert "--tp-size 8 --enable-dp-attention" in found["measured_command"]
    script = driving.exported(study / "replay", "shell")
    checked = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, timeout=30)
    assert checked.returncode == 0
    assert (study / "replay" / "launch.sh").read_text().rstrip("\n") == script


def test_the_folder_is_complete(study: Path) -> None:
    replay(study)
    names = {path.name for path in (study / "replay").iterdir()}
    assert {"study.db", "trials", "comparison", "report.md", "report.html", "launch.sh"} <= names
    assert len(list((study / "replay" / "trials").iterdir())) == 6
    assert read_json(study / "replay" / "trials" / "0003" / "outcome.json")["outcome"]["measurement"]["metrics"][
        "total_token_throughput"
    ] == 7143.30  # fmt: skip


def test_speculation_at_8000_wins_with_the_flag_it_was_tried_with(study: Path) -> None:
    change(study, {"EAGLE": 8000.0})
    text = replay(study)
    assert exported(study / "replay")["value"] == 8000.0
    assert "--enable-torch-compile" in exported(study / "replay")["command"]
    assert "+12.0 %" in text
    assert "+45.9 %" in text


def test_vllm_best_ends_after_the_engines(study: Path) -> None:
    change(study, {"vllm serve": 9000.0})
    replay(study)
    found = told(study / "replay")
    assert len(found.trials) == 3
    assert exported(study / "replay")["engine"] == "vllm"
    assert exported(study / "replay")["gain"] in (0.0, None)


def test_a_tie_stays_with_the_incumbent(study: Path) -> None:
    change(study, {"--enable-dp-attention": 6635.73})
    replay(study)
    assert exported(study / "replay")["configuration"]["parallelism"] == "default"


def test_a_failed_run_is_a_failure_with_its_cause(study: Path) -> None:
    change(study, {"trtllm": {"kind": "out-of-memory", "message": "CUDA out of memory"}})
    replay(study)
    found = told(study / "replay")
    assert found.trials[2].state is State.FAILED
    assert found.trials[2].failure.kind == "out-of-memory"
    assert found.decision.value == 7143.30


def test_a_run_with_half_its_requests_failed_is_never_ranked(study: Path) -> None:
    path = study / "recorded.yaml"
    recorded = yaml.safe_load(path.read_text())
    for entry in recorded["measurements"]:
        if "trtllm" in entry["command"]:
            entry["metrics"] |= {"completed": 516, "total_token_throughput": 20000.0}
    path.write_text(yaml.safe_dump(recorded))
    replay(study)
    found = told(study / "replay")
    assert found.trials[2].failure.kind == "invalid-measurement"
    assert "516 of 1000" in found.trials[2].failure.message
    assert found.decision.value == 7143.30


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ({"completed": 1000, "failed": 484}, "484 requests failed"),
        ({"median_ttft_ms": 30000.0}, "median_ttft_ms (30000) is above p99_ttft_ms"),
        ({"p50_e2el_ms": 10.0, "p90_e2el_ms": 9.0}, "p50_e2el_ms (10) is above p90_e2el_ms (9)"),
    ],
)
def test_figures_that_no_run_has_are_never_ranked(study: Path, metrics: dict[str, float], told: str) -> None:
    recording = deciding(study, metrics)
    outcome = answer(study, recording, recording.entries[0])
    assert outcome.failure is not None
    assert outcome.failure.kind == "invalid-measurement"
    assert told in outcome.failure.message


def test_figures_that_disagree_are_taken_at_their_word_and_noted(study: Path) -> None:
    recording = deciding(study, {"total_token_throughput": 9000.0})
    outcome = answer(study, recording, recording.entries[0])
    assert outcome.failure is None
    (note,) = outcome.notes
    assert note.startswith("recorded figures disagree: total_token_throughput is 9000, but total_input_tokens + ")
    recording = deciding(study, {})
    assert answer(study, recording, recording.entries[0]).notes == ()


def test_other_percentiles_and_metrics_of_one_s_own_are_taken(study: Path) -> None:
    recording = deciding(study, {"p75_ttft_ms": 20000.0, "min_itl_ms": 1.0, "energy_j": 5.0})
    assert answer(study, recording, recording.entries[0]).failure is None


def deciding(study: Path, metrics: dict[str, float]) -> Recording:
    """The published recording with these figures in its first entry, which decides."""
    path = study / "recorded.yaml"
    recorded = yaml.safe_load((STUDY / "recorded.yaml").read_text())
    recorded["measurements"][0]["metrics"] |= metrics
    path.write_text(yaml.safe_dump(recorded))
    return load_recording(path, driving.study_of(study)[0])


def answer(study: Path, recording: Recording, entry: Entry) -> Outcome:
    spec = driving.study_of(study)[0]
    first = spec.space.baseline
    settings = spec.space.settings(first)
    assert settings.fingerprint == entry.fingerprint
    with RecordedExecutor(recording) as executor:
        executor.submit(Job(0, "engine", first, settings, spec.workload))
        ((_, outcome),) = executor.completed(0)
    return outcome


@pytest.mark.parametrize(
    "spelling",
    [
        "python3 -m sglang.launch_server --model deepseek-ai/DeepSeek-R1-0528 --tp 8 --enable-dp-attention",
        "python -m sglang.launch_server --enable-dp-attention --tensor-parallel-size=8 --port 1234 "
        "--model-path deepseek-ai/DeepSeek-R1-0528",
    ],
)
def test_a_launch_is_found_whichever_way_its_command_is_spelled(study: Path, spelling: str) -> None:
    path = study / "recorded.yaml"
    recorded = yaml.safe_load(path.read_text())
    recorded["measurements"][3]["command"] = spelling
    path.write_text(yaml.safe_dump(recorded))
    replay(study)
    assert [trial.value for trial in told(study / "replay").trials] == SIX


def test_normal_names_what_it_would_have_asked_for(study: Path) -> None:
    text = " ".join(replay(study, "normal").split())
    folder = study / "replay-normal"
    assert exported(folder)["value"] == 6635.73
    missing = {command for trial in told(folder).not_recorded if (command := trial.outcome.command)}
    assert any(command.endswith("--tp-size 8 --enable-dp-attention") for command in missing)
    assert any(command.endswith("--tp-size 8 --enable-torch-compile") for command in missing)
    assert "recording does not hold" in text
    assert "not confirmed" in text
    assert not (study / "replay").exists()


def test_replaying_again_starts_afresh(study: Path) -> None:
    first = replay(study)
    change(study, {"EAGLE": 8000.0})
    assert replay(study) != first
    assert len(told(study / "replay").trials) == 6


def test_a_replay_s_history_can_be_replayed_by_another_method(study: Path) -> None:
    replay(study)
    (study / "recorded.yaml").unlink()
    with pytest.raises(SpecError, match="nothing to replay"):
        replay(study)


def test_a_folder_that_is_no_replay_is_not_overwritten(study: Path) -> None:
    (study / "replay").mkdir()
    (study / "replay" / "thesis.txt").write_text("three years")
    with pytest.raises(TunerError, match="is not a replay's folder"):
        replay(study)
    assert (study / "replay" / "thesis.txt").read_text() == "three years"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("measurements: [{workload: sharegtp, command: vllm serve x, metrics: {}}]", "did you mean sharegpt"),
        ("measurements: [{workload: sharegpt, metrics: {a: 1}}]", "command and configuration"),
        ("measurements: [{workload: sharegpt, command: vllm serve m --tensor-paralel-size 8, metrics: {a: 1}}]",
         "tensor-parallel-size"),
        ("measurements: [{workload: sharegpt, command: nginx -g x, metrics: {a: 1}}]", "engines are"),
        ("measurements: [{workload: sharegpt, configuration: {engine: vlm}, metrics: {a: 1}}]", "did you mean vllm"),
        ("measurements: [{workload: sharegpt, command: vllm serve m, metrics: {mean_ttft_ms: 1}}]",
         "total_token_throughput, by which the study decides, is not among the metrics"),
        ("measurements: [{workload: sharegpt, command: vllm serve m, metrics: {mean_tttf_ms: 1}}]",
         "did you mean mean_ttft_ms?"),
        ("measurements: [{workload: short, command: vllm serve m, metrics: {duration: -1}}]",
         "recorded.yaml:1: measurements[0].metrics.duration: no metric has such a value (got -1.0)"),
        ("measurements: [{workload: short, command: vllm serve m, metrics: {duration: .nan}}]", "must be a number"),
        ("measurements: [{workload: short, command: vllm serve m --dtype fp7, metrics: {duration: 1}}]",
         '--dtype: is not one of its values (got \'fp7\')'),
        ("measurements: []", "recorded.yaml:1: measurements: must not be empty"),
        ("measurements: 3", "list"),
        ("{}", "measurements"),
    ],
)  # fmt: skip
def test_a_bad_recording_says_where_and_what(study: Path, text: str, expected: str) -> None:
    (study / "recorded.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        replay(study)
    assert expected in str(caught.value)
    assert "recorded.yaml" in str(caught.value)


def test_the_command_replays(study: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tuner", "replay", str(study)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0
    assert "7143.30" in done.stdout
    assert "I 20" not in done.stderr


LUCKY = """
model: m
engines: {vllm: {version: 0.32.0}}
search_space:
  stages:
    - {name: requests, options: {few: {vllm: {args: {max-num-seqs: 8}}}, many: {vllm: {args: {max-num-seqs: 128}}}}}
    - {name: precision, options: {kept: {}, lower: {vllm: {args: {dtype: bfloat16}}}}}
workloads: {w: {num_prompts: 10}, other: {num_prompts: 10}}
objective: {maximize: total_token_throughput, workload: w}
compare_on: [other]
method: {base: normal, confirm: 1}
"""


def test_confirming_launches_measure_the_other_workloads_of_the_winner_not_of_a_lucky_loser(tmp_path: Path) -> None:
    launches = [("few", "kept", 3000), ("many", "kept", 6800), ("many", "lower", 8500), ("many", "kept", 6700),
                ("many", "lower", 6000), ("few", "kept", 3000), ("many", "kept", 6750)]  # fmt: skip
    measurements: list[dict[str, Any]] = [
        {
            "workload": workload,
            "configuration": {"requests": requests, "precision": precision},
            "metrics": {"total_token_throughput": value},
        }
        for workload, chosen in (("w", launches), ("other", launches[:2]))
        for requests, precision, value in chosen
    ]
    (tmp_path / "study.yaml").write_text(LUCKY)
    (tmp_path / "recorded.yaml").write_text(yaml.safe_dump({"measurements": measurements}))
    replay(tmp_path)
    ended = told(tmp_path / "replay")
    assert [trial.value for trial in ended.trials] == [value for _, _, value in launches]
    assert [(c.workload, c.baseline is None, c.winner is None) for c in ended.comparisons] == [("other", False, False)]
    assert not list((tmp_path / "replay").glob("comparison/*"))  # no launch was made for it alone

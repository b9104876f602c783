"""A live study: run, killed at any moment, resumed, stopped, refused."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
import yaml

from tests.live import kill, servers, start, status, tuner, wait_until, write_study

pytestmark = pytest.mark.slow


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path / "live")


def numbers(found: dict[str, object]) -> list[int]:
    return [trial["number"] for trial in found["trials"]]  # type: ignore[attr-defined]


def test_runs_to_the_end_and_exports(study: Path) -> None:
    done = tuner("run", study)
    assert done.returncode == 0, done.stderr
    assert "simulated" in done.stdout
    figures = [line for line in done.stderr.splitlines() if "total_token_throughput" in line]
    assert len(figures) >= 3
    assert all("simulated: " in line for line in figures)
    found = status(study)
    assert found["done"]
    assert found["origin"] == "simulated"
    assert [trial["phase"] for trial in found["trials"]][:2] == ["engine", "engine"]
    assert all(trial["state"] == "measured" for trial in found["trials"])
    script = (study / "launch.sh").read_text()
    assert "simulated" in script
    assert ("vllm serve" in script) or ("sglang.launch_server" in script)
    exported = json.loads(tuner("export", study, "--format", "json").stdout)
    assert exported["simulated"] is True
    assert exported["value"] == found["best"]["value"]
    assert servers(study) == []
    assert "simulated" in (study / "report.md").read_text()
    assert "simulated" in (study / "report.html").read_text()


def test_a_finished_study_runs_again_without_a_launch(study: Path) -> None:
    tuner("run", study)
    before = status(study)["trials"]
    again = tuner("run", study)
    assert again.returncode == 0
    assert status(study)["trials"] == before


@pytest.mark.parametrize("moment", ["starting", "benchmark", "between"])
def test_kill_9_at_any_moment_then_run_again(study: Path, moment: str) -> None:
    first = start("run", study)
    if moment == "starting":
        wait_until(lambda: servers(study), "a server")
    elif moment == "benchmark":
        wait_until(lambda: "benchmark" in _doing(study), "a benchmark")
    else:
        wait_until(lambda: (study / "launch.sh").exists(), "a finished trial")
    kill(first)
    orphans = servers(study)
    bystander = start("bench", "http://127.0.0.1:9")  # somebody else's process
    done = tuner("run", study)
    assert done.returncode == 0, done.stderr
    bystander.wait(60)
    assert not any(orphan.is_running() and orphan.status() != "zombie" for orphan in orphans)
    if orphans:
        assert f"pids {', '.join(str(pid) for pid in sorted(o.pid for o in orphans))}" in _sorted_pids(done.stderr)
    found = status(study)
    assert found["done"]
    failures = [trial["failure"] for trial in found["trials"] if trial["failure"]]
    assert all(failure.startswith("abandoned") for failure in failures)
    assert len(failures) <= 1
    measured = [json.dumps(t["configuration"], sort_keys=True) for t in found["trials"] if t["state"] == "measured"]
    assert len(set(measured)) == len(measured)
    if failures:
        lost = next(trial for trial in found["trials"] if trial["failure"])
        assert json.dumps(lost["configuration"], sort_keys=True) in measured


def test_killed_again_and_again_it_still_ends(study: Path) -> None:
    for delay in (0.5, 1.5, 2.5, 3.5):
        run = start("run", study)
        time.sleep(delay)
        kill(run)
    assert tuner("run", study).returncode == 0
    found = status(study)
    assert found["done"]
    assert numbers(found) == list(range(len(found["trials"])))
    assert servers(study) == []


def test_interrupt_stops_the_server_and_leaves_a_resumable_study(study: Path) -> None:
    run = start("run", study)
    wait_until(lambda: servers(study), "a server")
    run.send_signal(signal.SIGINT)
    assert run.wait(60) == 130
    assert servers(study) == []
    assert not status(study)["done"]
    assert tuner("resume", study).returncode == 0
    assert status(study)["done"]


def test_stop_from_another_shell(study: Path) -> None:
    run = start("run", study)
    wait_until(lambda: servers(study), "a server")
    asked = tuner("stop", study)
    assert asked.returncode == 0
    assert str(run.pid) in asked.stderr
    assert run.wait(60) == 0
    assert 1 <= len(status(study)["trials"]) <= 2
    assert servers(study) == []


def test_stop_now_from_another_shell(study: Path) -> None:
    run = start("run", study)
    wait_until(lambda: servers(study), "a server")
    tuner("stop", study, "--now")
    assert run.wait(60) == 130
    assert servers(study) == []
    assert tuner("stop", study).returncode == 1


def test_under_nohup_a_hangup_is_nothing(study: Path) -> None:
    words = ["nohup", sys.executable, "-m", "tuner", "run", str(study)]
    run = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: servers(study), "a server")
    run.send_signal(signal.SIGHUP)
    assert run.wait(120) == 0
    assert status(study)["done"]


def test_without_nohup_a_hangup_stops_the_server(study: Path) -> None:
    run = start("run", study)
    wait_until(lambda: servers(study), "a server")
    run.send_signal(signal.SIGHUP)
    assert run.wait(60) == 130
    assert servers(study) == []


def test_a_run_goes_on_though_nobody_reads_what_it_says(study: Path) -> None:
    reader, writer = os.pipe()
    run = subprocess.Popen([sys.executable, "-m", "tuner", "run", str(study)], stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    printed, _ = run.communicate(timeout=120)
    assert run.returncode == 0
    assert b"simulated" in printed
    assert status(study)["done"]


@pytest.mark.parametrize("command", ["status", "export", "report"])
def test_output_that_cannot_be_written_is_said(study: Path, command: str) -> None:
    tuner("run", study, "--trials", "1")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tuner", command, str(study)],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1
    assert "the output cannot be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_failed_is_launched_again_when_asked(study: Path) -> None:
    assert tuner("run", study, env={"TUNER_FAKE_FAULT": "exit=3"}).returncode == 1
    told = tuner("run", study)
    assert "--retry-failed" in told.stderr
    again = tuner("run", study, "--retry-failed")
    assert again.returncode == 0, again.stderr
    assert status(study)["best"]["value"] > 0


def test_a_second_run_is_refused_with_who_holds_it(study: Path) -> None:
    run = start("run", study, env={"TUNER_FAKE_TIME_SCALE": "4"})  # it still runs when the others have started
    wait_until(lambda: servers(study), "a server")
    second = tuner("run", study)
    assert second.returncode == 1
    assert f"pid {run.pid}" in second.stderr
    reader = tuner("status", study)
    assert reader.returncode == 0
    assert f"run by pid {run.pid}" in reader.stdout
    kill(run)
    assert tuner("run", study, "--trials", "1").returncode == 0


def test_the_same_port_is_refused_to_another_study(tmp_path: Path) -> None:
    one = write_study(tmp_path / "one", node=", port: 28765")
    other = write_study(tmp_path / "other", node=", port: 28765")
    run = start("run", one, env={"TUNER_FAKE_TIME_SCALE": "4"})
    wait_until(lambda: servers(one), "a server")
    refused = tuner("run", other)
    assert refused.returncode == 1
    assert "28765" in refused.stderr
    assert str(one) in refused.stderr
    run.send_signal(signal.SIGINT)
    assert run.wait(60) == 130


def test_a_port_that_a_stranger_holds_is_refused_before_a_trial(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        study = write_study(tmp_path / "study", node=f", port: {port}")
        refused = tuner("run", study)
        assert refused.returncode == 1
        assert f"node.port is {port}, but pid {os.getpid()} " in refused.stderr
        assert "leave node.port out" in refused.stderr
        assert status(study)["trials"] == []
    assert tuner("run", study, "--trials", "1").returncode == 0


def test_in_pieces_by_number_of_trials(study: Path) -> None:
    assert tuner("resume", study).returncode == 1
    for expected in (1, 2):
        assert tuner("run", study, "--trials", "1").returncode == 0
        assert len(status(study)["trials"]) == expected
    assert tuner("resume", study).returncode == 0
    assert status(study)["done"]


def test_an_edited_study_goes_on_with_what_still_counts(study: Path) -> None:
    tuner("run", study, "--trials", "2")
    text = (study / "study.yaml").read_text()
    (study / "study.yaml").write_text(text.replace("dp-attention-alone:", "dp-attention:"))
    assert "was edited since it was run" in tuner("status", study).stderr
    done = tuner("run", study)
    assert done.returncode == 0
    assert "2 of 2 trials of" in done.stderr
    found = status(study)
    assert found["done"]
    assert len(optuna.get_all_study_names(f"sqlite:///{study}/study.db")) == 2
    kept = list(study.glob("trials-live-*/0001/server.log"))
    assert len(kept) == 1


def test_a_changed_workload_starts_anew(study: Path) -> None:
    tuner("run", study, "--trials", "1")
    text = (study / "study.yaml").read_text()
    (study / "study.yaml").write_text(text.replace("output_len: 8", "output_len: 9"))
    done = tuner("run", study, "--trials", "1")
    assert done.returncode == 0
    assert "0 of 1 trials of" in done.stderr
    assert numbers(status(study)) == [0]
    assert len(list(study.glob("trials-live-*/0000/server.log"))) == 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("oom", "out-of-memory-graphs"),
        ("exit=3", "crash"),
        ("die-after=4", "crash-under-load"),
        ("err500=0.5", "invalid-measurement"),
        ("wrong-usage=2", "invalid-measurement"),
        ("zombie-health", "crash"),
    ],
)
def test_faults_of_servers_become_failures_and_the_study_ends(study: Path, fault: str, kind: str) -> None:
    done = tuner("run", study, env={"TUNER_FAKE_FAULT": fault})
    assert done.returncode == 1
    assert "nothing could be measured" in done.stderr
    found = status(study)
    assert {trial["failure"].split(":")[0] for trial in found["trials"]} == {kind}
    assert servers(study) == []


def test_a_server_that_ignores_term_is_ended(study: Path) -> None:
    assert tuner("run", study, "--trials", "1", env={"TUNER_FAKE_FAULT": "ignore-term"}).returncode == 0
    assert servers(study) == []


def test_a_server_that_never_gets_ready_is_given_up(study: Path) -> None:
    text = yaml.safe_load((study / "study.yaml").read_text())
    text["engines"]["vllm"] |= {"start_timeout": "2s", "stall_timeout": "1s"}
    (study / "study.yaml").write_text(yaml.safe_dump(text, sort_keys=False))
    assert tuner("run", study, "--trials", "1", env={"TUNER_FAKE_FAULT": "never-ready"}).returncode == 0
    (trial,) = status(study)["trials"]
    assert trial["failure"].split(":")[0] in ("start-stall", "start-timeout")


def test_no_gpu_is_asked_for_where_there_is_none(tmp_path: Path) -> None:
    study = write_study(tmp_path / "none")
    text = (study / "study.yaml").read_text().replace("{simulated: 8}", "0")
    (study / "study.yaml").write_text(text)
    assert tuner("run", study, "--trials", "1").returncode == 0
    assert status(study)["trials"][0]["state"] == "measured"


def test_secrets_stay_in_the_server(study: Path) -> None:
    run = start("run", study, env={"HF_TOKEN": "hf_very_secret"})
    server = wait_until(lambda: servers(study), "a server")[0]
    assert server.environ()["HF_TOKEN"] == "hf_very_secret"
    wait_until(lambda: (study / "launch.sh").exists(), "a finished trial")
    run.send_signal(signal.SIGINT)
    assert run.wait(60) == 130
    written = [path for path in study.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert not [path for path in written if b"hf_very_secret" in path.read_bytes()]


def test_a_secret_in_the_study_file_is_refused(study: Path) -> None:
    text = yaml.safe_load((study / "study.yaml").read_text())
    text["engines"]["vllm"]["env"] = {"HF_TOKEN": "hf_very_secret"}
    (study / "study.yaml").write_text(yaml.safe_dump(text, sort_keys=False))
    refused = tuner("run", study)
    assert refused.returncode == 2
    assert "HF_TOKEN" in refused.stderr
    assert "hf_very_secret" not in refused.stderr


def _doing(study: Path) -> str:
    try:
        return str(json.loads((study / ".tuner-now.json").read_text())["doing"])
    except (OSError, ValueError):
        return ""


def _sorted_pids(text: str) -> str:
    """The note about ended pids with its numbers in order."""
    for line in text.splitlines():
        if "ended what a killed run had left: pids " in line:
            pids = sorted(int(word) for word in line.split("pids ")[1].split(", "))
            return f"pids {', '.join(map(str, pids))}"
    return ""

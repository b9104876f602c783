"""The exported launch: the measured one, runnable, without secrets."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.histories import SPACE, PlainEngine, published, scaled, study
from tuner.engines import Engine
from tuner.errors import SpecError, TunerError
from tuner.exporters import FORMATS, command, export
from tuner.history import History
from tuner.search import Evaluate
from tuner.space import Changes, SearchSpace
from tuner.spec import EngineSpec
from tuner.trial import Failure

SETTINGS = "sglang-serve deepseek-ai/DeepSeek-R1-0528 --tp-size 8 --enable-dp-attention --host 0.0.0.0 --port 8000"


@pytest.fixture(scope="module")
def history() -> History:
    return published()


def plain(name: str) -> Engine:
    return PlainEngine(name)  # type: ignore[return-value]


def with_env(**env: str) -> SearchSpace:
    return SPACE.replacing(fixed={"sglang": Changes(env=env)})


def stub(folder: Path, name: str) -> dict[str, str]:
    """A program that prints its arguments and the environment it got, and an environment that finds it."""
    program = folder / name
    program.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@"\necho "TOKEN=$HF_TOKEN MODE=$MODE"\ncat tuner-launch/* 2>/dev/null || true\n'
    )
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def run(script: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "launch.sh").write_text(script)
    environment = {**stub(folder, "sglang-serve"), **env}
    return subprocess.run(
        ["sh", "launch.sh"], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_shell_script_runs_the_measured_command(history: History, tmp_path: Path) -> None:
    script = export(history, "shell", plain)
    assert script.startswith("#!/bin/sh\n# study deepseek-r1-h200")
    assert "\nexec sglang-serve deepseek-ai/DeepSeek-R1-0528 \\\n" in script
    assert "--enable-dp-attention \\\n" in script
    finished = run(script, tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split("TOKEN")[0].split() == shlex.split(SETTINGS)[1:]


def test_shell_script_says_what_the_figures_are(history: History) -> None:
    script = export(history, "shell", plain)
    assert "# 7143.30 tok/s total throughput on sharegpt, +30.3 % against the baseline" in script
    assert "# not confirmed by new launches" in script
    assert "# figures are recorded" in script
    assert "simulated" not in script
    assert "# measured as: python3 -m sglang.launch_server" in script
    assert "# simulated: 7143.30" in export(published(origin="simulated"), "shell", plain)


def test_json_has_the_measured_command_beside_the_exported_one(history: History) -> None:
    found = json.loads(export(history, "json", plain))
    assert found["command"] == shlex.split(SETTINGS)
    assert found["shell"] == SETTINGS
    assert found["measured_command"].startswith("python3 -m sglang.launch_server --model-path")
    assert (found["value"], found["metric"], found["trial"]) == (7143.30, "total_token_throughput", 3)
    assert round(found["gain"], 3) == 0.303
    assert (found["confirmed"], found["origin"], found["engine"]) == (False, "recorded", "sglang")
    assert found["metrics"]["mean_tpot_ms"] == 304.71
    assert found["configuration"]["parallelism"] == "tp+dp-attention"
    assert found["versions"] == {"vllm": "0.11.0", "sglang": "0.5.3", "tensorrt-llm": "1.0.0"}
    assert (found["study"], found["model"]) == ("deepseek-r1-h200", "deepseek-ai/DeepSeek-R1-0528")


def test_export_follows_the_winner() -> None:
    won = json.loads(export(published(scaled({"vllm": 2.0})), "json", plain))
    assert won["command"][:4] == ["vllm-serve", "deepseek-ai/DeepSeek-R1-0528", "--tensor-parallel-size", "8"]
    assert won["gain"] == 0.0


def test_export_before_the_end_is_the_best_so_far() -> None:
    unfinished = published(trials=2)
    assert "--enable-dp-attention" not in export(unfinished, "shell", plain)
    assert "the search is not finished, this is the best so far" in export(unfinished, "shell", plain)
    assert json.loads(export(unfinished, "json", plain))["trial"] == 1


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_measured_is_an_error_with_a_way_out(format: str) -> None:
    spec = study()
    with pytest.raises(TunerError, match=r"nothing was measured yet.*tuner run"):
        export(History(spec, (), Evaluate(spec.space.baseline, "engine")), format, plain)
    with pytest.raises(TunerError, match="no launch could be measured"):
        export(published(scaled({"none": Failure("crash", "died")})), format, plain)


def test_unknown_format_names_those_there_are(history: History) -> None:
    with pytest.raises(SpecError, match=r"'yaml'.*shell, json"):
        export(history, "yaml", plain)


def test_secrets_are_references(tmp_path: Path) -> None:
    history = published(space=with_env(HF_TOKEN="hf_very_secret", MY_API_KEY="sk-1", MODE="it's fast"))
    for format in FORMATS:
        text = export(history, format, plain)
        assert "hf_very_secret" not in text
        assert "sk-1" not in text
    assert command(history, plain).startswith('HF_TOKEN="${HF_TOKEN:?}" MY_API_KEY="${MY_API_KEY:?}" MODE=')
    assert json.loads(export(history, "json", plain))["env"]["HF_TOKEN"] == "${HF_TOKEN}"
    script = export(history, "shell", plain)
    without = run(script, tmp_path)
    assert without.returncode != 0
    assert "HF_TOKEN" in without.stderr
    given = run(script, tmp_path, HF_TOKEN="mine", MY_API_KEY="k")
    assert "TOKEN=mine MODE=it's fast" in given.stdout


def test_files_are_written_before_the_start(history: History, tmp_path: Path) -> None:
    text = "kv_cache_config:\n  free_gpu_memory_fraction: 0.9 # $HOME `x` END_OF_FILE\n"
    script = export(history, "shell", lambda name: PlainEngine(name, {"llm api.yaml": text}))  # type: ignore[arg-type,return-value]
    finished = run(script, tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert (tmp_path / "tuner-launch" / "llm api.yaml").read_text() == text
    assert text in finished.stdout


def test_a_command_that_does_not_lead_to_the_measured_launch_is_refused(history: History) -> None:
    forgetful: Any = lambda name: PlainEngine(name, forget=("tp-size",))  # noqa: E731
    with pytest.raises(TunerError, match="not the one that was measured"):
        export(history, "shell", forgetful)


def test_names_that_would_run_something_are_refused_or_commented_out(tmp_path: Path) -> None:
    odd = published(name="x\ntouch owned\r\x1b[2J", space=with_env(MODE="$(touch owned)"))
    finished = run(export(odd, "shell", plain), tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert not (tmp_path / "owned").exists()
    with pytest.raises(TunerError, match="no name of an environment variable"):
        export(published(space=with_env(**{"A;touch owned": "1"})), "shell", plain)


def test_how_it_was_started_and_replicas_are_said() -> None:
    engines = {"sglang": EngineSpec("sglang", "0.5.3", launcher_options={"prefix": "numactl --membind 0"})}
    space = SPACE.replacing(fixed={"sglang": Changes(replicas=2)})
    script = export(published(space=space, engines=engines), "shell", plain)
    assert "# measured behind this prefix, which is not part of the command below: numactl --membind 0" in script
    assert "# measured as 2 replicas" in script


def test_a_simulated_study_says_so_first_and_in_plain_words() -> None:
    engines = {"sglang": EngineSpec("sglang", "0.5.3", launcher_options={"simulated": True})}
    script = export(published(origin="simulated", engines=engines), "shell", plain)
    first = "#!/bin/sh\n# simulated study: this is the command that real engines would be given\n"
    assert script.startswith(first)
    assert "True" not in script
    assert "simulated study" not in export(published(engines=engines), "shell", plain)


def test_programs_are_found_where_the_launcher_found_them(tmp_path: Path) -> None:
    folder = tmp_path / "it's a bin"
    folder.mkdir()
    stub(folder, "sglang-serve")
    engines = {"sglang": EngineSpec("sglang", "0.5.3", launcher_options={"path": str(folder)})}
    (tmp_path / "launch.sh").write_text(export(published(engines=engines), "shell", plain))
    words = ["sh", "launch.sh"]
    finished = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split("TOKEN")[0].split() == shlex.split(SETTINGS)[1:]


def test_an_infinite_gain_is_still_json() -> None:
    history = published(scaled({"vllm": 0.0}))
    text = export(history, "json", plain)
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name))["gain"] is None


@pytest.mark.parametrize("winner", ["vllm", "sglang", "tensorrt-llm"])
def test_real_adapters_say_the_published_launch_in_canonical_flags(winner: str) -> None:
    factors: dict[str, float | Failure] = {winner: 9.0} if winner != "sglang" else {}
    found = json.loads(export(published(scaled(factors)), "json"))
    expected = {
        "vllm": ["--tensor-parallel-size", "8"],
        "sglang": ["--enable-dp-attention", "--tp-size", "8"],
        "tensorrt-llm": ["--ep_size", "--tp_size", "8"],
    }
    assert set(expected[winner]) <= set(found["command"])
    assert {"0.0.0.0", "8000"} <= set(found["command"])
    assert found["fingerprint"] == published().study.space.identity(
        published(scaled(factors)).trials[found["trial"]].configuration
    )

"""Adding an engine is one file: docs/adding-an-engine.md, as written, with the engine that it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import toy_engine
from tuner.engines import Engine, FlagError
from tuner.engines.adapter import Adapter
from tuner.trial import Settings, Slot

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "adding-an-engine.md").read_text()
TOY: Engine = toy_engine.engine()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_page_shows_the_engine_of_these_tests_and_nothing_untested() -> None:
    assert blocks("python") == [(ROOT / "tests" / "toy_engine.py").read_text()]
    assert (len(blocks("yaml")), len(blocks("sh")), TEXT.count("```")) == (1, 1, 6)
    for name in re.findall(r"`(t\w+/[\w/]+\.py)`", TEXT):
        assert (ROOT / name).exists(), name


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The package with one file more, and the page's study."""
    shutil.copytree(ROOT / "tuner", tmp_path / "tuner", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tuner" / "engines" / "toy.py").write_text(blocks("python")[0])
    (tmp_path / "toy-study").mkdir()
    (tmp_path / "toy-study" / "study.yaml").write_text(blocks("yaml")[0])
    return tmp_path


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_file_is_an_engine(installed: Path) -> None:
    (command,) = blocks("sh")
    plan = run(installed, "-m", *command.split())
    assert "toyserve some/model --host 0.0.0.0 --port 8000" in plan
    assert "--slots 16 --gpus 2" in plan
    found = "from tuner import engines; print(*engines.ENGINES, engines.engine_of_command(['toyserve', 'm']))"
    assert run(installed, "-c", found).split() == ["vllm", "sglang", "tensorrt-llm", "toy", "toy"]


@pytest.mark.parametrize(
    "test",
    ["test_a_launch_read_back_gives_its_settings_again", "test_every_spelling_in_the_table_means_its_flag"],
)
def test_it_passes_what_every_engine_passes(test: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests import test_engines as contract

    assert isinstance(TOY, Adapter)
    monkeypatch.setattr(contract, "engine", lambda name, version: toy_engine.engine(version))
    monkeypatch.setitem(contract.TABLES, ("toy", "1.2.0"), TOY.table)
    getattr(contract, test)("toy", "1.2.0")


def test_it_says_what_it_is_asked() -> None:
    asked = TOY.canonical({"-g": 2, "cache_type": "fp8", "memory": 1})
    launch = TOY.launch(Settings("toy", "m", asked), Slot(9, Path("/s"), host="127.0.0.1"))
    assert launch.argv[:6] == ("toyserve", "m", "--host", "127.0.0.1", "--port", "9")
    assert launch.argv[6:] == ("--gpus", "2", "--cache-type", "fp8", "--memory", "1.0")
    assert TOY.gpus(Settings("toy", "m", asked)) == 2
    with pytest.raises(FlagError, match="did you mean --slots"):
        TOY.canonical({"slot": 1})
    with pytest.raises(FlagError, match="takes more than 0 and at most 1"):
        TOY.canonical({"memory": 2})


def test_what_it_really_does_is_judged() -> None:
    settings = Settings("toy", "m", {"slots": 16, "overlap": True})
    base = Settings("toy", "m", {"slots": 16})
    reply = '{"slots": 16, "overlap": false, "version": "1.2.0"}'
    effective = TOY.effective({TOY.probes()[0].name: reply}, "")
    judged = TOY.judge(settings, effective, base, effective)
    assert {verdict.key: verdict.status for verdict in judged.verdicts} == {"slots": "as-asked", "overlap": "ignored"}
    assert (judged.no_op, judged.version, TOY.effective({}, "").values) == (True, "1.2.0", {})


def test_its_logs_are_read() -> None:
    log = "toy: 40 % loaded\ntoy: not enough memory for 64 slots, an Error\ntoy: giving up, an Error\n"
    assert TOY.progress(log) == "loading weights, 40 %"
    failure = TOY.failure(log, 1)
    assert failure is not None
    assert failure.kind == "out-of-memory"
    assert TOY.failure("toy: 40 % loaded\n", None) is None


def test_its_rules_speak_before_a_launch() -> None:
    (notice,) = TOY.notices(Settings("toy", "m"), concurrency=64)
    assert (notice.rule, notice.text) == ("few-slots", "64 requests wait for a slot")
    assert TOY.notices(Settings("toy", "m", {"slots": 64}), concurrency=64) == []

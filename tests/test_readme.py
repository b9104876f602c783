"""Every block of the README does what it says, as written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tuner.node.locks import free_port
from tuner.spec import load

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


MAIN, TESTS, COMMANDS, BENCH = blocks("sh")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What git has, and what is not ignored yet: a clean checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    ).stdout.splitlines()  # fmt: skip
    folder = tmp_path / "checkout"
    for name in listed:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def sh(command: str, folder: Path, timeout_s: float, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        ["bash", "-euc", command], cwd=folder, capture_output=True, text=True, timeout=timeout_s,
        env={**os.environ, **(env or {})},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_the_first_command_sets_up_and_does_the_main_job(checkout: Path) -> None:
    printed = sh(MAIN, checkout, 600)
    assert "7143.30" in printed
    assert "+30.3 %" in printed
    assert "simulated" in printed
    assert (checkout / "studies" / "deepseek-r1-h200" / "replay" / "report.html").exists()
    assert (checkout / "studies" / "quickstart" / "launch.sh").exists()
    assert len(list((checkout / "studies" / "quickstart" / "trials").iterdir())) >= 8


def test_ci_runs_exactly_the_second_command() -> None:
    assert TESTS.count("\n") == 1
    assert "pytest" in TESTS
    done = subprocess.run(
        ["bash", "-c", "sed -n 's/^python3 -m venv .*pytest.*$/&/p' README.md"],
        cwd=ROOT, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.stdout == TESTS
    assert "sed -n 's/^python3 -m venv .*pytest.*$/&/p' README.md" in (ROOT / ".ci" / "run").read_text()


def installed(checkout: Path) -> dict[str, str]:
    """An environment in which the checkout's `tuner` and this interpreter are on the path."""
    programs = checkout / "programs"
    programs.mkdir()
    for name, words in {"tuner": "-m tuner ", "python": ""}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words}"$@"\n')
        (programs / name).chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(checkout)}


@pytest.mark.slow
def test_the_client_alone(checkout: Path) -> None:
    env = installed(checkout)
    with free_port() as port:
        server, *commands = BENCH.replace("8000", str(port)).splitlines()
        words = server.partition("&")[0].split()[1:]
        engine = subprocess.Popen([sys.executable, *words], cwd=checkout, env={**os.environ, **env})
        try:
            for line in commands:
                printed = sh(line, checkout, 120, env)
                assert "Serving Benchmark Result" in printed or "concurrency" in printed, line
                assert "simulated" in printed or "--from-records" in line, line
        finally:
            engine.terminate()
            engine.wait(30)
    assert len(list((checkout / "results").iterdir())) == 1


@pytest.mark.slow
def test_the_commands_in_order(checkout: Path) -> None:
    env = installed(checkout)
    assert len(COMMANDS.splitlines()) == 9
    for line in COMMANDS.splitlines():
        printed = sh(line, checkout, 300, env)
        assert printed.strip(), line


def test_the_study_and_its_space_load(tmp_path: Path) -> None:
    study, space = blocks("yaml")
    (tmp_path / "study.yaml").write_text(study)
    (tmp_path / "space.yaml").write_text(space)
    loaded = load(tmp_path)
    assert loaded.space.baseline["engine"] == "baseline"
    assert loaded.compare_on == ("very-long",)
    (tmp_path / "study.yaml").write_text(study.replace("search_space: deepseek-r1-h200", "search_space: ./space.yaml"))
    assert [stage.name for stage in load(tmp_path).space.stages] == ["engine", "parallelism", "batching"]


def test_the_search_alone(tmp_path: Path) -> None:
    (code,) = blocks("python")
    (tmp_path / "alone.py").write_text(textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, "alone.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "'engine': 'sglang'" in done.stdout
    assert "'parallelism': 'tp+dp-attention'" in done.stdout


def test_the_table_of_modules_names_what_exists() -> None:
    named = re.findall(r"^\| `(tuner/[^`]+)` \|", TEXT, re.MULTILINE)
    assert len(named) > 8
    for names in named:
        for name in names.split():
            path = name if name.startswith("tuner/") else f"tuner/{name}"
            assert (ROOT / path).exists(), path

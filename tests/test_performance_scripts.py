"""The scripts that measure the benchmark client still run, and their server says what it did."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "performance"
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="the scripts' server is written in C")


@needs_compiler
@pytest.mark.slow
def test_the_client_is_measured_against_the_record_of_a_server(tmp_path: Path) -> None:
    options = ["--peers", "", "--rounds", "1", "--streams", "20", "--only", "burst,single,paced"]
    ended = subprocess.run(
        [sys.executable, SCRIPTS / "peers.py", *options, "--cache", tmp_path, "--json", tmp_path / "runs.json"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    runs = json.loads((tmp_path / "runs.json").read_text())
    assert list(runs) == ["burst", "single", "paced"]
    for (run,) in runs.values():
        assert run["figures"]["completed"] == run["truth"]["requests"] == 20
        assert run["figures"]["total_output_tokens"] == run["truth"]["events"] == 20 * 200
        assert run["figures"]["total_input_tokens"] == 20 * 128
        assert 0 < run["cpu_s"] <= run["cost"]["cpu_s"]
    (paced,) = runs["paced"]
    assert paced["figures"]["mean_ttft_ms"] >= paced["truth"]["mean_ttft"] >= 200
    assert "| mean TTFT less the record's | tuner |" in ended.stdout


def test_without_a_compiler_the_scripts_say_so(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(SCRIPTS)!r}); from pathlib import Path; import mock_server\n"
    code += f"with mock_server.mock_server(Path({str(tmp_path)!r}), 0): pass"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PATH": ""}, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr.strip() == (
        "mock_server.c needs a C compiler: neither cc nor gcc nor clang is on the PATH; install one"
    )

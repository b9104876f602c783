"""A small live study over real server processes, and what is needed to run, kill and look at it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

STUDY = """
model: simulated/tiny
search_space:
  stages:
    - name: engine
      options:
        vllm: {{vllm: {{args: {{tensor-parallel-size: 8}}}}}}
        sglang: {{sglang: {{args: {{tp-size: 8}}}}}}
    - name: parallelism
      options:
        default: {{}}
        dp-attention-alone: {{sglang: {{args: {{enable-dp-attention: true}}}}}}
        prefix-caching-off: {{vllm: {{args: {{enable-prefix-caching: false}}}}}}
node: {{gpus: {{simulated: 8}}{node}}}
engines:
  vllm: {{version: 0.11.0, launcher: {{type: process, simulated: true}}}}
  sglang: {{version: 0.5.3, launcher: {{type: process, simulated: true}}}}
workloads:
  all: {{dataset: random, input_len: 32, output_len: 8, num_prompts: 16, seed: 1}}
benchmark: {{warmup: 0, repeats: 1}}
objective: {{maximize: total_token_throughput, workload: all}}
method: {method}
"""
DEADLINE_S = 120.0


def write_study(folder: Path, node: str = "", method: str = "published") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.yaml").write_text(STUDY.format(node=node, method=method))
    return folder


def tuner(*words: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "tuner", *map(str, words)],
        capture_output=True, text=True, timeout=DEADLINE_S, env={**os.environ, **(env or {})},
    )  # fmt: skip


def start(*words: str | Path, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a command in the background; stderr goes nowhere."""
    return subprocess.Popen(
        [sys.executable, "-m", "tuner", *map(str, words)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **(env or {})},
    )  # fmt: skip


def wait_until(true: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if found := true():
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {DEADLINE_S:g} s")


def status(folder: Path) -> dict[str, Any]:
    """`tuner status --json`; {} before there is anything."""
    done = tuner("status", folder, "--json")
    return dict(json.loads(done.stdout)) if done.returncode == 0 else {}


def servers(folder: Path) -> list[psutil.Process]:
    """The servers that work in this study's folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if "tuner.testing.engine" in process.cmdline() and process.cwd().startswith(str(folder)):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL the tuner alone."""
    process.send_signal(signal.SIGKILL)
    process.wait(30)

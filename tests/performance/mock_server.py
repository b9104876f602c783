"""Builds and runs `mock_server.c`, and reads its record of the truth."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np

SOURCE = Path(__file__).with_suffix(".c")


@dataclass(frozen=True)
class Truth:
    """What the server saw and did, in ms unless named otherwise; `first_received` on `time.perf_counter`'s clock."""

    requests: int
    events: int
    first_received: float
    span_s: float
    cpu_s: float
    most_streams: int
    mean_ttft: float
    p99_ttft: float
    mean_tpot: float
    p99_tpot: float
    mean_itl: float
    p99_itl: float


@dataclass(frozen=True)
class Mock:
    """A running server."""

    url: str
    pid: int

    def answer(self, *, burst: bool = False, ttft_ms: float = 0, itl_ms: float = 0) -> None:
        """How from now on; forgets the record."""
        self._get(f"/control?burst={burst:d}&ttft_ms={ttft_ms}&itl_ms={itl_ms}")

    def truth(self) -> Truth:
        record = json.loads(self._get("/record"))
        streams = np.array(record["streams"] or [[0.0, 0.0, 0.0, 1]])
        received, first, last, tokens = streams.T
        ttft, several = 1000 * (first - received), tokens > 1
        tpot = 1000 * ((last - first)[several] / (tokens[several] - 1)) if several.any() else np.zeros(1)
        return Truth(
            requests=record["requests"],
            events=int(tokens.sum()),
            first_received=record["first_received"],
            span_s=float(last.max() - received.min()),
            cpu_s=record["cpu_s"],
            most_streams=record["most_streams"],
            mean_ttft=float(ttft.mean()),
            p99_ttft=float(np.percentile(ttft, 99)),
            mean_tpot=float(tpot.mean()),
            p99_tpot=float(np.percentile(tpot, 99)),
            mean_itl=1000 * record["mean_itl_s"],
            p99_itl=1000 * record["p99_itl_s"],
        )

    def _get(self, path: str) -> bytes:
        with urlopen(self.url + path, timeout=60) as reply:
            content: Any = reply.read()
        return bytes(content)


@contextmanager
def mock_server(cache: Path, core: int) -> Iterator[Mock]:
    """Runs on this core until the end of the block; built into `cache` where its source is newer."""
    process = subprocess.Popen([_built(cache), "0", str(core)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Mock(f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _built(cache: Path) -> Path:
    program = cache / "mock_server"
    if program.exists() and program.stat().st_mtime >= SOURCE.stat().st_mtime:
        return program
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise SystemExit(f"{SOURCE.name} needs a C compiler: neither cc nor gcc nor clang is on the PATH; install one")
    cache.mkdir(parents=True, exist_ok=True)
    built = subprocess.run([compiler, "-O2", "-o", program, SOURCE], capture_output=True, text=True)
    if built.returncode:
        raise SystemExit(f"{compiler} cannot build {SOURCE.name}:\n{built.stderr}")
    return program

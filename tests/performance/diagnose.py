"""How long it takes to say why a server failed, and in how much memory: `python -m tests.performance.diagnose`.

Writes a log of 200 MB (`--mb`) as a busy server writes it, with its cause at the start, in the middle or at the end,
and diagnoses it as a study does.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from tuner.engines import engine
from tuner.readiness import LogTail, diagnose

BUSY = (
    '(APIServer pid=1) INFO:     127.0.0.1:34572 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    "(APIServer pid=1) INFO 12-01 05:24:12 [loggers.py:273] Engine 000: Avg prompt throughput: 15278.4 tokens/s, Avg "
    "generation throughput: 387.9 tokens/s, Running: 56 reqs, Waiting: 144 reqs, GPU KV cache usage: 0.7%\n"
)
NOISY = "(APIServer pid=1) ERROR 12-01 05:24:12 [serving.py:1] Error in preprocessing prompt inputs\n"
CAUSE = (
    "(EngineCore pid=2) ERROR 12-01 05:24:13 [core.py:1] EngineCore encountered a fatal error.\n"
    "(EngineCore pid=2) ERROR 12-01 05:24:13 [core.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
    "15.62 GiB.\n"
)
READY = "INFO:     Application startup complete.\n"


def write(path: Path, megabytes: float, where: float, noise: str = "") -> None:
    """`where`: 0 for the cause at the start, 1 for it at the end."""
    piece = (BUSY * 40 + noise) * 25
    count = int(megabytes * 1e6 / len(piece))
    with path.open("w") as log:
        log.write(READY)
        for number in range(count):
            if number == int(where * (count - 1)):
                log.write(CAUSE)
            log.write(piece)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=float, default=200.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        for what, where, noise in (("start", 0.0, ""), ("middle", 0.5, ""), ("end", 1.0, ""), ("noisy", 0.9, NOISY)):
            log = LogTail(path)
            write(path, asked.mb, where, noise)
            begun, busy = time.perf_counter(), time.process_time()
            failure = diagnose(engine("vllm"), log, 1)
            took, busy = time.perf_counter() - begun, time.process_time() - busy
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            size = path.stat().st_size / 1e6
            spent = f"{took:5.2f} s ({busy:.2f} s of CPU)"
            print(f"{what:8} {size:6.0f} MB  {spent}  peak {peak:4.0f} MB  {failure}")
            path.unlink()


if __name__ == "__main__":
    main()

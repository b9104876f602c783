"""`vllm bench serve` and `tuner bench` on one real vLLM server, in turns: do they say the same?

    python tests/performance/agreement.py --vllm-python .../bin/python --model .../tiny-llama [--rounds 5]

The environment has vLLM 0.32 (the CPU package does). Throughput, TPOT and the tokens are to agree within 3 %. TTFT and
ITL stand beside the server's own record of the same run (its Prometheus histograms): the server's TTFT begins when
its front end has the request, so what a client adds to it is its own and the connection's.

Each run has a seed of its own, so that no prompt is in the prefix cache. Prints, asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from clients import environment, result
from costs import measure
from tables import percent, print_machine, print_table

READY_WITHIN_S = 600
SERVER = ("--enforce-eager", "--max-model-len", "2048", "--kv-cache-memory-bytes", "256M")
# Keys of vLLM's result that both write, and what they are to agree within.
AGREE = {
    "request_throughput": 3.0,
    "output_throughput": 3.0,
    "total_token_throughput": 3.0,
    "mean_tpot_ms": 3.0,
    "median_tpot_ms": 3.0,
    "total_input_tokens": 3.0,
    "total_output_tokens": 3.0,
}
HISTOGRAMS = {
    "mean_ttft_ms": "vllm:time_to_first_token_seconds",
    "mean_tpot_ms": "vllm:request_time_per_output_token_seconds",
    "mean_itl_ms": "vllm:inter_token_latency_seconds",
    "mean_e2el_ms": "vllm:e2e_request_latency_seconds",
}


@dataclass(frozen=True)
class Run:
    """One client's figures, and the server's means of the same requests in ms."""

    client: str
    figures: Mapping[str, Any]
    server: Mapping[str, float]
    server_tokens: tuple[float, float]
    elsewhere: float

    def beside(self, metric: str) -> str:
        return f"{self.figures[metric]:.2f} ({self.server[metric]:.2f})"

    def off(self, metric: str) -> float:
        return float(self.figures[metric]) - self.server[metric]


def main() -> None:
    options = _options()
    folder = options.cache / "agreement"
    folder.mkdir(parents=True, exist_ok=True)
    print_machine({"vLLM": _version(options.vllm_python), "server": " ".join(SERVER)})
    runs = []
    with _server(options, folder / "server.log") as (url, pid):
        print("warming up", file=sys.stderr)
        for client in ("vllm", "tuner"):
            _run(client, url, pid, options, folder, seed=1000 + len(client))
        for number in range(options.rounds):
            for place, client in enumerate(("vllm", "tuner") if number % 2 == 0 else ("tuner", "vllm")):
                print(f"round {number + 1}: {client}", file=sys.stderr)
                runs.append(_run(client, url, pid, options, folder, seed=2 * number + place))
    _print_runs(runs)
    _print_agreement(runs)
    _print_attribution(runs)


def _run(client: str, url: str, pid: int, options: argparse.Namespace, folder: Path, seed: int) -> Run:
    results = folder / "results"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir()
    before = _metrics(url)
    cores = sorted(os.sched_getaffinity(0))
    log = results / "log"
    cost = measure(_command(client, url, options, results, seed), cores, log, environment(), _group(pid))
    after = _metrics(url)
    figures = result(results)
    if cost.code or figures.get("completed") != options.requests:
        raise SystemExit(f"{client} ended with {cost.code}:\n" + "\n".join(log.read_text().splitlines()[-15:]))
    change = {name: after[name] - before.get(name, 0.0) for name in after}
    server = {key: 1000 * change[f"{name}_sum"] / max(1.0, change[f"{name}_count"]) for key, name in HISTOGRAMS.items()}
    tokens = change["vllm:prompt_tokens_total"], change["vllm:generation_tokens_total"]
    return Run(client, figures, server, tokens, cost.elsewhere)


def _command(client: str, url: str, options: argparse.Namespace, results: Path, seed: int) -> list[str | Path]:
    lengths = ["--random-input-len", str(options.input_len), "--random-output-len", str(options.output_len)]
    load = ["--num-prompts", str(options.requests), "--max-concurrency", str(options.streams), "--seed", str(seed)]
    save = ["--percentile-metrics", "ttft,tpot,itl,e2el", "--save-result", "--result-dir", str(results)]
    asked = ["--model", str(options.model), "--dataset-name", "random", "--ignore-eos", *lengths, *load, *save]
    if client == "tuner":
        return [sys.executable, "-m", "tuner", "bench", url, "--tokenizer", str(options.model), *asked]
    program = [options.vllm_python, "-m", "vllm.entrypoints.cli.main", "bench", "serve"]
    return [*program, "--base-url", url, "--temperature", "0", "--disable-tqdm", *asked]


@contextmanager
def _server(options: argparse.Namespace, log: Path) -> Iterator[tuple[str, int]]:
    """Its URL and the leader of its process group; all of the group is gone at the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = [options.vllm_python, "-m", "vllm.entrypoints.cli.main", "serve", options.model]
    command = [*program, "--host", "127.0.0.1", "--port", str(port), *SERVER]
    print(f"starting {' '.join(map(str, command))}, its output in {log}", file=sys.stderr)
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
        )
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}", process, log)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):  # its engine and workers outlive it where it was killed
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError), urlopen(f"{url}/health", timeout=5) as reply:
            if reply.status == 200:
                return
        time.sleep(0.5)
    raise SystemExit(f"the server did not come up; see {log}")


def _metrics(url: str) -> dict[str, float]:
    """Counters by name, summed over their labels."""
    found: dict[str, float] = {}
    try:
        with urlopen(f"{url}/metrics", timeout=30) as reply:
            lines = reply.read().decode().splitlines()
    except URLError as error:
        raise SystemExit(f"the server does not answer any more: {error}") from error
    for line in lines:
        if line.startswith("vllm:"):
            name, value = line.partition("{")[0].partition(" ")[0], line.rpartition(" ")[2]
            found[name] = found.get(name, 0.0) + float(value)
    return found


def _group(leader: int) -> list[int]:
    """The processes of the server's session."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(folder.name)) == leader:
                pids.append(int(folder.name))
    return pids


def _print_runs(runs: list[Run]) -> None:
    print("\n### Runs: the client's figure (the server's own)\n")
    head = ("client", "output tok/s", "duration s", "TPOT mean", "TTFT mean", "ITL mean", "E2EL mean", "in", "out")
    rows = [
        [
            run.client,
            f"{run.figures['output_throughput']:.1f}",
            f"{run.figures['duration']:.2f}",
            *(run.beside(name) for name in ("mean_tpot_ms", "mean_ttft_ms", "mean_itl_ms", "mean_e2el_ms")),
            f"{run.figures['total_input_tokens']} ({run.server_tokens[0]:.0f})",
            f"{run.figures['total_output_tokens']} ({run.server_tokens[1]:.0f})",
            f"{run.elsewhere:.2f}",
        ]
        for run in runs
    ]
    print_table((*head, "busy elsewhere"), rows)


def _print_agreement(runs: list[Run]) -> None:
    print("\n### Medians over the rounds\n")
    rows = []
    for name, limit in AGREE.items():
        theirs, ours = (median(run.figures[name] for run in runs if run.client == client) for client in _CLIENTS)
        off = percent(ours, theirs)
        rows.append([name, f"{theirs:.2f}", f"{ours:.2f}", f"{off:+.2f} %", "yes" if abs(off) <= limit else "no"])
    print_table(("figure", "vllm bench serve", "tuner bench", "difference", "within 3 %"), rows)


def _print_attribution(runs: list[Run]) -> None:
    """What each client adds to the server's own mean; medians over the rounds."""
    print("\n### Client's mean less the server's own, ms\n")
    rows = [
        [name, *(f"{median(run.off(name) for run in runs if run.client == client):+.2f}" for client in _CLIENTS)]
        for name in HISTOGRAMS
    ]
    print_table(("figure", "vllm bench serve", "tuner bench"), rows)


_CLIENTS = ("vllm", "tuner")


def _version(python: Path) -> str:
    asked: list[str | Path] = [python, "-c", "from importlib.metadata import version; print(version('vllm'))"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return version.strip()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm-python", type=Path, required=True, help="of an environment with vLLM 0.32")
    parser.add_argument("--model", type=Path, required=True, help="a model's folder; a tiny one will do")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--requests", type=int, default=320)
    parser.add_argument("--input-len", type=int, default=128)
    parser.add_argument("--output-len", type=int, default=64)
    parser.add_argument("--cache", type=Path, default=Path("~/.cache/tuner-performance").expanduser())
    return parser.parse_args()


if __name__ == "__main__":
    main()

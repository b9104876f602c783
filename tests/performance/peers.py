"""Benchmark clients side by side: what they cost, and how far from the truth their figures are.

    python tests/performance/peers.py [--rounds 3] [--only burst,single,paced,memory,processes]
                                      [--peers vllm-0.32,vllm-0.11,sglang] [--vllm-python .../bin/python]

Every client loads the same server (`mock_server.c`), which keeps its own record of every write. Server and clients
have a core each. Clients take turns, in another order each round; a figure is the median over the rounds, the
single ones are printed beside it. CPU seconds are the kernel's, over all threads and processes of a client, from the
first request (the tuner: from its first connection) to the end that the client itself reports.

Prints, asserts nothing. `--json FILE` keeps the single runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from clients import Client, Load, environment, result, sglang_wheel, tuner, vllm, vllm_wheel, word_tokenizer
from costs import Cost, measure
from mock_server import Mock, Truth, mock_server
from tables import percent, print_machine, print_table

ROWS = ("burst", "single", "paced", "memory", "processes")


@dataclass(frozen=True)
class Scenario:
    title: str
    tokens: int
    burst: bool = False
    ttft_ms: float = 0
    itl_ms: float = 0
    detailed: bool = False
    once: bool = False


SCENARIOS = {
    "burst": Scenario("events merged in the socket: each answer in one write", 200, burst=True),
    "single": Scenario("one write an event, as fast as possible", 200),
    "paced": Scenario("one write an event: TTFT 200 ms, ITL 20 ms", 200, ttft_ms=200, itl_ms=20),
    "memory": Scenario("2000 tokens each, all details saved", 2000, detailed=True, once=True),
}


@dataclass(frozen=True)
class Measured:
    """One run of one client. `figures` is the JSON it wrote, without lists."""

    client: str
    cost: Cost
    truth: Truth
    figures: Mapping[str, Any]
    connect_s: float

    @property
    def cpu_s(self) -> float:
        start = self.truth.first_received
        end = start + max(self.figures.get("duration", 0.0), self.truth.span_s)
        return self.cost.cpu_between(start - self.connect_s, end)

    @property
    def start_s(self) -> float:
        return self.truth.first_received - self.cost.began

    def off(self, metric: str) -> float:
        """What the client says less what the server did, ms."""
        return self._said(metric) - float(getattr(self.truth, metric))

    def off_percent(self, metric: str) -> float:
        return percent(self._said(metric), getattr(self.truth, metric))

    def against_truth(self, metric: str) -> str:
        return f"{getattr(self.truth, metric):.2f} -> {self._said(metric):.2f}"

    def _said(self, metric: str) -> float:
        return float(self.figures.get(f"{metric}_ms", "nan"))


class Bench:
    """Runs clients against one server."""

    def __init__(self, mock: Mock, cache: Path, streams: int, cores: Sequence[int], timeout_s: float) -> None:
        self._mock, self._folder, self._streams, self._cores = mock, cache / "results", streams, cores
        self._tokenizer, self._timeout_s = word_tokenizer(cache), timeout_s

    def run(
        self, client: Client, scenario: Scenario, processes: int = 1, cores: Sequence[int] | None = None
    ) -> Measured:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        load = Load(
            self._mock.url, self._streams, scenario.tokens, self._tokenizer, self._folder, scenario.detailed, processes
        )
        self._mock.answer(burst=scenario.burst, ttft_ms=scenario.ttft_ms, itl_ms=scenario.itl_ms)
        log = self._folder / "log"
        cost = measure(
            client.command(load), cores or self._cores, log, environment(), [self._mock.pid], self._timeout_s
        )
        written = result(self._folder)
        if cost.code or not written:
            tail = "\n".join(log.read_text().splitlines()[-15:])
            raise SystemExit(f"{client.name} ended with {cost.code} and {'a' if written else 'no'} result:\n{tail}")
        figures = {key: value for key, value in written.items() if isinstance(value, int | float)}
        return Measured(client.name, cost, self._mock.truth(), figures, _find(written, "connect_s") or 0.0)


def main() -> None:
    options = _options()
    server_core, client_core = options.cores
    os.sched_setaffinity(0, {server_core})
    clients = [tuner(), *_peers(options)]
    print_machine({client.name: client.version for client in clients})
    print(f"server on core {server_core}, clients on core {client_core}; {options.streams} streams at once")
    with mock_server(options.cache, server_core) as mock:
        bench = Bench(mock, options.cache, options.streams, [client_core], options.timeout)
        runs = {row: _rounds(bench, clients, row, options.rounds) for row in options.only if row in SCENARIOS}
        for row, measured in runs.items():
            _print_runs(SCENARIOS[row], measured, options.streams)
        _print_goals(runs)
        if "processes" in options.only:
            _print_processes(bench, options)
    if options.json:
        options.json.write_text(json.dumps({row: [_plain(m) for m in all_] for row, all_ in runs.items()}, indent=1))


def _rounds(bench: Bench, clients: Sequence[Client], row: str, rounds: int) -> list[Measured]:
    scenario = SCENARIOS[row]
    measured = []
    for number in range(1 if scenario.once else rounds):
        turn = number % len(clients)
        for client in (*clients[turn:], *clients[:turn]):
            print(f"{row}, round {number + 1}: {client.name}", file=sys.stderr)
            measured.append(bench.run(client, scenario))
    return measured


def _print_runs(scenario: Scenario, runs: Sequence[Measured], streams: int) -> None:
    print(f"\n### {scenario.title}, {streams} x {scenario.tokens} tokens\n")
    columns: dict[str, Callable[[Measured], str]] = {
        "client": lambda m: m.client,
        "done": lambda m: f"{m.figures.get('completed', 0):.0f}",
        "CPU s in the run": lambda m: f"{m.cpu_s:.2f}",
        "events per CPU s": lambda m: f"{m.truth.events / m.cpu_s:,.0f}",
        "CPU s in all": lambda m: f"{m.cost.cpu_s:.2f}",
        "to first request s": lambda m: f"{m.start_s:.2f}",
        "duration s": lambda m: f"{m.figures.get('duration', 0):.2f}",
        "peak RSS MB": lambda m: f"{m.cost.peak_rss / 1e6:.0f}",
        "busy elsewhere": lambda m: f"{m.cost.elsewhere:.2f}",
        "load": lambda m: f"{m.cost.load:.1f}",
    }
    if scenario.ttft_ms:
        columns |= {
            "TTFT mean, ms": lambda m: m.against_truth("mean_ttft"),
            "TPOT mean": lambda m: m.against_truth("mean_tpot"),
            "TPOT p99": lambda m: m.against_truth("p99_tpot"),
            "ITL p99": lambda m: m.against_truth("p99_itl"),
        }
    print_table(columns, [[cell(m) for cell in columns.values()] for m in sorted(runs, key=_tuner_first)])


def _print_goals(runs: Mapping[str, Sequence[Measured]]) -> None:
    """Medians over the rounds."""

    def row(what: str, scenario: str, figure: Callable[[Measured], float], form: str) -> list[list[str]]:
        measured = runs.get(scenario, ())
        names = dict.fromkeys(m.client for m in sorted(measured, key=_tuner_first))
        return [
            [what, name, form.format(median(singles)), ", ".join(form.format(single) for single in singles)]
            for name in names
            if (singles := [figure(m) for m in measured if m.client == name])
        ]

    rows = [
        *row("events per CPU s, merged in the socket", "burst", lambda m: m.truth.events / m.cpu_s, "{:,.0f}"),
        *row("events per CPU s, one write each", "single", lambda m: m.truth.events / m.cpu_s, "{:,.0f}"),
        *row("events per CPU s, one write each, paced", "paced", lambda m: m.truth.events / m.cpu_s, "{:,.0f}"),
        *row("mean TTFT less the record's", "paced", lambda m: m.off("mean_ttft"), "{:+.1f} ms"),
        *row("mean TPOT off the record's", "paced", lambda m: m.off_percent("mean_tpot"), "{:+.2f} %"),
        *row("p99 TPOT off the record's", "paced", lambda m: m.off_percent("p99_tpot"), "{:+.2f} %"),
        *row("p99 ITL off the record's", "paced", lambda m: m.off_percent("p99_itl"), "{:+.0f} %"),
        *row("peak RSS, all details kept", "memory", lambda m: m.cost.peak_rss / 1e6, "{:.0f} MB"),
        *row("command line to first request", "burst", lambda m: m.start_s, "{:.2f} s"),
    ]
    print("\n### Medians\n")
    print_table(("what", "client", "median", "single runs"), rows)


def _print_processes(bench: Bench, options: argparse.Namespace) -> None:
    """The tuner alone, on all cores; the server, which costs little here, shares one of them."""
    ours = tuner()
    helped = subprocess.run(
        [sys.executable, "-m", "tuner", "bench", "--help"], capture_output=True, text=True, env=environment()
    )
    if "--processes" not in helped.stdout:
        print("\nprocesses: this tuner has no --processes")
        return
    cores, scenario = sorted(_all_cores), replace(SCENARIOS["burst"], tokens=2000)
    print(f"\n### Client processes: {scenario.title}, {options.streams} x 2000 tokens, cores {cores}\n")
    rows = []
    for count in (1, 2, 4):
        print(f"processes: {count}", file=sys.stderr)
        runs = [bench.run(ours, scenario, count, cores) for _ in range(options.rounds)]
        rates = [m.truth.events / m.figures["duration"] for m in runs]
        each = [m.truth.events / m.cpu_s for m in runs]
        rss = median(m.cost.peak_rss for m in runs) / 1e6
        rows.append([f"{count}", f"{median(rates):,.0f}", f"{median(each):,.0f}", f"{rss:.0f}", _listed(rates)])
    print_table(("processes", "events/s", "events per CPU s", "peak RSS MB", "single runs, events/s"), rows)


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:,.0f}" for value in values)


def _tuner_first(measured: Measured) -> tuple[bool, str]:
    return measured.client != "tuner", measured.client


def _find(result: Mapping[str, Any], key: str) -> float | None:
    """Wherever the result keeps it."""
    if key in result:
        return float(result[key])
    inner = (value for value in result.values() if isinstance(value, Mapping))
    return next((found for value in inner if (found := _find(value, key)) is not None), None)


def _plain(measured: Measured) -> dict[str, Any]:
    found = asdict(measured)
    del found["cost"]["samples"]
    return found | {"cpu_s": measured.cpu_s}


def _peers(options: argparse.Namespace) -> list[Client]:
    known: dict[str, Callable[[], Client]] = {
        "vllm-0.32": lambda: vllm(options.vllm_python) if options.vllm_python else vllm_wheel(options.cache, "0.32.0"),
        "vllm-0.11": lambda: vllm_wheel(options.cache, "0.11.0.post2"),
        "sglang": lambda: sglang_wheel(options.cache, "0.5.3"),
    }
    return [known[name]() for name in options.peers]


_all_cores = os.sched_getaffinity(0)


def _listing(text: str) -> list[str]:
    return text.split(",") if text else []


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=list(ROWS), type=_listing, help=f"of {', '.join(ROWS)}")
    parser.add_argument("--peers", default=["vllm-0.32"], type=_listing, help="of vllm-0.32, vllm-0.11, sglang")
    parser.add_argument("--vllm-python", type=Path, help="run the vLLM of this environment instead of a wheel's client")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--cores", type=lambda text: [int(core) for core in text.split(",")], help="server's,client's")
    parser.add_argument("--cache", type=Path, default=Path("~/.cache/tuner-performance").expanduser())
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one run")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cores = sorted(_all_cores)
    options.cores = options.cores or [cores[0], cores[-1]]
    return options


if __name__ == "__main__":
    main()

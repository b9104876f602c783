"""How a load is spread: over time, over servers, over client processes."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.servers import Asked, Serving, Wire, stream
from tuner.benchmarks import Event, RampUp, Run, Workload
from tuner.benchmarks.arrivals import arrivals
from tuner.benchmarks.streaming import Client
from tuner.errors import SpecError, TunerError

DATA = Path(__file__).parent / "data"


def run(urls: list[str], client: Client | None = None, workload: Workload | None = None, **more: Any) -> Run:
    return (client or Client()).run(urls, "m", workload or small(), seed=0, **{"timeout_s": 30, **more})


def small(**changes: Any) -> Workload:
    return Workload(**{"num_prompts": 8, "input_len": 5, "output_len": 5, **changes})


# -- over time


def test_arrivals_are_those_of_vllm_for_the_same_seed() -> None:
    # vLLM 0.32.0's own `get_request` after `numpy.random.seed(7)` let its four requests go, some milliseconds late, at
    # 0.011, 0.188, 0.253, 0.401 s and, ramping up, at 0.570, 0.779, 0.989, 1.198 s
    assert arrivals(4, 10.0, 1.0, 7) == pytest.approx([0.0091884, 0.1844155, 0.2512047, 0.4], abs=1e-6)
    rising = arrivals(4, None, 2.0, 7, RampUp("exponential", 1.0, 8.0))
    assert rising == pytest.approx([0.5673040, 0.7776918, 0.9863586, 1.1961025], abs=1e-6)


def test_a_ramp_up_rises_with_the_number_of_the_request() -> None:
    even = arrivals(5, None, float("inf"), 0, RampUp("linear", 1.0, 5.0))
    assert [later - earlier for earlier, later in pairwise([0.0, *even])] == pytest.approx(
        [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    )
    even = arrivals(4, None, float("inf"), 0, RampUp("exponential", 1.0, 8.0))
    assert [later - earlier for earlier, later in pairwise([0.0, *even])] == pytest.approx([1, 1 / 2, 1 / 4, 1 / 8])
    with pytest.raises(ValueError, match="above 0"):
        arrivals(3, None, 1.0, 0, RampUp("linear", 0.0, 5.0))
    with pytest.raises(ValueError, match="starts above 0"):
        arrivals(3, None, 1.0, 0, RampUp("exponential", 0.0, 5.0))


def test_a_trace_is_replayed_at_its_own_pace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    times = (100.0, 100.1, 100.4)
    trace.write_text("".join(f'{{"timestamp": {t}, "input_length": 4, "output_length": 2}}\n' for t in times))
    with Serving(stream()) as server:
        measured = run([server.url], workload=small(dataset="trace", path=str(trace), num_prompts=3, time_scale=0.5))
    starts = [response.start for response in measured.responses]
    assert [start - starts[0] for start in starts] == pytest.approx([0, 0.05, 0.2], abs=0.04)
    assert [asked.body["max_tokens"] for asked in server.asked] == [2, 2, 2]


# -- over servers


def test_a_request_goes_where_the_fewest_are() -> None:
    with Serving(stream(ttft=1.0)) as slow, Serving(stream()) as fast:
        measured = run([slow.url, fast.url], workload=small(num_prompts=20, max_concurrency=4))
    assert (len(slow.asked), len(fast.asked)) == (2, 18)
    assert [response.target for response in measured.responses].count(1) == 18
    assert measured.metrics["completed"] == 20


def test_one_of_two_servers_is_down() -> None:
    with Serving(stream()) as down:
        gone = down.url
    with Serving(stream(ttft=0.05)) as server:
        measured = run([gone, server.url], workload=small(max_concurrency=2))
    assert 0 < measured.metrics["failed"] < 8
    assert {response.failure for response in measured.responses} == {"connect", ""}


# -- how it is asked


def test_the_path_the_request_id_and_the_trust_may_be_chosen() -> None:
    serve = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serve.load_cert_chain(DATA / "loopback.pem")
    with Serving(stream(), tls=serve) as server:
        measured = run([server.url], Client(insecure=True, path="/other/completions", request_id_prefix="mine-"))
        refused = run([server.url])
    assert measured.metrics["completed"] == 8
    assert {asked.path for asked in server.asked} == {"/other/completions"}
    assert {asked.headers["x-request-id"] for asked in server.asked} == {f"mine-{number}" for number in range(8)}
    assert {response.failure for response in refused.responses} == {"tls"}


def test_a_connection_that_had_to_be_opened_is_seen() -> None:
    async def closing(asked: Asked, wire: Wire) -> bool:
        await stream()(asked, wire)
        return False

    with Serving(closing) as server:
        measured = run([server.url], workload=small(max_concurrency=1))
    first, *others = measured.responses
    assert first.connect_time == 0
    assert all(0 < response.connect_time <= response.queue_time for response in others if response.success)
    assert any(response.success for response in others)


# -- over client processes


def test_processes_share_the_load_and_answer_as_one() -> None:
    with Serving(stream(ttft=0.2, itl=0.01)) as server:
        events: list[Event] = []
        workload = small(num_prompts=23, max_concurrency=7, output_len=9)
        one = run([server.url], workload=workload)
        several = run([server.url], Client(processes=3), workload, on_event=events.append)
    assert several.metrics["completed"] == one.metrics["completed"] == 23
    assert several.metrics["total_output_tokens"] == 23 * 9
    assert several.facts["prompts_sha256"] == one.facts["prompts_sha256"]
    assert 3 <= several.facts["max_in_flight"] <= server.most_active == 7
    assert several.facts["events"] == 23 * 9
    assert several.duration == pytest.approx(one.duration, rel=0.5)
    numbers = [int(asked.headers["x-request-id"].rpartition("-")[2]) for asked in server.asked[23:]]
    assert sorted(numbers) == list(range(23))
    assert [event.total for event in events] == [23] * len(events)
    assert events[-1].output_tokens > 0


def test_processes_end_when_they_are_told() -> None:
    stop = threading.Event()
    threading.Timer(1.5, stop.set).start()
    with Serving(stream(ttft=0.0, itl=1.0)) as server:
        measured = run([server.url], Client(processes=2), small(output_len=60), stop=stop)
    assert measured.stopped_early
    assert {response.error for response in measured.responses} == {"the pass was stopped"}
    assert all(response.ttft for response in measured.responses)
    assert no_carriers()


def carriers() -> list[psutil.Process]:
    """The client processes (the tracker that Python keeps is none)."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # it has just ended
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child)
    return found


def kill_when(true: Callable[[], bool], count: int) -> threading.Thread:
    """So many client processes, at that time."""

    def wait() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not true():
            time.sleep(0.02)
        for carrier in carriers()[:count]:
            os.kill(carrier.pid, signal.SIGKILL)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_client_process_that_is_killed_costs_what_it_carried_and_no_more() -> None:
    async def answer(asked: Asked, wire: Wire) -> None:
        await stream(ttft=0.0 if asked.number < 4 else 60)(asked, wire)

    with Serving(answer) as server:
        killer = kill_when(lambda: len(server.asked) == 8, 1)
        measured = run([server.url], Client(processes=2), small(max_concurrency=4))
        killer.join()
    assert measured.stopped_early
    lost = "the pass was ended, as a client process had ended by itself (was it killed, or the memory short?)"
    assert {response.error for response in measured.responses} == {lost, ""}
    assert 0 < measured.metrics["completed"] < 8
    assert no_carriers()


def test_all_client_processes_that_are_killed_are_said() -> None:
    with Serving(stream(ttft=60)) as server:
        killer = kill_when(lambda: len(server.asked) == 8, 2)
        with pytest.raises(TunerError, match="every client process ended by itself"):
            run([server.url], Client(processes=2))
        killer.join()
    assert no_carriers()


@pytest.mark.parametrize("processes", [1, 2])
def test_drained_nothing_more_is_sent_and_what_is_under_way_ends(processes: int) -> None:
    drain = threading.Event()
    threading.Timer(1.5 if processes > 1 else 0.5, drain.set).start()
    with Serving(stream(itl=0.5)) as server:
        measured = run([server.url], Client(processes=processes, drain=drain), small(num_prompts=40, max_concurrency=4))
    assert measured.stopped_early
    assert measured.metrics["completed"] == len(server.asked) < 40
    assert {response.error for response in measured.responses if not response.success} == {"the pass was stopped"}
    assert no_carriers()


def test_processes_that_end_before_they_start_measure_nothing() -> None:
    stop = threading.Event()
    stop.set()
    with Serving(stream()) as server:
        measured = run([server.url], Client(processes=2), stop=stop)
    assert measured.stopped_early
    assert measured.metrics["completed"] == 0
    assert {response.queue_time for response in measured.responses} == {0.0}


def test_a_trust_of_ones_own_stays_in_one_process() -> None:
    with pytest.raises(SpecError, match="use one process"):
        run(["https://127.0.0.1:9"], Client(processes=2, tls=ssl.create_default_context()))


def no_carriers() -> bool:
    """Whether every client process is gone."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and carriers():
        time.sleep(0.05)
    return not carriers()


def test_closed_standard_files_are_no_place_for_sockets() -> None:
    code = (
        "import os, sys; [os.close(n) for n in range(3)]\n"
        "from tuner.benchmarks import Workload\nfrom tuner.benchmarks.streaming import Client\n"
        "workload = Workload(num_prompts=4, input_len=5, output_len=3)\n"
        "run = Client().run([sys.argv[1]], 'm', workload, seed=0, timeout_s=30)\n"
        "open(sys.argv[2], 'w').write(str(run.metrics['completed']))"
    )
    with Serving(stream()) as server, tempfile.NamedTemporaryFile() as result:
        words = [sys.executable, "-c", code, server.url, result.name]
        done = subprocess.run(words, timeout=60, cwd=Path(__file__).parents[1], check=False)
        assert (done.returncode, Path(result.name).read_text()) == (0, "4.0")


def test_several_passes_may_run_in_threads_of_one_process() -> None:
    results: list[Run] = []
    with Serving(stream(ttft=0.1)) as server:
        threads = [threading.Thread(target=lambda: results.append(run([server.url]))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert [measured.metrics["completed"] for measured in results] == [8, 8, 8]

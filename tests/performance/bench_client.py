"""What the benchmark client costs and how far its figures are from the truth. Prints, asserts nothing.

    python tests/performance/bench_client.py [STREAMS ...]

For 200 and 1000 streams at once (or the given numbers), a server in a process of its own streams 100 tokens to each:
first after 500 ms, then one every 100 ms, one write each. It keeps the time of every write, on the clock the client
uses, so its own lateness is not counted as the client's error.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import sys
import time
from itertools import pairwise
from multiprocessing.connection import Connection

from tuner.benchmarks import Run, Workload
from tuner.benchmarks.metrics import mean, percentile
from tuner.benchmarks.streaming import Client

TTFT_S, ITL_S, TOKENS = 0.5, 0.1, 100
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
TOKEN = (
    b'data: {"id":"cmpl-0123456789abcdef0123456789abcdef","object":"text_completion","created":1764547200,'
    b'"model":"m","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null,"stop_reason":null}],'
    b'"usage":null}\n\n'
)
LAST = b'data: {"choices":[],"usage":{"prompt_tokens":16,"completion_tokens":%d}}\n\ndata: [DONE]\n\n' % TOKENS


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Stream(asyncio.Protocol):
    """One connection: a request in, its tokens out, each on time; `truth` gets (received, times of writes)."""

    def __init__(self, truth: list[tuple[float, list[float]]]) -> None:
        self._truth, self._asked = truth, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._asked += data
        head, found, body = self._asked.partition(b"\r\n\r\n")
        if found and len(body) >= int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]):
            self._asked, self._received, self._times = b"", time.perf_counter(), []
            self._truth.append((self._received, self._times))
            self._later()

    def _later(self) -> None:
        at = self._received + TTFT_S + len(self._times) * ITL_S
        asyncio.get_running_loop().call_later(max(0.0, at - time.perf_counter()), self._write)

    def _write(self) -> None:
        self._times.append(time.perf_counter())
        first, last = len(self._times) == 1, len(self._times) == TOKENS
        end = chunk(LAST) + b"0\r\n\r\n" if last else b""
        self._transport.write((HEAD if first else b"") + chunk(TOKEN) + end)
        if not last:
            self._later()


def serve(pipe: Connection) -> None:
    """Send the port; at any message answer with the truth since the last one; end when the pipe is closed."""

    async def main() -> None:
        truth: list[tuple[float, list[float]]] = []
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Stream(truth), "127.0.0.1", 0, backlog=2048)
        pipe.send(server.sockets[0].getsockname()[1])
        while await loop.run_in_executor(None, pipe.recv):
            pipe.send(list(truth))
            truth.clear()

    asyncio.run(main())


def report(streams: int, run: Run, truth: list[tuple[float, list[float]]]) -> None:
    metrics, facts = run.metrics, run.facts
    cpu, events = facts["client_cpu_s"], facts["events"]
    print(f"{streams} streams x {TOKENS} tokens: {metrics['completed']:.0f} of {streams} succeeded")
    print(f"  client CPU {cpu:.2f} s of {run.duration:.2f} s: {cpu / events * 1000:.4f} s per 1000 events")
    print(
        f"  the loop ran at most {facts['loop_lag_ms']:.1f} ms late; connecting before took {facts['connect_s']:.2f} s"
    )
    true_ttft = [times[0] - received for received, times in truth]
    true_tpot = [(times[-1] - times[0]) / (len(times) - 1) for _, times in truth]
    true_gaps = [later - earlier for _, times in truth for earlier, later in pairwise(times)]
    rows = {
        "TTFT mean": (mean(true_ttft), metrics["mean_ttft_ms"]),
        "TTFT p99": (percentile(true_ttft, 99), metrics["p99_ttft_ms"]),
        "TPOT mean": (mean(true_tpot), metrics["mean_tpot_ms"]),
        "ITL p99": (percentile(true_gaps, 99), metrics["p99_itl_ms"]),
    }
    for name, (seconds, measured) in rows.items():
        true = seconds * 1000
        print(f"  {name:<10} true {true:8.2f} ms, measured {measured:8.2f} ms, off by {measured - true:+.2f} ms")


def main(sizes: list[int]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ours.recv()}"
    for streams in sizes:
        workload = Workload(num_prompts=streams, input_len=16, output_len=TOKENS)
        run = Client().run([url], "m", workload, seed=0, timeout_s=120)
        ours.send(True)
        report(streams, run, ours.recv())
    ours.send(False)
    server.join(10)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [200, 1000])

"""What servers count about themselves: parsed from real replies, compared, and read over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_testing_engine import MODEL, Server, serving
from tuner.benchmarks.counters import Counters, added, counters, difference, gauges, parse
from tuner.benchmarks.scrape import Beside, read

REPLIES = Path(__file__).parent / "data" / "metrics"


def reply(name: str) -> Counters:
    return counters((REPLIES / f"{name}.txt").read_text())


def test_what_vllm_counts() -> None:
    assert reply("vllm-0.32") == Counters(
        prefix_queries=0, prefix_hits=0, prompt_tokens=11, output_tokens=8, requests=1, preemptions=0,
        queue_s=3.821699988293403e-05, queued=1, running=0, waiting=0,
    )  # fmt: skip


def test_what_sglang_counts() -> None:
    found = reply("sglang")
    assert (found.prefix_queries, found.prefix_hits) == (975_390, 249_042)
    assert (found.output_tokens, found.requests, found.running, found.waiting) == (85_060, 2640, 0, 0)
    assert (found.queue_s, found.queued) == (205.46786154699942, 2645)
    assert found.drafts is None


def test_speculation_of_sglang_from_its_verifications() -> None:
    """Every verification yields a token, a request's first comes of its prompt: 56875 + 2405 = 59280, no draft held."""
    found = reply("sglang-mtp")
    assert (found.drafts, found.draft_tokens, found.accepted_tokens) == (56_875, 56_875, 0)


def test_statistics_of_tensorrt_llm() -> None:
    row = '{"numActiveRequests": %d, "numQueuedRequests": 3, "kvCacheStats": %s}'
    blocks = '{"tokensPerBlock": 32, "reusedBlocks": 5, "missedBlocks": 15}'
    found = counters(f"[{row % (7, '{}')}, {row % (8, blocks)}]")
    assert found == Counters(running=8, waiting=3, prefix_queries=640, prefix_hits=160)
    assert not counters("[]").known
    assert not counters("[1, {").known
    prometheus = counters('trtllm_request_queue_time_seconds_sum{model_name="m"} 2.5\n')
    assert prometheus.queue_s == 2.5


SPECULATION = """
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0"} %d
vllm:spec_decode_num_draft_tokens_total{engine="0"} %d
vllm:spec_decode_num_accepted_tokens_total{engine="0"} %d
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} %d
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} %d
"""


def test_speculation_as_vllm_prints_it() -> None:
    """The figures of a real run: `bench_serve/0.32-chat-failures-speculation.txt`."""
    before, after = counters(SPECULATION % (10, 20, 9, 6, 3)), counters(SPECULATION % (123, 246, 112, 80, 32))
    found = difference(before, after)
    assert f"{found['spec_decode_acceptance_rate']:.2f}" == "45.58"
    assert f"{found['spec_decode_acceptance_length']:.2f}" == "1.91"
    assert found["spec_decode_num_drafts"] == 113
    assert (found["spec_decode_draft_tokens"], found["spec_decode_accepted_tokens"]) == (226, 103)
    rates = found["spec_decode_per_position_acceptance_rates"]
    assert [f"{100 * rate:.2f}" for rate in rates] == ["65.49", "25.66"]
    assert difference(before, before) == {}


def test_a_difference_is_of_what_both_readings_know() -> None:
    before, after = Counters(prefix_queries=100, prefix_hits=10), Counters(prefix_queries=300, prefix_hits=90, queued=2)
    assert difference(before, after) == {"prefix_queries": 200, "prefix_hits": 80}
    assert difference(after, before) == {}  # started anew meanwhile
    assert difference(Counters(running=5), Counters(running=1)) == {}


def test_servers_and_ranks_add_up_once() -> None:
    engines = 'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4\n'
    assert counters(engines).running == 7
    ranks = 'sglang:num_running_reqs{tp_rank="0"} 3\nsglang:num_running_reqs{tp_rank="1"} 3\n'
    assert counters(ranks).running == 3
    attention = 'sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 3\nsglang:num_running_reqs{dp_rank="1",tp_rank="1"} 2'
    assert counters(attention).running == 5
    both = added([Counters(running=1, accepted_at=(3, 2)), Counters(running=2, queued=5, accepted_at=(1,))])
    assert both == Counters(running=3, queued=5, accepted_at=(4, 2))


def test_gauges_of_readings() -> None:
    readings = [Counters(running=10, waiting=0), Counters(running=48, waiting=952), Counters(running=47, waiting=3)]
    found = gauges([*readings, Counters()])
    assert found["samples"] == 3
    assert (found["max_running"], found["max_waiting"], found["running_beside_queue"]) == (48, 952, 47.5)
    assert found["waiting_share"] == pytest.approx(2 / 3)
    assert gauges([Counters()]) == {}


@pytest.mark.parametrize("line", ["", "#", "vllm:x", "vllm:x{", "vllm:x{} ", "vllm:x{} nan", "vllm:x{} +Inf", "<html>"])
def test_lines_without_a_number_are_passed_over(line: str) -> None:
    assert list(parse(line)) == []
    assert counters(line) == Counters()


NAMES = st.sampled_from(["vllm:num_requests_running", "vllm:prompt_tokens_total", "sglang:num_queue_reqs"])
LABELS = st.dictionaries(st.sampled_from(["engine", "model_name", "dp_rank"]), st.sampled_from(["0", "a b", 'q\\"} 7']))


@given(st.lists(st.tuples(NAMES, LABELS, st.floats(-1e12, 1e12)), max_size=8))
def test_what_is_written_is_parsed(samples: list[tuple[str, dict[str, str], float]]) -> None:
    lines = []
    for name, labels, value in samples:
        inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
        lines.append(f"# HELP {name} {{}} 1\n{name}{{{inside}}} {value!r} 1700000000\n")
    found = [(sample.name, dict(sample.labels), sample.value) for sample in parse("".join(lines))]
    assert found == [(name.removesuffix("_total"), labels, value) for name, labels, value in samples]


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_reply_is_read(text: str) -> None:
    found = counters(text)
    assert not any(difference(found, found).values())


# --- over sockets


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does with every connection what it is told; its URL."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                try:
                    answer(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def saying(text: bytes, status: bytes = b"200 OK") -> Callable[[socket.socket], None]:
    head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(text))
    return lambda connection: connection.sendall(head + text)


def trickle(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    for _ in range(40):
        connection.sendall(b"vllm:num_requests_running 1\n")
        time.sleep(0.05)


GAUGE = b"vllm:num_requests_running 2\nvllm:num_requests_waiting 1\n"


def test_several_servers_add_up_and_one_without_metrics_leaves_nothing_known() -> None:
    with answering(saying(GAUGE)) as one, answering(saying(GAUGE)) as two, answering(saying(b"", b"404 No")) as none:
        assert read([one]) == Counters(running=2, waiting=1)
        assert read([one, two]) == Counters(running=4, waiting=2)
        assert read([one, none]) is None
    assert read([one]) is None  # nobody listens there any more
    assert read([]) is None


@pytest.mark.parametrize(
    "odd",
    [
        saying(b"<html>no metrics</html>"),
        saying(b"", b"500 Internal Server Error"),
        saying(b"[]"),
        lambda connection: connection.sendall(b"\x00\x01garbage\r\n\r\n"),
        lambda connection: None,
    ],
)
def test_servers_that_say_nothing_are_no_error(odd: Callable[[socket.socket], None]) -> None:
    with answering(odd) as url:
        assert read([url], timeout=5.0) is None
        with Beside([url]) as beside:
            pass
        assert beside.facts == {}


@pytest.mark.parametrize("slow", [trickle, lambda connection: time.sleep(2)], ids=["trickles", "hangs"])
def test_nobody_waits_for_a_slow_reply(slow: Callable[[socket.socket], None]) -> None:
    with answering(slow) as url:
        begun = time.monotonic()
        assert read([url], timeout=0.3) is None
        assert time.monotonic() - begun < 1.5


def test_tensorrt_llm_has_them_elsewhere_without_statistics() -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for text in (b"[]", b"trtllm_request_success_total 4\n"):
                connection, _ = listener.accept()
                with connection:
                    asked.append(connection.recv(65536).split(b" ")[1])
                    saying(text)(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        found = read([f"http://127.0.0.1:{listener.getsockname()[1]}/base/v1"], timeout=5.0)
        thread.join(10)
    assert found == Counters(requests=4)
    assert asked == [b"/base/metrics", b"/base/prometheus/metrics"]


def complete(server: Server, count: int, words: int = 40) -> None:
    for number in range(count):
        prompt = " ".join(f"w{number // 2}-{word}" for word in range(words))  # each prompt twice
        assert server.complete(prompt, max_tokens=8)[0] == 200


@pytest.mark.parametrize(
    ("engine", "flags"),
    [
        ("vllm", ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}']),
        (
            "sglang",
            [
                *("--enable-metrics", "--speculative-algorithm", "EAGLE", "--speculative-num-steps", "2"),
                *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "3"),
            ],
        ),
    ],
)
def test_the_engines_count_cache_queue_and_speculation(tmp_path: Path, engine: str, flags: list[str]) -> None:
    with serving(tmp_path, engine, *flags) as server:
        url = f"http://127.0.0.1:{server.port}"
        complete(server, 2)
        with Beside([url], timeout=10.0) as beside:
            complete(server, 6)
        found = beside.facts["counters"]
    assert (found["requests"], found["prompt_tokens"], found["output_tokens"]) == (6, 240, 48)
    assert found["prefix_queries"] == 240
    assert found["prefix_hits"] == 4 * 32  # of the first prompt, seen before, and of each second one: two whole blocks
    assert found["queued"] == 6
    assert found["queue_s"] >= 0
    assert 0 < found["spec_decode_acceptance_rate"] <= 100
    assert 1 < found["spec_decode_acceptance_length"] <= 3
    assert found["spec_decode_draft_tokens"] == 2 * found["spec_decode_num_drafts"]


def test_a_queue_is_seen_while_it_is_there(tmp_path: Path) -> None:
    flags = ("--max-running-requests", "1", "--enable-metrics")
    with serving(tmp_path, "sglang", *flags) as server, server.streaming(), server.waiting(), server.waiting():
        server.until("a queue", lambda: server.gauges()["sglang:num_queue_reqs"] == 2)
        with Beside([f"http://127.0.0.1:{server.port}"], timeout=10.0) as beside:
            server.until("a reading", lambda: beside.facts.get("gauges"))
    found = beside.facts["gauges"]
    assert (found["max_running"], found["max_waiting"], found["running_beside_queue"]) == (1, 2, 1)
    assert found["waiting_share"] == 1.0


def test_without_metrics_nothing_is_known(tmp_path: Path) -> None:
    with serving(tmp_path, "sglang") as server, Beside([f"http://127.0.0.1:{server.port}"]) as beside:
        assert server.complete(model=MODEL)[0] == 200
    assert beside.facts == {}

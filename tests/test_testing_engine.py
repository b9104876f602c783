"""The simulated engine as a program: real processes, real sockets, every dialect and every fault."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tuner.testing import faults, standins

MODEL = "simulated/DeepSeek-R1"
ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 20.0
COMMANDS = {
    "vllm": ["vllm", "serve", MODEL, "-tp", "8"],
    "sglang": ["python3", "-m", "sglang.launch_server", "--model-path", MODEL, "--tp-size", "8"],
    "tensorrt-llm": ["trtllm-serve", MODEL, "--tp_size", "8", "--ep_size", "8"],
}
BY_ENGINE = pytest.mark.parametrize("engine", COMMANDS)


@dataclass
class Server:
    """One running program, its port and its log."""

    process: subprocess.Popen[bytes]
    port: int
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_bytes().decode()  # as it is: no translation of line ends

    def ask(self, path: str, body: Any = None, timeout: float = PATIENCE) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            sent = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, sent)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def json(self, path: str) -> Any:
        return json.loads(self.ask(path)[1])

    def complete(self, prompt: str = "one two three", **more: Any) -> tuple[int, str]:
        return self.ask("/v1/completions", {"model": MODEL, "prompt": prompt, "max_tokens": 4, **more})

    def stream(self, path: str = "/v1/completions", **more: Any) -> list[Any]:
        """The events' data, parsed; the last is '[DONE]'."""
        what = {"prompt": "one two three"} if path == "/v1/completions" else {"messages": [{"content": "one two"}]}
        asked = {"model": MODEL, "max_tokens": 4, "stream": True, "stream_options": {"include_usage": True}, **what}
        _, text = self.ask(path, asked | more)
        data = [line.removeprefix("data: ") for line in text.splitlines() if line]
        return [each if each == "[DONE]" else json.loads(each) for each in data]

    @contextlib.contextmanager
    def streaming(self, tokens: int = 4000) -> Iterator[http.client.HTTPResponse]:
        """A streamed request that is being answered and goes on for long; leaving disconnects."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        body = {"model": MODEL, "prompt": "a b c", "max_tokens": tokens, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body))
        with contextlib.closing(connection), connection.getresponse() as answer:
            assert answer.readline()
            yield answer

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """A request that was sent and is not answered yet; leaving disconnects."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/completions", json.dumps({"prompt": "a b", "max_tokens": 4000}))
            yield

    def gauges(self) -> dict[str, float]:
        lines = self.ask("/metrics")[1].splitlines()
        return {line.split("{")[0]: float(line.split()[-1]) for line in lines if line[0] != "#"}

    def until(self, what: str, answer: Any) -> None:
        end = time.monotonic() + PATIENCE
        while not answer():
            assert time.monotonic() < end, f"{what} did not come; the log:\n{self.log}"
            time.sleep(0.02)

    def ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("/health", timeout=5.0)[0] == 200
        return False

    def wait_ready(self) -> None:
        self.until("readiness", lambda: self.process.poll() is not None or self.ready())
        assert self.process.poll() is None, self.log

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def term(self) -> None:
        self.process.send_signal(signal.SIGTERM)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def started(
    folder: Path, engine: str, *flags: str, fault: str = "", scale: float = 0.25, port: int = 0, **env: str
) -> Iterator[Server]:
    """A server that was just started; its whole group is ended afterwards."""
    port = port or free_port()
    argv = [sys.executable, "-m", "tuner.testing.engine", *COMMANDS[engine], "--host", "127.0.0.1", "--port", str(port)]
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TUNER_FAKE_FAULT": fault,
        "TUNER_FAKE_TIME_SCALE": str(scale),
        "TUNER_FAKE_SEED": "1",
        **env,
    }
    log = folder / f"{engine}-{port}.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [*argv, *flags], stdout=output, stderr=output, env=variables, start_new_session=True, cwd=folder
        )
    try:
        yield Server(process, port, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)


@contextlib.contextmanager
def serving(folder: Path, engine: str, *flags: str, **more: Any) -> Iterator[Server]:
    """A server that is ready."""
    with started(folder, engine, *flags, **more) as server:
        server.wait_ready()
        yield server


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """One ready server of each engine for tests that change nothing in it."""
    folder = tmp_path_factory.mktemp("servers")
    with contextlib.ExitStack() as stack:
        dev = {"VLLM_SERVER_DEV_MODE": "1"}
        made = {
            "vllm": stack.enter_context(started(folder, "vllm", **dev)),
            "sglang": stack.enter_context(started(folder, "sglang", "--enable-metrics")),
            "tensorrt-llm": stack.enter_context(started(folder, "tensorrt-llm")),
        }
        for server in made.values():
            server.wait_ready()
        yield made


@BY_ENGINE
def test_a_stream_has_its_events_in_order(servers: dict[str, Server], engine: str) -> None:
    *events, usage, done = servers[engine].stream()
    assert [len(event["choices"][0]["text"].split()) for event in events] == [1, 1, 1, 1]
    assert [event["choices"][0]["finish_reason"] for event in events] == [None, None, None, "length"]
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert done == "[DONE]"


@BY_ENGINE
def test_a_chat_stream_begins_with_its_role(servers: dict[str, Server], engine: str) -> None:
    first, *_, usage, done = servers[engine].stream("/v1/chat/completions")
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert usage["usage"]["completion_tokens"] == 4
    assert done == "[DONE]"


@BY_ENGINE
def test_answers_in_one_piece(servers: dict[str, Server], engine: str) -> None:
    status, text = servers[engine].complete()
    assert status == 200
    assert json.loads(text)["usage"]["completion_tokens"] == 4
    chat = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "max_completion_tokens": 2}
    status, text = servers[engine].ask("/v1/chat/completions", chat)
    assert json.loads(text)["choices"][0]["message"]["content"].split() == ["w0", "w1"]


@BY_ENGINE
@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"model": "another"}, 404),
        ({"prompt": ""}, 400),
        ({"prompt": {"a": 1}}, 400),
        ({"max_tokens": 0}, 400),
        ({"max_tokens": "many"}, 400),
        ({"max_tokens": 1_000_000}, 400),
    ],
)
def test_what_is_refused(servers: dict[str, Server], engine: str, asked: dict[str, Any], status: int) -> None:
    got, text = servers[engine].complete(**asked)
    assert got == status
    assert "message" in text


def test_one_connection_carries_many_requests_and_bad_ones(servers: dict[str, Server]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", servers["vllm"].port, timeout=PATIENCE)
    with contextlib.closing(connection):
        for path, status in [("/health", 200), ("/nowhere", 404), ("/version", 200)]:
            connection.request("GET", path)
            answer = connection.getresponse()
            assert (answer.status, answer.getheader("server")) == (status, "tuner-simulated")
            answer.read()
        connection.request("POST", "/v1/completions", iter([b'{"prompt": "a b",', b' "max_tokens": 1}']))
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read()
        connection.request("POST", "/v1/completions", b"{")
        assert connection.getresponse().status == 400


def test_bytes_that_are_no_request_are_answered_and_the_connection_closed(servers: dict[str, Server]) -> None:
    with socket.create_connection(("127.0.0.1", servers["sglang"].port), timeout=PATIENCE) as client:
        client.sendall(b"hello\r\n\r\n")
        data = b""
        while piece := client.recv(4096):
            data += piece
    assert data.startswith(b"HTTP/1.1 400")


@BY_ENGINE
def test_it_says_that_it_is_simulated(servers: dict[str, Server], engine: str) -> None:
    server = servers[engine]
    assert server.log.startswith("simulated engine: figures are simulated\n")
    for path in {"vllm": ["/version", "/server_info"], "sglang": ["/get_server_info"]}.get(engine, ["/server_info"]):
        assert server.json(path)["simulated"] is True


@BY_ENGINE
def test_models_and_metrics(servers: dict[str, Server], engine: str) -> None:
    server = servers[engine]
    card = server.json("/v1/models")["data"][0]
    assert (card["id"], card["max_model_len"]) == (MODEL, 163840)
    status, text = server.ask("/metrics")
    assert status == 200
    shown = {"vllm": "vllm:cache_config_info{", "sglang": "sglang:max_total_num_tokens{", "tensorrt-llm": "["}
    assert shown[engine] in text


@BY_ENGINE
def test_the_log_of_a_start_ends_with_readiness(servers: dict[str, Server], engine: str) -> None:
    log = servers[engine].log
    assert "Application startup complete." in log
    assert log.count("\r") > 3
    if engine == "sglang":
        assert log.rstrip().endswith("The server is fired up and ready to roll!")
    if engine == "vllm":
        assert "GPU KV cache size: " in log


def test_vllm_tells_its_configuration_only_in_dev_mode(servers: dict[str, Server], tmp_path: Path) -> None:
    config = servers["vllm"].json("/server_info?config_format=json")["vllm_config"]
    assert config["parallel_config"]["tensor_parallel_size"] == 8
    assert config["scheduler_config"]["max_num_batched_tokens"] == 8192
    assert servers["vllm"].ask("/reset_prefix_cache", {})[0] == 200
    with serving(tmp_path, "vllm") as plain:
        assert plain.ask("/server_info")[0] == 404
        assert plain.ask("/reset_prefix_cache", {})[0] == 404


def test_what_vllm_changes_by_itself(tmp_path: Path) -> None:
    flags = ["--no-enable-chunked-prefill", "--kv-cache-dtype", "fp8", "--max_num_seqs", "128", "--max-model-len", "8K"]
    with serving(tmp_path, "vllm", *flags, VLLM_SERVER_DEV_MODE="1") as server:
        config = server.json("/server_info")["vllm_config"]
    assert config["scheduler_config"]["enable_chunked_prefill"] is True
    assert config["scheduler_config"]["max_num_seqs"] == 128
    assert config["cache_config"]["block_size"] == 64
    assert config["model_config"]["max_model_len"] == 8192
    assert "Chunked prefill is enabled" in server.log


def test_vllm_of_another_version_keeps_what_was_asked(tmp_path: Path) -> None:
    dev = {"VLLM_SERVER_DEV_MODE": "1", "TUNER_FAKE_VERSION": "0.32.0"}
    with serving(tmp_path, "vllm", "--no-enable-chunked-prefill", "-O3", **dev) as server:
        assert server.json("/version")["version"] == "0.32.0"
        config = server.json("/server_info")["vllm_config"]
    assert config["scheduler_config"]["enable_chunked_prefill"] is False
    assert config["scheduler_config"]["async_scheduling"] is True
    assert config["cache_config"]["gpu_memory_utilization"] == 0.92


@pytest.mark.parametrize(
    ("flags", "expected", "line"),
    [
        ([], {"enable_dp_attention": False, "mem_fraction_static": 0.897, "max_running_requests": None}, ""),
        (["--enable-dp-attention"], {"enable_dp_attention": False, "mem_fraction_static": 0.881}, ""),
        (
            ["--enable-dp-attention", "--dp-size", "8"],
            {
                "enable_dp_attention": True,
                "mem_fraction_static": 0.769,
                "chunked_prefill_size": 1024,
                "schedule_conservativeness": 0.3,
            },
            "The chunked prefill size is adjusted to 1024",
        ),
        (
            ["--speculative-algorithm", "NEXTN", "--speculative-num-steps", "1", "--speculative-eagle-topk", "1"],
            {"speculative_algorithm": "EAGLE", "max_running_requests": 48, "speculative_num_draft_tokens": 2},
            "Max running requests is reset to 48",
        ),
        (["--attention-backend", "flashmla", "--mem 0.85"], {"page_size": 64, "mem_fraction_static": 0.85}, ""),
        (["--moe-a2a-backend", "deepep"], {"ep_size": 8}, ""),
    ],
)
def test_what_sglang_changes_by_itself(tmp_path: Path, flags: list[str], expected: dict[str, Any], line: str) -> None:
    words = [word for flag in flags for word in flag.split()]
    with serving(tmp_path, "sglang", *words) as server:
        info = server.json("/get_server_info")
        assert server.ask("/metrics")[0] == 404
    assert {key: info[key] for key in expected} == expected
    assert info["internal_states"][0]["memory_usage"]["token_capacity"] > 0
    assert line in server.log


def test_options_of_tensorrt_llm_come_from_its_file(tmp_path: Path) -> None:
    options = tmp_path / "options.yaml"
    options.write_text("enable_attention_dp: true\nenable_iter_perf_stats: true\n")
    with serving(tmp_path, "tensorrt-llm", "--extra_llm_api_options", str(options)) as server:
        assert "'enable_attention_dp': True" in server.log
        assert server.json("/metrics")[0]["numActiveRequests"] == 0


@pytest.mark.parametrize(
    ("engine", "flags", "error"),
    [
        ("vllm", ["--no-such-flag", "3"], "error: unrecognized arguments: --no-such-flag 3"),
        ("vllm", ["--max-num-seqs", "few"], "error: argument --max-num-seqs"),
        ("vllm", ["--enforce-eager=false"], "error: argument --enforce-eager"),
        ("sglang", ["--no-such-flag"], "error: unrecognized arguments: --no-such-flag"),
        ("sglang", ["--kv-cache-dtype", "fp8"], "invalid choice: 'fp8'"),
        ("sglang", ["--no-enable-metrics"], "error: unrecognized arguments: --no-enable-metrics"),
        ("tensorrt-llm", ["--no-such-flag"], "Error: No such option: --no-such-flag"),
    ],
)
def test_bad_flags_end_it_at_once(tmp_path: Path, engine: str, flags: list[str], error: str) -> None:
    with started(tmp_path, engine, *flags) as server:
        assert server.wait() == 2
    assert error in server.log
    assert "usage" in server.log.lower()


@pytest.mark.parametrize(
    ("engine", "flags", "returncode", "error"),
    [
        ("vllm", ["--gpu-memory-utilization", "0.98"], 1, "torch.OutOfMemoryError: CUDA out of memory"),
        ("vllm", ["-tp", "1"], 1, "torch.OutOfMemoryError: CUDA out of memory"),
        ("vllm", ["--gpu-memory-utilization", "1.5"], 1, "ValueError: gpu_memory_utilization must be"),
        ("vllm", ["--max-num-seqs", "0"], 1, "Input should be greater than or equal to 1"),
        ("vllm", ["-tp", "16"], 1, "CUDA error: invalid device ordinal"),
        ("sglang", ["--mem-fraction-static", "0.97"], -9, "Capture cuda graph failed: CUDA out of memory"),
        ("sglang", ["--mem-fraction-static", "0.5"], -9, "Not enough memory. Please try to increase"),
        ("sglang", ["--enable-dp-attention", "--dp-size", "3"], 1, "AssertionError"),
        ("sglang", ["--tp-size", "16"], -9, "CUDA error: invalid device ordinal"),
        ("tensorrt-llm", ["--tp_size", "1"], 1, "insufficient GPU memory"),
    ],
)
def test_starts_that_fail(tmp_path: Path, engine: str, flags: list[str], returncode: int, error: str) -> None:
    with started(tmp_path, engine, *flags) as server:
        assert server.wait() == returncode
    assert error in server.log


@BY_ENGINE
def test_a_port_that_is_taken(tmp_path: Path, engine: str) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        with started(tmp_path, engine, port=holder.getsockname()[1]) as server:
            server.until("the error", lambda: "address already in use" in server.log.lower())
            if engine == "sglang":  # it says so and hangs
                assert "Load weight end" in server.log
                time.sleep(0.3)
                assert server.process.poll() is None
            else:
                assert server.wait() == 1
                assert "Loading" not in server.log


def test_ports_are_bound_early_or_late(tmp_path: Path) -> None:
    with started(tmp_path, "vllm", fault="hang-load") as early, started(tmp_path, "sglang", fault="hang-load") as late:
        early.until("its load", lambda: "Starting to load model" in early.log)
        late.until("its load", lambda: "Load weight begin" in late.log)
        for server in (early, late):
            with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", server.port)):
                pass
        with socket.socket() as other:
            with pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", early.port))
            other.bind(("127.0.0.1", late.port))


@BY_ENGINE
def test_term_when_idle_ends_it_and_its_children(tmp_path: Path, engine: str) -> None:
    with serving(tmp_path, engine) as server:
        children = server.children()
        assert len(children) == {"sglang": 2}.get(engine, 1)
        assert {os.getpgid(child.pid) for child in children} == {server.process.pid}
        server.term()
        assert server.wait() == {"sglang": -9}.get(engine, 0)
        server.until("the end of its children", lambda: not any(map(alive, children)))


def test_term_under_load_vllm_waits_for_its_clients(tmp_path: Path) -> None:
    with serving(tmp_path, "vllm") as server:
        with server.streaming():
            server.term()
            server.until("the wait", lambda: "Waiting for connections to close" in server.log)
            time.sleep(0.3)
            assert server.process.poll() is None
        assert server.wait() == 0


def test_term_under_load_sglang_finishes_its_requests(tmp_path: Path) -> None:
    with serving(tmp_path, "sglang") as server:
        with server.streaming(tokens=60) as answer:
            server.term()
            assert answer.read().count(b'"text"') >= 59
        assert server.wait() == -9


@pytest.mark.parametrize(("engine", "returncode"), [("vllm", -2), ("sglang", -15)])
def test_term_during_the_start(tmp_path: Path, engine: str, returncode: int) -> None:
    with started(tmp_path, engine, fault="hang-load") as server:
        server.until("its load", lambda: "oad" in server.log)
        server.until("its children", lambda: bool(server.children()))
        children = server.children()
        server.term()
        assert server.wait() == returncode
        server.until("the end of its children", lambda: not any(map(alive, children)))


def test_a_killed_vllm_leaves_its_engine_behind(tmp_path: Path) -> None:
    with serving(tmp_path, "vllm") as server:
        (child,) = server.children()
        server.process.kill()
        assert server.wait() == -9
        time.sleep(1.0)
        assert alive(child)
        assert os.getpgid(child.pid) == server.process.pid
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", server.port))
            again.listen()


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm"])
def test_a_killed_parent_takes_the_other_engines_children_along(tmp_path: Path, engine: str) -> None:
    with serving(tmp_path, engine) as server:
        children = server.children()
        server.process.kill()
        server.wait()
        server.until("the end of its children", lambda: not any(map(alive, children)))


@pytest.mark.parametrize(
    ("engine", "returncode", "line"),
    [("vllm", 0, "EngineDeadError"), ("sglang", -9, "Triggering SIGQUIT"), ("tensorrt-llm", None, "has died")],
)
def test_a_killed_child_is_noticed(tmp_path: Path, engine: str, returncode: int | None, line: str) -> None:
    with serving(tmp_path, engine) as server:
        server.children()[0].kill()
        server.until("the notice", lambda: line in server.log)
        if returncode is None:  # the front end stays and says that it is ill
            assert server.ask("/health")[0] == 503
            assert server.complete()[0] == 500
        else:
            assert server.wait() == returncode


@pytest.mark.parametrize(
    ("engine", "fault", "returncode", "line"),
    [
        ("vllm", "port-taken", 1, "[Errno 98] Address already in use"),
        ("vllm", "oom", 1, "CUDA out of memory"),
        ("sglang", "oom", -9, "Capture cuda graph failed"),
        ("tensorrt-llm", "oom", 1, "CUDA out of memory"),
        ("vllm", "bad-flag", 2, "error: unrecognized arguments:"),
        ("vllm", "no-model", 1, "Repo id must be in the form"),
        ("vllm", "exit=3@0.1", 3, ""),
    ],
)
def test_faults_that_end_a_start(tmp_path: Path, engine: str, fault: str, returncode: int, line: str) -> None:
    with started(tmp_path, engine, fault=fault) as server:
        assert server.wait() == returncode
    assert line in server.log


def test_a_start_that_hangs_is_silent_and_does_not_listen(tmp_path: Path) -> None:
    with started(tmp_path, "vllm", fault="hang-load") as server:
        server.until("its load", lambda: "Loading" in server.log)
        time.sleep(0.5)
        size = len(server.log)
        time.sleep(0.5)
        assert (len(server.log), server.ready(), server.process.poll()) == (size, False, None)


@pytest.mark.parametrize("fault", ["never-ready", "models-early,health-503=2"])
def test_models_before_health(tmp_path: Path, fault: str) -> None:
    with started(tmp_path, "sglang", fault=fault) as server:

        def models() -> bool:
            with contextlib.suppress(OSError):
                return server.ask("/v1/models")[0] == 200
            return False

        server.until("models", models)
        assert server.ask("/health")[0] == 503
        if fault != "never-ready":
            server.wait_ready()


def test_connections_that_are_never_answered(tmp_path: Path) -> None:
    with started(tmp_path, "vllm", fault="accept-hang") as server:
        server.until("its end", lambda: "startup complete" in server.log)
        time.sleep(0.2)
        with pytest.raises(TimeoutError):
            server.ask("/health", timeout=0.5)


def test_dying_under_load(tmp_path: Path) -> None:
    with serving(tmp_path, "sglang", fault="die-after=2") as server:
        assert [server.complete()[0] for _ in range(2)] == [200, 200]
        with pytest.raises((OSError, http.client.HTTPException)):
            server.complete()
        assert server.wait() == -9


def test_hanging_under_load(tmp_path: Path) -> None:
    with serving(tmp_path, "vllm", fault="hang-after=1") as server:
        assert server.complete()[0] == 200
        with pytest.raises(TimeoutError):
            server.ask("/v1/completions", {"prompt": "a"}, timeout=0.5)
        assert server.ask("/health")[0] == 200


def test_answers_that_are_wrong(tmp_path: Path) -> None:
    with serving(tmp_path, "vllm", fault="err500=1") as server:
        assert server.complete()[0] == 500
    with serving(tmp_path, "vllm", fault="drop=1") as server, pytest.raises(http.client.IncompleteRead):
        server.stream()
    with serving(tmp_path, "vllm", fault="empty=1") as server:
        usage, done = server.stream()
        assert (usage["usage"]["completion_tokens"], done) == (0, "[DONE]")
    with serving(tmp_path, "vllm", fault="wrong-usage=2") as server:
        assert json.loads(server.complete()[1])["usage"] == {
            "prompt_tokens": 6, "completion_tokens": 8, "total_tokens": 14,
        }  # fmt: skip
    with serving(tmp_path, "vllm", fault="chunk-tokens=3") as server:
        *events, _, _ = server.stream(max_tokens=7)
        assert [len(event["choices"][0]["text"].split()) for event in events] == [3, 3, 1]


def test_slow_first_requests(tmp_path: Path) -> None:
    with serving(tmp_path, "vllm", fault="slow-first=1", scale=1.0) as server:
        begun = time.monotonic()
        server.complete()
        assert time.monotonic() - begun > 1.0


def test_a_server_that_ignores_term(tmp_path: Path) -> None:
    with serving(tmp_path, "vllm", fault="ignore-term") as server:
        server.term()
        time.sleep(0.5)
        assert server.ready()


def test_a_server_that_takes_its_time_to_stop(tmp_path: Path) -> None:
    with serving(tmp_path, "vllm", fault="drain=2") as server:
        begun = time.monotonic()
        server.term()
        assert server.wait() == 0
        assert time.monotonic() - begun > 0.45


@pytest.mark.parametrize("way", ["setsid", "doublefork"])
def test_orphans(tmp_path: Path, way: str) -> None:
    with started(tmp_path, "vllm", fault=f"orphan={way}", TUNER_MARKER="orphan-of-this-test") as server:
        server.wait_ready()
        found = [each for each in psutil.process_iter() if marked(each) and each.pid != server.process.pid]
        (child,) = found
        try:
            left_group = os.getpgid(child.pid) != server.process.pid
            left_parent = child.ppid() != server.process.pid
            assert (left_group, left_parent) == {"setsid": (True, False), "doublefork": (False, True)}[way]
            server.process.kill()
            server.wait()
            assert alive(child)
        finally:
            child.kill()


def alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def marked(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.environ().get("TUNER_MARKER") == "orphan-of-this-test"
    return False


def test_health_of_the_dead(tmp_path: Path) -> None:
    with serving(tmp_path, "vllm", fault="zombie-health") as server:
        server.until("its death", lambda: server.complete()[0] == 500)
        assert server.ask("/health")[0] == 200


def test_faults_are_checked() -> None:
    assert faults.parse("exit=3@0.5,err500=0.1").exit == (3, 0.5)
    assert faults.parse("").asked == {}
    for wrong in ("no-such", "err500=often", "orphan=away", "exit=never"):
        with pytest.raises(ValueError, match=r".+"):
            faults.parse(wrong)


def test_the_same_prompt_again_is_faster_unless_forgotten(tmp_path: Path) -> None:
    prompt = " ".join(str(number) for number in range(30_000))

    def seconds(server: Server) -> float:
        begun = time.monotonic()
        assert server.complete(prompt, max_tokens=1)[0] == 200
        return time.monotonic() - begun

    with serving(tmp_path, "vllm", scale=1.0, VLLM_SERVER_DEV_MODE="1") as server:
        server.complete(" ".join(["x"] * 4000))
        first, again = seconds(server), seconds(server)
        server.ask("/reset_prefix_cache", {})
        assert first > 2 * again
        assert seconds(server) > 2 * again
        assert "vllm:prefix_cache_hits_total" in server.ask("/metrics")[1]


def test_a_limit_of_running_requests_makes_the_others_wait(tmp_path: Path) -> None:
    with serving(tmp_path, "sglang", "--max-running-requests", "1", "--enable-metrics") as server:
        with server.streaming(), server.waiting(), server.waiting():
            server.until("a queue", lambda: server.gauges()["sglang:num_queue_reqs"] == 2)
            assert server.gauges()["sglang:num_running_reqs"] == 1
        server.until("an empty batch", lambda: server.gauges()["sglang:num_running_reqs"] == 0)
        assert server.gauges()["sglang:num_queue_reqs"] == 0


def test_stand_ins_are_programs_by_name(tmp_path: Path) -> None:
    folder = standins.install(tmp_path / "a bin" / "folder")
    assert {program.name for program in folder.iterdir()} == {"vllm", "sglang", "trtllm-serve", "python3"}
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": ""}
    said = subprocess.run(
        [folder / "python3", "-c", "print(6 * 7)"], capture_output=True, text=True, env=env, check=True
    )
    assert said.stdout == "42\n"
    for argv in (["vllm", "serve", MODEL], ["python3", "-m", "sglang.launch_server", "--model-path", MODEL]):
        command = [folder / argv[0], *argv[1:], "--no-such-flag"]
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=PATIENCE)
        assert (done.returncode, "unrecognized arguments: --no-such-flag" in done.stderr) == (2, True)


def test_a_program_that_is_no_engine(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tuner.testing.engine", "nginx"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert done.returncode != 0
    assert "PROGRAM must be one of vllm" in done.stderr


def test_it_starts_with_the_standard_library_alone() -> None:
    code = (
        "import sys; import tuner.testing.engine, tuner.testing.vllm, tuner.testing.sglang, tuner.testing.tensorrt_llm;"
        "heavy = {'optuna', 'numpy', 'httpx', 'pydantic', 'yaml', 'psutil', 'rich'} & set(sys.modules); print(heavy)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "set()\n"

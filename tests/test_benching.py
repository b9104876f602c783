"""`tuner bench` on real sockets: what it prints, keeps and says, of servers good and bad."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.live import tuner, wait_until
from tests.servers import DONE, END, HEAD, Answer, Asked, Serving, Wire, chunk, stream, token, usage
from tuner import benching
from tuner.benching.saving import file_name
from tuner.benchmarks import RampUp, Workload
from tuner.benchmarks.records import read
from tuner.errors import SpecError, TunerError

DEAD = "http://127.0.0.1:9"  # nobody listens there
DATA = Path(__file__).parent / "data"
SMALL = ["--num-prompts", "4", "--random-input-len", "8", "--random-output-len", "4"]


@dataclass
class Done:
    code: int
    shown: str
    said: list[str]
    error: str


def bench(url: str, *words: str | Path, model: str | None = "m", small: bool = True) -> Done:
    """Run it here; an error is its text."""
    said: list[str] = []
    shown: list[str] = []
    named = ["--model", model] if model else []
    try:
        code = benching.bench([url, *named, *(SMALL if small else []), *map(str, words)], said.append, shown.append)
    except TunerError as error:
        return Done(error.exit_code, "\n".join(shown), said, str(error))
    return Done(code, "\n".join(shown), said, "")


@contextmanager
def answering(status: int, body: bytes, media: str = "application/json") -> Iterator[str]:
    """A server with this answer to every GET; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-type", media)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)


def reply(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def engine(answer: Answer, models: tuple[str, ...] = ("m",)) -> Answer:
    """A server that also tells its models."""

    async def both(asked: Asked, wire: Wire) -> bool | None:
        if asked.path == "/v1/models":
            await wire.write(reply("200 OK", json.dumps({"data": [{"id": name} for name in models]}).encode()))
        elif not asked.path.endswith("completions"):
            await wire.write(reply("404 Not Found", b""))
        else:
            return await answer(asked, wire)
        return None

    return both


def refusing(status: str, message: str, every: int = 1, answer: Answer | None = None) -> Answer:
    """Refuses every so manieth completion, and answers the others."""
    counted = iter(range(1, 10**6))

    async def both(asked: Asked, wire: Wire) -> bool | None:
        if next(counted) % every == 0:
            await wire.write(reply(status, json.dumps({"error": {"message": message}}).encode()))
            return None
        return await (answer or stream())(asked, wire)

    return engine(both)


# -- before anything is sent


@pytest.mark.parametrize(
    ("status", "body", "media", "got"),
    [
        (404, b"not here", "text/plain", "404 Not Found"),
        (200, b"<html></html>", "text/html", "not JSON"),
        (200, b"[]", "application/json", "no list of models"),
        (200, b'{"data": [{"name": "x"}]}', "application/json", "no list of models"),
        (200, b'{"data": 3}', "application/json", "no list of models"),
    ],
)
def test_another_kind_of_server_is_called_so(status: int, body: bytes, media: str, got: str) -> None:
    with answering(status, body, media) as url:
        done = bench(url, model=None)
    assert done.code == 1
    expected = f"{url} answers, but not as an OpenAI-compatible server (GET /v1/models: {got}); "
    assert done.error.startswith(expected)


def test_a_server_without_a_model_one_that_wants_a_key_and_one_that_is_not_there() -> None:
    with answering(200, b'{"data": []}') as url:
        assert "serves no model" in bench(url, model=None).error
    with answering(401, b"{}") as url:
        assert bench(url, model=None).error.startswith(f"{url} wants a key (401 Unauthorized): set OPENAI_API_KEY")
    for model in (None, "m"):
        done = bench(DEAD, model=model)
        assert done.error == f"{DEAD} does not answer (Connection refused); is the server up?"
        assert (done.code, done.shown) == (1, "")


def test_the_time_limit_bounds_the_question_for_the_model_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        begun = time.monotonic()
        done = bench(f"http://127.0.0.1:{deaf.getsockname()[1]}", "--timeout", "1", model=None)
        assert "had no answer within 1 s (GET /v1/models)" in done.error
        assert time.monotonic() - begun < 9


@pytest.mark.parametrize("words", [(DEAD, "--request-rate", "-1"), ("notaurl",), (DEAD, "--hf-name", "x")])
def test_wrong_usage_is_exit_2_in_one_line(words: tuple[str, ...]) -> None:
    done = tuner("bench", *words)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("tuner: error: ")
    assert len(done.stderr.splitlines()) == 1
    assert "fault of tuner itself" not in done.stderr


def test_help_lists_the_options_and_is_found_from_the_outer_help() -> None:
    done = tuner("bench", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--goodput NAME:MS [NAME:MS ...]" in done.stdout
    assert re.search(r"bench +Load one endpoint", tuner("--help").stdout)


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (None, ("--dataset-name", "sharegpt"), "the dataset is a file that can be read"),
        ("{", ("--dataset-name", "sharegpt"), ""),
        ('{"prompt": "a"}\nnonsense\n', ("--dataset-name", "custom"), "f.jsonl:2"),
        ('{"prompt": "a b c", "output_tokens": 3}\n', ("--dataset-name", "custom", "--no-oversample"), "4"),
    ],
)
def test_a_dataset_that_cannot_be_used_is_one_line_and_exit_1(
    tmp_path: Path, content: str | None, words: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "f.jsonl"
    if content is not None:
        file.write_text(content)
    done = bench(DEAD, *words, "--dataset-path", file)
    assert done.code == 1
    assert message in done.error
    assert str(file) in done.error
    assert len(done.error.splitlines()) == 1


def test_a_tokenizer_that_is_none_is_one_line_and_exit_1(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    done = bench(DEAD, "--tokenizer", tmp_path)
    assert (done.code, len(done.error.splitlines())) == (1, 1)
    assert str(tmp_path) in done.error


# -- a good run


def test_the_block_is_shown_and_the_result_written(tmp_path: Path) -> None:
    with Serving(engine(stream(), models=("first", "second"))) as server:
        done = bench(server.url + "/v1/", "--save-result", "--result-dir", tmp_path / "new", model=None)
    assert done.code == 0
    assert done.shown.startswith("============ Serving Benchmark Result ============\n")
    assert "Successful requests:                     4" in done.shown
    (path,) = (tmp_path / "new").iterdir()
    assert re.fullmatch(r"openai-infqps-first-\d{8}-\d{6}\.json", path.name)
    begun, wrote, limited = done.said
    assert begun == f"4 requests to {server.url}, model first, prompt lengths approximate (no --tokenizer)"
    assert wrote == f"wrote {path}"
    assert limited.startswith("limited by: ")
    result = json.loads(path.read_text())
    assert (result["completed"], result["incomplete"], result["request_rate"]) == (4, None, "inf")
    assert {"honest", "facts", "verdicts", "limited_by"} <= set(result)


def test_file_names_are_vllms() -> None:
    date = "20261201-000000"
    plain = Workload(max_concurrency=8, request_rate=2.0)
    ramp = Workload(ramp_up=RampUp("linear", 1, 9), endpoint="chat")
    assert file_name(plain, "a/b", date, "vllm") == "vllm-2.0qps-concurrency8-b-20261201-000000.json"
    assert file_name(ramp, "m", date, label="x") == "x-ramp-up-linear-1qps-9qps-m-20261201-000000.json"


def test_results_are_appended_one_a_line_and_lists_kept_where_asked(tmp_path: Path) -> None:
    words = ("--append-result", "--result-dir", tmp_path, "--result-filename", "r.json", "--metadata", "tp=8")
    with Serving(engine(stream())) as server:
        bench(server.url, *words)
        bench(server.url, *words, "--save-detailed")
    first, second = map(json.loads, (tmp_path / "r.json").read_text().splitlines())
    assert (first["tp"], first.get("itls"), len(second["itls"])) == ("8", None, 4)
    assert second["generated_texts"] == [" w w w w"] * 4


def test_kept_records_are_reported_anew_by_other_limits(tmp_path: Path) -> None:
    file = tmp_path / "r.npz"
    with Serving(engine(stream(ttft=0.05))) as server:
        before = bench(server.url, "--goodput", "ttft:10000", "--save-records", file, "--max-concurrency", "4")
    again = bench("--from-records", file, model=None, small=False)
    assert again.shown == before.shown
    assert again.code == 0
    other = bench("--from-records", file, "--goodput", "ttft:1", "--metric-percentiles", "50", model=None, small=False)
    assert "Request goodput (req/s):                 0.00" in other.shown
    assert "P50 TTFT" in other.shown
    old = bench("--from-records", file, "--definitions", "vllm-0.11", model=None, small=False)
    assert "Total Token throughput" in old.shown
    (tmp_path / "no").write_text("x")
    foreign = bench("--from-records", tmp_path / "no", model=None, small=False)
    assert (foreign.code, len(foreign.error.splitlines())) == (1, 1)


def test_speculation_is_shown_as_vllm_shows_it() -> None:
    def metrics() -> str:
        turn = len(server.asked) // 4
        return "\n".join(
            f'vllm:spec_decode_num_{name}_total{{model_name="m"}} {start + turn * step}'
            for name, start, step in (("drafts", 5, 10), ("draft_tokens", 7, 30), ("accepted_tokens", 2, 15))
        ) + "".join(
            f'\nvllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{place}"}} {turn * (9 - 3 * place)}'
            for place in range(2)
        )

    with Serving(engine(stream()), metrics=metrics) as server:
        done = bench(server.url)
    assert done.shown.splitlines()[-10:-1] == [
        "---------------Speculative Decoding---------------",
        "Acceptance rate (%):                     50.00     ",
        "Acceptance length:                       2.50      ",
        "Drafts:                                  10        ",
        "Draft tokens:                            30        ",
        "Accepted tokens:                         15        ",
        "Per-position acceptance (%):",
        "  Position 0:                            90.00     ",
        "  Position 1:                            60.00     ",
    ]


def test_the_first_answer_is_waited_for_and_warm_ups_are_not_measured() -> None:
    with Serving(refusing("503 Service Unavailable", "loading", every=10**6)) as server:
        done = bench(server.url, "--num-warmups", "3", "--ready-check-timeout-sec", "20")
    prompts = [asked.body["prompt"] for asked in server.asked if asked.body]
    assert len(prompts) == 1 + 3 + 4
    assert not set(prompts[:4]) & set(prompts[4:])
    assert done.said[1:3] == ["waiting up to 20 s for a first answer", "warming up with 3 requests"]
    assert "Successful requests:                     4" in done.shown


def test_a_server_that_is_never_ready_ends_the_wait() -> None:
    with Serving(refusing("503 Service Unavailable", "loading")) as server:
        done = bench(server.url, "--ready-check-timeout-sec", "2")
    assert re.match(rf"{server.url} gave no answer within 2 s: .*loading", done.error)
    assert (done.code, done.shown) == (1, "")


def test_what_is_asked_is_as_the_options_say() -> None:
    words = ["--backend", "openai-chat", "--temperature", "0.5", "--top-k", "3", "--extra-body", '{"x": 1}']
    with Serving(engine(stream())) as server:
        bench(server.url, *words, "--header", "x-a=b", "--request-id-prefix", "p-", "--served-model-name", "other")
    asked = next(one for one in server.asked if one.body)
    assert asked.path == "/v1/chat/completions"
    assert (asked.body["model"], asked.body["temperature"], asked.body["top_k"], asked.body["x"]) == (
        "other",
        0.5,
        3,
        1,
    )
    assert asked.headers["x-a"] == "b"
    assert asked.headers["x-request-id"].startswith("p-")


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("custom", {"prompt": "a b c"}, ("--custom-output-len", "3")),
        ("jsonl", {"prompt": "a b c", "output_tokens": 3}, ()),
        ("timed_trace", {"timestamp": 1, "input_length": 9, "output_length": 3}, ("--num-warmups", "2")),
        ("prefix_repetition", None, ("--prefix-repetition-num-prefixes", "2", "--output-len", "3")),
    ],
)
def test_each_dataset_is_sent(tmp_path: Path, name: str, line: dict[str, Any] | None, words: tuple[str, ...]) -> None:
    file = tmp_path / "f.jsonl"
    file.write_text((json.dumps(line) + "\n") * 4)
    path = ("--dataset-path", file) if line else ()
    with Serving(engine(stream())) as server:
        done = bench(server.url, "--dataset-name", name, *path, *words)
    assert done.error == ""
    assert "Total generated tokens:                  12" in done.shown


def test_several_servers_share_the_load() -> None:
    with Serving(engine(stream(ttft=0.05))) as one, Serving(engine(stream(ttft=0.05))) as two:
        done = bench(one.url, two.url)
    assert [sum(bool(asked.body) for asked in server.asked) for server in (one, two)] == [2, 2]
    assert "Successful requests:                     4" in done.shown


def test_several_client_processes_carry_the_load() -> None:
    with Serving(engine(stream(ttft=0.05))) as server:
        done = tuner("bench", server.url, "--model", "m", *SMALL, "--processes", "2", "--goodput", "ttft:5000")
    assert done.returncode == 0, done.stderr
    assert "Successful requests:                     4" in done.stdout
    assert "Request goodput (req/s):" in done.stdout


# -- runs that fail


def test_a_wrong_model_is_told_the_right_ones() -> None:
    with Serving(engine(refusing("404 Not Found", "The model `m` does not exist."), models=("a/b", "c"))) as server:
        done = bench(server.url)
    assert done.code == 1
    assert done.shown == ""
    assert done.error.startswith("no request succeeded: 4 of 4 requests failed: ")
    assert done.error.endswith("model m is not served; --model is one of a/b, c")


@pytest.mark.parametrize(
    ("status", "message", "way_out"),
    [
        ("401 Unauthorized", "who are you", "set OPENAI_API_KEY"),
        ("404 Not Found", "no such route", "--endpoint names it"),
        ("413 Payload Too Large", "body", "prompts of 8 + 4 tokens are too long"),
        ("400 Bad Request", "This model's maximum context length is 4 tokens", "prompts of 8 + 4 tokens are too long"),
        ("400 Bad Request", "unknown field", "the server refuses what was asked"),
        ("429 Too Many Requests", "slow down", "lower --max-concurrency or --request-rate"),
        ("503 Service Unavailable", "queue full", "lower --max-concurrency or --request-rate"),
        ("500 Internal Server Error", "CUDA error", "look at the server's log"),
    ],
)
def test_each_refusal_is_one_line_with_a_way_out(status: str, message: str, way_out: str) -> None:
    with Serving(refusing(status, message)) as server:
        done = bench(server.url)
    assert done.code == 1
    assert message in done.error
    assert way_out in done.error
    assert len(done.error.splitlines()) == 1


def saving(folder: Path, records: str) -> tuple[str | Path, ...]:
    """The options that keep the result in r.json, and the records."""
    return ("--save-result", "--result-dir", folder, "--result-filename", "r.json", "--save-records", folder / records)


def test_what_was_measured_is_kept_and_marked_incomplete(tmp_path: Path) -> None:
    words = saving(tmp_path, "r.npz")
    with Serving(refusing("429 Too Many Requests", "slow down", every=2)) as server:
        done = bench(server.url, *words, "--max-concurrency", "1")
    assert done.code == 1
    assert "Successful requests:                     2" in done.shown
    assert "Failed requests:                         2" in done.shown
    last = done.shown.splitlines()[-1]
    assert last.startswith("(incomplete: 2 of 4 requests failed: ")
    assert last.removeprefix("(incomplete: ").removesuffix(")") == done.error
    assert json.loads((tmp_path / "r.json").read_text())["incomplete"] == done.error
    assert [response.failure for response in read(tmp_path / "r.npz")[0].responses] == ["", "overloaded"] * 2


def test_a_server_that_dies_half_way() -> None:
    async def dying(asked: Asked, wire: Wire) -> bool | None:
        if sum(bool(one.body) for one in server.asked) < 3:
            return await stream()(asked, wire)
        server._server.close()
        wire.reset()
        return False

    with Serving(engine(dying)) as server:
        done = bench(server.url, "--max-concurrency", "1")
    assert done.code == 1
    assert "the server went away or broke off half-way" in done.error
    assert "Successful requests:                     2" in done.shown


@pytest.fixture(scope="module")
def tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "loopback.pem")
    return context


def test_a_certificate_that_is_not_trusted(tls: ssl.SSLContext) -> None:
    with Serving(engine(stream()), tls) as server:
        done = bench(server.url)
        assert done.code == 1
        assert "certificate is not trusted" in done.error
        assert "--insecure" in done.error
        assert "Successful requests:                     4" in bench(server.url, "--insecure").shown


def test_tls_asked_of_a_server_without() -> None:
    with Serving(engine(stream())) as server:
        done = bench(server.url.replace("http:", "https:"), "--timeout", "1")
    assert done.code == 1
    assert re.search(r"is it an http:// server\?$|does it speak TLS\?$", done.error)


def test_a_tokenizer_that_does_not_fit_the_servers_counts() -> None:
    async def tripled(asked: Asked, wire: Wire) -> None:
        await wire.write(HEAD + chunk(token() * 4) + chunk(usage(9000, 4) + DONE) + END)

    words = ("--tokenizer", DATA / "datasets" / "tokenizer", "--random-input-len", "100")
    with Serving(engine(tripled)) as server:
        done = bench(server.url, *words)
    assert done.code == 1
    assert done.error.startswith("not to be trusted: ")
    assert "the tokenizer of this model?" in done.error
    assert done.shown.splitlines()[-1] == f"({done.error})"
    assert not [line for line in done.said if line.startswith("not to be trusted")]  # once is enough


def test_figures_not_to_be_trusted_are_called_so() -> None:
    async def doubled(asked: Asked, wire: Wire) -> None:
        words = len(asked.body["prompt"].split())
        await wire.write(HEAD + chunk(token() * 4) + chunk(usage(words, 8) + DONE) + END)

    with Serving(engine(doubled)) as server:
        done = bench(server.url)
    assert any(line.startswith("not to be trusted: the server counted more tokens") for line in done.said)
    assert done.code == 1


def test_a_run_that_cannot_win_ends_early_and_says_its_bound(tmp_path: Path) -> None:
    with Serving(engine(stream(ttft=0.5, itl=0.5))) as server:
        done = bench(server.url, "--beat", "1e9", "--save-result", "--result-dir", tmp_path, "--result-filename", "r")
    result = json.loads((tmp_path / "r").read_text())
    assert done.code == 0
    assert 0 < result["bound"] < 1e9
    assert result["incomplete"].startswith("ended early: at most ")


def test_the_key_is_sent_and_appears_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    words = ("--save-result", "--save-detailed", "--result-dir", tmp_path, "--save-records", tmp_path / "r.npz")
    with Serving(refusing("401 Unauthorized", "wrong key sk-very-secret", every=2)) as server:
        done = bench(server.url, *words)
    assert {asked.headers.get("authorization") for asked in server.asked if asked.body} == {"Bearer sk-very-secret"}
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.suffix == ".json")
    run, _, _ = read(tmp_path / "r.npz")
    assert "wrong key ***" in done.error
    assert "secret" not in done.shown + done.error + "".join(done.said) + kept.decode() + repr(run)


# -- several loads


def test_loads_are_walked_and_put_into_one_table(tmp_path: Path) -> None:
    words = saving(tmp_path, "k.npz")
    with Serving(engine(stream(ttft=0.02))) as server:
        done = bench(server.url, "--load", "2,1,4", *words)
    assert done.code == 0
    head, *rows = done.shown.splitlines()
    assert head.split()[:4] == ["concurrency", "done", "failed", "total"]
    assert [row.split()[:3] for row in rows] == [["1", "4", "0"], ["2", "4", "0"], ["4", "4", "0"]]
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        f"{stem}-concurrency-{load}.{end}" for load in (1, 2, 4) for stem, end in (("r", "json"), ("k", "npz"))
    }
    prompts = [asked.body["prompt"] for asked in server.asked if asked.body]
    assert len(set(prompts)) == 12
    assert server.most_active <= 4 + 1


def test_the_highest_load_within_limits_is_found() -> None:
    """Of a server that answers two requests at a time."""
    places = asyncio.Semaphore(2)

    async def narrow(asked: Asked, wire: Wire) -> None:
        async with places:
            await asyncio.sleep(0.1)
            await stream()(asked, wire)

    with Serving(engine(narrow)) as server:
        done = bench(server.url, "--find-max-load", "--goodput", "ttft:180", "--num-prompts", "8", "--max-load", "8")
    assert done.code == 0
    assert done.shown.splitlines()[-1] == "highest concurrency with 99% of requests within the limits: 2"
    assert done.shown.splitlines()[0].endswith("within limits")


def test_no_load_within_limits_is_said() -> None:
    with Serving(engine(stream(ttft=0.05))) as server:
        done = bench(server.url, "--find-max-load", "--goodput", "ttft:1", "--max-load", "2")
    assert done.error == "no concurrency down to 1 has 99% of its requests within the limits"
    with Serving(refusing("404 Not Found", "no")) as server:
        done = bench(server.url, "--load", "1,2,4")
    assert done.error.startswith("no request succeeded: ")
    assert sum(bool(asked.body) for asked in server.asked) == 4  # the first load was enough to know


# -- Ctrl-C


def interrupted(tmp_path: Path, times: int, itl: float) -> tuple[int, str, str]:
    """Exit code and outputs of a run that is interrupted when two of four answers are there."""
    with Serving(engine(slow_after_two(itl))) as server:
        command = ["bench", server.url, "--model", "m", *SMALL, "--max-concurrency", "2", "--save-result"]
        process = subprocess.Popen(
            [sys.executable, "-m", "tuner", *command, "--result-dir", str(tmp_path), "--result-filename", "r.json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_until(lambda: sum(bool(asked.body) for asked in server.asked) == 4, "the last request")
        time.sleep(0.3)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.03)
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def slow_after_two(itl: float) -> Answer:
    counted = iter(range(100))

    async def answer(asked: Asked, wire: Wire) -> bool | None:
        return await stream(itl=0 if next(counted) < 2 else itl)(asked, wire)

    return answer


def test_ctrl_c_once_waits_for_the_answers_under_way_and_twice_does_not(tmp_path: Path) -> None:
    code, out, err = interrupted(tmp_path, 2, itl=30.0)
    assert code == 130, err
    assert "Successful requests:                     2" in out
    assert out.splitlines()[-1] == "(incomplete: interrupted after 2 of 4 requests)"
    assert "nothing more is sent, answers under way are waited for" in err
    assert "ending at once, with what is there" in err
    assert "Traceback" not in err
    assert "not to be trusted" not in err
    assert json.loads((tmp_path / "r.json").read_text())["incomplete"] == "interrupted after 2 of 4 requests"


def test_ctrl_c_thrice_gives_everything_up(tmp_path: Path) -> None:
    code, _, err = interrupted(tmp_path, 3, itl=30.0)
    assert code == 130, err
    assert "Traceback" not in err


def started(*words: str | Path, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tuner", "bench", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_lets_the_answers_under_way_end(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "r.npz"
    with Serving(engine(stream(itl=0.5))) as server:
        process = started(server.url, "--model", "m", *SMALL, "--max-concurrency", "2", "--save-records", file)
        wait_until(lambda: sum(bool(asked.body) for asked in server.asked) == 2, "the first two requests")
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert sum(bool(asked.body) for asked in server.asked) == 2
    assert process.returncode == 130, err
    assert "Successful requests:                     2" in out
    assert [response.success for response in read(file)[0].responses] == [True, True, False, False]


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    with Serving(engine(stream(itl=0.2))) as server:
        process = started(
            server.url, "--model", "m", *SMALL, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
        )
        wait_until(lambda: sum(bool(asked.body) for asked in server.asked) == 4, "the requests")
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, "ending" in err) == (0, False)
    assert "Successful requests:                     4" in out


def test_ctrl_c_before_anything_is_there_is_one_line() -> None:
    process = started(DEAD, "--model", "m", *SMALL, "--ready-check-timeout-sec", "60")
    assert process.stderr is not None
    assert "waiting up to 60 s for the server" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[1:] == ["interrupted before anything was measured"]


@pytest.mark.parametrize("module", ["typer", "tuner.benching", "argparse"])
def test_ctrl_c_while_modules_are_loaded_is_one_line(module: str) -> None:
    code = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *more):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from tuner.__main__ import main\n"
        "main()"
    )
    command = [sys.executable, "-c", code, "bench", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "tuner: interrupted")


# -- where the result goes


def test_an_output_that_takes_nothing_costs_no_result(tmp_path: Path) -> None:
    words = ("--model", "m", *SMALL, "--save-result", "--result-dir", tmp_path, "--result-filename", "r.json")
    with Serving(engine(stream())) as server, open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "tuner", "bench", server.url, *map(str, words)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("tuner: error: the result cannot be printed: No space left on device; it is in ")
    assert json.loads((tmp_path / "r.json").read_text())["completed"] == 4


def test_a_closed_pipe_costs_no_result(tmp_path: Path) -> None:
    with Serving(engine(stream())) as server:
        process = started(server.url, "--model", "m", *SMALL, "--save-records", tmp_path / "r.npz")
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        process.wait(60)
        process.stderr.close()
    assert process.returncode == 1
    assert "the result cannot be printed: Broken pipe" in err.splitlines()[-1]
    assert len(read(tmp_path / "r.npz")[0].responses) == 4


def test_what_cannot_be_written_is_found_before_the_load(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with Serving(engine(stream())) as server:
        for words, message in (
            (("--save-result", "--result-dir", tmp_path / "file" / "x"), "give another --result-dir"),
            (("--save-result", "--result-dir", tmp_path, "--result-filename", "folder"), "it is a folder"),
            (("--append-result", "--result-filename", tmp_path / "folder"), "it is a folder"),
            (("--save-result", "--result-dir", tmp_path, "--result-filename", "x" * 300), "File name too long"),
            (("--save-records", tmp_path / "file" / "r.npz"), "give another --save-records"),
            (("--save-records", "/dev/null"), "it is no regular file"),
            (("--save-records", tmp_path / "a", "--save-result", "--result-filename", tmp_path / "a"), "both"),
        ):
            done = bench(server.url, *words)
            assert done.code == 1
            assert message in done.error
            assert len(done.error.splitlines()) == 1
        assert server.asked == [] or not any(asked.body for asked in server.asked)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder"}


def test_a_file_that_cannot_be_written_in_the_end_does_not_take_the_other_with_it(tmp_path: Path) -> None:
    kept, lost = tmp_path / "kept", tmp_path / "lost"
    lost.mkdir()

    async def removing(asked: Asked, wire: Wire) -> bool | None:
        if lost.is_dir():
            lost.rmdir()
            lost.touch()
        return await stream()(asked, wire)

    with Serving(engine(removing)) as server:
        done = bench(server.url, "--save-records", lost / "r.npz", "--save-result", "--result-dir", kept)
    assert done.code == 1
    assert done.error.endswith("cannot be written: Not a directory; give another --save-records") or (
        "File exists; give another --save-records" in done.error
    )
    assert "Successful requests:                     4" in done.shown
    (file,) = kept.iterdir()
    assert json.loads(file.read_text())["completed"] == 4


# -- a server that starts


def test_a_server_that_does_not_listen_yet_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    results: list[Done] = []
    url = f"http://127.0.0.1:{port}"
    thread = threading.Thread(target=lambda: results.append(bench(url, "--ready-check-timeout-sec", "60", model=None)))
    thread.start()
    time.sleep(1.5)
    turns = iter(range(100))

    async def starting(asked: Asked, wire: Wire) -> bool | None:
        if next(turns) < 2:
            await wire.write(reply("503 Service Unavailable", b"loading"))
            return None
        return await engine(stream())(asked, wire)

    with Serving(starting, port=port):
        thread.join(60)
    (done,) = results
    assert done.error == ""
    assert "Successful requests:                     4" in done.shown
    assert done.said[0] == f"waiting up to 60 s for the server: {url} does not answer (Connection refused); " + (
        "is the server up?"
    )


def test_a_server_that_never_listens_ends_the_wait_with_its_cause() -> None:
    for model in (None, "m"):
        done = bench(DEAD, "--ready-check-timeout-sec", "2", model=model)
        assert done.error == f"not ready within 2 s: {DEAD} does not answer (Connection refused); is the server up?"


def test_a_dead_replica_is_found_before_the_load() -> None:
    with Serving(engine(stream())) as server:
        for model in (None, "m"):
            done = bench(server.url, DEAD, model=model)
            assert done.error == f"{DEAD} does not answer (Connection refused); is the server up?"
        assert not any(asked.body for asked in server.asked)


def test_http_asked_of_a_server_with_tls(tls: ssl.SSLContext) -> None:
    with Serving(engine(stream()), tls) as server:
        for model in (None, "m"):
            done = bench(server.url.replace("https:", "http:"), model=model)
            assert done.error == f"{server.url.replace('https:', 'http:')} speaks TLS; give {server.url}"


# -- one cause, one line


def test_what_failed_first_is_named_and_how_many_in_all() -> None:
    """Streams break off one after the other, and the server is gone for all after them."""

    async def breaking(asked: Asked, wire: Wire) -> bool | None:
        if sum(bool(one.body) for one in server.asked) < 3:
            await wire.write(HEAD + chunk(token()))
            await asyncio.sleep(0.05)
            wire.reset()
            return False
        server._server.close()
        wire.reset()
        return False

    with Serving(engine(breaking)) as server:
        done = bench(server.url, "--max-concurrency", "1", "--num-prompts", "12", small=True)
    assert done.error.startswith(
        "no request succeeded: 12 of 12 requests failed; first, 3 of them (the reply broke off"
    )
    assert "went away or broke off half-way" in done.error


def test_after_a_total_failure_only_its_cause_is_said() -> None:
    with Serving(refusing("400 Bad Request", "This model's maximum context length is 4 tokens")) as server:
        done = bench(server.url)
    assert done.said[1:] == []
    assert done.error == (
        "no request succeeded: 4 of 4 requests failed: HTTP 400 Bad Request: This model's maximum context length is 4 "
        "tokens: prompts of 8 + 4 tokens are too long for the server; lower --random-input-len, or raise the server's "
        "--max-model-len"
    )


def test_a_reached_beat_is_one_line() -> None:
    with Serving(engine(stream(ttft=0.5, itl=0.5))) as server:
        done = bench(server.url, "--beat", "1e9")
    assert (done.code, done.shown) == (0, "")
    assert len(done.said) == 2
    assert done.said[1].startswith("ended early: at most ")


def test_what_is_wrong_with_a_file_is_said_in_options(tmp_path: Path) -> None:
    file = tmp_path / "f.jsonl"
    file.write_text('{"prompt": "a b c", "output_tokens": 3}\n')
    words = ("--dataset-name", "jsonl", "--dataset-path", file)
    assert "lower --num-prompts to 1, or leave --no-oversample out" in bench(DEAD, *words, "--no-oversample").error
    file.write_text('{"prompt": 123}\n')
    error = bench(DEAD, *words).error
    assert error.startswith(f"{file}:1: a line has either `prompt`, a text, or `messages`")
    assert "(got prompt: 123)" in error
    assert "leave --tokenizer out" in bench(DEAD, "--tokenizer", tmp_path).error


# -- kept records


def test_records_of_a_stand_in_stay_called_so(tmp_path: Path) -> None:
    async def stand_in(asked: Asked, wire: Wire) -> bool | None:
        if not asked.body:
            await wire.write(b"HTTP/1.1 200 OK\r\nserver: tuner-simulated\r\ncontent-length: 0\r\n\r\n")
            return None
        return await stream()(asked, wire)

    with Serving(stand_in) as server:
        done = bench(server.url, "--save-records", tmp_path / "r.npz")
    again = bench("--from-records", tmp_path / "r.npz", model=None, small=False)
    line = "(simulated: the server is a stand-in engine)"
    assert done.shown.splitlines()[-1] == again.shown.splitlines()[-1] == line


def test_usage_errors_are_spec_errors() -> None:
    with pytest.raises(SpecError):
        benching.bench(["--nonsense"], print, print)

"""`tuner bench`: what it refuses before it asks, and what it says of servers that are none of the kind."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.live import tuner
from tests.servers import DONE, END, HEAD, Asked, Serving, Wire, chunk, stream, token, usage
from tuner import benching
from tuner.benchmarks import Workload
from tuner.errors import SpecError, TunerError

SMALL = Workload(num_prompts=4, input_len=8, output_len=4)
DEAD = "http://127.0.0.1:9"  # nobody listens there


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


def bench(url: str, workload: Workload = SMALL, model: str | None = "m", **more: Any) -> tuple[str, list[str]]:
    said: list[str] = []
    block = benching.bench(url, model, workload, more.pop("timeout_s", 30.0), more.pop("folder", None), said.append)
    return block, said


@pytest.mark.parametrize("url", ["notaurl", "", "ftp://x", "http://", "http://host:port", "http://u@h:1", "http://a b"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(SpecError) as caught:
        bench(url, model=None)
    assert str(caught.value) == f"{url!r} is not a URL (http://host:port)"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"request_rate": -1.0}, r"--request-rate must be above 0 \(got -1\)"),
        ({"request_rate": 0.0}, r"--request-rate must be above 0 \(got 0\)"),
        ({"request_rate": float("nan")}, r"--request-rate must be above 0 \(got nan\)"),
        ({"burstiness": float("nan")}, r"--burstiness must be above 0"),
        ({"range_ratio": float("nan")}, r"--random-range-ratio is at least 0 and below 1"),
        ({"dataset": "sharegpt"}, r"--dataset-name sharegpt needs --dataset-path"),
        ({"dataset": "sharegpt", "path": "/no/such.json"}, r"--dataset-path must be a file \(got /no/such.json\)"),
        ({"tokenizer": "/no/such"}, r"a tokenizer is a tokenizer.json or the folder that holds one"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_the_server_is_asked(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        bench(DEAD, Workload(**{"num_prompts": 4, **fields}), model=None)


@pytest.mark.parametrize(
    ("status", "body", "media", "got"),
    [
        (404, b"not here", "text/plain", "404 Not Found"),
        (401, b"{}", "application/json", "401 Unauthorized"),
        (200, b"<html></html>", "text/html", "not JSON"),
        (200, b"[]", "application/json", "no list of models"),
        (200, b'{"data": [{"name": "x"}]}', "application/json", "no list of models"),
        (200, b'{"data": 3}', "application/json", "no list of models"),
    ],
)
def test_another_kind_of_server_is_called_so(status: int, body: bytes, media: str, got: str) -> None:
    with answering(status, body, media) as url, pytest.raises(TunerError) as caught:
        bench(url, model=None)
    expected = f"{url} answers, but not as an OpenAI-compatible server (GET /v1/models: {got}); "
    assert str(caught.value).startswith(expected)


def test_a_server_without_a_model_and_one_that_is_not_there() -> None:
    with answering(200, b'{"data": []}') as url, pytest.raises(TunerError, match="serves no model"):
        bench(url, model=None)
    with pytest.raises(TunerError, match=r"does not answer .*is the server up\?"):
        bench(DEAD, model=None)


def test_the_time_limit_bounds_the_question_for_the_model_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        begun = time.monotonic()
        with pytest.raises(TunerError, match=r"had no answer within 1 s \(GET /v1/models\)"):
            bench(f"http://127.0.0.1:{deaf.getsockname()[1]}", model=None, timeout_s=1.0)
        assert time.monotonic() - begun < 9


def test_the_block_is_returned_and_the_result_written(tmp_path: Path) -> None:
    with answering(200, json.dumps({"data": [{"id": "first"}, {"id": "second"}]}).encode()) as url:
        assert benching.first_model(url) == "first"
    with Serving(stream()) as server:
        block, said = bench(server.url + "/v1/", folder=tmp_path)
    assert "Successful requests:                     4" in block
    (path,) = tmp_path.iterdir()
    assert said == [f"4 requests to {server.url}, model m", f"wrote {path}"]
    assert json.loads(path.read_text())["completed"] == 4


def test_figures_not_to_be_trusted_are_called_so() -> None:
    async def doubled(asked: Asked, wire: Wire) -> None:
        words = len(asked.body["prompt"].split())
        await wire.write(HEAD + chunk(token() * 4) + chunk(usage(2 * words, 8) + DONE) + END)

    with Serving(doubled) as server:
        _, said = bench(server.url)
    assert "not to be trusted: the server counted more tokens than were allowed in 4 of 4 answers" in said
    assert any(line.startswith("note: the server counted 16.0 tokens in each prompt, 8 were asked") for line in said)


@pytest.mark.parametrize(
    "words",
    [
        (DEAD, "--request-rate", "-1"),
        ("notaurl",),
        (DEAD, "--dataset-name", "sharegpt"),
        (DEAD, "--timeout", "nan"),
    ],
)
def test_wrong_usage_is_exit_2_in_one_line(words: tuple[str, ...]) -> None:
    done = tuner("bench", *words)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("tuner: error: ")
    assert len(done.stderr.splitlines()) == 1
    assert "fault of tuner itself" not in done.stderr

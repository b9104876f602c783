"""Tokenizers: what they agree with transformers on, where they are found, and what is said when they are not."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import processors

from tuner.benchmarks import Workload
from tuner.benchmarks.datasets import requests
from tuner.benchmarks.hub import is_hub_name
from tuner.benchmarks.tokenizer import load_tokenizer
from tuner.errors import SpecError

GIVEN = Path(__file__).parent / "data" / "datasets" / "tokenizer"


def with_config(folder: Path, config: Any) -> str:
    """The given tokenizer, without a post-processor that would add tokens, under another configuration."""
    made = tokenizers.Tokenizer.from_file(str(GIVEN / "tokenizer.json"))
    made.post_processor = processors.ByteLevel()
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return str(folder)


# -- as transformers


def test_special_tokens_are_those_that_the_configuration_names(tmp_path: Path) -> None:
    given = load_tokenizer(str(GIVEN))
    assert (given.vocab_size, given.added_by_default) == (900, 1)
    assert list(given.ordinary_ids) == list(range(2, 900))
    one = load_tokenizer(with_config(tmp_path, {"eos_token": {"content": "</s>"}}))
    assert list(one.ordinary_ids) == [0, *range(2, 900)]
    more = load_tokenizer(with_config(tmp_path, {"additional_special_tokens": ["<s>"], "unk_token": None}))
    assert list(more.ordinary_ids) == list(range(1, 900))
    (tmp_path / "tokenizer_config.json").unlink()
    assert list(load_tokenizer(str(tmp_path)).ordinary_ids) == list(range(2, 900))


def test_what_transformers_4_took_from_the_configuration(tmp_path: Path) -> None:
    """Checked against transformers 4.57.1 and 5.19, which gave these ids and texts."""
    asked = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "clean_up_tokenization_spaces": True}
    llama = {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True, "add_eos_token": False}
    path = with_config(tmp_path, asked | llama)
    old, new = load_tokenizer(path, "vllm-0.11"), load_tokenizer(path)
    assert (old.added_by_default, new.added_by_default) == (1, 0)
    assert old.encode("da .x", special=True)[0] == 0
    plain = new.encode("da .x , y", special=True)
    assert (old.decode(plain), new.decode(plain)) == ("da.x, y", "da .x , y")
    assert old.decode_all([plain, plain]) == ["da.x, y"] * 2
    ends = load_tokenizer(
        with_config(tmp_path, asked | llama | {"add_bos_token": False, "add_eos_token": True}), "vllm-0.11"
    )
    assert ends.encode("da", special=True)[-1] == 1
    other = with_config(tmp_path, asked | llama | {"tokenizer_class": "PreTrainedTokenizerFast"})
    assert load_tokenizer(other, "vllm-0.11").added_by_default == 0


def test_many_at_once_are_as_one_by_one() -> None:
    tokenizer = load_tokenizer(str(GIVEN))
    texts = ["da .x", "", "你好 é", "<s>x</s>", "a  b\n\n c"]
    for special in (False, True):
        assert tokenizer.encode_all(texts, special=special) == [tokenizer.encode(t, special=special) for t in texts]
        assert tokenizer.count_all(texts, special=special) == [len(tokenizer.encode(t, special=special)) for t in texts]
    sequences = [[5, 300, 200], [], [0, 899]]
    assert tokenizer.decode_all(sequences) == [tokenizer.decode(ids) for ids in sequences]


def test_truncation_and_padding_in_the_file_are_not_for_counting(tmp_path: Path) -> None:
    made = tokenizers.Tokenizer.from_file(str(GIVEN / "tokenizer.json"))
    made.enable_truncation(5)
    made.enable_padding(length=5)
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(str(tmp_path))
    assert tokenizer.count_all(["x", "x y z x y z x y z"], special=False) == [1, 14]


# -- where it is


def test_a_tokenizer_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        with pytest.raises(SpecError, match=r"no such file.*leave `tokenizer` out"):
            requests(Workload(tokenizer=str(path)), 0)
    (tmp_path / "tokenizer.model").touch()
    with pytest.raises(SpecError, match=r"no such file; there is tokenizer\.model"):
        load_tokenizer(str(tmp_path))


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(SpecError, match=r"tokenizer\.json of the"):
        requests(Workload(tokenizer=str(tmp_path)), 0)
    with pytest.raises(SpecError, match="configuration is a JSON object"):
        load_tokenizer(with_config(tmp_path, "{"))


def test_a_tokenizer_that_changed_is_read_again(tmp_path: Path) -> None:
    path = with_config(tmp_path, {"eos_token": "</s>"})
    assert len(load_tokenizer(path).ordinary_ids) == 899
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "bos_token": "<s>"}))
    assert len(load_tokenizer(path).ordinary_ids) == 898


def test_names_of_the_hub() -> None:
    for name in ("deepseek-ai/DeepSeek-R1-0528", "gpt2", "org/Model_1.5"):
        assert is_hub_name(name)
    for path in (
        "./models/m",
        "../m",
        "~/m",
        "/models/m",
        "a/b/c",
        "m/tokenizer.json",
        "tokenizer.json",
        "a b",
        "a/..b",
    ):
        assert not is_hub_name(path)


def in_cache(cache: Path, name: str) -> None:
    """As the hub's clients lay it."""
    folder = cache / f"models--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc123")
    shutil.copytree(GIVEN, folder / "snapshots" / "abc123")


def test_a_model_in_the_hubs_cache_is_used_without_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    in_cache(tmp_path / "hub", "org/model")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert load_tokenizer("org/model").vocab_size == 900
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert load_tokenizer("org/model").vocab_size == 900
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SpecError, match=r"org/other: HF_HUB_OFFLINE is set and .* no such tokenizer .*hub"):
        load_tokenizer("org/other")


class Hub(http.server.BaseHTTPRequestHandler):
    """The part of the hub that hands out files: one model, one without a tokenizer, no other."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        repository, _, file = self.path.lstrip("/").partition("/resolve/main/")
        body = (GIVEN / file).read_bytes() if repository == "org/model" and (GIVEN / file).is_file() else b""
        self.send_response(200 if body else 404)
        if not body:
            self.send_header("X-Error-Code", "EntryNotFound" if repository.startswith("org/") else "RepoNotFound")
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def hub() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def loaded(address: str, home: Path, *names: str, wait_s: float = 30) -> list[str]:
    """What loading each name comes to, in a process of its own: the hub's client reads its address once."""
    code = (
        "import sys\nfrom tuner.benchmarks.tokenizer import load_tokenizer\nfrom tuner.errors import SpecError\n"
        "for name in sys.argv[2:]:\n"
        "    try: print(load_tokenizer(name, wait_s=float(sys.argv[1])).vocab_size)\n"
        "    except SpecError as error: print(error)\n"
    )
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_") and "proxy" not in key.lower()}
    environment = kept | {"HF_ENDPOINT": address, "HF_HOME": str(home)}
    asked = [sys.executable, "-c", code, str(wait_s), *names]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=120)
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_model_of_the_hub_is_downloaded_once(tmp_path: Path) -> None:
    with hub() as address:
        got, without, unknown = loaded(address, tmp_path, "org/model", "org/bare", "nobody/nothing")
    assert got == "900"
    assert "the model on the hub has no tokenizer.json" in without
    assert "no such model on the hub" in unknown
    assert "a folder is written ./nobody/nothing" in unknown
    assert loaded("http://127.0.0.1:9", tmp_path, "org/model") == ["900"]


@pytest.mark.slow
def test_a_hub_that_cannot_be_reached_holds_nobody_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        (told,) = loaded(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path, "org/model", wait_s=1)
        assert time.monotonic() - began < 60
    assert told.startswith("org/model: there is no such file, and the hub cannot be reached (got no answer within 1 s)")
    assert "leave `tokenizer` out" in told


@pytest.mark.slow
def test_a_hub_without_the_model_or_without_anybody_is_told_in_seconds_and_one_line(tmp_path: Path) -> None:
    """Not after the five tries of its own client, of which each is told on the terminal."""
    began = time.monotonic()
    environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    command = [sys.executable, "-m", "tuner", "bench", "http://127.0.0.1:9", "--tokenizer", "nobody/nothing"]
    with hub() as address:
        for endpoint, told in ((address, "no such model on the hub"), ("http://127.0.0.1:9", "cannot be reached")):
            settings = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
            done = subprocess.run(command, env=environment | settings, capture_output=True, text=True, timeout=120)
            assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
            assert told in done.stderr
            assert "--tokenizer" in done.stderr
    assert time.monotonic() - began < 30

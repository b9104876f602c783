"""Waiting for a server: until it has answered a real request, or until it cannot any more."""

from __future__ import annotations

import codecs
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from tuner.engines import Engine
from tuner.launchers import Handle
from tuner.node import ports
from tuner.trial import Failure, Launch

logger = logging.getLogger(__name__)

TAIL_BYTES = 16_384
_DIAGNOSIS_BYTES = 1_048_576
_SETTLE_S = 2.0


@dataclass(frozen=True)
class Limits:
    """Seconds, and bytes free on the disk. `stall_timeout_s`: no new log line and no CPU time for that long.

    `call_timeout_s` bounds each HTTP call but the completion, which may compile kernels: `completion_timeout_s`.
    `poll_s`: the longest pause between two looks; it starts shorter and grows with the time waited.
    """

    start_timeout_s: float = 1800.0
    stall_timeout_s: float = 600.0
    grace_s: float = 10.0
    memory_timeout_s: float = 120.0
    call_timeout_s: float = 5.0
    completion_timeout_s: float = 60.0
    poll_s: float = 1.0
    disk_floor_bytes: int = 100_000_000


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Ready:
    """It answers: the name its model is served under, and whether the listener is proven to be ours."""

    model: str
    proven: bool


class LogTail:
    """The part of a log file that was written since this value was made. Carriage returns end lines, too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = path.stat().st_size if path.exists() else 0
        self._read = self._start
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._partial = ""

    def new(self) -> str:
        """What was added since the last call, from the start of the last unfinished line on; '' if nothing was."""
        data = self._bytes(self._read)
        self._read += len(data)
        if not data:
            return ""
        text = self._partial + _lines(self._decode(data))
        self._partial = text.rpartition("\n")[2][-TAIL_BYTES:]
        return text

    def tail(self, size: int = TAIL_BYTES) -> str:
        """The last `size` bytes."""
        end = self.size()
        return _lines(self._bytes(max(self._start, end - size)).decode(errors="replace"))

    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def _bytes(self, start: int) -> bytes:
        try:
            with self.path.open("rb") as log:
                log.seek(start)
                return log.read(4 * _DIAGNOSIS_BYTES)
        except FileNotFoundError:
            return b""


def wait_until_ready(
    handle: Handle,
    launch: Launch,
    engine: Engine,
    log: LogTail,
    url: str,
    limits: Limits = DEFAULT_LIMITS,
    stop: threading.Event | None = None,
    on_turn: Callable[[], None] = lambda: None,
) -> Ready | Failure:
    """Ready: the listener is ours (where that can be told), health answers 200, and one token came back under the
    served name. A failure as soon as one is certain. `on_turn` is called at every look."""
    wait = _Wait(handle, engine, log, limits, stop)
    pool = ThreadPoolExecutor(1, thread_name_prefix="readiness")
    try:
        asked = pool.submit(ask, handle, launch, engine, url, limits)
        while True:
            pause = wait.pause()
            answer = _answer(asked, pause)
            if isinstance(answer, Ready | Failure):
                return _with_log(answer, log) if isinstance(answer, Failure) else answer
            on_turn()
            if failure := wait.failure(answer):
                return _with_log(failure, log)
            if asked.done():
                time.sleep(pause)
                asked = pool.submit(ask, handle, launch, engine, url, limits)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def ask(handle: Handle, launch: Launch, engine: Engine, url: str, limits: Limits) -> Ready | Failure | str:
    """One attempt; a text says what is still missing."""
    port = httpx.URL(url).port or 80
    owned = handle.owns_listener(port)
    if owned is False:
        return _stranger(handle, port) or f"nothing listens on port {port} yet"
    try:
        with httpx.Client(base_url=url, timeout=limits.call_timeout_s, trust_env=False) as http:
            answer = _served(http, engine, launch, limits)
    except (httpx.HTTPError, OSError) as error:
        return f"{url} does not answer yet ({error or type(error).__name__})"
    return replace(answer, proven=owned is True) if isinstance(answer, Ready) else answer


def diagnose(engine: Engine, log: LogTail, returncode: int | None) -> Failure | None:
    """The cause that the whole log shows, with the end of the log."""
    failure = engine.failure(log.tail(_DIAGNOSIS_BYTES), returncode)
    if failure is None and returncode is not None:
        failure = Failure("crash", f"the server ended with exit code {returncode}")
    return _with_log(failure, log) if failure else None


@dataclass
class _Wait:
    """What ends a wait without an answer, asked in the order of certainty."""

    handle: Handle
    engine: Engine
    log: LogTail
    limits: Limits
    stop: threading.Event | None
    missing: str = "it was not asked yet"
    _began: float = field(default_factory=time.monotonic)
    _progress: tuple[float, int, float] = (0.0, -1, 0.0)  # when, log size, CPU seconds

    def failure(self, missing: str | None) -> Failure | None:
        self.missing = missing or self.missing
        if self.stop is not None and self.stop.is_set():
            return Failure("interrupted", "stopped by request while the server was starting")
        return self._ended() or self._fatal() or self._too_long() or self._stalled()

    def pause(self) -> float:
        """5 % of the time waited so far: short starts are seen at once, long ones cost nothing."""
        return min(max(0.05, 0.05 * (time.monotonic() - self._began)), self.limits.poll_s)

    def _ended(self) -> Failure | None:
        returncode = self.handle.returncode()
        return None if returncode is None else diagnose(self.engine, self.log, returncode)

    def _fatal(self) -> Failure | None:
        text = self.log.new()
        found = self.engine.failure(text, None) if text else None
        if found is None:
            return None
        self._settle()
        return diagnose(self.engine, self.log, self.handle.returncode()) or found

    def _settle(self) -> None:
        """Let a traceback finish: until the process ends or the log is quiet, for a moment at most."""
        deadline, size = time.monotonic() + _SETTLE_S, -1
        while time.monotonic() < deadline and self.handle.returncode() is None and size != self.log.size():
            size = self.log.size()
            time.sleep(0.3)

    def _too_long(self) -> Failure | None:
        if time.monotonic() - self._began < self.limits.start_timeout_s:
            return None
        return Failure(
            "start-timeout", f"not ready within start_timeout_s = {self.limits.start_timeout_s:g} s: {self.missing}"
        )

    def _stalled(self) -> Failure | None:
        """An idle server still uses some CPU: less than 2 % of one core is no work."""
        now, size, cpu = time.monotonic(), self.log.size(), self.handle.cpu_seconds()
        when, size_then, cpu_then = self._progress
        if size != size_then or cpu - cpu_then > max(0.05, 0.02 * (now - when)):
            self._progress = (now, size, cpu)
        elif cpu < cpu_then:  # a child ended and took its count along
            self._progress = (when, size, cpu)
        elif now - when >= self.limits.stall_timeout_s:
            return Failure(
                "start-stall",
                f"no new log line and no CPU time for stall_timeout_s = {self.limits.stall_timeout_s:g} s: "
                f"{self.missing}",
            )
        return None


def _answer(asked: Future[Ready | Failure | str], wait_s: float) -> Ready | Failure | str | None:
    try:
        return asked.result(wait_s)
    except NotYet:
        return None


def _stranger(handle: Handle, port: int) -> Failure | None:
    """Asked twice: between two looks our own server may have begun to listen, or another one have gone."""
    holders = ports.holders(port)
    if not holders or handle.owns_listener(port) is not False or ports.holders(port) != holders:
        return None
    return Failure("port-taken", f"port {port} was taken by another process while ours started: "
                   f"{ports.describe_holder(port)}; free it or choose another port")  # fmt: skip


def _served(http: httpx.Client, engine: Engine, launch: Launch, limits: Limits) -> Ready | str:
    health = http.get(engine.health_path)
    if health.status_code != 200:
        return f"{engine.health_path} answers {health.status_code}"
    models = _json(http.get("/v1/models"))
    names = [str(entry.get("id")) for entry in models.get("data") or [] if isinstance(entry, Mapping)]
    if not names:
        return "/v1/models names no model"
    name = launch.model if launch.model in names else names[0]
    body = {"model": name, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
    reply = http.post("/v1/completions", json=body, timeout=limits.completion_timeout_s)
    if reply.status_code != 200:
        return f"a completion of one token is answered with {reply.status_code}: {reply.text[:200]}"
    completion = _json(reply)
    if not completion.get("choices"):
        return f"a completion of one token came back empty: {reply.text[:200]}"
    if completion.get("model", name) != name:
        return f"a completion for {name} was answered by {completion['model']}"
    return Ready(name, proven=False)


def _json(reply: httpx.Response) -> Mapping[str, Any]:
    """Empty where the reply is no JSON object."""
    try:
        value = reply.json() if reply.status_code == 200 else {}
    except ValueError:
        return {}
    return value if isinstance(value, Mapping) else {}


def _with_log(failure: Failure, log: LogTail) -> Failure:
    return replace(failure, log=failure.log or log.tail(), hop=failure.hop or "ready")


def _lines(text: str) -> str:
    """A progress bar redraws its line with a carriage return: each drawing becomes a line."""
    return text.replace("\r\n", "\n").replace("\r", "\n")

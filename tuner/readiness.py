"""Waiting for a server: until it has answered a real request, or until it cannot any more."""

from __future__ import annotations

import codecs
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuner.asking import Asker, Limits, Ready
from tuner.engines import Engine, logs
from tuner.engines.sieve import sieve
from tuner.launchers import Handle
from tuner.trial import Failure, Launch

logger = logging.getLogger(__name__)

TAIL_BYTES = 16_384
_PIECE_BYTES = 1_048_576
_SETTLE_S = 2.0
FIRST_COMPLETION = "waiting for a first completion"


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Waiting:
    """How a wait stands. `phase`: what is waited for, once the log cannot tell; `silence`: for how long nothing was
    heard, and when it is given up."""

    phase: str
    silence: str


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

    def pieces(self) -> Iterator[bytes]:
        """All that was written, from the start."""
        try:
            with self.path.open("rb") as log:
                log.seek(self._start)
                while piece := log.read(_PIECE_BYTES):
                    yield piece
        except FileNotFoundError:
            return

    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def _bytes(self, start: int) -> bytes:
        try:
            with self.path.open("rb") as log:
                log.seek(start)
                return log.read(4 * _PIECE_BYTES)
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
    on_turn: Callable[[Waiting], None] = lambda waiting: None,
) -> Ready | Failure:
    """Ready: the listener is ours (where that can be told), health answers 200, and one token came back under the
    served name. A failure as soon as one is certain. `on_turn` is called at every look."""
    asker = Asker(handle, launch, engine, url, limits)
    wait = _Wait(handle, engine, log, limits, stop, asker)
    pool = ThreadPoolExecutor(1, thread_name_prefix="readiness")
    try:
        asked = pool.submit(asker.ask)
        while True:
            pause = wait.pause()
            answer = _answer(asked, pause)
            if isinstance(answer, Ready | Failure):
                return _with_log(answer, log) if isinstance(answer, Failure) else answer
            on_turn(wait.waiting())
            if failure := wait.failure(answer):
                return _with_log(failure, log)
            if asked.done():
                time.sleep(pause)
                asked = pool.submit(asker.ask)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def diagnose(engine: Engine, log: LogTail, returncode: int | None) -> Failure | None:
    """The cause that the whole log shows, however long it is, where it stands, and the lines around it."""
    sieved = sieve(log.pieces())
    failure = engine.failure(sieved.text, returncode)
    if failure is not None and failure.line is not None:
        failure = replace(failure, line=sieved.number(failure.line))
    if failure is None and returncode is not None:
        last = logs.last_line(log.tail()) or "nothing"
        failure = Failure("crash", f"the server ended with exit code {returncode}; its last line: {last}")
    return _with_log(failure, log) if failure else None


@dataclass
class _Wait:
    """What ends a wait without an answer, asked in the order of certainty."""

    handle: Handle
    engine: Engine
    log: LogTail
    limits: Limits
    stop: threading.Event | None
    asker: Asker
    missing: str = "it was not asked yet"
    _began: float = field(default_factory=time.monotonic)
    _progress: tuple[float, int, float] = (0.0, -1, 0.0)  # when, log size, CPU seconds
    _logged: tuple[float, int] = (0.0, -1)  # when, log size

    def failure(self, missing: str | None) -> Failure | None:
        self.missing = missing or self.missing
        if self.stop is not None and self.stop.is_set():
            return Failure("interrupted", "stopped by request while the server was starting")
        return self._ended() or self._fatal() or self.asker.sick() or self._too_long() or self._stalled()

    def waiting(self) -> Waiting:
        return Waiting(FIRST_COMPLETION if self.asker.healthy else "", self._silence())

    def pause(self) -> float:
        """5 % of the time waited so far: short starts are seen at once, long ones cost nothing."""
        return min(max(0.05, 0.05 * (time.monotonic() - self._began)), self.limits.poll_s)

    def _silence(self) -> str:
        now, size = time.monotonic(), self.log.size()
        if size != self._logged[1]:
            self._logged = (now, size)
        quiet, idle = now - self._logged[0], now - self._progress[0]
        if quiet < self.limits.heartbeat_s:
            text = f"still starting after {now - self._began:.0f} s"
        elif idle >= quiet / 2:
            return f"no new log line for {min(quiet, idle):.0f} s (given up at {self._patience():g} s)"
        else:
            text = f"no new log line for {quiet:.0f} s, but it uses CPU time"
        return f"{text} (given up {self.limits.start_timeout_s:g} s after its start)"

    def _patience(self) -> float:
        """Seconds without any sign of work. What listens should soon say something."""
        stall = self.limits.stall_timeout_s
        return min(stall, 2 * self.limits.completion_timeout_s) if self.asker.unanswered else stall

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
        elif now - when >= (patience := self._patience()):
            limit = "stall_timeout_s = " if patience == self.limits.stall_timeout_s else ""
            return Failure("start-stall", f"no new log line and no CPU time for {limit}{patience:g} s: {self.missing}")
        return None


def _answer(asked: Future[Ready | Failure | str], wait_s: float) -> Ready | Failure | str | None:
    try:
        return asked.result(wait_s)
    except NotYet:
        return None


def _with_log(failure: Failure, log: LogTail) -> Failure:
    return replace(failure, log=failure.log or log.tail(), hop=failure.hop or "ready")


def _lines(text: str) -> str:
    """A progress bar redraws its line with a carriage return: each drawing becomes a line."""
    return text.replace("\r\n", "\n").replace("\r", "\n")

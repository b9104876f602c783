"""A launched engine from before its launch to proven gone."""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tuner.asking import Limits, Ready
from tuner.engines import Engine
from tuner.launchers import Handle, Identity, Launcher
from tuner.node import gpu, ports
from tuner.node.processes import boot_id
from tuner.readiness import DEFAULT_LIMITS, FIRST_COMPLETION, TAIL_BYTES, LogTail, Waiting, diagnose, wait_until_ready
from tuner.trial import Failure, Launch, Slot

__all__ = ["LaunchFailed", "Limits", "Server", "serve"]

logger = logging.getLogger(__name__)

LOG_NAME = "server.log"
_RECORD_GAP_S = 1.0
_PORT_WAIT_S = 10.0
_LEFT_BEHIND_GRACE_S = 3.0  # for children whose parent has ended: there is nothing left to drain
_SAYS_READY = "ready"


class LaunchFailed(Exception):
    """Carries a launch's `failure` out of `serve`. Never shown to people: evaluation makes an Outcome of it.

    `timings` is complete once the exception has left `serve`.
    """

    def __init__(self, failure: Failure, timings: dict[str, float]) -> None:
        self.failure, self.timings = failure, timings
        super().__init__(str(failure))


class Server:
    """A server that has answered. `timings`: seconds by hop (launch, ready, and stop once it is over)."""

    def __init__(
        self, url: str, ready: Ready, handle: Handle, engine: Engine, log: LogTail, timings: dict[str, float]
    ) -> None:
        self.url, self.model, self.proven = url, ready.model, ready.proven
        self.log, self.timings = log.path, timings
        self._handle, self._engine, self._log = handle, engine, log

    def alive(self) -> bool:
        return self._handle.returncode() is None

    def log_text(self, tail: int = TAIL_BYTES) -> str:
        """The last `tail` bytes of what this launch wrote."""
        return self._log.tail(tail)

    def identity(self) -> Identity:
        return self._handle.identity()

    def check(self) -> Failure | None:
        """Whether it died or said something fatal since the last call: cheap enough to ask while it is measured.

        Call it from one thread.
        """
        text = self._log.new()
        returncode = self._handle.returncode()
        if returncode is None and not (text and self._engine.failure(text, None)):
            return None
        failure = diagnose(self._engine, self._log, returncode)
        if failure is None:
            return None
        kind = "crash-under-load" if failure.kind in ("crash", "unknown") else failure.kind
        return replace(failure, kind=kind, hop="benchmark")


@contextmanager
def serve(
    launch: Launch,
    engine: Engine,
    launcher: Launcher,
    slot: Slot,
    limits: Limits = DEFAULT_LIMITS,
    record: Callable[[Identity], None] = lambda identity: None,
    stop: threading.Event | None = None,
    *,
    on_progress: Callable[[str], None] = lambda text: None,
    gpus: Sequence[gpu.Gpu] = (),
    nvml: gpu.Nvml | None = None,
) -> Iterator[Server]:
    """Start, wait until it has answered a request, lend it, and end it whatever happens.

    `record` stores the identity before anything is started (marker only) and again as processes appear; it may
    raise. `gpus` are real ones whose memory must be back afterwards. `stop` ends the wait for readiness.
    Output goes to `server.log` in the slot's folder; an attached launcher starts and stops nothing.

    Raises:
        LaunchFailed: it did not become ready; everything is stopped again when this leaves.
        NodeSick: a process survives SIGKILL, or GPU memory does not come back.
    """
    timings: dict[str, float] = {}
    begun = time.monotonic()
    slot = replace(slot, folder=slot.folder.resolve())
    url = launcher.url or launch.url
    if failure := _prepare(launch, launcher, slot, limits, stop):
        raise LaunchFailed(replace(failure, hop="launch"), timings)
    log = LogTail(slot.folder / LOG_NAME)
    identity = Identity(launcher.type, secrets.token_hex(16), boot_id())
    record(identity)
    resting = gpu.used(gpus, nvml)
    handle: Handle | None = None
    try:
        handle = _start(launch, launcher, slot, log, identity, timings)
        timings["launch"], begun = time.monotonic() - begun, time.monotonic()
        watch = _Watch(handle, engine, log, record, on_progress, limits.heartbeat_s)
        ready = wait_until_ready(handle, launch, engine, log, url, limits, stop, watch.turn)
        timings["ready"] = time.monotonic() - begun
        if isinstance(ready, Failure):
            raise LaunchFailed(ready, timings)
        watch.tell_members()
        yield Server(url, ready, handle, engine, log, timings)
    finally:
        begun = time.monotonic()
        try:
            _end(handle, launcher, identity, slot, limits)
            gpu.wait_until_free(gpus, resting, limits.memory_timeout_s, nvml)
        finally:
            timings["stop"] = time.monotonic() - begun


class _Watch:
    """What is told while a server starts: new members at most once a second, what it is doing, and after every
    `heartbeat_s` without a word how long it has been silent."""

    def __init__(
        self,
        handle: Handle,
        engine: Engine,
        log: LogTail,
        record: Callable[[Identity], None],
        on_progress: Callable[[str], None],
        heartbeat_s: float,
    ) -> None:
        self._heartbeat_s, self._said = heartbeat_s, time.monotonic()
        self._handle, self._engine, self._log = handle, engine, log
        self._record, self._on_progress = record, on_progress
        self._progress = ""
        self._recorded = handle.identity()
        self._when = time.monotonic()
        record(self._recorded)

    def turn(self, waiting: Waiting) -> None:
        if time.monotonic() - self._when >= _RECORD_GAP_S:
            self.tell_members()
        text = waiting.phase or self._engine.progress(self._log.tail(TAIL_BYTES))
        if text == _SAYS_READY:  # its word alone
            text = FIRST_COMPLETION
        if text and text != self._progress:
            self._progress = text
            self._tell(text)
        elif time.monotonic() - self._said >= self._heartbeat_s:
            self._tell(waiting.silence)

    def _tell(self, text: str) -> None:
        self._said = time.monotonic()
        self._on_progress(text)

    def tell_members(self) -> None:
        identity = self._handle.identity()
        if identity != self._recorded:
            self._record(identity)
            self._recorded, self._when = identity, time.monotonic()


def _prepare(
    launch: Launch, launcher: Launcher, slot: Slot, limits: Limits, stop: threading.Event | None
) -> Failure | None:
    if stop is not None and stop.is_set():
        return Failure("interrupted", "stopped by request before the server was started")
    slot.folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(slot.folder).free
    if free < limits.disk_floor_bytes:
        return Failure(
            "disk-full",
            f"a launch needs {limits.disk_floor_bytes / 1e6:.0f} MB free for logs and results (got {free / 1e6:.0f} MB "
            f"in {slot.folder}); free some, or put the study on another disk",
        )
    if launcher.url is not None:
        return None
    for name, text in launch.files.items():
        _write(slot.folder, name, text)
    if ports.is_free(slot.port):
        return None
    return Failure(
        "port-taken",
        f"port {slot.port} must be free before a launch, but {ports.describe_holder(slot.port)} listens on it",
    )


def _write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"a launch's files stay in its slot's folder (got {name})")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _start(
    launch: Launch, launcher: Launcher, slot: Slot, log: LogTail, identity: Identity, timings: dict[str, float]
) -> Handle:
    try:
        return launcher.start(launch, log.path, identity.marker, slot.folder)
    except (FileNotFoundError, PermissionError) as error:
        raise LaunchFailed(Failure("not-installed", str(error), hop="launch"), timings) from error
    except OSError as error:
        raise LaunchFailed(Failure("unknown", f"could not be started: {error}", hop="launch"), timings) from error


def _end(handle: Handle | None, launcher: Launcher, identity: Identity, slot: Slot, limits: Limits) -> None:
    """Stop it; where an interruption came in the middle of starting, only the marker tells what was started."""
    if handle is None:
        launcher.reap(identity)
    else:
        ended = handle.returncode() is not None
        handle.stop(min(limits.grace_s, _LEFT_BEHIND_GRACE_S) if ended else limits.grace_s)
    if launcher.url is not None:
        return
    deadline = time.monotonic() + _PORT_WAIT_S
    while not ports.is_free(slot.port):
        if ports.holders(slot.port) or time.monotonic() > deadline:
            logger.warning("port %d is still held by %s", slot.port, ports.describe_holder(slot.port))
            return
        time.sleep(0.05)

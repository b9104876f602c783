"""Trials on this machine: one slot with the node's GPUs and a port, one launch after the other."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext

from tuner.benchmarks import client
from tuner.engines import engine
from tuner.errors import TunerError
from tuner.evaluation import Place, evaluate
from tuner.executors import COMPARE, Job
from tuner.launchers import Identity, Launcher, launcher
from tuner.node import gpu, ports
from tuner.node.locks import free_port, node_locks
from tuner.server import Limits
from tuner.spec import StudySpec
from tuner.storage import StudyPaths, TrialPaths, file_errors, read_json, write_json
from tuner.trial import Failure, Outcome, Settings, Slot

logger = logging.getLogger(__name__)

_PORT_WAIT_S = 5.0


class LocalExecutor:
    """Runs one job at a time in a thread of its own.

    Entering it takes the node's GPUs and a port, and ends what an earlier, killed run of this study left.

    Raises:
        StudyLocked: on entering, when another study has them.
        SpecError: on entering, when the node does not have the GPUs the study asks for.
        TunerError: on entering, when somebody else listens on the study's port.
    """

    slots = 1

    def __init__(
        self, spec: StudySpec, paths: StudyPaths, notify: Callable[[Job, str], None] = lambda job, text: None
    ) -> None:
        self._spec, self._paths, self._notify = spec, paths, notify
        self._stop = threading.Event()
        self._results: queue.Queue[tuple[Job, Outcome | BaseException]] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._held = ExitStack()
        self._launchers = {
            name: launcher(each.launcher, **each.launcher_options) for name, each in spec.engines.items()
        }
        self._client = client(spec.benchmark.client, spec.benchmark.processes)
        self.reaped: list[int] = []

    def __enter__(self) -> LocalExecutor:
        with ExitStack() as held:
            study = str(self._paths.folder)
            self._gpus = gpu.visible(self._spec.node)
            held.enter_context(node_locks([each.uuid for each in self._gpus], [], study))
            if self._spec.node.port is not None:
                held.enter_context(node_locks([], [self._spec.node.port], study))
            self.reaped = reap(self._paths, self._launchers)
            self._refuse_taken_port()
            self._held = held.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self.interrupt()
        if self._thread is not None:
            self._thread.join()
        self._held.close()

    def submit(self, job: Job) -> None:
        self._thread = threading.Thread(target=self._work, args=(job,), name=f"trial-{job.number}", daemon=True)
        self._thread.start()

    def completed(self, timeout_s: float) -> list[tuple[Job, Outcome]]:
        try:
            job, result = self._results.get(timeout=timeout_s)
        except queue.Empty:
            return []
        if isinstance(result, BaseException):
            raise result
        return [(job, result)]

    def interrupt(self) -> None:
        self._stop.set()

    def _work(self, job: Job) -> None:
        try:
            self._results.put((job, self._evaluate(job)))
        except BaseException as error:  # crosses the thread: `completed` raises it again
            self._results.put((job, error))

    def _evaluate(self, job: Job) -> Outcome:
        spec = self._spec.engines[job.settings.engine]
        adapter = engine(spec.name, spec.version)
        failure = self._too_many_gpus(job.settings, adapter.gpus(job.settings)) or self._foreign(job)
        if failure is not None:
            return Outcome(failure=failure, fingerprint=job.settings.fingerprint)
        place = Place(
            engine=adapter,
            launcher=self._launchers[spec.name],
            client=self._client,
            benchmark=self._spec.benchmark,
            limits=Limits(start_timeout_s=spec.start_timeout_s, stall_timeout_s=spec.stall_timeout_s),
            gpus=self._gpus,
            version=spec.version,
        )
        files = trial_paths(self._paths, job)
        _clear(files)
        with self._port() as port:
            outcome = evaluate(
                job,
                place,
                Slot(port=port, folder=files.folder.absolute()),
                record=lambda identity: write_json(files.server, identity.as_json()),
                stop=self._stop,
                notify=lambda text: self._notify(job, text),
            )
        files.server.unlink(missing_ok=True)  # proven gone: nothing to reap
        return outcome

    def _port(self) -> AbstractContextManager[int]:
        """The study's port, else a fresh one for each launch: a killed server's peers may still call the last one."""
        fixed = self._spec.node.port
        return free_port(study=str(self._paths.folder)) if fixed is None else nullcontext(fixed)

    def _refuse_taken_port(self) -> None:
        """Before a trial is spent on it. A server of ours that was just ended may take a moment to let go."""
        port = self._spec.node.port
        if port is None or all(each.url is not None for each in self._launchers.values()):
            return
        deadline = time.monotonic() + _PORT_WAIT_S
        while not ports.is_free(port):
            if ports.holders(port) or time.monotonic() > deadline:
                raise TunerError(
                    f"node.port is {port}, but {ports.describe_holder(port)} listens on it; "
                    "end it, write another port, or leave node.port out"
                )
            time.sleep(0.05)

    def _too_many_gpus(self, settings: Settings, each: int) -> Failure | None:
        wanted = each * settings.replicas
        present = self._spec.node.simulated or len(self._gpus)
        if not present or wanted <= present:
            return None
        return Failure("invalid-config", f"it takes {wanted} GPUs and the study has {present}", hop="launch")

    def _foreign(self, job: Job) -> Failure | None:
        """What the study says about somebody else on our GPUs, just before a launch."""
        deadline = time.monotonic() + self._spec.node.foreign_wait_s
        while (failure := gpu.check_free(gpu.look(self._gpus), [os.getpid()])) is not None:
            if self._spec.node.foreign == "warn":
                logger.warning("%s", failure.message)
                return None
            if self._spec.node.foreign == "refuse" or time.monotonic() > deadline:
                return failure
            self._notify(job, f"waiting for the GPUs: {failure.message}")
            if self._stop.wait(5.0):
                return Failure("interrupted", "stopped by request while the GPUs were busy", hop="launch")
        return None


def trial_paths(paths: StudyPaths, job: Job) -> TrialPaths:
    """The folder of a job's launch."""
    return paths.comparison_trial(job.settings.fingerprint) if job.phase == COMPARE else paths.trial(job.number)


def reap(paths: StudyPaths, launchers: dict[str, Launcher]) -> list[int]:
    """End the servers that a killed run of this study left; the pids ended. Proven by the record, nothing else."""
    ended: list[int] = []
    by_type = {each.type: each for each in launchers.values()}
    for files in paths.trials():
        identity = _identity(files)
        if identity is None:
            continue
        pids = (by_type.get(identity.launcher) or launcher(identity.launcher)).reap(identity)
        if pids:
            logger.info("ended the server that trial %s left: pids %s", files.folder.name, pids)
        ended += pids
        files.server.unlink(missing_ok=True)
    return ended


def _identity(files: TrialPaths) -> Identity | None:
    """Who the server of this launch was; None where none is recorded, or the record is damaged."""
    stored = read_json(files.server)
    try:
        return Identity.from_json(stored) if stored is not None else None
    except (KeyError, TypeError, ValueError):
        logger.warning("%s does not say which server it was; if one is left, end it by hand", files.server)
        return None


def _clear(files: TrialPaths) -> None:
    """A launch starts with an empty log. The folder may be left from a run that was killed before it was counted."""
    with file_errors(files.folder):
        files.folder.mkdir(parents=True, exist_ok=True)
        files.log.unlink(missing_ok=True)

"""Running a study: locks, signals, what is told, and how it ends. Prints nothing itself."""

from __future__ import annotations

import logging
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tuner.archive import Archive
from tuner.console import Console
from tuner.driving import Say, study_of, width
from tuner.errors import SpecError, StorageError
from tuner.executors.local import LocalExecutor
from tuner.history import History
from tuner.node.locks import study_lock
from tuner.report.text import terminal
from tuner.search import Done
from tuner.search.hopeless import Hopeless
from tuner.server import Limits
from tuner.spec import StudySpec, check_files
from tuner.storage import (
    StudyPaths,
    check_writable,
    forget_stop,
    use_reserved_room,
    write_json,
)
from tuner.study import Limit, Progress, Stop, deadline, launch_command, write_reports
from tuner.study import run as run_study

logger = logging.getLogger(__name__)


def run(
    path: Path,
    until: str | None,
    trials: int | None,
    method: str | None,
    retry_failed: bool,
    say: Say,
    show: Say,
    only_resume: bool = False,
) -> int:
    """Run a study to its end or until it is stopped; the exit code."""
    began = time.time()
    spec, paths = study_of(path, method)
    _check(spec, paths)
    if only_resume:
        Archive(spec, paths)
    check_writable(paths)
    stop = Stop()
    console = Console(say, spec)
    with ExitStack() as held:
        held.enter_context(study_lock(paths.folder))
        held.enter_context(_signals(stop, say))
        held.callback(use_reserved_room, paths)
        forget_stop(paths)
        archive = Archive(spec, paths, create=True, room_bytes=Limits().disk_floor_bytes)
        executor = held.enter_context(LocalExecutor(spec, paths, notify=_noting(paths, console)))
        for note in spec.notes:
            console.note(note)
        _tell_taken_up(archive, executor, console)
        if retry_failed and (again := archive.retry_failed()):
            console.note(f"no longer counted, as asked: failed trials {_numbers(again)}")
        _tell_what_is_left(archive, console)
        limit = Limit(_deadline(spec, began, until), trials, spec.budget.trials)
        try:
            reason = run_study(archive, executor, stop, limit, console)
        finally:
            with suppress(OSError):
                paths.now.unlink(missing_ok=True)
        told = write_reports(archive)
    show(terminal(told, launch_command(told), width()))
    return _ended(told, reason, stop, paths, say)


def _check(spec: StudySpec, paths: StudyPaths) -> None:
    if paths.replayed.exists():
        raise SpecError(f"{paths.folder}: this is a replay, which launches nothing; run the study it was made from")
    if faults := check_files(spec):
        raise SpecError(faults)


def _deadline(spec: StudySpec, began: float, until: str | None) -> float | None:
    try:
        asked = deadline(began, None, until)
    except ValueError:
        raise SpecError(f"--until must be a time of day as HH:MM (got {until})") from None
    budget = deadline(began, spec.budget.wall_time_s, spec.budget.until)
    return min((end for end in (asked, budget) if end is not None), default=None)


def _tell_taken_up(archive: Archive, executor: LocalExecutor, console: Console) -> None:
    """What was found of earlier runs, and what became of it."""
    if executor.reaped:
        console.note(f"ended what a killed run had left: pids {', '.join(map(str, executor.reaped))}")
    if closed := archive.recover():
        console.note(f"left running by a killed run, and now closed: trial {_numbers(closed)}")
    if (taken := archive.carry_over()) is not None:
        console.note(
            f"the study was edited: it goes on as {archive.name}; {taken.counted} of {taken.of} trials of "
            f"{taken.earlier} still count, its logs are kept in trials-{taken.earlier}"
        )


def _tell_what_is_left(archive: Archive, console: Console) -> None:
    known = archive.trials()
    console.knows(known)
    if known and archive.asked_by() != archive.spec.method.name:
        console.note(f"begun by method {archive.asked_by()}, goes on by {archive.spec.method.name}; its trials count")
    if isinstance(archive.decide(known), Done):
        again = f"move {archive.paths.database.name} away" if archive.spec.storage is None else "name another storage"
        console.note(f"the search is over, with {len(known)} trials; to search again from the start, {again}")
    elif known:
        console.note(f"continuing with {len(known)} trials already in {archive.paths.folder}")


def _numbers(trials: Sequence[int]) -> str:
    return ", ".join(map(str, trials))


def _noting(paths: StudyPaths, console: Console) -> Callable[..., None]:
    """Keeps what runs now where `tuner status` finds it."""

    def note(job: Any, text: str) -> None:
        console(Progress("doing", text, job.number, job=job))
        now = {
            "trial": job.number,
            "phase": job.phase,
            "configuration": dict(job.configuration),
            "doing": text,
            "since": time.time(),
        }
        try:
            write_json(paths.now, now)
        except StorageError as error:  # no reason to lose the trial that runs
            logger.warning("%s", error)

    return note


@contextmanager
def _signals(stop: Stop, say: Say) -> Iterator[None]:
    """The first signal stops the server and leaves the study resumable; a second one ends without waiting longer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def asked(number: int, frame: object) -> None:
        if stop.now.is_set():
            raise KeyboardInterrupt
        stop.now.set()
        say(f"{signal.Signals(number).name}: stopping the server, then ending; the study can be resumed")

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup: the terminal may go
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, asked) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ended(told: History, reason: str, stop: Stop, paths: StudyPaths, say: Say) -> int:
    """Say how it ended and where to go on; the exit code."""
    if reason:
        say(f"not finished: {reason}; continue with: tuner run {shlex.quote(str(paths.folder))}")
    if stop.now.is_set():
        return 130
    if isinstance(reason, Hopeless):
        return 1
    if isinstance(told.decision, Done) and told.decision.best is None:
        say(
            "nothing could be measured; the failures above and the logs in trials/ say why; "
            f"once mended: tuner run --retry-failed {shlex.quote(str(paths.folder))}"
        )
        return 1
    say(f"report: {paths.report_html}  command: {paths.launch_script}")
    return 0

"""What the commands do: a study's folder and file to a run, a replay, a status, an export. Prints nothing itself."""

from __future__ import annotations

import json
import logging
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.archive import Archive
from tuner.console import Console
from tuner.errors import SpecError, StorageError, TunerError
from tuner.executors.local import LocalExecutor
from tuner.executors.recorded import RecordedExecutor, Recording, load_recording, recording_of
from tuner.exporters import export
from tuner.history import History
from tuner.node.gpu import visible
from tuner.node.locks import study_holder, study_lock
from tuner.report.plan import command
from tuner.report.status import as_json, status_text
from tuner.report.text import terminal
from tuner.search import Done
from tuner.server import Limits
from tuner.spec import StudySpec, check_files, load
from tuner.storage import (
    StudyPaths,
    check_writable,
    file_errors,
    forget_stop,
    read_json,
    request_stop,
    use_reserved_room,
    write_json,
)
from tuner.study import Limit, Progress, Stop, deadline, history, launch_command, write_reports
from tuner.study import run as run_study

logger = logging.getLogger(__name__)

Say = Callable[[str], None]

_WATCH_S = 2.0


def study_of(path: Path, method: str | None = None) -> tuple[StudySpec, StudyPaths]:
    """The study a person names, and where it writes. A replay's folder names the study it replays.

    Raises:
        SpecError
    """
    folder = path if path.is_dir() else path.parent
    replayed = read_json(folder / StudyPaths(folder).replayed.name) if path.is_dir() else None
    if replayed is None:
        spec = load(path, method)
        return spec, StudyPaths(spec.folder)
    if not isinstance(replayed.get("study"), str):
        file = StudyPaths(folder).replayed
        raise SpecError(f"{file}: is damaged, it names no study; replay the study again, or remove the file")
    spec = load(folder / replayed["study"], method or replayed.get("method"))
    return spec, StudyPaths(folder)


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
    show(terminal(told, launch_command(told), _width()))
    return _ended(told, reason, stop, paths, say)


def wanting(spec: StudySpec) -> list[str]:
    """What a plan does not need and a run would: what is left out of the study, files and GPUs that are not here."""
    try:
        visible(spec.node)
    except SpecError as error:
        gpus = [f"a run would be refused: {error}"]
    else:
        gpus = []
    return [*spec.notes, *(f"a run would be refused: {fault}" for fault in check_files(spec)), *gpus]


def replay(path: Path, method: str | None, say: Say) -> str:
    """Decide the study again from its recording, or from its own history, into `replay` or `replay-METHOD`."""
    spec, paths = study_of(path, method)
    recording, origin = _recording(spec, paths, path)
    target = StudyPaths(paths.folder / (f"replay-{spec.method.name}" if method else "replay"))
    _start_afresh(target)
    live_free = replace(spec, storage=None)
    with study_lock(target.folder):
        facts = {"study": f"../{(spec.file or Path('study.yaml')).name}", "method": method, "origin": origin}
        write_json(target.replayed, facts | {"source": recording.source})
        archive = Archive(live_free, target, create=True)
        with RecordedExecutor(recording, lambda job: command(spec, job.configuration)) as executor:
            run_study(archive, executor, Stop(), notify=Console(say, spec, brief=True))
        told = write_reports(archive, recording)
    return terminal(told, launch_command(told), _width())


def stop(path: Path, now: bool) -> str:
    """Leave a request for the process that runs the study. The study itself is not read: it may be broken by now.

    Raises:
        TunerError: nobody runs it.
    """
    if not path.exists():
        study_of(path)
    paths = StudyPaths((path if path.is_dir() else path.parent).absolute())
    holder = study_holder(paths.folder)
    if holder is None:
        raise TunerError(f"{paths.folder}: nobody runs this study now; there is nothing to stop")
    request_stop(paths, now)
    when = "gives its trial up and ends" if now else "ends after its running trial"
    return f"asked: pid {holder.pid} {when}; continue later with: tuner run {shlex.quote(str(path))}"


def status(path: Path, watch: bool, as_data: bool, show: Say) -> None:
    """Show how a study stands, once or again and again until it is interrupted."""
    while True:
        told, now = _history(path), _now(study_of(path)[1])
        holder = study_holder(study_of(path)[1].folder)
        running = now if holder is not None else None
        by = str(holder) if holder is not None else None
        show(json.dumps(as_json(told, running, by), indent=1) if as_data else status_text(told, running, by, _width()))
        if not watch or isinstance(told.decision, Done):
            return
        time.sleep(_WATCH_S)


def report(path: Path, say: Say) -> str:
    """Write the reports anew; the terminal's summary."""
    spec, paths = study_of(path)
    check_writable(paths)
    told = write_reports(Archive(spec, paths), _recording_of_replay(spec, paths))
    say(f"wrote {paths.report_markdown} and {paths.report_html}")
    return terminal(told, launch_command(told), _width())


def exported(path: Path, format: str) -> str:
    """The best launch command in a format.

    Raises:
        TunerError: nothing has been measured, or there is no such format.
    """
    return export(_history(path), format).rstrip("\n")


def _width() -> int:
    """Characters in a line of output: the terminal's, else 120."""
    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else 120


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


def _now(paths: StudyPaths) -> dict[str, Any] | None:
    """What a run noted last; None where that is not whole."""
    now = read_json(paths.now) or {}
    whole = {"trial", "phase", "configuration", "doing"} <= set(now) and isinstance(now.get("since"), (int, float))
    return now if whole else None


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
    if isinstance(told.decision, Done) and told.decision.best is None:
        say(
            "nothing could be measured; the failures above and the logs in trials/ say why; "
            f"once mended: tuner run --retry-failed {shlex.quote(str(paths.folder))}"
        )
        return 1
    say(f"report: {paths.report_html}  command: {paths.launch_script}")
    return 0


def _recording(spec: StudySpec, paths: StudyPaths, path: Path) -> tuple[Recording, str]:
    """recorded.yaml if it is there, else the study's own history."""
    if paths.recorded.exists():
        return load_recording(paths.recorded, spec), "recorded"
    try:
        told = history(Archive(spec, paths))
    except StorageError as error:
        raise SpecError(f"{path}: nothing to replay: neither {paths.recorded.name} nor a history ({error})") from error
    identity = spec.space.identity
    outcomes = [(identity(t.configuration), t.outcome) for t in told.trials if t.outcome is not None]
    return recording_of(outcomes, spec.objective.workload), "recorded" if told.origin == "live" else told.origin


def _recording_of_replay(spec: StudySpec, paths: StudyPaths) -> Recording | None:
    recorded = StudyPaths(spec.folder).recorded
    return load_recording(recorded, spec) if paths.replayed.exists() and recorded.exists() else None


def _history(path: Path) -> History:
    spec, paths = study_of(path)
    spec = replace(spec, storage=None) if paths.replayed.exists() else spec
    return history(Archive(spec, paths), _recording_of_replay(spec, paths))


def _start_afresh(target: StudyPaths) -> None:
    """Empty a replay's folder; one that is not a replay's is left alone."""
    if target.folder.exists() and any(target.folder.iterdir()) and not target.replayed.exists():
        raise TunerError(f"{target.folder} is not a replay's folder and is not overwritten; move it away")
    with file_errors(f"{target.folder} (a replay is written beside its study)"):
        shutil.rmtree(target.folder, ignore_errors=False) if target.folder.exists() else None
        target.folder.mkdir(parents=True)

"""What the commands but `run` do: replay, stop, status, report, export. Prints nothing itself."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.archive import Archive
from tuner.console import Console
from tuner.errors import SpecError, StorageError, TunerError
from tuner.executors.recorded import RecordedExecutor, Recording, load_recording, recording_of
from tuner.exporters import export
from tuner.history import History
from tuner.node.gpu import visible
from tuner.node.locks import study_holder, study_lock
from tuner.report.plan import command
from tuner.report.status import as_json, status_text
from tuner.report.text import terminal
from tuner.search import Done
from tuner.spec import StudySpec, check_files, load
from tuner.storage import (
    StudyPaths,
    check_writable,
    file_errors,
    read_json,
    request_stop,
    write_json,
)
from tuner.study import Stop, history, launch_command, write_reports
from tuner.study import run as run_study

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
    return terminal(told, launch_command(told), width())


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
        show(json.dumps(as_json(told, running, by), indent=1) if as_data else status_text(told, running, by, width()))
        if not watch or isinstance(told.decision, Done):
            return
        time.sleep(_WATCH_S)


def report(path: Path, say: Say) -> str:
    """Write the reports anew; the terminal's summary."""
    spec, paths = study_of(path)
    check_writable(paths)
    told = write_reports(Archive(spec, paths), _recording_of_replay(spec, paths))
    say(f"wrote {paths.report_markdown} and {paths.report_html}")
    return terminal(told, launch_command(told), width())


def exported(path: Path, format: str) -> str:
    """The best launch command in a format.

    Raises:
        TunerError: nothing has been measured, or there is no such format.
    """
    return export(_history(path), format).rstrip("\n")


def width() -> int:
    """Characters in a line of output: the terminal's, else 120."""
    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else 120


def _now(paths: StudyPaths) -> dict[str, Any] | None:
    """What a run noted last; None where that is not whole."""
    now = read_json(paths.now) or {}
    whole = {"trial", "phase", "configuration", "doing"} <= set(now) and isinstance(now.get("since"), (int, float))
    return now if whole else None


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

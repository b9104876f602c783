"""The study folder: every file name in one class, whole writes, room on the disk, the request to stop.

study.yaml recorded.yaml            what people write
study.db                            the Optuna studies, one for each identity of the study
trials/NNNN/                        server.log launch.json server.json outcome.json of each launch, records/ of its
                                    requests
comparison/                         baseline and winner on the other workloads, where not part of confirming
report.md report.html launch.sh     written again after every trial
.tuner.lock .tuner-now.json .tuner-stop    who drives, what runs now, the request to stop
.tuner-spare                               room on the disk kept for the next outcome, while a run lasts
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import StorageError

# Enough to store the outcome of one trial twice: its file, and its rows with SQLite's write-ahead log.
SPARE_BYTES = 4_000_000


@dataclass(frozen=True)
class TrialPaths:
    """The files of one launch."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def server(self) -> Path:
        """The identity of the server, written before anything waits for it."""
        return self.folder / "server.json"

    @property
    def outcome(self) -> Path:
        return self.folder / "outcome.json"


@dataclass(frozen=True)
class StudyPaths:
    """The only place that knows file names. `folder` is where a run writes: the study's, or its `replay`."""

    folder: Path

    @property
    def database(self) -> Path:
        return self.folder / "study.db"

    @property
    def report_markdown(self) -> Path:
        return self.folder / "report.md"

    @property
    def report_html(self) -> Path:
        return self.folder / "report.html"

    @property
    def launch_script(self) -> Path:
        return self.folder / "launch.sh"

    @property
    def recorded(self) -> Path:
        return self.folder / "recorded.yaml"

    @property
    def replayed(self) -> Path:
        """Names the study that was replayed into this folder, and by which method."""
        return self.folder / "replay.json"

    @property
    def now(self) -> Path:
        return self.folder / ".tuner-now.json"

    @property
    def spare(self) -> Path:
        return self.folder / ".tuner-spare"

    @property
    def stop_request(self) -> Path:
        return self.folder / ".tuner-stop"

    def trial(self, number: int) -> TrialPaths:
        return TrialPaths(self.folder / "trials" / f"{number:04d}")

    def comparison(self, fingerprint: str) -> Path:
        return self.folder / "comparison" / f"{fingerprint}.json"

    def comparison_trial(self, fingerprint: str) -> TrialPaths:
        return TrialPaths(self.folder / "comparison" / fingerprint)

    def claim_trials(self, study: str, fresh: bool) -> None:
        """Let `trials/` be for this Optuna study, whose numbers start anew if it is `fresh`.

        What is there of another edition, or of a database that is gone, is set aside; what was set aside of this
        edition comes back.
        """
        folder, aside = self.folder / "trials", self.folder / f"trials-{study}"
        mark = folder / ".study"
        with file_errors(folder):
            owner = mark.read_text(encoding="utf-8") if mark.is_file() else ""
            if folder.is_dir() and (fresh or owner != study) and any(folder.glob("[0-9]*")):
                folder.rename(_unused(self.folder / f"trials-{owner or 'earlier'}"))
            if not folder.is_dir() and aside.is_dir() and not fresh:
                aside.rename(folder)
            folder.mkdir(exist_ok=True)
            mark.write_text(study, encoding="utf-8")

    def trials(self) -> list[TrialPaths]:
        """Every launch that left a folder, comparison launches included."""
        folders = [*self.folder.glob("trials*/*/"), *self.folder.glob("comparison/*/")]
        return [TrialPaths(folder) for folder in sorted(folders)]


def write(path: Path, text: str) -> None:
    """Write a whole file or nothing: to a temporary name in the same folder, then renamed.

    Raises:
        StorageError: no permission, no space.
    """
    with file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o755 if path.suffix == ".sh" else 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def write_json(path: Path, value: Any) -> None:
    write(path, json.dumps(value, indent=1, default=str) + "\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """The mapping in a JSON file; None where the file is not there, not whole or something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def check_writable(paths: StudyPaths) -> None:
    """Fail before anything starts when the folder cannot be written.

    Raises:
        StorageError
    """
    with file_errors(paths.folder):
        paths.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=paths.folder) as probe:
            probe.write(b"x")
            probe.flush()


def reserve_room(paths: StudyPaths, wanted: int) -> None:
    """Fail before a launch when the folder's disk has less than `wanted` bytes free; keep some for its outcome.

    What the launch has measured then finds room even when the disk fills meanwhile.

    Raises:
        StorageError
    """
    with file_errors(paths.folder):
        free = shutil.disk_usage(paths.folder).free
    if free < wanted:
        raise StorageError(
            f"{paths.folder}: a launch needs {wanted / 1e6:.0f} MB free on this disk for logs and results (got "
            f"{free / 1e6:.0f} MB); make room and run again: what has finished is kept"
        )
    with file_errors(paths.spare), open(paths.spare, "ab") as file:
        os.posix_fallocate(file.fileno(), 0, SPARE_BYTES)


def use_reserved_room(paths: StudyPaths) -> bool:
    """Give the reserved room up; whether there was any."""
    try:
        paths.spare.unlink()
    except OSError:
        return False
    return True


def request_stop(paths: StudyPaths, now: bool) -> None:
    """Ask the process that drives this folder to end: after the running trial, or at once."""
    write(paths.stop_request, "now" if now else "after-trial")


def stop_requested(paths: StudyPaths) -> str | None:
    """`now`, `after-trial` or None."""
    try:
        asked = paths.stop_request.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    return asked if asked in ("now", "after-trial") else None


def forget_stop(paths: StudyPaths) -> None:
    """Drop a request that was left for an earlier run.

    Raises:
        StorageError
    """
    with file_errors(paths.stop_request):
        paths.stop_request.unlink(missing_ok=True)


def _unused(path: Path) -> Path:
    """This name, or the first with a number after it that nothing has."""
    names = (path if number == 1 else path.with_name(f"{path.name}-{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())


@contextmanager
def file_errors(place: Path | str) -> Iterator[None]:
    """Turns what the file system refuses inside into a StorageError that names `place`."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{place}: {error.strerror or error}; {_way_out(error)}") from error


def _way_out(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room on this disk and run again: what has finished is kept"
    if error.errno == errno.EROFS:
        return "the file system is read-only: copy the study to one that can be written"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "give the permission to write, or copy the study to a folder of yours"
    return "see that the folder exists and can be written"

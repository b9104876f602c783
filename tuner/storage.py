"""The study folder: every file name in one class, the Optuna storage, and the requests one process leaves another.

study.yaml recorded.yaml            what people write
study.db                            the Optuna studies, one for each identity of the study
trials/NNNN/                        server.log launch.json server.json outcome.json of each launch
comparison/                         baseline and winner on the other workloads, where not part of confirming
report.md report.html launch.sh     written again after every trial
.tuner.lock .tuner-now.json .tuner-stop    who drives, what runs now, the request to stop
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, RDBStorage
from sqlalchemy.exc import SQLAlchemyError

from tuner.errors import StorageError

# How long a write waits for another process that is writing.
_BUSY_TIMEOUT_S = 60


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
    def stop_request(self) -> Path:
        return self.folder / ".tuner-stop"

    def trial(self, number: int) -> TrialPaths:
        return TrialPaths(self.folder / "trials" / f"{number:04d}")

    def comparison(self, fingerprint: str) -> Path:
        return self.folder / "comparison" / f"{fingerprint}.json"

    def comparison_trial(self, fingerprint: str) -> TrialPaths:
        return TrialPaths(self.folder / "comparison" / fingerprint)

    def set_aside(self, study: str) -> None:
        """Keep the launches of an earlier identity of the study out of the way: numbers start anew."""
        with _clear_errors(self.folder), suppress(FileNotFoundError):
            (self.folder / "trials").rename(self.folder / f"trials-{study}")

    def trials(self) -> list[TrialPaths]:
        """Every launch that left a folder, comparison launches included."""
        folders = [*self.folder.glob("trials/*/"), *self.folder.glob("comparison/*/")]
        return [TrialPaths(folder) for folder in sorted(folders)]


def write(path: Path, text: str) -> None:
    """Write a whole file or nothing: to a temporary name in the same folder, then renamed.

    Raises:
        StorageError: no permission, no space.
    """
    with _clear_errors(path):
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


def read_json(path: Path) -> Any:
    """The value in a JSON file; None where the file is not there or not whole."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def check_writable(paths: StudyPaths) -> None:
    """Fail before anything starts when the folder cannot be written.

    Raises:
        StorageError
    """
    probe = paths.folder / ".tuner-probe"
    write(probe, "x")
    probe.unlink(missing_ok=True)


def open_storage(paths: StudyPaths, url: str | None = None, create: bool = False) -> BaseStorage:
    """The Optuna storage: SQLite in the study folder, or any URL Optuna takes.

    With SQLite a reader never blocks the writer (write-ahead log).

    Raises:
        StorageError: there is none yet (without `create`), or it cannot be read or written.
    """
    if url is None and not create and not paths.database.exists():
        raise StorageError(f"{paths.folder}: nothing has been run here yet; start it with: tuner run {paths.folder}")
    with _clear_errors(paths.database if url is None else Path(url)):
        if url is not None and not url.startswith("sqlite"):
            return optuna.storages.get_storage(url)
        if url is None and create:
            _write_ahead(paths.database)
        return RDBStorage(
            url or f"sqlite:///{paths.database}",
            engine_kwargs={"connect_args": {"timeout": _BUSY_TIMEOUT_S}},
            skip_table_creation=url is None and not create,
        )


def open_study(storage: BaseStorage, name: str, maximize: bool, sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    """The Optuna study of this name, made if it is not there.

    Raises:
        StorageError
    """
    with _clear_errors(Path(name)):
        return optuna.create_study(
            storage=storage,
            study_name=name,
            load_if_exists=True,
            direction="maximize" if maximize else "minimize",
            sampler=sampler,
        )


@contextmanager
def storing(paths: StudyPaths) -> Iterator[None]:
    """Turns what goes wrong with the database inside into a StorageError."""
    with _clear_errors(paths.database):
        yield


def request_stop(paths: StudyPaths, now: bool) -> None:
    """Ask the process that drives this folder to end: after the running trial, or at once."""
    write(paths.stop_request, "now" if now else "after-trial")


def stop_requested(paths: StudyPaths) -> str | None:
    """`now`, `after-trial` or None."""
    try:
        return paths.stop_request.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _write_ahead(database: Path) -> None:
    database.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(database, timeout=_BUSY_TIMEOUT_S)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.commit()
    finally:
        connection.close()


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise StorageError(
            f"{path}: no permission to write; give it, or copy the study to a folder of yours"
        ) from error
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}; {_way_out(error)}") from error
    except (SQLAlchemyError, sqlite3.Error, optuna.exceptions.StorageInternalError) as error:
        cause = str(getattr(error, "orig", None) or error.__cause__ or error).splitlines()[0]
        raise StorageError(
            f"{path}: the study's database cannot be used: {cause}; {_database_way_out(cause)}"
        ) from error


def _way_out(error: OSError) -> str:
    if error.errno == 28:
        return "make room on this disk and run again: what has finished is kept"
    if error.errno == 30:
        return "the file system is read-only: copy the study to one that can be written"
    return "see that the folder exists and can be written"


def _database_way_out(cause: str) -> str:
    if "readonly" in cause:
        return "make the file and its folder writable"
    if "full" in cause or "disk I/O" in cause:
        return "make room on this disk and run again: what has finished is kept"
    if "locked" in cause:
        return "another program holds it; close it and run again"
    return "if the file is damaged, move it away and run again"

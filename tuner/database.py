"""The database of a study: SQLite in its folder, or any URL that Optuna takes. Its secrets are never shown.

With SQLite a reader never blocks the writer (write-ahead log), and a writer waits for another one.
"""

from __future__ import annotations

import importlib.util
import os
import random
import re
import sqlite3
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, RDBStorage
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError

from tuner.errors import StorageError, without_password
from tuner.storage import StudyPaths, file_errors

# How long a write waits for another process that is writing.
_BUSY_TIMEOUT_S = 60
# How long a database elsewhere may take to answer a new connection.
_CONNECT_TIMEOUT_S = 15
# How often the making of the tables is tried, as two studies may begin at once on one server.
_CREATIONS = 5
_NOTHING_YET = "nothing has been run here yet; start it with: tuner run"
_KEPT = "what has finished is kept"
_DAMAGED = "if the file is damaged, move it away (with its -wal and -shm, if there are any) and run again"
_WAYS_OUT = (
    (r"readonly|read-only|permission denied", "make the file and its folder writable"),
    (r"database or disk is full|disk i/o|no space left", f"make room on the disk and run again: {_KEPT}"),
    (r"database is locked", f"another program holds it; close that and run again: {_KEPT}"),
    (r"password|authentication|role .* does not exist", "see user and password in the study's storage"),
    (r"database .* does not exist", "make the database, or name another in the study's storage"),
    (
        r"connect|connection|host name|resolve|shutting down|starting up|terminating|timeout",
        f"see that the database server runs and is reached from here, then run again: {_KEPT}",
    ),
    (r"plugin", "write sqlite:///study.db or postgresql://host/name, or leave storage out"),
)


def place_of(paths: StudyPaths, url: str | None) -> str:
    """What the database is called in messages: its file, or its URL without the password."""
    file = file_of(paths, url)
    return without_password(url or "") if file is None else str(file)


def file_of(paths: StudyPaths, url: str | None) -> Path | None:
    """The file the database is in; None where it is elsewhere."""
    return paths.database if url is None else _file(paths, _parsed(url))


def open_storage(paths: StudyPaths, url: str | None = None, create: bool = False) -> RDBStorage:
    """The Optuna storage of a study. A file of SQLite is relative to the study's folder.

    Raises:
        StorageError: there is none yet (without `create`), or it cannot be read or written.
    """
    place = place_of(paths, url)
    with database_errors(place):
        parsed = URL.create("sqlite", database=str(paths.database)) if url is None else _parsed(url)
        file = _file(paths, parsed)
        if file is not None:
            parsed = _prepared(paths, file, parsed, create)
        return _connected(place, parsed, create)


def open_study(storage: BaseStorage, name: str, maximize: bool, sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    """The Optuna study of this name, made if it is not there."""
    return optuna.create_study(
        storage=storage,
        study_name=name,
        load_if_exists=True,
        direction="maximize" if maximize else "minimize",
        sampler=sampler,
    )


@contextmanager
def database_errors(place: str) -> Iterator[None]:
    """Turns what goes wrong with the database inside into a StorageError that names `place`."""
    try:
        with file_errors(place):
            yield
    except (SQLAlchemyError, sqlite3.Error, optuna.exceptions.StorageInternalError) as error:
        cause = _cause(error)
        if re.search(r"no such table|relation .* does not exist|table .* doesn't exist", cause, re.IGNORECASE):
            raise StorageError(f"{place}: {_NOTHING_YET}") from error
        raise StorageError(f"{place}: the study's database cannot be used: {cause}; {_way_out(cause)}") from error


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (SQLAlchemyError, ValueError) as error:
        raise StorageError(
            f"{without_password(url)}: is not a database URL; "
            "write sqlite:///study.db or postgresql://host/name, or leave storage out"
        ) from error
    if parsed.drivername in ("postgres", "postgresql") and importlib.util.find_spec("psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    return parsed


def _file(paths: StudyPaths, url: URL) -> Path | None:
    """The file of a SQLite URL; None for any other database, or a URI that says itself what it opens."""
    if url.get_backend_name() != "sqlite" or (url.database or "").startswith("file:"):
        return None
    if url.database in (None, "", ":memory:"):
        raise StorageError(f"{url}: a database in memory is gone after the run; write sqlite:///study.db")
    return paths.folder / url.database


def _prepared(paths: StudyPaths, file: Path, url: URL, create: bool) -> URL:
    """The URL that opens this file, after a look at what is there."""
    if not create and not file.exists():
        raise StorageError(f"{paths.folder}: nothing has been run here yet; start it with: tuner run {paths.folder}")
    if file.is_dir():
        raise StorageError(f"{file}: is a folder, and the study's database must be a file; move it away and run again")
    if file.exists():
        _refuse_foreign(file)
    if create:
        _write_ahead(file)
    elif _sealed(file):
        quoted = urllib.parse.quote(str(file.absolute()))
        return URL.create("sqlite", database=f"file:{quoted}", query={"immutable": "1", "mode": "ro", "uri": "true"})
    return url.set(database=str(file))


def _sealed(file: Path) -> bool:
    """Whether nobody writes it and we cannot: SQLite reads such a file only when it is told that it will not change."""
    return not os.access(file.parent, os.W_OK) and not file.with_name(f"{file.name}-wal").exists()


def _refuse_foreign(file: Path) -> None:
    """Another program's database is not added to."""
    if _sealed(file):
        return
    with closing(sqlite3.connect(file, timeout=_BUSY_TIMEOUT_S)) as connection:
        tables = [str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {str(name) for (name,) in connection.execute("SELECT name FROM pragma_table_info('studies')")}
    if tables and "version_info" not in tables and "study_name" not in columns:
        raise StorageError(
            f"{file}: holds another program's tables ({', '.join(sorted(tables)[:3])}), not a study's; "
            "move it away, or name another file: storage: sqlite:///NAME.db"
        )


def _write_ahead(database: Path) -> None:
    database.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(database, timeout=_BUSY_TIMEOUT_S)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.commit()


def _connected(place: str, url: URL, create: bool) -> RDBStorage:
    """Making the tables is tried again where others make them, too; a reader never makes any."""
    if not create:
        _refuse_unfinished(place, url)
    for _ in range(_CREATIONS if create else 0):
        try:
            return _opened(place, url, create)
        except (IntegrityError, ProgrammingError, OperationalError) as error:
            if not re.search("already exists|unique|duplicate", str(error), re.IGNORECASE):
                raise
            time.sleep(random.uniform(0.1, 1.0))
    return _opened(place, url, create)


def _refuse_unfinished(place: str, url: URL) -> None:
    """Optuna writes its version last when it makes the tables; opened earlier, it would write a second one."""
    engine = create_engine(url, **_engine_options(url))
    try:
        with engine.connect() as connection:
            if connection.execute(text("SELECT version_num FROM alembic_version")).first() is None:
                raise StorageError(f"{place}: {_NOTHING_YET}")
    finally:
        engine.dispose()


def _opened(place: str, url: URL, create: bool) -> RDBStorage:
    written = url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")  # Optuna formats it
    try:
        return RDBStorage(written, engine_kwargs=_engine_options(url), skip_table_creation=not create)
    except ImportError as error:
        extra = "tuner[postgresql]" if url.get_backend_name() == "postgresql" else f"the driver of {url.drivername}"
        raise StorageError(
            f"{place}: its driver is not installed ({_cause(error)}); install {extra}, "
            "or leave storage out of the study"
        ) from error
    except RuntimeError as error:  # tables of another Optuna
        raise StorageError(f"{place}: {_cause(error)} Or move it away and run again, which begins anew") from error


def _engine_options(url: URL) -> dict[str, Any]:
    backend = url.get_backend_name()
    if backend == "sqlite":
        return {"connect_args": {"timeout": _BUSY_TIMEOUT_S}}
    options: dict[str, Any] = {"pool_pre_ping": True}  # a trial takes long; a connection may not outlive it
    if backend == "postgresql" and "connect_timeout" not in url.query:
        options["connect_args"] = {"connect_timeout": _CONNECT_TIMEOUT_S}
    return options


def _cause(error: BaseException) -> str:
    """The driver's own words, in one line."""
    while (inner := getattr(error, "orig", None) or error.__cause__) is not None:
        error = inner
    return " ".join(str(error).split("\n\n")[0].split()) or type(error).__name__


def _way_out(cause: str) -> str:
    for pattern, way_out in _WAYS_OUT:
        if re.search(pattern, cause, re.IGNORECASE):
            return way_out
    return _DAMAGED

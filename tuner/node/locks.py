"""Locks that vanish with their holder: the study folder, and on the node its GPUs and ports.

`flock` on a file whose text says who holds it. Readers read the text and never take the lock.
"""

from __future__ import annotations

import errno
import fcntl
import getpass
import json
import logging
import os
import random
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tuner.errors import StorageError, StudyLocked
from tuner.node import ports as tcp
from tuner.node.processes import Member, command_of, lives, stat_of

logger = logging.getLogger(__name__)

LOCK_NAME = ".tuner.lock"
PORTS = range(20000, 30000)  # below the kernel's ephemeral ports (32768 on), so that no client takes one
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


@dataclass(frozen=True)
class Holder:
    """Who holds a lock. `since` in seconds since the epoch."""

    pid: int
    start_time: int
    host: str
    user: str
    since: float
    study: str
    command: str

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"pid {self.pid} of {self.user} on {self.host} since {since} ({self.command}; study {self.study})"

    @property
    def lives(self) -> bool:
        """False only where it is certain: this host, and no such process."""
        return self.host != socket.gethostname() or lives(Member(self.pid, self.start_time))


@contextmanager
def study_lock(folder: Path) -> Iterator[None]:
    """Be the only one who drives this study.

    Raises:
        StudyLocked: somebody else does; says who.
        StorageError: the folder cannot be written, or its file system has no locks.
    """
    way_out = f"end it there, with `tuner stop {folder}` or wait for it; `tuner status {folder}` shows what it does"
    with _held(folder / LOCK_NAME, str(folder), f"the study {folder} is being run", way_out):
        yield


def study_holder(folder: Path) -> Holder | None:
    """Who drives this study now, None if nobody does. Takes no lock."""
    holder = _read(folder / LOCK_NAME)
    return holder if holder and holder.lives else None


@contextmanager
def node_locks(
    gpu_uuids: Iterable[str], ports: Iterable[int], study: str = "", folder: Path | None = None
) -> Iterator[None]:
    """Keep these GPUs and ports of this node from other studies of whatever user.

    Raises:
        StudyLocked: one is in use; says by whom and for which study.
    """
    with ExitStack() as stack:
        where = folder or lock_folder()
        for uuid in sorted(set(gpu_uuids)):
            stack.enter_context(_held(where / f"gpu-{uuid}.lock", study, f"GPU {uuid} is lent", _ELSEWHERE))
        for port in sorted(set(ports)):
            stack.enter_context(_held(where / f"port-{port}.lock", study, f"port {port} is lent", _ELSEWHERE))
        yield


@contextmanager
def free_port(among: Sequence[int] = PORTS, study: str = "", folder: Path | None = None) -> Iterator[int]:
    """A port that nobody listens on and no other study was lent, locked while the context lasts.

    Raises:
        StudyLocked: none of them is free.
    """
    order = list(among)
    random.SystemRandom().shuffle(order)
    for port in order:
        if not tcp.is_free(port):
            continue
        with ExitStack() as stack:
            try:
                stack.enter_context(node_locks((), [port], study, folder))
            except StudyLocked:
                continue
            yield port
            return
    raise StudyLocked(f"none of the ports {min(among)} to {max(among)} is free; free one, or name one (node: port: N)")


def lock_folder() -> Path:
    """Where the node's locks are: one place for all users, whatever their TMPDIR.

    Raises:
        StorageError: it cannot be made.
    """
    usual = Path("/tmp")
    base = usual if os.access(usual, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    folder = Path(os.environ.get("TUNER_LOCKS") or base / "tuner-locks")
    try:
        folder.mkdir(parents=True)
        folder.chmod(0o1777)
    except FileExistsError:
        return folder
    except OSError as error:
        raise StorageError(f"the folder of this node's locks cannot be made ({error}); set TUNER_LOCKS") from error
    return folder


_ELSEWHERE = "wait for it, end it there, or give this study other GPUs or another port under `node:`"


@contextmanager
def _held(path: Path, study: str, what: str, way_out: str) -> Iterator[None]:
    descriptor = _lock(path, what, way_out)
    try:
        _write(descriptor, study)
        yield
    finally:
        if _is_at(descriptor, path):
            with suppress(OSError):  # another user's file in a sticky folder stays
                path.unlink()
        os.close(descriptor)


def _lock(path: Path, what: str, way_out: str) -> int:
    """A descriptor that holds the lock on the file that is at `path` now (its last holder removes it)."""
    while True:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                return descriptor
        except BlockingIOError as error:
            os.close(descriptor)
            raise StudyLocked(f"{what} already: {_read(path) or 'by an unknown process'}; {way_out}") from error
        except OSError as error:
            os.close(descriptor)
            raise _storage_error(path, error) from error
        os.close(descriptor)


def _open(path: Path) -> int:
    """Without O_CREAT where the file exists: the kernel refuses that for another user's file in a sticky folder
    (fs.protected_regular)."""
    while True:
        try:
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _storage_error(path, error) from error
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
            os.fchmod(descriptor, 0o666)
            return descriptor
        except FileExistsError:
            continue
        except OSError as error:
            raise _storage_error(path, error) from error


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _write(descriptor: int, study: str) -> None:
    pid = os.getpid()
    stat = stat_of(pid)
    holder = Holder(
        pid, stat.start_time if stat else 0, socket.gethostname(), _user(), time.time(), study, command_of(pid)
    )
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(asdict(holder)).encode(), 0)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _read(path: Path) -> Holder | None:
    """None where nobody wrote it, or it is just being written."""
    try:
        return Holder(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _storage_error(path: Path, error: OSError) -> StorageError:
    if error.errno in _NO_LOCKS:
        return StorageError(
            f"the file system of {path.parent} has no locks ({error.strerror}); put the study on a local disk"
        )
    return StorageError(f"{path} cannot be locked ({error.strerror}); make {path.parent} writable, or use another one")

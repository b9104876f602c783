"""Places a study may lie in that cannot be written: each made in a mount namespace of its own, gone with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEADLINE_S = 120.0
_ALONE = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"])]
# Root that obeys permission bits, as everybody else does.
_UNPRIVILEGED = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-linux_immutable"]


def tuner_where(prepared: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command after shell words that prepare the mounts which it alone sees."""
    script = f'set -e\n{prepared}\nexec "$@"'
    return _run([*_ALONE, "sh", "-c", script, "sh", *_tuner(*words)])


def tuner_unprivileged(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command as one for whom permission bits count, root or not."""
    return _run([*(_UNPRIVILEGED if os.getuid() == 0 else []), *_tuner(*words)])


def read_only(path: Path) -> str:
    """Shell words that make a file or folder read-only."""
    return f"mount --bind '{path}' '{path}'\nmount -o remount,ro,bind '{path}'"


def filled(path: Path, kilobytes: int) -> str:
    """Shell words that put a small, full disk with a copy of a folder's files in its place."""
    return (
        f"mkdir '{path}.files'\ncp -r '{path}/.' '{path}.files'\n"
        f"mount -t tmpfs -o size={kilobytes}k tmpfs '{path}'\ncp -r '{path}.files/.' '{path}'\n"
        f"dd if=/dev/zero of='{path}/ballast' bs=1k 2>/dev/null || true"
    )


@dataclass(frozen=True)
class Disk:
    """A disk of its own at `path`, which commands run with `within` see; `seen` is where this process sees it."""

    path: Path
    seen: Path
    within: tuple[str, ...]

    def fill(self) -> None:
        """Leave not a byte free."""
        with (self.seen / "ballast").open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    continue

    def free(self) -> None:
        (self.seen / "ballast").unlink()

    def tuner(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return _run([*self.within, *_tuner(*words)])

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start a command in the background; what it says is collected by `communicate`."""
        return subprocess.Popen(
            [*self.within, *_tuner(*words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )


@contextmanager
def disk(path: Path, megabytes: int) -> Iterator[Disk]:
    """A disk of this size, gone with all that is on it afterwards."""
    path.mkdir(parents=True, exist_ok=True)
    script = f"mount -t tmpfs -o size={megabytes}m,mode=755 tmpfs '{path}' && echo mounted && exec cat"
    with subprocess.Popen([*_ALONE, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"mounted\n", "mounting a small disk failed: run as root, or allow it"
        user = () if os.getuid() == 0 else ("--user", "--preserve-credentials")
        within = ("nsenter", f"--target={holder.pid}", "--mount", *user, f"--wdns={os.getcwd()}")
        yield Disk(path, Path(f"/proc/{holder.pid}/root{path}"), within)
        assert holder.stdin is not None
        holder.stdin.close()
        holder.wait(30)


def _tuner(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "tuner", *map(str, words)]


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S)

"""TCP ports of this machine: is one free, who listens on it. Read from /proc; asks nothing over the network."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from pathlib import Path

from tuner.node.processes import command_of, table_of_processes

_LISTEN = "0A"


def is_free(port: int, host: str = "") -> bool:
    """Whether a server could listen on it now. Connections still closing (TIME_WAIT) do not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def holders(port: int) -> list[int]:
    """Pids of the processes that listen on it, as far as this user may see them."""
    inodes = _listening(port) or set()
    return sorted(pid for pid in table_of_processes() if inodes & _sockets(pid)) if inodes else []


def owned_by(port: int, pids: Collection[int]) -> bool | None:
    """Whether all that listens on this port belongs to these processes; None where it cannot be told.

    False also where nothing listens. A listener that another user's process may hold is unproven.
    """
    inodes = _listening(port)
    if not inodes:
        return None if inodes is None else False
    ours = inodes & set().union(*(_sockets(pid) for pid in pids))
    if ours == inodes:
        return True
    if set(holders(port)) - set(pids):
        return False
    return True if ours else None


def describe_holder(port: int) -> str:
    """Who listens on it, for a message: 'pid 12 (vllm serve ...)'."""
    names = [f"pid {pid} ({command_of(pid) or 'unknown command'})" for pid in holders(port)]
    return ", ".join(names) or "a process that this user cannot see"


def _listening(port: int) -> set[str] | None:
    """Inodes of the listening sockets; None where the kernel does not show them."""
    tables = [_rows(Path(f"/proc/self/net/{name}")) for name in ("tcp", "tcp6")]
    if tables[0] is None:
        return None
    rows = [row for table in tables if table for row in table]
    return {row[9] for row in rows if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port}


def _rows(path: Path) -> list[list[str]] | None:
    try:
        return [line.split() for line in path.read_text().splitlines()[1:]]
    except OSError:
        return None


def _sockets(pid: int) -> set[str]:
    """Inodes of the sockets that this process has open; empty where we may not look."""
    found = set()
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(entry.path)
            except OSError:
                continue
            if target.startswith("socket:["):
                found.add(target[8:-1])
    except OSError:
        return found
    return found

"""What the scripts print alike."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def print_machine(versions: Mapping[str, str]) -> None:
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    machine = f"{os.cpu_count()} x {cpu[1] if cpu else platform.machine()}, Linux {platform.release()}"
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"{time.strftime('%Y-%m-%d %H:%M')}, {machine}, Python {platform.python_version()}, load {load}")
    for name, version in versions.items():
        print(f"- {name}: {version}")


def print_table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> None:
    """In Markdown."""
    names = list(head)
    print(f"| {' | '.join(names)} |\n|{' --- |' * len(names)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    sys.stdout.flush()


def percent(value: float, of: float) -> float:
    """How much above."""
    return 100 * (value - of) / of if of else float("nan")

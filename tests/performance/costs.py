"""What a command costs, by the kernel's own accounts, over all its processes and threads. Linux only."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SAMPLED_EVERY_S = 0.02
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """`began` on `time.perf_counter`'s clock. `cpu_s` is the whole command's; `samples`: (when, CPU seconds so far).

    `peak_rss` in bytes: the sum of all processes' peaks; what they share counts for each. `elsewhere` is how many
    cores the rest of the machine kept busy meanwhile, everything that this script started taken out.
    """

    code: int
    began: float
    wall_s: float
    cpu_s: float
    peak_rss: int
    processes: int
    samples: Sequence[tuple[float, float]]
    elsewhere: float
    load: float

    def cpu_between(self, start: float, end: float) -> float:
        return self._cpu_at(end) - self._cpu_at(start)

    def _cpu_at(self, when: float) -> float:
        """Between two samples as if it had been spent evenly."""
        after = bisect_left(self.samples, (when, 0.0))
        if after in (0, len(self.samples)):
            return self.samples[min(after, len(self.samples) - 1)][1]
        (t0, cpu0), (t1, cpu1) = self.samples[after - 1], self.samples[after]
        return cpu0 + (cpu1 - cpu0) * (when - t0) / (t1 - t0)


def measure(
    command: Sequence[str | Path],
    cores: Sequence[int],
    log: Path,
    environment: Mapping[str, str],
    ours: Sequence[int] = (),
    timeout_s: float = 600,
) -> Cost:
    """Run the command to its end on these cores, its output in `log`. The CPU of `ours`, processes, is not elsewhere's.

    Past `timeout_s` it is killed.
    """
    load, busy, mine = os.getloadavg()[0], _machine_cpu(), sum(map(_ticks, (os.getpid(), *ours)))
    samples: list[tuple[float, float]] = []
    seen: dict[Path, float] = {}
    peak = most = 0
    with log.open("w") as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=log.parent,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            pids = _tree(process.pid)
            for number in pids:
                seen |= _threads(number)
            samples.append((time.perf_counter(), sum(seen.values())))
            peak, most = max(peak, sum(map(_peak_rss, pids))), max(most, len(pids))
            if samples[-1][0] - began > timeout_s:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            time.sleep(SAMPLED_EVERY_S)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall, cpu = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
    mine = sum(map(_ticks, (os.getpid(), *ours))) - mine
    elsewhere = ((_machine_cpu() - busy - mine) / TICKS - cpu) / wall
    return Cost(process.returncode, began, wall, cpu, peak, most, samples, max(0.0, elsewhere), load)


def _tree(root: int) -> list[int]:
    pids = [root]
    for pid in pids:
        with suppress(OSError):
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                pids += map(int, children.read_text().split())
    return pids


def _threads(pid: int) -> dict[Path, float]:
    """CPU seconds of each thread; what has ended keeps its last value in the caller's table."""
    found = {}
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found[thread] = int((thread / "schedstat").read_text().split()[0]) / 1e9
    return found


def _peak_rss(pid: int) -> int:
    """Of its program: what wait4 says of a child begins with its parent's memory."""
    with suppress(OSError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    return 0


def _ticks(pid: int) -> int:
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0


def _machine_cpu() -> int:
    """Ticks of all cores that were not idle."""
    user, nice, system, _, _, *more = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return user + nice + system + sum(more[:2])

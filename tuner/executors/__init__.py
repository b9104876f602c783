"""Executors: where trials run. `local` is this machine, `recorded` a file of measurements. One file a place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tuner.benchmarks import Workload
from tuner.trial import Configuration, Effective, Outcome, Settings

# The phase of launches made only to compare baseline and winner on other workloads; they are no Optuna trials.
COMPARE = "compare"


@dataclass(frozen=True)
class Job:
    """One launch to put to the test. `workload` decides; `compare_on` is measured on the same server after it.

    `base` and `base_effective` are what its settings are compared with for no-ops and side effects.
    `verbatim`: launch the exported command, without what the tuner adds for its own reading. `after`: the kinds of
    failure that earlier launches of these settings ended with.
    """

    number: int
    phase: str
    configuration: Configuration
    settings: Settings
    workload: Workload
    compare_on: tuple[Workload, ...] = ()
    base: Settings | None = None
    base_effective: Effective | None = None
    threshold: float | None = None
    verbatim: bool = False
    after: tuple[str, ...] = ()


class Executor(Protocol):
    """Runs jobs. Context manager: leaving it stops whatever still runs. Never raises for a bad configuration."""

    slots: int

    def submit(self, job: Job) -> None:
        """Start this job; at most `slots` at once. Returns at once."""
        ...

    def completed(self, timeout_s: float) -> list[tuple[Job, Outcome]]:
        """Jobs that have finished since the last call; waits up to `timeout_s` for one.

        Raises:
            NodeSick: the node cannot go on.
        """
        ...

    def interrupt(self) -> None:
        """Ask running jobs to stop their servers and finish with Failure('interrupted')."""
        ...

    def __enter__(self) -> Executor: ...

    def __exit__(self, *exc: object) -> None: ...

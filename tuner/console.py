"""One line an event, for people who watch a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tuner.executors import Job
from tuner.history import is_simulated
from tuner.report.formats import percent
from tuner.spec import StudySpec
from tuner.study import Progress
from tuner.trial import Configuration, Outcome, Trial


class Console:
    """Turns what happens in a run into lines. `brief` leaves out what a trial is doing meanwhile."""

    def __init__(self, say: Callable[[str], None], spec: StudySpec, brief: bool = False) -> None:
        self._say, self._spec, self._brief = say, spec, brief
        self._began = time.monotonic()
        self._baseline: float | None = None
        self._simulated = is_simulated(spec, ())

    def knows(self, trials: Iterable[Trial]) -> None:
        """Trials of earlier runs: the baseline's value may be among them."""
        baseline = self._spec.space.baseline
        values = [trial.value for trial in trials if trial.configuration == baseline and trial.value is not None]
        self._baseline = values[0] if values else None

    def __call__(self, progress: Progress) -> None:
        if progress.kind == "finished" and progress.outcome is not None and progress.job is not None:
            self._line(f"trial {progress.trial} [{progress.job.phase}] {self._came(progress.outcome, progress.job)}")
        elif progress.kind == "started" and progress.job is not None:
            self._line(
                f"trial {progress.trial} [{progress.job.phase}] {changed(progress.job.configuration, self._spec)}"
            )
        elif progress.kind == "doing" and not self._brief:
            self._line(f"  {progress.text}")
        elif progress.kind == "note":
            self.note(progress.text)

    def note(self, text: str) -> None:
        self._line(text)

    def _line(self, text: str) -> None:
        elapsed = int(time.monotonic() - self._began)
        self._say(text if self._brief else f"{elapsed // 60:3d}:{elapsed % 60:02d}  {text}")

    def _came(self, outcome: Outcome, job: Job) -> str:
        """`7143.30 total_token_throughput (+30.3 %)`, the gain over the baseline, or the failure."""
        if outcome.failure is not None:
            return str(outcome.failure).splitlines()[0]
        metric = self._spec.objective.metric
        self._simulated = self._simulated or is_simulated(self._spec, [outcome])
        value = outcome.measurement.metrics[metric] if outcome.measurement is not None else 0.0
        against = f" ({percent(self._spec.objective.gain(value, self._baseline))})" if self._baseline else ""
        if self._baseline is None and job.configuration == self._spec.space.baseline:
            self._baseline = value
        no_op = ", a no-op: no flag asked for changed anything" if outcome.effective and outcome.effective.pools else ""
        return f"{'simulated: ' if self._simulated else ''}{value:.2f} {metric}{against}{no_op}"


def changed(configuration: Configuration, spec: StudySpec) -> str:
    """The options that are not their stage's first, the first stage's always."""
    first = spec.space.baseline
    names = [
        name for name in configuration if name == spec.space.stages[0].name or configuration[name] != first.get(name)
    ]
    return ", ".join(f"{name} {configuration[name]}" for name in names)

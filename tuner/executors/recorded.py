"""Trials answered from recorded measurements: a study decided again without launching anything.

A launch is found by identity (engine, canonical flags, environment) and workload, whichever spelling its
command was recorded in. Entries of one launch answer in their order; then it is `not-recorded`.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from tuner.benchmarks import Workload
from tuner.engines import FlagError, engine, engine_of_command
from tuner.errors import Fault, SpecError
from tuner.executors import Job, plausible
from tuner.spec import StudySpec
from tuner.spec.faults import Model, check, nearest
from tuner.spec.fields import local_model
from tuner.spec.yamlfile import Document, scan
from tuner.trial import Configuration, Effective, Failure, Measurement, Outcome, Settings


@dataclass(frozen=True)
class Entry:
    """One recorded measurement or failure of one launch on one workload."""

    fingerprint: str
    workload: str
    command: str = ""
    measurement: Measurement | None = None
    failure: Failure | None = None
    effective: Effective | None = None


@dataclass(frozen=True)
class Recording:
    """What was measured before, in order; `source` says by whom."""

    entries: tuple[Entry, ...]
    source: str = ""

    def commands(self) -> dict[str, str]:
        """The first recorded command of each launch, by fingerprint."""
        return {entry.fingerprint: entry.command for entry in reversed(self.entries) if entry.command}


class RecordedExecutor:
    """Answers at once from a recording. Starts nothing.

    `command_of` names the command of a launch that was not recorded.
    """

    slots = 1

    def __init__(self, recording: Recording, command_of: Callable[[Job], str] = lambda job: "") -> None:
        self._command_of = command_of
        self._left: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for entry in recording.entries:
            self._left[entry.fingerprint, entry.workload].append(entry)
        self._answers: list[tuple[Job, Outcome]] = []

    def __enter__(self) -> RecordedExecutor:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def submit(self, job: Job) -> None:
        self._answers.append((job, self._answer(job)))

    def completed(self, timeout_s: float) -> list[tuple[Job, Outcome]]:
        answers, self._answers = self._answers, []
        return answers

    def interrupt(self) -> None:
        pass

    def _answer(self, job: Job) -> Outcome:
        fingerprint = job.settings.fingerprint
        entry = self._next(fingerprint, job.workload)
        compared = {workload.name: _told(self._next(fingerprint, workload), workload) for workload in job.compare_on}
        facts: dict[str, Any] = {
            "fingerprint": fingerprint,
            "comparisons": {name: told for name, told in compared.items() if told is not None},
        }
        if entry is None:
            message = f"no measurement of this launch on {job.workload.name} left"
            return Outcome.failed("not-recorded", message, command=self._command_of(job), **facts)
        measurement = plausible.checked(entry.measurement, job.workload) if entry.measurement else None
        return Outcome(
            measurement=measurement,
            failure=entry.failure or plausible.invalid(measurement),
            effective=entry.effective,
            command=entry.command,
            timings={"benchmark": measurement.metrics.get("duration", 0.0)} if measurement else {},
            notes=plausible.doubts(measurement),
            **facts,
        )

    def _next(self, fingerprint: str, workload: Workload) -> Entry | None:
        left = self._left[fingerprint, workload.name]
        return left.pop(0) if left else None


class _FailureText(Model):
    kind: str
    message: str = ""


class _Entry(Model):
    required = ("workload",)

    workload: str = ""
    command: str | None = None
    configuration: dict[str, Any] | None = None
    env: dict[str, str] = Field({})
    metrics: dict[str, float] | None = None
    failure: _FailureText | None = None
    effective: dict[str, Any] | None = None
    launch: int | None = None
    repeat: int | None = None
    source: str | None = None


class _File(Model):
    required = ("measurements",)

    source: str = ""
    measurements: list[dict[str, Any]] = Field([], min_length=1)


def load_recording(path: Path, spec: StudySpec) -> Recording:
    """Read a `recorded.yaml` for this study.

    Raises:
        SpecError: with every fault in it.
    """
    document = scan(path)
    file, faults = check(_File, document)
    faults = [*document.faults, *faults]
    entries: list[Entry] = []
    for index in range(len(file.measurements)):
        read, found = check(_Entry, document, ("measurements", index))
        found = found or _contradictions(read, document, index, spec)
        faults += found
        if found:
            continue
        deciding = spec.objective.metric if read.workload == spec.objective.workload else None
        if read.metrics is not None:
            faults += plausible.faults(read.metrics, deciding, document, ("measurements", index, "metrics"))
        try:
            settings = _settings(read, spec)
        except FlagError as error:
            place = ("measurements", index, "command")
            faults.append(document.fault(place, f"{error.flag}: {error.rule}", error.value, error.way_out))
            continue
        entries.append(_entry(read, settings))
    if faults:
        raise SpecError(faults)
    return Recording(tuple(entries), file.source)


def recording_of(outcomes: Iterable[tuple[str, Outcome]], deciding: str) -> Recording:
    """A study's own history as a recording: (fingerprint, outcome) of each finished trial, in order.

    `deciding` names the workload its measurements are of.
    """
    entries: list[Entry] = []
    for fingerprint, outcome in outcomes:
        entries.append(
            Entry(fingerprint, deciding, outcome.command, outcome.measurement, outcome.failure, outcome.effective)
        )
        for workload, compared in outcome.comparisons.items():
            measured = compared if isinstance(compared, Measurement) else None
            failed = compared if isinstance(compared, Failure) else None
            entries.append(Entry(fingerprint, workload, outcome.command, measured, failed))
    return Recording(tuple(entries), "the study's own history")


def _contradictions(entry: _Entry, document: Document, index: int, spec: StudySpec) -> list[Fault]:
    """What types alone cannot say."""
    place = ("measurements", index)
    faults = []
    if (entry.command is None) == (entry.configuration is None):
        faults.append(document.fault(place, "give one of command and configuration, and not both"))
    if (entry.metrics is None) == (entry.failure is None):
        faults.append(document.fault(place, "give one of metrics and failure, and not both"))
    if entry.workload not in spec.workloads:
        rule = "the workload must be one of the study's"
        faults.append(
            document.fault((*place, "workload"), rule, entry.workload, nearest(entry.workload, spec.workloads))
        )
    if entry.configuration is not None:
        faults += _unknown_options(entry.configuration, document, index, spec)
    return faults


def _unknown_options(chosen: Mapping[str, Any], document: Document, index: int, spec: StudySpec) -> list[Fault]:
    options = {stage.name: [option.name for option in stage.options] for stage in spec.space.stages if stage.options}
    parameters = {parameter.name for stage in spec.space.stages for parameter in stage.parameters}
    faults = []
    for name, value in chosen.items():
        place = ("measurements", index, "configuration", name)
        if name in options and value not in options[name]:
            rule = f"stage {name} has no such option"
            faults.append(document.fault(place, rule, value, nearest(value, options[name])))
        elif name not in options and name not in parameters:
            faults.append(document.fault(place, "there is no such stage", name, nearest(name, options)))
    return faults


def _settings(entry: _Entry, spec: StudySpec) -> Settings:
    if entry.command is None:
        chosen = Configuration({**spec.space.baseline, **(entry.configuration or {})})
        return spec.space.settings(chosen)
    argv = shlex.split(entry.command)
    words = [word for word in argv if "=" not in word or word.startswith("-")] or argv
    name = engine_of_command(words)
    version = spec.engines[name].version if name in spec.engines else None
    settings = engine(name, version).parse(argv, entry.env)
    return replace(settings, model=local_model(settings.model, spec.file or spec.folder / "study.yaml"))


def _entry(entry: _Entry, settings: Settings) -> Entry:
    effective = Effective(entry.effective, source="recorded") if entry.effective is not None else None
    metrics = entry.metrics
    return Entry(
        fingerprint=settings.fingerprint,
        workload=entry.workload,
        command=entry.command or "",
        measurement=Measurement(metrics, (metrics,), source=entry.source or "recorded") if metrics else None,
        failure=Failure(entry.failure.kind, entry.failure.message) if entry.failure else None,
        effective=effective,
    )


def _told(entry: Entry | None, workload: Workload) -> Measurement | Failure | None:
    """What was recorded of a workload beside the deciding one."""
    if entry is None or entry.measurement is None:
        return entry.failure if entry else None
    measurement = plausible.checked(entry.measurement, workload)
    return plausible.invalid(measurement) or measurement

"""The study's loop: decide, submit, record, until the search is over or somebody says stop.

Nothing that matters lives here: what finished is in the archive, and running again continues.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event

from tuner.archive import Archive
from tuner.benchmarks import Workload
from tuner.engines import Notice, engine
from tuner.executors import COMPARE, Executor, Job
from tuner.executors.recorded import Recording
from tuner.exporters import command, export
from tuner.history import Comparison, History, is_simulated
from tuner.report.cautions import cautions
from tuner.report.html import html
from tuner.report.markdown import markdown
from tuner.search import Decision, Done, Evaluate
from tuner.search.hopeless import hopeless
from tuner.storage import StudyPaths, read_json, stop_requested, write
from tuner.trial import Configuration, Failure, Measurement, Outcome, State, Trial

logger = logging.getLogger(__name__)

_POLL_S = 0.2


@dataclass(frozen=True)
class Stop:
    """How a run is asked to end: `now` gives the running trial up, `after_trial` lets it finish."""

    now: Event = field(default_factory=Event)
    after_trial: Event = field(default_factory=Event)


@dataclass(frozen=True)
class Limit:
    """When a run asks for no more trials. `deadline` in seconds since the epoch, `trials` finished in this run."""

    deadline: float | None = None
    trials: int | None = None
    in_all: int | None = None

    def reached(self, finished: int, stored: int) -> str | None:
        """Why no more is asked for; None while there is more to do."""
        if self.deadline is not None and time.time() >= self.deadline:
            return "the time is up"
        if self.trials is not None and finished >= self.trials:
            return f"{finished} trial{'s' * (finished != 1)} of this run {'are' if finished != 1 else 'is'} done"
        if self.in_all is not None and stored >= self.in_all:
            return f"the budget of {self.in_all} trials is used up (raise budget.trials)"
        return None


@dataclass(frozen=True)
class Progress:
    """One thing that happened, for people: `kind` is started, doing, finished or note."""

    kind: str
    text: str
    trial: int | None = None
    outcome: Outcome | None = None
    job: Job | None = None


def run(
    archive: Archive,
    executor: Executor,
    stop: Stop,
    limit: Limit = Limit(),
    notify: Callable[[Progress], None] = lambda progress: None,
) -> str:
    """Run the study until it is done, out of budget or stopped; answers why it ended, "" when it is done.

    `executor` has been entered. After every trial `launch.sh` holds the best so far.
    """
    reason = _search(archive, executor, stop, limit, notify)
    return reason or _compare(archive, executor, stop, notify)


def deadline(now: float, wall_time_s: float | None, until: str | None) -> float | None:
    """The earlier of `now` plus wall time and the next `until` (HH:MM) on the clock; seconds since the epoch."""
    ends = [now + wall_time_s] if wall_time_s is not None else []
    if until is not None:
        hour, minute = (int(part) for part in until.split(":"))
        start = datetime.fromtimestamp(now)
        end = start.replace(hour=hour, minute=minute, second=0, microsecond=0)
        ends.append((end if end > start else end + timedelta(days=1)).timestamp())
    return min(ends) if ends else None


def history(archive: Archive, recording: Recording | None = None) -> History:
    """Everything the study has come to, read from its store."""
    spec, trials = archive.spec, archive.trials()
    decision = archive.decide(trials)
    replayed = read_json(archive.paths.replayed) or {}
    bare = History(
        study=spec,
        trials=tuple(trials),
        decision=decision,
        comparisons=_comparisons(archive, decision, trials),
        commands=_commands(trials) | (recording.commands() if recording else {}),
        origin=_origin(trials, replayed, archive),
        provenance=_provenance(archive, trials, replayed),
    )
    return History(**{**vars(bare), "cautions": cautions(bare, _notices(archive, trials))})


def write_reports(archive: Archive, recording: Recording | None = None) -> History:
    """Write report.md, report.html and launch.sh anew."""
    told = history(archive, recording)
    shown = launch_command(told)
    write(archive.paths.report_markdown, markdown(told, shown))
    write(archive.paths.report_html, html(told, shown))
    _write_launch(archive.paths, told)
    return told


def launch_command(told: History) -> str:
    """The exported command in one line, "" before anything was measured."""
    return command(told) if told.measured else ""


def _search(
    archive: Archive, executor: Executor, stop: Stop, limit: Limit, notify: Callable[[Progress], None]
) -> str | None:
    """Why it ended before the search was over; None when it is over."""
    running, finished = 0, 0
    before = {trial.number for trial in archive.trials()}
    while True:
        trials = archive.trials()
        stored = sum(trial.state is not State.RUNNING for trial in trials)
        reason = _stopped(archive.paths, stop, executor) or limit.reached(finished, stored)
        reason = reason or hopeless(archive.spec.space, trials, before)
        decision = archive.decide(trials)
        if running == 0 and (reason is not None or isinstance(decision, Done)):
            return None if isinstance(decision, Done) else reason
        if reason is None and isinstance(decision, Evaluate) and running < executor.slots:
            job = archive.start(decision)
            notify(Progress("started", "", job.number, job=job))
            executor.submit(job)
            running += 1
            continue
        for job, outcome in _completed(executor, archive.paths, stop):
            archive.finish(job, outcome)
            notify(Progress("finished", "", job.number, outcome, job))
            _write_launch(archive.paths, history(archive))
            running, finished = running - 1, finished + 1


def _completed(executor: Executor, paths: StudyPaths, stop: Stop) -> list[tuple[Job, Outcome]]:
    """The next jobs that finish; meanwhile a request to stop at once reaches the executor."""
    while not (finished := executor.completed(_POLL_S)):
        _stopped(paths, stop, executor)
    return finished


def _stopped(paths: StudyPaths, stop: Stop, executor: Executor) -> str | None:
    """The stop that was asked for by a signal or from another shell, passed on to the executor if it means now."""
    requested = stop_requested(paths)
    if stop.now.is_set() or requested == "now":
        stop.now.set()
        executor.interrupt()
        return "stopped at once by request"
    if stop.after_trial.is_set() or requested == "after-trial":
        return "stopped after a trial by request"
    return None


def _compare(archive: Archive, executor: Executor, stop: Stop, notify: Callable[[Progress], None]) -> str:
    """Launch baseline and winner once more where a workload to compare on has not been measured on both."""
    decision = archive.decide()
    if not isinstance(decision, Done) or decision.best is None:
        return ""
    for configuration in dict.fromkeys((archive.spec.space.baseline, decision.best)):
        missing = _missing(archive, configuration)
        if not missing:
            continue
        if (reason := _stopped(archive.paths, stop, executor)) is not None:
            return reason
        notify(Progress("note", f"comparing on {', '.join(workload.name for workload in missing)}: {configuration}"))
        executor.submit(_comparing(archive, configuration, missing))
        for _, outcome in _completed(executor, archive.paths, stop):
            if outcome.failure is not None and outcome.failure.kind == "interrupted":
                return "stopped at once by request"
            archive.compare(configuration, _as_comparisons(outcome, missing))
    return ""


def _missing(archive: Archive, configuration: Configuration) -> list[Workload]:
    """Workloads to compare on that this launch has no result for. A launch that never was measured is not tried."""
    trials = archive.trials()
    launched = archive.spec.space.trials_of(configuration, trials)
    if not any(trial.state is State.MEASURED for trial in launched):
        return []
    known = archive.comparisons(configuration, trials)
    return [archive.spec.workloads[name] for name in archive.spec.compare_on if name not in known]


def _comparing(archive: Archive, configuration: Configuration, workloads: list[Workload]) -> Job:
    return Job(
        number=-1,
        phase=COMPARE,
        configuration=configuration,
        settings=archive.spec.space.settings(configuration),
        workload=workloads[0],
        compare_on=tuple(workloads[1:]),
        verbatim=True,
    )


def _as_comparisons(outcome: Outcome, workloads: list[Workload]) -> Outcome:
    """The launch's first workload is one of the compared ones too."""
    first = outcome.measurement if outcome.failure is None else outcome.failure
    found = dict(outcome.comparisons)
    if first is not None:
        found[workloads[0].name] = first
    if outcome.failure is not None and outcome.failure.kind != "not-recorded":
        found |= {workload.name: outcome.failure for workload in workloads if workload.name not in found}
    return Outcome(comparisons=found, command=outcome.command, fingerprint=outcome.fingerprint)


def _comparisons(archive: Archive, decision: Decision, trials: list[Trial]) -> tuple[Comparison, ...]:
    best = decision.best if isinstance(decision, Done) else None
    before = archive.comparisons(archive.spec.space.baseline, trials)
    after = archive.comparisons(best, trials)
    return tuple(
        Comparison(name, _published(before.get(name)), _published(after.get(name))) for name in archive.spec.compare_on
    )


def _published(result: Measurement | Failure | None) -> Measurement | Failure | None:
    """What a recording does not hold is absent, not failed."""
    return None if isinstance(result, Failure) and result.kind == "not-recorded" else result


def _commands(trials: list[Trial]) -> dict[str, str]:
    return {t.outcome.fingerprint: t.outcome.command for t in trials if t.outcome is not None and t.outcome.command}


def _origin(trials: list[Trial], replayed: dict[str, str], archive: Archive) -> str:
    if "origin" in replayed:
        return str(replayed["origin"])
    outcomes = [trial.outcome for trial in trials if trial.outcome is not None]
    return "simulated" if is_simulated(archive.spec, outcomes) else "live"


def _notices(archive: Archive, trials: list[Trial]) -> dict[str, list[Notice]]:
    """What is known beforehand about each launch tried, by fingerprint."""
    found: dict[str, list[Notice]] = {}
    for configuration in {trial.configuration for trial in trials}:
        settings = archive.spec.space.settings(configuration)
        adapter = engine(settings.engine, archive.spec.engines[settings.engine].version)
        found[settings.fingerprint] = list(adapter.notices(settings, archive.spec.workload.concurrency))
    return found


def _provenance(archive: Archive, trials: list[Trial], replayed: dict[str, str]) -> dict[str, str]:
    spec = archive.spec
    versions = {
        spec.space.engine_of(trial.configuration): trial.outcome.effective.version
        for trial in trials
        if trial.outcome and trial.outcome.effective and trial.outcome.effective.version
    }
    claimed = {name: each.version or "not said" for name, each in spec.engines.items()}
    return {
        "study": archive.name,
        "search space": spec.space.name,
        **{f"{name}, version said in the study": version for name, version in claimed.items() if name not in versions},
        **{name: str(version) for name, version in versions.items()},
        **{key: value for key, value in replayed.items() if key == "source"},
    }


def _write_launch(paths: StudyPaths, told: History) -> None:
    """The best so far, once there is one."""
    if told.measured:
        write(paths.launch_script, export(told, "shell"))

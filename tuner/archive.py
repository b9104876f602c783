"""A study as it is stored: its Optuna study, the claims and outcomes of its trials, and its comparisons.

Everything is read from the store each time; nothing is kept beside it.
"""

from __future__ import annotations

import logging
import os
import socket
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from tuner.database import database_errors, file_of, open_storage, open_study, place_of
from tuner.editions import Taken, description, latest, name_of, stored_name, take_over
from tuner.errors import StorageError, StudyLocked
from tuner.executors import Job
from tuner.node.processes import Member, boot_id, lives, stat_of
from tuner.search import CONFIRM, Decision, Done, Evaluate
from tuner.search.decide import decide
from tuner.search.records import SET_ASIDE, dump_outcome, live, load_outcome, tell
from tuner.search.sampler import StagedSampler, suggest
from tuner.spec import StudySpec
from tuner.storage import StudyPaths, read_json, reserve_room, use_reserved_room, write_json
from tuner.trial import Configuration, Failure, Measurement, Outcome, Trial

logger = logging.getLogger(__name__)


class Archive:
    """The store of one study. Only the process that holds the study's lock may call what writes.

    `room_bytes`: what a launch needs free on the folder's disk.

    Raises:
        StorageError: from every method, when the folder or database cannot be used.
    """

    def __init__(self, spec: StudySpec, paths: StudyPaths, create: bool = False, room_bytes: int = 0) -> None:
        self.spec, self.paths, self._room_bytes = spec, paths, room_bytes
        self._place, self._file = place_of(paths, spec.storage), file_of(paths, spec.storage)
        self._own, self._opened = spec.storage is None, None
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # what happens is said in this project's words
        self._sampler = StagedSampler(spec.space, spec.method, spec.objective)
        with self._storing():
            self._storage = open_storage(paths, spec.storage, create)
            weakref.finalize(self, self._storage.engine.dispose)  # its connections end with this object
            self._study = self._open(self._storage, create)
        self._opened = _stamp(self._file)
        self._live: dict[int, optuna.Trial] = {}

    @property
    def name(self) -> str:
        """The name of the Optuna study."""
        return self._study.study_name

    def trials(self) -> list[Trial]:
        with self._storing():
            return self._sampler.trials(self._study)

    def decide(self, trials: Iterable[Trial] | None = None) -> Decision:
        """What to do next by the study's method."""
        known = self.trials() if trials is None else trials
        return decide(self.spec.space, known, self.spec.method, self.spec.objective)

    def start(self, decision: Evaluate) -> Job:
        """Make the trial that was decided: stored as running before anything is launched."""
        if self._room_bytes:
            reserve_room(self.paths, self._room_bytes)
        with self._storing():
            trial = self._study.ask()
            configuration = suggest(self.spec.space, trial)
            trial.set_user_attr("owner", _me())
            trial.set_user_attr("engine", self.spec.space.engine_of(configuration))
        self._live[trial.number] = trial
        base = decision.base
        return Job(
            number=trial.number,
            phase=decision.phase,
            configuration=configuration,
            settings=self.spec.space.settings(configuration),
            workload=self.spec.workload,
            compare_on=self._compare_on(decision),
            base=self.spec.space.settings(base) if base is not None else None,
            base_effective=self._effective(base),
            threshold=decision.threshold,
            verbatim=decision.phase == CONFIRM,
            after=self._after(configuration),
        )

    def finish(self, job: Job, outcome: Outcome) -> None:
        """Record first, act after: the outcome goes to its file, then to the database."""
        try:
            self._store(job, outcome)
        except StorageError:
            if not use_reserved_room(self.paths):
                raise
            self._store(job, outcome)

    def recover(self) -> list[int]:
        """Close the trials a killed run left running; the numbers of those abandoned.

        One whose outcome had reached its file is stored after all.

        Raises:
            StudyLocked: the process that runs one of them is alive.
        """
        with self._storing():
            return self._close(self._study)

    def comparisons(self, configuration: Configuration | None, trials: Iterable[Trial]) -> dict[str, Any]:
        """The other workloads' measurements (or failures) of a configuration's launch, by workload.

        Of several confirming launches, the last that was measured.
        """
        if configuration is None:
            return {}
        stored = _kept(self.paths.comparison(self.spec.space.identity(configuration)), self.name)
        found: dict[str, Measurement | Failure] = {}
        for trial in self.spec.space.trials_of(configuration, trials):
            if trial.outcome is not None:
                found |= _keeping_measured(found, trial.outcome.comparisons)
        if stored is not None:
            found |= _keeping_measured(found, stored.comparisons)
        return found

    def compare(self, configuration: Configuration, outcome: Outcome) -> None:
        """Keep what a launch made for comparing has measured."""
        path = self.paths.comparison(self.spec.space.identity(configuration))
        write_json(path, {"study": self.name, "outcome": dump_outcome(outcome)})

    def carry_over(self) -> Taken | None:
        """Begin this edition of the study: take over what still counts of the latest earlier one.

        None where there is no earlier one, or this one has trials already. Launches of others leave `trials/`.
        """
        with self._storing():
            fresh = not self._study.get_trials(deepcopy=False)
            earlier = latest(self._storage, self.name, self.spec, self._own) if fresh else None
            old = None
            if earlier is not None:
                old = optuna.load_study(study_name=earlier.study_name, storage=self._storage)
                self._close(old)
            self.paths.claim_trials(self.name, fresh)
            return take_over(old, self._study, self.spec) if old is not None else None

    def retry_failed(self) -> list[int]:
        """Let failed trials no longer count, so that their launches are asked for again; their numbers."""
        with self._storing():
            failed = [t.number for t in self._study.get_trials(deepcopy=False) if t.state is TrialState.FAIL]
            self._study.set_user_attr(SET_ASIDE, failed)
            return failed

    def asked_by(self) -> str:
        """The method that the study was begun with."""
        with self._storing():
            return str(self._study.user_attrs.get("method", self.spec.method.name))

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """Around every use of the database. One that was taken away under a run would be written to in vain."""
        if self._opened is not None and _stamp(self._file) != self._opened:
            raise StorageError(
                f"{self._place}: was removed or replaced while the study runs; put it back if you have it "
                f"(the launches so far are in {self.paths.folder / 'trials'}), and run again"
            )
        with database_errors(self._place):
            yield

    def _store(self, job: Job, outcome: Outcome) -> None:
        write_json(self.paths.trial(job.number).outcome, {"study": self.name, "outcome": dump_outcome(outcome)})
        with self._storing():
            tell(self._study, self._live[job.number], outcome, self.spec.objective, job.settings.engine)
        del self._live[job.number]

    def _open(self, storage: BaseStorage, create: bool) -> optuna.Study:
        names = optuna.get_all_study_names(storage)
        name = stored_name(names, self.spec) if self._own else name_of(self.spec)
        if not create:
            self._refuse_if_new(name, names)
            return optuna.load_study(study_name=name, storage=storage, sampler=self._sampler)
        study = open_study(storage, name, self.spec.objective.maximize, self._sampler)
        if "study" not in study.user_attrs:
            for key, value in description(self.spec).items():
                study.set_user_attr(key, value)
        return study

    def _refuse_if_new(self, name: str, names: Sequence[str]) -> None:
        if name in names:
            return
        folder = self.paths.folder
        if earlier := [each for each in names if self._own or each.rpartition("-")[0] == self.spec.name]:
            rule = f"the study was edited since it was run (as {', '.join(earlier[-3:])})"
            raise StorageError(f"{folder}: {rule}; run it, and what still counts is taken over: tuner run {folder}")
        raise StorageError(f"{folder}: nothing has been run here yet; start it with: tuner run {folder}")

    def _close(self, study: optuna.Study) -> list[int]:
        """Close a study's running trials; their numbers."""
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        for frozen in running:
            _refuse_if_owner_lives(frozen)
            outcome = _kept(self.paths.trial(frozen.number).outcome, study.study_name) or _abandoned()
            engine = str(frozen.user_attrs.get("engine", ""))
            tell(study, live(study, frozen), outcome, self.spec.objective, engine)
        return [frozen.number for frozen in running]

    def _compare_on(self, decision: Evaluate) -> tuple[Any, ...]:
        """Confirming launches also measure the other workloads: the baseline's, and those of the search's winner.

        That is the incumbent it ended with, which a single lucky measurement of another launch may well exceed.
        """
        if decision.phase != CONFIRM:
            return ()
        searched = [trial for trial in self.trials() if trial.phase != CONFIRM]
        unconfirmed = replace(self.spec.method, confirm=0)
        end = decide(self.spec.space, searched, unconfirmed, self.spec.objective)
        best = end.best if isinstance(end, Done) else None
        identity = self.spec.space.identity
        chosen = {identity(c) for c in (self.spec.space.baseline, best) if c is not None}
        if identity(decision.configuration) not in chosen:
            return ()
        return tuple(self.spec.workloads[name] for name in self.spec.compare_on)

    def _after(self, configuration: Configuration) -> tuple[str, ...]:
        """How earlier launches of it failed."""
        launched = self.spec.space.trials_of(configuration, self.trials())
        return tuple(trial.failure.kind for trial in launched if trial.failure is not None)

    def _effective(self, configuration: Configuration | None) -> Any:
        """The base's effective configuration as last read."""
        launched = self.spec.space.trials_of(configuration, self.trials())
        known = [trial.outcome.effective for trial in launched if trial.outcome and trial.outcome.effective]
        return known[-1] if known else None


def _kept(path: Path, study: str) -> Outcome | None:
    """The outcome of this study in a file; None where there is none, or what is there is not whole."""
    stored = read_json(path)
    if stored is None or stored.get("study") != study:
        return None
    try:
        outcome = load_outcome(stored["outcome"])
    except (KeyError, ValueError):
        outcome = Outcome()
    if outcome.measurement is None and outcome.failure is None and not outcome.comparisons:
        logger.warning("%s: is damaged and left out", path)
        return None
    return outcome


def _stamp(file: Path | None) -> tuple[int, int] | None:
    """Which file it is, whatever its name; None where there is none."""
    try:
        found = file.stat() if file is not None else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found is not None else None


def _keeping_measured(
    known: Mapping[str, Measurement | Failure], found: Mapping[str, Measurement | Failure]
) -> dict[str, Measurement | Failure]:
    return {
        name: result
        for name, result in found.items()
        if isinstance(result, Measurement) or not isinstance(known.get(name), Measurement)
    }


def _abandoned() -> Outcome:
    return Outcome.failed("abandoned", "the tuner ended in the middle of it (killed, or the machine went down)")


def _me() -> dict[str, Any]:
    stat = stat_of(os.getpid())
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "start_time": stat.start_time if stat else 0,
        "boot_id": boot_id(),
    }


def _refuse_if_owner_lives(frozen: FrozenTrial) -> None:
    owner = frozen.user_attrs.get("owner") or {}
    same_boot = owner.get("boot_id") == boot_id() and owner.get("host") == socket.gethostname()
    if not same_boot or owner.get("pid") == os.getpid():
        return
    if lives(Member(int(owner["pid"]), int(owner["start_time"]))):
        raise StudyLocked(
            f"trial {frozen.number} is being run by pid {owner['pid']} from another folder on the same storage; "
            "wait for it, end it, or give this study a storage of its own"
        )

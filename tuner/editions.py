"""Editions: an edited study goes on, in the same folder, as a new Optuna study that takes over what still counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.study import StudySummary
from optuna.trial import FrozenTrial, TrialState

import tuner
from tuner.search import CONFIRM
from tuner.search.records import distributions
from tuner.spec import StudySpec
from tuner.trial import Configuration


@dataclass(frozen=True)
class Taken:
    """What a new edition took over: the earlier one's name, how many of its trials count, out of how many."""

    earlier: str
    counted: int
    of: int


def name_of(spec: StudySpec) -> str:
    """The name of the Optuna study: the study's, with its identity."""
    return f"{spec.name}-{_identity(spec)}"


def stored_name(names: Sequence[str], spec: StudySpec) -> str:
    """The name this edition has in a database of its own, where the folder may have been renamed since."""
    return next((name for name in names if name.endswith(f"-{_identity(spec)}")), name_of(spec))


def description(spec: StudySpec) -> Mapping[str, Any]:
    """The user attributes of the Optuna study."""
    return {
        "study": spec.name,
        "model": spec.model,
        "search_space": spec.space.name,
        "workload": spec.objective.workload,
        "metric": spec.objective.metric,
        "method": spec.method.name,
        "measures": spec.measures,
        "versions": spec.versions,
        "compares": _compares(spec),
        "tuner": tuner.__version__,
        "created": datetime.now().isoformat(timespec="microseconds"),
    }


def latest(storage: BaseStorage, name: str, spec: StudySpec, own: bool) -> StudySummary | None:
    """The latest other edition: in the study's own database any, elsewhere of those under its name."""
    others = [
        summary
        for summary in optuna.get_all_study_summaries(storage)
        if summary.study_name != name and (own or summary.user_attrs.get("study") == spec.name)
    ]
    return max(others, key=lambda summary: str(summary.user_attrs.get("created", "")), default=None)


def take_over(old: optuna.Study, new: optuna.Study, spec: StudySpec) -> Taken:
    """Add to `new` the trials of `old` that still count.

    A trial counts where workload, objective, node and its engine's version are the same and its options lead to the
    same launch. Its comparisons count where the other workloads are the same, too.
    """
    finished = [trial for trial in old.get_trials(deepcopy=False) if trial.state.is_finished()]
    about = old.user_attrs
    if about.get("measures") != spec.measures:
        return Taken(old.study_name, 0, len(finished))
    known = {name for name, version in spec.versions.items() if about.get("versions", {}).get(name) == version}
    same = about.get("compares") == _compares(spec)
    taken = [
        translated
        for trial in finished
        if trial.user_attrs.get("engine") in known and (translated := _translated(trial, spec, same))
    ]
    new.add_trials(taken)
    return Taken(old.study_name, len(taken), len(finished))


def _identity(spec: StudySpec) -> str:
    return spec.fingerprint[:8]


def _compares(spec: StudySpec) -> str:
    return repr([spec.workloads[name] for name in spec.compare_on])


def _translated(trial: FrozenTrial, spec: StudySpec, same_comparisons: bool) -> FrozenTrial | None:
    """An earlier edition's trial in this space; None where it no longer counts."""
    outcome = trial.user_attrs.get("outcome")
    if trial.state not in (TrialState.COMPLETE, TrialState.FAIL) or outcome is None:
        return None
    names = distributions(spec.space)
    chosen = {name: option for name, option in {**spec.space.baseline, **trial.params}.items() if name in names}
    if any(option not in names[name].choices for name, option in chosen.items()):
        return None
    configuration = Configuration(chosen)
    if spec.space.identity(configuration) != outcome.get("fingerprint"):
        return None
    phases = {"", CONFIRM, *(stage.name for stage in spec.space.stages)}
    kept = dict(trial.user_attrs)
    kept["phase"] = kept.get("phase") if kept.get("phase") in phases else ""
    kept["configuration"], kept["base"] = dict(configuration), None
    kept["outcome"] = outcome if same_comparisons else {**outcome, "comparisons": {}}
    return optuna.trial.create_trial(
        state=trial.state,
        value=trial.value,
        params=chosen,
        distributions={name: names[name] for name in chosen},
        user_attrs=kept,
        system_attrs=trial.system_attrs,
    )

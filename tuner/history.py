"""What a study has come to, as one value: everything the report and the exporters are functions of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tuner.search import Decision, Done
from tuner.spec import StudySpec
from tuner.trial import Configuration, Failure, Measurement, Outcome, State, Trial


def is_simulated(study: StudySpec, outcomes: Iterable[Outcome]) -> bool:
    """Whether figures come from a stand-in engine: the study says so, or an engine itself did when it was asked."""
    if any(engine.launcher_options.get("simulated") for engine in study.engines.values()):
        return True
    return any(outcome.effective is not None and outcome.effective.values.get("simulated") for outcome in outcomes)


@dataclass(frozen=True)
class Comparison:
    """Baseline and winner on one workload. None: not measured (or, in a recording, not published)."""

    workload: str
    baseline: Measurement | Failure | None
    winner: Measurement | Failure | None


@dataclass(frozen=True)
class Caution:
    """Something a reader must know before believing or launching; `source` says which rule and evidence."""

    rule: str
    text: str
    source: str
    severity: str = "warning"  # warning | note
    trials: tuple[int, ...] = ()


@dataclass(frozen=True)
class History:
    """The study, its trials in order, and what `decide` says of them now.

    `origin`: "live", "recorded" (replayed from recorded measurements) or "simulated" (a stand-in engine's
    performance model); simulated figures are never shown without that word. `commands` maps a launch
    fingerprint to the command that was measured (as recorded or as launched, in shell form).
    """

    study: StudySpec
    trials: tuple[Trial, ...]
    decision: Decision
    comparisons: tuple[Comparison, ...] = ()
    cautions: tuple[Caution, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    origin: str = "live"
    provenance: Mapping[str, str] = field(default_factory=dict)

    @property
    def done(self) -> Done | None:
        return self.decision if isinstance(self.decision, Done) else None

    @property
    def measured(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.state is State.MEASURED)

    @property
    def not_recorded(self) -> tuple[Trial, ...]:
        """What the method asked for and the recording does not hold."""
        return tuple(t for t in self.trials if t.failure is not None and t.failure.kind == "not-recorded")

    def of(self, configuration: Configuration | None) -> tuple[Trial, ...]:
        """Every trial of this configuration's launch, in order."""
        return tuple(self.study.space.trials_of(configuration, self.trials))

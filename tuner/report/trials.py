"""What single trials teach: no-ops, invalid measurements, failures with their hints, side effects, gaps. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tuner.history import Caution, History
from tuner.policy import policy
from tuner.report import formats
from tuner.report.facts import best_so_far, command_of, sides
from tuner.trial import Measurement, Trial

_ENDED = {
    "interrupted": "interrupted by hand",
    "abandoned": "abandoned: the tuner was killed meanwhile",
}
_MOST_SIDE_EFFECTS = 6


def _no_ops(history: History) -> Iterator[Caution]:
    for trial in history.trials:
        if not trial.no_op:
            continue
        effective = trial.outcome.effective if trial.outcome else None
        ignored = [verdict.key for verdict in effective.verdicts if verdict.status == "ignored"] if effective else []
        what = f" ({', '.join(formats.line(key) for key in ignored)})" if ignored else ""
        yield Caution(
            "no-op",
            f"trial {trial.number} changed nothing: the engine ignored what was asked{what}; it counts as another "
            "measurement of its base",
            "the effective configuration" + (f", {formats.line(effective.source)}" if effective else ""),
            trials=(trial.number,),
        )


def _invalid(history: History) -> Iterator[Caution]:
    by_message: dict[str, list[int]] = {}
    for trial in history.trials:
        if trial.failure is not None and trial.failure.kind == "invalid-measurement":
            by_message.setdefault(formats.line(trial.failure.message), []).append(trial.number)
    for message, numbers in by_message.items():
        text = f"not ranked though measured, {formats.trial_numbers(numbers)}: {message}"
        yield Caution("invalid-measurement", text, "validity checks", trials=tuple(numbers))
    for workload, *both in sides(history):
        for who, side in zip(("baseline", "winner"), both, strict=True):
            for verdict in side.verdicts if isinstance(side, Measurement) else ():
                if not verdict.valid:
                    text = f"{who} on {workload}: {formats.line(verdict.message)}"
                    yield Caution("invalid-measurement", text, f"validity check {verdict.check}")


def _failures(history: History) -> Iterator[Caution]:
    kinds: dict[str, list[Trial]] = {}
    for trial in history.trials:
        if trial.failure is not None and trial.failure.kind not in ("not-recorded", "invalid-measurement", *_ENDED):
            kinds.setdefault(trial.failure.kind, []).append(trial)
    for kind, trials in kinds.items():
        numbers = tuple(trial.number for trial in trials)
        failure = trials[0].failure
        message = f": {formats.line(failure.told)}" if failure and failure.message else ""
        way_out = (failure.way_out if failure else "") or policy(kind).way_out
        hint = f" ({way_out})" if way_out else ""
        text = f"{formats.trial_numbers(numbers)} failed, {kind}{message}{hint}"
        yield Caution(kind, text, "the servers' logs and exit codes", trials=numbers)


def _ended(history: History) -> Iterator[Caution]:
    """What ended a trial without being a failure of its configuration."""
    for kind, said in _ENDED.items():
        numbers = tuple(trial.number for trial in history.trials if trial.failure and trial.failure.kind == kind)
        if numbers:
            text = f"{formats.trial_numbers(numbers)} {said}; no failure of the configuration, which is launched again"
            yield Caution(kind, text, "how the run ended", "note", numbers)


def _side_effects(history: History) -> Iterator[Caution]:
    trial = best_so_far(history)
    effective = trial.outcome.effective if trial and trial.outcome else None
    if trial is None or effective is None:
        return
    shown = [
        f"{formats.line(e.key)} {formats.line(str(e.before))} -> {formats.line(str(e.after))}"
        for e in effective.side_effects
        if not e.derived
    ]
    if shown:
        more = f" and {len(shown) - _MOST_SIDE_EFFECTS} more" if len(shown) > _MOST_SIDE_EFFECTS else ""
        text = f"beside what was asked for, the winner also changed {'; '.join(shown[:_MOST_SIDE_EFFECTS])}{more}"
        source = f"the effective configuration, {formats.line(effective.source)}"
        yield Caution("side-effects", text, source, "note", (trial.number,))


def _noted(history: History) -> Iterator[Caution]:
    best = best_so_far(history)
    for note in best.outcome.notes if best and best.outcome else ():
        yield Caution("noted", formats.line(note), f"trial {best.number if best else ''}", "note")


def _not_recorded(history: History) -> Iterator[Caution]:
    missing = history.not_recorded
    if missing:
        count = "a measurement" if len(missing) == 1 else f"{len(missing)} measurements"
        shown = "; ".join(dict.fromkeys(command_of(history, t) or formats.line(str(t.configuration)) for t in missing))
        yield Caution(
            "not-recorded",
            f"the method asked for {count} that the recording does not hold: {shown}",
            "the recorded measurements",
            trials=tuple(trial.number for trial in missing),
        )


RULES: Sequence[Callable[[History], Iterator[Caution]]] = (
    _no_ops, _invalid, _failures, _ended, _side_effects, _noted, _not_recorded,
)  # fmt: skip

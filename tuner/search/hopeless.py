"""When a study's failures are its own and not those of its configurations. Pure.

One failure on three configurations in a row that share nothing but the study: whatever is launched next fails, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from tuner.space import SearchSpace
from tuner.trial import Configuration, Failure, State, Trial

IN_A_ROW = 3
_ENDED = ("interrupted", "not-recorded")


class Hopeless(str):
    """Why nothing more should be launched before somebody has mended something."""


def hopeless(space: SearchSpace, trials: Iterable[Trial], before: Collection[int] = ()) -> Hopeless | None:
    """Why this ends, from the trials in order; None while there is hope. `before`: numbers of those of earlier runs,
    whose failures may have been mended since."""
    finished = [trial for trial in trials if trial.state is not State.RUNNING]
    failures = _row([trial for trial in finished if trial.number not in before])
    if not failures:
        return None
    failure = failures[-1].failure
    assert failure is not None
    if failure.policy.stops:
        return Hopeless(f"the node cannot go on: {_told(failure)}")
    configurations = [trial.configuration for trial in _distinct(space, failures)][-IN_A_ROW:]
    if len(configurations) < IN_A_ROW or (failure.policy.counts and _explained(space, configurations, finished)):
        return None
    numbers = ", ".join(str(trial.number) for trial in failures)
    return Hopeless(
        f"{len(configurations)} configurations in a row that share nothing but the study failed in the same way "
        f"(trials {numbers}): {_told(failure)}; once mended, `tuner run --retry-failed` tries them again"
    )


def _told(failure: Failure) -> str:
    way_out = failure.way_out or failure.policy.way_out
    return f"{failure.kind}: {failure.told}" + (f"; {way_out}" if way_out else "")


def _row(finished: Sequence[Trial]) -> list[Trial]:
    """The failures of one way that the trials end with."""
    row: list[Trial] = []
    for trial in reversed(finished):
        if trial.state is not State.FAILED or trial.failure is None or trial.failure.kind in _ENDED:
            break
        if row and _way(trial.failure) != _way(row[-1].failure):
            break
        row.append(trial)
    return row[::-1]


def _way(failure: Failure | None) -> tuple[str, str]:
    """What makes two failures the same: their kind, and what was said but for numbers and paths. Of those that are
    not the configuration's fault the kind alone: engines word them differently."""
    assert failure is not None
    if not failure.policy.counts:
        return failure.kind, ""
    said = re.split(r"[;?] [Ii]ts last line: ", failure.message)[0]  # that line is no cause
    return failure.kind, re.sub(r"/\S+|0x[\da-f]+|[\d.,]*\d", "#", said)


def _distinct(space: SearchSpace, trials: Iterable[Trial]) -> list[Trial]:
    return list({space.identity(trial.configuration): trial for trial in trials}.values())


def _explained(space: SearchSpace, failing: Sequence[Configuration], finished: Sequence[Trial]) -> bool:
    """Whether one stage may be to blame: all that fail have a value there that nothing measured has; or, where nothing
    was measured yet, they all have one engine or one value where others are left to try."""
    measured = [trial.configuration for trial in finished if trial.state is not State.FAILED]
    engines = {space.engine_of(configuration) for configuration in failing}
    if not measured and len(engines) == 1 and len(space.engines) > 1:
        return True
    stages = {name for configuration in failing for name in configuration}
    for name in stages:
        values = {configuration.get(name) for configuration in failing}
        worked = {configuration.get(name) for configuration in measured}
        if measured and not values & worked:
            return True
        if not measured and len(values) == 1 and _changes(space, name, values.pop()):
            return True
    return False


def _changes(space: SearchSpace, name: str, value: object) -> bool:
    """Whether this option asks for anything that another one of its stage does not."""
    stage = next((stage for stage in space.stages if stage.name == name), None)
    if stage is None or len(stage.options) < 2:
        return False
    return any(option.name == value and bool(option.engines) for option in stage.options)

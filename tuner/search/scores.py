"""What the trials up to one phase say about each launch: values, attempts, noise. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from statistics import fmean, median

from tuner.objective import Method, Objective, Rank
from tuner.space import SearchSpace
from tuner.trial import Configuration, State, Trial


class Scores:
    """A read-only index of trials by launch.

    Under a method that minds noise, a no-op shares one score with its twin: the launch it was compared with.
    """

    def __init__(self, space: SearchSpace, objective: Objective, method: Method, trials: Iterable[Trial]) -> None:
        self.space, self.objective, self.method = space, objective, method
        self.trials: Sequence[Trial] = tuple(trials)
        self._by_launch: dict[str, list[Trial]] = defaultdict(list)
        self._pooled: dict[str, list[Trial]] = defaultdict(list)
        self._twins: dict[str, str] = {}
        for trial in self.trials:
            self._by_launch[space.identity(trial.configuration)].append(trial)
            if trial.no_op and trial.base is not None and method.noise:
                self._twins[space.identity(trial.configuration)] = space.identity(trial.base)
        for trial in self.trials:
            if trial.state is State.MEASURED:
                self._pooled[self.key(trial.configuration)].append(trial)

    def key(self, configuration: Configuration) -> str:
        """The launch whose score this configuration shares: its own, or its twin's."""
        key = self.space.identity(configuration)
        for _ in range(len(self._twins)):
            if key not in self._twins:
                break
            key = self._twins[key]
        return key

    def value(self, configuration: Configuration) -> float | None:
        """Median over the launches measured."""
        values = [trial.value for trial in self._measured(configuration) if trial.value is not None]
        return median(values) if values else None

    def rank(self, configuration: Configuration) -> Rank | None:
        """Smaller is better; None when nothing was measured."""
        value = self.value(configuration)
        if value is None:
            return None
        return self.objective.rank(value, median(trial.violation for trial in self._measured(configuration)))

    def best(self, configurations: Iterable[Configuration]) -> Configuration | None:
        """The best-ranked of these; the earlier on a tie; None when none was measured."""
        ranked = [(rank, c) for c in configurations if (rank := self.rank(c)) is not None]
        return min(ranked, key=lambda pair: pair[0])[1] if ranked else None

    def attempts(self, configuration: Configuration) -> Fraction:
        """Launches that count: measured and pruned ones, and failures as far as they are not to be repeated."""
        return sum((_attempt(trial) for trial in self._of(configuration)), Fraction(0))

    def running(self, configuration: Configuration) -> int:
        return sum(trial.state is State.RUNNING for trial in self._of(configuration))

    def unrecorded(self, configuration: Configuration) -> bool:
        """Whether a recording was asked for this launch and did not have it."""
        return any(t.failure is not None and t.failure.kind == "not-recorded" for t in self._of(configuration))

    @cached_property
    def band(self) -> float | None:
        """Half-width of the relative difference between two measurements that noise explains; None: not known.

        `quantile * sqrt(2) * s`, with `s` the pooled standard deviation of the logarithms, the larger of the one
        within launches (repeats) and the one between launches of one configuration (their medians). Known from
        two degrees of freedom on.
        """
        within = [trial.values for trial in self.trials if trial.state is State.MEASURED]
        between = [[t.value for t in group if t.value is not None] for group in self._pooled.values()]
        pools = [_pooled_variance(within), _pooled_variance(between)]
        if sum(freedom for _, freedom in pools) < 2:
            return None
        return self.method.quantile * math.sqrt(2 * max(variance for variance, _ in pools))

    def gain(self, configuration: Configuration, base: Configuration) -> float | None:
        """Relative improvement over `base`; None when either was not measured."""
        value, before = self.value(configuration), self.value(base)
        return None if value is None or before is None else self.objective.gain(value, before)

    def _of(self, configuration: Configuration) -> list[Trial]:
        return self._by_launch.get(self.space.identity(configuration), [])

    def _measured(self, configuration: Configuration) -> list[Trial]:
        return self._pooled.get(self.key(configuration), [])


def _attempt(trial: Trial) -> Fraction:
    if trial.state is State.RUNNING:
        return Fraction(0)
    if trial.state is State.FAILED and trial.failure is not None:
        return trial.failure.attempt
    return Fraction(1)


def _pooled_variance(groups: Iterable[Sequence[float]]) -> tuple[float, int]:
    """Variance of the logarithms about each group's own mean, and its degrees of freedom."""
    squares, freedom = 0.0, 0
    for group in groups:
        logs = [math.log(value) for value in group if value > 0]
        if len(logs) > 1:
            mean = fmean(logs)
            squares += sum((log - mean) ** 2 for log in logs)
            freedom += len(logs) - 1
    return (squares / freedom if freedom else 0.0), freedom

"""What the trials up to one phase say about each launch: values, attempts, noise. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median

from tuner.objective import Method, Objective, Rank
from tuner.space import SearchSpace
from tuner.trial import Configuration, State, Trial


class Scores:
    """An index of trials by launch. It grows with the phases of one decision and is dropped with it.

    Under a method that minds noise, a no-op shares one score with its twin: the launch it was compared with.
    """

    def __init__(self, space: SearchSpace, objective: Objective, method: Method, trials: Iterable[Trial] = ()) -> None:
        self.space, self.objective, self.method = space, objective, method
        self.trials: list[Trial] = []
        self._by_launch: dict[str, list[Trial]] = defaultdict(list)
        self._twins: dict[str, str] = {}
        self._pools: dict[str, list[Trial]] = defaultdict(list)
        self._ranks: dict[str, Rank] = {}
        self._within, self._between = _Spread(), _Spread()
        self.add(trials)

    def add(self, trials: Iterable[Trial]) -> None:
        """Count these trials too."""
        for trial in trials:
            self.trials.append(trial)
            identity = self.space.identity(trial.configuration)
            self._by_launch[identity].append(trial)
            if trial.no_op and trial.base is not None and self.method.noise:
                self._join(identity, self.space.identity(trial.base))
            if trial.state is State.MEASURED:
                self._within += _spread(trial.values)
                self._pool(self._root(identity), [trial])

    def key(self, configuration: Configuration) -> str:
        """The launch whose score this configuration shares: its own, or its twin's."""
        return self._root(self.space.identity(configuration))

    def value(self, configuration: Configuration) -> float | None:
        """Median over the launches measured."""
        values = [trial.value for trial in self._measured(configuration) if trial.value is not None]
        return median(values) if values else None

    def rank(self, configuration: Configuration) -> Rank | None:
        """Smaller is better; None when nothing was measured."""
        key = self.key(configuration)
        if key not in self._ranks:
            value = self.value(configuration)
            if value is None:
                return None
            violation = median(trial.violation for trial in self._measured(configuration))
            self._ranks[key] = self.objective.rank(value, violation)
        return self._ranks[key]

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

    @property
    def band(self) -> float | None:
        """Half-width of the relative difference between two measurements that noise explains; None: not known.

        `quantile * sqrt(2) * s`, with `s` the pooled standard deviation of the logarithms, the larger of the one
        within launches (repeats) and the one between launches of one configuration (their medians). Known from
        two degrees of freedom on.
        """
        within, between = self._within, self._between
        if within.freedom + between.freedom < 2:
            return None
        return self.method.quantile * math.sqrt(2 * max(within.variance, between.variance))

    def gain(self, configuration: Configuration, base: Configuration) -> float | None:
        """Relative improvement over `base`; None when either was not measured."""
        value, before = self.value(configuration), self.value(base)
        return None if value is None or before is None else self.objective.gain(value, before)

    def _of(self, configuration: Configuration) -> list[Trial]:
        return self._by_launch.get(self.space.identity(configuration), [])

    def _measured(self, configuration: Configuration) -> list[Trial]:
        return self._pools.get(self.key(configuration), [])

    def _root(self, identity: str) -> str:
        while identity in self._twins:
            identity = self._twins[identity]
        return identity

    def _join(self, identity: str, twin: str) -> None:
        """From now on these two launches share one score."""
        own, other = self._root(identity), self._root(twin)
        if own != other:
            self._twins[own] = other
            self._between -= self._spread_of(own)
            self._pool(other, self._pools.pop(own, []))

    def _pool(self, key: str, trials: list[Trial]) -> None:
        """Add measured trials to the score of one launch."""
        self._between -= self._spread_of(key)
        self._pools[key] += trials
        self._between += self._spread_of(key)
        self._ranks.pop(key, None)

    def _spread_of(self, key: str) -> _Spread:
        """Between the launches of one score."""
        return _spread([trial.value for trial in self._pools.get(key, ()) if trial.value is not None])


_NONE, _ONE = Fraction(0), Fraction(1)


def _attempt(trial: Trial) -> Fraction:
    if trial.state is State.RUNNING:
        return _NONE
    if trial.state is State.FAILED and trial.failure is not None:
        return trial.failure.attempt
    return _ONE


@dataclass(frozen=True)
class _Spread:
    """Squares of logarithms about their group's own mean, and degrees of freedom; those of several groups add up."""

    squares: float = 0.0
    freedom: int = 0

    @property
    def variance(self) -> float:
        return max(0.0, self.squares) / self.freedom if self.freedom else 0.0

    def __add__(self, other: _Spread) -> _Spread:
        return _Spread(self.squares + other.squares, self.freedom + other.freedom)

    def __sub__(self, other: _Spread) -> _Spread:
        return _Spread(self.squares - other.squares, self.freedom - other.freedom)


def _spread(group: Sequence[float]) -> _Spread:
    logs = [math.log(value) for value in group if value > 0]
    if len(logs) < 2:
        return _Spread()
    mean = sum(logs) / len(logs)
    return _Spread(sum((log - mean) ** 2 for log in logs), len(logs) - 1)

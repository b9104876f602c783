"""Phases: the steps a search goes through. Each says which launches it still wants and what it concludes. Pure.

A new kind of step (undo, combine, another race) is one more function here that returns a `Phase`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

from tuner.objective import Method
from tuner.search import CONFIRM, Step
from tuner.search.numeric import proposals
from tuner.search.scores import Scores
from tuner.space import SearchSpace, Stage
from tuner.trial import Configuration

# A gain this many noise bands wide is believed after one launch of each; a smaller one is launched again first.
SURE = 3.0


@dataclass(frozen=True)
class Lineage:
    """One member of the beam: its incumbent, how it got there, and whether confirming launches chose it."""

    incumbent: Configuration
    steps: tuple[Step, ...] = ()
    confirmed: bool = False


Lineages: TypeAlias = "tuple[Lineage, ...]"


@dataclass(frozen=True)
class Wanted:
    """A configuration this phase needs `launches` launches of; `base` is what it is compared with."""

    configuration: Configuration
    launches: int = 1
    base: Configuration | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class Phase:
    """One step. `wanted` grows as its earlier wishes are measured; once all are settled `conclude` gives the
    lineages the next phase starts from. `fresh`: only this phase's own trials count."""

    name: str
    wanted: Callable[[Lineages, Scores], Sequence[Wanted]]
    conclude: Callable[[Lineages, Scores], Lineages]
    fresh: bool = False


def phases(space: SearchSpace, method: Method, seed: int = 0) -> list[Phase]:
    """The whole search, in order."""
    first, *others = space.stages
    steps = [_first(space, first, method, seed)]
    steps += [_stage(space, stage, method, seed) for stage in others]
    return steps + ([_confirm(space, method)] if method.confirm else [])


def _first(space: SearchSpace, stage: Stage, method: Method, seed: int) -> Phase:
    """The first stage: every option, then the best of each engine, as many engines as the beam is wide."""
    if not stage.options:
        return _stage(space, stage, method, seed)
    candidates = space.candidates(stage, space.baseline)

    def wanted(lineages: Lineages, scores: Scores) -> list[Wanted]:
        return [Wanted(configuration) for configuration in candidates]

    def conclude(lineages: Lineages, scores: Scores) -> Lineages:
        engines = dict.fromkeys(space.engine_of(configuration) for configuration in candidates)
        best = [scores.best(c for c in candidates if space.engine_of(c) == engine) for engine in engines]
        ranked = sorted((c for c in best if c is not None), key=lambda c: scores.rank(c) or (0.0, 0.0))
        return tuple(
            Lineage(c, (_step(stage.name, space.baseline, c, scores, candidates),)) for c in ranked[: method.beam]
        )

    return Phase(stage.name, wanted, conclude)


def _stage(space: SearchSpace, stage: Stage, method: Method, seed: int) -> Phase:
    """One stage, for each lineage by itself: its options on the incumbent, and the incumbent stays unless beaten."""

    @cache  # asked for twice in a decision: what is wanted, what was tried
    def options(incumbent: Configuration) -> list[Configuration]:
        return space.candidates(stage, incumbent) if stage.options else []

    def candidates(lineage: Lineage, scores: Scores) -> list[Configuration]:
        return options(lineage.incumbent) + proposals(space, stage, lineage.incumbent, scores, seed)

    def wanted(lineages: Lineages, scores: Scores) -> list[Wanted]:
        return [
            wish
            for lineage in lineages
            for wish in _race(lineage.incumbent, candidates(lineage, scores), scores, method)
        ]

    def conclude(lineages: Lineages, scores: Scores) -> Lineages:
        kept = []
        for lineage in lineages:
            tried = candidates(lineage, scores)
            after = _accepted(lineage.incumbent, tried, scores, method)
            step = _step(stage.name, lineage.incumbent, after, scores, tried)
            kept.append(Lineage(after, (*lineage.steps, step)))
        return _distinct(kept, scores)

    return Phase(stage.name, wanted, conclude)


def _confirm(space: SearchSpace, method: Method) -> Phase:
    """Launch the finalists and the baseline again, in turns; these launches alone decide and make the headline."""

    def finalists(lineages: Lineages) -> list[Configuration]:
        baseline = (space.baseline,) if lineages[0].steps[0].value_before is not None else ()
        every = (*baseline, *(lineage.incumbent for lineage in lineages))
        return list({space.identity(c): c for c in reversed(every)}.values())[::-1]

    def wanted(lineages: Lineages, scores: Scores) -> list[Wanted]:
        chosen = finalists(lineages)
        return [Wanted(c, method.confirm, base=space.baseline) for c in chosen] if len(chosen) > 1 else []

    def conclude(lineages: Lineages, scores: Scores) -> Lineages:
        chosen = finalists(lineages)
        best = scores.best(chosen)
        if best is None or any(scores.unrecorded(c) for c in chosen):
            return lineages
        way = next((lineage for lineage in lineages if lineage.incumbent == best), Lineage(best))
        return (replace(way, confirmed=True),)

    return Phase(CONFIRM, wanted, conclude, fresh=True)


def _race(base: Configuration, candidates: Sequence[Configuration], scores: Scores, method: Method) -> Iterable[Wanted]:
    """One launch of each candidate; then, where the best one's gain is not plain, one more of it and of the base."""
    threshold = scores.value(base)
    yield from (Wanted(c, base=base, threshold=threshold) for c in candidates)
    challenger = scores.best(candidates)
    if not method.noise or challenger is None or any(scores.attempts(c) < 1 for c in candidates):
        return
    if _doubtful(base, challenger, scores, method):
        yield Wanted(base, launches=2, base=base)
        yield Wanted(challenger, launches=2, base=base)


def _doubtful(base: Configuration, challenger: Configuration, scores: Scores, method: Method) -> bool:
    gain = scores.gain(challenger, base)
    if gain is None or gain <= method.min_gain or scores.key(challenger) == scores.key(base):
        return False
    return scores.band is None or gain <= SURE * scores.band


def _accepted(
    base: Configuration, candidates: Sequence[Configuration], scores: Scores, method: Method
) -> Configuration:
    """The best candidate if it beats the base by the method's rule, else the base."""
    best, before = scores.best(candidates), scores.rank(base)
    if best is None or scores.key(best) == scores.key(base):
        return base
    rank = scores.rank(best)
    if before is None or rank is None or rank[0] != before[0]:
        return best if before is None or (rank is not None and rank < before) else base
    gain = scores.gain(best, base)
    return best if gain is not None and gain > _least_gain(scores, method) else base


def _least_gain(scores: Scores, method: Method) -> float:
    """What a gain must exceed. Where noise counts but is not known, nothing is believed."""
    if not method.noise:
        return method.min_gain
    return max(method.min_gain, float("inf") if scores.band is None else scores.band)


def _step(
    name: str, before: Configuration, after: Configuration, scores: Scores, tried: Sequence[Configuration]
) -> Step:
    changed = scores.key(after) != scores.key(before)
    kept = {scores.key(after), scores.key(before)}
    own = [c for c in tried if len(c) != len(before) or c.get(name) != before.get(name)]  # not the stage's own option
    rejected = scores.best([c for c in own if scores.key(c) not in kept])
    return Step(
        phase=name,
        before=before,
        after=after,
        value_before=scores.value(before),
        value_after=scores.value(after),
        gain=scores.gain(after, before) if changed else None,
        band=scores.band,
        best_rejected=rejected,
        value_rejected=scores.value(rejected) if rejected is not None else None,
    )


def _distinct(lineages: Iterable[Lineage], scores: Scores) -> Lineages:
    """Lineages that have become one launch go on as one."""
    first: dict[str, Lineage] = {}
    for lineage in lineages:
        first.setdefault(scores.key(lineage.incumbent), lineage)
    return tuple(first.values())

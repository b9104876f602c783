"""How many trials a search takes at the least and at the most. Pure, counted from the space and the method alone.

Both hold wherever no launch has to be tried again: a failure that says little about its configuration (a port taken,
a tuner killed) is retried, and those launches come on top.

Where noise counts, a launch of a later stage may be made twice: each may in turn be the best of its stage by a gain
that is not plain, and then it and its base are launched again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from tuner.objective import Method
from tuner.space import SearchSpace, Stage
from tuner.trial import Configuration

# Ways through the later stages that are followed one by one; where there are more, each stage counts in full.
_MOST_WAYS = 4096


@dataclass(frozen=True)
class Bounds:
    """Trials of a whole search. `fewest`: where every launch is measured and no sampler runs out of values.
    `once`: the most where every gain is plain. `most`: the most at all."""

    fewest: int
    once: int
    most: int


@dataclass(frozen=True)
class _Lineage:
    """What one engine may add: new launches after the first stage, and whether it may end off the baseline."""

    fewest: int
    most: int
    leaves_baseline: bool


def bounds(space: SearchSpace, method: Method) -> Bounds:
    """The bounds of a search by this method."""
    first, *later = space.stages
    if first.options:
        starts = space.candidates(first, space.baseline)
        first_launches = len({space.identity(start) for start in starts})
    else:
        starts, later, first_launches = [space.baseline], [first, *later], 0
    by_engine: dict[str, list[Configuration]] = {}
    for start in starts:
        by_engine.setdefault(space.engine_of(start), []).append(start)
    engines = [_lineage(space, later, group, launched=bool(first.options)) for group in by_engine.values()]
    kept = min(method.beam, len(engines))
    fewest = first_launches + sum(sorted(each.fewest for each in engines)[:kept])
    return Bounds(
        fewest=fewest + (method.confirm * kept if kept > 1 else 0),
        once=first_launches + _most(engines, kept, method.confirm, repeated=False, started=bool(first.options)),
        most=first_launches + _most(engines, kept, method.confirm, method.noise, started=bool(first.options)),
    )


def _most(engines: Sequence[_Lineage], kept: int, confirm: int, repeated: bool, started: bool) -> int:
    """Launches after the first stage of the engines that add most. `started`: the first stage launched their starts,
    which may be launched again as bases."""
    totals = [
        each.most
        + (each.most + (started and each.most > 0) if repeated else 0)
        + (confirm if each.leaves_baseline else 0)
        for each in engines
    ]
    chosen = sorted(totals, reverse=True)[:kept]
    return sum(chosen) + (confirm if any(each.leaves_baseline for each in engines) else 0)


def _lineage(space: SearchSpace, stages: Sequence[Stage], starts: Sequence[Configuration], launched: bool) -> _Lineage:
    ways = prod(len(stage.options) + 1 for stage in stages)
    counts = []
    for start in starts:
        known = frozenset({space.identity(start)} if launched else ())
        if ways <= _MOST_WAYS:
            counts += list(_ways(space, stages, start, known))
        else:
            counts += [0, _in_full(space, stages, start)]
    away = any(space.identity(start) != space.identity(space.baseline) for start in starts)
    return _Lineage(min(counts), max(counts), away or max(counts) > 0)


def _ways(
    space: SearchSpace, stages: Sequence[Stage], incumbent: Configuration, known: frozenset[str]
) -> Iterator[int]:
    """The launches of each way through these stages: in each the incumbent stays or one of the options is kept."""
    if not stages:
        yield 0
        return
    stage, later = stages[0], stages[1:]
    options = space.candidates(stage, incumbent) if stage.options else []
    found = {space.identity(option): option for option in options}
    new = [identity for identity in found if identity not in known]
    sampled = _sampled(space, stage, incumbent)
    moved = incumbent.merged({p.name: f"? {stage.name}" for p in stage.parameters}) if sampled else incumbent
    for after in {incumbent, moved, *found.values()}:
        for launches in _ways(space, later, after, known | set(new)):
            yield len(new) + sampled + launches


def _sampled(space: SearchSpace, stage: Stage, incumbent: Configuration) -> int:
    """What the stage's sampler proposes at the most."""
    engine = space.engine_of(incumbent)
    return stage.trials if any(engine in parameter.engines for parameter in stage.parameters) else 0


def _in_full(space: SearchSpace, stages: Sequence[Stage], start: Configuration) -> int:
    """Every option that the engine is offered, as if each were a new launch."""
    engine = space.engine_of(start)
    return sum(len(space.offered(stage, engine)) + _sampled(space, stage, start) for stage in stages)

"""The decision: a fold over phases, a pure function of the stored trials. No counter or list lives beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tuner.objective import NORMAL, Method, Objective
from tuner.search import Decision, Done, Evaluate, Wait
from tuner.search.phases import Lineage, Lineages, Phase, Wanted, phases
from tuner.search.scores import Scores
from tuner.space import SearchSpace
from tuner.trial import Trial


def decide(
    space: SearchSpace,
    trials: Iterable[Trial],
    method: Method = NORMAL,
    objective: Objective | None = None,
    seed: int = 0,
) -> Decision:
    """What to launch next, given every trial so far; or that it must wait, or that the search is over.

    A trial counts from its own phase on: phase p is decided from trials of phases up to p, so that a later
    measurement never rewrites an earlier decision. One of no phase (imported, enqueued) counts from the start;
    one of a phase that this method does not have counts nowhere.
    """
    objective = objective or Objective()
    steps = phases(space, method, seed)
    by_phase: dict[str, list[Trial]] = {name: [] for name in ("", *(phase.name for phase in steps))}
    for trial in sorted(trials, key=lambda trial: trial.number):
        by_phase.get(trial.phase, []).append(trial)
    lineages: Lineages = (Lineage(space.baseline),)
    ended = lineages
    searched = Scores(space, objective, method, by_phase[""])
    confirmed = Scores(space, objective, method)
    for phase in steps:
        scores = confirmed if phase.fresh else searched
        scores.add(by_phase[phase.name])
        wishes = phase.wanted(lineages, scores)
        pending = [wish for wish in wishes if scores.attempts(wish.configuration) < wish.launches]
        if pending:
            return _next(pending, phase, scores)
        lineages = phase.conclude(lineages, scores) if wishes else lineages
        ended = ended if phase.fresh else lineages
        if not lineages:
            return Done(None, baseline=space.baseline)
    return _done(space, lineages, confirmed if lineages[0].confirmed else searched, ended)


def _next(pending: Sequence[Wanted], phase: Phase, scores: Scores) -> Decision:
    """The wish with the fewest launches so far, so that repeats are interleaved; Wait where all are running.

    A launch that is to be tried again has not been: it keeps its place.
    """

    def launched(wish: Wanted) -> int:
        return int(scores.attempts(wish.configuration)) + scores.running(wish.configuration)

    open_wishes = [wish for wish in pending if launched(wish) < wish.launches]
    if not open_wishes:
        return Wait()
    wish = min(open_wishes, key=launched)
    return Evaluate(wish.configuration, phase.name, wish.base, wish.threshold)


def _done(space: SearchSpace, lineages: Lineages, scores: Scores, ended: Lineages) -> Done:
    """The winner: the one confirming launches chose, with their values; else the best-ranked lineage of the search."""
    best = scores.best(lineage.incumbent for lineage in lineages)
    way = next((lineage for lineage in lineages if lineage.incumbent == best), None)
    return Done(
        best=best,
        value=scores.value(best) if best is not None else None,
        baseline=space.baseline,
        baseline_value=scores.value(space.baseline),
        confirmed=lineages[0].confirmed,
        steps=way.steps if way else (),
        ways=tuple(lineage.steps for lineage in ended),
    )

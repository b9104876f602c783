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
    order = {"": -1} | {phase.name: index for index, phase in enumerate(steps)}
    trials = sorted((trial for trial in trials if trial.phase in order), key=lambda trial: trial.number)
    lineages: Lineages = (Lineage(space.baseline),)
    scores = Scores(space, objective, method, ())
    for index, phase in enumerate(steps):
        counted = [t for t in trials if t.phase == phase.name or (order[t.phase] < index and not phase.fresh)]
        scores = Scores(space, objective, method, counted)
        pending = [
            wish for wish in phase.wanted(lineages, scores) if scores.attempts(wish.configuration) < wish.launches
        ]
        if pending:
            return _next(pending, phase, scores)
        lineages = phase.conclude(lineages, scores) if not phase.fresh or scores.trials else lineages
        if not lineages:
            return Done(None, baseline=space.baseline)
    return _done(space, lineages, trials, objective, method, steps)


def _next(pending: Sequence[Wanted], phase: Phase, scores: Scores) -> Decision:
    """The wish with the fewest launches so far, so that repeats are interleaved; Wait where all are running."""
    open_wishes = [
        wish
        for wish in pending
        if scores.attempts(wish.configuration) + scores.running(wish.configuration) < wish.launches
    ]
    if not open_wishes:
        return Wait()
    wish = min(open_wishes, key=lambda w: scores.attempts(w.configuration) + scores.running(w.configuration))
    return Evaluate(wish.configuration, phase.name, wish.base, wish.threshold)


def _done(
    space: SearchSpace,
    lineages: Lineages,
    trials: Sequence[Trial],
    objective: Objective,
    method: Method,
    steps: Sequence[Phase],
) -> Done:
    """The winner: the one confirming launches chose, with their values; else the best-ranked lineage of the search."""
    fresh = {phase.name for phase in steps if phase.fresh}
    confirmed = lineages[0].confirmed
    scores = Scores(space, objective, method, (t for t in trials if (t.phase in fresh) == confirmed))
    best = scores.best(lineage.incumbent for lineage in lineages)
    way = next((lineage for lineage in lineages if lineage.incumbent == best), None)
    return Done(
        best=best,
        value=scores.value(best) if best is not None else None,
        baseline=space.baseline,
        baseline_value=scores.value(space.baseline),
        confirmed=confirmed,
        steps=way.steps if way else (),
    )

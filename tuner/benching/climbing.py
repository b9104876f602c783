"""Several loads on one server, one after the other: a table of them, and the highest that meets the limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tuner.benching.asked import Asked
from tuner.benching.ending import Ending
from tuner.benching.passes import Pass, measured
from tuner.benching.saving import Saved, incomplete, save, shown_by
from tuner.benchmarks import Workload
from tuner.benchmarks.ladder import Ladder, Rung, holding, next_load
from tuner.benchmarks.metrics import share_within
from tuner.benchmarks.streaming import Client
from tuner.errors import TunerError

Say = Callable[[str], None]
COLUMNS = {
    "total_token_throughput": "total tok/s",
    "output_throughput": "output tok/s",
    "mean_ttft_ms": "TTFT ms",
    "p99_ttft_ms": "P99",
    "mean_tpot_ms": "TPOT ms",
    "p99_tpot_ms": "P99",
}


def climb(
    asked: Asked, ladder: Ladder, model: str, client: Client, ending: Ending, date: str, say: Say, show: Say
) -> int:
    """Measure one load after the other, each with prompts of its own; the exit code.

    Raises:
        TunerError: nothing was measured, no load meets the limits, or a result could not be saved or shown.
    """
    rungs: list[Rung] = []
    passes: list[Pass] = []
    files = Saved()
    while (load := next_load(ladder, rungs)) is not None and not ending.asked_for:
        say(f"{_named(ladder, load)}: {asked.workload.num_prompts} requests")
        workload = at(asked.workload, ladder, load, len(rungs))
        done = measured(asked, workload, model, client, ending, say)
        saved = save(done, asked, date, _named(ladder, load).replace(" ", "-"))
        files = Saved(files.written + saved.written, files.problems + saved.problems)
        for text in (*(f"wrote {path}" for path in saved.written), *saved.problems):
            say(text)
        if why := incomplete(done):
            say(f"{_named(ladder, load)}: {why}")
        passes.append(done)
        rungs.append(Rung(load, share_within(done.run.responses, workload.goodput)))
        if not done.measured and not _overloaded(done):
            break
    problems = []
    if any(done.measured for done in passes):
        problems = shown_by(show, _shown(ladder, rungs, passes, ending.asked_for), files)
    if ending.asked_for:
        return 130
    if problem := _problem(ladder, rungs, passes) or next(iter((*problems, *files.problems)), ""):
        raise TunerError(problem)
    return 0


def at(workload: Workload, ladder: Ladder, load: float, number: int) -> Workload:
    """The workload at this load, with prompts that no other rung has sent."""
    seed = workload.seed + number
    if ladder.kind == "concurrency":
        return replace(workload, max_concurrency=int(load), seed=seed)
    return replace(workload, request_rate=load, seed=seed)


def table(ladder: Ladder, rungs: Sequence[Rung], passes: Sequence[Pass]) -> str:
    """A line for each load, lowest first."""
    limits = bool(passes and passes[0].workload.goodput)
    head = [ladder.kind, "done", "failed", *COLUMNS.values(), *(["within limits"] if limits else [])]
    pairs = sorted(zip(rungs, passes, strict=True), key=lambda pair: pair[0].load)
    rows = [head, *(_row(rung, done, limits) for rung, done in pairs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _row(rung: Rung, done: Pass, limits: bool) -> list[str]:
    metrics = done.run.metrics
    counts = [f"{metrics.get(name, 0):.0f}" for name in ("completed", "failed")]
    figures = [f"{metrics[name]:.1f}" if done.measured and name in metrics else "-" for name in COLUMNS]
    return [f"{rung.load:g}", *counts, *figures, *([f"{rung.share:.1%}"] if limits else [])]


def _shown(ladder: Ladder, rungs: Sequence[Rung], passes: Sequence[Pass], interrupted: bool) -> str:
    """The table, what is not as usual of it, and the highest load where that was sought."""
    lines = [table(ladder, rungs, passes)]
    lines += ["(incomplete: interrupted)"] if interrupted else []
    lines += ["(simulated: the server is a stand-in engine)"] if any(done.simulated for done in passes) else []
    best = None if ladder.loads or interrupted else holding(ladder, rungs)
    if best is not None:
        reach = ", the highest that was allowed (--max-load)" if best >= ladder.most else ""
        lines.append(f"highest {ladder.kind} with {ladder.share:.0%} of requests within the limits: {best:g}{reach}")
    return "\n".join(lines)


def _problem(ladder: Ladder, rungs: Sequence[Rung], passes: Sequence[Pass]) -> str:
    """Why the loads say nothing, or less than was asked; '' if they say it."""
    if problem := next((done.problem for done in passes if done.problem and not done.measured), ""):
        return f"no request succeeded: {problem}"
    if ladder.loads:
        return next((done.problem for done in passes if done.problem), "")
    if holding(ladder, rungs) is not None:
        return ""
    lowest = min(rung.load for rung in rungs)
    return f"no {ladder.kind} down to {lowest:g} has {ladder.share:.0%} of its requests within the limits"


def _overloaded(done: Pass) -> bool:
    """Whether a lower load may do what this one could not."""
    return any(response.failure in ("overloaded", "stalled") for response in done.run.responses)


def _named(ladder: Ladder, load: float) -> str:
    return f"{ladder.kind} {load:g}"

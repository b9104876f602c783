"""The report as an ordered list of blocks, the same for terminal, Markdown and HTML. Pure.

What got worse comes first, then warnings, then gains. Every block of a simulated study says so in its title.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tuner.history import Caution
from tuner.report import formats
from tuner.report.decided import Decided
from tuner.report.summary import Compared, Failed, Loss, Row, Summary
from tuner.trial import State

# Characters of a failure in the table of trials; the warnings have it in full.
_LONGEST_FAILURE = 90
# Parts of a trial whose own names say too little.
_PARTS = {"ready": "start until ready", "effective": "reading the configuration back"}
# Column names of the metrics that every comparison has; the block's title names them in full.
_SHORT = {"total_token_throughput": "tok/s", "mean_tpot_ms": "TPOT ms"}
Tone: TypeAlias = Literal["", "warning", "note"]


@dataclass(frozen=True)
class Item:
    """One line of a listing; `detail` is smaller print (the source of a caution). `lines` are shown as they are
    (a log's end) where there is room, else `short`."""

    text: str
    detail: str = ""
    tone: Tone = ""
    lines: tuple[str, ...] = ()
    short: str = ""


@dataclass(frozen=True)
class Listing:
    key: str
    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Table:
    """`align` has one letter a column, l or r. `marks` are the indices of rows that stand out, `kept` of those that are
    shown wherever some are left out."""

    key: str
    title: str
    columns: tuple[str, ...]
    align: str
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()


Block: TypeAlias = "Listing | Table"


def blocks(summary: Summary) -> tuple[Block, ...]:
    """Every block that has something to say, in order."""
    made: tuple[Block, ...] = (
        _losses(summary), _cautions(summary), _decided(summary), _compared(summary), _trials(summary),
        _failures(summary), _missing(summary), _time(summary), _provenance(summary),
    )  # fmt: skip
    return tuple(block for block in made if (block.items if isinstance(block, Listing) else block.rows))


def about(summary: Summary) -> str:
    """One line: study, model, method and where the figures come from."""
    origins = {"recorded": "replayed from recorded measurements", "simulated": "simulated", "live": "measured here"}
    method = f"method {summary.method}"
    return ", ".join(formats.line(part) for part in (summary.study, summary.model, method, origins[summary.origin]))


def verdict(summary: Summary) -> str:
    """The headline in one sentence."""
    head = summary.headline
    trials = f"{len(summary.trials)} trial{'s' * (len(summary.trials) != 1)}, method {formats.line(summary.method)}"
    if head.trial is None or head.value is None:
        return f"nothing measured yet ({trials})" if not head.finished else f"nothing could be measured ({trials})"
    against = (
        f"the baseline itself: {head.fallen_back or 'no change was kept'}"
        if head.is_baseline
        else f"{formats.percent(head.gain)} against the baseline's {formats.number(head.baseline)}"
        if head.gain is not None
        else "the baseline has no value"
    )
    state = "confirmed by new launches" if head.confirmed else "not confirmed by new launches"
    said = (
        f"{formats.with_unit(head.metric, head.value)} {formats.metric(head.metric)} on {formats.line(head.workload)}"
    )
    made = formats.median_of(head.median_of)
    said += f" ({made})" if made else ""
    return f"{_simulated(summary)}{said}, {against}; {state if head.finished else 'not finished'}; {trials}"


def heading(summary: Summary) -> str:
    head = summary.headline
    what = "Best launch command" if head.finished else "Best so far"
    return _title(summary, what + (f", trial {head.trial}" if head.trial is not None else ""))


def _simulated(summary: Summary) -> str:
    return "simulated: " if summary.simulated else ""


def _title(summary: Summary, text: str) -> str:
    return f"{text} (simulated)" if summary.simulated else text


def _losses(summary: Summary) -> Listing:
    by_metric: dict[str, list[Loss]] = {}
    for loss in summary.losses:
        by_metric.setdefault(loss.metric, []).append(loss)
    items = []
    for name, losses in by_metric.items():
        if not name:
            items += [
                Item(f"fails on {formats.line(loss.workload)}: {loss.failure}", tone="warning") for loss in losses
            ]
            continue
        changes = [(loss, loss.change) for loss in losses if loss.change is not None]
        text = ", ".join(f"{formats.rough(change.ratio)} on {formats.line(loss.workload)}" for loss, change in changes)
        figures = "; ".join(
            f"{formats.line(loss.workload)} {formats.number(c.before)} -> {formats.with_unit(name, c.after)}"
            for loss, c in changes
        )
        items.append(Item(f"{formats.metric(name)} {text}", figures, "warning"))
    return Listing("losses", _title(summary, "What got worse"), tuple(items))


def _cautions(summary: Summary) -> Listing:
    return Listing("cautions", _title(summary, "Warnings and notes"), tuple(_caution(c) for c in summary.cautions))


def _caution(caution: Caution) -> Item:
    return Item(caution.text, caution.source, "warning" if caution.severity == "warning" else "note")


def _decided(summary: Summary) -> Table:
    rows = tuple(
        (step.phase, ", ".join(step.tried) or "-", step.kept, formats.percent(step.gain), _rejected(step), _noise(step))
        for step in summary.decided
    )
    title = _title(summary, "Options, each on top of what was kept before it")
    return Table("options", title, ("stage", "tried", "kept", "gain", "best rejected", "noise"), "lllrll", rows)


def _rejected(step: Decided) -> str:
    if not step.rejected:
        return "-"
    return f"{step.rejected} {formats.percent(step.rejected_gain)}" if step.rejected_gain is not None else step.rejected


def _noise(step: Decided) -> str:
    band = formats.percent(step.band).lstrip("+")
    said = {"above": f"above the band of {band}", "within": f"within the band of {band}", "": "", "below": "below",
            "small": "less than the least gain kept", "failed": "failed", "limit": "misses a limit",
            "holds a limit": "holds a limit",
            "kept by the beam": "behind by default, tuned all the same"}  # fmt: skip
    return said.get(step.noise, "not known (no repeats)")


def _compared(summary: Summary) -> Table:
    metrics = [change.metric for change in summary.compared[0].changes] if summary.compared else []
    columns = ["workload"]
    for name in metrics:
        short = _SHORT.get(name) or f"{formats.metric(name).removesuffix(' throughput')} {formats.unit(name)}"
        columns += [f"baseline {short}", f"winner {short}", "change"]
    named = ", ".join(formats.metric(name) for name in metrics)
    title = _title(summary, f"Baseline and winner on every workload: {named}")
    rows = tuple(tuple(_compared_cells(row)) for row in summary.compared)
    return Table("compared", title, tuple(columns), "l" + "rrr" * len(metrics), rows)


def _compared_cells(row: Compared) -> Iterator[str]:
    yield formats.line(row.workload)
    for change in row.changes:
        yield formats.number(change.before) if change.before is not None else row.baseline_absent or "-"
        yield formats.number(change.after) if change.after is not None else row.winner_absent or "-"
        throughput = change.metric.endswith("_throughput")
        yield formats.percent(change.ratio) if throughput else formats.rough(change.ratio)


def _trials(summary: Summary) -> Table:
    metric = summary.headline.metric
    columns = ("trial", "phase", "engine", "changed", f"{formats.metric(metric)} ({formats.unit(metric)})", "outcome")
    rows = tuple(
        (str(r.number), r.phase, r.engine, r.changed, formats.number(r.value), _outcome(r)) for r in summary.trials
    )
    best = tuple(index for index, row in enumerate(summary.trials) if row.best)
    return Table("trials", _title(summary, "Trials"), columns, "rlllrl", rows, best, (0, *best))


def _outcome(row: Row) -> str:
    if row.failure:
        return formats.cut(row.failure, _LONGEST_FAILURE)
    words = {State.PRUNED: "stopped early: could not win", State.RUNNING: "running", State.FAILED: "failed"}
    marks = [words.get(row.state, ""), "no-op" if row.no_op else "", "best" if row.best else ""]
    return ", ".join(mark for mark in marks if mark)


def _failures(summary: Summary) -> Listing:
    return Listing("failures", _title(summary, "Failures"), tuple(_failure(each) for each in summary.failures))


def _failure(failed: Failed) -> Item:
    unexplained = failed.kind.startswith("crash") or failed.kind == "unknown"
    return Item(failed.text, failed.path, "", failed.lines, failed.lines[-1] if failed.lines and unexplained else "")


def _missing(summary: Summary) -> Listing:
    items = tuple(Item(command) for command in summary.missing)
    return Listing("missing", "Asked for and not recorded", items)


def _time(summary: Summary) -> Table:
    total = sum(summary.time.values())
    rows = [
        (
            _PARTS.get(part, formats.line(part)),
            formats.seconds(took),
            formats.percent(took / total, 0).lstrip("+") if total else "-",
        )
        for part, took in sorted(summary.time.items(), key=lambda item: -item[1])
    ]
    if rows:
        rows.append(("all trials", formats.seconds(total), ""))
    return Table(
        "time", _title(summary, "Where the time went"), ("part of a trial", "time", "share"), "lrr", tuple(rows)
    )


def _provenance(summary: Summary) -> Listing:
    facts: Sequence[tuple[str, str]] = (
        *((("next", summary.next),) if summary.next else ()),
        *((("source", summary.source),) if summary.source else ()),
        *summary.provenance.items(),
    )
    items = tuple(Item(f"{formats.line(key)}: {formats.redacted(formats.line(value))}") for key, value in facts)
    return Listing("provenance", "About these figures", items)

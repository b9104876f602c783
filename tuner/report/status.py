"""How a study stands, as text and as JSON. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tuner.history import History
from tuner.report import formats
from tuner.report.summary import Summary, summarise
from tuner.search import Done, Evaluate
from tuner.trial import State, Trial


def status_text(history: History, now: Mapping[str, Any] | None, holder: str | None, width: int = 120) -> str:
    """A screen: who runs it, what runs now, the best so far, the trials; a trial is one line of at most `width`."""
    summary = summarise(history)
    head = summary.headline
    lines = [
        f"{summary.study}: {_stands(history)}",
        f"run by {holder}" if holder else "nobody runs it now",
    ]
    if now:
        seconds = time.time() - float(now["since"])
        lines.append(f"now: trial {now['trial']} [{now['phase']}], {now['doing']} (for {seconds:.0f} s)")
    word = "simulated: " if summary.simulated else ""
    if head.value is not None:
        lines.append(
            f"{word}best so far: {head.value:.2f} {head.metric} ({formats.percent(head.gain)}), "
            + (formats.median_of(head.median_of) or f"trial {head.trial}")
        )
    lines += ["", *(formats.cut(_row(trial, word), width) for trial in history.trials)]
    return "\n".join(lines)


def as_json(history: History, now: Mapping[str, Any] | None, holder: str | None) -> dict[str, Any]:
    """The same facts as JSON types."""
    summary = summarise(history)
    return {
        "study": summary.study,
        "origin": history.origin,
        "method": history.study.method.name,
        "done": isinstance(history.decision, Done),
        "running_by": holder,
        "now": dict(now) if now else None,
        "next": _next(history),
        "best": _best(summary),
        "trials": [_trial(trial) for trial in history.trials],
    }


def _stands(history: History) -> str:
    if isinstance(history.decision, Done):
        return f"done after {len(history.trials)} trials"
    return f"{sum(trial.state is not State.RUNNING for trial in history.trials)} trials, not finished"


def _row(trial: Trial, word: str) -> str:
    configuration = " ".join(str(value) for value in trial.configuration.values())
    what = (
        f"{word}{trial.value:.2f}"
        if trial.value is not None
        else (formats.failure(trial.failure) if trial.failure else trial.state.value)
    )
    return (
        f"{trial.number:4d}  {trial.phase:14s}  {configuration}  {formats.line(what)}{'  no-op' if trial.no_op else ''}"
    )


def _next(history: History) -> dict[str, Any] | None:
    if not isinstance(history.decision, Evaluate):
        return None
    return {"phase": history.decision.phase, "configuration": dict(history.decision.configuration)}


def _best(summary: Summary) -> dict[str, Any] | None:
    head = summary.headline
    if head.value is None:
        return None
    return {"trial": head.trial, "value": head.value, "metric": head.metric, "gain": head.gain,
            "median_of": list(head.median_of), "command": head.command, "confirmed": head.confirmed}  # fmt: skip


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "phase": trial.phase,
        "state": trial.state.value,
        "configuration": dict(trial.configuration),
        "value": trial.value,
        "no_op": trial.no_op,
        "failure": str(trial.failure) if trial.failure else None,
    }

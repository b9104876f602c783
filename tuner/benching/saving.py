"""Results in files: vLLM's JSON under vLLM's name, and the records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tuner.benching.asked import Asked
from tuner.benching.passes import Pass
from tuner.benchmarks import Workload, records
from tuner.benchmarks.result import as_json, as_text
from tuner.errors import TunerError


def save(done: Pass, asked: Asked, date: str, rung: str = "") -> list[Path]:
    """Write what was asked for; the files. `rung` is what tells the files of several loads apart where their names
    are given.

    Raises:
        TunerError: a file cannot be written.
    """
    written = []
    if asked.output.records is not None:
        path = _told_apart(asked.output.records, rung)
        records.write(path, done.run, done.workload, done.model)
        written.append(path)
    if asked.output.save:
        written.append(_save_json(done, asked, date, rung))
    return written


def result(done: Pass, asked: Asked, date: str) -> dict[str, Any]:
    """The JSON: vLLM's keys, and ours."""
    beside: dict[str, Any] = {
        "definitions": done.workload.definitions,
        "verdicts": [asdict(verdict) for verdict in done.verdicts],
        "limited_by": asdict(done.limit) if done.limit else None,
        "incomplete": incomplete(done) or None,
        "bound": done.run.bound,
        **({"simulated": True} if done.simulated else {}),
    }
    model = asked.shown or done.model
    return as_json(done.run, done.workload, model, date=date, report=asked.report, beside=beside)


def incomplete(done: Pass) -> str:
    """Why the figures are of a part only, or not to be trusted; '' if they are whole."""
    if done.interrupted:
        over = sum(response.success for response in done.run.responses)
        return f"interrupted after {over} of {len(done.run.responses)} requests"
    if done.run.bound is not None:
        return f"ended early: at most {done.run.bound:.1f} tokens per second were within reach"
    return done.problem


def file_name(workload: Workload, model: str, date: str, backend: str = "", label: str | None = None) -> str:
    """The name `vllm bench serve` gives its result."""
    first = label or backend or ("openai-chat" if workload.endpoint == "chat" else "openai")
    concurrency = f"-concurrency{workload.max_concurrency}" if workload.max_concurrency is not None else ""
    ramp, rate = workload.ramp_up, "inf" if workload.request_rate is None else workload.request_rate
    paced = f"ramp-up-{ramp.strategy}-{ramp.start:g}qps-{ramp.end:g}qps" if ramp else f"{rate}qps"
    return f"{first}-{paced}{concurrency}-{model.split('/')[-1]}-{date}.json"


def _save_json(done: Pass, asked: Asked, date: str, rung: str) -> Path:
    output, report = asked.output, asked.report
    usual = file_name(done.workload, asked.shown or done.model, date, report.backend, report.label)
    named = Path(output.name) if output.name else None
    path = output.folder / (usual if named is None else named if output.append else _told_apart(named, rung))
    text = as_text(result(done, asked, date))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if output.append:
            _append(path, text)
        else:
            _replace(path, text)
    except OSError as error:
        raise TunerError(f"{path} cannot be written: {error.strerror or error}") from error
    return path


def _append(path: Path, text: Iterator[str]) -> None:
    """One JSON a line, as vLLM appends."""
    with path.open("a+", encoding="utf-8") as file:
        file.write("\n" if file.tell() else "")
        file.writelines(text)


def _replace(path: Path, text: Iterator[str]) -> None:
    """Whole, or not at all."""
    whole = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with whole.open("w", encoding="utf-8") as file:
            file.writelines(text)
        whole.replace(path)
    finally:
        whole.unlink(missing_ok=True)


def _told_apart(path: Path, rung: str) -> Path:
    return path.with_name(f"{path.stem}-{rung}{path.suffix}") if rung else path


def now_asked(asked: Asked, workload: Workload) -> Workload:
    """A kept workload with the limits and definitions that are asked for now."""
    return replace(
        workload, goodput=asked.limits or workload.goodput, definitions=asked.definitions or workload.definitions
    )

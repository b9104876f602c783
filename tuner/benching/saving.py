"""Results in files: vLLM's JSON under vLLM's name, and the records."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tuner.benching.asked import Asked
from tuner.benching.passes import Pass
from tuner.benching.problems import DISTRUST
from tuner.benchmarks import Workload, records
from tuner.benchmarks.result import as_json, as_text
from tuner.errors import TunerError

RESULT_WAY_OUT = "give another --result-dir or --result-filename"
RECORDS_WAY_OUT = "give another --save-records"


@dataclass(frozen=True)
class Saved:
    """The files that were written, and why others were not."""

    written: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()


def writable(asked: Asked, model: str, date: str) -> None:
    """Make the folders of what is to be written, and try to write there, before hours are spent on it.

    Raises:
        TunerError: a file could not be written.
    """
    output = asked.output
    if output.records is not None:
        _try(output.records, RECORDS_WAY_OUT)
    if not output.save:
        return
    path = _json_path(asked, asked.workload, model, date)
    if output.records is not None and path.resolve() == output.records.resolve():
        raise TunerError(f"{path} is to hold both the result and the records; {RECORDS_WAY_OUT}")
    _try(path, RESULT_WAY_OUT, append=output.append)


def save(done: Pass, asked: Asked, date: str, rung: str = "") -> Saved:
    """Write what was asked for, each file whatever becomes of the other. `rung` is what tells the files of several
    loads apart where their names are given."""
    written: list[Path] = []
    problems: list[str] = []
    if asked.output.records is not None:
        path = _told_apart(asked.output.records, rung)
        try:
            records.write(path, done.run, done.workload, done.model)
            written.append(path)
        except TunerError as error:
            problems.append(f"{error}; {RECORDS_WAY_OUT}")
    if asked.output.save:
        path = _json_path(asked, done.workload, done.model, date, rung)
        try:
            _save_json(path, as_text(result(done, asked, date)), asked.output.append)
            written.append(path)
        except OSError as error:
            problems.append(_cannot(path, error, RESULT_WAY_OUT))
    return Saved(tuple(written), tuple(problems))


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


def shown_by(show: Callable[[str], None], text: str, saved: Saved) -> list[str]:
    """Show a result; what went wrong with that."""
    try:
        show(text)
        return []
    except OSError as error:
        kept = f"it is in {', '.join(map(str, saved.written))}" if saved.written else "--save-result keeps it in a file"
        return [f"the result cannot be printed: {error.strerror or error}; {kept}"]


def distrusted(done: Pass) -> bool:
    """Whether the pass is whole, and its figures are not to be trusted."""
    return not done.interrupted and done.run.bound is None and done.problem.startswith(DISTRUST)


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


def _try(path: Path, way_out: str, append: bool = False) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            what = "it is a folder" if path.is_dir() else "it is no regular file"
            raise TunerError(f"{path} cannot be written: {what}; {way_out}")
        if append and path.exists():
            path.open("a").close()
        else:
            _beside(path.resolve()).open("w").close()
    except OSError as error:
        raise TunerError(_cannot(path, error, way_out)) from error
    finally:
        with suppress(OSError):
            _beside(path.resolve()).unlink(missing_ok=True)


def _cannot(path: Path, error: OSError, way_out: str) -> str:
    return f"{path} cannot be written: {error.strerror or error}; {way_out}"


def _json_path(asked: Asked, workload: Workload, model: str, date: str, rung: str = "") -> Path:
    output, report = asked.output, asked.report
    usual = file_name(workload, asked.shown or model, date, report.backend, report.label)
    named = Path(output.name) if output.name else None
    return output.folder / (usual if named is None else named if output.append else _told_apart(named, rung))


def _save_json(path: Path, text: Iterator[str], append: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if append:
        _append(path, text)
    else:
        _replace(path.resolve(), text)


def _append(path: Path, text: Iterator[str]) -> None:
    """One JSON a line, as vLLM appends."""
    with path.open("a+", encoding="utf-8") as file:
        file.write("\n" if file.tell() else "")
        file.writelines(text)


def _replace(path: Path, text: Iterator[str]) -> None:
    """Whole, or not at all."""
    whole = _beside(path)
    try:
        with whole.open("w", encoding="utf-8") as file:
            file.writelines(text)
        whole.replace(path)
    finally:
        whole.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """Where it is written before it takes its place."""
    return path.with_name(f".{path.name}-{os.getpid()}")


def _told_apart(path: Path, rung: str) -> Path:
    return path.with_name(f"{path.stem}-{rung}{path.suffix}") if rung else path


def now_asked(asked: Asked, workload: Workload) -> Workload:
    """A kept workload with the limits and definitions that are asked for now."""
    return replace(
        workload, goodput=asked.limits or workload.goodput, definitions=asked.definitions or workload.definitions
    )

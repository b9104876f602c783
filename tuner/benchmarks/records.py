"""The records of one run in a compact file, so that limits and definitions can be changed without running again.

A numpy archive (`.npz`, no pickles): `header` is JSON (workload, model, duration, facts, ...), the other arrays hold a
value for each request, and `gaps` the times between events of all requests, one after the other, in nanoseconds. An
event takes at most 4 bytes before compression; a gap above 4 s takes 20. What was generated is not kept.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import zipfile
import zlib
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner import __version__
from tuner.benchmarks import RampUp, Response, Run, Workload
from tuner.benchmarks.metrics import measure_as
from tuner.errors import TunerError

VERSION = 1
TIMES = ("start", "ttft", "ttft_text", "latency", "queue_time", "connect_time", "usage_latency", "end")
COUNTS = ("prompt_len", "output_len", "asked_prompt_len", "asked_output_len", "cached_len", "target")
WORDS = ("error", "failure", "counted_by")
_NS = 1e9
_LONG = np.iinfo(np.uint32).max  # stands for a gap that does not fit; its value is in `long`

Arrays = dict[str, NDArray[Any]]


def write(path: Path, run: Run, workload: Workload, model: str) -> None:
    """Write the file whole, or not at all.

    Raises:
        TunerError: it cannot be written.
    """
    words = {name: _table(run.responses, name) for name in WORDS}
    header = _header(run, workload, model) | {"words": words}
    arrays = _requests(run.responses, words) | _gaps(run.responses)
    arrays["header"] = np.frombuffer(json.dumps(header, default=str).encode(), dtype=np.uint8)
    try:
        _write_whole(path, arrays)
    except OSError as error:
        raise TunerError(f"{path} cannot be written: {error.strerror or error}") from error


def read(path: Path) -> tuple[Run, Workload, str]:
    """The run, its workload and the model. Metrics are computed anew from the records.

    Raises:
        TunerError: no such file, or not one that `write` made.
    """
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise _foreign(path, "it is empty" if not path.stat().st_size else "it is no numpy archive, or cut off")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                if "header" not in archive.files:
                    raise _foreign(path, f"an archive of something else: {', '.join(archive.files[:5])}")
                arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays["header"].tobytes())
        if header["records"] != VERSION:
            raise _foreign(path, f"they are of version {header['records']}, this tuner reads {VERSION}")
        workload = _workload(header["workload"])
        return _run(header, arrays, workload), workload, str(header["model"])
    except FileNotFoundError:
        raise TunerError(f"{path}: no such file; `tuner bench --save-records` writes one") from None
    except OSError as error:
        raise _foreign(path, error.strerror or "not a numpy archive") from None
    except (ValueError, LookupError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _foreign(path, " ".join(str(error).split())[:100] or type(error).__name__) from None


# -- to arrays


def _header(run: Run, workload: Workload, model: str) -> dict[str, Any]:
    return {
        "records": VERSION,
        "tuner": __version__,
        "model": model,
        "workload": dataclasses.asdict(workload),
        "duration": run.duration,
        "stopped_early": run.stopped_early,
        "bound": run.bound,
        "honest": dict(run.honest),
        "facts": dict(run.facts),
    }


def _table(responses: Sequence[Response], name: str) -> list[str]:
    """Every text that the field has, once."""
    return list(dict.fromkeys(getattr(response, name) for response in responses))


def _requests(responses: Sequence[Response], words: Mapping[str, Sequence[str]]) -> Arrays:
    count = len(responses)
    arrays: Arrays = {"success": np.fromiter((response.success for response in responses), np.bool_, count)}
    arrays["status"] = np.fromiter((response.status or 0 for response in responses), np.int16, count)
    for name in TIMES:
        arrays[name] = np.fromiter((getattr(response, name) for response in responses), np.float64, count)
    for name in COUNTS:
        arrays[name] = np.fromiter((getattr(response, name) for response in responses), np.int64, count)
    for name, table in words.items():
        place = {text: number for number, text in enumerate(table)}
        arrays[name] = np.fromiter((place[getattr(response, name)] for response in responses), np.int32, count)
    return arrays


def _gaps(responses: Sequence[Response]) -> Arrays:
    pieces = [np.asarray(response.itls, dtype=np.float64) for response in responses]
    gaps = np.concatenate(pieces) if pieces else np.zeros(0)
    long = np.flatnonzero(~((gaps >= 0) & (gaps * _NS < _LONG - 1)))
    values = gaps[long]
    gaps[long] = 0.0
    whole = np.rint(gaps * _NS).astype(np.uint32)
    whole[long] = _LONG
    events = np.fromiter((len(piece) for piece in pieces), np.int64, len(pieces))
    return {"events": events, "gaps": whole, "long": values}


def _write_whole(path: Path, arrays: Arrays) -> None:
    path = path.resolve()  # what a link points to is replaced, not the link
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(number, "wb") as file:
            save: Any = np.savez_compressed
            save(file, **arrays)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


# -- from arrays


def _workload(given: Mapping[str, Any]) -> Workload:
    ramp = given.get("ramp_up")
    return Workload(**{**given, "ramp_up": RampUp(**ramp) if ramp else None})


def _run(header: Mapping[str, Any], arrays: Arrays, workload: Workload) -> Run:
    responses, duration = _responses(header["words"], arrays), float(header["duration"])
    return Run(
        metrics=measure_as(workload, responses, duration),
        responses=responses,
        duration=duration,
        stopped_early=bool(header["stopped_early"]),
        facts=header["facts"],
        honest=header["honest"],
        bound=header["bound"],
    )


def _responses(words: Mapping[str, Sequence[str]], arrays: Arrays) -> tuple[Response, ...]:
    columns: dict[str, list[Any]] = {name: arrays[name].tolist() for name in ("success", *TIMES, *COUNTS)}
    columns |= {name: [words[name][place] for place in arrays[name].tolist()] for name in WORDS}
    columns["status"] = [status or None for status in arrays["status"].tolist()]
    columns["itls"] = _itls(arrays)
    return tuple(Response(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))


def _itls(arrays: Arrays) -> list[array[float]]:
    gaps = arrays["gaps"] / _NS
    gaps[arrays["gaps"] == _LONG] = arrays["long"]
    ends = np.cumsum(arrays["events"])
    if len(gaps) != (ends[-1] if len(ends) else 0):
        raise ValueError(f"{len(gaps)} gaps are there and {ends[-1] if len(ends) else 0} were written")
    return [array("d", piece.tobytes()) for piece in np.split(gaps, ends[:-1])] if len(ends) else []


def _foreign(path: Path, why: str) -> TunerError:
    return TunerError(f"{path} holds no records of a run ({why}); give a file of `tuner bench --save-records`")

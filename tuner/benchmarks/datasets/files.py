"""Datasets' files: read once, kept while they do not change, and told apart from what they should be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from tuner.benchmarks import Request, Workload
from tuner.errors import Fault, SpecError


def fault(workload: Workload, rule: str, value: str = "", way_out: str = "", line: int | None = None) -> SpecError:
    """The file (and the line) of a workload's dataset, the rule it breaks, the way out."""
    path = f"workload {workload.name}"
    return SpecError([Fault(rule, file=workload.path or "", line=line, path=path, value=value, way_out=way_out)])


def dataset_file(workload: Workload, way_out: str) -> tuple[str, int, int]:
    """The dataset's path, and what changes when the file does: the time of its last change, its size.

    Raises:
        SpecError: none is named, or there is no such file.
    """
    if workload.path is None:
        raise SpecError(f"workload {workload.name}: dataset {workload.dataset} needs `path`; {way_out}")
    try:
        with open(workload.path, "rb"):
            state = Path(workload.path).stat()
    except OSError as error:
        rule = "the dataset is a file that can be read"
        raise fault(workload, rule, error.strerror or str(error), way_out) from None
    return workload.path, state.st_mtime_ns, state.st_size


def json_lines(workload: Workload, way_out: str) -> Sequence[tuple[int, dict[str, Any]]]:
    """The objects of a JSONL file, with the number of the line of each; blank lines hold none.

    Raises:
        SpecError: the file cannot be read, a line is no JSON object, or there is none.
    """
    try:
        lines = _json_lines(*dataset_file(workload, way_out))
    except _NotJson as error:
        rule = "each line of the file is one JSON object"
        raise fault(workload, rule, error.what, "mend the line or take it out", error.line) from None
    if not lines:
        raise fault(workload, "each line of the file is one JSON object", "an empty file", way_out)
    return lines


def enough(taken: Sequence[Request], workload: Workload, seed: int) -> list[Request]:
    """`num_prompts` requests: where a file holds fewer, some of them are drawn again.

    The draw is that of `vllm bench serve`: 0.11 draws all of the missing at once, 0.32 one after the other, which
    gives other requests for the same seed.

    Raises:
        SpecError: there are fewer and the workload asks for none twice.
    """
    missing = workload.num_prompts - len(taken)
    if missing <= 0:
        return list(taken[: workload.num_prompts])
    if not workload.oversample:
        way_out = f"lower num_prompts to {len(taken)}, or let some be sent again (oversample)"
        rule = f"the file holds too few requests: {workload.num_prompts} are to be sent"
        raise fault(workload, rule, str(len(taken)), way_out)
    rng = Random(seed)
    if workload.definitions == "vllm-0.11":
        return [*taken, *rng.choices(taken, k=missing)]
    return [*taken, *(rng.choice(taken) for _ in range(missing))]


def is_length(value: Any) -> bool:
    """Whether a value of a file is a number of tokens: whole and at least 1, also where it was written 128.0."""
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return whole and not isinstance(value, bool) and value >= 1


class _NotJson(ValueError):
    def __init__(self, line: int, what: str) -> None:
        super().__init__(line, what)
        self.line, self.what = line, what


@lru_cache(maxsize=2)
def _json_lines(path: str, changed: int, size: int) -> tuple[tuple[int, dict[str, Any]], ...]:
    return tuple(
        (number, _object(number, line))
        for number, line in enumerate(Path(path).read_bytes().split(b"\n"), 1)
        if line.strip()
    )


def _object(number: int, line: bytes) -> dict[str, Any]:
    try:
        read = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _NotJson(number, str(error)[:200]) from None
    if not isinstance(read, dict):
        raise _NotJson(number, f"a {type(read).__name__}")
    return read

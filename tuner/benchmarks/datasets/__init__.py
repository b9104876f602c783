"""The prompts of a workload. Deterministic: one workload and seed, one list of requests. One file a dataset.

With the model's tokenizer the prompts of `random`, `sharegpt`, `jsonl` and `shared-prefix` are those that `vllm bench
serve` makes of the same files, lengths and seed, in the version that `definitions` names. Without one, lengths are
approximated (see `tuner.benchmarks.datasets.texts`), which is enough to compare configurations of one server but not
to compare with figures published for another client.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from importlib import import_module
from typing import Protocol

from tuner.benchmarks import Request, Workload
from tuner.errors import SpecError

_MODULES = {
    "random": "random",
    "sharegpt": "sharegpt",
    "jsonl": "jsonl",
    "trace": "trace",
    "shared-prefix": "shared_prefix",
}
DATASETS = tuple(_MODULES)
KEPT = 3  # lists of requests: the passes of a launch use as many seeds, and so does the next launch


class _Dataset(Protocol):
    """What each file here holds."""

    def requests(self, workload: Workload, seed: int) -> list[Request]: ...

    def check(self, workload: Workload) -> None:
        """Raise what `requests` would raise, as far as that is found without making them."""
        ...


def requests(workload: Workload, seed: int) -> list[Request]:
    """`workload.num_prompts` requests.

    Raises:
        SpecError: the dataset's file or the tokenizer cannot be used, the lengths cannot be made, or the file holds
            too few requests.
    """
    if seed < 0:
        raise SpecError(f"workload {workload.name}: a seed is at least 0 (got {seed})")
    key = _key(workload, seed)
    made = _made.get(key)
    if made is None:
        made = tuple(_dataset(workload).requests(workload, seed))
        _keep(key, made)
    return list(made)


def check(workload: Workload) -> None:
    """What can be found wrong with a workload's file without making its prompts.

    Raises:
        SpecError: with the file and, where one is at fault, the line.
    """
    _dataset(workload).check(workload)


_made: dict[str, tuple[Request, ...]] = {}
_keeping = threading.Lock()


def _keep(key: str, made: tuple[Request, ...]) -> None:
    with _keeping:
        _made[key] = made
        for oldest in list(_made)[:-KEPT]:
            del _made[oldest]


def _dataset(workload: Workload) -> _Dataset:
    if workload.dataset not in _MODULES:
        raise SpecError(
            f"workload {workload.name}: there is no dataset {workload.dataset!r}; datasets are {', '.join(DATASETS)}"
        )
    module: _Dataset = import_module(f"{__name__}.{_MODULES[workload.dataset]}")
    return module


def _key(workload: Workload, seed: int) -> str:
    """What the requests depend on: the workload without how it is sent, and the state of its files."""
    asked = replace(
        workload,
        name="",
        seed=seed,
        max_concurrency=None,
        request_rate=None,
        burstiness=1.0,
        ramp_up=None,
        ignore_eos=None,
        extra_body={},
        goodput={},
    )
    return repr([asked, *(_state(file) for file in (workload.path, workload.tokenizer) if file)])


def _state(file: str) -> tuple[int, int] | None:
    try:
        state = os.stat(file if os.path.isfile(file) else os.path.join(file, "tokenizer.json"))
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size

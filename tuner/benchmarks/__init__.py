"""Benchmarks: clients that send a workload to a server and return what they measured. One file a client.

Definitions of every metric are those of `vllm bench serve`; `tuner.benchmarks.metrics` has the formulas.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, Protocol

from tuner.errors import SpecError


@dataclass(frozen=True)
class Workload:
    """The requests: dataset, lengths (tokens), number, arrival, concurrency, seed.

    `path` is the dataset's file for `sharegpt`. `max_concurrency` None sends all at once; `request_rate` None
    (infinite) starts them at once, else per second. Repeat k of a launch uses the seed `seed + k`.
    """

    name: str = "default"
    dataset: Literal["random", "sharegpt"] = "random"
    num_prompts: int = 100
    input_len: int = 512
    output_len: int = 128
    range_ratio: float = 0.0
    path: str | None = None
    sharegpt_output_len: int | None = None
    max_concurrency: int | None = None
    request_rate: float | None = None
    burstiness: float = 1.0
    seed: int = 0
    ignore_eos: bool | None = None
    endpoint: Literal["completions", "chat"] = "completions"
    tokenizer: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def concurrency(self) -> int:
        """The most requests in flight at once."""
        return min(self.num_prompts, self.max_concurrency or self.num_prompts)

    @property
    def ignores_eos(self) -> bool:
        """Whether the server is asked to write on until the output length; what `extra_body` says is what is sent."""
        asked = self.dataset == "random" if self.ignore_eos is None else self.ignore_eos
        return bool(self.extra_body.get("ignore_eos", asked))

    @property
    def output_limit(self) -> int | None:
        """The output length that `extra_body` sets for every request."""
        name = "max_completion_tokens" if self.endpoint == "chat" else "max_tokens"
        limit = self.extra_body.get(name)
        return limit if isinstance(limit, int) and not isinstance(limit, bool) else None


@dataclass(frozen=True)
class Request:
    """One prompt to send. `prompt_len` in tokens as the dataset counts them."""

    prompt: str
    prompt_len: int
    output_len: int


@dataclass(frozen=True)
class Response:
    """What came of one request. Times in seconds on one monotonic clock.

    `start` is read just before the request is written; `ttft` from start to the first event with choices;
    `itls` between later events; `latency` from start to the last event with choices.
    """

    success: bool
    start: float = 0.0
    ttft: float = 0.0
    itls: tuple[float, ...] = ()
    latency: float = 0.0
    prompt_len: int = 0
    output_len: int = 0
    status: int | None = None
    error: str = ""
    queue_time: float = 0.0
    text: str = ""


@dataclass(frozen=True)
class Run:
    """One pass of a workload: every response in request order, the wall time in seconds, and metrics by name."""

    metrics: Mapping[str, float]
    responses: tuple[Response, ...] = ()
    duration: float = 0.0
    stopped_early: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """Progress while a pass runs: seconds since its start, requests done and failed, tokens received so far (one an
    event), requests sent and not yet over."""

    elapsed: float
    completed: int
    failed: int
    total: int
    output_tokens: int
    in_flight: int = 0


class Benchmark(Protocol):
    """A client. Bounded: it ends by itself within `timeout_s`, whatever the server does."""

    name: str

    def run(
        self,
        urls: Sequence[str],
        model: str,
        workload: Workload,
        *,
        seed: int,
        timeout_s: float,
        stop: threading.Event | None = None,
        on_event: Callable[[Event], bool | None] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Run:
        """Send the workload once to `urls` (base URLs, requests dealt in turn) and measure.

        `stop` set: give up at once (`stopped_early`). `on_event` is called about four times a second and may
        answer True to end the pass early. Requests that fail are counted in the responses, never raised.
        """
        ...


_MODULES = {"tuner": "streaming"}  # not "client": that would hide the function of this name
CLIENTS = tuple(_MODULES)


def client(name: str) -> Benchmark:
    """The client of this name.

    Raises:
        SpecError: no such client.
    """
    if name not in _MODULES:
        raise SpecError(f"there is no benchmark client {name!r}; clients are {', '.join(CLIENTS)}")
    made: Benchmark = import_module(f"tuner.benchmarks.{_MODULES[name]}").benchmark()
    return made

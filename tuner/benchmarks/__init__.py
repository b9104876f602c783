"""Benchmarks: clients that send a workload to a server and return what they measured. One file a client.

Definitions of every metric are those of `vllm bench serve`; `tuner.benchmarks.metrics` has the formulas.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, Protocol, TypeAlias

from tuner.errors import SpecError

Definitions: TypeAlias = Literal["vllm-0.32", "vllm-0.11"]
Dataset: TypeAlias = Literal["random", "sharegpt", "jsonl", "trace", "shared-prefix"]


@dataclass(frozen=True)
class RampUp:
    """Arrivals whose rate grows from the first request to the last. Rates in requests per second."""

    strategy: Literal["linear", "exponential"]
    start: float
    end: float


@dataclass(frozen=True)
class Workload:
    """The requests: dataset, lengths (tokens), number, arrival, concurrency, seed.

    - `path` is the dataset's file for `sharegpt`, `jsonl` and `trace`. `max_concurrency` None sends all at once;
      `request_rate` None (infinite) starts them at once, else per second; `ramp_up` takes its place. Repeat k of a
      launch uses the seed `seed + k`.
    - `range_ratio` is of random prompts' input and output lengths, `output_range_ratio` of the output where it is
      another. `prefix_len` tokens are common to all random prompts, or to each of the `num_prefixes` groups of
      `shared-prefix`, whose `input_len` is what follows the prefix.
    - `fixed_output_len` replaces the lengths a file gives. `time_scale` stretches a trace's times: 2 is half its pace.
    - `temperature` None leaves it to the server, as `vllm bench serve` 0.32 does; 0 keeps sampling cost and output
      lengths from varying with the model's generation config.
    - `definitions` chooses the version of `vllm bench serve` whose samplings, request bodies and formulas are used.
    - `goodput` are limits in ms on `ttft`, `tpot` and `e2el` of one request.
    """

    name: str = "default"
    dataset: Dataset = "random"
    num_prompts: int = 100
    input_len: int = 512
    output_len: int = 128
    range_ratio: float = 0.0
    output_range_ratio: float | None = None
    prefix_len: int = 0
    num_prefixes: int = 10
    path: str | None = None
    fixed_output_len: int | None = None
    shuffle: bool = True
    oversample: bool = True
    time_scale: float = 1.0
    max_concurrency: int | None = None
    request_rate: float | None = None
    burstiness: float = 1.0
    ramp_up: RampUp | None = None
    seed: int = 0
    ignore_eos: bool | None = None
    temperature: float | None = 0.0
    endpoint: Literal["completions", "chat"] = "completions"
    tokenizer: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    definitions: Definitions = "vllm-0.32"
    goodput: Mapping[str, float] = field(default_factory=dict)

    @property
    def concurrency(self) -> int:
        """The most requests in flight at once."""
        return min(self.num_prompts, self.max_concurrency or self.num_prompts)

    @property
    def all_at_once(self) -> bool:
        """Whether requests start as soon as a place is free, rather than at times of their own."""
        return self.request_rate is None and self.ramp_up is None and self.dataset != "trace"

    @property
    def ignores_eos(self) -> bool:
        """Whether the server is asked to write on until the output length; what `extra_body` says is what is sent."""
        made = self.dataset in ("random", "trace") and self.definitions == "vllm-0.32"
        asked = made if self.ignore_eos is None else self.ignore_eos
        return bool(self.extra_body.get("ignore_eos", asked))

    @property
    def output_limit(self) -> int | None:
        """The output length that `extra_body` sets for every request."""
        name = "max_completion_tokens" if self.endpoint == "chat" else "max_tokens"
        limit = self.extra_body.get(name)
        return limit if isinstance(limit, int) and not isinstance(limit, bool) else None


@dataclass(frozen=True)
class Request:
    """One prompt to send: its text, or the messages of a chat. `prompt_len` in tokens as the dataset counts them.

    `due` is the time in seconds after the start that a recorded trace gives; elsewhere the workload's arrivals do.
    """

    prompt: str | tuple[Mapping[str, Any], ...]
    prompt_len: int
    output_len: int
    due: float | None = None


@dataclass(frozen=True)
class Response:
    """What came of one request. Times in seconds; `start` on one monotonic clock, the others from `start` on.

    - `start` is read just before the request is written to a connection that is open; `queue_time` is how long it
      waited in the client after it was due, `connect_time` the part of that which opened its connection.
    - `ttft` up to the first event with choices, `ttft_text` up to the first that has text in it (0: none); `itls`
      between later events; `latency` up to the last of them; `usage_latency` up to the message that counts the
      tokens (0: none came); `end` up to the end of the reply.
    - `prompt_len` and `output_len` are the server's counts. Where it gave none: the dataset's, and the tokenizer's
      or one for each event, as `counted_by` says. `asked_prompt_len` and `asked_output_len` are the dataset's.
      `cached_len` are prompt tokens that the server says it found in its prefix cache.
    - `failure` is the class of `error`, one of `FAILURES`; '' with success.
    """

    success: bool
    start: float = 0.0
    ttft: float = 0.0
    itls: Sequence[float] = ()
    latency: float = 0.0
    prompt_len: int = 0
    output_len: int = 0
    status: int | None = None
    error: str = ""
    queue_time: float = 0.0
    text: str = ""
    failure: str = ""
    connect_time: float = 0.0
    usage_latency: float = 0.0
    end: float = 0.0
    ttft_text: float = 0.0
    asked_prompt_len: int = 0
    asked_output_len: int = 0
    counted_by: Literal["server", "tokenizer", "events"] = "server"
    cached_len: int = 0
    target: int = 0


# Classes of failed requests, and what each is.
FAILURES: Mapping[str, str] = {
    "connect": "no connection to the server",
    "tls": "no encrypted connection that can be trusted",
    "rejected": "the server refused the request (HTTP 4xx)",
    "overloaded": "the server had no room for the request (HTTP 429 or 503)",
    "server-error": "the server failed (another HTTP 5xx, or an error in the stream)",
    "broken": "the reply broke off or was no valid reply",
    "stalled": "no whole answer within the time for one request",
    "no-tokens": "the reply held no token",
    "unfinished": "the run ended before the answer",
}


@dataclass(frozen=True)
class Run:
    """One pass of a workload: every response in request order, the wall time in seconds, and metrics by name.

    `metrics` are those of `vllm bench serve` by the workload's `definitions`; `honest` are ours, under names of their
    own. A run that was ended since it could not beat an incumbent has in `bound` the most total token throughput it
    could have reached: never a result.
    """

    metrics: Mapping[str, float]
    responses: tuple[Response, ...] = ()
    duration: float = 0.0
    stopped_early: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    honest: Mapping[str, float] = field(default_factory=dict)
    bound: float | None = None


@dataclass(frozen=True)
class Event:
    """Progress while a pass runs: seconds since its start, requests done and failed, tokens received so far (one an
    event), requests sent and not yet over.

    `bound` is the most total token throughput (per second) that the pass can still reach, None where nothing bounds
    it (see `tuner.benchmarks.bound`).
    """

    elapsed: float
    completed: int
    failed: int
    total: int
    output_tokens: int
    in_flight: int = 0
    bound: float | None = None

    @property
    def output_throughput(self) -> float:
        """Tokens per second so far."""
        return self.output_tokens / self.elapsed if self.elapsed > 0 else 0.0


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
        beat: float | None = None,
    ) -> Run:
        """Send the workload once to `urls` (base URLs; each request goes to the one with the fewest in flight).

        `stop` set: give up at once (`stopped_early`). `on_event` is called about four times a second and may
        answer True to end the pass early. With `beat` (total tokens per second) the pass ends as soon as it cannot
        reach that any more; its `bound` says what it could have. Requests that fail are counted in the responses,
        never raised.
        """
        ...


_MODULES = {"tuner": "streaming"}  # not "client": that would hide the function of this name
CLIENTS = tuple(_MODULES)


def client(name: str, processes: int = 1) -> Benchmark:
    """The client of this name, carrying its load with so many processes.

    Raises:
        SpecError: no such client.
    """
    if name not in _MODULES:
        raise SpecError(f"there is no benchmark client {name!r}; clients are {', '.join(CLIENTS)}")
    made: Benchmark = import_module(f"tuner.benchmarks.{_MODULES[name]}").benchmark(processes)
    return made

"""The tuner's own benchmark client: asyncio, streaming, one thread.

It measures what `vllm bench serve` 0.32 measures, by the same definitions, with three differences that matter:

- connections are open before the clock starts, and `start` is read just before a request's bytes are written.
  vLLM starts the clock before it connects: at 1000 simultaneous streams most of the TTFT it reports is its own;
- `temperature` 0.0 is sent unless the workload's `extra_body` says otherwise (vLLM 0.32 leaves it to the server,
  so that sampling cost and output lengths vary with the model's generation config);
- a request also needs a whole answer to succeed: [DONE], a finish reason or the proper end of the reply. A stream
  that breaks off counts as failed.

Proxies in the environment are not used, redirects are not followed, nothing is sent twice but a request whose
kept-alive connection turned out to have been closed while it was idle.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import resource
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from uuid import uuid4

from tuner.benchmarks import Event, Request, Response, Run, Workload, datasets
from tuner.benchmarks.arrivals import arrivals
from tuner.benchmarks.http import Target, request_bytes
from tuner.benchmarks.load import Load, Plan
from tuner.errors import SpecError, TunerError

SPARE_FILES = 64


@dataclass(frozen=True)
class Client:
    """Implements `Benchmark`. `request_timeout_s` bounds one request (None: only the pass is bounded);
    `tls` replaces the system's trust for https."""

    name: str = "tuner"
    request_timeout_s: float | None = None
    tls: ssl.SSLContext | None = None

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
        """As the contract says. Call it in a thread without a running event loop; `on_event` is called in that
        thread, between requests, and should take well under a millisecond.

        When `timeout_s` passes, what is still under way has failed, and `facts["timed_out"]` is true.

        Raises:
            SpecError: a URL, header or dataset that cannot be used.
            TunerError: the process may not open enough files for this concurrency.
        """
        if not urls:
            raise SpecError("a benchmark needs at least one URL")
        deadline = time.perf_counter() + timeout_s
        targets = [Target.parse(url) for url in urls]
        requests = _as_sent(datasets.requests(workload, seed), workload)
        plan = Plan(
            targets=targets,
            requests=requests,
            wires=_wires(targets, model, workload, requests, headers or {}),
            due=arrivals(len(requests), workload.request_rate, workload.burstiness, Random(f"arrivals {seed}")),
            concurrency=min(workload.concurrency, len(requests)),
            deadline=deadline,
            timeout_s=timeout_s,
            request_timeout_s=self.request_timeout_s,
            tls=self.tls,
        )
        allow_files(plan.concurrency + SPARE_FILES, certain=plan.all_at_once)
        with _quiet_collector():
            run = asyncio.run(Load(plan, stop, on_event).run())
        lengths = "tokenizer" if workload.tokenizer else "approximate"
        facts = {**run.facts, "seed": seed, "prompts_sha256": _digest(requests), "dataset_lens": lengths}
        return replace(run, facts=facts | _prompts_of(requests, run.responses))


def benchmark() -> Client:
    return Client()


def body(model: str, workload: Workload, request: Request) -> dict[str, Any]:
    """What is asked of the server: the body of `vllm bench serve` 0.32, and temperature 0.

    `ignore_eos` is sent for random prompts unless the workload says otherwise. `extra_body` is laid over it;
    None removes a key.
    """
    asked: dict[str, Any] = {"model": model, "temperature": 0.0, "stream": True}
    asked["stream_options"] = {"include_usage": True}
    if workload.endpoint == "chat":
        asked["messages"] = [{"role": "user", "content": [{"type": "text", "text": request.prompt}]}]
        asked["max_completion_tokens"] = request.output_len
    else:
        asked |= {"prompt": request.prompt, "max_tokens": request.output_len}
        asked |= {"repetition_penalty": 1.0, "logprobs": None}
    if workload.ignores_eos:
        asked["ignore_eos"] = True
    asked |= workload.extra_body
    return {key: value for key, value in asked.items() if value is not None or key not in workload.extra_body}


def allow_files(needed: int, *, certain: bool) -> None:
    """Raise this process's limit on open files to `needed` where it is lower. `certain`: they will be open at once.

    Raises:
        TunerError: the hard limit is below what is certainly needed.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    infinite = resource.RLIM_INFINITY
    if soft == infinite or soft >= needed:
        return
    if certain and hard != infinite and hard < needed:
        raise TunerError(
            f"this workload opens {needed} connections and files at once and the process may open {hard}; "
            f"lower max_concurrency or raise the hard limit (ulimit -Hn {needed})"
        )
    wanted = needed if hard == infinite else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def _wires(
    targets: Sequence[Target], model: str, workload: Workload, requests: Sequence[Request], headers: Mapping[str, str]
) -> list[bytes]:
    """The bytes of every request, built before the clock starts. Requests are dealt to the targets in turn."""
    mark = f"bench-{uuid4().hex[:8]}-"
    return [
        request_bytes(
            targets[index % len(targets)],
            workload.endpoint,
            body(model, workload, request),
            {"x-request-id": f"{mark}{index}", **headers},
        )
        for index, request in enumerate(requests)
    ]


def _as_sent(requests: list[Request], workload: Workload) -> list[Request]:
    """With the output length that is sent, where the workload's own body sets one."""
    limit = workload.output_limit
    return requests if limit is None else [replace(request, output_len=limit) for request in requests]


def _prompts_of(requests: Sequence[Request], responses: Sequence[Response]) -> dict[str, int]:
    """What is known, without asking the server, of the prompts that were answered: tokens as the dataset counts them,
    words and bytes of text."""
    answered = [request for request, response in zip(requests, responses, strict=True) if response.success]
    return {
        "prompt_tokens_known": sum(request.prompt_len for request in answered),
        "prompt_words": sum(len(request.prompt.split()) for request in answered),
        "prompt_bytes": sum(len(request.prompt.encode("utf-8", "replace")) for request in answered),
    }


def _digest(requests: Sequence[Request]) -> str:
    """SHA-256 of what is asked: every prompt and output length, in order."""
    digest = hashlib.sha256()
    for request in requests:
        text = request.prompt.encode("utf-8", "replace")
        digest.update(b"%d %d\n" % (len(text), request.output_len) + text)
    return digest.hexdigest()


_quiet = threading.Lock()
_quiet_count = 0


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """No garbage collection while a pass runs: a pause of the collector would be measured as the server's.

    Passes may overlap in several threads; the last one turns the collector on again.
    """
    global _quiet_count
    with _quiet:
        _quiet_count += 1
        if _quiet_count == 1:
            gc.collect()
            gc.freeze()
            gc.disable()
    try:
        yield
    finally:
        with _quiet:
            _quiet_count -= 1
            if _quiet_count == 0:
                gc.enable()
                gc.unfreeze()

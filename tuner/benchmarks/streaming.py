"""The tuner's own benchmark client: asyncio, streaming, one thread (or one in each of several processes).

It measures what `vllm bench serve` measures, by the same definitions, with three differences that matter:

- connections are open before the clock starts, and `start` is read just before a request's bytes are written.
  vLLM starts the clock before it connects: at 1000 simultaneous streams most of the TTFT it reports is its own;
- the time of an event is that of the read that brought it, and reading goes before understanding: at 1000 streams
  that send together, the last to be understood is not later for it. Events that come bundled are 0 apart;
- a request also needs a whole answer to succeed: [DONE], a finish reason or the proper end of the reply. A stream
  that breaks off counts as failed.

Proxies in the environment are not used, redirects are not followed, nothing is sent twice but a request whose
kept-alive connection turned out to have been closed while it was idle.
"""

from __future__ import annotations

import hashlib
import json
import resource
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import uuid4

from tuner.benchmarks import Event, Request, Response, Run, Workload, datasets, sharding
from tuner.benchmarks.arrivals import arrivals
from tuner.benchmarks.bound import bounded, most_tokens, prompt_text
from tuner.benchmarks.honest import honest
from tuner.benchmarks.http import PATHS, Target, Wires
from tuner.benchmarks.limits import limited_by
from tuner.benchmarks.load import DRAIN, Load, Plan, Progress, Seen
from tuner.benchmarks.metrics import measure_as
from tuner.benchmarks.quiet import quiet_collector
from tuner.benchmarks.scrape import TIMEOUT_S, Beside
from tuner.benchmarks.tokenizer import load_tokenizer
from tuner.errors import SpecError, TunerError

SPARE_FILES = 64
EVENT_EVERY_S = 0.25


@dataclass(frozen=True)
class Client:
    """Implements `Benchmark`.

    - `processes` share the load where one core cannot carry it (see `tuner.benchmarks.sharding`).
    - `request_timeout_s` bounds one request (None: only the pass is bounded); `stall_s` the silence of a stream that
      has begun.
    - `tls` replaces the system's trust for https; `insecure` trusts any certificate.
    - `path` is asked instead of the endpoint's own (`/v1/completions`).
    - `keep_text` keeps what was generated; None: where a tokenizer could count it.
    - `drain` set: nothing more is sent, and a pass ends, as stopped, with the answers that are under way.
    - `request_id_prefix` precedes the request's number in `x-request-id`; None: one of its own for each pass.
    """

    name: str = "tuner"
    processes: int = 1
    request_timeout_s: float | None = None
    stall_s: float = 600.0
    tls: ssl.SSLContext | None = None
    insecure: bool = False
    path: str | None = None
    keep_text: bool | None = None
    request_id_prefix: str | None = None
    drain: threading.Event | None = None

    _counted: dict[str, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)

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
        """As the contract says. Call it in a thread without a running event loop; `on_event` is called in that
        thread, between requests, and should take well under a millisecond.

        When `timeout_s` passes, what is still under way has failed, and `facts["timed_out"]` is true.

        Raises:
            SpecError: a URL, header or dataset that cannot be used.
            TunerError: the process may not open enough files for this concurrency, or a client process was lost.
        """
        if not urls:
            raise SpecError("a benchmark needs at least one URL")
        deadline = time.perf_counter() + timeout_s
        targets = [Target.parse(url) for url in urls]
        requests = _as_sent(datasets.requests(workload, seed), workload)
        digest = _digest(requests)
        known = f"{model} {workload.endpoint} {digest}"
        plan = Plan(
            targets=targets,
            requests=requests,
            wires=self._wires(model, workload, requests, headers or {}),
            due=_due(requests, workload, seed),
            most_tokens=most_tokens(requests, workload, self._counted.get(known, ())),
            concurrency=min(workload.concurrency, len(requests)),
            deadline=deadline,
            timeout_s=timeout_s,
            request_timeout_s=self.request_timeout_s,
            stall_s=self.stall_s,
            tls=self.tls,
            insecure=self.insecure,
            keep_text=workload.tokenizer is not None if self.keep_text is None else self.keep_text,
        )
        allow_files(plan.concurrency + SPARE_FILES, certain=plan.all_at_once)
        ending = Ending(bounded(workload), stop, on_event, beat, self.drain)
        with Beside(urls, min(TIMEOUT_S, timeout_s / 20), headers or {}, plan.trust()) as beside:
            seen = self._load(plan, ending)
        if all(response.success for response in seen.responses):
            self._counted[known] = [response.prompt_len for response in seen.responses]
        return _run(seen, {**beside.facts, "seed": seed, "prompts_sha256": digest}, ending.bound, workload, plan)

    def _wires(self, model: str, workload: Workload, requests: Sequence[Request], headers: Mapping[str, str]) -> Wires:
        """The bytes of every request, built before the clock starts."""
        prefix = f"bench-{uuid4().hex[:8]}-" if self.request_id_prefix is None else self.request_id_prefix
        bodies = [_encoded(body(model, workload, request)) for request in requests]
        wires = Wires(self.path or PATHS[workload.endpoint], bodies, headers, prefix)
        wires.check()
        return wires

    def _load(self, plan: Plan, ending: Ending) -> Seen:
        processes = min(self.processes, max(1, plan.concurrency))
        if processes > 1:
            return sharding.run(plan, ending, processes)
        with quiet_collector():
            return Load(plan, ending).run()


def benchmark(processes: int = 1) -> Client:
    return Client(processes=processes)


def body(model: str, workload: Workload, request: Request) -> dict[str, Any]:
    """What is asked of the server: the body of `vllm bench serve`, whichever version the definitions are of, with the
    workload's own temperature.

    `ignore_eos` is sent for random prompts (not by 0.11's definitions) unless the workload says otherwise.
    `extra_body` is laid over it; None removes a key.
    """
    asked: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    if workload.temperature is not None:
        asked["temperature"] = workload.temperature
    if workload.endpoint == "chat":
        asked["messages"] = _messages(request.prompt)
        asked["max_completion_tokens"] = request.output_len
    else:
        asked |= {"prompt": prompt_text(request.prompt), "max_tokens": request.output_len}
        asked |= {"repetition_penalty": 1.0, "logprobs": None}
    if workload.ignores_eos:
        asked["ignore_eos"] = True
    asked |= workload.extra_body
    return {key: value for key, value in asked.items() if value is not None or key not in workload.extra_body}


def _messages(prompt: str | Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": [{"type": "text", "text": prompt}]}]
    return list(prompt)


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


@dataclass
class Ending:
    """Why a pass ends before its last answer: the `Judge` of its load. `bound` is set when it does so because it
    cannot reach `beat` any more."""

    bounded: bool
    stop: threading.Event | None
    on_event: Callable[[Event], bool | None] | None
    beat: float | None
    drain: threading.Event | None = None
    bound: float | None = None
    _told: float = 0.0

    def __call__(self, progress: Progress) -> str:
        if self.stop is not None and self.stop.is_set():
            return "stopped"
        event = progress.event(bounded=self.bounded)
        if self.beat is not None and event.bound is not None and event.bound < self.beat:
            self.bound = event.bound
            return "cannot win"
        going_on = DRAIN if self.drain is not None and self.drain.is_set() else ""
        now = time.perf_counter()
        if self.on_event is None or now - self._told < EVENT_EVERY_S:
            return going_on
        self._told = now
        return "ended early" if self.on_event(event) else going_on


def _run(seen: Seen, more: Mapping[str, Any], bound: float | None, workload: Workload, plan: Plan) -> Run:
    requests, duration = plan.requests, seen.duration
    responses = _retokenised(seen.responses, workload) if plan.keep_text else seen.responses
    facts = {
        **seen.facts,
        **more,
        "dataset_lens": "tokenizer" if workload.tokenizer else "approximate",
        "offered_rate": None if plan.all_at_once else len(requests) / plan.due[-1],
        **_prompts_of(requests, responses),
    }
    run = Run(
        metrics=measure_as(workload, responses, duration),
        responses=responses,
        duration=duration,
        stopped_early=seen.ended_by not in ("", "timed out"),
        facts=facts,
        honest=honest(responses, duration, facts),
        bound=bound,
    )
    return replace(run, facts=facts | {"limited_by": asdict(limited_by(run, workload))})


def _due(requests: Sequence[Request], workload: Workload, seed: int) -> list[float]:
    """A trace's own times; else those of the workload's arrivals."""
    if all(request.due is not None for request in requests):
        return [request.due or 0.0 for request in requests]
    return arrivals(len(requests), workload.request_rate, workload.burstiness, seed, workload.ramp_up)


def _retokenised(responses: Sequence[Response], workload: Workload) -> tuple[Response, ...]:
    """With the tokenizer's count where the server gave none, as `vllm bench serve` does."""
    if workload.tokenizer is None or all(response.counted_by == "server" for response in responses):
        return tuple(responses)
    tokenizer = load_tokenizer(workload.tokenizer, workload.definitions)

    def counted(response: Response) -> Response:
        if response.counted_by == "server" or not response.text:
            return response
        text = response.text.encode("utf-8", "replace").decode("utf-8")  # no lone surrogates
        return replace(response, output_len=len(tokenizer.encode(text, special=False)), counted_by="tokenizer")

    return tuple(counted(response) for response in responses)


def _encoded(asked: Mapping[str, Any]) -> bytes:
    return json.dumps(asked, ensure_ascii=False).encode("utf-8", "replace")


def _as_sent(requests: list[Request], workload: Workload) -> list[Request]:
    """With the output length that is sent, where the workload's own body sets one."""
    limit = workload.output_limit
    return requests if limit is None else [replace(request, output_len=limit) for request in requests]


def _prompts_of(requests: Sequence[Request], responses: Sequence[Response]) -> dict[str, int]:
    """What is known, without asking the server, of the prompts that were answered: tokens as the dataset counts them,
    words and bytes of text."""
    answered = [request for request, response in zip(requests, responses, strict=True) if response.success]
    texts = [prompt_text(request.prompt) for request in answered]
    return {
        "prompt_tokens_known": sum(request.prompt_len for request in answered),
        "prompt_words": sum(len(text.split()) for text in texts),
        "prompt_bytes": sum(len(text.encode("utf-8", "replace")) for text in texts),
    }


def _digest(requests: Sequence[Request]) -> str:
    """SHA-256 of what is asked: every prompt and output length, in order."""
    digest = hashlib.sha256()
    for request in requests:
        prompt = request.prompt if isinstance(request.prompt, str) else json.dumps(request.prompt, sort_keys=True)
        text = prompt.encode("utf-8", "replace")
        digest.update(b"%d %d\n" % (len(text), request.output_len) + text)
    return digest.hexdigest()

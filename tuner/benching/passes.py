"""One pass over a server, from the ready check to the verdicts, and what is said of it meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tuner.benching.asked import Asked
from tuner.benching.ending import Ending
from tuner.benching.problems import distrust, explain, in_options, said
from tuner.benching.servers import Asker, NotYet
from tuner.benchmarks import Run, Workload, datasets
from tuner.benchmarks.honest import honest
from tuner.benchmarks.limits import Limit, limited_by
from tuner.benchmarks.metrics import measure_as
from tuner.benchmarks.streaming import Client
from tuner.benchmarks.verdicts import check
from tuner.benchmarks.watching import Watch
from tuner.errors import SpecError, TunerError
from tuner.trial import Verdict

TOLD_EVERY_S = 5.0
HANG_S = 300.0  # no token of any request for so long: longer than any prefill that a benchmark waits for
RETRY_S = 1.0
OTHER_PROMPTS = 7_919  # warm-ups have a seed of their own: what is measured is in no prefix cache because of them


@dataclass(frozen=True)
class Pass:
    """What came of one pass. `problem` says why it is incomplete, or not to be trusted: '' if it is neither."""

    run: Run
    workload: Workload
    model: str
    verdicts: tuple[Verdict, ...] = ()
    limit: Limit | None = None
    problem: str = ""
    interrupted: bool = False

    @property
    def simulated(self) -> bool:
        """Whether a stand-in engine answered."""
        return bool(self.run.facts.get("simulated"))

    @property
    def measured(self) -> bool:
        """Whether anything was."""
        return bool(self.run.metrics.get("completed"))


def prepared(workload: Workload) -> None:
    """Make the prompts, which are kept until they are sent.

    Raises:
        TunerError: the dataset or the tokenizer cannot be used.
    """
    try:
        datasets.check(workload)
        datasets.requests(workload, workload.seed)
    except SpecError as error:
        raise TunerError(in_options(error)) from error


def found(asked: Asked, asker: Asker, stop: threading.Event, say: Callable[[str], None]) -> str:
    """The model to ask for, when every server answers. With a ready check they are given its time to begin to.

    Raises:
        TunerError: a server does not answer, or is another kind of server.
    """
    deadline = time.monotonic() + asked.ready_s
    told = False
    while True:
        try:
            model = asked.model or asker.first_model(asked.urls[0])
            for url in asked.urls if asked.model else asked.urls[1:]:
                asker.reach(url)
            return model
        except NotYet as error:
            if stop.is_set() or not asked.ready_s:
                raise
            if time.monotonic() + RETRY_S >= deadline:
                raise TunerError(f"not ready within {asked.ready_s:g} s: {error}") from error
            if not told:
                say(f"waiting up to {asked.ready_s:g} s for the server: {error}")
            told = True
        stop.wait(RETRY_S)


def ready(
    asked: Asked, model: str, client: Client, stop: threading.Event, deadline: float, say: Callable[[str], None]
) -> None:
    """Wait for a first answer of each server, and warm up, as far as either was asked for. `deadline` of the wait is
    on `time.monotonic`'s clock.

    Raises:
        TunerError: no answer came in time.
    """
    if asked.ready_s > 0:
        say(f"waiting up to {asked.ready_s:g} s for a first answer")
        for url in asked.urls:
            _wait(replace(asked, urls=(url,)), model, client, stop, deadline)
    if asked.warmups and not stop.is_set():
        say(f"warming up with {asked.warmups} requests")
        _send(asked, model, client, _unmeasured(asked.workload, asked.warmups), asked.timeout_s, stop)


def measured(
    asked: Asked, workload: Workload, model: str, client: Client, ending: Ending, say: Callable[[str], None]
) -> Pass:
    """Send the workload once, and judge what came of it."""
    ending.measuring = True
    asker = Asker(asked.headers, bool(asked.client.get("insecure")))
    watch = Watch(_nothing if asked.output.quiet else say, HANG_S, told_every_s=TOLD_EVERY_S)
    run = _send(asked, model, client, workload, asked.timeout_s, ending.stop, watch, asked.beat)
    if asker.is_stand_in(asked.urls[0]):
        run = replace(run, facts={**run.facts, "simulated": True})
    done = judged(_without(run, asked.secret), workload, model, asked, lambda: _served(asker, asked.urls[0]))
    unfinished = any(response.failure == "unfinished" for response in run.responses)
    return replace(done, interrupted=ending.asked_for and unfinished, problem=watch.hung or done.problem)


def judged(run: Run, workload: Workload, model: str, asked: Asked, served: Callable[[], list[str]]) -> Pass:
    """The run with its figures as they are asked for, and everything there is to say of it."""
    metrics = measure_as(workload, run.responses, run.duration, asked.report.percentiles or ())
    figures = run.honest or honest(run.responses, run.duration, run.facts)
    whole = replace(run, metrics=metrics, honest=figures)
    verdicts = check(whole, workload)
    beaten = run.bound is not None
    problem = "" if beaten else explain(whole, workload, model, served) or distrust(verdicts, workload)
    return Pass(whole, workload, model, verdicts, limited_by(whole, workload), problem)


def _wait(asked: Asked, model: str, client: Client, stop: threading.Event, deadline: float) -> None:
    while not stop.is_set():
        left = max(RETRY_S, deadline - time.monotonic())
        run = _send(asked, model, client, _unmeasured(asked.workload, 1), left, stop)
        if run.metrics.get("completed"):
            return
        if time.monotonic() + RETRY_S >= deadline:
            error = said(run.responses[0].error) if run.responses else ""
            raise TunerError(f"{asked.urls[0]} gave no answer within {asked.ready_s:g} s: {error}")
        stop.wait(RETRY_S)


def _unmeasured(workload: Workload, count: int) -> Workload:
    """So many requests of the same kind, at once."""
    seed = workload.seed + OTHER_PROMPTS
    return replace(workload, num_prompts=count, request_rate=None, ramp_up=None, time_scale=1e-9, seed=seed)


def _send(
    asked: Asked,
    model: str,
    client: Client,
    workload: Workload,
    timeout_s: float,
    stop: threading.Event,
    told: Watch | None = None,
    beat: float | None = None,
) -> Run:
    try:
        return client.run(
            asked.urls, model, workload, seed=workload.seed, timeout_s=timeout_s, stop=stop, on_event=told,
            headers=asked.headers, beat=beat,
        )  # fmt: skip
    except SpecError as error:
        raise TunerError(in_options(error)) from error


def _nothing(text: str) -> None:
    """Nobody is told."""


def _served(asker: Asker, url: str) -> list[str]:
    try:
        return asker.models(url)
    except TunerError:
        return []


def _without(run: Run, secret: str) -> Run:
    """Servers may repeat a key in what they say of it."""
    if not secret or not any(secret in response.error for response in run.responses):
        return run
    responses = tuple(replace(r, error=r.error.replace(secret, "***")) for r in run.responses)
    return replace(run, responses=responses, facts=_hidden(run.facts, secret))


def _hidden(value: Any, secret: str) -> Any:
    """The value with no text in it that has the secret, however deep."""
    if isinstance(value, str):
        return value.replace(secret, "***")
    if isinstance(value, Mapping):
        return {_hidden(key, secret): _hidden(part, secret) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(part, secret) for part in value]
    return value

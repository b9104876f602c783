"""Why a pass is incomplete, and what to do about it: one line. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from tuner.benchmarks import FAILURES, Response, Run, Workload
from tuner.benchmarks.metrics import succeeded
from tuner.trial import Verdict

_TOO_LONG = re.compile(
    r"context length|maximum (context|model|sequence|input)|max_model_len|max_seq_len|too long|longer than|too large",
    re.IGNORECASE,
)
_NOTES = ("stopped-early", "timed-out", "success-rate")  # said already, in words of their own


def explain(run: Run, workload: Workload, model: str, served: Callable[[], Sequence[str]]) -> str:
    """Of the failed requests the commonest kind, by name, and the way out; '' if none failed.

    `served` asks the server for its models; it is only called where that may explain the failures.
    """
    done = (succeeded(response, workload.definitions, workload.endpoint) for response in run.responses)
    failed = [response for response, good in zip(run.responses, done, strict=True) if not good]
    ended = [response for response in failed if response.failure != "unfinished"] or failed
    if not ended:
        return ""
    kind, count = Counter(response.failure for response in ended).most_common(1)[0]
    one = next(response for response in ended if response.failure == kind)
    share = f"{count} of {len(run.responses)} requests failed"
    return f"{share}: {_cause(kind, one, run, workload, model, served)}"


def distrust(verdicts: Sequence[Verdict], workload: Workload) -> str:
    """The first objection that makes the figures not to be trusted, where all requests succeeded; '' if there is
    none."""
    for verdict in verdicts:
        if verdict.valid or verdict.check in _NOTES:
            continue
        foreign = verdict.check == "input-tokens" and workload.tokenizer is not None
        way_out = f"; is {workload.tokenizer} the tokenizer of this model?" if foreign else ""
        return f"not to be trusted: {verdict.message}{way_out}"
    return ""


def _cause(
    kind: str, one: Response, run: Run, workload: Workload, model: str, served: Callable[[], Sequence[str]]
) -> str:
    error = _short(one.error)
    begun = any(response.success or response.ttft > 0 for response in run.responses)
    if kind == "unfinished" and run.facts.get("timed_out"):
        return f"{error}; give more --timeout, fewer --num-prompts or a lower load"
    if kind in ("connect", "broken") and begun:
        return f"{error}: the server went away or broke off half-way; look at its log"
    if kind == "rejected":
        return _refused(one, error, workload, model, served)
    return f"{error or FAILURES.get(kind, kind)}{_WAYS_OUT.get(kind, '')}"


_WAYS_OUT = {
    "connect": "; is the server up?",
    "tls": "; --insecure trusts any certificate",
    "overloaded": "; lower --max-concurrency or --request-rate, or let the server queue more",
    "server-error": "; look at the server's log",
    "broken": "; look at the server's log",
    "stalled": "; look at the server's log, or give more --request-timeout",
    "no-tokens": "; does the model answer these prompts at all?",
}


def _refused(one: Response, error: str, workload: Workload, model: str, served: Callable[[], Sequence[str]]) -> str:
    if one.status in (401, 403):
        return f"{error}: the server wants a key; set OPENAI_API_KEY, or give --header Authorization='Bearer ...'"
    if one.status == 413 or _TOO_LONG.search(one.error):
        return f"{error}: prompts of {one.asked_prompt_len} + {one.asked_output_len} tokens are too long for the server"
    if one.status == 404:
        names = list(served())
        if names and model not in names:
            return f"{error}: model {model} is not served; --model is one of {', '.join(names)}"
        return f"{error}: the server has no such path; --endpoint names it, or another --backend"
    return f"{error}; the server refuses what was asked ({workload.endpoint})"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:300] + "…"

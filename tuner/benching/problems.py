"""Why a pass is incomplete, and what to do about it: one line. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from tuner.benchmarks import FAILURES, Response, Run, Workload
from tuner.benchmarks.metrics import succeeded
from tuner.errors import SpecError
from tuner.trial import Verdict

MOST_CHARACTERS = 300
DISTRUST = "not to be trusted: "

_TOO_LONG = re.compile(
    r"context length|maximum (context|model|sequence|input)|max_model_len|max_seq_len|too long|longer than|too large",
    re.IGNORECASE,
)
SAID = ("stopped-early", "timed-out", "success-rate")  # already, in words of their own


def explain(run: Run, workload: Workload, model: str, served: Callable[[], Sequence[str]]) -> str:
    """How many requests failed, why the first of them did, and the way out; '' if none failed.

    What failed first is likelier the cause than what failed most often: a server that breaks off its streams refuses
    every connection after that.
    `served` asks the server for its models; it is only called where that may explain the failures.
    """
    done = (succeeded(response, workload.definitions, workload.endpoint) for response in run.responses)
    failed = [response for response, good in zip(run.responses, done, strict=True) if not good]
    ended = [response for response in failed if response.failure != "unfinished"] or failed
    if not ended:
        return ""
    one = _first(ended)
    alike = sum(response.failure == one.failure for response in failed)
    share = f"{len(failed)} of {len(run.responses)} requests failed"
    first = "" if alike == len(failed) else f"; first, {alike} of them ({FAILURES.get(one.failure, one.failure)})"
    return f"{share}{first}: {_cause(one.failure, one, run, workload, model, served)}"


def distrust(verdicts: Sequence[Verdict], workload: Workload) -> str:
    """The first objection that makes the figures not to be trusted, where all requests succeeded; '' if there is
    none."""
    for verdict in verdicts:
        if verdict.valid or verdict.check in SAID:
            continue
        foreign = verdict.check == "input-tokens" and workload.tokenizer is not None
        way_out = f"; is {workload.tokenizer} the tokenizer of this model?" if foreign else ""
        return f"{DISTRUST}{verdict.message}{way_out}"
    return ""


def said(error: str) -> str:
    """The error with the server's message alone where that came in JSON, on one line and not too long."""
    head, brace, rest = error.partition("{")
    if brace:
        error = head + (_message(brace + rest) or brace + rest)
    line = " ".join(error.split())
    return line if len(line) <= MOST_CHARACTERS else line[:MOST_CHARACTERS] + "…"


def in_options(error: SpecError) -> str:
    """What is wrong with a workload, in the words of the command line instead of a study's."""
    faults = [str(replace(fault, path="")) for fault in error.faults]
    return "\n".join(
        _IN_OPTIONS.sub(lambda found: _OPTIONS[found[0]], re.sub("^workload \\S+: ", "", f)) for f in faults
    )


_OPTIONS = {
    "lower num_prompts": "lower --num-prompts",
    "let some be sent again (oversample)": "leave --no-oversample out, so that some are sent again",
    "give all of them one length (fixed_output_len, --custom-output-len)": "give --custom-output-len",
    "leave `tokenizer` out": "leave --tokenizer out",
    "choose endpoint: chat (--backend openai-chat)": "give --backend openai-chat",
    "lower max_concurrency": "lower --max-concurrency",
    "needs `path`": "needs --dataset-path",
}
_IN_OPTIONS = re.compile("|".join(map(re.escape, _OPTIONS)))


def _first(ended: Sequence[Response]) -> Response:
    """The one that failed first. When a request failed that was never sent is not known: its order stands for it, and
    it comes after all that were sent, since a server that was never there has none of those."""
    return min(ended, key=lambda response: response.start + response.end if response.start else math.inf)


def _message(text: str) -> str:
    """Of `{"error": {"message": ...}}` and its kin, even cut off; '' if there is none."""
    try:
        found = json.loads(text)
    except ValueError:
        cut = re.search(r'"(?:message|detail)"\s*:\s*"((?:[^"\\]|\\.)*)', text)
        return cut[1].replace('\\"', '"').replace("\\n", " ") if cut else ""
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    return found if isinstance(found, str) else ""


def _cause(
    kind: str, one: Response, run: Run, workload: Workload, model: str, served: Callable[[], Sequence[str]]
) -> str:
    error = said(one.error)
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
        shorter = "--random-input-len" if workload.dataset == "random" else "the prompts, or --output-len"
        return (
            f"{error}: prompts of {one.asked_prompt_len} + {one.asked_output_len} tokens are too long for the server; "
            f"lower {shorter}, or raise the server's --max-model-len"
        )
    if one.status == 404:
        names = list(served())
        if names and model not in names:
            return f"{error}: model {model} is not served; --model is one of {', '.join(names)}"
        return f"{error}: the server has no such path; --endpoint names it, or another --backend"
    return f"{error}; the server refuses what was asked ({workload.endpoint})"

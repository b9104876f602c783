"""Figures that cannot be, or are not of what was asked: judged by themselves, wherever they come from."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tuner.benchmarks import Response, Workload
from tuner.benchmarks.bound import TEMPLATE_TOKENS, TOKENIZER_SLACK, TOKENS_PER_WORD
from tuner.benchmarks.failed import failures
from tuner.benchmarks.verdicts.answers import EVENTS_WITHOUT_TOKEN, TOKENS_TOLERANCE
from tuner.trial import Verdict

FAILED_SHARE_ALLOWED = 0.0
GUESSED_INPUT_TOLERANCE = 0.5  # of a length that was estimated from the text, before it is noted
FEWEST_TOKENS_PER_WORD = 0.5  # of plain words; tokenizers in use give 1.0 to 2.5
SHORT_ANSWERS = 0.5  # of the tokens asked for, below which it is noted that the answers ended early
RATES_TOLERANCE = 0.02
MOST_TOKENS_PER_S = 1e8  # no node reads or writes a hundred million tokens in a second
ROUNDED, ROUNDED_MS = 1.001, 10.0
NO_FACTS: Mapping[str, Any] = MappingProxyType({})
TOTALS: Mapping[str, tuple[str, ...]] = {
    "request_throughput": ("completed",),
    "output_throughput": ("total_output_tokens",),
    "total_token_throughput": ("total_input_tokens", "total_output_tokens"),
}

_MADE = ("random", "shared-prefix")  # lengths are the workload's; elsewhere the file's
_LATENCY = re.compile(r"(?:mean|median|max|p[\d.]+)_(?:ttft|e2el)_ms")


def objections(
    metrics: Mapping[str, float],
    workload: Workload,
    facts: Mapping[str, Any] = NO_FACTS,
    responses: Sequence[Response] = (),
) -> Iterator[Verdict]:
    """`facts` and `responses` of the run, where the figures are of one of ours. Of a run in which nothing succeeded
    only that: its figures are of nothing."""
    if none_succeeded(metrics):
        yield from _complete(metrics, workload, facts, responses)
        return
    yield from _possible(metrics)
    yield from _within_their_duration(metrics, workload)
    if not responses:  # those know their events
        yield from _more_than_came(metrics)
    yield from _complete(metrics, workload, facts, responses)
    yield from _output_tokens(metrics, workload, responses)
    yield from _input_tokens(metrics, workload, facts)
    yield from _consistent(metrics)


def none_succeeded(metrics: Mapping[str, float]) -> bool:
    """Whether the figures say so; those that do not tell do not."""
    return metrics.get("completed", metrics.get("success_rate")) == 0


def _possible(metrics: Mapping[str, float]) -> Iterator[Verdict]:
    """Values that no run can have."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            yield Verdict("impossible-value", False, f"{name} is {value}")
        elif value < 0:
            yield Verdict("impossible-value", False, f"{name} is negative ({value:g})")
        elif value == 0 and (name == "duration" or name.endswith("_throughput")):
            yield Verdict("impossible-value", False, f"{name} is 0: nothing was measured")
        elif name in ("output_throughput", "total_token_throughput") and value > MOST_TOKENS_PER_S:
            yield Verdict("impossible-value", False, f"{name} is {value:.3g} tokens per second, which no node reaches")
        elif value == 0 and name.endswith("_ttft_ms") and not name.startswith("std_") and metrics.get("completed"):
            yield Verdict("impossible-value", False, f"{name} is 0: no token comes at once")
    for kind in ("mean", "median", "p99"):
        ttft, whole = metrics.get(f"{kind}_ttft_ms"), metrics.get(f"{kind}_e2el_ms")
        if ttft is not None and whole is not None and ttft > whole * (1 + 1e-9):
            message = f"{kind} TTFT ({ttft:.1f} ms) is longer than {kind} end-to-end latency ({whole:.1f} ms)"
            yield Verdict("impossible-value", False, message)


def _within_their_duration(metrics: Mapping[str, float], workload: Workload) -> Iterator[Verdict]:
    """No request takes longer than its run; nor, at most so many at a time, do all together. Figures that were
    rounded are given some room."""
    duration = metrics.get("duration", 0.0)
    if not 0 < duration < math.inf:
        return
    for name, value in metrics.items():
        if _LATENCY.fullmatch(name) and ROUNDED * duration * 1000 + ROUNDED_MS < value < math.inf:
            message = f"{name} is {value:g}: no request takes longer than the run, {duration:g} s"
            yield Verdict("impossible-value", False, message)
    each, completed = metrics.get("mean_e2el_ms", metrics.get("mean_ttft_ms", 0.0)) / 1000, metrics.get("completed", 0)
    least = each * completed / workload.concurrency
    if duration * (1 + RATES_TOLERANCE) < least < math.inf:
        message = f"{completed:g} requests of {each:g} s on average, {workload.concurrency} at a time at most, take"
        yield Verdict("impossible-value", False, f"{message} {least:g} s, not {duration:g} s")


def _more_than_came(metrics: Mapping[str, float]) -> Iterator[Verdict]:
    """A peak counts events: one of some kinds has no token."""
    peak, tokens = metrics.get("max_output_tokens_per_s", 0.0), metrics.get("total_output_tokens")
    if tokens is not None and tokens + EVENTS_WITHOUT_TOKEN * metrics.get("completed", 0.0) < peak < math.inf:
        yield Verdict("impossible-value", False, f"a peak of {peak:g} tokens in a second, but {tokens:g} came in all")


def _complete(
    metrics: Mapping[str, float], workload: Workload, facts: Mapping[str, Any], responses: Sequence[Response]
) -> Iterator[Verdict]:
    completed = metrics.get("completed")
    rate = metrics.get("success_rate")
    if completed is None and rate is not None:
        completed = rate * workload.num_prompts
    if completed is None or completed >= workload.num_prompts * (1 - FAILED_SHARE_ALLOWED):
        return
    errors = "; ".join(f"{count} x {error}" for error, count in list(facts.get("errors", {}).items())[:3])
    if any(response.failure for response in responses):
        errors = failures(responses)
    yield Verdict(
        "success-rate",
        False,
        f"{completed:.0f} of {workload.num_prompts} requests succeeded" + (f": {errors}" if errors else ""),
    )


def _output_tokens(
    metrics: Mapping[str, float], workload: Workload, responses: Sequence[Response]
) -> Iterator[Verdict]:
    """Where EOS is ignored the server must write what was asked, otherwise no more; drawn lengths only move single
    requests. Honest servers fall a little short: 9952 of 10000 tokens are fine."""
    total, completed = metrics.get("total_output_tokens"), metrics.get("completed")
    asked, ratio = _asked(workload, responses)
    if total is None or not completed or asked is None:
        return
    each, allowed = total / completed, (TOKENS_TOLERANCE + _drawn(ratio, completed)) * asked
    if each - asked > allowed or (workload.ignores_eos and asked - each > allowed):
        ignored = " with end-of-sequence ignored" if workload.ignores_eos else " at most"
        message = f"{each:.1f} tokens came for each request, {asked:g} were asked{ignored}"
        yield Verdict("output-tokens", False, message)
    elif each < SHORT_ANSWERS * asked and workload.dataset in _MADE:
        message = f"{each:.1f} tokens came for each request, {asked:g} were asked: the answers ended early"
        yield Verdict("output-tokens", True, f"{message}; ask the server to ignore end-of-sequence")


def _asked(workload: Workload, responses: Sequence[Response]) -> tuple[float | None, float]:
    """The output tokens asked for by a request on average, and how far from it single ones were drawn."""
    if workload.output_limit is not None:
        return workload.output_limit, 0.0
    good = [response.asked_output_len for response in responses if response.success]
    if good and all(good):
        return sum(good) / len(good), 0.0
    if workload.dataset not in _MADE:
        return workload.fixed_output_len, 0.0
    ratio = workload.range_ratio if workload.output_range_ratio is None else workload.output_range_ratio
    return workload.output_len, ratio if workload.dataset == "random" else 0.0


def _input_tokens(metrics: Mapping[str, float], workload: Workload, facts: Mapping[str, Any]) -> Iterator[Verdict]:
    """Against what the client knows of its prompts: with a tokenizer their tokens, without one their words.

    Templates and special tokens add some to each prompt. Without `facts`, only random prompts are known.
    """
    total, completed = metrics.get("total_input_tokens"), metrics.get("completed")
    if total is None or not completed or not math.isfinite(total + completed):
        return
    if not facts.get("prompt_tokens_known") and workload.dataset != "random":
        return
    each = total / completed
    known = facts.get("prompt_tokens_known", 0) / completed or float(workload.prefix_len + workload.input_len)
    drawn = 0.0 if facts.get("prompt_tokens_known") else _drawn(workload.range_ratio, completed)
    low, high = _plausible(known, drawn, workload, facts, completed)
    ratio = f"({each / known:.2f} of what the client counts)"
    if not low <= each <= high:
        message = f"the server counted {each:.1f} tokens in each prompt, which has {known:.1f} {ratio}: it cannot be"
        yield Verdict("input-tokens", False, message)
    elif _worth_a_note(each, known, drawn, workload):
        what = "were asked" if workload.dataset == "random" else "are its length"
        message = f"the server counted {each:.1f} tokens in each prompt, {known:g} {what} {ratio}"
        yield Verdict("input-tokens", True, message)


def _plausible(
    known: float, drawn: float, workload: Workload, facts: Mapping[str, Any], completed: float
) -> tuple[float, float]:
    """The fewest and the most tokens that a prompt can have on average."""
    if workload.tokenizer is not None:
        slack = (TOKENIZER_SLACK + drawn) * known + TEMPLATE_TOKENS
        return known - slack, known + slack
    words = facts.get("prompt_words", 0) / completed or known
    fewest, most = (share * words for share in (FEWEST_TOKENS_PER_WORD, TOKENS_PER_WORD))
    if workload.dataset != "random":  # any text: words of some languages are sentences; no token is under a byte
        fewest, most = 0.0, max(most, facts.get("prompt_bytes", 0) / completed)
    return fewest * (1 - drawn), most * (1 + drawn) + TEMPLATE_TOKENS


def _worth_a_note(each: float, known: float, drawn: float, workload: Workload) -> bool:
    if workload.tokenizer is None and workload.dataset != "random":  # the length itself is a guess
        return abs(each - known) > GUESSED_INPUT_TOLERANCE * known + TEMPLATE_TOKENS
    return abs(each - known) > (TOKENS_TOLERANCE + drawn) * known


def _drawn(ratio: float, count: float) -> float:
    """How far, as a share, the mean of drawn lengths may be off: four of its standard deviations."""
    return 4 * ratio / math.sqrt(3 * max(1.0, count))


def _consistent(metrics: Mapping[str, float]) -> Iterator[Verdict]:
    """Each throughput is its total over the duration; 2 % is left for figures that were rounded."""
    duration = metrics.get("duration", 0.0)
    for name, parts in TOTALS.items():
        if name not in metrics or duration <= 0 or not all(part in metrics for part in parts):
            continue
        rate = sum(metrics[part] for part in parts) / duration
        if abs(rate - metrics[name]) > RATES_TOLERANCE * rate:
            message = f"{name} is {metrics[name]:g}, but {' + '.join(parts)} over duration is {rate:g}"
            yield Verdict("inconsistent", False, message)

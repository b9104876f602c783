"""Can a measurement be trusted? Pure.

`check` answers with what there is to say and nothing else: a verdict with `valid=False` keeps the measurement from
being ranked, one with `valid=True` is a note for people. No verdict: nothing to object to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.benchmarks import Response, Run, Workload
from tuner.trial import Measurement, Verdict

FAILED_SHARE_ALLOWED = 0.0
TOKENS_TOLERANCE = 0.02
KNOWN_INPUT_TOLERANCE = 0.1  # of a length that the model's tokenizer gave
GUESSED_INPUT_TOLERANCE = 0.5  # of a length that was estimated from the text, before it is noted
TEMPLATE_TOKENS = 64  # what templates and special tokens may add to a prompt
TOKENS_PER_WORD = (0.5, 4.0)  # of plain words; tokenizers in use give 1.0 to 2.5
EVENTS_WITHOUT_TOKEN = 3
RATES_TOLERANCE = 0.02
STEADY_TOLERANCE = 0.05
MOST_TOKENS_PER_S = 1e8  # no node reads or writes a hundred million tokens in a second
LAG_NOTED_MS = 100.0
LAG_NOTED_SHARE = 0.1
BUSY_CLIENT = 0.8
TOTALS: Mapping[str, tuple[str, ...]] = {
    "request_throughput": ("completed",),
    "output_throughput": ("total_output_tokens",),
    "total_token_throughput": ("total_input_tokens", "total_output_tokens"),
}


def check(subject: Run | Measurement, workload: Workload) -> tuple[Verdict, ...]:
    """Every objection to what was measured, checked against what was asked.

    Of a measurement each repeat is checked, or the metrics if it has none; metrics that were not recorded are not
    missed. A run is also checked by its responses and by what the client noticed.
    """
    if isinstance(subject, Run):
        return (*_metrics(subject.metrics, workload, subject.facts), *_responses(subject), *_client(subject))
    passes = subject.repeats or (subject.metrics,)
    found = [verdict for metrics in passes for verdict in _metrics(metrics, workload, {})]
    return tuple(dict.fromkeys(found))


def steady(previous: float, latest: float, tolerance: float = STEADY_TOLERANCE) -> bool:
    """Whether a metric of two passes, one after the other, differs by no more than this share of the larger."""
    if not (math.isfinite(previous) and math.isfinite(latest)):
        return False
    return abs(latest - previous) <= tolerance * max(abs(previous), abs(latest))


def _metrics(metrics: Mapping[str, float], workload: Workload, facts: Mapping[str, Any]) -> Iterator[Verdict]:
    yield from _possible(metrics)
    yield from _complete(metrics, workload, facts)
    yield from _output_tokens(metrics, workload)
    yield from _input_tokens(metrics, workload, facts)
    yield from _consistent(metrics)


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
    for kind in ("mean", "median", "p99"):
        ttft, whole = metrics.get(f"{kind}_ttft_ms"), metrics.get(f"{kind}_e2el_ms")
        if ttft is not None and whole is not None and ttft > whole * (1 + 1e-9):
            message = f"{kind} TTFT ({ttft:.1f} ms) is longer than {kind} end-to-end latency ({whole:.1f} ms)"
            yield Verdict("impossible-value", False, message)


def _complete(metrics: Mapping[str, float], workload: Workload, facts: Mapping[str, Any]) -> Iterator[Verdict]:
    completed = metrics.get("completed")
    rate = metrics.get("success_rate")
    if completed is None and rate is not None:
        completed = rate * workload.num_prompts
    if completed is None or completed >= workload.num_prompts * (1 - FAILED_SHARE_ALLOWED):
        return
    errors = "; ".join(f"{count} x {error}" for error, count in list(facts.get("errors", {}).items())[:3])
    yield Verdict(
        "success-rate",
        False,
        f"{completed:.0f} of {workload.num_prompts} requests succeeded" + (f": {errors}" if errors else ""),
    )


def _output_tokens(metrics: Mapping[str, float], workload: Workload) -> Iterator[Verdict]:
    """Where EOS is ignored the server must write what was asked, otherwise no more; `range_ratio` only moves single
    requests."""
    total, completed = metrics.get("total_output_tokens"), metrics.get("completed")
    asked = workload.sharegpt_output_len if workload.dataset == "sharegpt" else workload.output_len
    asked, ratio = (asked, workload.range_ratio) if workload.output_limit is None else (workload.output_limit, 0.0)
    if total is None or not completed or asked is None:
        return
    each, allowed = total / completed, (TOKENS_TOLERANCE + _drawn(ratio, completed)) * asked
    if each - asked > allowed or (workload.ignores_eos and asked - each > allowed):
        ignored = " with end-of-sequence ignored" if workload.ignores_eos else " at most"
        message = f"{each:.1f} tokens came for each request, {asked} were asked{ignored}"
        yield Verdict("output-tokens", False, message)


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
    known = facts.get("prompt_tokens_known", 0) / completed or float(workload.input_len)
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
        slack = (KNOWN_INPUT_TOLERANCE + drawn) * known + TEMPLATE_TOKENS
        return known - slack, known + slack
    words = facts.get("prompt_words", 0) / completed or known
    fewest, most = (share * words for share in TOKENS_PER_WORD)
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


def _responses(run: Run) -> Iterator[Verdict]:
    """Single answers that cannot be."""
    good = [response for response in run.responses if response.success]
    wrong = [r for r in good if not (0 <= r.ttft <= r.latency * (1 + 1e-9)) or any(gap < 0 for gap in r.itls)]
    if wrong:
        message = f"{len(wrong)} answers have a first token after their last, or time running backwards"
        yield Verdict("impossible-value", False, message)
    empty = sum(response.output_len == 0 for response in good)
    if empty:
        yield Verdict("output-tokens", False, f"{empty} of {len(good)} answers that succeeded have no token")
    if longer := run.facts.get("longer_than_asked"):
        message = f"the server counted more tokens than were allowed in {longer} of {len(good)} answers"
        yield Verdict("output-tokens", False, message)
    if none := run.facts.get("counted_as_none"):
        message = f"the server counted no token in {none} of {len(good)} answers that have text"
        yield Verdict("output-tokens", False, message)
    yield from _more_events(run, good)


def _more_events(run: Run, good: Sequence[Response]) -> Iterator[Verdict]:
    """A note: an event brings a token or more, but a role, the end, or half a character may come as one of its own."""
    events = sum(len(response.itls) + (response.ttft > 0) for response in good)
    tokens = sum(response.output_len for response in good)
    if tokens and events > tokens * (1 + TOKENS_TOLERANCE) + EVENTS_WITHOUT_TOKEN * len(good):
        message = f"{events} events with text came, the server counted {tokens} tokens (ratio {tokens / events:.2f})"
        yield Verdict("output-tokens", True, message)


def _client(run: Run) -> Iterator[Verdict]:
    facts = run.facts
    if run.stopped_early:
        yield Verdict("stopped-early", False, "the pass was ended before its last answer")
    if facts.get("timed_out"):
        yield Verdict("timed-out", False, "the pass did not end within its time")
    busy = facts.get("client_cpu_s", 0.0) / run.duration if run.duration > 0 else 0.0
    lag, ttft = facts.get("loop_lag_ms", 0.0), run.metrics.get("mean_ttft_ms", 0.0)
    if busy > BUSY_CLIENT:
        yield Verdict(
            "client-limited", True, f"the client itself was busy for {busy:.0%} of the pass: it may be the limit"
        )
    elif lag > max(LAG_NOTED_MS, LAG_NOTED_SHARE * ttft):
        yield Verdict("client-limited", True, f"the client ran up to {lag:.0f} ms late: latencies are that uncertain")
    guessed = facts.get("guessed_output_lens", 0)
    if guessed:
        message = f"the server did not count the tokens of {guessed} answers: each event was taken for one"
        yield Verdict("approximate-tokens", True, message)

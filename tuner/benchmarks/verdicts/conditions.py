"""What a run was measured under: client, arrivals, queues, caches, cold starts. Notes, but for what cannot rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tuner.benchmarks import Response, Run, Workload
from tuner.benchmarks.bound import TEMPLATE_TOKENS
from tuner.benchmarks.limits import client_why, limited_by, server_queue
from tuner.benchmarks.stall import named_stall, waves
from tuner.trial import Verdict

LAG_NOTED_MS = 100.0
LAG_NOTED_SHARE = 0.1
# Prompt tokens found in a cache though the prompts were made for this pass alone: templates and the first block of
# a prompt are alike in all of them. From the second share on most of the prefill was not done at all.
HITS_NOTED, HITS_RANKED = 0.05, 0.5
FRESH = ("random",)
COLD = 1.5


def objections(run: Run, workload: Workload) -> Iterator[Verdict]:
    yield from ended(run)
    yield from _client(run, workload)
    yield from _arrivals(run, workload)
    yield from _queue(run, workload)
    yield from _stall(run.metrics, workload, _first_tokens(run.responses))
    yield from _cold(run)
    yield from _cached(run, workload)
    yield from _approximate(run)


def ended(run: Run) -> Iterator[Verdict]:
    """Of a run that did not come to its own end."""
    if run.bound is not None:
        message = "the pass was ended, as it could not reach the throughput to beat any more:"
        bound = f"{run.bound:.1f} tokens per second is the most it could have reached, a bound and no result"
        yield Verdict("stopped-early", False, f"{message} {bound}")
    elif run.stopped_early:
        yield Verdict("stopped-early", False, "the pass was ended before its last answer")
    if run.facts.get("timed_out"):
        yield Verdict("timed-out", False, "the pass did not end within its time")


def by_shape(metrics: Mapping[str, float], workload: Workload) -> Iterator[Verdict]:
    """What figures alone say of the conditions."""
    yield from _stall(metrics, workload)
    yield from _waves(metrics, workload)


def _client(run: Run, workload: Workload) -> Iterator[Verdict]:
    lag, ttft = run.facts.get("loop_lag_ms", 0.0), run.metrics.get("mean_ttft_ms", 0.0)
    if why := client_why(run, workload):
        yield Verdict("client-limited", True, why)
    elif lag > max(LAG_NOTED_MS, LAG_NOTED_SHARE * ttft):
        yield Verdict("client-limited", True, f"the client ran up to {lag:.0f} ms late: latencies are that uncertain")


def _arrivals(run: Run, workload: Workload) -> Iterator[Verdict]:
    limit = limited_by(run, workload)
    if limit.what == "arrival-rate":
        yield Verdict("arrival-limited", True, f"{limit.why}; throughput is that of the arrivals, not of the server")


def _queue(run: Run, workload: Workload) -> Iterator[Verdict]:
    if (found := server_queue(run)) is not None:
        message = f"{found}: a limit of {found.running} running requests is part of what was measured"
        yield Verdict("server-queue", True, message)
    elif not run.responses:
        yield from _waves(run.metrics, workload)


def _waves(metrics: Mapping[str, float], workload: Workload) -> Iterator[Verdict]:
    if (found := waves(metrics, workload)) is not None:
        yield Verdict(
            "server-queue",
            True,
            f"first tokens came over {found.spread:.1f} s, {found.spread / found.each:.0f} times as long as an answer "
            f"took from there on: about {found.running:.0f} of {workload.concurrency} requests were answered at a "
            "time (a limit on running requests, or prompts worked on in turn), and the others waited in the server",
        )


def _first_tokens(responses: Sequence[Response]) -> float | None:
    """Seconds after the first request by which one in a hundred answers had begun."""
    good = [response for response in responses if response.success and response.ttft > 0]
    if not good:
        return None
    began = min(response.start for response in good)
    return sorted(r.start + r.ttft - began for r in good)[len(good) // 100]


def _stall(metrics: Mapping[str, float], workload: Workload, first: float | None = None) -> Iterator[Verdict]:
    if (seconds := named_stall(metrics, workload, first)) is not None:
        yield Verdict(
            "start-stall",
            True,
            f"about {seconds:.1f} of {metrics['duration']:.1f} s seem to have passed before the first tokens (by the "
            "shape of TTFT): a cold or stalled start, which warm-up and repeats would take out of the figures",
        )


def _cold(run: Run) -> Iterator[Verdict]:
    ratio = run.honest.get("cold_start_ratio", 0.0)
    if ratio > COLD:
        message = f"the first tenth of the requests took {ratio:.1f} times as long for a token as the others: a cold"
        yield Verdict("cold-start", True, f"{message} start; warm up, or take the steady window")


def _cached(run: Run, workload: Workload) -> Iterator[Verdict]:
    """Prompts that nobody had sent before cannot be in a cache; those of a file may have been in an earlier pass."""
    share, source = _hits(run)
    answered = [response.prompt_len for response in run.responses if response.success]
    if share is None or workload.dataset == "shared-prefix" or not sum(answered):
        return
    alike = (workload.prefix_len + TEMPLATE_TOKENS * (workload.endpoint == "chat")) * len(answered) / sum(answered)
    if share <= HITS_NOTED + alike:
        return
    message = f"{share:.0%} of the prompt tokens came from the server's prefix cache ({source})"
    if workload.dataset not in FRESH:
        yield Verdict("prefix-cache", True, f"{message}: prompts of this file came again, in this pass or before it")
    elif share > HITS_RANKED + alike and not (run.facts.get("counters") or {}).get("preemptions"):
        why = "though every prompt was to be new: most of the prefill was not done; use another seed or reset the cache"
        yield Verdict("prefix-cache", False, f"{message}, {why}")
    else:
        yield Verdict("prefix-cache", True, f"{message}, though every prompt was to be new")


def _hits(run: Run) -> tuple[float | None, str]:
    """The share of prompt tokens that were found cached, by the server's counters or by its answers."""
    counted = run.facts.get("counters") or {}
    if counted.get("prefix_queries") and counted.get("prefix_hits") is not None:
        return counted["prefix_hits"] / counted["prefix_queries"], "by its counters"
    good = [response for response in run.responses if response.success and response.cached_len > 0]
    whole = sum(response.prompt_len for response in run.responses if response.success)
    return (sum(r.cached_len for r in good) / whole, "by its answers") if good and whole else (None, "")


def _approximate(run: Run) -> Iterator[Verdict]:
    """Counts that are not the server's are marked."""
    good = [response for response in run.responses if response.success]
    retokenised = sum(response.counted_by == "tokenizer" for response in good)
    events = sum(response.counted_by == "events" for response in good)
    events = max(events, int(run.facts.get("guessed_output_lens") or 0) - retokenised)
    if retokenised:
        message = f"the server did not count the tokens of {retokenised} answers: the tokenizer counted their text"
        yield Verdict("retokenised", True, message)
    if events:
        message = f"the server did not count the tokens of {events} answers: each event was taken for one"
        yield Verdict("approximate-tokens", True, message)
    if prompts := run.facts.get("guessed_input_lens"):
        lengths = "estimates" if run.facts.get("dataset_lens") == "approximate" else "the tokenizer's"
        message = f"the server did not count the tokens of {prompts} prompts: their lengths are {lengths}"
        yield Verdict("approximate-tokens", True, message)

"""Options that would do nothing beside the others that were given: refused, so that nobody believes they did. Pure."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from tuner.errors import Fault, SpecError

# What there is to say anew of kept records.
REPORTED = frozenset((
    "from_records", "definitions", "goodput", "percentile_metrics", "metric_percentiles", "save_result",
    "save_detailed", "append_result", "result_dir", "result_filename", "label", "metadata", "disable_tqdm", "model",
    "served_model_name", "backend", "tokenizer", "skip_tokenizer_init", "tokenizer_mode", "trust_remote_code",
))  # fmt: skip
TRACES = ("timed_trace", "trace")


def contradictions(given: Namespace) -> None:
    """`given.named` are the options that were given.

    Raises:
        SpecError: all of those that are of no use.
    """
    if faults := list(_faults(given)):
        raise SpecError(faults)


def _faults(given: Namespace) -> Iterator[Fault]:
    named: frozenset[str] = given.named
    if "from_records" in named:
        other = [*(["URL"] if given.url else []), *(_option(name) for name in sorted(named - REPORTED))]
        if other:
            yield Fault(
                f"--from-records sends nothing: {', '.join(other)} cannot stand beside it", way_out="leave it out"
            )
    else:
        yield from _servers(given, named)
        yield from _load(given, named)
        yield from _body(given, named)
    yield from _results(given, named)


def _servers(given: Namespace, named: frozenset[str]) -> Iterator[Fault]:
    for name in ("host", "port"):
        if name in named and (given.url or given.base_url):
            yield _beside(name, "URL" if given.url else "--base-url", "give one of them")
    if given.url and given.base_url:
        yield _beside("base_url", "URL", "give every server as URL")


def _load(given: Namespace, named: frozenset[str]) -> Iterator[Fault]:
    trace = given.dataset_name in TRACES
    if "time_scale" in named and not trace:
        yield Fault("--time-scale is of --dataset-name timed_trace", way_out="--request-rate paces other requests")
    concurrencies = given.load or given.find_max_load == "concurrency"
    rates = given.load_rates or given.find_max_load == "rate"
    several = next((_option(name) for name in ("load", "load_rates", "find_max_load") if name in named), "")
    if concurrencies and "max_concurrency" in named:
        yield _beside("max_concurrency", several, "the concurrency is what it changes; leave one out")
    if rates and ("request_rate" in named or "ramp_up_strategy" in named):
        yield _beside("request_rate" if "request_rate" in named else "ramp_up_strategy", several,
                      "the rate is what it changes; leave one out")  # fmt: skip
    if trace and (rates or named & {"request_rate", "ramp_up_strategy", "burstiness"}):
        name = next(
            iter(sorted(named & {"request_rate", "ramp_up_strategy", "burstiness", "load_rates", "find_max_load"}))
        )
        yield Fault(
            f"{_option(name)} is of no use to a trace", way_out="its own times are kept; --time-scale changes them"
        )
    for name in ("ramp_up_start_rps", "ramp_up_end_rps"):
        if name in named and "ramp_up_strategy" not in named:
            yield Fault(f"{_option(name)} needs --ramp-up-strategy", way_out="give linear or exponential")
    paced = trace or rates or named & {"ramp_up_strategy"} or given.request_rate < float("inf")
    if given.beat is not None and paced:
        yield Fault("--beat ends nothing where requests come at times of their own",
                    way_out="leave it out, or give --max-concurrency instead of a rate")  # fmt: skip
    for name in ("max_load", "share"):
        if name in named and given.find_max_load is None:
            yield Fault(f"{_option(name)} is of --find-max-load", way_out="give that too, or leave it out")


def _body(given: Namespace, named: frozenset[str]) -> Iterator[Fault]:
    if "logprobs" in named and (given.backend == "openai-chat" or str(given.endpoint).endswith("/chat/completions")):
        way_out = '--extra-body \'{"logprobs": true, "top_logprobs": N}\' asks a chat for them'
        yield Fault("--logprobs is of completions", way_out=way_out)
    if given.extra_body.get("stream", True) is not True:
        yield Fault("--extra-body cannot turn the stream off: tokens are timed as they come", way_out="leave it out")


def _results(given: Namespace, named: frozenset[str]) -> Iterator[Fault]:
    if not (given.save_result or given.append_result):
        for name in ("result_dir", "result_filename", "save_detailed"):
            if name in named:
                yield Fault(f"{_option(name)} writes nothing by itself", way_out="give --save-result too")
    limits = [word.partition(":")[0] for word in given.goodput]
    for name in dict.fromkeys(name for name in limits if limits.count(name) > 1):
        yield Fault(f"--goodput has several limits on {name}", way_out="give one")


def _beside(name: str, other: str, way_out: str) -> Fault:
    return Fault(f"{_option(name)} is of no use beside {other}", way_out=way_out)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")

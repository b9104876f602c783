"""A pass in the forms in which `vllm bench serve` reports it: the printed block and the JSON. Pure.

Both follow the workload's `definitions`: 0.32.0, or 0.11.0 (no failed requests, another label of the total).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tuner.benchmarks import Run, Workload
from tuner.benchmarks.metrics import percentile_name, succeeded

WIDTH = 50
TITLES = {
    "ttft": ("TTFT", "Time to First Token"),
    "tpot": ("TPOT", "Time per Output Token (excl. 1st token)"),
    "itl": ("ITL", "Inter-token Latency"),
    "e2el": ("E2EL", "End-to-end Latency"),
    "client_queue_time": ("Client Queue Time", "Client-side Queueing"),
    "e2el_including_client_queue": ("E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency"),
}
DATE = "%Y%m%d-%H%M%S"


@dataclass(frozen=True)
class Report:
    """Which latencies are reported, with which percentiles (None: all that were measured), and the words beside them.

    `backend` is the name in the JSON ('': by the endpoint), `tokenizer` its `tokenizer_id` (None: the workload's).
    `detailed` adds the lists over all requests.
    """

    latencies: tuple[str, ...] = ("ttft", "tpot", "itl")
    percentiles: tuple[float, ...] | None = None
    backend: str = ""
    label: str | None = None
    tokenizer: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    detailed: bool = False


def block(result: Run | Mapping[str, float], workload: Workload | None = None, report: Report | None = None) -> str:
    """The text block: same labels, order and rounding. Metrics that are missing leave their line out.

    `workload` gives the lines of the maximum concurrency and the request rate, where they are set.
    """
    metrics, facts = (result.metrics, result.facts) if isinstance(result, Run) else (result, {})
    workload, report = workload or Workload(), report or Report()
    lines = [f"{' Serving Benchmark Result ':=^{WIDTH}}"]
    lines += [_row(label, value) for label, value in _totals(metrics, workload)]
    for name in _latencies(report, workload):
        short, title = TITLES[name]
        if f"mean_{name}_ms" in metrics:
            lines.append(f"{title:-^{WIDTH}}")
            lines += [_row(label, value) for label, value in _distribution(metrics, name, short, report)]
    if workload.definitions == "vllm-0.32":
        lines += _speculation_lines(speculation(facts))
    return "\n".join([*lines, "=" * WIDTH])


def as_json(
    run: Run,
    workload: Workload,
    model: str,
    *,
    date: str,
    report: Report | None = None,
    beside: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The JSON result: vLLM's keys in its order, then `success_rate`, `honest`, `facts` and what is `beside` them.

    `date` is `YYYYmmdd-HHMMSS`. The gaps of a request may be an array: `as_text` writes them.
    """
    report = report or Report()
    result = {
        **_settings(workload, model, date, report),
        **_totals_json(run, workload),
        **(_lists(run, workload, report.detailed)),
        **_peaks(run, workload),
        **({"rps_change_events": _rate_changes(run, workload, date)} if workload.ramp_up else {}),
        **(_speculation_json(speculation(run.facts)) if workload.definitions == "vllm-0.32" else {}),
    }
    for name in _latencies(report, workload):
        result |= {key: run.metrics[key] for key in _keys(run.metrics, name, report)}
    own = {"success_rate": run.metrics.get("success_rate"), "honest": dict(run.honest), "facts": dict(run.facts)}
    whole: dict[str, Any] = _without_nan(result | own | dict(beside or {}))
    return whole


def as_text(result: Mapping[str, Any]) -> Iterator[str]:
    """The JSON text of a result in pieces. Millions of gaps are not in memory as numbers and text all at once."""
    for number, (key, value) in enumerate(result.items()):
        yield f"{', ' if number else '{'}{json.dumps(key)}: "
        if isinstance(value, list):
            yield "["
            yield from (f"{', ' if place else ''}{json.dumps(item, default=list)}" for place, item in enumerate(value))
            yield "]"
        else:
            yield json.dumps(value)
    yield "}" if result else "{}"


def speculation(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What speculative decoding did during a pass, by vLLM's keys without `spec_decode_`; {} where it did nothing.

    `facts["counters"]` is how far the server's counters went (see `tuner.benchmarks.counters.difference`).
    """
    counted = facts.get("counters") or {}
    if not counted.get("spec_decode_draft_tokens"):
        return {}
    did = {name: counted.get(f"spec_decode_{name}", nothing) for name, nothing in _SPECULATION.items()}
    return did | {"acceptance_rate": did["accepted_tokens"] / did["draft_tokens"] * 100}  # rounded as vLLM does


_SPECULATION: Mapping[str, Any] = {
    "acceptance_rate": 0.0,
    "acceptance_length": 0.0,
    "num_drafts": 0,
    "draft_tokens": 0,
    "accepted_tokens": 0,
    "per_position_acceptance_rates": [],
}


# -- the block


def _row(label: str, value: str) -> str:
    return f"{label:<40} {value:<10}"


def _totals(metrics: Mapping[str, float], workload: Workload) -> Iterator[tuple[str, str]]:
    dated = workload.definitions == "vllm-0.11"
    yield from _line(metrics, "completed", "Successful requests:", "d")
    if not dated:
        yield from _line(metrics, "failed", "Failed requests:", "d")
    if workload.max_concurrency is not None:
        yield "Maximum request concurrency:", str(workload.max_concurrency)
    if workload.request_rate not in (None, math.inf):
        yield "Request rate configured (RPS):", f"{workload.request_rate:.2f}"
    yield from _line(metrics, "duration", "Benchmark duration (s):")
    yield from _line(metrics, "total_input_tokens", "Total input tokens:", "d")
    yield from _line(metrics, "total_output_tokens", "Total generated tokens:", "d")
    yield from _line(metrics, "request_throughput", "Request throughput (req/s):")
    yield from _line(metrics, "request_goodput", "Request goodput (req/s):")
    yield from _line(metrics, "output_throughput", "Output token throughput (tok/s):")
    yield from _line(metrics, "max_output_tokens_per_s", "Peak output token throughput (tok/s):")
    yield from _line(metrics, "max_concurrent_requests", "Peak concurrent requests:")
    yield from _line(metrics, "total_token_throughput", f"Total {'T' if dated else 't'}oken throughput (tok/s):")


def _latencies(report: Report, workload: Workload) -> Iterator[str]:
    """Those that are reported, in vLLM's order. Queueing is only there where something limits what is in flight."""
    paced = workload.request_rate not in (None, math.inf)
    queue = workload.definitions == "vllm-0.32" and workload.max_concurrency is not None
    there = {"client_queue_time": queue, "e2el_including_client_queue": queue and paced}
    yield from (name for name in TITLES if name in report.latencies and there.get(name, True))


def _distribution(metrics: Mapping[str, float], name: str, short: str, report: Report) -> Iterator[tuple[str, str]]:
    yield from _line(metrics, f"mean_{name}_ms", f"Mean {short} (ms):")
    yield from _line(metrics, f"median_{name}_ms", f"Median {short} (ms):")
    for percent in _percents(metrics, name, report):
        yield from _line(metrics, f"{percent}_{name}_ms", f"P{percent[1:]} {short} (ms):")


def _percents(metrics: Mapping[str, float], name: str, report: Report) -> Sequence[str]:
    """Names of the percentiles: `p99`."""
    if report.percentiles is not None:
        return [percentile_name(percent) for percent in report.percentiles]
    found = (re.fullmatch(rf"(p\d+(?:\.\d+)?)_{name}_ms", key) for key in metrics)
    return sorted((match[1] for match in found if match), key=lambda percent: float(percent[1:]))


def _line(metrics: Mapping[str, float], name: str, label: str, form: str = ".2f") -> Iterator[tuple[str, str]]:
    value = metrics.get(name)
    if value is not None:
        yield label, format(value, form) if form != "d" or not math.isfinite(value) else str(round(value))


def _speculation_lines(did: Mapping[str, Any]) -> Iterator[str]:
    if not did:
        return
    yield f"{'Speculative Decoding':-^{WIDTH}}"
    yield _row("Acceptance rate (%):", f"{did['acceptance_rate']:.2f}")
    yield _row("Acceptance length:", f"{did['acceptance_length']:.2f}")
    yield _row("Drafts:", str(did["num_drafts"]))
    yield _row("Draft tokens:", str(did["draft_tokens"]))
    yield _row("Accepted tokens:", str(did["accepted_tokens"]))
    if rates := did["per_position_acceptance_rates"]:
        yield "Per-position acceptance (%):"
        yield from (_row(f"  Position {place}:", f"{rate * 100:.2f}") for place, rate in enumerate(rates))


# -- the JSON


def _settings(workload: Workload, model: str, date: str, report: Report) -> dict[str, Any]:
    backend = report.backend or ("openai-chat" if workload.endpoint == "chat" else "openai")
    ramp = workload.ramp_up
    return {
        "date": date,
        "endpoint_type": backend,
        "backend": backend,
        "label": report.label,
        "model_id": model,
        "tokenizer_id": report.tokenizer or workload.tokenizer,
        "num_prompts": workload.num_prompts,
        **report.metadata,
        "request_rate": "inf" if workload.request_rate is None else workload.request_rate,
        "burstiness": workload.burstiness,
        "max_concurrency": workload.max_concurrency,
        **(
            {"ramp_up_strategy": ramp.strategy, "ramp_up_start_rps": ramp.start, "ramp_up_end_rps": ramp.end}
            if ramp
            else {}
        ),
    }


def _totals_json(run: Run, workload: Workload) -> dict[str, Any]:
    names = ["duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput",
             "request_goodput", "output_throughput", "total_token_throughput"]  # fmt: skip
    if workload.definitions == "vllm-0.11":
        names.remove("failed")
    there = {"request_goodput": None, **run.metrics}
    return _whole({name: there[name] for name in names if name in there})


def _peaks(run: Run, workload: Workload) -> dict[str, Any]:
    names = ("max_output_tokens_per_s", "max_concurrent_requests")
    peaks = _whole({name: run.metrics[name] for name in names if name in run.metrics})
    return peaks | ({"rtfx": 0.0} if workload.definitions == "vllm-0.32" else {})  # of audio: there is none


def _whole(metrics: dict[str, Any]) -> dict[str, Any]:
    counts = ("completed", "failed", "total_input_tokens", "total_output_tokens", "max_concurrent_requests")
    return {
        name: int(value) if name in counts and value is not None and math.isfinite(value) else value
        for name, value in metrics.items()
    }


def _lists(run: Run, workload: Workload, detailed: bool) -> dict[str, Any]:
    """The lists over all requests; of 0.32 the latencies and queue times are always there, as vLLM keeps them."""
    responses, dated = run.responses, workload.definitions == "vllm-0.11"
    done = [succeeded(response, workload.definitions, workload.endpoint) for response in responses]
    lists: dict[str, Any] = {}
    if detailed:
        lists["input_lens"] = [response.asked_prompt_len if dated else response.prompt_len for response in responses]
        lists["output_lens"] = [r.output_len if good else 0 for r, good in zip(responses, done, strict=True)]
        lists["ttfts"] = [response.ttft for response in responses]
        lists["itls"] = [response.itls for response in responses]
    if not dated:
        lists["latencies"] = [response.latency for response in responses]
        lists |= {"start_times": [response.start for response in responses]} if detailed else {}
        lists["queue_times"] = [response.queue_time for response in responses]
    if detailed:
        lists["generated_texts"] = [response.text for response in responses]
        lists["errors"] = [response.error for response in responses]
    return lists


def _rate_changes(run: Run, workload: Workload, date: str) -> list[dict[str, Any]]:
    """When the rate of a ramp-up passed each whole number, by the requests' times; `date` is the pass's begin."""
    ramp, responses = workload.ramp_up, run.responses
    if ramp is None or not responses:
        return []
    begun, first = datetime.strptime(date, DATE), min(response.start - response.queue_time for response in responses)
    changes, last = [{"rps": int(ramp.start), "timestamp": begun.isoformat()}], int(ramp.start)
    for index, response in enumerate(responses):
        rate = _ramped(ramp.strategy, ramp.start, ramp.end, index / max(len(responses) - 1, 1))
        at = (begun + timedelta(seconds=max(0.0, response.start - response.queue_time - first))).isoformat()
        changes += [{"rps": rps, "timestamp": at} for rps in range(last + 1, int(rate) + 1)]
        last = max(last, int(rate))
    return changes


def _ramped(strategy: str, start: float, end: float, progress: float) -> float:
    """The rate of a ramp-up after this share of its requests, per second."""
    if strategy == "linear" or start <= 0:
        return start + (end - start) * progress
    return float(start * (end / start) ** progress)


def _speculation_json(did: Mapping[str, Any]) -> dict[str, Any]:
    return {f"spec_decode_{name}": value for name, value in did.items()}


def _keys(metrics: Mapping[str, float], name: str, report: Report) -> Iterator[str]:
    kinds = ("mean", "median", "std", *_percents(metrics, name, report))
    yield from (key for kind in kinds if (key := f"{kind}_{name}_ms") in metrics)


def _without_nan(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    if isinstance(value, Mapping):
        return {str(key): _without_nan(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

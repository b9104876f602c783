"""A pass in the forms in which `vllm bench serve` 0.32.0 reports it: the printed block and the JSON. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tuner.benchmarks import Run, Workload

WIDTH = 50
TITLES = {
    "ttft": ("TTFT", "Time to First Token"),
    "tpot": ("TPOT", "Time per Output Token (excl. 1st token)"),
    "itl": ("ITL", "Inter-token Latency"),
    "e2el": ("E2EL", "End-to-end Latency"),
}
_COUNTS = ("completed", "failed", "total_input_tokens", "total_output_tokens", "max_concurrent_requests")


def block(result: Run | Mapping[str, float], workload: Workload | None = None) -> str:
    """The text block: same labels, order and rounding. Metrics that are missing leave their line out.

    `workload` gives the lines of the maximum concurrency and the request rate, where they are set.
    """
    metrics = result.metrics if isinstance(result, Run) else result
    lines = [f"{' Serving Benchmark Result ':=^{WIDTH}}"]
    lines += [f"{label:<40} {value:<10}" for label, value in _totals(metrics, workload)]
    for name, (short, title) in TITLES.items():
        if f"mean_{name}_ms" in metrics:
            lines.append(f"{title:-^{WIDTH}}")
            lines += [f"{label:<40} {value:<10}" for label, value in _distribution(metrics, name, short)]
    return "\n".join([*lines, "=" * WIDTH])


def as_json(run: Run, workload: Workload, model: str, *, date: str, detailed: bool = False) -> dict[str, Any]:
    """The JSON result, by its keys, and `facts` beside them. `date` is `YYYYmmdd-HHMMSS`.

    `detailed` adds the lists over all requests in their order; `generated_texts` are empty, as they are not kept.
    """
    whole = {name: int(run.metrics[name]) for name in _COUNTS if name in run.metrics}
    result: dict[str, Any] = {
        "date": date,
        "endpoint_type": "openai-chat" if workload.endpoint == "chat" else "openai",
        "backend": "openai-chat" if workload.endpoint == "chat" else "openai",
        "label": None,
        "model_id": model,
        "tokenizer_id": workload.tokenizer or model,
        "num_prompts": workload.num_prompts,
        "request_rate": "inf" if workload.request_rate is None else workload.request_rate,
        "burstiness": workload.burstiness,
        "max_concurrency": workload.max_concurrency,
        "request_goodput": None,
        **run.metrics,
        **whole,
    }
    if detailed:
        result |= _details(run)
    return _without_nan(result | {"facts": dict(run.facts)})


def _totals(metrics: Mapping[str, float], workload: Workload | None) -> Iterator[tuple[str, str]]:
    yield from _line(metrics, "completed", "Successful requests:", "d")
    yield from _line(metrics, "failed", "Failed requests:", "d")
    if workload is not None and workload.max_concurrency is not None:
        yield "Maximum request concurrency:", str(workload.max_concurrency)
    if workload is not None and workload.request_rate not in (None, math.inf):
        yield "Request rate configured (RPS):", f"{workload.request_rate:.2f}"
    yield from _line(metrics, "duration", "Benchmark duration (s):")
    yield from _line(metrics, "total_input_tokens", "Total input tokens:", "d")
    yield from _line(metrics, "total_output_tokens", "Total generated tokens:", "d")
    yield from _line(metrics, "request_throughput", "Request throughput (req/s):")
    yield from _line(metrics, "output_throughput", "Output token throughput (tok/s):")
    yield from _line(metrics, "max_output_tokens_per_s", "Peak output token throughput (tok/s):")
    yield from _line(metrics, "max_concurrent_requests", "Peak concurrent requests:")
    yield from _line(metrics, "total_token_throughput", "Total token throughput (tok/s):")


def _distribution(metrics: Mapping[str, float], name: str, short: str) -> Iterator[tuple[str, str]]:
    yield from _line(metrics, f"mean_{name}_ms", f"Mean {short} (ms):")
    yield from _line(metrics, f"median_{name}_ms", f"Median {short} (ms):")
    found = (re.fullmatch(rf"p(\d+(?:\.\d+)?)_{name}_ms", key) for key in metrics)
    for percent in sorted((match[1] for match in found if match), key=float):
        yield from _line(metrics, f"p{percent}_{name}_ms", f"P{percent} {short} (ms):")


def _line(metrics: Mapping[str, float], name: str, label: str, form: str = ".2f") -> Iterator[tuple[str, str]]:
    value = metrics.get(name)
    if value is not None:
        yield label, format(value, form) if form != "d" or not math.isfinite(value) else str(round(value))


def _details(run: Run) -> dict[str, Any]:
    responses = run.responses
    return {
        "input_lens": [response.prompt_len for response in responses],
        "output_lens": [response.output_len if response.success else 0 for response in responses],
        "ttfts": [response.ttft for response in responses],
        "itls": [list(response.itls) for response in responses],
        "latencies": [response.latency for response in responses],
        "start_times": [response.start for response in responses],
        "queue_times": [response.queue_time for response in responses],
        "generated_texts": [response.text for response in responses],
        "errors": [response.error for response in responses],
    }


def _without_nan(result: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN and no infinity."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in result.items()}

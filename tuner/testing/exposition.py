"""What the simulated engines say at `/metrics`, in the names of the real ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.testing.dialects import Counters

_TRT_BLOCK = 32


def vllm(model: str, cache: Mapping[str, Any], counters: Counters) -> str:
    """`cache` are the labels of `cache_config_info`. Speculation is counted where there is any."""
    labels = {"engine": "0", "model_name": model}
    text = prometheus({**{key: str(value) for key, value in cache.items()}, "engine": "0"}, {_CACHE_INFO: 1})
    text += prometheus(
        labels,
        {
            "vllm:num_requests_running": counters.running,
            "vllm:num_requests_waiting": counters.waiting,
            "vllm:kv_cache_usage_perc": counters.kv_usage,
            "vllm:prefix_cache_queries_total": counters.prompt_tokens,
            "vllm:prefix_cache_hits_total": counters.cached_tokens,
            "vllm:num_preemptions_total": 0,
            "vllm:prompt_tokens_total": counters.prompt_tokens,
            "vllm:generation_tokens_total": counters.generated_tokens,
            "vllm:request_queue_time_seconds_sum": counters.queue_s,
            "vllm:request_queue_time_seconds_count": counters.admitted,
        },
    )
    text += prometheus({**labels, "finished_reason": "length"}, {"vllm:request_success_total": counters.finished})
    return text + (_vllm_speculation(labels, counters) if counters.accepted_at else "")


def sglang(model: str, kv_tokens: int, counters: Counters) -> str:
    """The scheduler's figures by rank, the tokenizer process's without."""
    labels = {"model_name": model}
    ranks = {**labels, "tp_rank": "0", "pp_rank": "0"}
    hit_rate = counters.cached_tokens / counters.prompt_tokens if counters.prompt_tokens else 0.0
    scheduler: dict[str, float] = {
        "sglang:num_running_reqs": counters.running,
        "sglang:num_queue_reqs": counters.waiting,
        "sglang:token_usage": counters.kv_usage,
        "sglang:cache_hit_rate": hit_rate,
        "sglang:max_total_num_tokens": kv_tokens,
        "sglang:queue_time_seconds_sum": counters.queue_s,
        "sglang:queue_time_seconds_count": counters.admitted,
    }
    totals: dict[str, float] = {
        "sglang:prompt_tokens_total": counters.prompt_tokens,
        "sglang:generation_tokens_total": counters.generated_tokens,
        "sglang:cached_tokens_total": counters.cached_tokens,
        "sglang:num_requests_total": counters.finished,
    }
    if drafts := len(counters.accepted_at):
        length = 1 + counters.accepted_tokens / counters.drafts if counters.drafts else 0.0
        scheduler |= {"sglang:spec_accept_length": length, "sglang:spec_num_draft_tokens": drafts + 1}
        totals |= {"sglang:spec_verify_calls_total": counters.drafts}
    return prometheus(ranks, scheduler) + prometheus(labels, totals)


def tensorrt_llm(counters: Counters) -> list[dict[str, Any]]:
    """The statistics of one iteration."""
    reused = counters.cached_tokens // _TRT_BLOCK
    blocks = {"tokensPerBlock": _TRT_BLOCK, "reusedBlocks": reused}
    blocks["missedBlocks"] = counters.prompt_tokens // _TRT_BLOCK - reused
    requests = {"numActiveRequests": counters.running, "numQueuedRequests": counters.waiting}
    return [{**requests, "kvCacheStats": blocks}]


def prometheus(labels: Mapping[str, str], values: Mapping[str, float]) -> str:
    """Prometheus' text form: counters by the ending of their names, else gauges."""
    inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
    lines = []
    for name, value in values.items():
        kind = "counter" if name.endswith(("_total", "_sum", "_count")) else "gauge"
        lines.append(f"# TYPE {name} {kind}\n{name}{{{inside}}} {float(value)}\n")
    return "".join(lines)


def _vllm_speculation(labels: Mapping[str, str], counters: Counters) -> str:
    text = prometheus(
        labels,
        {
            "vllm:spec_decode_num_drafts_total": counters.drafts,
            "vllm:spec_decode_num_draft_tokens_total": counters.draft_tokens,
            "vllm:spec_decode_num_accepted_tokens_total": counters.accepted_tokens,
        },
    )
    for place, accepted in enumerate(counters.accepted_at):
        text += prometheus({**labels, "position": str(place)}, {_PER_POSITION: accepted})
    return text


_CACHE_INFO = "vllm:cache_config_info"
_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"

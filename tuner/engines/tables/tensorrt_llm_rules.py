"""What is known of TensorRT-LLM settings before they are launched: one row a rule, each with its source.

A rule speaks of flags and of how many requests come at once, never of a study. Texts say what happens and what to do.
"""

from __future__ import annotations

from tuner.engines.rules import Asked, Rule, when

_GRAPH_BATCH = 128


def _graphs_below_concurrency(asked: Asked) -> str:
    config = asked.get("cuda_graph_config")
    if not isinstance(config, dict):
        return ""
    sizes = config.get("batch_sizes")
    largest = config.get("max_batch_size") or (max(sizes) if sizes else _GRAPH_BATCH)
    ranks = asked.number("tp_size", 1) if asked.on("enable_attention_dp") else 1
    return when(
        asked.beyond(largest * ranks),
        f"CUDA graphs reach batch size {largest}; {asked.concurrency} requests at once decode eagerly beyond it: "
        "raise cuda_graph_config.max_batch_size",
    )


def _graph_sizes_disagree(asked: Asked) -> str:
    largest, sizes = asked.part("cuda_graph_config", "max_batch_size"), asked.part("cuda_graph_config", "batch_sizes")
    return when(
        bool(largest and sizes) and largest != max(sizes or [0]),
        f"cuda_graph_config.max_batch_size {largest} must equal the largest of batch_sizes: the start is refused",
    )


def _trtllm_places(asked: Asked) -> str:
    places = asked.number("max_batch_size", 2048) * (
        asked.number("tp_size", 1) if asked.on("enable_attention_dp") else 1
    )
    return when(
        asked.beyond(places), f"{asked.concurrency} requests at once wait for {places:g} places (max_batch_size)"
    )


TENSORRT_LLM = (
    Rule(
        "graphs-below-concurrency",
        "TensorRT-LLM llm_args.CudaGraphConfig: max_batch_size 128 by default",
        ("cuda_graph_config",),
        _graphs_below_concurrency,
    ),
    Rule(
        "graph-sizes-disagree",
        "TensorRT-LLM llm_args.CudaGraphConfig: validation of batch_sizes",
        ("cuda_graph_config",),
        _graph_sizes_disagree,
    ),
    Rule(
        "file-replaces-fraction",
        "TensorRT-LLM 1.0 llm_utils.update_llm_args_with_extra_dict: a mapping in the file replaces the flag's",
        ("kv_cache_config", "kv_cache_free_gpu_memory_fraction"),
        lambda asked: when(
            "kv_cache_config" in asked and "kv_cache_free_gpu_memory_fraction" in asked,
            "kv_cache_config replaces kv_cache_free_gpu_memory_fraction; write free_gpu_memory_fraction inside it",
        ),
    ),
    Rule("few-places", "TensorRT-LLM max_batch_size", ("max_batch_size",), _trtllm_places, "note"),
    Rule(
        "block-reuse",
        "TensorRT-LLM llm_args.KvCacheConfig: enable_block_reuse is on by default",
        ("kv_cache_config",),
        lambda asked: when(
            asked.get("attn_backend") == "FLASHINFER" and asked.part("kv_cache_config", "enable_block_reuse") is True,
            "attn_backend FLASHINFER switches block reuse off",
        ),
        "note",
    ),
    Rule(
        "moe-blackwell",
        "TensorRT-LLM MoeConfig: the TRTLLM backend is for Blackwell",
        ("moe_config",),
        lambda asked: when(
            asked.part("moe_config", "backend") == "TRTLLM", "moe_config.backend TRTLLM runs on Blackwell GPUs only"
        ),
        "note",
    ),
    Rule(
        "long-prompts",
        "TensorRT-LLM 1.0: prompts above max_num_tokens need chunked prefill",
        ("max_num_tokens", "enable_chunked_prefill", "max_seq_len"),
        lambda asked: when(
            not asked.on("enable_chunked_prefill")
            and asked.number("max_seq_len", 0) > asked.number("max_num_tokens", 8192),
            "prompts above max_num_tokens are refused without enable_chunked_prefill",
        ),
        "note",
    ),
)

"""Lines of a start's log that tell what no endpoint does: facts only.

Sources: logs of vLLM 0.25.1 and 0.32.0, SGLang 0.5.17; vLLM 0.11.0's log lines and those of TensorRT-LLM's
kvCacheManager.cpp as people published them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.engines.logged import KV_TOKENS, Fact

_V1_NAMES = {
    "Flash Attention": "FLASH_ATTN",
    "Triton Attention": "TRITON_ATTN",
    "FlashInfer": "FLASHINFER",
    "FlashMLA": "FLASHMLA",
    "Cutlass MLA": "CUTLASS_MLA",
    "Triton MLA": "TRITON_MLA",
    "FlashAttention MLA": "FLASH_ATTN_MLA",
}

VLLM = (
    Fact(KV_TOKENS, r"(?:GPU|CPU) KV cache size: ([\d,]+) tokens"),
    Fact("log.attention_backend", r"Using (\w+) attention backend out of potential", over="attention-backend"),
    Fact(
        "log.attention_backend",
        r"Using ([\w ]{4,30}) backend on V1 engine",
        over="attention-backend",
        names=_V1_NAMES,
    ),
    Fact("log.moe_backend", r"Using (\w+) \w+ MoE backend out of potential"),
    Fact(
        "log.cudagraph_mode",
        r"[Ss]etting cudagraph_mode(?:=| to )(\w+)|Overriding cudagraph_mode (?:from \w+ )?to (\w+)",
        over="compilation-config.cudagraph_mode",
    ),
    Fact("log.graphs_captured", r"Profiling CUDA graph memory: ([A-Z]+=\d.{0,80})"),
    Fact("log.block_size", r"(?:Forcing kv cache block size|Setting attention block size) to (\d+)", over="block-size"),
    Fact("log.async_scheduling", r"Asynchronous scheduling is enabled", True),
    Fact("log.async_scheduling", r"[Aa]sync(?:hronous)? scheduling (?:is|will be) disabled", False),
)

SGLANG = (
    Fact(KV_TOKENS, r"max_total_num_tokens=(\d+)"),
    Fact("log.max_running_requests", r"max_total_num_tokens=.{0,200}max_running_requests=(\d+)"),
    Fact("log.running_requests_reset", r"[Mm]ax running requests is reset to (\d+)"),
    Fact("log.attention_backend", r"Use (\w+) (?:attention )?backend by default"),
    Fact("log.kv_cache_dtype", r"KV Cache is allocated\. dtype: torch\.(\w+)"),
    Fact("log.decode_graph", r"Capture target (?:decode|verify) CUDA graph begin\. backend=(\w+)"),
    Fact(
        "log.prefill_graph",
        r"Disabl(?:e|ing) (?:auto-selected )?prefill CUDA graph|disabling prefill CUDA graph",
        "off",
    ),
)

TENSORRT_LLM = (
    Fact(KV_TOKENS, r"for max tokens in paged KV cache \((\d+)\)"),
    Fact("log.overlap_scheduler", r"Disable overlap scheduler", "off"),
    Fact("log.tokens_per_block", r"Change tokens_per_block to: (\d+)"),
    Fact("log.block_reuse", r"Disabling block reuse for", "off"),
)

BY_ENGINE: Mapping[str, Sequence[Fact]] = {"vllm": VLLM, "sglang": SGLANG, "tensorrt-llm": TENSORRT_LLM}

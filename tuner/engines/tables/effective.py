"""How each engine reports its settings, and which differences mean nothing: facts only.

Sources: vLLM 0.32.0 config classes; SGLang 0.5.3 server_args.py (the _handle_* methods), 0.5.17 /server_info.
"""

from __future__ import annotations

from tuner.engines.judging import Judging
from tuner.engines.logged import KV_TOKENS

# Fields of vLLM's configuration whose flag has another name.
VLLM_FIELDS = {
    "cache_config.cache_dtype": "kv-cache-dtype",
    "scheduler_config.policy": "scheduling-policy",
    "attention_config.backend": "attention-backend",
    "mamba_config.backend": "mamba-backend",
    "kernel_config.moe_backend": "moe-backend",
    "kernel_config.linear_backend": "linear-backend",
    "kernel_config.enable_flashinfer_autotune": "enable-flashinfer-autotune",
    "compilation_config.cudagraph_capture_sizes": "cudagraph-capture-sizes",
    "compilation_config.max_cudagraph_capture_size": "max-cudagraph-capture-size",
    "structured_outputs_config.reasoning_parser": "reasoning-parser",
}

_CUDAGRAPH_MODES = {"NONE": 0, "PIECEWISE": 1, "FULL": 2, "FULL_DECODE_ONLY": [2, 0], "FULL_AND_PIECEWISE": [2, 1]}
_COMPILATION_MODES = {"NONE": 0, "STOCK_TORCH_COMPILE": 1, "DYNAMO_TRACE_ONCE": 2, "VLLM_COMPILE": 3}

VLLM = Judging(
    benign=frozenset(
        {
            ("kv-cache-dtype", "fp8", "fp8_e4m3"),
            ("dtype", "half", "float16"),
            ("dtype", "float", "float32"),
            ("speculative-config.method", "deepseek_mtp", "mtp"),
            ("speculative-config.method", "ngram", "[ngram]"),
            ("load-format", "hf", "auto"),
        }
    ),
    derived={
        "cache_config.num_gpu_blocks": frozenset({"gpu-memory-utilization", "kv-cache-memory-bytes", "kv-cache-dtype"}),
        "compilation-config": frozenset(
            {"max-num-seqs", "max-num-batched-tokens", "speculative-config", "enforce-eager", "optimization-level"}
        ),
        "cudagraph-capture-sizes": frozenset({"max-num-seqs", "max-cudagraph-capture-size", "compilation-config"}),
        "max-cudagraph-capture-size": frozenset({"max-num-seqs", "cudagraph-capture-sizes", "compilation-config"}),
        KV_TOKENS: frozenset(
            {"gpu-memory-utilization", "kv-cache-memory-bytes", "kv-cache-dtype", "speculative-config"}
        ),
        "log.graphs_captured": frozenset({"max-num-seqs", "compilation-config", "enforce-eager", "speculative-config"}),
        "distributed-executor-backend": frozenset({"tensor-parallel-size", "pipeline-parallel-size"}),
        "parallel_config.world_size": frozenset({"tensor-parallel-size", "pipeline-parallel-size"}),
        "parallel_config.world_size_across_dp": frozenset(
            {"tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"}
        ),
    },
    volatile=(
        r"seed|instance_id|.*(_port|_ip)(_list)?|.*port",
        r"cache_config\.(kv_cache_(size_tokens|max_concurrency|memory_bytes)|num_(gpu|cpu)_blocks)",
        r"(model_config|vllm_config)\.(served_model_name|model|tokenizer)|tokenizer",  # where the model lies
        r".*timeout.*|profiler-config.*|shutdown_timeout",
    ),
    sizes=frozenset({KV_TOKENS}),
    enums={"cudagraph_mode": _CUDAGRAPH_MODES, "mode": _COMPILATION_MODES, "level": _COMPILATION_MODES},
)

_SPECULATION = frozenset(
    {"speculative-algorithm", "speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens"}
)
_DP_ATTENTION = frozenset({"enable-dp-attention", "dp-size"})
_RUNNING = frozenset({"max-running-requests"})
_GRAPHS = frozenset(
    {
        "cuda-graph-max-bs-prefill",
        "cuda-graph-bs-decode",
        "cuda-graph-config",
        "cuda-graph-max-bs",
        "cuda-graph-bs",
        "disable-cuda-graph",
        "cuda-graph-max-bs-decode",
    }
)

SGLANG = Judging(
    benign=frozenset(
        {
            ("speculative-algorithm", "NEXTN", "EAGLE"),
            ("dtype", "half", "float16"),
            ("dtype", "float", "float32"),
        }
    ),
    derived={
        # Reserved from chunk, graph batch sizes, parallel sizes and speculation before anything else is decided.
        "mem-fraction-static": _DP_ATTENTION | _SPECULATION | _GRAPHS | {"chunked-prefill-size", "tp-size", "pp-size"},
        KV_TOKENS: _DP_ATTENTION | _SPECULATION | _GRAPHS | {"chunked-prefill-size", "tp-size", "pp-size"},
        "schedule-conservativeness": _DP_ATTENTION,
        "chunked-prefill-size": _DP_ATTENTION,
        "cuda-graph-max-bs": _GRAPHS,
        "cuda-graph-bs": _GRAPHS | {"tp-size"},
        "cuda-graph-config": _GRAPHS | _SPECULATION,
        "cuda-graph-max-bs-decode": _GRAPHS,
        "cuda-graph-bs-decode": _GRAPHS,
        "internal_states.max_speculative_num_draft_tokens": _SPECULATION,
        "internal_states.effective_max_running_requests_per_dp": _RUNNING,
        "log.max_running_requests": _RUNNING,
        "log.decode_graph": _GRAPHS,
        "speculative-draft-model-path": _SPECULATION,
        "speculative-num-steps": _SPECULATION,
        "speculative-eagle-topk": _SPECULATION,
        "speculative-num-draft-tokens": _SPECULATION,
        "ep-size": frozenset({"moe-a2a-backend"}),
        "page-size": frozenset({"attention-backend"}),
        "log.attention_backend": frozenset({"attention-backend"}),
        "max-micro-batch-size": frozenset({"max-running-requests"}),
        "pp-max-micro-batch-size": frozenset({"max-running-requests"}),
    },
    sizes=frozenset({KV_TOKENS}),
    implied={"disable-cuda-graph": ("cuda-graph-config", "decode.backend", "disabled")},
    volatile=(
        r"random-seed|host|(.*[-_])?port|.*-addr|served_model_name|.*time.*|.*timestamp.*|weight-version|status",
        r"internal_states\.(memory_usage|last_gen_throughput|avg_spec|step_time|load|graph|.*throughput).*",
        r"(max_total_num_tokens|max_req_input_len|last_gen_throughput|avg_spec_accept_length).*",
    ),
)

TENSORRT_LLM = Judging(
    benign=frozenset({("backend", "trt", "tensorrt"), ("speculative_config.decoding_type", "Eagle", "Eagle3")}),
    derived={"kv_cache_free_gpu_memory_fraction": frozenset({"kv_cache_config"})},
    sizes=frozenset({KV_TOKENS}),
    volatile=(r"server_info\.(.*time.*|.*stamp.*|.*port|status)",),
)

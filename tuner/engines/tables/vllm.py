"""vLLM's flags at a version: limits, what belongs to the slot, and what to write instead of a flag that is not there.

Sources: vLLM 0.11.0 to 0.32.0, engine/arg_utils.py, utils/argparse_utils.py and envs.py. The flags themselves:
`vllm_flags`.
"""

from __future__ import annotations

from functools import lru_cache

from tuner.engines import rows
from tuner.engines.flags import COUNT, FRACTION, FROM_ZERO, Home, Limits, Table, within
from tuner.engines.tables.vllm_flags import ROWS
from tuner.engines.versions import Version, dots

OLDEST, NEWEST, BELOW = (0, 11, 0), (0, 32, 0), (0, 33)
_OPTIMIZATION_LEVEL = (0, 12, 0)  # from here on -O is it; before it was the level (0.11.0) or mode of compilation
_MODE = (0, 11, 1)
_AUTO_LENGTH = (0, 14, 0)  # from here on --max-model-len auto is -1

_SLOT = """
    api-key grpc-port host log-config-file logging-config port root-path served-model-name ssl-ca-certs ssl-cert-reqs
    ssl-certfile ssl-ciphers ssl-keyfile uds
"""
_HOMES: dict[str, Home] = {**dict.fromkeys(_SLOT.split(), "slot"), "model": "model", "config": "config"}

_LIMITS = {
    COUNT: """
        block-size data-parallel-size decode-context-parallel-size h11-max-header-count
        h11-max-incomplete-event-size kv-cache-memory-bytes max-cpu-loras max-lora-rank max-loras max-num-active-seqs
        max-num-batched-tokens max-num-queued-reqs max-num-queued-tokens max-num-scheduled-tokens max-num-seqs
        max-parallel-loading-workers nnodes pipeline-parallel-size prefill-context-parallel-size stream-interval
        tensor-parallel-size
    """,
    FROM_ZERO: """
        cpu-offload-gb cudagraph-capture-sizes data-parallel-rank data-parallel-size-local data-parallel-start-rank
        kv-offloading-size long-prefill-token-threshold max-cudagraph-capture-size mm-processor-cache-gb node-rank
        num-gpu-blocks-override swap-space
    """,
    FRACTION: "gpu-memory-utilization",
    Limits(0, 1): "kv-cache-metrics-sample video-pruning-rate watermark",
    Limits(1, also=(-1,)): "max-model-len",
}

# One setting under the names it had.
_RENAMED = """
cuda-graph-sizes cudagraph-capture-sizes
override-pooler-config pooler-config
"""

# What no flag of that version is the new name of.
_INSTEAD = """
attention-backend@..0.13 use the environment variable VLLM_ATTENTION_BACKEND
all2all-backend@..0.11.1 use the environment variable VLLM_ALL2ALL_BACKEND
moe-backend use environment variables such as VLLM_USE_FLASHINFER_MOE_FP8
max-cudagraph-capture-size use --cuda-graph-sizes with one value
optimization-level@..0.12 -O3 is the compilation level: --compilation-config {level: 3} (0.11.0) or {mode: 3}
performance-mode give --max-num-seqs and --max-num-batched-tokens
stream-interval every token is streamed
num-scheduler-steps multi-step scheduling left with the V0 engine
use-v2-block-manager it left with the V0 engine
swap-space the V1 engine never used it; for CPU memory use --kv-offloading-size
disable-log-requests requests are not logged unless --enable-log-requests is given
calculate-kv-scales scales come from the checkpoint
task use --runner and --convert
rope-scaling use --hf-overrides
rope-theta use --hf-overrides
num-lookahead-slots it follows from --speculative-config
max-num-partial-prefills removed
num-redundant-experts use --eplb-config
eplb-window-size use --eplb-config
eplb-step-interval use --eplb-config
eplb-log-balancedness use --eplb-config
enable-multimodal-encoder-data-parallel use --mm-encoder-tp-mode data
disable-mm-preprocessor-cache use --mm-processor-cache-gb 0
guided-decoding-backend use --structured-outputs-config
tp write -tp or --tensor-parallel-size
"""

# Environment variables that a version no longer reads, and what it takes instead.
_VARIABLES = """
VLLM_USE_V1@0.11.1.. there is no other engine
VLLM_ATTENTION_BACKEND@0.15.. use --attention-backend
VLLM_FLASH_ATTN_VERSION@0.15.. use --attention-config.flash_attn_version
VLLM_USE_TRTLLM_ATTENTION@0.15.. use --attention-config.use_trtllm_attention
VLLM_ALL2ALL_BACKEND@0.16.. use --all2all-backend
VLLM_TORCH_PROFILER_DIR@0.16.. use --profiler-config
VLLM_USE_FLASHINFER_MOE_FP8@0.24.. use --moe-backend
VLLM_USE_FLASHINFER_MOE_FP4@0.24.. use --moe-backend
VLLM_USE_FLASHINFER_MOE_FP16@0.24.. use --moe-backend
VLLM_FLASHINFER_MOE_BACKEND@0.24.. use --moe-backend
VLLM_NVFP4_GEMM_BACKEND@0.24.. use --linear-backend
VLLM_MXFP4_USE_MARLIN@0.24.. use --moe-backend marlin
"""

_PARTS = {
    "spec-method": "speculative-config.method",
    "spec-model": "speculative-config.model",
    "spec-tokens": "speculative-config.num_speculative_tokens",
}
_PARTS_SINCE = (0, 22, 0)


@lru_cache(maxsize=64)
def table(version: Version) -> Table:
    """The flags of one version."""
    known = within(rows.flags_at(ROWS, version, _HOMES), _LIMITS)
    instead = {name: words for name, words in rows.ways_out(_INSTEAD, version).items() if name not in known}
    return Table(
        f"vLLM {dots(version)}",
        known,
        gone={**rows.absent(ROWS, version, "vLLM"), **instead, **rows.renamed(_RENAMED, known)},
        parts=_PARTS if version >= _PARTS_SINCE else {},
        interchangeable=True,
        dotted=True,
        auto_sizes=version >= _AUTO_LENGTH,
        level_key="" if version >= _OPTIMIZATION_LEVEL else "mode" if version >= _MODE else "level",
    )


def variables(version: Version) -> dict[str, str]:
    """The environment variables that this version no longer reads, and what to write instead."""
    return rows.ways_out(_VARIABLES, version)

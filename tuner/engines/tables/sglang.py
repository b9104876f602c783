"""SGLang's flags at a version: limits, what belongs to the slot, and what to write instead of a flag that is not there.

Sources: SGLang 0.5.3 to 0.5.23, srt/server_args.py and srt/arg_groups. The flags themselves: `sglang_flags`.
"""

from __future__ import annotations

from functools import lru_cache

from tuner.engines import rows
from tuner.engines.flags import COUNT, FRACTION, FROM_ZERO, Home, Limits, Table, within
from tuner.engines.tables.sglang_flags import ROWS
from tuner.engines.versions import Version, dots

OLDEST, NEWEST, BELOW = (0, 5, 3), (0, 5, 23), (0, 6)

_SLOT = """
    admin-api-key api-key crash-dump-folder fastapi-root-path grpc-port host nccl-port port served-model-name
    ssl-ca-certs ssl-certfile ssl-keyfile ssl-keyfile-password
"""
_HOMES: dict[str, Home] = {**dict.fromkeys(_SLOT.split(), "slot"), "model-path": "model", "config": "config"}

_LIMITS = {
    COUNT: """
        attn-cp-size context-length cuda-graph-bs cuda-graph-bs-decode dcp-size decode-log-interval dp-size ep-size
        max-loaded-loras max-loras-per-batch max-lora-rank max-micro-batch-size max-prefill-tokens
        max-running-requests max-total-tokens moe-dense-tp-size moe-dp-size nnodes num-continuous-decode-steps
        page-size pp-max-micro-batch-size pp-size speculative-eagle-topk speculative-num-draft-tokens
        speculative-num-steps stream-interval tokenizer-worker-num tp-size
    """,
    FROM_ZERO: "base-gpu-id cpu-offload-gb ep-num-redundant-experts hicache-size node-rank schedule-conservativeness",
    FRACTION: "mem-fraction-static",
    Limits(0, 1): "swa-full-tokens-ratio",
    Limits(1, also=(-1,)): "chunked-prefill-size",
}

# One setting under the names it had.
_RENAMED = """
cuda-graph-max-bs cuda-graph-max-bs-decode
cuda-graph-bs cuda-graph-bs-decode
piecewise-cuda-graph-max-tokens cuda-graph-max-bs-prefill
piecewise-cuda-graph-tokens cuda-graph-bs-prefill
piecewise-cuda-graph-compiler cuda-graph-tc-compiler
max-micro-batch-size pp-max-micro-batch-size
oltp-traces-endpoint otlp-traces-endpoint
stream-output incremental-streaming-output
nsa-prefill nsa-prefill-backend dsa-prefill-backend
nsa-decode nsa-decode-backend dsa-decode-backend
enable-nsa-prefill-context-parallel enable-dsa-prefill-context-parallel enable-prefill-cp
nsa-prefill-cp-mode dsa-prefill-cp-mode cp-strategy
enable-prefill-context-parallel enable-prefill-cp
prefill-cp-mode cp-strategy
hierarchical-sparse-attention-extra-config hisparse-config
kt-amx-weight-path kt-weight-path
kt-amx-method kt-method
enable-deepep-waterfill enable-waterfill
optimistic-prefill-retries optimistic-prefill-attempts
grpc-http-sidecar-port smg-http-sidecar-port
mamba-scheduler-strategy mamba-radix-cache-strategy
enable-gdn-replayssm-spec enable-linear-replayssm-spec
speculative-dflash-draft-window-size speculative-draft-window-size
speculative-ngram-branch-length speculative-ngram-max-trie-depth
hybrid-kvcache-ratio swa-full-tokens-ratio
enable-hicache enable-hierarchical-cache
grpc-mode smg-grpc-mode
"""

# What no flag of that version is the new name of; the first of two rows that hold is kept.
_INSTEAD = """
enable-ep-moe use --ep-size
enable-deepep-moe use --moe-a2a-backend deepep
enable-flashinfer-cutlass-moe use --moe-runner-backend flashinfer_cutlass
enable-flashinfer-cutedsl-moe use --moe-runner-backend flashinfer_cutedsl
enable-flashinfer-trtllm-moe use --moe-runner-backend flashinfer_trtllm
enable-triton-kernel-moe use --moe-runner-backend triton_kernel
enable-flashinfer-mxfp4-moe use --moe-runner-backend flashinfer_mxfp4
attn-dp-size@..0.5.22 before 0.5.22 it is --dp-size with --enable-dp-attention
enable-flashinfer-autotune@0.5.7.. it is on; off is --disable-flashinfer-autotune
enable-piecewise-cuda-graph@0.5.10..0.5.14 it is on; off is --disable-piecewise-cuda-graph
enable-piecewise-cuda-graph@0.5.14.. use --cuda-graph-backend-prefill tc_piecewise (to 0.5.21) or breakable
enable-breakable-cuda-graph@0.5.20.. use --cuda-graph-backend-prefill breakable
disable-piecewise-cuda-graph@0.5.20.. use --disable-prefill-cuda-graph
enforce-piecewise-cuda-graph@0.5.20.. use --cuda-graph-backend-prefill
cuda-graph-backend-prefill@0.5.4..0.5.14 use --enable-piecewise-cuda-graph, or its --disable form from 0.5.10 on
disable-decode-cuda-graph@..0.5.14 use --disable-cuda-graph
enable-beta-spec@0.5.5.. use the environment variable SGLANG_ENABLE_SPEC_V2
prefill-round-robin-balance@0.5.8.. no longer needed
collect-tokens-histogram@0.5.11.. no longer needed
enable-expert-distribution-metrics@0.5.18.. use --expert-balancedness-report-mode
"""


@lru_cache(maxsize=64)
def table(version: Version) -> Table:
    """The flags of one version."""
    known = within(rows.flags_at(ROWS, version, _HOMES), _LIMITS)
    return Table(
        f"SGLang {dots(version)}",
        known,
        gone={
            **rows.absent(ROWS, version, "SGLang"),
            **rows.ways_out(_INSTEAD, version),
            **rows.renamed(_RENAMED, known),
        },
        abbreviations=True,
    )

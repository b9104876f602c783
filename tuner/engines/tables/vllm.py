"""vLLM's flags, 0.11 and 0.32: facts only.

Sources: vLLM 0.11.0 engine/arg_utils.py and entrypoints/openai/cli_args.py; `vllm serve --help=all` of 0.32.0.
Words are `name|alias|alias`, grouped by the kind of value.
"""

from __future__ import annotations

from tuner.engines.flags import COUNT, DOTTED, FRACTION, FROM_ZERO, Limits, Table, flags, with_choices, within

_BOTH = flags(
    bare="""
        disable-log-stats headless
    """,
    bool="""
        allow-credentials async-scheduling disable-cascade-attn disable-chunked-mm-input
        disable-custom-all-reduce disable-fastapi-docs disable-hybrid-kv-cache-manager disable-sliding-window
        disable-uvicorn-access-log enable-auto-tool-choice enable-chunked-prefill enable-dbo enable-eplb
        enable-force-include-usage enable-log-outputs enable-log-requests enable-lora enable-prefix-caching
        enable-prompt-embeds enable-prompt-tokens-details enable-request-id-headers enable-server-load-tracking
        enable-sleep-mode enable-ssl-refresh enable-tokenizer-info-endpoint enforce-eager
        exclude-tools-when-tool-choice-none fully-sharded-loras interleave-mm-strings kv-sharing-fast-prefill
        log-error-stack ray-workers-use-nsight return-tokens-as-token-ids skip-mm-profiling skip-tokenizer-init
        trust-remote-code trust-request-chat-template use-tqdm-on-load
    """,
    int="""
        api-server-count|-asc block-size data-parallel-rank|-dpn data-parallel-rpc-port|-dpp
        data-parallel-size-local|-dpl data-parallel-size|-dp data-parallel-start-rank|-dpr
        dbo-decode-token-threshold dbo-prefill-token-threshold decode-context-parallel-size|-dcp
        h11-max-header-count h11-max-incomplete-event-size long-prefill-token-threshold max-cpu-loras
        max-log-len max-logprobs max-lora-rank max-loras max-num-seqs max-parallel-loading-workers
        mm-shm-cache-max-object-size-mb num-gpu-blocks-override pipeline-parallel-size|-pp seed
        tensor-parallel-size|-tp
    """,
    size="""
        kv-cache-memory-bytes max-model-len max-num-batched-tokens
    """,
    float="""
        cpu-offload-gb mm-processor-cache-gb video-pruning-rate
    """,
    str="""
        allowed-local-media-path chat-template chat-template-content-format code-revision config-format convert
        data-parallel-address|-dpa data-parallel-backend|-dpb distributed-executor-backend download-dir dtype
        expert-placement-strategy generation-config hf-config-path io-processor-plugin kv-cache-dtype
        load-format logprobs-mode lora-dtype mamba-cache-dtype mamba-ssm-cache-dtype mm-encoder-tp-mode
        mm-processor-cache-type model-impl otlp-traces-endpoint prefix-caching-hash-algo pt-load-map-location
        quantization|-q reasoning-parser response-role revision runner safetensors-load-strategy scheduler-cls
        scheduling-policy show-hidden-metrics-for-version tokenizer tokenizer-mode tokenizer-revision
        tool-call-parser tool-parser-plugin tool-server uvicorn-log-level worker-cls worker-extension-cls
    """,
    list="""
        allowed-headers allowed-media-domains allowed-methods allowed-origins collect-detailed-traces
        ignore-patterns logits-processors lora-modules middleware
    """,
    json="""
        additional-config default-mm-loras eplb-config hf-overrides kv-events-config kv-transfer-config
        limit-mm-per-prompt media-io-kwargs mm-processor-kwargs model-loader-extra-config
        override-generation-config pooler-config structured-outputs-config
    """,
    optional="""
        hf-token
    """,
)

_ONLY_0_11 = flags(
    bare="""
        disable-mm-preprocessor-cache enable-multimodal-encoder-data-parallel
    """,
    bool="""
        calculate-kv-scales data-parallel-hybrid-lb disable-frontend-multiprocessing disable-log-requests
        enable-expert-parallel enable-lora-bias eplb-log-balancedness
    """,
    int="""
        eplb-step-interval eplb-window-size lora-extra-vocab-size max-long-partial-prefills
        max-num-partial-prefills num-lookahead-slots num-redundant-experts
    """,
    float="""
        gpu-memory-utilization rope-theta swap-space
    """,
    str="""
        logits-processor-pattern override-attention-dtype task
    """,
    ints="""
        cuda-graph-sizes
    """,
    json="""
        compilation-config|-O override-pooler-config rope-scaling speculative-config
    """,
)

_ONLY_0_32 = flags(
    bare="""
        aggregate-engine-logging data-parallel-multi-port-external-lb|-dpm grpc
    """,
    bool="""
        allow-deprecated-quantization cohere-is-reasoning-model cudagraph-metrics data-parallel-external-lb|-dpe
        data-parallel-hybrid-lb|-dph dcp-q-replicate disable-nccl-for-dp-synchronization
        enable-batch-sharded-sampling enable-cumem-allocator enable-elastic-ep enable-ep-weight-filter
        enable-expert-parallel|-ep enable-fault-tolerance enable-flash-late-interaction
        enable-flashinfer-autotune enable-hc-sp enable-layerwise-nvtx-tracing enable-log-deltas
        enable-logging-iteration-details enable-mamba-cache-stochastic-rounding
        enable-mamba-shared-prefix-checkpoint enable-mfu-metrics enable-mixed-moe-lora-format enable-mm-embeds
        enable-moe-shared-loras enable-nccl-comm-suspend enable-offline-docs enable-per-request-metrics
        enable-return-routed-experts enable-scale-out enable-shm-tensor-arena enable-tower-connector-lora
        enable-trace-replay fail-on-environ-validation jit-monitor-verbose kv-cache-metrics language-model-only
        long-prefill-token-threshold-adaptive mm-device-do-normalize mm-encoder-only numa-bind
        return-sampling-mask scheduler-reserve-full-isl sleep-mode-offload-cudagraph specialize-active-lora
        swa-bounded-replay tokens-only trust-request-mm-kwargs use-fp64-gumbel use-replayssm
    """,
    int="""
        cp-kv-cache-interleave-size cpu-distributed-timeout-seconds data-parallel-supervisor-port
        dcp-kv-cache-interleave-size distributed-timeout-seconds dp-supervisor-probe-failure-threshold
        dp-sync-interval elastic-ep-max-dp-size mamba-block-size mamba-cache-philox-rounds master-port
        max-cudagraph-capture-size max-lora-cls-labels max-num-active-seqs max-num-queued-reqs nnodes|-n
        node-rank|-r offload-group-size offload-num-in-group offload-prefetch-step
        prefill-context-parallel-size|-pcp prefill-schedule-interval prefix-cache-retention-interval
        prefix-match-unit renderer-num-workers replayssm-buffer-len safetensors-prefetch-num-threads
        shutdown-timeout sse-keep-alive-interval stream-interval ubatch-size
    """,
    size="""
        max-num-queued-tokens max-num-scheduled-tokens safetensors-prefetch-block-size
    """,
    float="""
        dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s
        gpu-memory-utilization|device-memory-utilization kv-cache-metrics-sample kv-offloading-size
        mm-encoder-fp8-scale-save-margin mm-ipc-gpu-memory-gb watermark
    """,
    str="""
        all2all-backend anthropic-disabled-thinking-effort attention-backend cohere-format dcp-comm-backend
        device-ids disable-access-log-for-endpoints fingerprint-mode fingerprint-value gdn-prefill-backend
        jit-monitor-mode kda-decode-backend kda-prefill-backend kv-offloading-backend linear-backend log-level
        mamba-backend mamba-cache-mode mamba-ssu-algorithm master-addr mm-encoder-attn-backend
        mm-encoder-attn-dtype mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-path mm-hasher-algorithm
        mm-processor-device mm-tensor-ipc moe-backend offload-backend per-request-spec-decode-metrics
        performance-mode reasoning-parser-plugin sparse-indexer-topk-backend tool-strict-level
        video-pruning-method
    """,
    list="""
        cpu-offload-params kv-cache-dtype-skip-layers lora-target-modules numa-bind-cpus offload-params
        sleep-preserve-parameter-names
    """,
    ints="""
        cudagraph-capture-sizes numa-bind-nodes
    """,
    json="""
        attention-config|-ac aux-output-config compilation-config|-cc custom-histogram-buckets
        default-chat-template-kwargs diffusion-config|-dc ec-manager-config ec-transfer-config engram-config
        fault-tolerance-config ir-op-priority kernel-config model-class-overrides profiler-config
        quantization-config reasoning-config speculative-config|-sc watermark-config weight-transfer-config
    """,
)


_OTHERS = {
    **flags("slot", str="host uds root-path ssl-keyfile ssl-certfile ssl-ca-certs ssl-ciphers log-config-file"),
    **flags("slot", int="port ssl-cert-reqs grpc-port", list="served-model-name api-key", json="logging-config"),
    **flags("model", str="model"),
    **flags("config", str="config"),
}

# Only what the engine's own parser refuses; formats, quantizations, parsers and attention backends may be a plugin's.
_CHOICES = {
    "chat-template-content-format": "auto openai string",
    "distributed-executor-backend": f"external_launcher mp ray uni {DOTTED}",
    "dtype": "auto bfloat16 float float16 float32 half",
    "expert-placement-strategy": "linear round_robin",
    "logprobs-mode": "processed_logits processed_logprobs raw_logits raw_logprobs",
    "mm-encoder-tp-mode": "data weights",
    "mm-processor-cache-type": "lru shm",
    "runner": "auto draft generate pooling",
    "scheduling-policy": "fcfs priority",
    "uvicorn-log-level": "critical debug error info trace warning",
}
_CHOICES_0_11 = {
    "convert": "auto classify embed none reward",
    "kv-cache-dtype": "auto bfloat16 fp8 fp8_ds_mla fp8_e4m3 fp8_e5m2 fp8_inc",
    "mamba-cache-dtype": "auto float32",
    "mamba-ssm-cache-dtype": "auto float32",
    "prefix-caching-hash-algo": "builtin sha256 sha256_cbor sha256_cbor_64bit",
}
_CHOICES_0_32 = {
    "all2all-backend": """
        allgather_reducescatter deepep_high_throughput deepep_low_latency deepep_v2 flashinfer_all2allv
        flashinfer_nvlink_one_sided flashinfer_nvlink_two_sided moonep mori_high_throughput mori_low_latency naive
        nixl_ep pplx
    """,
    "anthropic-disabled-thinking-effort": "auto high low max medium none xhigh",
    "collect-detailed-traces": "all model worker None",
    "convert": "auto classify embed none",
    "dcp-comm-backend": "a2a ag_rs None",
    "fingerprint-mode": "custom full hash none",
    "gdn-prefill-backend": "flashinfer triton cutedsl aiter_flydsl",
    "jit-monitor-mode": "error warn",
    "kda-decode-backend": "auto native flashinfer triton",
    "kda-prefill-backend": "auto triton flashkda flashinfer fused",
    "kv-cache-dtype": """
        auto bfloat16 float16 fp8 fp8_ds_mla fp8_e4m3 fp8_e5m2 fp8_inc fp8_per_token_head int4_per_token_head
        int8_per_token_head nvfp4 nvfp4_4over6 nvfp4_ds_mla turboquant_3bit_nc turboquant_4bit_nc
        turboquant_k3v4_nc turboquant_k8v4 ultraquant_4bit
    """,
    "kv-offloading-backend": "lmcache native",
    "linear-backend": """
        aiter auto b12x conch cutlass deep_gemm emulation exllama fbgemm flashinfer_b12x flashinfer_cudnn
        flashinfer_cutedsl flashinfer_cutlass flashinfer_trtllm humming machete marlin torch triton xpu xpu_woq
    """,
    "log-level": "CRITICAL ERROR WARNING INFO DEBUG NOTSET",
    "lora-dtype": "auto bfloat16 float16",
    "mamba-cache-dtype": "auto bfloat16 float16 float32",
    "mamba-cache-mode": "align none",
    "mamba-ssm-cache-dtype": "auto bfloat16 float16 float32",
    "mamba-ssu-algorithm": "auto horizontal simple vertical None",
    "max-lora-rank": "1 8 16 32 64 128 256 320 512",
    "mm-encoder-attn-dtype": "fp8 None",
    "mm-hasher-algorithm": "blake3 sha256 sha512",
    "mm-processor-device": "auto cpu",
    "mm-tensor-ipc": "direct_rpc torch_shm",
    "moe-backend": """
        aiter aiter_mega_moe aiter_triton_mxfp4_bf16 auto b12x batched_triton cutlass deep_gemm deep_gemm_mega_moe
        emulation flashinfer_b12x flashinfer_cutedsl flashinfer_cutlass flashinfer_moe_ep_cutedsl
        flashinfer_moe_ep_mega_deep_gemm flashinfer_trtllm flydsl hpc humming marlin rdna3 triton triton_unfused
    """,
    "offload-backend": "auto prefetch uva",
    "optimization-level": "0 1 2 3",
    "per-request-spec-decode-metrics": "detailed none summary",
    "performance-mode": "balanced interactivity throughput",
    "prefix-caching-hash-algo": "sha256 sha256_cbor xxhash xxhash_cbor",
    "safetensors-load-strategy": "eager lazy prefetch torchao None",
    "sparse-indexer-topk-backend": "aiter auto cooperative deep_select flashinfer per_row persistent torch",
    "tool-strict-level": "auto function parameter",
    "video-pruning-method": "evs vidcom2",
}

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

_GONE_0_11 = {
    "attention-backend": "0.11 takes the environment variable VLLM_ATTENTION_BACKEND",
    "all2all-backend": "0.11 takes the environment variable VLLM_ALL2ALL_BACKEND",
    "moe-backend": "0.11 takes environment variables such as VLLM_USE_FLASHINFER_MOE_FP8",
    "cudagraph-capture-sizes": "0.11 calls it --cuda-graph-sizes",
    "max-cudagraph-capture-size": "0.11: --cuda-graph-sizes with one value",
    "optimization-level": "0.11: -O3 is the compilation level, {level: 3} in --compilation-config",
    "performance-mode": "give --max-num-seqs and --max-num-batched-tokens",
    "stream-interval": "0.11 streams every token",
    "tp": "write -tp or --tensor-parallel-size",
    "num-scheduler-steps": "multi-step scheduling left with the V0 engine",
    "use-v2-block-manager": "it left with the V0 engine",
}
_GONE_0_32 = {
    "swap-space": "the V1 engine never used it; for CPU memory use --kv-offloading-size",
    "num-scheduler-steps": "multi-step scheduling left with the V0 engine",
    "use-v2-block-manager": "it left with the V0 engine",
    "cuda-graph-sizes": "use --cudagraph-capture-sizes or --max-cudagraph-capture-size",
    "disable-log-requests": "requests are not logged unless --enable-log-requests is given",
    "calculate-kv-scales": "scales come from the checkpoint",
    "task": "use --runner and --convert",
    "rope-scaling": "use --hf-overrides",
    "rope-theta": "use --hf-overrides",
    "num-lookahead-slots": "it follows from --speculative-config",
    "max-num-partial-prefills": "removed",
    "num-redundant-experts": "use --eplb-config",
    "eplb-window-size": "use --eplb-config",
    "eplb-step-interval": "use --eplb-config",
    "tp": "write -tp or --tensor-parallel-size",
}

V0_11 = Table(
    "vLLM 0.11",
    within(with_choices({**_BOTH, **_ONLY_0_11, **_OTHERS}, {**_CHOICES, **_CHOICES_0_11}), _LIMITS),
    gone=_GONE_0_11,
    interchangeable=True,
    dotted=True,
    level_key="level",
)
V0_32 = Table(
    "vLLM 0.32",
    within(
        with_choices(
            {**_BOTH, **_ONLY_0_32, **flags(int="optimization-level|-O"), **_OTHERS}, {**_CHOICES, **_CHOICES_0_32}
        ),
        _LIMITS,
    ),
    gone=_GONE_0_32,
    parts={
        "spec-method": "speculative-config.method",
        "spec-model": "speculative-config.model",
        "spec-tokens": "speculative-config.num_speculative_tokens",
    },
    interchangeable=True,
    dotted=True,
    auto_sizes=True,
)

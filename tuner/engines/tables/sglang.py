"""SGLang's flags, 0.5.3 and 0.5.17: facts only.

Sources: SGLang 0.5.3 and 0.5.17 srt/server_args.py (ServerArgs.add_cli_args and its field annotations).
Words are `name|alias|alias`, grouped by the kind of value. The canonical name is the field's (`tp-size`).
"""

from __future__ import annotations

from tuner.engines.flags import COUNT, FRACTION, FROM_ZERO, Limits, Table, flags, with_choices, within

_BOTH = flags(
    bare="""
        allow-auto-truncate delete-ckpt-after-loading disable-chunked-prefix-cache disable-cuda-graph
        disable-cuda-graph-padding disable-custom-all-reduce disable-fast-image-processor
        disable-flashinfer-cutlass-moe-fp4-allgather disable-hybrid-swa-memory disable-outlines-disk-cache
        disable-overlap-schedule disable-radix-cache disable-shared-experts-fusion
        disaggregation-decode-enable-offload-kvcache enable-cache-report enable-cudagraph-gc
        enable-custom-logit-processor enable-deterministic-inference enable-dp-attention enable-dp-lm-head
        enable-dynamic-batch-tokenizer enable-eplb enable-expert-distribution-metrics
        enable-flashinfer-allreduce-fusion enable-fp32-lm-head enable-hierarchical-cache enable-lmcache
        enable-lora enable-memory-saver enable-metrics enable-metrics-for-all-schedulers enable-mixed-chunk
        enable-mscclpp enable-multimodal enable-nccl-nvls enable-p2p-check enable-pdmux
        enable-priority-scheduling enable-profile-cuda-graph enable-request-time-stats-logging
        enable-return-hidden-states enable-single-batch-overlap enable-symm-mem enable-tokenizer-batch-encode
        enable-torch-compile enable-torch-symm-mem enable-trace enable-two-batch-overlap
        enable-weights-cpu-backup flashinfer-mla-disable-ragged is-embedding keep-mm-feature-on-device
        log-requests schedule-low-priority-values-first show-time-cost skip-server-warmup skip-tokenizer-init
        sleep-on-idle triton-attention-reduce-in-fp32 trust-remote-code weight-loader-disable-mmap
    """,
    int="""
        base-gpu-id chunked-prefill-size cpu-offload-gb decode-log-interval disaggregation-bootstrap-port
        disaggregation-decode-polling-interval dist-timeout dp-size|data-parallel-size
        dynamic-batch-tokenizer-batch-size ep-num-redundant-experts ep-size|expert-parallel-size|ep
        eplb-rebalance-layers-per-chunk eplb-rebalance-num-iterations expert-distribution-recorder-buffer-size
        gpu-id-step hicache-size log-requests-level max-loaded-loras max-lora-chunk-size max-lora-rank
        max-loras-per-batch max-mamba-cache-size max-queued-requests max-running-requests moe-dense-tp-size
        nnodes node-rank num-continuous-decode-steps num-reserved-decode-tokens offload-group-size
        offload-num-in-group offload-prefetch-step page-size pp-size|pipeline-parallel-size
        priority-scheduling-preemption-threshold random-seed
        remote-instance-weight-loader-seed-instance-service-port scheduler-recv-interval sm-group-num
        speculative-eagle-topk speculative-ngram-capacity speculative-ngram-max-bfs-breadth
        speculative-ngram-min-bfs-breadth speculative-num-draft-tokens speculative-num-steps stream-interval
        tokenizer-worker-num torch-compile-max-bs tp-size|tensor-parallel-size triton-attention-num-kv-splits
        triton-attention-split-tile-size
    """,
    float="""
        dynamic-batch-tokenizer-batch-timeout eplb-min-rebalancing-utilization-threshold
        gc-warning-threshold-secs hicache-ratio mem-fraction-static schedule-conservativeness
        speculative-accept-threshold-acc speculative-accept-threshold-single swa-full-tokens-ratio
        tbo-token-distribution-threshold watchdog-timeout
    """,
    str="""
        attention-backend chat-template completion-template constrained-json-whitespace-pattern
        debug-tensor-dump-input-file debug-tensor-dump-output-folder decode-attention-backend deepep-config
        deepep-mode device disaggregation-ib-device disaggregation-mode disaggregation-transfer-backend
        dist-init-addr|nccl-init-addr download-dir dtype ep-dispatch-algorithm eplb-algorithm
        expert-distribution-recorder-mode file-storage-path flashinfer-mxfp4-moe-precision grammar-backend
        hicache-io-backend hicache-mem-layout hicache-storage-backend hicache-storage-backend-extra-config
        hicache-storage-prefetch-policy hicache-write-policy init-expert-location kv-cache-dtype
        kv-events-config load-balance-method load-format log-level log-level-http lora-backend mamba-ssm-dtype
        mm-attention-backend model-impl moe-a2a-backend moe-runner-backend offload-mode
        prefill-attention-backend quantization quantization-param-path radix-eviction-policy reasoning-parser
        remote-instance-weight-loader-seed-instance-ip revision sampling-backend schedule-policy
        speculative-algorithm speculative-attention-mode speculative-draft-model-path|speculative-draft-model
        speculative-draft-model-revision speculative-ngram-match-type speculative-token-map
        tokenizer-metrics-custom-labels-header tokenizer-mode tokenizer-path tool-call-parser tool-server
        torchao-config warmups weight-version
    """,
    list="""
        custom-weight-loader generation-tokens-buckets lora-paths lora-target-modules prompt-tokens-buckets
        tokenizer-metrics-allowed-custom-labels
    """,
    ints="""
        numa-node
    """,
    floats="""
        bucket-e2e-request-latency bucket-inter-token-latency bucket-time-to-first-token
    """,
    json="""
        json-model-override-args model-loader-extra-config preferred-sampling-params
        remote-instance-weight-loader-send-weights-group-ports
    """,
)

_ONLY_0_5_3 = flags(
    bare="""
        collect-tokens-histogram debug-tensor-dump-prefill-only enable-double-sparsity enable-nan-detection
        prefill-round-robin-balance stream-output
    """,
    int="""
        context-length cuda-graph-max-bs disaggregation-decode-dp disaggregation-decode-tp
        disaggregation-prefill-pp ds-heavy-channel-num ds-heavy-token-num ds-sparse-decode-threshold
        max-micro-batch-size max-prefill-tokens max-total-tokens speculative-ngram-branch-length
        speculative-ngram-max-match-window-size speculative-ngram-min-match-window-size
    """,
    float="""
        load-watch-interval
    """,
    str="""
        debug-tensor-dump-inject ds-channel-config-path ds-heavy-channel-type nsa-decode nsa-prefill
        oltp-traces-endpoint
    """,
    ints="""
        cuda-graph-bs
    """,
    optional="""
        hybrid-kvcache-ratio
    """,
)

_ONLY_0_5_17 = flags(
    bare="""
        abort-on-priority-when-disabled checkpoint-engine-wait-weights-before-ready
        constrained-json-disable-any-whitespace debug-cuda-graph disable-attn-tp-gather
        disable-decode-cuda-graph disable-flashinfer-autotune disable-piecewise-cuda-graph
        disable-prefill-cuda-graph disable-priority-preemption disable-tokenizer-batch-decode
        disaggregation-decode-enable-radix-cache elastic-ep-rejoin enable-adaptive-dispatch-to-encoder
        enable-aiter-allreduce-fusion enable-attn-tp-input-scattered enable-breakable-cuda-graph
        enable-broadcast-mm-inputs-process enable-cp-decode-attn-tp enable-deepseek-v4-fp4-indexer
        enable-dp-attention-local-control-broadcast enable-draft-weights-cpu-backup enable-dsa-cache-layer-split
        enable-dsa-prefill-context-parallel|enable-nsa-prefill-context-parallel enable-dynamic-chunking
        enable-elastic-expert-backup enable-flexkv enable-forward-pass-metrics enable-fused-moe-sum-all-reduce
        enable-fused-qk-norm-rope enable-hisparse enable-http2 enable-int8-mamba-checkpoint
        enable-layerwise-nvtx-marker enable-linear-replayssm
        enable-linear-replayssm-spec|enable-gdn-replayssm-spec enable-lora-overlap-loading
        enable-mamba-cache-stochastic-rounding enable-mfu-metrics enable-mis enable-mm-global-cache
        enable-multi-layer-eagle enable-page-major-kv-layout enable-precise-embedding-interpolation
        enable-prefill-context-parallel enable-prefill-cp enable-prefill-delayer enable-prefix-mm-cache
        enable-quant-communications enable-return-indexer-topk enable-return-routed-experts
        enable-scattered-sconv enable-session-radix-cache enable-ssl-refresh enable-streaming-session
        enable-strict-thinking enable-tf32-matmul enable-torch-compile-debug-mode enable-unified-memory
        enable-waterfill encoder-only enforce-disable-flashinfer-allreduce-fusion enforce-piecewise-cuda-graph
        enforce-shared-experts-fusion export-metrics-to-file grpc-mode
        incremental-streaming-output|stream-output language-only lora-use-virtual-experts mm-enable-dp-encoder
        pre-warm-nccl prefill-only-disable-kv-cache quantize-and-serve
        remote-instance-weight-loader-start-seed-via-transfer-engine smg-grpc-mode speculative-adaptive
        speculative-dspark-align-verify-tokens-to-graph-tier speculative-skip-dp-mlp-sync
        speculative-use-rejection-sampling stream-response-default-include-usage strip-thinking-cache use-ray
        weight-loader-drop-cache-after-load weight-loader-prefetch-checkpoints
    """,
    bool="""
        dcp-replicate-q-proj dllm-fdfo experts-shared-outer-loras lora-strict-loading
    """,
    int="""
        asr-max-buffer-seconds asr-max-concurrent-sessions attn-cp-size|attention-context-parallel-size
        batch-notify-size cuda-graph-max-bs-decode|cuda-graph-max-bs
        cuda-graph-max-bs-prefill|piecewise-cuda-graph-max-tokens dcp-size|decode-context-parallel-size
        decoupled-spec-rank default-priority-value detokenizer-worker-num disaggregation-decode-extra-slots
        dwdp-size elastic-ep-initial-size elastic-ep-join-rank-offset encoder-bootstrap-port
        engine-info-bootstrap-port int8-mamba-ckpt-size kt-cpuinfer kt-max-deferred-experts-per-token
        kt-num-gpu-experts kt-threadpool-count kv-canary-sweep-interval linear-replayssm-cache-len
        load-snapshot-publish-interval mamba-cache-philox-rounds mamba-max-states-per-path mamba-track-interval
        max-ep-size min-free-slots-delay mm-io-worker-num mm-processor-worker-num
        moe-dp-size|moe-data-parallel-size optimistic-prefill-attempts pp-async-batch-depth
        pp-max-micro-batch-size prefill-delayer-max-delay-passes prefill-max-requests
        smg-http-sidecar-port|grpc-http-sidecar-port speculative-dflash-block-size
        speculative-draft-window-size|speculative-dflash-draft-window-size speculative-dspark-block-size
        speculative-ngram-external-corpus-max-tokens speculative-ngram-external-sam-budget
        speculative-ngram-max-trie-depth weight-cache-timeout weight-loader-prefetch-num-threads
    """,
    size="""
        context-length max-prefill-tokens max-total-tokens
    """,
    float="""
        elastic-ep-scale-timeout lora-drain-wait-threshold mamba-full-memory-ratio prefill-delayer-max-delay-ms
        prefill-delayer-queue-min-ratio prefill-delayer-token-usage-low-watermark soft-watchdog-timeout
    """,
    str="""
        bf16-gemm-backend cp-strategy cuda-graph-backend-decode cuda-graph-backend-prefill
        cuda-graph-tc-compiler|piecewise-cuda-graph-compiler custom-sigquit-handler dcp-comm-backend
        decoupled-spec-bind-endpoint decoupled-spec-role decrypted-config-file decrypted-draft-config-file
        deepep-dispatcher-output-dtype dllm-algorithm dllm-algorithm-config
        dsa-decode-backend|nsa-decode-backend dsa-paged-mqa-logits-backend
        dsa-prefill-backend|nsa-prefill-backend dsa-topk-backend elastic-ep-backend elastic-ep-join-mode
        encoder-transfer-backend export-metrics-to-file-dir flashinfer-allreduce-fusion-backend
        flexkv-config-file forward-pass-metrics-ipc-name forward-pass-metrics-worker-id fp4-gemm-backend
        fp8-gemm-backend fuseep-mode hf-chat-template-name
        hisparse-config|hierarchical-sparse-attention-extra-config kt-method kt-weight-path kv-canary
        kv-canary-real-data linear-attn-backend linear-attn-decode-backend linear-attn-prefill-backend
        linear-attn-verify-backend lmcache-config-file log-requests-format lora-eviction-policy mamba-backend
        mamba-radix-cache-strategy|mamba-scheduler-strategy mm-feature-transport model-config-parser
        modelexpress-config modelopt-checkpoint-restore-path modelopt-checkpoint-save-path modelopt-export-path
        modelopt-quant mooncake-ib-device msprobe-dump-config otlp-traces-endpoint pdmux-config-path
        radix-cache-backend remote-instance-weight-loader-backend retraction-policy return-hidden-states-mode
        rl-on-policy-target rl-quant-profile sampling-defaults sidecar spec-trace-dir
        speculative-adaptive-config speculative-draft-attention-backend speculative-draft-load-format
        speculative-draft-model-quantization speculative-dspark-confidence-sts-path
        speculative-dspark-sps-table-path speculative-moe-a2a-backend speculative-moe-runner-backend
        speculative-ngram-external-corpus-path tokenizer-backend trace-modules weight-cache-mode
        weight-cache-socket
    """,
    list="""
        encoder-register-urls encoder-urls flashinfer-autotune-skip-ops log-requests-target
        uvicorn-access-log-exclude-prefixes
    """,
    ints="""
        cuda-graph-bs-decode|cuda-graph-bs cuda-graph-bs-prefill|piecewise-cuda-graph-tokens
        debug-tensor-dump-layers gc-threshold
    """,
    floats="""
        prefill-delayer-forward-passes-buckets prefill-delayer-wait-seconds-buckets
    """,
    json="""
        cuda-graph-config decoupled-spec-connect-endpoints default-chat-template-kwargs extra-metric-labels
        forward-hooks limit-mm-data-per-request mm-process-config sidecar-args stat-loggers
    """,
    optional="""
        model-checksum
    """,
)


_OTHERS = {
    **flags(
        "slot",
        str="""
            host served-model-name api-key admin-api-key ssl-keyfile ssl-certfile ssl-ca-certs ssl-keyfile-password
            fastapi-root-path crash-dump-folder
        """,
        int="port nccl-port grpc-port",
    ),
    **flags("model", str="model-path|model"),
    **flags("config", str="config"),
}

_LOAD_FORMATS = """
    auto pt safetensors npcache dummy sharded_state gguf bitsandbytes mistral layered flash_rl remote remote_instance
"""
_ATTENTION_0_5_3 = """
    triton torch_native flex_attention nsa cutlass_mla fa3 fa4 flashinfer flashmla trtllm_mla trtllm_mha
    dual_chunk_flash_attn aiter wave intel_amx ascend
"""
_ATTENTION_0_5_17 = f"""
    {_ATTENTION_0_5_3} dsa dsv4 compressed cutedsl_mla tokenspeed_mla hpc_ops minicpm_flashattn minicpm_flashinfer
    intel_xpu mlu
"""
_ATTENTION_FLAGS = ("attention-backend", "prefill-attention-backend", "decode-attention-backend")

_CHOICES_0_5_3 = {
    **dict.fromkeys(_ATTENTION_FLAGS, _ATTENTION_0_5_3),
    "kv-cache-dtype": "auto fp8_e5m2 fp8_e4m3",
    "schedule-policy": "lpm random fcfs dfs-weight lof priority",
    "load-balance-method": "round_robin shortest_queue minimum_tokens",
    "load-format": _LOAD_FORMATS,
    "speculative-algorithm": "EAGLE EAGLE3 NEXTN STANDALONE NGRAM",
    "speculative-attention-mode": "prefill decode",
    "moe-a2a-backend": "none deepep",
    "moe-runner-backend": "auto triton triton_kernel flashinfer_trtllm flashinfer_cutlass flashinfer_mxfp4 "
    "flashinfer_cutedsl",
    "deepep-mode": "normal low_latency auto",
    "sampling-backend": "flashinfer pytorch",
    "grammar-backend": "xgrammar outlines llguidance none",
    "hicache-write-policy": "write_back write_through write_through_selective",
    "hicache-io-backend": "direct kernel",
    "hicache-mem-layout": "layer_first page_first page_first_direct",
    "dtype": "auto half float16 bfloat16 float float32",
    "disaggregation-mode": "null prefill decode",
}
_CHOICES_0_5_17 = {
    **dict.fromkeys(_ATTENTION_FLAGS, _ATTENTION_0_5_17),
    "deepep-mode": "normal low_latency auto",
    "disaggregation-mode": "null prefill decode",
    "dtype": "auto half float16 bfloat16 float float32",
    "grammar-backend": "xgrammar outlines llguidance none",
    "sampling-backend": "flashinfer pytorch ascend",
    "speculative-attention-mode": "prefill decode",
}

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

_GONE_0_5_3 = {
    "enable-ep-moe": "use --ep-size",
    "enable-deepep-moe": "use --moe-a2a-backend deepep",
    "enable-flashinfer-cutlass-moe": "use --moe-runner-backend flashinfer_cutlass",
    "enable-flashinfer-cutedsl-moe": "use --moe-runner-backend flashinfer_cutedsl",
    "enable-flashinfer-trtllm-moe": "use --moe-runner-backend flashinfer_trtllm",
    "enable-triton-kernel-moe": "use --moe-runner-backend triton_kernel",
    "enable-flashinfer-mxfp4-moe": "use --moe-runner-backend flashinfer_mxfp4",
    "attn-dp-size": "0.5.3 takes --dp-size with --enable-dp-attention",
    "cuda-graph-max-bs-decode": "0.5.3 calls it --cuda-graph-max-bs",
    "cuda-graph-bs-decode": "0.5.3 calls it --cuda-graph-bs",
    "pp-max-micro-batch-size": "0.5.3 calls it --max-micro-batch-size",
}
_GONE_0_5_17 = {
    "enable-ep-moe": "use --ep-size",
    "enable-deepep-moe": "use --moe-a2a-backend deepep",
    "max-micro-batch-size": "use --pp-max-micro-batch-size",
    "oltp-traces-endpoint": "use --otlp-traces-endpoint",
    "enable-double-sparsity": "removed",
    "hybrid-kvcache-ratio": "use --swa-full-tokens-ratio",
    "speculative-ngram-branch-length": "use --speculative-ngram-max-trie-depth",
    "prefill-round-robin-balance": "no longer needed",
    "collect-tokens-histogram": "no longer needed",
}

V0_5_3 = Table(
    "SGLang 0.5.3",
    within(with_choices({**_BOTH, **_ONLY_0_5_3, **_OTHERS}, _CHOICES_0_5_3), _LIMITS),
    gone=_GONE_0_5_3,
    abbreviations=True,
)
V0_5_17 = Table(
    "SGLang 0.5.17",
    within(with_choices({**_BOTH, **_ONLY_0_5_17, **_OTHERS}, _CHOICES_0_5_17), _LIMITS),
    gone=_GONE_0_5_17,
    abbreviations=True,
)

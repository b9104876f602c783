"""SGLang's flags over its versions: facts only, one row a flag (`tuner.engines.rows` says how they read).

Sources: the argument parser of every SGLang release from 0.5.3 to 0.5.23, run (post releases aside); a version that a
word carries is the first release with it, or the first without. The canonical name is the field's (`tp-size`).
A spelling that SGLang rewrites into a newer flag is an alias of that one.
"""

from tuner.engines.rows import read

ROWS = read("""
abort-on-priority-when-disabled@0.5.4.. bare
admin-api-key@0.5.8.. str
allow-auto-truncate bare
allowed-media-domains@0.5.18.. list
api-key str
asr-max-buffer-seconds@0.5.13.. int
asr-max-concurrent-sessions@0.5.13.. int
attention-backend str triton torch_native flex_attention nsa cutlass_mla@..0.5.20 fa3 fa4 flashinfer flashmla
    trtllm_mla trtllm_mha dual_chunk_flash_attn@..0.5.20 aiter wave intel_amx ascend intel_xpu@0.5.4.. dsv4@0.5.12..
    compressed@0.5.12.. tokenspeed_mla@0.5.12.. dsa@0.5.13.. cutedsl_mla@0.5.13.. hpc_ops@0.5.17..
    minicpm_flashattn@0.5.19.. minicpm_flashinfer@0.5.19.. qsa@0.5.20.. llada2_cfg_flashinfer@0.5.22..
attn-cp-size@0.5.9..|attention-context-parallel-size int
attn-dp-size@0.5.22..|attention-data-parallel-size int
base-gpu-id int
batch-notify-size@0.5.11.. int
bf16-gemm-backend@0.5.15.. str auto cutedsl torch@0.5.17.. flashinfer_pr4266@0.5.19..0.5.20 gemv@0.5.19..
boundary-reduction@0.5.21.. str auto ar rs rsv rs+rsv
bucket-e2e-request-latency floats
bucket-inter-token-latency floats
bucket-time-to-first-token floats
c128-page-size@0.5.18.. int
chat-template str
checkpoint-engine-wait-weights-before-ready@0.5.4.. bare
chunked-prefill-size int
collect-tokens-histogram@..0.5.11 bare
completion-template str
config str
constrained-json-disable-any-whitespace@0.5.4.. bare
constrained-json-max-whitespace-cnt@0.5.21.. int
constrained-json-whitespace-pattern str
context-length@..0.5.10 int
context-length@0.5.10.. size
cp-strategy@0.5.14.. str zigzag interleave
cpu-offload-gb int
crash-dump-folder str
cuda-graph-backend-decode@0.5.14.. str full breakable tc_piecewise@..0.5.22 disabled
cuda-graph-backend-prefill@0.5.14.. str full breakable tc_piecewise@..0.5.22 disabled
cuda-graph-bs@..0.5.14 ints
cuda-graph-bs-decode@0.5.14..|cuda-graph-bs@..0.5.20 ints
cuda-graph-bs-prefill@0.5.14..|piecewise-cuda-graph-tokens@..0.5.20 ints
cuda-graph-config@0.5.14.. json
cuda-graph-max-bs@..0.5.14 int
cuda-graph-max-bs-decode@0.5.14..|cuda-graph-max-bs@..0.5.20 int
cuda-graph-max-bs-prefill@0.5.14..|piecewise-cuda-graph-max-tokens@..0.5.20 int
cuda-graph-max-seq-len-prefill@0.5.21.. int
cuda-graph-prefill-max-context@0.5.21..|context-bucket size
cuda-graph-tc-compiler@0.5.14..0.5.22|piecewise-cuda-graph-compiler@..0.5.20 str eager inductor
custom-sigquit-handler@0.5.7..0.5.14 str
custom-weight-loader list
dcp-comm-backend@0.5.17.. str ag_rs a2a fi_a2a
dcp-replicate-q-proj@0.5.17.. bool
dcp-size@0.5.15..|decode-context-parallel-size int
debug-cuda-graph@0.5.11.. bare
debug-tensor-dump-inject@..0.5.14 str
debug-tensor-dump-input-file str
debug-tensor-dump-layers@0.5.5.. ints
debug-tensor-dump-output-folder str
debug-tensor-dump-prefill-only@..0.5.4 bare
decode-attention-backend str triton torch_native flex_attention nsa cutlass_mla@..0.5.20 fa3 fa4 flashinfer flashmla
    trtllm_mla trtllm_mha dual_chunk_flash_attn@..0.5.20 aiter wave intel_amx ascend intel_xpu@0.5.4.. dsv4@0.5.12..
    compressed@0.5.12.. tokenspeed_mla@0.5.12.. dsa@0.5.13.. cutedsl_mla@0.5.13.. hpc_ops@0.5.17..
    minicpm_flashattn@0.5.19.. minicpm_flashinfer@0.5.19.. qsa@0.5.20.. llada2_cfg_flashinfer@0.5.22..
decode-log-interval int
decoupled-spec-bind-endpoint@0.5.15.. str
decoupled-spec-connect-endpoints@0.5.15.. json
decoupled-spec-rank@0.5.15.. int
decoupled-spec-role@0.5.15.. str null verifier drafter
decrypted-config-file@0.5.5.. str
decrypted-draft-config-file@0.5.5.. str
deepep-config str
deepep-dispatcher-output-dtype@0.5.13.. str auto bf16 fp8 int8 nvfp4
deepep-mode str normal low_latency auto
deepep-v2-mode@0.5.19.. str direct hybrid
default-chat-template-kwargs@0.5.16.. json
default-priority-value@0.5.10.. int
delete-ckpt-after-loading bare
detokenizer-worker-num@0.5.12.. int
device str
disable-aiter-allreduce-fusion-in-decode@0.5.21.. bare
disable-aiter-allreduce-fusion-in-prefill@0.5.21.. bare
disable-attn-tp-gather@0.5.13.. bare
disable-chunked-prefix-cache bare
disable-cuda-graph bare
disable-cuda-graph-padding bare
disable-custom-all-reduce bare
disable-decode-cuda-graph@0.5.14.. bare
disable-fast-image-processor bare
disable-flashinfer-autotune@0.5.7.. bare
disable-flashinfer-cutlass-moe-fp4-allgather bare
disable-hicache-numa-detect@0.5.8..0.5.10 bare
disable-hybrid-swa-memory bare
disable-outlines-disk-cache bare
disable-overlap-schedule bare
disable-piecewise-cuda-graph@0.5.10..0.5.20 bare
disable-prefill-cuda-graph@0.5.14.. bare
disable-priority-preemption@0.5.10.. bare
disable-radix-cache bare
disable-shared-experts-fusion bare
disable-tokenizer-batch-decode@0.5.4.. bare
disaggregation-bootstrap-port int
disaggregation-decode-allocation-policy@0.5.22.. str early prefill_complete
disaggregation-decode-dp@..0.5.10 int
disaggregation-decode-enable-fake-auto@0.5.7..0.5.9 bare
disaggregation-decode-enable-offload-kvcache bare
disaggregation-decode-enable-radix-cache@0.5.11.. bare
disaggregation-decode-extra-slots@0.5.14.. int
disaggregation-decode-host-receive-threshold@0.5.21.. float
disaggregation-decode-polling-interval int
disaggregation-decode-retraction-backup@0.5.18.. str cpu_tensor host_pool none@0.5.21..
disaggregation-decode-tp@..0.5.10 int
disaggregation-enable-kv-checksum@0.5.21.. bare
disaggregation-ib-device str
disaggregation-mode str null prefill decode
disaggregation-prefill-pp@..0.5.10 int
disaggregation-transfer-backend str mooncake nixl ascend fake mori@0.5.9.. mooncake_tcp@0.5.13..
dist-init-addr|nccl-init-addr str
dist-timeout int
dllm-algorithm@0.5.6.. str
dllm-algorithm-config@0.5.7.. str
dllm-block-size@0.5.6..0.5.7 int
dllm-fdfo@0.5.16.. bool
download-dir str
dp-size|data-parallel-size int
ds-channel-config-path@..0.5.11 str
ds-heavy-channel-num@..0.5.11 int
ds-heavy-channel-type@..0.5.11 str
ds-heavy-token-num@..0.5.11 int
ds-sparse-decode-threshold@..0.5.11 int
dsa-decode-backend@0.5.13..|nsa-decode-backend@..0.5.20 str flashmla_sparse flashmla_kv flashmla_auto fa3 tilelang
    aiter trtllm flashmla_sparse_q8@0.5.16.. flashinfer_sparse_mla@0.5.17.. triton@0.5.20.. intel_xpu@0.5.22..
dsa-paged-mqa-logits-backend@0.5.15.. str auto deepgemm cutedsl aiter
dsa-prefill-backend@0.5.13..|nsa-prefill-backend@..0.5.20 str flashmla_sparse flashmla_kv flashmla_auto fa3 tilelang
    aiter trtllm flashmla_sparse_q8@0.5.16.. flashinfer_sparse_mla@0.5.17.. triton@0.5.20.. triton_sparse_mla@0.5.22..
    intel_xpu@0.5.22..
dsa-prefill-cp-mode@0.5.13..0.5.20 str in-seq-split round-robin-split
dsa-topk-backend@0.5.13.. str sgl-kernel torch flashinfer
dsa-triton-union@0.5.22.. int 0 2 4
dsv4-attn-backend@0.5.20.. str auto flashmla trtllm flashmla_mega@0.5.23..
dsv4-prefill-backend@0.5.19.. str auto flashmla_sparse flashmla_sparse_q8
dtype str auto half float16 bfloat16 float float32
dwdp-size@0.5.17.. int
dynamic-batch-tokenizer-batch-size int
dynamic-batch-tokenizer-batch-timeout float
elastic-ep-backend@0.5.4.. str none mooncake nixl@0.5.10..
elastic-ep-initial-size@0.5.16.. int
elastic-ep-join-mode@0.5.16.. str scale recover
elastic-ep-join-rank-offset@0.5.16.. int
elastic-ep-rejoin@0.5.11..0.5.21 bare
elastic-ep-scale-timeout@0.5.16.. float
enable-adaptive-dispatch-to-encoder@0.5.10.. bare
enable-aiter-allreduce-fusion@0.5.10.. bare
enable-amd-monokernel@0.5.23.. bare
enable-attn-tp-input-scattered@0.5.6.. bare
enable-beta-spec@0.5.4..0.5.5 bare
enable-breakable-cuda-graph@0.5.11..0.5.20 bare
enable-broadcast-mm-inputs-process@0.5.6.. bare
enable-cache-report bare
enable-cp-decode-attn-tp@0.5.17.. bare
enable-cudagraph-gc bare
enable-custom-logit-processor bare
enable-decoder-swa-bounded-replay@0.5.21..0.5.23 bare
enable-decoder-swa-bounded-replay@0.5.23.. bool
enable-deepep-waterfill@0.5.12..0.5.16 bare
enable-deepseek-v4-fp4-indexer@0.5.13.. bare
enable-dense-mlp-attn-tp@0.5.19.. bare
enable-deterministic-inference bare
enable-double-sparsity@..0.5.11 bare
enable-dp-attention bare
enable-dp-attention-local-control-broadcast@0.5.11.. bare
enable-dp-lm-head bare
enable-draft-weights-cpu-backup@0.5.6.. bare
enable-dsa-cache-layer-split@0.5.16.. bare
enable-dsa-fused-indexer@0.5.22.. bool
enable-dsa-prefill-context-parallel@0.5.13..0.5.20|enable-nsa-prefill-context-parallel bare
enable-dynamic-batch-tokenizer bare
enable-dynamic-chunking@0.5.7.. bare
enable-elastic-expert-backup@0.5.10.. bare
enable-encoder-swa-bounded-replay@0.5.21.. bare
enable-eplb bare
enable-expert-distribution-metrics@..0.5.18 bare
enable-flashinfer-allreduce-fusion bare
enable-flashinfer-autotune@0.5.6..0.5.7 bare
enable-flexkv@0.5.16.. bare
enable-forward-pass-metrics@0.5.12.. bare
enable-fp32-lm-head bare
enable-fused-moe-sum-all-reduce@0.5.10.. bare
enable-fused-qk-norm-rope@0.5.7..0.5.23 bare
enable-fused-qk-norm-rope@0.5.23.. bool
enable-gdn-replayssm-spec@0.5.16..0.5.17 bare
enable-hierarchical-cache|enable-hicache@0.5.23.. bare
enable-hisparse@0.5.10.. bare
enable-http-worker-reuseport@0.5.23.. bare
enable-http2@0.5.11.. bare
enable-int8-mamba-checkpoint@0.5.14.. bare
enable-kv-cache-sharding@0.5.22.. bare
enable-layernorm-sp@0.5.19.. bare
enable-layerwise-nvtx-marker@0.5.6.. bare
enable-lean-attention@0.5.19.. bare
enable-linear-replayssm@0.5.15.. bare
enable-linear-replayssm-spec@0.5.17..|enable-gdn-replayssm-spec@..0.5.20 bare
enable-linker-mla-dedup@0.5.21.. bare
enable-lmcache bare
enable-lora bare
enable-lora-overlap-loading@0.5.8.. bare
enable-mamba-cache-stochastic-rounding@0.5.15.. bare
enable-megamoe-for-layernorm-sp@0.5.23.. bare
enable-memory-saver bare
enable-metrics bare
enable-metrics-for-all-schedulers bare
enable-mfu-metrics@0.5.10.. bare
enable-mis@0.5.11.. bare
enable-mixed-chunk bare
enable-mm-global-cache@0.5.10.. bare
enable-mscclpp bare
enable-multi-layer-eagle@0.5.7.. bare
enable-multimodal bare
enable-nan-detection@..0.5.13 bare
enable-nccl-nvls bare
enable-nsa-prefill-context-parallel@0.5.6..0.5.13 bare
enable-nvidia-megakernel@0.5.23.. bare
enable-p2p-check bare
enable-page-major-kv-layout@0.5.15.. bare
enable-paged-experts@0.5.23.. bare
enable-pd-role-switch@0.5.21.. bare
enable-pdmux bare
enable-piecewise-cuda-graph@0.5.4..0.5.10 bare
enable-precise-embedding-interpolation@0.5.7.. bare
enable-prefill-context-parallel@0.5.10..0.5.20 bare
enable-prefill-cp@0.5.14.. bare
enable-prefill-delayer@0.5.8.. bare
enable-prefix-mm-cache@0.5.7.. bare
enable-priority-scheduling bare
enable-profile-cuda-graph bare
enable-quant-communications@0.5.11.. bare
enable-request-time-stats-logging bare
enable-response-store@0.5.20.. bare
enable-return-aux-hidden-states@0.5.23.. bare
enable-return-hidden-states bare
enable-return-indexer-topk@0.5.12.. bare
enable-return-routed-experts@0.5.7.. bare
enable-scattered-sconv@0.5.16.. bare
enable-session-radix-cache@0.5.15.. bare
enable-shared-experts-attn-tp@0.5.19.. bare
enable-single-batch-overlap bare
enable-ssl-refresh@0.5.10.. bare
enable-streaming-session@0.5.10.. bare
enable-strict-thinking@0.5.12.. bare
enable-symm-mem bare
enable-tf32-matmul@0.5.15..0.5.23 bare
enable-tf32-matmul@0.5.23.. bool
enable-tokenizer-batch-encode bare
enable-torch-compile bare
enable-torch-compile-debug-mode@0.5.6.. bare
enable-torch-symm-mem bare
enable-tp-lm-head-all-to-all@0.5.18.. bool
enable-trace bare
enable-two-batch-overlap bare
enable-unified-cache-external-linker@0.5.20.. bare
enable-unified-memory@0.5.15.. bare
enable-w4a4-mxfp4-megamoe@0.5.19.. bare
enable-waterfill@0.5.16.. bare
enable-watermark@0.5.22.. bare
enable-weights-cpu-backup bare
encoder-bootstrap-port@0.5.13.. int
encoder-only@0.5.7.. bare
encoder-register-urls@0.5.13.. list
encoder-transfer-backend@0.5.7.. str zmq_to_scheduler zmq_to_tokenizer mooncake auto@0.5.17..
encoder-urls@0.5.7.. list
enforce-disable-flashinfer-allreduce-fusion@0.5.10.. bare
enforce-piecewise-cuda-graph@0.5.10..0.5.20 bare
enforce-shared-experts-fusion@0.5.11.. bare
engine-info-bootstrap-port@0.5.10.. int
ep-dispatch-algorithm str static@0.5.14.. dynamic@0.5.14.. fake@0.5.14.. lp@0.5.14..
ep-num-redundant-experts int
ep-size|expert-parallel-size|ep int
eplb-algorithm str
eplb-min-rebalancing-utilization-threshold float
eplb-rebalance-layers-per-chunk int
eplb-rebalance-num-iterations int
expert-balancedness-report-mode@0.5.18.. str off server_log prometheus both
expert-distribution-recorder-buffer-size int
expert-distribution-recorder-mode str stat@0.5.14.. stat_approx@0.5.14.. per_pass@0.5.14.. per_token@0.5.14..
experts-shared-outer-loras@0.5.10.. bool
export-metrics-to-file@0.5.6.. bare
export-metrics-to-file-dir@0.5.6.. str
extra-metric-labels@0.5.9.. json
fastapi-root-path@0.5.6.. str
file-storage-path str
flashinfer-a2a-dispatch-type@0.5.20.. str auto bf16 nvfp4 mxfp8
flashinfer-allreduce-fusion-backend@0.5.14.. str auto trtllm mnnvl cutedsl@0.5.21..
flashinfer-autotune-skip-ops@0.5.17.. list
flashinfer-mla-disable-ragged bare
flashinfer-mxfp4-moe-precision str default bf16 fp8@0.5.19..
flexkv-config-file@0.5.16.. str
forward-hooks@0.5.6.. json
forward-pass-metrics-ipc-name@0.5.12.. str
forward-pass-metrics-worker-id@0.5.12.. str
fp4-gemm-backend@0.5.8.. str auto flashinfer_cudnn flashinfer_cutlass flashinfer_trtllm cutlass@0.5.10..0.5.16
    flashinfer_cutedsl@0.5.12.. marlin@0.5.13..
fp8-gemm-backend@0.5.7.. str auto deep_gemm flashinfer_trtllm cutlass triton aiter flashinfer_deepgemm@0.5.9..
    flashinfer_cutlass@0.5.10.. flashinfer_cutedsl@0.5.18..
fuseep-mode@0.5.16.. int 1 2
gated-launch-port@0.5.19.. int
gc-threshold@0.5.10.. ints
gc-warning-threshold-secs float
generation-tokens-buckets list
gpu-id-step int
grammar-backend str xgrammar outlines llguidance none
grpc-http-sidecar-port@0.5.11..0.5.16 int
grpc-mode@0.5.4.. bare
grpc-port@0.5.16.. int
grpc-response-timeout-secs@0.5.21.. int
hf-chat-template-name@0.5.8.. str
hicache-host-memory-fraction@0.5.21.. float
hicache-host-memory-mode@0.5.19.. str cache buffer_only
hicache-io-backend str direct kernel kernel_ascend@0.5.6..
hicache-mem-layout str layer_first page_first page_first_direct page_first_kv_split@0.5.6.. page_head@0.5.6..
hicache-ratio float
hicache-size int
hicache-storage-backend str file mooncake hf3fs nixl aibrix dynamic eic simm@0.5.11.. mori@0.5.15.. shm@0.5.17..
    sim@0.5.19.. npu_memcache@0.5.20.. tensorcast@0.5.21.. seaweedfs@0.5.22..
hicache-storage-backend-extra-config str
hicache-storage-prefetch-policy str best_effort wait_complete timeout
hicache-storage-prefetch-retry-max-attempts@0.5.19.. int
hicache-storage-prefetch-retry-poll-interval@0.5.19.. int
hicache-write-policy str write_back write_through write_through_selective
hierarchical-sparse-attention-extra-config@0.5.8..0.5.10 str
hisparse-config@0.5.10..|hierarchical-sparse-attention-extra-config@0.5.12.. json
host str
http2-initial-connection-window-size@0.5.19.. int
http2-max-concurrent-streams@0.5.18.. int
hybrid-kvcache-ratio@..0.5.8 optional
image-processor-backend@0.5.18.. str auto torchvision pil
incremental-streaming-output@0.5.10..|stream-output@..0.5.20 bare
init-expert-location str
int8-mamba-ckpt-size@0.5.14.. int
is-embedding bare
json-model-override-args json
keep-mm-feature-on-device@..0.5.21 bare
kt-amx-method@0.5.4..0.5.6 str
kt-amx-weight-path@0.5.4..0.5.6 str
kt-cpuinfer@0.5.4.. int
kt-max-deferred-experts-per-token@0.5.5.. int
kt-method@0.5.6.. str
kt-num-gpu-experts@0.5.4.. int
kt-threadpool-count@0.5.4.. int
kt-weight-path@0.5.6.. str
kv-cache-dtype str auto fp8_e5m2 fp8_e4m3 bf16@0.5.4.. bfloat16@0.5.4.. fp4_e2m1@0.5.5..0.5.21 mxfp8@0.5.16..
    nvfp4@0.5.16.. fp4_mx_block16@0.5.16..
kv-canary@0.5.13.. str none log raise
kv-canary-real-data@0.5.13.. str none partial all
kv-canary-sweep-interval@0.5.13.. int
kv-events-config str
language-model-only@0.5.18.. bare
language-only@0.5.7.. bare
limit-mm-data-per-request@0.5.7.. json
linear-attn-backend@0.5.10.. str triton cutedsl flashinfer flashkda@0.5.15.. nvidia_kda@0.5.17.. ptx_kda@0.5.17..
    helion@0.5.18.. intel_xpu@0.5.19..
linear-attn-decode-backend@0.5.10.. str triton cutedsl flashinfer flashkda@0.5.15.. nvidia_kda@0.5.17..
    ptx_kda@0.5.17.. helion@0.5.18.. intel_xpu@0.5.19..
linear-attn-prefill-backend@0.5.10.. str triton cutedsl flashinfer flashkda@0.5.15.. nvidia_kda@0.5.17..
    ptx_kda@0.5.17.. helion@0.5.18.. intel_xpu@0.5.19..
linear-attn-verify-backend@0.5.17.. str triton cutedsl flashinfer flashkda nvidia_kda ptx_kda nv_cutedsl
    helion@0.5.18.. intel_xpu@0.5.19..
linear-replayssm-cache-len@0.5.15.. int
lmcache-config-file@0.5.13.. str
load-balance-method str round_robin shortest_queue@..0.5.8 minimum_tokens@..0.5.8 decode_round_robin@0.5.7..0.5.8
    auto@0.5.8.. follow_bootstrap_room@0.5.8.. total_requests@0.5.8.. total_tokens@0.5.8..
load-format str auto pt safetensors npcache dummy sharded_state gguf bitsandbytes layered remote remote_instance
    flash_rl@0.5.7.. fastsafetensors@0.5.7.. private@0.5.7.. mistral@0.5.10.. runai_streamer@0.5.10..
    presharded@0.5.17.. expert_pack@0.5.19.. instanttensor@0.5.22..
load-publish-endpoint@0.5.19.. str
load-snapshot-publish-interval@0.5.13.. int
load-watch-interval@..0.5.7 float
log-level str
log-level-http str
log-requests bare
log-requests-format@0.5.7.. str text json
log-requests-level int 0 1 2 3
log-requests-target@0.5.8.. list
lora-backend str triton csgmv ascend@0.5.6.. torch_native@0.5.7.. triton_v2@0.5.23..
lora-drain-wait-threshold@0.5.12.. float
lora-eviction-policy@0.5.4.. str lru fifo
lora-paths list
lora-strict-loading@0.5.11.. bool
lora-target-modules list q_proj k_proj v_proj o_proj gate_proj up_proj down_proj qkv_proj gate_up_proj all
    embed_tokens@0.5.7.. lm_head@0.5.7.. q_a_proj@0.5.12.. kv_a_proj_with_mqa@0.5.12.. q_b_proj@0.5.12..
    kv_b_proj@0.5.12.. wq_b@0.5.14.. wk@0.5.14.. weights_proj@0.5.14.. qkvr@0.5.16.. wo_ud@0.5.16..
lora-use-virtual-experts@0.5.11.. bare
mamba-backend@0.5.9.. str triton flashinfer
mamba-cache-philox-rounds@0.5.15.. int
mamba-full-memory-ratio@0.5.4.. float
mamba-max-states-per-path@0.5.17.. int
mamba-radix-cache-strategy@0.5.14..|mamba-scheduler-strategy@..0.5.20 str auto no_buffer extra_buffer
    extra_buffer_lazy
mamba-scheduler-strategy@0.5.7..0.5.14 str auto no_buffer extra_buffer extra_buffer_lazy@0.5.13..
mamba-ssm-dtype str float32 bfloat16 float16@0.5.9..
mamba-track-interval@0.5.7.. int
max-ep-size@0.5.16.. int
max-loaded-loras int
max-lora-chunk-size int 16 32 64 128
max-lora-rank int
max-loras-per-batch int
max-mamba-cache-size int
max-micro-batch-size@..0.5.4 int
max-prefill-tokens@..0.5.10 int
max-prefill-tokens@0.5.10.. size
max-queued-requests int
max-running-requests int
max-total-tokens@..0.5.10 int
max-total-tokens@0.5.10.. size
media-url-max-file-size-mb@0.5.18.. int
mem-fraction-static float
min-free-slots-delay@0.5.15.. int
mlx-enable-sampling@0.5.18.. bare
mm-attention-backend str sdpa fa3 triton_attn ascend_attn aiter_attn@0.5.5.. fa4@0.5.9.. flashinfer_cudnn@0.5.10..
    amx_attn@0.5.13.. xpu_attn@0.5.13..
mm-enable-dp-encoder@0.5.6..0.5.23 bare
mm-enable-dp-encoder@0.5.23.. bool
mm-feature-transport@0.5.16.. str cpu cuda_ipc cuda_vmm@0.5.18..
mm-global-cache-backend@0.5.18.. str mooncake
mm-io-worker-num@0.5.17.. int
mm-max-concurrent-calls@0.5.5..0.5.10 int
mm-per-request-timeout@0.5.5..0.5.10 int
mm-preprocess-cache-size-mb@0.5.18.. int
mm-process-config@0.5.6.. json
mm-processor-worker-num@0.5.17.. int
model-checksum@0.5.8.. optional
model-config-parser@0.5.12.. str
model-impl str
model-loader-extra-config json
model-path|model str
modelexpress-config@0.5.10.. str
modelopt-checkpoint-restore-path@0.5.4.. str
modelopt-checkpoint-save-path@0.5.4.. str
modelopt-export-path@0.5.4.. str
modelopt-quant@0.5.4.. str
moe-a2a-backend str none deepep mooncake@0.5.4.. ascend_fuseep@0.5.6.. mori@0.5.9.. flashinfer@0.5.9.. nixl@0.5.10..
    megamoe@0.5.12.. ascend_tp@0.5.16.. pplx@0.5.17.. deepep_v2@0.5.19.. flashinfer_megamoe@0.5.20..
moe-dense-tp-size int
moe-dp-size@0.5.9..|moe-data-parallel-size int
moe-runner-backend str auto triton triton_kernel flashinfer_trtllm flashinfer_cutlass flashinfer_mxfp4
    flashinfer_cutedsl deep_gemm@0.5.4.. cutlass@0.5.4.. flashinfer_trtllm_routed@0.5.10.. aiter@0.5.11..
    marlin@0.5.12.. experimental_sgl_trtllm@0.5.13.. humming@0.5.16.. experimental_sgl_marlin@0.5.16..
    hpc_ops@0.5.17.. megamoe@0.5.18.. intel_xpu@0.5.19.. flashinfer_megamoe@0.5.20.. lora_cutedsl@0.5.23..
    lora_triton@0.5.23.. lora_marlin@0.5.23..
monokernel-backend@0.5.23.. str amd
mooncake-ib-device@0.5.4.. str
msprobe-dump-config@0.5.11.. str
multi-item-scoring-delimiter@0.5.4..0.5.11 int
nccl-port int
nnodes int
node-rank int
nsa-decode@..0.5.4 str flashmla_prefill flashmla_decode fa3 tilelang aiter
nsa-decode-backend@0.5.4..0.5.13 str flashmla_sparse flashmla_kv fa3 tilelang aiter flashmla_auto@0.5.5..
    trtllm@0.5.9..
nsa-prefill@..0.5.4 str flashmla_prefill flashmla_decode fa3 tilelang aiter
nsa-prefill-backend@0.5.4..0.5.13 str flashmla_sparse flashmla_kv fa3 tilelang aiter flashmla_auto@0.5.5..
    trtllm@0.5.9..
nsa-prefill-cp-mode@0.5.8..0.5.20 str in-seq-split round-robin-split
num-continuous-decode-steps int
num-reserved-decode-tokens int
numa-node ints
offload-group-size int
offload-mode str
offload-num-in-group int
offload-prefetch-step int
oltp-traces-endpoint@..0.5.5 str
optimistic-prefill-attempts@0.5.16.. int
optimistic-prefill-retries@0.5.13..0.5.16 int
otlp-service-name@0.5.21.. str
otlp-traces-endpoint@0.5.5.. str
page-size int
paged-experts-num-resident@0.5.23.. int
pdmux-config-path@0.5.4.. str
piecewise-cuda-graph-compiler@0.5.4..0.5.14 str eager inductor
piecewise-cuda-graph-max-tokens@0.5.4..0.5.14 int
piecewise-cuda-graph-tokens@0.5.4..0.5.8 json
piecewise-cuda-graph-tokens@0.5.8..0.5.14 ints
ple-offload-backend@0.5.20.. str pinned file
ple-offload-dir@0.5.20.. str
ple-offload-embedding@0.5.20.. bool
port int
pp-async-batch-depth@0.5.7.. int
pp-max-micro-batch-size@0.5.4.. int
pp-size|pipeline-parallel-size int
pre-warm-nccl@0.5.10.. bare
preferred-sampling-params json
prefill-attention-backend str triton torch_native flex_attention nsa cutlass_mla@..0.5.20 fa3 fa4 flashinfer flashmla
    trtllm_mla trtllm_mha dual_chunk_flash_attn@..0.5.20 aiter wave intel_amx ascend intel_xpu@0.5.4.. dsv4@0.5.12..
    compressed@0.5.12.. tokenspeed_mla@0.5.12.. dsa@0.5.13.. cutedsl_mla@0.5.13.. hpc_ops@0.5.17..
    minicpm_flashattn@0.5.19.. minicpm_flashinfer@0.5.19.. qsa@0.5.20.. llada2_cfg_flashinfer@0.5.22..
prefill-cp-mode@0.5.10..0.5.20 str in-seq-split
prefill-decode-interval@0.5.19.. int
prefill-decode-interval-min-bs@0.5.23.. int
prefill-delayer-forward-passes-buckets@0.5.8.. floats
prefill-delayer-max-delay-ms@0.5.12.. float
prefill-delayer-max-delay-passes@0.5.8.. int
prefill-delayer-queue-min-ratio@0.5.12.. float
prefill-delayer-token-usage-low-watermark@0.5.8.. float
prefill-delayer-wait-seconds-buckets@0.5.8.. floats
prefill-kv-cache-dequant-dtype@0.5.21.. str auto nvfp4 fp8_e4m3
prefill-max-requests@0.5.7.. int
prefill-only-disable-kv-cache@0.5.12.. bare
prefill-round-robin-balance@..0.5.8 bare
priority-scheduling-preemption-threshold int
prompt-tokens-buckets list
qsa-indexer-dtype@0.5.22.. str auto bfloat16 fp8_e4m3
quantization str awq fp8 gptq marlin@..0.5.20 gptq_marlin awq_marlin bitsandbytes gguf modelopt modelopt_fp4
    petit_nvfp4 w8a8_int8 w8a8_fp8 moe_wna16 qoq@..0.5.16 w4afp8 mxfp4 modelopt_fp8@0.5.4.. compressed-tensors@0.5.4..
    auto-round@0.5.5.. modelslim@0.5.7.. quark_int4fp8_moe@0.5.8.. mxfp8@0.5.9.. modelopt_mixed@0.5.10..
    unquant@0.5.11.. quark@0.5.12.. mlx_q4@0.5.12.. mlx_q8@0.5.12.. quark_mxfp4@0.5.13.. nvfp4_online@0.5.14..
    auto-round-int8@0.5.15.. mxfp_w4a8@0.5.15.. humming@0.5.16..
quantization-param-path str
quantize-and-serve@0.5.4.. bare
radix-cache-backend@0.5.13.. str
radix-eviction-policy str lru lfu slru@0.5.10.. priority@0.5.11.. tlru@0.5.21..
radix-eviction-policy-config@0.5.20.. json
random-seed int
reasoning-parser str deepseek-r1 deepseek-v3 glm45 gpt-oss kimi qwen3 qwen3-thinking step3 kimi_k2@0.5.5..
    minimax@0.5.5.. minimax-append-think@0.5.5.. nano_v3@0.5.7..0.5.10 interns1@0.5.7.. step3p5@0.5.9.. mimo@0.5.10..
    mistral@0.5.10.. nemotron_3@0.5.10.. hunyuan@0.5.11.. gemma4@0.5.11.. auto@0.5.12.. deepseek-v4@0.5.12..
    poolside_v1@0.5.12.. apertus2509@0.5.13.. cohere_command4@0.5.13.. minimax-m3@0.5.16.. inkling@0.5.16..
    kimi_k3@0.5.17.. muse@0.5.18.. dots@0.5.19.. ling3@0.5.19.. k2_horizon@0.5.20.. nanbeige@0.5.20..
    granite_thinking_parser@0.5.20.. deepseek-v41@0.5.21.. iquest_q1@0.5.21.. gigachat35@0.5.21.. beam@0.5.23..
    response_template@0.5.23..
record-nolora-graph@0.5.11..0.5.13 bool
remote-instance-weight-loader-backend@0.5.7.. str transfer_engine nccl modelexpress@0.5.10..
remote-instance-weight-loader-seed-instance-ip str
remote-instance-weight-loader-seed-instance-service-port int
remote-instance-weight-loader-send-weights-group-ports json
remote-instance-weight-loader-start-seed-via-transfer-engine@0.5.7.. bare
retraction-policy@0.5.16.. str length priority
return-aux-hidden-state-layer-ids@0.5.23.. ints
return-hidden-states-mode@0.5.17.. str last full
return-input-ids@0.5.20.. bare
return-output-ids@0.5.20.. bare
revision str
rl-on-policy-target@0.5.5.. str fsdp
rl-quant-profile@0.5.7.. str
sampling-backend str flashinfer pytorch ascend@0.5.6.. intel_xpu@0.5.21..
sampling-defaults@0.5.4.. str openai model
sampling-mask-max-tokens@0.5.20.. int
schedule-conservativeness float
schedule-low-priority-values-first bare
schedule-policy str lpm random fcfs dfs-weight lof priority routing-key@0.5.8.. hrrn@0.5.20..
    shortest-prefill-first@0.5.21..
scheduler-recv-interval int
served-model-name str
shared-experts-tp-size@0.5.21.. int
show-time-cost bare
sidecar@0.5.16.. str
sidecar-args@0.5.16.. json
skip-server-warmup bare
skip-tokenizer-init bare
sleep-on-idle bare
sm-group-num int
smg-grpc-mode@0.5.16.. bare
smg-http-sidecar-port@0.5.16..|grpc-http-sidecar-port int
soft-watchdog-timeout@0.5.7.. float
spec-trace-dir@0.5.15.. str
speculative-accept-threshold-acc float
speculative-accept-threshold-single float
speculative-adaptive@0.5.11.. bare
speculative-adaptive-config@0.5.11.. str
speculative-algorithm str EAGLE@..0.5.12 EAGLE3@..0.5.12 NEXTN@..0.5.12 STANDALONE@..0.5.12 NGRAM@..0.5.12
    DFLASH@0.5.11..0.5.12
speculative-attention-mode str prefill decode
speculative-dflash-block-size@0.5.11.. int
speculative-dflash-draft-window-size@0.5.11..0.5.12 int
speculative-domino-candidate-pool-size@0.5.20.. int
speculative-draft-attention-backend@0.5.7.. str
speculative-draft-kv-cache-dtype@0.5.18.. str auto fp8_e5m2 fp8_e4m3 bf16 bfloat16
speculative-draft-load-format@0.5.4.. str auto pt safetensors npcache dummy sharded_state gguf bitsandbytes layered
    remote remote_instance flash_rl@0.5.7.. fastsafetensors@0.5.7.. private@0.5.7.. mistral@0.5.10..
    runai_streamer@0.5.10.. presharded@0.5.17.. expert_pack@0.5.19.. instanttensor@0.5.22..
speculative-draft-model-path|speculative-draft-model str
speculative-draft-model-quantization@0.5.7.. str awq fp8 gptq marlin@..0.5.20 gptq_marlin awq_marlin bitsandbytes gguf
    modelopt modelopt_fp8 modelopt_fp4 petit_nvfp4 w8a8_int8 w8a8_fp8 moe_wna16 qoq@..0.5.16 w4afp8 mxfp4 auto-round
    compressed-tensors modelslim unquant quark_int4fp8_moe@0.5.8.. mxfp8@0.5.9.. modelopt_mixed@0.5.10..
    quark@0.5.12.. mlx_q4@0.5.12.. mlx_q8@0.5.12.. quark_mxfp4@0.5.13.. nvfp4_online@0.5.14.. auto-round-int8@0.5.15..
    mxfp_w4a8@0.5.15.. humming@0.5.16..
speculative-draft-model-revision str
speculative-draft-sink-size@0.5.21.. int
speculative-draft-window-size@0.5.12..|speculative-dflash-draft-window-size@..0.5.20 int
speculative-dsa-topk-backend@0.5.19.. str sgl-kernel torch flashinfer
speculative-dspark-align-verify-tokens-to-graph-tier@0.5.16.. bare
speculative-dspark-block-size@0.5.16.. int
speculative-dspark-confidence-sts-path@0.5.16.. str
speculative-dspark-sps-table-path@0.5.16.. str
speculative-eagle-topk int
speculative-enable-w4a4-mxfp4-megamoe@0.5.22.. bool
speculative-moe-a2a-backend@0.5.7.. str none deepep mooncake ascend_fuseep mori@0.5.9.. flashinfer@0.5.9..
    nixl@0.5.10.. megamoe@0.5.12.. ascend_tp@0.5.16.. pplx@0.5.17.. deepep_v2@0.5.19..
speculative-moe-runner-backend@0.5.5.. str auto deep_gemm triton triton_kernel flashinfer_trtllm flashinfer_cutlass
    flashinfer_mxfp4 flashinfer_cutedsl cutlass flashinfer_trtllm_routed@0.5.10.. aiter@0.5.11.. marlin@0.5.12..
    experimental_sgl_trtllm@0.5.13.. humming@0.5.16.. experimental_sgl_marlin@0.5.16.. hpc_ops@0.5.17..
    megamoe@0.5.18.. intel_xpu@0.5.19.. flashinfer_megamoe@0.5.20.. lora_cutedsl@0.5.23.. lora_triton@0.5.23..
    lora_marlin@0.5.23..
speculative-ngram-branch-length@..0.5.10 int
speculative-ngram-capacity int
speculative-ngram-external-corpus-max-tokens@0.5.11.. int
speculative-ngram-external-corpus-path@0.5.11.. str
speculative-ngram-external-sam-budget@0.5.11.. int
speculative-ngram-match-type str BFS PROB
speculative-ngram-max-bfs-breadth int
speculative-ngram-max-match-window-size@..0.5.10 int
speculative-ngram-max-trie-depth@0.5.10.. int
speculative-ngram-min-bfs-breadth int
speculative-ngram-min-match-window-size@..0.5.10 int
speculative-num-draft-tokens int
speculative-num-steps int
speculative-skip-dp-mlp-sync@0.5.11..0.5.23 bare
speculative-token-map str
speculative-use-block-verification@0.5.22.. bare
speculative-use-rejection-sampling@0.5.14.. bare
ssl-ca-certs@0.5.10.. str
ssl-certfile@0.5.10.. str
ssl-keyfile@0.5.10.. str
ssl-keyfile-password@0.5.10.. str
startup-weight-load-mode@0.5.18.. str serial overlap
stream-interval int
stream-output@..0.5.10 bare
stream-response-default-include-usage@0.5.10.. bare
strip-thinking-cache@0.5.11.. bare
swa-full-tokens-ratio float
swa-prefix-tails@0.5.21.. int
tbo-token-distribution-threshold float
tokenizer-backend@0.5.11.. str huggingface fastokens
tokenizer-metrics-allowed-custom-labels list
tokenizer-metrics-custom-labels-header str
tokenizer-mode str auto slow
tokenizer-path str
tokenizer-worker-num int
tool-call-parser str llama3 qwen25 mistral deepseekv3 deepseekv31 pythonic kimi_k2 qwen3_coder glm45 step3 gpt-oss
    glm@0.5.4.. qwen@0.5.4.. minimax-m2@0.5.5.. deepseekv32@0.5.6.. glm47@0.5.7.. mimo@0.5.7.. interns1@0.5.7..
    trinity@0.5.8.. lfm2@0.5.9.. step3p5@0.5.9.. hermes@0.5.9.. gigachat3@0.5.9.. hunyuan@0.5.11.. gemma4@0.5.11..
    auto@0.5.12.. deepseekv4@0.5.12.. poolside_v1@0.5.12.. apertus2509@0.5.13.. cohere_command4@0.5.13..
    minicpm5@0.5.13.. minimax-m3@0.5.16.. inkling@0.5.16.. kimi_k3@0.5.17.. muse@0.5.18.. dots@0.5.19.. ling3@0.5.19..
    spark25@0.5.19.. k2_horizon@0.5.20.. nanbeige@0.5.20.. deepseekv41@0.5.21.. gigachat35@0.5.21.. iquest_q1@0.5.21..
    beam@0.5.23.. response_template@0.5.23..
tool-server str
torch-compile-max-bs int
torchao-config@..0.5.18 str
tp-size|tensor-parallel-size int
trace-modules@0.5.13.. str
triton-attention-num-kv-splits int
triton-attention-reduce-in-fp32 bare
triton-attention-split-tile-size int
trust-mm-content-hashes@0.5.18.. bare
trust-remote-code bare
trust-request-chat-template@0.5.21.. bare
unified-cache-external-linker-backend@0.5.20.. str mooncake mori dynamic@0.5.23..
unified-cache-external-linker-config@0.5.23.. json
uno-lora-path@0.5.20.. str
use-ray@0.5.10.. bare
uvicorn-access-log-exclude-prefixes@0.5.8.. list
warmups str
watchdog-timeout float
watermark-config@0.5.22.. str
weight-cache-mode@0.5.17.. str off daemon client
weight-cache-socket@0.5.17.. str
weight-cache-timeout@0.5.17.. int
weight-loader-disable-mmap bare
weight-loader-drop-cache-after-load@0.5.12.. bare
weight-loader-prefetch-checkpoints@0.5.11.. bare
weight-loader-prefetch-num-threads@0.5.11.. int
weight-version str
""")

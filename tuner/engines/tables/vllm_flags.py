"""vLLM's flags over its versions: facts only, one row a flag (`tuner.engines.rows` says how they read).

Sources: the argument parser of vLLM's releases from 0.11.0 to 0.32.0, run (its community build for CPUs; the first and
the last release of each minor version); a version that a word carries is the first release with it, or the first
without.
"""

from tuner.engines.rows import read

ROWS = read("""
additional-config json
aggregate-engine-logging@0.11.1.. bare
all2all-backend@0.11.1.. str allgather_reducescatter deepep_high_throughput deepep_low_latency flashinfer_all2allv
    naive pplx mori@0.15..0.23 flashinfer_nvlink_one_sided@0.18.. flashinfer_nvlink_two_sided@0.18..
    nixl_ep@0.18.. mori_high_throughput@0.23.. mori_low_latency@0.23.. deepep_v2@0.24.. moonep@0.31..
allow-credentials bool
allow-deprecated-quantization@0.14.. bool
allowed-headers json
allowed-local-media-path str
allowed-media-domains list
allowed-methods json
allowed-origins json
anthropic-disabled-thinking-effort@0.31.. str auto high low max medium none xhigh
api-key list
api-server-count|-asc int
async-scheduling bool
attention-backend@0.13.. str
attention-config@0.13..|-ac json
aux-output-config@0.31.. json
block-size int 1@..0.18 8@..0.18 16@..0.18 32@..0.18 64@..0.18 128@..0.18 256@0.11.1..0.18
calculate-kv-scales@..0.28 bool
chat-template str
chat-template-content-format str auto openai string
code-revision str
cohere-format@0.27.. str
cohere-is-reasoning-model@0.27.. bool
collect-detailed-traces list all model worker model,worker@..0.31 model,all@..0.31 worker,model@..0.31
    worker,all@..0.31 all,model@..0.31 all,worker@..0.31
compilation-config|-O@..0.12|-cc@0.12.. json
config str
config-format str
convert str auto classify embed none reward@..0.16 mm_encoder_only@0.14..0.16
cp-kv-cache-interleave-size@0.12.. int
cpu-distributed-timeout-seconds@0.22.. int
cpu-offload-gb float
cpu-offload-params@0.17.. list
cuda-graph-sizes@..0.13 ints
cudagraph-capture-sizes@0.11.1.. ints
cudagraph-metrics@0.13.. bool
custom-histogram-buckets@0.32.. json
data-parallel-address|-dpa str
data-parallel-backend|-dpb str
data-parallel-external-lb@0.11.1..|-dpe bool
data-parallel-hybrid-lb|-dph@0.11.1.. bool
data-parallel-multi-port-external-lb@0.22..|-dpm bare
data-parallel-rank|-dpn int
data-parallel-rpc-port|-dpp int
data-parallel-size|-dp int
data-parallel-size-local|-dpl int
data-parallel-start-rank|-dpr int
data-parallel-supervisor-port@0.22.. int
dbo-decode-token-threshold int
dbo-prefill-token-threshold int
dcp-comm-backend@0.18.. str a2a ag_rs
dcp-kv-cache-interleave-size@0.11.1.. int
dcp-q-replicate@0.29.. bool
decode-context-parallel-size|-dcp int
default-chat-template-kwargs@0.14.. json
default-mm-loras json
device-ids@0.24.. str
diffusion-config@0.24..|-dc json
disable-access-log-for-endpoints@0.16.. str
disable-cascade-attn bool
disable-chunked-mm-input bool
disable-custom-all-reduce bool
disable-fastapi-docs bool
disable-frontend-multiprocessing@..0.19 bool
disable-hybrid-kv-cache-manager bool
disable-log-requests@..0.17 bool
disable-log-stats bare
disable-mm-preprocessor-cache@..0.13 bare
disable-nccl-for-dp-synchronization@0.11.1.. bool
disable-sliding-window bool
disable-uvicorn-access-log bool
distributed-executor-backend str external_launcher mp ray uni *.*
distributed-timeout-seconds@0.18.. int
download-dir str
dp-supervisor-probe-failure-threshold@0.22.. int
dp-supervisor-probe-interval-s@0.22.. float
dp-supervisor-probe-timeout-s@0.22.. float
dp-sync-interval@0.30.. int
dtype str auto bfloat16 float float16 float32 half
ec-manager-config@0.28.. json
ec-transfer-config@0.11.1.. json
elastic-ep-max-dp-size@0.30.. int
enable-auto-tool-choice bool
enable-batch-sharded-sampling@0.29.. bool
enable-bf16x3-router-gemm@0.26..0.30 bool
enable-chunked-prefill bool
enable-cumem-allocator@0.22.. bool
enable-dbo bool
enable-elastic-ep@0.17.. bool
enable-ep-weight-filter@0.18.. bool
enable-eplb bool
enable-expert-parallel|-ep@0.14.. bool
enable-fault-tolerance@0.27.. bool
enable-flash-late-interaction@0.20.. bool
enable-flashinfer-autotune@0.16.. bool
enable-force-include-usage bool
enable-hc-sp@0.32.. bool
enable-layerwise-nvtx-tracing@0.13.. bool
enable-log-deltas@0.14.. bool
enable-log-outputs bool
enable-log-requests bool
enable-logging-iteration-details@0.14.. bool
enable-lora bool
enable-lora-bias@..0.11.1 bool
enable-mamba-cache-stochastic-rounding@0.20.. bool
enable-mamba-fine-grained-prefix-cache@0.30..0.31 bool
enable-mamba-shared-prefix-checkpoint@0.31.. bool
enable-mfu-metrics@0.14.. bool
enable-mixed-moe-lora-format@0.22.. bool
enable-mm-embeds@0.11.1.. bool
enable-moe-shared-loras@0.26.. bool
enable-multimodal-encoder-data-parallel@..0.13 bare
enable-nccl-comm-suspend@0.30.. bool
enable-offline-docs@0.14.. bool
enable-per-request-metrics@0.25.. bool
enable-prefix-caching bool
enable-prompt-embeds bool
enable-prompt-tokens-details bool
enable-request-id-headers bool
enable-return-routed-experts@0.14.. bool
enable-scale-out@0.30.. bool
enable-server-load-tracking bool
enable-shm-tensor-arena@0.32.. bool
enable-sleep-mode bool
enable-ssl-refresh bool
enable-tokenizer-info-endpoint bool
enable-tower-connector-lora@0.14.. bool
enable-trace-replay@0.29.. bool
enforce-eager bool
engram-config@0.30.. json
eplb-config json
eplb-log-balancedness@..0.12 bool
eplb-step-interval@..0.12 int
eplb-window-size@..0.12 int
exclude-tools-when-tool-choice-none bool
expert-placement-strategy str linear round_robin
fail-on-environ-validation@0.17.. bool
fault-tolerance-config@0.27.. json
fingerprint-mode@0.21.. str custom full hash none
fingerprint-value@0.21.. str
fully-sharded-loras bool
gdn-prefill-backend@0.18.. str flashinfer triton cutedsl@0.22.. aiter_flydsl@0.32..
generation-config str
gpu-memory-utilization|device-memory-utilization@0.31.. float
grpc@0.18.. bare
grpc-port@0.32.. int
guided-decoding-backend@..0.12 str
guided-decoding-disable-additional-properties@..0.12 str
guided-decoding-disable-any-whitespace@..0.12 str
guided-decoding-disable-fallback@..0.12 str
h11-max-header-count int
h11-max-incomplete-event-size int
headless bare
hf-config-path str
hf-overrides json
hf-token optional
host str
ignore-patterns list
interleave-mm-strings bool
io-processor-plugin str
ir-op-priority@0.20.. json
jit-monitor-mode@0.25.. str error warn
jit-monitor-verbose@0.24.. bool
kda-decode-backend@0.30.. str auto native flashinfer triton
kda-prefill-backend@0.27.. str auto triton flashkda flashinfer@0.30.. fused@0.30..
kernel-config@0.16.. json
kv-cache-dtype str auto bfloat16 fp8 fp8_e4m3 fp8_e5m2 fp8_inc fp8_ds_mla@0.11.1.. float16@0.18..
    fp8_per_token_head@0.20.. int8_per_token_head@0.20.. nvfp4@0.20.. turboquant_3bit_nc@0.20..
    turboquant_4bit_nc@0.20.. turboquant_k3v4_nc@0.20.. turboquant_k8v4@0.20.. int4_per_token_head@0.25..
    nvfp4_4over6@0.28.. nvfp4_ds_mla@0.30.. ultraquant_4bit@0.32..
kv-cache-dtype-skip-layers@0.19.. list
kv-cache-memory-bytes size
kv-cache-metrics@0.12.. bool
kv-cache-metrics-sample@0.12.. float
kv-events-config json
kv-offloading-backend@0.11.1.. str lmcache native
kv-offloading-size@0.11.1.. float
kv-sharing-fast-prefill bool
kv-transfer-config json
language-model-only@0.17.. bool
limit-mm-per-prompt json
linear-backend@0.22.. str aiter auto conch cutlass deep_gemm emulation exllama fbgemm flashinfer_cudnn
    flashinfer_cutlass flashinfer_trtllm machete marlin torch triton flashinfer_b12x@0.24.. flashinfer_cutedsl@0.24..
    humming@0.25.. xpu@0.25.. xpu_woq@0.25.. b12x@0.28..
load-format str
log-config-file str
log-error-stack bool
log-level@0.31.. str CRITICAL ERROR WARNING INFO DEBUG NOTSET
logging-config@0.31.. json
logits-processor-pattern@..0.17 str
logits-processors list
logprobs-mode str processed_logits processed_logprobs raw_logits raw_logprobs
long-prefill-token-threshold int
long-prefill-token-threshold-adaptive@0.31.. bool
lora-dtype str auto bfloat16 float16
lora-extra-vocab-size@..0.12 int 256@0.11.1.. 512@0.11.1..
lora-modules list
lora-target-modules@0.19.. list
mamba-backend@0.20.. str
mamba-block-size@0.11.1.. int
mamba-cache-dtype str auto float32 float16@0.13.. bfloat16@0.22..
mamba-cache-mode@0.15.. str align all@..0.32 none
mamba-cache-philox-rounds@0.20.. int
mamba-ssm-cache-dtype str auto float32 float16@0.13.. bfloat16@0.22..
mamba-ssu-algorithm@0.27.. str auto horizontal simple vertical
master-addr@0.11.1.. str
master-port@0.11.1.. int
max-cpu-loras int
max-cudagraph-capture-size@0.11.1.. int
max-log-len int
max-logprobs int
max-long-partial-prefills@..0.27 int
max-lora-cls-labels@0.31.. int
max-lora-rank int 1@0.11.1.. 8@0.11.1.. 16@0.11.1.. 32@0.11.1.. 64@0.11.1.. 128@0.11.1.. 256@0.11.1.. 320@0.11.1..
    512@0.11.1..
max-loras int
max-model-len size
max-num-active-seqs@0.31.. int
max-num-batched-tokens size
max-num-partial-prefills@..0.27 int
max-num-queued-reqs@0.29.. int
max-num-queued-tokens@0.29.. size
max-num-scheduled-tokens@0.26.. size
max-num-seqs int
max-parallel-loading-workers int
media-io-kwargs json
middleware str
mm-device-do-normalize@0.28.. bool
mm-encoder-attn-backend@0.11.1.. str
mm-encoder-attn-dtype@0.21.. str fp8
mm-encoder-fp8-scale-path@0.21.. str
mm-encoder-fp8-scale-save-margin@0.21.. float
mm-encoder-fp8-scale-save-path@0.21.. str
mm-encoder-only@0.15.. bool
mm-encoder-tp-mode str data weights
mm-hasher-algorithm@0.27.. str blake3 sha256 sha512
mm-ipc-gpu-memory-gb@0.25.. float
mm-processor-cache-gb float
mm-processor-cache-type str lru shm
mm-processor-device@0.28.. str auto cpu
mm-processor-kwargs json
mm-shm-cache-max-object-size-mb int
mm-tensor-ipc@0.19.. str direct_rpc torch_shm
model str
model-class-overrides@0.25.. json
model-impl str
model-loader-extra-config json
moe-backend@0.17.. str aiter auto cutlass deep_gemm flashinfer_cutedsl flashinfer_cutlass flashinfer_trtllm marlin
    triton deep_gemm_mega_moe@0.20.. emulation@0.20.. humming@0.21.. triton_unfused@0.21.. flashinfer_b12x@0.22..
    flydsl@0.24.. hpc@0.25.. batched_triton@0.27.. b12x@0.29.. flashinfer_moe_ep_mega_cutedsl@0.29..0.32
    flashinfer_moe_ep_mega_deep_gemm@0.29.. aiter_triton_mxfp4_bf16@0.30.. rdna3@0.30.. aiter_mega_moe@0.32..
    flashinfer_moe_ep_cutedsl@0.32..
nnodes@0.11.1..|-n int
node-rank@0.11.1..|-r int
num-gpu-blocks-override int
num-lookahead-slots@..0.12 int
num-redundant-experts@..0.12 int
numa-bind@0.20.. bool
numa-bind-cpus@0.20.. list
numa-bind-nodes@0.20.. ints
offload-backend@0.17.. str auto prefetch uva
offload-group-size@0.17.. int
offload-num-in-group@0.17.. int
offload-params@0.17.. list
offload-prefetch-step@0.17.. int
optimization-level@0.12..|-O int 0 1 2 3
otlp-traces-endpoint str
override-attention-dtype@..0.28 str
override-generation-config json
override-pooler-config@..0.12 json
per-request-spec-decode-metrics@0.29.. str detailed none summary
performance-mode@0.17.. str balanced interactivity throughput
pipeline-parallel-size|-pp int
pooler-config json
port int
prefill-context-parallel-size@0.12..|-pcp int
prefill-schedule-interval@0.24.. int
prefix-cache-retention-interval@0.29.. int
prefix-caching-hash-algo str sha256 sha256_cbor xxhash@0.13.. xxhash_cbor@0.13..
prefix-match-unit@0.26.. int
profiler-config@0.13.. json
pt-load-map-location str
quantization|-q str
quantization-config@0.22.. json
ray-workers-use-nsight bool
reasoning-config@0.19.. json
reasoning-parser str deepseek_r1@..0.11.1 glm45@..0.11.1 openai_gptoss@..0.11.1 granite@..0.11.1 hunyuan_a13b@..0.11.1
    mistral@..0.11.1 qwen3@..0.11.1 seed_oss@..0.11.1 step3@..0.11.1
reasoning-parser-plugin@0.11.1.. str
renderer-num-workers@0.19.. int
replayssm-buffer-len@0.27.. int
response-role str
return-sampling-mask@0.28.. bool
return-tokens-as-token-ids bool
revision str
root-path str
rope-scaling@..0.11.1 json
rope-theta@..0.11.1 float
runner str auto draft generate pooling
safetensors-load-strategy str eager@0.24.. lazy@0.24.. prefetch@0.24.. torchao@0.24..
safetensors-prefetch-block-size@0.21.. size
safetensors-prefetch-num-threads@0.21.. int
scheduler-cls str
scheduler-reserve-full-isl@0.19.. bool
scheduling-policy str fcfs priority
seed int
served-model-name list
show-hidden-metrics-for-version str
shutdown-timeout@0.18.. int
skip-mm-profiling bool
skip-tokenizer-init bool
sleep-mode-offload-cudagraph@0.32.. bool
sleep-preserve-parameter-names@0.31.. list
sparse-indexer-topk-backend@0.30.. str auto cooperative deep_select flashinfer per_row persistent torch aiter@0.32..
specialize-active-lora@0.16.. bool
speculative-config|-sc@0.19.. json
sse-keep-alive-interval@0.29.. int
ssl-ca-certs str
ssl-cert-reqs int
ssl-certfile str
ssl-ciphers@0.15.. str
ssl-keyfile str
stream-interval@0.11.1.. int
structured-outputs-config json
swa-bounded-replay@0.31.. bool
swap-space@..0.18 float
task@..0.13 str auto classify draft embed embedding generate reward score transcription
tensor-parallel-size|-tp int
tokenizer str
tokenizer-mode str auto@..0.12 custom@..0.12 mistral@..0.12 slow@..0.12
tokenizer-revision str
tokens-only@0.11.1.. bool
tool-call-parser str
tool-parser-plugin str
tool-server str
tool-strict-level@0.31.. str auto function parameter
trust-remote-code bool
trust-request-chat-template bool
trust-request-mm-kwargs@0.31.. bool
ubatch-size@0.14.. int
uds str
use-fp64-gumbel@0.22.. bool
use-gpu-for-pooling-score@0.17..0.18 bool
use-replayssm@0.27.. bool
use-tqdm-on-load bool
uvicorn-log-level str critical debug error info trace warning
video-pruning-method@0.27.. str evs vidcom2
video-pruning-rate float
watermark@0.24.. float
watermark-config@0.30.. json
weight-transfer-config@0.16.. json
worker-cls str
worker-extension-cls str
""")

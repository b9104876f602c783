"""TensorRT-LLM's flags and YAML keys, 1.0 to 1.2: facts only, one row a flag (`tuner.engines.rows` says how they read).

FROM SOURCE AND DOCUMENTATION ONLY: no parser of TensorRT-LLM was run, for the registry has none that installs without
a GPU. Sources: TensorRT-LLM commands/serve.py (click options) and llmapi/llm_args.py (TorchLlmArgs fields) of 1.0, and
a snapshot between 1.2 and 1.3. What is in the second and not in the first is taken to have come with 1.2.

A name is a flag of `trtllm-serve` where 1.0 has one, or where it is nothing else; every other name is a key of the YAML
file that `--extra_llm_api_options` takes, in every version. The YAML's long names of flags are spellings of the flags.
"""

from __future__ import annotations

from functools import lru_cache

from tuner.engines import rows
from tuner.engines.flags import COUNT, FRACTION, FROM_ZERO, Home, Limits, Table, within
from tuner.engines.versions import Version, dots

OLDEST, NEWEST, BELOW = (1, 0, 0), (1, 2, 0), (1, 3)

_FLAGS = rows.read("""
backend str pytorch tensorrt trt _autodeploy
chat_template@1.2.. str
cluster_size|moe_cluster_parallel_size int
extra_llm_api_options|config@1.2.. str
custom_module_dirs@1.2.. str
custom_tokenizer@1.2.. str
disagg_cluster_uri str
enable_chunked_prefill bare
ep_size|moe_expert_parallel_size int
fail_fast_on_attention_window_too_large bare
gpus_per_node int
host str
kv_cache_free_gpu_memory_fraction|free_gpu_memory_fraction float
log_level str
max_batch_size int
max_beam_width int
max_num_tokens int
max_seq_len int
media_io_kwargs json
metadata_server_config_file str
model str
num_postprocess_workers int
port int
pp_size|pipeline_parallel_size int
reasoning_parser str
server_role str
tokenizer str
tool_parser@1.2.. str
tp_size|tensor_parallel_size int
trust_remote_code bare
""")

_KEYS = rows.read("""
allreduce_strategy any
attention_dp_config any
attn_backend any
batch_wait_max_tokens_ratio any
batch_wait_timeout_iters any
batch_wait_timeout_ms any
cache_transceiver_config any
context_parallel_size|cp_size@1.2.. int
cp_config any
cuda_graph_config any
decoding_config any
disable_overlap_scheduler any
dtype any
enable_attention_dp any
enable_autotuner any
enable_iter_perf_stats any
enable_iter_req_stats any
enable_layerwise_nvtx_marker any
enable_lm_head_tp_in_adp any
enable_lora any
enable_min_latency any
force_dynamic_quantization any
garbage_collection_gen0_threshold any
gather_generation_logits any
guided_decoding_backend any
iter_stats_max_iterations any
kv_cache_config any
kv_connector_config any
load_format any
lora_config any
max_input_len any
max_prompt_adapter_token any
mm_encoder_only any
moe_config any
moe_tensor_parallel_size int
orchestrator_type any
otlp_traces_endpoint any
peft_cache_config any
perf_metrics_max_requests any
prefill_cuda_graph_backend any
print_iter_log any
quant_config any
request_stats_max_iterations any
return_perf_metrics any
revision any
sampler_type any
scheduler_config any
skip_tokenizer_init any
sparse_attention_config any
speculative_config any
stream_interval any
tokenizer_mode any
tokenizer_revision any
torch_compile_config any
use_torch_sampler any
""")

_HOMES: dict[str, Home] = {
    **dict.fromkeys((row.name.word for row in _KEYS), "file"),
    "extra_llm_api_options": "config",
    "host": "slot",
    "model": "model",
    "port": "slot",
}

_LIMITS = {
    COUNT: """
        context_parallel_size gpus_per_node max_batch_size max_beam_width max_num_tokens max_seq_len pp_size tp_size
    """,
    Limits(1, also=(-1,)): "cluster_size ep_size moe_tensor_parallel_size",
    FROM_ZERO: "num_postprocess_workers",
    FRACTION: "kv_cache_free_gpu_memory_fraction",
}

_INSTEAD = """
use_cuda_graph use cuda_graph_config
cuda_graph_batch_sizes use cuda_graph_config: {batch_sizes: [...]}
cuda_graph_padding_enabled use cuda_graph_config: {enable_padding: true}
enable_overlap_scheduler use disable_overlap_scheduler
kv_cache_dtype use kv_cache_config: {dtype: ...}
moe_backend use moe_config: {backend: ...}
dp_size attention data parallelism is enable_attention_dp, over the tensor-parallel group
served_model_name the name is the model's, or its folder's last part
"""


@lru_cache(maxsize=16)
def table(version: Version) -> Table:
    """The flags and keys of one version."""
    known = (*_FLAGS, *_KEYS)
    return Table(
        f"TensorRT-LLM {dots(version)}",
        within(rows.flags_at(known, version, _HOMES), _LIMITS),
        gone={**rows.absent(known, version, "TensorRT-LLM"), **rows.ways_out(_INSTEAD, version)},
        separator="_",
    )

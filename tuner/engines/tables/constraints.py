"""What each engine refuses to start with: facts only, one row each (`tuner.engines.constraints` says how they read)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.engines.constraints import read

_EVERY = """
gpus | gpus-taken <= node-gpus
    | takes more GPUs than the node has: lower the parallel sizes | the engine counts the GPUs it finds
"""

VLLM = read(
    _EVERY
    + """
heads-by-tp | model-attention-heads % tensor-parallel-size == 0
    | tensor-parallel-size must divide the model's attention heads | vLLM ModelConfig.verify_with_parallel_config
kv-heads-by-tp | model-kv-heads % tensor-parallel-size == 0 or tensor-parallel-size % model-kv-heads == 0
    | tensor-parallel-size must divide the model's KV heads or be a multiple of them | vLLM QKVParallelLinear: divide()
layers-by-pp | pipeline-parallel-size <= model-layers
    | a pipeline stage would have no layer | vLLM distributed.utils.get_pp_indices
block-fp8-experts | enable-expert-parallel or model-expert-width // (tensor-parallel-size * data-parallel-size
    * prefill-context-parallel-size) % model-fp8-block == 0
    | each GPU's part of an expert must be whole blocks of the FP8 weights: take fewer GPUs or enable-expert-parallel
    | vLLM fp8_utils.validate_fp8_block_shape, Fp8MoEMethod.create_weights: ValueError
dcp-by-tp | tensor-parallel-size % decode-context-parallel-size == 0
    | decode-context-parallel-size must divide tensor-parallel-size | vLLM ParallelConfig validation
tokens-below-sequences | max-num-seqs <= max-num-batched-tokens
    | max-num-batched-tokens is below max-num-seqs: raise the first | vLLM SchedulerConfig validation
tokens-below-context | enable-chunked-prefill or max-model-len <= max-num-batched-tokens
    | without chunked prefill max-num-batched-tokens must reach max-model-len | vLLM SchedulerConfig validation
context-beyond-positions | max-model-len <= model-positions or VLLM_ALLOW_LONG_MAX_MODEL_LEN == "1"
    | max-model-len is beyond what the model's config.json says; VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 lets it pass
    | vLLM config _get_and_verify_max_len: ValueError
expert-balance-without-experts | not enable-eplb or enable-expert-parallel
    | enable-eplb needs enable-expert-parallel | vLLM ParallelConfig: EPLB needs expert parallelism
async-with-speculation@..0.11.1 | not async-scheduling or speculative-config-method == ""
    | vLLM 0.11.0 refuses async-scheduling with speculation | vLLM 0.11.0 EngineArgs.create_engine_config: ValueError
async-with-speculation@0.11.1..0.14 | not async-scheduling or speculative-config-method != "ngram"
    | async-scheduling goes with EAGLE and MTP speculation only | vLLM 0.12.0 VllmConfig.__post_init__: ValueError
async-with-pipeline@..0.11.1 | not async-scheduling or pipeline-parallel-size == 1
    | vLLM 0.11.0 refuses async-scheduling with pipeline parallelism
    | vLLM 0.11.0 EngineArgs.create_engine_config: ValueError
draft-model-refused@..0.12 | speculative-config-method != "draft_model"
    | vLLM 0.11 has no draft_model speculation | vLLM 0.11.0 SpeculativeConfig: NotImplementedError
partial-prefills@..0.12 | max-num-partial-prefills == 1
    | the V1 engine takes no max-num-partial-prefills but 1 | vLLM 0.11.0: concurrent partial prefills are not in V1
"""
)

SGLANG = read(
    _EVERY
    + """
dp-attention-indivisible | not enable-dp-attention or tp-size % dp-size == 0
    | dp-size must divide tp-size under DP attention: the start ends in an assertion without words
    | SGLang 0.5.3 server_args._handle_data_parallelism: assert tp_size % dp_size == 0
attn-dp-indivisible@0.5.22.. | tp-size % attn-dp-size == 0
    | attn-dp-size must divide tp-size | SGLang 0.5.23 server_args: DP attention shares the tensor-parallel group
dp-twice@0.5.22.. | dp-size == 1 or attn-dp-size == 1
    | dp-size and attn-dp-size do not go together | SGLang 0.5.23 server_args: ValueError
heads-by-tp | enable-dp-attention or attn-dp-size > 1 or model-attention-heads % tp-size == 0
    | tp-size must divide the model's attention heads | SGLang models: assert num_heads % attn_tp_size == 0
heads-by-attention-tp | not enable-dp-attention or model-attention-heads % (tp-size // dp-size) == 0
    | tp-size / dp-size must divide the model's attention heads | SGLang models: assert num_heads % attn_tp_size == 0
kv-heads-by-tp | enable-dp-attention or attn-dp-size > 1 or model-kv-heads % tp-size == 0
    or tp-size % model-kv-heads == 0
    | tp-size must divide the model's KV heads or be a multiple of them | SGLang models: assert on total_num_kv_heads
experts-by-ep | model-experts % ep-size == 0 or enable-eplb or ep-num-redundant-experts > 0
    | ep-size must divide the model's experts | SGLang FusedMoE: assert num_experts % moe_ep_size == 0
ep-by-tp | tp-size % ep-size == 0
    | ep-size must divide tp-size: expert parallelism is inside the tensor-parallel group
    | SGLang parallel_state.initialize_model_parallel
block-fp8-experts | moe-a2a-backend != "none" or model-expert-width // (tp-size // ep-size) % model-fp8-block == 0
    | each GPU's part of an expert must be whole blocks of the FP8 weights: take a smaller tp-size or a larger ep-size
    | SGLang Fp8MoEMethod.create_weights: ValueError
layers-by-pp | pp-size <= model-layers
    | a pipeline stage would have no layer | SGLang distributed.utils.get_pp_indices
chunk-by-page | chunked-prefill-size <= 0 or chunked-prefill-size % page-size == 0
    | chunked-prefill-size must be a multiple of page-size | SGLang ServerArgs.check_server_args: assertion
pipeline-alone@..0.5.14 | pp-size == 1 or (speculative-algorithm == "" and not enable-mixed-chunk)
    | pp-size does not go with speculation or enable-mixed-chunk
    | SGLang 0.5.3 to 0.5.10 ServerArgs.check_server_args: assertion
cache-excludes-hicache | not enable-hierarchical-cache or not disable-radix-cache
    | enable-hierarchical-cache needs the radix cache | SGLang server_args: ValueError
speculation-without-steps@..0.5.14 | speculative-algorithm == "" or speculative-algorithm == "NGRAM"
    or speculative-num-steps > 0 or (speculative-eagle-topk == 0 and speculative-num-draft-tokens == 0)
    | give speculative-num-steps, speculative-eagle-topk and speculative-num-draft-tokens all or none
    | SGLang 0.5.3 server_args._handle_speculative_decoding: assertion without words
speculation-with-dp-attention | not enable-dp-attention or dp-size == 1
    or (speculative-algorithm != "STANDALONE" and speculative-algorithm != "NGRAM")
    | STANDALONE and NGRAM speculation do not go with DP attention
    | SGLang 0.5.3 to 0.5.23 server_args, speculative_hook: ValueError
moe-dense-tp@..0.5.14 | moe-dense-tp-size == 1
    | moe-dense-tp-size takes 1 only | SGLang 0.5.3 ServerArgs.check_server_args: assertion
context-beyond-positions | context-length <= model-positions or SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN == "1"
    | context-length is beyond what the model's config.json says
    | SGLang configs.model_config: ValueError without SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1
"""
)

TENSORRT_LLM = read(
    _EVERY
    + """
heads-by-tp | enable_attention_dp or model-attention-heads % tp_size == 0
    | tp_size must divide the model's attention heads | TensorRT-LLM modules.attention: assert
ep-by-tp | ep_size < 1 or tp_size % ep_size == 0
    | ep_size must divide tp_size | TensorRT-LLM mapping.Mapping: moe_tp * moe_ep * moe_cluster must be tp_size
experts-by-ep | ep_size < 1 or model-experts % ep_size == 0
    | ep_size must divide the model's experts | TensorRT-LLM fused_moe: assert num_experts % ep_size
block-fp8-experts | ep_size < 1 or model-expert-width // (tp_size // ep_size) % model-fp8-block == 0
    | each GPU's part of an expert must be whole blocks of the FP8 weights: take a larger ep_size
    | TensorRT-LLM fused_moe quantization (by its documentation)
layers-by-pp | pp_size <= model-layers
    | a pipeline stage would have no layer | TensorRT-LLM mapping.Mapping.pp_layers
"""
)

# What a flag is where nobody asks for it; only what is the same in every version and on every node.
VLLM_DEFAULTS: Mapping[str, Any] = {
    "tensor-parallel-size": 1,
    "pipeline-parallel-size": 1,
    "data-parallel-size": 1,
    "decode-context-parallel-size": 1,
    "prefill-context-parallel-size": 1,
    "enable-expert-parallel": False,
    "enable-eplb": False,
    "enable-chunked-prefill": True,
    "async-scheduling": False,
    "speculative-config-method": "",
    "max-num-partial-prefills": 1,
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "0",
}
SGLANG_DEFAULTS: Mapping[str, Any] = {
    "tp-size": 1,
    "pp-size": 1,
    "dp-size": 1,
    "ep-size": 1,
    "attn-dp-size": 1,
    "enable-dp-attention": False,
    "enable-eplb": False,
    "enable-hierarchical-cache": False,
    "enable-mixed-chunk": False,
    "disable-radix-cache": False,
    "ep-num-redundant-experts": 0,
    "moe-a2a-backend": "none",
    "moe-dense-tp-size": 1,
    "page-size": 1,
    "speculative-algorithm": "",
    "speculative-num-steps": 0,
    "speculative-eagle-topk": 0,
    "speculative-num-draft-tokens": 0,
    "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "0",
}
TENSORRT_LLM_DEFAULTS: Mapping[str, Any] = {"tp_size": 1, "pp_size": 1, "ep_size": -1, "enable_attention_dp": False}

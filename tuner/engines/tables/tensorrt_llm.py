"""TensorRT-LLM's flags and YAML keys, 1.0: facts only.

Sources: TensorRT-LLM commands/serve.py (click options) and llmapi/llm_args.py (TorchLlmArgs fields).
A name is a flag of `trtllm-serve` where it has one; every other name is a key of the YAML file that
`--extra_llm_api_options` takes. The YAML's long names of flags are spellings of the flags.
"""

from __future__ import annotations

from tuner.engines.flags import COUNT, FRACTION, FROM_ZERO, Limits, Table, flags, with_choices, within

_CLI = flags(
    bare="trust_remote_code enable_chunked_prefill fail_fast_on_attention_window_too_large",
    int="""
        max_beam_width max_batch_size max_num_tokens max_seq_len tp_size|tensor_parallel_size
        pp_size|pipeline_parallel_size ep_size|moe_expert_parallel_size cluster_size|moe_cluster_parallel_size
        gpus_per_node num_postprocess_workers
    """,
    float="kv_cache_free_gpu_memory_fraction|free_gpu_memory_fraction",
    str="tokenizer backend log_level reasoning_parser server_role metadata_server_config_file disagg_cluster_uri",
    json="media_io_kwargs",
)

_YAML = flags(
    "file",
    int="context_parallel_size moe_tensor_parallel_size",
    any="""
        allreduce_strategy attention_dp_config attn_backend batch_wait_max_tokens_ratio batch_wait_timeout_iters
        batch_wait_timeout_ms cache_transceiver_config cp_config cuda_graph_config
        decoding_config disable_overlap_scheduler dtype enable_attention_dp enable_autotuner
        enable_iter_perf_stats enable_iter_req_stats enable_layerwise_nvtx_marker enable_lm_head_tp_in_adp
        enable_lora enable_min_latency force_dynamic_quantization garbage_collection_gen0_threshold
        gather_generation_logits guided_decoding_backend iter_stats_max_iterations kv_cache_config
        kv_connector_config load_format lora_config max_input_len max_prompt_adapter_token mm_encoder_only
        moe_config orchestrator_type otlp_traces_endpoint peft_cache_config
        perf_metrics_max_requests prefill_cuda_graph_backend print_iter_log quant_config
        request_stats_max_iterations return_perf_metrics revision sampler_type scheduler_config
        skip_tokenizer_init sparse_attention_config speculative_config stream_interval tokenizer_mode
        tokenizer_revision torch_compile_config use_torch_sampler
    """,
)

_OTHERS = {
    **flags("slot", str="host", int="port"),
    **flags("config", str="extra_llm_api_options|config"),
    **flags("model", str="model"),
}

_CHOICES = {"backend": "pytorch tensorrt trt _autodeploy"}
_LIMITS = {
    COUNT: """
        context_parallel_size gpus_per_node max_batch_size max_beam_width max_num_tokens max_seq_len pp_size tp_size
    """,
    Limits(1, also=(-1,)): "cluster_size ep_size moe_tensor_parallel_size",
    FROM_ZERO: "num_postprocess_workers",
    FRACTION: "kv_cache_free_gpu_memory_fraction",
}

_GONE = {
    "use_cuda_graph": "use cuda_graph_config",
    "cuda_graph_batch_sizes": "use cuda_graph_config: {batch_sizes: [...]}",
    "cuda_graph_padding_enabled": "use cuda_graph_config: {enable_padding: true}",
    "enable_overlap_scheduler": "use disable_overlap_scheduler",
    "kv_cache_dtype": "use kv_cache_config: {dtype: ...}",
    "moe_backend": "use moe_config: {backend: ...}",
    "dp_size": "attention data parallelism is enable_attention_dp, over the tensor-parallel group",
    "served_model_name": "the name is the model's, or its folder's last part",
}

V1_0 = Table(
    "TensorRT-LLM 1.0",
    within(with_choices({**_CLI, **_YAML, **_OTHERS}, _CHOICES), _LIMITS),
    gone=_GONE,
    separator="_",
)

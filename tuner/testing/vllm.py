"""The simulated engine as vLLM 0.11 (or 0.32): `vllm serve MODEL ...`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tuner.testing import dialects, exposition, vllm_flags
from tuner.testing.dialects import Child, Counters, Dialect, Endpoint, Listen, StartFailed
from tuner.testing.performance import Setup


def parse(words: Sequence[str]) -> Vllm:
    """`words` from the program's name on."""
    model, asked = vllm_flags.parse(words)
    return Vllm(model=model, asked=asked)


class Vllm(Dialect):
    name = "vllm"
    versions = ("0.11.0", "0.32.0")
    children = (Child("VLLM::EngineCore", follows_parent=False),)

    @property
    def listen(self) -> Listen:
        return Listen(self.get("host", "0.0.0.0"), self.get("port", 8000), early=True)

    @property
    def served_name(self) -> str:
        return str(self.get("served_model_name", [self.model])[0])

    @property
    def context(self) -> int:
        return int(self.get("max_model_len", self.shape.context))

    @property
    def setup(self) -> Setup:
        replicas = self.get("data_parallel_size", 1)
        expert_parallel = self.get("enable_expert_parallel", False)
        together = replicas > 1 and self.shape.moe  # ranks split attention by request and share the experts
        graphs = self._compilation()["cudagraph_mode"] != "NONE"
        spec = self.get("speculative_config") or {}
        return Setup(
            engine="vllm",
            shape=self.shape,
            tp=self.get("tensor_parallel_size", 1) * (replicas if together else 1),
            pp=self.get("pipeline_parallel_size", 1),
            replicas=1 if together else replicas,
            attention_dp=replicas if together else 1,
            expert_parallel=expert_parallel,
            memory_fraction=self._utilization,
            max_running=self._max_num_seqs * replicas,
            # Simplified: ranks that share experts count as one limit.
            prefill_tokens=self._batched_tokens * (1 if together else replicas),
            graph_batch=max(self._compilation()["cudagraph_capture_sizes"], default=0) if graphs else 0,
            kv_fp8=str(self.get("kv_cache_dtype", "auto")).startswith("fp8"),
            draft_tokens=int(spec.get("num_speculative_tokens", 0)),
            prefix_cache=self.get("enable_prefix_caching", True),
            async_scheduling=self._async_scheduling,
            stream_interval=self.get("stream_interval", 1),
            attention_backend=self._attention_backend,
            all2all=self.get("all2all_backend", os.environ.get("VLLM_ALL2ALL_BACKEND", "")),
            deep_gemm=os.environ.get("VLLM_USE_DEEP_GEMM", "1") != "0",
            kv_gib_limit=self.asked["kv_cache_memory_bytes"] / 2**30 if "kv_cache_memory_bytes" in self.asked else None,
        )

    def start(self) -> Iterator[tuple[float, str]]:
        given = {"model_tag": self.model, **dict(sorted(self.asked.items()))}
        yield 0.0, self._api("INFO", "api_server.py:1839", f"vLLM API server version {self.version}")
        yield 0.0, self._api("INFO", "utils.py:233", f"non-default args: {given}")
        yield 0.05, self._api("INFO", "model.py:547", f"Resolved architecture: {self.shape.architecture}")
        yield 0.0, self._api("INFO", "model.py:1510", f"Using max model len {self.context}")
        if fault := self._invalid():
            yield 0.05, _traceback("vllm/engine/arg_utils.py", "create_engine_config", fault)
            raise StartFailed(1)
        if self._chunked:
            limit = f"max_num_batched_tokens={self._batched_tokens}"
            yield 0.0, self._api("INFO", "scheduler.py:205", f"Chunked prefill is enabled with {limit}.")
        if self._block_size != self.get("block_size", 16):
            text = f"Forcing kv cache block size to {self._block_size} for the MLA backend."
            yield 0.0, self._api("INFO", "cuda.py:124", text)
        if self.get("enforce_eager"):
            yield 0.0, self._api("INFO", "__init__.py:381", "Cudagraph is disabled under eager mode")
        config = f"model='{self.model}', tensor_parallel_size={self.get('tensor_parallel_size', 1)}"
        engine = f"Initializing a V1 LLM engine (v{self.version}) with config: {config}"
        yield 0.2, self._core("INFO", "core.py:77", engine)
        yield 0.05, self._core("INFO", "gpu_model_runner.py:2602", f"Starting to load model {self.model}...")
        memory = self.memory
        if memory.why == "weights" or self.setup.gpus > dialects.gpus_here():
            yield from self._core_failed("load_model", self._start_fault())
        yield 0.1, dialects.progress("Loading safetensors checkpoint shards", 163)
        yield 0.0, self._core("INFO", "default_loader.py:267", "Loading weights took 0.11 seconds")
        loaded = f"Model loading took {memory.weights_gib:.4f} GiB and 0.131 seconds"
        yield 0.0, self._core("INFO", "gpu_model_runner.py:2653", loaded)
        if self._compilation()["level"]:
            yield 0.1, self._core("INFO", "backends.py:559", "Dynamo bytecode transform time: 0.04 s")
            yield 0.1, self._core("INFO", "monitor.py:34", "torch.compile takes 0.09 s in total")
        if memory.why == "kv":
            fault = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."
            yield from self._core_failed("determine_available_memory", fault)
        available = f"Available KV cache memory: {memory.kv_gib:.2f} GiB"
        yield 0.05, self._core("INFO", "gpu_worker.py:298", available)
        yield 0.0, self._core("INFO", "kv_cache_utils.py:1087", f"GPU KV cache size: {memory.kv_tokens:,} tokens")
        most = f"Maximum concurrency for {self.context:,} tokens per request: {memory.kv_tokens / self.context:.2f}x"
        yield 0.0, self._core("INFO", "kv_cache_utils.py:1091", most)
        sizes = self._compilation()["cudagraph_capture_sizes"]
        if sizes and self._compilation()["cudagraph_mode"] != "NONE":
            bar = dialects.progress("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)", len(sizes))
            yield 0.2, bar if memory.fits else bar[: len(bar) // 2]
        if not memory.fits:
            yield from self._core_failed("capture_model", f"torch.OutOfMemoryError: {dialects.cuda_out_of_memory(0.1)}")
        yield 0.0, self._core("INFO", "gpu_model_runner.py:3480", "Graph capturing finished in 0 secs, took 1.71 GiB")
        done = "init engine (profile, create kv cache, warmup model) took 0.31 seconds"
        yield 0.1, self._core("INFO", "core.py:210", done)
        host, port = self.listen.host, self.listen.port
        yield 0.05, self._api("INFO", "api_server.py:1634", f"Starting vLLM API server 0 on http://{host}:{port}")
        yield 0.0, self._api("INFO", "launcher.py:42", "Route: /v1/completions, Methods: POST")
        yield 0.0, f"INFO:     Started server process [{os.getpid()}]\nINFO:     Waiting for application startup.\n"
        yield 0.0, "INFO:     Application startup complete.\n"

    def endpoints(self, counters: Counters, ready: bool) -> Mapping[str, Callable[[], Endpoint]]:
        answers: dict[str, Callable[[], Endpoint]] = {
            "/health": lambda: Endpoint(""),
            "/ping": lambda: Endpoint(""),
            "/v1/models": lambda: Endpoint(dialects.model_card(self, "vllm")),
            "/version": lambda: Endpoint({"version": self.version, "simulated": True}),
            "/load": lambda: Endpoint({"server_load": counters.running}),
            "/metrics": lambda: Endpoint(
                exposition.vllm(self.served_name, self._cache_config(), counters), media="text/plain; version=0.0.4"
            ),
        }
        if os.environ.get("VLLM_SERVER_DEV_MODE") == "1":
            answers["/server_info"] = lambda: Endpoint(self.server_info())
            answers["/reset_prefix_cache"] = lambda: Endpoint("")
        return answers

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = {400: "BadRequestError", 404: "NotFoundError"}.get(status, "InternalServerError")
        return {"error": {"message": message, "type": kind, "param": None, "code": status}}

    def port_taken(self) -> tuple[str, int | None]:
        text = "OSError: [Errno 98] Address already in use"
        return _traceback("vllm/entrypoints/openai/api_server.py", "create_server_socket", text), 1

    def child_died(self) -> tuple[str, int | None]:
        died = "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client."
        dead = "EngineCore encountered an issue. See stack trace (above) for the root cause."
        text = self._api("ERROR", "core_client.py:564", died)
        text += self._api("ERROR", "async_llm.py:480", "AsyncLLM output_handler failed.")
        text += self._api("ERROR", "async_llm.py:480", f"vllm.v1.engine.exceptions.EngineDeadError: {dead}")
        text += "INFO:     Shutting down\nINFO:     Waiting for application shutdown.\n"
        return text + "INFO:     Application shutdown complete.\n", 0

    def stopping(self) -> str:
        text = self._api("INFO", "launcher.py:110", "[shutdown] API server: shutdown triggered")
        return text + "INFO:     Shutting down\n"

    def server_info(self) -> dict[str, Any]:
        """The shape of `/server_info?config_format=json`, the sections that matter."""
        get, spec = self.get, self.get("speculative_config")
        return {
            "simulated": True,
            "vllm_config": {
                "model_config": {
                    "model": self.model,
                    "tokenizer": get("tokenizer", self.model),
                    "dtype": "torch.bfloat16" if get("dtype", "auto") == "auto" else f"torch.{get('dtype')}",
                    "seed": get("seed", 0),
                    "max_model_len": self.context,
                    "quantization": get("quantization", "fp8" if self.shape.mla else None),
                    "enforce_eager": get("enforce_eager", False),
                    "trust_remote_code": get("trust_remote_code", False),
                    "served_model_name": self.served_name,
                },
                "cache_config": self._cache_config(),
                "parallel_config": {
                    "pipeline_parallel_size": get("pipeline_parallel_size", 1),
                    "tensor_parallel_size": get("tensor_parallel_size", 1),
                    "data_parallel_size": get("data_parallel_size", 1),
                    "decode_context_parallel_size": get("decode_context_parallel_size", 1),
                    "enable_expert_parallel": get("enable_expert_parallel", False),
                    "enable_eplb": get("enable_eplb", False),
                    "enable_dbo": get("enable_dbo", False),
                    "all2all_backend": get("all2all_backend"),
                    "disable_custom_all_reduce": get("disable_custom_all_reduce", False),
                    "distributed_executor_backend": get("distributed_executor_backend", "mp"),
                    "world_size": get("tensor_parallel_size", 1) * get("pipeline_parallel_size", 1),
                },
                "scheduler_config": {
                    "runner_type": "generate",
                    "max_num_batched_tokens": self._batched_tokens,
                    "max_num_seqs": self._max_num_seqs,
                    "max_model_len": self.context,
                    "max_num_partial_prefills": get("max_num_partial_prefills", 1),
                    "long_prefill_token_threshold": get("long_prefill_token_threshold", 0),
                    "enable_chunked_prefill": self._chunked,
                    "chunked_prefill_enabled": self._chunked,
                    "policy": get("scheduling_policy", "fcfs"),
                    "async_scheduling": self._async_scheduling,
                    "stream_interval": get("stream_interval", 1),
                },
                "load_config": {"load_format": get("load_format", "auto")},
                "attention_config": {"backend": self._attention_backend or None},
                "speculative_config": None if spec is None else {"model": self.model, **spec},
                "compilation_config": self._compilation(),
                "kv_transfer_config": get("kv_transfer_config"),
                "performance_mode": get("performance_mode", "balanced"),
            },
            "vllm_env": {key: value for key, value in os.environ.items() if key.startswith("VLLM_")},
            "system_env": {"simulated": True},
        }

    @property
    def _old(self) -> bool:
        return self.version.startswith("0.11")

    @property
    def _utilization(self) -> float:
        return float(self.get("gpu_memory_utilization", 0.9 if self._old else 0.92))

    @property
    def _max_num_seqs(self) -> int:
        return int(min(self.get("max_num_seqs", 1024), self._batched_tokens))

    @property
    def _batched_tokens(self) -> int:
        doubled = 2 if self.get("performance_mode") == "throughput" else 1
        return int(self.get("max_num_batched_tokens", 8192 * doubled))

    @property
    def _chunked(self) -> bool:
        """0.11 switches it on for generative models, whatever was asked (EngineArgs._set_default_args)."""
        return True if self._old else bool(self.get("enable_chunked_prefill", True))

    @property
    def _async_scheduling(self) -> bool:
        """Off unless asked for in 0.11; on unless asked against in 0.32."""
        return bool(self.get("async_scheduling", not self._old))

    @property
    def _attention_backend(self) -> str:
        return str(self.get("attention_backend", os.environ.get("VLLM_ATTENTION_BACKEND", ""))).replace("_", "").lower()

    @property
    def _block_size(self) -> int:
        """MLA: FlashMLA forces 64 (also picked for an fp8 KV cache), CUTLASS_MLA 128."""
        if not self.shape.mla:
            return int(self.get("block_size", 16))
        forced = {"flashmla": 64, "cutlassmla": 128, "flashinfermla": 64}.get(self._attention_backend)
        fp8 = str(self.get("kv_cache_dtype", "auto")).startswith("fp8")
        return forced or (64 if fp8 else int(self.get("block_size", 16)))

    def _cache_config(self) -> dict[str, Any]:
        tokens, block = self.memory.kv_tokens, self._block_size
        return {
            "block_size": block,
            "gpu_memory_utilization": self._utilization,
            "swap_space": self.get("swap_space", 4),
            "cache_dtype": self.get("kv_cache_dtype", "auto"),
            "num_gpu_blocks": tokens // block,
            "num_gpu_blocks_override": self.get("num_gpu_blocks_override"),
            "enable_prefix_caching": self.get("enable_prefix_caching", True),
            "cpu_offload_gb": self.get("cpu_offload_gb", 0),
            "kv_cache_memory_bytes": self.get("kv_cache_memory_bytes"),
            "kv_cache_size_tokens": tokens,
            "user_specified_block_size": "block_size" in self.asked,
        }

    def _compilation(self) -> dict[str, Any]:
        asked = dict(self.get("compilation_config") or {})
        eager = self.get("enforce_eager", False)
        level = asked.get("level", asked.get("mode", 0 if eager and not self._old else 3))
        sizes = self.get("cuda_graph_sizes") or self.get("cudagraph_capture_sizes")
        most = self.get("max_cudagraph_capture_size", min(2 * self._max_num_seqs, 512))
        if sizes and len(sizes) == 1 and self._old:
            most, sizes = sizes[0], None
        made = sizes or [1, 2, 4, *range(8, most + 1, 8)]
        none = eager or asked.get("cudagraph_mode") == "NONE"
        return {
            "level": level,
            "mode": level,
            "cudagraph_mode": "NONE" if none else asked.get("cudagraph_mode", "FULL_AND_PIECEWISE"),
            "cudagraph_capture_sizes": [] if none else [size for size in made if size <= self._batched_tokens],
            "max_capture_size": 0 if none else max(made),
        }

    def _invalid(self) -> str:
        """The fault that stops the start before anything is loaded; '' if none."""
        for flag in ("max_num_seqs", "max_num_batched_tokens", "tensor_parallel_size"):
            if self.get(flag, 1) < 1:
                field = f"{flag}\n  Input should be greater than or equal to 1"
                return f"pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig\n{field}"
        if not 0 < self._utilization <= 1:
            return f"ValueError: gpu_memory_utilization must be in (0, 1] (got {self._utilization})."
        if self._batched_tokens < self.get("max_num_seqs", 1):
            seqs = self.get("max_num_seqs")
            return (
                f"ValueError: max_num_batched_tokens ({self._batched_tokens}) must be greater than or equal to "
                f"max_num_seqs ({seqs})."
            )
        if self._old and self.get("async_scheduling") and self.get("speculative_config"):
            return "ValueError: Currently, speculative decoding is not supported with async scheduling."
        return ""

    def _start_fault(self) -> str:
        if self.setup.gpus > dialects.gpus_here():
            return "torch.AcceleratorError: CUDA error: invalid device ordinal"
        return f"torch.OutOfMemoryError: {dialects.cuda_out_of_memory(0.1)}"

    def _core_failed(self, where: str, fault: str) -> Iterator[tuple[float, str]]:
        yield 0.0, "\n" + self._core("ERROR", "core.py:708", "EngineCore failed to start.")
        for line in _traceback("vllm/v1/engine/core.py", where, fault).splitlines():
            yield 0.0, self._core("ERROR", "core.py:708", line)
        last = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
        yield 0.05, _traceback("vllm/v1/engine/utils.py", "wait_for_engine_startup", last)
        raise StartFailed(1)

    def _api(self, level: str, place: str, text: str) -> str:
        return f"(APIServer pid={os.getpid()}) {level} {time.strftime('%m-%d %H:%M:%S')} [{place}] {text}\n"

    def _core(self, level: str, place: str, text: str) -> str:
        return f"(EngineCore_DP0 pid={self.child_pid}) {level} {time.strftime('%m-%d %H:%M:%S')} [{place}] {text}\n"


def _traceback(file: str, function: str, error: str) -> str:
    """A traceback as short as one can be."""
    return f'Traceback (most recent call last):\n  File "{file}", line 1, in {function}\n{error}\n'

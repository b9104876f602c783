"""The simulated engine as TensorRT-LLM 1.0 with the PyTorch backend: `trtllm-serve MODEL ...`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from tuner.testing import dialects, exposition
from tuner.testing.dialects import Child, Counters, Dialect, Endpoint, Listen, StartFailed
from tuner.testing.performance import Setup

_FLAGS = {
    "int": "port tp_size|tensor_parallel_size pp_size cp_size ep_size|moe_expert_parallel_size cluster_size "
    "gpus_per_node max_batch_size max_num_tokens max_seq_len max_beam_width num_postprocess_workers",
    "float": "kv_cache_free_gpu_memory_fraction|free_gpu_memory_fraction",
    "str": "host tokenizer extra_llm_api_options|config reasoning_parser tool_parser log_level chat_template",
    "switch": "trust_remote_code enable_chunked_prefill fail_fast_on_attention_window_too_large",
}


def parse(words: Sequence[str]) -> TensorRTLLM:
    """`words` from the program's name on; `serve` is the default sub-command. Unknown flags are click's error."""
    words = list(words[1:])
    if words[:1] == ["serve"]:
        words = words[1:]
    parser = _Parser(prog="trtllm-serve", add_help=False, allow_abbrev=False)
    parser.add_argument("model", nargs="?", default=argparse.SUPPRESS)
    parser.add_argument("--backend", choices=("pytorch", "tensorrt", "_autodeploy"), default=argparse.SUPPRESS)
    dialects.add_flags(parser, _FLAGS)
    asked = vars(parser.parse_args(words))
    if "model" not in asked:
        parser.error("Missing argument 'MODEL'.")
    return TensorRTLLM(model=asked.pop("model"), asked=asked)


class TensorRTLLM(Dialect):
    name = "tensorrt-llm"
    versions = ("1.0.0",)
    children = (Child("mpi4py.futures.server", follows_parent=True),)

    @property
    def listen(self) -> Listen:
        return Listen(self.get("host", "localhost"), self.get("port", 8000), early=True)

    @property
    def served_name(self) -> str:
        """The last part of the model's path, as `trtllm-serve` names it."""
        return self.model.rstrip("/").rsplit("/", 1)[-1] if os.path.isdir(self.model) else self.model

    @property
    def context(self) -> int:
        return int(self.effective["max_seq_len"])

    @cached_property
    def effective(self) -> dict[str, Any]:
        """The LLM arguments; the options file is merged last, so it beats the command line (1.0 to 1.2)."""
        kv = {"free_gpu_memory_fraction": self.get("kv_cache_free_gpu_memory_fraction", 0.9), "dtype": "auto"}
        args = {
            "backend": self.get("backend", "pytorch"),
            "tensor_parallel_size": self.get("tp_size", 1),
            "pipeline_parallel_size": self.get("pp_size", 1),
            "moe_expert_parallel_size": self.get("ep_size", 1),
            "max_batch_size": self.get("max_batch_size", 2048),
            "max_num_tokens": self.get("max_num_tokens", 8192),
            "max_seq_len": self.get("max_seq_len", self.shape.context),
            "enable_chunked_prefill": self.get("enable_chunked_prefill", False),
            "enable_attention_dp": False,
            "kv_cache_config": {**kv, "enable_block_reuse": True},
            "cuda_graph_config": {"max_batch_size": 128},
            "speculative_config": None,
            "disable_overlap_scheduler": False,
            "stream_interval": 1,
            "enable_iter_perf_stats": False,
        }
        return args | self._options()

    @property
    def setup(self) -> Setup:
        args = self.effective
        tp = args["tensor_parallel_size"]
        ranks = tp if args["enable_attention_dp"] else 1
        kv, graphs = args["kv_cache_config"] or {}, args["cuda_graph_config"]
        spec = args["speculative_config"] or {}
        return Setup(
            engine="tensorrt-llm",
            shape=self.shape,
            tp=tp,
            pp=args["pipeline_parallel_size"],
            attention_dp=ranks,
            expert_parallel=args["moe_expert_parallel_size"] > 1,
            memory_fraction=kv.get("free_gpu_memory_fraction", 0.9),
            max_running=args["max_batch_size"] * ranks,
            prefill_tokens=args["max_num_tokens"] * ranks,
            graph_batch=0 if graphs is None else graphs.get("max_batch_size", 128),
            kv_fp8=kv.get("dtype") == "fp8",
            draft_tokens=spec.get("num_nextn_predict_layers", spec.get("max_draft_len", 0)),
            prefix_cache=kv.get("enable_block_reuse", True),
            overlap=not args["disable_overlap_scheduler"],
            stream_interval=args["stream_interval"],
        )

    def start(self) -> Iterator[tuple[float, str]]:
        yield 0.0, f"[TensorRT-LLM] TensorRT-LLM version: {self.version}\n"
        yield 0.05, self._line(f"Using LLM with {self.effective['backend'].capitalize()} backend")
        yield 0.0, self._line(f"LLM Args:\n{self.effective}")
        if self.setup.gpus > dialects.gpus_here():
            fault = f"world_size {self.setup.gpus} is greater than the number of GPUs {dialects.gpus_here()}"
            yield 0.0, f"Traceback (most recent call last):\nValueError: {fault}\n"
            raise StartFailed(1)
        yield 0.3, self._line("Rank 0: loading checkpoint")
        yield 0.2, dialects.progress("Loading weights", 2050)
        memory = self.memory
        if memory.why == "weights":
            yield from self._failed()
        yield 0.1, self._line(f"[MemUsageChange] Allocated {memory.kv_gib:.2f} GiB for max tokens in paged KV cache")
        if not memory.fits:
            yield from self._failed()
        yield 0.3, self._line("Run generation only CUDA graph warmup for batch size=128")
        yield 0.05, f"INFO:     Started server process [{os.getpid()}]\nINFO:     Waiting for application startup.\n"
        host = f"http://{self.listen.host}:{self.listen.port}"
        yield 0.0, "INFO:     Application startup complete.\n"
        yield 0.0, f"INFO:     Uvicorn running on {host} (Press CTRL+C to quit)\n"

    def endpoints(self, counters: Counters, ready: bool) -> Mapping[str, Callable[[], Endpoint]]:
        stats = exposition.tensorrt_llm(counters) if self.effective["enable_iter_perf_stats"] else []
        return {
            "/health": lambda: Endpoint("", 200 if ready else 503),
            "/v1/models": lambda: Endpoint(dialects.model_card(self, "tensorrt_llm")),
            "/version": lambda: Endpoint({"version": self.version, "simulated": True}),
            "/metrics": lambda: Endpoint(stats),
            "/server_info": lambda: Endpoint({"simulated": True, "disaggregated_params": None}),
        }

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = {400: "BadRequestError", 404: "NotFoundError"}.get(status, "InternalServerError")
        return {"object": "error", "message": message, "type": kind, "param": None, "code": status}

    def port_taken(self) -> tuple[str, int | None]:
        where = f"{self.listen.host}:{self.listen.port}"
        fault = f"RuntimeError: Failed to bind socket to {where}: [Errno 98] Address already in use"
        return f"Traceback (most recent call last):\n{fault}\n", 1

    def child_died(self) -> tuple[str, int | None]:
        return self._line("MPI worker 0 has died", "E"), None

    def stopping(self) -> str:
        return "INFO:     Shutting down\n"

    def _options(self) -> dict[str, Any]:
        file = self.get("extra_llm_api_options")
        if not file:
            return {}
        import yaml  # here, so that a start without such a file does not pay for it

        with open(file, encoding="utf-8") as text:
            options = yaml.safe_load(text)
        return options or {}

    def _failed(self) -> Iterator[tuple[float, str]]:
        yield 0.0, self._line("Executor worker returned error", "E")
        fault = f"torch.OutOfMemoryError: {dialects.cuda_out_of_memory(0.1)}"
        cause = "RuntimeError: Executor creation failed due to insufficient GPU memory."
        yield 0.05, f"Traceback (most recent call last):\n{fault}\n{cause}\n"
        raise StartFailed(1)

    def _line(self, text: str, level: str = "I") -> str:
        return f"[{time.strftime('%m/%d/%Y-%H:%M:%S')}] [TRT-LLM] [{level}] {text}\n"


class _Parser(argparse.ArgumentParser):
    """argparse with click's words for what it does not know."""

    def error(self, message: str) -> Any:
        unknown = message.removeprefix("unrecognized arguments: ")
        text = message if unknown == message else f"No such option: {unknown.split()[0]}"
        print(f"Usage: trtllm-serve serve [OPTIONS] MODEL\n\nError: {text}", file=sys.stderr)
        raise SystemExit(2)

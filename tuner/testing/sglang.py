"""The simulated engine as SGLang 0.5.3: `python3 -m sglang.launch_server --model-path MODEL ...`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from tuner.testing import dialects, exposition, sglang_args
from tuner.testing.dialects import Child, Counters, Dialect, Endpoint, Listen, StartFailed
from tuner.testing.performance import GPU_GIB, Setup


def parse(words: Sequence[str]) -> SGLang:
    """`words` from the program's name on."""
    model, asked = sglang_args.parse(words)
    return SGLang(model=model, asked=asked)


class SGLang(Dialect):
    name = "sglang"
    versions = ("0.5.3",)
    children = (Child("sglang::scheduler", follows_parent=True), Child("sglang::detokenizer", follows_parent=True))
    stop = "drain"
    models_before_ready = True

    @property
    def listen(self) -> Listen:
        return Listen(self.get("host", "127.0.0.1"), self.get("port", 30000), early=False)

    @property
    def served_name(self) -> str:
        return str(self.get("served_model_name", self.model))

    @property
    def context(self) -> int:
        return int(self.get("context_length", self.shape.context))

    @property
    def setup(self) -> Setup:
        args = self.effective
        dp, dp_attention = args["dp_size"], args["enable_dp_attention"]
        chunk = args["chunked_prefill_size"]
        running = args["max_running_requests"] or 4096
        backend = args["attention_backend"]
        return Setup(
            engine="sglang",
            shape=self.shape,
            tp=args["tp_size"],
            pp=args["pp_size"],
            replicas=1 if dp_attention else dp,
            attention_dp=dp if dp_attention else 1,
            expert_parallel=args["ep_size"] > 1,
            memory_fraction=args["mem_fraction_static"],
            max_running=max(1, running if dp_attention else running * dp),
            prefill_tokens=(chunk if chunk > 0 else args["max_prefill_tokens"]) * dp,
            graph_batch=0 if args["disable_cuda_graph"] else args["cuda_graph_max_bs"],
            kv_fp8=args["kv_cache_dtype"].startswith("fp8"),
            torch_compile=args["enable_torch_compile"],
            draft_tokens=(args["speculative_num_draft_tokens"] or 1) - 1 if args["speculative_algorithm"] else 0,
            prefix_cache=not args["disable_radix_cache"],
            overlap=not args["disable_overlap_schedule"],
            decode_steps=args["num_continuous_decode_steps"],
            stream_interval=args["stream_interval"],
            attention_backend="" if backend == "fa3" else backend,
            all2all=args["moe_a2a_backend"] or "",
            deep_gemm=os.environ.get("SGLANG_ENABLE_JIT_DEEPGEMM", "1") != "0",
            kv_tokens_limit=args["max_total_tokens"],
        )

    @cached_property
    def effective(self) -> dict[str, Any]:
        return sglang_args.effective(self.asked, self.model, self.shape.mla)

    def start(self) -> Iterator[tuple[float, str]]:
        args = self.effective
        yield 0.0, self._line("Attention backend not explicitly specified. Use fa3 backend by default.")
        if args["speculative_algorithm"] and "max_running_requests" not in self.asked:
            text = (
                "Max running requests is reset to 48 for speculative decoding. "
                "You can override this by explicitly setting --max-running-requests."
            )
            yield 0.0, self._line(text)
        if args["enable_dp_attention"]:
            text = f"DP attention is enabled. The chunked prefill size is adjusted to {args['chunked_prefill_size']} "
            yield 0.0, self._line(text + "to avoid MoE kernel issues. ")
        shown = ", ".join(f"{key}={value!r}" for key, value in args.items())
        yield 0.05, self._line(f"server_args=ServerArgs({shown})")
        if fault := self._invalid():
            yield 0.0, _traceback("sglang/srt/server_args.py", "check_server_args", fault)
            raise StartFailed(1)
        yield 0.15, self._line("Init torch distributed begin.")
        if self.setup.gpus > dialects.gpus_here():
            yield from self._scheduler_failed("torch.AcceleratorError: CUDA error: invalid device ordinal")
        yield 0.05, self._line("Init torch distributed ends. elapsed=0.02 s, mem usage=1.12 GB")
        memory = self.memory
        yield 0.0, self._line(f"Load weight begin. avail mem={GPU_GIB - 1.2:.2f} GB")
        if memory.why == "weights":
            yield from self._scheduler_failed(f"torch.OutOfMemoryError: {dialects.cuda_out_of_memory(0.1)}")
        yield 0.1, dialects.progress("Loading safetensors checkpoint shards", 163)
        left = GPU_GIB - 1.2 - memory.weights_gib
        loaded = f"type={self.shape.architecture}, dtype=torch.bfloat16, avail mem={left:.2f} GB"
        yield 0.0, self._line(f"Load weight end. elapsed=0.12 s, {loaded}, mem usage={memory.weights_gib:.2f} GB.")
        if memory.why == "kv":
            fault = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
            yield from self._scheduler_failed(fault)
        tokens = memory.kv_tokens // self.setup.attention_dp // self.setup.replicas
        yield 0.1, self._line(f"KV Cache is allocated. #tokens: {tokens}, KV size: {memory.kv_gib:.2f} GB")
        free = left - memory.kv_gib
        yield 0.0, self._line(f"Memory pool end. avail mem={free:.2f} GB")
        if not args["disable_cuda_graph"]:
            text = f"Capture cuda graph begin. This can take up to several minutes. avail mem={free:.2f} GB"
            yield 0.0, self._line(text)
            bar = dialects.progress(f"Capturing batches (bs={args['cuda_graph_max_bs']} avail_mem={free:.2f} GB)", 52)
            yield 0.2, bar if memory.fits else bar[: len(bar) // 2]
        if not memory.fits:
            advice = "Possible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)"
            fault = f"Exception: Capture cuda graph failed: {dialects.cuda_out_of_memory(free)}\n{advice}"
            yield from self._scheduler_failed(fault)
        captured = f"Time elapsed: 0.21 s. mem usage=2.02 GB. avail mem={free:.2f} GB."
        yield 0.1, self._line(f"Capture cuda graph end. {captured}")
        yield (
            0.1,
            self._line(
                f"max_total_num_tokens={tokens}, chunked_prefill_size={args['chunked_prefill_size']}, "
                f"max_prefill_tokens={args['max_prefill_tokens']}, max_running_requests={self._running_per_rank}, "
                f"context_len={self.context}, available_gpu_mem={free:.2f} GB"
            ),
        )
        yield 0.1, self._line(f"INFO:     Started server process [{os.getpid()}]")
        yield 0.0, self._line("INFO:     Waiting for application startup.")
        yield 0.0, self._line("INFO:     Application startup complete.")

    def endpoints(self, counters: Counters, ready: bool) -> Mapping[str, Callable[[], Endpoint]]:
        health = Endpoint("", 200 if ready else 503)
        answers: dict[str, Callable[[], Endpoint]] = {
            "/health": lambda: health,
            "/health_generate": lambda: health,
            "/ping": lambda: Endpoint(""),
            "/v1/models": lambda: Endpoint(dialects.model_card(self, "sglang")),
            "/get_model_info": lambda: Endpoint({"model_path": self.model, "is_generation": True}),
            "/model_info": lambda: Endpoint({"model_path": self.model, "is_generation": True}),
            "/get_server_info": lambda: Endpoint(self.server_info(counters)),
            "/server_info": lambda: Endpoint(self.server_info(counters)),
            "/flush_cache": lambda: Endpoint("Cache flushed.\n", 400 if counters.running else 200, "text/plain"),
            "/get_load": lambda: Endpoint([{"dp_rank": 0, "num_reqs": counters.running}]),
        }
        if self.get("enable_metrics"):
            answers["/metrics"] = lambda: Endpoint(
                exposition.sglang(self.served_name, self.memory.kv_tokens, counters), media="text/plain; version=0.0.4"
            )
        return answers

    def server_info(self, counters: Counters) -> dict[str, Any]:
        """The shape of `/get_server_info`: the HTTP process's ServerArgs, then each scheduler's own."""
        memory = self.memory
        state = {
            **self.effective,
            "effective_max_running_requests_per_dp": self._running_per_rank,
            "last_gen_throughput": 0.0,
            "memory_usage": {
                "weight": round(memory.weights_gib, 2),
                "kvcache": round(memory.kv_gib, 2),
                "token_capacity": memory.kv_tokens,
                "graph": 2.02,
            },
        }
        return {
            "simulated": True,
            "model_path": self.model,
            "served_model_name": self.served_name,
            **self.effective,
            "status": "ready",
            "max_total_num_tokens": memory.kv_tokens,
            "max_req_input_len": self.context - 6,
            "internal_states": [state] * self.setup.attention_dp,
            "version": self.version,
        }

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = {400: "BadRequestError", 404: "NotFoundError"}.get(status, "InternalServerError")
        return {"object": "error", "message": message, "type": kind, "param": None, "code": status}

    def port_taken(self) -> tuple[str, int | None]:
        address = f"('{self.listen.host}', {self.listen.port})"
        text = f"ERROR:    [Errno 98] error while attempting to bind on address {address}: address already in use"
        return self._line(text) + self._line("INFO:     Waiting for application shutdown."), None

    def child_died(self) -> tuple[str, int | None]:
        text = self._line("Rank 0 scheduler is dead. Triggering SIGQUIT")
        return text + self._line("SIGQUIT received. signum=None, frame=None. It usually means one child failed."), -9

    def stopping(self) -> str:
        return self._line("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")

    def returncode(self) -> int:
        return -9

    @property
    def _running_per_rank(self) -> int:
        args = self.effective
        asked = args["max_running_requests"] or 4096
        return max(1, asked // (args["dp_size"] if args["enable_dp_attention"] else 1))

    def _invalid(self) -> str:
        """The fault that stops the start before anything is loaded; '' if none."""
        args = self.effective
        if args["enable_dp_attention"] and args["tp_size"] % args["dp_size"]:
            return "AssertionError"
        if args["speculative_algorithm"] and args["enable_dp_attention"] and args["speculative_algorithm"] == "NGRAM":
            return "ValueError: Currently ngram speculative decoding does not support dp attention."
        if "speculative_eagle_topk" in self.asked and "speculative_num_steps" not in self.asked:
            return "AssertionError"
        if args["chunked_prefill_size"] > 0 and args["chunked_prefill_size"] % args["page_size"]:
            return "AssertionError: chunked_prefill_size must be divisible by page_size"
        return ""

    def _scheduler_failed(self, fault: str) -> Iterator[tuple[float, str]]:
        """A scheduler's exception: it tells its parent, which kills its whole tree and so itself."""
        text = _traceback("sglang/srt/managers/scheduler.py", "run_scheduler_process", fault)
        yield 0.0, "\n" + self._line(f"Scheduler hit an exception: {text}")
        yield 0.05, self._line("Received sigquit from a child process. It usually means the child failed.")
        raise StartFailed(-9)

    def _line(self, text: str) -> str:
        return f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}\n"


def _traceback(file: str, function: str, error: str) -> str:
    return f'Traceback (most recent call last):\n  File "{file}", line 1, in {function}\n{error}\n'

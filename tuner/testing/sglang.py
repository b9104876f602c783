"""The simulated engine as SGLang 0.5.3: `python3 -m sglang.launch_server --model-path MODEL ...`."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from tuner.testing import dialects
from tuner.testing.dialects import Child, Counters, Dialect, Endpoint, Listen, StartFailed
from tuner.testing.performance import GPU_GIB, GPU_MIB, Setup

_FLAGS = {
    "int": "port tp-size|tensor-parallel-size pp-size|pipeline-parallel-size dp-size|data-parallel-size "
    "ep-size|expert-parallel-size|ep context-length max-running-requests max-queued-requests max-total-tokens "
    "chunked-prefill-size max-prefill-tokens page-size cuda-graph-max-bs torch-compile-max-bs nccl-port "
    "num-continuous-decode-steps stream-interval speculative-num-steps speculative-eagle-topk "
    "speculative-num-draft-tokens random-seed watchdog-timeout scheduler-recv-interval tokenizer-worker-num "
    "base-gpu-id nnodes node-rank moe-dense-tp-size ep-num-redundant-experts hicache-size",
    "float": "mem-fraction-static schedule-conservativeness hicache-ratio speculative-accept-threshold-single "
    "speculative-accept-threshold-acc",
    "str": "host served-model-name tokenizer-path tokenizer-mode load-format dtype quantization schedule-policy "
    "load-balance-method attention-backend prefill-attention-backend decode-attention-backend sampling-backend "
    "grammar-backend moe-runner-backend moe-a2a-backend deepep-mode speculative-draft-model-path dist-init-addr "
    "device log-level reasoning-parser tool-call-parser chat-template api-key revision download-dir "
    "hicache-write-policy hicache-io-backend hicache-mem-layout hicache-storage-backend config model-impl "
    "json-model-override-args mm-attention-backend",
    "ints": "cuda-graph-bs",
    "switch": "enable-dp-attention enable-dp-lm-head enable-torch-compile enable-mixed-chunk disable-radix-cache "
    "disable-cuda-graph disable-cuda-graph-padding disable-overlap-schedule trust-remote-code enable-metrics "
    "enable-two-batch-overlap enable-eplb enable-hierarchical-cache enable-lmcache skip-server-warmup "
    "skip-tokenizer-init enable-nccl-nvls enable-symm-mem disable-custom-all-reduce enable-cache-report "
    "enable-p2p-check enable-deterministic-inference disable-shared-experts-fusion enable-memory-saver "
    "disable-chunked-prefix-cache disable-outlines-disk-cache log-requests sleep-on-idle is-embedding",
}
_SPECULATIVE = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM")
_KV_TYPES = ("auto", "fp8_e5m2", "fp8_e4m3")
_PAGES = {"flashmla": 64, "cutlass_mla": 128, "trtllm_mla": 64}
_USAGE = "sglang.launch_server [-h] --model-path MODEL_PATH [options]"


def parse(words: Sequence[str]) -> SGLang:
    """`words` from the program's name on. Abbreviated flags are taken, as SGLang's own parser does."""
    words = [word for word in words[1:] if word != "serve"]
    asked = vars(_parser().parse_args(words))
    return SGLang(model=asked.pop("model_path"), asked=asked)


class SGLang(Dialect):
    name = "sglang"
    versions = ("0.5.3",)
    children = (Child("sglang::scheduler", follows_parent=True), Child("sglang::detokenizer", follows_parent=True))
    stop = "drain"
    early_listen = False
    models_before_ready = True
    port_taken_hangs = True

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
        """ServerArgs after `__post_init__`: what was asked with what SGLang 0.5.3 makes of it."""
        args = self._defaults()
        args.update(self.asked)
        self._speculation(args)
        if args["cuda_graph_bs"]:
            args["cuda_graph_max_bs"] = max(args["cuda_graph_bs"])
        if args["cuda_graph_max_bs"] is None:  # by memory and tensor parallelism, as for a GPU of over 90 GiB
            args["cuda_graph_max_bs"] = 512 if args["tp_size"] >= 4 else 256
        if args["mem_fraction_static"] is None:  # before data parallelism is handled: the source of 0.897 -> 0.881
            args["mem_fraction_static"] = _memory_fraction(args)
        if args["dp_size"] == 1:
            args["enable_dp_attention"] = args["enable_dp_lm_head"] = False
        if args["enable_dp_attention"]:
            args["schedule_conservativeness"] = round(args["schedule_conservativeness"] * 0.3, 6)
            args["chunked_prefill_size"] //= args["dp_size"]
        if args["moe_a2a_backend"] == "deepep":
            args["ep_size"] = args["tp_size"]
        if args["pp_size"] > 1:
            args["disable_overlap_schedule"] = True
        args["page_size"] = _PAGES.get(args["attention_backend"] or "", args["page_size"] or 1)
        args["attention_backend"] = args["attention_backend"] or "fa3"
        return args

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
            answers["/metrics"] = lambda: Endpoint(self._metrics(counters), media="text/plain; version=0.0.4")
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

    def child_died(self, request_running: bool) -> tuple[str, int | None]:
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

    def _defaults(self) -> dict[str, Any]:
        """Every flag that is not given, at ServerArgs' default."""
        kinds = {"switch": False, "int": None, "float": None, "str": None, "ints": None}
        names = {kind: [name.split("|")[0].replace("-", "_") for name in text.split()] for kind, text in _FLAGS.items()}
        defaults = {name: kinds[kind] for kind, group in names.items() for name in group}
        return defaults | {
            "speculative_algorithm": None,
            "kv_cache_dtype": "auto",
            "host": "127.0.0.1",
            "port": 30000,
            "tp_size": 1,
            "pp_size": 1,
            "dp_size": 1,
            "ep_size": 1,
            "chunked_prefill_size": 8192,
            "max_prefill_tokens": 16384,
            "schedule_policy": "fcfs",
            "schedule_conservativeness": 1.0,
            "num_continuous_decode_steps": 1,
            "stream_interval": 1,
            "load_format": "auto",
            "dtype": "auto",
            "load_balance_method": "round_robin",
            "torch_compile_max_bs": 32,
            "watchdog_timeout": 300,
            "moe_a2a_backend": "none",
            "moe_runner_backend": "auto",
            "deepep_mode": "auto",
            "random_seed": 42,
            "served_model_name": self.model,
            "tokenizer_path": self.model,
        }

    def _speculation(self, args: dict[str, Any]) -> None:
        if args["speculative_algorithm"] == "NEXTN":
            args["speculative_algorithm"] = "EAGLE"
        if not args["speculative_algorithm"]:
            return
        if args["max_running_requests"] is None:
            args["max_running_requests"] = 48
        args["disable_overlap_schedule"] = True
        args["enable_mixed_chunk"] = False
        if args["speculative_num_steps"] is None:
            args.update(speculative_num_steps=3, speculative_eagle_topk=1, speculative_num_draft_tokens=4)
        if args["speculative_eagle_topk"] == 1:
            args["speculative_num_draft_tokens"] = args["speculative_num_steps"] + 1
        if self.shape.mla:
            args["speculative_draft_model_path"] = self.model

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

    def _metrics(self, counters: Counters) -> str:
        labels = {"model_name": self.served_name, "tp_rank": "0", "pp_rank": "0"}
        hit_rate = counters.cached_tokens / counters.prompt_tokens if counters.prompt_tokens else 0.0
        return dialects.prometheus(
            labels,
            {
                "sglang:num_running_reqs": counters.running,
                "sglang:num_queue_reqs": counters.waiting,
                "sglang:token_usage": counters.kv_usage,
                "sglang:cache_hit_rate": hit_rate,
                "sglang:max_total_num_tokens": self.memory.kv_tokens,
                "sglang:prompt_tokens_total": counters.prompt_tokens,
                "sglang:generation_tokens_total": counters.generated_tokens,
                "sglang:num_requests_total": counters.finished,
            },
        )

    def _line(self, text: str) -> str:
        return f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="launch_server.py", usage=_USAGE, add_help=False)
    parser.add_argument("--model-path", "--model", required=True)
    parser.add_argument("--speculative-algorithm", choices=_SPECULATIVE, default=argparse.SUPPRESS)
    parser.add_argument("--kv-cache-dtype", choices=_KV_TYPES, default=argparse.SUPPRESS)
    dialects.add_flags(parser, _FLAGS)
    return parser


def _memory_fraction(args: Mapping[str, Any]) -> float:
    """SGLang 0.5.3 ServerArgs._handle_gpu_memory_settings: what it keeps free, in MiB, of an H200."""
    chunk = args["chunked_prefill_size"] if args["chunked_prefill_size"] > 0 else args["max_prefill_tokens"]
    graph = args["cuda_graph_max_bs"]
    reserved = 512 + max(chunk, 2048) * 1.5 + graph * 2 + args["tp_size"] * args["pp_size"] / 8 * 1024
    if args["enable_dp_attention"]:
        reserved += graph * args["dp_size"] * (4.5 if graph > 300 else 3)
    reserved = max(reserved, 10 * 1024)
    if args["speculative_algorithm"]:
        reserved += 6 * 1024 if args["speculative_algorithm"] == "STANDALONE" else 2 * 1024
    return float(round((GPU_MIB - reserved) / GPU_MIB, 3))


def _traceback(file: str, function: str, error: str) -> str:
    return f'Traceback (most recent call last):\n  File "{file}", line 1, in {function}\n{error}\n'

"""SGLang's ServerArgs as the simulated engine takes them, and what 0.5.3 makes of them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.testing import dialects
from tuner.testing.performance import GPU_MIB

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


def parse(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The model and the flags given, by name; `words` from the program's name on. Abbreviations are taken.

    Raises:
        SystemExit: as SGLang would refuse them.
    """
    asked = vars(_parser().parse_args([word for word in words[1:] if word != "serve"]))
    return asked.pop("model_path"), asked


def effective(asked: Mapping[str, Any], model: str, mla: bool) -> dict[str, Any]:
    """ServerArgs after `__post_init__`: what was asked with what SGLang 0.5.3 makes of it."""
    args = _defaults(model)
    args.update(asked)
    _speculation(args, model, mla)
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


def _defaults(model: str) -> dict[str, Any]:
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
        "served_model_name": model,
        "tokenizer_path": model,
    }


def _speculation(args: dict[str, Any], model: str, mla: bool) -> None:
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
    if mla:
        args["speculative_draft_model_path"] = model

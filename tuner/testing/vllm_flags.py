"""vLLM's command line as the simulated engine takes it."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from tuner.testing import dialects

_FLAGS = {
    "int": "port tensor-parallel-size|-tp pipeline-parallel-size|-pp data-parallel-size|-dp "
    "decode-context-parallel-size|-dcp data-parallel-size-local|-dpl api-server-count|-asc block-size "
    "max-num-partial-prefills max-long-partial-prefills long-prefill-token-threshold num-gpu-blocks-override "
    "stream-interval seed max-logprobs prefill-context-parallel-size|-pcp shutdown-timeout "
    "max-cudagraph-capture-size max-parallel-loading-workers dbo-decode-token-threshold num-lookahead-slots",
    "float": "gpu-memory-utilization swap-space cpu-offload-gb kv-offloading-size",
    "str": "host tokenizer dtype quantization|-q kv-cache-dtype scheduling-policy download-dir load-format "
    "tokenizer-mode revision all2all-backend distributed-executor-backend chat-template reasoning-parser "
    "tool-call-parser uvicorn-log-level attention-backend moe-backend linear-backend performance-mode config "
    "api-key generation-config runner mm-encoder-tp-mode kv-offloading-backend data-parallel-backend spec-method "
    "spec-model chat-template-content-format prefix-caching-hash-algo hf-token data-parallel-address",
    "strs": "served-model-name allowed-origins middleware",
    "ints": "cuda-graph-sizes cudagraph-capture-sizes",
    "json": "speculative-config|-sc kv-transfer-config hf-overrides limit-mm-per-prompt eplb-config "
    "override-generation-config additional-config attention-config|-ac default-chat-template-kwargs rope-scaling",
    "switch": "enforce-eager trust-remote-code enable-expert-parallel|-ep enable-prefix-caching enable-chunked-prefill "
    "async-scheduling enable-dbo enable-eplb disable-custom-all-reduce enable-auto-tool-choice disable-log-stats "
    "enable-log-requests enable-lora disable-cascade-attn disable-hybrid-kv-cache-manager enable-sleep-mode headless "
    "enable-server-load-tracking calculate-kv-scales disable-sliding-window skip-tokenizer-init enable-prompt-embeds "
    "disable-uvicorn-access-log disable-log-requests",
}
_HUMAN = "max-model-len max-num-batched-tokens max-num-seqs kv-cache-memory-bytes"
_OPTIMIZATION_LEVELS = {"0": 0, "1": 1, "2": 2, "3": 3}


def parse(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The model and the flags given, by name; `words` from the program's name on.

    Raises:
        SystemExit: as vLLM would refuse them.
    """
    if PurePath(words[0]).name == "vllm":
        if words[1:2] != ["serve"]:
            print("usage: vllm [-h] [-v] {chat,complete,serve,bench,collect-env,run-batch} ...", file=sys.stderr)
            raise SystemExit(2)
        words = words[1:]
    asked = vars(_parser().parse_args(_normalised(words[1:])))
    positional, named = asked.pop("model_tag", None), asked.pop("model", None)
    return positional or named or "Qwen/Qwen3-0.6B", asked


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vllm serve", usage="vllm serve [model_tag] [options]", add_help=False)
    parser.add_argument("model_tag", nargs="?", default=argparse.SUPPRESS)
    parser.add_argument("--model", default=argparse.SUPPRESS)
    parser.add_argument("--compilation-config", "-cc", "-O", type=_compilation, default=argparse.SUPPRESS)
    dialects.add_flags(parser, _FLAGS, negatable=True)
    for name in _HUMAN.split():
        parser.add_argument(f"--{name}", type=_human_int, default=argparse.SUPPRESS)
    return parser


def _normalised(words: Sequence[str]) -> list[str]:
    """`_` for `-`, `-O3` as two words, and `--speculative-config.method ngram` as JSON."""
    normal: list[str] = []
    nested: dict[str, dict[str, Any]] = {}
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            flag = flag.replace("_", "-") if "." not in flag else flag
        if match := re.fullmatch(r"-O(\d|=.+)", word):
            normal += ["-O", match[1].lstrip("=")]
        elif flag.startswith("--") and "." in flag:
            name, key = flag.split(".", 1)
            text = value if equals else next(rest, "")
            nested.setdefault(name.replace("_", "-"), {})[key] = int(text) if text.isdigit() else text
        else:
            normal.append(flag + equals + value)
    for name, content in nested.items():
        normal += [name, json.dumps(content)]
    return normal


def _compilation(text: str) -> Any:
    return {"level": _OPTIMIZATION_LEVELS[text]} if text in _OPTIMIZATION_LEVELS else dialects.as_json(text)


def _human_int(text: str) -> int:
    """`8k` is 8000, `8K` is 8192."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgG]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}")
    powers = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "K": 1024, "M": 1024**2, "G": 1024**3}
    return int(float(match[1]) * powers[match[2]])

"""What the tests of reading share: engines of a few flags, and a study that is right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.engines import Engine, FlagError
from tuner.errors import SpecError
from tuner.spec import StudySpec, studyfile
from tuner.trial import Settings, Value

FLAGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "vllm": {
        "tensor-parallel-size": ("tp", "tensor_parallel_size"),
        "max-model-len": ("max_model_len",),
        "max-num-seqs": ("max_num_seqs",),
        "max-num-batched-tokens": ("max_num_batched_tokens",),
        "enable-prefix-caching": (),
        "compilation-config": (),
    },
    "sglang": {
        "tp-size": ("tp", "tensor-parallel-size"),
        "enable-dp-attention": (),
        "enable-torch-compile": (),
        "max-running-requests": (),
        "speculative-algorithm": (),
    },
    "tensorrt-llm": {"tp-size": ("tp_size",), "ep-size": ("ep_size",)},
}
PROGRAMS = {"vllm": ["vllm", "serve"], "tensorrt-llm": ["trtllm-serve"]}


class Adapter:
    """An engine that knows the flags above: any value but a negative number."""

    def __init__(self, name: str, version: str) -> None:
        self.name, self.version = name, version

    def canonical(self, args: Mapping[str, Value]) -> dict[str, Value]:
        made: dict[str, Value] = {}
        for name, value in args.items():
            flag = self._flag(name)
            if isinstance(value, (int, float)) and value < 0:
                raise FlagError(name, "must not be negative", "write 0 or more")
            if flag in made and made[flag] != value:
                raise FlagError(name, f"says --{flag} again, with another value", "keep one")
            made[flag] = value
        return made

    def parse(self, argv: list[str], env: Mapping[str, str] | None = None) -> Settings:
        words = argv[len(PROGRAMS[self.name]) :]
        args: dict[str, Value] = {}
        for flag, value in zip(words[1::2], words[2::2], strict=True):
            args[self._flag(flag.lstrip("-"))] = int(value) if value.isdigit() else value
        return Settings(self.name, words[0], args, dict(env or {}))

    def gpus(self, settings: Settings) -> int:
        return int(str(settings.args.get(self._flag("tp" if self.name != "tensorrt-llm" else "tp_size"), 1)))

    def refusals(self, settings: Settings, gpus: int | None = None, model: object = None) -> tuple[()]:
        return ()

    def _flag(self, name: str) -> str:
        for flag, aliases in FLAGS[self.name].items():
            if name == flag or name in aliases:
                return flag
        raise FlagError(name, f"{self.name} has no such flag", "look at its --help")


def adapters(name: str, version: str | None) -> Engine:
    if version is not None and not version[:1].isdigit():
        raise SpecError(f"{name} {version} is not a version known here")
    made: Any = Adapter(name, version or "1.0")
    return made  # type: ignore[no-any-return]


STUDY = """\
model: deepseek-ai/DeepSeek-R1-0528
search_space: space.yaml
node: {gpus: 8, foreign: wait 30m, port: 8000}
engines:
  vllm:
    version: 0.11.0
    launcher: {type: process, path: bin, prefix: numactl -N 0}
    args: {max-model-len: 65536}
    env: {VLLM_USE_V1: 1, FACTOR: "1.10"}
    start_timeout: 40m
  sglang: {version: 0.5.3, launcher: {type: attach, url: "http://127.0.0.1:30000"}, stall_timeout: 90s}
workloads:
  sharegpt: {dataset: sharegpt, path: data/sharegpt.json, num_prompts: 1000, max_concurrency: 64}
  short: {dataset: random, input_len: 128, output_len: 4, request_rate: 2.5, seed: 42, endpoint: chat}
benchmark: {client: tuner, warmup: 8, repeats: 2, timeout: 1h}
objective: {maximize: total_token_throughput, workload: sharegpt, limits: {p99_ttft_ms: 30000}}
compare_on: [short]
method: {base: normal, beam: 1, min_gain: 0.02, confirm: 1}
budget: {wall_time: 1h30m, until: 08:00, trials: 60}
storage: sqlite:///study.db
"""

SPACE = """\
stages:
  - name: engine
    options:
      vllm: {vllm: {args: {-tp: 8}}}
      sglang: {sglang: {args: {--tp-size: 8}}}
      tensorrt-llm: {tensorrt-llm: {args: {tp_size: 8}}}
  - name: parallelism
    options:
      default: {}
      dp-attention: {sglang: {args: {enable-dp-attention: true}, env: {A: null}, replicas: 2}}
      trt-only: {tensorrt-llm: {args: {ep_size: 8}}}
  - name: torch-compile
    options:
      off: {}
      on: {sglang: {args: {enable-torch-compile: true}}, vllm: {args: {compilation-config: {level: 3}}}}
  - name: speculative
    with: {torch-compile: on, parallelism: trt-only}
    options:
      none: {}
      eagle: {sglang: {args: {speculative-algorithm: EAGLE}, model: /models/eagle}}
  - name: batching
    search: {sampler: tpe, trials: 12}
    parameters:
      max_num_batched_tokens: {vllm: {type: int, low: 2048, high: 65536, log: true}}
      max-num-seqs: {vllm: {type: int, low: 64, high: 1024, step: 64}}
    rules: ["max_num_seqs <= max-num-batched-tokens"]
"""


def write(folder: Path, study: str = STUDY, space: str = SPACE) -> Path:
    (folder / "study.yaml").write_text(study, encoding="utf-8")
    (folder / "space.yaml").write_text(space, encoding="utf-8")
    return folder


def load(folder: Path, study: str = STUDY, space: str = SPACE, method: str | None = None) -> StudySpec:
    return studyfile.load(write(folder, study, space), method, adapters)


def faults(folder: Path, study: str = STUDY, space: str = SPACE, method: str | None = None) -> list[str]:
    """Every fault as text, with the folder left out of it."""
    try:
        load(folder, study, space, method)
    except SpecError as error:
        return [str(fault).replace(f"{folder}/", "") for fault in error.faults]
    return []

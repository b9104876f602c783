"""Everything wrong that people may write: every fault at once, in words, with its place; never a traceback."""

# ruff: noqa: E501  (a message stands in one line)

from __future__ import annotations

import copy
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.written import SPACE, STUDY, adapters, faults, write
from tuner import driving, spec
from tuner.errors import SpecError, TunerError
from tuner.node.locks import study_lock
from tuner.objective import METHODS
from tuner.spec import StudySpec, studyfile, yamlfile

LENGTHS = "write a number and a unit: 90s, 30m, 8h or 1h30m"


def fault(folder: Path, *changes: tuple[str, str], method: str | None = None) -> str:
    """The one fault that these replacements, in the study or in the space, lead to."""
    study, space = STUDY, SPACE
    for old, new in changes:
        assert (old in study) != (old in space), f"{old!r} must stand in one of the two"
        study, space = study.replace(old, new, 1), space.replace(old, new, 1)
    found = faults(folder, study, space, method)
    assert len(found) == 1, found
    return found[0]


IN_THE_STUDY = [
    # the study itself
    (
        "model: deepseek-ai/DeepSeek-R1-0528",
        "model: 3",
        'study.yaml:1: model: must be text (got 3); quote it: "3"',
    ),
    (
        "model: deepseek-ai/DeepSeek-R1-0528",
        "model: --help",
        "study.yaml:1: model: is not the name or path of a model (got '--help'); "
        "write it as the engine takes it: deepseek-ai/DeepSeek-R1-0528",
    ),
    ("model: deepseek-ai/DeepSeek-R1-0528\n", "", "study.yaml:1: model is missing"),
    ("model: deepseek-ai/DeepSeek-R1-0528", "model:", "study.yaml:1: model: is empty"),
    (
        "search_space: space.yaml",
        "search_space: deepseek-r1-h100",
        "study.yaml:2: search_space: there is no search space of this name (got 'deepseek-r1-h100'); "
        "did you mean deepseek-r1-h200?; a path has a / or ends in .yaml",
    ),
    (
        "search_space: space.yaml",
        "search_space: [a]",
        "study.yaml:2: search_space: must be the name of a search space, a path, or stages (got a list of 1); "
        "tuner spaces lists the names",
    ),
    (
        "storage:",
        "storag:",
        "study.yaml:20: storag: is not a key that is known here (got 'sqlite:///study.db'); did you mean storage?",
    ),
    (
        "sqlite:///study.db",
        "study.db",
        "study.yaml:20: storage: must be a database URL (got 'study.db'); "
        "write sqlite:///study.db or postgresql://host/name, or leave it out",
    ),
    # node
    (
        "gpus: 8",
        "gpus: -1",
        "study.yaml:3: node.gpus: must say which GPUs (got -1); "
        "write a number, 0, auto, a list of UUIDs or {simulated: 8}",
    ),
    (
        "gpus: 8",
        "gpus: [GPU-1, GPU-1]",
        "study.yaml:3: node.gpus: a GPU is listed twice (got a list of 2); name each GPU once",
    ),
    (
        "gpus: 8",
        "gpus: {simulated: many}",
        "study.yaml:3: node.gpus: must be {simulated: a whole number from 1 to 1024} (got a mapping of simulated); "
        "write a number, 0, auto, a list of UUIDs or {simulated: 8}",
    ),
    (
        "wait 30m",
        "wait",
        "study.yaml:3: node.foreign: must say what to do when others are on the GPUs (got 'wait'); "
        "write refuse, warn or wait with a time, such as wait 30m",
    ),
    ("wait 30m", "wait soon", f"study.yaml:3: node.foreign: must be a duration (got 'wait soon'); {LENGTHS}"),
    ("port: 8000", "port: 70000", "study.yaml:3: node.port: must be at most 65535 (got 70000)"),
    (
        "port: 8000",
        "prot: 8000",
        "study.yaml:3: node.prot: is not a key that is known here (got 8000); did you mean port?",
    ),
    # engines
    (
        "  sglang: {version",
        "  sgl: {version",
        "study.yaml:11: engines.sgl: there is no engine of this name (got 'sgl'); did you mean sglang?",
    ),
    (
        "version: 0.11.0",
        "version: 1.10",
        'study.yaml:6: engines.vllm.version: must be text (got 1.10); quote it: "1.10"',
    ),
    (
        "version: 0.11.0",
        "version: newest",
        "study.yaml:6: engines.vllm.version: vllm newest is not a version known here (got 'newest')",
    ),
    (
        "type: process",
        "type: docker",
        "study.yaml:7: engines.vllm.launcher.type: this version has no such launcher yet (got 'docker'); "
        "launchers are process, attach",
    ),
    (
        "type: process",
        "type: proces",
        "study.yaml:7: engines.vllm.launcher.type: there is no launcher of this type (got 'proces'); "
        "did you mean process?",
    ),
    (
        "prefix: numactl -N 0",
        "perfix: numactl",
        "study.yaml:7: engines.vllm.launcher.perfix: is not a key that is known here (got 'numactl'); "
        "did you mean prefix?",
    ),
    (
        "prefix: numactl -N 0",
        "simulated: true",
        "study.yaml:7: engines.vllm.launcher.path: a simulated engine is not looked for in a folder (got 'bin'); "
        "keep path or simulated",
    ),
    (
        "args: {max-model-len: 65536}",
        "args: {max-model-length: 65536}",
        "study.yaml:8: engines.vllm.args.max-model-length: vllm has no such flag (got 65536); look at its --help",
    ),
    (
        "args: {max-model-len: 65536}",
        "args: [a]",
        "study.yaml:8: engines.vllm.args: must be a mapping (got a list of 1)",
    ),
    (
        'FACTOR: "1.10"',
        "FACTOR: 1.10",
        'study.yaml:9: engines.vllm.env.FACTOR: must be text (got 1.10); quote it: "1.10"',
    ),
    (
        'FACTOR: "1.10"',
        "HF_TOKEN: hf_abc",
        "study.yaml:9: engines.vllm.env.HF_TOKEN: a secret does not belong in a study (got 'HF_TOKEN'); "
        "set it in the shell that runs the tuner: servers inherit it",
    ),
    (
        'FACTOR: "1.10"',
        "CUDA_VISIBLE_DEVICES: 0",
        "study.yaml:9: engines.vllm.env.CUDA_VISIBLE_DEVICES: is set by the tuner for every launch "
        "(got 'CUDA_VISIBLE_DEVICES'); leave it out; GPUs are chosen by node: {gpus: ...}",
    ),
    (
        'FACTOR: "1.10"',
        "A-B: x",
        "study.yaml:9: engines.vllm.env.A-B: is not the name of an environment variable (got 'A-B'); "
        "use letters, digits and _",
    ),
    (
        "start_timeout: 40m",
        "start_timeout: 40",
        f"study.yaml:10: engines.vllm.start_timeout: must be a duration (got 40); {LENGTHS}",
    ),
    (
        "start_timeout: 40m",
        "start_timeout: 0s",
        f"study.yaml:10: engines.vllm.start_timeout: must be a duration (got '0s'); {LENGTHS}",
    ),
    (
        '"http://127.0.0.1:30000"',
        "localhost",
        "study.yaml:11: engines.sglang.launcher.url: is not an http address (got 'localhost'); "
        "write http://127.0.0.1:8000",
    ),
    (
        ', url: "http://127.0.0.1:30000"',
        "",
        "study.yaml:11: engines.sglang.launcher: url is missing",
    ),
    # workloads
    (
        "dataset: sharegpt",
        "dataset: sharegtp",
        "study.yaml:13: workloads.sharegpt.dataset: is not one of the values known here (got 'sharegtp'); "
        "did you mean sharegpt?",
    ),
    (
        " path: data/sharegpt.json,",
        "",
        "study.yaml:13: workloads.sharegpt: dataset sharegpt needs the file to read "
        "(got a mapping of dataset, num_prompts, max_concurrency); add path: ShareGPT_V3_unfiltered_cleaned_split.json",
    ),
    (
        "dataset: random",
        "dataset: random, path: x.json",
        "study.yaml:14: workloads.short.path: does nothing with dataset random (got 'x.json'); leave it out",
    ),
    (
        "num_prompts: 1000",
        "num_prompts: 0",
        "study.yaml:13: workloads.sharegpt.num_prompts: must be at least 1 (got 0)",
    ),
    (
        "num_prompts: 1000",
        "num_prompts: 1_000",
        "study.yaml:13: workloads.sharegpt.num_prompts: must be a whole number (got '1_000')",
    ),
    (
        "num_prompts: 1000",
        "num_prompts: true",
        "study.yaml:13: workloads.sharegpt.num_prompts: must be a whole number (got true)",
    ),
    (
        "num_prompts: 1000",
        "num_prompts: null",
        "study.yaml:13: workloads.sharegpt.num_prompts: must be a whole number (got null)",
    ),
    (
        "request_rate: 2.5",
        "request_rate: inf",
        "study.yaml:14: workloads.short.request_rate: must be a number (got 'inf')",
    ),
    (
        "request_rate: 2.5",
        "ignore_eos: yes",
        "study.yaml:14: workloads.short.ignore_eos: must be true or false (got 'yes')",
    ),
    (
        "request_rate: 2.5",
        "range_ratio: 1.0",
        "study.yaml:14: workloads.short.range_ratio: must be less than 1 (got 1.0)",
    ),
    # benchmark
    (
        "client: tuner",
        "client: guidellm",
        "study.yaml:15: benchmark.client: there is no benchmark client of this name (got 'guidellm'); "
        "clients are tuner",
    ),
    (
        "warmup: 8",
        "warmup: yes",
        "study.yaml:15: benchmark.warmup: must be auto or a number of requests (got 'yes'); write auto, or 0 for none",
    ),
    ("repeats: 2", "repeats: 0", "study.yaml:15: benchmark.repeats: must be at least 1 (got 0)"),
    (
        "timeout: 1h",
        "timeout: 1 hour",
        f"study.yaml:15: benchmark.timeout: must be a duration (got '1 hour'); {LENGTHS}",
    ),
    # objective
    (
        "maximize: total_token_throughput",
        "maximize: total_token_throughputs",
        "study.yaml:16: objective.maximize: there is no metric of this name (got 'total_token_throughputs'); "
        "did you mean total_token_throughput?",
    ),
    (
        "maximize: total_token_throughput",
        "maximize: mean_ttft_ms",
        "study.yaml:16: objective.maximize: more of this is worse (got 'mean_ttft_ms'); write minimize: mean_ttft_ms",
    ),
    (
        "maximize: total_token_throughput",
        "minimize: output_throughput",
        "study.yaml:16: objective.minimize: less of this is worse (got 'output_throughput'); "
        "write maximize: output_throughput",
    ),
    (
        "maximize: total_token_throughput",
        "maximize: total_token_throughput, minimize: duration",
        "study.yaml:16: objective: there is one objective: maximize or minimize "
        "(got a mapping of maximize, minimize, workload, limits); keep one, put the other under limits",
    ),
    (
        "workload: sharegpt,",
        "workload: sharegtp,",
        "study.yaml:16: objective.workload: there is no workload of this name (got 'sharegtp'); did you mean sharegpt?",
    ),
    (
        "workload: sharegpt,",
        "",
        "study.yaml:16: objective: must say which of several workloads decides; write objective: {workload: sharegpt}",
    ),
    (
        "p99_ttft_ms: 30000",
        "p99_tft_ms: 30000",
        "study.yaml:16: objective.limits.p99_tft_ms: there is no metric of this name (got 'p99_tft_ms'); "
        "did you mean p99_ttft_ms?",
    ),
    (
        "p99_ttft_ms: 30000",
        "output_throughput: 30000",
        "study.yaml:16: objective.limits.output_throughput: a limit is the most a metric may be, and more of this is "
        "better (got 'output_throughput'); limit a latency or duration",
    ),
    (
        "p99_ttft_ms: 30000",
        "p99_ttft_ms: 0",
        "study.yaml:16: objective.limits.p99_ttft_ms: must be more than 0 (got 0)",
    ),
    # compare_on, method, budget
    (
        "compare_on: [short]",
        "compare_on: [shrt]",
        "study.yaml:17: compare_on[0]: there is no workload of this name (got 'shrt'); did you mean short?",
    ),
    (
        "compare_on: [short]",
        "compare_on: [short, short]",
        "study.yaml:17: compare_on[1]: the workload is listed twice (got 'short'); name it once",
    ),
    ("compare_on: [short]", "compare_on: short", "study.yaml:17: compare_on: must be a list (got 'short')"),
    (
        "method: {base: normal, beam: 1, min_gain: 0.02, confirm: 1}",
        "method: thorough",
        "study.yaml:18: method: this version does not have this method yet (got 'thorough'); "
        "methods are published, normal",
    ),
    (
        "method: {base: normal, beam: 1, min_gain: 0.02, confirm: 1}",
        "method: publishd",
        "study.yaml:18: method: there is no method of this name (got 'publishd'); did you mean published?",
    ),
    (
        "min_gain: 0.02",
        "undo: true",
        "study.yaml:18: method.undo: this version does not have this part of a method yet (got true); leave it out",
    ),
    ("beam: 1", "beam: 0", "study.yaml:18: method.beam: must be at least 1 (got 0)"),
    (
        "min_gain: 0.02",
        "mingain: 0.02",
        "study.yaml:18: method.mingain: is not a key that is known here (got 0.02); did you mean min_gain?",
    ),
    ("wall_time: 1h30m", "wall_time: 8", f"study.yaml:19: budget.wall_time: must be a duration (got 8); {LENGTHS}"),
    (
        "until: 08:00",
        "until: 25:00",
        "study.yaml:19: budget.until: must be a clock time (got '25:00'); write hours and minutes: \"08:00\"",
    ),
    ("trials: 60", "trials: 0", "study.yaml:19: budget.trials: must be at least 1 (got 0)"),
    # the baseline's command
    (
        "storage:",
        "baseline: {command: vllm serve m --nope 1}\nstorage:",
        "study.yaml:20: baseline.command: nope: vllm has no such flag; look at its --help",
    ),
    (
        "storage:",
        "baseline: {command: trtllm-serve m}\nstorage:",
        "study.yaml:20: baseline.command: starts tensorrt-llm, which is no engine of this study; "
        "list tensorrt-llm under engines, or leave the baseline out",
    ),
    (
        "storage:",
        'baseline: {command: "vllm serve \'m"}\nstorage:',
        "study.yaml:20: baseline.command: is not a command line: no closing quotation; check its quotes",
    ),
    ("storage:", "baseline: {}\nstorage:", "study.yaml:20: baseline: command is missing"),
    (
        "storage:",
        "baseline: {command: A=1}\nstorage:",
        "study.yaml:20: baseline.command: holds no command; write the command that runs today",
    ),
]

IN_THE_SPACE = [
    # names
    ("name: batching", "name: speculative", "space.yaml:21: stages[4].name: there is a stage of this name already (got 'speculative'); give one of them another name"),
    ("name: batching", "name: max-num-seqs", "space.yaml:23: stages[4].parameters: there is a stage named max-num-seqs, and a parameter is chosen by name too; rename the stage"),
    ("max-num-seqs: {vllm", "max-num-batched-tokens: {vllm", "space.yaml:25: stages[4].parameters.max-num-batched-tokens.vllm: is the flag max-num-batched-tokens again; keep one of the two"),
    ("    rules:", "  - {name: again, parameters: {max_num_seqs: {vllm: {type: int, low: 1, high: 2}}}}\n  - name: more\n    parameters: {tp: {vllm: {type: int, low: 1, high: 2}}}\n    rules:", "space.yaml:26: stages[5].parameters.max_num_seqs.vllm: is the flag max-num-seqs again; keep one of the two"),
    ("name: batching", "name: confirm", "space.yaml:21: stages[4].name: is the name of a phase of the search, not of a stage (got 'confirm'); choose another name"),
    ("name: batching", "name: a/b", "space.yaml:21: stages[4].name: is not a name (got 'a/b'); begin with a letter or digit, at most 100 characters, no / and no line break"),
    ("      off: {}", "      on: {}", "space.yaml:15: stages[2].options.on: the name is given twice (first in line 14); keep one of the two"),
    ("      off: {}", "      1.10: {}", 'space.yaml:14: stages[2].options.1.10: a name must be text; quote it: "1.10"'),
    # stages and options
    ("    rules:", "    with: {batching: x}\n    rules:", "space.yaml:26: stages[4].with.batching: is not an earlier stage (got 'batching'); earlier stages are engine, parallelism, torch-compile, speculative"),
    ("with: {torch-compile: on,", "with: {torch-compil: on,", "space.yaml:17: stages[3].with.torch-compil: there is no stage of this name (got 'torch-compil'); did you mean torch-compile?"),
    ("with: {torch-compile: on,", "with: {batching: on,", "space.yaml:17: stages[3].with.batching: is not an earlier stage (got 'batching'); earlier stages are engine, parallelism, torch-compile"),
    ("with: {torch-compile: on,", "with: {torch-compile: onn,", "space.yaml:17: stages[3].with.torch-compile: stage torch-compile has no option of this name (got 'onn'); did you mean on?"),
    ("with: {torch-compile: on,", "with: {torch-compile: true,", 'space.yaml:17: stages[3].with.torch-compile: must be text (got true); quote it: "true"'),
    ("      none: {}", "      none:", "space.yaml:19: stages[3].options.none: must be a mapping (got nothing); write {} for none"),
    ("      vllm: {vllm: {args: {-tp: 8}}}", "      vllm: {}", "space.yaml:4: stages[0].options.vllm: an option of the first stage must name exactly one engine, for none is chosen yet (got 'none'); name one of vllm, sglang, or list one engine in the study"),
    ("      vllm: {vllm: {args: {-tp: 8}}}", "      vllm: {vllm: {}, sglang: {}}", "space.yaml:4: stages[0].options.vllm: an option of the first stage must name exactly one engine, for none is chosen yet (got 'vllm, sglang'); name one of vllm, sglang, or list one engine in the study"),
    ("      default: {}", "      default: {args: {}}", "space.yaml:9: stages[1].options.default.args: is not an engine (got 'args'); name the engine around it: {vllm: {args: ...}}"),
    ("{tensorrt-llm: {args: {ep_size: 8}}}", "{tensorrt-lm: {args: {ep_size: 8}}}", "space.yaml:11: stages[1].options.trt-only.tensorrt-lm: there is no engine of this name (got 'tensorrt-lm'); did you mean tensorrt-llm?"),
    ("enable-dp-attention: true", "enable-dp: true", "space.yaml:10: stages[1].options.dp-attention.sglang.args.enable-dp: sglang has no such flag (got true); look at its --help"),
    ("-tp: 8}", "-tp: -8}", "space.yaml:4: stages[0].options.vllm.vllm.args.-tp: must not be negative (got -8); write 0 or more"),
    ("-tp: 8}", "-tp: 8, tp: 4}", "space.yaml:4: stages[0].options.vllm.vllm.args.-tp: the flag is given twice; keep one"),
    ("-tp: 8}", "-tp: 8, tensor-parallel-size: 4}", "space.yaml:4: stages[0].options.vllm.vllm.args.tensor-parallel-size: says --tensor-parallel-size again, with another value (got 4); keep one"),
    ("-tp: 8}", "max_model_len: 4096}", "space.yaml:4: stages[0].options.vllm.vllm.args.max_model_len: the stage varies max-model-len, which engines.vllm.args fixes to 65536 (got 4096); take it out of engines.vllm, or out of the stage"),
    ("-tp: 8}", "-tp: 8}, env: {FACTOR: '2'}", "space.yaml:4: stages[0].options.vllm.vllm.env.FACTOR: the stage varies FACTOR, which engines.vllm.env fixes to '1.10' (got '2'); take it out of engines.vllm, or out of the stage"),
    ("replicas: 2", "replicas: 0", "space.yaml:10: stages[1].options.dp-attention.sglang.replicas: must be at least 1 (got 0)"),
    ("replicas: 2", "replicas: 1.5", "space.yaml:10: stages[1].options.dp-attention.sglang.replicas: must be a whole number (got 1.5)"),
    ("replicas: 2", "replica: 2", "space.yaml:10: stages[1].options.dp-attention.sglang.replica: is not a key that is known here (got 2); did you mean replicas?"),
    ("model: /models/eagle", "model: 1", 'space.yaml:20: stages[3].options.eagle.sglang.model: must be text (got 1); quote it: "1"'),
    # parameters
    ("low: 2048", "low: 65536", "space.yaml:24: stages[4].parameters.max_num_batched_tokens.vllm.low: must be less than high (65536) (got 65536); swap or widen them"),
    ("low: 2048", "low: 0", "space.yaml:24: stages[4].parameters.max_num_batched_tokens.vllm.low: must be more than 0 on a logarithmic scale (got 0); leave out log, or raise low"),
    ("low: 2048", "low: 0.5", "space.yaml:24: stages[4].parameters.max_num_batched_tokens.vllm.low: must be a whole number for type int (got 0.5); write type: float"),
    ("low: 2048", "low: two", "space.yaml:24: stages[4].parameters.max_num_batched_tokens.vllm.low: must be a number (got 'two')"),
    ("low: 2048, ", "", "space.yaml:24: stages[4].parameters.max_num_batched_tokens.vllm: a range needs low and high (got a mapping of type, high, log); add both"),
    ("low: 64, high: 1024", "low: -64, high: 1024", "space.yaml:25: stages[4].parameters.max-num-seqs.vllm: must not be negative (got -64); write 0 or more"),
    ("step: 64", "step: 0", "space.yaml:25: stages[4].parameters.max-num-seqs.vllm.step: must be more than 0, and cannot be combined with log (got 0); leave out one"),
    ("step: 64", "choices: [1]", "space.yaml:25: stages[4].parameters.max-num-seqs.vllm.choices: does not belong to a parameter of type int (got a list of 1); write type: categorical"),
    ("type: int, low: 64, high: 1024, step: 64", "type: categorical", "space.yaml:25: stages[4].parameters.max-num-seqs.vllm: a categorical parameter needs choices (got a mapping of type); add choices: [a, b]"),
    ("type: int, low: 64, high: 1024, step: 64", "type: categorical, choices: [8, 8]", "space.yaml:25: stages[4].parameters.max-num-seqs.vllm.choices: a choice is listed twice (got a list of 2); name each once"),
    ("type: int, low: 64", "type: integer, low: 64", "space.yaml:25: stages[4].parameters.max-num-seqs.vllm.type: is not one of the values known here (got 'integer'); did you mean int?"),
    ("type: int, low: 64", "low: 64", "space.yaml:25: stages[4].parameters.max-num-seqs.vllm: type is missing"),
    ("max-num-seqs: {vllm", "max-model-len: {vllm", "space.yaml:25: stages[4].parameters.max-model-len.vllm: the stage varies max-model-len, which engines.vllm.args fixes; take it out of engines.vllm.args, or out of the stage"),
    ("max-num-seqs: {vllm", "tensor_parallel_size: {vllm: {type: int, low: 1, high: 2}}\n      tp: {vllm", "space.yaml:26: stages[4].parameters.tp.vllm: is the flag tensor-parallel-size again; keep one of the two"),
    ("sampler: tpe", "sampler: grid", "space.yaml:22: stages[4].search.sampler: is not one of the values known here (got 'grid'); they are tpe, random"),
    ("trials: 12", "trials: 100000", "space.yaml:22: stages[4].search.trials: must be at most 1000 (got 100000)"),
    ("    rules:", "    options: {a: {}}\n    rules:", "space.yaml:21: stages[4]: a stage has options or parameters, not both; make two stages of it"),
    ("  - name: torch-compile\n", "  - name: torch-compile\n    search: {trials: 3}\n", "space.yaml:13: stages[2].search: belongs to a stage with parameters; all options are tried; leave it out"),
    # rules
    ("max_num_seqs <=", "max_num_seq <=", "space.yaml:26: stages[4].rules[0]: no engine here has the flag max_num_seq (got 'max_num_seq <= max-num-batched-tokens'); did you mean max-num-seqs?"),
    ("max_num_seqs <=", "open('x') <=", "space.yaml:26: stages[4].rules[0]: the rule is not made of comparisons, + - * / // %, and, or, not, names and numbers alone (got \"open('x') <= max-num-batched-tokens\"); write a comparison of flags and numbers: max_num_seqs <= max_num_batched_tokens"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"), IN_THE_STUDY, ids=[new.strip() or "-" for _, new, _ in IN_THE_STUDY]
)
def test_a_fault_in_the_study(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert fault(tmp_path, (old, new)) == message


@pytest.mark.parametrize(
    ("old", "new", "message"), IN_THE_SPACE, ids=[new.strip() or "-" for _, new, _ in IN_THE_SPACE]
)
def test_a_fault_in_the_space(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert fault(tmp_path, (old, new)) == message


REAL = """\
model: m
engines:
  vllm: {version: 0.32.0}
  sglang: {version: 0.5.3}
search_space:
  stages:
    - name: engine
      options:
        vllm: {vllm: {args: {gpu-memory-utilization: 0.9}}}
        sglang: {sglang: {args: {mem-fraction-static: 0.9}}}
workloads: {w: {}}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gpu-memory-utilization: 0.9", "max-num-seqs: eight", "max-num-seqs: takes a whole number (got 'eight')"),
        (
            "gpu-memory-utilization: 0.9",
            "max-num-seqs: true",
            "max-num-seqs: needs a value (got true); write the value in place of true",
        ),
        (
            "gpu-memory-utilization: 0.9",
            "gpu-memory-utilization: 7.5",
            "gpu-memory-utilization: takes more than 0 and at most 1 (got 7.5)",
        ),
        (
            "mem-fraction-static: 0.9",
            "dtype: flaot16",
            "dtype: is not one of its values (got 'flaot16'); did you mean float16? they are auto, half, float16, "
            "bfloat16, float, float32",
        ),
        (
            "gpu-memory-utilization: 0.9",
            "api-key: sk-abc",
            "api-key: a secret does not belong in a study; "
            "set what the server needs in the shell that runs the tuner: servers inherit it",
        ),
        (
            "gpu-memory-utilization: 0.9",
            "api_kee_token: sk-abc",
            "api_kee_token: vLLM 0.32 has no such flag; did you mean --spec-tokens?",
        ),
    ],
)
def test_a_flag_s_value_is_told_once_and_a_secret_never(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "study.yaml").write_text(REAL.replace(old, new))
    with pytest.raises(SpecError) as refused:
        spec.load(tmp_path)
    (told,) = refused.value.faults
    assert str(told).endswith(message)
    assert told.line in (9, 10)
    assert "sk-abc" not in str(told)


def test_a_range_of_a_flag_that_takes_whole_numbers_is_one_of_whole_numbers(tmp_path: Path) -> None:
    stage = "    - {name: width, parameters: {max-num-seqs: {vllm: {type: float, low: 8.0, high: 64.0}}}}\n"
    (tmp_path / "study.yaml").write_text(REAL.replace("workloads:", stage + "workloads:"))
    with pytest.raises(SpecError, match=r"max-num-seqs.vllm: takes whole numbers \(got 'float'\); write type: int"):
        spec.load(tmp_path)


def test_a_secret_in_the_wrong_place_is_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(REAL + "api_key: sk-abc\nworkload: {api_key: sk-abc}\n")
    with pytest.raises(SpecError) as refused:
        spec.load(tmp_path)
    assert "api_key: is not a key that is known here" in str(refused.value)
    assert "sk-abc" not in str(refused.value)


def test_a_plan_says_what_a_run_would_lack_and_what_is_left_out(tmp_path: Path) -> None:
    text = REAL.replace("workloads: {w: {}}", "workloads: {w: {dataset: sharegpt, path: none.json}}")
    text = text.replace("  sglang: {version: 0.5.3}\n", "").replace("0.32.0}", "0.32.0, launcher: {path: none}}")
    (tmp_path / "study.yaml").write_text(text + f"node: {{gpus: [GPU-{'0' * 8}]}}\n")
    asked = [sys.executable, "-m", "tuner", "plan", str(tmp_path)]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "vllm serve m" in done.stdout
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert notes[0] == "note: option sglang of stage engine is left out: engines does not list sglang"
    told = "\n".join(notes)
    for lacking in ("workloads.w.path: there is no file", "launcher.path: there is no folder", "node: gpus: "):
        assert lacking in told
    assert len(notes) == 4


def test_a_study_that_was_broken_meanwhile_can_still_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("a: [\n")
    with pytest.raises(TunerError, match="nobody runs this study now"):
        driving.stop(tmp_path, now=False)
    with study_lock(tmp_path):
        for named in (tmp_path, tmp_path / "study.yaml"):
            assert "ends after its running trial" in driving.stop(named, now=False)
    with pytest.raises(SpecError, match="there is no such study"):
        driving.stop(tmp_path / "no", now=False)


def test_help_names_the_values_that_an_option_takes() -> None:
    def told(command: str) -> str:
        asked = [sys.executable, "-m", "tuner", command, "--help"]
        env = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
        return subprocess.run(asked, capture_output=True, text=True, timeout=60, env=env).stdout

    running = told("run")
    assert f"[{'|'.join(METHODS)}]" in running
    assert "already past means tomorrow" in running
    assert "[random|sharegpt|custom|timed_trace|prefix_repetition]" in told("bench")


# Several at once, and what is not there


def test_every_fault_is_told_at_once_in_the_order_of_the_files(tmp_path: Path) -> None:
    study = STUDY.replace("gpus: 8", "gpus: many").replace("trials: 60", "trials: -60").replace("max-model-len", "nope")
    study = study.replace("compare_on: [short]", "compare_on: [long]").replace("storage:", "benchmark:")
    space = SPACE.replace("torch-compile: on,", "nothing: on,").replace("-tp: 8", "-xp: 8").replace("low: 64", "low: x")
    places = [text.split(": ")[:2] for text in faults(tmp_path, study, space)]
    assert places == [
        ["space.yaml:4", "stages[0].options.vllm.vllm.args.-xp"],
        ["space.yaml:17", "stages[3].with.nothing"],
        ["space.yaml:25", "stages[4].parameters.max-num-seqs.vllm.low"],
        ["study.yaml:3", "node.gpus"],
        ["study.yaml:8", "engines.vllm.args.nope"],
        ["study.yaml:17", "compare_on[0]"],
        ["study.yaml:19", "budget.trials"],
        ["study.yaml:20", "benchmark"],
    ]


def test_a_faulty_part_leads_to_no_second_fault_elsewhere(tmp_path: Path) -> None:
    """The workload and the stage are there, however wrong: nobody who names them is at fault."""
    assert "workloads.short.seed" in fault(tmp_path, ("seed: 42", "seed: x"))
    assert "node.port" in fault(tmp_path, ("port: 8000", "port: x"))
    assert "stages[2].options.on.sglang.replicas" in fault(
        tmp_path, ("{enable-torch-compile: true}", "{enable-torch-compile: true}, replicas: x")
    )
    assert "engines.vllm.stall" in fault(tmp_path, ("start_timeout: 40m", "stall: 40m"))


def test_a_hundred_faults_are_enough(tmp_path: Path) -> None:
    study = STUDY + "".join(f"key{n}: 1\n" for n in range(300))
    found = faults(tmp_path, study)
    assert len(found) == 101
    assert found[-1] == "there are 200 more faults after these"


WIDE = {
    "keys": "".join(f"key{n}: 1\n" for n in range(4000)),
    "flags": STUDY.replace("max-model-len: 65536", ", ".join(f"max-model-length{n}: 1" for n in range(4000))),
    "limits": STUDY.replace("p99_ttft_ms: 30000", ", ".join(f"p99_tfft_ms{n}: 1" for n in range(4000))),
    "compare_on": STUDY.replace("compare_on: [short]", f"compare_on: [{', '.join(f'shor{n}' for n in range(4000))}]"),
    "workloads": STUDY.replace("  short:", "".join(f"  short{n}: {{sed: 1}}\n" for n in range(2500)) + "  short:"),
}


@pytest.mark.parametrize("text", WIDE.values(), ids=WIDE)
def test_thousands_of_faults_are_told_in_bounded_time(tmp_path: Path, text: str) -> None:
    start = time.monotonic()
    (write(tmp_path) / "study.yaml").write_text(text)
    answer = outcome(tmp_path)
    assert isinstance(answer, SpecError)
    assert 1 <= len(answer.faults) <= 101
    assert time.monotonic() - start < 60


def test_more_values_than_anybody_writes_are_refused(tmp_path: Path) -> None:
    assert faults(tmp_path, STUDY + "".join(f"key{n}: 1\n" for n in range(5000))) == [
        "study.yaml:4961: there are more than 10,000 values; write fewer"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "study.yaml: is empty; write at least model, search_space, workloads"),
        (
            "- model\n",
            "study.yaml:1: must be a mapping (got a list of 1); write at least model, search_space, workloads",
        ),
        ("model\n", "study.yaml:1: must be a mapping (got 'model'); write at least model, search_space, workloads"),
        ("a: [\n", "study.yaml:2: this is not YAML: did not find expected node content"),
    ],
)
def test_what_is_no_study_at_all(tmp_path: Path, text: str, message: str) -> None:
    assert faults(tmp_path, text)[0] == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "space.yaml: is empty; write at least stages"),
        ("stages: []\n", "space.yaml:1: stages: must not be empty (got [])"),
        ("stages: {a: b}\n", "space.yaml:1: stages: must be a list (got a mapping of a)"),
        ("stages: [a]\n", "space.yaml:1: stages[0]: must be a mapping (got 'a'); write at least name"),
        ("stages: [{name: a}]\n", "space.yaml:1: stages[0]: a stage needs options or parameters; add options: {default: {}, ...}"),
        ("stages:\n", "space.yaml:1: stages: is empty"),
        ("stages: [{name: a, options: }]\n", "space.yaml:1: stages[0]: a stage needs options or parameters; add options: {default: {}, ...}"),
        ("stages: [{name: , options: {a: {vllm: {}}}}]\n", "space.yaml:1: stages[0].name: is empty"),
        ("stage: []\n", "space.yaml:1: stages is missing"),
        ("stages: [{name: a, options: {}}]\n", "space.yaml:1: stages[0].options: must not be empty (got {})"),
        ("stages: [{name: a, options: {x: {tensorrt-llm: {}}}}]\n", "space.yaml:1: stages[0].options: no option of the first stage names an engine of the study; the study's engines are vllm, sglang"),
        ("stages: [{name: a, parameters: {x: {}}}]\n", "space.yaml:1: stages[0].parameters.x: must name the engines that have this flag; add vllm: {type: ...}"),
        ("stages: [{name: a, parameters: {tp: {vllm: {type: int, low: 1, high: 2}}}}]\n", "space.yaml:1: stages[0]: the first stage must choose the engine; put a stage with options first"),
    ],
)  # fmt: skip
def test_what_is_no_space_at_all(tmp_path: Path, text: str, message: str) -> None:
    assert faults(tmp_path, STUDY, text)[0] == message


def test_a_file_that_is_not_there_is_told_with_where_it_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    looked = faults(tmp_path / "study", STUDY.replace("space.yaml", "../../x.yaml"))
    assert looked == [
        "study.yaml:2: search_space: there is no file ../../x.yaml (got '../../x.yaml'); "
        "a path is relative to the study's file; tuner spaces lists the names of those shipped"
    ]
    assert faults(tmp_path / "study", STUDY.replace("space.yaml", "./")) == [
        f"{tmp_path / 'study'}: it is a folder, not a file"
    ]


def test_a_study_that_is_not_there_is_told_with_what_is(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "study.yaml").rename(tmp_path / "night.yaml")

    def told(path: Path) -> str:
        with pytest.raises(SpecError) as caught:
            studyfile.load(path, None, adapters)
        assert caught.value.exit_code == 2
        return str(caught.value).replace(str(tmp_path), "HERE")

    assert (
        told(tmp_path) == "HERE: there is no study.yaml in this folder; there is night.yaml, space.yaml: name that file"
    )
    assert told(tmp_path / "nigth.yaml") == "HERE/nigth.yaml: there is no such study; did you mean night.yaml?"
    assert told(tmp_path / "x/y") == "HERE/x/y: there is no such study; name a study's folder or its study.yaml"
    assert told(Path("a\0b")) == "a\0b: there is no such study; name a study's folder or its study.yaml"
    assert "not a regular file" in told(Path("/dev/zero"))


def test_the_method_asked_for_on_the_command_line_is_checked_too(tmp_path: Path) -> None:
    assert fault(tmp_path, method="normel") == (
        "--method: there is no method of this name (got 'normel'); did you mean normal?"
    )
    assert fault(tmp_path, method="quick") == (
        "--method: this version does not have this method yet (got 'quick'); methods are published, normal"
    )


def test_a_command_of_no_engine_is_no_baseline(tmp_path: Path) -> None:
    for command in ("uvicorn app", "-", "x"):
        text = fault(tmp_path, ("storage:", f"baseline: {{command: '{command}'}}\nstorage:"))
        assert text.startswith("study.yaml:20: baseline.command: ")


# Anything at all

SNIPPETS = [
    "{", "}", "[", "]", ": ", "\t", "&a", "*a", "!!python/object:os.system {}", "<<: *a", "null", "true", "1.10", "-1",
    "1e999", ".nan", "[]", "{}", '"', "'", "|", ">", "#", "---", "...", "%YAML 9.9", "\\0", "9" * 400, "\ud7ff", "on",
    "../../../etc/passwd", "/dev/zero", "[" * 60, "2020-01-01", "08:00", "é", "a" * 5000, "-", "?", "@", "`", "\x85",
]  # fmt: skip


def mutated(text: str, seed: int, snippets: list[str]) -> bytes:
    """The text with some lines dropped, doubled, swapped, indented or cut, values replaced, bytes changed."""
    chance = random.Random(seed)
    lines = text.split("\n")
    for _ in range(chance.randint(1, 4)):
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        line, snippet = lines[at], chance.choice(snippets)
        words = line.split(" ")
        words[chance.randrange(len(words))] = snippet
        head, colon, _ = line.partition(":")
        lines[at] = chance.choice(
            [line + "\n" + line, "", lines[other], "  " + line, line[2:], line[: len(line) // 2], line + snippet,
             head + colon + " " + snippet, " ".join(words), snippet, snippet + line]
        )  # fmt: skip
    content = bytearray("\n".join(lines).encode("utf-8", "surrogatepass"))
    for _ in range(chance.choice([0, 0, 0, 1, 3])):
        content[chance.randrange(len(content) or 1) : chance.randrange(len(content) or 1)] = chance.randbytes(2)
    return bytes(content)


VALUES = [
    None,
    True,
    0,
    -1,
    1.5,
    10**17,
    "",
    "x",
    "on",
    [],
    {},
    [[]],
    {"x": {}},
    [{}],
    "vllm",
    {"vllm": {}},
    "a" * 9999,
]


def restructured(text: str, seed: int) -> bytes:
    """The same document with one to three of its values replaced, renamed or left out: right YAML, wrong study."""
    chance = random.Random(seed)
    data = yamlfile.parse(text).data
    for _ in range(chance.randint(1, 3)):
        if not data:
            break
        holders = [data]
        for holder in holders:
            inner = holder.values() if isinstance(holder, dict) else holder
            holders += [value for value in inner if isinstance(value, (dict, list)) and value]
        holder = chance.choice(holders)
        key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        action = chance.choice(["replace", "replace", "replace", "drop", "rename"])
        if action == "replace":
            holder[key] = copy.deepcopy(chance.choice(VALUES))
        elif isinstance(holder, dict) and action == "rename":
            holder[f"{key}x"] = holder.pop(key)
        else:
            del holder[key]
    return json.dumps(data).encode()


def outcome(folder: Path) -> StudySpec | SpecError:
    try:
        return spec.load(folder)
    except SpecError as error:
        return error


def test_the_study_that_is_mutated_is_right_for_the_real_engines(tmp_path: Path) -> None:
    assert isinstance(outcome(write(tmp_path)), StudySpec)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), extra=st.text(max_size=30), how=st.sampled_from(["lines", "values"]))
def test_a_mutated_study_is_a_study_or_an_error_in_words(seed: int, extra: str, how: str) -> None:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = write(Path(name))
        file, text = ("study.yaml", STUDY) if seed % 2 else ("space.yaml", SPACE)
        changed = mutated(text, seed, [*SNIPPETS, extra]) if how == "lines" else restructured(text, seed)
        (folder / file).write_bytes(changed)
        answer = outcome(folder)
    if isinstance(answer, SpecError):
        assert answer.faults
        assert all(fault.rule and len(str(fault)) < 3000 for fault in answer.faults)
        assert not re.search(r"Traceback|pydantic|[Ii]nput should|Value error", str(answer))
    else:
        assert answer.space.settings(answer.space.baseline).engine in answer.engines
        assert answer.fingerprint
    assert time.monotonic() - start < 60


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_a_study_or_an_error_in_words(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "study.yaml").write_bytes(content)
        assert isinstance(outcome(Path(name)), SpecError)

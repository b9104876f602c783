"""What people write becomes a study: `tuner.spec.load` and what it is made of."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.written import SPACE, STUDY, adapters, load, write
from tuner import locate, spec
from tuner.errors import SpecError
from tuner.objective import NORMAL, PUBLISHED, Objective
from tuner.space import Changes, Domain, Option, Parameter
from tuner.spec import BenchmarkSpec, Budget, EngineSpec, NodeSpec, fields, studyfile
from tuner.trial import Configuration

ROOT = Path(__file__).resolve().parent.parent
SMALL = "model: m\nsearch_space: space.yaml\nworkloads: {w: {}}\n"
ONE = "stages: [{name: size, options: {default: {}, long: {vllm: {args: {max_model_len: 9}}}}}]\n"


def test_every_field_of_a_study_is_read(tmp_path: Path) -> None:
    study = load(tmp_path)
    assert (study.name, study.folder, study.model) == (tmp_path.name, tmp_path, "deepseek-ai/DeepSeek-R1-0528")
    assert study.node == NodeSpec(8, 0, "wait", 1800.0, 8000)
    options = {"path": str(tmp_path / "bin"), "prefix": ["numactl", "-N", "0"]}
    assert study.engines == {
        "vllm": EngineSpec("vllm", "0.11.0", "process", options, 2400.0, 600.0),
        "sglang": EngineSpec("sglang", "0.5.3", "attach", {"url": "http://127.0.0.1:30000"}, 1800.0, 90.0),
    }
    assert study.workload is study.workloads["sharegpt"]
    assert (study.workload.path, study.workload.concurrency) == (str(tmp_path / "data/sharegpt.json"), 64)
    short = study.workloads["short"]
    assert (short.name, short.input_len, short.request_rate, short.endpoint) == ("short", 128, 2.5, "chat")
    assert study.benchmark == BenchmarkSpec("tuner", 8, 2, 3600.0)
    assert study.objective == Objective("total_token_throughput", True, "sharegpt", {"p99_ttft_ms": 30000.0})
    assert study.method == replace(NORMAL, name="normal, changed", beam=1, min_gain=0.02, confirm=1)
    assert study.budget == Budget(5400.0, "08:00", 60)
    assert (study.compare_on, study.storage) == (("short",), "sqlite:///study.db")
    assert (study.file, study.space_file) == (tmp_path / "study.yaml", tmp_path / "space.yaml")


def test_the_space_is_canonical_and_bound(tmp_path: Path) -> None:
    space = load(tmp_path).space
    assert (space.name, space.engines, space.model) == ("space", ("vllm", "sglang"), "deepseek-ai/DeepSeek-R1-0528")
    assert space.fixed["vllm"] == Changes({"max-model-len": 65536}, {"VLLM_USE_V1": "1", "FACTOR": "1.10"})
    assert space.stages[0].options == (
        Option("vllm", {"vllm": Changes({"tensor-parallel-size": 8})}),
        Option("sglang", {"sglang": Changes({"tp-size": 8})}),
    )
    dp = Changes({"enable-dp-attention": True}, {"A": None}, replicas=2)
    assert space.stages[1].options == (Option("default"), Option("dp-attention", {"sglang": dp}))
    assert [option.name for option in space.stages[2].options] == ["off", "on"]
    batching = space.stages[4]
    assert batching.parameters == (
        Parameter("max-num-batched-tokens", {"vllm": Domain("int", 2048, 65536, True)}),
        Parameter("max-num-seqs", {"vllm": Domain("int", 64, 1024, False, 64)}),
    )
    assert (batching.sampler, batching.trials) == ("tpe", 12)
    assert batching.rules == ("max_num_seqs <= max-num-batched-tokens",)


def test_what_engines_that_are_not_listed_would_do_is_left_out(tmp_path: Path) -> None:
    space = load(tmp_path).space
    assert "trt-only" not in [option.name for option in space.stage("parallelism").options]
    assert space.stage("speculative").with_ == {"torch-compile": "on"}
    only_sglang = STUDY.replace("  vllm:\n", "  sglang:\n", 1).replace("args: {max-model-len: 65536}", "args: {}")
    only_sglang = "\n".join(line for line in only_sglang.splitlines() if not line.startswith("  sglang: {"))
    space = load(tmp_path, only_sglang, SPACE.replace(", replicas: 2", "")).space
    assert [stage.name for stage in space.stages] == ["engine", "parallelism", "torch-compile", "speculative"]


def test_what_is_left_out_of_a_study_has_a_default(tmp_path: Path) -> None:
    study = load(tmp_path, SMALL, SPACE)
    assert set(study.engines) == {"vllm", "sglang", "tensorrt-llm"}
    assert study.engines["vllm"] == EngineSpec("vllm")
    assert study.objective == Objective("total_token_throughput", True, "w")
    assert (study.method, study.node, study.benchmark) == (NORMAL, NodeSpec(), BenchmarkSpec())
    assert (study.budget, study.compare_on, study.storage) == (Budget(), (), None)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("8", NodeSpec(8)),
        ("0", NodeSpec(0)),
        ("auto", NodeSpec("auto")),
        ("{simulated: 8}", NodeSpec(0, 8)),
        ("[GPU-1a, MIG-2b]", NodeSpec(("GPU-1a", "MIG-2b"))),
    ],
)
def test_gpus_are_said_in_five_ways(tmp_path: Path, written: str, meant: NodeSpec) -> None:
    assert load(tmp_path, SMALL + f"node: {{gpus: {written}}}\nengines: {{vllm: {{}}}}\n", ONE).node == meant


def test_a_method_is_a_name_or_a_table_and_the_argument_replaces_it(tmp_path: Path) -> None:
    assert load(tmp_path, SMALL + "method: published\n").method == PUBLISHED
    assert load(tmp_path, SMALL + "method: {base: published, beam: 1}\n").method == PUBLISHED
    assert load(tmp_path, SMALL + "method: published\n", method="normal").method == NORMAL


def test_an_objective_may_be_minimized(tmp_path: Path) -> None:
    objective = load(tmp_path, SMALL + "objective: {minimize: mean_ttft_ms}\n").objective
    assert (objective.metric, objective.maximize, objective.workload) == ("mean_ttft_ms", False, "w")


def test_one_engine_needs_no_stage_that_chooses_it(tmp_path: Path) -> None:
    study = load(tmp_path, SMALL + "engines: {vllm: }\n", ONE)
    assert study.space.settings(study.space.baseline).engine == "vllm"


def test_a_space_may_stand_in_the_study(tmp_path: Path) -> None:
    inline = SMALL.replace("space.yaml", "{" + ONE.strip() + "}")
    study = load(tmp_path, inline + "engines: {vllm: {}}\n")
    assert [stage.name for stage in study.space.stages] == ["size"]
    assert (study.space.name, study.space_file) == ("inline", None)


def test_the_baseline_is_the_command_that_runs_today_and_nothing_else(tmp_path: Path) -> None:
    command = 'baseline: {command: "env A=1 vllm serve deepseek-ai/DeepSeek-R1-0528 --tp 4", env: {B: 2}}\n'
    space = load(tmp_path, STUDY + command).space
    assert space.baseline["engine"] == "baseline"
    settings = space.settings(space.baseline)
    assert (settings.engine, settings.model) == ("vllm", "deepseek-ai/DeepSeek-R1-0528")
    assert (settings.args, settings.env) == ({"tensor-parallel-size": 4}, {"A": "1", "B": "2"})
    other = space.settings(Configuration({"engine": "vllm"}))
    assert other.args == {"max-model-len": 65536, "tensor-parallel-size": 8}


def test_a_baseline_serves_the_model_of_the_study_or_one_that_it_names(tmp_path: Path) -> None:
    served = "search_space: space.yaml\nworkloads: {w: {}}\nbaseline: {command: vllm serve fp8}\n"
    with pytest.raises(SpecError) as refused:
        load(tmp_path, "model: bf16\nengines: {vllm: {}}\n" + served, ONE)
    assert str(refused.value).endswith(
        "study.yaml:5: baseline.command: serves another model than the study's bf16 (got 'fp8'); "
        "if it is meant to differ, write engines: {vllm: {model: fp8}}"
    )
    load(tmp_path, "model: bf16\nengines: {vllm: {model: fp8}}\n" + served, ONE)
    in_an_option = ONE.replace("args: {max_model_len: 9}", "model: fp8")
    load(tmp_path, "model: bf16\nengines: {vllm: {}}\n" + served, in_an_option)


def test_what_is_left_out_is_noted_and_no_part_of_the_study_s_identity(tmp_path: Path) -> None:
    study = load(tmp_path)
    assert study.notes == (
        "option tensorrt-llm of stage engine is left out: engines does not list tensorrt-llm",
        "option trt-only of stage parallelism is left out: engines does not list tensorrt-llm",
    )
    assert replace(study, notes=()).fingerprint == study.fingerprint
    assert load(tmp_path, SMALL).notes == ()


GREEDY = """
stages:
  - name: engine
    options: {vllm: {vllm: {args: {tensor-parallel-size: 8}}}, sglang: {sglang: {args: {tp-size: 8}}}}
  - name: attention
    options: {default: {}, dp: {sglang: {args: {enable-dp-attention: true}}}}
  - name: replicas
    options:
      default: {}
      dp8: {sglang: {args: {dp-size: 8}}, vllm: {args: {tensor-parallel-size: 1, data-parallel-size: 8}}}
  - {name: width, parameters: {pipeline-parallel-size: {vllm: {type: categorical, choices: [1]}}}}
"""


@pytest.mark.parametrize(
    ("old", "new", "gpus", "told"),
    [
        ("", "", "8", []),  # dp8 fits on sglang with DP attention, and on vLLM it replaces the tensor parallelism
        ("size: 8}}}, sg", "size: 16}}}, sg", "auto", []),
        ("size: 8}}}, sg", "size: 16}}}, sg", "0", []),
        ("size: 8}}}, sg", "size: 16}}}, sg", "{simulated: 8}", [(4, "stages[0].options.vllm.vllm", 16)]),
        ("size: 8}}}, sg", "size: 16}}}, sg", "8", [(4, "stages[0].options.vllm.vllm", 16)]),
        ("parallel-size: 1, d", "parallel-size: 2, d", "8", [(10, "stages[2].options.dp8.vllm", 16)]),
        ("enable-dp-attention: true", "enable-metrics: true", "8", [(10, "stages[2].options.dp8.sglang", 64)]),
        ("[1]", "[1, 2]", "8", [(11, "stages[3].parameters.pipeline-parallel-size.vllm", 16)]),
        ("size: 8}}}, sg", "size: 8}, replicas: 2}}, sg", "8", [(4, "stages[0].options.vllm.vllm", 16)]),
    ],
)  # fmt: skip
def test_what_can_never_fit_on_the_node_is_refused(
    tmp_path: Path, old: str, new: str, gpus: str, told: list[tuple[int, str, int]]
) -> None:
    study = SMALL + f"node: {{gpus: {gpus}}}\nengines: {{vllm: {{}}, sglang: {{}}}}\n"
    write(tmp_path, study, GREEDY.replace(old, new, 1))
    found: list[tuple[int | None, str]] = []
    try:
        spec.load(tmp_path)
    except SpecError as error:
        found = [(fault.line, fault.path, int(fault.rule.split()[1])) for fault in error.faults]  # type: ignore[misc]
    assert found == told


def test_an_option_may_fix_what_is_fixed_to_the_same_value(tmp_path: Path) -> None:
    study = load(tmp_path, SMALL + "engines: {vllm: {args: {max-model-len: 9}}}\n", ONE)
    assert study.space.settings(Configuration({"size": "long"})).args == {"max-model-len": 9}


def test_one_written_parameter_may_be_another_flag_for_another_engine(tmp_path: Path) -> None:
    parameter = "parameters: {tp: {vllm: {type: int, low: 1, high: 8}, sglang: {type: int, low: 1, high: 4}}}"
    space = load(tmp_path, SMALL, SPACE + "  - {name: width, " + parameter + "}\n").space
    assert space.stage("width").parameters == (
        Parameter("tensor-parallel-size", {"vllm": Domain("int", 1, 8)}),
        Parameter("tp-size", {"sglang": Domain("int", 1, 4)}),
    )


def test_a_study_is_named_by_its_folder_or_by_another_files_name(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "night.yaml").write_text(STUDY)
    assert studyfile.load(tmp_path / "study.yaml", None, adapters).name == tmp_path.name
    assert studyfile.load(tmp_path / "night.yaml", None, adapters).name == "night"


def test_where_a_study_lies_is_no_part_of_its_identity(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = load(tmp_path / "a"), load(tmp_path / "b", STUDY.replace("trials: 60", "trials: 61"))
    assert one.workload.path != two.workload.path
    assert one.fingerprint == two.fingerprint
    assert one.fingerprint != load(tmp_path / "b", STUDY.replace("num_prompts: 1000", "num_prompts: 999")).fingerprint
    assert one.fingerprint != load(tmp_path / "b", space=SPACE.replace("EAGLE", "NGRAM")).fingerprint


def test_files_that_a_live_run_needs_are_looked_for_apart(tmp_path: Path) -> None:
    study = load(tmp_path)
    way_out = "put the file there; a path is relative to the study's file"
    assert [str(fault).replace(f"{tmp_path}/", "") for fault in spec.check_files(study)] == [
        f"study.yaml:13: workloads.sharegpt.path: there is no file data/sharegpt.json; {way_out}",
        "study.yaml:7: engines.vllm.launcher.path: there is no folder bin; "
        "name the bin folder in which the engine's program is",
    ]
    (tmp_path / "bin").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/sharegpt.json").mkdir()
    assert "sharegpt.json is not a file" in str(spec.check_files(study)[0])
    (tmp_path / "data/sharegpt.json").rmdir()
    (tmp_path / "data/sharegpt.json").write_text("[]")
    assert spec.check_files(study) == []


def test_a_model_written_as_a_path_is_found_from_the_file_it_is_written_in(tmp_path: Path) -> None:
    (tmp_path / "spaces").mkdir()
    options = "{full: {}, small: {vllm: {model: ../distilled}}}"
    (tmp_path / "spaces/space.yaml").write_text(f"stages: [{{name: size, options: {options}}}]\n")
    written = "model: ./m\nsearch_space: spaces/space.yaml\nworkloads: {w: {}}\nengines: {vllm: {model: ../own}}\n"
    study = load(tmp_path, written + "baseline: {command: vllm serve ./m}\n")
    assert (study.model, study.space.models) == (f"{tmp_path}/m", {"vllm": f"{tmp_path.parent}/own"})
    models = [study.space.settings(Configuration({"size": size})).model for size in ("baseline", "full", "small")]
    assert models == [f"{tmp_path}/m", f"{tmp_path.parent}/own", f"{tmp_path}/distilled"]


def test_only_what_begins_as_a_path_is_one() -> None:
    assert fields.local_model("~/full", "/s/study.yaml") == os.path.expanduser("~/full")
    for name in ("org/full", "/models/full", ".hidden/full", "~other"):
        assert fields.local_model(name, "/s/study.yaml") == name


def test_a_model_written_as_a_path_is_looked_for_before_a_live_run(tmp_path: Path) -> None:
    def missing(engine: str) -> list[str]:
        written = SMALL.replace("model: m", "model: ./m") + f"engines: {{vllm: {engine}}}\n"
        return [fault.path for fault in spec.check_files(load(tmp_path, written, ONE))]

    assert missing("{}") == ["model"]
    assert missing("{model: ../own}") == ["engines.vllm.model"]
    assert missing("{launcher: {type: process, simulated: true}}") == []
    (tmp_path / "m").mkdir()
    assert missing("{}") == []


def test_a_tokenizer_is_looked_for_beside_the_study_before_a_live_run(tmp_path: Path) -> None:
    study = load(tmp_path, SMALL.replace("w: {}", "w: {tokenizer: ./models/m}") + "engines: {vllm: {}}\n", ONE)
    assert study.workload.tokenizer == f"{tmp_path}/models/m"
    (fault,) = spec.check_files(study)
    assert (fault.line, fault.path) == (3, "workloads.w.tokenizer")
    assert "or the folder that holds one: no such file" in fault.rule
    (tmp_path / "elsewhere").mkdir()
    other = load(tmp_path / "elsewhere", (tmp_path / "study.yaml").read_text(), ONE)
    assert other.fingerprint == study.fingerprint


def test_the_spaces_shipped_are_found_in_a_source_checkout() -> None:
    assert locate.shipped()["deepseek-r1-h200"] == ROOT / "search_spaces" / "deepseek-r1-h200.yaml"


def test_a_space_is_read_by_itself_by_path_or_name(tmp_path: Path) -> None:
    write(tmp_path, space=SPACE)
    space = studyfile.load_space(str(tmp_path / "space.yaml"), adapters)
    assert (space.engines, space.model, space.fixed) == (("vllm", "sglang", "tensorrt-llm"), "", {})
    assert [option.name for option in space.stages[1].options] == ["default", "dp-attention", "trt-only"]
    assert [stage.name for stage in spec.load_space("deepseek-r1-h200").stages][-1] == "speculative"
    (tmp_path / "mine.yaml").write_text("stages: [{name: knob, options: {left: {}, right: {}}}]\n")
    assert spec.load_space(tmp_path / "mine.yaml").baseline == Configuration({"knob": "left"})
    with pytest.raises(SpecError, match="did you mean deepseek-r1-h200"):
        spec.load_space("deepseek-r1")
    (tmp_path / "mine.yaml").write_text("stages: [{name: a, options: {left: {vllm: {args: {nope: 1}}, x: {}}}}]\n")
    with pytest.raises(SpecError, match=r"mine.yaml:1: stages\[0\].options.left.x: there is no engine"):
        spec.load_space(tmp_path / "mine.yaml")


def test_what_a_version_does_not_have_is_left_out_where_the_space_says_so(tmp_path: Path) -> None:
    options = """{default: {},
      graphs: {vllm: {args-where-known: {cuda-graph-sizes: [64], max-cudagraph-capture-size: 64}}},
      kernel: {vllm: {args-where-known: {attention-backend: FLASHMLA},
                      env-where-known: {VLLM_ATTENTION_BACKEND: FLASHMLA}}},
      moe: {vllm: {args-where-known: {moe-backend: triton}}}}"""
    space = f"stages: [{{name: s, options: {options}}}]\n"
    made = {}
    for version in ("0.11.0", "0.32.0"):
        write(tmp_path, SMALL + f"engines: {{vllm: {{version: {version}}}}}\n", space)
        study = spec.load(tmp_path)
        made[version] = {option.name: option.engines.get("vllm") for option in study.space.stages[0].options}
        told = [] if version == "0.32.0" else ["vllm 0.11.0 does not take moe-backend 'triton'"]
        assert [note.partition(": ")[2] for note in study.notes] == told
    assert made["0.11.0"] == {
        "default": None,
        "graphs": Changes({"cuda-graph-sizes": [64]}),
        "kernel": Changes({}, {"VLLM_ATTENTION_BACKEND": "FLASHMLA"}),
    }
    assert made["0.32.0"] == {
        "default": None,
        "graphs": Changes({"max-cudagraph-capture-size": 64}),
        "kernel": Changes({"attention-backend": "FLASHMLA"}),
        "moe": Changes({"moe-backend": "triton"}),
    }


def test_the_published_study_loads() -> None:
    study = spec.load(ROOT / "studies" / "deepseek-r1-h200")
    assert [stage.name for stage in study.space.stages] == ["engine", "parallelism", "torch-compile", "speculative"]
    assert study.method == PUBLISHED
    assert study.space.settings(study.space.baseline).args == {"tensor-parallel-size": 8}
    assert study.space.models == {"tensorrt-llm": "/workspace/DeepSeek-R1-0528"}
    assert study.space_file == locate.shipped()["deepseek-r1-h200"]


def test_the_spaces_shipped_are_found_inside_an_installed_package(tmp_path: Path) -> None:
    """As in the wheel: tuner/search_spaces/, and nothing beside the package."""
    shutil.copytree(ROOT / "tuner", tmp_path / "tuner", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "search_spaces", tmp_path / "tuner" / "search_spaces")
    ask = [sys.executable, "-c", "from tuner import locate; print(locate.shipped()['deepseek-r1-h200'])"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    told = subprocess.run(ask, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=True).stdout
    assert told.strip() == str(tmp_path / "tuner" / "search_spaces" / "deepseek-r1-h200.yaml")

"""Flags, commands, launches and static rules of the three engines."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tuner.engines import Engine, FlagError, engine, engine_of_command
from tuner.engines.flags import Flag, Table
from tuner.engines.tables import sglang, tensorrt_llm, vllm
from tuner.engines.versions import number
from tuner.errors import SpecError
from tuner.trial import Settings, Slot

SLOT = Slot(port=30123, folder=Path("/slot"), gpus=("0", "1"), host="127.0.0.1")
RELEASES = [
    ("vllm", "0.11.0"),
    ("vllm", "0.32.0"),
    ("sglang", "0.5.3"),
    ("sglang", "0.5.17"),
    ("tensorrt-llm", "1.0.0"),
]
BETWEEN = {
    "vllm": ["0.11.1", "0.11.2", *(f"0.{minor}.0" for minor in range(11, 33))],
    "sglang": [f"0.5.{patch}" for patch in range(3, 24)],
}
TABLE_OF = {"vllm": vllm.table, "sglang": sglang.table, "tensorrt-llm": tensorrt_llm.table}
TABLES: dict[tuple[str, str], Table] = {(name, text): TABLE_OF[name](number(text)) for name, text in RELEASES}
PUBLISHED = Path(__file__).parent.parent / "studies" / "deepseek-r1-h200" / "recorded.yaml"
PUBLISHED_VERSIONS = {"vllm": "0.11.0", "sglang": "0.5.3", "tensorrt-llm": "1.0.0"}


def parse(name: str, version: str, command: str, **given: Any) -> Settings:
    return engine(name, version).parse(shlex.split(command), **given)


def args(name: str, version: str, command: str) -> dict[str, Any]:
    return dict(parse(name, version, command).args)


# --- there and back ---------------------------------------------------------------------------------------------

TEXT = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x17F, exclude_characters="\x7f\x85"), min_size=1, max_size=12
)
NUMBER = st.integers(-(2**40), 2**40)
REAL = st.floats(allow_nan=False, allow_infinity=False, width=32)
JSON = st.recursive(
    st.booleans() | NUMBER | REAL | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=4
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bare": st.just(True),
    "bool": st.booleans(),
    "int": NUMBER,
    "size": NUMBER,
    "float": REAL,
    "str": TEXT,
    "list": st.lists(TEXT.filter(lambda text: not text.startswith("-")), min_size=1, max_size=3),
    "ints": st.lists(st.integers(0, 2**20), min_size=1, max_size=5),
    "floats": st.lists(st.floats(0, 1000), min_size=1, max_size=3),
    "json": st.dictionaries(TEXT, JSON, max_size=3) | st.lists(NUMBER | TEXT, max_size=3),
    "optional": st.just(True) | TEXT,
    "any": JSON,
}


def values_of(flag: Flag) -> st.SearchStrategy[Any]:
    if flag.name == "hf-token":
        return st.just(True)  # its value is a secret
    if flag.choices:
        return st.sampled_from([int(c) for c in flag.choices] if flag.kind == "int" else flag.choices)
    if flag.limits is None:
        return VALUES[flag.kind]
    low, high = flag.limits.low, flag.limits.high
    number: st.SearchStrategy[Any] = st.integers(int(low), 2**40)
    if flag.kind == "float":
        number = st.floats(low, 2.0**20 if high is None else high, exclude_min=flag.limits.above, width=32)
    return st.lists(number, min_size=1, max_size=5) if flag.kind == "ints" else number


@st.composite
def settings_of(draw: st.DrawFn, name: str, version: str) -> Settings:
    flags = {key: flag for key, flag in TABLES[name, version].flags.items() if flag.home in ("argv", "file")}
    chosen = draw(st.lists(st.sampled_from(sorted(flags)), max_size=8, unique=True))
    asked = engine(name, version).canonical({key: draw(values_of(flags[key])) for key in chosen})
    env = draw(st.dictionaries(st.sampled_from(["VLLM_USE_DEEP_GEMM", "NCCL_DEBUG", "X"]), TEXT, max_size=2))
    return Settings(name, draw(st.sampled_from(["org/model", "/models/x", "./here"])), asked, env)


@pytest.mark.parametrize(("name", "version"), RELEASES)
def test_a_launch_read_back_gives_its_settings_again(name: str, version: str) -> None:
    @given(settings_of(name, version))
    @hypothesis_settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    def there_and_back(settings: Settings) -> None:
        adapter = engine(name, version)
        launch = adapter.launch(settings, SLOT)
        assert adapter.parse(launch.argv, launch.env, launch.files) == settings
        assert adapter.canonical(settings.args) == settings.args
        shell = shlex.split(shlex.join([f"{key}={value}" for key, value in launch.env.items()] + list(launch.argv)))
        assert adapter.parse(shell, files=launch.files) == settings

    there_and_back()


@pytest.mark.parametrize(("name", "version"), RELEASES)
def test_every_spelling_in_the_table_means_its_flag(name: str, version: str) -> None:
    table = TABLES[name, version]
    for flag in table.flags.values():
        assert table.find("--" + flag.name).flag is flag
        assert table.find(flag.name).flag.name == flag.name
        for alias in flag.aliases:
            assert table.find(alias if alias.startswith("-") else "--" + alias).flag is flag


# --- the published study ----------------------------------------------------------------------------------------


def published() -> list[Settings]:
    commands = [shlex.split(row["command"]) for row in yaml.safe_load(PUBLISHED.read_text())["measurements"]]
    names = [engine_of_command(argv) for argv in commands]
    return [engine(n, PUBLISHED_VERSIONS[n]).parse(argv) for n, argv in zip(names, commands, strict=True)]


def test_published_commands_are_six_launches() -> None:
    settings = {one.fingerprint: one for one in published()}
    assert [dict(one.args) for one in settings.values()] == [
        {"tensor-parallel-size": 8},
        {"tp-size": 8},
        {"tp_size": 8, "ep_size": 8},
        {"tp-size": 8, "enable-dp-attention": True},
        {"tp-size": 8, "enable-dp-attention": True, "enable-torch-compile": True},
        {
            "tp-size": 8,
            "enable-dp-attention": True,
            "enable-torch-compile": True,
            "speculative-algorithm": "EAGLE",
            "speculative-num-steps": 1,
            "speculative-eagle-topk": 1,
            "speculative-num-draft-tokens": 2,
        },
    ]


def test_published_launches_say_what_is_known_of_them() -> None:
    last = published()[5]
    adapter = engine("sglang", "0.5.3")
    said = {notice.rule: notice for notice in adapter.notices(last, concurrency=1000)}
    assert set(said) == {"speculation-caps-requests", "torch-compile-small-batches", "dp-attention-without-dp"}
    assert "1000 at once wait for 48 places" in said["speculation-caps-requests"].text
    assert said["dp-attention-without-dp"].source == "SGLang 0.5.3 server_args._handle_data_parallelism"
    quiet = {notice.rule for notice in adapter.notices(last, concurrency=4)}
    assert quiet == {"speculation-caps-requests", "dp-attention-without-dp"}


# --- spellings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m sglang.launch_server --model-path X --tp-size 8",
        "python -m sglang.launch_server --tp 8 --model X",
        "/opt/bin/python3.12 -m sglang.launch_server --tensor-parallel-size=8 --model-path=X --port 9 --host 0.0.0.0",
        "sglang serve --model-path X --tp-size 4 --tp-size 8 --served-model-name y --api-key z",
    ],
)
def test_sglang_spellings_are_one_launch(command: str) -> None:
    assert parse("sglang", "0.5.3", command).fingerprint == Settings("sglang", "X", {"tp-size": 8}).fingerprint
    assert engine_of_command(shlex.split(command)) == "sglang"


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve X -tp 8 --max-model-len 8K",
        "/opt/vllm/bin/vllm serve X --tensor_parallel_size=8 --max_model_len 8192 --served-model-name a b",
        "python3 -m vllm.entrypoints.openai.api_server --model X --max-model-len=8192 -tp=8",
        "env vllm serve X -tp 2 -tp 8 --max-model-len 1k --max-model-len 8.192k --port 8000",
    ],
)
@pytest.mark.parametrize("version", ["0.11.0", "0.32.0"])
def test_vllm_spellings_are_one_launch(command: str, version: str) -> None:
    asked = Settings("vllm", "X", {"tensor-parallel-size": 8, "max-model-len": 8192})
    assert parse("vllm", version, command).fingerprint == asked.fingerprint
    assert engine_of_command(shlex.split(command)) == "vllm"


def test_vllm_json_in_all_its_forms() -> None:
    asked = {"speculative-config": {"method": "ngram", "num_speculative_tokens": 4}}
    whole = """vllm serve X --speculative-config '{"method": "ngram", "num_speculative_tokens": 4}'"""
    dotted = "vllm serve X --speculative-config.method ngram --speculative_config.num_speculative_tokens=4"
    assert args("vllm", "0.11.0", whole) == args("vllm", "0.11.0", dotted) == asked
    assert args("vllm", "0.32.0", "vllm serve X -sc.method=ngram --spec-tokens 4") == asked
    nested = "vllm serve X -cc.pass_config.enable_sp true -cc.mode=3 -cc.custom_ops+ a -cc.custom_ops+=b,c"
    assert args("vllm", "0.32.0", nested) == {
        "compilation-config": {"pass_config": {"enable_sp": True}, "mode": 3, "custom_ops": ["a", "b", "c"]}
    }
    with pytest.raises(FlagError, match="only a flag that takes JSON has keys"):
        args("vllm", "0.32.0", "vllm serve X --dtype.size 4")


def test_vllm_optimization_level_changed_its_meaning() -> None:
    for spelled in ("-O3", "-O 3", "-O=3", "-O.level=3", "--compilation-config 3"):
        assert args("vllm", "0.11.0", f"vllm serve X {spelled}") == {"compilation-config": {"level": 3}}
    for spelled in ("-O3", "-O 3", "--optimization-level=3"):
        assert args("vllm", "0.32.0", f"vllm serve X {spelled}") == {"optimization-level": 3}


def test_booleans_are_said_as_the_engine_says_them() -> None:
    both = {"enable-prefix-caching": False, "enforce-eager": True}
    adapter = engine("vllm", "0.32.0")
    argv = adapter.launch(Settings("vllm", "X", both), SLOT).argv
    assert argv[-2:] == ("--no-enable-prefix-caching", "--enforce-eager")
    assert adapter.canonical({"no-enable-prefix-caching": True, "enforce_eager": True}) == both
    assert engine("sglang", "0.5.3").canonical({"disable-cuda-graph": False}) == {"disable-cuda-graph": None}
    with pytest.raises(FlagError, match="takes no value"):
        args("vllm", "0.32.0", "vllm serve X --enforce-eager=false")
    with pytest.raises(FlagError, match="no such flag"):
        args("sglang", "0.5.3", "sglang serve --model X --no-disable-cuda-graph")


def test_values_have_one_form() -> None:
    adapter = engine("vllm", "0.32.0")
    written = {"max_num_seqs": "256", "gpu-memory-utilization": 1, "max-model-len": "auto", "seed": 3.0, "tp": 2}
    assert adapter.canonical(written) == {
        "max-num-seqs": 256,
        "gpu-memory-utilization": 1.0,
        "max-model-len": -1,
        "seed": 3,
        "tensor-parallel-size": 2,
    }
    assert adapter.canonical({"max-num-seqs": None}) == {"max-num-seqs": None}
    assert adapter.canonical({"-tp": 8, "--tensor-parallel-size": 8}) == {"tensor-parallel-size": 8}
    assert adapter.canonical({"cudagraph-capture-sizes": 8}) == {"cudagraph-capture-sizes": [8]}
    merged = adapter.canonical(
        {"speculative-config": {"method": "mtp"}, "speculative-config.num_speculative_tokens": 1}
    )
    assert merged == {"speculative-config": {"method": "mtp", "num_speculative_tokens": 1}}


@pytest.mark.parametrize(
    ("name", "version", "written", "said"),
    [
        ("vllm", "0.32.0", {"tensor-parallel-sice": 8}, "did you mean --tensor-parallel-size"),
        ("vllm", "0.32.0", {"tp": 8, "tensor-parallel-size": 4}, "another value"),
        ("vllm", "0.32.0", {"port": 8}, "belongs to the slot"),
        ("vllm", "0.32.0", {"served-model-name": "x"}, "belongs to the slot"),
        ("vllm", "0.32.0", {"model": "x"}, "`model:`"),
        ("vllm", "0.32.0", {"config": "x.yaml"}, "write its flags out"),
        ("vllm", "0.32.0", {"swap-space": 4}, "--kv-offloading-size"),
        ("vllm", "0.32.0", {"cuda-graph-sizes": [4]}, "--cudagraph-capture-sizes"),
        ("vllm", "0.11.0", {"attention-backend": "FLASHMLA"}, "VLLM_ATTENTION_BACKEND"),
        ("vllm", "0.32.0", {"max-num-seqs": "many"}, 'takes a whole number (got "many")'),
        ("vllm", "0.32.0", {"max-num-seqs": True}, "needs a value"),
        ("vllm", "0.32.0", {"max-num-seqs": False}, "null to remove"),
        ("vllm", "0.32.0", {"max-num-seqs": 2.5}, "whole"),
        ("vllm", "0.32.0", {"enforce-eager": "yes"}, "takes no value"),
        ("vllm", "0.32.0", {"speculative-config": "mtp"}, "takes JSON"),
        ("vllm", "0.32.0", {"cudagraph-capture-sizes": []}, "at least one"),
        ("vllm", "0.32.0", {"performance-mode": "fast"}, "balanced, interactivity, throughput"),
        ("sglang", "0.5.3", {"kv-cache-dtype": "fp8"}, "fp8_e4m3"),
        ("sglang", "0.5.3", {"enable-ep-moe": True}, "--ep-size"),
        ("sglang", "0.5.3", {"chunked-prefill-size": "8k"}, 'takes a whole number (got "8k")'),
        ("sglang", "0.5.3", {"enable-dp": True}, "several flags: enable-dp-attention, enable-dp-lm-head"),
        ("tensorrt-llm", "1.0.0", {"kv_cache_dtype": "fp8"}, "kv_cache_config"),
        ("tensorrt-llm", "1.0.0", {"tp_sise": 8}, "did you mean --tp_size"),
    ],
)
def test_refusals_name_the_way_out(name: str, version: str, written: dict[str, Any], said: str) -> None:
    with pytest.raises(FlagError) as refused:
        engine(name, version).canonical(written)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("name", "version", "command", "said"),
    [
        ("vllm", "0.32.0", "vllm serve X --tp 8", "write -tp"),
        ("vllm", "0.32.0", "vllm serve X -tp", "expects a value"),
        ("vllm", "0.32.0", "vllm serve", "names none"),
        ("vllm", "0.32.0", "vllm serve X Y", "2 words"),
        ("vllm", "0.32.0", "vllm bench serve", "not how vLLM 0.32 is started"),
        ("vllm", "0.32.0", "numactl -N 0 vllm serve X", "launcher's prefix"),
        ("vllm", "0.32.0", "HF_TOKEN=abc vllm serve X", "secret"),
        ("vllm", "0.32.0", "vllm serve X --config f.yaml", "write its flags out"),
        ("vllm", "0.11.0", "vllm serve --model X", "vllm serve X"),
        ("sglang", "0.5.3", "python3 -m sglang.launch_server --model_path X", "no such flag"),
        ("sglang", "0.5.3", "python3 -m sglang.launch_server --model X -tp 8", "no such flag"),
        ("tensorrt-llm", "1.0.0", "trtllm-serve X --enable_attention_dp", "key of its YAML file"),
        ("tensorrt-llm", "1.0.0", "trtllm-serve X --extra_llm_api_options f.yaml", "is not read here"),
    ],
)
def test_commands_refused(name: str, version: str, command: str, said: str) -> None:
    with pytest.raises(FlagError) as refused:
        parse(name, version, command)
    assert said in str(refused.value)


def test_environment_comes_from_before_the_program_and_beside_it() -> None:
    command = "A=1 CUDA_VISIBLE_DEVICES=0 VLLM_USE_DEEP_GEMM=0 vllm serve X"
    settings = parse("vllm", "0.11.0", command, env={"A": "2", "B": "3"})
    assert settings.env == {"A": "1", "B": "3", "VLLM_USE_DEEP_GEMM": "0"}
    assert engine_of_command(shlex.split(command)) == "vllm"


@pytest.mark.parametrize("command", ["", "bash run.sh", "python3 server.py", "docker run vllm/vllm-openai"])
def test_other_programs_are_no_engine(command: str) -> None:
    with pytest.raises(FlagError, match="vllm, sglang, tensorrt-llm"):
        engine_of_command(shlex.split(command))


VALUES_REFUSED = [
    ("vllm", {"dtype": "fp7"}, "is not one of its values", "they are auto, bfloat16, float, float16, float32, half"),
    ("vllm", {"kv-cache-dtype": "fp8_e4m2"}, "is not one of its values", "did you mean fp8_e"),
    ("vllm", {"distributed-executor-backend": "nope"}, "is not one of its values", "mp, ray, uni, a dotted name"),
    ("vllm", {"gpu-memory-utilization": 7.5}, "takes more than 0 and at most 1 (got 7.5)", ""),
    ("vllm", {"gpu-memory-utilization": 0}, "takes more than 0 and at most 1", ""),
    ("vllm", {"tensor-parallel-size": -8}, "takes at least 1 (got -8)", ""),
    ("vllm", {"max-model-len": 0}, "takes at least 1, or -1 (got 0)", ""),
    ("sglang", {"attention-backend": "nope"}, "is not one of its values", "flashinfer"),
    ("sglang", {"attention-backend": "flashinfr"}, "is not one of its values", "did you mean flashinfer?"),
    ("sglang", {"mem-fraction-static": 7}, "takes more than 0 and at most 1 (got 7)", ""),
    ("sglang", {"tp-size": 0}, "takes at least 1 (got 0)", ""),
    ("sglang", {"dtype": "fp7"}, "is not one of its values", "bfloat16"),
    ("tensorrt-llm", {"tp_size": -1}, "takes at least 1 (got -1)", ""),
    ("tensorrt-llm", {"context_parallel_size": "two"}, "takes a whole number", ""),
    ("tensorrt-llm", {"free_gpu_memory_fraction": 1.5}, "takes more than 0 and at most 1", ""),
]


@pytest.mark.parametrize(("name", "version"), RELEASES)
def test_values_that_a_version_does_not_have_are_refused(name: str, version: str) -> None:
    for written, rule, way_out in [case[1:] for case in VALUES_REFUSED if case[0] == name]:
        with pytest.raises(FlagError) as refused:
            engine(name, version).canonical(written)
        assert rule in str(refused.value)
        assert way_out in refused.value.way_out


@pytest.mark.parametrize(
    ("name", "version", "written"),
    [
        ("vllm", "0.32.0", {"quantization": "of_a_plugin", "load-format": "of_a_plugin"}),
        ("vllm", "0.11.0", {"quantization": "of_a_plugin", "load-format": "of_a_plugin"}),
        ("vllm", "0.32.0", {"distributed-executor-backend": "mine.executors.Mine"}),
        ("vllm", "0.32.0", {"gpu-memory-utilization": 1.0, "max-model-len": -1, "block-size": 17}),
        ("vllm", "0.32.0", {"kv-cache-dtype": "nvfp4", "max-lora-rank": 64, "optimization-level": 3}),
        ("sglang", "0.5.3", {"chunked-prefill-size": -1, "attention-backend": "fa3"}),
        ("sglang", "0.5.17", {"attention-backend": "dsa", "kv-cache-dtype": "nvfp4"}),
        ("tensorrt-llm", "1.0.0", {"ep_size": -1, "context_parallel_size": 2}),
    ],
)
def test_values_that_a_version_has_are_taken(name: str, version: str, written: dict[str, Any]) -> None:
    assert engine(name, version).canonical(written) == written


@pytest.mark.parametrize(
    ("name", "flag", "value", "first", "last"),
    [
        ("vllm", "attention-backend", "FLASHMLA", "0.13.0", None),
        ("vllm", "all2all-backend", "pplx", "0.11.1", None),
        ("vllm", "cuda-graph-sizes", [8], None, "0.12.0"),
        ("vllm", "swap-space", 4, None, "0.17.0"),
        ("vllm", "optimization-level", 3, "0.12.0", None),
        ("vllm", "kv-cache-dtype", "nvfp4", "0.20.0", None),
        ("vllm", "kv-cache-dtype", "fp8_ds_mla", "0.11.1", None),
        ("sglang", "cuda-graph-max-bs-decode", 8, "0.5.14", None),
        ("sglang", "attn-dp-size", 8, "0.5.22", None),
        ("sglang", "max-micro-batch-size", 8, None, "0.5.3"),
        ("sglang", "attention-backend", "dsa", "0.5.13", None),
        ("sglang", "torchao-config", "fp8wo", None, "0.5.17"),
    ],
)
def test_a_flag_or_value_is_there_from_its_first_release_to_its_last(
    name: str, flag: str, value: Any, first: str | None, last: str | None
) -> None:
    for version in BETWEEN[name]:
        here = (first is None or number(version) >= number(first)) and (last is None or number(version) <= number(last))
        if here:
            assert engine(name, version).canonical({flag: value}) == {flag: value}
        else:
            with pytest.raises(FlagError):
                engine(name, version).canonical({flag: value})


def test_aliases_come_and_go_too() -> None:
    for version in ("0.5.14", "0.5.19"):
        canonical = engine("sglang", version).canonical({"cuda-graph-max-bs": 8})
        assert canonical == {"cuda-graph-max-bs-decode": 8}
    assert engine("sglang", "0.5.13").canonical({"cuda-graph-max-bs": 8}) == {"cuda-graph-max-bs": 8}
    with pytest.raises(FlagError, match="--cuda-graph-max-bs-decode"):
        engine("sglang", "0.5.20").canonical({"cuda-graph-max-bs": 8})


@pytest.mark.parametrize(
    ("name", "version", "flag", "said"),
    [
        ("vllm", "0.12.0", "attention-backend", "environment variable VLLM_ATTENTION_BACKEND"),
        ("vllm", "0.13.0", "cuda-graph-sizes", "--cudagraph-capture-sizes"),
        ("vllm", "0.11.0", "cudagraph-capture-sizes", "--cuda-graph-sizes"),
        ("vllm", "0.16.0", "linear-backend", "it came with vLLM 0."),
        ("vllm", "0.30.0", "disable-frontend-multiprocessing", "it went with vLLM 0."),
        ("sglang", "0.5.3", "cuda-graph-max-bs-decode", "it is --cuda-graph-max-bs here"),
        ("sglang", "0.5.3", "pp-max-micro-batch-size", "it is --max-micro-batch-size here"),
        ("sglang", "0.5.21", "attn-dp-size", "--dp-size with --enable-dp-attention"),
        ("sglang", "0.5.20", "enable-breakable-cuda-graph", "--cuda-graph-backend-prefill"),
        ("sglang", "0.5.5", "dsa-prefill-backend", "it is --nsa-prefill-backend here"),
        ("tensorrt-llm", "1.0.0", "tool_parser", "it came with TensorRT-LLM 1.2"),
    ],
)
def test_a_flag_of_another_release_is_refused_with_its_name_in_this_one(
    name: str, version: str, flag: str, said: str
) -> None:
    with pytest.raises(FlagError, match="does not have this flag") as refused:
        engine(name, version).canonical({flag: 1})
    assert said in refused.value.way_out


def test_booleans_got_their_negative_form_in_one_release() -> None:
    assert engine("sglang", "0.5.22").canonical({"enable-tf32-matmul": False}) == {"enable-tf32-matmul": None}
    argv = engine("sglang", "0.5.23").launch(Settings("sglang", "X", {"enable-tf32-matmul": False}), SLOT).argv
    assert argv[-1] == "--no-enable-tf32-matmul"


def test_a_variable_that_a_release_no_longer_reads_is_noticed() -> None:
    settings = Settings("vllm", "X", {}, {"VLLM_ATTENTION_BACKEND": "FLASHMLA"})
    assert not engine("vllm", "0.14.0").notices(settings)
    (notice,) = engine("vllm", "0.15.0").notices(settings)
    assert (notice.rule, "--attention-backend" in notice.text) == ("variable-not-read", True)


@pytest.mark.parametrize(("flag", "value"), [("api-key", "sk-abc"), ("--api_key", "sk-abc"), ("hf-token", "sk-abc")])
def test_a_secret_is_refused_and_not_repeated(flag: str, value: str) -> None:
    with pytest.raises(FlagError, match="a secret does not belong in a study") as refused:
        engine("vllm").canonical({flag: value})
    assert value not in str(refused.value)
    with pytest.raises(FlagError, match="a secret") as refused:
        parse("vllm", "0.32.0", f"vllm serve X --hf-token {value}")
    assert value not in str(refused.value)
    assert engine("vllm").canonical({"hf-token": True}) == {"hf-token": True}
    assert engine("sglang").canonical({"kt-max-deferred-experts-per-token": 2})  # ends like one and is none


# --- versions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version", "table"),
    [
        ("vllm", "0.11.0.post2", "vLLM 0.11"),
        ("vllm", "0.25.1", "vLLM 0.25.1"),
        ("vllm", "v0.32.3+cpu", "vLLM 0.32.3"),
        ("vllm", None, "vLLM 0.32"),
        ("sglang", "0.5.3", "SGLang 0.5.3"),
        ("sglang", "0.5.3.post1", "SGLang 0.5.3"),
        ("sglang", "0.5.23", "SGLang 0.5.23"),
        ("sglang", "0.5.99", "SGLang 0.5.99"),
        ("tensorrt-llm", "1.2.0rc5", "TensorRT-LLM 1.2"),
    ],
)
def test_a_release_is_read_by_its_own_table(name: str, version: str | None, table: str) -> None:
    adapter = engine(name, version)
    with pytest.raises(FlagError, match=table):
        adapter.canonical({"no-such-flag-at-all": 1})
    assert version is None or adapter.version == version.removeprefix("v")


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("vllm", "0.10.2"),
        ("vllm", "0.33.0"),
        ("sglang", "0.5.2"),
        ("sglang", "0.6"),
        ("tensorrt-llm", "0.21"),
        ("vllm", "x"),
    ],
)
def test_other_releases_are_refused_with_those_known(name: str, version: str) -> None:
    with pytest.raises(SpecError, match="known are"):
        engine(name, version)


# --- launches ---------------------------------------------------------------------------------------------------


def launches() -> list[tuple[Engine, Settings]]:
    return [(engine(name, version), Settings(name, "/models/x", {}, {"A": "1"})) for name, version in RELEASES]


def test_a_launch_listens_where_the_slot_says_and_stays_on_its_gpus() -> None:
    for adapter, settings in launches():
        launch = adapter.launch(settings, SLOT)
        assert "--host 127.0.0.1 --port 30123" in " ".join(launch.argv)
        assert launch.url == "http://127.0.0.1:30123"
        assert launch.env == {"A": "1", "CUDA_VISIBLE_DEVICES": "0,1"}
        assert launch.fingerprint == settings.fingerprint
        assert adapter.launch(settings, Slot(1, Path("/s"))).env == {"A": "1"}


def test_only_reading_adds_environment_of_our_own() -> None:
    for adapter, settings in launches():
        added = {"VLLM_SERVER_DEV_MODE": "1"} if settings.engine == "vllm" else {}
        assert adapter.launch(settings, SLOT).own_env == added
        assert adapter.launch(settings, SLOT, reading=False).own_env == {}


def test_served_names() -> None:
    names = {settings.engine: adapter.launch(settings, SLOT).model for adapter, settings in launches()}
    assert names == {"vllm": "/models/x", "sglang": "/models/x", "tensorrt-llm": "x"}


def test_a_server_on_all_interfaces_is_reached_on_loopback() -> None:
    adapter, settings = launches()[0]
    assert adapter.launch(settings, Slot(8, Path("/s"), host="0.0.0.0")).url == "http://127.0.0.1:8"
    assert adapter.launch(settings, Slot(8, Path("/s"), host="::")).url == "http://[::1]:8"


def test_tensorrt_llm_puts_each_setting_in_one_place() -> None:
    adapter = engine("tensorrt-llm", "1.0.0")
    asked = adapter.canonical(
        {"tensor_parallel_size": 8, "enable_attention_dp": True, "cuda_graph_config": {"max_batch_size": 256}}
    )
    launch = adapter.launch(Settings("tensorrt-llm", "X", asked), SLOT)
    assert launch.argv[-4:] == ("--tp_size", "8", "--extra_llm_api_options", "/slot/extra_llm_api_options.yaml")
    assert yaml.safe_load(launch.files["extra_llm_api_options.yaml"]) == {
        "enable_attention_dp": True,
        "cuda_graph_config": {"max_batch_size": 256},
    }
    with pytest.raises(FlagError, match="silently wins"):
        adapter.parse(["trtllm-serve", "X", "--tp_size", "8", "--config=/a/f.yaml"], files={"f.yaml": "tp_size: 4"})


def test_no_file_without_keys_for_it() -> None:
    launch = engine("tensorrt-llm").launch(Settings("tensorrt-llm", "X", {"tp_size": 8}), SLOT)
    assert not launch.files
    assert "--extra_llm_api_options" not in launch.argv


@pytest.mark.parametrize(
    ("name", "asked", "gpus"),
    [
        ("vllm", {}, 1),
        ("vllm", {"tensor-parallel-size": 4, "data-parallel-size": 2}, 8),
        ("vllm", {"tensor-parallel-size": 2, "pipeline-parallel-size": 2}, 4),
        ("sglang", {"tp-size": 4, "dp-size": 2}, 8),
        ("sglang", {"tp-size": 8, "dp-size": 8, "enable-dp-attention": True}, 8),
        ("tensorrt-llm", {"tp_size": 8, "ep_size": 8}, 8),
        ("tensorrt-llm", {"tp_size": 2, "pp_size": 2}, 4),
    ],
)
def test_gpus_of_one_replica(name: str, asked: dict[str, Any], gpus: int) -> None:
    assert engine(name).gpus(Settings(name, "X", asked)) == gpus


# --- static rules -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version", "asked", "concurrency", "rules"),
    [
        ("vllm", "0.11.0", {"enable-chunked-prefill": False}, None, {"chunked-prefill-forced"}),
        ("vllm", "0.32.0", {"enable-chunked-prefill": False}, None, set()),
        (
            "vllm",
            "0.11.0",
            {"async-scheduling": True, "speculative-config": {"method": "mtp"}},
            None,
            {"async-with-speculation"},
        ),
        ("vllm", "0.11.0", {"async-scheduling": True}, None, set()),
        ("vllm", "0.32.0", {"async-scheduling": True}, None, {"async-scheduling-default"}),
        ("vllm", "0.32.0", {"max-num-batched-tokens": 64, "max-num-seqs": 128}, None, {"tokens-below-sequences"}),
        (
            "vllm",
            "0.32.0",
            {"performance-mode": "throughput", "max-num-seqs": 64, "max-num-batched-tokens": 128},
            None,
            {"performance-mode-without-room"},
        ),
        ("vllm", "0.32.0", {"performance-mode": "throughput", "max-num-seqs": 64}, None, set()),
        ("vllm", "0.32.0", {"max-num-seqs": 64}, 1000, {"few-places"}),
        ("vllm", "0.32.0", {"max-num-seqs": 64}, 64, set()),
        ("vllm", "0.32.0", {"all2all-backend": "pplx"}, None, {"all2all-rewritten"}),
        ("sglang", "0.5.3", {"enable-dp-attention": True}, None, {"dp-attention-without-dp"}),
        ("sglang", "0.5.3", {"enable-dp-attention": True, "dp-size": 8, "tp-size": 8}, None, set()),
        (
            "sglang",
            "0.5.3",
            {"enable-dp-attention": True, "dp-size": 3, "tp-size": 8},
            None,
            {"dp-attention-indivisible"},
        ),
        (
            "sglang",
            "0.5.3",
            {"enable-dp-attention": True, "dp-size": 8, "tp-size": 8, "chunked-prefill-size": 65536},
            None,
            {"chunk-before-division"},
        ),
        ("sglang", "0.5.3", {"speculative-algorithm": "EAGLE"}, 1000, {"speculation-caps-requests"}),
        ("sglang", "0.5.3", {"speculative-algorithm": "EAGLE", "max-running-requests": 512}, 100, set()),
        ("sglang", "0.5.3", {"enable-torch-compile": True, "torch-compile-max-bs": 128}, 100, set()),
        ("tensorrt-llm", "1.0.0", {"cuda_graph_config": {"enable_padding": True}}, 1000, {"graphs-below-concurrency"}),
        ("tensorrt-llm", "1.0.0", {"cuda_graph_config": {"max_batch_size": 1024}}, 1000, set()),
        (
            "tensorrt-llm",
            "1.0.0",
            {"cuda_graph_config": {"max_batch_size": 64, "batch_sizes": [1, 32]}},
            None,
            {"graph-sizes-disagree"},
        ),
    ],
)
def test_static_rules(name: str, version: str, asked: dict[str, Any], concurrency: int | None, rules: set[str]) -> None:
    said = engine(name, version).notices(Settings(name, "X", asked), concurrency)
    assert {notice.rule for notice in said} == rules
    assert all(notice.text and notice.source and notice.keys for notice in said)

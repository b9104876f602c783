"""What an engine would refuse to start with, told before it is launched."""

from __future__ import annotations

from typing import Any

import pytest

from tuner.engines import engine
from tuner.engines.constraints import read
from tuner.engines.models import facts
from tuner.space import Changes, Option, SearchSpace, Stage
from tuner.spec import room
from tuner.trial import Settings

DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "num_hidden_layers": 61,
    "n_routed_experts": 256,
    "moe_intermediate_size": 2048,
    "intermediate_size": 18432,
    "max_position_embeddings": 163840,
    "rope_scaling": {"type": "yarn", "factor": 40},
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
QWEN3_235B: dict[str, Any] = {
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "num_hidden_layers": 94,
    "num_experts": 128,
    "moe_intermediate_size": 1536,
    "max_position_embeddings": 40960,
    "rope_scaling": None,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
DENSE: dict[str, Any] = {"num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 4}


def refused(name: str, version: str, asked: dict[str, Any], gpus: int | None = None, model: Any = None) -> set[str]:
    return {notice.rule for notice in engine(name, version).refusals(Settings(name, "X", asked), gpus, model)}


def test_facts_of_a_model() -> None:
    assert facts(DEEPSEEK) == {
        "model-attention-heads": 128,
        "model-layers": 61,
        "model-experts": 256,
        "model-expert-width": 2048,
        "model-fp8-block": 128,
    }
    assert facts(QWEN3_235B)["model-positions"] == 40960
    assert facts({"text_config": DENSE, "architectures": ["Some"]})["model-kv-heads"] == 4
    assert facts({"num_local_experts": 8, "intermediate_size": 14336})["model-expert-width"] == 14336
    assert "model-expert-width" not in facts({"intermediate_size": 14336})
    assert facts({"num_attention_heads": [8, 4], "quantization_config": "odd", "n_layer": True}) == {}


CASES = [
    ("vllm", "0.11.0", {"tensor-parallel-size": 8}, QWEN3_235B, {"block-fp8-experts"}),
    ("vllm", "0.11.0", {"tensor-parallel-size": 4}, QWEN3_235B, set()),
    ("vllm", "0.11.0", {"tensor-parallel-size": 4, "data-parallel-size": 2}, QWEN3_235B, {"block-fp8-experts"}),
    ("vllm", "0.11.0", {"tensor-parallel-size": 8, "enable-expert-parallel": True}, QWEN3_235B, set()),
    ("vllm", "0.32.0", {"tensor-parallel-size": 8}, DEEPSEEK, set()),
    ("vllm", "0.32.0", {"tensor-parallel-size": 3}, DENSE, {"heads-by-tp", "kv-heads-by-tp"}),
    ("vllm", "0.32.0", {"tensor-parallel-size": 8}, DENSE, set()),
    ("vllm", "0.32.0", {"pipeline-parallel-size": 8}, DENSE, {"layers-by-pp"}),
    ("vllm", "0.32.0", {"max-model-len": 65536}, QWEN3_235B, {"context-beyond-positions"}),
    ("vllm", "0.32.0", {"max-model-len": 65536}, DEEPSEEK, set()),
    ("vllm", "0.32.0", {"max-num-seqs": 256, "max-num-batched-tokens": 128}, None, {"tokens-below-sequences"}),
    ("vllm", "0.32.0", {"enable-chunked-prefill": False, "max-model-len": 8192, "max-num-batched-tokens": 2048}, None,
     {"tokens-below-context"}),
    ("vllm", "0.32.0", {"enable-eplb": True}, None, {"expert-balance-without-experts"}),
    ("vllm", "0.32.0", {"tensor-parallel-size": 8, "decode-context-parallel-size": 3}, None, {"dcp-by-tp"}),
    ("vllm", "0.11.0", {"async-scheduling": True, "speculative-config": {"method": "mtp"}}, None,
     {"async-with-speculation"}),
    ("vllm", "0.12.0", {"async-scheduling": True, "speculative-config": {"method": "mtp"}}, None, set()),
    ("vllm", "0.12.0", {"async-scheduling": True, "speculative-config": {"method": "ngram"}}, None,
     {"async-with-speculation"}),
    ("sglang", "0.5.3", {"tp-size": 8}, QWEN3_235B, {"block-fp8-experts"}),
    ("sglang", "0.5.3", {"tp-size": 8, "ep-size": 8}, QWEN3_235B, set()),
    ("sglang", "0.5.3", {"tp-size": 8, "moe-a2a-backend": "deepep"}, QWEN3_235B, set()),
    ("sglang", "0.5.3", {"tp-size": 8, "ep-size": 3}, QWEN3_235B, {"ep-by-tp", "experts-by-ep"}),
    ("sglang", "0.5.3", {"tp-size": 8, "dp-size": 3, "enable-dp-attention": True}, None, {"dp-attention-indivisible"}),
    ("sglang", "0.5.3", {"tp-size": 8, "dp-size": 8, "enable-dp-attention": True}, DEEPSEEK, set()),
    ("sglang", "0.5.3", {"tp-size": 16}, DENSE, {"heads-by-tp"}),
    ("sglang", "0.5.3", {"tp-size": 16, "dp-size": 4, "enable-dp-attention": True}, DENSE, set()),
    ("sglang", "0.5.3", {"chunked-prefill-size": 1000, "page-size": 64}, None, {"chunk-by-page"}),
    ("sglang", "0.5.3", {"chunked-prefill-size": -1, "page-size": 64}, None, set()),
    ("sglang", "0.5.3", {"speculative-algorithm": "EAGLE", "speculative-eagle-topk": 1}, None,
     {"speculation-without-steps"}),
    ("sglang", "0.5.23", {"tp-size": 8, "dp-size": 2, "attn-dp-size": 2}, None, {"dp-twice"}),
    ("tensorrt-llm", "1.0.0", {"tp_size": 8, "ep_size": 3}, DEEPSEEK, {"ep-by-tp", "experts-by-ep"}),
    ("tensorrt-llm", "1.0.0", {"tp_size": 8, "ep_size": 8}, QWEN3_235B, set()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "version", "asked", "model", "rules"), CASES)
def test_refusals(name: str, version: str, asked: dict[str, Any], model: Any, rules: set[str]) -> None:
    assert refused(name, version, asked, None, model) == rules
    assert "block-fp8-experts" not in refused(name, version, asked)  # nothing is known of the model


@pytest.mark.parametrize(
    ("name", "asked", "gpus", "rules"),
    [
        ("vllm", {"tensor-parallel-size": 4, "data-parallel-size": 4}, 8, {"gpus"}),
        ("vllm", {"tensor-parallel-size": 4, "data-parallel-size": 2}, 8, set()),
        ("sglang", {"tp-size": 8, "dp-size": 8, "enable-dp-attention": True}, 8, set()),
        ("tensorrt-llm", {"tp_size": 8, "pp_size": 2}, 8, {"gpus"}),
        ("vllm", {"tensor-parallel-size": 4, "data-parallel-size": 4}, None, set()),
    ],
)
def test_gpus_against_the_node(name: str, asked: dict[str, Any], gpus: int | None, rules: set[str]) -> None:
    version = {"vllm": "0.32.0", "sglang": "0.5.17", "tensorrt-llm": "1.0.0"}[name]
    assert refused(name, version, asked, gpus) == rules


def test_replicas_take_gpus_each() -> None:
    settings = Settings("vllm", "X", {"tensor-parallel-size": 4}, replicas=4)
    (notice,) = engine("vllm").refusals(settings, gpus=8)
    assert notice.text.endswith("(gpus-taken 16, node-gpus 8)")


def test_a_refusal_says_what_it_is_about() -> None:
    settings = Settings("vllm", "X", {"tensor-parallel-size": 8})
    (notice,) = engine("vllm", "0.11.0").refusals(settings, model=QWEN3_235B)
    assert notice.severity == "refused"
    assert "model-expert-width 1536, tensor-parallel-size 8" in notice.text
    assert "enable-expert-parallel" in notice.text
    assert "tensor-parallel-size" in notice.keys
    assert notice.source


def test_an_environment_variable_can_lift_one() -> None:
    asked = {"max-model-len": 65536}
    for env, rules in (({}, 1), ({"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, 0)):
        assert len(engine("vllm").refusals(Settings("vllm", "X", asked, env), model=QWEN3_235B)) == rules


def test_a_table_of_one_s_own() -> None:
    (one,) = read("mine@0.5.. | tp-size <= 4\n    | small nodes only | our own\n")
    assert (one.name, one.meaning, one.source) == ("mine", "small nodes only", "our own")
    assert one.rule.holds({"tp-size": 4})
    assert not one.rule.holds({"tp-size": 8})
    assert one.text({"tp-size": 8}) == "small nodes only (tp-size 8)"


# --- in a search space ------------------------------------------------------------------------------------------


class Doc:
    """Keeps what a document would make faults of."""

    def fault(self, place: Any, rule: str, value: Any = None, way_out: str = "") -> Any:
        return ".".join(place), rule


def option(name: str, **args: Any) -> Option:
    return Option(name, {"vllm": Changes({flag.replace("_", "-"): value for flag, value in args.items()})})


def told(stages: tuple[Stage, ...], model: Any = QWEN3_235B) -> list[Any]:
    space = SearchSpace(stages, model="X", engines=("vllm",))
    node = room.Node(8, {"vllm": engine("vllm", "0.32.0")}, {"vllm": model} if model else {})
    return list(room.refused(Doc(), {stage.name: ("stages", stage.name) for stage in stages}, space, node))  # type: ignore[arg-type]


LAYOUT = Stage("layout", (option("tp8", tensor_parallel_size=8), option("tp4", tensor_parallel_size=4)))


def test_an_option_that_can_never_start_is_told_with_its_place() -> None:
    ((place, why),) = told((LAYOUT,))
    assert place == "stages.layout.options.tp8.vllm"
    assert why.startswith("vllm 0.32.0 would not start: each GPU's part of an expert must be whole blocks")
    assert told((LAYOUT,), model=None) == []


def test_an_option_that_starts_with_another_choice_before_it_is_left_to_the_launch() -> None:
    first = Stage("first", (option("plain"), option("experts", enable_expert_parallel=True)))
    assert told((first, LAYOUT)) == []
    tokens = Stage("tokens", (option("few", max_num_batched_tokens=64, max_num_seqs=128),))
    ((place, _),) = told((first, tokens))
    assert place == "stages.tokens.options.few.vllm"


def test_another_checkpoint_is_not_judged_by_the_one_that_was_read() -> None:
    other = Option("other", {"vllm": Changes({"tensor-parallel-size": 8}, model="Y")})
    assert told((Stage("layout", (other,)),)) == []


def test_too_many_choices_before_are_left_to_the_launch() -> None:
    many = tuple(Stage(f"s{i}", tuple(option(f"o{j}", seed=j) for j in range(6))) for i in range(4))
    assert told((*many, Stage("last", (option("few", max_num_batched_tokens=64, max_num_seqs=128),)))) == []

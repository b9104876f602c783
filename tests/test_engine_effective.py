"""The effective configuration from real replies (cut), and what is judged of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuner.engines import engine
from tuner.trial import Effective, KeyVerdict, Settings, SideEffect

DATA = Path(__file__).parent / "data" / "engines"
BASE = Settings("sglang", "/models/ds-medium", {"load-format": "dummy"})


def read(name: str) -> str:
    return (DATA / name).read_text()


def sglang(variant: str) -> Effective:
    return engine("sglang", "0.5.17").effective({"server_info": read(f"sglang-0.5.17-{variant}.json")}, "")


def judged(asked: dict[str, Any], variant: str, base: Settings = BASE) -> Effective:
    settings = Settings("sglang", base.model, {**base.args, **asked})
    adapter = engine("sglang", "0.5.17")
    return adapter.judge(settings, sglang(variant), base, sglang("ds-nodeepgemm"))


def statuses(effective: Effective) -> dict[str, str]:
    return {verdict.key: verdict.status for verdict in effective.verdicts}


# --- vLLM -------------------------------------------------------------------------------------------------------


def vllm() -> Effective:
    replies = {
        "server_info": read("vllm-0.32-server_info.json"),
        "metrics": read("vllm-0.32-metrics.txt"),
        "version": '{"version": "0.32.0"}',
    }
    return engine("vllm", "0.32.0").effective(replies, "")


def test_vllm_reports_by_flag() -> None:
    effective = vllm()
    assert (effective.version, effective.source) == ("0.32.0", "/server_info, /metrics")
    expected = {
        "max-num-seqs": 128,
        "max-num-batched-tokens": 4096,
        "enable-chunked-prefill": False,
        "block-size": 16,
        "kv-cache-dtype": "auto",
        "scheduling-policy": "fcfs",
        "dtype": "bfloat16",
        "enforce-eager": True,
        "speculative-config": None,
        "enable-lora": False,
        "optimization-level": 2,
        "attention-backend": None,
        "tensor-parallel-size": 1,
        "cache_config.num_gpu_blocks": 14563,
    }
    assert {key: effective.values.get(key, "absent") for key in expected} == expected
    assert effective.values["compilation-config"]["mode"] == 0


def test_vllm_is_judged_where_the_cpu_platform_overrides_it() -> None:
    asked = {
        "enable-prefix-caching": True,
        "enforce-eager": True,
        "block-size": 64,
        "dtype": "auto",
        "compilation-config": {"mode": "NONE", "cudagraph_mode": "FULL"},
        "speculative-config": {"method": "ngram"},
        "mm-tensor-ipc": "direct_rpc",
    }
    effective = engine("vllm", "0.32.0").judge(Settings("vllm", "m", asked), vllm())
    assert statuses(effective) == {
        "enable-prefix-caching": "ignored",
        "enforce-eager": "as-asked",
        "block-size": "rewritten",
        "dtype": "as-asked",
        "compilation-config": "rewritten",
        "speculative-config": "ignored",
        "mm-tensor-ipc": "unknown",
    }
    assert not effective.no_op


def test_vllm_text_reply_and_metrics_alone() -> None:
    adapter = engine("vllm", "0.11.0")
    text = adapter.effective({"server_info": read("vllm-0.32-server_info-text.json")}, "")
    assert (text.values["max-model-len"], text.values["enable-prefix-caching"], text.values["dtype"]) == (
        4096, False, "bfloat16",
    )  # fmt: skip
    metrics = adapter.effective({"metrics": read("vllm-0.32-metrics.txt")}, "")
    assert metrics.source == "/metrics"
    assert (metrics.values["block-size"], metrics.values["gpu-memory-utilization"]) == (16, 0.92)


def test_vllm_log_alone() -> None:
    effective = engine("vllm", "0.25.1").effective({}, read("vllm-0.25-config.log"))
    assert (effective.version, effective.source) == ("0.25.1", "log, `with config`, log, `non-default args`")
    assert effective.values["tensor-parallel-size"] == 1
    assert effective.values["load-format"] == "dummy"
    asked = Settings("vllm", "m", {"speculative-config": {"method": "mtp", "num_speculative_tokens": 1}})
    assert statuses(engine("vllm", "0.25.1").judge(asked, effective)) == {"speculative-config": "as-asked"}


# --- SGLang -----------------------------------------------------------------------------------------------------


def test_dp_attention_without_dp_is_a_no_op_with_a_derived_side_effect() -> None:
    effective = judged({"enable-dp-attention": True}, "ds-dpattn")
    assert effective.no_op
    assert effective.verdicts[-1] == KeyVerdict("enable-dp-attention", True, False, "ignored")
    assert effective.side_effects == (SideEffect("mem-fraction-static", 0.907, 0.901, derived=True),)


def test_speculation_shows_that_running_requests_fell() -> None:
    asked = {"speculative-algorithm": "NEXTN", "speculative-num-steps": 1, "speculative-eagle-topk": 1}
    effective = judged(asked, "ds-mtp")
    assert set(statuses(effective).values()) == {"as-asked"}
    assert not effective.no_op
    effects = {effect.key: effect for effect in effective.side_effects}
    assert effects["max-running-requests"] == SideEffect("max-running-requests", None, 48)
    assert effects["speculative-draft-model-path"].derived
    assert not {"random-seed", "internal_states.last_gen_throughput"} & set(effects)


def test_sglang_version_source_and_log() -> None:
    effective = sglang("ds-mtp")
    assert (effective.version, effective.source) == ("0.5.17", "/server_info")
    logged = engine("sglang", "0.5.17").effective({}, read("sglang-0.5.17-args.log"))
    assert logged.source == "log, `server_args`"
    assert logged.values["load-format"] == "dummy"


def test_the_scheduler_overrides_the_front_end() -> None:
    reply = {"max_running_requests": 512, "tp_size": 8, "internal_states": [{"max_running_requests": 64}]}
    effective = engine("sglang", "0.5.3").effective({"get_server_info": json.dumps(reply)}, "")
    assert effective.values == {"max-running-requests": 64, "tp-size": 8}


# --- TensorRT-LLM -----------------------------------------------------------------------------------------------


def test_tensorrt_llm_reads_what_little_there_is() -> None:
    adapter = engine("tensorrt-llm")
    log = "[TRT-LLM] [I] LLM Args: TorchLlmArgs(tensor_parallel_size=8, enable_attention_dp=False, kv=A(b=1))\n"
    replies = {"server_info": '{"disaggregated_params": {}}', "version": '{"version": "1.0.0"}'}
    effective = adapter.effective(replies, log)
    assert effective.version == "1.0.0"
    assert effective.values["tp_size"] == 8
    settings = Settings("tensorrt-llm", "m", {"tp_size": 8, "enable_attention_dp": True, "max_batch_size": 4})
    assert statuses(adapter.judge(settings, effective)) == {
        "tp_size": "as-asked",
        "enable_attention_dp": "ignored",
        "max_batch_size": "unknown",
    }


@pytest.mark.parametrize(
    "reply", ["", "not json", "[1]", "null", '{"vllm_config": 3, "internal_states": 4}', "{" * 9999]
)
@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm"])
def test_odd_replies_give_what_they_hold_and_no_error(name: str, reply: str) -> None:
    adapter = engine(name)
    replies = {probe.name: reply for probe in adapter.probes()}
    logs = ("", "LLM Args: {" * 99, "server_args=ServerArgs((((", " with config: a=[[[", "non-default args: {'a'\n")
    for log in logs:
        effective = adapter.effective(replies, log)
        judged = adapter.judge(Settings(name, "m"), effective)
        assert (judged.verdicts, judged.no_op) == ((), False)


# --- the judgement itself ---------------------------------------------------------------------------------------


def judge(
    asked: dict[str, Any], after: dict[str, Any], base: dict[str, Any], before: dict[str, Any], env: str = ""
) -> Effective:
    settings = Settings("vllm", "m", asked, {"E": env} if env else {})
    return engine("vllm").judge(settings, Effective(after), Settings("vllm", "m", base), Effective(before))


def test_a_value_that_did_not_move_was_ignored() -> None:
    effective = judge({"block-size": 64}, {"block-size": 16}, {}, {"block-size": 16})
    assert (statuses(effective), effective.no_op) == ({"block-size": "ignored"}, True)


def test_a_value_that_moved_elsewhere_was_rewritten() -> None:
    effective = judge({"block-size": 64}, {"block-size": 32}, {}, {"block-size": 16})
    assert (statuses(effective), effective.no_op) == ({"block-size": "rewritten"}, False)


def test_the_bases_own_request_proves_nothing() -> None:
    base, before = {"block-size": 64}, {"block-size": 32, "max-num-seqs": 8}
    effective = judge({**base, "max-num-seqs": 9}, {**before, "max-num-seqs": 9}, base, before)
    assert statuses(effective) == {"block-size": "rewritten", "max-num-seqs": "as-asked"}


def test_no_op_needs_every_changed_key_known_to_be_ignored() -> None:
    ignored = {"enable-eplb": True}
    assert judge(ignored, {"enable-eplb": False}, {}, {}).no_op
    assert not judge({**ignored, "max-num-seqs": 4}, {"enable-eplb": False}, {}, {}).no_op
    assert not judge({**ignored, "seed": 4}, {"enable-eplb": False, "seed": 4}, {}, {}).no_op
    assert not judge(ignored, {"enable-eplb": False}, {}, {}, env="1").no_op
    assert not judge({}, {}, {}, {}).no_op


def test_a_request_taken_back_is_a_no_op_where_nothing_moved() -> None:
    base = {"enable-eplb": True}
    assert judge({}, {"enable-eplb": False}, base, {"enable-eplb": False}).no_op
    assert not judge({}, {"enable-eplb": False}, base, {"enable-eplb": True}).no_op
    assert not judge({}, {}, base, {}).no_op


def test_json_is_judged_by_the_keys_asked_for() -> None:
    asked = {"speculative-config": {"method": "mtp", "num_speculative_tokens": 2}}

    def status(effective: Any) -> str:
        return statuses(judge(asked, {"speculative-config": effective}, {}, {}))["speculative-config"]

    assert status({"method": "mtp", "num_speculative_tokens": 2, "model": "m"}) == "as-asked"
    assert status({"method": "mtp", "num_speculative_tokens": 1}) == "rewritten"
    assert status({"method": "mtp"}) == "unknown"
    assert status(None) == "ignored"


def test_side_effects_are_what_moved_unasked() -> None:
    before = {"block-size": 16, "max-num-seqs": 8, "seed": 1, "instance_id": "a", "cache_config.num_gpu_blocks": 3}
    after = {"block-size": 64, "max-num-seqs": 9, "seed": 2, "instance_id": "b", "cache_config.num_gpu_blocks": 9}
    effective = judge({"max-num-seqs": 9}, after, {}, before)
    assert effective.side_effects == (SideEffect("block-size", 16, 64),)


@pytest.mark.parametrize(
    ("asked", "effective"),
    [("fp8", "fp8_e4m3"), ("auto", "anything"), ("FP8", "fp8")],
)
def test_names_of_one_thing_are_as_asked(asked: str, effective: str) -> None:
    assert statuses(judge({"kv-cache-dtype": asked}, {"kv-cache-dtype": effective}, {}, {})) == {
        "kv-cache-dtype": "as-asked"
    }

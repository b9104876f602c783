"""The effective configuration from real replies (cut), and what is judged of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuner.engines import engine
from tuner.engines.logged import kv_tokens, observed
from tuner.engines.pools import starved
from tuner.engines.tables.logged import BY_ENGINE
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


def test_what_was_so_already_is_a_no_op_wherever_the_model_lies() -> None:
    # vLLM 0.25.1 on one H200: async scheduling is on by default; the folder was moved between the two launches
    adapter = engine("vllm", "0.25.1")
    base = Settings("vllm", "/models/m", {"load-format": "dummy"})

    def reported(folder: str, address: str) -> Effective:
        values = {
            "async-scheduling": True,
            "load-format": "dummy",
            "tokenizer": f"{folder}/m",
            "vllm_config.model": f"{folder}/m",
            "model_config.model": f"{folder}/m",
            "quant_config": f"<vllm.model_executor.layers.quantization.fp8.Fp8Config object at {address}>",
            "compilation-config": {"hooks": [f"<function hook at {address}>"]},
        }
        return Effective(values, source="/server_info")

    before, after = reported("/a", "0x7fc257fd79b0"), reported("/b", "0x7fd0cb9208f0")
    asked = Settings("vllm", "/models/m", {"load-format": "dummy", "async-scheduling": True})
    found = adapter.judge(asked, after, base, before)
    assert statuses(found) == {"load-format": "as-asked", "async-scheduling": "as-asked"}
    assert found.side_effects == ()
    assert found.no_op
    assert found.pools
    silent = {key: value for key, value in before.values.items() if key != "async-scheduling"}
    unknown = Effective(silent, source="/server_info")
    assert not adapter.judge(asked, after, base, unknown).no_op


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
    asked: dict[str, Any] = {
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


# --- what the log alone tells -----------------------------------------------------------------------------------


def observed_start(name: str, version: str, log: str, replies: dict[str, str] | None = None) -> Effective:
    return observed(BY_ENGINE[name], engine(name, version).effective(replies or {}, read(log)), read(log))


def test_what_sglang_s_log_alone_tells() -> None:
    values = observed_start("sglang", "0.5.17", "sglang-mtp-start.log").values
    assert values["log.running_requests_reset"] == 48
    assert values["log.max_running_requests"] == 48
    assert values["log.attention_backend"] == "fa3"
    assert values["log.kv_cache_dtype"] == "bfloat16"
    assert values["kv-cache-tokens"] == 7930989


def test_what_vllm_s_log_alone_tells() -> None:
    effective = observed_start("vllm", "0.25.1", "vllm-mtp-start.log")
    assert effective.source == "log lines"
    assert effective.values["attention-backend"] == "FLASH_ATTN_MLA"
    assert effective.values["log.moe_backend"] == "TRITON"
    assert effective.values["log.graphs_captured"] == "PIECEWISE=50 (largest=512), FULL=50 (largest=512)"
    assert effective.values["log.async_scheduling"] is True
    assert effective.values["kv-cache-tokens"] == 7701648


def test_the_workers_downgrade_of_graphs_goes_over_the_front_end() -> None:
    line = (
        "(EngineCore pid=168) WARNING 05-14 08:25:39 [compilation.py:1390] CUDAGraphMode.FULL_AND_PIECEWISE is not "
        "supported with spec-decode for attention backend FlashInferBackend; setting cudagraph_mode=PIECEWISE\n"
    )
    asked = Settings("vllm", "m", {"compilation-config": {"cudagraph_mode": "FULL_AND_PIECEWISE"}})
    front = Effective({"compilation-config": {"cudagraph_mode": [2, 1]}}, "/server_info")
    adapter = engine("vllm", "0.32.0")
    assert statuses(adapter.judge(asked, front)) == {"compilation-config": "as-asked"}
    (verdict,) = adapter.judge(asked, observed(BY_ENGINE["vllm"], front, line)).verdicts
    assert (verdict.status, verdict.effective["cudagraph_mode"]) == ("rewritten", "PIECEWISE")


def test_the_pool_s_size_has_one_name_whoever_tells_it() -> None:
    trt = "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 68.69 GiB for max tokens in paged KV cache (643136).\n"
    assert observed(BY_ENGINE["tensorrt-llm"], Effective({}), trt).values["kv-cache-tokens"] == 643136
    assert kv_tokens(vllm().values) == 233008
    assert kv_tokens({"cache_config.num_gpu_blocks": 10, "block-size": 16}) == 160
    assert kv_tokens(sglang("ds-mtp").values) == 7930989
    assert kv_tokens({"max_total_num_tokens": None}) is None


# --- the published findings -------------------------------------------------------------------------------------


def test_the_published_dp_attention_is_a_no_op_in_0_5_3() -> None:
    """`--tp 8 --enable-dp-attention`, as /get_server_info answers by 0.5.3's source (server_args.py)."""

    def info(fraction: float, tokens: int, **own: Any) -> Effective:
        reply = {
            "model_path": "deepseek", "tp_size": 8, "dp_size": 1, "enable_dp_attention": False,
            "enable_dp_lm_head": False, "mem_fraction_static": fraction, "chunked_prefill_size": 8192,
            "schedule_conservativeness": 1.0,
            "cuda_graph_max_bs": 512, "max_running_requests": None, "random_seed": tokens, "api_key": "k", **own,
            "status": "ready", "max_total_num_tokens": tokens, "max_req_input_len": 163834, "version": "0.5.3",
            "internal_states": [{"mem_fraction_static": fraction, "last_gen_throughput": 0.1, "memory_usage": {
                "weight": 79.5, "kvcache": 45.1, "token_capacity": tokens, "cuda_graph": 2.0}}],
        }  # fmt: skip
        effective = engine("sglang", "0.5.3").effective({"get_server_info": json.dumps(reply)}, "")
        return observed(BY_ENGINE["sglang"], effective, "")

    adapter = engine("sglang", "0.5.3")
    base = Settings("sglang", "deepseek", {"tp-size": 8})
    asked = Settings("sglang", "deepseek", {"tp-size": 8, "enable-dp-attention": True})
    found = adapter.judge(asked, info(0.881, 601_000), base, info(0.897, 629_000))
    assert statuses(found) == {"tp-size": "as-asked", "enable-dp-attention": "ignored"}
    assert (found.no_op, found.pools) == (True, True)
    assert found.side_effects == (
        SideEffect("mem-fraction-static", 0.897, 0.881, derived=True),
        SideEffect("kv-cache-tokens", 629_000, 601_000, derived=True),
    )
    spec: dict[str, Any] = {"speculative-algorithm": "EAGLE", "speculative-num-steps": 1, "speculative-eagle-topk": 1,
            "speculative-num-draft-tokens": 2}  # fmt: skip
    after = info(
        0.882, 560_000, max_running_requests=48, **{key.replace("-", "_"): value for key, value in spec.items()}
    )
    mtp = adapter.judge(Settings("sglang", "deepseek", {"tp-size": 8, **spec}), after, base, info(0.897, 629_000))
    assert not mtp.no_op
    assert SideEffect("max-running-requests", None, 48) in mtp.side_effects


# --- pools of another size --------------------------------------------------------------------------------------


def starving(
    asked: dict[str, Any], tokens: int | None, before: int | None = 1_148_200, after: float = 0.897, model: str = "m"
) -> bool:
    def size(number: int | None, fraction: float) -> Effective:
        return Effective({"max_total_num_tokens": number, "mem-fraction-static": fraction})

    return bool(
        starved(Settings("sglang", model, asked), size(tokens, after), Settings("sglang", "m"), size(before, 0.897))
    )


def test_the_second_server_s_pool_is_no_pool() -> None:
    second = observed_start("sglang", "0.5.17", "sglang-second-server.log")
    base = Effective({"max_total_num_tokens": 1_148_200})
    said = starved(Settings("sglang", "m"), second, Settings("sglang", "m"), base)
    assert said is not None
    assert said.startswith("the KV pool holds 37,765 tokens where its base's held 1,148,200")
    assert "nvidia-smi" in said


def test_a_pool_far_below_its_base_s() -> None:
    assert starving({}, 37_765)
    assert starving({"schedule-policy": "lpm", "max-running-requests": 64, "cuda-graph-max-bs": 512}, 37_765)
    assert starving({"enable-dp-attention": True}, 37_765)
    assert not starving({}, 900_000)
    assert not starving({}, None)
    assert not starving({}, 37_765, before=None)
    assert not starving({}, 37_765, model="another")
    assert not starving({}, 37_765, after=0.17)  # by the engine's own rule
    for key in ("tp-size", "max-total-tokens", "mem-fraction-static", "dp-size", "quantization", "cpu-offload-gb"):
        assert not starving({key: 1}, 37_765), key


def test_nothing_is_starved_without_a_base() -> None:
    assert starved(Settings("vllm", "m"), Effective({}), None, None) is None


# --- side effects of one side alone -----------------------------------------------------------------------------


def test_what_one_side_alone_reports_is_a_side_effect_where_both_were_asked_alike() -> None:
    adapter = engine("sglang", "0.5.17")
    before, after = (
        Effective({"a": 1}, "/server_info"),
        Effective({"a": 1, "log.running_requests_reset": 48}, "/server_info"),
    )
    settings = Settings("sglang", "m")
    found = adapter.judge(settings, after, settings, before)
    assert found.side_effects == (SideEffect("log.running_requests_reset", None, 48),)
    assert not adapter.judge(settings, after, settings, Effective({"a": 1}, "log")).side_effects


@pytest.mark.parametrize(
    ("tokens", "effects"), [(1004, 0), (1010, 1), (1100, 1)], ids=["the same", "cannot matter", "moved"]
)
def test_a_profiled_size_may_move_a_little(tokens: int, effects: int) -> None:
    settings, asked = Settings("vllm", "m"), Settings("vllm", "m", {"enable-eplb": True})
    before = Effective({"kv-cache-tokens": 1000, "enable-eplb": False})
    found = engine("vllm").judge(asked, Effective({"kv-cache-tokens": tokens, "enable-eplb": False}), settings, before)
    assert len(found.side_effects) == effects
    assert found.no_op
    assert found.pools == (tokens < 1020)


def test_a_switch_that_is_reported_by_another_key() -> None:
    asked = Settings("sglang", "m", {"disable-cuda-graph": True})
    for backend, status in (("disabled", "as-asked"), ("full", "ignored")):
        effective = Effective({"cuda-graph-config": {"decode": {"backend": backend}}})
        assert statuses(engine("sglang", "0.5.17").judge(asked, effective)) == {"disable-cuda-graph": status}
    assert statuses(engine("sglang", "0.5.17").judge(asked, Effective({}))) == {"disable-cuda-graph": "unknown"}

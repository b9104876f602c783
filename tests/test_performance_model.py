"""The performance model of the simulated engine: what each setting does to speed and memory."""

import random
from dataclasses import replace
from typing import Any

import pytest

from tuner.testing.performance import (
    BASE,
    COLD_TOKENS,
    Clock,
    Setup,
    Speed,
    effects,
    memory,
    shape_of,
    slowdown,
    speed,
    start_seconds,
)

DEEPSEEK = shape_of("deepseek-ai/DeepSeek-R1-0528")
NODE = Setup("sglang", DEEPSEEK, tp=8, memory_fraction=0.897)


def pass_seconds(setup: Setup, requests: int = 64, prompt: int = 192, output: int = 16) -> float:
    """How long all requests at once take by the speed alone."""
    made = speed(setup)
    tokens = output / (1 + 0.7 * setup.draft_tokens)
    return requests * prompt / made.prefill + tokens * (made.step + requests * made.sequence)


@pytest.mark.parametrize("engine", BASE)
def test_a_default_node_of_every_engine_fits_and_nothing_changes_its_speed(engine: str) -> None:
    setup = replace(NODE, engine=engine, memory_fraction=0.9)
    assert memory(setup).fits
    assert [effect for effect in effects(setup) if effect.step != 1 or effect.prefill != 1] == []


def test_the_engine_that_leads_by_default_is_beaten_by_another_one_tuned() -> None:
    vllm, sglang = replace(NODE, engine="vllm"), NODE
    assert pass_seconds(vllm) < pass_seconds(sglang) * 0.97
    tuned = replace(sglang, attention_dp=8, prefill_tokens=32768, memory_fraction=0.8)
    best_vllm = replace(vllm, attention_dp=8, expert_parallel=True, prefill_tokens=16384)
    assert pass_seconds(tuned) < pass_seconds(best_vllm) * 0.9 < pass_seconds(vllm)


def test_the_prefill_rate_grows_with_the_limit_and_levels_off() -> None:
    small, middle, large = (speed(replace(NODE, prefill_tokens=limit)).prefill for limit in (2048, 8192, 32768))
    assert small < middle < large < BASE["sglang"].prefill
    assert middle - small > large - middle


@pytest.mark.parametrize(
    "change",
    [{"graph_batch": 0}, {"overlap": False}, {"torch_compile": True}, {"attention_backend": "triton"}, {"tp": 4}],
)
def test_what_costs(change: dict[str, Any]) -> None:
    assert pass_seconds(replace(NODE, **change)) > pass_seconds(NODE)


@pytest.mark.parametrize(
    "change",
    [{"async_scheduling": True}, {"kv_fp8": True}, {"decode_steps": 4}, {"attention_dp": 8}, {"prefill_tokens": 16384}],
)
def test_what_helps(change: dict[str, Any]) -> None:
    assert pass_seconds(replace(NODE, **change)) < pass_seconds(NODE)


def test_speculation_helps_one_request_and_costs_many() -> None:
    drafting = replace(NODE, draft_tokens=1)
    assert pass_seconds(drafting, requests=1) < pass_seconds(NODE, requests=1)
    assert pass_seconds(drafting, requests=64) > pass_seconds(NODE, requests=64)


def test_a_model_that_is_not_mla_gains_nothing_from_attention_data_parallelism() -> None:
    dense = replace(NODE, shape=shape_of("Qwen3-32B"))
    assert pass_seconds(replace(dense, attention_dp=8)) >= pass_seconds(dense)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"memory_fraction": 0.97}, "capture"),
        ({"memory_fraction": 0.17}, "kv"),
        ({"tp": 1}, "weights"),
        ({"attention_dp": 8, "memory_fraction": 0.97}, "capture"),
        ({"engine": "vllm", "memory_fraction": 0.98}, "capture"),
        ({"attention_dp": 8, "memory_fraction": 0.769}, ""),
        ({"graph_batch": 0, "memory_fraction": 0.97, "prefill_tokens": 2048}, ""),
    ],
)
def test_what_does_not_fit(change: dict[str, Any], why: str) -> None:
    assert memory(replace(NODE, **change)).why == why


def test_kv_cache_of_eight_bits_holds_twice_the_tokens_and_attention_ranks_hold_their_own() -> None:
    tokens = memory(NODE).kv_tokens
    assert memory(replace(NODE, kv_fp8=True)).kv_tokens == pytest.approx(2 * tokens, abs=2)
    assert memory(replace(NODE, attention_dp=8)).kv_tokens > 5 * tokens
    assert memory(replace(NODE, kv_tokens_limit=1000)).kv_tokens == 1000


def test_the_clock_is_repeatable_by_its_seed_and_its_noise_is_small() -> None:
    def steps(seed: int) -> list[float]:
        clock = Clock(NODE, random.Random(seed), cold_tokens=0)
        return [clock.step_seconds(0, 64) for _ in range(200)]

    assert steps(1) == steps(1) != steps(2)
    mean = sum(steps(1)) / 200
    assert mean == pytest.approx(speed(NODE).step + 64 * speed(NODE).sequence, rel=0.02)


def test_the_first_tokens_are_slow() -> None:
    clock = Clock(NODE, random.Random(0))
    cold = clock.step_seconds(COLD_TOKENS, 0)
    assert cold > 2 * clock.step_seconds(COLD_TOKENS, 0)


def test_batches_beyond_the_captured_graphs_are_slow() -> None:
    clock = Clock(replace(NODE, graph_batch=32), random.Random(0), cold_tokens=0)
    clock.speed = Speed(1.0, 1.0, 0.0)
    assert clock.step_seconds(0, 33) > 4 * clock.step_seconds(0, 32)


def test_a_step_with_drafts_yields_what_is_accepted() -> None:
    clock = Clock(replace(NODE, draft_tokens=1), random.Random(0))
    gained = [clock.tokens_of_step() for _ in range(2000)]
    assert set(gained) == {1, 2}
    assert sum(gained) / 2000 == pytest.approx(1.7, abs=0.05)
    assert Clock(NODE).tokens_of_step() == 1


def test_starts_are_short_and_longer_with_more_to_prepare() -> None:
    assert 0.3 <= start_seconds(NODE) <= 1.0
    assert start_seconds(replace(NODE, torch_compile=True)) > start_seconds(NODE)
    assert start_seconds(replace(NODE, graph_batch=0)) < start_seconds(NODE)


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("simulated/DeepSeek-R1", "DeepseekV3ForCausalLM"),
        ("/models/ds-medium/", "DeepseekV3ForCausalLM"),
        ("Qwen/Qwen3-32B", "Qwen3ForCausalLM"),
        ("nobody/knows", "LlamaForCausalLM"),
    ],
)
def test_models_are_known_by_name(name: str, architecture: str) -> None:
    assert shape_of(name).architecture == architecture


def test_slowdown_multiplies_the_factors_of_words_in_the_command() -> None:
    words = ["python3", "-m", "sglang.launch_server", "--enable-dp-attention"]
    assert slowdown(words, "") == 1.0
    assert slowdown(words, "vllm=9,sglang.launch_server=2,--enable-dp-attention=0.5,--x=3") == 1.0
    assert slowdown(words, "sglang.launch_server=2") == 2.0
    with pytest.raises(ValueError, match="could not convert"):
        slowdown(words, "sglang.launch_server=fast")

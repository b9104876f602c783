"""What is known of vLLM settings before they are launched: one row a rule, each with its source.

A rule speaks of flags and of how many requests come at once, never of a study. Texts say what happens and what to do.
"""

from __future__ import annotations

from tuner.engines.rules import Asked, Rule, when
from tuner.engines.versions import span


def _few_places(asked: Asked) -> str:
    places = asked.number("max-num-seqs", float("inf"))
    return when(
        asked.beyond(places * asked.number("data-parallel-size", 1)),
        f"{asked.concurrency} requests at once wait for {places:g} places (max-num-seqs): a queue is measured too",
    )


def _eager_and_compiled(asked: Asked) -> str:
    return when(
        asked.on("enforce-eager") and ("compilation-config" in asked or "optimization-level" in asked),
        "enforce-eager switches CUDA graphs (and in 0.32 torch.compile) off, whatever the compilation flags say",
    )


def _graphs_beyond_sequences(asked: Asked) -> str:
    size, sequences = asked.number("max-cudagraph-capture-size", 0), asked.number("max-num-seqs", 0)
    return when(
        0 < sequences < size, f"CUDA graphs up to {size} are captured, but max-num-seqs {sequences} never fills them"
    )


VLLM = (
    Rule("few-places", "vLLM scheduler: max_num_seqs requests run", ("max-num-seqs",), _few_places, "note"),
    Rule(
        "eager-wins",
        "vLLM 0.11 and 0.32, VllmConfig.__post_init__",
        ("enforce-eager", "compilation-config", "optimization-level"),
        _eager_and_compiled,
    ),
    Rule(
        "chunked-prefill-forced",
        "vLLM 0.11.0 EngineArgs._set_default_args: True for generative models under V1",
        ("enable-chunked-prefill",),
        lambda asked: when(
            asked.off("enable-chunked-prefill"), "vLLM 0.11 switches chunked prefill on for generative models anyway"
        ),
        span=span("..0.12"),
    ),
    Rule(
        "unused-in-v1",
        "vLLM 0.11.0: accepted, unused by V1",
        ("swap-space", "num-lookahead-slots"),
        lambda asked: when(
            "swap-space" in asked or "num-lookahead-slots" in asked,
            "swap-space and num-lookahead-slots are accepted and do nothing in the V1 engine",
        ),
    ),
    Rule(
        "performance-mode-without-room",
        "vLLM 0.32.0: performance_mode fills only values that are unset",
        ("performance-mode", "max-num-seqs", "max-num-batched-tokens"),
        lambda asked: when(
            asked.get("performance-mode") == "throughput"
            and "max-num-seqs" in asked
            and "max-num-batched-tokens" in asked,
            "performance-mode throughput sets max-num-seqs and max-num-batched-tokens, and both are given: no effect",
        ),
    ),
    Rule(
        "async-scheduling-default",
        "vLLM 0.14 to 0.32, SchedulerConfig.async_scheduling is None: on unless it cannot be",
        ("async-scheduling",),
        lambda asked: when(
            asked.on("async-scheduling"),
            "async scheduling is on by default from 0.14 on; its off is what can be measured",
        ),
        "note",
        span("0.14.."),
    ),
    Rule(
        "all2all-rewritten",
        "vLLM 0.32.0 ParallelConfig: pplx and naive become allgather_reducescatter",
        ("all2all-backend",),
        lambda asked: when(
            asked.get("all2all-backend") in ("pplx", "naive"),
            f"all2all-backend {asked.get('all2all-backend')} becomes allgather_reducescatter",
        ),
    ),
    Rule(
        "graphs-beyond-sequences",
        "vLLM 0.32.0: CUDA graphs are captured up to max_cudagraph_capture_size",
        ("max-cudagraph-capture-size", "max-num-seqs"),
        _graphs_beyond_sequences,
        "note",
    ),
)

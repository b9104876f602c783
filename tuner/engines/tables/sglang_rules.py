"""What is known of SGLang settings before they are launched: one row a rule, each with its source.

A rule speaks of flags and of how many requests come at once, never of a study. Texts say what happens and what to do.
"""

from __future__ import annotations

from tuner.engines.rules import Asked, Rule, when
from tuner.engines.versions import span

_SPECULATIVE_PLACES = 48


def _speculation_caps(asked: Asked) -> str:
    if "speculative-algorithm" not in asked or "max-running-requests" in asked:
        return ""
    wait = (
        f": {asked.concurrency} at once wait for {_SPECULATIVE_PLACES} places, so a queue is measured"
        if asked.beyond(_SPECULATIVE_PLACES)
        else ""
    )
    return f"speculation caps running requests at {_SPECULATIVE_PLACES}{wait}; give max-running-requests with it"


def _attention_without_ranks(asked: Asked) -> str:
    return when(
        asked.on("enable-dp-attention") and asked.number("dp-size", 1) < 2,
        "enable-dp-attention does nothing without dp-size: it is switched off again, only some memory stays reserved "
        "(on 8 x H200 mem-fraction-static 0.897 -> 0.881); give dp-size, which must divide tp-size",
    )


def _chunk_without_fraction(asked: Asked) -> str:
    return when(
        asked.on("enable-dp-attention")
        and asked.number("dp-size", 1) > 1
        and "chunked-prefill-size" in asked
        and "mem-fraction-static" not in asked,
        "the memory reserve counts chunked-prefill-size before DP attention divides it by dp-size, so a large one "
        "leaves a tiny KV cache (65536 on 8 x H200: mem-fraction-static 0.17); give mem-fraction-static with it",
    )


def _compiled_batches(asked: Asked) -> str:
    largest = asked.number("torch-compile-max-bs", 32)
    return when(
        asked.on("enable-torch-compile") and asked.beyond(largest),
        f"torch.compile covers batch sizes up to torch-compile-max-bs ({largest}) only; "
        f"{asked.concurrency} requests at once decode in larger ones",
    )


def _half_tree(asked: Asked) -> str:
    tree = ("speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens")
    given = [flag for flag in tree if flag in asked]
    return when(
        "speculative-algorithm" in asked and asked.get("speculative-algorithm") != "NGRAM" and 0 < len(given) < 3,
        f"give {', '.join(tree)} all or none: {', '.join(given)} alone ends in an assertion or is rewritten",
    )


def _draft_tokens_rewritten(asked: Asked) -> str:
    steps, tokens = asked.number("speculative-num-steps", 0), asked.number("speculative-num-draft-tokens", 0)
    return when(
        asked.number("speculative-eagle-topk", 0) == 1 and 0 < tokens != steps + 1,
        f"with speculative-eagle-topk 1 speculative-num-draft-tokens becomes {steps + 1:g} (steps + 1)",
    )


def _sglang_places(asked: Asked) -> str:
    places = asked.number("max-running-requests", float("inf"))
    return when(
        asked.beyond(places),
        f"{asked.concurrency} requests at once wait for {places:g} places (max-running-requests): a queue is measured",
    )


SGLANG = (
    Rule(
        "speculation-caps-requests",
        "SGLang 0.5.3 server_args._handle_speculative_decoding",
        ("speculative-algorithm", "max-running-requests"),
        _speculation_caps,
    ),
    Rule(
        "torch-compile-small-batches",
        "SGLang 0.5.3 ServerArgs.torch_compile_max_bs and cuda_graph_runner.get_batch_sizes_to_capture",
        ("enable-torch-compile", "torch-compile-max-bs"),
        _compiled_batches,
    ),
    Rule(
        "speculative-tree-incomplete",
        "SGLang 0.5.3 server_args._handle_speculative_decoding",
        ("speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens"),
        _half_tree,
    ),
    Rule(
        "draft-tokens-rewritten",
        "SGLang 0.5.3 server_args._handle_speculative_decoding",
        ("speculative-num-draft-tokens",),
        _draft_tokens_rewritten,
    ),
    Rule("few-places", "SGLang scheduler", ("max-running-requests",), _sglang_places, "note"),
    Rule(
        "radix-off-policy",
        "SGLang 0.5.3 scheduler: cache-aware policies are fcfs without the radix cache",
        ("disable-radix-cache", "schedule-policy"),
        lambda asked: when(
            asked.on("disable-radix-cache") and asked.get("schedule-policy") in ("lpm", "dfs-weight"),
            f"schedule-policy {asked.get('schedule-policy')} is fcfs when the radix cache is off",
        ),
    ),
    Rule(
        "blackwell-only",
        "SGLang 0.5.3 server_args: trtllm attention backends need Blackwell",
        ("attention-backend",),
        lambda asked: when(
            asked.get("attention-backend") in ("trtllm_mla", "trtllm_mha"),
            f"attention-backend {asked.get('attention-backend')} runs on Blackwell GPUs only",
        ),
        "note",
    ),
    Rule(
        "lmcache-ignored",
        "SGLang 0.5.3 scheduler.init_memory_pool_and_cache: order of its branches",
        ("enable-lmcache", "enable-hierarchical-cache"),
        lambda asked: when(
            asked.on("enable-lmcache") and asked.on("enable-hierarchical-cache"),
            "enable-lmcache does nothing beside enable-hierarchical-cache",
        ),
    ),
    Rule(
        "dp-lm-head-alone",
        "SGLang 0.5.3 server_args._handle_data_parallelism",
        ("enable-dp-lm-head", "enable-dp-attention", "dp-size"),
        lambda asked: when(
            asked.on("enable-dp-lm-head") and asked.number("dp-size", 1) < 2,
            "enable-dp-lm-head is switched off without dp-size and enable-dp-attention",
        ),
    ),
    Rule(
        "dp-attention-without-dp",
        "SGLang 0.5.3 server_args._handle_data_parallelism",
        ("enable-dp-attention", "dp-size"),
        _attention_without_ranks,
    ),
    Rule(
        "chunk-before-division",
        "SGLang 0.5.3 server_args._handle_gpu_memory_settings runs before _handle_data_parallelism",
        ("chunked-prefill-size", "mem-fraction-static", "dp-size"),
        _chunk_without_fraction,
    ),
    Rule(
        "overlap-off-with-speculation",
        "SGLang 0.5.3 server_args._handle_speculative_decoding",
        ("speculative-algorithm", "enable-mixed-chunk"),
        lambda asked: when(
            "speculative-algorithm" in asked and asked.on("enable-mixed-chunk"),
            "speculation switches enable-mixed-chunk (and the overlap schedule) off",
        ),
        span=span("..0.5.10"),
    ),
    Rule(
        "expert-parallel-rewritten",
        "SGLang 0.5.3 server_args._handle_a2a_moe: deepep sets ep_size to tp_size",
        ("moe-a2a-backend", "ep-size"),
        lambda asked: when(
            asked.get("moe-a2a-backend") == "deepep"
            and "ep-size" in asked
            and asked.get("ep-size") != asked.get("tp-size"),
            "moe-a2a-backend deepep sets ep-size to tp-size, whatever is given",
        ),
    ),
)

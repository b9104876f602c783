"""A KV pool that is far too small: something else held the GPU's memory when the engine started. Pure.

SGLang does not refuse such a start: it serves with what is left (37765 tokens where an undisturbed start has 1148200),
and what is measured is a queue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tuner.engines.logged import kv_tokens
from tuner.trial import Effective, Settings

FAR = 4.0  # a pool that many times smaller is not the same server's
MOVED = 0.2  # a memory fraction that moved by that share of itself explains a pool of another size
_FRACTIONS = ("mem-fraction-static", "gpu-memory-utilization", "kv_cache_free_gpu_memory_fraction")
# What takes the pool to another size of its own accord: how the model is split, how large it is, its memory.
_EXPLAINS = re.compile(
    r"(?:.*[-_])?(?:parallel|tp|pp|dp|ep|cp|dcp|pcp)[-_]?(?:size)?(?:[-_].*)?|.*parallel.*|.*mem(?:ory)?[-_].*|.*tokens?"
    r"|.*blocks?[-_].*|.*quanti[sz].*|.*offload.*|.*lora.*|.*draft-model.*|speculative.config|kv_cache_config|swap.*"
)
# They size batches, not the pool (DP attention by its dp-size alone).
_HARMLESS = frozenset(
    {
        "max-num-batched-tokens", "max-prefill-tokens", "max_num_tokens", "speculative-num-draft-tokens",
        "enable-dp-attention",
    }
)  # fmt: skip


def starved(
    settings: Settings, effective: Effective, base: Settings | None, base_effective: Effective | None
) -> str | None:
    """What is wrong with this launch's pool beside its base's; None where nothing is, or it cannot be told."""
    if base is None or base_effective is None or not _alike(settings, base):
        return None
    tokens, before = kv_tokens(effective.values), kv_tokens(base_effective.values)
    if tokens is None or before is None or tokens * FAR > before or _moved(effective.values, base_effective.values):
        return None
    return (
        f"the KV pool holds {tokens:,} tokens where its base's held {before:,}, and nothing that was asked for explains"
        " it: something else held the GPU's memory when it started; see who uses it (nvidia-smi) and `node.foreign`"
    )


def _alike(settings: Settings, base: Settings) -> bool:
    """Whether they load the same model in the same way, and ask for nothing that sizes the pool."""
    if (settings.engine, settings.model, settings.replicas) != (base.engine, base.model, base.replicas):
        return False
    changed = {key for key in {*settings.args, *base.args} if settings.args.get(key) != base.args.get(key)}
    return not any(_EXPLAINS.fullmatch(key) and key not in _HARMLESS for key in changed)


def _moved(after: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    for key in _FRACTIONS:
        here, there = after.get(key), before.get(key)
        if isinstance(here, (int, float)) and isinstance(there, (int, float)) and there:
            return abs(here - there) > MOVED * there
    return False

"""What a model's `config.json` says that decides whether a configuration can start. Pure: the caller reads the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers by name, as `tuner.engines.constraints` speaks of them; what the file does not say is left out.

    `kv-heads` only where heads are kept per GPU (not for MLA); `positions` only where nothing stretches them.
    """
    inner = config.get("text_config")
    text = {**config, **(inner if isinstance(inner, Mapping) else {})}
    experts = _first(text, ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"))
    found = {
        "model-attention-heads": _first(text, ("num_attention_heads", "n_head")),
        "model-kv-heads": None if text.get("kv_lora_rank") else _first(text, ("num_key_value_heads",)),
        "model-layers": _first(text, ("num_hidden_layers", "n_layer")),
        "model-positions": None if _stretched(text) else _first(text, ("max_position_embeddings",)),
        "model-experts": experts,
        "model-expert-width": _first(text, ("moe_intermediate_size", "intermediate_size")) if experts else None,
        "model-fp8-block": _block(text),
    }
    return {name: value for name, value in found.items() if value is not None}


def _first(config: Mapping[str, Any], names: Sequence[str]) -> int | None:
    """The first of these that is a positive number; some models hold a list of one for each layer instead."""
    values = (config.get(name) for name in names)
    return next((value for value in values if type(value) is int and value > 0), None)


def _stretched(config: Mapping[str, Any]) -> bool:
    """Positions beyond those trained: each engine reckons them in its own way."""
    ways = [config.get("rope_scaling"), config.get("rope_parameters")]
    return any(
        isinstance(way, Mapping) and way.get("rope_type", way.get("type")) not in (None, "default") for way in ways
    )


def _block(config: Mapping[str, Any]) -> int | None:
    """The size of the blocks that weights are quantised in (DeepSeek's FP8: 128)."""
    quantized = config.get("quantization_config")
    sizes = quantized.get("weight_block_size") if isinstance(quantized, Mapping) else None
    return max(sizes) if isinstance(sizes, list) and sizes and all(type(size) is int for size in sizes) else None

"""Options of `vllm bench serve` 0.11 and 0.32 that `tuner bench` does not take, each with what to use instead. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from tuner.errors import Fault, SpecError

_JSONL = "write its prompts to a JSONL file and give --dataset-name custom --dataset-path FILE"
_TEXT_ONLY = "only text is sent; take `vllm bench serve` for this"
_PLOT = "--save-result --save-detailed or --save-records keeps what to plot"


@dataclass(frozen=True)
class Refused:
    """`takes` is how many words follow (None: any number), `harmless` the value that asks for nothing."""

    instead: str
    takes: int | None = 1
    harmless: str | None = None


OPTIONS: dict[str, Refused] = {
    "--chat-template-kwargs": Refused(
        "the server applies the template: --extra-body '{\"chat_template_kwargs\": {...}}' reaches it"
    ),
    "--custom-ensure-client-side-data": Refused(_TEXT_ONLY, 0),
    "--enable-multimodal-chat": Refused(_TEXT_ONLY, 0),
    "--lora-modules": Refused("run once for each adapter, with its name as --model", None),
    "--lora-assignment": Refused("run once for each adapter, with its name as --model"),
    "--no-reranker": Refused("only completions and chats are measured; take `vllm bench serve` for this", 0),
    "--no-self-timed": Refused("put the lengths into a JSONL file and give --dataset-name custom --request-rate", 0),
    "--plot-dataset-stats": Refused(_PLOT, 0),
    "--plot-timeline": Refused(_PLOT, 0),
    "--timeline-itl-thresholds": Refused(_PLOT, harmless="25,50"),
    "--probe-request-rate": Refused(
        "run a second `tuner bench --request-rate ...` of short prompts beside this one", harmless="0"
    ),
    "--profile": Refused("POST /start_profile and /stop_profile to the server before and after", 0),
    "--random-batch-size": Refused("only completions and chats are measured", harmless="1"),
    "--use-beam-search": Refused("--extra-body '{\"use_beam_search\": true}' asks for it", 0),
    "--sonnet-input-len": Refused(_JSONL),
    "--sonnet-output-len": Refused(_JSONL),
    "--sonnet-prefix-len": Refused(_JSONL),
}
# Options that belong to a dataset which is refused, by how they begin.
FAMILIES: dict[str, str] = {
    "--asr-": _TEXT_ONLY,
    "--bfcl-": _JSONL,
    "--blazedit-": _JSONL,
    "--hf-": _JSONL,
    "--random-mm-": _TEXT_ONLY,
    "--spec-bench-": _JSONL,
    "--speed-bench-": _JSONL,
}
DATASETS: dict[str, str] = {
    "burstgpt": "make a trace of it (timestamp, input_length, output_length) and give --dataset-name timed_trace",
    "random-mm": _TEXT_ONLY,
    "random-rerank": "only completions and chats are measured",
    "custom_audio": _TEXT_ONLY,
    "custom_image": _TEXT_ONLY,
    **dict.fromkeys(("hf", "spec_bench", "speed_bench", "sonnet"), _JSONL),
}
BACKENDS = (
    "openai-responses", "openai-audio", "openai-embeddings", "openai-embeddings-chat", "openai-embeddings-clip",
    "openai-embeddings-vlm2vec", "infinity-embeddings", "infinity-embeddings-clip", "vllm-pooling", "vllm-rerank",
    "tgi", "lmdeploy", "deepspeed-mii", "tensorrt-llm", "scalellm", "sglang", "llama.cpp",
)  # fmt: skip


def without_harmless(words: list[str]) -> list[str]:
    """The words without the refused options that ask for nothing.

    Raises:
        SpecError: those that ask for something, all of them.
    """
    faults, kept, rest = [], [], iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        refused = _refused(name)
        if refused is None:
            kept.append(word)
            continue
        given = value if equals else " ".join(_following(rest, refused)) if refused.takes == 1 else ""
        if refused.harmless is None or not _same(given, refused.harmless):
            faults.append(Fault(f"`tuner bench` has no {name}", way_out=refused.instead))
    if faults:
        raise SpecError(faults)
    return kept


def _refused(name: str) -> Refused | None:
    family = next((instead for begin, instead in FAMILIES.items() if name.startswith(begin)), None)
    return OPTIONS.get(name) or (Refused(family) if family else None)


def _following(rest: Iterator[str], refused: Refused) -> Iterator[str]:
    yield from islice(rest, refused.takes)


def _same(given: str, harmless: str) -> bool:
    try:
        return float(given) == float(harmless)
    except ValueError:
        return given == harmless

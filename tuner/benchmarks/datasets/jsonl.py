"""A JSONL file of prompts or of chats: `{"prompt": "...", "output_tokens": 200}` or `{"messages": [...], ...}`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from tuner.benchmarks import Request, Workload
from tuner.benchmarks.datasets.files import enough, fault, is_length, json_lines
from tuner.benchmarks.datasets.texts import clean, content_texts, lengths, tokenizer_of

# What the output length of a line may be called; the first is the name that vLLM's `custom` dataset reads.
OUTPUT_LENGTHS = ("output_tokens", "output_len", "max_tokens")
WAY_OUT = 'write lines such as {"prompt": "Why is the sky blue?", "output_tokens": 200}'


def requests(workload: Workload, seed: int) -> list[Request]:
    """The lines in the order of vLLM's `custom` dataset: shuffled by `seed` unless the workload keeps the file's order.

    No chat template is laid over a prompt (vLLM's `--skip-chat-template`): on the chat endpoint the server does it.

    Raises:
        SpecError: a line that cannot be used, or too few of them.
    """
    tokenizer = tokenizer_of(workload)
    read = list(_read(workload))
    if workload.shuffle:
        Random(seed).shuffle(read)
    read = read[: workload.num_prompts]
    counted = lengths([_text(prompt) for prompt, _ in read], tokenizer)
    made = [Request(prompt, length, output) for (prompt, output), length in zip(read, counted, strict=True)]
    return enough(made, workload, seed)


def check(workload: Workload) -> None:
    """Every line."""
    enough([Request(prompt, 0, output) for prompt, output in _read(workload)], workload, 0)


def _read(workload: Workload) -> Iterator[tuple[str | tuple[Mapping[str, Any], ...], int]]:
    """Prompt (or messages) and output length of every line."""
    for number, line in json_lines(workload, WAY_OUT):
        yield _prompt(line, workload, number), _output_len(line, workload, number)


def _prompt(line: Mapping[str, Any], workload: Workload, number: int) -> str | tuple[Mapping[str, Any], ...]:
    prompt, messages = line.get("prompt"), line.get("messages")
    if isinstance(prompt, str) and prompt and messages is None:
        return clean(prompt)
    if not _are_messages(messages) or prompt is not None:
        rule = "a line has either `prompt`, a text, or `messages`, a list of {role, content}"
        raise fault(workload, rule, _shown(line), WAY_OUT, number)
    if workload.endpoint != "chat":
        way_out = "choose endpoint: chat (--backend openai-chat), or write `prompt`"
        raise fault(workload, "messages can only be sent to the chat endpoint", workload.endpoint, way_out, number)
    return tuple(messages)  # type: ignore[arg-type]


def _shown(line: Mapping[str, Any]) -> str:
    """What of a line is wrong: the value of the key that is there, else which keys are."""
    there = [name for name in ("prompt", "messages") if name in line]
    if len(there) == 1:
        return f"{there[0]}: {json.dumps(line[there[0]], ensure_ascii=False)}"[:100]
    return ", ".join(line)[:100] or "no key"


def _are_messages(messages: Any) -> bool:
    return (
        isinstance(messages, list)
        and bool(messages)
        and all(isinstance(each, dict) and isinstance(each.get("role"), str) for each in messages)
    )


def _output_len(line: Mapping[str, Any], workload: Workload, number: int) -> int:
    if workload.fixed_output_len is not None:
        return workload.fixed_output_len
    named = next((name for name in OUTPUT_LENGTHS if name in line), None)
    if named is None:
        way_out = "add it to the line, or give all of them one length (fixed_output_len, --custom-output-len)"
        raise fault(workload, "a line says how many tokens to ask for in `output_tokens`", "none", way_out, number)
    value = line[named]
    if not is_length(value):
        raise fault(workload, f"`{named}` is a whole number of at least 1", str(value)[:100], "mend the line", number)
    return int(value)


def _text(prompt: str | Sequence[Mapping[str, Any]]) -> str:
    """What of a request is counted: all its text."""
    if isinstance(prompt, str):
        return prompt
    return clean("\n".join(text for message in prompt for text in content_texts(message.get("content"))))

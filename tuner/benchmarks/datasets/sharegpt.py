"""ShareGPT: first turns of conversations as prompts, as long an answer asked for as the second turn is."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from pydantic_core import from_json

from tuner.benchmarks import Request, Workload
from tuner.benchmarks.datasets.files import dataset_file, enough, fault
from tuner.benchmarks.datasets.texts import clean, lengths, tokenizer_of
from tuner.benchmarks.tokenizer import Tokenizer

# The filter, in tokens
SHORTEST = 4
LONGEST_PROMPT = 1024
LONGEST = 2048
WAY_OUT = "use ShareGPT_V3_unfiltered_cleaned_split.json, or dataset random"


def requests(workload: Workload, seed: int) -> list[Request]:
    """The sampling of `ShareGPTDataset`: conversations of two turns or more, shuffled by `seed`; of prompts below 4
    or above 1024 tokens, answers below 4 and sums above 2048 none is taken.

    Raises:
        SpecError: the file is missing or no ShareGPT JSON, or too few conversations fit.
    """
    tokenizer = tokenizer_of(workload)
    pairs = list(_conversations(workload))
    if workload.shuffle:
        Random(seed).shuffle(pairs)
    taken: list[Request] = []
    for some in _portions(pairs, workload.num_prompts):
        taken += _fitting([(clean(prompt), clean(answer)) for prompt, answer in some], workload, tokenizer)
        if len(taken) >= workload.num_prompts:
            break
    if not taken:
        rule = f"a conversation needs a prompt of {SHORTEST}..{LONGEST_PROMPT} tokens and {LONGEST} with its answer"
        raise fault(workload, rule, f"none of {len(pairs)} conversations does", WAY_OUT)
    return enough(taken, workload, seed)


def check(workload: Workload) -> None:
    """Only that the file is there: it is large."""
    dataset_file(workload, WAY_OUT)


def _portions(pairs: Sequence[tuple[str, str]], wanted: int) -> Iterator[Sequence[tuple[str, str]]]:
    """The pairs in their order, in portions worth counting at once; two in three conversations fit."""
    at, size = 0, wanted + wanted // 2 + 16
    while at < len(pairs):
        yield pairs[at : at + size]
        at, size = at + size, max(size // 4, 64)


def _fitting(pairs: Sequence[tuple[str, str]], workload: Workload, tokenizer: Tokenizer | None) -> list[Request]:
    """Those within the filter. Answers to prompts outside it are not counted."""
    counted = zip(pairs, lengths([prompt for prompt, _ in pairs], tokenizer), strict=True)
    asked = [(pair, length) for pair, length in counted if SHORTEST <= length <= LONGEST_PROMPT]
    made = workload.fixed_output_len
    answers = lengths([answer for (_, answer), _ in asked], tokenizer) if made is None else [made] * len(asked)
    shortest = SHORTEST if made is None else 0
    return [
        Request(prompt, prompt_len, output_len)
        for ((prompt, _), prompt_len), output_len in zip(asked, answers, strict=True)
        if output_len >= shortest and prompt_len + output_len <= LONGEST
    ]


def _conversations(workload: Workload) -> tuple[tuple[str, str], ...]:
    """The first two turns of every conversation that has two, in the file's order."""
    try:
        pairs = _read(*dataset_file(workload, WAY_OUT))
    except (ValueError, RecursionError) as error:
        rule = "a ShareGPT dataset is a JSON list of conversations"
        raise fault(workload, rule, str(error)[:200], WAY_OUT) from None
    if not pairs:
        rule = "a ShareGPT entry has `conversations` of at least two turns with `value`"
        raise fault(workload, rule, "no such entry", WAY_OUT)
    return pairs


@lru_cache(maxsize=1)
def _read(path: str, changed: int, size: int) -> tuple[tuple[str, str], ...]:
    with _no_collector():
        entries = _parsed(Path(path).read_bytes())
        if not isinstance(entries, list):
            raise ValueError(f"the file holds {type(entries).__name__}")
        return tuple(pair for entry in entries if (pair := _first_turns(entry)) is not None)


def _parsed(data: bytes) -> Any:
    """By the faster parser; by the standard one what only that takes (halves of surrogate pairs), and to say what is
    wrong with what neither takes."""
    try:
        return from_json(data, cache_strings="keys")
    except ValueError:
        return json.loads(data)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Millions of objects are made and none is garbage: looking for it would take as long as reading."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _first_turns(entry: Any) -> tuple[str, str] | None:
    turns = entry.get("conversations") if isinstance(entry, dict) else None
    if not isinstance(turns, list) or len(turns) < 2 or not all(isinstance(turn, dict) for turn in turns[:2]):
        return None
    first, second = turns[0].get("value"), turns[1].get("value")
    return (first, second) if isinstance(first, str) and isinstance(second, str) else None

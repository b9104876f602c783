"""A recorded trace: when each request came, how long it was, how long its answer, and what it shared with others.

JSONL in the form of the traces of Mooncake and Qwen-Bailian, which vLLM's `timed_trace` reads:
`{"timestamp": 0.5, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}`. A hash id stands for a block
of the prompt; prompts with the same ids in front have the same text in front. The texts are made here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tuner.benchmarks import Request, Workload
from tuner.benchmarks.datasets.files import fault, is_length, json_lines
from tuner.benchmarks.datasets.fitting import Fitting, fit, read_back
from tuner.benchmarks.datasets.texts import WORDS, fixed, tokenizer_of
from tuner.benchmarks.tokenizer import Tokenizer

WAY_OUT = 'write lines such as {"timestamp": 0.5, "input_length": 1200, "output_length": 200}'
BLOCKS = (16, 512)  # tokens for a hash id in the traces of Qwen-Bailian and of Mooncake

LEAST_WORDS, MOST_WORDS = 100, 4000


@dataclass(frozen=True)
class Entry:
    """One line. `at` in the file's own unit of time."""

    at: float
    input_len: int
    output_len: int
    blocks: tuple[int | str, ...] = ()


def requests(workload: Workload, seed: int) -> list[Request]:
    """The first `num_prompts` requests of the trace by their times, the first one due at once.

    `due` is the time since the first one, in seconds once multiplied by the workload's `time_scale`: 0.001 for a trace
    in milliseconds, 2 for half the pace of one in seconds. The special tokens that the tokenizer adds are taken off
    the input length.

    Raises:
        SpecError: a line that cannot be used, or too few of them.
    """
    entries = _chosen(workload)
    tokenizer = tokenizer_of(workload)
    if tokenizer is None:
        prompts = _prompts(entries, list(range(len(WORDS))), seed)
        made = [(" ".join([WORDS[number] for number in ids]), len(ids)) for ids in prompts]
    else:
        short = [replace(each, input_len=max(1, each.input_len - tokenizer.added_by_default)) for each in entries]
        ids = _word_ids(tokenizer)
        made = _texts(_prompts(short, ids, seed), ids, tokenizer, seed)
    start = entries[0].at
    return [
        Request(text, length, fixed(workload, entry.output_len), (entry.at - start) * workload.time_scale)
        for (text, length), entry in zip(made, entries, strict=True)
    ]


def check(workload: Workload) -> None:
    """Every line."""
    _chosen(workload)


def _chosen(workload: Workload) -> list[Entry]:
    entries = sorted(_entries(workload), key=lambda entry: entry.at)
    if len(entries) < workload.num_prompts:
        rule = f"the trace holds too few requests: {workload.num_prompts} are to be sent"
        raise fault(workload, rule, str(len(entries)), f"lower num_prompts to {len(entries)}")
    return entries[: workload.num_prompts]


def _entries(workload: Workload) -> Iterator[Entry]:
    for number, line in json_lines(workload, WAY_OUT):
        at = line.get("timestamp")
        if not isinstance(at, (int, float)) or isinstance(at, bool) or not math.isfinite(at):
            raise fault(workload, "`timestamp` is a number", _shown(line, "timestamp"), WAY_OUT, number)
        for name in ("input_length", "output_length"):
            if not is_length(line.get(name)):
                raise fault(workload, f"`{name}` is a whole number of at least 1", _shown(line, name), WAY_OUT, number)
        blocks = line.get("hash_ids") or ()
        if not isinstance(blocks, (list, tuple)) or not all(isinstance(block, (int, str)) for block in blocks):
            raise fault(workload, "`hash_ids` is a list of numbers", _shown(line, "hash_ids"), "mend it", number)
        yield Entry(float(at), int(line["input_length"]), int(line["output_length"]), tuple(blocks))


def _shown(line: Mapping[str, Any], name: str) -> str:
    if name in line:
        return repr(line[name])[:100]
    return f"no such key among {', '.join(line)}"[:200] or "no key"


def block_size(entries: Sequence[Entry]) -> int:
    """How many tokens a hash id stands for: n ids for a prompt of n-1 to n times as many.

    The size that a known trace has where one fits, else the smallest that fits; where none fits all, what the
    longest prompt says.
    """
    hashed = [entry for entry in entries if entry.blocks]
    if not hashed:
        return BLOCKS[0]
    low = max(math.ceil(entry.input_len / len(entry.blocks)) for entry in hashed)
    bounds = (math.ceil(entry.input_len / (len(entry.blocks) - 1)) - 1 for entry in hashed if len(entry.blocks) > 1)
    high = min(bounds, default=None)
    known = [size for size in BLOCKS if low <= size and (high is None or size <= high)]
    if known:
        return known[0]
    longest = max(hashed, key=lambda entry: entry.input_len)
    return low if high is None or low <= high else math.ceil(longest.input_len / len(longest.blocks))


def _prompts(entries: Sequence[Entry], ids: Sequence[int], seed: int) -> list[list[int]]:
    """Of each entry `input_len` of the `ids`: those of its blocks, and beyond them some of its own."""
    size = block_size(entries)
    block = _blocks(ids, size, seed)
    made = []
    for index, entry in enumerate(entries):
        prompt = [number for each in entry.blocks[: -(-entry.input_len // size)] for number in block(each)]
        own = Random(f"{seed} request {index}")
        made.append((prompt + own.choices(ids, k=max(0, entry.input_len - len(prompt))))[: entry.input_len])
    return made


def _blocks(ids: Sequence[int], size: int, seed: int) -> Callable[[int | str], list[int]]:
    kept: dict[int | str, list[int]] = {}

    def block(named: int | str) -> list[int]:
        if named not in kept:
            kept[named] = Random(f"{seed} block {named}").choices(ids, k=size)
        return kept[named]

    return block


def _word_ids(tokenizer: Tokenizer) -> Sequence[int]:
    """Ids that are a word with the space before it and are read as themselves, so that blocks stay what they are.

    Every ordinary id, where the tokenizer knows no words.
    """
    edges = tokenizer.word_edges
    both = [number for number, edge in enumerate(zip(*edges, strict=True)) if all(edge)] if edges else []
    some = both[:: max(1, len(both) // MOST_WORDS)]
    read = read_back([[number] for number in some], tokenizer)
    stable = [number for number, (_, same) in zip(some, read, strict=True) if same == [number]]
    return stable if len(stable) >= LEAST_WORDS else tokenizer.ordinary_ids


def _texts(prompts: Sequence[list[int]], ids: Sequence[int], tokenizer: Tokenizer, seed: int) -> list[tuple[str, int]]:
    """Cut and padded at the end, so that what is common in front stays so."""
    rng = Random(f"{seed} padding")
    fittings = [Fitting(prompt, len(prompt)) for prompt in prompts]
    fit(fittings, tokenizer, lambda count: rng.choices(ids, k=count))
    return [fitting.prompt for fitting in fittings]

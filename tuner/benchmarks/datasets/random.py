"""Random prompts of drawn lengths, the `RandomDataset` of `vllm bench serve`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.benchmarks import Request, Workload
from tuner.benchmarks.datasets.fitting import Fitting, cut, fit
from tuner.benchmarks.datasets.texts import WORDS, joined, tokenizer_of, words
from tuner.benchmarks.datasets.windows import Window, fittings
from tuner.benchmarks.tokenizer import Tokenizer
from tuner.errors import SpecError


def requests(workload: Workload, seed: int) -> list[Request]:
    """Prompts of lengths drawn evenly from (1-r)..(1+r) times the asked ones, r being the range ratio, after a common
    prefix.

    With a tokenizer, the special tokens that it adds are taken off the input length, and prompt i is the text of
    consecutive ids from a drawn offset + i on. `vllm-0.32`: of ordinary ids, cut and padded until the length is right.
    `vllm-0.11`: of all ids, cut but never padded. Without a tokenizer: so many words.

    Raises:
        SpecError: a ratio outside [0, 1), or a prompt could come out empty.
    """
    tokenizer = tokenizer_of(workload)
    special = tokenizer.added_by_default if tokenizer else 0
    real = max(0, workload.input_len - special)
    inputs = _spread(workload, "range_ratio", real, workload.range_ratio)
    outputs = _output_spread(workload)
    if workload.prefix_len + inputs.start < 1:
        raise SpecError(
            f"workload {workload.name}: every prompt has at least one token (input_len {workload.input_len}, less "
            f"{special} special tokens, range_ratio {workload.range_ratio}, may give {inputs.start}); raise input_len"
        )
    drawn = _draw(inputs, outputs, len(WORDS) if tokenizer is None else tokenizer.vocab_size, workload, seed)
    if tokenizer is None:
        return _of_words(drawn, workload)
    if workload.definitions == "vllm-0.11":
        return _only_cut(drawn, workload, tokenizer)
    return _fitted(drawn, workload, tokenizer)


def check(workload: Workload) -> None:
    """The ratios."""
    _spread(workload, "range_ratio", workload.input_len, workload.range_ratio)
    _output_spread(workload)


@dataclass(frozen=True)
class _Drawn:
    """What is drawn for each prompt, in this order, and the generator, which goes on after it."""

    inputs: list[int]
    outputs: list[int]
    offsets: list[int]
    rng: np.random.Generator


def _draw(inputs: range, outputs: range, vocabulary: int, workload: Workload, seed: int) -> _Drawn:
    rng, count = np.random.default_rng(seed), workload.num_prompts
    spans = (inputs, outputs, range(vocabulary))
    lengths, answers, offsets = (rng.integers(span.start, span.stop, size=count).tolist() for span in spans)
    return _Drawn(lengths, answers, offsets, rng)


def _spread(workload: Workload, name: str, length: int, ratio: float) -> range:
    if not 0 <= ratio < 1:
        raise SpecError(f"workload {workload.name}: {name} is at least 0 and below 1 (got {ratio})")
    return range(math.floor(length * (1 - ratio)), math.ceil(length * (1 + ratio)) + 1)


def _output_spread(workload: Workload) -> range:
    own = workload.output_range_ratio
    name, ratio = ("range_ratio", workload.range_ratio) if own is None else ("output_range_ratio", own)
    spread = _spread(workload, name, workload.output_len, ratio)
    return range(max(1, spread.start), max(2, spread.stop))


def _of_words(drawn: _Drawn, workload: Workload) -> list[Request]:
    prefix = words(workload.prefix_len, drawn.rng)
    return [
        Request(joined(prefix, words(length, drawn.rng)), workload.prefix_len + length, output)
        for length, output in zip(drawn.inputs, drawn.outputs, strict=True)
    ]


def _only_cut(drawn: _Drawn, workload: Workload, tokenizer: Tokenizer) -> list[Request]:
    size = tokenizer.vocab_size
    prefix = drawn.rng.integers(0, size, size=workload.prefix_len).tolist() if workload.prefix_len > 0 else []
    made = fittings(np.arange(size), prefix, _windows(drawn, size, workload.prefix_len), tokenizer, decoded=True)
    cut(made, tokenizer)
    return _requests(made, drawn)


def _fitted(drawn: _Drawn, workload: Workload, tokenizer: Tokenizer) -> list[Request]:
    def pad(count: int) -> list[int]:
        ids: list[int] = drawn.rng.integers(0, tokenizer.vocab_size, size=count).tolist()
        return ids  # among them special ones, as with vLLM

    ring = np.array(tokenizer.ordinary_ids)
    prefix: list[int] = []
    if workload.prefix_len > 0:
        ids = ring[drawn.rng.integers(0, len(ring), size=workload.prefix_len)].tolist()
        fitting = Fitting(ids, len(ids))
        fit([fitting], tokenizer, pad)
        prefix = fitting.ids
    made = fittings(ring, prefix, _windows(drawn, len(ring), workload.prefix_len), tokenizer)
    fit(made, tokenizer, pad)
    return _requests(made, drawn)


def _windows(drawn: _Drawn, size: int, prefix_len: int) -> list[Window]:
    """Prompt i begins at its offset + i on the ring of so many ids."""
    return [
        Window((offset + index) % size, length, prefix_len + length)
        for index, (length, offset) in enumerate(zip(drawn.inputs, drawn.offsets, strict=True))
    ]


def _requests(made: Sequence[Fitting], drawn: _Drawn) -> list[Request]:
    return [Request(*fitting.prompt, output) for fitting, output in zip(made, drawn.outputs, strict=True)]

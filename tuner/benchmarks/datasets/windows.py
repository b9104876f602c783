"""Many windows on one ring of token ids, encoded for little more than the ring once.

A random prompt is the text of consecutive ids from some offset on, so a thousand long prompts read the vocabulary
over and over. Tokenizers that work word by word let text be cut before a word, that is, between a letter and a space
that a letter follows: what is left and right of it is encoded the same with and without the other side. So the ring is
cut into chunks at such places, each chunk is encoded once, and of a window only its two ends are its own.
That cutting there changes nothing is checked on the chunks themselves; where it does, there is no short cut.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from tuner.benchmarks.datasets.fitting import ROUNDS, Fitting, read_back
from tuner.benchmarks.tokenizer import Tokenizer

CHUNK = 96  # ids at least; a window's own ends are about that long together
WORTH = 4096  # ids in all windows, below which there is nothing to gain


@dataclass(frozen=True)
class Window:
    """`length` ids of the ring from `start` on, after a prefix; `total` ids are wanted of both."""

    start: int
    length: int
    total: int


def fittings(
    ring: np.ndarray, prefix: list[int], windows: Sequence[Window], tokenizer: Tokenizer, *, decoded: bool = False
) -> list[Fitting]:
    """The windows, to be fitted; most of them tried already, and cut once.

    `decoded`: a text that came out right at once is wanted as its ids are decoded (they are, once more, by `cut`).
    """
    cuts = cuts_of(ring, tokenizer) if sum(each.total for each in windows) > WORTH else []
    return apart(ring, prefix, windows, tokenizer, cuts, decoded) or whole(ring, prefix, windows)


def whole(ring: np.ndarray, prefix: list[int], windows: Sequence[Window]) -> list[Fitting]:
    """The windows, nothing tried."""
    return [Fitting(prefix + _slice(ring, each.start, each.start + each.length), each.total) for each in windows]


def apart(
    ring: np.ndarray,
    prefix: list[int],
    windows: Sequence[Window],
    tokenizer: Tokenizer,
    cuts: Sequence[int],
    decoded: bool = False,
) -> list[Fitting]:
    """The windows, encoded by their parts; none if that is no way for this tokenizer."""
    if len(cuts) < 2:
        return []
    plans = [_plan(each, cuts, len(ring), bool(prefix)) for each in windows]
    chunks = _chunks(ring, cuts, {chunk for plan in plans for chunk in plan.chunks}, tokenizer)
    heads = _parts([prefix + _slice(ring, *plan.head) for plan in plans], tokenizer)
    if chunks is None or heads is None:
        return []
    tails = read_back([_slice(ring, *plan.tail) for plan in plans], tokenizer)
    return [
        _tried([head, *(chunks[chunk] for chunk in plan.chunks)], tail, window.total, decoded)
        for plan, head, tail, window in zip(plans, heads, tails, windows, strict=True)
    ]


def cuts_of(ring: np.ndarray, tokenizer: Tokenizer, chunk: int = CHUNK) -> list[int]:
    """Places on the ring before which it may be cut, at least `chunk` apart; none where the tokenizer says so."""
    edges = tokenizer.word_edges
    if edges is None:
        return []
    begins, ends = (np.array(each, dtype=bool)[ring] for each in edges)
    chosen: list[int] = []
    for place in np.flatnonzero(begins & np.roll(ends, 1)).tolist():
        if not chosen or place - chosen[-1] >= chunk:
            chosen.append(place)
    return chosen


@dataclass(frozen=True)
class _Part:
    """A piece of text, the ids it is read as, and the text that these are: another only where a tokenizer rewrites."""

    text: str
    ids: list[int]
    again: str


@dataclass(frozen=True)
class _Plan:
    """A window as its own beginning, whole chunks, its own end. Places go on past the ring's end."""

    head: tuple[int, int]
    chunks: tuple[int, ...]
    tail: tuple[int, int]


def _plan(window: Window, cuts: Sequence[int], size: int, prefixed: bool) -> _Plan:
    end = window.start + window.length
    # after a prefix at least one id belongs to the head: how the prefix ends is not known here
    first = bisect_left(cuts, window.start + prefixed)
    at = _place(cuts, first, size)
    if at > end:
        return _Plan((window.start, end), (), (end, end))
    last = first
    while _place(cuts, last + 1, size) <= end:
        last += 1
    chunks = tuple(chunk % len(cuts) for chunk in range(first, last))
    return _Plan((window.start, at), chunks, (_place(cuts, last, size), end))


def _place(cuts: Sequence[int], index: int, size: int) -> int:
    """Of the cut with this number, counted on round the ring."""
    turns, index = divmod(index, len(cuts))
    return cuts[index] + turns * size


def _slice(ring: np.ndarray, start: int, end: int) -> list[int]:
    ids: list[int] = ring[np.arange(start, end) % len(ring)].tolist()
    return ids


def _chunks(ring: np.ndarray, cuts: Sequence[int], wanted: set[int], tokenizer: Tokenizer) -> dict[int, _Part] | None:
    """The wanted chunks; None if encoding neighbours together gives anything else than encoding them apart."""
    order = sorted(wanted)
    read = _parts([_slice(ring, cuts[each], _place(cuts, each + 1, len(ring))) for each in order], tokenizer)
    if read is None:
        return None
    parts = dict(zip(order, read, strict=True))
    runs = list(_runs(order))
    joined = [[number for each in run for number in parts[each].ids] for run in runs]
    for texts in (["".join(parts[each].text for each in run) for run in runs],
                  ["".join(parts[each].again for each in run) for run in runs]):  # fmt: skip
        if tokenizer.encode_all(texts, special=False) != joined:
            return None
    return parts


def _parts(sequences: Sequence[list[int]], tokenizer: Tokenizer) -> list[_Part] | None:
    """None if one of them is read as other ids once its ids are decoded."""
    read = read_back(sequences, tokenizer)
    again = read_back([list(ids) for _, ids in read], tokenizer)
    if any(ids != same for (_, ids), (_, same) in zip(read, again, strict=True)):
        return None
    return [_Part(text, ids, other) for (text, ids), (other, _) in zip(read, again, strict=True)]


def _runs(order: Sequence[int]) -> Iterator[list[int]]:
    """Neighbours, a few dozen at a time, each run from the last of the one before on."""
    for _, group in groupby(enumerate(order), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield from (run[at : at + 33] for at in range(0, len(run), 32))


def _tried(front: Sequence[_Part], tail: tuple[str, list[int]], total: int, decoded: bool) -> Fitting:
    """The first round of fitting: all parts are read, and what is too long is cut.

    What comes before the part that is cut, or padded, stays as it is from then on.
    """
    text, ids = tail
    kept, led = len(front), sum(len(part.ids) for part in front)
    if led + len(ids) == total and not decoded:
        return Fitting(ids, len(ids), text, "".join(part.text for part in front), led, tried=True)
    too_long = led + len(ids) > total
    while led > total:
        kept -= 1
        led, ids = led - len(front[kept].ids), front[kept].ids
    lead = "".join(part.again for part in front[:kept])
    if too_long:
        return Fitting(ids[: total - led], total - led, lead=lead, led=led, rounds=ROUNDS - 1)
    return Fitting(list(ids), total - led, text, lead, led, tried=True)

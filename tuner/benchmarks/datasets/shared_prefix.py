"""Groups of prompts with a common beginning, the `prefix_repetition` dataset of `vllm bench serve`."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from tuner.benchmarks import Request, Workload
from tuner.benchmarks.datasets.fitting import Fitting, finish, read_back, settle
from tuner.benchmarks.datasets.texts import joined, tokenizer_of, words
from tuner.benchmarks.tokenizer import Tokenizer
from tuner.errors import SpecError

MOST_AT_ONCE = 256
MOST_DRAWS = 1000  # for one piece; only ids whose text is read as nothing need so many


def requests(workload: Workload, seed: int) -> list[Request]:
    """`num_prefixes` groups of as many prompts each: `prefix_len` common tokens, then `input_len` of the prompt's own.

    Shuffled by `seed` unless the workload says otherwise. Where the number of prompts is no multiple of that of the
    groups, vLLM sends fewer; here the first groups get one more, at the end of the list.

    Raises:
        SpecError: fewer prompts than groups, or no prefix.
    """
    check(workload)
    tokenizer = tokenizer_of(workload)
    each, left = divmod(workload.num_prompts, workload.num_prefixes)
    group = [workload.prefix_len] + [workload.input_len] * each
    lengths = group * workload.num_prefixes + [workload.input_len] * left
    if tokenizer is None:
        rng = np.random.default_rng(seed)
        prompts = _put_together([words(length, rng) for length in lengths], each, workload.num_prefixes, joined)
        made = [Request(prompt, workload.prefix_len + workload.input_len, workload.output_len) for prompt in prompts]
    else:
        pieces = _Pieces(seed, tokenizer, padded=workload.definitions != "vllm-0.11").of(lengths)
        ids = _put_together(pieces, each, workload.num_prefixes, lambda prefix, own: prefix + own)
        texts = tokenizer.decode_all(ids)
        made = [Request(text, len(each), workload.output_len) for text, each in zip(texts, ids, strict=True)]
    whole, extra = made[: len(made) - left], made[len(made) - left :]
    if workload.shuffle:
        Random(seed).shuffle(whole)
    return [*whole, *extra]


def check(workload: Workload) -> None:
    """The numbers."""
    rule = ""
    if workload.prefix_len < 1:
        rule = "dataset shared-prefix needs prefix_len, the number of tokens that the prompts of a group begin with"
    elif not 1 <= workload.num_prefixes <= workload.num_prompts:
        rule = f"{workload.num_prompts} prompts cannot begin with {workload.num_prefixes} prefixes; lower num_prefixes"
    if rule:
        raise SpecError(f"workload {workload.name}: {rule}")


def _put_together(pieces: Sequence[Any], each: int, groups: int, join: Any) -> list[Any]:
    """Prompts of the pieces, which are each group's prefix and `each` own parts, then parts for the first groups."""
    size = each + 1
    starts = range(0, groups * size, size)
    made = [join(pieces[start], own) for start in starts for own in pieces[start + 1 : start + size]]
    return made + [join(pieces[start], own) for start, own in zip(starts, pieces[groups * size :], strict=False)]


class _Pieces:
    """Sequences of ids whose text is read as just those ids, from one stream of drawn ids.

    A piece is drawn, tried, and where it came out short more is drawn; only then the next piece is drawn. So what a
    piece starts from depends on how those before it fared. Here some are tried at once, on the guess that none will
    need more; those after the first that does are drawn again.
    """

    def __init__(self, seed: int, tokenizer: Tokenizer, padded: bool) -> None:
        self._stream, self._tokenizer, self._padded = _Stream(seed, tokenizer.vocab_size), tokenizer, padded

    def of(self, lengths: Sequence[int]) -> list[list[int]]:
        done: list[list[int]] = []
        size = MOST_AT_ONCE
        while len(done) < len(lengths):
            got = self._some(lengths[len(done) : len(done) + size])
            size = min(MOST_AT_ONCE, size * 2) if len(got) == size else max(1, size // 2)
            done += got
        return done

    def _some(self, lengths: Sequence[int]) -> list[list[int]]:
        """The first pieces of these lengths: all, or as far as the guess held."""
        stream, done = self._stream, []
        drawn = stream.ahead(lengths)
        fittings = [Fitting(ids, length) for ids, length in zip(drawn, lengths, strict=True)]
        if self._padded:
            settle(fittings, self._tokenizer)
        else:
            for fitting, (_, ids) in zip(fittings, read_back(drawn, self._tokenizer), strict=True):
                fitting.ids = ids[: fitting.length]
        for fitting in fittings:
            stream.draw(fitting.length)
            done.append(fitting.ids)
            if fitting.short:
                self._lengthen(fitting)
                break
        return done

    def _lengthen(self, fitting: Fitting) -> None:
        """0.32 pads and tries the whole again; 0.11 appends a piece of what is missing, made in the same way."""
        if self._padded:
            return finish(fitting, self._tokenizer, self._stream.draw)
        for _ in range(MOST_DRAWS):
            missing = fitting.length - len(fitting.ids)
            if not missing:
                return None
            ((_, more),) = read_back([self._stream.draw(missing)], self._tokenizer)
            fitting.ids += more[:missing]
        return None


class _Stream:
    """Ids drawn by numpy's older generator, as `numpy.random.seed` and `randint` give them. The values do not depend
    on how many are drawn at a time, so that one can look ahead."""

    def __init__(self, seed: int, size: int) -> None:
        self._rng, self._size = np.random.RandomState(seed), size
        self._seen: list[int] = []

    def draw(self, count: int) -> list[int]:
        ids = self._look(count)
        del self._seen[:count]
        return ids

    def ahead(self, counts: Sequence[int]) -> list[list[int]]:
        """What drawing these numbers of ids would give."""
        ids, made, at = self._look(sum(counts)), [], 0
        for count in counts:
            made.append(ids[at : at + count])
            at += count
        return made

    def _look(self, count: int) -> list[int]:
        missing = count - len(self._seen)
        if missing > 0:
            self._seen += self._rng.randint(0, self._size, size=missing).tolist()
        return self._seen[:count]

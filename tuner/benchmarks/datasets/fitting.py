"""Token ids to text that is read as so many ids again.

Decoding is no exact inverse of encoding: of ids put side by side at will, some are read as one, some as several. So
they are decoded and encoded, cut or padded, and tried again, as `vllm bench serve` does: the same ids, the same text.
Many are tried at once: a batch is encoded on all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tuner.benchmarks.tokenizer import Tokenizer

ROUNDS = 10  # after which a length may be off by a few
BATCH = 256  # encoded at once: of long prompts more would only take memory
Pad: TypeAlias = Callable[[int], Sequence[int]]  # so many ids, drawn


@dataclass
class Fitting:
    """Ids on their way to `length` of them; once `tried`, they are what `text` is read as.

    They follow the text `lead`, which is read as `led` ids whatever follows.
    """

    ids: list[int]
    length: int
    text: str = ""
    lead: str = ""
    led: int = 0
    rounds: int = ROUNDS
    tried: bool = False

    @property
    def settled(self) -> bool:
        return self.rounds <= 0 or len(self.ids) == self.length

    @property
    def short(self) -> bool:
        return not self.settled and len(self.ids) < self.length

    @property
    def prompt(self) -> tuple[str, int]:
        """The whole text and the number of ids it is read as."""
        return self.lead + self.text, self.led + len(self.ids)


def fit(fittings: Sequence[Fitting], tokenizer: Tokenizer, pad: Pad) -> None:
    """Settle all. What is too short is padded one after the other, in their order, so that ids are drawn in it."""
    settle(fittings, tokenizer)
    for fitting in fittings:
        finish(fitting, tokenizer, pad)


def settle(fittings: Sequence[Fitting], tokenizer: Tokenizer) -> None:
    """Try all, cutting what is too long, until each is settled or would have to be padded."""
    trying = [fitting for fitting in fittings if not fitting.tried]
    while trying:
        _try(trying, tokenizer)
        trying = [fitting for fitting in trying if not (fitting.settled or fitting.short)]
        for fitting in trying:
            del fitting.ids[fitting.length :]
            fitting.rounds, fitting.tried = fitting.rounds - 1, False


def finish(fitting: Fitting, tokenizer: Tokenizer, pad: Pad) -> None:
    """Pad one that was tried, until it is settled."""
    while fitting.short:
        fitting.ids += pad(fitting.length - len(fitting.ids))
        fitting.rounds, fitting.tried = fitting.rounds - 1, False
        settle([fitting], tokenizer)


def cut(fittings: Sequence[Fitting], tokenizer: Tokenizer) -> None:
    """Read each back once, cut what is too long, and leave it at that: text of the ids then left."""
    _try([fitting for fitting in fittings if fitting.rounds == ROUNDS and not fitting.tried], tokenizer)
    for fitting in fittings:
        del fitting.ids[fitting.length :]
    texts = tokenizer.decode_all([fitting.ids for fitting in fittings])
    for fitting, text in zip(fittings, texts, strict=True):
        fitting.text = text


def read_back(sequences: Sequence[list[int]], tokenizer: Tokenizer) -> list[tuple[str, list[int]]]:
    """The text of each sequence of ids, and what it is read as."""
    fittings = [Fitting(ids, 0) for ids in sequences]
    _try(fittings, tokenizer)
    return [(fitting.text, fitting.ids) for fitting in fittings]


def _try(fittings: Sequence[Fitting], tokenizer: Tokenizer) -> None:
    for start in range(0, len(fittings), BATCH):
        some = fittings[start : start + BATCH]
        texts = tokenizer.decode_all([fitting.ids for fitting in some])
        for fitting, text, ids in zip(some, texts, tokenizer.encode_all(texts, special=False), strict=True):
            fitting.text, fitting.ids, fitting.tried = text, ids, True

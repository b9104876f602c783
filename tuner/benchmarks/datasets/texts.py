"""Texts of a wanted length and lengths of given texts, with the model's tokenizer or without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tuner.benchmarks import Workload
from tuner.benchmarks.tokenizer import Tokenizer, load_tokenizer

# Short common words: nearly every tokenizer has each of them, with the space before it, as one token.
WORDS = tuple(
    """the of and to in is was for on that with as it by at from his he this are be but not have an or which they
    one you were her all she there would their we him been has when who will more no if out so said what up its
    about into than them can only other new some could time these two may then do first any my now such like our
    over man me even most made after also did many before must through back years where much your way well down
    should because each just those people how too little state good very make world still own see men work long
    get here between both life being under never day same another know while last might us great old year off
    come since against go came right used take three house water hand side small part place high school form
    line number city head group four case room fact point thing night course given order service late field
    paper white black light word table music river sound voice plant color heart green bank money rule""".split()  # noqa: SIM905
)


def tokenizer_of(workload: Workload) -> Tokenizer | None:
    """The workload's tokenizer, if it names one.

    Raises:
        SpecError: it cannot be used.
    """
    return load_tokenizer(workload.tokenizer, workload.definitions) if workload.tokenizer else None


def lengths(texts: Sequence[str], tokenizer: Tokenizer | None) -> list[int]:
    """In tokens, with the special tokens that the tokenizer adds; without a tokenizer, approximately."""
    return tokenizer.count_all(texts, special=True) if tokenizer else [approximate_length(text) for text in texts]


def approximate_length(text: str) -> int:
    """A token for four bytes of text, the usual rule for English; never fewer than words would need."""
    return max(len(text.encode("utf-8", "replace")) // 4, len(text.split()))


def words(count: int, rng: np.random.Generator) -> str:
    """So many words, one standing for one token."""
    return " ".join([WORDS[index] for index in rng.integers(0, len(WORDS), size=count).tolist()])


def joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def clean(text: str) -> str:
    """Without halves of surrogate pairs, which JSON can hold and no request or tokenizer can."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def fixed(workload: Workload, given: int) -> int:
    """The output length to ask for, where a file gives one."""
    return given if workload.fixed_output_len is None else workload.fixed_output_len


def content_texts(content: Any) -> list[str]:
    """The texts of a chat message's content, which is one text or a list of parts."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]

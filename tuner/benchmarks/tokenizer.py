"""The model's tokenizer, for datasets that count tokens. Needs the optional package `tokenizers`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

from tuner.errors import Fault, SpecError


class Tokenizer(Protocol):
    """Text to token ids and back."""

    @property
    def ordinary_ids(self) -> Sequence[int]:
        """Every id that is not a special token, ascending."""
        ...

    @property
    def added_by_default(self) -> int:
        """How many special tokens `encode(text, special=True)` adds."""
        ...

    def encode(self, text: str, *, special: bool) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


def load_tokenizer(path: str) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`, or of the folder that holds one.

    Raises:
        SpecError: no such file, not a tokenizer, or `tokenizers` is not installed. Nothing is ever downloaded.
    """
    file = Path(path)
    file = file / "tokenizer.json" if file.is_dir() else file
    if not file.is_file():
        raise _fault(path, "a tokenizer is a tokenizer.json or the folder that holds one", "no such file")
    return _load(str(file), file.stat().st_mtime_ns)


class _FastTokenizer:
    """A tokenizer of the `tokenizers` package."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @cached_property
    def ordinary_ids(self) -> Sequence[int]:
        special = {number for number, token in self._tokenizer.get_added_tokens_decoder().items() if token.special}
        return [n for n in range(self._tokenizer.get_vocab_size(with_added_tokens=False)) if n not in special]

    @property
    def added_by_default(self) -> int:
        return int(self._tokenizer.num_special_tokens_to_add(False))

    def encode(self, text: str, *, special: bool) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=special).ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))


@lru_cache(maxsize=2)
def _load(file: str, changed: int) -> Tokenizer:
    try:
        import tokenizers
    except ImportError:
        raise _fault(
            file, "a tokenizer needs the package `tokenizers`", "", "pip install 'tuner[tokenizers]'"
        ) from None
    try:
        return _FastTokenizer(tokenizers.Tokenizer.from_file(file))
    except Exception as error:  # the package raises bare Exception
        raise _fault(file, "a tokenizer is a tokenizer.json of the `tokenizers` package", str(error)[:200]) from None


def _fault(
    file: str, rule: str, value: str, way_out: str = "leave `tokenizer` out: lengths are approximated"
) -> SpecError:
    return SpecError([Fault(rule, file=file, value=value, way_out=way_out)])

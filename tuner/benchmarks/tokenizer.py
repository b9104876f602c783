"""The model's tokenizer, by the `tokenizers` package alone: from a folder, a file, or the hub and its local cache.

It behaves as transformers' fast tokenizer of the same files does, which is what `vllm bench serve` counts with;
`tokenizer_config.json` says which tokens are special. vLLM 0.11 came with transformers 4, which took two more things
from there: whether spaces before punctuation are taken out of decoded text, and, for tokenizers of Llama's class
(DeepSeek's among them), whether a beginning or end of sequence is added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

from tuner.benchmarks import Definitions
from tuner.benchmarks.hub import CONFIG, FILE, WAIT_S, fault, from_hub, is_hub_name, short

_NAMED = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
_SPACE = "\u0120"  # how byte-level vocabularies write it
# What "clean_up_tokenization_spaces" does to decoded text, in this order.
_CLEANED = (
    *((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'")),
    *((f" {end}", end) for end in ("n't", "'m", "'s", "'ve", "'re")),
)


class Tokenizer(Protocol):
    """Text to token ids and back. The `_all` methods take many at once, which is several times faster."""

    @property
    def vocab_size(self) -> int:
        """The number of ids, without those added to the model's vocabulary."""
        ...

    @property
    def ordinary_ids(self) -> Sequence[int]:
        """Every id below `vocab_size` that is not a special token, ascending."""
        ...

    @property
    def added_by_default(self) -> int:
        """How many special tokens `encode(text, special=True)` adds."""
        ...

    @property
    def word_edges(self) -> tuple[Sequence[bool], Sequence[bool]] | None:
        """For each id whether its text begins with a space and a letter, and whether it ends with a letter (ASCII).

        None for a tokenizer of which it is not known that it encodes words apart, with the space before each.
        """
        ...

    def encode(self, text: str, *, special: bool) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def encode_all(self, texts: Sequence[str], *, special: bool) -> list[list[int]]: ...

    def decode_all(self, sequences: Sequence[Sequence[int]]) -> list[str]: ...

    def count_all(self, texts: Sequence[str], *, special: bool) -> list[int]:
        """The number of ids of each text."""
        ...


def load_tokenizer(named: str, definitions: Definitions = "vllm-0.32", wait_s: float = WAIT_S) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`, of the folder that holds one, or of a model on the hub.

    A model on the hub is looked for in the hub's cache on this machine first, and only then downloaded, for which
    `wait_s` seconds are allowed.

    Raises:
        SpecError: no such file, not a tokenizer, or the hub has no such model or cannot be reached.
    """
    file = Path(named)
    file = file / FILE if file.is_dir() else file
    if not file.is_file():
        file = from_hub(named, wait_s) if is_hub_name(named) else _missing(named, file)
    config = file.parent / CONFIG
    changed = (file.stat().st_mtime_ns, config.stat().st_mtime_ns if config.is_file() else 0)
    return _load(str(file), changed, old=definitions == "vllm-0.11")


class _FastTokenizer:
    """A tokenizer of the `tokenizers` package."""

    def __init__(self, tokenizer: Any, special: frozenset[int], clean: bool) -> None:
        self._tokenizer, self._special, self._clean = tokenizer, special, clean

    @cached_property
    def vocab_size(self) -> int:
        return int(self._tokenizer.get_vocab_size(with_added_tokens=False))

    @cached_property
    def ordinary_ids(self) -> Sequence[int]:
        return [number for number in range(self.vocab_size) if number not in self._special]

    @property
    def added_by_default(self) -> int:
        return int(self._tokenizer.num_special_tokens_to_add(False))

    @cached_property
    def word_edges(self) -> tuple[Sequence[bool], Sequence[bool]] | None:
        added = self._tokenizer.get_added_tokens_decoder()
        if not _by_words(self._tokenizer) or any(re.search("[A-Za-z] [A-Za-z]", t.content) for t in added.values()):
            return None
        begins, ends = [False] * self.vocab_size, [False] * self.vocab_size
        for token, number in self._tokenizer.get_vocab(with_added_tokens=False).items():
            if number < self.vocab_size and number not in added:
                begins[number] = token[:1] == _SPACE and token[1:2].isascii() and token[1:2].isalpha()
                ends[number] = token[-1:].isascii() and token[-1:].isalpha()
        return begins, ends

    def encode(self, text: str, *, special: bool) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=special).ids)

    def decode(self, ids: Sequence[int]) -> str:
        return self._cleaned(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def encode_all(self, texts: Sequence[str], *, special: bool) -> list[list[int]]:
        return [encoding.ids for encoding in self._encodings(texts, special)]

    def decode_all(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        made = self._tokenizer.decode_batch([list(ids) for ids in sequences], skip_special_tokens=False)
        return [self._cleaned(text) for text in made]

    def count_all(self, texts: Sequence[str], *, special: bool) -> list[int]:
        return [len(encoding) for encoding in self._encodings(texts, special)]

    def _encodings(self, texts: Sequence[str], special: bool) -> list[Any]:
        """Without offsets into the text, which nobody here asks for."""
        made: list[Any] = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=special)
        return made

    def _cleaned(self, text: str) -> str:
        if self._clean:
            for written, meant in _CLEANED:
                text = text.replace(written, meant)
        return text


@lru_cache(maxsize=2)
def _load(file: str, changed: tuple[int, int], old: bool) -> Tokenizer:
    import tokenizers

    try:
        made = tokenizers.Tokenizer.from_file(file)
    except Exception as error:  # the package raises bare Exception
        raise fault(file, "a tokenizer is a tokenizer.json of the `tokenizers` package", short(error)) from None
    made.no_truncation()
    made.no_padding()
    config = _config(Path(file).parent / CONFIG)
    if old and str(config.get("tokenizer_class", "")).startswith("LlamaTokenizer"):
        _add_ends(made, config)
    # the clean-up is meant for WordPiece; transformers 5 leaves it out for BPE
    clean = config.get("clean_up_tokenization_spaces") is True and (old or type(made.model).__name__ != "BPE")
    return _FastTokenizer(made, _special_ids(made, config), clean)


def _config(file: Path) -> Mapping[str, Any]:
    if not file.is_file():
        return {}
    try:
        read = json.loads(file.read_bytes())
    except (ValueError, OSError) as error:
        raise fault(str(file), "a tokenizer's configuration is a JSON object", short(error)) from None
    return read if isinstance(read, dict) else {}


def _add_ends(tokenizer: Any, config: Mapping[str, Any]) -> None:
    """`add_bos_token` and `add_eos_token` in place of the file's own post-processor."""
    from tokenizers.processors import TemplateProcessing

    asked = {"bos": config.get("add_bos_token", True), "eos": config.get("add_eos_token", False)}
    first, last = (_token(config.get(f"{end}_token")) if asked[end] else "" for end in asked)
    numbers = ((token, tokenizer.token_to_id(token)) for token in (first, last) if token)
    known = [(token, number) for token, number in numbers if number is not None]
    names = {token for token, _ in known}
    single = [f"{first}:0"] * (first in names) + ["$A:0"] + [f"{last}:0"] * (last in names)
    tokenizer.post_processor = TemplateProcessing(single=single, special_tokens=known)


def _special_ids(tokenizer: Any, config: Mapping[str, Any]) -> frozenset[int]:
    """What the configuration names; where there is none, what the tokenizer's own file marks as special."""
    more = config.get("extra_special_tokens") or config.get("additional_special_tokens") or ()
    written = [config.get(name) for name in _NAMED] + list(more.values() if isinstance(more, dict) else more)
    if not config:
        return frozenset(number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special)
    numbers = (tokenizer.token_to_id(token) for token in map(_token, written) if token)
    return frozenset(number for number in numbers if number is not None)


def _by_words(tokenizer: Any) -> bool:
    """Whether this is a byte-level BPE whose text is split into words by a regular expression beforehand."""
    steps = _steps(tokenizer.pre_tokenizer, "pretokenizers")
    levels = [step for step in steps if step["type"] == "ByteLevel"]
    splits = any(step["type"] == "Split" and "Regex" in step.get("pattern", {}) for step in steps)
    return (
        type(tokenizer.model).__name__ == "BPE"
        and all(step["type"] == "NFC" for step in _steps(tokenizer.normalizer, "normalizers"))
        and all(step["type"] in ("ByteLevel", "Split", "Digits") for step in steps)
        and len(levels) == 1
        and not levels[0].get("add_prefix_space")
        and (splits or bool(levels[0].get("use_regex", True)))
    )


def _steps(part: Any, several: str) -> list[dict[str, Any]]:
    """A normalizer or pre-tokenizer as its file describes it, step by step."""
    if part is None:
        return []
    written = json.loads(part.__getstate__())
    steps: list[dict[str, Any]] = written.get(several, [written])
    return steps


def _token(written: Any) -> str:
    """A token is written as its text, or as a mapping with its `content`."""
    content = written.get("content") if isinstance(written, dict) else written
    return content if isinstance(content, str) else ""


def _missing(named: str, file: Path) -> Path:
    folder = Path(named)
    there = sorted(each.name for each in folder.iterdir() if "token" in each.name)[:3] if folder.is_dir() else []
    value = f"no such file; there is {', '.join(there)}" if there else "no such file"
    raise fault(named, "a tokenizer is a tokenizer.json or the folder that holds one", value)

"""Prompts: lengths, determinism, the vLLM algorithms, and datasets that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from tuner.benchmarks import Workload
from tuner.benchmarks.datasets import (
    LONGEST,
    LONGEST_PROMPT,
    SHORTEST,
    WORDS,
    random_requests,
    requests,
    sharegpt_requests,
)  # fmt: skip
from tuner.errors import SpecError

LETTERS = "abcdefghij"


class PairTokenizer:
    """A small real tokenizer whose decoding is no exact inverse: ids are letters and pairs of letters; the longest
    match wins, so that two letters side by side come back as one id. Id 0 is special and is put in front."""

    TOKENS = ("<s>", *LETTERS, *(a + b for a in LETTERS[:4] for b in LETTERS))
    ordinary_ids = tuple(range(1, len(TOKENS)))
    added_by_default = 1

    def encode(self, text: str, *, special: bool) -> list[int]:
        ids, at = [0] if special else [], 0
        while at < len(text):
            size = 2 if text[at : at + 2] in self.TOKENS else 1
            ids.append(self.TOKENS.index(text[at : at + size]))
            at += size
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.TOKENS[number] for number in ids)


PAIRS = PairTokenizer()


def sharegpt_file(folder: Path, entries: Any) -> str:
    path = folder / "sharegpt.json"
    path.write_text(entries if isinstance(entries, str) else json.dumps(entries))
    return str(path)


def talk(*turns: str) -> dict[str, Any]:
    return {"id": "x", "conversations": [{"from": "human", "value": turn} for turn in turns]}


def words(count: int) -> str:
    return " ".join(["word"] * count)


# -- random


@given(
    st.integers(1, 300), st.integers(1, 50), st.integers(1, 20), st.sampled_from([0.0, 0.3, 0.9]), st.integers(0, 2**40)
)
def test_random_words_have_the_asked_lengths(
    input_len: int, output_len: int, count: int, ratio: float, seed: int
) -> None:
    workload = Workload(num_prompts=count, input_len=input_len + 20, output_len=output_len, range_ratio=ratio)
    made = requests(workload, seed)
    assert len(made) == count
    for request in made:
        assert len(request.prompt.split()) == request.prompt_len
        assert (input_len + 20) * (1 - ratio) - 1 < request.prompt_len < (input_len + 20) * (1 + ratio) + 1
        assert max(1, output_len * (1 - ratio) - 1) <= request.output_len < output_len * (1 + ratio) + 1
    assert made == requests(workload, seed)


def test_prompts_differ_from_each_other_and_between_seeds() -> None:
    workload = Workload(num_prompts=200, input_len=32)
    starts = [" ".join(r.prompt.split()[:16]) for seed in (0, 1) for r in requests(workload, seed)]
    assert len(set(starts)) == 400


def test_a_range_is_used_from_end_to_end() -> None:
    made = requests(Workload(num_prompts=2000, input_len=10, output_len=10, range_ratio=0.5), 0)
    assert {request.prompt_len for request in made} == set(range(5, 16))
    assert {request.output_len for request in made} == set(range(5, 16))


def test_the_words_are_plain() -> None:
    assert len(set(WORDS)) == len(WORDS) > 150
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)


@given(st.integers(2, 200), st.integers())
def test_with_a_tokenizer_prompts_have_exactly_the_asked_tokens(length: int, seed: int) -> None:
    workload = Workload(num_prompts=5, input_len=length, output_len=3)
    made = random_requests(workload, seed, PAIRS)
    for request in made:
        assert request.prompt_len == len(PAIRS.encode(request.prompt, special=False))
        # one special token is taken off, as the server will add it
        assert abs(request.prompt_len - (length - 1)) <= 1
        assert "<" not in request.prompt
    assert made == random_requests(workload, seed, PAIRS)


def test_most_prompts_fit_exactly() -> None:
    made = random_requests(Workload(num_prompts=300, input_len=101), 5, PAIRS)
    assert sum(request.prompt_len == 100 for request in made) >= 290


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"range_ratio": 1.0}, "below 1"),
        ({"range_ratio": -0.1}, "at least 0"),
        ({"input_len": 0}, "raise input_len"),
        ({"input_len": 10, "range_ratio": 0.95}, "may give 0"),
    ],
)
def test_lengths_that_cannot_be_made(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        requests(Workload(**changes), 0)


def test_a_prompt_of_special_tokens_only() -> None:
    with pytest.raises(SpecError, match="less 1 special tokens"):
        random_requests(Workload(input_len=1), 0, PAIRS)


# -- ShareGPT


def test_first_turns_are_asked_and_second_turns_give_the_length(tmp_path: Path) -> None:
    path = sharegpt_file(tmp_path, [talk(words(10), words(20), words(5)), talk("alone"), {"other": 1}])
    (request,) = requests(Workload(dataset="sharegpt", path=path, num_prompts=1), 0)
    assert request.prompt == words(10)
    assert (request.prompt_len, request.output_len) == (12, 24)  # four bytes a token


def test_the_order_is_vllms(tmp_path: Path) -> None:
    entries = [talk(f"{words(8)} {n}", words(8)) for n in range(50)]
    workload = Workload(dataset="sharegpt", path=sharegpt_file(tmp_path, entries), num_prompts=20)
    numbers = list(range(50))
    Random(3).shuffle(numbers)
    assert [int(r.prompt.split()[-1]) for r in requests(workload, 3)] == numbers[:20]
    assert requests(workload, 3) == requests(workload, 3) != requests(workload, 4)


def test_too_few_conversations_are_drawn_again(tmp_path: Path) -> None:
    entries = [talk(f"{words(8)} {n}", words(8)) for n in range(3)]
    workload = Workload(dataset="sharegpt", path=sharegpt_file(tmp_path, entries), num_prompts=10)
    made = requests(workload, 0)
    assert len(made) == 10
    assert len(set(made)) == 3
    drawn, rng = made[:3], Random(0)
    assert made[3:] == [rng.choice(drawn) for _ in range(7)]


def test_lengths_outside_the_filter_are_left_out(tmp_path: Path) -> None:
    pairs = [(3, 50), (4, 50), (1024, 50), (1025, 50), (50, 3), (50, 4), (1024, 1024), (1024, 1025)]
    # "e" and "f" begin no pair: each letter is a token, and one special token is put in front
    entries = [talk("e" * (prompt - 1), "f" * (answer - 1)) for prompt, answer in pairs]
    workload = Workload(dataset="sharegpt", path=sharegpt_file(tmp_path, entries), num_prompts=8)
    made = {(r.prompt_len, r.output_len) for r in sharegpt_requests(workload, 0, PAIRS)}
    assert made == {(4, 50), (1024, 50), (50, 4), (1024, 1024)}
    assert (SHORTEST, LONGEST_PROMPT, LONGEST) == (4, 1024, 2048)
    fixed = Workload(dataset="sharegpt", path=workload.path, num_prompts=8, sharegpt_output_len=2)
    assert {r.output_len for r in sharegpt_requests(fixed, 0, PAIRS)} == {2}
    assert {r.prompt_len for r in sharegpt_requests(fixed, 0, PAIRS)} == {4, 50, 1024}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{not json", "JSON list of conversations"),
        ('{"a": 1}', "the file holds dict"),
        ("[" * 100_000, "JSON list of conversations"),
        ("", "JSON list of conversations"),
        ("[]", "at least two turns"),
        ('[1, null, {"conversations": 5}, {"conversations": [1, 2]}, {"conversations": [{}, {}]}]', "two turns"),
        (json.dumps([talk("a", "b")]), "none of 1 conversations does"),
    ],
)
def test_a_file_that_is_no_dataset(tmp_path: Path, text: str, why: str) -> None:
    path = sharegpt_file(tmp_path, text)
    with pytest.raises(SpecError, match=why) as caught:
        requests(Workload(name="chat", dataset="sharegpt", path=path), 0)
    assert path in str(caught.value)
    assert "workload chat" in str(caught.value)


def test_a_dataset_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(SpecError, match="file that can be read"):
            requests(Workload(dataset="sharegpt", path=str(path)), 0)
    with pytest.raises(SpecError, match="needs `path`"):
        requests(Workload(dataset="sharegpt"), 0)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'["\xff\xfe"]')
    with pytest.raises(SpecError, match="JSON list of conversations"):
        requests(Workload(dataset="sharegpt", path=str(path)), 0)


# -- the optional package


def test_a_tokenizer_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "tokenizer.json", "meta/some-model"):
        with pytest.raises(SpecError, match=r"no such file.*leave `tokenizer` out"):
            requests(Workload(tokenizer=str(path)), 0)


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(SpecError, match=r"tokenizer\.json of the"):
        requests(Workload(tokenizer=str(tmp_path)), 0)


def test_the_tokenizers_package(tmp_path: Path) -> None:
    vocabulary = {"<s>": 0, "<unk>": 1} | {f"w{n}": n + 2 for n in range(500)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.add_special_tokens(["<s>", "<unk>"])
    made.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made.save(str(tmp_path / "tokenizer.json"))
    requested = requests(Workload(num_prompts=10, input_len=65, tokenizer=str(tmp_path)), 1)
    assert [request.prompt_len for request in requested] == [64] * 10
    first = [int(word[1:]) for word in requested[0].prompt.split()]
    assert all((later - earlier) % 500 == 1 for earlier, later in pairwise(first))
    path = sharegpt_file(tmp_path, [talk("w1 w2 w3 w4", "w5 w6 w7 w8 w9")])
    (talked,) = requests(Workload(dataset="sharegpt", path=path, num_prompts=1, tokenizer=str(tmp_path)), 0)
    assert (talked.prompt_len, talked.output_len) == (5, 6)

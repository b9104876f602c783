"""Prompts: those that the real `vllm bench serve` makes, lengths, determinism, and datasets that cannot be used."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, processors

from tuner.benchmarks import Request, Workload
from tuner.benchmarks.datasets import check, requests, windows
from tuner.benchmarks.datasets.fitting import cut, fit
from tuner.benchmarks.datasets.sharegpt import LONGEST, LONGEST_PROMPT, SHORTEST
from tuner.benchmarks.datasets.texts import WORDS
from tuner.benchmarks.datasets.trace import Entry, block_size
from tuner.benchmarks.datasets.windows import Window
from tuner.benchmarks.tokenizer import load_tokenizer
from tuner.errors import SpecError

DATA = Path(__file__).parent / "data" / "datasets"  # make.py there says how these files were made
TOKENIZER = str(DATA / "tokenizer")
FILES = {"sharegpt": str(DATA / "sharegpt.json"), "jsonl": str(DATA / "prompts.jsonl")}


def sharegpt_file(folder: Path, entries: Any) -> str:
    path = folder / "sharegpt.json"
    path.write_text(entries if isinstance(entries, str) else json.dumps(entries))
    return str(path)


def lines_file(folder: Path, *lines: Any) -> str:
    path = folder / "lines.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return str(path)


def talk(*turns: str) -> dict[str, Any]:
    return {"id": "x", "conversations": [{"from": "human", "value": turn} for turn in turns]}


def words(count: int) -> str:
    return " ".join(["word"] * count)


def shared(sequences: Sequence[Sequence[Any]]) -> int:
    """How much of their beginnings is the same."""
    together = list(zip(*sequences, strict=False))
    return next((at for at, each in enumerate(together) if len(set(each)) > 1), len(together))


def word_tokenizer(folder: Path) -> str:
    """A word is a token; one special token is put in front."""
    vocabulary = {"<s>": 0, "<unk>": 1} | {f"w{number}": number + 2 for number in range(500)}
    made = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(["<s>", "<unk>"])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made.save(str(folder / "tokenizer.json"))
    return str(folder)


# -- what the real packages make


def golden() -> list[Any]:
    """Every case: 0.32.0 and 0.11.0.post2 were run on these files."""
    return [
        pytest.param(version, case, id=f"{version} {case['dataset']} {number}")
        for version in ("vllm-0.32", "vllm-0.11")
        for number, case in enumerate(json.loads((DATA / f"expected-{version}.json").read_text()))
    ]


@pytest.mark.parametrize(("version", "case"), golden())
def test_the_requests_are_those_of_vllm(version: Any, case: dict[str, Any]) -> None:
    workload = Workload(
        dataset=case["dataset"],
        definitions=version,
        tokenizer=TOKENIZER,
        path=FILES.get(case["dataset"]),
        **case["options"],
    )
    made = requests(workload, case["seed"])
    assert [[each.prompt, each.prompt_len, each.output_len] for each in made] == case["requests"]


def test_the_cases_hold_what_makes_a_difference() -> None:
    """Prompts cut, padded, and left short or long; requests drawn again."""
    new, old = (json.loads((DATA / f"expected-{version}.json").read_text()) for version in ("vllm-0.32", "vllm-0.11"))
    lengths = [{each[1] for each in cases[0]["requests"]} for cases in (new, old)]
    assert [(min(each), max(each)) for each in lengths] == [(32, 33), (30, 32)]
    again = [next(c for c in cases if c["dataset"] == "sharegpt" and len(c["requests"]) == 60) for cases in (new, old)]
    one, other = (case["requests"] for case in again)
    assert one != other
    assert one[:30] == other[:30]
    assert max(Counter(each[0] for each in one).values()) > 1


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


def test_answers_may_have_a_range_of_their_own() -> None:
    workload = Workload(num_prompts=500, input_len=10, output_len=10, range_ratio=0.5, output_range_ratio=0.0)
    made = requests(workload, 0)
    assert {request.output_len for request in made} == {10}
    assert len({request.prompt_len for request in made}) == 11


def test_the_words_are_plain() -> None:
    assert len(set(WORDS)) == len(WORDS) > 150
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)


@pytest.mark.parametrize("tokenizer", [None, TOKENIZER])
def test_all_prompts_begin_with_the_prefix(tokenizer: str | None) -> None:
    made = requests(Workload(num_prompts=6, input_len=20, prefix_len=30, tokenizer=tokenizer), 3)
    common = shared([request.prompt for request in made])
    assert common > 60
    assert all(abs(request.prompt_len - 49) <= 2 for request in made)


@pytest.mark.parametrize("definitions", ["vllm-0.32", "vllm-0.11"])
def test_many_prompts_are_those_that_each_prompt_alone_would_be(definitions: Any) -> None:
    """Enough of them to be encoded by their parts; the first ones are also made in a list too short for that."""
    few = Workload(num_prompts=1, input_len=600, tokenizer=TOKENIZER, definitions=definitions)
    many = Workload(num_prompts=40, input_len=600, tokenizer=TOKENIZER, definitions=definitions)
    tokenizer, rng = load_tokenizer(TOKENIZER), np.random.default_rng(9)
    ids = np.array(tokenizer.ordinary_ids if definitions == "vllm-0.32" else range(tokenizer.vocab_size))
    drawn = [rng.integers(low, high, size=40) for low, high in ((599, 600), (128, 129), (0, tokenizer.vocab_size))]
    places = [Window((int(at) + index) % len(ids), 599, 599) for index, at in enumerate(drawn[2])]
    plain = windows.whole(ids, [], places)
    if definitions == "vllm-0.32":
        fit(plain, tokenizer, lambda count: rng.integers(0, tokenizer.vocab_size, size=count).tolist())
    else:
        cut(plain, tokenizer)
    assert [(each.prompt, each.prompt_len) for each in requests(many, 9)] == [each.prompt for each in plain]
    assert requests(few, 9)[0].prompt_len == 599


LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "llama-3": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(LLAMA_3), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
    "deepseek": pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(tokenizers.Regex(each), "isolated") for each in (r"[\r\n]", r"\s?\p{L}+", r"\s+$")),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
}


def resplit(folder: Path, how: Any) -> str:
    made = tokenizers.Tokenizer.from_file(f"{TOKENIZER}/tokenizer.json")
    made.pre_tokenizer = how
    made.save(str(folder / "tokenizer.json"))
    return str(folder)


@pytest.mark.parametrize("how", SPLITS)
def test_encoding_by_parts_is_encoding_the_whole(how: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    tokenizer = load_tokenizer(resplit(tmp_path_factory.mktemp("t"), SPLITS[how]))
    ring = np.array(tokenizer.ordinary_ids)
    place = st.tuples(st.integers(0, len(ring) - 1), st.integers(0, 2 * len(ring)))
    ids = st.lists(st.sampled_from(tokenizer.ordinary_ids), max_size=5)

    @settings(max_examples=40, deadline=None)
    @given(st.lists(place, min_size=1, max_size=6), ids, st.sampled_from([1, 7, 96]), st.booleans())
    def agree(places: list[tuple[int, int]], prefix: list[int], chunk: int, once: bool) -> None:
        wanted = [Window(start, length, length + len(prefix)) for start, length in places]
        plain = windows.whole(ring, prefix, wanted)
        parts = windows.apart(ring, prefix, wanted, tokenizer, windows.cuts_of(ring, tokenizer, chunk), once)
        assert len(parts) == len(plain)
        for made in (plain, parts):
            rng = Random(1)
            if once:
                cut(made, tokenizer)
            else:
                fit(made, tokenizer, lambda count, rng=rng: rng.choices(tokenizer.ordinary_ids, k=count))  # type: ignore[misc]
        assert [each.prompt for each in parts] == [each.prompt for each in plain]

    agree()


def test_a_tokenizer_that_joins_words_is_given_whole_texts(tmp_path: Path) -> None:
    two = pre_tokenizers.Split(tokenizers.Regex(r"\S+ \S+"), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = load_tokenizer(resplit(tmp_path, pre_tokenizers.Sequence([two, level])))
    ring = np.array(tokenizer.ordinary_ids)
    cuts = windows.cuts_of(ring, tokenizer)
    assert cuts
    joined = tokenizers.Tokenizer.from_file(f"{tmp_path}/tokenizer.json")
    told = json.loads(joined.to_str())
    told["model"]["merges"] = [["a", "Ġ"], *told["model"]["merges"]]
    told["model"]["vocab"]["aĠ"] = 2000
    (tmp_path / "tokenizer.json").write_text(json.dumps(told))
    across = load_tokenizer(str(tmp_path))
    assert windows.apart(ring, [], [Window(5, 800, 800)], across, cuts) == []
    (tmp_path / "words").mkdir()
    by_word = load_tokenizer(word_tokenizer(tmp_path / "words"))
    assert windows.cuts_of(np.array(by_word.ordinary_ids), by_word) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"range_ratio": 1.0}, "below 1"),
        ({"range_ratio": -0.1}, "at least 0"),
        ({"output_range_ratio": 1.5}, "output_range_ratio is at least 0 and below 1"),
        ({"input_len": 0}, "raise input_len"),
        ({"input_len": 10, "range_ratio": 0.95}, "may give 0"),
        ({"input_len": 1, "tokenizer": TOKENIZER}, "less 1 special tokens"),
        ({"dataset": "sonnet"}, "datasets are random, sharegpt, jsonl, trace, shared-prefix"),
    ],
)
def test_lengths_that_cannot_be_made(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        requests(Workload(**changes), 0)


def test_a_seed_is_no_negative_number() -> None:
    with pytest.raises(SpecError, match="at least 0"):
        requests(Workload(), -1)


# -- ShareGPT


def test_first_turns_are_asked_and_second_turns_give_the_length(tmp_path: Path) -> None:
    path = sharegpt_file(tmp_path, [talk(words(10), words(20), words(5)), talk("alone"), {"other": 1}])
    (request,) = requests(Workload(dataset="sharegpt", path=path, num_prompts=1), 0)
    assert request.prompt == words(10)
    assert (request.prompt_len, request.output_len) == (12, 24)  # four bytes a token


def test_the_order_is_vllms(tmp_path: Path) -> None:
    entries = [talk(f"{words(8)} {n}", words(8)) for n in range(50)]
    path = sharegpt_file(tmp_path, entries)
    workload = Workload(dataset="sharegpt", path=path, num_prompts=20)
    numbers = list(range(50))
    Random(3).shuffle(numbers)
    assert [int(r.prompt.split()[-1]) for r in requests(workload, 3)] == numbers[:20]
    assert requests(workload, 3) == requests(workload, 3) != requests(workload, 4)
    kept = Workload(dataset="sharegpt", path=path, num_prompts=20, shuffle=False)
    assert [int(r.prompt.split()[-1]) for r in requests(kept, 3)] == list(range(20))


@pytest.mark.parametrize("definitions", ["vllm-0.32", "vllm-0.11"])
def test_too_few_conversations_are_drawn_again(tmp_path: Path, definitions: Any) -> None:
    entries = [talk(f"{words(8)} {n}", words(8)) for n in range(3)]
    path = sharegpt_file(tmp_path, entries)
    workload = Workload(dataset="sharegpt", path=path, num_prompts=10, definitions=definitions)
    made, rng = requests(workload, 0), Random(0)
    drawn = made[:3]
    one_by_one = [rng.choice(drawn) for _ in range(7)]
    assert made[3:] == (one_by_one if definitions == "vllm-0.32" else Random(0).choices(drawn, k=7))
    once = Workload(dataset="sharegpt", path=path, num_prompts=10, oversample=False)
    with pytest.raises(SpecError, match=r"10 are to be sent \(got 3\); lower num_prompts to 3, or let some be sent"):
        requests(once, 0)


def test_lengths_outside_the_filter_are_left_out(tmp_path: Path) -> None:
    pairs = [(3, 50), (4, 50), (1024, 50), (1025, 50), (50, 3), (50, 4), (1024, 1024), (1024, 1025)]
    entries = [talk(" ".join(["w1"] * (prompt - 1)), " ".join(["w2"] * (answer - 1))) for prompt, answer in pairs]
    path, tokenizer = sharegpt_file(tmp_path, entries), word_tokenizer(tmp_path)
    workload = Workload(dataset="sharegpt", path=path, num_prompts=8, tokenizer=tokenizer)
    made = {(r.prompt_len, r.output_len) for r in requests(workload, 0)}
    assert made == {(4, 50), (1024, 50), (50, 4), (1024, 1024)}
    assert (SHORTEST, LONGEST_PROMPT, LONGEST) == (4, 1024, 2048)
    fixed = Workload(dataset="sharegpt", path=path, num_prompts=8, tokenizer=tokenizer, fixed_output_len=2)
    assert {r.output_len for r in requests(fixed, 0)} == {2}
    assert {r.prompt_len for r in requests(fixed, 0)} == {4, 50, 1024}


def test_a_file_in_which_few_conversations_fit_is_read_to_its_end(tmp_path: Path) -> None:
    entries = [talk("w1", "w1")] * 700 + [talk(f"w{n} w1 w1 w1", "w1 w1 w1 w1") for n in range(40)]
    path, tokenizer = sharegpt_file(tmp_path, entries), word_tokenizer(tmp_path)
    workload = Workload(dataset="sharegpt", path=path, num_prompts=30, tokenizer=tokenizer, oversample=False)
    assert len({request.prompt for request in requests(workload, 0)}) == 30


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


@pytest.mark.parametrize("dataset", ["sharegpt", "jsonl", "trace"])
def test_a_dataset_that_is_not_there(tmp_path: Path, dataset: Any) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        for act in (check, lambda workload: requests(workload, 0)):
            with pytest.raises(SpecError, match="file that can be read"):
                act(Workload(dataset=dataset, path=str(path)))
    with pytest.raises(SpecError, match="needs `path`"):
        requests(Workload(dataset=dataset), 0)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'["\xff\xfe"]')
    with pytest.raises(SpecError, match="JSON list of conversations"):
        requests(Workload(dataset="sharegpt", path=str(path)), 0)
    with pytest.raises(SpecError, match="each line of the file is one JSON object"):
        requests(Workload(dataset="jsonl", path=str(path)), 0)


@pytest.mark.parametrize("tokenizer", [None, TOKENIZER])
def test_half_a_surrogate_pair_is_replaced(tmp_path: Path, tokenizer: str | None) -> None:
    path = sharegpt_file(tmp_path, json.dumps([talk(f"{words(9)} \ud83d", words(9))]))
    (made,) = requests(Workload(dataset="sharegpt", path=path, num_prompts=1, tokenizer=tokenizer), 0)
    assert made.prompt == f"{words(9)} ?"


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = lines_file(tmp_path, {"prompt": "one", "output_tokens": 1})
    workload = Workload(dataset="jsonl", path=path, num_prompts=1)
    assert [request.prompt for request in requests(workload, 0)] == ["one"]
    lines_file(tmp_path, {"prompt": "another", "output_tokens": 1})
    made = requests(workload, 0)
    assert [request.prompt for request in made] == ["another"]
    made.clear()
    assert len(requests(workload, 0)) == 1


# -- JSONL


def test_lines_of_prompts_and_of_chats(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "w4 w5"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    messages = [{"role": "system", "content": "w1"}, {"role": "user", "content": parts}]
    path = lines_file(
        tmp_path,
        {"prompt": "w1 w2", "output_tokens": 7},
        "",
        {"messages": messages, "max_tokens": 8.0, "note": "kept by its owner"},
        {"prompt": "w3", "output_len": 9},
    )
    workload = Workload(
        dataset="jsonl", path=path, num_prompts=3, shuffle=False, endpoint="chat", tokenizer=word_tokenizer(tmp_path)
    )
    assert requests(workload, 0) == [Request("w1 w2", 3, 7), Request(tuple(messages), 4, 8), Request("w3", 2, 9)]
    check(workload)
    fixed = Workload(dataset="jsonl", path=path, num_prompts=2, endpoint="chat", fixed_output_len=5)
    assert [request.output_len for request in requests(fixed, 0)] == [5, 5]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "each line of the file is one JSON object"),
        ("[1]", r"one JSON object \(got a list\)"),
        ("{}", r"either `prompt`, a text, or `messages`.*\(got no key\)"),
        ('{"text": "a", "output_tokens": 3}', r"either `prompt`.*\(got text, output_tokens\)"),
        ('{"prompt": "", "output_tokens": 3}', "either `prompt`"),
        ('{"prompt": "a", "messages": [{"role": "user"}], "output_tokens": 3}', "either `prompt`"),
        ('{"messages": [], "output_tokens": 3}', "either `prompt`"),
        ('{"messages": [{"content": "a"}], "output_tokens": 3}', "either `prompt`"),
        ('{"messages": [{"role": "user", "content": "a"}], "output_tokens": 3}', "only be sent to the chat endpoint"),
        ('{"prompt": "a"}', "how many tokens to ask for in `output_tokens`"),
        ('{"prompt": "a", "output_tokens": 0}', r"`output_tokens` is a whole number of at least 1 \(got 0\)"),
        ('{"prompt": "a", "output_len": "3"}', "`output_len` is a whole number"),
        ('{"prompt": "a", "max_tokens": 1.5}', "`max_tokens` is a whole number"),
        ('{"prompt": "a", "max_tokens": true}', "`max_tokens` is a whole number"),
        ('{"prompt": "a", "max_tokens": Infinity}', "`max_tokens` is a whole number"),
    ],
)
def test_a_line_that_cannot_be_used(tmp_path: Path, line: str, why: str) -> None:
    path = lines_file(tmp_path, {"prompt": "fine", "output_tokens": 3}, line)
    for act in (check, lambda workload: requests(workload, 0)):
        with pytest.raises(SpecError, match=why) as caught:
            act(Workload(dataset="jsonl", path=path, num_prompts=1))
        (fault,) = caught.value.faults
        assert (fault.file, fault.line) == (path, 2)
        assert fault.way_out


def test_a_file_of_no_lines(tmp_path: Path) -> None:
    for dataset in ("jsonl", "trace"):
        with pytest.raises(SpecError, match=r"got an empty file.*write lines such as"):
            requests(Workload(dataset=dataset, path=lines_file(tmp_path, "", " ")), 0)  # type: ignore[arg-type]


# -- traces


def entry(at: float, input_len: int, output_len: int = 4, *blocks: int) -> dict[str, Any]:
    made = {"timestamp": at, "input_length": input_len, "output_length": output_len}
    return made | ({"hash_ids": list(blocks)} if blocks else {})


def trace(folder: Path, *entries: Any, **changes: Any) -> Workload:
    path = lines_file(folder, *entries)
    return Workload(**{"dataset": "trace", "path": path, "num_prompts": len(entries), **changes})


@pytest.mark.parametrize("tokenizer", [None, TOKENIZER])
def test_a_trace_is_replayed_at_its_pace_from_its_first_request_on(tmp_path: Path, tokenizer: str | None) -> None:
    entries = [entry(1000, 40, 7), entry(3000, 900, 8), entry(2500, 5, 9)]
    made = requests(trace(tmp_path, *entries, time_scale=0.001, tokenizer=tokenizer), 0)
    assert [(request.due, request.output_len) for request in made] == [(0.0, 7), (1.5, 9), (2.0, 8)]
    special = 1 if tokenizer else 0
    assert [request.prompt_len for request in made] == [40 - special, 5 - special, 900 - special]
    slow = requests(trace(tmp_path, *entries, time_scale=0.002, fixed_output_len=3, num_prompts=2), 0)
    assert [(request.due, request.output_len) for request in slow] == [(0.0, 3), (3.0, 3)]


@pytest.mark.parametrize("tokenizer", [None, TOKENIZER])
def test_prompts_have_the_blocks_of_their_hashes_in_common(tmp_path: Path, tokenizer: str | None) -> None:
    entries = [entry(0, 60, 1, 1, 2, 3, 4), entry(1, 64, 1, 1, 2, 3, 5), entry(2, 64, 1, 9, 2, 3, 4), entry(3, 500)]
    workload = trace(tmp_path, *entries, tokenizer=tokenizer)
    first, same, other, alone = requests(workload, 0)
    ids = [load_tokenizer(tokenizer).encode(r.prompt, special=False) if tokenizer else r.prompt.split()
           for r in (first, same, other, alone)]  # fmt: skip

    assert shared(ids[:2]) == 48
    assert shared([ids[0], ids[2]]) < 5
    assert shared([ids[0], ids[3]]) < 5
    assert [len(each) for each in ids] == [request.prompt_len for request in (first, same, other, alone)]
    assert requests(workload, 1)[0].prompt != first.prompt


@pytest.mark.parametrize(
    ("entries", "size"),
    [
        ([(6758, 14), (7322, 15)], 512),
        ([(100, 7), (17, 2)], 16),
        ([(1000, 4)], 250),
        ([(1000, 4), (700, 3)], 250),
        ([(40, 0)], 16),
        ([(10, 1)], 16),
        ([(10, 5), (1000, 5)], 200),
    ],
)
def test_the_size_of_a_block_follows_from_the_lengths(entries: list[tuple[int, int]], size: int) -> None:
    made = [Entry(0.0, length, 1, tuple(range(count))) for length, count in entries]
    assert block_size(made) == size


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"timestamp": 1}', r"`input_length` is a whole number.*\(got no such key among timestamp\)"),
        (entry(0, 0), r"`input_length` is a whole number of at least 1 \(got 0\)"),
        (entry(0, 3, 0), "`output_length` is a whole number"),
        ({**entry(0, 3), "timestamp": "noon"}, r"`timestamp` is a number \(got 'noon'\)"),
        ({**entry(0, 3), "timestamp": True}, "`timestamp` is a number"),
        ('{"timestamp": NaN, "input_length": 3, "output_length": 3}', "`timestamp` is a number"),
        ({**entry(0, 3), "hash_ids": 5}, "`hash_ids` is a list"),
    ],
)
def test_a_line_that_is_no_request_of_a_trace(tmp_path: Path, line: Any, why: str) -> None:
    for act in (check, lambda workload: requests(workload, 0)):
        with pytest.raises(SpecError, match=why) as caught:
            act(trace(tmp_path, entry(0, 3), line))
        assert caught.value.faults[0].line == 2


def test_a_trace_is_never_sent_twice(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"5 are to be sent \(got 2\); lower num_prompts to 2"):
        requests(trace(tmp_path, entry(0, 3), entry(1, 3), num_prompts=5), 0)


# -- shared prefixes


@pytest.mark.parametrize("tokenizer", [None, TOKENIZER])
@pytest.mark.parametrize("definitions", ["vllm-0.32", "vllm-0.11"])
def test_groups_have_a_prefix_of_their_own(tokenizer: str | None, definitions: Any) -> None:
    workload = Workload(
        dataset="shared-prefix", num_prompts=11, num_prefixes=3, prefix_len=40, input_len=10, tokenizer=tokenizer,
        output_len=6, definitions=definitions,
    )  # fmt: skip
    made = requests(workload, 4)
    assert {(request.prompt_len, request.output_len) for request in made} == {(50, 6)}
    assert len({request.prompt for request in made}) == 11
    assert sorted(Counter(request.prompt[:60] for request in made).values()) == [3, 4, 4]
    whole = requests(Workload(**{**vars(workload), "num_prompts": 9}), 4)
    assert made[:9] == whole
    assert requests(workload, 5) != made


def test_groups_that_cannot_be_made() -> None:
    with pytest.raises(SpecError, match="needs prefix_len"):
        requests(Workload(dataset="shared-prefix"), 0)
    with pytest.raises(SpecError, match="3 prompts cannot begin with 10 prefixes; lower num_prefixes"):
        requests(Workload(dataset="shared-prefix", prefix_len=5, num_prompts=3), 0)


def test_what_a_tokenizer_says_decides(tmp_path: Path) -> None:
    tokenizer = word_tokenizer(tmp_path)
    requested = requests(Workload(num_prompts=10, input_len=65, tokenizer=tokenizer), 1)
    assert [request.prompt_len for request in requested] == [64] * 10
    first = [int(word[1:]) for word in requested[0].prompt.split()]
    assert all((later - earlier) % 500 == 1 for earlier, later in pairwise(first))

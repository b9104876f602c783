"""The prompts of a workload. Deterministic: one workload and seed, one list of requests.

With a tokenizer the algorithms are those of `vllm bench serve` 0.32.0; without one, lengths are approximated
(see `_random_words` and `_approximate_length`), which is enough to compare configurations of one server but not to
compare with figures published for another client.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from tuner.benchmarks import Request, Workload
from tuner.benchmarks.tokenizer import Tokenizer, load_tokenizer
from tuner.errors import Fault, SpecError

FITTING_ROUNDS = 10
# ShareGPT's filter, in tokens
SHORTEST = 4
LONGEST_PROMPT = 1024
LONGEST = 2048

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


def requests(workload: Workload, seed: int) -> list[Request]:
    """`workload.num_prompts` requests.

    Raises:
        SpecError: the dataset's file or the tokenizer cannot be used, or the lengths cannot be made.
    """
    tokenizer = load_tokenizer(workload.tokenizer) if workload.tokenizer else None
    if workload.dataset == "sharegpt":
        return sharegpt_requests(workload, seed, tokenizer)
    return random_requests(workload, seed, tokenizer)


def random_requests(workload: Workload, seed: int, tokenizer: Tokenizer | None = None) -> list[Request]:
    """Prompts of lengths drawn evenly from (1-r)..(1+r) times the asked ones, r being `range_ratio`.

    With a tokenizer (`RandomDataset`): the special tokens it adds are taken off the input length; prompt i is the
    text of consecutive ordinary ids from a drawn offset on, decoded and encoded again until it has the drawn
    length. The draws come from `random.Random(seed)`, not from numpy: the distribution agrees with vLLM's, the
    single prompts do not. Without one: so many words.

    Raises:
        SpecError: `range_ratio` outside [0, 1), or a prompt could come out empty.
    """
    ratio = workload.range_ratio
    if not 0 <= ratio < 1:
        raise SpecError(f"workload {workload.name}: range_ratio is at least 0 and below 1 (got {ratio})")
    special = tokenizer.added_by_default if tokenizer else 0
    real = max(0, workload.input_len - special)
    low, high = math.floor(real * (1 - ratio)), math.ceil(real * (1 + ratio))
    if low < 1:
        raise SpecError(
            f"workload {workload.name}: every prompt has at least one token (input_len {workload.input_len}, less "
            f"{special} special tokens, range_ratio {ratio}, may give {low}); raise input_len"
        )
    out_low = max(1, math.floor(workload.output_len * (1 - ratio)))
    out_high = max(1, math.ceil(workload.output_len * (1 + ratio)))
    rng, count = Random(seed), workload.num_prompts
    inputs = [rng.randint(low, high) for _ in range(count)]
    outputs = [rng.randint(out_low, out_high) for _ in range(count)]
    prompts = _random_ids(inputs, rng, tokenizer) if tokenizer else _random_words(inputs, rng)
    return [Request(text, length, output) for (text, length), output in zip(prompts, outputs, strict=True)]


def sharegpt_requests(workload: Workload, seed: int, tokenizer: Tokenizer | None = None) -> list[Request]:
    """First turns of conversations as prompts, as long as the second turns for output (`ShareGPTDataset`).

    Shuffled by `seed`; of prompts below 4 or above 1024 tokens, outputs below 4 and sums above 2048 none is taken;
    too few are filled up by drawing from those taken. With the model's tokenizer this is vLLM's own list, in its
    order.

    Raises:
        SpecError: the file is missing or no ShareGPT JSON, or holds no conversation that fits.
    """
    pairs = list(_conversations(workload))
    Random(seed).shuffle(pairs)
    length = _length(tokenizer)
    taken: list[Request] = []
    for prompt, answer in pairs:
        if len(taken) >= workload.num_prompts:
            break
        asked = workload.sharegpt_output_len
        request = Request(prompt, length(prompt), length(answer) if asked is None else asked)
        if _fits(request, fixed_output=asked is not None):
            taken.append(request)
    if not taken and workload.num_prompts:
        rule = f"a conversation needs a prompt of {SHORTEST}..{LONGEST_PROMPT} tokens and {LONGEST} with its answer"
        raise _fault(workload, rule, f"none of {len(pairs)} conversations does")
    rng = Random(seed)
    base = tuple(taken)
    return taken + [rng.choice(base) for _ in range(workload.num_prompts - len(taken))]


def _random_words(lengths: Sequence[int], rng: Random) -> list[tuple[str, int]]:
    """One word stands for one token."""
    return [(" ".join(rng.choices(WORDS, k=length)), length) for length in lengths]


def _random_ids(lengths: Sequence[int], rng: Random, tokenizer: Tokenizer) -> list[tuple[str, int]]:
    ids = tokenizer.ordinary_ids
    offsets = [rng.randrange(len(ids)) for _ in lengths]
    return [
        _fitted([ids[(offset + index + k) % len(ids)] for k in range(length)], length, rng, tokenizer)
        for index, (length, offset) in enumerate(zip(lengths, offsets, strict=True))
    ]


def _fitted(ids: list[int], length: int, rng: Random, tokenizer: Tokenizer) -> tuple[str, int]:
    """Text that encodes to `length` ids, or nearly: decoding is no exact inverse, so cut or pad and try again."""
    for _ in range(FITTING_ROUNDS):
        text = tokenizer.decode(ids)
        ids = tokenizer.encode(text, special=False)
        if len(ids) == length:
            return text, length
        ids = ids[:length] + rng.choices(tokenizer.ordinary_ids, k=max(0, length - len(ids)))
    text = tokenizer.decode(ids)
    return text, len(tokenizer.encode(text, special=False))


def _length(tokenizer: Tokenizer | None) -> Callable[[str], int]:
    return _approximate_length if tokenizer is None else lambda text: len(tokenizer.encode(text, special=True))


def _approximate_length(text: str) -> int:
    """A token for four bytes of text, the usual rule for English; never fewer than words would need."""
    return max(len(text.encode("utf-8", "replace")) // 4, len(text.split()))


def _fits(request: Request, *, fixed_output: bool) -> bool:
    return (
        SHORTEST <= request.prompt_len <= LONGEST_PROMPT
        and (fixed_output or request.output_len >= SHORTEST)
        and request.prompt_len + request.output_len <= LONGEST
    )


def _conversations(workload: Workload) -> tuple[tuple[str, str], ...]:
    """The first two turns of every conversation that has two, in the file's order."""
    if workload.path is None:
        raise SpecError(f"workload {workload.name}: dataset sharegpt needs `path`, the ShareGPT JSON file")
    try:
        state = Path(workload.path).stat()
        pairs = _read(workload.path, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise _fault(workload, "the dataset is a file that can be read", error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise _fault(workload, "a ShareGPT dataset is a JSON list of conversations", str(error)[:200]) from None
    if not pairs:
        raise _fault(
            workload, "a ShareGPT entry has `conversations` of at least two turns with `value`", "no such entry"
        )
    return pairs


@lru_cache(maxsize=1)
def _read(path: str, changed: int, size: int) -> tuple[tuple[str, str], ...]:
    entries = json.loads(Path(path).read_bytes())
    if not isinstance(entries, list):
        raise ValueError(f"the file holds {type(entries).__name__}")
    return tuple(pair for entry in entries if (pair := _first_turns(entry)) is not None)


def _first_turns(entry: Any) -> tuple[str, str] | None:
    turns = entry.get("conversations") if isinstance(entry, dict) else None
    if not isinstance(turns, list) or len(turns) < 2 or not all(isinstance(turn, dict) for turn in turns[:2]):
        return None
    first, second = turns[0].get("value"), turns[1].get("value")
    return (first, second) if isinstance(first, str) and isinstance(second, str) else None


def _fault(workload: Workload, rule: str, value: str) -> SpecError:
    way_out = "use ShareGPT_V3_unfiltered_cleaned_split.json, or dataset random"
    return SpecError(
        [Fault(rule, file=workload.path or "", path=f"workload {workload.name}", value=value, way_out=way_out)]
    )

"""The most total token throughput that a pass under way can still reach. Pure.

A pass of a fixed set of requests ends with a total of T tokens after D seconds and has the throughput T / D.

- D is at least the time already spent, t. What remains takes no less than nothing: how fast a server could be from
  now on (a cache that warms up, a speculative step that accepts everything) is nothing a client can know, so any
  pace that is assumed for the rest is a forecast and not a proof.
- T is at most the sum over requests of what is known of each: of one that is over, the tokens the server counted
  (none if it failed, as failed requests have no tokens in the throughput); of the others, the most that their prompt
  can have and the output length that was asked for.

So T_most / t bounds the result, and a pass whose bound is below the incumbent's throughput cannot win. It holds under
two assumptions, both of which the validity gate checks on every measurement: no answer is longer than was asked, and
no prompt counts more tokens than `most_prompt_tokens`.

It says nothing before the incumbent's own duration has passed, whatever the pace. Where requests arrive at times of
their own there is none: total throughput is then set by the arrivals, and the tail that is left to save is short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.benchmarks import Request, Workload

TEMPLATE_TOKENS = 64  # what templates and special tokens may add to a prompt
TOKENIZER_SLACK = 0.1  # of a length that the model's tokenizer gave
TOKENS_PER_WORD = 4.0  # at most, of plain words
SPECIAL_TOKENS = 8  # how far two servers' counts of one prompt may differ


def bounded(workload: Workload) -> bool:
    """Whether a pass of this workload has a bound."""
    return workload.all_at_once


def throughput_bound(most_tokens: float, elapsed: float) -> float | None:
    """Tokens per second, from the most tokens the pass can end with and the seconds since its start."""
    return most_tokens / elapsed if elapsed > 0 else None


def most_prompt_tokens(request: Request, workload: Workload, counted: int | None = None) -> float:
    """The most tokens a server can count in this prompt. `counted`: what a server of this model counted before.

    With the model's tokenizer its own length and what a template adds; of plain random words a few each; of any
    other text its bytes, since no token is shorter than one.
    """
    if counted:
        return counted + SPECIAL_TOKENS
    if workload.tokenizer is not None:
        return request.prompt_len * (1 + TOKENIZER_SLACK) + TEMPLATE_TOKENS
    text = prompt_text(request.prompt)
    if workload.dataset == "random":
        return TOKENS_PER_WORD * len(text.split()) + TEMPLATE_TOKENS
    return len(text.encode("utf-8", "replace")) + TEMPLATE_TOKENS


def most_tokens(requests: Sequence[Request], workload: Workload, counted: Sequence[int] = ()) -> list[float]:
    """Of each request, the most tokens of prompt and answer together. `counted` as above, in the same order."""
    known = counted or [0] * len(requests)
    return [
        most_prompt_tokens(request, workload, count) + request.output_len
        for request, count in zip(requests, known, strict=True)
    ]


def prompt_text(prompt: str | Sequence[Mapping[str, Any]]) -> str:
    """All text of a prompt: its own, or that of its messages' contents one after the other."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(_content(message.get("content")) for message in prompt)


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))

"""What a server counts about itself: the `/metrics` of vLLM, SGLang and TensorRT-LLM. Pure; `scrape` reads them.

A server that counts nothing, or counts by other names, is no error: what is not there is None.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Any, TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Sample:
    """One line of Prometheus' text form. `name` is without the `_total` that some versions add."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True)
class Counters:
    """Totals since the server's start, and `running` and `waiting` requests now; None is not known.

    Prefix cache and speculation in tokens, `queue_s` the seconds that `queued` requests spent in the server's queue,
    `accepted_at` the accepted drafts by their position, first to last.
    """

    prefix_queries: float | None = None
    prefix_hits: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    requests: float | None = None
    preemptions: float | None = None
    queue_s: float | None = None
    queued: float | None = None
    drafts: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    accepted_at: tuple[float, ...] | None = None
    running: float | None = None
    waiting: float | None = None

    @property
    def known(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))


def parse(text: str) -> Iterator[Sample]:
    """Every sample of Prometheus' text form that has a number; lines that are none are passed over."""
    for line in text.splitlines():
        if (match := _LINE.match(line)) is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if math.isfinite(value):
            labels = tuple(_LABEL.findall(match[2] or ""))
            yield Sample(match[1].removesuffix("_total"), labels, value)


def counters(text: str) -> Counters:
    """What a reply of `/metrics` says, in whichever of the three engines' forms."""
    if text.lstrip()[:1] in ("[", "{"):
        return _iterations(text)
    samples = [sample for sample in parse(text) if sample.name.startswith(_ENGINES)]
    found: dict[str, Any] = {}
    for field, names in _NAMES.items():
        found[field] = next((total for name in names if (total := _total(samples, name)) is not None), None)
    found["accepted_at"] = _positions(samples)
    return _sglang_speculation(Counters(**found), samples)


def added(several: Iterable[Counters]) -> Counters:
    """Those of several servers together: of each figure the sum over the servers that know it."""
    servers = list(several)
    found: dict[str, Any] = {}
    for field in fields(Counters):
        known = [value for server in servers if (value := getattr(server, field.name)) is not None]
        found[field.name] = _add(known) if known else None
    return Counters(**found)


def difference(before: Counters, after: Counters) -> dict[str, Any]:
    """What was counted between two readings, by name; figures that either reading lacks are left out, so are all of
    a server that started anew meanwhile. Gauges have none.

    Speculation under the names and definitions of `vllm bench serve` 0.32 (`spec_decode_*`): the rate in percent
    of the draft tokens, the length 1 + accepted tokens a draft, per position accepted / drafts.
    """
    found: dict[str, Any] = {}
    for field in fields(Counters):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if field.name in _GAUGES or field.name == "accepted_at" or old is None or new is None:
            continue
        if new < old:
            return {}
        found[field.name] = new - old
    return _named(found, before.accepted_at, after.accepted_at)


def gauges(readings: Sequence[Counters]) -> dict[str, float]:
    """What readings while the run went on say of its queue: `samples`, `max_running`, `max_waiting`,
    `waiting_share` of the readings with a queue, and `running_beside_queue`, the median of the requests that ran then.
    """
    known = [(r.running, r.waiting) for r in readings if r.running is not None and r.waiting is not None]
    if not known:
        return {}
    queued = [running for running, waiting in known if waiting > 0]
    return {
        "samples": float(len(known)),
        "max_running": max(running for running, _ in known),
        "max_waiting": max(waiting for _, waiting in known),
        "waiting_share": len(queued) / len(known),
        **({"running_beside_queue": float(median(queued))} if queued else {}),
    }


_ENGINES = ("vllm:", "sglang:", "trtllm_")
_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# Copies of one figure by ranks that work on the same requests; what other labels tell apart adds up.
_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank", "pid")
_GAUGES = ("running", "waiting")
_NAMES: Mapping[str, Sequence[str]] = {
    "prefix_queries": ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries", "sglang:prompt_tokens"),
    "prefix_hits": ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits", "sglang:cached_tokens"),
    "prompt_tokens": ("vllm:prompt_tokens", "sglang:prompt_tokens"),
    "output_tokens": ("vllm:generation_tokens", "sglang:generation_tokens"),
    "requests": ("vllm:request_success", "sglang:num_requests", "trtllm_request_success"),
    "preemptions": ("vllm:num_preemptions", "sglang:num_retracted_requests"),
    "queue_s": (
        "vllm:request_queue_time_seconds_sum", "sglang:queue_time_seconds_sum", "trtllm_request_queue_time_seconds_sum",
    ),
    "queued": (
        "vllm:request_queue_time_seconds_count", "sglang:queue_time_seconds_count",
        "trtllm_request_queue_time_seconds_count",
    ),
    "drafts": ("vllm:spec_decode_num_drafts", "sglang:spec_verify_calls"),
    "draft_tokens": ("vllm:spec_decode_num_draft_tokens", "trtllm_spec_decode_num_draft_tokens"),
    "accepted_tokens": ("vllm:spec_decode_num_accepted_tokens", "trtllm_spec_decode_num_accepted_tokens"),
    "running": ("vllm:num_requests_running", "sglang:num_running_reqs"),
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs"),
}  # fmt: skip
GAUGE_NAMES = tuple(name for gauge in _GAUGES for name in _NAMES[gauge])
_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"


def _total(samples: Sequence[Sample], name: str) -> float | None:
    """The sum over engines, data-parallel ranks and sources; of the ranks that share requests the largest."""
    parts: dict[Labels, float] = {}
    for sample in samples:
        if sample.name == name:
            apart = tuple(label for label in sample.labels if label[0] not in _RANKS)
            parts[apart] = max(parts.get(apart, -math.inf), sample.value)
    return math.fsum(parts.values()) if parts else None


def _positions(samples: Sequence[Sample]) -> tuple[float, ...] | None:
    by_position: dict[int, float] = {}
    for sample in samples:
        position = dict(sample.labels).get("position", "")
        if sample.name == _PER_POSITION and position.isdecimal() and int(position) < _MOST_POSITIONS:
            by_position[int(position)] = by_position.get(int(position), 0.0) + sample.value
    if not by_position:
        return None
    return tuple(by_position.get(position, 0.0) for position in range(max(by_position) + 1))


_MOST_POSITIONS = 1024


def _sglang_speculation(found: Counters, samples: Sequence[Sample]) -> Counters:
    """SGLang counts its verifications. Each yields the drafts it accepts and a token more; a request's first token
    comes of its prompt. Of the drafts it tells how many are made at a time, the verified token among them."""
    each = _total(samples, "sglang:spec_num_draft_tokens")
    if found.drafts is None or not each or found.output_tokens is None or found.requests is None:
        return found
    proposed = found.drafts * max(0.0, each - 1)
    accepted = min(proposed, max(0.0, found.output_tokens - found.drafts - found.requests))
    values = {field.name: getattr(found, field.name) for field in fields(Counters)}
    return Counters(**values | {"draft_tokens": proposed, "accepted_tokens": accepted})


def _iterations(text: str) -> Counters:
    """TensorRT-LLM's JSON: statistics of its last iterations, the newest last."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return Counters()
    rows = message if isinstance(message, list) else [message]
    row = next((row for row in reversed(rows) if isinstance(row, dict)), {})
    cache = row.get("kvCacheStats")
    cache = cache if isinstance(cache, dict) else {}
    size, reused, missed = (_number(cache.get(name)) for name in ("tokensPerBlock", "reusedBlocks", "missedBlocks"))
    tokens = size is not None and reused is not None and missed is not None
    return Counters(
        running=_number(row.get("numActiveRequests")),
        waiting=_number(row.get("numQueuedRequests")),
        prefix_queries=(reused + missed) * size if tokens else None,  # type: ignore[operator]
        prefix_hits=reused * size if tokens else None,  # type: ignore[operator]
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _add(values: Sequence[Any]) -> Any:
    """Numbers, or tuples by position."""
    if not isinstance(values[0], tuple):
        return math.fsum(values)
    longest = max(map(len, values))
    return tuple(sum(v[i] for v in values if i < len(v)) for i in range(longest))


def _named(
    counted: Mapping[str, float], before: tuple[float, ...] | None, after: tuple[float, ...] | None
) -> dict[str, Any]:
    """Prefix cache, queue and preemptions by our names, speculation by vLLM's."""
    speculation = ("drafts", "draft_tokens", "accepted_tokens")
    found: dict[str, Any] = {name: value for name, value in counted.items() if name not in speculation}
    drafts, proposed, accepted = (counted.get(name) for name in speculation)
    if not proposed or accepted is None:
        return found
    found |= {"spec_decode_acceptance_rate": 100 * accepted / proposed}
    found |= {"spec_decode_draft_tokens": int(proposed), "spec_decode_accepted_tokens": int(accepted)}
    if drafts:
        found |= {"spec_decode_acceptance_length": 1 + accepted / drafts, "spec_decode_num_drafts": int(drafts)}
    if drafts and after is not None:
        old = before or ()
        each = [new - (old[place] if place < len(old) else 0.0) for place, new in enumerate(after)]
        found["spec_decode_per_position_acceptance_rates"] = [count / drafts for count in each]
    return found

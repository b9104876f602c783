"""Continuous batching: one task that steps the whole batch by the clock of the performance model."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tuner.testing.dialects import Counters
from tuner.testing.performance import Clock

_BLOCK = 16
_CACHED_BLOCKS = 200_000


@dataclass(eq=False)
class Sequence:
    """One request in the batch. `emit` is called with the number of new tokens after each step that makes some."""

    prompt_tokens: int
    max_tokens: int
    emit: Callable[[int], None]
    blocks: tuple[bytes, ...] = ()
    cached: int = 0
    prefilled: int = 0
    generated: int = 0
    came: float = 0.0
    gone: bool = False

    @property
    def finished(self) -> bool:
        return self.generated >= self.max_tokens

    @property
    def size(self) -> int:
        """The most KV tokens it can come to hold."""
        return self.prompt_tokens + self.max_tokens


@dataclass
class Batch:
    """Sequences waiting and running. `scale` stretches the clock: 0.5 is twice as fast."""

    clock: Clock
    kv_tokens: int
    scale: float = 1.0
    waiting: deque[Sequence] = field(default_factory=deque)
    running: list[Sequence] = field(default_factory=list)
    held: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    finished: int = 0
    admitted: int = 0
    queue_s: float = 0.0
    drafts: int = 0
    accepted_at: Counter[int] = field(default_factory=Counter)
    _decoding: list[Sequence] = field(default_factory=list)
    _completed: list[Sequence] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._wake = asyncio.Event()
        self._cache: set[bytes] = set()

    def add(self, sequence: Sequence) -> None:
        sequence.came = time.monotonic()
        self.prompt_tokens += sequence.prompt_tokens
        self.waiting.append(sequence)
        self._wake.set()

    def remove(self, sequence: Sequence) -> None:
        """The client has gone: free what it held."""
        sequence.gone = True
        if sequence in self.running:
            self._leave(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def forget_prefixes(self) -> None:
        self._cache.clear()

    @property
    def counters(self) -> Counters:
        return Counters(
            running=len(self.running),
            waiting=len(self.waiting),
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            generated_tokens=self.generated_tokens,
            finished=self.finished,
            kv_usage=self.held / max(1, self.kv_tokens),
            admitted=self.admitted,
            queue_s=self.queue_s,
            drafts=self.drafts,
            draft_tokens=self.drafts * self.clock.setup.draft_tokens,
            accepted_at=tuple(self.accepted_at[place] for place in range(self.clock.setup.draft_tokens)),
        )

    async def run(self) -> None:
        """Step for ever. A late step shortens the waits after it, so a busy machine does not slow the model down."""
        loop = asyncio.get_running_loop()
        while True:
            if not self.running and not self.waiting:
                self._wake.clear()
                await self._wake.wait()
                due = loop.time()
            due += self._step() * self.scale
            await asyncio.sleep(max(0.0, due - loop.time()))
            self._deliver()

    def _step(self) -> float:
        """Plan one step: who decodes, whose prompt is worked on. Its length in seconds."""
        self._admit()
        budget = left = self.clock.setup.prefill_tokens
        self._decoding = [sequence for sequence in self.running if sequence.prefilled >= sequence.prompt_tokens]
        for sequence in self.running:
            if left and sequence.prefilled < sequence.prompt_tokens:
                part = min(left, sequence.prompt_tokens - sequence.prefilled)
                sequence.prefilled += part
                left -= part
                if sequence.prefilled == sequence.prompt_tokens:
                    self._completed.append(sequence)
        return self.clock.step_seconds(budget - left, len(self._decoding))

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.clock.setup.max_running:
            if self.running and self.held + self.waiting[0].size > self.kv_tokens:
                return
            sequence = self.waiting.popleft()
            sequence.cached = sequence.prefilled = self._known_prefix(sequence)
            self.cached_tokens += sequence.cached
            self.admitted += 1
            self.queue_s += time.monotonic() - sequence.came
            self.held += sequence.size
            self.running.append(sequence)

    def _known_prefix(self, sequence: Sequence) -> int:
        """How many tokens of the prompt are cached; the last token is always computed. Remembers the prompt."""
        if not self.clock.setup.prefix_cache:
            return 0
        known = 0
        for block in sequence.blocks:
            if block not in self._cache:
                break
            known += _BLOCK
        if len(self._cache) > min(_CACHED_BLOCKS, self.kv_tokens // _BLOCK):
            self._cache.clear()
        self._cache.update(sequence.blocks)
        return min(known, sequence.prompt_tokens - 1)

    def _deliver(self) -> None:
        """Hand out the tokens of the step that has passed."""
        for sequence in self._decoding:
            if not sequence.gone:
                self._give(sequence, self._speculated())
        for sequence in self._completed:
            if not sequence.gone:
                self._give(sequence, 1)
        self._completed.clear()

    def _speculated(self) -> int:
        """The tokens of a decoding step: one, and the drafts that were accepted."""
        tokens = self.clock.tokens_of_step()
        if self.clock.setup.draft_tokens:
            self.drafts += 1
            self.accepted_at.update(range(tokens - 1))
        return tokens

    def _give(self, sequence: Sequence, tokens: int) -> None:
        tokens = min(tokens, sequence.max_tokens - sequence.generated)
        sequence.generated += tokens
        self.generated_tokens += tokens
        if sequence.finished:
            self.finished += 1
            self._leave(sequence)
        sequence.emit(tokens)

    def _leave(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.held -= sequence.size


def blocks_of(words: list[str]) -> tuple[bytes, ...]:
    """A digest for each full block of the prompt, of everything up to its end."""
    digest = hashlib.blake2b(digest_size=8)
    found = []
    for start in range(0, len(words) - _BLOCK + 1, _BLOCK):
        digest.update(" ".join(words[start : start + _BLOCK]).encode())
        found.append(digest.copy().digest())
    return tuple(found)

"""What is read of a log that may be too long to read: its start, its end, and what between them may be an error. Pure.

Lines are numbered as an editor numbers them; a progress bar's drawings (carriage returns) are lines of one number.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

HEAD, TAIL, FOUND = 2_000_000, 2_000_000, 1_000_000  # bytes kept of each part
LONGEST_LINE = 4_000
AROUND = 2_000  # bytes kept before and after what may be an error
_OF_A_KIND = 2  # places kept of lines that differ in numbers alone
_MOST_LOOKED_AT = 150_000
# One plain search each over the whole log: what causes have and hardly any other line of a healthy server. That
# something died is said last, and the end is read whole.
_WORDS = (b"rror", b"xception")
_NUMBER = re.compile(rb"\d+")
_CALM = (b"INFO", b"DEBUG", b"WARNING", b"[I]", b"[W]")  # what the levels of lines without an error look like
_LEVEL, _SHAPE = 120, 300  # where in a line its level stands; what of it tells it from others


@dataclass(frozen=True)
class Sieved:
    """Lines in order, the number of each, and how many lines there are in all."""

    lines: tuple[str, ...]
    numbers: tuple[int, ...]
    total: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def number(self, index: int) -> int:
        """The number in the log of a line of `text` (both from 1)."""
        return self.numbers[index - 1] if 0 < index <= len(self.numbers) else index


def sieve(chunks: Iterable[bytes]) -> Sieved:
    """Sieve a log given in pieces of any size; memory stays bounded by the parts kept and a few pieces."""
    head: list[tuple[int, bytes]] = []
    tail: deque[tuple[int, bytes]] = deque()
    middle = _Middle()
    kept, number, unfinished = 0, 1, 0
    for block in _whole_lines(chunks):
        unfinished = int(not block.endswith(b"\n"))
        start, rest = _split(block, HEAD - kept)
        if start:
            head.append((number, start))
            kept += len(start)
            number += start.count(b"\n")
        if rest:
            middle.look(number, rest)
            tail.append((number, rest))
            number += rest.count(b"\n")
        while len(tail) > 1 and sum(len(part) for _, part in tail) - len(tail[0][1]) >= TAIL:
            tail.popleft()
    ending = [_last(*tail[0])] if len(tail) == 1 else list(tail)
    return _joined(head, middle.found, ending, number - 1 + unfinished)


class _Middle:
    """What is found of errors between start and end."""

    def __init__(self) -> None:
        self.found: list[tuple[int, bytes]] = []
        self._kept = self._looked = 0
        self._shapes: Counter[bytes] = Counter()

    def look(self, number: int, block: bytes) -> None:
        """`number`: of the block's first line."""
        if self._kept >= FOUND or self._looked >= _MOST_LOOKED_AT:
            return
        for start, end in _regions(self._places(block)):
            self.found.append((number + block.count(b"\n", 0, start), block[start:end]))
            self._kept += end - start

    def _places(self, block: bytes) -> list[tuple[int, int]]:
        """Where what is kept around the lines that may be an error begins and ends, in order."""
        lines: dict[int, int] = {}
        for word in _WORDS:
            at = block.find(word)
            while at >= 0 and self._looked < _MOST_LOOKED_AT:
                self._looked += 1
                start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at) + 1 or len(block)
                if start not in lines and self._new(block[start : min(end, start + _SHAPE)]):
                    lines[start] = end
                at = block.find(word, end)
        return [
            (block.rfind(b"\n", 0, max(0, start - AROUND)) + 1, block.find(b"\n", end + AROUND) + 1 or len(block))
            for start, end in sorted(lines.items())
        ]

    def _new(self, line: bytes) -> bool:
        """Whether its logger calls it an error, and few like it are kept."""
        if any(mark in line[:_LEVEL] for mark in _CALM):
            return False
        shape = _NUMBER.sub(b"0", line)
        self._shapes[shape] += 1
        return self._shapes[shape] <= _OF_A_KIND


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Blocks that end where a line ends; a line longer than 1 MB is cut."""
    rest = b""
    for chunk in chunks:
        rest += chunk
        end = rest.rfind(b"\n") + 1
        if end:
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > 1_000_000:
            rest = rest[:LONGEST_LINE] + rest[-LONGEST_LINE:]
    if rest:
        yield rest


def _split(block: bytes, size: int) -> tuple[bytes, bytes]:
    """The lines up to `size` bytes, and the others."""
    if size <= 0 or len(block) <= size:
        return (b"", block) if size <= 0 else (block, b"")
    end = block.find(b"\n", size) + 1 or len(block)
    return block[:end], block[end:]


def _last(first: int, block: bytes) -> tuple[int, bytes]:
    """The lines of the last `TAIL` bytes, and the number of the first of them."""
    start = block.find(b"\n", len(block) - TAIL) + 1 if len(block) > TAIL else 0
    return first + block.count(b"\n", 0, start), block[start:]


def _regions(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Overlapping places joined."""
    begun: tuple[int, int] | None = None
    for start, end in places:
        if begun is not None and start <= begun[1]:
            begun = (begun[0], max(begun[1], end))
            continue
        if begun is not None:
            yield begun
        begun = (start, end)
    if begun is not None:
        yield begun


def _joined(
    head: Iterable[tuple[int, bytes]],
    found: Iterable[tuple[int, bytes]],
    tail: Iterable[tuple[int, bytes]],
    total: int,
) -> Sieved:
    """Every line once, in order. What stands in the tail too is taken from there."""
    lines: list[str] = []
    numbers: list[int] = []
    ending = list(tail)
    limit = ending[0][0] if ending else total + 1
    for parts, below in ((head, limit), (found, limit), (ending, total + 2)):
        for number, part in parts:
            for offset, raw in enumerate(part.removesuffix(b"\n").split(b"\n")):
                if number + offset >= below or (numbers and number + offset <= numbers[-1]):
                    continue
                for drawn in raw.removesuffix(b"\r").split(b"\r"):
                    lines.append(drawn[:LONGEST_LINE].decode(errors="replace"))
                    numbers.append(number + offset)
    return Sieved(tuple(lines), tuple(numbers), total)

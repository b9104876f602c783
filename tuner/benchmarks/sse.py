"""Server-sent events, split as they come. Pure."""

from __future__ import annotations

from contextlib import suppress

from tuner.benchmarks.http import Garbled

MAX_EVENT = 1024 * 1024
MOST_SIZES = 4096


class Events:
    """Splits a stream into the `data` of its events; comments and other fields are dropped.

    Lines may end in LF, CR or CR LF, wherever the reads cut them.
    """

    __slots__ = ("_held_cr", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._held_cr = False

    @property
    def between_events(self) -> bool:
        """Whether the next byte begins an event."""
        return not self._rest and not self._held_cr

    def feed(self, data: bytes) -> list[bytes]:
        """The data of every event that is complete now.

        Raises:
            Garbled: an event longer than `MAX_EVENT` bytes.
        """
        if self._held_cr or b"\r" in data:
            data = self._plain(data)
        if not data.endswith(b"\n\n") and len(self._rest) + len(data) > MAX_EVENT:
            self._check(self._rest + data)
        parts = (self._rest + data).split(b"\n\n")
        self._rest = parts.pop()
        return [found for part in parts if (found := _data(part)) is not None]

    def end(self) -> list[bytes]:
        """The stream is over: an event without its blank line counts."""
        rest, self._rest = self._rest, b""
        found = _data(rest)
        return [] if found is None else [found]

    def _plain(self, data: bytes) -> bytes:
        if self._held_cr:
            data = b"\r" + data
        self._held_cr = data.endswith(b"\r")
        if self._held_cr:
            data = data[:-1]
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _check(self, buffered: bytes) -> None:
        if len(buffered) - buffered.rfind(b"\n\n") > MAX_EVENT:
            raise Garbled(f"an event is longer than {MAX_EVENT} bytes")


def single_event(data: bytes) -> bytes:
    """A short cut through HTTP chunks and events at once, for a read that begins both: the data of the event, if the
    read is one chunk and that one event of one line, as most reads of a stream are; else nothing."""
    at = data.find(b"\r\n", 0, 10) + 2
    size = len(data) - at - 2
    if _sizes.get(data[:at]) != size and not _has_size(data[:at], size):
        return b""
    whole = data[at : at + 6] == b"data: " and data[-4:] == b"\n\n\r\n" and data.find(b"\n", at) == size + at - 2
    return data[at + 6 : -4] if whole else b""


def whole_events(data: bytes) -> tuple[list[bytes], bytes]:
    """The same for several events, each in a chunk of its own; and what follows the last of them.

    No event where the read holds anything else before its last one: nothing of it has been taken then.
    """
    end = data.rfind(b"\n\n\r\n") + 4
    chunks = data[:end].split(b"\r\n")
    sizes, bodies = chunks[:-1:2], chunks[1::2]
    text = b"".join(bodies)
    count = len(bodies)
    if (
        count == len(sizes)
        and text[:6] == b"data: "
        and text.count(b"\n") == 2 * count
        and text.count(b"\n\ndata: ") == count - 1
        and all(map(_has_size, [size + b"\r\n" for size in sizes], map(len, bodies)))
    ):
        return text[6:-2].split(b"\n\ndata: "), data[end:]
    return [], data


def _has_size(line: bytes, size: int) -> bool:
    """Whether a line between chunks gives this size."""
    if (known := _sizes.get(line)) is None and line[:-2].isalnum():
        with suppress(ValueError):
            known = int(line, 16)
            if len(_sizes) < MOST_SIZES:
                _sizes[line] = known
    return known == size


_sizes: dict[bytes, int] = {}  # lines between chunks that were read before


def _data(event: bytes) -> bytes | None:
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None

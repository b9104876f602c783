"""Server-sent events, split as they come. Pure."""

from __future__ import annotations

from tuner.benchmarks.http import Garbled

MAX_EVENT = 1024 * 1024


class Events:
    """Splits a stream into the `data` of its events; comments and other fields are dropped.

    Lines may end in LF, CR or CR LF, wherever the reads cut them.
    """

    __slots__ = ("_held_cr", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._held_cr = False

    def feed(self, data: bytes) -> list[bytes]:
        """The data of every event that is complete now.

        Raises:
            Garbled: an event longer than `MAX_EVENT` bytes.
        """
        if self._held_cr or b"\r" in data:
            data = self._plain(data)
        if not self._rest and data[:6] == b"data: " and data.find(b"\n") == len(data) - 2 and data[-1:] == b"\n":
            return [data[6:-2]]  # one whole event and nothing else, as nearly every read is
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


def _data(event: bytes) -> bytes | None:
    if event.startswith(b"data: ") and b"\n" not in event:  # nearly all of them
        return event[6:]
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None

"""HTTP/1.1 as the benchmark client speaks it: addresses, request bytes, an incremental reply parser. Pure.

Why not a general client: at 1000 streams the load generator must spend microseconds on an event, and every
answer here is a short head followed by a stream (`Reply`), every question one pre-built block of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from urllib.parse import urlsplit

from tuner.errors import SpecError

MAX_HEAD = 64 * 1024
MAX_LINE = 1024
PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


class Garbled(Exception):
    """The server broke HTTP or the stream's format, or exceeded a limit; the text says how."""


@dataclass(frozen=True)
class Target:
    """Where requests go. `base` is the path before `/v1`, without a slash at its end."""

    host: str
    port: int
    tls: bool = False
    base: str = ""

    @classmethod
    def parse(cls, url: str) -> Target:
        """The target a base URL names; a URL that already ends in `/v1` means the same.

        Raises:
            SpecError: not an http or https URL of a host, or one with a user, a query or a fragment.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise SpecError(f"a server's URL is http[s]://host[:port][/path] (got {url!r}: {error})") from None
        odd = parts.scheme not in ("http", "https") or not host or parts.username or parts.query or parts.fragment
        if odd or not host or any(c <= " " or c > "~" for c in url):
            raise SpecError(f"a server's URL is http[s]://host[:port][/path] (got {url!r})")
        tls = parts.scheme == "https"
        return cls(host, port or (443 if tls else 80), tls, parts.path.rstrip("/").removesuffix("/v1"))

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    def path(self, path: str) -> str:
        """Of an endpoint's path as it is written in a URL without a base (`/v1/completions`)."""
        return f"{self.base}{path}"


@dataclass(frozen=True)
class Wires:
    """The bytes of every request of a pass: called with its index and where it goes.

    `bodies` are complete. `headers` replace those of the same name, whatever their case; the length is always ours.
    Request i is the `first` + i x `step`-th of the pass, which is what its `x-request-id` ends with.
    """

    path: str
    bodies: Sequence[bytes]
    headers: Mapping[str, str]
    id_prefix: str
    first: int = 0
    step: int = 1

    def __call__(self, index: int, target: Target) -> bytes:
        body = self.bodies[index]
        number = self.first + index * self.step
        own_id = b"" if self._has_id else b"x-request-id: %s%d\r\n" % (self.id_prefix.encode(), number)
        return self._head(target) + own_id + b"content-length: %d\r\n\r\n" % len(body) + body

    def check(self) -> None:
        """
        Raises:
            SpecError: a header's name or value cannot be sent.
        """
        self._head(Target("localhost", 80))
        _fields({"x-request-id": self.id_prefix})

    def shard(self, first: int, step: int) -> Wires:
        """Of every `step`-th request from `first` on."""
        return replace(self, bodies=self.bodies[first::step], first=first, step=step)

    @cached_property
    def _has_id(self) -> bool:
        return any(name.lower() == "x-request-id" for name in self.headers)

    @cached_property
    def _heads(self) -> dict[Target, bytes]:
        return {}

    def _head(self, target: Target) -> bytes:
        if (head := self._heads.get(target)) is None:
            head = self._heads[target] = _head(target, self.path, self.headers)
        return head


def _head(target: Target, path: str, headers: Mapping[str, str]) -> bytes:
    fields = {"host": target.authority, "accept": "text/event-stream", "user-agent": "tuner"}
    fields |= {name.lower(): value for name, value in headers.items() if name.lower() != "content-length"}
    fields |= {"content-type": "application/json"}
    return f"POST {target.path(path)} HTTP/1.1\r\n".encode("ascii") + _fields(fields)


def _fields(fields: Mapping[str, str]) -> bytes:
    for name, value in fields.items():
        if not name.isascii() or not value.isprintable() or any(c in name for c in " :\t\r\n") or not name:
            raise SpecError(f"a header is one printable line (got {name!r})")
    try:
        return "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode("latin-1")
    except UnicodeEncodeError:
        raise SpecError("a header holds Latin-1 characters only") from None


class _At(Enum):
    HEAD = auto()
    LENGTH = auto()
    TO_THE_END = auto()
    SIZE = auto()
    CHUNK = auto()
    AFTER_CHUNK = auto()
    TRAILER = auto()
    DONE = auto()


class Reply:
    """One reply, parsed as it comes. Never buffers more than a head or a line."""

    __slots__ = ("_at", "_left", "_rest", "framed", "headers", "keep_alive", "reason", "status")

    def __init__(self) -> None:
        self.status: int | None = None
        self.reason = ""
        self.headers: dict[str, str] = {}
        self.keep_alive = True
        self.framed = True  # whether the reply itself says where it ends
        self._at = _At.HEAD
        self._left = 0
        self._rest = b""

    @property
    def complete(self) -> bool:
        return self._at is _At.DONE

    @property
    def started(self) -> bool:
        """Whether any byte has come."""
        return self._at is not _At.HEAD or bool(self._rest)

    @property
    def between_chunks(self) -> bool:
        """Whether the next byte begins a chunk of a chunked body."""
        return self._at is _At.SIZE and not self._rest

    def feed(self, data: bytes) -> bytes:
        """Take bytes from the connection; return the body bytes among them.

        Raises:
            Garbled: this is not HTTP/1.x, or a limit was exceeded.
        """
        if self._at is _At.HEAD:
            data = self._head(self._rest + data)
        if self._at is _At.HEAD or not data:
            return b""
        if self._at is _At.TO_THE_END:
            return data
        if self._at is _At.LENGTH:
            return self._counted(data)
        return self._chunked(self._rest + data)

    def end(self) -> None:
        """The connection was closed by the server.

        Raises:
            Garbled: in the middle of the reply.
        """
        if self._at is _At.TO_THE_END:
            self._at = _At.DONE
        elif self._at is not _At.DONE:
            where = "in the middle of the reply" if self.started else "without a reply"
            raise Garbled(f"the server closed the connection {where}")

    def _head(self, data: bytes) -> bytes:
        """Parse the head if it is whole; return what follows it. Interim replies (1xx) are passed over."""
        while (end := data.find(b"\r\n\r\n")) >= 0 and end <= MAX_HEAD:
            lines = data[:end].decode("latin-1").split("\r\n")
            self._status_line(lines[0])
            data = data[end + 4 :]
            if self.status is not None and self.status >= 200:
                self.headers = {n.strip().lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}
                self._rest = b""
                self._framing()
                return data
        if len(data) > MAX_HEAD:
            raise Garbled(f"the reply's head is longer than {MAX_HEAD} bytes")
        if not data.startswith(b"HTTP/1."[: len(data)]):
            raise Garbled(f"the reply is not HTTP/1.x (it starts with {data[:40]!r})")
        self._rest = data
        return b""

    def _status_line(self, line: str) -> None:
        version, _, rest = line.partition(" ")
        code, _, self.reason = rest.partition(" ")
        if not version.startswith("HTTP/1.") or not (len(code) == 3 and code.isascii() and code.isdigit()):
            raise Garbled(f"the reply is not HTTP/1.x (it starts with {line[:40]!r})")
        self.status = int(code)
        self.keep_alive = version != "HTTP/1.0"

    def _framing(self) -> None:
        connection = self.headers.get("connection", "").lower()
        self.keep_alive = "close" not in connection and (self.keep_alive or "keep-alive" in connection)
        length = self.headers.get("content-length")
        if self.status in (204, 304):
            self._at = _At.DONE
        elif "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._at = _At.SIZE
        elif length is None:
            self._at, self.keep_alive, self.framed = _At.TO_THE_END, False, False
        elif not (length.isascii() and length.isdigit() and len(length) < 19):
            raise Garbled(f"the reply's content-length is {length[:40]!r}")
        else:
            self._left = int(length)
            self._at = _At.LENGTH if self._left else _At.DONE

    def _counted(self, data: bytes) -> bytes:
        body = data[: self._left]
        self._left -= len(body)
        if self._left == 0:
            self._finish(data[len(body) :])
        return body

    def _chunked(self, data: bytes) -> bytes:
        pieces: list[bytes] = []
        at, size = 0, len(data)
        while at < size:
            if self._at is _At.SIZE:
                end = _line(data, at)
                if end < 0:
                    break
                self._left = _chunk_size(data[at:end])
                self._at = _At.CHUNK if self._left else _At.TRAILER
                at = end + 2
            elif self._at is _At.CHUNK:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left == 0:
                    self._at = _At.AFTER_CHUNK
            elif self._at is _At.AFTER_CHUNK:
                if size - at < 2:
                    break
                if data[at : at + 2] != b"\r\n":
                    raise Garbled(f"a chunk is longer than it says ({data[at : at + 20]!r} follows it)")
                at += 2
                self._at = _At.SIZE
            elif self._at is _At.TRAILER:
                end = _line(data, at)
                if end < 0:
                    break
                blank, at = end == at, end + 2
                if blank:
                    self._finish(data[at:])
                    return b"".join(pieces)
            else:
                break
        self._rest = data[at:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _finish(self, surplus: bytes) -> None:
        """`surplus`: bytes after the reply, which nobody asked for: the connection is not used again."""
        self._at, self._rest = _At.DONE, b""
        if surplus:
            self.keep_alive = False


def _line(data: bytes, at: int) -> int:
    """Where the line from `at` on ends, or -1 if that has not come yet."""
    end = data.find(b"\r\n", at, at + MAX_LINE)
    if end < 0 and len(data) - at >= MAX_LINE:
        raise Garbled(f"a line between chunks is longer than {MAX_LINE} bytes")
    return end


def _chunk_size(line: bytes) -> int:
    text = line.partition(b";")[0].strip()
    if not 0 < len(text) <= 15 or text.strip(b"0123456789abcdefABCDEF"):
        raise Garbled(f"a chunk's size is {line[:40]!r}")
    return int(text, 16)

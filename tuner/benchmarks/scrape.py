"""Reading servers' `/metrics` beside a benchmark: bounded in time and size, and rarely enough not to be felt."""

from __future__ import annotations

import http.client
import queue
import re
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from tuner.benchmarks.counters import GAUGE_NAMES, Counters, added, counters, difference, gauges
from tuner.benchmarks.http import Target

TIMEOUT_S = 1.0
FIRST_AFTER_S = 0.5
EVERY_S = 2.0
SLOWER = 1.1  # each wait is so many times the one before: a long pass is not read more than about a hundred times
MOST_BYTES = 8 * 2**20
_PIECE = 64 * 1024


def read(
    urls: Sequence[str],
    timeout: float = TIMEOUT_S,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Counters | None:
    """What all servers of these base URLs count, added up; None where one of them does not say within `timeout`
    seconds. Never raises for what a server does, never waits longer.

    Raises:
        SpecError: a URL that is none.
    """
    found = _texts([Target.parse(url) for url in urls], timeout, dict(headers or {}), tls)
    each = [counters(text.decode("utf-8", "replace")) if text is not None else Counters() for text in found]
    return added(each) if each and all(one.known for one in each) else None


@dataclass
class Beside:
    """What servers count while the body of a `with` runs: read before it and after it, and how many requests run and
    wait meanwhile, in a thread of its own: first after half a second, then every two seconds or more.

    Costs up to `timeout` seconds at each end, nothing more of either where the first reading says nothing. To be left
    after the last answer; processes are best forked before it is entered.
    """

    urls: Sequence[str]
    timeout: float = TIMEOUT_S
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self._targets = [Target.parse(url) for url in self.urls]
        self._over = threading.Event()
        self._readings: list[Counters] = []
        self._before: Counters | None = None
        self._after: Counters | None = None

    def __enter__(self) -> Beside:
        self._before = self._read()
        if self._before is not None:
            threading.Thread(target=self._sample, name="metrics", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()  # a reading under way ends by itself; nobody waits for it
        if self._before is not None and error is None:
            self._after = self._read()

    @property
    def facts(self) -> dict[str, Any]:
        """`counters` (see `counters.difference`) and `gauges` (see `counters.gauges`), as far as known."""
        counted = difference(self._before, self._after) if self._before and self._after else {}
        meanwhile = gauges(tuple(self._readings))
        return {name: found for name, found in (("counters", counted), ("gauges", meanwhile)) if found}

    def _read(self) -> Counters | None:
        return read(self.urls, self.timeout, self.headers, self.tls)

    def _sample(self) -> None:
        wait = FIRST_AFTER_S
        while not self._over.wait(wait):
            texts = _texts(self._targets, self.timeout, self.headers, self.tls)
            each = [counters(_gauges_only(text)) if text is not None else Counters() for text in texts]
            if not self._over.is_set() and all(one.known for one in each):
                self._readings.append(added(each))
            wait = max(EVERY_S, wait * SLOWER)


_GAUGES = re.compile(f"^(?:{'|'.join(GAUGE_NAMES)}).*$".encode(), re.MULTILINE)


def _gauges_only(text: bytes) -> str:
    """The few lines wanted out of thousands: all of them parsed would hold up the client's own thread."""
    if text.lstrip()[:1] in (b"[", b"{"):
        return text.decode("utf-8", "replace")
    return "\n".join(line.decode("utf-8", "replace") for line in _GAUGES.findall(text))


def _texts(
    targets: Sequence[Target], timeout: float, headers: Mapping[str, str], tls: ssl.SSLContext | None
) -> list[bytes | None]:
    """The reply of each server, None where none came in time. Each is asked in a thread of its own, so that neither
    a name that is not resolved nor a reply that trickles is waited for."""
    deadline = time.monotonic() + timeout
    answers: queue.SimpleQueue[tuple[int, bytes | None]] = queue.SimpleQueue()

    def ask(number: int, target: Target) -> None:
        try:
            answers.put((number, _get(target, timeout, deadline, headers, tls)))
        except (OSError, http.client.HTTPException, ValueError):
            answers.put((number, None))

    for number, target in enumerate(targets):
        threading.Thread(target=ask, args=(number, target), name="metrics", daemon=True).start()
    found: list[bytes | None] = [None] * len(targets)
    for _ in targets:
        try:
            number, text = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        found[number] = text
    return found


def _get(
    target: Target, timeout: float, deadline: float, headers: Mapping[str, str], tls: ssl.SSLContext | None
) -> bytes | None:
    """`/metrics`; where TensorRT-LLM has no statistics there, what it has for Prometheus."""
    text = _page(target, "/metrics", timeout, deadline, headers, tls)
    if text is None or text.strip() not in (b"[]", b""):
        return text
    return _page(target, "/prometheus/metrics", timeout, deadline, headers, tls)


def _page(
    target: Target,
    path: str,
    timeout: float,
    deadline: float,
    headers: Mapping[str, str],
    tls: ssl.SSLContext | None,
) -> bytes | None:
    made = (
        http.client.HTTPSConnection(target.host, target.port, timeout=timeout, context=tls)
        if target.tls
        else http.client.HTTPConnection(target.host, target.port, timeout=timeout)
    )
    try:
        made.request("GET", f"{target.base}{path}", headers={"accept": "text/plain", **headers})
        reply = made.getresponse()
        if reply.status != 200:
            return None
        pieces, size = [], 0
        while piece := reply.read1(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_BYTES or time.monotonic() > deadline:
                return None
        return b"".join(pieces)
    finally:
        made.close()

"""A pass under way: how far it is, and whether anything still comes. Pure: the clock is the pass's own."""

from __future__ import annotations

import math
from collections.abc import Callable

from tuner.benchmarks import Event

TOLD_EVERY_S = 30.0
DOUBT_AFTER_S = 10.0


class Watch:
    """What a pass calls as its `on_event`. Ends it when no token of any request has come for `hang_s` seconds.

    Says every `told_every_s` how many requests are done. While nothing comes, `lost` is asked whether the server has
    ended. Seconds in which no request is under way do not count.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        hang_s: float = math.inf,
        lost: Callable[[], bool] = lambda: False,
        told_every_s: float = TOLD_EVERY_S,
    ) -> None:
        self.hung = ""  # why the pass was ended
        self._say, self._hang_s, self._lost, self._told_every_s = say, hang_s, lost, told_every_s
        self._told = self._since = 0.0
        self._seen = (0, 0, 0)

    def __call__(self, event: Event) -> bool:
        seen = (event.output_tokens, event.completed, event.failed)
        if seen != self._seen or not event.in_flight:
            self._seen, self._since = seen, event.elapsed
        silent = event.elapsed - self._since
        if silent >= self._hang_s:
            self.hung = f"no token of any request for {self._hang_s:g} s: {progress(event)}"
            return True
        if event.elapsed - self._told >= self._told_every_s:
            self._told = event.elapsed
            self._say(progress(event) + (f", nothing came for {silent:.0f} s" if silent >= self._told_every_s else ""))
        return silent >= DOUBT_AFTER_S and self._lost()


def progress(event: Event) -> str:
    """`12 s: 412 of 1000 requests done, 3 of them failed, 64 in flight, 5123 tok/s out so far, at most 9000 in all`."""
    failed = f", {event.failed} of them failed" if event.failed else ""
    bound = f", at most {event.bound:.0f} tok/s in all" if event.bound is not None else ""
    return (
        f"{event.elapsed:.0f} s: {event.completed + event.failed} of {event.total} requests done{failed}, "
        f"{event.in_flight} in flight, {event.output_throughput:.0f} tok/s out so far{bound}"
    )

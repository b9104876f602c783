"""How a person ends a run: by Ctrl-C, TERM or the terminal's end, gently first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Ending:
    """`drain`: nothing more is sent, and answers under way are waited for; `stop`: no answer is waited for either.

    Until `measuring` there is no answer worth waiting for: the first signal sets both.
    """

    drain: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    measuring: bool = False

    @property
    def asked_for(self) -> bool:
        """Whether anybody wants the run to end."""
        return self.drain.is_set()

    def next(self) -> str:
        """One signal more; what it does, in words.

        Raises:
            KeyboardInterrupt: it was the third.
        """
        if self.stop.is_set():
            raise KeyboardInterrupt
        if self.measuring and not self.drain.is_set():
            self.drain.set()
            return "ending: nothing more is sent, answers under way are waited for; once more ends at once"
        self.drain.set()
        self.stop.set()
        return "ending at once, with what is there; once more gives that up too"


@contextmanager
def interruptible(say: Callable[[str], None]) -> Iterator[Ending]:
    """Signals end the run in the steps of `Ending`. One that is ignored (nohup) stays so."""
    ending = Ending()

    def ask_to_end(number: int, frame: FrameType | None) -> None:
        say(ending.next())

    if threading.current_thread() is not threading.main_thread():
        yield ending
        return
    taken = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, ask_to_end) for number in taken}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""No garbage collection while a pass runs: a pause of the collector would be measured as the server's."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_count = 0


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Passes may overlap in several threads; the last one turns the collector on again."""
    global _count
    with _lock:
        _count += 1
        if _count == 1:
            gc.collect()
            gc.freeze()
            gc.disable()
    try:
        yield
    finally:
        with _lock:
            _count -= 1
            if _count == 0:
                gc.enable()
                gc.unfreeze()

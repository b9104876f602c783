"""When each request of a workload is due. Pure."""

from __future__ import annotations

import math
from itertools import accumulate
from random import Random


def arrivals(count: int, rate: float | None, burstiness: float, rng: Random) -> list[float]:
    """Seconds after the start at which each of `count` requests is due, ascending.

    The process of `vllm bench serve` 0.32 (`get_request`): gaps are gamma distributed with shape `burstiness` and
    mean 1/`rate` (burstiness 1 is Poisson, below 1 burstier, infinite evenly spaced); their sums are scaled so
    that the last request is due at exactly `count`/`rate`. The first waits its own gap. The draws come from `rng`
    and not from numpy's generator: the distribution agrees with vLLM's, the single times do not.
    `rate` None or infinite: all are due at 0.

    Raises:
        ValueError: `rate` or `burstiness` is not above 0.
    """
    if count == 0 or rate is None or rate == math.inf:
        return [0.0] * count
    if not (rate > 0 and burstiness > 0):
        raise ValueError(f"request rate and burstiness are above 0 (got {rate} and {burstiness})")
    if burstiness == math.inf:
        return [(index + 1) / rate for index in range(count)]
    due = list(accumulate(rng.gammavariate(burstiness, 1 / (rate * burstiness)) for _ in range(count)))
    if due[-1] == 0:  # every gap underflowed: a burstiness near 0 is one burst, at the end
        return [count / rate] * count
    end = count / rate
    return [min(at / due[-1] * end, end) for at in due]

"""When each request of a workload is due. Pure."""

from __future__ import annotations

import math

import numpy

from tuner.benchmarks import RampUp


def arrivals(
    count: int, rate: float | None, burstiness: float, seed: int, ramp_up: RampUp | None = None
) -> list[float]:
    """Seconds after the start at which each of `count` requests is due, ascending.

    The process of `vllm bench serve` (`get_request`), with its draws for the same seed: gaps are gamma distributed
    with shape `burstiness` and mean 1/`rate` (burstiness 1 is Poisson, below 1 burstier, infinite evenly spaced);
    their sums are scaled so that the last request is due at exactly `count`/`rate`. The first waits its own gap.
    With `ramp_up` the rate grows with the request's number, not with time, and nothing is scaled.
    `rate` None or infinite: all are due at 0.

    Raises:
        ValueError: a rate or `burstiness` is not above 0.
    """
    if not burstiness > 0:
        raise ValueError(f"burstiness is above 0 (got {burstiness})")
    if count == 0 or (ramp_up is None and (rate is None or rate == math.inf)):
        return [0.0] * count
    rates = numpy.full(count, rate) if ramp_up is None else _rising(count, ramp_up)
    if not (rates > 0).all():
        raise ValueError(f"request rates are above 0 (got {rates.min():g})")
    sums = numpy.cumsum(_gaps(rates, burstiness, seed))
    if rate is None or ramp_up is not None:
        return [float(at) for at in sums]
    return _scaled(sums, count / rate)


def _rising(count: int, ramp_up: RampUp) -> numpy.ndarray:
    progress = numpy.arange(count) / max(count - 1, 1)
    if ramp_up.strategy == "linear":
        return ramp_up.start + (ramp_up.end - ramp_up.start) * progress
    if not ramp_up.start > 0:
        raise ValueError(f"an exponential ramp-up starts above 0 (got {ramp_up.start:g})")
    return numpy.asarray(ramp_up.start * (ramp_up.end / ramp_up.start) ** progress)


def _gaps(rates: numpy.ndarray, burstiness: float, seed: int) -> numpy.ndarray:
    if burstiness == math.inf:
        return 1.0 / rates
    draws = numpy.random.RandomState(seed % 2**32)  # numpy's global generator as vLLM seeds it
    return draws.gamma(burstiness, 1.0 / (rates * burstiness))


def _scaled(sums: numpy.ndarray, end: float) -> list[float]:
    if sums[-1] == 0:  # every gap underflowed: a burstiness near 0 is one burst, at the end
        return [end] * len(sums)
    due = [min(float(at), end) for at in sums * (end / sums[-1])]
    return [*due[:-1], end]

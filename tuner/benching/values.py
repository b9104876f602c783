"""What an option's text can be. Each function is an argparse `type`: it answers with the value or says the rule."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from tuner.errors import Fault, SpecError

LATENCIES = ("ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue")


def _number(text: str, rule: str, holds: Callable[[float], bool]) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not holds(value):
        raise argparse.ArgumentTypeError(f"{rule} (got {text})")
    return value


def _whole(text: str, least: int) -> int:
    value = _number(text, f"must be a whole number, at least {least}", lambda v: v >= least and v == v // 1)
    return int(value)


def positive(text: str) -> int:
    return _whole(text, 1)


def count(text: str) -> int:
    return _whole(text, 0)


def above_0(text: str) -> float:
    return _number(text, "must be above 0", lambda v: 0 < v < math.inf)


def zero_or_more(text: str) -> float:
    return _number(text, "must be at least 0", lambda v: 0 <= v < math.inf)


def share(text: str) -> float:
    return _number(text, "must be above 0 and at most 1", lambda v: 0 < v <= 1)


def rate(text: str) -> float:
    return _number(text, "must be above 0; inf sends all at once", lambda v: v > 0)


def burstiness(text: str) -> float:
    return _number(text, "must be above 0", lambda v: v > 0)


def counts(text: str) -> tuple[int, ...]:
    return tuple(positive(part) for part in _parts(text))


def rates(text: str) -> tuple[float, ...]:
    return tuple(above_0(part) for part in _parts(text))


def percentiles(text: str) -> tuple[float, ...]:
    return tuple(_number(p, "are numbers from 0 to 100", lambda v: 0 <= v <= 100) for p in _parts(text))


def latencies(text: str) -> tuple[str, ...]:
    names = tuple(_parts(text))
    for name in names:
        if name not in LATENCIES:
            raise argparse.ArgumentTypeError(f"are of {', '.join(LATENCIES)} (got {name})")
    return names


def _parts(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise argparse.ArgumentTypeError(f"are separated by single commas (got {text})")
    return parts


def ranges(text: str) -> tuple[float, float | None]:
    """The ratio of inputs, and of outputs where it is another."""
    try:
        given: Any = json.loads(text)
    except ValueError:
        given = text
    if not isinstance(given, dict):
        return _ratio(text), None
    if set(given) != {"input", "output"}:
        raise argparse.ArgumentTypeError(f'must be a number or {{"input": R, "output": R}} (got {text})')
    return _ratio(str(given["input"])), _ratio(str(given["output"]))


def _ratio(text: str) -> float:
    return _number(text, "must be at least 0 and below 1", lambda v: 0 <= v < 1)


def json_object(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be a JSON object ({error})") from None
    if not isinstance(given, dict):
        raise argparse.ArgumentTypeError(f"must be a JSON object (got {text})")
    return given


def one_of(
    option: str, taken: Mapping[str, str], refused: Mapping[str, str], keep: bool = False
) -> Callable[[str], str]:
    """The value that a name stands for (`keep`: the name itself); names that are refused say what to use instead."""

    def chosen(text: str) -> str:
        if text in taken:
            return text if keep else taken[text]
        names = ", ".join(dict.fromkeys(taken))
        if text in refused:
            raise SpecError([Fault(f"{option} {text} is not taken", way_out=refused[text] or f"there are {names}")])
        raise argparse.ArgumentTypeError(f"is one of {names} (got {text})")

    return chosen


def only(option: str, value: str) -> Callable[[str], str]:
    def chosen(text: str) -> str:
        if text != value:
            raise SpecError([Fault(f"{option} {text} is not taken", way_out=f"rename the field to {value}")])
        return text

    return chosen

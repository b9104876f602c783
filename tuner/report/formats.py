"""How figures, names and foreign text are written in every form of the report. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from tuner.objective import METHODS, Method
from tuner.trial import SECRET_NAME, Failure, Scalar

_METRICS = {
    "total_token_throughput": "total throughput",
    "output_throughput": "output throughput",
    "request_throughput": "request throughput",
    "duration": "duration",
}
_ACRONYMS = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2EL"}
_NAMES = {"torch-compile": "torch.compile", "speculative": "speculative decoding", "mtp": "MTP"}
_ANSI = re.compile(r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)|\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_WORD = r"(?:'[^']*'|\"[^\"]*\"|\S+)"
_SECRET_ASSIGNED = re.compile(rf"\b({SECRET_NAME})=(?!['\"]?\$){_WORD}")
_SECRET_FLAG = re.compile(rf"(--(?:admin-)?api[-_]key)([ =]+)(?!['\"]?\$){_WORD}")


def percent(ratio: float | None, digits: int = 1) -> str:
    """`+30.3 %`, `-4.7 %`, `0.0 %`; `-` for None."""
    if ratio is None:
        return "-"
    text = f"{ratio * 100:+.{digits}f} %"
    return text[1:] if float(text[:-2]) == 0 else text


def rough(ratio: float | None) -> str:
    """`+34 %` from 10 % on, one decimal below."""
    return percent(ratio, 0 if ratio is not None and abs(ratio) >= 0.1 else 1)


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def seconds(value: float) -> str:
    """`0.8 s`, `76.6 s`, `12 m 03 s`, `2 h 05 m`."""
    if value < 100:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, of_hour = divmod(minutes, 60)
    return f"{hours} h {of_hour:02d} m" if hours else f"{minutes} m {rest:02d} s"


def metric(name: str) -> str:
    """`mean_tpot_ms` as `mean TPOT`; `total_token_throughput` as `total throughput`."""
    words = name.removesuffix("_ms").split("_")
    return _METRICS.get(name, " ".join(_ACRONYMS.get(word, word) for word in words))


def unit(name: str) -> str:
    if name.endswith("_ms"):
        return "ms"
    if name == "request_throughput":
        return "req/s"
    if name.endswith("_throughput"):
        return "tok/s"
    return "s" if name == "duration" else ""


def with_unit(name: str, value: float | None) -> str:
    return f"{number(value)} {unit(name)}".rstrip() if value is not None else "-"


def higher_is_better(name: str) -> bool:
    """Throughputs and rates; everything in `vllm bench serve`'s figures that is a time is better when lower."""
    return not (name.endswith("_ms") or name == "duration")


def title(name: Scalar) -> str:
    """A stage's or option's name as people write it: `torch-compile` as `torch.compile`."""
    text = plain(str(name))
    return _NAMES.get(text, text)


def method(asked: Method) -> str:
    """`normal`; one that a study changed with what differs: `normal with changes: confirm 1`."""
    name = asked.name.removesuffix(", changed")
    base = METHODS.get(name)
    if base is None or replace(asked, name=name) == base:
        return line(asked.name)
    known, given = asdict(base), asdict(asked)
    changes = [f"{key.replace('_', ' ')} {given[key]:g}" for key in known if key != "name" and given[key] != known[key]]
    return f"{name} with changes: {', '.join(changes)}"


def trial_numbers(numbers: Iterable[int]) -> str:
    """`trial 3`, `trials 3, 4, 5`."""
    shown = [str(n) for n in numbers]
    return f"trial{'s' if len(shown) > 1 else ''} {', '.join(shown)}"


def median_of(numbers: Sequence[int]) -> str:
    """`median of trials 14 and 17`; '' where there is only one to take."""
    if len(numbers) < 2:
        return ""
    return f"median of trials {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def failure(found: Failure) -> str:
    """On one line; what ended a trial without being about its configuration in plain words."""
    words = {"interrupted": "interrupted by hand", "abandoned": "abandoned: the tuner was killed meanwhile"}
    return words.get(found.kind) or line(str(found))


def cut(text: str, width: int) -> str:
    """At most `width` characters, the end marked where some are left out."""
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."


def last_lines(log: str, most: int) -> tuple[str, ...]:
    """The last lines of a log with something in them, to be shown as they are."""
    shown = (redacted(row.rstrip()) for row in plain(log).splitlines())
    return tuple(cut(row, 300) for row in shown if row)[-most:]


def plain(text: str) -> str:
    """Foreign text (logs, names, commands) without terminal sequences, control and direction-changing characters."""
    text = _ANSI.sub("", text).replace("\t", " ")
    return "".join(char for char in text if char == "\n" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co"))


def line(text: str) -> str:
    """`plain` on one line."""
    return " ".join(plain(text).split())


def redacted(text: str) -> str:
    """A command without the values of secrets (HF_TOKEN, *_API_KEY, *_TOKEN, --api-key ...)."""
    text = _SECRET_ASSIGNED.sub(r"\1=${\1}", text)
    return _SECRET_FLAG.sub(r"\1\2${API_KEY}", text)

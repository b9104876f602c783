"""What a server's log says: why it failed, what its start is doing. One reader of the tables in `tables.logs`. Pure.

An engine that fails writes its cause once and its consequences often: `See root cause above` comes last. So the
first specific error line before the end is the cause, and a line that only says that something died is a symptom.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

from tuner.engines.lines import BENIGN, LONGEST_LINE, may_be_an_error, plain, stripped
from tuner.policy import FailureKind
from tuner.trial import Failure

LONGEST_LOG, LONGEST_MESSAGE, LONGEST_QUOTE = 8_000_000, 500, 200
BEFORE, AFTER = 14, 6  # lines shown around the cause
NEARBY = 400  # lines before a symptom among which its cause is looked for
CONTEXT = 80  # lines around a cause that tell its kind more exactly

_LONG_NUMBER = re.compile(r"\d+\.\d+|\d{4,}|0x[\da-f]+|[\da-f]{8}-[\da-f-]{20,}")  # shorter ones are codes
_SYMPTOM_ALONE = "its log gives no reason: killed from outside, or by the kernel (see dmesg)"

Line: TypeAlias = tuple[int, str]  # where it stands (from 0), and its text without its logger's prefix


@dataclass(frozen=True)
class Cause:
    """A line that says why. `alone`: nothing good can follow it, so it is fatal while the process still lives.
    `way_out`: where more is known than the policy of its kind says."""

    kind: FailureKind
    pattern: str
    alone: bool = True
    way_out: str = ""


# Any error, where the process ended or a symptom follows and no line above says more.
GENERIC = (
    Cause("not-installed", r"^(?:\w+\.)*(?:ModuleNotFoundError|ImportError|PackageNotFoundError)\b"),
    Cause("unsupported", r"^(?:\w+\.)*NotImplementedError\b"),
    Cause("unsupported", r"^(?:\w+\.)*(?:ValueError|AssertionError|RuntimeError)\b.{0,300}(?:(?:not|un)[ -]?supported"
          r"|does(?: not|n't) support|only supports?\b|requires compute capability)"),
    Cause("invalid-config", r"^(?:\w+\.)*(?:ValueError|AssertionError|TypeError|KeyError|ValidationError)\b"),
    Cause("start-stall", r"^(?:\w+\.)*TimeoutError\b.{0,200}RPC call|RPC call to \w+ timed out"),
    Cause("abandoned", r"^KeyboardInterrupt\b"),
    Cause("crash", r"^(?:\w+\.)*\w*(?:Error|Exception)(?::|$)|^Segmentation fault|^Fatal Python error"),
)  # fmt: skip


@dataclass(frozen=True)
class Closer:
    """A kind told more exactly: a cause of the kinds `of` whose line matches `line`, with `near` around it."""

    kind: FailureKind
    of: frozenset[FailureKind]
    line: str = ""
    near: str = ""


@dataclass(frozen=True)
class Logs:
    """How one engine's log reads. `symptoms`: lines after which it is lost, without the reason; `under_load`:
    those of them that only a server that was ready writes; `stopped`: lines of one that was asked to end; `progress`:
    (pattern, words with {groups}); `generic`: causes looked for where none of `causes` is found; `words`:
    of causes and symptoms that hold none of the usual ones (`lines.py`), for which a line is looked at."""

    causes: Sequence[Cause]
    symptoms: Sequence[str]
    under_load: str
    progress: Sequence[tuple[str, str]]
    stopped: str = r"SIGTERM received|\[shutdown\] API server: shutdown triggered|received signal=SIG(?:TERM|INT)"
    ready: str = r"Application startup complete|The server is fired up and ready to roll"
    generic: Sequence[Cause] = GENERIC
    closer: Sequence[Closer] = ()
    words: Sequence[str] = ()


def failure(logs: Logs, log: str, returncode: int | None) -> Failure | None:
    """The cause that `log` shows, if fatal; with a return code always an answer (see `Engine.failure`)."""
    lines, skipped = _bounded(log)
    symptoms = _any(logs.symptoms)
    seen = list(_interesting(lines, symptoms, logs.words))
    symptom = next((line for line in seen if symptoms.search(line[1])), None)
    found = _cause(logs, seen, symptom, returncode is not None)
    if found is None and symptom is None:
        return _without_reason(lines, logs, returncode) if returncode is not None else None
    (number, text), cause = found or (symptom or (0, ""), Cause("crash", ""))
    served = _served(logs, lines, symptom[0] if symptom else number, symptom[1] if symptom else "")
    kind = UNDER_LOAD.get(cause.kind) if served else None
    kind = kind or _closer(logs, cause.kind, lines, number, text)
    return Failure(
        kind,
        _message(lines, number, text),
        _excerpt(lines, number),
        line=number + 1 + (skipped[1] if number >= skipped[0] else 0),
        way_out=(cause.way_out if kind == cause.kind else "") if found else _SYMPTOM_ALONE,
    )


# What a server that was ready has, where one that starts has the other.
UNDER_LOAD: dict[FailureKind, FailureKind] = {
    "crash": "crash-under-load",
    "out-of-memory": "out-of-memory-under-load",
    "start-stall": "hang-under-load",
}


def progress(logs: Logs, log: str) -> str:
    """What the start is doing, from the last line that says so ('' if none of the last 16 KB does)."""
    for line in reversed(re.split(r"[\r\n]+", log[-16_000:])):
        for pattern, words in logs.progress:
            if match := _compiled(pattern).search(line[-LONGEST_LINE:]):
                return words.format(*match.groups())
    return ""


def last_line(log: str) -> str:
    """The last line of a log that says something, without its logger's prefix, cut to `LONGEST_QUOTE` characters."""
    return _last(_bounded(log)[0])


def _bounded(log: str) -> tuple[list[str], tuple[int, int]]:
    """The lines of the start and the end of a log that is too long to read whole; from which of them on how many
    lines are missing."""
    if len(log) <= LONGEST_LOG:
        lines = _split(log)
        return lines, (len(lines), 0)
    head, tail = _split(log[: LONGEST_LOG // 3]), _split(log[-2 * LONGEST_LOG // 3 :])
    return head + tail, (len(head), max(0, log.count("\n") + 1 - len(head) - len(tail)))


def _split(log: str) -> list[str]:
    """Lines as an editor counts them; of a progress bar's drawings the last."""
    return [line.rstrip("\r").rpartition("\r")[2] for line in log.split("\n")]


def _interesting(lines: Sequence[str], symptoms: re.Pattern[str], words: Sequence[str]) -> Iterator[Line]:
    """Lines that may be an error, by number, without the prefixes of their logger."""
    for number, raw in enumerate(lines):
        line = raw[:LONGEST_LINE]
        if not may_be_an_error(line, words):
            continue
        quiet, text = stripped(line)
        if symptoms.search(text) if quiet else not BENIGN.search(text):
            yield number, text


def _cause(logs: Logs, seen: Sequence[Line], symptom: Line | None, ended: bool) -> tuple[Line, Cause] | None:
    """The first specific cause near the symptom (anywhere if the process ended), else the first error there."""
    first = symptom[0] - NEARBY if symptom else 0
    near = [line for line in seen if line[0] >= first]
    certain = ended or symptom is not None
    known = [cause for cause in logs.causes if cause.alone or certain]
    if found := _first(near, known, None):
        return found
    return _first(near, logs.generic, _any(logs.symptoms)) if certain else None


def _first(near: Sequence[Line], causes: Sequence[Cause], unless: re.Pattern[str] | None) -> tuple[Line, Cause] | None:
    """Lines that differ in long numbers alone are looked at once."""
    barren: set[str] = set()
    for number, text in near:
        shape = _LONG_NUMBER.sub("0", text)
        if shape in barren:
            continue
        barren.add(shape)
        if unless is not None and unless.search(text):
            continue
        for cause in causes:
            if _compiled(cause.pattern).search(text):
                return (number, text), cause
    return None


def _closer(logs: Logs, kind: FailureKind, lines: Sequence[str], number: int, text: str) -> FailureKind:
    for closer in logs.closer:
        if kind in closer.of and _compiled(closer.line).search(text):
            around = "\n".join(line[:LONGEST_LINE] for line in lines[max(0, number - CONTEXT) : number + CONTEXT])
            if _compiled(closer.near).search(around):
                return closer.kind
    return kind


def _served(logs: Logs, lines: Sequence[str], until: int, symptom: str) -> bool:
    """Whether it was ready before line `until`, as the log or the symptom itself shows."""
    if _compiled(logs.under_load).search(symptom):
        return True
    return any(_compiled(logs.ready).search(line[:LONGEST_LINE]) for line in lines[:until])


def _message(lines: Sequence[str], number: int, text: str) -> str:
    """The cause's line; with the assertion where it says nothing itself, and the fields of a validation error."""
    text = text.strip()
    if re.search(r"(Error|Exception):?$", text):
        code = next((stripped(line)[1].strip(" ^") for line in reversed(lines[:number]) if line.strip(" ^")), "")
        text = f"{text}: {code}" if code else text
    if re.search(r"validation errors? for", text):
        details = (stripped(line)[1].strip() for line in lines[number + 1 : number + 10])
        text = "; ".join([text, *(line for line in details if not line.startswith("For further information"))])
    return text[:LONGEST_MESSAGE]


def _excerpt(lines: Sequence[str], number: int) -> str:
    return "\n".join(line[:LONGEST_LINE] for line in lines[max(0, number - BEFORE) : number + AFTER + 1])


def _without_reason(lines: Sequence[str], logs: Logs, returncode: int) -> Failure:
    """An end that the log does not explain, by its return code."""
    tail = "\n".join(line[:LONGEST_LINE] for line in lines[-(BEFORE + AFTER) :])
    last = _last(lines)
    stopped = next((n for n in reversed(range(len(lines))) if _compiled(logs.stopped).search(lines[n])), None)
    if stopped is not None:
        why = "somebody else asked the server to stop"
        return Failure("abandoned", why, _excerpt(lines, stopped), line=stopped + 1)
    if returncode in (-15, 143):
        return Failure("abandoned", "somebody else ended the server (SIGTERM)", tail)
    if returncode in (126, 127):
        why = f"the program could not be run (exit {returncode})"
        return Failure("not-installed", f"{why}; its last line: {last}" if last else why, tail)
    if returncode in (-7, 135):
        why = "killed (SIGBUS) with no reason in its log: /dev/shm is full?"
        return Failure("shm-full", f"{why} Its last line: {last}" if last else why, tail)
    kind = "crash-under-load" if _served(logs, lines, len(lines), "") else "crash"
    if returncode in (-9, 137):
        why = "killed (SIGKILL) with no reason in its log: the kernel's out-of-memory killer?"
        return Failure(kind, f"{why} Its last line: {last}" if last else why, tail)
    how = f"signal {-returncode}" if returncode < 0 else f"exit {returncode}"
    said = f"its last line: {last}" if last else "its log is empty"
    return Failure(kind, f"the server ended by itself ({how}); {said}", tail)


def _last(lines: Sequence[str]) -> str:
    """Lines that every end writes (leaked semaphores, process groups) are passed over where there are others."""
    cleaned = (" ".join(stripped(plain(raw[:LONGEST_LINE]))[1].split()) for raw in reversed(lines))
    said = list(islice(filter(None, cleaned), BEFORE + AFTER))
    line = next((line for line in said if not BENIGN.search(line)), said[0] if said else "")
    return line if len(line) <= LONGEST_QUOTE else line[: LONGEST_QUOTE - 1] + "…"


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _any(patterns: Sequence[str]) -> re.Pattern[str]:
    return _compiled("|".join(f"(?:{pattern})" for pattern in patterns))

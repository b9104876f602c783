"""What a server's log says: why it failed, what its start is doing. Tables of patterns and one reader. Pure.

An engine that fails writes its cause once and its consequences often: `See root cause above` comes last. So the
first specific error line before the end is the cause, and a line that only says that something died is a symptom.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from tuner.trial import Failure, FailureKind

LONGEST_LOG, LONGEST_LINE, LONGEST_MESSAGE, LONGEST_QUOTE = 4_000_000, 4_000, 500, 200
BEFORE, AFTER = 14, 6  # lines shown around the cause
NEARBY = 400  # lines before a symptom among which its cause is looked for


@dataclass(frozen=True)
class Cause:
    """A line that says why. `alone`: nothing good can follow it, so it is fatal while the process still lives."""

    kind: FailureKind
    pattern: str
    alone: bool = True


@dataclass(frozen=True)
class Logs:
    """How one engine's log reads. `symptoms`: lines after which it is lost, without the reason; `under_load`:
    those of them that only a server that was ready writes; `progress`: (pattern, words with {groups})."""

    causes: Sequence[Cause]
    symptoms: Sequence[str]
    under_load: str
    progress: Sequence[tuple[str, str]]
    ready: str = r"Application startup complete|The server is fired up and ready to roll"


def failure(logs: Logs, log: str, returncode: int | None) -> Failure | None:
    """The cause that `log` shows, if fatal; with a return code always an answer (see `Engine.failure`)."""
    lines = _bounded(log).splitlines()
    seen = list(_interesting(lines))
    symptom = next(((number, text) for number, text in seen if _any(logs.symptoms).search(text)), None)
    cause = _cause(logs, seen, symptom, returncode is not None)
    if cause is None and symptom is None:
        return _without_reason(lines, logs, returncode) if returncode is not None else None
    number, text = symptom if cause is None and symptom is not None else cause[:2]  # type: ignore[index]
    kind = cause[2] if cause is not None else "crash"
    if kind == "crash" and _served(logs, lines, symptom[0] if symptom else number, symptom[1] if symptom else ""):
        kind = "crash-under-load"
    return Failure(kind, _message(lines, number, text), _excerpt(lines, number))


def progress(logs: Logs, log: str) -> str:
    """What the start is doing, from the last line that says so ('' if none of the last 16 KB does)."""
    for line in reversed(re.split(r"[\r\n]+", log[-16_000:])):
        for pattern, words in logs.progress:
            if match := _compiled(pattern).search(line[-LONGEST_LINE:]):
                return words.format(*match.groups())
    return ""


def last_line(log: str) -> str:
    """The last line of a log that says something, without its logger's prefix, cut to `LONGEST_QUOTE` characters."""
    return _last(_bounded(log).splitlines())


# Everything an error line can hold; a plain search that spares most lines the patterns.
_WORDS = (
    "rror", "xception", "sigquit", "SIGQUIT", "Errno", "dead", "died", "already in use", "used by a process",
    "Not enough memory", "out of memory", "OOM", "No available", "failed", "Failed", "atchdog", "NCCL", "nccl",
    "is larger than", "unbalanced", "not supported", "unsupported", "No space left", "Executor creation", "less than",
)  # fmt: skip
_BENIGN = re.compile(
    r"leaked (shared_memory|semaphore)|resource_tracker|No available shared memory broadcast block"
    r"|destroy_process_group|^non-default args|^server_args=|Exception ignored in|^Route: |^Traceback \(most recent"
    r"|During handling of the above|direct cause of the following|^\s"
)
# vLLM: (Worker pid=1) ERROR 12-01 05:09:10 [file.py:1]; SGLang: [2026-12-01 14:06:47 TP0] ERROR:; TensorRT-LLM:
# [11/05/2025-10:00:00] [TRT-LLM] [E].
_PREFIX = re.compile(
    r"\((?:[^()]{1,60})\) |(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)(?: \d\d-\d\d [\d:.]+ \[[^\]]{1,80}\] ?|:\s+)"
    r"|\[\d{2,4}[-/][^\]]{5,40}\] |\[TRT-LLM\] |\[(?P<letter>[TDVIWEF])\] |\[rank\d+\]:"
)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_QUIET = {"DEBUG", "INFO", "WARNING", "T", "D", "V", "I", "W"}
_GENERIC: Sequence[tuple[FailureKind, str]] = (
    ("not-installed", r"^(?:\w+\.)*(?:ModuleNotFoundError|ImportError|PackageNotFoundError)\b"),
    ("unsupported", r"^(?:\w+\.)*NotImplementedError\b"),
    ("invalid-config", r"^(?:\w+\.)*(?:ValueError|AssertionError|TypeError|KeyError|ValidationError)\b"),
    ("crash", r"^(?:\w+\.)*\w*(?:Error|Exception)(?::|$)"),
)


def _bounded(log: str) -> str:
    """The start and the end of a log that is too long to read whole."""
    if len(log) <= LONGEST_LOG:
        return log
    return log[: LONGEST_LOG // 3] + "\n" + log[-2 * LONGEST_LOG // 3 :]


def _interesting(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Lines that may be an error, by number, without the prefixes of their logger."""
    for number, raw in enumerate(lines):
        line = raw[:LONGEST_LINE]
        if not any(word in line for word in _WORDS):
            continue
        level, text = _stripped(line)
        if level not in _QUIET and not _BENIGN.search(text):
            yield number, text


def _stripped(line: str) -> tuple[str, str]:
    level, text = "", line
    while match := _PREFIX.match(text):
        level = match["level"] or match["letter"] or level
        text = text[match.end() :]
    return level, text


def _cause(
    logs: Logs, seen: Sequence[tuple[int, str]], symptom: tuple[int, str] | None, ended: bool
) -> tuple[int, str, FailureKind] | None:
    """The first specific cause near the symptom (anywhere if the process ended), else the first error there."""
    first = symptom[0] - NEARBY if symptom else 0
    near = [(number, text) for number, text in seen if number >= first]
    for number, text in near:
        for cause in logs.causes:
            if (cause.alone or ended or symptom) and _compiled(cause.pattern).search(text):
                return number, text, cause.kind
    if not ended and symptom is None:
        return None
    for number, text in near:
        if _any(logs.symptoms).search(text):
            continue
        for kind, pattern in _GENERIC:
            if _compiled(pattern).search(text):
                return number, text, kind
    return None


def _served(logs: Logs, lines: Sequence[str], until: int, symptom: str) -> bool:
    """Whether it was ready before line `until`, as the log or the symptom itself shows."""
    if _compiled(logs.under_load).search(symptom):
        return True
    return any(_compiled(logs.ready).search(line[:LONGEST_LINE]) for line in lines[:until])


def _message(lines: Sequence[str], number: int, text: str) -> str:
    """The cause's line; with the assertion where it says nothing itself, and the fields of a validation error."""
    text = text.strip()
    if re.search(r"(Error|Exception):?$", text):
        code = next((_stripped(line)[1].strip(" ^") for line in reversed(lines[:number]) if line.strip(" ^")), "")
        text = f"{text}: {code}" if code else text
    if re.search(r"validation errors? for", text):
        details = (_stripped(line)[1].strip() for line in lines[number + 1 : number + 10])
        text = "; ".join([text, *(line for line in details if not line.startswith("For further information"))])
    return text[:LONGEST_MESSAGE]


def _excerpt(lines: Sequence[str], number: int) -> str:
    return "\n".join(line[:LONGEST_LINE] for line in lines[max(0, number - BEFORE) : number + AFTER + 1])


def _without_reason(lines: Sequence[str], logs: Logs, returncode: int) -> Failure:
    """An end that the log does not explain, by its return code."""
    tail = "\n".join(line[:LONGEST_LINE] for line in lines[-(BEFORE + AFTER) :])
    last = _last(lines)
    if returncode in (-15, 143):
        return Failure("abandoned", "somebody else ended the server (SIGTERM)", tail)
    if returncode in (126, 127):
        why = f"the program could not be run (exit {returncode})"
        return Failure("not-installed", f"{why}; its last line: {last}" if last else why, tail)
    kind = "crash-under-load" if _served(logs, lines, len(lines), "") else "crash"
    if returncode in (-9, 137):
        why = "killed (SIGKILL) with no reason in its log: the kernel's out-of-memory killer?"
        return Failure(kind, f"{why} Its last line: {last}" if last else why, tail)
    how = f"signal {-returncode}" if returncode < 0 else f"exit {returncode}"
    said = f"its last line: {last}" if last else "its log is empty"
    return Failure(kind, f"the server ended by itself ({how}); {said}", tail)


def _last(lines: Sequence[str]) -> str:
    """Lines that every end writes (leaked semaphores, process groups) are passed over where there are others."""
    cleaned = (" ".join(_stripped(_ESCAPES.sub("", raw[:LONGEST_LINE]))[1].split()) for raw in reversed(lines))
    said = list(islice(filter(None, cleaned), BEFORE + AFTER))
    line = next((line for line in said if not _BENIGN.search(line)), said[0] if said else "")
    return line if len(line) <= LONGEST_QUOTE else line[: LONGEST_QUOTE - 1] + "…"


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _any(patterns: Sequence[str]) -> re.Pattern[str]:
    return _compiled("|".join(f"(?:{pattern})" for pattern in patterns))

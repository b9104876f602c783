"""Single lines of a log: the prefixes that loggers and collectors put before them, and which may be an error. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST_LINE = 4_000

# Everything an error line can hold; a plain search that spares most lines the patterns.
_WORDS = (
    "rror", "xception", "sigquit", "SIGQUIT", "Errno", "dead", "died", "already in use", "used by a process",
    "Not enough", "not enough", "giving up",
    "out of memory", "Out of memory", "OOM", "oom", "No available", "failed", "Failed", "atchdog", "NCCL",
    "nccl", "is larger than", "unbalanced", "not supported", "unsupported", "No space left", "Executor creation",
    "less than", "unexpectedly", "Hang detected", "MPI_ABORT", "imed out", "SIGBUS", "Segmentation fault", "bad_alloc",
    "annot allocate", "Xid", "terminated", "not found", "busy", "KeyboardInterrupt",
)  # fmt: skip
BENIGN = re.compile(
    r"leaked (shared_memory|semaphore)|resource_tracker|No available shared memory broadcast block"
    r"|destroy_process_group|^non-default args|^server_args=|^LLM Args|Exception ignored in|^Route: |^Traceback \(most"
    r"|During handling of the above|direct cause of the following|^\s|HTTP/1\.[01]\" [2345]\d\d"
    r"|^(?:Ignore|Skip|Retry|Falling back|(?:\S+:\d+: )?\S*Warning:)"
)
# Collectors, outermost: seconds since the start, docker compose, containerd, journald, mpirun, srun, ISO times. Then
# the loggers: vLLM (Worker pid=1) ERROR 12-01 05:09:10 [file.py:1]; SGLang [2026-12-01 14:06:47 TP0] ERROR:;
# TensorRT-LLM [11/05/2025-10:00:00] [TRT-LLM] [RANK 0] [E]; torch [rank0]:[E1201 14:17:27.3 file.cpp:1].
_PREFIX = re.compile(
    r"\s{0,9}\d{1,7}\.\d{2,3}(?: |$)"
    r"|[\w.-]{1,60}\s{0,20}\| "
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)? (?:- )?"
    r"|std(?:out|err) [FP] "
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,60} [\w./-]{1,60}(?:\[\d+\])?: "
    r"|\[\d+,\d+\]<std(?:out|err)>: ?|\d{1,4}: "
    r"|\((?:[^()]{1,60})\) "
    r"|(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)(?: \d\d-\d\d [\d:.]+ \[[^\]]{1,80}\] ?|:[\w.]{1,40}:|:\s+)"
    r"|\[\d{2,4}[-/][^\]]{5,60}\] |\[TensorRT-LLM\]\[(?P<cpp>INFO|WARNING|ERROR|DEBUG)\] "
    r"|\[TRT-LLM\] |\[RANK \d+\] |\[(?P<letter>[TDVIWEF])\] "
    r"|[^|]{0,120}\|[^|]{0,200}\| \d+/\d+ \[[^\]]{1,60}\]"  # a progress bar without a line end
    r"|\[rank\d+\]:|\[(?P<glog>[IWEF])\d{4} [^\]]{5,120}\] "
)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_QUIET = {"DEBUG", "INFO", "WARNING", "T", "D", "V", "I", "W"}


def may_be_an_error(line: str, words: Sequence[str] = ()) -> bool:
    return any(word in line for word in _WORDS) or any(word in line for word in words)


def stripped(line: str) -> tuple[bool, str]:
    """Whether its logger calls the line no error, and the line without prefixes and colours."""
    level, text = "", plain(line) if "\x1b" in line else line
    while match := _PREFIX.match(text):
        if match.end() == 0:
            break
        level = match["level"] or match["letter"] or match["glog"] or match["cpp"] or level
        text = text[match.end() :]
    return level in _QUIET, text


def plain(line: str) -> str:
    """Without escape sequences and control characters."""
    return _ESCAPES.sub("", line)

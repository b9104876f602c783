"""Logs too long to read: what is kept of them, and where it stood."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.engines import engine
from tuner.engines.sieve import FOUND, HEAD, TAIL, sieve
from tuner.readiness import LogTail, diagnose

BUSY = b'INFO:     127.0.0.1:34572 - "POST /v1/completions HTTP/1.1" 200 OK\n'
CAUSE = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 15.62 GiB.\n"


def log(*parts: tuple[bytes, int]) -> Iterator[bytes]:
    """Each part so many times, in pieces that end anywhere."""
    whole = b"".join(part * times for part, times in parts)
    for start in range(0, len(whole), 777_777):
        yield whole[start : start + 777_777]


@pytest.mark.parametrize("pieces", [[], [b""], [b"one"], [b"o", b"ne\n"], [b"one\r\ntwo"], [b"a\rb\nc\n"]])
def test_short_logs_are_kept_whole(pieces: list[bytes]) -> None:
    sieved = sieve(pieces)
    whole = b"".join(pieces).decode()
    assert list(sieved.lines) == whole.replace("\r\n", "\n").replace("\r", "\n").splitlines()
    assert sieved.total == len(whole.replace("\r\n", "\n").replace("\r", " ").splitlines())


def test_a_cause_in_the_middle_is_kept_with_its_number() -> None:
    sieved = sieve(log((BUSY, 100_000), (CAUSE, 1), (BUSY, 100_000)))
    at = sieved.lines.index(CAUSE.decode().strip())
    assert sieved.numbers[at] == 100_001
    assert sieved.number(at + 1) == 100_001
    assert sieved.total == 200_001
    assert sieved.numbers == tuple(sorted(sieved.numbers))
    assert sieved.numbers[-1] == 200_001
    assert len(sieved.text) < HEAD + TAIL + FOUND + 2_000_000


def test_noise_of_one_kind_does_not_hide_it() -> None:
    noise = b"ERROR 12-01 05:24:12 [serving.py:1] Error in preprocessing prompt inputs 17\n"
    sieved = sieve(log((BUSY, 40_000), (noise * 3 + BUSY, 30_000), (CAUSE, 1), (BUSY, 60_000)))
    assert CAUSE.decode().strip() in sieved.lines


def test_lines_without_an_end_are_cut() -> None:
    sieved = sieve([b"x" * 900_000] * 9 + [b"\n" + CAUSE])
    assert sieved.lines[-1] == CAUSE.decode().strip()
    assert sieved.numbers[-1] == 2
    assert len(sieved.text) < 100_000


def test_a_diagnosis_names_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    tail = LogTail(path)
    path.write_bytes(b"".join(log((BUSY, 90_000), (CAUSE, 1), (BUSY, 90_000))))
    tracemalloc.start()
    failure = diagnose(engine("vllm"), tail, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert failure is not None
    assert failure.line == 90_001
    assert path.read_text().splitlines()[failure.line - 1] == failure.message
    assert peak < 60_000_000

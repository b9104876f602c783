"""Why servers failed and what their start was doing, from real logs (cut) of vLLM 0.25/0.32 and SGLang 0.5.17."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tuner.engines import Engine, engine

LOGS = Path(__file__).parent / "data" / "engines"
READY = ("vllm-good-start", "vllm-stopped-under-load", "sglang-second-server")


def adapter(log: str) -> Engine:
    return engine(log.partition("-")[0])


def text(log: str) -> str:
    return (LOGS / f"{log}.log").read_text()


@pytest.mark.parametrize(
    ("log", "kind", "message"),
    [
        ("vllm-bad-flag", "bad-flag", "unrecognized arguments: --no-such-flag 3"),
        ("vllm-no-model", "model-not-found", "Repo id must be in the form"),
        ("vllm-port-taken", "port-taken", "[Errno 98] Address already in use"),
        ("vllm-tp-2", "invalid-config", "AssertionError: Not enough allowed NUMA nodes"),
        ("vllm-memory", "out-of-memory", "ValueError: Available memory on node 0"),
        ("vllm-block-size", "invalid-config", "ValueError: No common block size for 16"),
        ("vllm-no-flashinfer", "not-installed", "No module named 'flashinfer'"),
        ("vllm-killed-engine", "crash-under-load", "EngineDeadError"),
        ("sglang-bad-choice", "bad-flag", "invalid choice: 'fp8'"),
        ("sglang-bad-type", "bad-flag", "invalid int value: '8k'"),
        ("sglang-unknown-flag", "bad-flag", "--no-such-flag"),
        ("sglang-no-model", "model-not-found", "Repo id must be in the form"),
        ("sglang-port-taken", "port-taken", "address already in use"),
        ("sglang-tp-2", "invalid-config", "invalid device ordinal"),
        ("sglang-memory-099", "out-of-memory", "Tried to allocate 66.00 MiB"),
        ("sglang-fp8-kv", "out-of-memory", "Tried to allocate 18.72 GiB"),
        ("sglang-term-in-start", "abandoned", "Broken pipe"),
    ],
)
def test_a_fatal_line_ends_the_wait_with_its_cause(log: str, kind: str, message: str) -> None:
    for returncode in (None, 1):
        failure = adapter(log).failure(text(log), returncode)
        assert failure is not None
        assert failure.kind == kind
        assert message in failure.message
        assert message[-20:] in failure.log
        assert len(failure.log.splitlines()) <= 21


def test_a_validation_error_shows_the_field() -> None:
    log = text("vllm-bad-value")
    assert engine("vllm").failure(log, None) is None
    failure = engine("vllm").failure(log, 1)
    assert failure is not None
    assert failure.kind == "invalid-config"
    assert "max_num_seqs" in failure.message


@pytest.mark.parametrize("log", READY)
def test_a_good_start_is_no_failure(log: str) -> None:
    assert adapter(log).failure(text(log), None) is None
    assert adapter(log).progress(text(log)) == "ready"


def test_every_piece_of_a_good_log_is_no_failure() -> None:
    lines = text("vllm-good-start").splitlines(keepends=True)
    assert all(engine("vllm").failure("".join(lines[at : at + 3]), None) is None for at in range(len(lines)))


@pytest.mark.parametrize(
    ("log", "returncode", "kind"),
    [
        ("", 1, "crash"),
        ("", 0, "crash"),
        ("", -15, "abandoned"),
        ("", 127, "not-installed"),
        ("", -9, "crash"),
        ("INFO:     Application startup complete.\n", -11, "crash-under-load"),
        ("INFO:     Application startup complete.\nRuntimeError: odd\n", 1, "crash-under-load"),
        ("RuntimeError: odd\n", 1, "crash"),
        ("Traceback (most recent call last):\n    assert a % b == 0\nAssertionError\n", 1, "invalid-config"),
        ("NotImplementedError: no\n", 1, "unsupported"),
        (
            "ValueError: Free memory on device (1/139 GiB) on startup is less than desired GPU memory utilization\n",
            1,
            "gpu-busy",
        ),
        ("RuntimeError: NCCL error: unhandled system error\n", 1, "nccl"),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/x'\n", 1, "shm-full"),
        ("OSError: [Errno 28] No space left on device: '/data/x'\n", 1, "disk-full"),
    ],
)
def test_an_ended_process_always_has_an_answer(log: str, returncode: int, kind: str) -> None:
    for name in ("vllm", "sglang", "tensorrt-llm"):
        failure = engine(name).failure(log, returncode)
        assert failure is not None
        assert (failure.kind, bool(failure.message)) == (kind, True)


@pytest.mark.parametrize(
    ("log", "returncode", "message"),
    [
        ("loading\nboom: cannot import torch\n\n  \n", 3, "the server ended by itself (exit 3); its last line: boom: "
         "cannot import torch"),
        ("", 3, "the server ended by itself (exit 3); its log is empty"),
        ("\n \n", -6, "the server ended by itself (signal 6); its log is empty"),
        ("(APIServer pid=1) INFO 12-01 05:09:10 [a.py:1] \x1b[31mgiving\x1b[0m  up\x07\n", 1, "the server ended by "
         "itself (exit 1); its last line: giving up"),
        ("said\nresource_tracker: There appear to be 1 leaked semaphore objects to clean up\n", 1, "the server ended "
         "by itself (exit 1); its last line: said"),
        ("x" * 900 + "\n", 1, f"the server ended by itself (exit 1); its last line: {'x' * 199}…"),
        ("sh: 1: vllm: not found\n", 127, "the program could not be run (exit 127); its last line: sh: 1: vllm: not "
         "found"),
        ("all fine\n", -9, "killed (SIGKILL) with no reason in its log: the kernel's out-of-memory killer? Its last "
         "line: all fine"),
    ],
)  # fmt: skip
def test_an_end_without_a_known_cause_quotes_the_last_line(log: str, returncode: int, message: str) -> None:
    for name in ("vllm", "sglang", "tensorrt-llm"):
        failure = engine(name).failure(log, returncode)
        assert failure is not None
        assert failure.message == message


def test_an_empty_assertion_shows_what_was_asserted() -> None:
    log = "Traceback (most recent call last):\n    assert self.tp_size % self.dp_size == 0\nAssertionError\n"
    failure = engine("sglang").failure(log, 1)
    assert failure is not None
    assert failure.message == "AssertionError: assert self.tp_size % self.dp_size == 0"


def test_the_first_cause_counts_not_the_last_line() -> None:
    log = (
        "(Worker pid=1) ERROR 12-01 05:09:10 [w.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried 1 GiB\n"
        "(Worker pid=2) ERROR 12-01 05:09:11 [w.py:1] RuntimeError: NCCL error: remote process exited\n"
        "(APIServer pid=3) RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    failure = engine("vllm").failure(log, 1)
    assert failure is not None
    assert (failure.kind, "OutOfMemoryError" in failure.message) == ("out-of-memory", True)


def test_lines_that_only_look_like_errors_are_no_cause() -> None:
    log = (
        "(APIServer pid=1) WARNING 12-01 05:09:10 [u.py:1] This can cause `OSError: [Errno 24] Too many open files`\n"
        "(EngineCore pid=2) INFO 12-01 05:10:10 [s.py:1] No available shared memory broadcast block found in 60 s\n"
        "UserWarning: resource_tracker: There appear to be 1 leaked shared_memory objects to clean up at shutdown\n"
        "(APIServer pid=1) ERROR 12-01 05:11:10 [serving.py:1] ValueError: the prompt is too long\n"
        "[12/01/2025-10:00:00] [TRT-LLM] [W] CUDA out of memory in a tactic, skipped\n"
    )
    assert all(engine(name).failure(log, None) is None for name in ("vllm", "sglang", "tensorrt-llm"))


def test_tensorrt_llm_lines() -> None:
    adapter = engine("tensorrt-llm")
    busy = "RuntimeError: Failed to bind socket to localhost:8000: [Errno 98] Address already in use\n"
    wrong = "Usage: trtllm-serve [OPTIONS] MODEL\nError: No such option: --tp_sise (Possible options: --tp_size)\n"
    dead = "[12/01/2025-10:00:00] [TRT-LLM] [E] Executor worker returned error\nRuntimeError: CUDA out of memory\n"
    kinds = [failure.kind for log in (busy, wrong, dead) if (failure := adapter.failure(log, None))]
    assert kinds == ["port-taken", "bad-flag", "out-of-memory"]
    assert adapter.progress("[TRT-LLM] [I] LLM Args: {}\n") == "reading the configuration"


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("vllm", "Loading safetensors checkpoint shards:  42% Completed | 3/7", "loading weights, 42 %"),
        (
            "vllm",
            "Capturing CUDA graphs (mixed):  10%|# |\rCapturing CUDA graphs (mixed):  55%|#",
            "capturing CUDA graphs, 55 %",
        ),
        ("vllm", "(Worker pid=1) INFO 12-01 GPU KV cache size: 524,288 tokens", "KV cache of 524,288 tokens"),
        ("sglang", "Capturing batches (bs=208 avail_mem=1 GB):  3%|", "capturing CUDA graphs, batch 208"),
        ("sglang", "DeepGEMM warmup:  7%", "DeepGEMM compiles, 7 %"),
        ("sglang", "nothing known", ""),
    ],
)
def test_progress_in_a_few_words(name: str, line: str, words: str) -> None:
    assert engine(name).progress("Load weight begin\n" * (words != "") + line + "\n") == words


@pytest.mark.slow
def test_long_logs_and_long_lines_are_bounded() -> None:
    """Half a minute would show a pattern that backtracks or a log that is read twice; a second is usual."""
    lines = "(Worker pid=1) ERROR 12-01 05:09:10 [w.py:1] an error without a name: " + "error failed " * 20 + "\n"
    logs = (lines * 200_000, "rror" * 5_000_000, "(" * 3_000_000 + " failed", ("x: error " * 1000 + "\n") * 2000)
    started = time.monotonic()
    for log in logs:
        for name in ("vllm", "sglang", "tensorrt-llm"):
            engine(name).failure(log, None)
            engine(name).progress(log)
    assert time.monotonic() - started < 60


def test_the_end_of_a_long_log_is_read() -> None:
    log = "INFO:     127.0.0.1 - 200 OK\n" * 300_000 + "torch.OutOfMemoryError: CUDA out of memory.\n"
    failure = engine("sglang").failure(log, None)
    assert failure is not None
    assert failure.kind == "out-of-memory"

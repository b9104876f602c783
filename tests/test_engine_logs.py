"""Why servers failed and what their start was doing, from real logs (cut) of vLLM 0.25/0.32 and SGLang 0.5.17."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tuner.engines import Engine, engine
from tuner.engines.logs import Cause, Logs
from tuner.engines.logs import failure as diagnosed

LOGS = Path(__file__).parent / "data" / "engines"
READY_LINE = "INFO:     Application startup complete.\nThe server is fired up and ready to roll!\n"
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
        ("vllm-killed-engine", "crash-under-load", "engine core exited unexpectedly"),
        ("sglang-bad-choice", "bad-flag", "invalid choice: 'fp8'"),
        ("sglang-bad-type", "bad-flag", "invalid int value: '8k'"),
        ("sglang-unknown-flag", "bad-flag", "--no-such-flag"),
        ("sglang-no-model", "model-not-found", "Repo id must be in the form"),
        ("sglang-port-taken", "port-taken", "address already in use"),
        ("sglang-tp-2", "invalid-config", "invalid device ordinal"),
        ("sglang-memory-099", "out-of-memory-graphs", "Tried to allocate 66.00 MiB"),
        ("sglang-fp8-kv", "out-of-memory-graphs", "Tried to allocate 18.72 GiB"),
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
        assert failure.line is not None
        assert message[-20:] in text(log).splitlines()[failure.line - 1]
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
        (READY_LINE, -11, "crash-under-load"),
        (READY_LINE + "RuntimeError: odd\n", 1, "crash-under-load"),
        (READY_LINE + "torch.OutOfMemoryError: CUDA out of memory.\n", 1, "out-of-memory-under-load"),
        ("Init\n", -7, "shm-full"),
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


CAUSES = [
    ("out-of-memory", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB"),
    ("out-of-memory", "RuntimeError: CUDA error: out of memory"),
    ("out-of-memory", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"),
    ("out-of-memory", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
    ("out-of-memory-graphs", "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1 GiB."),
    (
        "host-out-of-memory",
        "ValueError: Not enough host memory available. Requesting 512.00 GB but only have 90.1 GB free",
    ),
    (
        "host-out-of-memory",
        "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate",
    ),
    ("gpu-busy", "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes."),
    ("gpu-busy", "AssertionError: Error in memory profiling. Initial free memory 5, current free memory 6"),
    ("port-taken", "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5555')"),
    ("port-taken", "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network"),
    ("shm-full", "RuntimeError: unable to open shared memory object </torch_1> in read-write mode: No such file"),
    ("shm-full", "Error while creating shared memory segment /dev/shm/nccl-abc (size 9637888)"),
    ("disk-full", "OSError: [Errno 28] No space left on device: '/var/cache/x'"),
    ("node-sick", "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"),
    ("node-sick", "RuntimeError: No CUDA GPUs are available"),
    ("model-gated", "huggingface_hub.errors.GatedRepoError: 401 Client Error."),
    ("model-gated", "OSError: You are trying to access a gated repo."),
    ("model-not-found", "OSError: /models/x does not appear to have a file named config.json."),
    ("model-not-found", "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge"),
    ("bad-flag", "vllm serve: error: argument --block-size: invalid choice: 7 (choose from 1, 8, 16)"),
    (
        "invalid-config",
        "ValueError: The output_size of gate's and up's weight = 192 is not divisible by weight block_n = 128",
    ),
    ("invalid-config", "AssertionError: moe_dense_tp_size only support 1 and None currently"[:14] + ": tp % dp"),
    ("unsupported", "ValueError: Model architectures ['XForCausalLM'] are not supported for now."),
    ("unsupported", "ValueError: FlashInfer backend does not support sinks."),
    ("unsupported", "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    ("nccl", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:94, unhandled cuda error"),
    ("start-timeout", "TimeoutError: Timed out waiting for engines to send initial message on input socket."),
    ("crash", "RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered"),
]
PREFIXES = [
    "",
    "   93.72 ",
    "(EngineCore pid=3866) ERROR 12-01 05:23:59 [core.py:114] ",
    "\x1b[1;36m(EngineCore_DP0 pid=272)\x1b[0;0m ERROR 10-05 12:00:00 [core.py:708] ",
    "[2026-12-01 14:14:38 DP0 TP1 EP1] ",
    "vllm-1  | ",
    "2026-12-01T05:09:10.123456789Z stderr F ",
    "Dec 01 05:22:42 node7 docker[812]: ",
    "3: [11/05/2025-10:00:00] [TRT-LLM] [RANK 3] [E] ",
    "Capturing batches (bs=256 avail_mem=8.78 GB):   0%|          | 0/36 [00:00<?, ?it/s]",
]


@pytest.mark.parametrize(("kind", "line"), CAUSES)
def test_causes_under_every_prefix(kind: str, line: str) -> None:
    for prefix in PREFIXES:
        log = f"Loading\n{prefix}Traceback (most recent call last):\n{prefix}  File\n{prefix}{line}\n{prefix}gone\n"
        for name in ("vllm", "sglang", "tensorrt-llm"):
            failure = engine(name).failure(log, 1)
            assert failure is not None
            assert (failure.kind, failure.message, failure.line) == (kind, line, 4), prefix


def test_capturing_that_fails_for_another_reason_is_not_a_matter_of_memory() -> None:
    log = (
        "[2026-12-01 14:14:38 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        "RuntimeError: CUDA error: invalid argument\n"
        "During handling of the above exception, another exception occurred:\n"
        "Exception: Capture cuda graph failed: CUDA error: invalid argument\n"
        "[2026-12-01 14:14:38] Received sigquit from a child process. It usually means the child failed.\n"
    )
    failure = engine("sglang").failure(log, -9)
    assert failure is not None
    assert (failure.kind, failure.message) == ("crash", "RuntimeError: CUDA error: invalid argument")


@pytest.mark.parametrize(
    "line",
    [
        "ImportError: /home/user/.cache/flashinfer/0.6/cached_ops/norm/norm.so: file too short",
        "EOFError: Ran out of input",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    ],
)
def test_a_broken_file_of_a_cache_is_the_cache_s_fault(line: str) -> None:
    cache = '  File "/home/user/.triton/cache/5K2/__grp__kernel.json"\n'
    for log, kind in ((cache + line, "cache-poisoned"), (line.replace("/.cache/flashinfer", "/lib"), "")):
        failure = engine("vllm").failure(f"Traceback (most recent call last):\n{log}\n", 1)
        assert failure is not None
        assert (failure.kind == "cache-poisoned") == bool(kind)


def test_an_unknown_key_of_a_yaml_file_is_a_bad_flag() -> None:
    log = "ValidationError: 1 validation error for TorchLlmArgs\nodd_key\n  Extra inputs are not permitted\n"
    failure = engine("tensorrt-llm").failure(log, 1)
    assert failure is not None
    assert failure.kind == "bad-flag"
    assert "odd_key; Extra inputs are not permitted" in failure.message


def test_a_hang_is_told_from_a_stalled_start() -> None:
    dog = "[2026-12-01 14:14:38 TP0] Watchdog timeout (self.watchdog_timeout=300)\n"
    for log, kind in ((dog, "start-stall"), (READY_LINE + dog, "hang-under-load")):
        failure = engine("sglang").failure(log, -9)
        assert failure is not None
        assert failure.kind == kind


def test_a_way_out_that_is_known_more_exactly_is_said() -> None:
    failure = engine("vllm").failure("ValueError: No available memory for the cache blocks.\n", 1)
    assert failure is not None
    assert failure.way_out.startswith("raise the memory fraction")
    killed = engine("vllm").failure(text("vllm-killed-engine"), 1)
    assert killed is not None
    assert "killed from outside, or by the kernel" in killed.way_out


@pytest.mark.parametrize(
    ("name", "said", "returncode"),
    [
        (
            "vllm",
            "(APIServer pid=3) INFO 12-01 05:24:15 [launcher.py:100] [shutdown] API server: shutdown triggered",
            0,
        ),
        ("sglang", "[2026-12-01 13:52:44] SIGTERM received. signum=None frame=None. Draining requests", -9),
    ],
)
def test_a_server_that_was_asked_to_end_did_not_crash(name: str, said: str, returncode: int) -> None:
    failure = engine(name).failure(READY_LINE + said + "\nGracefully exiting...\n", returncode)
    assert failure is not None
    assert (failure.kind, failure.line) == ("abandoned", 3)


def test_out_of_memory_under_load_is_told_from_that_of_graphs() -> None:
    log = (
        "Capture target decode CUDA graph begin. backend=full\n"
        + READY_LINE
        + "[2026-12-01 14:17:24] Scheduler hit an "
        "exception: Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried 15.62 GiB.\n"
        "[2026-12-01 14:17:24] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"
    )
    failure = engine("sglang").failure(log, -9)
    assert failure is not None
    assert (failure.kind, failure.line) == ("out-of-memory-under-load", 5)


def test_an_engine_s_own_words_are_looked_at() -> None:
    odd = Logs(
        (Cause("out-of-memory", r"^the bag is full"),), (r"^farewell",), r"^adieu", (), words=("bag", "farewell")
    )
    found = diagnosed(odd, "hello\nthe bag is full\nfarewell\n", None)
    assert found is not None
    assert (found.kind, found.message, found.line) == ("out-of-memory", "the bag is full", 2)

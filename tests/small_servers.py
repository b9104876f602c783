"""Small servers that behave badly in one way each, and what tests need to launch them.

Run as a program: `small_servers.py MODE PORT`. Standard library only, so that it starts fast.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MODEL = "small-model"


class Api(BaseHTTPRequestHandler):
    """Just enough of an OpenAI-compatible server. `healthy` may be a function of the time since the start."""

    healthy: Callable[[], bool] = staticmethod(lambda: True)
    completes = True
    hangs = False
    refusal = 500

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer(200 if type(self).healthy() else 503, {})
        elif self.path == "/v1/models":
            self.answer(200, {"data": [{"id": MODEL}]})
        else:
            self.answer(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.hangs:
            sleep()
        if not self.completes or asked["model"] != MODEL:
            self.answer(self.refusal, {"detail": "no such model"})
        else:
            self.answer(200, {"model": MODEL, "choices": [{"text": " world"}]})

    def answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        return


def ok(port: int) -> None:
    say("starting")
    serve(port)


def ignores_term(port: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(port)


def with_child(port: int) -> None:
    """As vLLM's front end: its child lives on when the front end is killed, and does not hear TERM."""
    fork(lambda: (signal.signal(signal.SIGTERM, signal.SIG_IGN), sleep()))
    serve(port)


def with_bare_child(port: int) -> None:
    """A child in the same group whose environment is gone, as after setproctitle."""
    subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"]})
    serve(port)


def with_daemon(port: int) -> None:
    """A grandchild in a session of its own, its environment gone, its parent dead."""

    def middle() -> None:
        os.setsid()
        time.sleep(1.5)  # long enough to be seen and recorded
        subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"]}, start_new_session=True)
        time.sleep(1.5)

    fork(middle)
    time.sleep(2.5)
    serve(port)


def with_marked_daemon(port: int) -> None:
    """The same at once: only the marker in its environment tells whose it is."""

    def middle() -> None:
        os.setsid()
        fork(sleep)

    os.waitpid(fork(middle), 0)
    serve(port)


def front_end_leaves(port: int) -> None:
    """The parent ends by itself, its child stays."""
    fork(sleep)
    say("leaving")
    sys.exit(4)


def front_end_leaves_the_deaf(port: int) -> None:
    """As before; the child does not hear TERM."""
    fork(lambda: (signal.signal(signal.SIGTERM, signal.SIG_IGN), sleep()))
    time.sleep(0.5)
    sys.exit(4)


def never_ready(port: int) -> None:
    say("loading, for ever")
    sleep()


def never_ready_but_busy(port: int) -> None:
    say("compiling, for ever")
    while True:
        sum(range(10_000))


def never_ready_but_talks(port: int) -> None:
    for step in range(100_000):
        sys.stdout.write(f"\rloading shards: {step}/100000")
        sys.stdout.flush()
        time.sleep(0.1)


def never_ready_but_writes(port: int) -> None:
    """Lines that say nothing of the progress."""
    while True:
        say("")
        time.sleep(0.1)


def out_of_memory(port: int) -> None:
    """Says so after a while and hangs, as a scheduler that died under its front end."""
    time.sleep(0.5)
    say("Traceback (most recent call last):\nmemory.Error: CUDA out of memory. Tried to allocate 2 GiB")
    sleep()


def dies(port: int) -> None:
    time.sleep(0.3)
    say("giving up")
    sys.exit(3)


def dies_while_serving(port: int) -> None:
    fork_to_kill = os.getpid()
    fork(lambda: (time.sleep(1.5), os.kill(fork_to_kill, signal.SIGKILL)))
    serve(port)


def models_early(port: int) -> None:
    """As SGLang: the model list answers while health is still 503."""
    ready_at = time.monotonic() + 1.5
    Api.healthy = staticmethod(lambda: time.monotonic() > ready_at)
    serve(port)


def never_completes(port: int) -> None:
    Api.completes = False
    serve(port)


def wants_a_key(port: int) -> None:
    Api.completes, Api.refusal = False, 401
    serve(port)


def loses_its_child(port: int) -> None:
    """The engine's process is killed after a while, and its front end answers on."""
    child = fork(sleep)
    Api.completes = False
    fork(lambda: (time.sleep(2), os.kill(child, signal.SIGKILL)))
    serve(port)


def hangs_in_completions(port: int) -> None:
    Api.hangs = True
    serve(port)


def accepts_and_hangs(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        sleep()


def says_hello(port: int) -> None:
    say("greeting: " + os.environ.get("GREETING", "") + " " + os.environ.get("OWN", ""))
    serve(port)


def serve(port: int) -> None:
    ThreadingHTTPServer(("127.0.0.1", port), Api).serve_forever()


def fork(child: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            child()
        finally:
            os._exit(0)
    return pid


def say(text: str) -> None:
    print(text, flush=True)


def sleep() -> None:
    """Ends after ten minutes, so that a failing test leaves nothing for long."""
    time.sleep(600)


# ---- what tests need to launch them ----


class SmallEngine:
    """The engine whose servers these are."""

    name = "small"
    version = "1"
    health_path = "/health"

    def failure(self, log: str, returncode: int | None) -> object:
        from tuner.trial import Failure

        if "out of memory" in log:
            return Failure("out-of-memory", "CUDA out of memory")
        return None if returncode is None else Failure("crash", f"ended with {returncode}")

    def progress(self, log: str) -> str:
        lines = [line for line in log.splitlines() if line.strip()]
        return lines[-1] if lines else ""


def small_launch(mode: str, port: int, **facts: object) -> object:
    from tuner.trial import Launch

    return Launch(
        engine="small",
        argv=(sys.executable, str(Path(__file__).resolve()), mode, str(port)),
        fingerprint="0" * 16,
        url=f"http://127.0.0.1:{port}",
        model=MODEL,
        **facts,
    )


@contextlib.contextmanager
def bystander(marker: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user, looking like a server, that nobody may touch."""
    env = {**os.environ, **({"TUNER_MARKER": marker} if marker else {})}
    process = subprocess.Popen(["sleep", "600"], env=env, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def wait_for(true: Callable[[], object], seconds: float = 20.0) -> object:
    """The first truth; fails the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return value


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]))

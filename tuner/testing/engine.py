"""A serving engine that runs on any machine: `python -m tuner.testing.engine vllm serve MODEL --port 8000`.

ITS FIGURES ARE SIMULATED. It plays vLLM (`vllm serve`), SGLang (`python3 -m sglang.launch_server`, `sglang`) and
TensorRT-LLM (`trtllm-serve`) as a real process tree on a real socket: their command lines, start logs, endpoints,
silent changes, ways to fail and to stop. How fast it is: `tuner.testing.performance`.

Environment
    TUNER_FAKE_TIME_SCALE  multiplies every duration (1.0); starts take 0.3 to 1 s, what takes a real engine 5 s takes 1
    TUNER_FAKE_FAULT       faults on request: `tuner.testing.faults`
    TUNER_FAKE_SLOWDOWN    word=factor,...: a launch whose command line holds the word takes that many times as long
    TUNER_FAKE_SEED        seed of the noise (default: another one each start)
    TUNER_FAKE_VERSION     the version it claims; TUNER_FAKE_GPUS how many GPUs it sees (CUDA_VISIBLE_DEVICES, else 8)

A child process that is left over by itself ends after two minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial

from tuner.testing import dialects, faults
from tuner.testing.api import Api
from tuner.testing.batching import Batch
from tuner.testing.dialects import Dialect, StartFailed
from tuner.testing.faults import Faults
from tuner.testing.http import Connection, Request
from tuner.testing.performance import Clock, slowdown, start_seconds
from tuner.testing.processes import Child, fork
from tuner.trial import is_secret

BROKEN_CACHE = """Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/triton/runtime/cache.py", line 91, in get_group
    grp_contents = json.load(f)
  File "/home/user/.triton/cache/5K2/__grp__fused_moe_kernel.json"
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
"""
_REACTION_S = 1.0  # until an engine notices that its child has died
_WARM_UP_S = 0.1  # SGLang: from listening to ready
_DRAIN_POLL_S = 0.1


def main(argv: Sequence[str] | None = None) -> int:
    """Run until stopped; the return code, negative for the signal it has to end by."""
    dialect = dialects.dialect(sys.argv[1:] if argv is None else argv)
    say(f"{dialects.SIMULATED}\n")
    asked = faults.parse(os.environ.get("TUNER_FAKE_FAULT", ""))
    if "bad-flag" in asked:
        say("usage: serve [options]\nserve: error: unrecognized arguments: --asked-for-by-TUNER_FAKE_FAULT\n")
        return 2
    if "no-model" in asked:
        say(f"OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{dialect.model}'.\n")
        return 1
    if "broken-cache" in asked and "TRITON_CACHE_DIR" not in os.environ:
        say(BROKEN_CACHE)
        return 1
    if "leak" in asked:
        held = {name: value for name, value in os.environ.items() if is_secret(name)}
        say(f"non-default args: {held}\n" + "".join(f"using {value}\n" for value in held.values()))
        say(f"GatedRepoError: 401 Client Error. Access to {dialect.model} is restricted, not with {held}\n")
        return 1
    if "dead-gpu" in asked:
        say("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n")
        return 1
    dialect.out_of_memory = "oom" in asked
    dialect.room = int(asked.number("memory-held")) or None
    listener = bind(dialect, asked) if dialect.listen.early else None
    if dialect.listen.early and listener is None:
        return port_taken(dialect)
    scale = float(os.environ.get("TUNER_FAKE_TIME_SCALE") or 1.0)
    children = [fork(child, scale, asked.orphan, listener) for child in dialect.children]
    dialect.child_pid = children[0].pid
    return asyncio.run(Engine(dialect, asked, scale, children, listener).run())


def say(text: str) -> None:
    """To the log: standard error, at once."""
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(text)
        sys.stderr.flush()


def bind(dialect: Dialect, asked: Faults) -> socket.socket | None:
    """The port, bound and not yet listening (no SO_REUSEPORT); None when it is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if "port-taken" in asked:
            raise OSError("asked for")
        listener.bind((dialect.listen.host, dialect.listen.port))
    except OSError:
        listener.close()
        return None
    return listener


def port_taken(dialect: Dialect) -> int:
    text, returncode = dialect.port_taken()
    say(text)
    return returncode or 1


class Engine:
    """The front end: starts, listens, answers, stops. One a process."""

    def __init__(
        self, dialect: Dialect, asked: Faults, scale: float, children: list[Child], listener: socket.socket | None
    ) -> None:
        self._dialect, self._faults, self._scale = dialect, asked, scale
        self._children, self._listener = children, listener
        seed = os.environ.get("TUNER_FAKE_SEED")
        noise = random.Random(int(seed) if seed else None)
        slower = slowdown(sys.argv, os.environ.get("TUNER_FAKE_SLOWDOWN", ""))
        self._batch = Batch(Clock(dialect.setup, noise, slowdown=slower), dialect.memory.kv_tokens, scale)
        self._connections: set[Connection] = set()
        self._stopping = False

    async def run(self) -> int:
        """From the start to the end; the return code."""
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[int] = self._loop.create_future()
        self._api = Api(self._dialect, self._batch, self._faults, self._die, self._later, self._batch.clock.random)
        self._tasks = [asyncio.create_task(self._serve()), asyncio.create_task(self._batch.run())]
        for name in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(name, self._signal, name)
        for child in self._children:
            self._loop.add_reader(child.alive, self._child_gone, child)
        if self._faults.exit:
            code, seconds = self._faults.exit
            self._later(seconds, partial(self._end, code))
        returncode = await self._over
        for task in self._tasks:
            task.cancel()
        if returncode != -signal.SIGTERM:  # SGLang's children go on for a while when it is stopped in its start
            for child in self._children:
                child.kill()
        return returncode

    async def _serve(self) -> None:
        try:
            await self._start()
            await self._listen()
            await self._become_ready()
        except StartFailed as failed:
            self._end(failed.returncode)
        except Exception as error:  # a bug here must not look like an engine that hangs
            say(f"{type(error).__name__}: {error}\n")
            self._end(70)

    async def _start(self) -> None:
        """The start's log at its pace.

        Raises:
            StartFailed: as the dialect says.
        """
        if {"models-early", "never-ready"} & set(self._faults.asked):
            await self._listen()
        seconds = start_seconds(self._dialect.setup) * self._scale
        passed = 0.0
        for share, text in self._dialect.start():
            await asyncio.sleep(share * seconds)
            say(text)
            passed += share
            if "hang-load" in self._faults and passed > 0.4:
                await asyncio.Event().wait()
            if "never-ready" in self._faults and passed > 0.8:
                await asyncio.Event().wait()

    async def _listen(self) -> None:
        """Listen on the port; a dialect that binds late may find it taken now.

        Raises:
            StartFailed: it is taken, and the engine ends by that.
        """
        if self._api.started:
            return
        listener = self._listener or bind(self._dialect, self._faults)
        if listener is None:
            text, returncode = self._dialect.port_taken()
            say(text)
            if returncode is None:
                await asyncio.Event().wait()
            raise StartFailed(returncode or 1)
        make = partial(Connection, self._request, self._connections)
        self._server = await self._loop.create_server(make, sock=listener, backlog=2048)
        self._api.started = True

    async def _become_ready(self) -> None:
        if self._dialect.models_before_ready:
            await asyncio.sleep(_WARM_UP_S * self._scale)
            say("The server is fired up and ready to roll!\n")
        if "health-503" in self._faults:
            await asyncio.sleep(self._faults.number("health-503") * self._scale)
        self._api.ready = True
        if "zombie-health" in self._faults:
            self._children[0].kill()

    def _request(self, request: Request, connection: Connection) -> None:
        if self._stopping:
            connection.reply(503)
            return
        self._api(request, connection)

    def _later(self, seconds: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds * self._scale, action)

    def _signal(self, name: signal.Signals) -> None:
        if "ignore-term" in self._faults:
            return
        if not self._api.ready:
            self._end(-signal.SIGTERM if self._dialect.stop == "drain" else -signal.SIGINT)
            return
        if self._stopping:
            return
        say(self._dialect.stopping())
        self._stopping = True
        self._server.close()
        for connection in [each for each in self._connections if not each.busy]:
            connection.close()
        if name is signal.SIGINT and self._dialect.stop == "drain":
            self._end(self._dialect.returncode())
            return
        self._tasks.append(asyncio.create_task(self._stop()))

    async def _stop(self) -> None:
        """vLLM and TensorRT-LLM end their engine at once and then wait for clients; SGLang finishes its requests."""
        if self._faults.number("drain"):
            await asyncio.sleep(self._faults.number("drain") * self._scale)
        if self._dialect.stop == "abort":
            self._tasks[1].cancel()
            for child in self._children:
                self._loop.remove_reader(child.alive)
                child.kill()
            if any(connection.busy for connection in self._connections):
                say("INFO:     Waiting for connections to close. (CTRL+C to force quit)\n")
        await asyncio.sleep(_DRAIN_POLL_S * self._scale)
        while any(connection.busy for connection in self._connections):
            await asyncio.sleep(_DRAIN_POLL_S * self._scale)
        if self._dialect.returncode() == 0:
            say("INFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete.\n")
        self._end(self._dialect.returncode())

    def _die(self) -> None:
        """What a fault under load does: the engine's own process is killed."""
        self._children[0].kill()

    def _child_gone(self, child: Child) -> None:
        self._loop.remove_reader(child.alive)
        child.reap()
        if self._over.done():
            return
        self._api.dead = True
        self._tasks[1].cancel()
        if "zombie-health" not in self._faults:
            self._later(_REACTION_S, self._react)

    def _react(self) -> None:
        if self._over.done() or self._stopping:
            return
        text, returncode = self._dialect.child_died()
        say(text)
        for connection in list(self._connections):
            connection.abort()
        if returncode is not None:
            self._end(returncode)

    def _end(self, returncode: int) -> None:
        if not self._over.done():
            self._over.set_result(returncode)


def leave(returncode: int) -> None:
    """End with this return code, by the signal where it is negative."""
    if returncode < 0:
        signal.signal(-returncode, signal.SIG_DFL) if -returncode != signal.SIGKILL else None
        os.kill(os.getpid(), -returncode)
    os._exit(returncode & 0xFF)


if __name__ == "__main__":
    leave(main())

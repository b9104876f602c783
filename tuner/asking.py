"""Asking a server that starts: whether it answers a real request, and what it does instead."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx

from tuner.engines import Engine
from tuner.launchers import Handle
from tuner.node import ports
from tuner.node.processes import command_of
from tuner.trial import Failure, Launch

_MOST_HANGS = 2
_LOST_S = 5.0


@dataclass(frozen=True)
class Limits:
    """Seconds, and bytes free on the disk. `stall_timeout_s`: no new log line and no CPU time for that long.

    `call_timeout_s` bounds each HTTP call but the completion, which may compile kernels: `completion_timeout_s`; two
    completions in a row that reach it are a stall, and so is twice as long without any answer from what listens.
    `sick_timeout_s`: healthy by its own word, but every completion is refused. `heartbeat_s`: nothing was said.
    `poll_s`: the longest pause between two looks; it starts shorter and grows with the time waited.
    """

    start_timeout_s: float = 1800.0
    stall_timeout_s: float = 600.0
    grace_s: float = 10.0
    memory_timeout_s: float = 120.0
    call_timeout_s: float = 5.0
    completion_timeout_s: float = 60.0
    sick_timeout_s: float = 30.0
    heartbeat_s: float = 30.0
    poll_s: float = 1.0
    disk_floor_bytes: int = 100_000_000


@dataclass(frozen=True)
class Ready:
    """It answers: the name its model is served under, and whether the listener is proven to be ours."""

    model: str
    proven: bool


class Asker:
    """Asks again and again, and remembers what came. `ask` is called in one thread, the rest may be in another."""

    def __init__(self, handle: Handle, launch: Launch, engine: Engine, url: str, limits: Limits) -> None:
        self.healthy = False  # as of the last attempt, which may still wait for its completion
        self.unanswered = False  # what listens took the last connection and said nothing
        self._handle, self._launch, self._engine, self._url, self._limits = handle, launch, engine, url, limits
        self._hangs = 0
        self._refusal, self._client_error = "", False  # why the last completion was no good; it says we asked wrongly
        self._refused_at = 0.0
        self._members: dict[tuple[int, int], str] = {}  # as they were before the first refusal, and since
        self._lost: list[str] = []

    def ask(self) -> Ready | Failure | str:
        """One attempt; a text says what is still missing."""
        members = {member: self._members.get(member) or command_of(member[0]) for member in self._living()}
        self._lost = [f"{member[0]} ({name})" for member, name in self._members.items() if member not in members]
        answer = self._attempt()
        self._members = {**self._members, **members} if self._refusal else members
        return answer

    def sick(self) -> Failure | None:
        """Whether it will not answer any more though it says that it is healthy."""
        if self._hangs >= _MOST_HANGS:
            return Failure(
                "start-stall",
                f"{self._engine.health_path} answers 200, but {self._hangs} completions of one token in a row had no "
                f"answer within {self._limits.completion_timeout_s:g} s",
            )
        limit = min(_LOST_S, self._limits.sick_timeout_s) if self._lost else self._limits.sick_timeout_s
        if not self._refusal or time.monotonic() - self._refused_at < limit:
            return None
        kind = "invalid-config" if self._client_error else "crash"
        lost = f"; of its processes {', '.join(self._lost)} ended" if self._lost else ""
        return Failure(kind, f"{self._engine.health_path} answers 200, but for {limit:g} s {self._refusal}{lost}")

    def _living(self) -> tuple[tuple[int, int], ...]:
        return self._handle.identity().members

    def _attempt(self) -> Ready | Failure | str:
        port = httpx.URL(self._url).port or 80
        owned = self._handle.owns_listener(port)
        if owned is False:
            self._unhealthy()
            self.unanswered = False
            return _stranger(self._handle, port) or f"nothing listens on port {port} yet"
        try:
            with httpx.Client(base_url=self._url, timeout=self._limits.call_timeout_s, trust_env=False) as http:
                answer = self._served(http)
        except httpx.TimeoutException:
            self._unhealthy()
            self.unanswered = True
            return f"{self._url} does not answer yet (nothing came within {self._limits.call_timeout_s:g} s)"
        except (httpx.HTTPError, OSError) as error:
            self._unhealthy()
            return f"{self._url} does not answer yet ({error or type(error).__name__})"
        return replace(answer, proven=owned is True) if isinstance(answer, Ready) else answer

    def _served(self, http: httpx.Client) -> Ready | str:
        health = http.get(self._engine.health_path)
        self.unanswered = False
        if health.status_code != 200:
            self._unhealthy()
            return f"{self._engine.health_path} answers {health.status_code}"
        models = _json(http.get("/v1/models"))
        names = [str(entry.get("id")) for entry in models.get("data") or [] if isinstance(entry, Mapping)]
        if not names:
            return "/v1/models names no model"
        self.healthy = True
        return self._completion(http, self._launch.model if self._launch.model in names else names[0])

    def _completion(self, http: httpx.Client, name: str) -> Ready | str:
        body = {"model": name, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
        try:
            reply = http.post("/v1/completions", json=body, timeout=self._limits.completion_timeout_s)
        except httpx.TimeoutException:
            self._hangs += 1
            return f"a completion of one token had no answer within {self._limits.completion_timeout_s:g} s"
        except (httpx.HTTPError, OSError) as error:
            return self._refused(f"a completion of one token broke off ({error or type(error).__name__})")
        self._hangs = 0
        if reply.status_code != 200:
            why = f"a completion of one token is answered with {reply.status_code}: {reply.text[:200]}"
            return self._refused(why, client_error=400 <= reply.status_code < 500)
        completion = _json(reply)
        if not completion.get("choices"):
            return self._refused(f"a completion of one token came back empty: {reply.text[:200]}")
        if completion.get("model", name) != name:
            return self._refused(f"a completion for {name} was answered by {completion['model']}")
        return Ready(name, proven=False)

    def _refused(self, why: str, client_error: bool = False) -> str:
        if not self._refusal:
            self._refused_at = time.monotonic()
        self._refusal, self._client_error = why, client_error
        return why

    def _unhealthy(self) -> None:
        self.healthy, self._hangs, self._refusal = False, 0, ""


def _stranger(handle: Handle, port: int) -> Failure | None:
    """Asked twice: between two looks our own server may have begun to listen, or another one have gone."""
    holders = ports.holders(port)
    if not holders or handle.owns_listener(port) is not False or ports.holders(port) != holders:
        return None
    holder = ports.describe_holder(port)
    return Failure("port-taken", f"port {port} was taken by another process while ours started: {holder}")


def _json(reply: httpx.Response) -> Mapping[str, Any]:
    """Empty where the reply is no JSON object."""
    try:
        value = reply.json() if reply.status_code == 200 else {}
    except ValueError:
        return {}
    return value if isinstance(value, Mapping) else {}

"""What the simulated engine answers over HTTP: completions and chat by the OpenAI protocol, the rest by its dialect."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tuner.testing.batching import Batch, Sequence, blocks_of
from tuner.testing.dialects import Dialect
from tuner.testing.faults import Faults
from tuner.testing.http import Connection, Request

_COMPLETIONS = {"/v1/completions": False, "/v1/chat/completions": True}
_CACHE_RESETS = ("/reset_prefix_cache", "/flush_cache")
_DEFAULT_MAX_TOKENS = 16


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message
        super().__init__(message)


@dataclass(frozen=True)
class Ask:
    """A completion request, checked."""

    prompt: list[str]
    prompt_tokens: int
    max_tokens: int
    chat: bool
    stream: bool
    include_usage: bool


@dataclass
class Api:
    """`started` (listening), `ready` and `dead` are set by whoever runs it; a fault calls `die` to end the engine."""

    dialect: Dialect
    batch: Batch
    faults: Faults
    die: Callable[[], None]
    later: Callable[[float, Callable[[], None]], object]
    random: random.Random = field(default_factory=random.Random)
    ready: bool = False
    dead: bool = False
    started: bool = False

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)

    def __call__(self, request: Request, connection: Connection) -> None:
        """Answer one request, now or later."""
        if "accept-hang" in self.faults:
            return
        if request.path in _COMPLETIONS:
            self._completion(request, connection, _COMPLETIONS[request.path])
            return
        answers = self.dialect.endpoints(self.batch.counters, self.ready)
        if request.path == "/health" and (not self.ready or self.dead) and "zombie-health" not in self.faults:
            connection.reply(503)
            return
        if request.path not in answers:
            connection.reply(404, {"detail": "Not Found"})
            return
        answer = answers[request.path]()
        if request.path in _CACHE_RESETS and answer.status == 200:
            self.batch.forget_prefixes()
        connection.reply(answer.status, answer.body, answer.media)

    def _completion(self, request: Request, connection: Connection, chat: bool) -> None:
        try:
            if self.dead or not self.started:
                raise Refused(500, "EngineCore encountered an issue. See stack trace (above) for the root cause.")
            ask = self._checked(request, chat)
            number = next(self._numbers)
            if "die-after" in self.faults and number > self.faults.number("die-after"):
                self.die()
                return
            if self.random.random() < self.faults.number("err500"):
                raise Refused(500, "Internal Server Error")
        except Refused as refused:
            connection.reply(refused.status, self.dialect.error(refused.status, refused.message))
            return
        self._answer(ask, connection, number)

    def _answer(self, ask: Ask, connection: Connection, number: int) -> None:
        answer = (Stream if ask.stream else Whole)(ask, connection, self, number)
        sequence = Sequence(ask.prompt_tokens, ask.max_tokens, answer.tokens, blocks_of(ask.prompt))
        connection.on_close = lambda: self.batch.remove(sequence)
        if self.random.random() < self.faults.number("empty"):
            answer.finish()
        elif "hang-after" in self.faults and number > self.faults.number("hang-after"):
            answer.begin()
        elif number <= self.faults.number("slow-first"):
            self.later(1.0, lambda: self.batch.add(sequence))
        else:
            self.batch.add(sequence)

    def _checked(self, request: Request, chat: bool) -> Ask:
        """Raises: Refused."""
        try:
            body = json.loads(request.body)
        except ValueError as error:
            raise Refused(400, f"the body is not JSON: {error}") from None
        if request.method != "POST" or not isinstance(body, dict):
            raise Refused(400, "a completion is a POST of a JSON object")
        if body.get("model") not in (None, self.dialect.served_name):
            raise Refused(404, f"The model `{body['model']}` does not exist.")
        words = _words(_chat_prompt(body) if chat else body.get("prompt"))
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        limit = _DEFAULT_MAX_TOKENS if limit is None else limit
        if not words or isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise Refused(400, "the prompt must not be empty and max_tokens must be a whole number of at least 1")
        if len(words) + limit > self.dialect.context:
            raise Refused(
                400,
                f"This model's maximum context length is {self.dialect.context} tokens. However, you requested "
                f"{len(words) + limit} tokens ({len(words)} in the prompt, {limit} in the completion).",
            )
        options = body.get("stream_options") or {}
        include_usage = bool(options.get("include_usage")) if isinstance(options, dict) else False
        return Ask(words, len(words), limit, chat, bool(body.get("stream")), include_usage)


class Stream:
    """A streamed answer: an event a step, the usage event if asked for, `[DONE]`."""

    def __init__(self, ask: Ask, connection: Connection, api: Api, number: int) -> None:
        self._ask, self._connection, self._api = ask, connection, api
        self._begun = False
        self._made = self._sent = 0
        self._at_once = max(1, int(api.faults.number("chunk-tokens", api.batch.clock.setup.stream_interval)))
        self._cut_at = max(1, ask.max_tokens // 2) if api.random.random() < api.faults.number("drop") else None
        kind = "chat.completion.chunk" if ask.chat else "text_completion"
        prefix = "chatcmpl" if ask.chat else "cmpl"
        self._frame = {
            "id": f"{prefix}-{number:08x}",
            "object": kind,
            "created": int(time.time()),
            "model": api.dialect.served_name,
        }

    def begin(self) -> None:
        """The head, and for chat the event that names the role."""
        if self._begun:
            return
        self._begun = True
        self._connection.stream()
        if self._ask.chat:
            self._event([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])

    def tokens(self, count: int) -> None:
        """So many new tokens."""
        self.begin()
        self._made += count
        over = self._made >= self._ask.max_tokens
        while self._made - self._sent >= self._at_once or (over and self._sent < self._made):
            part = min(self._at_once if self._at_once > 1 else count, self._made - self._sent)
            self._text(part, "length" if self._sent + part >= self._ask.max_tokens else None)
        if self._cut_at is not None and self._made >= self._cut_at:
            self._connection.abort()
        elif over:
            self.finish()

    def finish(self) -> None:
        self.begin()
        if self._ask.include_usage:
            self._event([], usage=_usage(self._ask, self._made, self._api.faults))
        self._connection.send(b"data: [DONE]\n\n")
        self._connection.end()

    def _text(self, count: int, finish: str | None) -> None:
        text = _some_text(self._sent, count)
        self._sent += count
        content: dict[str, Any] = {"delta": {"content": text}} if self._ask.chat else {"text": text}
        self._event([{"index": 0, **content, "logprobs": None, "finish_reason": finish}])

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> None:
        data = json.dumps({**self._frame, "choices": choices, **more}, separators=(",", ":"))
        self._connection.send(b"data: " + data.encode() + b"\n\n")


class Whole:
    """An answer in one piece."""

    def __init__(self, ask: Ask, connection: Connection, api: Api, number: int) -> None:
        self._ask, self._connection, self._api, self._number = ask, connection, api, number
        self._made = 0

    def begin(self) -> None:
        """Nothing is sent before the end."""

    def tokens(self, count: int) -> None:
        self._made += count
        if self._made >= self._ask.max_tokens:
            self.finish()

    def finish(self) -> None:
        text = _some_text(0, self._made)
        chat = self._ask.chat
        content: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        body = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{self._number:08x}",
            "object": "chat.completion" if chat else "text_completion",
            "created": int(time.time()),
            "model": self._api.dialect.served_name,
            "choices": [{"index": 0, **content, "logprobs": None, "finish_reason": "length"}],
            "usage": _usage(self._ask, self._made, self._api.faults),
        }
        self._connection.reply(200, body)


def _usage(ask: Ask, made: int, faults: Faults) -> dict[str, int]:
    prompt, text = (round(count * faults.number("wrong-usage", 1.0)) for count in (ask.prompt_tokens, made))
    return {"prompt_tokens": prompt, "completion_tokens": text, "total_tokens": prompt + text}


def _some_text(start: int, count: int) -> str:
    """`count` words, a token each."""
    return "".join(f" w{number % 100}" for number in range(start, start + count))


def _words(prompt: Any) -> list[str]:
    """The tokens of a prompt: words of a text, or the numbers themselves.

    Raises:
        Refused: none of the forms that a prompt can have.
    """
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt.split()
    if isinstance(prompt, list) and all(isinstance(token, int) for token in prompt):
        return [str(token) for token in prompt]
    raise Refused(400, "prompt must be one text or one list of token numbers")


def _chat_prompt(body: dict[str, Any]) -> str:
    """All messages as one text.

    Raises:
        Refused: messages that are none.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise Refused(400, "messages must be a list of objects")
    return " ".join(_content(message.get("content")) for message in messages)


def _content(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")

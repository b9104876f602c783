"""The text in the events of a stream, as cheaply as it can be had. Pure.

Answers, reasoning (`reasoning_content`, `reasoning`) and the arguments of tool calls are all generated text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

# A JSON string cannot hold these names with their quotation marks, unless escaped: no parser is needed.
_TEXT = re.compile(rb'"(?:text|content|reasoning_content|reasoning|arguments)": ?"((?:[^"\\]|\\.)*)"')
# What nearly every event has: one text in its engine's own form, without escapes.
_PLAIN = (re.compile(rb'"text":"([^"\\]*)"'), re.compile(rb'"content":"([^"\\]*)"'))


def has_text(payload: bytes) -> bool:
    """Whether an event brings any text: the first of a chat often has a role only."""
    return any(_TEXT.findall(payload))


class Kept:
    """The text of one answer, kept as it came: escaped, decoded only when it is asked for."""

    __slots__ = ("_escaped",)

    def __init__(self) -> None:
        self._escaped = bytearray()

    def add(self, payloads: Sequence[bytes]) -> None:
        """The text of these events, in their order."""
        if len(payloads) == 1 and (text := _plain_text(payloads[0])) is not None:
            self._escaped += text
            return
        whole = b"\n".join(payloads)
        if b'"reasoning' not in whole and b'"arguments"' not in whole:
            for plain in _PLAIN:
                texts = plain.findall(whole)
                if len(texts) == len(payloads):
                    self._escaped += b"".join(texts)
                    return
        self._escaped += b"".join(_TEXT.findall(whole))

    def text(self) -> str:
        """All of it; characters that no decoder takes are replaced."""
        escaped = self._escaped.decode("utf-8", "replace")
        try:
            return str(json.loads(f'"{escaped}"', strict=False))
        except ValueError:
            return escaped


def _plain_text(payload: bytes) -> bytes | None:
    """The text of an event that has one, in its engine's own form and without escapes; else None."""
    start = payload.find(b'"text":"') + 8
    if start == 7:
        start = payload.find(b'"content":"') + 11
    end = payload.find(b'"', start)
    if start > 10 and b'"reasoning' not in payload and b'"arguments"' not in payload and b"\\" not in payload:
        return payload[start:end]
    return None

"""Secrets taken out of what is stored, shown or exported: by name, by form, and by value where it is known. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from tuner.trial import is_secret

T = TypeVar("T")
HIDDEN = "***"
_SHORTEST = 6  # a shorter value is no secret worth the name, and would be found everywhere

_NAMES = (
    r"[\w-]*(?:api[-_]?key|secret(?:[-_]?key)?|passwo?r?d|credentials?)"
    r"|(?:[\w-]*[-_])?(?:hf|hub|hugging[-_]?face(?:[-_]hub)?|auth|access|bearer|api|github|gh|session)[-_]?token"
)
_NAMED = re.compile(
    rf"(?P<name>(?i:\b(?:{_NAMES}))|\b[A-Z][A-Z0-9_]*_(?:TOKEN|KEY)|--(?i:{_NAMES}))"
    r"(?P<gap>['\"]?\s{0,3}(?:[=:]\s{0,3}|\s)\[?['\"]?)"
    r"(?!(?:None|null|True|False|true|false|is|was|in|of|for|and|or|the|not|to)\b|\$\{?|\*\*\*)"
    r"(?P<value>[^\s'\",;)\]}]{6,})"
)
_FORMS = re.compile(
    r"\bhf_[A-Za-z0-9]{8,}|\bsk-[A-Za-z0-9_-]{8,}|\bgh[pousr]_[A-Za-z0-9]{16,}|\bnvapi-[\w-]{8,}"
    r"|(?<=[Bb]earer )[\w.~+/=-]{6,}|(?<=://)[^\s/:@]{1,80}:[^\s/@]{1,200}(?=@)"
)


def redacted(text: str, values: Collection[str] = ()) -> str:
    """`text` without secrets. `values`: secrets that are known, such as those of the server's environment."""
    for value in sorted((each for each in values if len(each) >= _SHORTEST), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return _FORMS.sub(HIDDEN, _NAMED.sub(lambda match: f"{match['name']}{match['gap']}{HIDDEN}", text))


def scrubbed(value: T, values: Collection[str] = ()) -> T:
    """Any value of ours (dataclass, mapping, sequence, text) with every text in it redacted."""
    return _scrubbed(value, values)  # type: ignore[no-any-return]


def known(env: Mapping[str, str]) -> frozenset[str]:
    """The secrets in an environment, by the names of its variables."""
    return frozenset(value for name, value in env.items() if is_secret(name) and len(value) >= _SHORTEST)


def without_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, those left out that hold a secret by their name."""
    return {key: value for key, value in values.items() if not is_secret(key.rpartition(".")[2].replace("-", "_"))}


def _scrubbed(value: Any, values: Collection[str]) -> Any:
    if isinstance(value, str):
        return redacted(value, values)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _scrubbed(getattr(value, each.name), values) for each in fields(value)})
    if isinstance(value, Mapping):
        return {key: _scrubbed(item, values) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_scrubbed(item, values) for item in value)
    return value

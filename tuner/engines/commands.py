"""Command lines as data: flags to argv and back, environment assignments before a program. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.engines import FlagError, as_json
from tuner.engines.flags import LISTS, VALUELESS, Flag, Spelling, Table
from tuner.engines.values import deep_merge, nested, normal, refuse_foreign
from tuner.trial import Value, is_secret

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
# Chosen by the slot or added by the tuner for its own reading: never part of what was asked for.
SLOT_ENV = frozenset({"CUDA_VISIBLE_DEVICES", "VLLM_SERVER_DEV_MODE", "SPT_NOENV"})


def split_env(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """`A=1 B=2 program ...` (or with `env` before it) as environment and the words of the program.

    Raises:
        FlagError: a secret, which no study may hold.
    """
    rest = list(words)
    if rest and rest[0] == "env":
        rest = rest[1:]
    env: dict[str, str] = {}
    while rest and (match := _ASSIGNMENT.fullmatch(rest[0])):
        if is_secret(match[1]):
            raise FlagError(match[1], "a secret has no place in a study", "export it before the tuner is started")
        env[match[1]] = match[2]
        rest = rest[1:]
    return env, rest


def asked_env(*parts: Mapping[str, str] | None) -> dict[str, str]:
    """The environment that belongs to the configuration: later parts win, the slot's own variables are left out."""
    env = {name: value for part in parts for name, value in (part or {}).items()}
    return {name: value for name, value in env.items() if name not in SLOT_ENV}


def write(table: Table, args: Mapping[str, Value]) -> list[str]:
    """Canonical flags as words of a command line, in their order. Values are as `flags.normal` gives them."""
    words: list[str] = []
    for name, value in args.items():
        words += _words(table.flags[name], value)
    return words


def read(table: Table, words: Sequence[str]) -> tuple[list[str], str | None, dict[str, Value]]:
    """A command line's words after its program: positionals, the model named by a flag, canonical flags.

    The last of several spellings wins, as it does in the engines. Flags of the slot are read and left out.

    Raises:
        FlagError: an unknown flag, a missing or impossible value.
    """
    positionals: list[str] = []
    model: str | None = None
    args: dict[str, Value] = {}
    dotted: dict[str, dict[str, Any]] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not _is_option(word):
            positionals.append(word)
            continue
        spelling, inline, written = _spelled(table, word)
        home = spelling.flag.home
        if home == "file":
            raise FlagError(written, f"{table.engine} has no such flag; it is a key of its YAML file")
        if home == "config":
            refuse_foreign(table, spelling.flag, written)
        value = _taken(table, spelling, inline, rest, written)
        if home == "model":
            model = str(value)
        elif home == "argv":
            _keep(args, dotted, spelling, value)
    return positionals, model, {**args, **dotted}


def _words(flag: Flag, value: Value) -> list[str]:
    option = f"--{flag.name}"
    if value is None:
        return []
    if isinstance(value, bool):
        return [option if value else f"--no-{flag.name}"]
    if flag.kind == "json":
        return [option, json.dumps(as_json(value), separators=(",", ":"))]
    if isinstance(value, (list, tuple)):
        texts = [str(item) for item in value]
        if any(_is_option(text) for text in texts):
            raise FlagError(option, f"a list cannot hold a value that looks like a flag, got {texts}")
        return [option, *texts]
    text = str(value)
    return [f"{option}={text}"] if text.startswith("-") and not _NEGATIVE_NUMBER.fullmatch(text) else [option, text]


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and " " not in word.partition("=")[0] and not _number(word)


def _number(word: str) -> bool:
    return _NEGATIVE_NUMBER.fullmatch(word) is not None


def _spelled(table: Table, word: str) -> tuple[Spelling, str | None, str]:
    """The flag of one word and the value attached to it: `--x=v`, `-x=v`, `-Ov`."""
    name, equals, value = word.partition("=")
    if not name.startswith("--") and len(name) > 2 and name not in table.short and name[:2] in table.short:
        attached = word[2:]
        if not attached.startswith("."):
            return Spelling(table.short[name[:2]]), attached.removeprefix("="), name[:2]
    return table.find(name), value if equals else None, name


def _taken(table: Table, spelling: Spelling, inline: str | None, rest: list[str], written: str) -> Value:
    """The value of a flag: attached, or taken off the front of `rest`."""
    flag = spelling.flag
    if flag.kind in VALUELESS:
        if inline is not None:
            raise FlagError(written, "takes no value", f"write {written} alone", inline)
        return not spelling.negated
    if inline is not None:
        words = [inline]
    elif flag.kind in LISTS:
        words = _take_while_values(rest)
    elif rest and not _is_option(rest[0]):
        words = [rest.pop(0)]
    else:
        words = []
    if not words and flag.kind == "optional":
        return True
    if not words:
        raise FlagError(written, "expects a value", f"write {written} VALUE")
    if spelling.path:
        return nested(spelling.path, _loose(words[0], spelling.append))
    return normal(table, flag, words if flag.kind in LISTS else words[0], written)


def _take_while_values(rest: list[str]) -> list[str]:
    words: list[str] = []
    while rest and not _is_option(rest[0]):
        words.append(rest.pop(0))
    return words


def _loose(text: str, append: bool) -> Any:
    """The value of a dotted key: JSON where it is JSON, else the text (vLLM, FlexibleArgumentParser)."""
    if append:
        return [_loose(item, False) for item in text.split(",")]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _keep(args: dict[str, Value], dotted: dict[str, dict[str, Any]], spelling: Spelling, value: Value) -> None:
    """Dotted keys gather beside the whole-JSON form and replace it, as vLLM's parser does."""
    name = spelling.flag.name
    if not spelling.path:
        args[name] = value
    elif isinstance(value, dict):
        known = dotted.setdefault(name, {})
        dotted[name] = _appended(known, value) if spelling.append else deep_merge(known, value)


def _appended(known: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(known)
    for key, value in new.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[key] = _appended(old, value)
        else:
            merged[key] = [*old, *value] if isinstance(old, list) and isinstance(value, list) else value
    return merged

"""Kinds of text and number that people write in several places: names, durations, environments. pydantic types."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from tuner.engines import ENGINES
from tuner.engines.commands import SLOT_ENV
from tuner.spec.faults import bad, nearest
from tuner.trial import is_secret


def seconds(value: Any) -> float:
    """`8h`, `30m`, `90s`, `1h30m` in seconds."""
    way_out = "write a number and a unit: 90s, 30m, 8h or 1h30m"
    if not isinstance(value, str):
        raise bad("must be a duration", way_out)
    found = re.fullmatch(r"(?:(\d{1,3})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,8}(?:\.\d{1,3})?)s)?", value.strip())
    total = sum(float(n or 0) * s for n, s in zip(found.groups(), (86400, 3600, 60, 1), strict=True)) if found else 0.0
    if not found or total <= 0:
        raise bad("must be a duration", way_out)
    return total


def local_model(model: str, file: Path | str) -> str:
    """A model as the engine is given it: one written as a path that begins with `./`, `../` or `~/` is a folder beside
    `file` (in the home folder), and absolute from here on, for a server works in its trial's folder."""
    if model not in (".", "..") and not model.startswith(("./", "../", "~/")):
        return model
    return os.path.abspath(Path(file).parent / os.path.expanduser(model))


def _text(value: str) -> str:
    if not value.strip():
        raise bad("must not be empty")
    if any(ord(character) < 32 and character not in "\t\n" for character in value):
        raise bad("must not hold control characters")
    return value


def _model_name(value: str) -> str:
    if value.startswith("-") or len(value.split()) != 1:
        raise bad("is not the name or path of a model", "write it as the engine takes it: deepseek-ai/DeepSeek-R1-0528")
    return value


def _engine_name(name: str) -> str:
    if name in ("args", "args-where-known", "env", "env-where-known", "model", "replicas"):
        raise bad("is not an engine", f"name the engine around it: {{vllm: {{{name}: ...}}}}")
    if name not in ENGINES:
        raise bad("there is no engine of this name", nearest(name, ENGINES, "engines"))
    return name


def _name(value: str) -> str:
    """A name people give; it is printed, stored, and part of file names."""
    if not re.fullmatch(r"[^\W_](?:[^/\\\x00-\x1f\x7f]{0,98}[^/\\\s\x00-\x1f\x7f])?", value):
        raise bad("is not a name", "begin with a letter or digit, at most 100 characters, no / and no line break")
    return value


def _env_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,200}", name):
        raise bad("is not the name of an environment variable", "use letters, digits and _")
    if name in SLOT_ENV:
        raise bad("is set by the tuner for every launch", "leave it out; GPUs are chosen by node: {gpus: ...}")
    if is_secret(name):
        raise bad("a secret does not belong in a study", "set it in the shell that runs the tuner: servers inherit it")
    return name


def _env_value(value: Any) -> Any:
    """Whole numbers are text enough; `1.10` and `true` are not: which text is meant?"""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Text = Annotated[str, Field(max_length=4096), AfterValidator(_text)]
Name = Annotated[str, AfterValidator(_name)]
ModelName = Annotated[Text, AfterValidator(_model_name)]
EngineName = Annotated[str, AfterValidator(_engine_name)]
EnvName = Annotated[str, AfterValidator(_env_name)]
EnvValue = Annotated[str, Field(max_length=4096), BeforeValidator(_env_value)]
Seconds = Annotated[float, BeforeValidator(seconds)]
Count = Annotated[int, Field(ge=1, le=10_000_000)]

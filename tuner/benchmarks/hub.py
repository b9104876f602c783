"""Tokenizers of models on the hub: from its cache on this machine, or downloaded into that."""

from __future__ import annotations

import logging
import os
import re
import threading
from contextlib import suppress
from pathlib import Path

from tuner.errors import Fault, SpecError

WAIT_S = 60.0
FIRST_ANSWER_S = 5.0  # by then a hub that can be reached has said whether it has the file
FILE, CONFIG = "tokenizer.json", "tokenizer_config.json"


def is_hub_name(named: str) -> bool:
    """Whether a tokenizer that is nowhere on this machine is one on the hub: `name` or `organisation/name`."""
    part = r"[A-Za-z0-9_][\w.-]{0,95}"
    return bool(re.fullmatch(f"{part}(/{part})?", named)) and not named.endswith(".json") and ".." not in named


def from_hub(name: str, wait_s: float) -> Path:
    """The file in the hub's cache on this machine, downloaded if it is not there yet."""
    if found := _cached(name):
        return found
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        way_out = "name a folder that holds a tokenizer.json, or unset HF_HUB_OFFLINE"
        raise fault(name, "HF_HUB_OFFLINE is set and the hub's cache has no such tokenizer", str(_cache()), way_out)
    outcome: list[Path | Exception] = []
    # a thread that can be left behind: whatever the network does, this call ends
    thread = threading.Thread(target=lambda: outcome.append(_download(name)), daemon=True, name="tokenizer download")
    thread.start()
    thread.join(wait_s)
    got = outcome[0] if outcome else TimeoutError(f"no answer within {wait_s:g} s")
    if isinstance(got, Path):
        return got
    raise _hub_fault(name, got)


def _cached(name: str) -> Path | None:
    folder = _cache() / f"models--{name.replace('/', '--')}"
    try:
        revision = (folder / "refs" / "main").read_text().strip()
        file = folder / "snapshots" / revision / FILE
        return file if file.is_file() else None
    except OSError:
        return None


def _cache() -> Path:
    """Where the hub's clients keep what they downloaded."""
    at = os.environ
    home = at.get("HF_HOME") or os.path.join(at.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(os.path.expanduser(at.get("HF_HUB_CACHE") or at.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"))


def _download(name: str) -> Path | Exception:
    try:
        from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
        from huggingface_hub.errors import EntryNotFoundError

        logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # what goes wrong is said here, in one line
        get_hf_file_metadata(hf_hub_url(name, FILE), timeout=FIRST_ANSWER_S)  # tries once, a download five times
        file = Path(hf_hub_download(name, FILE, cache_dir=_cache()))
        with suppress(EntryNotFoundError):  # not every tokenizer has one
            hf_hub_download(name, CONFIG, cache_dir=_cache())
        return file
    except Exception as error:
        return error


def _hub_fault(name: str, error: Exception) -> SpecError:
    kind = type(error).__name__
    local = "name a folder that holds a tokenizer.json, or leave `tokenizer` out: lengths are approximated"
    if kind == "GatedRepoError":
        return fault(name, "the hub gives this model only to those who may see it", "", f"set HF_TOKEN, or {local}")
    if kind == "RepositoryNotFoundError":
        rule = "there is no such file, and no such model on the hub (or HF_TOKEN may not see it)"
        return fault(name, rule, "", f"check the name, or {local}; a folder is written ./{name}")
    if kind in ("RemoteEntryNotFoundError", "EntryNotFoundError"):
        return fault(name, "the model on the hub has no tokenizer.json", "", local)
    return fault(name, "there is no such file, and the hub cannot be reached", short(error), local)


def short(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:200]


def fault(
    file: str, rule: str, value: str, way_out: str = "leave `tokenizer` out: lengths are approximated"
) -> SpecError:
    return SpecError([Fault(rule, file=file, value=value, way_out=way_out)])

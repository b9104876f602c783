"""Faults on request: the environment variable `TUNER_FAKE_FAULT` holds a comma list of `name` or `name=value`.

At the start
    port-taken           as if the port were taken
    oom                  out of memory while CUDA graphs are captured
    bad-flag             a flag is not known: usage, exit 2
    no-model             the model's name is neither a folder nor a repository: exit 1
    memory-held=TOKENS   starts as if somebody else held the GPUs' memory: room for so many tokens in the KV pool
    broken-cache         a file of Triton's cache is broken, unless TRITON_CACHE_DIR names another: exit 1
    leak                 every secret of the environment in the log, then a model that may not be read: exit 1
    dead-gpu             the GPU has an error that only a reset mends: exit 1
    hang-load            the start stands still half-way: no log, no CPU time, no listener
    never-ready          listens and answers 503 to /health for ever
    accept-hang          takes connections and never answers one
    exit=CODE[@SECONDS]  ends with CODE so many seconds after it began (0.2)
    models-early         /v1/models answers from the beginning, /health is 503 until ready
    health-503=SECONDS   /health stays 503 so long after everything else is ready
Under load
    die-after=N          the engine dies when request N+1 comes
    hang-after=N         requests after the first N get no tokens; /health stays 200
    err500=P drop=P empty=P   this share of requests: 500, cut off in the middle, 200 without a token
    slow-first=K         the first K requests wait a second for their first token
    wrong-usage=F        token counts in `usage` are F times the true ones
    chunk-tokens=N       N tokens in each streamed event
At the end
    ignore-term          SIGTERM changes nothing
    drain=SECONDS        SIGTERM is followed so long after
    orphan=setsid|doublefork  the child leaves the group, or its parent
    zombie-health        the child dies once ready; /health stays 200, requests are answered with 500
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_NUMBERS = {
    "health-503", "die-after", "hang-after", "err500", "drop", "empty", "slow-first", "wrong-usage", "chunk-tokens",
    "drain", "memory-held",
}  # fmt: skip
_WORDS = {
    "port-taken", "oom", "bad-flag", "no-model", "hang-load", "never-ready", "accept-hang", "models-early",
    "ignore-term", "zombie-health", "broken-cache", "dead-gpu", "leak",
}  # fmt: skip
_TEXTS = {"exit", "orphan"}


@dataclass(frozen=True)
class Faults:
    """What was asked for, by name; a name alone has the value ''."""

    asked: Mapping[str, str]

    def __contains__(self, name: str) -> bool:
        return name in self.asked

    def number(self, name: str, default: float = 0.0) -> float:
        return float(self.asked.get(name) or default)

    @property
    def exit(self) -> tuple[int, float] | None:
        """Return code and seconds after which to end with it."""
        if "exit" not in self.asked:
            return None
        code, _, seconds = self.asked["exit"].partition("@")
        return int(code or 1), float(seconds or 0.2)

    @property
    def orphan(self) -> str:
        return self.asked.get("orphan", "")


def parse(text: str) -> Faults:
    """The faults in `text`.

    Raises:
        ValueError: a name that does not exist, or a value that is none for it.
    """
    asked: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name not in _NUMBERS | _WORDS | _TEXTS:
            raise ValueError(f"TUNER_FAKE_FAULT: there is no fault {name!r}; see tuner/testing/faults.py")
        if name in _NUMBERS:
            float(value or "0")
        if name == "orphan" and value not in ("setsid", "doublefork"):
            raise ValueError(f"TUNER_FAKE_FAULT: orphan must be setsid or doublefork (got {value!r})")
        asked[name] = value
    faults = Faults(asked)
    _ = faults.exit
    return faults

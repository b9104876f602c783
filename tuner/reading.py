"""What a running engine says of itself, and whether what it measures can count."""

from __future__ import annotations

import logging
from dataclasses import replace

import httpx

from tuner.engines import Engine
from tuner.engines.logged import observed
from tuner.engines.pools import starved
from tuner.engines.tables.logged import BY_ENGINE
from tuner.executors import Job
from tuner.redaction import without_secrets
from tuner.server import Server
from tuner.trial import Effective, Failure

logger = logging.getLogger(__name__)

_PROBE_TIMEOUT_S = 10.0
_LOG_BYTES = 4_000_000  # of the start's log


def read_effective(server: Server, job: Job, engine: Engine) -> Effective:
    """Ask the running engine what it really does, and judge it against what was asked."""
    replies: dict[str, str] = {}
    with httpx.Client(base_url=server.url, timeout=_PROBE_TIMEOUT_S, trust_env=False) as client:
        for probe in engine.probes():
            try:
                reply = client.get(probe.path)
            except httpx.HTTPError as error:
                logger.info("%s did not answer: %s", probe.path, error)
                continue
            if reply.status_code == 200:
                replies[probe.name] = reply.text
    log = server.log_text(_LOG_BYTES)
    effective = observed(BY_ENGINE.get(engine.name, ()), engine.effective(replies, log), log)
    effective = replace(effective, values=without_secrets(effective.values))
    return engine.judge(job.settings, effective, job.base, job.base_effective)


def version_mismatch(engine: str, claimed: str | None, effective: Effective) -> Failure | None:
    """The study's version is a claim, the engine's own answer the truth. They must agree as far as the claim goes."""
    found = effective.version
    if claimed is None or found is None or _agrees(claimed, found):
        return None
    return Failure(
        "version-mismatch",
        f"the study says {engine} {claimed}, the running engine says {found}; "
        f"write engines.{engine}.version: {found}, or start the version meant",
        hop="effective",
    )


def starving(job: Job, effective: Effective) -> Failure | None:
    """A server that could not have the memory it needs is not slow: nothing it measures counts."""
    wrong = starved(job.settings, effective, job.base, job.base_effective)
    return Failure("invalid-measurement", wrong, hop="effective") if wrong is not None else None


def _agrees(claimed: str, found: str) -> bool:
    """`0.11` agrees with `0.11.0+cpu`, `0.11.0` with `0.11.0.post2`."""
    wanted, actual = claimed.lstrip("v").split("."), found.lstrip("v").split("+")[0].split(".")
    return actual[: len(wanted)] == wanted

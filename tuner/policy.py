"""What a failure of each kind means for the search: one table. Pure.

| column     | says                                                                                            |
|------------|-------------------------------------------------------------------------------------------------|
| `counts`   | it is the configuration's own fault; if not, it says nothing about it                            |
| `retries`  | how often the same launch is made again before it is given up                                    |
| `on_retry` | what differs then                                                                                |
| `way_out`  | what a person can do                                                                             |
| `stops`    | no other configuration can do better on this node: the study ends                                |

A request without effect is no failure: its measurement is one of its twin (see `engines.judging`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

FailureKind: TypeAlias = Literal[
    "abandoned", "interrupted", "port-taken", "gpu-busy", "shm-full", "cache-poisoned", "disk-full", "client-limited",
    "host-out-of-memory", "node-sick", "out-of-memory", "out-of-memory-graphs", "out-of-memory-under-load", "bad-flag",
    "invalid-config", "unsupported", "model-not-found", "model-gated", "not-installed", "nccl", "start-stall",
    "start-timeout", "crash", "crash-under-load", "hang-under-load", "invalid-measurement", "version-mismatch",
    "not-recorded", "unknown",
]  # fmt: skip


@dataclass(frozen=True)
class Policy:
    """One row of the table."""

    counts: bool
    retries: int = 0
    on_retry: str = ""
    way_out: str = ""
    stops: bool = False


_SAME = "nothing"
POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        # Not the configuration's fault: the node, the study, or somebody else.
        "abandoned": Policy(False, 2, _SAME, "see who ended it: another shell, a scheduler, a memory limit"),
        "interrupted": Policy(False),
        "port-taken": Policy(False, 2, "another port, unless node.port names one", "free the port, or leave "
                             "`node.port` out"),
        "gpu-busy": Policy(False, 2, "the GPUs are looked at again, as node.foreign says", "somebody else uses the "
                           "GPUs; see `node.foreign`"),
        "shm-full": Policy(False, 2, "the ended server's segments are gone", "give the server more shared memory "
                           "(/dev/shm), or remove what dead servers left there"),
        "cache-poisoned": Policy(False, 1, "compile caches of its own, in the trial's folder", "remove the cache "
                                 "folder that the line names; it is built anew"),
        "disk-full": Policy(False, 2, _SAME, "free disk space in the study folder and where caches are kept"),
        "client-limited": Policy(False, 2, _SAME, "raise the limit of open files (ulimit -n)"),
        "model-not-found": Policy(False, 0, "", "check the model's path or name, and that all its files are there"),
        "model-gated": Policy(False, 0, "", "accept the model's terms on its page, and export an HF_TOKEN that may "
                              "read it before the tuner is started"),
        "not-installed": Policy(False, 0, "", "the engine's program or a library of it is missing on this node"),
        "version-mismatch": Policy(False, 0, "", "the running engine is another version than study.yaml says"),
        "not-recorded": Policy(False),
        "node-sick": Policy(False, 0, "", "mend the node first (driver, GPU, fabric): nothing can be measured on it",
                            stops=True),
        # The configuration's own, for this version of the engine and this node.
        "out-of-memory": Policy(True, 0, "", "it does not fit: a smaller memory fraction, batch or context length, or "
                                "more GPUs"),
        "out-of-memory-graphs": Policy(True, 0, "", "leave more memory outside the KV pool for CUDA graphs: a smaller "
                                       "memory fraction, or fewer and smaller graph sizes"),
        "out-of-memory-under-load": Policy(True, 0, "", "it starts and then dies of this load: a smaller memory "
                                           "fraction, batch or chunk of prefill"),
        "bad-flag": Policy(True, 0, "", "this version of the engine does not take the flag or the value"),
        "invalid-config": Policy(True, 0, "", "the engine refuses this combination"),
        "unsupported": Policy(True, 0, "", "the engine cannot do this for this model or GPU"),
        # Perhaps the configuration's: believed when it comes again.
        "host-out-of-memory": Policy(True, 1, _SAME, "the machine's own memory is used up: less offloading or host "
                                     "cache, fewer processes beside it"),
        "nccl": Policy(True, 1, _SAME, "communication between the GPUs failed; check the interconnect and NCCL "
                       "settings"),
        "start-stall": Policy(True, 1, _SAME, "the start did nothing for too long; see the log"),
        "start-timeout": Policy(True, 1, "the caches that the first start filled", "it was not ready in time; raise "
                                "`start_timeout` if it still worked"),
        "crash": Policy(True, 0, "", "the log above this line says more"),
        "crash-under-load": Policy(True, 1, _SAME, "it dies under this workload; do not run it in production"),
        "hang-under-load": Policy(True, 1, _SAME, "it stops answering under this workload; do not run it in "
                                  "production"),
        "invalid-measurement": Policy(True, 1, "a new server", "see what the check says; the figures are kept"),
        "unknown": Policy(True),
    }
)  # fmt: skip


def policy(kind: str) -> Policy:
    """The row of a kind; a kind that is not in the table counts and is not tried again."""
    return POLICIES.get(kind, POLICIES["unknown"])

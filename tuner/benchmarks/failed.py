"""What became of the requests that failed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tuner.benchmarks import Response, Run, Workload
from tuner.benchmarks.metrics import succeeded

FAILED_SHARE = 0.1  # of the requests, from which on a run is one of failures
SILENT_S = 1.0


def failures(responses: Sequence[Response]) -> str:
    """The classes of failed requests, the most frequent first, each with its most frequent error."""
    failed = [response for response in responses if not response.success]
    kinds = Counter(response.failure for response in failed)
    parts = []
    for kind, count in kinds.most_common(4):
        errors = Counter(response.error for response in failed if response.failure == kind)
        parts.append(f"{count} x {kind}: {errors.most_common(1)[0][0]}".rstrip(": "))
    return "; ".join(parts)


def failed_why(run: Run, workload: Workload) -> str:
    """Why the run shows failures rather than what the server can do; '' if it does not.

    Requests that were cut off with the run are no failures of their own, unless the run's time was over or the
    server had fallen silent.
    """
    cut = {"unfinished"} if run.stopped_early and not run.facts.get("timed_out") else set()
    over = [response for response in run.responses if response.success or response.failure not in cut]
    failed = [response for response in over if not succeeded(response, workload.definitions, workload.endpoint)]
    if len(failed) > FAILED_SHARE * len(over):
        return f"{len(failed)} of {len(over)} requests failed: {failures(failed)}"
    silent = _silent_s(run) if len(over) < len(run.responses) else 0.0
    if silent:
        return f"nothing came from the server in the last {silent:.3g} s, though requests were in flight"
    return ""


def _silent_s(run: Run) -> float:
    """Seconds before the run's end in which no token came; 0 unless that is longer than any whole answer took."""
    sent = [response for response in run.responses if response.start > 0]
    whole = max((response.latency for response in sent if response.success), default=0.0)
    if not whole or all(response.failure != "unfinished" for response in sent):
        return 0.0
    last = max(response.start + max(response.latency, response.ttft) for response in sent)
    silent = min(response.start for response in sent) + run.duration - last
    return silent if silent > max(SILENT_S, whole) else 0.0

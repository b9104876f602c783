"""The best launch so far as one JSON object, the measured command beside the exported one."""

from __future__ import annotations

import json
import math

from tuner.exporters import Exported, one_line
from tuner.history import History
from tuner.report.facts import deciding
from tuner.trial import Measurement


def render(made: Exported) -> str:
    history, head = made.history, made.headline
    measured = deciding(history, made.trial.configuration)
    found = {
        "study": history.study.name,
        "model": history.study.model,
        "engine": made.settings.engine,
        "command": list(made.launch.argv),
        "shell": one_line(made),
        "env": {name: f"${{{name}}}" if name in made.secrets else value for name, value in made.launch.env.items()},
        "files": dict(made.launch.files),
        "replicas": made.settings.replicas,
        "value": head.value,
        "metric": head.metric,
        "workload": head.workload,
        "baseline": head.baseline,
        "gain": head.gain if head.gain is not None and math.isfinite(head.gain) else None,
        "confirmed": head.confirmed,
        "finished": head.finished,
        "origin": history.origin,
        "simulated": history.origin == "simulated",
        "measured_command": made.measured_command,
        "trial": made.trial.number,
        "median_of": list(head.median_of),
        "fingerprint": made.settings.fingerprint,
        "metrics": dict(measured.metrics) if isinstance(measured, Measurement) else {},
        "configuration": dict(made.trial.configuration),
        "versions": _versions(history, made),
    }
    return json.dumps(found, indent=2, ensure_ascii=False, default=str) + "\n"


def _versions(history: History, made: Exported) -> dict[str, str | None]:
    """What study.yaml claims of each engine; the running engine's own answer where there is one."""
    versions = {name: spec.version for name, spec in history.study.engines.items()}
    effective = made.trial.outcome.effective if made.trial.outcome else None
    if effective is not None and effective.version:
        versions[made.settings.engine] = effective.version
    return versions

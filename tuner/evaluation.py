"""One trial: launch, ready, effective configuration, warm up, measure, stop. Where server and benchmark meet."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuner.benchmarks import Benchmark, Run, Workload, records
from tuner.benchmarks.metrics import aggregate
from tuner.benchmarks.verdicts import check, steady, together
from tuner.benchmarks.watching import Watch
from tuner.engines import Engine
from tuner.errors import TunerError
from tuner.executors import Job
from tuner.launchers import Identity, Launcher
from tuner.modelconfig import model_config
from tuner.node import gpu
from tuner.reading import read_effective, starving, version_mismatch
from tuner.redaction import known, scrubbed
from tuner.server import LaunchFailed, Limits, Server, serve
from tuner.spec import BenchmarkSpec
from tuner.trial import Effective, Failure, Launch, Measurement, Outcome, Slot, Verdict, shell

logger = logging.getLogger(__name__)

# Warm-up passes use prompts that no measured pass sees.
_WARM_UP_SEED = 1_000_000
_MOST_WARM_UPS = 4
# No token of any of the requests under way for that long: longer than any prefill that a benchmark waits for.
HANG_S = 300.0
# Where what is compiled at the first use is kept: vLLM, Triton, torch, FlashInfer, DeepGEMM.
_CACHES = (
    "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR",
    "FLASHINFER_WORKSPACE_BASE", "SGLANG_DG_CACHE_DIR", "DG_JIT_CACHE_DIR",
)  # fmt: skip
RECORDS = "records"  # the folder of them in a trial's own


@dataclass(frozen=True)
class Place:
    """Where and how launches of one engine are put to the test. `gpus` are real ones lent to the slot; `hang_s`: a
    pass ends when no token of any request has come for so many seconds."""

    engine: Engine
    launcher: Launcher
    client: Benchmark
    benchmark: BenchmarkSpec
    limits: Limits = field(default_factory=Limits)
    gpus: tuple[gpu.Gpu, ...] = ()
    version: str | None = None
    hang_s: float = HANG_S


@dataclass
class _Findings:
    """What is learned while the server is up; the outcome is made of it once the server is gone."""

    measurement: Measurement | None = None
    failure: Failure | None = None
    effective: Effective | None = None
    comparisons: dict[str, Measurement | Failure] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    records: Path | None = None

    def keep(self, run: Run, workload: Workload, model: str, repeat: int) -> None:
        """The records of a pass. That they cannot be kept is no reason to lose what was measured."""
        if self.records is None:
            return
        simulated = self.effective is not None and bool(self.effective.values.get("simulated"))
        run = replace(run, facts={**run.facts, "simulated": True}) if simulated else run
        try:
            records.write(self.records / f"{workload.name}-{repeat + 1}.npz", run, workload, model)
        except TunerError as error:
            self.notes.append(f"records of single requests were not kept: {error}")
            self.records = None


def evaluate(
    job: Job,
    place: Place,
    slot: Slot,
    *,
    record: Callable[[Identity], None],
    stop: threading.Event,
    notify: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Put one launch to the test. Whatever is wrong with the configuration comes back as a `Failure`.

    Raises:
        NodeSick: the node cannot go on.
        StorageError: the server's identity could not be recorded (nothing is left running).
    """
    launch = _lent(place.engine.launch(job.settings, slot, reading=not job.verbatim), place, job, slot)
    found = _Findings(records=slot.folder / RECORDS if place.benchmark.records else None)
    found.failure = _refused(job, place)
    try:
        if found.failure is None:
            with _server(launch, place, slot, record, stop, notify) as server:
                found.timings = server.timings
                _use(server, job, place, stop, notify, found)
    except LaunchFailed as failed:
        found.failure, found.timings = failed.failure, {**failed.timings, **found.timings}
    outcome = Outcome(
        measurement=found.measurement,
        failure=found.failure,
        effective=found.effective,
        comparisons=found.comparisons,
        timings=found.timings,
        command=shell(launch.argv, launch.env),
        fingerprint=launch.fingerprint,
        notes=tuple(found.notes),
    )
    return scrubbed(outcome, known({**os.environ, **launch.env, **launch.own_env}))


def _refused(job: Job, place: Place) -> Failure | None:
    """Why the engine would end before it is ready, as far as that is known beforehand: then it is not launched."""
    refusals = place.engine.refusals(job.settings, len(place.gpus) or None, model_config(job.settings.model))
    if not refusals:
        return None
    why = "; ".join(notice.text for notice in refusals)
    return Failure("invalid-config", f"not launched, as it could not start: {why}", hop="launch")


def _measure(
    server: Server,
    workload: Workload,
    place: Place,
    stop: threading.Event,
    notify: Callable[[str], None],
    found: _Findings,
) -> tuple[Measurement | None, Failure | None]:
    """Warm up, then measure as often as the study says, each pass with prompts of its own seed.

    An invalid measurement comes back with the failure beside it, for people to look at.
    """
    with _timed(found.timings, "warm-up"):
        failure = _warm_up(server, workload, place, stop, notify)
    if failure is not None:
        return None, failure
    runs: list[Run] = []
    verdicts: list[tuple[Verdict, ...]] = []
    with _timed(found.timings, "benchmark"):
        for repeat in range(place.benchmark.repeats):
            name = f"benchmark {workload.name}, pass {repeat + 1} of {place.benchmark.repeats}"
            run = _run(server, workload, place, workload.seed + repeat, stop, notify, name)
            if isinstance(run, Failure):
                return None, run
            verdicts.append(check(run, workload))
            found.keep(run, workload, server.model, repeat)
            runs.append(_without_responses(run))
    measurement = aggregate(runs, together(verdicts))
    return measurement, _invalid(measurement)


def _without_responses(run: Run) -> Run:
    """Nothing of the night's requests stays in memory."""
    return replace(run, responses=())


def _server(
    launch: Launch,
    place: Place,
    slot: Slot,
    record: Callable[[Identity], None],
    stop: threading.Event,
    notify: Callable[[str], None],
) -> AbstractContextManager[Server]:
    return serve(
        launch,
        place.engine,
        place.launcher,
        slot,
        place.limits,
        record,
        stop,
        on_progress=lambda text: notify(f"starting: {text}"),
        gpus=place.gpus,
    )


def _use(
    server: Server,
    job: Job,
    place: Place,
    stop: threading.Event,
    notify: Callable[[str], None],
    found: _Findings,
) -> None:
    """Everything between ready and stop."""
    with _timed(found.timings, "effective"):
        found.effective = read_effective(server, job, place.engine)
    if not server.proven:
        found.notes.append("the listener could not be proven to be this server's")
    found.failure = version_mismatch(place.engine.name, place.version, found.effective) or starving(
        job, found.effective
    )
    if found.failure is not None:
        return
    found.measurement, found.failure = _measure(server, job.workload, place, stop, notify, found)
    if found.measurement is not None:
        found.notes += [verdict.message for verdict in found.measurement.verdicts if verdict.valid]
    if found.failure is None:
        _compare(server, job.compare_on, place, stop, notify, found)


def _compare(
    server: Server,
    workloads: Sequence[Workload],
    place: Place,
    stop: threading.Event,
    notify: Callable[[str], None],
    found: _Findings,
) -> None:
    """The other workloads. What goes wrong with one is its result; the measurement that decides stays."""
    for workload in workloads:
        measured, failure = _measure(server, workload, place, stop, notify, found)
        if failure is not None and failure.kind == "interrupted":
            return
        found.comparisons[workload.name] = failure or measured or Failure("unknown", "no measurement")
        if failure is not None and not server.alive():
            found.comparisons |= {other.name: failure for other in workloads if other.name not in found.comparisons}
            return


def _warm_up(
    server: Server, workload: Workload, place: Place, stop: threading.Event, notify: Callable[[str], None]
) -> Failure | None:
    """Passes at the workload's own concurrency, until two in a row agree or the most there may be."""
    asked = place.benchmark.warmup
    if asked == 0:
        return None
    prompts = min(workload.num_prompts, 2 * workload.concurrency if asked is None else asked)
    shorter = replace(workload, num_prompts=prompts)
    before: float | None = None
    for turn in range(_MOST_WARM_UPS if asked is None else 1):
        name = f"warm-up {workload.name}, pass {turn + 1}"
        run = _run(server, shorter, place, workload.seed + _WARM_UP_SEED + turn, stop, notify, name)
        if isinstance(run, Failure):
            return run
        rate = run.metrics.get("total_token_throughput", 0.0)
        if before is not None and steady(before, rate):
            break
        before = rate
    return None


def _run(
    server: Server,
    workload: Workload,
    place: Place,
    seed: int,
    stop: threading.Event,
    notify: Callable[[str], None],
    name: str,
) -> Run | Failure:
    """One pass; a failure where the server ended or stopped answering meanwhile, or a stop was asked for."""
    notify(name)
    found: list[Failure] = []

    def lost() -> bool:
        if failure := server.check():
            found.append(failure)
        return bool(found)

    watch = Watch(lambda text: notify(f"{name}: {text}"), place.hang_s, lost)
    run = place.client.run(
        [server.url],
        server.model,
        workload,
        seed=seed,
        timeout_s=place.benchmark.timeout_s,
        stop=stop,
        on_event=watch,
    )
    failure = _interrupted(stop) or next(iter(found), None) or server.check()
    if failure is None and watch.hung:
        failure = Failure("hang-under-load", watch.hung, log=server.log_text(), hop="benchmark")
    return failure or run


def _invalid(measurement: Measurement) -> Failure | None:
    broken = [verdict.message for verdict in measurement.verdicts if not verdict.valid]
    return Failure("invalid-measurement", "; ".join(broken), hop="benchmark") if broken else None


def _interrupted(stop: threading.Event) -> Failure | None:
    return Failure("interrupted", "stopped by request", hop="benchmark") if stop.is_set() else None


def _lent(launch: Launch, place: Place, job: Job, slot: Slot) -> Launch:
    """The launch with the GPUs it may see, that is the slot's matter and no part of the command; and with caches of
    its own after one that broken ones ended."""
    if "cache-poisoned" in job.after and not job.verbatim:
        caches = {name: str(slot.folder / "caches" / name.lower()) for name in _CACHES if name not in launch.env}
        launch = replace(launch, own_env={**launch.own_env, **caches})
    if not place.gpus:
        return launch
    wanted = place.gpus[: place.engine.gpus(job.settings) * job.settings.replicas]
    return replace(launch, own_env={**launch.own_env, "CUDA_VISIBLE_DEVICES": ",".join(g.uuid for g in wanted)})


class _timed:
    """Adds the seconds spent inside to `timings[hop]`."""

    def __init__(self, timings: dict[str, float], hop: str) -> None:
        self._timings, self._hop = timings, hop

    def __enter__(self) -> None:
        self._begun = time.monotonic()

    def __exit__(self, *exc: object) -> None:
        self._timings[self._hop] = self._timings.get(self._hop, 0.0) + time.monotonic() - self._begun

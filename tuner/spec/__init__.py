"""What a person writes, checked: the study as a value. `load` is the one function that reads a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any, Literal

from tuner.benchmarks import Workload
from tuner.errors import Fault
from tuner.objective import Method, Objective
from tuner.space import SearchSpace
from tuner.trial import fingerprint


@dataclass(frozen=True)
class EngineSpec:
    """How one engine is started here. `version` is a claim; the running engine's own answer is the truth."""

    name: str
    version: str | None = None
    launcher: str = "process"
    launcher_options: Mapping[str, Any] = field(default_factory=dict)
    start_timeout_s: float = 1800.0
    stall_timeout_s: float = 600.0


@dataclass(frozen=True)
class NodeSpec:
    """The node: `gpus` a number, "auto", or UUIDs; 0 asks no driver. `simulated` counts pretended GPUs.

    `port`: the port servers listen on, None picks one of `ports` that is free and not lent to another study.
    """

    gpus: int | Literal["auto"] | tuple[str, ...] = "auto"
    simulated: int = 0
    foreign: Literal["refuse", "wait", "warn"] = "refuse"
    foreign_wait_s: float = 0.0
    port: int | None = None


@dataclass(frozen=True)
class BenchmarkSpec:
    """Which client measures, how it warms up (None: until steady; else that many requests), repeats per launch.

    `processes` carry the load together; `records` keeps every request's times in the trial's folder.
    """

    client: str = "tuner"
    warmup: int | None = None
    repeats: int = 3
    timeout_s: float = 3600.0
    processes: int = 1
    records: bool = True


@dataclass(frozen=True)
class Budget:
    """When to stop asking for more: seconds of wall time of this run, a clock time, a number of trials in all."""

    wall_time_s: float | None = None
    until: str | None = None
    trials: int | None = None


@dataclass(frozen=True)
class StudySpec:
    """One study, checked and complete. `space` is canonical and bound: flags are spelled as each engine's version
    does, what is fixed under `engines` is in it, and a baseline command is the first stage's option `baseline`.
    `notes` say what of it is left out."""

    name: str
    folder: Path
    model: str
    space: SearchSpace
    engines: Mapping[str, EngineSpec]
    workloads: Mapping[str, Workload]
    objective: Objective
    method: Method
    node: NodeSpec = NodeSpec()
    benchmark: BenchmarkSpec = BenchmarkSpec()
    budget: Budget = Budget()
    compare_on: tuple[str, ...] = ()
    storage: str | None = None
    file: Path | None = None
    space_file: Path | None = None
    notes: tuple[str, ...] = ()

    @property
    def workload(self) -> Workload:
        """The workload that decides."""
        return self.workloads[self.objective.workload]

    @property
    def fingerprint(self) -> str:
        """Identity of the study: model, space, engine versions, what is measured and compared, node size.

        Host, GPU UUIDs, method, budget and the folder the study, a dataset or tokenizer lies in are no part of it:
        what was measured still counts when they change.
        """
        launches = repr([self.model, self.space]).replace(str(self.folder.absolute()), ".")
        compared = [_unplaced(self.workloads[name]) for name in self.compare_on]
        return fingerprint([launches, self.versions, self.measures, compared])

    @property
    def measures(self) -> str:
        """Identity of what a measurement means, launch and engine version aside."""
        node = self.node.simulated or (len(self.node.gpus) if isinstance(self.node.gpus, tuple) else self.node.gpus)
        return fingerprint(
            [_unplaced(self.workload), repr(self.objective), str(node), self.benchmark.client, self.benchmark.warmup]
        )

    @property
    def versions(self) -> dict[str, str | None]:
        """The version claimed of each engine."""
        return {name: engine.version for name, engine in self.engines.items()}


def load(path: Path, method: str | None = None) -> StudySpec:
    """The study written in a folder's `study.yaml` or in a YAML file, checked and complete. Starts nothing.

    `method` replaces the study's own. Files that only a live run needs are left to `check_files`.

    Raises:
        SpecError: with every fault in the study and its search space, each with file, line and path in it.
    """
    from tuner.spec import studyfile  # reading needs pydantic and this module's values

    return studyfile.load(path, method)


def load_space(path: Path | str) -> SearchSpace:
    """A search space by itself, for an objective of one's own: a path, or the name of one that is shipped.

    Flags are spelled as the newest known version of each engine in it does; nothing is fixed.

    Raises:
        SpecError: with every fault in it.
    """
    from tuner.spec import studyfile

    return studyfile.load_space(str(path))


def check_files(spec: StudySpec) -> list[Fault]:
    """What a live run needs on this machine and does not find: datasets, tokenizers, models written as paths,
    the launchers' program folders."""
    from tuner.spec import needs

    return needs.check_files(spec)


def _unplaced(workload: Workload) -> str:
    """A workload without the folders its files lie in, by what of it is not the default: a field that comes to be
    changes no study that does not use it."""
    path, tokenizer = (each and Path(each).name for each in (workload.path, workload.tokenizer))
    placed = replace(workload, path=path, tokenizer=tokenizer)
    changed = {
        f.name: value for f in fields_of(Workload) if (value := getattr(placed, f.name)) != getattr(Workload(), f.name)
    }
    return repr(changed)

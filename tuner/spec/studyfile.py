"""From what a person wrote to a `StudySpec`: read, checked as a whole, bound to the engines. Starts nothing."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from tuner import engines
from tuner.benchmarks import RampUp, Workload
from tuner.benchmarks.hub import is_hub_name
from tuner.engines import ENGINES, Engine, FlagError
from tuner.engines.commands import split_env
from tuner.errors import Fault, SpecError
from tuner.modelconfig import model_config
from tuner.objective import METHODS, Method, Objective
from tuner.space import Changes, Option, SearchSpace
from tuner.spec import (
    BenchmarkSpec,
    Budget,
    EngineSpec,
    NodeSpec,
    StudySpec,
    canonical,
    room,
    schema,
    spacefile,
    workloadschema,
    yamlfile,
)
from tuner.spec.faults import MOST, check, nearest, ordered
from tuner.spec.fields import local_model
from tuner.spec.spacefile import Written
from tuner.spec.yamlfile import MOST_WRITTEN, Document

Adapters: TypeAlias = Callable[[str, "str | None"], Engine]
STUDY_FILE = "study.yaml"


def load(path: Path, method: str | None = None, adapters: Adapters = engines.engine) -> StudySpec:
    """The study in a folder or file; see `tuner.spec.load`. `adapters` gives an engine's adapter at a version."""
    file = _study_file(path)
    document = yamlfile.scan(file, values=MOST_WRITTEN)
    folder = Path(os.path.abspath(file)).parent
    study, faults = check(schema.Study, document)
    faults += document.faults
    faults += _method_faults(method)
    faults += _workload_names(document, study)
    written, more = spacefile.read(document, folder)
    faults += more
    parts, more = _bound(document, study, written, adapters)
    faults += more
    if not faults and written is not None:
        faults += islice(_cannot_start(document, study, written, parts), MOST)
    if faults:
        raise SpecError(ordered(faults))
    return _spec(file, folder, study, parts, written, method)


def load_space(name: str, adapters: Adapters = engines.engine) -> SearchSpace:
    """A search space without a study; see `tuner.spec.load_space`."""
    written, faults = spacefile.read_alone(name)
    names = dict.fromkeys(spacefile.engines_named(written))
    bound = canonical.bind(
        written.document, written.stages, canonical.Binding({engine: adapters(engine, None) for engine in names})
    )
    if faults or bound.faults:
        raise SpecError(ordered([*faults, *bound.faults]))
    return SearchSpace(bound.stages, written.name, engines=tuple(names))


@dataclass(frozen=True)
class _Parts:
    """What of a study needs its engines: their specifications and adapters, and the search space bound to them."""

    engines: Mapping[str, EngineSpec]
    space: SearchSpace
    adapters: Mapping[str, Engine | None]
    notes: tuple[str, ...] = ()


def _study_file(path: Path) -> Path:
    """The study's file; a path that leads nowhere is told with what is there instead."""
    try:
        if path.is_dir():
            if not (path / STUDY_FILE).exists():
                others = sorted(other.name for other in path.glob("*.yaml"))[:5]
                way_out = f"there is {', '.join(others)}: name that file" if others else "write one, or name its folder"
                raise SpecError([Fault(f"there is no {STUDY_FILE} in this folder", str(path), way_out=way_out)])
            return path / STUDY_FILE
        if path.exists():
            return path
        near = nearest(path.name, (other.name for other in path.parent.iterdir())) if path.parent.is_dir() else ""
    except (OSError, ValueError) as error:
        trouble = error.strerror if isinstance(error, OSError) else "is not the name of a file"
        raise SpecError([Fault(f"the study cannot be read: {trouble}", str(path))]) from None
    way_out = near if near.startswith("did you mean") else "name a study's folder or its study.yaml"
    raise SpecError([Fault("there is no such study", str(path), way_out=way_out)])


def _method_faults(method: str | None) -> list[Fault]:
    if method is None or method in METHODS:
        return []
    planned = method in schema.PLANNED_METHODS
    rule = "this version does not have this method yet" if planned else "there is no method of this name"
    way_out = f"methods are {', '.join(METHODS)}" if planned else nearest(method, METHODS, "methods")
    return [Fault(rule, path="--method", value=yamlfile.shown(method), way_out=way_out)]


def _workload_names(document: Document, study: schema.Study) -> Iterator[Fault]:
    """Workloads are named by the objective and by compare_on."""
    known = document.at(("workloads",))
    if not isinstance(known, dict) or not known:
        return
    named = study.objective.workload
    if named is None and len(known) > 1 and document.at(("objective", "workload")) is None:
        way_out = f"write objective: {{workload: {next(iter(known))}}}"
        yield document.fault(("objective",), "must say which of several workloads decides", None, way_out)
    if named is not None and named not in known:
        way_out = nearest(named, known, "workloads")
        yield document.fault(("objective", "workload"), "there is no workload of this name", named, way_out)
    for index, name in enumerate(study.compare_on):
        if name not in known:
            way_out = nearest(name, known, "workloads")
            yield document.fault(("compare_on", index), "there is no workload of this name", name, way_out)
        elif name in study.compare_on[:index]:
            yield document.fault(("compare_on", index), "the workload is listed twice", name, "name it once")


def _bound(
    document: Document, study: schema.Study, written: Written | None, adapters: Adapters
) -> tuple[_Parts, list[Fault]]:
    """Engines and search space. An engine whose version cannot be had is a fault, and its flags go unchecked."""
    listed = document.at(("engines",))
    names = [name for name in listed if name in ENGINES] if isinstance(listed, dict) else []
    used = {name: (study.engines or {}).get(name) or schema.Engine() for name in names or ENGINES}
    had, faults = _adapters(document, used, adapters)
    fixed: dict[str, Changes] = {}
    for name, engine in used.items():
        adapter = had[name]
        place = ("engines", name, "args")
        args, more = canonical.flags(adapter, engine.args, document, place) if adapter else ({}, [])
        fixed[name] = Changes(args, engine.env)
        faults += more
    binding = canonical.Binding(had, fixed)
    bound = canonical.bind(written.document, written.stages, binding) if written else canonical.Bound()
    models = {name: local_model(engine.model, document.file) for name, engine in used.items() if engine.model}
    model = local_model(study.model or "", document.file)
    space = SearchSpace(bound.stages, written.name if written else "", model, tuple(used), models, fixed)
    space, more = _with_baseline(document, study, space, had)
    specs = {name: _engine_spec(name, engine, document) for name, engine in used.items()}
    return _Parts(specs, space, had, bound.notes), [*faults, *bound.faults, *more]


def _cannot_start(document: Document, study: schema.Study, written: Written, parts: _Parts) -> Iterator[Fault]:
    """What takes more GPUs than the node has, and what no choice before it lets start, where the study says how many
    GPUs there are and starts servers on them."""
    node = _node(study.node)
    listed = len(node.gpus) if isinstance(node.gpus, tuple) else node.gpus
    gpus = node.simulated or (0 if listed == "auto" else listed)
    if gpus:
        started = {n: a for n, a in parts.adapters.items() if a and parts.engines[n].launcher != "attach"}
        places = {stage.name or "": place for place, stage in written.stages}
        loaded = {name: parts.space.models.get(name, parts.space.model) for name in started}
        models = {name: config for name, model in loaded.items() if (config := model_config(model)) is not None}
        there = room.Node(gpus, started, models)
        yield from room.faults(document, written.document, places, parts.space, there)
        yield from room.refused(written.document, places, parts.space, there)


def _adapters(
    document: Document, used: Mapping[str, schema.Engine], adapters: Adapters
) -> tuple[dict[str, Engine | None], list[Fault]]:
    had: dict[str, Engine | None] = {}
    faults: list[Fault] = []
    for name, engine in used.items():
        had[name] = None
        try:
            had[name] = adapters(name, engine.version)
        except SpecError as error:
            faults.append(document.fault(("engines", name, "version"), str(error), engine.version))
    return had, faults


def _with_baseline(
    document: Document, study: schema.Study, space: SearchSpace, adapters: Mapping[str, Engine | None]
) -> tuple[SearchSpace, list[Fault]]:
    """The space with the baseline's command as the first stage's first option."""
    if study.baseline is None:
        return space, []
    place = ("baseline", "command")
    try:
        env, argv = split_env(shlex.split(study.baseline.command))
        if not argv:
            return space, [document.fault(place, "holds no command", None, "write the command that runs today")]
        name = engines.engine_of_command(argv)
        if name not in adapters:
            way_out = f"list {name} under engines, or leave the baseline out"
            return space, [document.fault(place, f"starts {name}, which is no engine of this study", None, way_out)]
        adapter = adapters[name]
        if adapter is None:
            return space, []
        settings = adapter.parse(argv, {**env, **study.baseline.env})
    except FlagError as error:
        return space, [document.fault(place, f"{error.flag}: {error.rule}", error.value, error.way_out)]
    except ValueError as error:
        return space, [document.fault(place, f"is not a command line: {str(error).lower()}", None, "check its quotes")]
    if not space.stages or not space.stages[0].options:
        return space, []
    if any(option.name == "baseline" for option in space.stages[0].options):
        rule = "the first stage has an option named baseline already"
        return space, [document.fault(("baseline",), rule, None, "rename that option, or leave the baseline out")]
    named = local_model(settings.model, document.file)
    if named not in _models(space, name):
        way_out = f"if it is meant to differ, write engines: {{{name}: {{model: {settings.model}}}}}"
        return space, [document.fault(place, f"serves another model than the study's {space.model}", named, way_out)]
    model = named if named != space.models.get(name, space.model) else None
    fixed = space.fixed.get(name, Changes())
    option = Option(
        "baseline", {name: _verbatim(Changes(settings.args, settings.env, model, settings.replicas), fixed)}
    )
    first = replace(space.stages[0], options=(option, *space.stages[0].options))
    return space.replacing(stages=(first, *space.stages[1:])), []


def _models(space: SearchSpace, engine: str) -> set[str]:
    """The study's model, and every other one that it gives this engine."""
    options = (option for stage in space.stages for option in stage.options)
    given = {option.engines[engine].model for option in options if engine in option.engines}
    return {space.model, space.models.get(engine, space.model), *(model for model in given if model)}


def _verbatim(changes: Changes, fixed: Changes) -> Changes:
    """What runs today is measured as it runs: what is fixed for the others and not in its command is removed."""
    return replace(
        changes,
        args={**{flag: None for flag in fixed.args if flag not in changes.args}, **changes.args},
        env={**{name: None for name in fixed.env if name not in changes.env}, **changes.env},
    )


def _engine_spec(name: str, engine: schema.Engine, document: Document) -> EngineSpec:
    options: dict[str, Any] = engine.launcher.model_dump(exclude={"type"}, exclude_none=True)
    if "path" in options:
        options["path"] = _relative(options["path"], Path(document.file).parent)
    return EngineSpec(name, engine.version, engine.launcher.type, options, engine.start_timeout, engine.stall_timeout)


def _relative(path: str, folder: Path) -> str:
    """A path as written in the study's file, absolute."""
    return os.path.abspath(folder / os.path.expanduser(path))


def _spec(
    file: Path, folder: Path, study: schema.Study, parts: _Parts, written: Written | None, method: str | None
) -> StudySpec:
    workloads = {name: _workload(name, workload, folder) for name, workload in (study.workloads or {}).items()}
    return StudySpec(
        name=folder.name if file.name == STUDY_FILE else file.stem,
        folder=folder,
        model=parts.space.model,
        space=parts.space,
        engines=parts.engines,
        workloads=workloads,
        objective=_objective(study.objective, tuple(workloads)),
        method=METHODS[method] if method else _method(study.method),
        node=_node(study.node),
        benchmark=_benchmark(study.benchmark),
        budget=Budget(study.budget.wall_time, study.budget.until, study.budget.trials),
        compare_on=tuple(study.compare_on),
        storage=study.storage,
        file=folder / file.name,
        space_file=written.file if written else None,
        notes=parts.notes,
    )


def _workload(name: str, workload: workloadschema.Workload, folder: Path) -> Workload:
    fields = workload.model_dump(exclude={"sharegpt_output_len", "ramp_up"})
    if workload.sharegpt_output_len is not None:
        fields["fixed_output_len"] = workload.sharegpt_output_len
    if fields["path"] is not None:
        fields["path"] = _relative(fields["path"], folder)
    if fields["tokenizer"] is not None and not is_hub_name(fields["tokenizer"]):
        fields["tokenizer"] = _relative(fields["tokenizer"], folder)
    ramp_up = RampUp(**workload.ramp_up.model_dump()) if workload.ramp_up else None
    return Workload(name=name, ramp_up=ramp_up, **fields)


def _benchmark(written: schema.Benchmark) -> BenchmarkSpec:
    return BenchmarkSpec(
        written.client, written.warmup, written.repeats, written.timeout, written.processes, written.records
    )


def _objective(written: schema.Objective, workloads: Sequence[str]) -> Objective:
    metric = written.maximize or written.minimize or Objective.metric
    return Objective(metric, written.minimize is None, written.workload or workloads[0], written.limits)


def _method(written: str | schema.MethodTable) -> Method:
    if isinstance(written, str):
        return METHODS[written]
    base = METHODS[written.base]
    changed = replace(base, **written.model_dump(exclude={"base"}, exclude_none=True))
    return base if changed == base else replace(changed, name=f"{base.name}, changed")


def _node(written: schema.Node) -> NodeSpec:
    action, wait_s = written.foreign
    if isinstance(written.gpus, dict):
        return NodeSpec(0, written.gpus["simulated"], action, wait_s, written.port)
    return NodeSpec(written.gpus, 0, action, wait_s, written.port)

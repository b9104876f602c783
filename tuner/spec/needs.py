"""What a live run of a study needs on this machine: its datasets, tokenizers, models, and the engines' folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tuner.benchmarks import Workload, datasets
from tuner.benchmarks.tokenizer import load_tokenizer
from tuner.errors import Fault, SpecError
from tuner.spec import EngineSpec, StudySpec, yamlfile
from tuner.spec.yamlevents import Place
from tuner.spec.yamlfile import Document


def check_files(spec: StudySpec) -> list[Fault]:
    """See `tuner.spec.check_files`."""
    try:
        document = yamlfile.scan(spec.file) if spec.file else Document("", {})
    except SpecError as error:
        return list(error.faults)
    faults: list[Fault] = []
    for name in dict.fromkeys((spec.objective.workload, *spec.compare_on)):
        faults += _missing_files(document, spec.workloads[name])
    for name, engine in spec.engines.items():
        faults += _missing_model(document, spec, engine)
        path = engine.launcher_options.get("path")
        if path is not None and not os.path.isdir(path):
            rule, way_out = f"there is no folder {path}", "name the bin folder in which the engine's program is"
            faults.append(document.fault(("engines", name, "launcher", "path"), rule, None, way_out))
    return faults


def _missing_files(document: Document, workload: Workload) -> Iterator[Fault]:
    """What a workload's prompts are made of, and the lines in it that cannot be read."""
    trouble = _unreadable(Path(workload.path)) if workload.path is not None else ""
    if trouble:
        way_out = "put the file there; a path is relative to the study's file"
        yield document.fault(("workloads", workload.name, "path"), trouble, None, way_out)
    try:
        if not trouble:
            datasets.check(workload)
    except SpecError as error:
        yield from error.faults
    try:
        if workload.tokenizer is not None:
            load_tokenizer(workload.tokenizer, workload.definitions)
    except SpecError as error:
        for fault in error.faults:
            rule = f"{fault.rule}: {fault.value}" if fault.value else fault.rule
            yield document.fault(("workloads", workload.name, "tokenizer"), rule, workload.tokenizer, fault.way_out)


def _missing_model(document: Document, spec: StudySpec, engine: EngineSpec) -> Iterator[Fault]:
    """A model written as a path is a folder (or file) of this machine, if a process of this machine is to load it."""
    own: Place = ("engines", engine.name, "model")
    place: Place = own if engine.name in spec.space.models else ("model",)
    written, model = document.at(place), spec.space.models.get(engine.name, spec.model)
    loads = engine.launcher == "process" and not engine.launcher_options.get("simulated")
    if loads and written != model and not os.path.exists(model):
        way_out = "put the model there; a path is relative to the study's file"
        yield document.fault(place, f"there is no model {model}", written, way_out)


def _unreadable(path: Path) -> str:
    """Why a file cannot be read, '' if it can."""
    try:
        if not path.exists():
            return f"there is no file {path}"
        if not path.is_file():
            return f"{path} is not a file"
        return "" if os.access(path, os.R_OK) else f"there is no permission to read {path}"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"

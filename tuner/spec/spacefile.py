"""The search space of a study as it is written: found (shipped, a file, or inline), read, and checked in itself.

What needs an engine's adapter (are there such flags?) is checked by `tuner.spec.canonical`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner import locate
from tuner.errors import Fault, SpecError
from tuner.spec import yamlfile
from tuner.spec.faults import check, nearest
from tuner.spec.spaceschema import Space, Stage
from tuner.spec.yamlevents import Place
from tuner.spec.yamlfile import MOST_WRITTEN, Document, shown


@dataclass(frozen=True)
class Written:
    """A search space as written. `stages` pairs each stage with its place; faulty parts are left out of them."""

    document: Document
    name: str
    file: Path | None
    stages: tuple[tuple[Place, Stage], ...]


def read(study: Document, folder: Path) -> tuple[Written | None, list[Fault]]:
    """The search space that a study names, and its faults; None when it cannot be read at all."""
    place: Place = ("search_space",)
    value = study.at(place)
    if isinstance(value, dict):
        return _checked(study, place, "inline", None)
    if not isinstance(value, str) or not value.strip():
        return None, []
    path = _file(value, folder)
    if path is None:
        return None, [study.fault(place, "there is no search space of this name", value, _near(value))]
    try:
        document = yamlfile.scan(path, values=MOST_WRITTEN)
    except SpecError as error:
        if not path.exists():
            way_out = "a path is relative to the study's file; tuner spaces lists the names of those shipped"
            return None, [study.fault(place, f"there is no file {path}", value, way_out)]
        return None, list(error.faults)
    written, faults = _checked(document, (), path.stem, path)
    return written, [*document.faults, *faults]


def read_alone(name: str) -> tuple[Written, list[Fault]]:
    """A search space without a study: a shipped one's name, or a path.

    Raises:
        SpecError: there is none, or it cannot be read at all.
    """
    path = _file(name, Path())
    if path is None:
        raise SpecError([Fault("there is no search space of this name", value=shown(name), way_out=_near(name))])
    document = yamlfile.scan(path, values=MOST_WRITTEN)
    written, faults = _checked(document, (), path.stem, path)
    return written, [*document.faults, *faults]


def engines_named(written: Written) -> Iterator[str]:
    """Every engine that an option or a parameter names, in order."""
    for _, stage in written.stages:
        for engines in (stage.options or {}).values():
            yield from engines
        for domains in (stage.parameters or {}).values():
            yield from domains


def _near(name: str) -> str:
    return nearest(name, locate.shipped(), "search spaces shipped") + "; a path has a / or ends in .yaml"


def _file(value: str, folder: Path) -> Path | None:
    """The file a study's `search_space` means; None for a name that is not shipped."""
    if "/" in value or value.endswith((".yaml", ".yml")):
        return folder / os.path.expanduser(value)
    return locate.shipped().get(value)


def _checked(document: Document, place: Place, name: str, file: Path | None) -> tuple[Written, list[Fault]]:
    _, faults = check(Space, document, place)
    written = document.at((*place, "stages"))
    stages: list[tuple[Place, Stage]] = []
    for index in range(len(written) if isinstance(written, list) and len(written) <= 100 else 0):
        at: Place = (*place, "stages", index)
        stage, more = check(Stage, document, at)
        stages.append((at, stage))
        faults += more
    faults += _names(document, stages)
    for position, (at, _) in enumerate(stages):
        faults += _kind(document, at)
        faults += _with(document, stages[: position + 1], stages)
    return Written(document, name, file, tuple(stages)), faults


def _names(document: Document, stages: Sequence[tuple[Place, Stage]]) -> Iterator[Fault]:
    """A configuration tells stages apart by name."""
    seen: set[str] = set()
    for at, stage in stages:
        if stage.name is not None and stage.name in seen:
            way_out = "give one of them another name"
            yield document.fault((*at, "name"), "there is a stage of this name already", stage.name, way_out)
        seen.add(stage.name or "")


def _kind(document: Document, at: Place) -> Iterator[Fault]:
    """A stage is one decision with options, or several parameters tuned together."""
    data = document.at(at)
    if not isinstance(data, dict):
        return
    if data.get("options") is None and data.get("parameters") is None:
        yield document.fault(at, "a stage needs options or parameters", None, "add options: {default: {}, ...}")
    elif "options" in data and "parameters" in data:
        yield document.fault(at, "a stage has options or parameters, not both", None, "make two stages of it")
    elif "parameters" not in data:
        for name in ("search", "rules"):
            if name in data:
                rule = "belongs to a stage with parameters; all options are tried"
                yield document.fault((*at, name), rule, None, "leave it out")


def _with(
    document: Document, so_far: Sequence[tuple[Place, Stage]], stages: Sequence[tuple[Place, Stage]]
) -> Iterator[Fault]:
    """`with:` names options of earlier stages."""
    at, stage = so_far[-1]
    earlier = {_raw_name(document, place): place for place, _ in so_far[:-1]}
    later = {_raw_name(document, place) for place, _ in stages[len(so_far) - 1 :]}
    for name, option in stage.with_.items():
        place = (*at, "with", name)
        if name not in earlier:
            rule = "is not an earlier stage" if name in later else "there is no stage of this name"
            way_out = nearest(name, [str(n) for n in earlier if n], "earlier stages") or "leave with: out"
            yield document.fault(place, rule, name, way_out)
            continue
        options = document.at((*earlier[name], "options"))
        if not isinstance(options, dict) or option not in options:
            known = options if isinstance(options, dict) else ()
            yield document.fault(
                place, f"stage {name} has no option of this name", option, nearest(option, known, "its options")
            )


def _raw_name(document: Document, place: Place) -> Any:
    """The stage's name even where another part of the stage is at fault."""
    name = document.at((*place, "name"))
    return name if isinstance(name, str) else None

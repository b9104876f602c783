"""Is there room on the node for what a search space asks for, and would its engine start with it? What can never be is
told before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any, TypeAlias

from tuner.engines import Engine, Notice
from tuner.errors import Fault
from tuner.space import Option, SearchSpace, Stage
from tuner.spec.yamlevents import Place
from tuner.spec.yamlfile import Document
from tuner.trial import Scalar

Chosen: TypeAlias = "dict[str, Scalar]"


MOST_TRIED = 200  # choices in the stages before, for an option that is refused with each of them
MOST_COUNTS = 20_000  # more than any space that people write needs; what is left then is told at its launch


@dataclass(frozen=True)
class Node:
    """The node as far as it is known beforehand: how many GPUs, the adapters of the engines started on it, and the
    config.json of the model that each of them loads, where it is at hand."""

    gpus: int
    adapters: Mapping[str, Engine]
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def faults(
    study: Document, document: Document, places: Mapping[str, Place], space: SearchSpace, node: Node
) -> Iterator[Fault]:
    """Each option, and each range by its upper end, that takes more GPUs than there are whatever is chosen before it.

    `study` is where engines and the baseline are written, `document` where the stages are, `places` where each is.
    """
    try:
        for engine, adapter in node.adapters.items():
            alone = space.replacing(stages=(), engines=(engine,)).settings({})
            if adapter.gpus(alone) > node.gpus:
                yield _fault(study, ("engines", engine, "args"), adapter.gpus(alone), node)
                continue
            on = _On(space, engine, adapter)
            for index, stage in enumerate(space.stages if on.used else ()):
                yield from _options(study, document, places[stage.name], on, index, node)
                yield from _ranges(document, places[stage.name], on, index, node)
    except _TooMany:
        return


def refused(document: Document, places: Mapping[str, Place], space: SearchSpace, node: Node) -> Iterator[Fault]:
    """Each option that its engine would not start with, whatever is chosen before it, by what is known of the engine
    and of its model. What depends on that choice is told at the launch (`Engine.refusals`)."""
    for engine, adapter in node.adapters.items():
        on = _On(space, engine, adapter)
        for index, stage in enumerate(space.stages if on.used else ()):
            for option in on.own(stage):
                if why := _always(on, index, option, node.models.get(engine)):
                    at = (*places[stage.name], "options", option.name, engine)
                    yield document.fault(at, f"{engine} {adapter.version} would not start: {why}")


def _always(on: _On, index: int, option: Option, model: Mapping[str, Any] | None) -> str:
    """Why it is refused with every choice before it; '' where one lets it start, or there are too many to try."""
    stages = [stage for stage in on.space.stages[:index] if stage.options]
    put_on = _put_on(on, on.space.stages[index])
    offered = [on.offered(on.space.stages.index(stage)) for stage in stages]
    why = ""
    for tried, chosen in enumerate(islice(product(*offered), MOST_TRIED + 1)):
        before = {stage.name: each.name for stage, each in zip(stages, chosen, strict=True)}
        notices = on.refusals({**before, **put_on, on.space.stages[index].name: option.name}, model)
        if not notices or tried == MOST_TRIED:
            return ""
        why = why or notices[0].text
    return why


class _TooMany(Exception):
    """The space is larger than it is counted through."""


class _On:
    """A search space on one of its engines: counts GPUs."""

    def __init__(self, space: SearchSpace, engine: str, adapter: Engine) -> None:
        self.space, self.engine, self._adapter = space, engine, adapter
        self._left = MOST_COUNTS
        self._sole = len(space.engines) == 1
        self.used = self._sole or any(self.own(stage) for stage in space.stages[:1])

    def own(self, stage: Stage) -> list[Option]:
        """The options that change something on this engine; those that change nothing are of the only engine too."""
        return [o for o in stage.options if self.engine in o.engines or (not o.engines and self._sole)]

    def offered(self, index: int) -> list[Option]:
        stage = self.space.stages[index]
        return self.own(stage) if index == 0 else self.space.offered(stage, self.engine)

    def before(self, index: int) -> Chosen:
        """The first option that this engine is offered in each stage before this one."""
        stages = self.space.stages[:index]
        return {stage.name: options[0].name for i, stage in enumerate(stages) if (options := self.offered(i))}

    def count(self, chosen: Mapping[str, Scalar]) -> int:
        self._left -= 1
        if self._left < 0:
            raise _TooMany
        settings = self.space.settings(chosen)
        return self._adapter.gpus(settings) * settings.replicas

    def refusals(self, chosen: Mapping[str, Scalar], model: Mapping[str, Any] | None) -> Sequence[Notice]:
        settings = self.space.settings(chosen)
        if model is not None and settings.model != self.space.models.get(self.engine, self.space.model):
            model = None  # another checkpoint than the one that was read
        return self._adapter.refusals(settings, model=model)

    def least(self, index: int, before: Chosen, held: Mapping[str, Scalar], enough: int) -> int:
        """The fewest GPUs with `held` on any choice in the stages before: choice by choice, until it is enough or
        none lowers it."""
        chosen = {**before, **held}
        least, lowered = self.count(chosen), True
        while lowered and least > enough:
            lowered = False
            for i, stage in enumerate(self.space.stages[:index]):
                for option in self.offered(i) if stage.name not in held else ():
                    other = {**chosen, stage.name: option.name}
                    if (number := self.count(other)) < least:
                        chosen, least, lowered = other, number, True
        return least


def _options(study: Document, document: Document, place: Place, on: _On, index: int, node: Node) -> Iterator[Fault]:
    stage, before = on.space.stages[index], on.before(index)
    if index and on.least(index, before, {}, node.gpus) > node.gpus:
        return  # told already, where it was chosen
    for option in on.own(stage):
        found = on.least(index, before, {**_put_on(on, stage), stage.name: option.name}, node.gpus)
        if found > node.gpus and index == 0 and option.name == "baseline" and study.at(("baseline",)) is not None:
            yield _fault(study, ("baseline", "command"), found, node)
        elif found > node.gpus:
            yield _fault(document, (*place, "options", option.name, on.engine), found, node)


def _put_on(on: _On, stage: Stage) -> Chosen:
    """`with:` of a stage, as far as this engine is offered it."""
    return {
        name: option
        for name, option in stage.with_.items()
        if on.space.stage(name).option(option).offered_to(on.engine)
    }


def _ranges(document: Document, place: Place, on: _On, index: int, node: Node) -> Iterator[Fault]:
    stage, before = on.space.stages[index], on.before(index)
    domains = [(p.name, p.engines[on.engine]) for p in stage.parameters if on.engine in p.engines]
    if not domains or on.least(index, before, {}, node.gpus) > node.gpus:
        return
    for flag, domain in domains:
        for value in domain.choices or (domain.high,):
            found = on.least(index, before, {**_put_on(on, stage), flag: value}, node.gpus)
            if found > node.gpus:
                written = _written_name(document.at((*place, "parameters")), flag)
                yield _fault(document, (*place, "parameters", written, on.engine), found, node, value)
                break


def _fault(document: Document, place: Place, found: int, node: Node, value: object = None) -> Fault:
    way_out = "take fewer GPUs, or correct node: {gpus: ...}"
    return document.fault(place, f"takes {found} GPUs, and the node has {node.gpus}", value, way_out)


def _written_name(names: object, flag: str) -> str:
    """The written name of a parameter, where its spelling shows it."""
    plain = flag.replace("-", "_")
    known = names if isinstance(names, dict) else {}
    return next((name for name in known if name.lstrip("-").replace("-", "_") == plain), next(iter(known), flag))

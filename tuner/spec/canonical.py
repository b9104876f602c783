"""A written search space bound to the engines of a study: every flag as its engine's version spells it.

After this, merging and identity are plain dictionary work (`tuner.space`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tuner import rules
from tuner.engines import UNREAD, Engine, FlagError
from tuner.errors import Fault
from tuner.space import Changes, Domain, Option, Parameter, Stage
from tuner.spec.faults import MOST, nearest
from tuner.spec.fields import local_model
from tuner.spec.spaceschema import Change
from tuner.spec.spaceschema import Domain as WrittenDomain
from tuner.spec.spaceschema import Stage as WrittenStage
from tuner.spec.yamlevents import Place
from tuner.spec.yamlfile import Document, shown
from tuner.trial import Settings, Value


@dataclass(frozen=True)
class Bound:
    """Stages bound to engines, what is wrong with them, and which options are left out of them."""

    stages: tuple[Stage, ...] = ()
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Binding:
    """What a space is bound to: the adapters in use (None where one could not be had) and what is fixed."""

    adapters: Mapping[str, Engine | None]
    fixed: Mapping[str, Changes] = field(default_factory=dict)


def bind(document: Document, written: Sequence[tuple[Place, WrittenStage]], to: Binding) -> Bound:
    """The stages in canonical flags; engines that are not in use, and what only they had, are left out."""
    stages: list[Stage] = []
    faults: list[Fault] = []
    names = {stage.name for _, stage in written if stage.name}
    for position, (place, stage) in enumerate(written):
        if len(faults) > 10 * MOST:
            break
        options, more = _options(document, place, stage, to)
        faults += more
        taken = {parameter.name for earlier in stages for parameter in earlier.parameters}
        parameters, more = _parameters(document, place, stage, to, taken)
        faults += more
        for name in sorted(names.intersection(parameter.name for parameter in parameters)):
            rule = f"there is a stage named {name}, and a parameter is chosen by name too"
            faults.append(document.fault((*place, "parameters"), rule, way_out="rename the stage"))
        if position == 0:
            faults += _engine_chosen(document, place, stage, to)
        faults += islice(_rules(document, place, stage, parameters, to), MOST)
        kept = {name: option for name, option in stage.with_.items() if _has(stages, name, option)}
        search = {"sampler": stage.search.sampler, "trials": stage.search.trials} if stage.search else {}
        if options or parameters:
            stages.append(
                Stage(stage.name or "", options, parameters, kept, tuple(stage.rules), **search)  # type: ignore[arg-type]
            )
    return Bound(tuple(stages), tuple(faults), tuple(_left_out(written, to)))


def _left_out(written: Sequence[tuple[Place, WrittenStage]], to: Binding) -> Iterator[str]:
    """What only engines that are not in use had."""
    for _, stage in written:
        for kind, parts in (("option", stage.options or {}), ("parameter", stage.parameters or {})):
            for name, engines in parts.items():
                if engines and not any(engine in to.adapters for engine in engines):
                    missing = " or ".join(engines)
                    yield f"{kind} {name} of stage {stage.name} is left out: engines does not list {missing}"
        for name, changes in (stage.options or {}).items():
            for engine, change in changes.items():
                adapter = to.adapters.get(engine)
                if adapter is not None and _nothing_left(adapter, change):
                    asked = {**change.args_where_known, **change.env_where_known}
                    words = ", ".join(f"{flag} {shown(value)}" for flag, value in asked.items())
                    missing = f"{engine} {adapter.version} does not take {words}"
                    yield f"option {name} of stage {stage.name} is left out: {missing}"


def flags(
    adapter: Engine, args: Mapping[str, Any], document: Document, place: Place
) -> tuple[dict[str, Value], list[Fault]]:
    """`args` in canonical flags. Each flag is tried by itself first, so that every fault has its own line."""
    faults: list[Fault] = []
    for name, value in args.items():
        try:
            adapter.canonical({_bare(name): value})
        except FlagError as error:
            faults.append(_flag_fault(error, document, (*place, name)))
        if len(faults) >= MOST:
            break
    if faults:
        return {}, faults
    twice = [name for name in args if name != _bare(name) and _bare(name) in args]
    if twice:
        return {}, [document.fault((*place, name), "the flag is given twice", way_out="keep one") for name in twice]
    try:
        return dict(adapter.canonical({_bare(name): value for name, value in args.items()})), []
    except FlagError as error:
        named = [name for name in args if _bare(name) == _bare(error.flag)]
        return {}, [_flag_fault(error, document, (*place, *named[:1]))]


def _known_args(adapter: Engine, change: Change) -> dict[str, Value]:
    """Those of the change's `args-where-known` that this version takes, in canonical flags."""
    known: dict[str, Value] = {}
    for name, value in change.args_where_known.items():
        with contextlib.suppress(FlagError):
            known |= adapter.canonical({_bare(name): value})
    return known


def _known_env(adapter: Engine, change: Change) -> dict[str, str | None]:
    """Those of the change's `env-where-known` that this version reads, as far as is known."""
    written = {name: value or "" for name, value in change.env_where_known.items()}
    notices = adapter.notices(Settings(adapter.name, "", env=written)) if written else ()
    unread = {name for notice in notices if notice.rule == UNREAD for name in notice.keys}
    return {name: value for name, value in change.env_where_known.items() if name not in unread}


def _nothing_left(adapter: Engine, change: Change) -> bool:
    """Whether this version takes nothing of what the change would set."""
    meant = bool(change.args_where_known or change.env_where_known)
    always = change.args or change.env or change.model or change.replicas
    return meant and not always and not _known_args(adapter, change) and not _known_env(adapter, change)


def _bare(name: str) -> str:
    return name.lstrip("-") or name


def _flag_fault(error: FlagError, document: Document, at: Place) -> Fault:
    return document.fault(at, error.rule, document.at(at), error.way_out)


def _options(
    document: Document, place: Place, stage: WrittenStage, to: Binding
) -> tuple[tuple[Option, ...], list[Fault]]:
    options: list[Option] = []
    faults: list[Fault] = []
    for name, engines in (stage.options or {}).items():
        used: dict[str, Changes] = {}
        for engine, change in engines.items():
            if engine not in to.adapters:
                continue
            adapter = to.adapters[engine]
            if adapter is not None and _nothing_left(adapter, change):
                continue
            used[engine], more = _changes(document, (*place, "options", name, engine), change, engine, to)
            faults += more
        if used or not engines:
            options.append(Option(name, used))
    return tuple(options), faults


def _changes(document: Document, place: Place, change: Change, engine: str, to: Binding) -> tuple[Changes, list[Fault]]:
    adapter = to.adapters[engine]
    args, faults = flags(adapter, change.args, document, (*place, "args")) if adapter else ({}, [])
    args |= _known_args(adapter, change) if adapter else {}
    env = {**change.env, **(_known_env(adapter, change) if adapter else {})}
    model = change.model and local_model(change.model, document.file)
    changes = Changes(args, env, model, change.replicas)
    return changes, [*faults, *_varies_fixed(document, place, change, changes, engine, to)]


def _varies_fixed(
    document: Document, place: Place, change: Change, made: Changes, engine: str, to: Binding
) -> Iterator[Fault]:
    """What the person fixed under `engines` holds for every launch."""
    adapter, fixed = to.adapters[engine], to.fixed.get(engine, Changes())
    way_out = f"take it out of engines.{engine}, or out of the stage"
    for flag, value in made.args.items():
        if flag in fixed.args and fixed.args[flag] != value:
            rule = f"the stage varies {flag}, which engines.{engine}.args fixes to {shown(fixed.args[flag])}"
            yield document.fault((*place, *_written(adapter, change, flag)), rule, value, way_out)
    for name, text in made.env.items():
        if name in fixed.env and fixed.env[name] != text:
            rule = f"the stage varies {name}, which engines.{engine}.env fixes to {fixed.env[name]!r}"
            part = "env" if name in change.env else "env-where-known"
            yield document.fault((*place, part, name), rule, text, way_out)


def _written(adapter: Engine | None, change: Change, flag: str) -> Place:
    """Where in a change a canonical flag is written."""
    for part, args in (("args", change.args), ("args-where-known", change.args_where_known)):
        for name, value in args.items():
            if _same_flag(adapter, name, value, flag):
                return (part, name)
    return ("args", flag)


def _same_flag(adapter: Engine | None, name: str, value: Any, flag: str) -> bool:
    try:
        return adapter is not None and flag in adapter.canonical({_bare(name): value})
    except FlagError:
        return False


def _parameters(
    document: Document, place: Place, stage: WrittenStage, to: Binding, taken: Collection[str]
) -> tuple[tuple[Parameter, ...], list[Fault]]:
    """Parameters by canonical flag: one written name may be another flag for another engine."""
    found: dict[str, dict[str, Domain]] = {}
    faults: list[Fault] = []
    for name, engines in (stage.parameters or {}).items():
        at = (*place, "parameters", name)
        if not engines:
            faults.append(
                document.fault(at, "must name the engines that have this flag", None, "add vllm: {type: ...}")
            )
        for engine, domain in engines.items():
            if engine not in to.adapters:
                continue
            flag, more = _parameter_flag(document, (*at, engine), name, domain, engine, to)
            faults += more
            if flag in taken or (flag and engine in found.setdefault(flag, {})):
                faults.append(document.fault((*at, engine), f"is the flag {flag} again", None, "keep one of the two"))
            elif flag:
                found[flag][engine] = _domain(domain)
    return tuple(Parameter(name, engines) for name, engines in found.items() if engines), faults


def _parameter_flag(
    document: Document, at: Place, name: str, domain: WrittenDomain, engine: str, to: Binding
) -> tuple[str, list[Fault]]:
    """The canonical flag, tried with the ends of its range or with every choice."""
    adapter = to.adapters[engine]
    if adapter is None:
        return "", []
    spelled: dict[str, Value] = {}
    for value in domain.choices or [domain.low, domain.high]:
        try:
            spelled |= adapter.canonical({_bare(name): value})
        except FlagError as error:
            return "", [document.fault(at, error.rule, value, error.way_out)]
    if len(spelled) != 1:
        return "", [document.fault(at, "is not one flag that takes values", name, "name a flag that takes a value")]
    flag, taken = spelled.popitem()
    if domain.type == "float" and isinstance(taken, int):
        return "", [document.fault(at, "takes whole numbers", domain.type, "write type: int and whole low and high")]
    if flag in to.fixed.get(engine, Changes()).args:
        rule = f"the stage varies {flag}, which engines.{engine}.args fixes"
        return "", [document.fault(at, rule, None, f"take it out of engines.{engine}.args, or out of the stage")]
    return flag, []


def _domain(written: WrittenDomain) -> Domain:
    choices = tuple(written.choices or ())
    return Domain(written.type, written.low, written.high, written.log, written.step, choices)


def _engine_chosen(document: Document, place: Place, stage: WrittenStage, to: Binding) -> Iterator[Fault]:
    """With several engines, the first stage chooses one: each of its options names exactly one."""
    several = len(to.adapters) > 1
    if stage.parameters and several:
        yield document.fault(place, "the first stage must choose the engine", None, "put a stage with options first")
    offered = 0
    for name, engines in (stage.options or {}).items():
        used = [engine for engine in engines if engine in to.adapters]
        offered += len(used)
        if several and (len(used) > 1 or not engines):
            named = ", ".join(engines) or "none"
            way_out = f"name one of {', '.join(to.adapters)}, or list one engine in the study"
            rule = "an option of the first stage must name exactly one engine, for none is chosen yet"
            yield document.fault((*place, "options", name), rule, named, way_out)
    if stage.options and not offered and all(stage.options.values()):
        rule = "no option of the first stage names an engine of the study"
        yield document.fault((*place, "options"), rule, None, f"the study's engines are {', '.join(to.adapters)}")


def _rules(
    document: Document, place: Place, stage: WrittenStage, parameters: Sequence[Parameter], to: Binding
) -> Iterator[Fault]:
    """A rule over a flag that no engine of the stage has would silently hold always."""
    adapters = [to.adapters[name] for name in {name: None for parameter in parameters for name in parameter.engines}]
    known = [parameter.name for parameter in parameters] + list(stage.parameters or ())
    plain = {name.replace("_", "-") for name in known}
    for index, text in enumerate(stage.rules if adapters else ()):
        for name in rules.rule(text).names:
            if name.replace("_", "-") not in plain and not any(a is None or _takes(a, name) for a in adapters):
                way_out = nearest(name, known, "the stage's parameters")
                yield document.fault((*place, "rules", index), f"no engine here has the flag {name}", text, way_out)


def _takes(adapter: Engine, name: str) -> bool:
    """Whether the engine has this flag, whatever values it takes."""
    values: tuple[Value, ...] = (None, True)
    for value in values:
        try:
            adapter.canonical({name: value})
        except FlagError:
            continue
        return True
    return False


def _has(stages: Sequence[Stage], name: str, option: str) -> bool:
    return any(stage.name == name and any(o.name == option for o in stage.options) for stage in stages)

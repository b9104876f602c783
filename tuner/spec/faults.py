"""From pydantic's errors to faults in this project's words: where it is, the rule, the value, the nearest name."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from tuner.errors import Fault
from tuner.spec.yamlevents import Place
from tuner.spec.yamlfile import Document

MOST = 100


class Model(BaseModel):
    """A mapping that people write. `required` names what must be there; a faulty field becomes its default.

    `named` are the fields that map names to parts: of these only the faulty part is left out.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())
    required: ClassVar[tuple[str, ...]] = ()
    named: ClassVar[tuple[str, ...]] = ()


M = TypeVar("M", bound=Model)


def bad(rule: str, way_out: str = "", step: str = "", shown: str | None = None) -> PydanticCustomError:
    """What a validator of ours raises; `step` names the key inside the value that is at fault.

    `shown` stands for the value where that holds a secret.
    """
    return PydanticCustomError("fault", "{rule}", {"rule": rule, "way_out": way_out, "step": step, "shown": shown})


def nearest(name: object, names: Iterable[str], what: str = "known") -> str:
    """A way out for a name that is not one of `names`: the nearest, or what there is."""
    known = list(names)
    by_lower = {other.lower(): other for other in reversed(known)}
    close = difflib.get_close_matches(str(name)[:100].lower(), by_lower, 1, 0.6)
    if close:
        return f"did you mean {by_lower[close[0]]}?"
    listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
    return f"{what} are {listed}" if known else ""


def check(model: type[M], document: Document, place: Place = ()) -> tuple[M, list[Fault]]:
    """The value at `place` as a model, and its faults; whatever is faulty is left out of the model."""
    data = document.at(place)
    if not isinstance(data, dict):
        rule = "is empty" if data is None else "must be a mapping"
        needed = ", ".join(model.required) or ", ".join(_names(model))
        return model(), [document.fault(place, rule, data, f"write at least {needed}")]
    faults = [document.fault(place, f"{name} is missing") for name in model.required if name not in data]
    faults += [document.fault((*place, name), "is empty") for name in model.required if data.get(name, "") is None]
    try:
        return model.model_validate(data), faults
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
    faults += _distinct(_fault(detail, model, document, place) for detail in details[: 10 * MOST])
    try:
        return model.model_validate(_pruned(data, model, [detail["loc"] for detail in details])), faults
    except ValidationError:
        return model(), faults


def ordered(faults: Iterable[Fault]) -> list[Fault]:
    """Without repetition, by file and line, the first hundred; the last one then says how many more there are."""
    distinct = sorted(_distinct(faults), key=lambda fault: (fault.file, fault.line or 0))
    if len(distinct) <= MOST:
        return distinct
    return [*distinct[:MOST], Fault(f"there are {len(distinct) - MOST} more faults after these")]


_RULES = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "list_type": "must be a list",
    "extra_forbidden": "is not a key that is known here",
    "string_too_short": "must not be empty",
    "finite_number": "must be a finite number",
}
_LIMITS = {
    "greater_than": ("must be more than {}", "gt"),
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than": ("must be less than {}", "lt"),
    "less_than_equal": ("must be at most {}", "le"),
    "string_too_long": ("must have at most {} characters", "max_length"),
    "too_long": ("must have at most {} entries", "max_length"),
}


def _fault(detail: ErrorDetails, model: type[Model], document: Document, root: Place) -> Fault:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        place = _place(document, root, detail["loc"][:-1])
        return document.fault(place, f"{detail['loc'][-1]} is missing")
    place = _place(document, root, detail["loc"])
    if kind == "fault":
        place = (*place, context["step"]) if context["step"] else place
        value = place[-1] if detail["loc"][-1:] == ("[key]",) else _written(document, place)
        shown = value if context["shown"] is None else context["shown"]
        return document.fault(place, context["rule"], shown, context["way_out"])
    value = document.at(place)
    rule, way_out = _RULES.get(kind, detail["msg"]), ""
    if kind in _LIMITS:
        text, name = _LIMITS[kind]
        rule = text.format(f"{context[name]:.12g}")
    elif kind == "too_short":
        rule = "must not be empty"
    elif kind == "literal_error":
        rule, way_out = "is not one of the values known here", nearest(value, _options(context["expected"]), "they")
    elif kind == "extra_forbidden":
        way_out = nearest(detail["loc"][-1], _names(_inner(model, detail["loc"][:-1])), "known here")
    elif kind == "string_type" and isinstance(value, (bool, int, float)):
        way_out = f'quote it: "{_written(document, place)}"'
    elif kind == "dict_type" and value is None:
        way_out = "write {} for none"
    return document.fault(place, rule, _written(document, place), way_out)


def _written(document: Document, place: Place) -> Any:
    """A number as it was written (1.10, not 1.1), anything else as it was read."""
    value = document.at(place)
    text = document.text(place)
    number_or_null = value is None or isinstance(value, (int, float))
    return _Raw(text or "nothing") if text is not None and number_or_null else value


class _Raw(float):
    """A number that prints as it was written."""

    def __new__(cls, text: str) -> _Raw:
        made = super().__new__(cls, 0.0)
        made.text = text
        return made

    text: str

    def __str__(self) -> str:
        return self.text


def _place(document: Document, root: Place, loc: Sequence[str | int]) -> Place:
    """pydantic's location without the steps that only name a branch of a union."""
    place = root
    for step in loc:
        value = document.at(place)
        there = step in value if isinstance(value, dict) else isinstance(value, list) and isinstance(step, int)
        if there:
            place = (*place, step)
    return place


def _pruned(data: Mapping[str, Any], model: type[Model], locs: Iterable[Sequence[str | int]]) -> dict[str, Any]:
    """`data` without the fields (or, of a field in `named`, the parts) in which an error lies."""
    kept = dict(data)
    for loc in locs:
        if not loc:
            return {}
        field, part = str(loc[0]), str(loc[1]) if len(loc) > 1 else ""
        if field in model.named and part and isinstance(kept.get(field), dict):
            kept[field] = {name: value for name, value in kept[field].items() if name != part}
        else:
            kept.pop(field, None)
    return {name: value for name, value in kept.items() if value != {} or name not in model.named}


def _distinct(faults: Iterable[Fault]) -> list[Fault]:
    return list(dict.fromkeys(faults))


def _options(expected: str) -> list[str]:
    """`'a', 'b' or 'c'` as a list."""
    return [part.strip(" '") for part in expected.replace(" or ", ",").split(",")]


def _names(model: type[BaseModel] | None) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _inner(model: type[BaseModel], loc: Sequence[str | int]) -> type[BaseModel] | None:
    """The model that the value at `loc` inside `model` is read as."""
    kind: Any = model
    for step in loc:
        kind = _step(kind, step)
    found = [part for part in _parts(kind) if isinstance(part, type) and issubclass(part, BaseModel)]
    return found[0] if found else None


def _step(kind: Any, step: str | int) -> Any:
    for part in _parts(kind):
        if isinstance(part, type) and issubclass(part, BaseModel):
            by_alias = {field.alias or name: field.annotation for name, field in part.model_fields.items()}
            if step in by_alias:
                return by_alias[str(step)]
        elif get_origin(part) in (dict, list):
            return get_args(part)[-1]
    tagged = [p for p in _parts(kind) if isinstance(p, type) and issubclass(p, BaseModel) and _tag(p) == step]
    return tagged[0] if tagged else kind


def _tag(model: type[BaseModel]) -> Any:
    field = model.model_fields.get("type")
    return (get_args(field.annotation) or (None,))[0] if field else None


def _parts(kind: Any) -> list[Any]:
    """The alternatives of a type, without `Annotated`."""
    if get_origin(kind) is Annotated:
        return _parts(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return [part for inner in get_args(kind) for part in _parts(inner)]
    return [kind]

"""Our tables of flags against the engines' own parsers: what they say exists, is spelled so, and takes these values.

TensorRT-LLM has no parser that installs without a GPU: its table stands by its source alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import real_parsers
from tests.real_parsers import Option, Release
from tuner import locate
from tuner.engines import Engine, FlagError, engine, engine_of_command
from tuner.engines.flags import DOTTED, LISTS, Flag, Table
from tuner.trial import Settings, Slot

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
RELEASES = real_parsers.asked_for()
SLOT = Slot(port=30123, folder=Path("/slot"), gpus=("0",), host="127.0.0.1")
MODEL = "org/model"
# People write `-O3`; vLLM rewrites it before argparse sees it, so argparse does not list it.
REWRITTEN = {"-O"}
# Choices that are ours alone: the parser takes any text, and the engine refuses another later.
LATER = {"distributed-executor-backend", "optimization-level"}
# Values that the parser reads further than their kind says.
SAMPLES: dict[str, Any] = {
    "collect-detailed-traces": ["all"],
    "cuda-graph-config": {"decode": {"backend": "full"}},
    "device-ids": "0",
    "disaggregation-ib-device": "mlx5_0",
    "gc-threshold": [700],
    "hf-token": True,
    "lora-modules": ["a=b"],
    "lora-paths": ["a=b"],
    "speculative-config": {"method": "ngram", "num_speculative_tokens": 2},
}
RETIRED = {"vllm": ["--num-scheduler-steps", "4"], "sglang": ["--enable-ep-moe"]}
NUMBERS: dict[str, Any] = {"int": 1, "size": 2048, "float": 0.5, "str": "word", "optional": "0.5", "json": {}}


@pytest.fixture(scope="session")
def environment() -> real_parsers.Environment:
    return real_parsers.Environment()


def adapter_of(release: Release) -> Engine:
    return engine(release.engine, release.version)


def table_of(release: Release) -> Table:
    table: Table = adapter_of(release).table  # type: ignore[attr-defined]
    return table


def by_name(options: tuple[Option, ...]) -> dict[str, Option]:
    """Every spelling of a parser, by its word without dashes where it is long."""
    return {name.removeprefix("--"): option for option in options for name in option.names}


def flags(table: Table) -> Iterator[Flag]:
    return (flag for flag in table.flags.values() if flag.home != "model")


def every_release(test: Any) -> Any:
    return pytest.mark.parametrize("release", RELEASES, ids=str)(test)


@every_release
def test_every_flag_and_alias_of_ours_is_one_of_the_parser(
    environment: real_parsers.Environment, release: Release
) -> None:
    known = by_name(environment.options(release))
    ours = {name for flag in flags(table_of(release)) for name in (flag.name, *flag.aliases)}
    assert sorted(ours - set(known) - REWRITTEN) == []


@every_release
def test_every_flag_of_the_parser_is_known_to_ours(environment: real_parsers.Environment, release: Release) -> None:
    table = table_of(release)
    unknown = []
    for option in environment.options(release):
        for name in option.long if option.action not in ("_HelpAction", "DeprecatedAction") else ():
            try:
                table.find(name)
            except FlagError:
                unknown.append(name)
    assert unknown == []


@every_release
def test_kinds_are_the_parser_s(environment: real_parsers.Environment, release: Release) -> None:
    known = by_name(environment.options(release))
    wrong = {
        flag.name: (flag.kind, said) for flag in flags(table_of(release)) if (said := misfit(flag, known[flag.name]))
    }
    assert wrong == {}


def misfit(flag: Flag, option: Option) -> str:
    """What the parser makes of the flag, where that is not what its kind says."""
    valueless = option.nargs == 0
    said = {
        "bool": option.action == "BooleanOptionalAction" and f"--no-{flag.name}" in option.names,
        "bare": valueless and option.action != "BooleanOptionalAction",
        "optional": option.nargs == "?",
        "list": option.nargs in ("+", "*"),
        "ints": option.nargs in ("+", "*") and option.type == "int",
        "floats": option.nargs in ("+", "*") and option.type == "float",
        "int": option.nargs is None and option.type == ("str" if flag.name == "optimization-level" else "int"),
        "size": option.nargs is None and str(option.type).startswith("human_readable_int"),
        "float": option.nargs is None and option.type == "float",
        "str": option.nargs is None and option.action != "BooleanOptionalAction",
        "json": option.nargs is None,
    }
    return "" if said[flag.kind] else f"{option.action} {option.type} {option.nargs}"


@every_release
def test_choices_are_the_parser_s(environment: real_parsers.Environment, release: Release) -> None:
    known = by_name(environment.options(release))
    wrong = {}
    for flag in flags(table_of(release)):
        theirs = known[flag.name].choices
        if flag.name not in LATER and set(flag.choices) != set(theirs or ()):
            wrong[flag.name] = (
                sorted(set(flag.choices) - set(theirs or ())),
                sorted(set(theirs or ()) - set(flag.choices)),
            )
    assert wrong == {}


@every_release
def test_commands_of_ours_are_taken(environment: real_parsers.Environment, release: Release) -> None:
    """Each flag of our table alone in each of its forms, and what we ship; two commands that are refused show that the
    parser does not take everything. Asked in one go: an engine takes seconds to import."""
    adapter, commands = adapter_of(release), {}
    for flag in flags(table_of(release)):
        for value in values_of(flag) if flag.home == "argv" else ():
            commands[f"{flag.name}={value!r}"] = words(adapter, {flag.name: value})
    shipped = shipped_to(release)
    plain = words(adapter, {})
    commands |= {**shipped, "unknown": [*plain, "--no-such-flag"], "retired": [*plain, *RETIRED[release.engine]]}
    errors = dict(zip(commands, environment.ask(release, list(commands.values())).errors, strict=True))
    assert errors.pop("unknown")
    assert errors.pop("retired")
    assert {label: said for label, said in errors.items() if said} == {}
    exact = {name for option in environment.options(release) for name in option.names}
    given = {word.partition("=")[0] for argv in shipped.values() for word in argv if word.startswith("--")}
    assert given <= exact, "an abbreviation"


def values_of(flag: Flag) -> list[Any]:
    if flag.name in SAMPLES:
        return [SAMPLES[flag.name]]
    if flag.kind in ("bool", "bare"):
        return [True, False] if flag.kind == "bool" else [True]
    if flag.choices:
        choices = [choice for choice in flag.choices if choice != DOTTED]
        return [[choice] for choice in choices] if flag.kind in LISTS else list(choices)
    value = NUMBERS[LISTS.get(flag.kind, flag.kind)]
    return [[value, value]] if flag.kind in LISTS else [value]


def words(adapter: Engine, args: Mapping[str, Any]) -> list[str]:
    """What follows the program in the command that our adapter makes."""
    argv = list(adapter.launch(Settings(adapter.name, MODEL, adapter.canonical(args)), SLOT).argv)
    return argv[argv.index(MODEL) - (1 if adapter.name == "sglang" else 0) :]


# --- what we ship -----------------------------------------------------------------------------------------------


def written() -> list[tuple[str, str, dict[str, Any]]]:
    """Every set of args of every shipped space and study: where it stands, its engine, the args."""
    found = []
    spaces = [*sorted((ROOT / "search_spaces").glob("*.yaml")), *sorted((ROOT / "studies").glob("*/*.yaml"))]
    for path in spaces:
        read = yaml.safe_load(path.read_text())
        found += [(f"{path.relative_to(ROOT)}: {place}", name, args) for place, name, args in sets(read)]
    return found


def sets(read: Any, place: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """`ENGINE: {args: {...}}` wherever it stands, and parameters' ends."""
    if isinstance(read, list):
        for index, item in enumerate(read):
            yield from sets(item, f"{place}.{item.get('name', index) if isinstance(item, dict) else index}")
    if not isinstance(read, dict):
        return
    for key, value in read.items():
        here = f"{place}.{key}"
        if key in ("vllm", "sglang") and isinstance(value, dict) and isinstance(value.get("args"), dict):
            yield here, key, value["args"]
        elif key in ("vllm", "sglang") and isinstance(value, dict) and "type" in value:
            ends = value.get("choices") or [value["low"], value["high"]]
            yield from ((here, key, {place.rpartition(".")[2]: end}) for end in ends)
        else:
            yield from sets(value, here)


WRITTEN = written()


def test_there_is_something_to_parse() -> None:
    assert len(WRITTEN) > 10
    assert locate.shipped()


def shipped_to(release: Release) -> dict[str, list[str]]:
    """What we ship for this engine, as commands of this release; what its adapter refuses is left out."""
    adapter = adapter_of(release)
    ours = [(f"{place} {args}", args) for place, name, args in WRITTEN if name == release.engine]
    recorded = [argv for argv in recorded_commands() if engine_of_command(argv) == release.engine]
    return {
        **{label: words(adapter, args) for label, args in ours if takes(adapter, args)},
        **{" ".join(argv): words(adapter, adapter.parse(argv).args) for argv in recorded},
    }


def test_what_we_ship_is_taken_by_some_release() -> None:
    lost = [
        place
        for place, name, args in WRITTEN
        if not any(takes(adapter_of(release), args) for release in RELEASES if release.engine == name)
    ]
    assert lost == []


def takes(adapter: Engine, args: Mapping[str, Any]) -> bool:
    try:
        adapter.canonical(args)
    except FlagError:
        return False
    return True


def recorded_commands() -> list[list[str]]:
    """The commands in recorded measurements."""
    rows = [
        row
        for path in (ROOT / "studies").glob("*/recorded.yaml")
        for row in yaml.safe_load(path.read_text())["measurements"]
    ]
    return [row["command"].split() for row in rows if "command" in row]

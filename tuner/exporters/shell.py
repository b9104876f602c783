"""A script that starts the best launch so far (`launch.sh`): comments, environment, files, the command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from tuner.exporters import FOLDER, Exported
from tuner.report import formats

# What a launcher's option says of how the measured server was started.
_STARTED = {
    "path": "programs were found in",
    "prefix": "measured behind this prefix, which is not part of the command below",
    "url": "measured on a server that was already running at",
}


def render(made: Exported) -> str:
    return "\n".join(_lines(made)) + "\n"


def _lines(made: Exported) -> Iterator[str]:
    yield "#!/bin/sh"
    yield from (f"# {formats.line(comment)}" for comment in _comments(made))
    yield "set -eu"
    if "path" in made.started:
        yield f'export PATH={shlex.quote(made.started["path"])}:"$PATH"'
    for name, value in made.launch.env.items():
        if name in made.secrets:
            yield f': "${{{name}:?is a secret of this launch: set it first}}"'
            yield f"export {name}"
        else:
            yield f"export {name}={shlex.quote(value)}"
    for path, text in made.launch.files.items():
        yield from _file(path, text)
    yield from _command(made.launch.argv)


def _comments(made: Exported) -> Iterator[str]:
    head, study = made.headline, made.history.study
    simulated = "simulated: " if made.history.origin == "simulated" else ""
    if simulated:
        yield "simulated study: this is the command that real engines would be given"
    yield f"study {study.name}: {study.model} on {made.settings.engine}"
    yield f"trial {made.trial.number} of {len(made.history.trials)}, method {formats.method(study.method)}"
    gain = f", {formats.percent(head.gain)} against the baseline" if head.gain is not None else ""
    value = formats.with_unit(head.metric, head.value)
    of = formats.median_of(head.median_of)
    yield f"{simulated}{value} {formats.metric(head.metric)} on {head.workload}{of and f' ({of})'}{gain}"
    yield ("confirmed by new launches" if head.confirmed else "not confirmed by new launches") + (
        "" if head.finished else "; the search is not finished, this is the best so far"
    )
    if made.history.origin == "recorded":
        yield "figures are recorded, not measured here"
    if made.measured_command:
        yield f"measured as: {made.measured_command}"
    yield from (f"{_STARTED.get(name, f'started with {name}')}: {value}" for name, value in made.started.items())
    if made.settings.replicas > 1:
        yield f"measured as {made.settings.replicas} replicas: start it as often, each on its own GPUs and port"


def _file(path: str, text: str) -> Iterator[str]:
    place = FOLDER / PurePosixPath(path)
    end = "END_OF_FILE"
    while end in text:
        end += "_"
    yield f"mkdir -p {shlex.quote(str(place.parent))}"
    yield f"cat > {shlex.quote(str(place))} <<'{end}'"
    yield text.removesuffix("\n")
    yield end


def _command(argv: Sequence[str]) -> Iterator[str]:
    """The program and its positional words on the first line, then one flag a line. A signal sent to the script must
    reach the server: it takes the shell's place."""
    lines: list[list[str]] = [[]]
    for word in argv:
        if word.startswith("--") or (len(lines) > 1 and word.startswith("-") and not _number(word)):
            lines.append([])
        lines[-1].append(word)
    shown = [shlex.join(words) for words in lines]
    yield "exec " + " \\\n  ".join(shown)


def _number(word: str) -> bool:
    return word[1:].replace(".", "", 1).isdigit()

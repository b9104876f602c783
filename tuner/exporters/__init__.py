"""Exporters: the best launch so far in a form to start it with. One file a form, each `render(Exported) -> str`.

What is exported is what was measured: the engine's adapter makes the command from the measured settings, and
reading it back must give the same launch.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from tuner import engines
from tuner.engines import Engine, FlagError
from tuner.errors import SpecError, TunerError
from tuner.history import History
from tuner.report import formats
from tuner.report.facts import best_so_far, command_of
from tuner.report.summary import Headline, summarise
from tuner.trial import Launch, Settings, Slot, Trial, is_secret

EngineFor: TypeAlias = Callable[[str], Engine]

# Where an exported command listens, and the folder (relative to where it is started) of the files it needs.
HOST, PORT, FOLDER = "0.0.0.0", 8000, Path("tuner-launch")
_MODULES = {"shell": "shell", "json": "json"}
FORMATS: Sequence[str] = tuple(_MODULES)


@dataclass(frozen=True)
class Exported:
    """The launch to export and what is known of it. `env` and `launch.env` hold no secret values: a secret
    stands as a reference to the variable of its own name. `started` says how the launcher started it, beyond the
    command itself (a folder of programs, a prefix)."""

    history: History
    trial: Trial
    headline: Headline
    settings: Settings
    launch: Launch
    measured_command: str
    started: Mapping[str, str]

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of the environment variables that the person must set."""
        return tuple(name for name in self.launch.env if is_secret(name))


def export(history: History, format: str = "shell", engine_for: EngineFor | None = None) -> str:
    """The best launch so far in this format, as text with a final newline.

    `engine_for` gives an engine's adapter by name; by default the one of the study's version.

    Raises:
        SpecError: there is no such format.
        TunerError: nothing was measured yet, or the command does not lead to the launch that was measured.
    """
    if format not in _MODULES:
        raise SpecError(f"there is no export format {format!r}; formats are {', '.join(FORMATS)}")
    text: str = import_module(f"tuner.exporters.{_MODULES[format]}").render(exported(history, engine_for))
    return text


def exported(history: History, engine_for: EngineFor | None = None) -> Exported:
    """What every exporter renders. Raises as `export` does."""
    trial = best_so_far(history)
    if trial is None:
        raise TunerError(_nothing(history))
    settings = history.study.space.settings(trial.configuration)
    engine = (engine_for or _engines_of(history))(settings.engine)
    launch = engine.launch(settings, Slot(PORT, FOLDER, host=HOST), reading=False)
    _check(engine, settings, launch)
    _check_names(launch.env)
    headline, measured = summarise(history).headline, command_of(history, trial)
    return Exported(history, trial, headline, settings, launch, measured, _started(history, settings.engine))


def command(history: History, engine_for: EngineFor | None = None) -> str:
    """The best launch command on one line, environment in front, to show in a report. Raises as `export` does."""
    return one_line(exported(history, engine_for))


def one_line(made: Exported) -> str:
    """The command as typed in a shell; secrets come from the caller's environment."""
    assigned = (
        f'{name}="${{{name}:?}}"' if name in made.secrets else f"{name}={shlex.quote(value)}"
        for name, value in made.launch.env.items()
    )
    return " ".join((*assigned, shlex.join(made.launch.argv)))


def _engines_of(history: History) -> EngineFor:
    specs = history.study.engines

    def engine_for(name: str) -> Engine:
        return engines.engine(name, specs[name].version if name in specs else None)

    return engine_for


def _started(history: History, engine: str) -> dict[str, str]:
    """The launcher's options that are words; mappings (an environment) may hold secrets and stay out. That an engine is
    simulated is no option of a launch that real engines would be given."""
    options = history.study.engines[engine].launcher_options if engine in history.study.engines else {}
    words = {
        name: " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        for name, value in options.items()
        if not isinstance(value, Mapping) and not is_secret(name) and name != "simulated"
    }
    return {name: formats.redacted(formats.line(value)) for name, value in words.items()}


def _nothing(history: History) -> str:
    if history.done is not None:
        return "no launch could be measured, so there is nothing to export; see `tuner report` for what failed"
    return "nothing was measured yet, so there is nothing to export; start or continue the search with `tuner run`"


def _check_names(env: Mapping[str, str]) -> None:
    for name in env:
        if not name.isascii() or not name.isidentifier():
            raise TunerError(f"{name!r} is no name of an environment variable; rename it under `env` in the study")


def _check(engine: Engine, settings: Settings, launch: Launch) -> None:
    """The command, read back, must be the launch that was measured."""
    try:
        asked = engine.parse(launch.argv, launch.env, launch.files)
    except FlagError as error:
        raise TunerError(f"the command to export cannot be read back: {error}") from error
    read = replace(asked, replicas=settings.replicas).fingerprint
    if not launch.fingerprint == read == settings.fingerprint:
        raise TunerError(
            f"the command to export is not the one that was measured (launch {settings.fingerprint}, read back "
            f"{read}); take the measured command from the report, and report this as a bug"
        )

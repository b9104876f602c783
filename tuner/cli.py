"""The command line: the only module that prints or exits. Human text goes to stderr, results to stdout.

Exit codes: 0 done, 1 could not, 2 wrong usage or study, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from tuner.descriptors import open_standard_files
from tuner.errors import TunerError

# Everything but typer is imported by the command that needs it: `tuner --help` answers at once.

app = typer.Typer(
    help="Find, unattended, the launch command that serves a model fastest on this node.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Study = Annotated[Path, typer.Argument(metavar="STUDY", readable=False, help="A study folder, or its study.yaml.")]
Until = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="HH:MM", help="Ask for no more trials after this time; one already past means tomorrow."),
]
Trials = Annotated[Optional[int], typer.Option(min=1, help="End after so many trials of this run.")]  # noqa: UP045
Retry = Annotated[
    bool, typer.Option("--retry-failed", help="Launch again what failed, after what was wrong has been mended.")
]
Method = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="[published|normal]", help="Search by this method, not the study's."),
]


def main() -> None:
    """The `tuner` command."""
    open_standard_files()
    raise SystemExit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    """Run one command; errors become one line and an exit code, traces only with --debug."""
    debug = "--debug" in arguments
    try:
        result = app(args=[word for word in arguments if word != "--debug"], prog_name="tuner", standalone_mode=False)
        return int(result or 0)
    except TunerError as error:
        if debug:
            raise
        _say(f"tuner: error: {error}")
        return error.exit_code
    except (typer.Exit, SystemExit) as end:
        return int(getattr(end, "exit_code", None) or getattr(end, "code", None) or 0)
    except (KeyboardInterrupt, typer.Abort):
        _say("tuner: interrupted")
        return 130
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            _say(f"tuner: error: the output cannot be written: {error.strerror or error}")
        return 1
    except Exception as error:
        if hasattr(error, "format_message"):
            _say(f"tuner: error: {error.format_message()}")
            return 2
        if debug:
            raise
        _say(f"tuner: error: {type(error).__name__}: {error} (a fault of tuner itself; --debug shows where)")
        return 1


def _version(asked: bool) -> None:
    if asked:
        from tuner import __version__

        _show(__version__)
        raise typer.Exit()


@app.callback()
def _common(
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options that stand before any command."""


@app.command()
def run(
    study: Study, until: Until = None, trials: Trials = None, method: Method = None, retry_failed: Retry = False
) -> int:
    """Start a study, or continue an interrupted one."""
    from tuner import running

    return running.run(study, until, trials, method, retry_failed, say=_say, show=_show)


@app.command()
def resume(
    study: Study, until: Until = None, trials: Trials = None, method: Method = None, retry_failed: Retry = False
) -> int:
    """Continue an interrupted study; refuses to start a new one."""
    from tuner import running

    return running.run(study, until, trials, method, retry_failed, say=_say, show=_show, only_resume=True)


@app.command()
def stop(
    study: Study,
    now: Annotated[bool, typer.Option("--now", help="Give the running trial up; it is launched again later.")] = False,
) -> None:
    """Ask the running study to end, after this trial or at once."""
    from tuner import driving

    _say(driving.stop(study, now))


@app.command()
def plan(study: Study, method: Method = None) -> None:
    """Show every launch command a study may try, with time and GPU-hours. Starts nothing."""
    from tuner import driving
    from tuner.report.plan import plan as planned

    spec, _ = driving.study_of(study, method)
    for note in driving.wanting(spec):
        _say(f"note: {note}")
    _show(planned(spec))


@app.command()
def status(
    study: Study,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every two seconds.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show stages, trials, the best so far, and what runs now."""
    from tuner import driving

    driving.status(study, watch, json, show=_show)


@app.command()
def report(study: Study) -> None:
    """Write report.md, report.html and launch.sh anew, and show the summary."""
    from tuner import driving

    _show(driving.report(study, say=_say))


@app.command()
def export(
    study: Study,
    format: Annotated[str, typer.Option(metavar="[shell|json]")] = "shell",
) -> None:
    """Print the best launch command."""
    from tuner import driving

    _show(driving.exported(study, format))


@app.command()
def replay(study: Study, method: Method = None) -> None:
    """Decide a study again from recorded measurements, launching nothing."""
    from tuner import driving

    _show(driving.replay(study, method, say=_say))


@app.command()
def spaces() -> None:
    """List the search spaces shipped with the tuner: name, what it is for, file."""
    from tuner.locate import about, shipped

    for name, path in sorted(shipped().items()):
        _show(f"{name}\t{about(path)}\t{path}")


_AS_THEY_ARE = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


@app.command(add_help_option=False, context_settings=_AS_THEY_ARE)
def bench(context: typer.Context) -> int:
    """Load one endpoint and print the block that `vllm bench serve` prints."""
    try:
        from tuner import benching

        return benching.bench(context.args, say=_say, show=_show)  # parsed there: see tuner.benching.options
    except KeyboardInterrupt:  # typer would end without a word
        _say("tuner: interrupted")
        return 130


def _say(text: str) -> None:
    """For people. That nobody can read it any more is no reason to end a run."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def _show(text: Any) -> None:
    """A result."""
    try:
        print(text, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered is not tried again
        raise


if __name__ == "__main__":
    main()

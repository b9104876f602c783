"""The benchmark client alone, on a server that somebody runs: `tuner bench`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tuner.benching.asked import Asked, asked
from tuner.benching.climbing import climb
from tuner.benching.ending import interruptible
from tuner.benching.passes import Pass, found, judged, measured, prepared, ready
from tuner.benching.problems import SAID
from tuner.benching.saving import distrusted, incomplete, now_asked, save, shown_by, writable
from tuner.benching.servers import Asker
from tuner.benchmarks import records
from tuner.benchmarks.result import DATE, block
from tuner.benchmarks.streaming import Client
from tuner.errors import TunerError

Say = Callable[[str], None]


def bench(words: Sequence[str], say: Say, show: Say) -> int:
    """Do what the words after `tuner bench` ask for; the exit code. `say` is for people, `show` takes results.

    Raises:
        SpecError: the words cannot be; nothing was asked.
        TunerError: the server does not answer, or not as it should. What was measured is shown and saved before.
    """
    wanted = asked(words)
    date = time.strftime(DATE)
    if wanted.records is not None:
        return _again(wanted.records, wanted, date, say, show)
    if wanted.model:
        writable(wanted, wanted.model, date)
    prepared(wanted.workload)
    asker = Asker(wanted.headers, bool(wanted.client.get("insecure")), min(10.0, wanted.timeout_s))
    deadline = time.monotonic() + wanted.ready_s
    with interruptible(say) as ending:
        client = Client(**wanted.client, drain=ending.drain)
        try:
            model = found(wanted, asker, ending.stop, say)
            writable(wanted, model, date)
            lengths = "" if wanted.workload.tokenizer else ", prompt lengths approximate (no --tokenizer)"
            say(f"{wanted.workload.num_prompts} requests to {', '.join(wanted.urls)}, model {model}{lengths}")
            ready(wanted, model, client, ending.stop, deadline, say)
        except TunerError:
            if not ending.asked_for:
                raise
        if ending.asked_for:
            say("interrupted before anything was measured")
            return 130
        if wanted.ladder is not None:
            return climb(wanted, wanted.ladder, model, client, ending, date, say, show)
        return _finished(measured(wanted, wanted.workload, model, client, ending, say), wanted, date, say, show)


def _again(path: Path, wanted: Asked, date: str, say: Say, show: Say) -> int:
    """Kept records, reported anew."""
    run, workload, model = records.read(path)
    writable(wanted, model, date)
    done = judged(run, now_asked(wanted, workload), model, wanted, list)
    return _finished(done, wanted, date, say, show)


def _finished(done: Pass, wanted: Asked, date: str, say: Say, show: Say) -> int:
    """Save and show the pass, in this order: that nobody reads it any more is no reason to lose it. The exit code.

    Raises:
        TunerError: it is incomplete, not to be trusted, or could not be saved or shown.
    """
    saved = save(done, wanted, date)
    problems = list(saved.problems)
    if done.measured:
        problems += shown_by(show, shown(done, wanted), saved)
    for path in saved.written:
        say(f"wrote {path}")
    for line in remarks(done):
        say(line)
    if done.problem and not done.interrupted:
        problems.append(done.problem if done.measured else f"no request succeeded: {done.problem}")
    return ended(problems, done.interrupted, say)


def ended(problems: Sequence[str], interrupted: bool, say: Say) -> int:
    """The exit code.

    Raises:
        TunerError: the last problem; the others are only said.
    """
    for problem in problems if interrupted else problems[:-1]:
        say(problem)
    if interrupted:
        return 130
    if problems:
        raise TunerError(problems[-1])
    return 0


def remarks(done: Pass) -> list[str]:
    """What else there is to say of a pass: nothing of one that measured nothing, whose cause is said already."""
    if not done.measured:
        return [incomplete(done)] if done.interrupted or done.run.bound is not None else []
    if done.run.bound is not None:
        return []
    lines = [
        f"{'note' if verdict.valid else 'not to be trusted'}: {verdict.message}"
        for verdict in done.verdicts
        if verdict.check not in SAID and verdict.message not in done.problem
    ]
    return [*lines, *([f"limited by: {done.limit.what} ({done.limit.why})"] if done.limit is not None else [])]


def shown(done: Pass, wanted: Asked) -> str:
    """The block, with a line beneath it for what is not as usual."""
    simulated = "\n(simulated: the server is a stand-in engine)" if done.simulated else ""
    return block(done.run, done.workload, wanted.report) + beneath(done) + simulated


def beneath(done: Pass) -> str:
    """The line beneath the block: why it is of a part only, or not to be trusted; '' if it is neither."""
    why = incomplete(done)
    if not why:
        return ""
    return f"\n({why})" if distrusted(done) else f"\n(incomplete: {why})"

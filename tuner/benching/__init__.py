"""The benchmark client alone, on a server that somebody runs: `tuner bench`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tuner.benching.asked import Asked, asked
from tuner.benching.climbing import climb
from tuner.benching.passes import Pass, interruptible, judged, measured, prepared, ready
from tuner.benching.saving import incomplete, now_asked, save
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
    prepared(wanted.workload)
    asker = Asker(wanted.headers, bool(wanted.client.get("insecure")), min(10.0, wanted.timeout_s))
    model = wanted.model or asker.first_model(wanted.urls[0])
    for url in wanted.urls if wanted.model else ():
        asker.reach(url)
    lengths = "" if wanted.workload.tokenizer else ", prompt lengths approximate (no --tokenizer)"
    say(f"{wanted.workload.num_prompts} requests to {', '.join(wanted.urls)}, model {model}{lengths}")
    client = Client(**wanted.client)
    with interruptible(say) as stop:
        ready(wanted, model, client, stop, say)
        if wanted.ladder is not None:
            return climb(wanted, wanted.ladder, model, client, stop, date, say, show)
        return _finished(measured(wanted, wanted.workload, model, client, stop, say), wanted, date, say, show)


def _again(path: Path, wanted: Asked, date: str, say: Say, show: Say) -> int:
    """Kept records, reported anew."""
    run, workload, model = records.read(path)
    done = judged(run, now_asked(wanted, workload), model, wanted, list)
    return _finished(done, replace(wanted, output=replace(wanted.output, records=None)), date, say, show)


def _finished(done: Pass, wanted: Asked, date: str, say: Say, show: Say) -> int:
    """Show and save the pass; the exit code.

    Raises:
        TunerError: it is incomplete, or not to be trusted.
    """
    why = incomplete(done)
    if done.measured:
        show(shown(done, wanted, why))
    for path in save(done, wanted, date):
        say(f"wrote {path}")
    for verdict in done.verdicts:
        say(f"{'note' if verdict.valid else 'not to be trusted'}: {verdict.message}")
    if done.limit is not None and done.measured:
        say(f"limited by: {done.limit.what} ({done.limit.why})")
    if done.interrupted:
        return 130
    if done.problem:
        raise TunerError(done.problem if done.measured else f"no request succeeded: {done.problem}")
    return 0


def shown(done: Pass, wanted: Asked, why: str = "") -> str:
    """The block, with a line beneath it for what is not as usual."""
    beneath = f"\n(incomplete: {why})" if why else ""
    simulated = "\n(simulated: the server is a stand-in engine)" if done.simulated else ""
    return block(done.run, done.workload, wanted.report) + beneath + simulated

"""A tuner killed with SIGKILL leaves its server behind: it is found again by what was recorded, and nothing else is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.small_servers import bystander, wait_for
from tuner.launchers import Identity, launcher
from tuner.node import ports, processes
from tuner.node.locks import free_port
from tuner.node.processes import Member

TUNER = """
import json, sys, time
from dataclasses import asdict
from pathlib import Path
from tests.small_servers import SmallEngine, small_launch
from tuner.launchers import launcher
from tuner.server import Limits, serve
from tuner.trial import Slot

mode, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
def record(identity):
    with (folder / "identities").open("a") as out:
        print(json.dumps(asdict(identity)), file=out, flush=True)
with serve(small_launch(mode, port), SmallEngine(), launcher("process"), Slot(port, folder), Limits(), record):
    (folder / "ready").touch()
    time.sleep(600)
"""


@pytest.fixture
def killed(tmp_path):
    """A function: run a tuner with a server of this mode, kill it when it serves; the identities it recorded."""
    with free_port() as port:

        def run(mode: str, when: str = "ready") -> list[Identity]:
            tuner = subprocess.Popen(
                [sys.executable, "-c", TUNER, mode, str(port), str(tmp_path)], cwd=Path(__file__).parents[1]
            )
            try:
                wait_for((tmp_path / when).exists, 60)
            finally:
                tuner.kill()
                tuner.wait(10)
            return [read(line) for line in (tmp_path / "identities").read_text().splitlines()]

        run.port = port
        yield run


def read(line: str) -> Identity:
    fields = json.loads(line)
    return Identity(**{**fields, "members": tuple(tuple(member) for member in fields["members"])})


def living(identity: Identity) -> list[int]:
    return [pid for pid, start in identity.members if processes.lives(Member(pid, start))]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["ok", "with_child", "with_bare_child", "ignores_term", "with_daemon"])
def test_the_orphans_of_a_killed_tuner_are_ended_and_nobody_else(killed, mode):
    last = killed(mode)[-1]
    orphans = living(last)
    assert last.pid in orphans
    with bystander() as unmarked, bystander("f" * 32) as another:
        ended = launcher("process").reap(last)
        assert set(orphans) <= set(ended)
        assert living(last) == []
        assert ports.is_free(killed.port)
        assert (unmarked.poll(), another.poll()) == (None, None)
        assert launcher("process").reap(last) == []


@pytest.mark.slow
def test_what_was_recorded_before_the_start_is_enough(killed):
    identities = killed("with_marked_daemon")
    assert identities[0].pid is None
    assert len(launcher("process").reap(identities[0])) == 2
    assert living(identities[-1]) == []


@pytest.mark.slow
def test_the_group_is_found_when_its_leader_was_killed_too(killed):
    last = killed("with_bare_child")[-1]
    os.kill(last.pid, signal.SIGKILL)
    wait_for(lambda: not processes.lives(Member(last.pid, last.start_time)))
    (child,) = living(last)
    assert launcher("process").reap(last) == [child]


@pytest.mark.slow
def test_another_process_under_a_recorded_pid_is_left_alone(killed):
    last = killed("ok")[-1]
    with bystander() as process:
        stat = processes.stat_of(process.pid)
        recycled = Identity(
            "process", last.marker, last.boot_id, process.pid, stat.start_time + 1, (*last.members, (process.pid, 7))
        )
        assert launcher("process").reap(recycled) == [last.pid]
        assert process.poll() is None


@pytest.mark.slow
def test_a_start_that_was_cut_off_is_ended_too(killed):
    identities = killed("never_ready", when="server.log")
    wait_for(lambda: launcher("process").reap(identities[0]))
    assert living(identities[-1]) == []

"""Servers from launch to gone, with real processes and sockets."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.small_servers import MODEL, SmallEngine, small_launch, wait_for
from tuner.errors import NodeSick, StorageError
from tuner.launchers import Identity, launcher
from tuner.node import ports, processes
from tuner.node.locks import free_port
from tuner.node.processes import Member
from tuner.server import LaunchFailed, Limits, serve
from tuner.testing.nvml import FakeGpu, FakeNvml
from tuner.trial import Launch, Slot

LIMITS = Limits(start_timeout_s=30, stall_timeout_s=20, grace_s=5, poll_s=0.2, call_timeout_s=2)


@pytest.fixture
def slot(tmp_path):
    with free_port() as port:
        yield Slot(port=port, folder=tmp_path / "trial")


class Life:
    """One launch, its recorded identities and what was said about its progress."""

    def __init__(self, slot, mode, limits=LIMITS, stop=None, **facts):
        self.identities: list[Identity] = []
        self.progress: list[str] = []
        self.context = serve(
            small_launch(mode, slot.port, **facts),
            SmallEngine(),
            launcher("process"),
            slot,
            limits,
            self.identities.append,
            stop,
            on_progress=self.progress.append,
        )

    def fails(self):
        with pytest.raises(LaunchFailed) as caught, self.context:
            pytest.fail("became ready")
        assert self.survivors() == []
        return caught.value.failure

    def survivors(self):
        last = self.identities[-1]
        pids = {pid for pid, _ in last.members}
        return [pid for pid in pids if processes.lives(Member(pid, dict(last.members)[pid]))]


def test_a_server_is_ready_when_it_answers_and_gone_afterwards(slot):
    life = Life(slot, "ok")
    with life.context as server:
        assert (server.url, server.model, server.proven) == (f"http://127.0.0.1:{slot.port}", MODEL, True)
        assert httpx.get(server.url + "/health", trust_env=False).status_code == 200
        assert server.alive()
        assert server.check() is None
        assert "starting" in server.log_text()
        assert ports.holders(slot.port) == [server.identity().pid]
    assert not server.alive()
    assert ports.is_free(slot.port)
    assert life.survivors() == []
    assert set(server.timings) == {"launch", "ready", "stop"}
    assert life.progress == ["starting"]


def test_the_identity_is_recorded_before_and_right_after_the_start(slot):
    life = Life(slot, "ok")
    with life.context:
        first, second = life.identities[:2]
        assert first.pid is None
        assert first.marker == second.marker
        assert len(first.marker) >= 16
        assert first.boot_id == processes.boot_id()
        assert second.start_time == processes.stat_of(second.pid).start_time
        assert (second.pid, second.start_time) in second.members


def test_nothing_is_started_when_the_identity_cannot_be_recorded(slot):
    def full(identity):
        raise StorageError("the disk is full")

    with pytest.raises(StorageError), serve(
        small_launch("ok", slot.port), SmallEngine(), launcher("process"), slot, LIMITS, full
    ):  # fmt: skip
        pytest.fail("was started")
    assert not (slot.folder / "server.log").exists()


def test_a_server_whose_pid_cannot_be_recorded_is_ended(slot):
    seen = []

    def full(identity):
        seen.append(identity)
        if identity.pid is not None:
            raise StorageError("the disk is full")

    with pytest.raises(StorageError), serve(
        small_launch("ok", slot.port), SmallEngine(), launcher("process"), slot, LIMITS, full
    ):  # fmt: skip
        pytest.fail("became ready")
    assert not processes.lives(Member(seen[-1].pid, seen[-1].start_time))


def test_environment_and_files_of_the_launch_reach_the_server(slot):
    facts = {"env": {"GREETING": "hello"}, "own_env": {"OWN": "reading"}, "files": {"sub/options.yaml": "a: 1\n"}}
    with Life(slot, "says_hello", **facts).context as server:
        assert "greeting: hello reading" in server.log_text()
    assert (slot.folder / "sub/options.yaml").read_text() == "a: 1\n"


def test_files_stay_in_the_slots_folder(slot):
    with pytest.raises(ValueError, match="stay in"), Life(slot, "ok", files={"../outside": "x"}).context:
        pytest.fail("was started")


def test_a_model_list_that_answers_early_is_not_readiness(slot):
    with Life(slot, "models_early").context as server:
        assert server.timings["ready"] >= 1.5


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["with_child", "ignores_term", "with_bare_child"])
def test_children_and_the_deaf_are_ended(slot, mode):
    life = Life(slot, mode, Limits(start_timeout_s=30, grace_s=0.5, poll_s=0.2))
    with life.context:
        pass
    assert life.survivors() == []
    assert ports.is_free(slot.port)


@pytest.mark.slow
def test_children_that_left_the_group_are_ended(slot):
    for mode in ("with_daemon", "with_marked_daemon"):
        life = Life(slot, mode)
        with life.context as server:
            pid = server.identity().pid
            outside = [
                member for member in server.identity().members if processes.stat_of(member[0]).session != pid
            ]  # fmt: skip
            assert outside, mode
        assert life.survivors() == []
        assert not any(processes.lives(Member(*member)) for member in outside)


def test_adopted_zombies_are_buried_and_other_children_left_alone(slot):
    mine = os.fork()
    if mine == 0:
        os._exit(7)
    began = processes.stat_of(mine).start_time  # orphans of earlier tests may have come to this process as well
    life = Life(slot, "with_marked_daemon")
    with life.context:
        pass
    zombies = [
        stat.pid
        for stat in processes.table_of_processes().values()
        if stat.parent == os.getpid() and not stat.lives and stat.start_time >= began
    ]
    assert zombies == [mine]
    assert os.waitstatus_to_exitcode(os.waitpid(mine, 0)[1]) == 7


def test_a_death_ends_the_wait_with_its_code_and_log(slot):
    failure = Life(slot, "dies").fails()
    assert (failure.kind, failure.message, failure.hop) == ("crash", "ended with 3", "ready")
    assert "giving up" in failure.log


def test_a_parent_that_leaves_its_child_behind_is_a_death_and_the_child_is_ended(slot):
    assert Life(slot, "front_end_leaves").fails().message == "ended with 4"


def test_a_fatal_line_ends_the_wait_of_a_process_that_lives(slot):
    failure = Life(slot, "out_of_memory").fails()
    assert failure.kind == "out-of-memory"
    assert "Tried to allocate 2 GiB" in failure.log


def test_a_stall_is_told_from_work(slot):
    limits = Limits(start_timeout_s=60, stall_timeout_s=1.0, grace_s=5, poll_s=0.2)
    failure = Life(slot, "never_ready", limits).fails()
    assert failure.kind == "start-stall"
    assert "nothing listens" in failure.message


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["never_ready_but_busy", "never_ready_but_talks"])
def test_work_without_an_end_meets_the_total_limit(slot, mode):
    limits = Limits(start_timeout_s=6, stall_timeout_s=4, grace_s=5, poll_s=0.2)
    failure = Life(slot, mode, limits).fails()
    assert failure.kind == "start-timeout"
    assert "start_timeout_s = 6 s" in failure.message


def test_progress_follows_redrawn_lines(slot):
    life = Life(slot, "never_ready_but_talks", Limits(start_timeout_s=1.5, grace_s=5, poll_s=0.2))
    assert life.fails().kind == "start-timeout"
    assert life.progress
    assert all(text.startswith("loading shards: ") and "\r" not in text for text in life.progress)


@pytest.mark.parametrize(
    ("mode", "missing"),
    [
        ("never_completes", "a completion of one token is answered with 500"),
        ("accepts_and_hangs", "does not answer yet"),
    ],
)
def test_a_server_that_only_looks_ready_is_not(slot, mode, missing):
    failure = Life(slot, mode, Limits(start_timeout_s=2.5, grace_s=5, poll_s=0.2, call_timeout_s=0.3)).fails()
    assert failure.kind == "start-timeout"
    assert missing in failure.message


@pytest.mark.parametrize(
    ("mode", "status", "kind"), [("never_completes", 500, "crash"), ("wants_a_key", 401, "invalid-config")]
)
def test_a_server_that_refuses_every_completion_is_given_up(slot, mode, status, kind):
    life = Life(slot, mode, Limits(start_timeout_s=60, grace_s=5, poll_s=0.2, sick_timeout_s=2))
    failure = life.fails()
    assert (failure.kind, failure.hop) == (kind, "ready")
    assert failure.message == (
        f"/health answers 200, but for 2 s a completion of one token is answered with {status}: "
        '{"detail": "no such model"}'
    )
    assert life.progress == ["waiting for a first completion"]


@pytest.mark.slow
def test_a_server_that_lost_a_process_and_refuses_is_given_up_sooner(slot):
    limits = Limits(start_timeout_s=120, grace_s=5, poll_s=0.2, sick_timeout_s=100)
    failure = Life(slot, "loses_its_child", limits).fails()
    assert failure.kind == "crash"
    assert re.search(r"answered with 500: .*; of its processes \d+ \(.*small_servers.py .*\) ended", failure.message)


def test_two_completions_without_an_answer_are_a_stall(slot):
    limits = Limits(start_timeout_s=60, grace_s=5, poll_s=0.2, completion_timeout_s=1)
    failure = Life(slot, "hangs_in_completions", limits).fails()
    assert failure.kind == "start-stall"
    assert failure.message == ("/health answers 200, but 2 completions of one token in a row had no answer within 1 s")


@pytest.mark.slow
def test_what_listens_and_never_answers_is_given_up_before_what_is_silent(slot):
    limits = Limits(start_timeout_s=120, grace_s=5, poll_s=0.2, call_timeout_s=0.5, completion_timeout_s=1.5)
    failure = Life(slot, "accepts_and_hangs", limits).fails()
    assert failure.kind == "start-stall"
    assert "no new log line and no CPU time for 3 s: " in failure.message
    assert "does not answer yet (nothing came within 0.5 s)" in failure.message


def test_silence_is_told(slot):
    limits = Limits(start_timeout_s=60, stall_timeout_s=4, grace_s=5, poll_s=0.2, heartbeat_s=1)
    life = Life(slot, "never_ready", limits)
    assert life.fails().kind == "start-stall"
    assert life.progress[0] == "loading, for ever"
    assert len(life.progress) >= 3
    assert all(re.fullmatch(r"no new log line for \d s \(given up at 4 s\)", text) for text in life.progress[2:])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("never_ready_but_busy", r"no new log line for \d s, but it uses CPU time \(given up 6 s after its start\)"),
        ("never_ready_but_writes", r"still starting after \d s \(given up 6 s after its start\)"),
    ],
)
def test_work_without_news_is_told(slot, mode, said):
    life = Life(slot, mode, Limits(start_timeout_s=6, grace_s=5, poll_s=0.2, heartbeat_s=1))
    assert life.fails().kind == "start-timeout"
    assert re.fullmatch(said, life.progress[-1])


@pytest.mark.slow
def test_children_of_what_has_ended_get_little_time(slot):
    limits = Limits(start_timeout_s=30, grace_s=60, poll_s=0.2)
    with pytest.raises(LaunchFailed) as caught, Life(slot, "front_end_leaves_the_deaf", limits).context:
        pytest.fail("became ready")
    assert caught.value.timings["stop"] < 30


def test_a_taken_port_is_seen_before_the_launch(slot):
    with socket.create_server(("127.0.0.1", slot.port)):
        life = Life(slot, "ok")
        with pytest.raises(LaunchFailed) as caught, life.context:
            pytest.fail("was started")
    failure = caught.value.failure
    assert (failure.kind, failure.hop) == ("port-taken", "launch")
    assert failure.message.endswith("listens on it")  # what to do is said where failures are listed
    assert f"pid {os.getpid()}" in failure.message
    assert life.identities == []


def test_a_port_taken_during_the_start_is_not_taken_for_readiness(slot):
    def take():
        wait_for(lambda: life.progress)
        taken.append(socket.create_server(("127.0.0.1", slot.port)))

    taken: list[socket.socket] = []
    life = Life(slot, "never_ready")
    thread = threading.Thread(target=take)
    thread.start()
    try:
        failure = life_of_taken_port(life)
    finally:
        thread.join()
        taken[0].close()
    assert failure.kind == "port-taken"
    assert f"pid {os.getpid()}" in failure.message


def life_of_taken_port(life):
    with pytest.raises(LaunchFailed) as caught, life.context:
        pytest.fail("became ready")
    return caught.value.failure


def test_a_stop_ends_the_wait(slot):
    stop = threading.Event()
    timer = threading.Timer(0.5, stop.set)
    timer.start()
    assert Life(slot, "never_ready", stop=stop).fails().kind == "interrupted"
    timer.join()
    life = Life(slot, "ok", stop=stop)
    with pytest.raises(LaunchFailed, match="interrupted"), life.context:
        pytest.fail("was started")
    assert life.identities == []


def test_an_error_of_the_user_of_a_server_ends_it(slot):
    life = Life(slot, "ok")
    with pytest.raises(KeyboardInterrupt), life.context:
        raise KeyboardInterrupt
    assert life.survivors() == []


def test_a_death_while_serving_is_told(slot):
    with Life(slot, "dies_while_serving").context as server:
        failure = wait_for(server.check)
        assert not server.alive()
    assert (failure.kind, failure.hop) == ("crash-under-load", "benchmark")
    assert "-9" in failure.message


def test_a_program_that_is_not_there(slot, tmp_path):
    launch = Launch("small", ("no-such-engine", "serve"), "0", f"http://127.0.0.1:{slot.port}", MODEL)
    with pytest.raises(LaunchFailed) as caught, serve(launch, SmallEngine(), launcher("process"), slot, LIMITS):
        pytest.fail("was started")
    assert caught.value.failure.kind == "not-installed"
    assert "no-such-engine" in caught.value.failure.message
    assert "stop" in caught.value.timings


def test_a_full_disk_is_seen_before_the_launch(slot):
    with pytest.raises(LaunchFailed) as caught, Life(slot, "ok", Limits(disk_floor_bytes=10**18)).context:
        pytest.fail("was started")
    assert caught.value.failure.kind == "disk-full"
    assert str(slot.folder) in caught.value.failure.message


def test_an_attached_server_is_asked_and_left_alone(slot):
    life = Life(slot, "ok")
    with life.context as ours:
        elsewhere = Slot(port=1, folder=slot.folder.parent / "attached")
        launch = small_launch("ok", 1)
        records: list[Identity] = []
        with serve(
            launch, SmallEngine(), launcher("attach", url=ours.url + "/v1/"), elsewhere, LIMITS, records.append
        ) as other:
            assert (other.url, other.model, other.proven) == (ours.url, MODEL, False)
            assert other.identity().pid is None
            assert other.check() is None
        assert ours.alive()
        assert launcher("attach", url=ours.url).reap(records[-1]) == []
        assert ours.alive()


def test_gpu_memory_is_waited_for_after_the_end(slot):
    from tuner.node import gpu

    given_back = []

    def used():
        alive = ports.holders(slot.port)
        if seen and not alive:
            given_back.append(time.monotonic())
        return 9 * 1024**3 if alive or 0 < len(given_back) < 3 else 600 * 1024**2

    seen: list[bool] = []
    nvml = FakeNvml([FakeGpu("GPU-a", used=used)])
    gpus = gpu.visible(Asked(1), nvml, {})
    with serve(
        small_launch("ok", slot.port), SmallEngine(), launcher("process"), slot, LIMITS, gpus=gpus, nvml=nvml
    ) as server:  # fmt: skip
        seen.append(server.alive())
    assert len(given_back) >= 5
    assert nvml.sessions == 0


def test_gpu_memory_that_stays_away_makes_the_node_sick(slot):
    from tuner.node import gpu

    card = FakeGpu("GPU-a")
    nvml = FakeNvml([card])
    limits = Limits(start_timeout_s=30, memory_timeout_s=0.5, poll_s=0.2)
    gpus = gpu.visible(Asked(1), nvml, {})
    with pytest.raises(NodeSick, match="GPU 0: "), serve(
        small_launch("ok", slot.port), SmallEngine(), launcher("process"), slot, limits, gpus=gpus, nvml=nvml
    ):  # fmt: skip
        card.used = 130 * 1024**3
    assert ports.is_free(slot.port)


class Asked:
    """What a study says of its node."""

    def __init__(self, gpus, simulated=0):
        self.gpus, self.simulated = gpus, simulated


def test_a_process_that_survives_sigkill_makes_the_node_sick():
    unkillable = Member(os.getpid(), processes.stat_of(os.getpid()).start_time)
    sent = []
    with pytest.raises(NodeSick, match=f"still {os.getpid()}"):
        processes.end(lambda: [unkillable], 0.1, kill_wait_s=0.3, send=lambda member, number: sent.append(number))
    assert sent[0] == signal.SIGTERM
    assert set(sent[1:]) == {signal.SIGKILL}


def test_a_log_is_read_in_pieces_without_losing_or_breaking_lines(tmp_path: Path):
    from tuner.readiness import LogTail

    path = tmp_path / "log"
    path.write_bytes(b"of an earlier launch\n")
    log = LogTail(path)
    assert log.new() == ""
    with path.open("ab") as out:
        out.write(b"CUDA out of mem" + "é".encode()[:1])
        out.flush()
        assert log.new() == "CUDA out of mem"
        out.write("é".encode()[1:] + b"ory\r50%\r100%\r\nnext")
        out.flush()
        assert log.new() == "CUDA out of memé" + "ory\n50%\n100%\nnext"
        assert log.new() == ""
        assert log.tail().startswith("CUDA")
        out.write(b" line\n")
        out.flush()
        assert log.new() == "next line\n"


def test_the_limit_of_open_files_is_raised_for_the_server(slot):
    import resource

    with Life(slot, "ok").context as server:
        soft, hard = resource.prlimit(server.identity().pid, resource.RLIMIT_NOFILE)
        assert soft == min(hard, 65536) or soft > 65536
    assert sys.platform == "linux"

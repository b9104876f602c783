"""Launchers: what they start, with which environment, and what they refuse."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.small_servers import bystander, small_launch, wait_for
from tuner.errors import SpecError
from tuner.launchers import Identity, launcher
from tuner.launchers.process import environment
from tuner.node import ports, processes
from tuner.node.locks import free_port
from tuner.node.processes import Member
from tuner.trial import Launch

SHOWS_ITSELF = """#!/bin/sh
exec {python} -c 'import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getsid(0), os.getpid(),
os.getcwd(), sys.stdin.read()]), flush=True)' "$0" "$@"
"""


@pytest.fixture
def bin_folder(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    program(folder / "vllm")
    return folder


def program(path: Path) -> None:
    path.write_text(SHOWS_ITSELF.format(python=sys.executable))
    path.chmod(0o755)


def launch_of(*argv: str, **facts) -> Launch:
    return Launch("small", argv, "0" * 16, "http://127.0.0.1:1", "m", **facts)


def shown(started, launch, folder):
    """What the program found: argv, environment, session, pid, folder, input."""
    log = folder / "log"
    handle = started.start(launch, log, "m" * 32, folder)
    try:
        wait_for(lambda: handle.returncode() is not None)
        assert handle.returncode() == 0, log.read_text()
        return json.loads(log.read_text())
    finally:
        handle.stop(1)


def test_a_program_is_found_in_the_path_option_first(bin_folder, tmp_path):
    argv, env, session, pid, cwd, given = shown(
        launcher("process", path=str(bin_folder)), launch_of("vllm", "serve", "m"), tmp_path
    )
    assert argv == [str(bin_folder / "vllm"), "serve", "m"]
    assert env["PATH"].split(os.pathsep)[0] == str(bin_folder)
    assert session == pid != os.getsid(0)
    assert cwd == str(tmp_path)
    assert given == ""


def test_the_environment_is_ours_and_the_launchs_and_the_marker(bin_folder, tmp_path):
    launch = launch_of("vllm", env={"A": "env", "B": "env"}, own_env={"B": "own"})
    env = shown(launcher("process", path=str(bin_folder)), launch, tmp_path)[1]
    assert (env["A"], env["B"]) == ("env", "own")
    assert env["TUNER_MARKER"] == "m" * 32
    assert env["SPT_NOENV"] == "1"
    assert env["HOME"] == os.environ["HOME"]


def test_our_own_settings_do_not_leak():
    base = {"TUNER_LOCKS": "x", "TUNER_MARKER": "old", "TUNER_FAKE_OOM": "1", "PATH": "/bin", "HF_TOKEN": "secret"}
    env = environment(launch_of("vllm"), "new", base)
    assert env == {"TUNER_FAKE_OOM": "1", "PATH": "/bin", "HF_TOKEN": "secret", "TUNER_MARKER": "new", "SPT_NOENV": "1"}


@pytest.mark.parametrize("prefix", ["env GREETING='good day'", ["env", "GREETING=good day"]])
def test_a_prefix_comes_before_the_command(bin_folder, tmp_path, prefix):
    made = launcher("process", path=str(bin_folder), prefix=prefix)
    argv, env, *_ = shown(made, launch_of("vllm", "serve"), tmp_path)
    assert argv[1:] == ["serve"]
    assert env["GREETING"] == "good day"
    assert made.command(launch_of("vllm", "serve")) == [
        "env", "GREETING=good day", str(bin_folder / "vllm"), "serve"
    ]  # fmt: skip


def test_without_options_the_command_is_the_launchs():
    assert launcher("process").command(launch_of("vllm", "serve", "m")) == ["vllm", "serve", "m"]


def test_a_relative_program_is_found_from_here_not_from_the_servers_folder(bin_folder, tmp_path):
    elsewhere = tmp_path / "trial"
    elsewhere.mkdir()
    relative = os.path.relpath(bin_folder / "vllm")
    assert shown(launcher("process"), launch_of(relative), elsewhere)[0] == [str(bin_folder / "vllm")]


@pytest.mark.parametrize(
    ("options", "words"),
    [({}, "on PATH"), ({"path": "/no/such/bin"}, "/no/such/bin or on PATH"), ({"prefix": "env"}, "no-such-engine")],
)
def test_a_missing_program_is_named_with_a_way_out(tmp_path, options, words):
    with pytest.raises(FileNotFoundError, match="install it") as caught:
        launcher("process", **options).start(launch_of("no-such-engine"), tmp_path / "log", "m" * 32, tmp_path)
    assert "'no-such-engine'" in str(caught.value)
    assert words in str(caught.value)
    assert not (tmp_path / "log").exists()


def test_a_simulated_launch_starts_the_stand_in_with_the_same_words():
    made = launcher("process", simulated=True)
    assert made.command(launch_of("vllm", "serve", "m")) == [
        sys.executable, "-m", "tuner.testing.engine", "vllm", "serve", "m"
    ]  # fmt: skip


def test_the_stand_in_is_importable_from_any_folder(tmp_path):
    log = tmp_path / "log"
    handle = launcher("process", simulated=True).start(launch_of("no-engine-at-all"), log, "m" * 32, tmp_path)
    try:
        wait_for(lambda: handle.returncode() is not None, 60)
        assert "No module named" not in log.read_text()
    finally:
        handle.stop(1)


@pytest.mark.parametrize(
    ("type", "options", "words"),
    [
        ("docker-swarm", {}, "launchers are process, attach"),
        ("process", {"paht": "/bin"}, "it takes path, prefix, simulated"),
        ("process", {"path": 3}, "got 3"),
        ("process", {"prefix": ["numactl", 0]}, "quote the numbers"),
        ("process", {"prefix": "numactl 'open"}, "prefix must be words"),
        ("process", {"prefix": 5}, "prefix must be words"),
        ("process", {"simulated": "yes"}, "true or false"),
        ("process", {"simulated": True, "path": "/bin"}, "drop one"),
        ("attach", {}, "missing a required argument: 'url'"),
        ("attach", {"url": "localhost:8000"}, "http://127.0.0.1:8000"),
    ],
)
def test_options_are_checked_before_anything_starts(type, options, words):
    with pytest.raises(SpecError, match=re.escape(words)):
        launcher(type, **options)


def test_output_is_added_to_the_log(bin_folder, tmp_path):
    (tmp_path / "log").write_text("earlier\n")
    handle = launcher("process", path=str(bin_folder)).start(launch_of("vllm"), tmp_path / "log", "m" * 32, tmp_path)
    wait_for(lambda: handle.returncode() is not None)
    handle.stop(1)
    assert (tmp_path / "log").read_text().startswith("earlier\n[[")


@pytest.mark.parametrize(("script", "code"), [("exit 5", 5), ("kill -9 $$", -9)])
def test_the_return_code_is_kept_and_stays_after_the_stop(tmp_path, script, code):
    handle = launcher("process").start(launch_of("sh", "-c", script), tmp_path / "log", "m" * 32, tmp_path)
    wait_for(lambda: handle.returncode() is not None)
    assert handle.returncode() == code
    handle.stop(1)
    handle.stop(1)
    assert handle.returncode() == code


def test_listeners_are_proven_ours_or_not(tmp_path):
    with free_port() as port, free_port() as other, socket.create_server(("127.0.0.1", other)):
        handle = launcher("process").start(small_launch("with_child", port), tmp_path / "log", "m" * 32, tmp_path)
        try:
            wait_for(lambda: handle.owns_listener(port))
            assert handle.owns_listener(other) is False
            assert ports.owned_by(other, [os.getpid()]) is True
            assert len(handle.identity().members) == 2
        finally:
            handle.stop(0.2)
        assert handle.owns_listener(port) is False
    assert ports.owned_by(other, [os.getpid()]) is False


def test_a_listener_of_an_ipv6_socket_is_seen(tmp_path):
    with free_port() as port:
        script = (
            "import socket, time\n"
            f"with socket.create_server(('', {port}), family=socket.AF_INET6, dualstack_ipv6=True): time.sleep(60)"
        )
        launch = launch_of(sys.executable, "-c", script)
        handle = launcher("process").start(launch, tmp_path / "log", "m" * 32, tmp_path)
        try:
            wait_for(lambda: handle.owns_listener(port))
            assert not ports.is_free(port)
            assert str(handle.identity().pid) in ports.describe_holder(port)
        finally:
            handle.stop(5)
        assert ports.is_free(port)


def test_cpu_time_counts_the_children(tmp_path):
    script = f"{sys.executable} -c 'while True: pass' & wait"
    handle = launcher("process").start(launch_of("sh", "-c", script), tmp_path / "log", "m" * 32, tmp_path)
    try:
        wait_for(lambda: handle.cpu_seconds() > 0.3)
    finally:
        handle.stop(1)


def test_an_interruption_of_the_stop_still_kills(tmp_path):
    with free_port() as port:
        handle = launcher("process").start(small_launch("ignores_term", port), tmp_path / "log", "m" * 32, tmp_path)
        wait_for(lambda: handle.owns_listener(port))
        member = Member(*handle.identity().members[0])
        interrupter = subprocess.Popen(["sh", "-c", f"sleep 1; kill -INT {os.getpid()}"])
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            handle.stop(60)
        assert time.monotonic() - began < 50
        assert not processes.lives(member)
        assert handle.returncode() == -9
        assert interrupter.wait(10) == 0


# Its first thread ends alone, by the system call exit (60 on x86-64, 93 on others): state Z in /proc, and yet at work.
HEADLESS = """
import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60}.get(platform.machine(), 93), 0)
"""


def test_a_process_without_its_first_thread_lives_until_the_others_are_gone():
    process = subprocess.Popen([sys.executable, "-c", HEADLESS])
    try:
        wait_for(lambda: processes.stat_of(process.pid).state == "Z")
        member = processes.stat_of(process.pid).member
        assert processes.lives(member)
        assert processes.end(lambda: [member] if processes.lives(member) else [], 0.0) == [process.pid]
        assert process.poll() in (-15, -9)
    finally:
        process.kill()
        process.wait(10)


SHARES_MEMORY = """
import signal, sys, time
from multiprocessing.shared_memory import SharedMemory
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(SharedMemory(create=True, size=1000).name, flush=True)
time.sleep(600)
"""


def test_shared_memory_of_a_killed_server_is_removed():
    process = subprocess.Popen(
        [sys.executable, "-c", SHARES_MEMORY], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with process:
        segment = Path("/dev/shm", process.stdout.readline().strip())
        assert segment.exists()
        family = processes.Family(processes.stat_of(process.pid).member, "")
        assert len(family.living()) == 2  # and the tracker
        assert process.pid in processes.end(family.living, 0.0)
        assert process.wait(10) == -9
    assert not segment.exists()


def test_reaping_needs_the_same_boot_and_the_same_process():
    started = launcher("process")
    with bystander() as process:
        stat = processes.stat_of(process.pid)
        boot = processes.boot_id()
        recycled = Identity("process", "x" * 32, boot, process.pid, stat.start_time - 1, ((process.pid, 1),))
        assert started.reap(recycled) == []
        assert started.reap(Identity("process", "x" * 32, "another boot", process.pid, stat.start_time)) == []
        assert started.reap(Identity("process", "", boot)) == []
        assert process.poll() is None
        assert started.reap(Identity("process", "x" * 32, boot, process.pid, stat.start_time)) == [process.pid]
        assert process.wait(10) < 0


def test_reaping_by_the_marker_alone_ends_its_carriers_only():
    with bystander("a" * 32) as ours, bystander("b" * 32) as theirs:
        identity = Identity("process", "a" * 32, processes.boot_id())
        wait_for(lambda: launcher("process").reap(identity) == [ours.pid])
        assert ours.wait(10) < 0
        assert theirs.poll() is None


def test_this_process_and_its_ancestors_are_never_part_of_a_server():
    own = processes.stat_of(os.getpid())
    parent = processes.stat_of(own.parent)
    family = processes.Family(None, "", [own.member, parent.member])
    assert {member.pid for member in family.living()}.isdisjoint({own.pid, parent.pid})

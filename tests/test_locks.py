"""Locks between processes: who holds what is said, and a killed holder holds nothing."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.small_servers import wait_for
from tuner.errors import StorageError, StudyLocked
from tuner.node import locks
from tuner.node.locks import LOCK_NAME, free_port, lock_folder, node_locks, study_holder, study_lock

HOLDER = """
import sys, time
from pathlib import Path
from tuner.node.locks import node_locks, study_lock
kind, where, *names = sys.argv[1:]
lock = study_lock(Path(where)) if kind == "study" else node_locks(names, [20001], "their-study", Path(where))
with lock:
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder():
    """A function: another process that holds a lock until its input ends."""
    started = []

    def hold(*args: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=Path(__file__).parents[1],
        )  # fmt: skip
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.communicate(timeout=10)


def test_a_second_driver_is_refused_with_who_holds_the_study(holder, tmp_path):
    process = holder("study", tmp_path)
    with pytest.raises(StudyLocked) as caught, study_lock(tmp_path):
        pytest.fail("two drivers")
    for part in (f"pid {process.pid}", " since ", "study_lock", f"tuner stop {tmp_path}"):
        assert part in str(caught.value)


def test_readers_see_the_holder_and_block_nobody(holder, tmp_path):
    assert study_holder(tmp_path) is None
    process = holder("study", tmp_path)
    seen = study_holder(tmp_path)
    assert (seen.pid, seen.host, seen.lives) == (process.pid, socket.gethostname(), True)
    process.communicate("", timeout=10)
    assert study_holder(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_killed_holder_holds_nothing(holder, tmp_path):
    process = holder("study", tmp_path)
    process.kill()
    process.wait(10)
    assert (tmp_path / LOCK_NAME).exists()
    assert study_holder(tmp_path) is None
    with study_lock(tmp_path):
        assert study_holder(tmp_path).pid == os.getpid()


def test_a_lock_is_not_inherited_by_programs_started_under_it(tmp_path):
    with study_lock(tmp_path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with study_lock(tmp_path):
            assert child.poll() is None
    finally:
        child.kill()
        child.wait(10)


def test_one_process_cannot_drive_a_study_twice(tmp_path):
    with study_lock(tmp_path), pytest.raises(StudyLocked, match=f"pid {os.getpid()}"), study_lock(tmp_path):
        pytest.fail("two drivers")
    with study_lock(tmp_path):
        pass


def test_garbage_in_a_lock_file_is_no_holder(tmp_path):
    (tmp_path / LOCK_NAME).write_text('{"pid": ')
    assert study_holder(tmp_path) is None
    with study_lock(tmp_path):
        pass


@pytest.mark.parametrize("folder", ["/proc", "/no/such/folder"])
def test_a_folder_that_cannot_be_written_is_a_storage_error(folder):
    with pytest.raises(StorageError, match="cannot be locked") as caught, study_lock(Path(folder)):
        pytest.fail("locked")
    assert f"make {folder} writable" in str(caught.value)


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path):
    (tmp_path / LOCK_NAME).symlink_to(tmp_path / "precious")
    with pytest.raises(StorageError), study_lock(tmp_path):
        pytest.fail("locked")
    assert not (tmp_path / "precious").exists()


def test_a_file_system_without_locks_is_said_with_the_way_out(tmp_path):
    error = locks._storage_error(tmp_path / LOCK_NAME, OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)))
    assert "has no locks" in str(error)
    assert "local disk" in str(error)


def test_gpus_and_ports_of_another_study_are_refused_by_name(holder, tmp_path):
    process = holder("node", tmp_path, "GPU-a", "GPU-b")
    for gpus, ports, what in [(["GPU-b", "GPU-c"], [], "GPU GPU-b is lent"), ([], [20001], "port 20001 is lent")]:
        with pytest.raises(StudyLocked, match=what) as caught, node_locks(gpus, ports, "mine", tmp_path):
            pytest.fail("lent twice")
        assert "study their-study" in str(caught.value)
        assert f"pid {process.pid}" in str(caught.value)
    with node_locks(["GPU-c"], [20002], "mine", tmp_path):  # what a refused study had taken is given back
        pass
    process.kill()
    process.wait(10)
    with node_locks(["GPU-a", "GPU-b"], [20001], "mine", tmp_path):
        pass


def test_a_free_port_is_neither_listened_on_nor_lent(tmp_path):
    with free_port(folder=tmp_path) as busy, socket.create_server(("127.0.0.1", busy)):
        with free_port(range(busy, busy + 2), folder=tmp_path) as lent:
            assert lent == busy + 1
            with pytest.raises(StudyLocked, match=f"none of the ports {busy} to {busy + 1}"):
                free_port(range(busy, busy + 2), folder=tmp_path).__enter__()
        with free_port(range(busy, busy + 2), folder=tmp_path) as again:
            assert again == busy + 1
    assert list(tmp_path.iterdir()) == []


def test_ports_are_below_the_ephemeral_ones():
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(locks.PORTS) < max(lowest, 32768)


def test_the_folder_of_locks_is_for_all_users(tmp_path):
    code = "from tuner.node.locks import lock_folder; import os; os.umask(0o077); print(lock_folder())"
    wanted = tmp_path / "deep" / "tuner-locks"
    made = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TUNER_LOCKS": str(wanted)}, text=True, capture_output=True,
        timeout=60, check=True, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert made.stdout.strip() == str(wanted)
    assert stat.S_IMODE(wanted.stat().st_mode) == 0o1777
    with node_locks(["GPU-a"], [], "mine", wanted):
        assert stat.S_IMODE((wanted / "gpu-GPU-a.lock").stat().st_mode) == 0o666
    assert lock_folder().is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become other users")
def test_users_share_the_locks_of_a_node(tmp_path):
    """Another user's file in a sticky folder can be locked, and read, though it cannot be removed."""
    folder = tmp_path / "locks"
    folder.mkdir()
    folder.chmod(0o1777)
    for path in [tmp_path, *tmp_path.parents]:
        if path.owner() == "root" and path.is_relative_to("/tmp/") and path != Path("/tmp"):
            path.chmod(path.stat().st_mode | 0o055)
    (folder / "gpu-GPU-a.lock").touch()
    (folder / "gpu-GPU-a.lock").chmod(0o666)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setuid(65534)
            with node_locks(["GPU-a"], [], "of-nobody", folder):
                wait_for((folder / "seen").exists)
            code = 0
        finally:
            os._exit(code)
    try:
        wait_for(lambda: "of-nobody" in (folder / "gpu-GPU-a.lock").read_text())
        with pytest.raises(StudyLocked, match="of-nobody"), node_locks(["GPU-a"], [], "mine", folder):
            pytest.fail("lent twice")
    finally:
        (folder / "seen").touch()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with node_locks(["GPU-a"], [], "mine", folder):
        pass

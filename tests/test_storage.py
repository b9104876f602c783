"""Where a study is kept: other databases, other processes, and disks that are full, read-only or damaged."""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import psycopg
import pytest

from tests.disks import disk, filled, read_only, tuner_unprivileged, tuner_where
from tests.live import servers, status, tuner, wait_until, write_study
from tests.postgres import PASSWORD, QUOTED, PostgreSQL, postgresql
from tuner import cli, driving
from tuner.archive import Archive
from tuner.database import open_storage, place_of
from tuner.errors import StorageError, TunerError, without_password
from tuner.executors.recorded import RecordedExecutor, load_recording
from tuner.spec import StudySpec, load
from tuner.storage import StudyPaths, read_json, write_json
from tuner.study import Limit, Stop, run, stop_requested
from tuner.trial import State, Trial

PUBLISHED = Path(__file__).parents[1] / "studies" / "deepseek-r1-h200"
SIX = [5482.59, 6635.73, 3385.88, 7143.30, 6804.17, 2217.12]


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with postgresql() as server:
        yield server


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A small live study."""
    return write_study(tmp_path / "live")


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A copy of the published study, decided from its recording in no time."""
    folder = tmp_path / "deepseek-r1-h200"
    folder.mkdir()
    for name in ("study.yaml", "recorded.yaml"):
        shutil.copy(PUBLISHED / name, folder)
    return folder


def stored_in(study: Path, url: str) -> Path:
    text = (study / "study.yaml").read_text()
    (study / "study.yaml").write_text(f"{text}\nstorage: '{url}'\n")
    return study


def decided(study: Path, url: str | None = None, trials: int | None = None) -> list[Trial]:
    """Run the study by its recording, as far as asked; its trials."""
    spec = replace(load(study), storage=url)
    archive = Archive(spec, StudyPaths(study), create=True)
    archive.recover()
    with RecordedExecutor(load_recording(study / "recorded.yaml", spec)) as executor:
        run(archive, executor, Stop(), Limit(trials=trials))
    return archive.trials()


def values(trials: list[Trial]) -> list[float | None]:
    return [trial.value for trial in trials]


def one_line(done: subprocess.CompletedProcess[str], *parts: str, code: int = 1) -> str:
    """The error a command ended with: one line of it, with these parts, and no trace."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "fault of tuner itself" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("tuner: error: ")]
    assert errors == done.stderr.splitlines()[-1:], done.stderr
    for part in parts:
        assert part in errors[0]
    return errors[0]


def said(run: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """How a command that runs in the background ends."""
    stdout, stderr = run.communicate(timeout=120)
    return subprocess.CompletedProcess(run.args, run.returncode, stdout, stderr)


def called(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """What a command does, in this process: many of them are tried here, and each process takes its time to start."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli._run([str(word) for word in words])
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def wait_for_a_server(running: subprocess.Popen[str], study: Path) -> None:
    wait_until(lambda: servers(study) or running.poll() is not None, "a server")
    assert running.poll() is None, said(running).stderr


def in_background(*words: str | Path, start_s: float) -> subprocess.Popen[str]:
    """A command whose servers take so many seconds longer to start."""
    return subprocess.Popen(
        [sys.executable, "-m", "tuner", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TUNER_FAKE_FAULT": f"health-503={start_s}"},
    )  # fmt: skip


class TestPostgreSQL:
    def test_the_published_study_and_its_resumption(self, published: Path, database: PostgreSQL) -> None:
        assert values(decided(published, database.url, trials=4)) == SIX[:4]
        assert values(decided(published, database.url)) == SIX
        assert not list(published.glob("*.db*"))
        storage = open_storage(StudyPaths(published), database.url)
        (name,) = (name for name in optuna.get_all_study_names(storage) if name.startswith("deepseek"))
        stored = optuna.load_study(study_name=name, storage=storage)
        assert [trial.value for trial in stored.trials] == SIX
        assert stored.trials[3].user_attrs["phase"] == "parallelism"
        storage.engine.dispose()

    @pytest.mark.slow
    def test_run_resume_and_status_from_other_processes(self, tmp_path: Path, database: PostgreSQL) -> None:
        study = stored_in(write_study(tmp_path / "processes"), database.url)
        said = [tuner("status", study)]
        one_line(said[0], "been run", "tuner run")
        said += [tuner("run", study, "--trials", "1"), tuner("status", study), tuner("resume", study)]
        assert [done.returncode for done in said[1:]] == [0, 0, 0], [done.stderr for done in said]
        assert "1 trials, not finished" in said[2].stdout
        assert status(study)["done"]
        said += [tuner("report", study), tuner("export", study, "--format", "json"), tuner("plan", study)]
        assert [done.returncode for done in said[4:]] == [0, 0, 0], [done.stderr for done in said]
        written = b"".join(path.read_bytes() for path in study.rglob("*") if path.is_file() and path.suffix != ".yaml")
        for secret in (PASSWORD, QUOTED):
            assert not [done for done in said if secret in done.stdout + done.stderr]
            assert secret.encode() not in written

    @pytest.mark.slow
    def test_a_server_killed_in_the_middle_of_a_trial_loses_nothing(self, tmp_path: Path, database: PostgreSQL) -> None:
        study = stored_in(write_study(tmp_path / "killed"), database.url)
        running = in_background("run", study, start_s=3)
        wait_for_a_server(running, study)
        database.crash()
        try:
            one_line(said(running), database.shown, "refused", "run again", "what has finished is kept")
            assert servers(study) == []
            assert read_json(study / "trials" / "0000" / "outcome.json") is not None
            one_line(tuner("status", study), database.shown, "see that the database server runs")
            one_line(tuner("run", study), database.shown)
        finally:
            database.start()
        assert tuner("run", study).returncode == 0
        found = status(study)
        assert found["done"]
        assert [trial["failure"] for trial in found["trials"]] == [None] * len(found["trials"])
        assert [trial["number"] for trial in found["trials"]] == list(range(len(found["trials"])))

    @pytest.mark.slow
    def test_connections_cut_during_a_trial_are_made_again(self, tmp_path: Path, database: PostgreSQL) -> None:
        study = stored_in(write_study(tmp_path / "cut"), database.url)
        running = in_background("run", study, "--trials", "1", start_s=10)
        wait_for_a_server(running, study)
        database.crash()
        database.start()
        done = said(running)
        assert done.returncode == 0, done.stderr
        assert len(status(study)["trials"]) == 1

    @pytest.mark.slow
    def test_studies_that_begin_at_once_on_a_new_database(self, tmp_path: Path, database: PostgreSQL) -> None:
        with psycopg.connect(database.url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute("CREATE DATABASE together")
        url = database.url.replace("/postgres", "/together")
        studies = [stored_in(write_study(tmp_path / f"study-{number}"), url) for number in range(4)]
        runs = [in_background("run", study, "--trials", "1", start_s=0) for study in studies]
        looks = [called("status", study) for study in studies]
        done = [said(run) for run in runs]
        assert [each.returncode for each in done] == [0] * 4, [each.stderr for each in done]
        for look in looks:
            assert look.returncode == 0 or one_line(look, "been run")
        assert [len(status(study)["trials"]) for study in studies] == [1] * 4

    @pytest.mark.parametrize(
        ("change", "cause"),
        [
            (lambda url: url.replace(QUOTED, "wr0ng%21"), "password authentication failed"),
            (lambda url: url.replace("tuner:", "nobody:"), "password authentication failed"),
            (lambda url: url.replace("/postgres", "/nowhere"), 'database "nowhere" does not exist'),
            (lambda url: url.replace("127.0.0.1", "host.invalid"), "host.invalid"),
            (lambda url: url[: url.rindex(":")] + ":1/postgres", "refused"),
            (lambda url: url.replace("postgresql+psycopg", "mysql"), "driver is not installed"),
            (lambda url: url.replace("postgresql+psycopg", "redis"), "write sqlite:///study.db or postgresql"),
        ],
    )
    def test_what_cannot_be_reached_is_said_without_the_password(
        self, study: Path, database: PostgreSQL, change: Callable[[str], str], cause: str
    ) -> None:
        url = change(database.url)
        done = called("run", stored_in(study, url))
        one_line(done, without_password(url), cause)
        for secret in (QUOTED, PASSWORD, "wr0ng"):
            assert secret not in done.stdout + done.stderr
        assert not (study / "trials").exists()

    def test_traces_hold_no_password(self, study: Path, database: PostgreSQL) -> None:
        done = tuner("run", stored_in(study, database.url.replace("/postgres", "/nowhere")), "--debug")
        assert "Traceback" in done.stderr
        assert QUOTED not in done.stderr
        assert PASSWORD not in done.stderr

    @pytest.mark.parametrize(
        "line",
        [
            "storage: postgresql//me:s3cret@host/db",
            "storage: me:s3cret@host",
            "storage: postgresql://me:s3cret@t@host/db",
            "storag: postgresql://me:s3cret@host/db",
            "storage: postgresql://me:s3cret@host:port/db",
            "storage: postgresql://host:1/db?password=s3cret&user=me",
        ],
    )
    def test_a_badly_written_url_is_said_without_the_password(self, study: Path, line: str) -> None:
        (study / "study.yaml").write_text(f"{(study / 'study.yaml').read_text()}{line}\n")
        done = called("run", study)
        assert done.returncode in (1, 2)
        assert "Traceback" not in done.stderr
        assert "***" in done.stderr
        assert "s3cret" not in done.stderr
        assert "storag" in done.stderr or "database" in done.stderr


class TestSQLite:
    def test_a_file_of_another_name_lies_in_the_study_folder_wherever_one_stands(
        self, published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert values(decided(published, "sqlite:///other.db", trials=3)) == SIX[:3]
        monkeypatch.chdir(published)
        assert values(decided(published, "sqlite:///other.db")) == SIX
        assert [path.name for path in published.glob("*.db")] == ["other.db"]
        assert values(decided(published, f"sqlite:///{tmp_path}/elsewhere.db")) == SIX
        assert (tmp_path / "elsewhere.db").stat().st_size > 0

    def test_it_uses_a_write_ahead_log_under_any_name(self, published: Path) -> None:
        decided(published, "sqlite:///other.db", trials=1)
        with closing(sqlite3.connect(published / "other.db")) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    def test_a_finished_run_leaves_everything_in_the_one_file(self, published: Path) -> None:
        assert tuner("replay", published).returncode == 0
        assert [path.name for path in (published / "replay").glob("study.db*")] == ["study.db"]

    def test_memory_is_refused(self, study: Path) -> None:
        one_line(called("run", stored_in(study, "sqlite://")), "gone after the run", "sqlite:///study.db")

    def test_reading_makes_no_file(self, study: Path) -> None:
        for url in (None, "sqlite:///other.db"):
            with pytest.raises(StorageError, match="nothing has been run here yet"):
                open_storage(StudyPaths(study), url)
        assert [path.name for path in study.iterdir()] == ["study.yaml"]

    def test_a_place_is_shown_as_a_file_or_without_its_password(self, study: Path) -> None:
        paths = StudyPaths(study)
        assert place_of(paths, None) == place_of(paths, "sqlite:///study.db") == f"{study}/study.db"
        assert place_of(paths, "postgresql://me:s3cret@host/db") == "postgresql://me:***@host/db"


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
for statement in sys.argv[2:]:
    print(connection.execute(statement).fetchall(), flush=True)
print("holding", flush=True)
sys.stdin.readline()
print(connection.execute("SELECT count(*) FROM trials").fetchone()[0], flush=True)
connection.execute("COMMIT")
print(connection.execute("SELECT count(*) FROM trials").fetchone()[0], flush=True)
"""


@contextmanager
def holding(database: Path, *statements: str) -> Iterator[Callable[[], list[int]]]:
    """Another process inside a transaction; calling ends it: the trials it saw before its end and after."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(database), *statements],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        while "holding" not in (line := other.stdout.readline()):
            assert line, "the other process ended"
        yield lambda: [int(number) for number in other.communicate("\n", timeout=60)[0].split()]


class TestOtherProcesses:
    def test_a_reader_that_stays_in_its_transaction_does_not_stop_the_writer(self, published: Path) -> None:
        decided(published, trials=2)
        with holding(published / "study.db", "BEGIN", "SELECT * FROM trials") as let_go:
            assert values(decided(published)) == SIX
            assert let_go() == [2, 6]

    @pytest.mark.parametrize(
        "change", ["SELECT 1", "INSERT INTO study_user_attributes (study_id, key, value_json) VALUES (1, 'x', '1')"]
    )
    @pytest.mark.slow
    def test_a_writer_that_holds_it_for_seconds_only_delays(self, published: Path, change: str) -> None:
        decided(published, trials=2)
        with holding(published / "study.db", "BEGIN EXCLUSIVE", change) as let_go:
            seen: list[int] = []
            later = threading.Timer(4.0, lambda: seen.extend(let_go()))
            later.start()
            began = time.monotonic()
            assert values(decided(published)) == SIX
            assert time.monotonic() - began > 3.0
            later.join(60)
            assert seen[0] == 2

    @pytest.mark.slow
    def test_a_run_goes_on_while_others_read_all_the_time(self, study: Path) -> None:
        running = in_background("run", study, start_s=0)
        wait_until((study / "study.db").exists, "a database")
        looks = []
        while running.poll() is None:
            looks.append(called("status", study))
            time.sleep(0.1)
        done = said(running)
        assert done.returncode == 0, done.stderr
        assert [look.stderr for look in looks if look.returncode != 0 and "not been run" not in look.stderr
                and "nothing has been run" not in look.stderr] == []  # fmt: skip
        assert status(study)["done"]


class TestNothingCanBeWritten:
    """Every one ends before anything was started."""

    @pytest.fixture(autouse=True)
    def _nothing_is_started(self, study: Path) -> Iterator[None]:
        yield
        assert servers(study) == []
        assert not list(study.glob("trials/*"))

    def test_a_read_only_file_system(self, study: Path) -> None:
        one_line(tuner_where(read_only(study), "run", study), f"{study}: ", "read-only", "copy the study")

    def test_no_permission(self, study: Path) -> None:
        study.chmod(0o555)
        one_line(tuner_unprivileged("run", study), f"{study}: Permission denied", "give the permission to write")

    def test_no_permission_to_read(self, study: Path) -> None:
        (study / "study.yaml").chmod(0)
        one_line(tuner_unprivileged("run", study), "study.yaml: ", "permission", code=2)

    def test_a_full_disk(self, study: Path) -> None:
        one_line(tuner_where(filled(study, 64), "run", study), f"{study}: No space left", "make room")

    @pytest.mark.parametrize("kilobytes", [64, 160, 1024])
    def test_a_disk_too_small(self, study: Path, kilobytes: int) -> None:
        small = f"{filled(study, kilobytes)}\nrm '{study}/ballast'"
        one_line(tuner_where(small, "run", study), str(study), "make room")

    def test_a_read_only_database(self, study: Path) -> None:
        Archive(load(study), StudyPaths(study), create=True)
        before = (study / "study.db").read_bytes()
        done = tuner_where(read_only(study / "study.db"), "run", study)
        one_line(done, f"{study}/study.db: ", "readonly", "make the file and its folder writable")
        assert (study / "study.db").read_bytes() == before

    def test_a_stop_request_that_cannot_be_removed(self, study: Path) -> None:
        (study / ".tuner-stop").mkdir()
        one_line(called("run", study), ".tuner-stop: Is a directory")


class TestReadOnly:
    def test_a_finished_study_can_be_read_and_exported(self, published: Path) -> None:
        assert called("replay", published).returncode == 0
        replay = published / "replay"
        for words in (("status", replay), ("export", replay), ("status", replay, "--json")):
            done = tuner_where(read_only(published), *words)
            assert done.returncode == 0, done.stderr
            assert "7143.3" in done.stdout
        replay.chmod(0o555)
        (replay / "study.db").chmod(0o444)
        assert tuner_unprivileged("export", replay).returncode == 0
        one_line(tuner_unprivileged("report", replay), str(replay), "give the permission to write")

    def test_a_replay_into_it_is_refused(self, published: Path) -> None:
        done = tuner_where(read_only(published), "replay", published)
        one_line(done, f"{published}/replay", "written beside its study", "copy the study")

    def test_a_replay_of_before_stays(self, published: Path) -> None:
        assert called("replay", published).returncode == 0
        before = (published / "replay" / "study.db").read_bytes()
        one_line(tuner_where(read_only(published), "replay", published), "read-only")
        assert (published / "replay" / "study.db").read_bytes() == before


@pytest.mark.slow
class TestADiskThatFills:
    def test_the_running_trial_is_kept_and_the_run_goes_on_once_there_is_room(self, tmp_path: Path) -> None:
        with disk(tmp_path / "disk", megabytes=140) as small:
            path, seen = small.path / "live", write_study(small.seen / "live")
            first = small.start("run", path)
            wait_until(lambda: "benchmark" in str(read_json(seen / ".tuner-now.json")), "a benchmark")
            small.fill()
            one_line(said(first), str(path), "make room", "what has finished is kept")
            one_line(small.tuner("run", path), str(path), "make room")
            small.free()
            found = json.loads(small.tuner("status", path, "--json").stdout)
            assert [trial["state"] for trial in found["trials"]] == ["measured"]
            done = small.tuner("run", path)
            assert done.returncode == 0, done.stderr
            after = json.loads(small.tuner("status", path, "--json").stdout)
            assert after["done"]
            assert after["trials"][0] == found["trials"][0]
            assert [trial["failure"] for trial in after["trials"]] == [None] * len(after["trials"])
            assert not (seen / ".tuner-spare").exists()


class TestDamage:
    @pytest.mark.parametrize("command", ["run", "status"])
    @pytest.mark.parametrize(
        ("content", "parts"),
        [
            (b"\x00garbage" * 1000, ("file is not a database", "move it away")),
            (b"SQLite format 3\x00" + b"\xff" * 5000, ("database", "move it away")),
            ("half", ("study.db: ", "move it away")),
            ("folder", ("is a folder", "move it away")),
            ("foreign", ("holds another program's tables (invoices)", "name another file")),
            ("namesake", ("holds another program's tables (studies)", "name another file")),
            ("old", ("no longer compatible", "optuna storage upgrade", "move it away")),
        ],
    )
    def test_a_database_that_is_none_is_left_alone(
        self, published: Path, content: bytes | str, parts: tuple[str, ...], command: str
    ) -> None:
        database = published / "study.db"
        _damage(published, database, content)
        before = None if content == "folder" else database.read_bytes()
        done = called(command, _without_datasets(published))
        one_line(done, str(database), *parts)
        assert before is None or database.read_bytes() == before
        assert not (published / "trials").exists() or content == "half"

    def test_an_empty_file_is_no_database_yet(self, published: Path) -> None:
        (published / "study.db").touch()
        one_line(called("status", published), "nothing has been run here yet")
        assert values(decided(published)) == SIX

    @pytest.mark.parametrize("torn", ["half", "", "[]", "{}", '{"study": "NAME", "outcome": {"value": []}}'])
    def test_an_outcome_torn_in_half_is_measured_again(self, published: Path, torn: str) -> None:
        archive, _ = _left_running(published)
        path = published / "trials" / "0003" / "outcome.json"
        whole = (published / "trials" / "0002" / "outcome.json").read_text()
        path.parent.mkdir()
        path.write_text(whole[: len(whole) // 2] if torn == "half" else torn.replace("NAME", archive.name))
        trials = decided(published)
        assert trials[3].failure is not None
        assert trials[3].failure.kind == "abandoned"
        assert [trial.value for trial in trials if trial.state is State.MEASURED] == SIX

    @pytest.mark.parametrize("torn", ["half", "", "[]", '{"outcome": 3}', '{"outcome": {"comparisons": 3}}'])
    def test_a_comparison_torn_in_half_is_left_out(self, published: Path, torn: str) -> None:
        driving.replay(published, None, say=lambda text: None)
        for path in (published / "replay" / "comparison").glob("*.json"):
            path.write_text(path.read_text()[:100] if torn == "half" else torn)
        assert "7143.30" in driving.report(published / "replay", say=lambda text: None)

    @pytest.mark.parametrize("garbage", [b"", b"{", b"[1]", b"{}", b"\xff\xfe\x00", b'{"trial": 1, "since": "noon"}'])
    def test_garbage_in_the_files_between_processes_is_as_if_they_were_not_there(
        self, published: Path, garbage: bytes
    ) -> None:
        decided(published)
        for name in (".tuner-now.json", ".tuner-stop", ".tuner.lock", "replay.json"):
            if name == "replay.json" and garbage[-1:] == b"}":
                continue
            (published / name).write_bytes(garbage)
        shown: list[str] = []
        driving.status(published, watch=False, as_data=False, show=shown.append)
        assert "nobody runs it now" in shown[0]
        assert "7143.30" in shown[0]
        assert stop_requested(StudyPaths(published)) is None
        with pytest.raises(TunerError, match="nobody runs this study now"):
            driving.stop(published, now=False)

    @pytest.mark.slow
    def test_a_run_is_not_stopped_by_garbage(self, study: Path) -> None:
        (study / "trials" / "0000").mkdir(parents=True)
        (study / "trials" / "0000" / "server.json").write_text('{"pid": [1]}')
        for name in (".tuner-now.json", ".tuner-stop", ".tuner.lock"):
            (study / name).write_bytes(b"\xff\xfe[]")
        done = tuner("run", study, "--trials", "1")
        assert done.returncode == 0, done.stderr
        assert status(study)["trials"][0]["state"] == "measured"

    def test_a_replay_without_its_study_says_so(self, published: Path) -> None:
        driving.replay(published, None, say=lambda text: None)
        write_json(published / "replay" / "replay.json", {})
        one_line(called("status", published / "replay"), "replay.json: is damaged", "replay the study again", code=2)


def _damage(study: Path, database: Path, content: bytes | str) -> None:
    if isinstance(content, bytes):
        database.write_bytes(content)
    elif content == "folder":
        database.mkdir()
    elif content == "half":
        decided(study)
        _in_one_file(database)
        database.write_bytes(database.read_bytes()[: database.stat().st_size // 2])
    elif content == "old":
        Archive(load(study), StudyPaths(study), create=True)
        _statement(database, "UPDATE alembic_version SET version_num = 'v2.6.0.a'")
    else:
        table = "invoices (id)" if content == "foreign" else "studies (name)"
        _statement(database, f"CREATE TABLE {table}")


def _statement(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(statement)
        connection.commit()
    _in_one_file(database)


def _in_one_file(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _without_datasets(study: Path) -> Path:
    """A run asks for the data sets first; these studies need none of theirs."""
    (study / "ShareGPT_V3_unfiltered_cleaned_split.json").write_text("[]")
    return study


def _left_running(study: Path) -> tuple[Archive, Any]:
    """Three trials done, and a fourth that a killed run left."""
    decided(study, trials=3)
    spec: StudySpec = load(study)
    archive = Archive(spec, StudyPaths(study), create=True)
    decision: Any = archive.decide()
    return archive, archive.start(decision)

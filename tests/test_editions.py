"""An edited, renamed or damaged study: nothing is lost, what still counts is taken over, and it is said."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tuner import driving
from tuner.archive import Archive
from tuner.editions import Taken
from tuner.errors import StorageError
from tuner.executors.recorded import RecordedExecutor, load_recording
from tuner.search import Done, Evaluate
from tuner.search.records import SET_ASIDE
from tuner.study import Limit, Stop
from tuner.study import run as run_study
from tuner.trial import Outcome, State

PUBLISHED = Path(__file__).parents[1] / "studies" / "deepseek-r1-h200"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "deepseek"
    folder.mkdir()
    for name in ("study.yaml", "recorded.yaml"):
        shutil.copy(PUBLISHED / name, folder)
    written = yaml.safe_load((folder / "study.yaml").read_text())
    space = yaml.safe_load((PUBLISHED.parents[1] / "search_spaces" / "deepseek-r1-h200.yaml").read_text())
    (folder / "study.yaml").write_text(yaml.safe_dump(written | {"search_space": space}, sort_keys=False))
    return folder


def edit(study: Path, change: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
    written = yaml.safe_load((study / "study.yaml").read_text())
    change(written)
    (study / "study.yaml").write_text(yaml.safe_dump(written, sort_keys=False))


def opened(study: Path) -> Archive:
    spec, paths = driving.study_of(study)
    return Archive(spec, paths, create=True)


def run(study: Path, most: int | None = None) -> tuple[Archive, Taken | None]:
    """Go on as `tuner run` does, with recorded answers in place of servers."""
    archive = opened(study)
    archive.recover()
    taken = archive.carry_over()
    with RecordedExecutor(load_recording(study / "recorded.yaml", archive.spec)) as executor:
        run_study(archive, executor, Stop(), Limit(trials=most))
    return archive, taken


def values(archive: Archive) -> list[float | None]:
    return [trial.value for trial in archive.trials()]


def folders(study: Path) -> list[str]:
    return sorted(path.name for path in study.glob("trials*"))


def test_a_study_begun_has_nothing_to_take_over(study: Path) -> None:
    archive, taken = run(study)
    assert taken is None
    assert len(archive.trials()) == 6
    assert folders(study) == ["trials"]


def test_an_option_more_takes_everything_over(study: Path) -> None:
    first, _ = run(study)
    edit(
        study,
        lambda s: s["search_space"]["stages"][1]["options"].update(
            dp8={"sglang": {"args": {"enable-dp-attention": True, "dp-size": 8}}}
        ),
    )
    archive = opened(study)
    taken = archive.carry_over()
    assert taken == Taken(first.name, 6, 6)
    assert values(archive) == values(first)
    decision = archive.decide()
    assert isinstance(decision, Evaluate)
    assert decision.configuration["parallelism"] == "dp8"
    assert folders(study) == ["trials", f"trials-{first.name}"]
    assert len(list((study / f"trials-{first.name}").glob("*/outcome.json"))) == 6


def test_another_workload_counts_nothing_and_keeps_everything(study: Path) -> None:
    first, _ = run(study, most=2)
    edit(study, lambda s: s["workloads"]["sharegpt"].update(num_prompts=999))
    archive = opened(study)
    assert archive.carry_over() == Taken(first.name, 0, 2)
    assert archive.trials() == []
    assert len(list((study / f"trials-{first.name}").glob("*/outcome.json"))) == 2


def test_another_version_of_one_engine_leaves_the_others(study: Path) -> None:
    first, _ = run(study)
    edit(study, lambda s: s["engines"]["vllm"].update(version="0.11.1"))
    archive = opened(study)
    assert archive.carry_over() == Taken(first.name, 5, 6)
    assert 5482.59 not in values(archive)


def test_an_engine_less_leaves_the_others(study: Path) -> None:
    first, _ = run(study)
    edit(study, lambda s: s["engines"].pop("tensorrt-llm"))
    archive = opened(study)
    assert archive.carry_over() == Taken(first.name, 5, 6)
    assert 3385.88 not in values(archive)


def test_another_comparison_keeps_trials_and_drops_comparisons(study: Path) -> None:
    first, _ = run(study)
    baseline = first.spec.space.baseline
    assert first.comparisons(baseline, first.trials())
    edit(study, lambda s: s["workloads"]["short"].update(num_prompts=999))
    archive = opened(study)
    assert archive.carry_over() == Taken(first.name, 6, 6)
    assert archive.comparisons(baseline, archive.trials()) == {}


def test_there_and_back_again_finds_each_edition_s_launches(study: Path) -> None:
    first, _ = run(study, most=4)
    original = (study / "study.yaml").read_text()
    edit(study, lambda s: s["workloads"]["sharegpt"].update(num_prompts=1001))
    second, _ = run(study, most=2)
    (study / "study.yaml").write_text(original)
    archive, taken = run(study)
    assert taken is None
    assert archive.name == first.name
    assert len(archive.trials()) == 6
    assert len(list((study / "trials").glob("*/outcome.json"))) == 6
    assert len(list((study / f"trials-{second.name}").glob("*/outcome.json"))) == 2
    assert folders(study) == ["trials", f"trials-{second.name}"]


def test_a_renamed_folder_goes_on(study: Path, tmp_path: Path) -> None:
    first, _ = run(study, most=3)
    moved = tmp_path / "elsewhere" / "another name"
    moved.parent.mkdir()
    study.rename(moved)
    archive, taken = run(moved)
    assert taken is None
    assert archive.name == first.name
    assert len(archive.trials()) == 6
    assert folders(moved) == ["trials"]


def test_a_lost_database_loses_no_launch(study: Path) -> None:
    run(study, most=3)
    for path in study.glob("study.db*"):
        path.unlink()
    archive, taken = run(study, most=1)
    assert taken is None
    assert len(archive.trials()) == 1
    assert len(list((study / f"trials-{archive.name}").glob("*/outcome.json"))) == 3


@pytest.mark.parametrize("replaced", [False, True])
def test_a_database_taken_away_while_it_runs_is_noticed(study: Path, replaced: bool) -> None:
    archive = opened(study)
    decision = archive.decide()
    assert isinstance(decision, Evaluate)
    job = archive.start(decision)
    (study / "study.db").rename(study / "away.db")
    if replaced:
        shutil.copy(study / "away.db", study / "study.db")
    with pytest.raises(StorageError, match=r"study.db: was removed or replaced while the study runs"):
        archive.finish(job, Outcome.failed("crash", "died"))


def test_failed_trials_are_launched_again_when_asked(study: Path) -> None:
    recorded = yaml.safe_load((study / "recorded.yaml").read_text())
    whole = (study / "recorded.yaml").read_text()
    recorded["measurements"][1] = {
        "workload": "sharegpt",
        "command": recorded["measurements"][1]["command"],
        "failure": {"kind": "not-installed", "message": "no such program"},
    }
    (study / "recorded.yaml").write_text(yaml.safe_dump(recorded))
    first, _ = run(study)
    assert isinstance(first.decide(), Done)
    (study / "recorded.yaml").write_text(whole)
    assert first.retry_failed() == [1]
    archive, _ = run(study)
    again = archive.trials()
    assert again[1].phase == SET_ASIDE
    assert again[1].state is State.FAILED
    assert [trial.value for trial in again[3:]] == [6635.73, 7143.30, 6804.17, 2217.12]
    decision = archive.decide()
    assert isinstance(decision, Done)
    assert decision.value == 7143.30


def test_a_reader_of_an_edited_study_is_told(study: Path) -> None:
    first, _ = run(study)
    edit(study, lambda s: s["workloads"]["sharegpt"].update(num_prompts=999))
    with pytest.raises(StorageError, match=rf"was edited since it was run \(as {first.name}\)"):
        Archive(*driving.study_of(study))

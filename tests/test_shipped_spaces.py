"""Every search space that is shipped: it loads at every known version of its engines, plans, and changes things."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.written import write
from tuner import locate
from tuner.engines import engine
from tuner.objective import NORMAL
from tuner.report.bounds import bounds
from tuner.report.plan import plan
from tuner.space import SearchSpace
from tuner.spec import StudySpec, load
from tuner.trial import Configuration

SPACES = locate.shipped()
ALL = ("vllm", "sglang", "tensorrt-llm")
ENGINES = {"vllm-cpu-tiny": ("vllm",)}
VERSIONS = {
    "vllm": ["0.11.0", *(f"0.{minor}.0" for minor in range(12, 33))],
    "sglang": [f"0.5.{patch}" for patch in range(3, 24)],
    "tensorrt-llm": ["1.0.0", "1.1.0", "1.2.0"],
}
OLDEST, NEWEST = ({name: versions[end] for name, versions in VERSIONS.items()} for end in (0, -1))


def study(folder: Path, space: str, versions: dict[str, str]) -> StudySpec:
    """A study over a shipped space with its defaults, on eight GPUs."""
    engines = {name: {"version": versions[name]} for name in ENGINES.get(space, ALL) if name in versions}
    written = {
        "model": "some/model",
        "search_space": space,
        "node": {"gpus": 8},
        "engines": engines,
        "workloads": {"w": {"num_prompts": 1000}},
    }
    write(folder, study=yaml.safe_dump(written))
    return load(folder)


def starts(space: SearchSpace) -> Iterator[Configuration]:
    yield from space.candidates(space.stages[0], space.baseline)


@pytest.mark.parametrize("versions", [OLDEST, NEWEST], ids=["oldest", "newest"])
@pytest.mark.parametrize("name", SPACES)
def test_its_default_study_plans(tmp_path: Path, name: str, versions: dict[str, str]) -> None:
    planned = study(tmp_path, name, versions)
    within = bounds(planned.space, NORMAL)
    assert 0 < within.fewest <= within.once <= within.most < 200
    assert versions is OLDEST or f"{within.fewest} to {within.most} trials" in plan(planned)


@pytest.mark.parametrize("versions", [OLDEST, NEWEST], ids=["oldest", "newest"])
@pytest.mark.parametrize("name", SPACES)
def test_every_option_is_a_launch_of_its_own(tmp_path: Path, name: str, versions: dict[str, str]) -> None:
    space = study(tmp_path, name, versions).space
    for start in starts(space):
        for stage in space.stages[1:]:
            if stage.options:
                launches = {space.identity(candidate) for candidate in space.candidates(stage, start)}
                assert len(launches) == len(space.offered(stage, space.engine_of(start))), stage.name


@pytest.mark.parametrize("name", SPACES)
def test_every_option_starts_as_far_as_is_known(tmp_path: Path, name: str) -> None:
    """Nothing in it is refused by what is known of an engine at its newest version, on eight GPUs."""
    space = study(tmp_path, name, NEWEST).space
    refused = []
    for start in starts(space):
        adapter = engine(space.engine_of(start), NEWEST[space.engine_of(start)])
        for stage in space.stages:
            for candidate in space.candidates(stage, start) if stage.options else []:
                found = adapter.refusals(space.settings(candidate), gpus=8)
                refused += [(stage.name, candidate[stage.name], notice.text) for notice in found]
    assert refused == []


@pytest.mark.parametrize("name", SPACES)
def test_what_a_version_lacks_is_left_out_and_told(tmp_path: Path, name: str) -> None:
    """It loads at every release, and the newest ones have every option."""
    assert study(tmp_path, name, NEWEST).notes == ()
    for engine_name in ENGINES.get(name, ALL):
        for version in VERSIONS[engine_name]:
            loaded = study(tmp_path, name, {engine_name: version})
            told = [note for note in loaded.notes if "does not take" in note]
            assert all(f"{engine_name} {version} does not take" in note for note in told)


def test_each_lever_is_a_stage_of_the_full_space(tmp_path: Path) -> None:
    names = [stage.name for stage in study(tmp_path, "deepseek-v3-h200-full", NEWEST).space.stages]
    assert names == [
        "engine", "parallelism", "batched-tokens", "running-requests", "memory", "kv-cache-dtype", "attention", "moe",
        "deep-gemm", "cuda-graphs", "kv-offload", "scheduling", "streaming", "torch-compile", "speculative",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["deepseek-v3-h200-full", "moe", "dense", "low-latency"])
def test_both_arms_of_speculation_have_the_same_places(tmp_path: Path, name: str) -> None:
    space = study(tmp_path, name, NEWEST).space
    stage = space.stage("speculative")
    places = {"vllm": "max-num-seqs", "sglang": "max-running-requests", "tensorrt-llm": "max_batch_size"}
    for start in starts(space):
        asked = [space.settings(candidate) for candidate in space.candidates(stage, start)]
        assert len({one.args[places[one.engine]] for one in asked}) == 1
        assert len(asked) >= 3


@pytest.mark.parametrize("path", SPACES.values(), ids=lambda path: path.stem)
def test_it_says_what_it_and_each_stage_is_for(path: Path) -> None:
    """A comment right above the stage, or inside it."""
    assert 20 < len(locate.about(path)) < 120
    commented = {"": False}
    above = False
    for line in path.read_text().partition("\nstages:\n")[2].splitlines():
        if found := re.match(r"  - name: (\S+)", line):
            commented[found[1]] = above or "#" in line
        elif not line.startswith("  #"):
            commented[list(commented)[-1]] |= "#" in line
        above = line.startswith("  #")
    assert len(commented) > 4
    assert [name for name, told in commented.items() if name and not told] == []

"""The published study over real processes: stand-ins that the launchers find under the engines' real names."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
import yaml

from tests.live import servers, status, tuner
from tuner.engines import engine, engine_of_command
from tuner.testing.standins import install

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "studies" / "deepseek-r1-h200"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """The study as shipped, on pretended GPUs, with a dataset file and the stand-ins in the launchers' paths."""
    folder = tmp_path / "deepseek-r1-h200"
    folder.mkdir()
    install(folder / "bin")
    written = yaml.safe_load((PUBLISHED / "study.yaml").read_text())
    written["node"] = {"gpus": {"simulated": 8}}
    for each in written["engines"].values():
        each["launcher"] = {"type": "process", "path": "./bin"}
    written["compare_on"] = ["short"]  # the others send millions of tokens
    (folder / "study.yaml").write_text(yaml.safe_dump(written, sort_keys=False))
    shutil.copy(PUBLISHED / "recorded.yaml", folder)
    (folder / "ShareGPT_V3_unfiltered_cleaned_split.json").write_text(json.dumps(conversations()))
    return folder


def conversations() -> list[dict[str, object]]:
    draw = random.Random(0)
    words = [f"word{i}" for i in range(500)]

    def text(least: int, most: int) -> str:
        return " ".join(draw.choices(words, k=draw.randint(least, most)))

    return [
        {
            "id": str(i),
            "conversations": [{"from": "human", "value": text(10, 60)}, {"from": "gpt", "value": text(5, 9)}],
        }
        for i in range(1200)
    ]


def canonical(command: str) -> tuple[str, str]:
    """Engine and fingerprint: what is left of a command without host and port, in canonical flags."""
    argv = command.split()
    name = engine_of_command(argv)
    versions = {"vllm": "0.11.0", "sglang": "0.5.3", "tensorrt-llm": "1.0.0"}
    return name, engine(name, versions[name]).parse(argv).fingerprint


# Times as long as the stand-ins' own model says, so that each published step wins or loses as it did.
AS_PUBLISHED = (
    "vllm=2,trtllm-serve=3,sglang.launch_server=1.5,--enable-dp-attention=0.8,--enable-torch-compile=1.3,"
    "--speculative-algorithm=2"
)


def test_six_launches_with_the_published_commands(study: Path) -> None:
    done = tuner("run", study, env={"TUNER_FAKE_TIME_SCALE": "0.5", "TUNER_FAKE_SLOWDOWN": AS_PUBLISHED})
    assert done.returncode == 0, done.stderr
    found = status(study)
    assert found["done"]
    assert found["origin"] == "simulated"
    assert servers(study) == []
    outcomes = [json.loads((study / "trials" / f"{n:04d}" / "outcome.json").read_text())["outcome"] for n in range(6)]
    published = yaml.safe_load((study / "recorded.yaml").read_text())["measurements"][:6]
    assert len(found["trials"]) == 6
    assert [canonical(outcome["command"]) for outcome in outcomes] == [canonical(each["command"]) for each in published]
    assert found["best"]["command"].endswith("--tp-size 8 --enable-dp-attention")
    assert len(list((study / "comparison").glob("*.json"))) == 2
    assert [entry["effective"]["no_op"] for entry in outcomes] == [False, False, False, True, False, False]

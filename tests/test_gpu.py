"""What is read from NVML and made of it; the driver is a working fake, the module is the real one."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tuner.errors import NodeSick, SpecError
from tuner.node import gpu
from tuner.spec import NodeSpec
from tuner.testing.nvml import FakeGpu, FakeNvml


def node_of(count: int) -> FakeNvml:
    return FakeNvml([FakeGpu(f"GPU-{letter}{letter}-0") for letter in "abcdefgh"[:count]])


def indices(spec: NodeSpec, nvml: FakeNvml, shown: str | None = None) -> list[int]:
    environ = {} if shown is None else {"CUDA_VISIBLE_DEVICES": shown}
    return [card.index for card in gpu.visible(spec, nvml, environ)]


@pytest.mark.parametrize("spec", [NodeSpec(gpus=0), NodeSpec(simulated=8)])
def test_a_node_without_gpus_asks_no_driver(spec):
    asked = FakeNvml([], driver=None)
    assert gpu.visible(spec, asked) == ()
    code = (
        "import sys; from tuner.node import gpu; from tuner.spec import NodeSpec\n"
        f"gpu.visible(NodeSpec(gpus={spec.gpus!r}, simulated={spec.simulated})); gpu.used(()); gpu.look(())\n"
        "gpu.wait_until_free((), {}, 1); sys.exit('pynvml' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_what_is_known_of_a_gpu():
    nvml = FakeNvml([FakeGpu("GPU-a", name="NVIDIA H200", processes={os.getpid(): 5, 4_000_000: None})])
    (card,) = gpu.visible(NodeSpec(gpus="auto"), nvml, {})
    assert (card.index, card.uuid, card.name, card.driver) == (0, "GPU-a", "NVIDIA H200", "580.95.05")
    assert card.memory_total > card.memory_used > 0
    assert [process.pid for process in card.processes] == [os.getpid(), 4_000_000]
    assert "python" in card.processes[0].command
    assert (card.processes[1].memory, card.processes[1].command) == (None, "")
    assert nvml.sessions == 0


@pytest.mark.parametrize(
    ("asked", "shown", "expected"),
    [
        ("auto", None, [0, 1, 2, 3]),
        (2, None, [0, 1]),
        ("auto", "2,0", [2, 0]),
        (1, "2,0", [2]),
        ("auto", " 1 , 3 ", [1, 3]),
        ("auto", "GPU-bb,GPU-dd-0", [1, 3]),
        ("auto", "1,-1,2", [1]),
        ("auto", "1,9,2", [1]),
        (("GPU-cc-0", "GPU-aa-0"), None, [2, 0]),
        (("GPU-cc-0",), "2,1", [2]),
    ],
)
def test_the_gpus_that_a_study_may_use(asked, shown, expected):
    assert indices(NodeSpec(gpus=asked), node_of(4), shown) == expected


@pytest.mark.parametrize(
    ("asked", "shown", "words"),
    [
        (8, None, "asks for more than the 4 of this node; write gpus: 4"),
        (4, "0,1", "(4 present, CUDA_VISIBLE_DEVICES shows 2)"),
        ("auto", "", "no GPU can be used here (4 present, CUDA_VISIBLE_DEVICES shows 0)"),
        (("GPU-zz-0",), None, "GPU-zz-0 is not on this node; it has GPU-aa-0"),
        (("GPU-cc-0",), "0", "GPU-cc-0 is not on this node (4 present"),
    ],
)
def test_a_node_with_fewer_than_asked_is_refused(asked, shown, words):
    with pytest.raises(SpecError, match="node: gpus") as caught:
        indices(NodeSpec(gpus=asked), node_of(4), shown)
    assert words in str(caught.value)


def test_a_node_without_a_driver_is_refused_with_a_way_out():
    with pytest.raises(SpecError, match="no NVIDIA driver answers here") as caught:
        gpu.visible(NodeSpec(gpus=8), FakeNvml([], driver=None), {})
    assert "gpus: {simulated: 8}" in str(caught.value)
    with pytest.raises(SpecError, match="no GPU can be used here"):
        gpu.visible(NodeSpec(), FakeNvml([]), {})


def test_the_real_library_answers_or_is_refused_in_our_words():
    try:
        cards = gpu.visible(NodeSpec(gpus="auto"), environ={})
    except SpecError as error:
        assert "write gpus: 0" in str(error)  # noqa: PT017
    else:
        assert all(card.uuid.startswith("GPU-") and 0 < card.memory_used < card.memory_total for card in cards)


def test_idle_gpus_are_free_and_our_own_processes_are_not_foreign():
    nvml = FakeNvml([FakeGpu("GPU-a"), FakeGpu("GPU-b", used=70 * 1024**3, processes={123: None})])
    cards = gpu.visible(NodeSpec(), nvml, {})
    assert gpu.check_free(cards[:1]) is None
    assert gpu.check_free(cards, own_pids=[123]) is None


def test_foreign_processes_and_held_memory_are_named():
    nvml = FakeNvml([FakeGpu("GPU-a", processes={os.getpid(): 1}), FakeGpu("GPU-b", used=70 * 1024**3)])
    failure = gpu.check_free(gpu.visible(NodeSpec(), nvml, {}))
    assert failure.kind == "gpu-busy"
    assert f"GPU 0 is used by pid {os.getpid()} (" in failure.message
    assert "GPU 1 has 71680 MiB in use" in failure.message
    assert "foreign: wait" in failure.message


def test_memory_that_comes_back_slowly_is_waited_for():
    began = time.monotonic()
    resting = 600 * 1024**2

    def used() -> int:
        return max(resting, int((1 - (time.monotonic() - began)) * 100 * 1024**3))

    nvml = FakeNvml([FakeGpu("GPU-a", used=used), FakeGpu("GPU-b")])
    cards = gpu.visible(NodeSpec(), nvml, {})
    waited = gpu.wait_until_free(cards, {"GPU-a": resting, "GPU-b": 644_874_240}, 30, nvml)
    assert used() == resting
    assert 0.5 < waited < 25


def test_memory_that_stays_away_is_a_sick_node():
    card = FakeGpu("GPU-a")
    nvml = FakeNvml([card])
    cards = gpu.visible(NodeSpec(), nvml, {})
    resting = gpu.used(cards, nvml)
    card.used = 40 * 1024**3
    with pytest.raises(NodeSick, match="nvidia-smi") as caught:
        gpu.wait_until_free(cards, resting, 0.3, nvml)
    assert "GPU 0: 40345 MiB" in str(caught.value)

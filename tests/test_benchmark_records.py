"""The file that keeps the records of a run: what comes back, how small it is, what is no such file."""

from __future__ import annotations

import dataclasses
import random
import zipfile
from array import array
from pathlib import Path

import numpy as np
import pytest

from tuner.benchmarks import RampUp, Response, Run, Workload
from tuner.benchmarks.metrics import measure, measure_as
from tuner.benchmarks.records import COUNTS, TIMES, WORDS, read, write
from tuner.benchmarks.result import block
from tuner.errors import TunerError

WORKLOAD = Workload(
    "w", num_prompts=3, ramp_up=RampUp("linear", 1, 5), extra_body={"top_p": 0.5}, goodput={"ttft": 100.0}
)


def pass_of(count: int, events: int, seed: int = 1) -> Run:
    """A run whose events come some 20 ms apart, to the nanosecond as a clock gives them."""
    rng = random.Random(seed)
    responses = []
    for number in range(count):
        gaps = array("d", (rng.gauss(0.02, 0.004) for _ in range(events)))
        ttft = rng.uniform(0.1, 0.4)
        responses.append(
            Response(True, 1000 + number / 7, ttft, gaps, ttft + sum(gaps), 128, events + 1, 200, queue_time=0.25)
        )
    metrics = measure(responses, 12.5)
    return Run(metrics, tuple(responses), 12.5, facts={"errors": {}, "seed": 3}, honest={"mean_ttft_ms_sent": 2.0})


def test_every_field_of_a_response_but_its_text_is_kept() -> None:
    fields = {field.name for field in dataclasses.fields(Response)}
    assert fields == {*TIMES, *COUNTS, *WORDS, "success", "status", "itls", "text"}


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    good = Response(
        True, 5.25, 0.5, array("d", [0.001, 7.5, 0.0]), 8.001, 10, 4, 200, queue_time=0.1, connect_time=0.02,
        usage_latency=8.1, end=8.2, asked_prompt_len=9, asked_output_len=4, counted_by="tokenizer", cached_len=3,
        target=1, ttft_text=0.6,
    )  # fmt: skip
    bad = Response(False, 6.0, itls=array("d"), error="503: no room", failure="overloaded", status=503)
    lost = Response(False, itls=array("d"), error="refused — „äh“", failure="connect")
    run = Run({}, (good, bad, lost), 9.5, True, {"events": 4, "resent": 0}, {"ttft": 1.5}, 123.5)
    write(tmp_path / "new" / "r.npz", run, WORKLOAD, "some/model")
    again, workload, model = read(tmp_path / "new" / "r.npz")
    assert (workload, model) == (WORKLOAD, "some/model")
    assert again.responses == run.responses
    assert again == dataclasses.replace(run, metrics=measure_as(WORKLOAD, run.responses, 9.5))
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["r.npz"]


def test_the_block_is_the_same_from_the_records(tmp_path: Path) -> None:
    run = pass_of(40, 60)
    write(tmp_path / "r.npz", run, WORKLOAD, "m")
    again, _, _ = read(tmp_path / "r.npz")
    assert block(again, WORKLOAD) == block(dataclasses.replace(run, metrics=measure_as(WORKLOAD, run.responses, 12.5)))
    assert again.metrics == pytest.approx(measure_as(WORKLOAD, run.responses, 12.5), rel=1e-6)


def test_an_event_takes_at_most_five_bytes(tmp_path: Path) -> None:
    run = pass_of(200, 200)
    write(tmp_path / "r.npz", run, WORKLOAD, "m")
    assert (tmp_path / "r.npz").stat().st_size < 5 * 200 * 200


def test_a_run_without_any_answer_is_kept_too(tmp_path: Path) -> None:
    write(tmp_path / "r.npz", Run({}, (), 1.0), WORKLOAD, "m")
    assert read(tmp_path / "r.npz")[0].responses == ()


@pytest.mark.parametrize("kind", ["missing", "text", "empty", "folder", "json", "zip", "arrays", "cut", "newer"])
def test_what_is_no_record_is_one_clear_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "r.npz"
    if kind == "text":
        path.write_text("not an archive")
    elif kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind == "json":
        path.write_text('{"completed": 3}')
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.txt", "x")
    elif kind == "arrays":
        with path.open("wb") as file:
            np.savez(file, a=np.zeros(3))
    elif kind == "cut":
        write(path, pass_of(5, 50), WORKLOAD, "m")
        path.write_bytes(path.read_bytes()[:900])
    elif kind == "newer":
        with path.open("wb") as file:
            np.savez(file, header=np.frombuffer(b'{"records": 2}', dtype=np.uint8))
    with pytest.raises(TunerError) as caught:
        read(path)
    why = {"text": "it is no numpy archive", "empty": "it is empty", "arrays": "an archive of something else: a"}
    assert why.get(kind, "") in str(caught.value)
    assert str(caught.value).startswith(f"{path}")
    assert "--save-records" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_what_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TunerError, match="cannot be written"):
        write(tmp_path / "file" / "r.npz", pass_of(1, 1), WORKLOAD, "m")

"""Workloads as study.yaml writes them: every field, what does nothing, and the files they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.written import faults, load
from tuner import spec
from tuner.benchmarks import RampUp, Workload

SMALL = "model: m\nsearch_space: space.yaml\nworkloads:\n  w: {}\nengines: {{vllm: {{}}}}\n"
ONE = "stages: [{name: size, options: {default: {}, long: {vllm: {args: {max_model_len: 9}}}}}]\n"


def read(folder: Path, written: str) -> Workload:
    return load(folder, SMALL.format(written), ONE).workload


def test_every_field_of_a_workload_is_read(tmp_path: Path) -> None:
    random = (
        "{dataset: random, input_len: 9, output_len: 8, range_ratio: 0.5, output_range_ratio: 0.2, prefix_len: 3,"
        " ramp_up: {strategy: linear, start: 1.0, end: 20.0}, definitions: vllm-0.11, tokenizer: org/model,"
        " goodput: {ttft: 200.0, e2el: 3000.0}}"
    )
    assert read(tmp_path, random) == Workload(
        name="w", input_len=9, output_len=8, range_ratio=0.5, output_range_ratio=0.2, prefix_len=3,
        ramp_up=RampUp("linear", 1, 20), definitions="vllm-0.11", tokenizer="org/model",
        goodput={"ttft": 200, "e2el": 3000},
    )  # fmt: skip
    path = f"{tmp_path}/data.jsonl"
    jsonl = "{dataset: jsonl, path: data.jsonl, fixed_output_len: 5, shuffle: false, oversample: false}"
    assert read(tmp_path, jsonl) == Workload(
        name="w", dataset="jsonl", path=path, fixed_output_len=5, shuffle=False, oversample=False
    )
    assert read(tmp_path, "{dataset: trace, path: data.jsonl, time_scale: 0.001}") == Workload(
        name="w", dataset="trace", path=path, time_scale=0.001
    )
    assert read(tmp_path, "{dataset: shared-prefix, prefix_len: 64, num_prefixes: 4, shuffle: false}") == Workload(
        name="w", dataset="shared-prefix", prefix_len=64, num_prefixes=4, shuffle=False
    )


def test_vllms_name_for_the_output_length_goes_on_meaning_it(tmp_path: Path) -> None:
    for name in ("sharegpt_output_len", "fixed_output_len"):
        made = read(tmp_path, f"{{dataset: sharegpt, path: data.jsonl, {name}: 5}}")
        assert made.fixed_output_len == 5


@pytest.mark.parametrize(
    ("written", "meant"),
    [("org/m", "org/m"), ("gpt2", "gpt2"), ("./gpt2", "{}/gpt2"), ("m/tokenizer.json", "{}/m/tokenizer.json")],
)
def test_a_tokenizer_is_a_model_of_the_hub_or_written_as_a_path(tmp_path: Path, written: str, meant: str) -> None:
    assert read(tmp_path, f"{{tokenizer: {written}}}").tokenizer == meant.format(tmp_path)


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("{num_prefixes: 3}", "w.num_prefixes: does nothing with dataset random (got 3); leave it out"),
        ("{time_scale: 2.0}", "w.time_scale: does nothing with dataset random (got 2.0); leave it out"),
        ("{fixed_output_len: 2}", "w.fixed_output_len: does nothing with dataset random (got 2); leave it out"),
        (
            "{dataset: sharegpt, path: x, prefix_len: 2}",
            "w.prefix_len: does nothing with dataset sharegpt (got 2); leave it out",
        ),
        (
            "{dataset: jsonl, path: x, sharegpt_output_len: 2}",
            "w.sharegpt_output_len: does nothing with dataset jsonl (got 2); leave it out",
        ),
        (
            "{dataset: trace, path: x, request_rate: 2.0}",
            "w.request_rate: does nothing with dataset trace (got 2.0); leave it out",
        ),
        (
            "{dataset: trace, path: x, oversample: true}",
            "w.oversample: does nothing with dataset trace (got true); leave it out",
        ),
        (
            "{dataset: trace}",
            "w: dataset trace needs the file to read (got a mapping of dataset); add path: trace.jsonl",
        ),
        (
            "{dataset: shared-prefix}",
            "w: dataset shared-prefix needs the length of the prefixes (got a mapping of dataset); add prefix_len: 256",
        ),
        (
            "{dataset: shared-prefix, prefix_len: 9, num_prompts: 5, num_prefixes: 6}",
            "w.num_prefixes: there are more prefixes than prompts (5) (got 6); lower it",
        ),
        (
            "{request_rate: 2.0, ramp_up: {strategy: linear, start: 1.0, end: 2.0}}",
            "w.ramp_up: request_rate and ramp_up say the same thing (got a mapping of strategy, start, end); "
            "keep one of them",
        ),
        (
            "{ramp_up: {strategy: linear, start: 3.0, end: 2.0}}",
            "w.ramp_up.start: a ramp-up ends at the higher rate (got 3.0); swap start and end",
        ),
        (
            "{ramp_up: {strategy: lineal, start: 1.0, end: 2.0}}",
            "w.ramp_up.strategy: is not one of the values known here (got 'lineal'); did you mean linear?",
        ),
        ("{ramp_up: {strategy: linear, end: 2.0}}", "w.ramp_up: start is missing"),
        (
            "{dataset: sharegpt, path: x, sharegpt_output_len: 2, fixed_output_len: 2}",
            "w.fixed_output_len: sharegpt_output_len and fixed_output_len say the same thing (got 2); keep one of them",
        ),
        (
            "{definitions: vllm-0.12}",
            "w.definitions: is not one of the values known here (got 'vllm-0.12'); did you mean vllm-0.32?",
        ),
        ("{goodput: {ttft: 0}}", "w.goodput.ttft: must be more than 0 (got 0)"),
        (
            "{goodput: {itl: 5.0}}",
            "w.goodput.itl: is not one of the values known here (got 5.0); they are ttft, tpot, e2el",
        ),
        ("{prefix_len: -1}", "w.prefix_len: must be at least 0 (got -1)"),
        ("{output_range_ratio: 1.0}", "w.output_range_ratio: must be less than 1 (got 1.0)"),
    ],
)
def test_what_cannot_be_right_is_said(tmp_path: Path, written: str, fault: str) -> None:
    assert faults(tmp_path, SMALL.format(written), ONE) == [f"study.yaml:4: workloads.{fault}"]


def test_lines_that_cannot_be_read_are_found_before_a_live_run(tmp_path: Path) -> None:
    study = load(tmp_path, SMALL.format("{dataset: jsonl, path: p.jsonl, num_prompts: 1}"), ONE)
    (tmp_path / "p.jsonl").write_text('{"prompt": "a", "output_tokens": 3}\n{"prompt": "b"}\n')
    (fault,) = spec.check_files(study)
    assert (fault.file, fault.line, fault.path) == (f"{tmp_path}/p.jsonl", 2, "workload w")
    (tmp_path / "p.jsonl").write_text('{"prompt": "a", "output_tokens": 3}\n')
    assert spec.check_files(study) == []
    (tmp_path / "p.jsonl").unlink()
    assert [fault.path for fault in spec.check_files(study)] == ["workloads.w.path"]

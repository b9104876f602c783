"""The options of `tuner bench`: every one of `vllm bench serve` is taken or refused by name, and means the same."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tuner.benching.asked import Asked, asked
from tuner.benching.options import parse
from tuner.benching.refused import BACKENDS, DATASETS, FAMILIES, OPTIONS
from tuner.benchmarks import RampUp, Workload
from tuner.errors import SpecError

HELP = (Path(__file__).parent / "data" / "bench_serve" / "options-0.32.txt").read_text().splitlines()
# `vllm bench serve` 0.11 has these and 0.32 has not.
OLD = ["--custom-skip-chat-template", "--endpoint-type openai-chat", "--sonnet-input-len 550"]
VALUES = {
    "--endpoint-type": "openai-chat",
    "--backend": "vllm", "--dataset-name": "random", "--endpoint": "/v1/completions", "--extra-body": '{"a":1}',
    "--goodput": "ttft:200 tpot:20", "--header": "a=b c=d", "--metadata": "a=b c=d", "--lora-modules": "a b",
    "--ramp-up-strategy": "linear", "--percentile-metrics": "ttft,e2el", "--metric-percentiles": "25,50,99.9",
    "--tokenizer-mode": "hf", "--host": "127.0.0.1", "--base-url": "http://127.0.0.1:1", "--label": "x",
    "--timed-trace-label-hash-ids": "hash_ids", "--timed-trace-label-input-length": "input_length",
    "--timed-trace-label-output-length": "output_length", "--timed-trace-label-timestamp": "timestamp",
    "--random-range-ratio": '{"input":0.3,"output":0.5}',
}  # fmt: skip
COMMAND = """serve --backend openai-chat --endpoint /v1/chat/completions --model some/model --served-model-name m1
    --base-url http://127.0.0.1:9 --dataset-name random --random_input_len 4000 --random-output-len=200
    --random-range-ratio 0.25 --random-prefix-len 16 --num-prompts 50 --max-concurrency 8 --request-rate 2.5
    --burstiness 0.5 --seed 42 --temperature 0 --top-p 0.9 --ignore-eos --goodput ttft:200 tpot:20
    --percentile-metrics ttft,e2el --metric-percentiles 50,99.9 --metadata tp=8 note=a=b --label lab
    --save-result --save-detailed --result-dir out --result-filename r.json --num-warmups 3
    --ready-check-timeout-sec 60 --request-id-prefix p- --header x-a=1 --insecure --disable-tqdm"""
FRACTIONS = {"--min-p", "--top-p", "--random-range-ratio"}


def words_of(line: str) -> list[str]:
    """An option of the help with a value it can have."""
    option, _, value = line.split(", ")[0].partition(" ")
    if not value:
        return [option]
    return [option, *VALUES.get(option, "0.5" if option in FRACTIONS else "8").split()]


def of(*words: str) -> Asked:
    return asked(words)


def refusal(*words: str) -> str:
    with pytest.raises(SpecError) as caught:
        asked(words)
    text = str(caught.value)
    assert len(text.splitlines()) == 1, text
    return text


@pytest.mark.parametrize("line", HELP + OLD)
def test_every_option_of_vllm_is_taken_or_refused_by_its_name_with_a_way_out(line: str) -> None:
    words = words_of(line)
    name = words[0]
    if name in OPTIONS or name.startswith(tuple(FAMILIES)):
        text = refusal(*words)
        assert text.startswith(f"`tuner bench` has no {name}; ")
        return
    assert getattr(parse(words), name.removeprefix("--").replace("-", "_"), None) not in (None, [], False) or (
        name == "--endpoint-type"
    )


def test_no_option_is_both_taken_and_refused() -> None:
    taken = [line.split()[0].rstrip(",") for line in HELP]
    assert len(taken) == 101
    assert not [
        name for name in OPTIONS if name not in taken and name not in ("--no-self-timed",) and "sonnet" not in name
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dataset-name", "hf"], "--dataset-name hf is not taken; write its prompts to a JSONL file"),
        (["--dataset-name", "nonsense"], "argument --dataset-name: is one of random, sharegpt, custom"),
        (["--backend", "openai-embeddings"], "--backend openai-embeddings is not taken; there are openai, vllm"),
        (["--tokenizer-mode", "mistral"], "argument --tokenizer-mode: is one of auto, hf (got mistral)"),
        (["--random-mm-limit-mm-per-prompt", "{}"], "`tuner bench` has no --random-mm-limit-mm-per-prompt; only text"),
        (["--no-self-timed"], "`tuner bench` has no --no-self-timed; "),
        (["--timed-trace-label-timestamp", "ts"], "--timed-trace-label-timestamp ts is not taken; rename the field"),
        (["--extra-body.a", "1"], "--extra-body.a is not taken; give --extra-body one JSON object"),
        (["--extra-body", "[1]"], "argument --extra-body: must be a JSON object (got [1])"),
        (["--extra-body", "{"], "argument --extra-body: must be a JSON object ("),
        (["--nonsense", "3"], "`tuner bench` has no --nonsense; "),
        (["--request-rate", "-1"], "argument --request-rate: must be above 0; inf sends all at once (got -1)"),
        (["--request-rate", "0"], "argument --request-rate: must be above 0"),
        (["--request-rate", "nan"], "argument --request-rate: must be above 0"),
        (["--burstiness", "0"], "argument --burstiness: must be above 0"),
        (["--random-range-ratio", "1"], "argument --random-range-ratio: must be at least 0 and below 1 (got 1)"),
        (["--random-range-ratio", '{"input": 0.1}'], "argument --random-range-ratio: must be a number or {"),
        (["--num-prompts", "0"], "argument --num-prompts: must be a whole number, at least 1 (got 0)"),
        (["--num-prompts", "2.5"], "argument --num-prompts: must be a whole number"),
        (["--max-concurrency", "0"], "argument --max-concurrency: must be a whole number, at least 1"),
        (["--metric-percentiles", "50,101"], "argument --metric-percentiles: are numbers from 0 to 100 (got 101)"),
        (["--percentile-metrics", "ttft,tps"], "argument --percentile-metrics: are of ttft, tpot, itl, e2el"),
        (["--goodput", "ttft=3"], "--goodput takes NAME:MILLISECONDS (got ttft=3)"),
        (["--goodput", "itl:3"], "--goodput is of ttft, tpot, e2el, at least 0 ms (got itl:3)"),
        (["--goodput", "ttft:-3"], "--goodput is of ttft, tpot, e2el, at least 0 ms"),
        (["--header", "x"], "--header takes KEY=VALUE (got x)"),
        (["--metadata", "x"], "--metadata takes KEY=VALUE (got x)"),
        (["--endpoint", "/v2/x"], "--endpoint ends in /v1/chat/completions or /v1/completions (got /v2/x)"),
        (["--backend", "openai", "--endpoint", "/v1/chat/completions"], "--endpoint /v1/chat/completions is of"),
        (["--dataset-name", "sharegpt"], "--dataset-name sharegpt needs --dataset-path, its file"),
        (["--dataset-path", "x"], "--dataset-path is of no use to --dataset-name random"),
        (["--ramp-up-strategy", "linear"], "--ramp-up-strategy needs --ramp-up-start-rps and --ramp-up-end-rps"),
        (["--find-max-load"], "--find-max-load needs limits to find a load for: --goodput"),
        (["--load", "4,x"], "argument --load: must be a whole number, at least 1 (got x)"),
        (["--load", "4", "--load-rates", "4"], "argument --load-rates: not allowed with argument --load"),
        (["notaurl"], "'notaurl' is not a URL (http://host:port)"),
        (["http://u@h:1"], "'http://u@h:1' is not a URL"),
        (["--timeout", "nan"], "argument --timeout: must be above 0 (got nan)"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line_with_the_rule_and_the_value(words: list[str], message: str) -> None:
    assert refusal(*words).startswith(message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--load 1,2 --max-concurrency 4", "--max-concurrency is of no use beside --load"),
        ("--load-rates 1,2 --request-rate 4", "--request-rate is of no use beside --load-rates"),
        ("--find-max-load rate --goodput ttft:1 --request-rate 4", "--request-rate is of no use beside --find-max"),
        ("http://h:1 --port 9", "--port is of no use beside URL; give one of them"),
        ("http://h:1 --base-url http://h:2", "--base-url is of no use beside URL"),
        ("--base-url http://h:2 --port 3", "--port is of no use beside --base-url"),
        ("--ramp-up-start-rps 1", "--ramp-up-start-rps needs --ramp-up-strategy"),
        ("--time-scale 2", "--time-scale is of --dataset-name timed_trace"),
        ("--dataset-name timed_trace --dataset-path f --request-rate 2", "--request-rate is of no use to a trace"),
        ("--save-detailed", "--save-detailed writes nothing by itself; give --save-result too"),
        ("--result-filename x", "--result-filename writes nothing by itself"),
        ("--logprobs 2 --backend openai-chat", "--logprobs is of completions"),
        ("--beat 100 --request-rate 3", "--beat ends nothing where requests come at times of their own"),
        ("--goodput ttft:1 tpot:2 ttft:3", "--goodput has several limits on ttft; give one"),
        ('--extra-body {"stream":false}', "--extra-body cannot turn the stream off"),
        ("--max-load 3", "--max-load is of --find-max-load"),
        ("http://h:1 --from-records f --num-prompts 3", "--from-records sends nothing: URL, --num-prompts cannot"),
        ("--from-records f --load 3", "--from-records sends nothing: --load cannot stand beside it; leave it out"),
        ("--num-prompt-s 3", "`tuner bench` has no --num-prompt-s; did you mean --num-prompts?"),
        ("--concurrency 3", "`tuner bench` has no --concurrency; "),
        ("--load 1,,2", "argument --load: are separated by single commas (got 1,,2)"),
        ("http://h:1/v1/completions", "http://h:1/v1/completions is the path of an API; give the server's URL: http://"),
        ("http://h:1/v1/chat/completions/", "http://h:1/v1/chat/completions/ is the path of an API; give the server's "
         "URL: http://h:1 --backend openai-chat"),
    ],
)  # fmt: skip
def test_an_option_that_would_do_nothing_is_refused(words: str, message: str) -> None:
    assert refusal(*words.split()).startswith(message)


def test_what_is_said_anew_of_records_may_stand_beside_them() -> None:
    given = of(
        "--from-records", "f", "--goodput", "ttft:1", "--save-result", "--label", "x", "--metric-percentiles", "5"
    )
    assert given.records == Path("f")


def test_refused_options_that_ask_for_nothing_are_passed_over() -> None:
    given = of(
        "--random-batch-size", "1", "--probe-request-rate=0.0", "--timeline-itl-thresholds", "25,50", "--seed", "3"
    )
    assert given.workload.seed == 3
    assert refusal("--probe-request-rate", "2", "--seed", "3").startswith("`tuner bench` has no --probe-request-rate")


def test_every_name_of_the_tables_is_refused() -> None:
    for backend in BACKENDS:
        assert "is not taken" in refusal("--backend", backend)
    for dataset, instead in DATASETS.items():
        assert refusal("--dataset-name", dataset) == f"--dataset-name {dataset} is not taken; {instead}"


def test_a_command_of_vllm_means_the_same() -> None:
    given = asked(COMMAND.split())
    assert given.workload == Workload(
        name="random", num_prompts=50, input_len=4000, output_len=200, range_ratio=0.25, prefix_len=16,
        max_concurrency=8, request_rate=2.5, burstiness=0.5, seed=42, ignore_eos=True, temperature=0.0,
        endpoint="chat", extra_body={"top_p": 0.9}, goodput={"ttft": 200.0, "tpot": 20.0},
    )  # fmt: skip
    assert (given.urls, given.model, given.shown) == (("http://127.0.0.1:9",), "m1", "some/model")
    assert (given.report.latencies, given.report.percentiles) == (("ttft", "e2el"), (50, 99.9))
    assert given.report.metadata == {"tp": "8", "note": "a=b"}
    assert (given.output.save, given.output.folder, given.output.name) == (True, Path("out"), "r.json")
    assert (given.warmups, given.ready_s, given.headers["x-a"]) == (3, 60, "1")
    assert given.client["insecure"]
    assert given.client["request_id_prefix"] == "p-"
    assert given.output.quiet


def test_defaults_are_those_of_vllm() -> None:
    given = of()
    assert given.urls == ("http://127.0.0.1:8000",)
    assert given.workload == Workload(name="random", num_prompts=1000, input_len=1024, output_len=128, temperature=None)
    assert of("--definitions", "vllm-0.11").workload.temperature == 0.0
    assert of("--host", "::1", "--port", "9").urls == ("http://[::1]:9",)


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ("--dataset-name custom --dataset-path f", {"dataset": "jsonl", "fixed_output_len": 256}),
        ("--dataset-name custom --dataset-path f --custom-output-len -1", {"fixed_output_len": None}),
        ("--dataset-name custom --dataset-path f --output-len 9", {"fixed_output_len": 9}),
        ("--dataset-name jsonl --dataset-path f", {"dataset": "jsonl", "fixed_output_len": None}),
        ("--dataset-name sharegpt --dataset-path f", {"dataset": "sharegpt", "fixed_output_len": None, "path": "f"}),
        ("--dataset-name sharegpt --dataset-path f --sharegpt-output-len 7", {"fixed_output_len": 7}),
        ("--dataset-name timed_trace --dataset-path f --timed-trace-sec-multiplier 0.001 --time-scale 2",
         {"dataset": "trace", "ignore_eos": True, "time_scale": 0.002}),
        ("--dataset-name prefix_repetition --prefix-repetition-num-prefixes 3",
         {"dataset": "shared-prefix", "num_prefixes": 3, "prefix_len": 256, "input_len": 256, "output_len": 128}),
        ("--input-len 5 --output-len 6", {"input_len": 5, "output_len": 6}),
        ('--random-range-ratio {"input":0.1,"output":0.2}', {"range_ratio": 0.1, "output_range_ratio": 0.2}),
        ("--disable-shuffle --no-oversample", {"shuffle": False, "oversample": False}),
        ("--logprobs 2", {"extra_body": {"logprobs": 2}}),
        ('--top-k 5 --extra-body {"top_k":6}', {"extra_body": {"top_k": 6}}),
        ("--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 9", {"ramp_up": RampUp("linear", 1, 9)}),
        ("--burstiness inf", {"burstiness": math.inf}),
        ("--endpoint /v1/chat/completions", {"endpoint": "chat"}),
    ],
)  # fmt: skip
def test_what_options_do_to_the_workload(words: str, fields: dict[str, Any]) -> None:
    workload = of(*words.split()).workload
    assert {name: getattr(workload, name) for name in fields} == fields


def test_urls_may_stand_anywhere_and_be_several() -> None:
    two = ("http://127.0.0.1:1", "http://127.0.0.1:2")
    assert of(*two, "--seed", "1").urls == two
    assert of("--goodput", "ttft:1", *two, "--header", "a=http://x", "--seed", "1").urls == two
    assert of("--seed", "1", *two).urls == two
    assert of("http://127.0.0.1:1/v1/").urls == two[:1]
    assert of("http://127.0.0.1:1", "--endpoint", "/api/v1/completions").urls == ("http://127.0.0.1:1/api",)


def test_the_tokenizer_is_the_models_where_that_is_a_folder(tmp_path: Path) -> None:
    assert of("--model", str(tmp_path)).workload.tokenizer is None
    (tmp_path / "tokenizer.json").write_text("{}")
    assert of("--model", str(tmp_path)).workload.tokenizer == str(tmp_path)
    assert of("--model", str(tmp_path), "--skip-tokenizer-init").workload.tokenizer is None
    assert of("--tokenizer", "x/y", "--model", str(tmp_path)).workload.tokenizer == "x/y"


def test_the_key_comes_from_the_environment_and_a_header_replaces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert of().headers == {"Authorization": "Bearer sk-secret"}
    assert of("--header", "authorization=Basic x").headers == {"authorization": "Basic x"}
    monkeypatch.delenv("OPENAI_API_KEY")
    assert of().headers == {}


def test_several_loads() -> None:
    walked = of("--load", "4,8").ladder
    assert walked is not None
    assert (walked.kind, walked.loads) == ("concurrency", (4.0, 8.0))
    sought = of("--find-max-load", "rate", "--goodput", "ttft:5", "--max-load", "30", "--share", "0.9").ladder
    assert sought is not None
    assert (sought.kind, sought.loads, sought.most, sought.share) == ("rate", (), 30.0, 0.9)

"""What the options of `tuner bench` amount to: workload, servers, client, report. Pure but for a look at the files."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from tuner.benching.contradictions import contradictions
from tuner.benching.options import BACKEND_NAMES, DATASET_NAMES, api_key, parse
from tuner.benchmarks import Definitions, RampUp, Workload
from tuner.benchmarks.http import Target
from tuner.benchmarks.ladder import Ladder
from tuner.benchmarks.metrics import GOODPUT_NAMES
from tuner.benchmarks.result import Report
from tuner.errors import Fault, SpecError

PATHS: Mapping[str, Literal["completions", "chat"]] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
}


@dataclass(frozen=True)
class Output:
    """Where results go. `name` is the file's name where one was asked for, `label` begins it otherwise."""

    save: bool = False
    append: bool = False
    folder: Path = Path()
    name: str | None = None
    records: Path | None = None
    quiet: bool = False


@dataclass(frozen=True)
class Asked:
    """One call of `tuner bench`. `model` is the name in requests, None asks the server; `shown` the one in results,
    None the same; times in seconds.

    `limits` and `definitions` are what was given for kept records, None and {} leave theirs.
    """

    urls: tuple[str, ...]
    model: str | None
    shown: str | None
    workload: Workload
    report: Report
    output: Output
    headers: Mapping[str, str] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 21600.0
    beat: float | None = None
    ready_s: float = 0.0
    warmups: int = 0
    ladder: Ladder | None = None
    records: Path | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    definitions: Definitions | None = None

    @property
    def secret(self) -> str:
        """What must not be shown: the API key."""
        return api_key()


def asked(words: Sequence[str]) -> Asked:
    """What a command line asks for.

    Raises:
        SpecError: what cannot be; nothing was started.
    """
    given = parse(words)
    contradictions(given)
    limits = _limits(given.goodput)
    base, endpoint = _endpoint(given)
    return Asked(
        urls=tuple(_urls(given, base)),
        model=given.served_model_name or given.model,
        shown=given.model,
        workload=_workload(given, endpoint, limits),
        report=_report(given),
        output=_output(given),
        headers=_headers(given.header),
        client={
            "processes": given.processes,
            "request_timeout_s": given.request_timeout,
            "insecure": given.insecure,
            "keep_text": True if given.save_detailed else None,
            "request_id_prefix": given.request_id_prefix,
        },
        timeout_s=given.timeout,
        beat=given.beat,
        ready_s=given.ready_check_timeout_sec,
        warmups=given.num_warmups,
        ladder=_ladder(given, limits),
        records=given.from_records,
        limits=limits,
        definitions=given.definitions,
    )


# -- servers


def base_url(text: str) -> str:
    """The URL without `/v1`.

    Raises:
        SpecError: it is none.
    """
    try:
        Target.parse(text)
    except SpecError:
        raise SpecError(f"{text!r} is not a URL (http://host:port)") from None
    base = text.rstrip("/")
    for path, endpoint in PATHS.items():
        if base.endswith(path):
            chat = " --backend openai-chat" if endpoint == "chat" else ""
            raise SpecError(f"{text} is the path of an API; give the server's URL: {base.removesuffix(path)}{chat}")
    return base.removesuffix("/v1")


def _urls(given: Namespace, base: str) -> list[str]:
    named = [*given.url, *([given.base_url] if given.base_url else [])]
    host = f"[{given.host}]" if ":" in given.host else given.host
    return [base_url(url) + base for url in named or [f"http://{host}:{given.port}"]]


def _endpoint(given: Namespace) -> tuple[str, Literal["completions", "chat"]]:
    """What stands before `/v1` in the path, and which of the two APIs it is."""
    wanted = BACKEND_NAMES[given.backend] if given.backend else None
    if given.endpoint is None:
        return "", wanted or "completions"
    for path, endpoint in PATHS.items():
        if given.endpoint.endswith(path):
            if wanted is not None and wanted != endpoint:
                raise SpecError(f"--endpoint {given.endpoint} is of another API than --backend says; give one of them")
            return given.endpoint.removesuffix(path).rstrip("/"), endpoint
    raise SpecError(f"--endpoint ends in {' or '.join(PATHS)} (got {given.endpoint})")


def _headers(given: Sequence[str]) -> dict[str, str]:
    key = api_key()
    own = {"Authorization": f"Bearer {key}"} if key else {}
    said = _pairs(given, "--header")
    return {name: value for name, value in own.items() if name.lower() not in map(str.lower, said)} | said


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in given]
    if wrong := next((word for word, equals, _ in pairs if not equals), None):
        raise SpecError(f"{option} takes KEY=VALUE (got {wrong})")
    return {name.strip(): value.strip() for name, _, value in pairs}


# -- requests


def _workload(given: Namespace, endpoint: Literal["completions", "chat"], limits: Mapping[str, float]) -> Workload:
    dataset = DATASET_NAMES[given.dataset_name]
    if dataset in ("random", "shared-prefix") and given.dataset_path is not None:
        raise SpecError(f"--dataset-path is of no use to --dataset-name {given.dataset_name}; name the file's dataset")
    if dataset not in ("random", "shared-prefix") and given.dataset_path is None:
        raise SpecError(f"--dataset-name {given.dataset_name} needs --dataset-path, its file")
    ratio, output_ratio = given.random_range_ratio
    return Workload(
        name=given.dataset_name,
        dataset=cast(Any, dataset),
        num_prompts=given.num_prompts,
        range_ratio=ratio if dataset == "random" else 0.0,
        output_range_ratio=output_ratio if dataset == "random" else None,
        num_prefixes=given.prefix_repetition_num_prefixes,
        path=given.dataset_path,
        fixed_output_len=_fixed_output_len(given, dataset),
        shuffle=not given.disable_shuffle,
        oversample=not given.no_oversample,
        time_scale=given.timed_trace_sec_multiplier * given.time_scale,
        max_concurrency=given.max_concurrency,
        request_rate=None if given.request_rate == math.inf else given.request_rate,
        burstiness=given.burstiness,
        ramp_up=_ramp_up(given),
        seed=given.seed,
        ignore_eos=True if given.ignore_eos or dataset == "trace" else None,
        temperature=_temperature(given),
        endpoint=endpoint,
        tokenizer=_tokenizer(given),
        extra_body=_extra_body(given, endpoint),
        definitions=given.definitions or "vllm-0.32",
        goodput=limits,
        **_lengths(given, dataset),
    )


def _lengths(given: Namespace, dataset: str) -> dict[str, int]:
    if dataset == "shared-prefix":
        return {
            "input_len": given.input_len or given.prefix_repetition_suffix_len,
            "output_len": given.output_len or given.prefix_repetition_output_len,
            "prefix_len": given.prefix_repetition_prefix_len,
        }
    return {
        "input_len": given.input_len or given.random_input_len,
        "output_len": given.output_len or given.random_output_len,
        "prefix_len": given.random_prefix_len,
    }


def _fixed_output_len(given: Namespace, dataset: str) -> int | None:
    """Of a file's answers. vLLM's `custom` has 256 unless told -1, which is the file's own."""
    if dataset == "sharegpt":
        return cast("int | None", given.output_len or given.sharegpt_output_len)
    if dataset != "jsonl":
        return None
    usual = 256 if given.dataset_name == "custom" else -1
    chosen = given.output_len or (usual if given.custom_output_len is None else given.custom_output_len)
    if chosen != -1 and chosen < 1:
        raise SpecError(f"--custom-output-len is at least 1, or -1 for the file's own lengths (got {chosen})")
    return None if chosen == -1 else chosen


def _temperature(given: Namespace) -> float | None:
    """As vLLM: 0.11 sends 0, 0.32 leaves it to the server."""
    if given.temperature is not None:
        return cast(float, given.temperature)
    return 0.0 if given.definitions == "vllm-0.11" else None


def _tokenizer(given: Namespace) -> str | None:
    if given.skip_tokenizer_init:
        return None
    if given.tokenizer is not None:
        return cast(str, given.tokenizer)
    local = given.model is not None and (Path(given.model) / "tokenizer.json").is_file()
    return given.model if local else None


def _extra_body(given: Namespace, endpoint: str) -> dict[str, Any]:
    names = ("top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty")
    sampling = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    logprobs = {"logprobs": given.logprobs} if given.logprobs is not None and endpoint == "completions" else {}
    return {**logprobs, **sampling, **given.extra_body}


def _ramp_up(given: Namespace) -> RampUp | None:
    strategy, start, end = given.ramp_up_strategy, given.ramp_up_start_rps, given.ramp_up_end_rps
    if strategy is None:
        return None
    if given.request_rate != math.inf:
        raise SpecError("--ramp-up-strategy sets the rate; leave --request-rate out")
    if start is None or end is None:
        raise SpecError("--ramp-up-strategy needs --ramp-up-start-rps and --ramp-up-end-rps")
    if start > end or (strategy == "exponential" and start == 0):
        raise SpecError(f"a ramp-up goes from a lower rate to a higher one, an exponential one not from 0 ({start:g})")
    return RampUp(strategy, start, end)


def _limits(given: Sequence[str]) -> dict[str, float]:
    limits = {}
    for word in given:
        name, _, value = word.partition(":")
        try:
            limits[name] = float(value)
        except ValueError:
            raise SpecError(f"--goodput takes NAME:MILLISECONDS (got {word})") from None
        if name not in GOODPUT_NAMES or not limits[name] >= 0:
            raise SpecError([Fault(f"--goodput is of {', '.join(GOODPUT_NAMES)}, at least 0 ms", value=word)])
    return limits


# -- results


def _report(given: Namespace) -> Report:
    return Report(
        latencies=given.percentile_metrics,
        percentiles=given.metric_percentiles,
        backend=given.backend or "",
        label=given.label,
        tokenizer=given.tokenizer,
        metadata=_pairs(given.metadata, "--metadata"),
        detailed=given.save_detailed,
    )


def _output(given: Namespace) -> Output:
    return Output(
        save=given.save_result or given.append_result,
        append=given.append_result,
        folder=given.result_dir or Path(),
        name=given.result_filename,
        records=given.save_records,
        quiet=given.disable_tqdm,
    )


def _ladder(given: Namespace, limits: Mapping[str, float]) -> Ladder | None:
    if given.load or given.load_rates:
        kind: Literal["concurrency", "rate"] = "concurrency" if given.load else "rate"
        return Ladder(kind, loads=tuple(float(load) for load in given.load or given.load_rates))
    if given.find_max_load is None:
        return None
    if not limits:
        raise SpecError("--find-max-load needs limits to find a load for: --goodput ttft:MS tpot:MS e2el:MS")
    most = given.max_load or float(given.num_prompts)
    return Ladder(given.find_max_load, most=most, share=given.share)

"""The benchmark client alone, on a server that somebody runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import httpx

from tuner.benchmarks import Workload, client
from tuner.benchmarks.http import Target
from tuner.benchmarks.result import as_json, block
from tuner.benchmarks.tokenizer import load_tokenizer
from tuner.benchmarks.verdicts import check
from tuner.benchmarks.watching import Watch
from tuner.errors import SpecError, TunerError
from tuner.storage import write

_STAND_IN = "tuner-simulated"
_TIMEOUT_S = 10.0


def dataset(name: str) -> Literal["random", "sharegpt"]:
    if name == "random":
        return "random"
    if name == "sharegpt":
        return "sharegpt"
    raise SpecError(f"--dataset-name must be random or sharegpt (got {name})")


def endpoint(backend: str) -> Literal["completions", "chat"]:
    """The endpoint of a `vllm bench serve` backend."""
    known: dict[str, Literal["completions", "chat"]] = {"openai": "completions", "vllm": "completions",
                                                        "openai-chat": "chat"}  # fmt: skip
    if backend not in known:
        raise SpecError(f"--backend must be openai or openai-chat (got {backend})")
    return known[backend]


def bench(
    url: str,
    model: str | None,
    workload: Workload,
    timeout_s: float,
    result_dir: Path | None,
    say: Callable[[str], None],
) -> str:
    """Load the endpoint once; the printed block. With `result_dir` the JSON is written there. `timeout_s` bounds all
    of it.

    Raises:
        SpecError: the URL or the workload cannot be; nothing was asked.
        TunerError: the server does not answer, or no request succeeded.
    """
    url = base_url(url)
    possible(workload)
    if not timeout_s > 0:
        raise SpecError(f"--timeout must be above 0 seconds (got {timeout_s:g})")
    begun = time.monotonic()
    name = model or first_model(url, min(_TIMEOUT_S, timeout_s))
    say(f"{workload.num_prompts} requests to {url}, model {name}")
    left = max(0.0, timeout_s - (time.monotonic() - begun))
    run = client("tuner").run([url], name, workload, seed=workload.seed, timeout_s=left, on_event=Watch(say))
    if result_dir is not None:
        date = time.strftime("%Y%m%d-%H%M%S")
        path = result_dir / file_name(workload, name, date)
        write(path, json.dumps(as_json(run, workload, name, date=date), indent=1) + "\n")
        say(f"wrote {path}")
    if not run.metrics.get("completed"):
        errors = {response.error for response in run.responses if response.error}
        raise TunerError(f"no request succeeded: {'; '.join(sorted(errors)[:3]) or 'no answer'}")
    for verdict in check(run, workload):
        say(f"{'note' if verdict.valid else 'not to be trusted'}: {verdict.message}")
    return block(run, workload) + ("\n(simulated: the server is a stand-in engine)" if _is_stand_in(url) else "")


def base_url(text: str) -> str:
    """The URL without `/v1`.

    Raises:
        SpecError: it is none.
    """
    try:
        Target.parse(text)
    except SpecError:
        raise SpecError(f"{text!r} is not a URL (http://host:port)") from None
    return text.rstrip("/").removesuffix("/v1")


def possible(workload: Workload) -> None:
    """Refuse what can be seen to fail before a server is asked.

    Raises:
        SpecError: a number out of its range, or a file that is not there.
    """
    if workload.request_rate is not None and not workload.request_rate > 0:
        raise SpecError(f"--request-rate must be above 0 (got {workload.request_rate:g}); inf sends all at once")
    if not workload.burstiness > 0:
        raise SpecError(f"--burstiness must be above 0 (got {workload.burstiness:g})")
    if not 0 <= workload.range_ratio < 1:
        raise SpecError(f"--random-range-ratio is at least 0 and below 1 (got {workload.range_ratio:g})")
    if workload.dataset == "sharegpt" and workload.path is None:
        raise SpecError("--dataset-name sharegpt needs --dataset-path, the ShareGPT JSON file")
    if workload.dataset == "sharegpt" and not Path(workload.path or "").is_file():
        raise SpecError(f"--dataset-path must be a file (got {workload.path})")
    if workload.tokenizer is not None:
        load_tokenizer(workload.tokenizer)


def file_name(workload: Workload, model: str, date: str) -> str:
    """The name `vllm bench serve` gives its result."""
    backend = "openai-chat" if workload.endpoint == "chat" else "openai"
    rate = "inf" if workload.request_rate is None else f"{workload.request_rate:g}"
    concurrency = f"-concurrency{workload.max_concurrency}" if workload.max_concurrency is not None else ""
    return f"{backend}-{rate}qps{concurrency}-{Path(model).name}-{date}.json"


def first_model(url: str, timeout_s: float = _TIMEOUT_S) -> str:
    """The first of the server's /v1/models.

    Raises:
        TunerError: it does not answer with a list of models.
    """
    try:
        reply = httpx.get(f"{url}/v1/models", timeout=timeout_s, trust_env=False)
    except httpx.TimeoutException:
        raise TunerError(f"{url} had no answer within {timeout_s:g} s (GET /v1/models); is the server up?") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise TunerError(f"{url} does not answer ({error or type(error).__name__}); is the server up?") from error
    if reply.status_code != 200:
        raise _other_server(url, f"{reply.status_code} {reply.reason_phrase}".strip())
    try:
        names = [str(entry["id"]) for entry in reply.json()["data"]]
    except (ValueError, LookupError, TypeError):
        is_json = "json" in reply.headers.get("content-type", "")
        raise _other_server(url, "no list of models" if is_json else "not JSON") from None
    if not names:
        raise TunerError(f"{url} serves no model (GET /v1/models names none); give --model if it has one")
    return names[0]


def _is_stand_in(url: str) -> bool:
    """Whether it is one of the simulated engines; they say so in every reply."""
    try:
        reply = httpx.get(f"{url}/health", timeout=_TIMEOUT_S, trust_env=False)
    except httpx.HTTPError:
        return False
    return bool(reply.headers.get("server") == _STAND_IN)


def _other_server(url: str, got: str) -> TunerError:
    return TunerError(
        f"{url} answers, but not as an OpenAI-compatible server (GET /v1/models: {got}); "
        "give its base URL, or --model if it only lacks the list"
    )

"""The benchmark client alone, on a server that somebody runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import httpx

from tuner.benchmarks import Workload, client
from tuner.benchmarks.result import as_json, block
from tuner.errors import SpecError, TunerError
from tuner.storage import write

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
    """Load the endpoint once; the printed block. With `result_dir` the JSON is written there.

    Raises:
        TunerError: the server does not answer, or no request succeeded.
    """
    url = url.rstrip("/").removesuffix("/v1")
    name = model or first_model(url)
    say(f"{workload.num_prompts} requests to {url}, model {name}")
    run = client("tuner").run([url], name, workload, seed=workload.seed, timeout_s=timeout_s)
    if result_dir is not None:
        date = time.strftime("%Y%m%d-%H%M%S")
        path = result_dir / file_name(workload, name, date)
        write(path, json.dumps(as_json(run, workload, name, date=date), indent=1) + "\n")
        say(f"wrote {path}")
    if not run.metrics.get("completed"):
        errors = {response.error for response in run.responses if response.error}
        raise TunerError(f"no request succeeded: {'; '.join(sorted(errors)[:3]) or 'no answer'}")
    return block(run, workload)


def file_name(workload: Workload, model: str, date: str) -> str:
    """The name `vllm bench serve` gives its result."""
    backend = "openai-chat" if workload.endpoint == "chat" else "openai"
    rate = "inf" if workload.request_rate is None else f"{workload.request_rate:g}"
    concurrency = f"-concurrency{workload.max_concurrency}" if workload.max_concurrency is not None else ""
    return f"{backend}-{rate}qps{concurrency}-{Path(model).name}-{date}.json"


def first_model(url: str) -> str:
    """The first of the server's /v1/models.

    Raises:
        TunerError: it does not answer with a list of models.
    """
    try:
        reply = httpx.get(f"{url}/v1/models", timeout=_TIMEOUT_S, trust_env=False)
        return str(reply.json()["data"][0]["id"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError) as error:
        raise TunerError(f"{url}/v1/models gave no model ({error}); is the server up? else give --model") from error

"""The options of `tuner bench`: those of `vllm bench serve` 0.32 by their names and meanings, and our own.

argparse, not typer: options such as `--goodput ttft:200 tpot:20` take any number of words, which typer cannot do.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, NoReturn

from tuner.benching import values
from tuner.benching.refused import BACKENDS, DATASETS, without_harmless
from tuner.errors import Fault, SpecError

DATASET_NAMES = {
    "random": "random",
    "sharegpt": "sharegpt",
    "custom": "jsonl",
    "jsonl": "jsonl",
    "timed_trace": "trace",
    "trace": "trace",
    "prefix_repetition": "shared-prefix",
    "shared-prefix": "shared-prefix",
}
BACKEND_NAMES: Mapping[str, Literal["completions", "chat"]] = {
    "openai": "completions",
    "vllm": "completions",
    "openai-chat": "chat",
}


def parse(words: Sequence[str]) -> argparse.Namespace:
    """What was asked for, by option; `named` are those that were given. `--help` prints and raises SystemExit.

    Raises:
        SpecError: an option that is not taken (with what to use instead), or a value it cannot have.
    """
    given = list(words[1:] if words and words[0] == "serve" else words)  # left over of `vllm bench serve`
    parser = _parser()
    usual = {action.dest: action.default for action in parser._actions if action.default != argparse.SUPPRESS}
    for action in parser._actions:
        action.default = argparse.SUPPRESS
    asked, others = parser.parse_known_args(without_harmless([_dashed(word) for word in given]))
    if unknown := [word for word in others if word.startswith("-")]:
        raise _unknown(unknown[0].partition("=")[0], parser)
    named = frozenset(vars(asked))
    asked = argparse.Namespace(**{**usual, **vars(asked)}, named=named)
    asked.url = others
    for listed in (asked.goodput, asked.header, asked.metadata):  # they swallow a URL that stands behind them
        asked.url += [word for word in listed or [] if _is_url(word)]
    asked.goodput, asked.header, asked.metadata = (
        [word for word in listed if not _is_url(word)] for listed in (asked.goodput, asked.header, asked.metadata)
    )
    return asked


def _unknown(name: str, parser: argparse.ArgumentParser) -> SpecError:
    near = get_close_matches(name, parser._option_string_actions, 1, 0.75)
    meant = f"did you mean {near[0]}?" if near else "`tuner bench --help` lists what there is"
    return SpecError(f"`tuner bench` has no {name}; {meant}")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SpecError(f"{message[:1].lower()}{message[1:]}; `tuner bench --help` lists what there is")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tuner bench",
        usage="%(prog)s [URL ...] [options]",
        description="Load an endpoint and print the block that `vllm bench serve` prints. "
        "Options of the same name mean the same. URL is the server's (default: http://127.0.0.1:8000); several are "
        "replicas behind one load.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=32, width=100),
    )
    for build in (_server, _requests, _load, _body, _output, _ours):
        build(parser)
    return parser


def _server(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("server").add_argument
    add("--base-url", metavar="URL", help="the same as URL")
    add("--host", default="127.0.0.1")
    add("--port", type=values.count, default=8000)
    add("--endpoint", help="path of the API (default: /v1/completions, of openai-chat /v1/chat/completions)")
    backend = values.one_of("--backend", BACKEND_NAMES, dict.fromkeys(BACKENDS, ""), keep=True)
    add("--backend", type=backend, metavar="[openai|vllm|openai-chat]", help="vllm is openai")
    add("--endpoint-type", dest="backend", type=backend, help=argparse.SUPPRESS)
    add("--model", help="default: the first of /v1/models")
    add("--served-model-name", help="the name in requests, where it is not --model")
    add("--tokenizer", help="folder, tokenizer.json or name on the hub (default: --model, if it is a folder); without "
        "one, lengths are approximate")  # fmt: skip
    add("--tokenizer-mode", type=values.one_of("--tokenizer-mode", {"auto": "auto", "hf": "auto"}, {}), default="auto",
        help=argparse.SUPPRESS)  # fmt: skip
    add("--skip-tokenizer-init", action="store_true", help="use no tokenizer")
    add("--trust-remote-code", action="store_true", help=argparse.SUPPRESS)  # nothing of a model is ever executed
    add("--header", nargs="*", action="extend", default=[], metavar="KEY=VALUE", help="sent with each request")
    add("--insecure", action="store_true", help="trust any certificate")
    add(
        "--ready-check-timeout-sec",
        type=values.zero_or_more,
        default=0.0,
        metavar="S",
        help="wait so long for a first answer",
    )
    add("--num-warmups", type=values.count, default=0, metavar="N", help="requests before the clock starts")


def _requests(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("requests").add_argument
    add("--dataset-name", type=values.one_of("--dataset-name", DATASET_NAMES, DATASETS, keep=True), default="random",
        metavar="[random|sharegpt|custom|timed_trace|prefix_repetition]", help="custom is JSONL")  # fmt: skip
    add("--dataset-path", metavar="FILE")
    add("--num-prompts", type=values.positive, default=1000, metavar="N")
    add("--seed", type=values.count, default=0)
    add("--input-len", type=values.positive, metavar="TOKENS")
    add("--output-len", type=values.positive, metavar="TOKENS", help="of any dataset")
    add("--random-input-len", type=values.positive, default=1024, metavar="TOKENS")
    add("--random-output-len", type=values.positive, default=128, metavar="TOKENS")
    add("--random-range-ratio", type=values.ranges, default=(0.0, None), metavar="R",
        help='lengths vary by this share; or {"input": R, "output": R}')  # fmt: skip
    add("--random-prefix-len", type=values.count, default=0, metavar="TOKENS")
    add("--sharegpt-output-len", type=values.positive, metavar="TOKENS")
    add("--custom-output-len", type=int, metavar="TOKENS", help="-1: the file's own (default: 256, of jsonl -1)")
    add("--prefix-repetition-prefix-len", type=values.positive, default=256, metavar="TOKENS")
    add("--prefix-repetition-suffix-len", type=values.positive, default=256, metavar="TOKENS")
    add("--prefix-repetition-num-prefixes", type=values.positive, default=10, metavar="N")
    add("--prefix-repetition-output-len", type=values.positive, default=128, metavar="TOKENS")
    add("--timed-trace-sec-multiplier", type=values.above_0, default=1.0, metavar="X", help="makes its times seconds")
    for name, value in (("timestamp", "timestamp"), ("input-length", "input_length"),
                        ("output-length", "output_length"), ("hash-ids", "hash_ids")):  # fmt: skip
        add(f"--timed-trace-label-{name}", default=value, type=values.only(f"--timed-trace-label-{name}", value),
            help=argparse.SUPPRESS)  # fmt: skip
    add("--timed-trace-chunk-hash-size", type=values.positive, default=16, metavar="TOKENS", help=argparse.SUPPRESS)
    add("--self-timed", action="store_true", help=argparse.SUPPRESS)  # what a trace is for
    add("--disable-shuffle", action="store_true", help="keep the file's order")
    add("--no-oversample", action="store_true", help="a file with too few prompts is a fault")
    for harmless in ("--no-stream", "--skip-chat-template", "--custom-skip-chat-template"):
        add(harmless, action="store_true", help=argparse.SUPPRESS)  # nothing is downloaded; no template is applied here


def _load(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("load").add_argument
    add("--max-concurrency", type=values.positive, metavar="N", help="default: all at once")
    add("--request-rate", type=values.rate, default=math.inf, metavar="R", help="requests per second (default: inf)")
    add("--burstiness", type=values.burstiness, default=1.0, metavar="B", help="1: Poisson; more: more even; inf: even")
    add("--ramp-up-strategy", choices=("linear", "exponential"))
    add("--ramp-up-start-rps", type=values.zero_or_more, metavar="R")
    add("--ramp-up-end-rps", type=values.above_0, metavar="R")


def _body(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what is asked of the server").add_argument
    add("--ignore-eos", action="store_true", help="write on to the full length (default: for random)")
    for name in ("temperature", "top-p", "min-p", "frequency-penalty", "presence-penalty", "repetition-penalty"):
        add(f"--{name}", type=float, metavar="X")
    add("--top-k", type=int, metavar="K")
    add("--logprobs", type=values.count, metavar="N", help="of completions")
    add("--extra-body", type=values.json_object, default={}, metavar="JSON", help="laid over each request's body")
    add("--request-id-prefix", metavar="TEXT")


def _output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("result").add_argument
    add("--goodput", nargs="+", action="extend", default=[], metavar="NAME:MS",
        help="limits on ttft, tpot, e2el of a request")  # fmt: skip
    add(
        "--percentile-metrics",
        type=values.latencies,
        default=values.LATENCIES[:3],
        metavar="A,B",
        help=", ".join(values.LATENCIES),
    )
    add("--metric-percentiles", type=values.percentiles, default=(99.0,), metavar="P,P", help="default: 99")
    add("--save-result", action="store_true", help="write the JSON")
    add("--save-detailed", action="store_true", help="with lists over all requests")
    add("--append-result", action="store_true", help="append it to the file")
    add("--result-dir", type=Path, metavar="DIR")
    add("--result-filename", metavar="NAME")
    add("--label")
    add("--metadata", nargs="*", action="extend", default=[], metavar="KEY=VALUE", help="kept in the JSON")
    add("--disable-tqdm", action="store_true", help="no progress")


def _ours(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("only here").add_argument
    add("--definitions", choices=("vllm-0.32", "vllm-0.11"), help="whose samplings, bodies and formulas "
        "(default: vllm-0.32)")  # fmt: skip
    add("--timeout", type=values.above_0, default=21600.0, metavar="S", help="end the run after so long (default: 6 h)")
    add("--request-timeout", type=values.above_0, metavar="S", help="a request without whole answer by then has failed")
    add("--processes", type=values.positive, default=1, metavar="N", help="client processes")
    add("--beat", type=values.above_0, metavar="TOK_S", help="end as soon as this total throughput is out of reach")
    add("--time-scale", type=values.above_0, default=1.0, metavar="X", help="2 replays a trace at half its pace")
    add("--save-records", type=Path, metavar="FILE", help="keep every request, to be reported anew")
    add("--from-records", type=Path, metavar="FILE", help="report kept records by other limits; nothing is sent")
    loads = parser.add_argument_group("several loads, one after the other").add_mutually_exclusive_group().add_argument
    loads("--load", type=values.counts, metavar="N,N", help="maximum concurrencies")
    loads("--load-rates", type=values.rates, metavar="R,R", help="request rates")
    loads("--find-max-load", nargs="?", choices=("concurrency", "rate"), const="concurrency",
          help="the highest that meets --goodput")  # fmt: skip
    add("--max-load", type=values.above_0, metavar="N", help="--find-max-load goes no higher (default: --num-prompts)")
    add("--share", type=values.share, default=0.99, metavar="X", help="of requests within the limits (default: 0.99)")


def _dashed(word: str) -> str:
    """`--num_prompts=3` as `--num-prompts=3`, as vLLM takes it."""
    name, equals, value = word.partition("=")
    if not word.startswith("--"):
        return word
    if name.startswith(("--extra-body.", "--extra_body.")):
        raise SpecError([Fault(f"{name} is not taken", way_out="give --extra-body one JSON object")])
    return name.replace("_", "-") + equals + value


def _is_url(word: str) -> bool:
    return word.startswith(("http://", "https://"))


def api_key() -> str:
    """Of the environment, as vLLM reads it; never printed or kept."""
    return os.environ.get("OPENAI_API_KEY", "")

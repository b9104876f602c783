"""The shape of a workload in study.yaml, field by field, and what must hold between its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tuner.benchmarks import Dataset, Definitions
from tuner.spec.faults import Model, bad
from tuner.spec.fields import Count, Text


class RampUp(Model):
    strategy: Literal["linear", "exponential"]
    start: Annotated[float, Field(gt=0)]
    end: Annotated[float, Field(gt=0)]

    @model_validator(mode="after")
    def _grows(self) -> RampUp:
        if self.start > self.end:
            raise bad("a ramp-up ends at the higher rate", "swap start and end", "start")
        return self


# What each dataset reads of the fields that say what the requests are; of the others of these nothing comes.
_READ_BY: Mapping[str, tuple[str, ...]] = {
    "random": ("input_len", "output_len", "range_ratio", "output_range_ratio", "prefix_len"),
    "sharegpt": ("path", "sharegpt_output_len", "fixed_output_len", "shuffle", "oversample"),
    "jsonl": ("path", "fixed_output_len", "shuffle", "oversample"),
    "trace": ("path", "fixed_output_len", "time_scale"),
    "shared-prefix": ("input_len", "output_len", "prefix_len", "num_prefixes", "shuffle"),
}
_OF_DATASETS = tuple(dict.fromkeys(name for names in _READ_BY.values() for name in names))
_ARRIVALS = ("request_rate", "burstiness", "ramp_up")
_FILES = {
    "sharegpt": "ShareGPT_V3_unfiltered_cleaned_split.json",
    "jsonl": "prompts.jsonl",
    "trace": "trace.jsonl",
}


class Workload(Model):
    dataset: Dataset = "random"
    num_prompts: Count = 100
    input_len: Count = 512
    output_len: Count = 128
    range_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.0
    output_range_ratio: Annotated[float, Field(ge=0, lt=1)] | None = None
    prefix_len: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    num_prefixes: Count = 10
    path: Text | None = None
    sharegpt_output_len: Count | None = None  # the name that vLLM gives `fixed_output_len` for this dataset
    fixed_output_len: Count | None = None
    shuffle: bool = True
    oversample: bool = True
    time_scale: Annotated[float, Field(gt=0)] = 1.0
    max_concurrency: Count | None = None
    request_rate: Annotated[float, Field(gt=0)] | None = None
    burstiness: Annotated[float, Field(gt=0)] = 1.0
    ramp_up: RampUp | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    ignore_eos: bool | None = None
    endpoint: Literal["completions", "chat"] = "completions"
    tokenizer: Text | None = None
    extra_body: dict[str, Any] = Field(default_factory=dict)
    definitions: Definitions = "vllm-0.32"
    goodput: dict[Literal["ttft", "tpot", "e2el"], Annotated[float, Field(gt=0)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_its_dataset(self) -> Workload:
        if self.dataset in _FILES and self.path is None:
            raise bad(f"dataset {self.dataset} needs the file to read", f"add path: {_FILES[self.dataset]}")
        unread = tuple(name for name in _OF_DATASETS if name not in _READ_BY[self.dataset])
        for name in (*unread, *(_ARRIVALS if self.dataset == "trace" else ())):
            if self._written(name):
                raise bad(f"does nothing with dataset {self.dataset}", "leave it out", name)
        return self

    @model_validator(mode="after")
    def _fits_itself(self) -> Workload:
        if self.dataset == "shared-prefix" and self.prefix_len < 1:
            raise bad("dataset shared-prefix needs the length of the prefixes", "add prefix_len: 256")
        if self.dataset == "shared-prefix" and self.num_prefixes > self.num_prompts:
            raise bad(f"there are more prefixes than prompts ({self.num_prompts})", "lower it", "num_prefixes")
        for one, other in (("request_rate", "ramp_up"), ("sharegpt_output_len", "fixed_output_len")):
            if self._written(one) and self._written(other):
                raise bad(f"{one} and {other} say the same thing", "keep one of them", other)
        return self

    def _written(self, name: str) -> bool:
        return name in self.model_fields_set and getattr(self, name) is not None

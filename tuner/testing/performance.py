"""How fast the simulated engine is and how much memory it takes. ALL FIGURES HERE ARE SIMULATED.

No number that comes out of this module was measured anywhere. They are shaped like what is published of large
mixture-of-experts models on a node of eight GPUs, so that a search over them meets what it meets in life: one engine
leads with its defaults and another once tuned, some flags help, some cost, some do nothing, some run out of memory.

The model, in full:

- A *step* works on the whole batch. It takes
  `prefill tokens / prefill rate  +  (step cost + sequences decoding x cost of a sequence, if any decode)`.
- Each step prefills at most `prefill_tokens` prompt tokens, first come first served. The prefill rate grows with
  that limit, as larger matrix multiplications do: `peak x limit / (limit + HALF_RATE_TOKENS)`.
- A sequence waits while `max_running` others run or the KV cache could not hold it.
- `effects` lists what each setting multiplies. A setting that is not in it changes nothing.
- Speculation with d draft tokens makes a step yield 1 + d x ACCEPTANCE tokens and costs each sequence 1 + d as much.
- The first COLD_TOKENS tokens after a start take COLD_FACTOR times as long (kernels are compiled).
- Noise: one factor a launch and one a step, both normal, from a seed.
- Memory of one GPU: weights, then KV cache in what the memory fraction leaves, then CUDA graphs and activations in
  what is outside the fraction. What does not fit is out of memory at the start.

Units: seconds, tokens, GiB. Pure.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

GPU_GIB = 139.8
GPU_MIB = 143771
HALF_RATE_TOKENS = 4096
ACCEPTANCE = 0.7
COLD_TOKENS = 3000
COLD_FACTOR = 3.0
LAUNCH_NOISE = 0.004
STEP_NOISE = 0.015


@dataclass(frozen=True)
class Shape:
    """A model's size: GiB of weights, of these not in experts; billions of active parameters; KV bytes a token."""

    architecture: str
    weights_gib: float
    dense_gib: float
    active_b: float
    kv_bytes: int
    context: int
    layers: int
    mla: bool = False
    moe: bool = False


@dataclass(frozen=True)
class Setup:
    """What the engine really runs with: the effective configuration as far as speed and memory depend on it.

    `prefill_tokens` and `max_running` are for all data-parallel ranks together. `attention_dp` is the number of
    ranks that attention is split over by request (1: none); `replicas` independent copies behind one front end.
    """

    engine: str
    shape: Shape
    tp: int = 1
    pp: int = 1
    replicas: int = 1
    attention_dp: int = 1
    expert_parallel: bool = False
    memory_fraction: float = 0.9
    max_running: int = 1024
    prefill_tokens: int = 8192
    graph_batch: int = 512
    kv_fp8: bool = False
    torch_compile: bool = False
    draft_tokens: int = 0
    prefix_cache: bool = True
    async_scheduling: bool = False
    overlap: bool = True
    decode_steps: int = 1
    stream_interval: int = 1
    attention_backend: str = ""
    all2all: str = ""
    deep_gemm: bool = True
    kv_tokens_limit: int | None = None
    kv_gib_limit: float | None = None

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.replicas


@dataclass(frozen=True)
class Speed:
    """Prompt tokens per second, seconds a decoding step costs, and seconds each decoding sequence adds to it."""

    prefill: float
    step: float
    sequence: float


@dataclass(frozen=True)
class Effect:
    """What one setting multiplies (1: unchanged)."""

    why: str
    prefill: float = 1.0
    step: float = 1.0
    sequence: float = 1.0


@dataclass(frozen=True)
class Memory:
    """One GPU's memory. `fits` is False when the start ends out of memory; `why` then says where."""

    weights_gib: float
    kv_gib: float
    kv_tokens: int
    why: str = ""

    @property
    def fits(self) -> bool:
        return not self.why


# DeepSeek-R1 on eight GPUs; how much of the gain from attention data parallelism each engine makes.
BASE = {
    "vllm": Speed(prefill=47_000, step=0.0037, sequence=0.00022),
    "sglang": Speed(prefill=42_500, step=0.0035, sequence=0.00023),
    "tensorrt-llm": Speed(prefill=31_000, step=0.0045, sequence=0.00026),
}
ATTENTION_DP_GAIN = {"vllm": 0.4, "sglang": 1.0, "tensorrt-llm": 0.6}

_SHAPES = (
    (r"deepseek.*(r1|v3)|^ds-", Shape("DeepseekV3ForCausalLM", 642.0, 17.0, 37, 70272, 163840, 61, mla=True, moe=True)),
    (r"qwen3-235b", Shape("Qwen3MoeForCausalLM", 438.0, 15.0, 22, 192512, 40960, 94, moe=True)),
    (r"qwen3-32b", Shape("Qwen3ForCausalLM", 61.0, 61.0, 32, 262144, 40960, 64)),
    (r"llama.*70b", Shape("LlamaForCausalLM", 131.0, 131.0, 70, 327680, 131072, 80)),
    (r"(qwen3|llama).*8b", Shape("LlamaForCausalLM", 15.3, 15.3, 8, 147456, 40960, 36)),
)
_DEFAULT = Shape("LlamaForCausalLM", 2.0, 2.0, 4, 28672, 32768, 24)


def shape_of(model: str) -> Shape:
    """The shape of a known model by its name; a small default for any other."""
    name = model.rstrip("/").rsplit("/", 1)[-1].lower()
    return next((shape for pattern, shape in _SHAPES if re.search(pattern, name)), _DEFAULT)


def speed(setup: Setup) -> Speed:
    """The base speed of the engine, scaled to the model and the GPUs, times every effect."""
    base = BASE[setup.engine]
    size = max(0.1, setup.shape.active_b / 37)
    power = (setup.gpus / 8) ** 0.85
    limit = setup.prefill_tokens / setup.replicas
    made = Speed(
        prefill=base.prefill * power / size * limit / (limit + HALF_RATE_TOKENS),
        step=base.step * math.sqrt(size) / power**0.25,
        sequence=base.sequence * math.sqrt(size) / power**0.5,
    )
    for effect in effects(setup):
        made = Speed(made.prefill * effect.prefill, made.step * effect.step, made.sequence * effect.sequence)
    return made


def effects(setup: Setup) -> Iterator[Effect]:
    """Every setting that matters, with what it multiplies. More is better for `prefill`, less for the others."""
    if setup.attention_dp > 1:
        gain = ATTENTION_DP_GAIN[setup.engine] if setup.shape.mla else 0.0
        kept = 0.35 + 0.65 / setup.attention_dp
        yield Effect(
            "each rank holds the KV cache of its own requests instead of all ranks holding all of it",
            prefill=1 + 0.06 * math.log2(setup.attention_dp) * gain,
            step=1.1,
            sequence=1 - (1 - kept) * gain,
        )
    if setup.expert_parallel and setup.shape.moe:
        yield Effect("experts are spread: more exchange, larger matrices", prefill=1.02, step=1.15)
    if setup.graph_batch == 0:
        yield Effect("no CUDA graphs: every kernel is launched by the CPU", step=5.0, sequence=1.2)
    if setup.torch_compile:
        yield Effect("compiled kernels help small batches and cost large ones", step=0.9, sequence=1.15)
    if setup.kv_fp8:
        yield Effect("half as much KV cache to read", sequence=0.9)
    if setup.draft_tokens:
        cost = 1 + setup.draft_tokens
        yield Effect("the draft layer runs too, every draft is verified", prefill=0.93, step=1.35, sequence=cost)
    if setup.async_scheduling:
        yield Effect("the next step is scheduled while this one runs", step=0.6, sequence=0.92)
    if not setup.overlap:
        yield Effect("scheduling and computing take turns", step=1.6)
    if setup.decode_steps > 1:
        yield Effect("several decoding steps at a time", step=1 - 0.3 * (1 - 1 / setup.decode_steps))
    if setup.stream_interval > 1:
        yield Effect("fewer messages to the front end", sequence=0.96)
    if setup.all2all.startswith("deepep") and setup.expert_parallel:
        yield Effect("a faster exchange between experts", prefill=1.08, step=0.97)
    if not setup.deep_gemm:
        yield Effect("the slower matrix multiplication", prefill=0.95)
    yield _backend(setup.attention_backend)


def memory(setup: Setup) -> Memory:
    """What fits on one GPU, and where it does not."""
    weights = _weights_gib(setup)
    inside = setup.memory_fraction * GPU_GIB
    kv = inside - weights - 0.5
    if setup.engine == "tensorrt-llm":  # its fraction is of what is free once the weights are loaded
        kv = setup.memory_fraction * (GPU_GIB - weights - 4)
    kv = min(kv, setup.kv_gib_limit or kv)
    tokens = int(max(0.0, kv) * 2**30 / _kv_bytes(setup)) * setup.attention_dp * setup.replicas
    tokens = min(tokens, setup.kv_tokens_limit or tokens)
    return Memory(weights, kv, tokens, _misfit(setup, weights, kv))


@dataclass
class Clock:
    """How long steps take: the speed of a setup with noise and the cold start in it. Has a state: one a launch."""

    setup: Setup
    random: random.Random = field(default_factory=random.Random)
    cold_tokens: float = COLD_TOKENS
    slowdown: float = 1.0

    def __post_init__(self) -> None:
        self.speed = speed(self.setup)
        self._launch = self.slowdown * self.random.gauss(1.0, LAUNCH_NOISE)

    def step_seconds(self, prefill_tokens: int, decoding: int) -> float:
        """Seconds the step takes; called once for each step."""
        seconds = prefill_tokens / self.speed.prefill
        if decoding:
            beyond_graphs = 5.0 if decoding / self.setup.attention_dp > self.setup.graph_batch > 0 else 1.0
            seconds += self.speed.step * beyond_graphs + decoding * self.speed.sequence
        worked = prefill_tokens + decoding
        cold = min(self.cold_tokens, worked)
        self.cold_tokens -= cold
        if cold:
            seconds *= 1 + (COLD_FACTOR - 1) * cold / worked
        return seconds * self._launch * max(0.5, self.random.gauss(1.0, STEP_NOISE))

    def tokens_of_step(self) -> int:
        """How many tokens one sequence gains in a step: one, and the drafts accepted."""
        accepted = 0
        while accepted < self.setup.draft_tokens and self.random.random() < ACCEPTANCE:
            accepted += 1
        return 1 + accepted


def slowdown(words: Sequence[str], asked: str) -> float:
    """How many times longer every step takes: `asked` is a comma list of `word=factor`, and the factors of the
    words that are in the command line multiply.

    Raises:
        ValueError: an entry is not of that form.
    """
    factor = 1.0
    for entry in filter(None, asked.split(",")):
        word, _, number = entry.rpartition("=")
        factor *= float(number) if word in words else 1.0
    return factor


def start_seconds(setup: Setup) -> float:
    """How long a start takes (real ones take minutes)."""
    seconds = 0.25 + 0.05 * bool(setup.graph_batch) + 0.15 * setup.torch_compile + 0.1 * bool(setup.draft_tokens)
    return seconds + min(0.2, setup.graph_batch / 10_000)


def _backend(name: str) -> Effect:
    known = {"triton": 1.15, "flashinfer": 1.02, "flashmla": 0.98, "torch_native": 2.0}
    return Effect(f"attention by {name or 'the default kernels'}", sequence=known.get(name.lower(), 1.0))


def _weights_gib(setup: Setup) -> float:
    """Experts are split over all GPUs of a replica; the rest over the GPUs that share one request's attention."""
    shape = setup.shape
    attention_gpus = max(1, setup.tp * setup.pp // setup.attention_dp)
    return (shape.weights_gib - shape.dense_gib) / (setup.tp * setup.pp) + shape.dense_gib / attention_gpus


def _kv_bytes(setup: Setup) -> float:
    """KV bytes of a token on one GPU; MLA's are the same on every GPU, others are split by heads (eight)."""
    split = 1 if setup.shape.mla else min(max(1, setup.tp // setup.attention_dp), 8)
    draft = 1 + 1 / setup.shape.layers if setup.draft_tokens else 1.0
    return setup.shape.kv_bytes * draft / split / setup.pp / (2 if setup.kv_fp8 else 1)


def _misfit(setup: Setup, weights: float, kv: float) -> str:
    outside = (1 - setup.memory_fraction) * GPU_GIB
    if setup.engine == "tensorrt-llm":
        outside = GPU_GIB - weights - kv
    rank_tokens = setup.prefill_tokens / setup.attention_dp / setup.replicas
    graphs = setup.graph_batch * 4 / 1024 * (2.0 if setup.attention_dp > 1 else 1.0)
    if weights > GPU_GIB - 1:
        return "weights"
    if outside < 1.0 + graphs + min(8.0, rank_tokens / 4096):
        return "capture"
    return "kv" if kv < 0.5 else ""

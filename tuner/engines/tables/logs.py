"""Log lines of the engines and what they mean: facts only.

Sources: logs of vLLM 0.25.1 and 0.32.0, SGLang 0.5.17; sources of vLLM 0.11.0 and 0.32.0, SGLang 0.5.3 and 0.5.23,
TensorRT-LLM 1.x. Patterns are searched in a line without its logger's prefix; none can backtrack far.
"""

from __future__ import annotations

from tuner.engines.logs import Cause, Logs

_ERROR = r"^(?:\w+\.)*\w*(?:Error|Exception)\b.*"

_COMMON = (
    Cause("port-taken", r"\[?Errno 98\]?|EADDRINUSE|[Aa]ddress already in use|Failed to bind socket"),
    Cause("port-taken", r"Port is already in use|is used by a process already"),
    Cause(
        "shm-full", r"No space left on device.{0,200}/dev/shm|/dev/shm.{0,200}No space left|shared memory.{0,80}full"
    ),
    Cause("disk-full", r"\[Errno 28\]|No space left on device"),
    Cause("gpu-busy", r"Free memory on device .{0,200}less than desired GPU memory utilization"),
    Cause("gpu-busy", r"Error in memory profiling|The memory capacity is unbalanced"),
    Cause("out-of-memory", r"^(?:torch\.(?:cuda\.)?)?OutOfMemoryError\b|" + _ERROR + r"CUDA out of memory"),
    Cause("out-of-memory", r"Capture cuda graph failed|No available memory for the cache blocks"),
    Cause("out-of-memory", r"larger than the maximum number of tokens that can be stored in KV cache"),
    Cause("out-of-memory", r"KV cache is needed, which is larger than the available"),
    Cause("out-of-memory", r"Not enough memory\. Please try to increase --mem-fraction-static"),
    Cause("out-of-memory", r"Executor creation failed due to insufficient GPU memory"),
    Cause("out-of-memory", r"Available memory on node .{0,300}(?:less than|requested memory for kv)"),
    Cause("out-of-memory", r"^MemoryError\b|std::bad_alloc|Cannot allocate memory", alone=False),
    Cause("bad-flag", r"^[\w./ -]{1,80}: error: "),
    Cause("bad-flag", r"^Error: (?:No such option|Invalid value|Missing argument|Got unexpected|Option )"),
    Cause("model-not-found", r"Repo id must be in the form|LocalEntryNotFoundError|RepositoryNotFoundError"),
    Cause("model-not-found", r"is not a valid model identifier|does not appear to have a file named|GatedRepoError"),
    Cause("model-not-found", r"Can't load (?:the )?(?:configuration|tokenizer|model)|No such file.{0,200}config\.json"),
    Cause("model-not-found", r"Invalid repository ID or local directory specified|Cannot find any model weights"),
    Cause("unsupported", r"not supported in this architecture|Unsupported SM version|is unsupported on SM"),
    Cause("unsupported", r"only supported on Blackwell|is not valid for this configuration"),
    Cause("nccl", r"Watchdog caught collective operation timeout"),
    Cause("nccl", r"nccl(?:Unhandled|System|Internal|Remote)\w*Error|NCCL error|DistBackendError", alone=False),
    Cause("invalid-config", r"CUDA error: invalid device ordinal", alone=False),
    Cause("invalid-config", r"\d+ validation errors? for", alone=False),
)

VLLM = Logs(
    causes=(
        *_COMMON,
        Cause("invalid-config", r"No common block size for|Not enough allowed NUMA nodes", alone=False),
    ),
    symptoms=(
        r"Engine core initialization failed|EngineCore failed to start",
        r"Engine core proc .{0,80}died unexpectedly|EngineDeadError",
        r"WorkerProc (?:failed to start|initialization failed|hit an exception)",
        r"Worker proc .{0,80}died|EngineCore encountered a fatal error",
    ),
    under_load=r"EngineDeadError|AsyncLLM output_handler failed|Engine core proc .{0,80}died unexpectedly",
    progress=(
        (r"Application startup complete", "ready"),
        (r"Starting vLLM (?:API )?server", "opening the port"),
        (r"init engine \(.{0,80}\) took ([\d.]+) s", "engine up after {0} s"),
        (r"Graph capturing finished in ([\d.]+) s", "CUDA graphs captured in {0} s"),
        (r"Capturing CUDA graphs?.{0,80}?(\d+)%", "capturing CUDA graphs, {0} %"),
        (r"(?:GPU|CPU) KV cache size: ([\d,]+) tokens", "KV cache of {0} tokens"),
        (r"Warming up model for the compilation|Dynamo bytecode transform time|torch\.compile tak", "torch.compile"),
        (r"saved AOT compiled function", "torch.compile"),
        (r"Model loading took|Loading weights took", "weights loaded"),
        (r"Loading safetensors checkpoint shards: +(\d+)% Completed", "loading weights, {0} %"),
        (r"Starting to load model", "loading weights"),
        (r"Initializing a V1 LLM engine", "starting the engine"),
        (r"non-default args", "reading the configuration"),
    ),
)

SGLANG = Logs(
    causes=(*_COMMON, Cause("abandoned", r"^BrokenPipeError", alone=False)),
    symptoms=(
        r"Received sigquit from a child process|SIGQUIT received|Triggering SIGQUIT",
        r"Scheduler hit an exception|TpModelWorkerClient hit an exception|DetokenizerManager hit an exception",
        r"Rank \d+ scheduler is dead|Scheduler or DataParallelController \d+ terminated",
        r"[Ww]atchdog timeout",
    ),
    under_load=r"SIGQUIT received",
    progress=(
        (r"The server is fired up and ready to roll", "ready"),
        (r"DeepGEMM warmup: +(\d+)%", "DeepGEMM compiles, {0} %"),
        (r"Entering DeepGEMM JIT Pre-Compile session", "DeepGEMM compiles"),
        (r"Application startup complete|max_total_num_tokens=", "warming up"),
        (r"Capturing batches \(bs=(\d+)", "capturing CUDA graphs, batch {0}"),
        (r"Capture .{0,40}CUDA graph begin|Capture cuda graph begin", "capturing CUDA graphs"),
        (r"KV Cache is allocated\..{0,80}#tokens: (\d+)", "KV cache of {0} tokens"),
        (r"Loading safetensors checkpoint shards: +(\d+)% Completed", "loading weights, {0} %"),
        (r"Load weight end", "weights loaded"),
        (r"Load weight begin", "loading weights"),
        (r"Init torch distributed", "starting the engine"),
        (r"server_args=", "reading the configuration"),
    ),
)

TENSORRT_LLM = Logs(
    causes=(
        *_COMMON,
        Cause("model-not-found", r"Failed to load model|HFValidationError", alone=False),
        Cause("nccl", r"MPI_ERR|mpi4py.{0,80}Exception", alone=False),
    ),
    symptoms=(
        r"Executor worker returned error|Executor worker died|Executor worker initialization failed",
        r"Failed to initialize executor on rank|Fatal error:? .{0,80}executor",
        r"Hang detected|MPI_ABORT was invoked",
    ),
    under_load=r"Fatal error:? .{0,80}executor|Hang detected",
    progress=(
        (r"Application startup complete|Uvicorn running on", "ready"),
        (r"\[Autotuner\]", "autotuning kernels"),
        (r"Creating CUDA graph|Run generation only CUDA graph warmup|CUDA graph warmup", "capturing CUDA graphs"),
        (r"Max KV cache pages|Allocated ([\d.]+) GiB for max tokens", "allocating the KV cache"),
        (r"Loading (?:weights|safetensors).{0,80}?(\d+)%", "loading weights, {0} %"),
        (r"Prefetching .{0,40}checkpoint|Loading weights", "loading weights"),
        (r"LLM Args", "reading the configuration"),
    ),
)

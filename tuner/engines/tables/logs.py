"""Log lines of the engines and what they mean: facts only.

Sources: logs of vLLM 0.25.1 and 0.32.0, SGLang 0.5.17; sources of vLLM 0.11.0 and 0.32.0, SGLang 0.5.3 and 0.5.23,
TensorRT-LLM 1.x; messages of CUDA, NCCL, Linux and the model hub. Patterns are searched in a line without its
logger's prefix; none can backtrack far.
"""

from __future__ import annotations

from tuner.engines.logs import Cause, Closer, Logs

_ERROR = r"^(?:\w+\.)*\w*(?:Error|Exception)\b.*"
_LESS = "a smaller memory fraction leaves more free; see what else holds memory"
_MORE = "raise the memory fraction, shorten the context, or take more GPUs"

_COMMON = (
    # Ports and GPUs that somebody else has.
    Cause("port-taken", r"\[?Errno 98\]?|EADDRINUSE|[Aa]ddress already in use|Failed to bind socket"),
    Cause("port-taken", r"Port is already in use|is used by a process already|failed to listen on any local network"),
    Cause("gpu-busy", r"Free memory on device .{0,200}less than desired GPU memory utilization"),
    Cause("gpu-busy", r"Error in memory profiling|The memory capacity is unbalanced"),
    Cause("gpu-busy", r"CUDA-capable devices? (?:is|are) (?:all )?busy or unavailable"),
    # The node.
    Cause("node-sick", r"uncorrectable (?:NVLink |ECC )?error|fallen off the bus|NVRM: Xid"),
    Cause("node-sick", r"Unable to determine the device handle"),
    Cause("node-sick", r"No CUDA GPUs are available|Found no NVIDIA driver|driver on your system is too old"),
    Cause("node-sick", r"CUDA driver version is insufficient|Failed to initialize NVML|Error 80[234]: "),
    Cause("node-sick", r"CUDA unknown error|system not yet initialized|hardware stack error"),
    Cause("node-sick", r"CUDA_ERROR_(?:SYSTEM_NOT_READY|ECC_UNCORRECTABLE|NO_DEVICE)"),
    Cause(
        "shm-full",
        r"No space left on device.{0,200}/dev/shm|/dev/shm.{0,200}No space left|shared memory.{0,80}full"
        r"|[Ii]nsufficient shared memory|creating shared memory segment|unable to (?:open|mmap|allocate) shared memory"
        r"|Bus error.{0,120}shared memory|SIGBUS|posix_fallocate failed",
    ),
    Cause("disk-full", r"\[Errno 28\]|No space left on device|Disk quota exceeded|\[Errno 122\]"),
    Cause("host-out-of-memory", r"oom[-_ ]kill|Out of memory: Killed process|Memory cgroup out of memory"),
    Cause("host-out-of-memory", r"Not enough host memory|DefaultCPUAllocator: |can't allocate memory: you tried"),
    Cause("host-out-of-memory", r"cudaHostAlloc|CUDA error: .{0,40}host memory|failed to pin memory", alone=False),
    Cause("host-out-of-memory", r"^MemoryError\b|std::bad_alloc|Cannot allocate memory", alone=False),
    # The GPUs' memory.
    Cause("out-of-memory", r"^(?:torch\.(?:cuda\.)?)?OutOfMemoryError\b|" + _ERROR + r"(?:CUDA|HIP) out of memory"),
    Cause("out-of-memory", _ERROR + r"CUDA (?:driver )?error:? (?:\(?2\)?:? ?)?out of memory"),
    Cause("out-of-memory", r"cudaErrorMemoryAllocation"),
    Cause("out-of-memory", r"CUBLAS_STATUS_ALLOC_FAILED|CUDA_ERROR_OUT_OF_MEMORY", alone=False),
    Cause("out-of-memory-graphs", r"Capture .{0,30}(?:cuda|CUDA) graph failed: .{0,80}out of memory"),
    Cause("out-of-memory", r"No available memory for the cache blocks", way_out=_MORE),
    Cause("out-of-memory", r"larger than the maximum number of tokens that can be stored in KV", way_out=_MORE),
    Cause("out-of-memory", r"KV cache is needed, which is larger than the available", way_out=_MORE),
    Cause("out-of-memory", r"Not enough memory\. Please try to increase --mem-fraction-static", way_out="raise "
          "mem-fraction-static, or take more GPUs: the weights leave no room for the KV pool"),
    Cause("out-of-memory", r"Executor creation failed due to insufficient GPU memory"),
    Cause("out-of-memory", r"Available memory on node .{0,300}(?:less than|requested memory for kv)", way_out=_LESS),
    # The command line.
    Cause("bad-flag", r"^[\w./ -]{1,80}: error: "),
    Cause("bad-flag", r"^Error: (?:No such option|Invalid value|Missing argument|Got unexpected|Option )"),
    # The model.
    Cause("model-gated", r"GatedRepoError|gated repo|is restricted\b.{0,80}(?:log in|authenticated|access)"),
    Cause("model-gated", r"\b40[13] Client Error|Invalid (?:user token|username or password)|Cannot access gated"),
    Cause("model-not-found", r"Repo id must be in the form|LocalEntryNotFoundError|RepositoryNotFoundError"),
    Cause("model-not-found", r"is not a valid model identifier|does not appear to have a file named"),
    Cause("model-not-found", r"Can't load (?:the )?(?:configuration|tokenizer|model)|No such file.{0,200}config\.json"),
    Cause("model-not-found", r"Invalid repository ID or local directory specified|Cannot find any model weights"),
    Cause("model-not-found", r"SafetensorError|Error while deserializing header", alone=False, way_out="a file of the "
          "weights is damaged or was not downloaded to its end: download it again"),
    Cause("model-not-found", r"OfflineModeIsEnabled|[Cc]ouldn't connect to '?https://huggingface"),
    # What this model or GPU cannot do.
    Cause("unsupported", r"not supported in this architecture|Unsupported SM version|is unsupported on SM"),
    Cause("unsupported", r"only supported on Blackwell|is not valid for this configuration"),
    Cause("unsupported", r"no kernel image is available|does not recognize this architecture", alone=False),
    Cause("unsupported", r"Model architectures .{0,120}not supported|Minimum capability", alone=False),
    # Between GPUs and processes.
    Cause("nccl", r"Watchdog caught collective operation timeout"),
    Cause("nccl", r"nccl(?:Unhandled|System|Internal|Remote)\w*Error|NCCL error|DistBackendError", alone=False),
    Cause("start-timeout", r"Timed out waiting for engine|Did not receive response from front-end", alone=False),
    Cause("start-timeout", r"VLLM_ENGINE_READY_TIMEOUT_S|Timed out after \d+ seconds waiting for clients", alone=False),
    Cause("invalid-config", r"CUDA error: invalid device ordinal", alone=False, way_out="the configuration takes more "
          "GPUs than the server may see"),
    Cause("invalid-config", r"\d+ validation errors? for", alone=False),
)  # fmt: skip

_CACHES = (
    r"\.cache/(?:vllm|flashinfer|torch_extensions|deep_gemm|tvm-ffi|sglang|triton|torch)|\.triton/cache|torchinductor_"
    r"|torch_compile_cache|torch_aot_compile|\.deep_gemm|deep_gemm/cache|TRITON_CACHE|flashinfer/jit"
)
_CLOSER = (
    Closer(
        "out-of-memory-graphs",
        of=frozenset({"out-of-memory"}),
        near=r"Capture .{0,30}(?:cuda|CUDA) graph failed|capture_model|_?capture_cuda_?graphs?\b|capture_decode_graph"
        r"|torch/cuda/graphs\.py|Capturing CUDA graphs|Capture .{0,40}(?:cuda|CUDA) graph begin|CUDA graph warmup",
    ),
    Closer(
        "cache-poisoned",
        of=frozenset({"crash", "not-installed", "invalid-config", "model-not-found"}),
        line=r"file too short|invalid ELF|undefined symbol|cannot open shared object|Stale file handle|JSONDecodeError"
        r"|UnpicklingError|EOFError|Ran out of input|BadZipFile|PytorchStreamReader|central directory|corrupt"
        r"|FileNotFoundError|device kernel image is invalid|CUDA_ERROR_INVALID_(?:IMAGE|SOURCE)|hash mismatch",
        near=_CACHES,
    ),
    Closer(
        "bad-flag",
        of=frozenset({"invalid-config"}),
        line=r"validation errors? for",
        near=r"Extra inputs are not permitted|extra fields not permitted",
    ),
)

VLLM = Logs(
    causes=(
        *_COMMON,
        Cause("invalid-config", r"No common block size for|Not enough allowed NUMA nodes", alone=False),
    ),
    closer=_CLOSER,
    symptoms=(
        r"Engine core initialization failed|EngineCore failed to start",
        r"Engine core proc .{0,80}died unexpectedly|EngineDeadError",
        r"WorkerProc (?:failed to start|initialization failed|hit an exception)",
        r"Worker proc .{0,80}died|EngineCore encountered a fatal error|engine core exited unexpectedly",
    ),
    under_load=r"EngineCore encountered a fatal error|EngineDeadError"
    r"|AsyncLLM output_handler failed|Engine core proc .{0,80}died unexpectedly",
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
    causes=(
        *_COMMON,
        Cause("start-stall", r"[Ww]atchdog timeout \(", alone=False),
        Cause("abandoned", r"^BrokenPipeError", alone=False),
    ),
    closer=_CLOSER,
    ready=r"The server is fired up and ready to roll",
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
        Cause("start-stall", r"Hang detected", alone=False),
    ),
    closer=_CLOSER,
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

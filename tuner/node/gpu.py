"""The GPUs of this node as NVML shows them. Nothing here is asked on a node without GPUs."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tuner.errors import NodeSick, SpecError
from tuner.node.processes import command_of
from tuner.trial import Failure

logger = logging.getLogger(__name__)

MIB = 1024**2
# A resting H200 holds 615 MiB (driver 580): less than this, or 1 % of the memory, is nobody's.
_RESTING_BYTES = 1024 * MIB
_TOLERANCE_BYTES = 256 * MIB
_CALM_SAMPLES = 3
_PAUSE_S = 0.2


@dataclass(frozen=True)
class GpuProcess:
    """A process on a GPU. `memory` in bytes, None where the driver does not say."""

    pid: int
    memory: int | None
    command: str = ""


@dataclass(frozen=True)
class Gpu:
    """One GPU. Memory in bytes. In a container `processes` may be empty though others compute on it."""

    index: int
    uuid: str
    name: str
    memory_total: int
    memory_used: int
    driver: str
    processes: tuple[GpuProcess, ...] = ()


class Node(Protocol):
    """What a study says of its node: see `tuner.spec.NodeSpec`."""

    @property
    def gpus(self) -> int | Literal["auto"] | tuple[str, ...]: ...

    @property
    def simulated(self) -> int: ...


class Nvml(Protocol):
    """The functions of the module `pynvml` that are used here; `tuner.testing.nvml` has a working fake."""

    def nvmlInit(self) -> Any: ...
    def nvmlShutdown(self) -> Any: ...
    def nvmlSystemGetDriverVersion(self) -> Any: ...
    def nvmlDeviceGetCount(self) -> Any: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...
    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any: ...
    def nvmlDeviceGetUUID(self, handle: Any) -> Any: ...
    def nvmlDeviceGetName(self, handle: Any) -> Any: ...
    def nvmlDeviceGetIndex(self, handle: Any) -> Any: ...
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...
    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> Any: ...


def visible(node: Node, nvml: Nvml | None = None, environ: Mapping[str, str] = os.environ) -> tuple[Gpu, ...]:
    """The GPUs that this study may use: those of CUDA_VISIBLE_DEVICES (all if unset), as many or which it names.

    None, without asking NVML, where the node has no GPUs or simulated ones. Numbers in CUDA_VISIBLE_DEVICES are
    taken in PCI order (NVML's); CUDA counts so on a node of equal GPUs or with CUDA_DEVICE_ORDER=PCI_BUS_ID.

    Raises:
        SpecError: the node does not have what the study asks for.
    """
    if node.simulated or node.gpus == 0:
        return ()
    with _session(nvml, f"gpus: {_text(node.gpus)}") as library:
        count = int(library.nvmlDeviceGetCount())
        found = tuple(_gpu(library, library.nvmlDeviceGetHandleByIndex(index)) for index in range(count))
    return _chosen(_allowed(found, environ.get("CUDA_VISIBLE_DEVICES")), node.gpus, len(found))


def look(gpus: Sequence[Gpu], nvml: Nvml | None = None) -> tuple[Gpu, ...]:
    """The same GPUs as they are now."""
    if not gpus:
        return ()
    with _session(nvml, "its GPUs") as library:
        return tuple(_gpu(library, library.nvmlDeviceGetHandleByUUID(gpu.uuid)) for gpu in gpus)


def used(gpus: Sequence[Gpu], nvml: Nvml | None = None) -> dict[str, int]:
    """Bytes in use by UUID, now."""
    return {gpu.uuid: gpu.memory_used for gpu in look(gpus, nvml)}


def check_free(gpus: Sequence[Gpu], own_pids: Collection[int] = ()) -> Failure | None:
    """gpu-busy where somebody else computes on one of them, or memory is held by whom the driver does not name."""
    said = [text for gpu in gpus if (text := _busy(gpu, own_pids))]
    if not said:
        return None
    return Failure(
        "gpu-busy",
        "GPUs must be idle before a launch: " + "; ".join(said) + " (end it, choose other GPUs, "
        "or say what to do with node: {foreign: wait 30m} or {foreign: warn})",
        hop="launch",
    )


def wait_until_free(
    gpus: Sequence[Gpu], baseline: Mapping[str, int], timeout_s: float, nvml: Nvml | None = None
) -> float:
    """Wait until each uses at most its baseline (bytes by UUID) and 256 MiB more, three looks in a row; the seconds.

    Raises:
        NodeSick: it does not come back within `timeout_s`.
    """
    began = time.monotonic()
    calm = 0
    while gpus:
        held = {
            gpu.index: gpu.memory_used - baseline[gpu.uuid]
            for gpu in look(gpus, nvml)
            if gpu.memory_used > baseline[gpu.uuid] + _TOLERANCE_BYTES
        }
        calm = 0 if held else calm + 1
        if calm == _CALM_SAMPLES:
            break
        if held and time.monotonic() - began > timeout_s:
            names = ", ".join(f"GPU {index}: {extra / MIB:.0f} MiB" for index, extra in held.items())
            raise NodeSick(
                f"GPU memory must come back after a server has ended, but after {timeout_s:g} s more is held than "
                f"before it ({names}); see who holds it with nvidia-smi, end it, then run the study again to continue"
            )
        time.sleep(_PAUSE_S)
    return time.monotonic() - began


@contextmanager
def _session(nvml: Nvml | None, wanted: str) -> Iterator[Nvml]:
    way_out = "on a machine without GPUs write gpus: 0, or gpus: {simulated: 8} for simulated engines"
    if nvml is None:
        try:
            import pynvml
        except ImportError as error:
            raise SpecError(f"node: {wanted} needs the package nvidia-ml-py; install it; {way_out}") from error
        nvml = pynvml
    try:
        nvml.nvmlInit()
    except Exception as error:  # pynvml makes its error classes at run time
        raise SpecError(f"node: {wanted}, but no NVIDIA driver answers here ({error}); {way_out}") from error
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Nvml, handle: Any) -> Gpu:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return Gpu(
        index=int(nvml.nvmlDeviceGetIndex(handle)),
        uuid=_string(nvml.nvmlDeviceGetUUID(handle)),
        name=_string(nvml.nvmlDeviceGetName(handle)),
        memory_total=int(memory.total),
        memory_used=int(memory.used),
        driver=_string(nvml.nvmlSystemGetDriverVersion()),
        processes=tuple(
            GpuProcess(int(process.pid), process.usedGpuMemory, command_of(process.pid))
            for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        ),
    )


def _allowed(gpus: Sequence[Gpu], setting: str | None) -> tuple[Gpu, ...]:
    """CUDA_VISIBLE_DEVICES as CUDA reads it: numbers or starts of UUIDs, up to the first that names no GPU."""
    if setting is None:
        return tuple(gpus)
    chosen: list[Gpu] = []
    for word in (word.strip() for word in setting.split(",")):
        named = [
            gpu for gpu in gpus if word == str(gpu.index) or (word.startswith("GPU-") and gpu.uuid.startswith(word))
        ]
        if len(named) != 1:
            break
        chosen += named
    return tuple(chosen)


def _chosen(gpus: tuple[Gpu, ...], wanted: int | str | tuple[str, ...], present: int) -> tuple[Gpu, ...]:
    hidden = f" ({present} present, CUDA_VISIBLE_DEVICES shows {len(gpus)})" if present != len(gpus) else ""
    if isinstance(wanted, tuple):
        by_name = {gpu.uuid: gpu for gpu in gpus}
        if missing := [uuid for uuid in wanted if uuid not in by_name]:
            there = ", ".join(by_name) or "none"
            raise SpecError(f"node: gpus: {', '.join(missing)} is not on this node{hidden}; it has {there}")
        return tuple(by_name[uuid] for uuid in wanted)
    if not gpus:
        raise SpecError(
            f"node: gpus: {wanted}, but no GPU can be used here{hidden}; on a machine without GPUs write gpus: 0, "
            "or gpus: {simulated: 8} for simulated engines"
        )
    if isinstance(wanted, int) and wanted > len(gpus):
        raise SpecError(
            f"node: gpus: {wanted} asks for more than the {len(gpus)} of this node{hidden}; "
            f"write gpus: {len(gpus)} or gpus: auto"
        )
    return gpus[:wanted] if isinstance(wanted, int) else gpus


def _busy(gpu: Gpu, own_pids: Collection[int]) -> str:
    foreign = [process for process in gpu.processes if process.pid not in own_pids]
    if foreign:
        names = ", ".join(f"pid {process.pid} ({process.command or 'unknown command'})" for process in foreign)
        return f"GPU {gpu.index} is used by {names}"
    if gpu.processes or gpu.memory_used <= max(_RESTING_BYTES, gpu.memory_total // 100):
        return ""
    return f"GPU {gpu.index} has {gpu.memory_used / MIB:.0f} MiB in use by a process that the driver does not name"


def _string(text: Any) -> str:
    return text.decode() if isinstance(text, bytes) else str(text)


def _text(gpus: int | str | tuple[str, ...]) -> str:
    return ", ".join(gpus) if isinstance(gpus, tuple) else str(gpus)

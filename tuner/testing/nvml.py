"""A pretended NVML for tests on machines without GPUs: hand it to functions of `tuner.node.gpu` as `nvml`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace


@dataclass
class FakeGpu:
    """One pretended GPU. `used` may be a function, called at every look, for memory that comes back slowly."""

    uuid: str
    name: str = "NVIDIA H200 (simulated)"
    total: int = 150_754_820_096
    used: int | Callable[[], int] = 644_874_240
    processes: dict[int, int | None] = field(default_factory=dict)


class NvmlError(Exception):
    """What the pretended driver raises."""


class FakeNvml:
    """Behaves like the module `pynvml` with these GPUs; `driver=None`: no driver is installed."""

    def __init__(self, gpus: list[FakeGpu], driver: str | None = "580.95.05") -> None:
        self.gpus = gpus
        self.driver = driver
        self.sessions = 0

    def nvmlInit(self) -> None:
        if self.driver is None:
            raise NvmlError("NVML Shared Library Not Found")
        self.sessions += 1

    def nvmlShutdown(self) -> None:
        self._asked()
        self.sessions -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        self._asked()
        return self.driver or ""

    def nvmlDeviceGetCount(self) -> int:
        self._asked()
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        self._asked()
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu:
        self._asked()
        for gpu in self.gpus:
            if gpu.uuid == uuid:
                return gpu
        raise NvmlError("Not Found")

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:
        return handle.uuid

    def nvmlDeviceGetName(self, handle: FakeGpu) -> bytes:
        return handle.name.encode()

    def nvmlDeviceGetIndex(self, handle: FakeGpu) -> int:
        return self.gpus.index(handle)

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu) -> SimpleNamespace:
        self._asked()
        return SimpleNamespace(total=handle.total, used=handle.used() if callable(handle.used) else handle.used)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeGpu) -> list[SimpleNamespace]:
        self._asked()
        return [SimpleNamespace(pid=pid, usedGpuMemory=memory) for pid, memory in handle.processes.items()]

    def _asked(self) -> None:
        if not self.sessions:
            raise NvmlError("Uninitialized")

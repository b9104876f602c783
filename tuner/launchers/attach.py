"""A server that somebody else runs. Nothing is started, stopped or proven; it can only be asked."""

from __future__ import annotations

from pathlib import Path

from tuner.errors import SpecError
from tuner.launchers import Identity
from tuner.node.processes import boot_id
from tuner.trial import Launch


def launcher(url: str) -> AttachLauncher:
    """The launcher for the server at `url` (without `/v1`).

    Raises:
        SpecError: not an http address.
    """
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise SpecError(f"launcher option url must be an address such as http://127.0.0.1:8000 (got {url!r})")
    return AttachLauncher(url.rstrip("/").removesuffix("/v1"))


class AttachLauncher:
    """Attaches to `url`, whatever is launched: the configuration is the server's own."""

    type = "attach"

    def __init__(self, url: str) -> None:
        self.url = url

    def start(self, launch: Launch, log: Path, marker: str, cwd: Path) -> AttachHandle:
        log.touch()
        return AttachHandle(self.url, marker)

    def command(self, launch: Launch) -> list[str]:
        return list(launch.argv)

    def reap(self, identity: Identity) -> list[int]:
        return []


class AttachHandle:
    """Knows an address and nothing else."""

    def __init__(self, url: str, marker: str) -> None:
        self._identity = Identity("attach", marker, boot_id(), facts={"url": url})

    def identity(self) -> Identity:
        return self._identity

    def returncode(self) -> int | None:
        return None

    def owns_listener(self, port: int) -> bool | None:
        return None

    def cpu_seconds(self) -> float:
        return 0.0

    def stop(self, grace_s: float) -> None:
        return None

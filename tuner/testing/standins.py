"""Programs named `vllm`, `trtllm-serve` and `python3` that run the simulated engine.

For what starts engines by name from a folder. The `python3` runs the engine for `-m sglang.launch_server` (or
vLLM's module) and the real interpreter for anything else.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

_ENGINE = """#!/bin/sh
# Stand-in: the simulated engine of tuner.testing under the name {name}.
PYTHONPATH={root}${{PYTHONPATH:+:$PYTHONPATH}}
export PYTHONPATH
exec {python} -m tuner.testing.engine {name} "$@"
"""

_PYTHON = """#!/bin/sh
# Stand-in: the simulated engine of tuner.testing for `-m sglang.launch_server`, else the real interpreter.
if [ "$1" = "-m" ]; then
    case "$2" in
    sglang.launch_server | vllm.entrypoints.openai.api_server)
        PYTHONPATH={root}${{PYTHONPATH:+:$PYTHONPATH}}
        export PYTHONPATH
        exec {python} -m tuner.testing.engine {name} "$@"
        ;;
    esac
fi
exec {python} "$@"
"""


def install(folder: str | Path) -> Path:
    """Write the stand-ins into `folder` (made if it is missing), to be used as a bin folder; that folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    root = Path(__file__).resolve().parents[2]
    for name, text in {"vllm": _ENGINE, "trtllm-serve": _ENGINE, "sglang": _ENGINE, "python3": _PYTHON}.items():
        program = folder / name
        program.write_text(
            text.format(name=name, root=shlex.quote(str(root)), python=shlex.quote(sys.executable)), encoding="utf-8"
        )
        program.chmod(0o755)
    return folder

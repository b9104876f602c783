"""What a model that lies on this machine says of itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def model_config(model: str) -> Mapping[str, Any] | None:
    """The `config.json` of a model that is a folder here; None where it is not, or is no JSON object: an engine may
    fetch it, or say what is wrong with it, itself."""
    try:
        found = json.loads((Path(model) / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None

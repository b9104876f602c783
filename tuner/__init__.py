"""tuner: finds the launch command that serves a language model fastest on your node of GPUs.

The search is usable by itself, with an objective function of your own:

    from tuner import StagedSampler, load_space, suggest

Importing the package loads neither Optuna nor numpy; the names below are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.search.decide import decide as decide
    from tuner.search.sampler import StagedSampler as StagedSampler
    from tuner.search.sampler import suggest as suggest
    from tuner.spec import load as load_study
    from tuner.spec import load_space as load_space

__version__ = "0.1.0"

_HOMES = {
    "StagedSampler": ("tuner.search.sampler", "StagedSampler"),
    "suggest": ("tuner.search.sampler", "suggest"),
    "decide": ("tuner.search.decide", "decide"),
    "load_space": ("tuner.spec", "load_space"),
    "load_study": ("tuner.spec", "load"),
}
__all__ = ["StagedSampler", "__version__", "decide", "load_space", "load_study", "suggest"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)

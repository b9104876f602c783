"""Where the shipped search spaces are: inside the installed package, or beside it in a source checkout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder() -> Path | None:
    """The folder of the shipped search spaces; None where they were left out of the installation."""
    places = (_PACKAGE / "search_spaces", _PACKAGE.parent / "search_spaces")
    return next((place for place in places if place.is_dir()), None)


def shipped() -> Mapping[str, Path]:
    """The file of every shipped search space by its name, sorted."""
    found = folder()
    return {path.stem: path for path in sorted(found.glob("*.yaml"))} if found else {}


def about(space: Path) -> str:
    """What a search space is for: the first line of its first comment."""
    first = space.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""

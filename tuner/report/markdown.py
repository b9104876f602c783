"""The report as Markdown (`report.md`). Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from tuner.history import History
from tuner.report import formats
from tuner.report.blocks import Block, Item, Listing, Table, about, blocks, heading, verdict
from tuner.report.summary import summarise


def markdown(history: History, command: str = "") -> str:
    """The whole report; `command` as for `tuner.report.text.terminal`."""
    summary = summarise(history)
    shown = formats.plain(command or summary.headline.command)
    parts = [f"# {_text(summary.study)}", _text(about(summary)), f"## {_text(heading(summary))}"]
    parts += [_fenced(shown)] if shown else []
    parts += [f"**{_text(verdict(summary))}**"]
    parts += ["\n".join(_block(block)) for block in blocks(summary)]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> Iterator[str]:
    yield f"## {_text(block.title)}"
    yield ""
    if isinstance(block, Listing):
        for item in block.items:
            yield _item(item)
    else:
        yield from _table(block)


def _item(item: Item) -> str:
    mark = {"warning": "**Warning:** ", "note": "Note: ", "": ""}[item.tone]
    detail = f"<br><sub>{_text(item.detail)}</sub>" if item.detail else ""
    said = f"- {mark}{_text(item.text)}{detail}"
    return f"{said}\n\n{_verbatim(item.lines)}\n" if item.lines else said


def _table(table: Table) -> Iterator[str]:
    yield _row(table.columns)
    yield _row(tuple("---:" if side == "r" else "---" for side in table.align), escape=False)
    for index, row in enumerate(table.rows):
        yield _row(tuple(f"**{_text(cell)}**" if cell and index in table.marks else _text(cell) for cell in row), False)


def _row(cells: tuple[str, ...], escape: bool = True) -> str:
    return "| " + " | ".join(_text(cell) if escape else cell for cell in cells) + " |"


def _text(text: str) -> str:
    """One line that Markdown shows as it is: no HTML, no table, link or emphasis of its own."""
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", html.escape(formats.line(text), quote=False))


def _verbatim(lines: tuple[str, ...]) -> str:
    """Foreign lines as they are: nothing in them is markup."""
    return f"<pre>{html.escape(chr(10).join(lines), quote=False)}</pre>"


def _fenced(code: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{code}\n{fence}"

"""The summary for a terminal: plain text in about one and a half screens. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tuner.history import History
from tuner.report import formats
from tuner.report.blocks import Block, Item, Listing, Table, about, blocks, heading, verdict
from tuner.report.summary import Summary, summarise

WIDTH = 110
# Rows of a table that a terminal shows; the report has them all.
_MOST_ROWS = 16
_WIDEST = 60
_MARKS = {"warning": "! ", "note": "- ", "": "  "}


def terminal(history: History, command: str = "") -> str:
    """The summary of a study as text with a final newline.

    `command`: the launch command to recommend (an exporter's); without it the measured one is shown.
    """
    summary = summarise(history)
    parts = ["\n".join(_headline(summary, command))]
    parts += ["\n".join(_block(block)) for block in blocks(summary)]
    return "\n\n".join(parts) + "\n"


def _headline(summary: Summary, command: str) -> Iterator[str]:
    yield about(summary)
    yield ""
    yield heading(summary)
    shown = formats.line(command or summary.headline.command)
    if shown:
        yield from _wrapped_command(shown)
    yield from _wrapped(verdict(summary), "  ", "  ")


def _wrapped_command(command: str) -> Iterator[str]:
    lines = textwrap.wrap(command, WIDTH - 6, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")
    yield from (f"    {line} \\" for line in lines[:-1])
    yield f"    {lines[-1]}"


def _block(block: Block) -> Iterator[str]:
    yield block.title
    if isinstance(block, Listing):
        for item in block.items:
            yield from _item(item)
    else:
        yield from _table(_shortened(block))
        if len(block.rows) > _MOST_ROWS:
            yield f"  ... {len(block.rows) - _MOST_ROWS} more rows in the report"


def _item(item: Item) -> Iterator[str]:
    mark = _MARKS[item.tone]
    yield from _wrapped(formats.line(item.text), f"  {mark}", "    ")
    if item.detail:
        yield from _wrapped(f"[{formats.line(item.detail)}]", "    ", "    ")


def _wrapped(text: str, first: str, later: str) -> Sequence[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


def _shortened(table: Table) -> Table:
    """The last rows, and the marked one if it is older."""
    hidden = len(table.rows) - _MOST_ROWS
    if hidden <= 0:
        return table
    if table.mark is None or table.mark >= hidden:
        return replace(table, rows=table.rows[hidden:])
    return replace(table, rows=(table.rows[table.mark], *table.rows[hidden + 1 :]))


def _table(table: Table) -> Iterator[str]:
    cells = [tuple(_cut(cell) for cell in row) for row in (table.columns, *table.rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(table.columns))]
    for row in cells:
        shown = (
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(row, widths, table.align, strict=True)
        )
        yield ("  " + "  ".join(shown)).rstrip()


def _cut(cell: str) -> str:
    return cell if len(cell) <= _WIDEST else cell[: _WIDEST - 3] + "..."

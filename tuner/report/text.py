"""The summary for a terminal: plain text in about one and a half screens. Pure."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tuner.history import History
from tuner.report import formats
from tuner.report.blocks import Block, Item, Table, about, blocks, heading, verdict
from tuner.report.summary import Summary, summarise

WIDTH = 110
# Prose is not made wider than this, however wide the terminal is; below the least nothing is wrapped any further.
_WIDEST_PROSE, _LEAST_WIDTH = 120, 40
# Rows of a table, and failures, that a terminal shows; the report has them all.
_MOST_ROWS, _MOST_FAILURES = 16, 8
_WIDEST, _LEAST_COLUMN = 60, 12
_MARKS = {"warning": "! ", "note": "- ", "": "  "}


def terminal(history: History, command: str = "", width: int = WIDTH) -> str:
    """The summary of a study as text with a final newline, no line of it longer than `width` (a word of a command
    may be: it is not broken).

    `command`: the launch command to recommend (an exporter's); without it the measured one is shown.
    """
    summary, width = summarise(history), max(width, _LEAST_WIDTH)
    parts = ["\n".join(_headline(summary, command, width))]
    parts += ["\n".join(_block(block, width)) for block in blocks(summary)]
    return "\n\n".join(parts) + "\n"


def _headline(summary: Summary, command: str, width: int) -> Iterator[str]:
    yield from _wrapped(about(summary), "", "  ", width)
    yield ""
    yield from _wrapped(heading(summary), "", "  ", width)
    shown = formats.line(command or summary.headline.command)
    if shown:
        yield from _wrapped_command(shown, width)
    yield from _wrapped(verdict(summary), "  ", "  ", width)


def _wrapped_command(command: str, width: int) -> Iterator[str]:
    lines = textwrap.wrap(command, width - 6, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")
    yield from (f"    {line} \\" for line in lines[:-1])
    yield f"    {lines[-1]}"


def _block(block: Block, width: int) -> Iterator[str]:
    yield from _wrapped(block.title, "", "  ", width)
    if isinstance(block, Table):
        yield from _table(_shortened(block), width)
        return
    items = block.items[:_MOST_FAILURES] if block.key == "failures" else block.items
    for item in items:
        yield from _item(item, width)
    if len(items) < len(block.items):
        yield f"  ... {len(block.items) - len(items)} more in the report"


def _item(item: Item, width: int) -> Iterator[str]:
    mark = _MARKS[item.tone]
    yield from _wrapped(formats.line(item.text), f"  {mark}", "    ", width)
    if item.detail:
        yield from _wrapped(f"[{formats.line(item.detail)}]", "    ", "    ", width)
    if item.short:
        yield "    | " + formats.cut(formats.line(item.short), width - 6)


def _wrapped(text: str, first: str, later: str, width: int) -> Sequence[str]:
    wide = min(width, _WIDEST_PROSE)
    return textwrap.wrap(text, wide, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


def _shortened(table: Table) -> Table:
    """The first and the last rows, and between them those to keep; a row says how many are left out there."""
    if len(table.rows) <= _MOST_ROWS + 1:
        return table
    shown = set(table.kept)
    for index in (*range(4), *reversed(range(len(table.rows)))):
        if len(shown) < _MOST_ROWS:
            shown.add(index)
    rows: list[tuple[str, ...]] = []
    last = -1
    for index in sorted(shown):
        if index > last + 1:
            gap = f"({index - last - 1} more rows in the report)"
            rows.append(
                tuple(gap if at == table.align.rindex("l") else "..." * (at == 0) for at in range(len(table.columns)))
            )
        rows.append(table.rows[index])
        last = index
    return replace(table, rows=tuple(rows))


def _table(table: Table, width: int) -> Iterator[str]:
    rows = [tuple(cut(cell) for cut, cell in zip(map(_cutter, table.align), row, strict=True)) for row in table.rows]
    widths = _widths(table, rows, width - 2)
    for row in (table.columns, *rows):
        cells = [_lines(cell, wide) for cell, wide in zip(row, widths, strict=True)]
        for line in itertools.zip_longest(*cells, fillvalue=""):
            shown = (
                cell.rjust(wide) if side == "r" else cell.ljust(wide)
                for cell, wide, side in zip(line, widths, table.align, strict=True)
            )
            yield ("  " + "  ".join(shown)).rstrip().replace("\xa0", " ")


def _lines(cell: str, width: int) -> list[str]:
    """Broken at spaces; at hyphens too only where a word is wider than the column."""
    too_wide = max(map(len, cell.split(" "))) > width
    return textwrap.wrap(cell, width, break_on_hyphens=too_wide)


def _cutter(side: str) -> Callable[[str], str]:
    """Figures stay whole; words are cut, and wrapped where the column gets narrower than they are."""
    if side == "r":
        return lambda cell: cell.replace(" ", "\xa0") if any(map(str.isdigit, cell)) else cell
    return lambda cell: formats.cut(cell, 2 * _WIDEST).replace(" %", "\xa0%")


def _widths(table: Table, rows: Sequence[tuple[str, ...]], width: int) -> list[int]:
    """The columns' widths: what they need; where that is too wide first the titles wrap, then the widest cells."""
    columns = list(zip(table.columns, *rows, strict=True))
    widths = [min(_WIDEST, max(map(len, column))) for column in columns]
    room = width - 2 * (len(widths) - 1)
    if sum(widths) > room:
        titles = (max(map(len, title.split())) for title in table.columns)
        cells = [max(map(len, column[1:]), default=0) for column in columns]
        widths = [min(_WIDEST, max(pair)) for pair in zip(titles, cells, strict=True)]
    words = [max(max(map(len, cell.split(" "))) for cell in column) for column in columns]
    broken = [word if side == "r" else min(word, _LEAST_COLUMN) for word, side in zip(words, table.align, strict=True)]
    return _narrowed(_narrowed(widths, words, room), broken, room)


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """The widest columns made narrower until all fit, none below its least."""
    made = list(widths)
    while sum(made) > room and (wider := [index for index in range(len(made)) if made[index] > least[index]]):
        made[max(wider, key=lambda index: made[index])] -= 1
    return made

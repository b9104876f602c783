"""The report as one HTML file (`report.html`): nothing is loaded from anywhere, every foreign text is escaped. Pure."""

from __future__ import annotations

import html as markup
import re
from collections.abc import Iterator, Sequence

from tuner.history import History
from tuner.report import formats
from tuner.report.blocks import Block, Item, Listing, Table, about, blocks, heading, verdict
from tuner.report.chart import legend, staircase
from tuner.report.summary import Summary, summarise

_STYLE = """
:root { color-scheme: light dark; --page: #fcfcfb; --ink: #1b1b1a; --soft: #5f5e5b; --line: #dcdad5; --panel: #f3f2ee;
  --accent: #1f6fb2; --warn: #a34700; --warn-panel: #fdf1e4; --good: #1c7c4a; }
@media (prefers-color-scheme: dark) { :root { --page: #17181a; --ink: #e8e6e1; --soft: #a5a29b; --line: #3a3b3e;
  --panel: #212326; --accent: #6db3ee; --warn: #f0a35e; --warn-panel: #2e2418; --good: #64c690; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.25rem 0 .6rem; }
.about, .detail { color: var(--soft); } .detail { display: block; font-size: .85rem; }
.verdict { font-size: 1.1rem; margin: .75rem 0; }
.origin { display: inline-block; padding: .1rem .6rem; border: 1px solid var(--warn); border-radius: 1rem;
  color: var(--warn); font-weight: 600; }
.command { position: relative; background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; }
.command pre { margin: 0; padding: .9rem 6rem .9rem 1rem; overflow-x: auto; white-space: pre-wrap;
  overflow-wrap: normal; word-break: normal; font: .9rem/1.5 ui-monospace, monospace; }
.log { margin: .5rem 0 .2rem; padding: .5rem .7rem; background: var(--panel); border-radius: .3rem; overflow-x: auto;
  white-space: pre; font: .8rem/1.45 ui-monospace, monospace; }
.command button { position: absolute; top: .6rem; right: .6rem; font: inherit; font-size: .85rem; padding: .2rem .7rem;
  color: inherit; background: var(--page); border: 1px solid var(--line); border-radius: .4rem; cursor: pointer; }
ul { list-style: none; margin: 0; padding: 0; }
li { margin: .4rem 0; padding: .45rem .8rem; border-left: 3px solid var(--line); overflow-wrap: break-word; }
li.warning { border-color: var(--warn); background: var(--warn-panel); }
li b { color: var(--warn); } li.note b { color: var(--soft); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th { color: var(--soft); font-weight: 600; text-align: left; vertical-align: bottom; }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); overflow-wrap: normal; }
td { vertical-align: top; } .s, .word { white-space: nowrap; } .m { min-width: 11rem; } .w { min-width: 16rem; }
th { min-width: 3.5rem; }
.r { text-align: right; font-variant-numeric: tabular-nums; } td.r { white-space: nowrap; }
tr.mark td { font-weight: 650; }
svg { display: block; width: 100%; max-width: 52rem; height: auto; }
.grid { stroke: var(--line); } .tick { fill: var(--soft); font-size: 14px; }
.label { fill: var(--good); font-size: 14px; } .path { fill: none; stroke: var(--good); stroke-width: 2; }
.end { fill: var(--good); }
.dot { fill: var(--accent); stroke: var(--page); stroke-width: 2; } .dot.best { fill: var(--good); }
.cross { fill: none; stroke: var(--warn); stroke-width: 2; }
.legend { display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; margin: .2rem 0 1rem; font-size: .85rem;
  color: var(--soft); } .legend span { display: inline-flex; align-items: center; gap: .4rem; }
.legend svg { flex: none; width: 16px; height: 16px; }
@media (max-width: 40rem) { body { padding: 1.25rem .9rem 3rem; } .tick, .label { font-size: 25px; }
  .dot, .cross { transform-box: fill-box; transform-origin: center; transform: scale(1.5); }
  .legend .dot, .legend .cross { transform: none; }
  .command pre { padding: 3rem .8rem .8rem; } table { font-size: .88rem; } }
"""
_SCRIPT = """
document.querySelectorAll("button[data-copy]").forEach(function (button) {
  button.addEventListener("click", function () {
    var text = document.getElementById(button.dataset.copy);
    var done = function () { button.textContent = "Copied"; };
    var select = function () { getSelection().selectAllChildren(text); document.execCommand("copy"); done(); };
    if (navigator.clipboard) { navigator.clipboard.writeText(text.textContent).then(done, select); } else { select(); }
  });
});
"""
# Characters up to which a column of words stays on one line, and from which on it gets more room.
_SHORT, _LONG = 16, 36
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def html(history: History, command: str = "") -> str:
    """The whole report; `command` as for `tuner.report.text.terminal`."""
    summary = summarise(history)
    return "\n".join(_page(summary, formats.plain(command or summary.headline.command))) + "\n"


def _page(summary: Summary, command: str) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{_text(summary.study)}{' (simulated)' if summary.simulated else ''}</title>"
    yield f"<style>{_STYLE}</style></head><body>"
    yield f'<h1>{_text(summary.study)}</h1><p class="about">{_text(about(summary))}</p>'
    if summary.simulated:
        yield '<p class="origin">simulated: no figure here comes from a GPU</p>'
    yield f"<h2>{_text(heading(summary))}</h2>"
    if command:
        yield f'<div class="command"><pre id="command">{_unbroken(command)}</pre>'
        yield '<button type="button" data-copy="command">Copy</button></div>'
    yield f'<p class="verdict">{_text(verdict(summary))}</p>'
    for block in blocks(summary):
        yield from _block(block, summary)
    yield f"<script>{_SCRIPT}</script></body></html>"


def _block(block: Block, summary: Summary) -> Iterator[str]:
    picture = staircase(summary) if block.key == "trials" else ""
    yield f'<section id="{block.key}"><h2>{_text(block.title)}</h2>'
    yield from ([picture, _legend(summary)] if picture else [])
    if isinstance(block, Listing):
        yield "<ul>"
        yield from (_item(item) for item in block.items)
        yield "</ul>"
    else:
        yield from _table(block)
    yield "</section>"


def _legend(summary: Summary) -> str:
    shapes = {
        "dot": '<circle class="dot" cx="8" cy="8" r="5"/>',
        "dot best": '<circle class="dot best" cx="8" cy="8" r="6"/>',
        "cross": '<path class="cross" d="M4 4 l8 8 m0 -8 l-8 8"/>',
        "path": '<path class="path" d="M0 12 H8 V4 H16"/>',
        "end": '<path class="end" d="M2 8 l12 -7 v14 z"/>',
    }
    parts = (
        f'<span><svg viewBox="0 0 16 16" aria-hidden="true">{shapes[shape]}</svg>{_text(words)}</span>'
        for shape, words in legend(summary)
    )
    return f'<div class="legend">{"".join(parts)}</div>'


def _item(item: Item) -> str:
    mark = {"warning": "<b>Warning</b> ", "note": "<b>Note</b> ", "": ""}[item.tone]
    detail = f'<span class="detail">{_text(item.detail)}</span>' if item.detail else ""
    log = f'<pre class="log">{markup.escape(chr(10).join(item.lines))}</pre>' if item.lines else ""
    return f'<li class="{item.tone or "plain"}">{mark}{_text(item.text)}{detail}{log}</li>'


def _table(table: Table) -> Iterator[str]:
    columns = zip(*(table.columns, *table.rows), strict=True)
    classes = tuple(_class(side, cells) for side, cells in zip(table.align, columns, strict=True))
    yield '<div class="wide"><table><thead>'
    yield _row(classes, table.columns, "th")
    yield "</thead><tbody>"
    for index, row in enumerate(table.rows):
        yield _row(classes, row, "td", index in table.marks)
    yield "</tbody></table></div>"


def _class(side: str, cells: Sequence[str]) -> str:
    """Figures and short words never wrap; longer ones do, at spaces only, and the table scrolls by itself."""
    if side == "r":
        return "r"
    longest = max(map(len, cells[1:]), default=0)
    return "s" if longest <= _SHORT else "m" if longest <= _LONG else "w"


def _row(classes: tuple[str, ...], cells: tuple[str, ...], tag: str, mark: bool = False) -> str:
    named = zip(cells, classes, strict=True)
    shown = "".join(f'<{tag} class="{name}">{_unbroken(formats.line(cell))}</{tag}>' for cell, name in named)
    return f"<tr{' class=' + chr(34) + 'mark' + chr(34) if mark else ''}>{shown}</tr>"


def _unbroken(text: str) -> str:
    """Text whose words stay whole: browsers would break a line after any hyphen in them."""
    words = re.split(r"(\s+)", text)
    return "".join(
        f'<span class="word">{markup.escape(w)}</span>' if "-" in w[:-1] else markup.escape(w) for w in words
    )


def _text(text: str) -> str:
    return markup.escape(formats.line(text))

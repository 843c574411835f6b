"""The little HTML that all sections of a page share. What it makes is well-formed XML too."""

from __future__ import annotations

import html
from collections.abc import Sequence

STYLE = """
.smex-plan { font: 14px/1.45 system-ui, sans-serif; color: #222; background: #fff; }
.smex-plan h1 { font-size: 21px; margin: 0 0 4px; }
.smex-plan h2 { font-size: 17px; margin: 26px 0 6px; }
.smex-plan h3 { font-size: 14px; margin: 12px 0 4px; }
.smex-plan p { margin: 4px 0 8px; max-width: 110ch; }
.smex-plan table { border-collapse: collapse; color: #222; }
.smex-plan td, .smex-plan th { padding: 3px 10px 3px 0; text-align: left; vertical-align: middle;
  border-bottom: 1px solid #eee; background: #fff; }
.smex-plan th { font-weight: 600; color: #555; border-bottom: 1px solid #bbb; }
.smex-plan td.n, .smex-plan th.n { text-align: right; font-variant-numeric: tabular-nums; }
.smex-plan code { font: 13px ui-monospace, monospace; background: none; color: inherit; }
.smex-plan small { color: #666; }
.smex-plan summary { cursor: pointer; margin: 8px 0; }
.smex-plan .worker { padding: 1px 7px; margin-right: 2px; }
.smex-plan .flow { display: flex; flex-wrap: wrap; gap: 10px; align-items: stretch; }
.smex-plan .block { border: 1px solid #ccc; border-radius: 4px; padding: 6px 10px; }
.smex-plan .block > b { display: block; margin-bottom: 4px; }
.smex-plan .layers { display: flex; gap: 14px; }
.smex-plan .layer { display: flex; flex-direction: column; gap: 4px; font-size: 11px; }
.smex-plan .cell { height: 84px; display: flex; align-items: flex-end; }
.smex-plan .acts { display: flex; gap: 8px; }
.smex-plan svg { vertical-align: middle; }
.smex-plan svg text { font: 11px system-ui, sans-serif; fill: #333; }
@media (max-width: 900px) { .smex-plan table { display: block; overflow-x: auto; } }
"""


def escape(text: object) -> str:
    """Text as it may stand between tags and in attributes."""
    return html.escape(str(text))


def code(text: str) -> str:
    """Returns a name of the program."""
    return f"<code>{escape(text)}</code>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Returns a table of cells that are markup; the columns `right` hold numbers."""

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="n">{cell}</{tag}>' if column in right else f"<{tag}>{cell}</{tag}>"
            for column, cell in enumerate(cells)
        )

    body = "\n".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table>\n<tr>{line('th', head)}</tr>\n{body}\n</table>"


def section(title: str, *parts: str) -> str:
    """Parts under a heading."""
    return f"<h2>{escape(title)}</h2>\n" + "\n".join(parts)


def fragment(*parts: str) -> str:
    """Sections with their style, to be shown inside of a notebook or a page."""
    return f'<div class="smex-plan"><style>{STYLE}</style>\n' + "\n".join(parts) + "\n</div>"


def page(title: str, *parts: str) -> str:
    """Sections as a page of its own."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        f"<title>{escape(title)}</title></head>\n"
        f'<body style="margin:24px">{fragment(*parts)}</body></html>\n'
    )

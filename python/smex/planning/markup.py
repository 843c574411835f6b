"""The little HTML that all sections of a page share. What it makes is well-formed XML too."""

from __future__ import annotations

import html
from collections.abc import Sequence

LIGHT = (
    "color-scheme: light; --ink: #222; --paper: #fff; --soft: #555; --faint: #eee; --rule: #bbb; "
    "--stroke: #333; --tick: #888; --forward: #d5e0ea; --forward-2: #e8eef4; --backward: #e8dccf; "
    "--backward-2: #f3ece6; --compute: #4c78a8; --communication: #f58518; --link: #0b5cad; "
    "--grid: #dde; --hatch: #0006; --live: #9ecae9; "
    "--parameters: #bab0ac; --gradients: #88c27a; --heat: 76, 120, 168;"
)
DARK = (
    "color-scheme: dark; --ink: #ddd; --paper: #16181c; --soft: #a8adb5; --faint: #2c3036; "
    "--rule: #555b64; --stroke: #d5d8dc; --tick: #9aa0a8; --forward: #2d3d4d; "
    "--forward-2: #232f3b; --backward: #4a3c2d; --backward-2: #382f25; --compute: #6a9bd0; "
    "--communication: #f0943c; --link: #7db8f5; --grid: #3a3f4b; --hatch: #0008; --live: #2f5675; "
    "--parameters: #6e6663; --gradients: #4a7a40; --heat: 106, 155, 208;"
)
_DARK_NOTEBOOKS = (
    '[data-jp-theme-light="false"]',  # Jupyter
    '[data-vscode-theme-kind="vscode-dark"]',
    '[data-vscode-theme-kind="vscode-high-contrast"]',
    'body[data-theme="dark"]',
)
_LIGHT_NOTEBOOKS = (
    '[data-jp-theme-light="true"]',
    '[data-vscode-theme-kind="vscode-light"]',
    'body[data-theme="light"]',  # Furo, in which documentation shows notebooks
)


def _inside(notebooks: Sequence[str]) -> str:
    return ", ".join(f"{notebook} .smex-plan" for notebook in notebooks)


_COLOURS = f"""
.smex-plan {{ {LIGHT} }}
@media (prefers-color-scheme: dark) {{ .smex-plan {{ {DARK} }} }}
{_inside(_LIGHT_NOTEBOOKS)} {{ {LIGHT} }}
{_inside(_DARK_NOTEBOOKS)} {{ {DARK} }}
"""
"""A notebook's own theme goes before what the system prefers."""

STYLE = (
    _COLOURS
    + """
body.smex-page { margin: 0; }
body.smex-page > .smex-plan { min-height: 100vh; box-sizing: border-box; padding: 20px 24px; }
.smex-plan { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
.smex-plan h1 { font-size: 21px; margin: 0 0 4px; overflow-wrap: anywhere; }
.smex-plan h2 { font-size: 17px; margin: 26px 0 6px; }
.smex-plan h3 { font-size: 14px; margin: 12px 0 4px; }
.smex-plan p { margin: 4px 0 8px; max-width: 110ch; overflow-wrap: anywhere; }
.smex-plan a { color: var(--link); }
.smex-plan table { border-collapse: collapse; color: var(--ink); }
.smex-plan td, .smex-plan th { padding: 3px 10px 3px 0; text-align: left; vertical-align: middle;
  border-bottom: 1px solid var(--faint); background: var(--paper); }
.smex-plan th { font-weight: 600; color: var(--soft); border-bottom: 1px solid var(--rule); }
.smex-plan td.n, .smex-plan th.n { text-align: right; font-variant-numeric: tabular-nums; }
.smex-plan tr:target td { box-shadow: inset 0 2px var(--link), inset 0 -2px var(--link); }
.smex-plan code { font: 13px ui-monospace, monospace; background: none; color: inherit; }
.smex-plan small { color: var(--soft); }
.smex-plan details details { margin-left: 14px; }
.smex-plan summary { cursor: pointer; margin: 8px 0; }
.smex-plan .worker { padding: 1px 7px; margin-right: 2px; color: #222; display: inline-block; }
.smex-plan .flow { display: flex; flex-wrap: wrap; gap: 10px; align-items: stretch; }
.smex-plan .block { border: 1px solid var(--rule); border-radius: 4px; padding: 6px 10px;
  max-width: 100%; box-sizing: border-box; }
.smex-plan .block > b { display: block; margin-bottom: 4px; overflow-wrap: anywhere; }
.smex-plan .layers { display: flex; gap: 14px; overflow-x: auto; }
.smex-plan .layer { display: flex; flex-direction: column; gap: 4px; font-size: 11px; }
.smex-plan .cell { height: 84px; display: flex; align-items: flex-end; }
.smex-plan .acts { display: flex; gap: 8px; }
.smex-plan svg { vertical-align: middle; }
.smex-plan svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
.smex-plan .scroll { overflow-x: auto; max-width: 100%; }
.smex-plan .tall { overflow-y: auto; max-height: 640px; }
.smex-plan .tall th { position: sticky; top: 0; z-index: 1; }
.smex-plan .matrix td, .smex-plan .matrix th { padding: 4px 10px; }
.smex-plan td.n, .smex-plan th.n { white-space: nowrap; }
.smex-plan .scroll > svg { width: 100%; min-width: 900px; max-width: 1130px; height: auto; }
.smex-plan .narrow > svg { min-width: 640px; max-width: 730px; }
.smex-plan .zoom:focus-visible { outline: 2px solid var(--link); }
.smex-plan .unbroken { white-space: nowrap; }
.smex-plan nav { margin: 12px 0; }
.smex-plan .sorted { font-size: 13px; }
.smex-plan .sorted code { font-size: 12px; white-space: nowrap; }
@media (min-width: 700px) { .smex-plan .sorted td:first-child { position: sticky; left: 0; } }
.smex-plan .sorted th.n { white-space: normal; }
.smex-plan .sides { display: grid; gap: 8px 24px;
  grid-template-columns: repeat(auto-fit, minmax(min(480px, 100%), 1fr)); }
.smex-plan .sides > div { min-width: 0; }
.smex-plan .tip { position: fixed; z-index: 9; max-width: 60ch; padding: 4px 8px; font-size: 12px;
  color: var(--ink); background: var(--paper); border: 1px solid var(--rule); border-radius: 4px;
  pointer-events: none; overflow-wrap: anywhere; }
.smex-plan .sorted th { cursor: pointer; }
.smex-plan .sorted th[aria-sort="ascending"]::after { content: " ↑"; }
.smex-plan .sorted th[aria-sort="descending"]::after { content: " ↓"; }
.smex-plan input, .smex-plan button { font: inherit; color: inherit; background: var(--paper);
  border: 1px solid var(--rule); border-radius: 4px; padding: 2px 8px; margin: 0 4px 6px 0; }
@media (max-width: 900px) { body.smex-page > .smex-plan { padding: 12px; } }
"""
)


def escape(text: object) -> str:
    """Text as it may stand between tags and in attributes."""
    return html.escape(str(text))


def module(name: str) -> str:
    """Returns a module's name; what stands in none of them is the model's own."""
    return code(name) if name else "<small>(model)</small>"


def code(text: str) -> str:
    """Returns a name of the program."""
    return f"<code>{escape(text)}</code>"


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    ids: Sequence[str] = (),
) -> str:
    """Returns a table of cells that are markup; the columns `right` hold numbers.

    Rows that have ids can be referred to. They are searched and sorted where scripts run.
    """

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="n">{cell}</{tag}>' if column in right else f"<{tag}>{cell}</{tag}>"
            for column, cell in enumerate(cells)
        )

    marks = [f' id="{each}"' for each in ids] or [""] * len(rows)
    body = "\n".join(
        f"<tr{mark}>{line('td', row)}</tr>" for mark, row in zip(marks, rows, strict=True)
    )
    kinds = ("scroll tall", "sorted") if ids else ("scroll", "plain")
    return (
        f'<div class="{kinds[0]}"><table class="{kinds[1]}">\n<tr>{line("th", head)}</tr>\n'
        f"{body}\n</table></div>"
    )


def section(title: str, *parts: str) -> str:
    """Parts under a heading."""
    return f"<h2>{escape(title)}</h2>\n" + "\n".join(parts)


def fragment(*parts: str) -> str:
    """Sections with their style, to be shown inside of a notebook or a page."""
    return f'<div class="smex-plan"><style>{STYLE}</style>\n' + "\n".join(parts) + "\n</div>"


def scrolling(drawing: str) -> str:
    """Returns a wide drawing that is as wide as there is room for, or scrolls."""
    return f'<div class="scroll">{drawing}</div>'


def zooming(drawing: str, narrow: bool = False) -> str:
    """Returns a wide drawing that can be zoomed too, where scripts run."""
    return f'<div class="scroll zoom{" narrow" if narrow else ""}">{drawing}</div>'


def page(title: str, *parts: str) -> str:
    """Sections as a page of its own."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{escape(title)}</title></head>\n"
        f'<body class="smex-page">{fragment(*parts)}</body></html>\n'
    )

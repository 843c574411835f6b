"""Draws the pictures of README.md, of the documentation's first page and of its benchmarks.

    python tools/pictures.py speed
    python tools/pictures.py plan
    python tools/pictures.py graph     # needs networkx
    python tools/pictures.py tree
    python tools/pictures.py charts    # of docs/benchmarks.md

"speed" and "charts" take their numbers from the tables of benchmarks/README.md, beside which stand
the commands that measured them; a row that is gone is an error. Pictures are written to
docs/pictures/. Each is light or dark as the page that shows it, and on ground of its own, so that
it is read on any; what is 500 pixels wide has letters of 8 or more.
"""

from __future__ import annotations

import argparse
import html
import pathlib
import re
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
TABLES = ROOT / "benchmarks" / "README.md"
PICTURES = ROOT / "docs" / "pictures"


class Bar(NamedTuple):
    """How many times as long as SMEX a system takes, by a row of a table."""

    system: str
    section: str
    row: str
    """What the row begins with."""
    cell: int
    over: int | None = None
    """The cell with SMEX's time, where the other is a time and no ratio."""

    def ratio(self, tables: str) -> float:
        """Returns the number that the row tells."""
        text = tables.partition(f"\n## {self.section}\n")[2].partition("\n## ")[0]
        lines = [line for line in text.splitlines() if line.startswith(self.row)]
        if not lines:
            raise SystemExit(f"{TABLES}: '{self.section}' has no row '{self.row}'")
        cells = [cell.strip() for cell in lines[0].strip("|").split("|")]
        found = _number(cells[self.cell])
        return found if self.over is None else found / _number(cells[self.over])


def _number(cell: str) -> float:
    found = re.search(r"\d+(\.\d+)?(e[+-]?\d+)?", cell)
    if not found:
        raise SystemExit(f"{TABLES}: '{cell}' has no number")
    return float(found.group())


_TRAINING, _STEPS = "GNN training", "Processes"
_GPT = "| GPT, 4 layers of 1024, 64 tokens, batch 4 | 1gbit |"
_MLP = "| MLP, 8 layers of 2048, batch 512 | 1gbit |"
PANELS: dict[str, dict[str, list[Bar]]] = {
    "a model on two processes, 1 Gbit/s": {
        "GPT, 4 layers of 1024": [
            Bar("FSDP2", _STEPS, _GPT, 3, 6),
            Bar("DDP", _STEPS, _GPT, 2, 6),
            Bar("DTensor TP, by hand", _STEPS, _GPT, 4, 6),
        ],
        "MLP, 8 layers of 2048": [
            Bar("FSDP2", _STEPS, _MLP, 3, 6),
            Bar("DDP", _STEPS, _MLP, 2, 6),
            Bar("DTensor TP, by hand", _STEPS, _MLP, 4, 6),
        ],
    },
    "an epoch on a graph of 10⁶ edges": {
        "GAT, 8 heads": [
            Bar("DGL", _TRAINING, "| train_gat, 8 heads, F = 64 | power-law-1e6 |", 4),
            Bar("PyG", _TRAINING, "| train_gat, 8 heads, F = 64 | power-law-1e6 |", 6),
        ],
        "GCN": [
            Bar("DGL", _TRAINING, "| train_gcn, F = 16 | power-law-1e6 |", 4),
            Bar("PyG", _TRAINING, "| train_gcn, F = 16 | power-law-1e6 |", 6),
        ],
        "GraphSAGE": [
            Bar("DGL", _TRAINING, "| train_sage, F = 64 | power-law-1e6 |", 4),
            Bar("PyG", _TRAINING, "| train_sage, F = 64 | power-law-1e6 |", 6),
        ],
    },
    "sampling, 10⁷ edges": {
        "three layers of neighbours": [
            Bar("DGL", "Neighbour sampling", "| power-law-1e7 | 1 | dgl |", 6),
            Bar("PyG", "Neighbour sampling", "| power-law-1e7 | 1 | pyg", 6),
        ],
    },
    "networks that differ by sample": {
        "Tree-LSTM": [
            Bar("DGL", "Vertex functions", "| dgl |", 4),
            Bar("DyNet", "Vertex functions", "| dynet |", 4),
        ],
    },
}
COLUMNS = (
    ("a model on two processes, 1 Gbit/s", "sampling, 10⁷ edges"),
    ("an epoch on a graph of 10⁶ edges", "networks that differ by sample"),
)
"""Which panels stand below each other."""
COLOURS = {
    "FSDP2": "#54a24b", "DDP": "#88d27a", "DTensor TP, by hand": "#b279a2",
    "DGL": "#4c78a8", "PyG": "#f58518", "DyNet": "#9d755d",
}  # fmt: skip


def ratios() -> dict[tuple[str, str], float]:
    """By (what is measured, system) how many times as long as SMEX that takes."""
    tables = TABLES.read_text()
    return {
        (name, bar.system): bar.ratio(tables)
        for panel in PANELS.values()
        for name, bars in panel.items()
        for bar in bars
    }


def words(system: str, ratio: float) -> str:
    """What stands beside a bar."""
    return f"{ratio:.1f} ×  {system}"


_LIGHT = "--ink:#1f2328;--soft:#59636e;--rule:#c4cad1;--paper:#fff;--smex:#e45756"
_DARK = "--ink:#e4e6ea;--soft:#a0a7b0;--rule:#4a515a;--paper:#14161a;--smex:#ff7b79"
_LETTER, _BAR, _LINE = 12, 13, 16  # pixels: of text, of a bar, from bar to bar


class Drawing:
    """An SVG of bars and words that is light or dark as the page around it.

    Args:
        width: in pixels; the height is that of what is drawn.
        label: for who does not see it.
        style: of other things than words.
    """

    def __init__(self, width: float, label: str, style: str = ""):
        self.width, self.height = width, 0.0
        self._label, self._style = label, style
        self._parts: list[str] = []

    def text(self, x: float, y: float, words: str, more: str = "") -> None:
        """Writes words whose line is at y."""
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{more}>{html.escape(words)}</text>')
        self.height = max(self.height, y + 6)

    def bar(self, x: float, y: float, width: float, colour: str) -> None:
        """Draws a bar from its upper left corner to the right."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_BAR}" rx="2" '
            f'fill="{colour}"/>'
        )
        self.height = max(self.height, y + _LINE)

    def line(self, x: float, y0: float, y1: float, colour: str) -> None:
        """Draws a line downwards."""
        self._parts.append(f'<path d="M{x:.1f} {y0:.1f}V{y1:.1f}" stroke="{colour}"/>')

    def add(self, markup: str, height: float) -> None:
        """Adds other drawings down to a height."""
        self._parts.append(markup)
        self.height = max(self.height, height)

    def write(self, name: str) -> None:
        """Writes docs/pictures/NAME.svg."""
        size = f"{self.width:g} {self.height:g}"
        style = (
            f":root{{color-scheme:light dark;{_LIGHT}}}"
            f"@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
            f"text{{font:{_LETTER}px system-ui,-apple-system,'Segoe UI',sans-serif;"
            "fill:var(--ink)}"
            ".b{font-weight:600}.s{fill:var(--soft)}.e{text-anchor:end}.m{text-anchor:middle}"
        )
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" '
            f'width="{self.width:g}" height="{self.height:g}" role="img" '
            f'aria-label="{html.escape(self._label)}">',
            f"<style>{style}{self._style}</style>",
            '<rect width="100%" height="100%" rx="6" style="fill:var(--paper)"/>',
            *self._parts,
            "</svg>",
        ]
        (PICTURES / f"{name}.svg").write_text("\n".join(lines) + "\n")


def speed() -> None:
    """Draws docs/pictures/speed.svg: two columns of bars, with a line where SMEX is."""
    found = ratios()
    drawing = Drawing(720, "How many times as long as SMEX other systems take")
    wide = drawing.width / len(COLUMNS)
    room, top = 170, 24  # pixels: beside the longest bar, above the first
    most = max(found.values())
    scale = (wide - room - 24) / most
    for column, panels in enumerate(COLUMNS):
        left, y = 12 + column * wide, float(top)
        one = left + scale
        for title in panels:
            drawing.text(left, y, title, ' class="b"')
            y += 8
            begin = y
            for name, bars in PANELS[title].items():
                drawing.text(left + scale + 6, y + 12, name, ' class="s"')
                y += 18
                for bar in bars:
                    ratio = found[name, bar.system]
                    drawing.bar(left, y, ratio * scale, COLOURS[bar.system])
                    drawing.text(
                        left + max(ratio * scale, scale) + 6, y + 11, words(bar.system, ratio)
                    )
                    y += _LINE
                y += 4
            drawing.line(one, begin, y - 4, "var(--smex)")
            y += 20
        drawing.height = max(drawing.height, y - 8)
    drawing.text(
        12, drawing.height + 6, "times as long as SMEX takes, which is the red line", ' class="s"'
    )
    drawing.write("speed")


class Chart(NamedTuple):
    """Bars of a table's rows, beside the command that measured them."""

    name: str
    section: str
    command: str
    """What stands in the section, and beside the chart."""
    unit: str
    header: str
    """What the table's first row begins with."""
    label: tuple[int, ...]
    """The cells that tell what is measured."""
    columns: dict[str, int]
    """The cell with each system's number, or the only one with a number, by the name ""."""
    system: int | None = None
    """The cell with the system's name, where each system has rows of its own."""
    names: dict[str, str] | None = None
    """What systems of rows are called here; rows of others are left out."""
    only: tuple[int, str] | None = None
    """A cell and what rows have there, where not all rows are drawn."""
    after: str = ""
    """A line of the section after which the table comes, where tables have one header."""
    until: str = ""
    """What the first row begins with that is not drawn."""

    def rows(self, tables: str) -> dict[str, dict[str, float]]:
        """Returns by what is measured the number of each system."""
        text = tables.partition(f"\n## {self.section}\n")[2].partition("\n## ")[0]
        lines = text.partition(self.after)[2].splitlines() if self.after else text.splitlines()
        begin = next((n for n, line in enumerate(lines) if line.startswith(self.header)), None)
        if begin is None:
            raise SystemExit(f"{TABLES}: '{self.section}' has no table '{self.header}'")
        found: dict[str, dict[str, float]] = {}
        for line in lines[begin + 2 :]:
            if not line.startswith("|") or (self.until and line.startswith(self.until)):
                break
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if self.only is not None and cells[self.only[0]] != self.only[1]:
                continue
            bars = found.setdefault(", ".join(cells[n] for n in self.label), {})
            if self.system is None:
                shown = {name: cells[n] for name, n in self.columns.items()}
            else:
                name = (self.names or {}).get(cells[self.system])
                shown = {} if name is None else {name: cells[self.columns[""]]}
            bars |= {name: _number(cell) for name, cell in shown.items() if cell != "none"}
        if not any(found.values()):
            raise SystemExit(f"{TABLES}: the table '{self.header}' of '{self.section}' is empty")
        return found


_SYSTEMS = {"smex": "SMEX", "dgl": "DGL", "dynet": "DyNet", "torchfold": "torchfold"}
_VERTEX: dict[str, Any] = {
    "section": "Vertex functions", "unit": "ms a step", "header": "| system | ms a step |",
    "label": (), "columns": {"": 1}, "system": 0,
}  # fmt: skip
CHARTS = (
    Chart(
        "steps", "Processes", "python benchmarks/processes/steps.py", "seconds a step",
        "| model | link | DDP |", (0,),
        {"SMEX": 6, "DTensor TP, by hand": 4, "DDP": 2, "FSDP2": 3}, only=(1, "1gbit"),
    ),
    Chart(
        "epochs", "GNN training", "python benchmarks/graph/training.py --cpu-time --rounds 3",
        "processor ms an epoch", "| model | graph | ours, ms |", (0,),
        {"SMEX": 2, "DGL": 3, "PyG": 5}, only=(1, "power-law-1e6"),
    ),
    Chart(
        "sampling", "Neighbour sampling",
        "python benchmarks/graph/sampling.py --cpu-time --rounds 5 --graphs power-law-1e6 "
        "power-law-1e7", "processor ms for 8 batches", "| graph | threads |", (0,), {"": 3},
        system=2, names=_SYSTEMS, only=(1, "1"),
    ),
    Chart(
        "loaders", "Loaders", "python benchmarks/graph/loaders.py --graphs products",
        "processor ms a step", "| cores | system | steps/s | processor ms a step | peak MB", (),
        {"": 3}, system=1, only=(0, "1"),
        names={"smex": "SMEX", "smex on ranks": "SMEX, a graph in parts", "dgl": "DGL"},
    ),
    Chart(
        "trees", command="python benchmarks/vertex/training.py --model MODEL --rounds 7",
        names={**_SYSTEMS, "loop": "loop over vertices"}, after="`--model tree-lstm`", **_VERTEX,
    ),
    Chart(
        "sequences", command="python benchmarks/vertex/training.py --model MODEL --rounds 7",
        names={**_SYSTEMS, "loop": "loop over vertices"}, after="`--model var-lstm", **_VERTEX,
    ),
    Chart(
        "checkpoints", "Checkpoints",
        "python benchmarks/processes/checkpoint.py --repeats 9 --ranks 1", "seconds",
        "| what | smex | DCP |", (0,), {"SMEX": 1, "DCP": 2}, until="| save, 2 processes |",
    ),
)  # fmt: skip
CHART_COLOURS = COLOURS | {
    "SMEX": "#e45756", "SMEX, a graph in parts": "#f2a5a4", "torchfold": "#72b7b2",
    "loop over vertices": "#bab0ac", "DCP": "#54a24b",
}  # fmt: skip


def bar_words(system: str, value: float) -> str:
    """What stands beside a bar of a chart."""
    return f"{value:g}  {system}"


def charts() -> None:
    """Draws docs/pictures/chart_*.svg: what is measured above its bars, numbers beside them."""
    tables = TABLES.read_text()
    for chart in CHARTS:
        rows = chart.rows(tables)
        drawing = Drawing(560, f"{chart.unit}, less is better")
        told = [bar_words(*bar) for bars in rows.values() for bar in bars.items()]
        room = 24 + 0.58 * _LETTER * max(map(len, told))
        scale = (drawing.width - 12 - room) / max(max(bars.values()) for bars in rows.values())
        y = 22.0
        drawing.text(12, y, f"{chart.unit}, less is better", ' class="s"')
        for label, bars in rows.items():
            y += 8
            if label:
                y += 16
                drawing.text(12, y - 4, label, ' class="b"')
            for system, value in bars.items():
                drawing.bar(12, y, value * scale, CHART_COLOURS[system])
                mark = ' class="b"' if system.startswith("SMEX") else ""
                drawing.text(12 + value * scale + 6, y + 11, bar_words(system, value), mark)
                y += _LINE
        drawing.height = y + 8
        drawing.write(f"chart_{chart.name}")


def plan() -> None:
    """Draws docs/pictures/plan.svg: the timeline of a plan's page."""
    import torch
    from torch import nn

    import smex
    from smex.planning import markup
    from smex.planning.page.timeline import memory_kinds, timeline_drawing
    from smex.planning.prices import op_prices
    from smex.text import duration_words, size_words

    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True)
        model = nn.TransformerEncoder(layer, 6)
        x = torch.empty(32, 256, 1024)
    graph = smex.capture_graph(model, (x, x), loss_fn=nn.functional.mse_loss)
    found = smex.search(graph, 4, objective="time", machine=smex.Machine.h100_nvlink())
    drawn = timeline_drawing(found, op_prices(found), narrow=True)
    inner = re.search(r"<svg (.*?)>(.*)</svg>", drawn, re.DOTALL)
    assert inner is not None
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', inner[1])
    assert size is not None
    wide, high = map(float, size.groups())
    # Titles are not shown in pictures.
    lanes = re.sub(r"<title>.*?</title>", "", inner[2])
    style = (
        f":root{{{markup.LIGHT}}}@media (prefers-color-scheme:dark){{:root{{{markup.DARK}}}}}"
        ":root{--paper:light-dark(#fff,#14161a)}"
    )
    drawing = Drawing(wide, "The predicted course of a training step", style)
    drawing.text(12, 22, f"{found.graph.captured.name} on {found.workers} GPUs", ' class="b"')
    facts = (
        f"predicted: {duration_words(found.seconds)} a step, {size_words(found.total_bytes)} moved"
        f", peak {size_words(max(found.peak_bytes()))} a GPU"
    )
    drawing.text(wide - 12, 22, facts, ' class="s e"')
    drawing.add(f'<g transform="translate(0 34)">{lanes}</g>', high + 34)
    left, y = 110.0, high + 52
    drawing.text(12, y, "memory", ' class="s"')
    for kind, colour in memory_kinds().items():
        drawing.add(
            f'<rect x="{left:g}" y="{y - 10:g}" width="11" height="11" fill="{colour}"/>', y
        )
        drawing.text(left + 16, y, kind)
        left += 30 + 0.6 * _LETTER * len(kind)
    drawing.height = y + 12
    drawing.write("plan")


def write_svg(name: str, markup: str) -> None:
    """Writes the SVG of an object's HTML as a file of its own, in colours seen on any ground."""
    found = re.search(r"<svg.*?</svg>", markup, re.DOTALL)
    assert found is not None
    text = found.group().replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    (PICTURES / f"{name}.svg").write_text(text.replace("currentColor", "#7a7a7a") + "\n")


def graph() -> None:
    """Draws docs/pictures/graph.svg: Zachary's karate club, and to which half members went."""
    import networkx
    import torch

    import smex.graph as sg

    club = networkx.karate_club_graph()
    g = sg.from_networkx(club)
    g.ndata["label"] = torch.tensor([int(club.nodes[v]["club"] == "Officer") for v in club])
    write_svg("graph", g._repr_html_())


def tree() -> None:
    """Draws docs/pictures/tree.svg, a parse."""
    import smex.vertex as sv

    parse = ((("the", "film"), ("is", (("not", "bad"), "at all"))), ".")
    write_svg(
        "tree", sv.tree(parse, lambda label, _: "phrase" if label is None else "word")._repr_html_()
    )


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    pictures = {"speed": speed, "plan": plan, "graph": graph, "tree": tree, "charts": charts}
    parser.add_argument("picture", choices=tuple(pictures))
    draw = pictures[parser.parse_args().picture]
    PICTURES.mkdir(exist_ok=True)
    draw()


if __name__ == "__main__":
    main()

"""Draws the pictures of README.md, of the documentation's first page and of its benchmarks.

    pip install matplotlib
    python tools/pictures.py speed
    python tools/pictures.py plan      # needs Chromium, which photographs the plan's page
    python tools/pictures.py graph     # needs networkx
    python tools/pictures.py tree
    python tools/pictures.py charts    # of docs/benchmarks.md

"speed" and "charts" take their numbers from the tables of benchmarks/README.md, beside which stand
the commands that measured them; a row that is gone is an error. Pictures are written to
docs/pictures/.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
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
    "sampling and trees": {
        "neighbours, 10⁷ edges": [
            Bar("DGL", "Neighbour sampling", "| power-law-1e7 | 1 | dgl |", 6),
            Bar("PyG", "Neighbour sampling", "| power-law-1e7 | 1 | pyg", 6),
        ],
        "Tree-LSTM": [
            Bar("DGL", "Vertex functions", "| dgl |", 4),
            Bar("DyNet", "Vertex functions", "| dynet |", 4),
        ],
    },
}
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


def speed() -> None:
    """Draws docs/pictures/speed.svg."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams.update(
        {
            "svg.hashsalt": "smex",
            "svg.fonttype": "none",
            "font.size": 9,
            "font.family": "sans-serif",
        }
    )
    found = ratios()
    figure, axes = pyplot.subplots(1, len(PANELS), figsize=(10.4, 2.9), width_ratios=(1.1, 1, 1))
    for ax, (title, panel) in zip(axes, PANELS.items(), strict=True):
        place, ticks = 0.0, []
        for name, bars in panel.items():
            ticks.append((place + (len(bars) - 1) / 2, name))
            for bar in bars:
                ratio = found[name, bar.system]
                ax.barh(place, ratio, color=COLOURS[bar.system], height=0.8)
                text = words(bar.system, ratio)
                ax.text(ratio + 0.08, place, text, va="center", fontsize=8)
                place += 1
            place += 0.8
        ax.axvline(1, color="#222", linewidth=1.2)
        ax.text(1, -0.85, "SMEX", ha="center", va="bottom", fontsize=8, weight="bold")
        ax.set_yticks([at for at, _ in ticks], [name for _, name in ticks])
        ax.set_xlim(0, 1.75 * max(found[name, bar.system] for name in panel for bar in panel[name]))
        ax.set_ylim(place - 0.9, -1)
        ax.set_title(title, fontsize=10, pad=14)
        ax.set_xlabel("times as long as SMEX")
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
    figure.tight_layout()
    figure.savefig(PICTURES / "speed.svg", metadata={"Date": None}, facecolor="white")


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
_INK = "#7a7a7a"
"""Seen on white and on black."""


def bar_words(system: str, value: float) -> str:
    """What stands beside a bar of a chart."""
    return f"{value:g}  {system}"


def charts() -> None:
    """Draws docs/pictures/chart_*.svg."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    tables = TABLES.read_text()
    settings: Any = {"svg.hashsalt": "smex", "svg.fonttype": "none", "font.size": 9}
    settings |= dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), _INK)
    settings |= dict.fromkeys(("xtick.color", "ytick.color"), _INK)
    with pyplot.rc_context(settings):
        for chart in CHARTS:
            rows = chart.rows(tables)
            place, ticks = 0.0, []
            count = sum(map(len, rows.values())) + 0.7 * len(rows)
            figure, ax = pyplot.subplots(figsize=(7.2, 0.7 + 0.22 * count))
            for label, bars in rows.items():
                ticks.append((place + (len(bars) - 1) / 2, label.replace(", ", "\n", 1)))
                for system, value in bars.items():
                    ax.barh(place, value, color=CHART_COLOURS[system], height=0.85)
                    ax.annotate(
                        bar_words(system, value), (value, place), (4, 0),
                        textcoords="offset points", va="center", fontsize=8,
                    )  # fmt: skip
                    place += 1
                place += 0.7
            ax.set_yticks([at for at, _ in ticks], [label for _, label in ticks])
            ax.set_ylim(place - 0.9, -0.7)
            ax.set_xlim(0, 1.35 * max(max(bars.values()) for bars in rows.values()))
            ax.set_xlabel(f"{chart.unit}, less is better")
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(axis="y", length=0)
            figure.savefig(
                PICTURES / f"chart_{chart.name}.svg", metadata={"Date": None}, transparent=True,
                bbox_inches="tight",
            )  # fmt: skip
            pyplot.close(figure)


def plan() -> None:
    """Photographs a plan's page to docs/pictures/plan.png."""
    known = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    browser = next(filter(None, known), None)
    if browser is None:
        raise SystemExit("plan: expected Chromium on the path")
    import torch
    from torch import nn

    import smex

    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True)
        model = nn.TransformerEncoder(layer, 6)
        x = torch.empty(32, 256, 1024)
    graph = smex.capture_graph(model, (x, x), loss_fn=nn.functional.mse_loss)
    found = smex.search(graph, 4, objective="time", machine=smex.Machine.h100_nvlink())
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "plan.html"
        found.show(page)
        subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--window-size=1000,600", f"--screenshot={PICTURES / 'plan.png'}", page.as_uri(),
            ],
            check=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip


def write_svg(name: str, markup: str) -> None:
    """Writes the SVG of an object's HTML as a file of its own."""
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
    sys.exit(main())

"""Epochs of an R-GCN and an HGT where the types of edges stay, and where they change.

    python benchmarks/graph/edge_types.py [--papers 4000 30000] [--epochs 15]

Layers of edge types sort a graph's edges by type once and keep the order until they get other
types. Both runs have the heterograph of `examples/graph/train_hetero.py` and two layers of 32
features; in one both layers get the same types, in the other the second one gets them with other
numbers, so that each call sorts. An epoch is forward, cross entropy, backward and a step of Adam;
the runs take turns, and times are those of the processor, on one thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import smex.graph as sg

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "graph"))
import train_hetero

SIZE, HEADS = 32, 4


def layer(kind: str, num_ntypes: int, num_etypes: int) -> nn.Module:
    if kind == "HGT":
        return sg.nn.HGTConv(SIZE, SIZE // HEADS, HEADS, num_ntypes, num_etypes)
    return sg.nn.RelGraphConv(SIZE, SIZE, num_etypes)


def epoch(kind: str, g: sg.Graph, layers: nn.ModuleList, types: list[Tensor], optimizer) -> float:
    """Seconds of the processor."""
    begin = time.process_time()
    h = g.ndata["x"]
    for one, of_edges in zip(layers, types):
        ntypes = (g.ndata[sg.NTYPE],) if kind == "HGT" else ()
        h = F.relu(one(g, h, *ntypes, of_edges))
    loss = F.cross_entropy(h, g.ndata[sg.NTYPE])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return time.process_time() - begin


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--papers", type=int, nargs="*", default=[4000, 30000])
    parser.add_argument("--epochs", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| model | edges | types stay, ms | types change, ms | ratio |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for papers in options.papers:
        hetero = train_hetero.papers(papers)
        # Each run has a graph of its own, since the order is kept with the graph.
        graphs = {run: sg.to_homogeneous(hetero) for run in ("stay", "change")}
        x = torch.randn(graphs["stay"].num_nodes(), SIZE)
        for g in graphs.values():
            g.ndata["x"] = x
        types = {run: [g.edata[sg.ETYPE]] * 2 for run, g in graphs.items()}
        types["change"][1] = len(hetero.etypes) - 1 - types["change"][0]
        for kind in ("R-GCN", "HGT"):
            layers = nn.ModuleList(
                layer(kind, len(hetero.ntypes), len(hetero.etypes)) for _ in range(2)
            )
            optimizer = torch.optim.Adam(layers.parameters(), lr=0.01)
            seconds: dict[str, list[float]] = {run: [] for run in graphs}
            for number in range(options.epochs + 1):
                for run, g in graphs.items():
                    taken = epoch(kind, g, layers, types[run], optimizer)
                    if number:
                        seconds[run].append(taken)
            ratio = statistics.median(b / a for a, b in zip(seconds["stay"], seconds["change"]))
            middle = [f"{statistics.median(s) * 1e3:.3g}" for s in seconds.values()]
            print(f"| {kind} | {hetero.num_edges()} | {' | '.join(middle)} | **{ratio:.2f}** |")


if __name__ == "__main__":
    main()

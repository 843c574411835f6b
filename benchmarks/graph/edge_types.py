"""Epochs of an R-GCN and an HGT where the types of edges stay, and where they change.

    python benchmarks/graph/edge_types.py [--papers 4000 30000] [--epochs 15]

Layers of edge types sort a graph's edges by type once and keep the order until they get other
types. Both runs have the heterograph of `examples/graph/train_hetero.py` and two layers of 32
features; in one both layers get the same types, in the other the second one gets them with other
numbers, so that each call sorts. An epoch is forward, cross entropy, backward and a step of Adam;
the runs take turns, and times are those of the processor, on one thread.

Where PyG is installed the same layers of PyG take turns with them: `RGCNConv` and `FastRGCNConv`,
of which the faster is told, and `HGTConv`, on the graph by types as PyG takes it, without pyg-lib.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import smex.graph as sg

try:
    import torch_geometric.nn as pyg
except ImportError:
    pyg = None

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "graph"))
import train_hetero

SIZE, HEADS = 32, 4


def layer(kind: str, num_ntypes: int, num_etypes: int) -> nn.Module:
    if kind == "HGT":
        return sg.nn.HGTConv(SIZE, SIZE // HEADS, HEADS, num_ntypes, num_etypes)
    return sg.nn.RelGraphConv(SIZE, SIZE, num_etypes)


def by_types(
    kind: str, g: sg.Graph, layers: nn.ModuleList, types: list[Tensor]
) -> Callable[[], Tensor]:
    """Ours: a forward pass over the graph with these types of edges by layer."""

    def forward() -> Tensor:
        h = g.ndata["x"]
        for one, of_edges in zip(layers, types):
            ntypes = (g.ndata[sg.NTYPE],) if kind == "HGT" else ()
            h = F.relu(one(g, h, *ntypes, of_edges))
        return h

    return forward


def trained(
    optimizer: torch.optim.Optimizer, forward: Callable[[], Tensor], labels: Tensor
) -> Callable[[], float]:
    """A function that trains an epoch and returns the processor's seconds."""

    def run() -> float:
        begin = time.process_time()
        loss = F.cross_entropy(forward(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return time.process_time() - begin

    return run


def adam(layers: nn.ModuleList) -> torch.optim.Optimizer:
    return torch.optim.Adam(layers.parameters(), lr=0.01)


def by_pyg(kind: str, hetero: sg.Graph, g: sg.Graph) -> list[Callable[[], float]]:
    """Epochs of PyG's layers."""
    if pyg is None:
        return []
    labels = g.ndata[sg.NTYPE]
    if kind == "R-GCN":
        edges, types = torch.stack(g.edges()).long(), g.edata[sg.ETYPE].long()
        found = []
        for one in (pyg.RGCNConv, pyg.FastRGCNConv):
            layers = nn.ModuleList(
                one(SIZE, SIZE, len(hetero.etypes), aggr="sum") for _ in range(2)
            )

            def forward(layers: nn.ModuleList = layers) -> Tensor:
                h = g.ndata["x"]
                for each in layers:
                    h = F.relu(each(h, edges, types))
                return h

            found.append(trained(adam(layers), forward, labels))
        return found
    by_type = {}
    first = 0
    for ntype in hetero.ntypes:  # nodes of a type follow each other
        by_type[ntype] = g.ndata["x"][first : first + hetero.num_nodes(ntype)]
        first += hetero.num_nodes(ntype)
    edge_index = {
        etype: torch.stack(hetero.edges(etype=etype)).long() for etype in hetero.canonical_etypes
    }
    metadata = (hetero.ntypes, hetero.canonical_etypes)
    layers = nn.ModuleList(pyg.HGTConv(SIZE, SIZE, metadata, HEADS) for _ in range(2))

    def forward_by_type() -> Tensor:
        h = by_type
        for each in layers:
            h = {ntype: F.relu(x) for ntype, x in each(h, edge_index).items() if x is not None}
        return torch.cat([h[ntype] for ntype in hetero.ntypes if ntype in h])

    have = {etype[2] for etype in hetero.canonical_etypes}
    kept = torch.cat(
        [
            torch.full((hetero.num_nodes(ntype),), number)
            for number, ntype in enumerate(hetero.ntypes)
            if ntype in have
        ]
    )
    return [trained(adam(layers), forward_by_type, kept)]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--papers", type=int, nargs="*", default=[4000, 30000])
    parser.add_argument("--epochs", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "| model | edges | types stay, ms | types change, ms | ratio | PyG, ms | over types stay |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
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
            optimizer = adam(layers)
            ours = {
                run: trained(optimizer, by_types(kind, g, layers, types[run]), g.ndata[sg.NTYPE])
                for run, g in graphs.items()
            }
            seconds: dict[str, list[float]] = {run: [] for run in graphs}
            peers = by_pyg(kind, hetero, graphs["stay"])
            theirs: list[list[float]] = [[] for _ in peers]
            for number in range(options.epochs + 1):
                for peer, own in zip(peers, theirs):
                    taken = peer()
                    if number:
                        own.append(taken)
                for run, epoch in ours.items():
                    taken = epoch()
                    if number:
                        seconds[run].append(taken)
            ratio = statistics.median(b / a for a, b in zip(seconds["stay"], seconds["change"]))
            middle = [f"{statistics.median(s) * 1e3:.3g}" for s in seconds.values()]
            cells = ["-", "-"]
            if theirs:
                best = min(theirs, key=statistics.median)
                over = statistics.median(b / a for a, b in zip(seconds["stay"], best))
                cells = [f"{statistics.median(best) * 1e3:.3g}", f"**{over:.2f}**"]
            row = [kind, str(hetero.num_edges()), *middle, f"**{ratio:.2f}**", *cells]
            print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()

"""Epochs of a GCN, a GAT and GraphSAGE, full graph: smex.graph beside DGL and PyG.

    python benchmarks/graph/training.py [--quick] [--models train_gat] [--graphs cora ten]

An epoch is forward, cross entropy over all nodes, backward and a step of Adam of a model of two
layers; no dropout, and the same parameters, features and labels (normally distributed, of Cora's
and ogbn-arxiv's sizes). Outputs and gradients of all parameters are compared first. "ten" is a
graph of 10 nodes with Cora's features: what an epoch costs whatever the graph is. The peak of a GAT
is measured as in layers.py.
"""

from __future__ import annotations

import argparse
import math
import statistics

import harness
import layers
import report
from harness import OURS, Entry, Measured
from systems.base import Case

CORA, ARXIV = {"features": 1433, "classes": 7}, {"features": 128, "classes": 40}
SIZES = {"cora": CORA, "ten": CORA}
MODELS = {"train_gcn": ([16, 64], 0), "train_gat": ([64], 8), "train_sage": ([64], 0)}
LARGE = "power-law-1e6"
PEERS = ("dgl", "pyg")
BARS = {
    "time, to DGL": 2.0,
    "time, to PyG": 2.0,
    "GAT's peak memory, to PyG": 5.0,
}
COLUMNS = ("model", "graph", "threads", "ours, ms", "dgl, ms", "ratio", "pyg, ms", "ratio")


def cases_of(options: argparse.Namespace, graph: str) -> list[Case]:
    return [
        Case(model, width, MODELS[model][1], backward=True, **SIZES.get(graph, ARXIV))
        for model in options.models
        for width in MODELS[model][0]
    ]


def fastest(measured: Measured, peer: str, ours: Entry) -> Entry | None:
    """The fastest of a peer's systems; PyG has two."""
    entries = [e for e in report.peers_of(ours, measured) if e.system.startswith(peer)]
    best = measured.fastest(entries, ours)
    return best[0] if best else None


def tell(measured: Measured, ours: Entry, bars: report.Bars) -> None:
    """Prints a line about a model on a graph."""
    cells = [report.name(ours.case), ours.graph, ours.threads, measured.spread(ours)]
    for peer, bar in zip(PEERS, BARS):
        entry = fastest(measured, peer, ours)
        if entry is None:
            cells += ["-", "-"]
            continue
        ratio = measured.ratio(entry, ours)
        cells += [f"{entry.system}: {measured.spread(entry)}", f"**{ratio:.2f}**"]
        bars.add(bar, f"{ours.graph}, {ours.threads} thread(s)", ratio)
    print(report.line(cells), flush=True)


def tell_rest(measured: Measured, cora: Entry, ten: Entry) -> None:
    """Prints the medians of what an epoch on Cora takes above one on 10 nodes."""
    cells = [report.name(cora.case), "cora above ten", cora.threads]
    rest = _above(measured, cora, ten)
    cells.append(f"{rest * 1e3:.3g}")
    for peer in PEERS:
        entry = fastest(measured, peer, cora)
        small = fastest(measured, peer, ten)
        if entry is None or small is None:
            cells += ["-", "-"]
            continue
        of_peer = _above(measured, entry, small)
        cells += [f"{entry.system}: {of_peer * 1e3:.3g}", f"{of_peer / rest:.2f}"]
    print(report.line(cells), flush=True)


def _above(measured: Measured, large: Entry, small: Entry) -> float:
    pairs = zip(measured.seconds[large], measured.seconds[small])
    return statistics.median(a - b for a, b in pairs if a is not None and b is not None)


def time_all(options: argparse.Namespace, bars: report.Bars) -> None:
    """Prints the times; Cora and 10 nodes are measured in the same rounds."""
    together = [graph for graph in options.graphs if graph in SIZES]
    groups = [[graph] for graph in options.graphs if graph not in SIZES]
    records = []
    with harness.started(options) as peers:
        print(f"{peers.versions()}\nids {options.idtype}, seed {options.seed}\n")
        print(report.header(COLUMNS))
        for group in [together, *groups]:
            edges = {graph: harness.load(peers, options, graph) for graph in group}
            for cases in zip(*(cases_of(options, graph) for graph in group)):
                for threads in options.threads:
                    entries = [
                        Entry(system, graph, case, threads)
                        for graph, case in zip(group, cases)
                        for system in peers.of_system
                    ]
                    measured = harness.measure(peers, entries, edges, options)
                    ours = [Entry(OURS, g, case, threads) for g, case in zip(group, cases)]
                    for entry in ours:
                        tell(measured, entry, bars)
                    if group == ["cora", "ten"]:
                        tell_rest(measured, *ours)
                    report.print_notes(measured)
                    records += report.record(measured)
            peers.tell_all("release")
            for graph in group:
                peers.tell_all("forget_graph", name=graph)
            peers.clear_features()
        harness.write_json("training", options, peers, records)


def weigh(options: argparse.Namespace, bars: report.Bars) -> None:
    """Prints the peaks of a GAT's epoch on the large graph."""
    columns = ("model", "graph", "ours, MiB", "dgl, MiB", "ratio", "pyg, MiB", "ratio")
    print(f"\n{report.header(columns)}")
    with harness.started(options, **layers.GIVES_BACK) as peers:
        edges = {LARGE: harness.load(peers, options, LARGE)}
        (case,) = (case for case in cases_of(options, LARGE) if case.op == "train_gat")
        found = layers.peaks(peers, LARGE, case, edges, options)
        ours = found.get(OURS, math.nan)
        cells = [report.name(case), LARGE, f"{ours / layers.MIB:.0f}"]
        for peer in PEERS:
            of_peer = {k: v for k, v in found.items() if k.startswith(peer)}
            least = min(of_peer.values(), default=math.nan)
            each = ", ".join(f"{k} {v / layers.MIB:.0f}" for k, v in of_peer.items())
            cells += [each, f"**{least / ours:.2f}**"]
        print(report.line(cells), flush=True)
        bars.add("GAT's peak memory, to PyG", "1 thread", least / ours)


def main() -> None:
    parser = harness.parser(
        __doc__, rounds=7, drop=1e3, graphs=["cora", "ten", LARGE],
        peers=["smex", *PEERS],
    )  # fmt: skip
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    options = harness.prepared(parser.parse_args())
    bars = report.Bars(BARS)
    time_all(options, bars)
    if LARGE in options.graphs and "train_gat" in options.models:
        weigh(options, bars)
    print(f"\n{bars.table()}")


if __name__ == "__main__":
    main()

"""Neighbour sampling: edges drawn in a second by smex.graph, DGL and PyG.

    python benchmarks/graph/sampling.py [--quick] [--graphs power-law-1e6 power-law-1e7]

8 batches of 1,024 seeds with fanouts 15, 10 and 5, the seeds' last, through each library's loader
without worker processes: DGL's interface with a NeighborSampler gives blocks, PyG's NeighborLoader
a subgraph. PyG draws for each node once, the others for each node in each layer, which are more
edges: so edges a second are compared. The edges into the seeds are as many everywhere, which is
checked; those of all layers beside DGL within 1 %.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import harness
import numpy as np
import report
from client import PeerError, Peers
from harness import OURS, Entry, Measured
from systems.base import Case

BARS = {"edges a second, to DGL": 1.5, "edges a second, to PyG": 2.0}
PEERS = {"dgl": "edges a second, to DGL", "pyg edge_index": "edges a second, to PyG"}
COLUMNS = ("graph", "threads", "system", "ms", "edges", "10⁶ edges/s", "ours over it")
CLOSE = 0.01  # share by which the edges of all layers may differ from DGL's, by chance


def drawn(peers: Peers, entry: Entry) -> np.ndarray:
    """How many edges a system draws in a step: into the seeds, and in all layers."""
    with tempfile.TemporaryDirectory(dir=peers.folder) as folder:
        peers.of_system[entry.worker].ask("save", key=entry.key, folder=folder)
        return np.load(pathlib.Path(folder) / "out.npy")


def compare(peers: Peers, entries: list[Entry], measured: Measured) -> dict[str, np.ndarray]:
    """The edges by system; a system whose numbers are wrong is left out and named."""
    counts: dict[str, np.ndarray] = {}
    for entry in entries:
        try:
            counts[entry.system] = drawn(peers, entry)
        except PeerError as error:
            measured.notes[entry.key] = str(error)
    if OURS in counts:
        for system in set(counts) - {OURS}:
            ours, found = counts[OURS], counts[system]
            is_far = system == "dgl" and abs(found[1] / ours[1] - 1) > CLOSE
            if found[0] != ours[0] or is_far:
                measured.notes[system] = f"DIFFERS: {found} edges, ours {ours}"
                del counts[system]
    return counts


def tell(
    measured: Measured, graph: str, threads: int, counts: dict[str, np.ndarray], bars: report.Bars
) -> None:
    """Prints a line for each system."""
    case = Case("sampled_edges")
    ours = Entry(OURS, graph, case, threads)
    for system, found in counts.items():
        entry = Entry(system, graph, case, threads)
        if entry not in measured.seconds:
            continue
        edges = found[1]
        ratio = measured.ratio(entry, ours) * counts[OURS][1] / edges
        rate = f"{edges / measured.median(entry) / 1e6:.1f}"
        cells = [graph, threads, system, measured.spread(entry), f"{edges:.0f}", rate]
        print(report.line([*cells, "" if system == OURS else f"**{ratio:.2f}**"]), flush=True)
        bars.add(PEERS.get(system, ""), f"{graph}, {threads} thread(s)", ratio)


def measure(peers: Peers, graph: str, options: argparse.Namespace, bars: report.Bars) -> list[dict]:
    edges = {graph: harness.load(peers, options, graph)}
    case, notes = Case("sampled_edges"), Measured({})
    untimed = [Entry(system, graph, case) for system in peers.of_system]
    counts = compare(peers, harness.prepare_all(peers, untimed, edges, notes), notes)
    entries = [
        Entry(system, graph, case, threads) for threads in options.threads for system in counts
    ]
    measured = harness.measure(peers, entries, edges, options, check=False)
    measured.notes.update(notes.notes)
    for threads in options.threads:
        tell(measured, graph, threads, counts, bars)
    report.print_notes(measured)
    peers.tell_all("forget_graph", name=graph)
    peers.clear_features()
    return report.record(measured)


def main() -> None:
    parser = harness.parser(
        __doc__, rounds=7, drop=1e3, idtype="int64", graphs=["power-law-1e6"],
        peers=["smex", "dgl", "pyg"],
    )  # fmt: skip
    options = harness.prepared(parser.parse_args())
    bars, records = report.Bars(BARS), []
    with harness.started(options) as peers:
        print(f"{peers.versions()}\nids {options.idtype}, seed {options.seed}\n")
        print(report.header(COLUMNS))
        for graph in options.graphs:
            records += measure(peers, graph, options, bars)
        print(f"\n{bars.table()}")
        harness.write_json("sampling", options, peers, records)


if __name__ == "__main__":
    main()

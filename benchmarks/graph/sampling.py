"""Mini-batches of sampled neighbours, beside the peers.

    python benchmarks/graph/sampling.py [--quick] [--idtype int64] [--threads 1 2]

Milliseconds for the blocks of 1,024 different seeds, with fanouts 15, 10 and 5. PyG samples with
pyg-lib or torch-sparse, and is left out where neither is installed.
"""

from __future__ import annotations

import harness
import report
from harness import OURS, Entry
from systems.base import Case

BARS = {"sampled blocks, to DGL": 1.5, "sampled blocks, to PyG": 2.0}
CASE = Case("sample_blocks")


def main() -> None:
    parser = harness.parser(__doc__, idtype="int64", peers=["smex", "dgl", "pyg"])
    options = harness.prepared(parser.parse_args())
    bars, records = report.Bars(BARS), []
    with harness.started(options) as peers:
        print(f"{peers.versions()}\nids {options.idtype}, seed {options.seed}\n")
        print("| graph | threads | system | ms a batch | / ours |\n|---|---:|---|---:|---:|")
        for graph in options.graphs:
            edges = {graph: harness.load(peers, options, graph)}
            entries = [
                Entry(system, graph, CASE, threads)
                for threads in options.threads
                for system in peers.of_system
            ]
            measured = harness.measure(peers, entries, edges, options, check=False)
            for entry in measured.seconds:
                ours = Entry(OURS, graph, CASE, entry.threads)
                ratio = measured.ratio(entry, ours) if ours in measured.seconds else float("nan")
                print(
                    f"| {graph} | {entry.threads} | {entry.system} | {measured.spread(entry)} | "
                    f"{ratio:.2f} |",
                    flush=True,
                )
                for bar, system in zip(BARS, ("dgl", "pyg")):
                    if entry.system == system:
                        bars.add(bar, f"{graph}, {entry.threads} thread(s)", ratio)
            report.print_notes(measured)
            records += report.record(measured)
            peers.tell_all("forget_graph", name=graph)
        print(f"\n{bars.table()}")
        harness.write_json("sampling", options, peers, records)


if __name__ == "__main__":
    main()

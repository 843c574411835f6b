"""Unsorted edges to a graph with its CSC form and edge-id permutation, beside the peers.

    python benchmarks/graph/structure.py [--quick] [--idtype int64] [--threads 1 2]

Milliseconds from two tensors of node ids to row pointer, sources and edge ids.
"""

from __future__ import annotations

import cases
import harness
import report
from harness import COPY, OURS, Entry
from systems.base import Case

BARS = {"edges to CSC, to DGL": 2.0}


def main() -> None:
    parser = harness.parser(__doc__, idtype="int64")
    options = harness.prepared(parser.parse_args())
    bars, records, case = report.Bars(BARS), [], Case("to_csc")
    with harness.started(options) as peers:
        print(f"{peers.versions()}\nids {options.idtype}, seed {options.seed}\n")
        print(report.header())
        for graph in options.graphs:
            edges = {graph: harness.load(peers, options, graph)}
            bounds = cases.bounds(case, edges[graph], 4 if options.idtype == "int32" else 8)
            copy = Case("memory_copy", bounds.compulsory)
            entries = [
                entry
                for threads in options.threads
                for entry in (
                    *(Entry(system, graph, case, threads) for system in peers.of_system),
                    Entry(COPY, graph, copy, threads),
                )
            ]
            measured = harness.measure(peers, entries, edges, options, check=False)
            for threads in options.threads:
                ours, dgl = (Entry(system, graph, case, threads) for system in (OURS, "dgl"))
                print(report.row(ours, measured, bounds)[0], flush=True)
                print(*report.peer_rows(ours, measured), sep="\n")
                if ours in measured.seconds and dgl in measured.seconds:
                    ratio = measured.ratio(dgl, ours)
                    bars.add("edges to CSC, to DGL", f"{threads} thread(s)", ratio)
            report.print_notes(measured)
            records += report.record(measured)
            peers.tell_all("forget_graph", name=graph)
        print(f"\n{bars.table()}")
        harness.write_json("structure", options, peers, records)


if __name__ == "__main__":
    main()

"""What a call costs where the graph is small: `update_all` on 10 nodes, and Cora.

    python benchmarks/graph/overhead.py [--quick] [--threads 1]

`update_all` of copy_u and sum is held against DGL's; on Cora the operator copy_u sum against
`torch.sparse.mm` on a CSR matrix made before. Microseconds per call.
"""

from __future__ import annotations

import harness
import report
from harness import OURS, Entry
from systems.base import Case

BARS = {"update_all on 10 nodes, to DGL": 2.0, "copy_u sum on Cora, to torch.sparse.mm": 1.0}
TEN, CORA = BARS
COLUMNS = ("operation", "graph", "threads", "ours, µs", "peer, µs", "ratio")


def pairs(threads: int) -> list[tuple[str, Entry, str]]:
    """What is measured: the bar, our entry and the system it is held against."""
    found = [(TEN, Entry(OURS, "ten", Case("update_all", 16), threads), "dgl")]
    for width in (16, 64):
        found.append((CORA, Entry(OURS, "cora", Case("copy_u_sum", width), threads), "torch csr"))
        found.append(("", Entry(OURS, "cora", Case("update_all", width), threads), "dgl"))
    return found


def main() -> None:
    parser = harness.parser(__doc__, rounds=15, threads=[1], graphs=["ten", "cora"])
    options = harness.prepared(parser.parse_args())
    bars, records = report.Bars(BARS), []
    with harness.started(options) as peers:
        print(f"{peers.versions()}\nids {options.idtype}, seed {options.seed}\n")
        edges = {graph: harness.load(peers, options, graph) for graph in options.graphs}
        print(report.header(COLUMNS))
        for threads in options.threads:
            for bar, ours, system in pairs(threads):
                if ours.graph not in edges:
                    continue
                peer = Entry(system, ours.graph, ours.case, threads)
                measured = harness.measure(peers, [ours, peer], edges, options)
                both = ours in measured.seconds and peer in measured.seconds
                ratio = measured.ratio(peer, ours) if both else float("nan")
                cells = [
                    measured.spread(entry, 1e6) if entry in measured.seconds else "-"
                    for entry in (ours, peer)
                ]
                cells[1] = f"{system}: {cells[1]}"
                row = [report.name(ours.case), ours.graph, threads, *cells, f"{ratio:.2f}"]
                print(report.line(row), flush=True)
                report.print_notes(measured)
                bars.add(bar, f"{threads} thread(s)", ratio)
                records += report.record(measured)
        print(f"\n{bars.table()}")
        harness.write_json("overhead", options, peers, records)


if __name__ == "__main__":
    main()

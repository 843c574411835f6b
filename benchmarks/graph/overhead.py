"""What a call costs where the graph is small: on 10 nodes, and on Cora.

    python benchmarks/graph/overhead.py [--quick] [--threads 1]

`update_all` of copy_u and sum beside DGL's; on Cora the operator copy_u sum beside
`torch.sparse.mm` on a CSR matrix made before; layers as a user calls them beside PyG's and DGL's;
a batch of 8 seeds with 5 neighbours in each of two layers from each library's loader; a net of
`smex.partition` with one worker beside the same modules in eager mode. Microseconds per call, or
per batch. Rows without a peer say what of the row above is the operator.
"""

from __future__ import annotations

import harness
import report
from harness import OURS, Entry
from systems.base import Case
from systems.sampling import FEW

BARS = {
    "update_all on 10 nodes, to DGL": 2.0,
    "copy_u sum on Cora, to torch.sparse.mm": 1.0,
    "layers on 10 nodes, to PyG": 1.0,
    "a batch of 8 seeds, to the peers": 1.0,
}
TEN, CORA, LAYERS, BATCH = BARS
COLUMNS = ("operation", "graph", "pass", "threads", "ours, µs", "peer, µs", "ratio")
EAGER = "torch scatter"  # the environment of plain torch


def pairs(threads: int) -> list[tuple[str, Entry, str]]:
    """What is measured: the bar, our entry and the system it is held against, if any."""

    def ours(graph: str, case: Case) -> Entry:
        return Entry(OURS, graph, case, threads)

    found = [(TEN, ours("ten", Case("update_all", 16)), "dgl")]
    found.append(("", ours("ten", Case("copy_u_sum", 16)), ""))
    for width in (16, 64):
        found.append((CORA, ours("cora", Case("copy_u_sum", width)), "torch csr"))
        found.append(("", ours("cora", Case("update_all", width)), "dgl"))
    for layer, heads in (("call_gat", 4), ("call_gcn", 0), ("call_sage", 0)):
        for backward in (False, True):
            case = Case(layer, 16, heads, backward=backward)
            found.append((LAYERS, ours("ten", case), "pyg edge_index"))
            found.append(("", ours("ten", case), "dgl"))
    found += [(BATCH, ours("cora", Case("sampled_few")), p) for p in ("dgl", "pyg edge_index")]
    found += [("", ours("ten", Case("net", 16, backward=b)), EAGER) for b in (False, True)]
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
                is_drawn = ours.case.op == "sampled_few"
                entries = [ours, peer] if system else [ours]
                measured = harness.measure(peers, entries, edges, options, check=not is_drawn)
                unit = 1e6 / (FEW.batches if is_drawn else 1)
                cells = [
                    measured.spread(entry, unit) if entry in measured.seconds else "-"
                    for entry in (ours, peer)
                ]
                both = ours in measured.seconds and peer in measured.seconds
                ratio = measured.ratio(peer, ours) if both else float("nan")
                cells[1] = f"{system}: {cells[1]}" if system else ""
                which = "fwd + bwd" if ours.case.backward else "fwd"
                row = [report.name(ours.case), ours.graph, which, threads, *cells]
                print(report.line([*row, f"{ratio:.2f}" if both else ""]), flush=True)
                report.print_notes(measured)
                bars.add(bar, f"{threads} thread(s)", ratio)
                records += report.record(measured)
        print(f"\n{bars.table()}")
        harness.write_json("overhead", options, peers, records)


if __name__ == "__main__":
    main()

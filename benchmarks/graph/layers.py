"""GAT layer and GCN step of smex.graph beside the peers: forward + backward, time and peak memory.

    python benchmarks/graph/layers.py [--quick] [--layers gat_layer] [--widths 64] [--graphs hub]

Every system computes the same layer with the same parameters, and the output and all gradients are
compared. Widths are of the input and of all heads together. The peak is what a step needs above
the memory held before it: the process's resident set, measured in workers of their own whose
allocator gives every larger block back at once.
"""

from __future__ import annotations

import math

import harness
import report
from client import PeerError
from harness import OURS, Entry
from systems.base import Case

MIB = 2**20
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536"}  # blocks above it return to the system when freed
HEADS = {"gat_layer": 8, "gcn_layer": 0}
BARS = {
    "gat_layer time": 4.0,
    "gat_layer peak memory, to the fastest peer": 5.0,
    "gat_layer peak memory, to the leanest peer": 5.0,
    "gcn_layer time": 1.5,
}


def layer_cases(options) -> list[Case]:
    return [
        Case(layer, width, HEADS[layer], backward=True)
        for layer in options.layers
        for width in options.widths
    ]


def time_all(options, bars: report.Bars, records: list) -> dict[tuple[str, Case], str]:
    """Prints the times; returns the fastest peer of each graph and case, with the first threads."""
    fastest = {}
    with harness.started(options) as peers:
        print(f"{peers.versions()}\nids {options.idtype}, seed {options.seed}\n")
        print(report.header(report.HEADER[:7]))
        for graph in options.graphs:
            edges = {graph: harness.load(peers, options, graph)}
            for case in layer_cases(options):
                entries = [
                    Entry(system, graph, case, threads)
                    for threads in options.threads
                    for system in peers.of_system
                ]
                measured = harness.measure(peers, entries, edges, options)
                for threads in options.threads:
                    ours = Entry(OURS, graph, case, threads)
                    row, ratio = report.row(ours, measured, None, rates_too=False)
                    print(row, flush=True)
                    bars.add(f"{case.op} time", f"{threads} thread(s)", ratio, graph)
                    if options.all:
                        print(*report.peer_rows(ours, measured, blank=0), sep="\n")
                    best = measured.fastest(report.peers_of(ours, measured), ours)
                    if best:
                        fastest.setdefault((graph, case), best[0].system)
                report.print_notes(measured)
                records += report.record(measured)
            peers.tell_all("forget_graph", name=graph)
            peers.clear_features()
        harness.write_json("layers", options, peers, records)
    return fastest


def peaks(peers, graph: str, case: Case, edges: dict, options) -> dict[str, int]:
    """Peak bytes of a step by system, with one thread."""
    found = {}
    for system in peers.of_system:
        entry = Entry(system, graph, case)
        result = harness.Measured({})
        if harness.prepare_all(peers, [entry], edges, result):
            try:
                answer = peers.of_system[system].ask("peak", key=entry.key, threads=1)
                found[system] = answer["bytes"]
            except PeerError as error:
                print(f"  {system}: {error}")
        peers.tell_all("release")
    return found


def weigh_all(options, fastest: dict, bars: report.Bars, records: list) -> None:
    """Prints the peaks."""
    columns = ("operation", "graph", "ours, MiB", "fastest peer, MiB", "ratio", "peers, MiB")
    print(f"\n{report.header(columns)}")
    with harness.started(options, **GIVES_BACK) as peers:
        for graph in options.graphs:
            edges = {graph: harness.load(peers, options, graph)}
            for case in layer_cases(options):
                found = peaks(peers, graph, case, edges, options)
                records.append({"graph": graph, "case": str(case), "peak_bytes": dict(found)})
                ours = found.pop(OURS, math.nan)
                of_fastest = found.get(fastest.get((graph, case), ""), math.nan)
                name = f"{case.op} peak memory, to the"
                bars.add(f"{name} fastest peer", "1 thread", of_fastest / ours, graph)
                bars.add(f"{name} leanest peer", "1 thread", min(found.values()) / ours, graph)
                peers_mib = ", ".join(f"{k} {v / MIB:.0f}" for k, v in found.items())
                cells = [f"{ours / MIB:.0f}", f"{of_fastest / MIB:.0f}"]
                cells += [f"{of_fastest / ours:.2f}", peers_mib]
                print(report.line([report.name(case), graph, *cells]), flush=True)
            peers.tell_all("forget_graph", name=graph)
            peers.clear_features()
        harness.write_json("layers_memory", options, peers, records)


def main() -> None:
    parser = harness.parser(__doc__, rounds=5)
    parser.add_argument("--layers", nargs="*", choices=list(HEADS), default=list(HEADS))
    parser.add_argument("--widths", nargs="*", type=int, default=[16, 64, 256])
    options = harness.prepared(parser.parse_args())
    bars = report.Bars(BARS, only=harness.graphs.SYNTHETIC)
    fastest = time_all(options, bars, [])
    weigh_all(options, fastest, bars, [])
    print(f"\n{bars.table()}")


if __name__ == "__main__":
    main()

"""Operators of smex.graph beside the fastest of DGL, PyG and plain torch, in interleaved rounds.

    python benchmarks/graph/operators.py [--quick] [--ops copy_u_sum edge_softmax]
        [--graphs uniform cora] [--widths 64] [--heads 0 8] [--threads 1] [--passes fwd] [--all]

For each operation: milliseconds as median [min, max] over the rounds, the ratio to the fastest
peer in the same round, GB/s by the compulsory bytes and by those of a gather without reuse, and of
a memory copy of as many bytes as the compulsory ones. Rows marked "sorted" are ours on a graph
whose edges are numbered by destination, as the peers' best layouts have them. At the end geomeans
against the bars. Every system's results are compared before it is timed. The whole takes hours;
--ops and the others pick.
"""

from __future__ import annotations

import argparse
import dataclasses

import cases
import harness
import report
from harness import COPY, OURS, SORTED, Entry
from systems.base import Case

HEADED = ("u_mul_e_sum", "edge_softmax", "u_dot_v")
OPS = (
    "copy_u_sum",
    "copy_u_mean",
    "copy_u_max",
    "copy_u_min",
    "u_mul_e_sum",
    "edge_softmax",
    "u_dot_v",
    "u_add_v",
    "copy_e_sum",
)
BARS = {
    "copy_u sum, mean": 1.2,
    "copy_u max, min": 1.5,
    "u_mul_e sum": 2.0,
    "u_mul_e sum, per head": 2.0,
    "edge softmax": 4.0,
    "u_dot_v": 4.0,
    "u_dot_v, torch's sampled_addmm aside": 4.0,
    "bf16 over own fp32": 1.5,
}
FLOORS = {"copy_u sum, mean": 0.95}
BAR_OF = {
    "copy_u_sum": "copy_u sum, mean",
    "copy_u_mean": "copy_u sum, mean",
    "copy_u_max": "copy_u max, min",
    "copy_u_min": "copy_u max, min",
    "u_mul_e_sum": "u_mul_e sum",
    "edge_softmax": "edge softmax",
    "u_dot_v": "u_dot_v",
}
BAR_OF_CUDA = {"copy_u_sum": 1.2, "u_mul_e_sum": 1.2}
REST_CUDA = 3.0


def all_cases(options: argparse.Namespace) -> list[Case]:
    """Softmax has no features, so it is measured once for all widths."""
    found = []
    for op in options.ops:
        for heads in options.heads:
            if heads and op not in HEADED:
                continue
            for width in options.widths:
                width = max(1, heads) if op == "edge_softmax" else width
                for each in options.passes:
                    case = Case(op, width, heads, backward=each == "both")
                    if case not in found:
                        found.append(case)
    return found


def entries(peers, graph: str, case: Case, copied: int, options) -> list[Entry]:
    """Every system, a copy of the compulsory bytes, and ours in bf16 from width 64 on."""
    shorter = dataclasses.replace(case, dtype="bfloat16")
    found = []
    for threads in options.threads:
        found += [Entry(system, graph, case, threads) for system in peers.of_system]
        if options.bf16 and (case.width >= 64 or case.op == "edge_softmax"):
            found.append(Entry(OURS, graph, shorter, threads))
        found.append(Entry(COPY, graph, Case("memory_copy", copied), threads))
    return found


def bar(case: Case, options: argparse.Namespace) -> str:
    if options.cuda:
        return f"cuda {case.op}"
    name = BAR_OF.get(case.op, "")
    return f"{name}, per head" if case.op == "u_mul_e_sum" and case.heads else name


def tell(case: Case, graph: str, measured, bounds, bars: report.Bars, options) -> None:
    """Prints the rows of one case and adds its ratios to the bars."""
    for threads in options.threads:
        ours = Entry(OURS, graph, case, threads)
        text, ratio = report.row(ours, measured, bounds[case.dtype])
        print(text, flush=True)
        group = f"{'fwd + bwd' if case.backward else 'fwd'}, {threads} thread(s)"
        bars.add(bar(case, options), group, ratio, graph)
        in_order = dataclasses.replace(ours, system=SORTED)
        if in_order in measured.seconds:
            text, ratio = report.row(in_order, measured, bounds[case.dtype])
            print(text)
            bars.add(bar(case, options), f"{group}{report.SORTED_LABEL}", ratio, graph)
        if case.op == "u_dot_v":
            rest = {e: s for e, s in measured.seconds.items() if e.system != "torch csr"}
            _, ratio = report.row(ours, dataclasses.replace(measured, seconds=rest), None)
            bars.add("u_dot_v, torch's sampled_addmm aside", group, ratio, graph)
        if options.all:
            print(*report.peer_rows(ours, measured), sep="\n")
        short = dataclasses.replace(ours, case=dataclasses.replace(case, dtype="bfloat16"))
        if short in measured.seconds:
            print(report.row(short, measured, bounds["bfloat16"])[0])
            if case.width >= 64:
                bars.add(
                    "bf16 over own fp32", f"{case.op}, {group}", measured.ratio(ours, short), graph
                )
    report.print_notes(measured)


def main() -> None:
    parser = harness.parser(__doc__)
    parser.add_argument("--ops", nargs="*", default=list(OPS), choices=OPS)
    parser.add_argument("--widths", nargs="*", type=int, default=[16, 64, 256])
    parser.add_argument("--heads", nargs="*", type=int, default=[0, 8])
    parser.add_argument("--passes", nargs="*", choices=["fwd", "both"], default=["fwd", "both"])
    parser.add_argument("--no-bf16", dest="bf16", action="store_false")
    options = harness.prepared(parser.parse_args())
    required = BARS
    if options.cuda:
        required = {f"cuda {op}": BAR_OF_CUDA.get(op, REST_CUDA) for op in OPS}
    bars, records = report.Bars(required, FLOORS, harness.graphs.SYNTHETIC), []
    id_bytes = 4 if options.idtype == "int32" else 8
    with harness.started(options) as peers:
        print(f"{peers.versions()}\nids {options.idtype}, seed {options.seed}\n")
        print(report.header())
        for graph in options.graphs:
            edges = {graph: harness.load(peers, options, graph)}
            for case in all_cases(options):
                bounds = {
                    dtype: cases.bounds(
                        dataclasses.replace(case, dtype=dtype), edges[graph], id_bytes
                    )
                    for dtype in ("float32", "bfloat16")
                }
                chosen = entries(peers, graph, case, bounds["float32"].compulsory, options)
                measured = harness.measure(peers, chosen, edges, options)
                tell(case, graph, measured, bounds, bars, options)
                records += report.record(measured)
            peers.tell_all("forget_graph", name=graph)
            peers.clear_features()
        print(f"\n{bars.table()}")
        harness.write_json("operators", options, peers, records)


if __name__ == "__main__":
    main()

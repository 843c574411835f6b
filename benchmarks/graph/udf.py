"""The price of a user's function: `update_all` with Python functions beside the built-ins.

    python benchmarks/graph/udf.py [--quick] [--widths 16 64] [--graphs uniform power-law]

The same program runs on DGL and on smex.graph. "gated sum" is `h_u * sigmoid(h_u + k_v)`, which no
built-in is: its built-in form stores the gate of every edge.
"""

from __future__ import annotations

import harness
import report
from harness import OURS, Entry
from systems.base import Case

PROGRAMS = ("copy_u_sum", "u_mul_e_sum", "copy_u_max", "gated_sum")
SYSTEMS = (OURS, "dgl")
BARS = {"user's function as fast as the built-in": 0.95}
COLUMNS = ("program", "graph", "threads", "system", "built-in, ms", "function, ms", "ratio")


def main() -> None:
    parser = harness.parser(
        __doc__, rounds=5, threads=[1], graphs=["uniform", "power-law"], peers=["smex", "dgl"]
    )
    parser.add_argument("--widths", nargs="*", type=int, default=[16, 64])
    parser.add_argument("--programs", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    options = harness.prepared(parser.parse_args())
    bars, records = report.Bars(BARS), []
    with harness.started(options) as peers:
        print(f"{peers.versions()}\nids {options.idtype}, seed {options.seed}\n")
        print(report.header(COLUMNS))
        for graph in options.graphs:
            edges = {graph: harness.load(peers, options, graph)}
            for program in options.programs:
                for width in options.widths:
                    for threads in options.threads:
                        measured = compare(peers, graph, program, width, threads, edges, options)
                        tell(measured, graph, program, width, threads, bars)
                        records += report.record(measured)
            peers.tell_all("forget_graph", name=graph)
            peers.clear_features()
        print(f"\n{bars.table()}")
        harness.write_json("udf", options, peers, records)


def entry(system: str, kind: str, graph: str, program: str, width: int, threads: int) -> Entry:
    return Entry(system, graph, Case(f"{kind}_{program}", width), threads)


def compare(peers, graph, program, width, threads, edges, options) -> harness.Measured:
    entries = [
        entry(system, kind, graph, program, width, threads)
        for system in SYSTEMS
        for kind in ("builtin", "udf")
    ]
    return harness.measure(peers, entries, edges, options)


def tell(measured, graph, program, width, threads, bars: report.Bars) -> None:
    for system in SYSTEMS:
        builtin, udf = (
            entry(system, kind, graph, program, width, threads) for kind in ("builtin", "udf")
        )
        if builtin not in measured.seconds or udf not in measured.seconds:
            continue
        ratio = measured.ratio(builtin, udf)
        times = [measured.spread(builtin), measured.spread(udf), f"{ratio:.2f}"]
        print(report.line([f"{program}, F = {width}", graph, threads, system, *times]), flush=True)
        if system == OURS:
            bars.add("user's function as fast as the built-in", f"{threads} thread(s)", ratio)
    report.print_notes(measured)


if __name__ == "__main__":
    main()

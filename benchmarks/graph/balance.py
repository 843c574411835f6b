"""How evenly one system works: a hub against a uniform graph, and 2 threads against 1.

    python benchmarks/graph/balance.py [--quick] [--system smex] [--ops copy_u_sum] [--widths 64]

Both graphs and both numbers of threads are measured in the same rounds. "hub / uniform" compares
times of as many edges (at most 1.3), "speed-up" is the time of 1 thread over that of 2 (at least
1.8).
"""

from __future__ import annotations

import harness
import report
from harness import OURS, Entry
from operators import HEADED, OPS
from systems.base import Case

BARS = {"uniform / hub": 1 / 1.3, "speed-up by 2 threads": 1.8}
COLUMNS = ("operation", "pass", "graph", "1 thread, ms", "2 threads, ms", "speed-up", "/ uniform")
GRAPHS = ("uniform", "hub")


def tell(system: str, case: Case, measured, bars: report.Bars, options) -> None:
    each = "fwd + bwd" if case.backward else "fwd"
    for graph in options.graphs:
        one, two = (Entry(system, graph, case, threads) for threads in (1, 2))
        if one not in measured.seconds or two not in measured.seconds:
            continue
        speed_up = measured.ratio(one, two)
        against = measured.ratio(one, Entry(system, options.graphs[0], case, 1))
        times = [measured.spread(one), measured.spread(two), f"{speed_up:.2f}", f"{against:.2f}"]
        print(report.line([report.name(case), each, graph, *times]), flush=True)
        bars.add("speed-up by 2 threads", f"{case.op}, {each}, {graph}", speed_up)
        if graph == "hub":
            bars.add("uniform / hub", f"{case.op}, {each}", 1 / against)


def main() -> None:
    parser = harness.parser(__doc__, graphs=list(GRAPHS), peers=[OURS])
    parser.add_argument("--ops", nargs="*", default=list(OPS), choices=OPS)
    parser.add_argument("--widths", nargs="*", type=int, default=[16, 64])
    parser.add_argument("--passes", nargs="*", choices=["fwd", "both"], default=["fwd", "both"])
    parser.add_argument("--system", default=OURS, help="another one needs its name in --peers")
    options = harness.prepared(parser.parse_args())
    bars, records = report.Bars(BARS), []
    with harness.started(options) as peers:
        print(f"{peers.versions()}\nids {options.idtype}, seed {options.seed}\n")
        print(report.header(COLUMNS))
        edges = {graph: harness.load(peers, options, graph) for graph in options.graphs}
        for op in options.ops:
            for heads in (0, 8) if op in HEADED else (0,):
                for width in options.widths if op != "edge_softmax" else [max(1, heads)]:
                    for each in options.passes:
                        case = Case(op, width, heads, backward=each == "both")
                        entries = [
                            Entry(options.system, graph, case, threads)
                            for graph in options.graphs
                            for threads in (1, 2)
                        ]
                        measured = harness.measure(peers, entries, edges, options, check=False)
                        tell(options.system, case, measured, bars, options)
                        records += report.record(measured)
        print(f"\n{bars.table()}")
        harness.write_json("balance", options, peers, records)


if __name__ == "__main__":
    main()

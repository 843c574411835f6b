"""Measurements of operators.py and layers.py as short tables: a line for all graphs.

    python benchmarks/graph/summary.py build/benchmarks/graph/operators.json [...]

Each cell is our median in milliseconds, that of the fastest peer, and the ratio (see harness.py).
The last columns are the geomean of the ratios, and the share of the gather bound that is reached on
the slowest of the graphs. After them, bfloat16 beside float32.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib

import cases
import graphs
import report
from harness import COPY, OURS, SORTED, Entry, Measured
from systems.base import Case


def load(path: pathlib.Path) -> tuple[dict, dict[tuple[str, Case], Measured]]:
    """The versions, and what was measured for each graph and operation."""
    content = json.loads(path.read_text())
    found: dict[tuple[str, Case], Measured] = {}
    fields = [field.name for field in dataclasses.fields(Case)]
    last: tuple[str, Case] | None = None
    for record in content["records"]:
        case = Case(**{name: record[name] for name in fields if name in record})
        entry = Entry(record["system"], record["graph"], case, record["threads"])
        if entry.system != COPY:
            last = (entry.graph, dataclasses.replace(case, dtype="float32"))
        if last is not None:
            measured = found.setdefault(last, Measured({}))
            measured.seconds[entry] = record["seconds"]
    return content, found


def cell(ours: Entry, measured: Measured) -> tuple[str, float]:
    best = measured.fastest(report.peers_of(ours, measured), ours)
    if ours not in measured.seconds or best is None:
        return "-", math.nan
    peer, ratio = best
    times = f"{measured.median(ours) * 1e3:.3g} / {measured.median(peer) * 1e3:.3g} {peer.system}"
    return f"{times}: **{ratio:.2f}**", ratio


def of_bound(ours: Entry, measured: Measured, edges: graphs.EdgeList, id_bytes: int) -> float:
    bounds = cases.bounds(ours.case, edges, id_bytes)
    share = report.rates(ours, measured, bounds)[-1]
    return math.nan if share == "-" else float(share)


def table(found: dict[tuple[str, Case], Measured], options: dict) -> str:
    names = list(dict.fromkeys(graph for graph, _ in found))
    edges = {name: graphs.load(name, seed=options["seed"]) for name in names}
    id_bytes = 4 if options["idtype"] == "int32" else 8
    lines = [report.header(["operation", "pass", "threads", *names, "geomean", "of bound"])]
    for case in dict.fromkeys(case for _, case in found):
        for threads in options["threads"]:
            for system in (OURS, SORTED):
                cells, ratios, shares = [], [], []
                for name in names:
                    measured = found.get((name, case), Measured({}))
                    ours = Entry(system, name, case, threads)
                    text, ratio = cell(ours, measured)
                    cells.append(text)
                    if not math.isnan(ratio):
                        ratios.append(ratio)
                        shares.append(of_bound(ours, measured, edges[name], id_bytes))
                if system == SORTED and not ratios:
                    continue
                step = "fwd + bwd" if case.backward else "fwd"
                shares = [share for share in shares if not math.isnan(share)]
                least = f"{min(shares):.2f}" if shares else "-"
                label = report.name(case) + (report.SORTED_LABEL if system == SORTED else "")
                geomean = f"{report.geomean(ratios):.2f}"
                lines.append(report.line([label, step, threads, *cells, geomean, least]))
    return "\n".join(lines)


def half_table(found: dict[tuple[str, Case], Measured], options: dict) -> str:
    """Our float32 over our bfloat16."""
    names = list(dict.fromkeys(graph for graph, _ in found))
    lines = [report.header(["bfloat16 over float32", "pass", "threads", *names])]
    for case in dict.fromkeys(case for _, case in found):
        for threads in options["threads"]:
            ratios = []
            for name in names:
                measured = found.get((name, case), Measured({}))
                ours = Entry(OURS, name, case, threads)
                short = dataclasses.replace(ours, case=dataclasses.replace(case, dtype="bfloat16"))
                if ours in measured.seconds and short in measured.seconds:
                    ratios.append(f"{measured.ratio(ours, short):.2f}")
            if ratios:
                step = "fwd + bwd" if case.backward else "fwd"
                lines.append(report.line([report.name(case), step, threads, *ratios]))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    for path in parser.parse_args().files:
        content, found = load(path)
        print(f"{path.name}: {content['versions']}\n")
        print(table(found, content["options"]), end="\n\n")
        print(half_table(found, content["options"]), end="\n\n")


if __name__ == "__main__":
    main()

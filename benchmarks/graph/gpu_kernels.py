"""Message passing on a GPU beside cuSPARSE, torch's gathers and scatters, and PyG, in one process.

    python benchmarks/graph/gpu_kernels.py [--ops copy_u_sum u_dot_v] [--graphs arxiv-power-law]
        [--widths 64] [--dtypes float32] [--passes fwd both] [--seconds 120] [--markdown FILE]

"torch csr" is torch.sparse over CSR matrices, which calls cuSPARSE: `mm` is SpMM, `sampled_addmm`
SDDMM. "torch scatter" is index_select and index_add or scatter_reduce. PyG is measured where it is
installed. Layouts and what is made before are those of `systems/`, as in operators.py.

Times are between events on the stream, the median of some calls; before each call the second-level
cache is overwritten. In each round every system is asked once, in an order that rotates; a ratio
is the median over the rounds of `peer / ours`. Results are compared before. Beside the times are
the bytes that have to move (once each, and with a source's features read for each edge), over the
time and as a share of the bandwidth of a copy in device memory.

`--device cpu` takes graphs 500 times smaller and two widths: a check that everything runs, no
figures.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import math
import pathlib
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import cases  # puts benchmarks/peers on the path
import graphs
import numpy as np
import report
import torch
from edge_list import Edges
from prepared import Prepared
from systems.base import Case, System, Unsupported
from torch import Tensor

import smex

# As ogbn-arxiv, 7 edges a node, and as many edges a node as Reddit has, on an eighth of its nodes.
GRAPHS: dict[str, tuple[Callable, int, int]] = {
    "arxiv-power-law": (graphs.power_law, 169_343, 1_166_243),
    "arxiv-uniform": (graphs.uniform, 169_343, 1_166_243),
    "reddit-density": (graphs.uniform, 29_120, 14_326_986),
}
OPS = ("copy_u_sum", "u_mul_e_sum", "u_dot_v", "edge_softmax", "copy_u_max", "copy_e_sum")
HEADED = ("u_mul_e_sum", "u_dot_v", "edge_softmax")
SHORT = ("copy_u_sum", "u_mul_e_sum", "u_dot_v")  # what half precision is measured on by default
HEADS = 8
OURS, SORTED = "smex", "smex sorted"
REFERENCES = ("torch scatter", "torch csr")
MODULES = ("smex_system", "torch_system", "pyg_system")
TOLERANCE = {"float32": 2e-4, "bfloat16": 5e-2, "float16": 1e-2}  # of the largest number
CACHE_BYTES = 256 << 20  # several times the largest second-level cache
COPY_BYTES = 1 << 30
MOST_BYTES = 4 << 30  # of features of edges; a case that has more is left out
AIM = 0.01  # seconds that the calls of a system take together in a round


class Clock:
    """Seconds of calls on a device."""

    def __init__(self, device: torch.device) -> None:
        self.is_cuda = device.type == "cuda"
        self.cache = torch.empty(CACHE_BYTES if self.is_cuda else 0, dtype=torch.int8).to(device)

    def __call__(self, step: Callable, calls: int) -> float:
        """The median of some calls."""
        return statistics.median((self._cuda if self.is_cuda else self._cpu)(step, calls))

    def _cuda(self, step: Callable, calls: int) -> list[float]:
        pairs = [
            [torch.cuda.Event(enable_timing=True) for _ in ("begin", "end")] for _ in range(calls)
        ]
        for begin, end in pairs:
            self.cache.zero_()  # its time lets the host queue what follows
            begin.record()
            step()
            end.record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in pairs]

    def _cpu(self, step: Callable, calls: int) -> list[float]:
        found = []
        for _ in range(calls):
            started = time.perf_counter()
            step()
            found.append(time.perf_counter() - started)
        return found


def copy_bandwidth(clock: Clock, device: torch.device) -> float:
    """Bytes per second that a copy reads and writes."""
    source = torch.zeros(COPY_BYTES if clock.is_cuda else COPY_BYTES >> 5, dtype=torch.int8)
    source = source.to(device)
    target = torch.empty_like(source)
    clock(lambda: target.copy_(source), 2)
    return 2 * source.numel() / clock(lambda: target.copy_(source), 10)


def systems(device: torch.device) -> tuple[list[System], list[str]]:
    """What can be measured here, and what cannot with the reason."""
    only_on_cpus = {"torch reduce"} if device.type == "cuda" else set()
    found: list[System] = []
    notes = []
    for name in MODULES:
        try:
            made = [system() for system in importlib.import_module(f"systems.{name}").SYSTEMS]
            found += [system for system in made if system.name not in only_on_cpus]
        except ImportError as error:
            notes.append(f"{name.removesuffix('_system')} is not measured: {error}")
    return found, notes


def all_cases(options: argparse.Namespace) -> list[Case]:
    """The most telling ones first, should time be short."""
    found = []
    for each in options.passes:
        for dtype in options.dtypes:
            for op in options.ops:
                if dtype != "float32" and not options.all and op not in SHORT:
                    continue
                for heads in (0, HEADS) if op in HEADED else (0,):
                    widths = [max(1, heads)] if op == "edge_softmax" else options.widths
                    for width in widths:
                        found.append(Case(op, width, heads, dtype, backward=each == "both"))
    return found


def inputs_of(case: Case, edges: graphs.EdgeList, device: torch.device) -> dict[str, Tensor]:
    shapes = cases.shapes(case, edges)
    if not case.backward:
        shapes.pop("out")
    generator = torch.Generator(device).manual_seed(0)
    return {role: torch.randn(s, device=device, generator=generator) for role, s in shapes.items()}


def common(prepared: Prepared) -> dict[str, Tensor]:
    """The results of a step in the layout that all systems share."""
    found = {}
    for role, tensor in prepared.run().items():
        left = prepared.operator.leave.get(role, lambda t: t)(tensor)
        found[role] = torch.nan_to_num(left.float(), posinf=0, neginf=0)
    return found


def difference(found: dict[str, Tensor], wanted: dict[str, Tensor], ties: bool = False) -> float:
    """The largest one, as a share of the largest number of the same result.

    With `ties`, one number of 10,000 may be any: of sources that are the greatest together others
    get the gradient.
    """
    shares = [0.0]
    for role, tensor in wanted.items():
        if count := tensor.numel():
            off = (found[role].reshape(tensor.shape) - tensor).abs().flatten()
            off = off.kthvalue(count - count // 10_000).values if ties else off.max()
            shares.append(float(off / tensor.abs().max().clamp(min=1e-30)))
    return max(shares)


class Measurement:
    """One case on one graph: seconds per system and round, and what was said about results."""

    def __init__(self, case: Case, edges: Edges, inputs: dict[str, Tensor]) -> None:
        self.case, self.edges, self.inputs = case, edges, inputs
        self.seconds: dict[str, list[float]] = {}
        self.notes: dict[str, str] = {}
        self.differs: set[str] = set()

    def prepare(self, system: System, case: Case) -> Prepared:
        given = {role: tensor.clone() for role, tensor in self.inputs.items()}
        return Prepared(system.operator(case, self.edges), case, self.edges, given)

    def attempt(self, name: str, function: Callable, *arguments: Any) -> Any:
        """What it returns, or None and a note. A GPU that is in disorder ends the program."""
        try:
            return function(*arguments)
        except Unsupported:
            return None
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
            self.notes[name] = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
            if "CUDA error" in str(error):
                raise SystemExit(f"{name}, {self.case}: {error}") from None
            return None

    def run(self, every: list[System], clock: Clock, rounds: int, most_calls: int) -> None:
        """Prepares, compares, and measures round by round."""
        wanted = self.reference(every)
        ready: dict[str, tuple[Prepared, int]] = {}
        for system in every:
            prepared = self.attempt(system.name, self.prepare, system, self.case)
            found = prepared and self.attempt(system.name, common, prepared)
            once = found and self.attempt(system.name, clock, prepared.step, 2)
            if not once:
                continue
            ready[system.name] = (prepared, max(2, min(most_calls, int(AIM / once))))
            ties = self.case.op.endswith(("_max", "_min"))
            off = difference(found, wanted, ties) if wanted else 0.0
            if not off <= TOLERANCE[self.case.dtype]:
                self.differs.add(system.name)
                self.notes[system.name] = f"DIFFERS by {off:.2g} of the largest number"
        names = list(ready)
        for turn in range(rounds):
            shift = turn % max(1, len(names))
            for name in names[shift:] + names[:shift]:
                prepared, calls = ready[name]
                taken = self.attempt(name, clock, prepared.step, calls)
                self.seconds.setdefault(name, []).extend([taken] if taken else [])

    def reference(self, every: list[System]) -> dict[str, Tensor] | None:
        """The results in float32 of the first system of REFERENCES that has them."""
        wide = dataclasses.replace(self.case, dtype="float32")
        for system in sorted(every, key=lambda each: each.name != REFERENCES[0]):
            if system.name in REFERENCES:
                prepared = self.attempt(system.name, self.prepare, system, wide)
                found = prepared and self.attempt(system.name, common, prepared)
                if found:
                    return found
        return None

    def ratio(self, peer: str, ours: str) -> float:
        pairs = list(zip(self.seconds.get(peer, []), self.seconds.get(ours, [])))
        return statistics.median(a / b for a, b in pairs) if pairs else math.nan


class Tables:
    """A row for each measurement, and geometric means over graphs and widths."""

    def __init__(self, title: list[str], peers: list[str], copied: float) -> None:
        self.title, self.peers, self.copied = title, peers, copied
        self.rows: list[str] = []
        self.notes: list[str] = []
        self.ratios: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, graph: str, edges: graphs.EdgeList, measured: Measurement) -> list[str]:
        """The new lines."""
        case = measured.case
        lines = []
        for ours, label in ((OURS, ""), (SORTED, report.SORTED_LABEL)):
            if not measured.seconds.get(ours):
                continue
            each = "fwd + bwd" if case.backward else "fwd"
            group = f"{case.op}{', heads' if case.heads else ''}{label}, {case.dtype}, {each}"
            ratios = {peer: measured.ratio(peer, ours) for peer in self.peers}
            cells = []
            for peer, ratio in ratios.items():
                known = not math.isnan(ratio)
                self.ratios[group, peer] += [ratio] if known else []
                star = "*" if peer in measured.differs else ""
                cells.append(f"{ratio:.2f}{star}" if known else "-")
            seconds = statistics.median(measured.seconds[ours])
            for moved in cases.bounds(case, edges, id_bytes=4) or ():
                rate = moved / seconds
                cells += [f"{rate / 1e9:.0f}", f"{rate / self.copied:.2f}"]
            first = [report.name(case) + label, graph, each, f"{1e3 * seconds:.4g}"]
            lines.append(report.line([*first, *cells]))
        notes = []
        for who, what in measured.notes.items():
            wide = who in measured.differs
            of = f"{report.name(case)}, {graph}" if wide else f"{case.op}, {case.dtype}"
            notes.append(f"{who}, {of}: {what}")
        notes = [note for note in notes if note not in self.notes]
        self.rows += lines
        self.notes += notes
        return lines + notes

    def header(self) -> str:
        columns = ["operation", "graph", "pass", "ours, ms", *self.peers]
        for kind in ("compulsory", "gather"):
            columns += [f"GB/s {kind}", "of copy"]
        return report.header(columns)

    def means(self) -> str:
        groups = list(dict.fromkeys(group for group, _ in self.ratios))
        lines = [report.header(["peer / ours, geometric mean", *self.peers])]
        for group in groups:
            found = [self.ratios.get((group, peer), []) for peer in self.peers]
            cells = [f"{report.geomean(each):.2f}" if each else "-" for each in found]
            lines.append(report.line([group, *cells]))
        return "\n".join(lines)

    def text(self) -> str:
        notes = [f"* {note}" for note in self.notes]
        parts = [*self.title, self.means(), "\n".join([self.header(), *self.rows])]
        return "\n\n".join([*parts, "\n".join(notes)]).rstrip() + "\n"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--device", choices=["cuda", "cpu"], default="cuda")
    add("--ops", nargs="*", default=list(OPS), choices=[*OPS, "copy_u_mean", "copy_u_min"])
    add("--graphs", nargs="*", default=list(GRAPHS), choices=GRAPHS)
    add("--widths", nargs="*", type=int, help="16 64 128 256 512, or 16 and 64 on the CPU")
    add("--dtypes", nargs="*", default=list(TOLERANCE), choices=TOLERANCE)
    add("--passes", nargs="*", default=["fwd", "both"], choices=["fwd", "both"])
    add("--all", action="store_true", help="all operations in half precision too")
    add("--rounds", type=int, default=3)
    add("--calls", type=int, default=20, help="of a system in a round, at most")
    add("--seconds", type=float, default=math.inf, help="no case is begun after so many")
    add("--markdown", type=pathlib.Path, help="a file for the tables")
    options = parser.parse_args()
    options.widths = options.widths or (
        [16, 64, 128, 256, 512] if options.device == "cuda" else [16, 64]
    )
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch finds no GPU here, so nothing was measured; try --device cpu")
    return options


def loaded(names: list[str], device: torch.device) -> dict[str, tuple[graphs.EdgeList, Edges]]:
    """Each graph as the formulas of bytes and as the systems want it."""
    found = {}
    shrink = 1 if device.type == "cuda" else 500
    for name in names:
        make, nodes, count = GRAPHS[name]
        src, dst = make(np.random.default_rng(0), nodes // shrink, count // shrink)
        ends = [torch.from_numpy(x).to(device, torch.int32) for x in (src, dst)]
        edges = graphs.EdgeList(name, src, dst, nodes // shrink)
        found[name] = (edges, Edges(*ends, nodes // shrink))
    return found


def main() -> None:
    started, options = time.perf_counter(), parsed()
    device = torch.device(options.device)
    clock = Clock(device)
    copied = copy_bandwidth(clock, device)
    every, notes = systems(device)
    peers = [system.name for system in every if system.name not in (OURS, SORTED)]
    name = torch.cuda.get_device_name() if clock.is_cuda else "the CPU: no figures"
    title = [
        f"## Kernels on {name}",
        f"smex {smex.__version__}, torch {torch.__version__}, int32 ids. A copy in device memory "
        f"moves {copied / 1e9:.0f} GB/s. Under each peer is its time over ours, with * where its "
        "result differs.",
        *notes,
    ]
    tables = Tables(title, peers, copied)
    print(*title, tables.header(), sep="\n\n", flush=True)
    built = loaded(options.graphs, device)
    wanted = [(case, graph) for case in all_cases(options) for graph in options.graphs]
    measured = wrong = 0
    for case, graph in wanted:
        if time.perf_counter() - started > options.seconds:
            break
        edges, structure = built[graph]
        size = cases.WIDTH_SIZED[case.dtype] * case.width * edges.num_edges
        if case.op == "copy_e_sum" and size > MOST_BYTES:
            continue
        found = Measurement(case, structure, inputs_of(case, edges, device))
        found.run(every, clock, options.rounds, options.calls)
        print(*tables.add(graph, edges, found), sep="\n", flush=True)
        measured += 1
        wrong += bool({OURS, SORTED} & found.differs) or not found.seconds.get(OURS)
        if options.markdown:
            options.markdown.write_text(tables.text())
        if clock.is_cuda:
            torch.cuda.empty_cache()
    print(f"\n{tables.means()}\n\n{measured} cases measured of {len(wanted)}, {wrong} wrong")
    if wrong or not measured:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

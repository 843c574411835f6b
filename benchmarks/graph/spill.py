"""Tiles that leave a device whose memory is too small: bytes that move, and seconds of a step.

    python benchmarks/graph/spill.py [--quick] [--parts dags reddit step] [--rounds 9]

"dags" are random lists of operators, whose fewest bytes an integer program knows (HiGHS, by
scipy.optimize.milp). "reddit" are a training step's lists on a random graph of Reddit's size,
232,965 nodes, 114.6 million edges, layers of 602, 256 and 41 numbers: those of programs that smex
makes, and the list of operators of ROC's own GCN, at 20 capacities from the least that works to
where nothing leaves. Nothing of it is computed. "step" is a GCN that is trained, with and without a
limit, in turns. "None" lets all leave after each instruction, "LRU" what was used the longest ago,
"Belady" what is used again the latest. "Compulsory" is what comes and is written at any capacity.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import statistics
import sys
import time
from collections.abc import Iterator

import report
import torch
from networks import GCN, SAGE
from torch import nn
from torch.nn import functional

import smex
import smex.graph as sg
from smex import _C
from smex.planning.placed import view_targets

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "python"))
from support.transfers import fewest_bytes, most_alive, random_dag

NODES, EDGES = 232_965, 114_615_892
LAYERS = (602, 256, 41)
QUICK = 50
SHARES = 20  # of what lies between the least and the most: so many capacities are held to the bars
PRINTED = 4  # every so many of them are lines of the table
LONG = 4  # steps, after which what is used again counts as kept for long
SMALL = 0.01  # of the capacity, below which a tensor does not matter
POLICIES = ("none", "lru", "belady", "dp")
DAG_SHARES = (0.0, 0.1, 0.3, 0.6)
BARS = {"none / DP": 3.0, "LRU / DP": 1.4}
STEP_LAYERS = (128, 128, 32)
STEP_NODES, STEP_EDGES = 100_000, 2_000_000


# ---- random lists ----


def tell_dags(count: int) -> None:
    """Prints how often each policy moves as few bytes as an integer program finds."""
    equal = dict.fromkeys(POLICIES, 0)
    ratios: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    proven = 0
    for seed in range(count):
        of = seed // 2  # both of equal sizes and of unequal ones
        share = DAG_SHARES[of % len(DAG_SHARES)]
        problem = random_dag(of, steps=8 + of % 9, equal=seed % 2 == 0, share=share)
        least = fewest_bytes(problem)
        for policy in POLICIES:
            found = _C.schedule_transfers(problem, policy)
            moved = found.to_host + found.to_device
            equal[policy] += moved == least
            ratios[policy].append(moved / least)
            proven += policy == "dp" and found.least == moved
    print(
        f"{count} random lists of 8 to 16 operators; {proven} of DP's schedules proven by itself\n"
    )
    print(report.header(["policy", "as few bytes as the integer program", "geomean", "largest"]))
    for policy in POLICIES:
        cells = [f"{equal[policy]} of {count}", f"{report.geomean(ratios[policy]):.3f}"]
        print(report.line([words(policy), *cells, f"{max(ratios[policy]):.2f}"]))


def words(policy: str) -> str:
    return {"none": "none", "lru": "LRU", "belady": "Belady", "dp": "DP"}[policy]


# ---- Reddit's shapes ----


def random_graph(num_nodes: int, num_edges: int, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    ends = (
        torch.randint(num_nodes, (num_edges,), dtype=torch.int32, generator=generator)
        for _ in range(2)
    )
    return sg.graph(tuple(ends), num_nodes=num_nodes)


def undirected_graph(num_nodes: int, num_edges: int):
    """A ring in which each node has edges from and to as many on both sides; sorted."""
    sides = torch.arange(1, num_edges // num_nodes // 2 + 1, dtype=torch.int32)
    nodes = torch.arange(num_nodes, dtype=torch.int32).unsqueeze(1)
    ends = ((nodes + torch.cat([-sides, sides])) % num_nodes).sort(dim=1).values
    return sg.graph((nodes.expand_as(ends).reshape(-1), ends.reshape(-1)), num_nodes=num_nodes)


def lowered(model: nn.Module, g) -> _C.SpillProblem:
    """The list of a training step of one worker, as smex lowers it."""
    x = torch.empty(g.num_nodes(), LAYERS[0], device="meta")
    target = torch.empty(g.num_nodes(), dtype=torch.long, device="meta")
    graph = smex.capture_graph(model, (g, x, target), loss_fn=functional.cross_entropy)
    free = smex.search(graph, 1, device_memory=2**50)  # what is the same tensor is one
    return _C.spill_problem(free.program(), 0, 0, view_targets(graph))


class Operators:
    """A list of steps, written by hand."""

    def __init__(self) -> None:
        self.blocks: list[tuple[int, list[int], bool, bool]] = []
        self.num_steps = 0

    def tensor(self, nbytes: int, on_host: bool = False, kept: bool = False) -> int:
        self.blocks.append((nbytes, [], on_host, kept))
        return len(self.blocks) - 1

    def step(self, *used: int) -> None:
        for block in used:
            self.blocks[block][1].append(self.num_steps)
        self.num_steps += 1

    def problem(self) -> _C.SpillProblem:
        blocks = [_C.SpillBlock(*block) for block in self.blocks if block[1]]
        return _C.SpillProblem(self.num_steps, 0, blocks)


def roc_operators(num_nodes: int, num_edges: int, dropout: bool) -> _C.SpillProblem:
    """The operators of ROC's GCN (gnn.cc): dropout, linear, norm, gather, norm and ReLU a layer.

    Backward, a linear operator reads its input, the weight and its result's gradient, ReLU and
    dropout their results. One list of edges serves both ways, as the graph is symmetric.
    """
    ops = Operators()

    def rows(width: int) -> int:
        return ops.tensor(4 * num_nodes * width)

    edges = ops.tensor(4 * num_edges + 8 * (num_nodes + 1), on_host=True)
    x = ops.tensor(4 * num_nodes * LAYERS[0], on_host=True)
    label = ops.tensor(4 * num_nodes * LAYERS[-1], on_host=True)
    saved = []
    for n, (width, out) in enumerate(itertools.pairwise(LAYERS)):
        weight = ops.tensor(4 * width * out, on_host=True)
        if dropout:
            dropped = rows(width)
            ops.step(x, dropped)
            x = dropped
        linear, normed, summed, result = (rows(out) for _ in range(4))
        ops.step(x, weight, linear)
        ops.step(linear, normed)
        ops.step(edges, normed, summed)
        ops.step(summed, result)
        relu = rows(out) if n + 2 < len(LAYERS) else None
        if relu is not None:
            ops.step(result, relu)
        saved.append((x, weight, width, out, relu))
        x = result if relu is None else relu
    gradient = rows(LAYERS[-1])
    ops.step(x, label, gradient)
    for n, (x, weight, width, out, relu) in reversed(list(enumerate(saved))):
        if relu is not None:
            before = rows(out)
            ops.step(relu, gradient, before)
            gradient = before
        of_summed, of_normed, of_linear = (rows(out) for _ in range(3))
        ops.step(gradient, of_summed)
        ops.step(edges, of_summed, of_normed)
        ops.step(of_normed, of_linear)
        of_weight = ops.tensor(4 * width * out, kept=True)
        if n == 0:
            ops.step(x, of_linear, of_weight)
            break
        of_input = rows(width)
        ops.step(x, weight, of_linear, of_weight, of_input)
        gradient = of_input
        if dropout:
            before = rows(width)
            ops.step(x, gradient, before)
            gradient = before
    return ops.problem()


def reddit_lists(num_nodes: int, num_edges: int) -> Iterator[tuple[str, str, _C.SpillProblem]]:
    """Groups, names and lists."""
    g = undirected_graph(num_nodes, num_edges)
    with torch.device("meta"):
        models = {
            "GCN": GCN(LAYERS),
            "GCN with dropout": GCN(LAYERS, dropout=0.5),
            "GraphSAGE": SAGE(LAYERS),
            "GCN, 3 layers": GCN((LAYERS[0], LAYERS[1], LAYERS[1], LAYERS[2])),
        }
    for name, model in models.items():
        yield "lowered", name, lowered(model, g)
    g = random_graph(num_nodes, num_edges)
    for name in ("GCN", "GCN with dropout"):
        yield "lowered, directed", name, lowered(models[name], g)
    yield "ROC's operators", "GCN", roc_operators(num_nodes, num_edges, dropout=False)
    yield "ROC's operators", "GCN with dropout", roc_operators(num_nodes, num_edges, dropout=True)


def compulsory(problem: _C.SpillProblem) -> int:
    """Bytes that move at any capacity: what is on the host comes, what it is to have is written."""
    return sum(b.bytes for b in problem.blocks if b.uses and (b.on_host or b.kept))


def long_kept(problem: _C.SpillProblem) -> tuple[int, int]:
    """Tensors that matter, and how many of them are used again after more than LONG steps."""
    large = SMALL * max(problem.bytes_of_steps())
    blocks = [block.uses for block in problem.blocks if block.uses and block.bytes >= large]
    return len(blocks), sum(
        any(b - a > LONG for a, b in itertools.pairwise(uses)) for uses in blocks
    )


def tell_reddit(num_nodes: int, num_edges: int) -> None:
    print(f"{num_nodes} nodes, {num_edges} edges, layers {LAYERS}; GB of a training step\n")
    columns = ("list", "network", "capacity", *map(words, POLICIES), "bound", "compulsory")
    print(report.header([*columns, "none / DP", "LRU / DP"]))
    kept = []
    best: dict[tuple[str, str], list[float]] = {}
    for group, name, problem in reddit_lists(num_nodes, num_edges):
        least, most = max(problem.bytes_of_steps()), most_alive(problem)
        kept.append([group, name, problem.num_steps, *long_kept(problem)])
        for share in range(SHARES):
            problem.capacity = least + share * (most - least) // SHARES
            found = {policy: _C.schedule_transfers(problem, policy) for policy in POLICIES}
            moved = {policy: of.to_host + of.to_device for policy, of in found.items()}
            ratios = [moved[policy] / moved["dp"] for policy in ("none", "lru")]
            for bar, ratio in zip(BARS, ratios):
                best.setdefault((bar, group), []).append(ratio)
            if share % PRINTED:
                continue
            numbers = [problem.capacity, *moved.values(), found["dp"].least, compulsory(problem)]
            cells = [f"{number / 1e9:.3f}" for number in numbers]
            print(report.line([group, name, *cells, *(f"{r:.2f}" for r in ratios)]), flush=True)
    print("\n" + report.header(["list", "network", "instructions", "tensors", "kept for long"]))
    for cells in kept:
        print(report.line(cells))
    print("\n" + report.header(["bar", "lists", "ratios", "required", "met"]))
    for (bar, group), ratios in sorted(best.items()):
        met = sum(ratio >= BARS[bar] for ratio in ratios)
        told = (
            "met" if met == len(ratios) else f"met at {met} of {len(ratios)}" if met else "missed"
        )
        between = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(report.line([bar, group, between, f"≥ {BARS[bar]}", told]))


# ---- a step ----


def step_seconds(net: nn.Module, optimizer, inputs: tuple) -> tuple[float, torch.Tensor]:
    started = time.perf_counter()
    optimizer.zero_grad()
    loss = net(*inputs)
    loss.backward()
    optimizer.step()
    return time.perf_counter() - started, loss.detach()


def tell_step(num_nodes: int, num_edges: int, rounds: int) -> None:
    """Trains the same network without a limit and with several, in turns."""
    g = random_graph(num_nodes, num_edges)
    torch.manual_seed(0)
    x = torch.randn(num_nodes, STEP_LAYERS[0])
    inputs = (g, x, torch.randint(STEP_LAYERS[-1], (num_nodes,)))
    nets: dict[float | None, smex.PartitionedModule] = {}
    limits: dict[float | None, int | None] = {None: None}

    def made(limit: int | None) -> smex.PartitionedModule:
        torch.manual_seed(1)
        loss_fn = functional.cross_entropy
        model = GCN(STEP_LAYERS)
        return smex.partition(model, 1, loss_fn=loss_fn, args=inputs, device_memory=limit)

    nets[None] = made(None)
    graph = nets[None].plan.graph
    program = smex.search(graph, 1, device_memory=2**50).program()
    problem = _C.spill_problem(program, 0, 0, view_targets(graph))
    least, most = max(problem.bytes_of_steps()), most_alive(problem)
    for share in (1.0, 0.5, 0.1):
        limits[share] = least + int(share * (most - least))
        nets[share] = made(limits[share])
    optimizers = {key: torch.optim.SGD(net.parameters(), lr=0.1) for key, net in nets.items()}
    seconds: dict[float | None, list[float]] = {key: [] for key in nets}
    for turn in range(rounds + 1):
        losses = []
        for key, net in nets.items():
            took, loss = step_seconds(net, optimizers[key], inputs)
            losses.append(loss)
            if turn:
                seconds[key].append(took)
        if not all(torch.equal(loss, losses[0]) for loss in losses):
            raise SystemExit("a limit changed the loss")
    print(f"{num_nodes} nodes, {num_edges} edges, GCN of layers {STEP_LAYERS}, {rounds} rounds of "
          f"one step each, {torch.get_num_threads()} threads\n")  # fmt: skip
    print(report.header(["limit, MB", "peak, MB", "moved, MB", "predicted, MB", "ms", "ratio"]))
    for key, net in nets.items():
        stats = net.stats()
        counted, predicted = (sum(stats.get(name, {}).values())
                              for name in ("spilled_bytes", "predicted_spilled_bytes"))  # fmt: skip
        if counted != predicted:
            raise SystemExit(f"{counted} bytes were moved, {predicted} predicted")
        ratio = statistics.median(a / b for a, b in zip(seconds[key], seconds[None]))
        times = [1e3 * s for s in seconds[key]]
        told = f"{statistics.median(times):.0f} [{min(times):.0f}, {max(times):.0f}]"
        limit = "none" if key is None else f"{limits[key] / 1e6:.1f}"
        sizes = [f"{n / 1e6:.1f}" for n in (max(stats["peak_bytes"]), counted, predicted)]
        print(report.line([limit, *sizes, told, f"{ratio:.2f}"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="everything smaller: no figures")
    parser.add_argument("--parts", nargs="*", default=["dags", "reddit", "step"],
                        choices=["dags", "reddit", "step"])  # fmt: skip
    parser.add_argument("--dags", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    small = QUICK if options.quick else 1
    print(f"torch {torch.__version__}, smex {smex.__version__}")
    if "dags" in options.parts:
        print("\n## Random lists\n")
        tell_dags(options.dags // (10 if options.quick else 1))
    if "reddit" in options.parts:
        print("\n## Reddit's shapes\n")
        tell_reddit(NODES // small, EDGES // small)
    if "step" in options.parts:
        print("\n## A step\n")
        tell_step(STEP_NODES // small, STEP_EDGES // small, options.rounds)


if __name__ == "__main__":
    main()

"""Whether what 2 threads fail to gain is processors or memory.

    python benchmarks/graph/threads.py [--graph uniform] [--width 64]

For each operator the time with 1 and 2 threads, in turns, and the processors that were busy with 2
(CPU seconds over seconds, at best 2). A fill and a copy of as many numbers as there are edges times
features are the bound: they do nothing but write, or read and write.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import graphs
import torch

import smex.graph as sg
from smex.graph import ops

ROUNDS = 7


def gradient(function: Callable, *inputs: torch.Tensor) -> Callable[[], object]:
    """The backward pass of a function alone."""
    result = function(*inputs)
    grad = torch.randn(result.shape)
    return lambda: torch.autograd.grad(result, inputs, grad, retain_graph=True)


def cases(g: sg.Graph, width: int) -> dict[str, Callable[[], Callable]]:
    """What prepares each operation."""
    nodes, edges = g.num_nodes(), g.num_edges()
    x = torch.randn(nodes, width, requires_grad=True)
    e = torch.randn(edges, width, requires_grad=True)
    heads = torch.randn(nodes, 8, width // 8)
    weight = torch.randn(edges, 1, requires_grad=True)
    scores = torch.randn(edges, 8, 1, requires_grad=True)
    return {
        "fill": lambda: lambda: torch.zeros(edges, width),
        "copy": lambda: e.detach().clone,
        "copy_u sum": lambda: lambda: ops.copy_u_sum(g, x.detach()),
        "u_dot_v, 8 heads": lambda: lambda: ops.u_dot_v(g, heads, heads),
        "u_add_v": lambda: lambda: ops.u_add_v(g, x.detach(), x.detach()),
        "edge softmax, 8 heads": lambda: lambda: ops.edge_softmax(g, scores.detach()),
        "copy_u max, backward": lambda: gradient(lambda x: ops.copy_u_max(g, x), x),
        "u_mul_e max, backward": lambda: gradient(lambda x, w: ops.u_mul_e_max(g, x, w), x, weight),
        "copy_e sum, backward": lambda: gradient(lambda e: ops.copy_e_sum(g, e), e),
        "u_add_v, backward": lambda: gradient(lambda x: ops.u_add_v(g, x, x), x),
        "edge softmax, 8 heads, backward": lambda: gradient(
            lambda s: ops.edge_softmax(g, s), scores
        ),
    }


def measured(run: Callable) -> tuple[float, float]:
    """Seconds, and the processors that were busy."""
    processor, start = time.process_time(), time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    return seconds, (time.process_time() - processor) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graph", default="uniform", choices=graphs.SYNTHETIC)
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args()
    edges = graphs.load(options.graph)
    ids = [torch.from_numpy(side).int() for side in (edges.src, edges.dst)]
    g = sg.graph(tuple(ids), num_nodes=edges.num_nodes)
    g.create_formats_()
    print(f"torch {torch.__version__}, {options.graph}, F = {options.width}\n")
    print("| operation | 1 thread, ms | 2 threads, ms | speed-up | busy |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, prepare in cases(g, options.width).items():
        run = prepare()
        rounds: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
        for number in range(ROUNDS + 1):
            for threads, results in rounds.items():
                torch.set_num_threads(threads)
                if number:  # the first one warms up
                    results.append(measured(run))
                else:
                    run()
        (one, _), (two, busy) = (sorted(results)[ROUNDS // 2] for results in rounds.values())
        print(f"| {name} | {one * 1e3:.1f} | {two * 1e3:.1f} | {one / two:.2f} | {busy:.2f} |")


if __name__ == "__main__":
    main()

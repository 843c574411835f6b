"""Norms, softmax and sums along rows as a part of element-wise programs, and as calls of their own.

    python benchmarks/vertex/along_rows.py [CASE ...] [--batches 1 8 64] [--hidden 64 256]
        [--threads 1 2] [--rounds 60]

A step is forward, a sum over all states, and backward, of a cell over chains of 20 vertices, or of
a network of experts.py. Each is traced twice, once without the calls of norms.py in programs, which
are ATen's then; both take turns. Before, both have to give the same gradients.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import experts
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import smex.vertex as sv
from smex.vertex.compile import norms

LENGTH = 20


class Cell(sv.VertexFunction):
    """Layers of the input and of the state before."""

    arity = 1

    def __init__(self, hidden: int, gates: int = 1, **states: int):
        super().__init__(h=hidden, **states)
        self.w = nn.Linear(hidden, gates * hidden)
        self.u = nn.Linear(hidden, gates * hidden, bias=False)

    def both(self) -> Tensor:
        return self.w(self.pull()) + self.u(self.gather(0).h)


class RMSNormed(Cell):
    def __init__(self, hidden: int):
        super().__init__(hidden)
        self.norm = nn.RMSNorm(hidden)

    def forward(self):
        self.scatter(self.norm(torch.relu(self.both())))


class NormedLSTM(Cell):
    """An LSTM with a layer norm of the gates and one of the cell (Ba et al. 2016)."""

    def __init__(self, hidden: int):
        super().__init__(hidden, 4, c=hidden)
        self.of_gates, self.of_cell = nn.LayerNorm(4 * hidden), nn.LayerNorm(hidden)

    def forward(self):
        i, f, g, o = self.of_gates(self.both()).chunk(4, 1)
        c = torch.sigmoid(f) * self.gather(0).c + torch.sigmoid(i) * torch.tanh(g)
        self.scatter(torch.sigmoid(o) * torch.tanh(self.of_cell(c)), c)


class Softmax(Cell):
    def forward(self):
        self.scatter(self.both().softmax(1) * self.gather(0).h + self.pull())


class Normalized(Cell):
    def forward(self):
        self.scatter(F.normalize(torch.tanh(self.both()), dim=1))


CELLS = {
    "RMSNorm": RMSNormed,
    "LayerNorm LSTM": NormedLSTM,
    "softmax": Softmax,
    "normalize": Normalized,
}
NETWORKS = ("molecule", "attention")


def network(name: str, samples: int, hidden: int) -> tuple[nn.Module, Callable[[], Any]]:
    """A network, and its step."""
    torch.manual_seed(0)
    if name in NETWORKS:
        kind, trees = experts.CASES[name]
        case = kind(trees(samples), hidden)
        return case.function, case.ours
    function, batch = CELLS[name](hidden), sv.batch([sv.chain(LENGTH)] * samples)
    x = torch.randn(samples * LENGTH, hidden)
    return function, lambda: sv.run(function, batch, x).states["h"].sum().backward()


def gradients(function: nn.Module, step: Callable[[], Any]) -> list[Tensor]:
    for parameter in function.parameters():
        parameter.grad = None
    step()
    return [p.grad for p in function.parameters() if p.grad is not None]


def measured(name: str, samples: int, hidden: int, rounds: int) -> tuple[float, float, float]:
    """Medians of the milliseconds apart and in programs, and of their ratio."""
    known = norms.rows_of
    norms.rows_of = lambda call: None
    try:
        apart = network(name, samples, hidden)
        expected = gradients(*apart)
    finally:
        norms.rows_of = known
    together = network(name, samples, hidden)
    for one, other in zip(gradients(*together), expected, strict=True):
        scale = float(other.abs().max())
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2 * scale)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for taken, (function, step) in zip(times, (apart, together)):
            for parameter in function.parameters():
                parameter.grad = None
            start = time.perf_counter()
            step()
            taken.append(1e3 * (time.perf_counter() - start))
    ratio = statistics.median(a / b for a, b in zip(*times))
    return statistics.median(times[0]), statistics.median(times[1]), ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*CELLS, *NETWORKS]
    parser.add_argument("cases", nargs="*", default=[], choices=[*names, []], metavar="CASE")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    print(f"torch {torch.__version__}; milliseconds in programs, and those of calls over these\n")
    sizes = [(samples, hidden) for samples in options.batches for hidden in options.hidden]
    print("| | threads |", " | ".join(f"{samples} × {hidden}" for samples, hidden in sizes), "|")
    print("|---|---:|" + "---:|" * len(sizes))
    for name in options.cases or names:
        for threads in options.threads:
            torch.set_num_threads(threads)
            cells = []
            for samples, hidden in sizes:
                _, together, ratio = measured(name, samples, hidden, options.rounds)
                cells.append(f"{together:.2f} ({ratio:.2f})")
            print(f"| {name} | {threads} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()

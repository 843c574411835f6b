"""Vertices of several types: their tasks beside each other, and one after the other.

    python benchmarks/vertex/several_types.py [--batches 1 8 64] [--hidden 64 256] [--threads 2]
        [--rounds 9]

A step is forward, a sum over all states, and backward. With `beside` a thread runs each of the
tasks that are ready together, where that is expected to be faster; without, all threads run one
after the other. One thread is told too; all take turns in each round. Models: the two directions of
an LSTM (Graves and Schmidhuber 2005), and trees of four types of phrases, each with its own weights
(Socher et al. 2013, Parsing with compositional vector grammars).
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

import smex.vertex as sv

INPUTS, LENGTH, LEAVES, PHRASES = 64, 30, 30, 4


class Direction(sv.VertexFunction):
    """An LSTM's step."""

    def __init__(self, hidden: int):
        super().__init__(h=hidden, c=hidden)
        self.x, self.u = nn.Linear(INPUTS, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self):
        before = self.gather(0)
        h, c = sv.lstm(self.x(self.pull()) + self.u(before.h), before.c)
        self.scatter(h, c)


class Word(sv.VertexFunction):
    """A leaf."""

    arity = 0

    def __init__(self, hidden: int):
        super().__init__(h=hidden)
        self.x = nn.Linear(INPUTS, hidden)

    def forward(self):
        self.scatter(torch.tanh(self.x(self.pull())))


class Phrase(sv.VertexFunction):
    """What two phrases are together, by the weights of its type."""

    arity = 2

    def __init__(self, hidden: int):
        super().__init__(h=hidden)
        self.u = nn.Linear(2 * hidden, hidden)

    def forward(self):
        both = torch.cat([self.gather(0).h, self.gather(1).h], 1)
        self.scatter(torch.tanh(self.u(both)))


def directions(samples: int, hidden: int) -> tuple[nn.ModuleDict, sv.GraphBatch]:
    """Both directions over sentences."""
    onward = [[v - 1] if v else [] for v in range(LENGTH)]
    backward = [[LENGTH + v - 1] if v else [] for v in range(LENGTH)]
    types = ["onward"] * LENGTH + ["backward"] * LENGTH
    graph = sv.from_children([*onward, *backward], types=types)
    functions = nn.ModuleDict({"onward": Direction(hidden), "backward": Direction(hidden)})
    return functions, sv.batch([graph] * samples)


def phrases(samples: int, hidden: int) -> tuple[nn.ModuleDict, sv.GraphBatch]:
    """Random binary trees of words and phrases."""
    draw = random.Random(0)
    graphs = []
    for _ in range(samples):
        children: list[list[int]] = [[] for _ in range(LEAVES)]
        open_ones = list(range(LEAVES))
        while len(open_ones) > 1:
            at = draw.randrange(len(open_ones) - 1)
            children.append(open_ones[at : at + 2])
            open_ones[at : at + 2] = [len(children) - 1]
        types = [f"phrase {draw.randrange(PHRASES)}" if c else "word" for c in children]
        graphs.append(sv.from_children(children, types=types))
    functions = nn.ModuleDict({f"phrase {n}": Phrase(hidden) for n in range(PHRASES)})
    functions["word"] = Word(hidden)
    return functions, sv.batch(graphs)


MODELS: dict[str, Callable[[int, int], tuple[nn.ModuleDict, sv.GraphBatch]]] = {
    "two directions": directions,
    "types of phrases": phrases,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    print(
        "| model | samples | hidden | 1 thread, ms | in turn, ms | beside, ms | in turn / beside |"
        "\n|---|---:|---:|---:|---:|---:|---:|"
    )
    for name, make in MODELS.items():
        for samples in args.batches:
            for hidden in args.hidden:
                torch.manual_seed(0)
                functions, batch = make(samples, hidden)
                x = torch.randn(batch.num_vertices, INPUTS)
                found = measured(functions, batch, x, args.threads, args.rounds)
                one, turn, beside = (f"{1e3 * statistics.median(s):.2f}" for s in found)
                ratio = statistics.median(a / b for a, b in zip(found[1], found[2]))
                print(
                    f"| {name} | {samples} | {hidden} | {one} | {turn} | {beside} | {ratio:.2f} |"
                )


def measured(
    functions: nn.ModuleDict, batch: sv.GraphBatch, x: torch.Tensor, threads: int, rounds: int
) -> list[list[float]]:
    """Seconds of a step: one thread, all threads in turn, beside."""
    settings = [(1, True), (threads, False), (threads, True)]
    found: list[list[float]] = [[] for _ in settings]
    for round_number in range(rounds + 1):
        for seconds, (count, beside) in zip(found, settings):
            torch.set_num_threads(count)
            with sv.options(beside=beside):
                step(functions, batch, x)  # threads are awake
                begin = time.perf_counter()
                for _ in range(5):
                    step(functions, batch, x)
                if round_number:
                    seconds.append((time.perf_counter() - begin) / 5)
    return found


def step(functions: nn.ModuleDict, batch: sv.GraphBatch, x: torch.Tensor) -> None:
    """Forward and backward."""
    functions.zero_grad(set_to_none=True)
    states = sv.run(functions, batch, x).states
    sum(state.sum() for state in states.values()).backward()


if __name__ == "__main__":
    main()

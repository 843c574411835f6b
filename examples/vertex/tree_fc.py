"""Tree-FC: a fully connected layer over complete binary trees (Looks et al. 2017; Cavs §4).

    python examples/vertex/tree_fc.py [--leaves 256] [--batch 16] [--steps 30]

The network learns to tell whether more of the leaves' numbers are above 0 than below.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn

import smex.vertex as sv


class Leaf(sv.VertexFunction):
    """A leaf is its input."""

    arity = (0, 0)

    def __init__(self, hidden: int):
        super().__init__(h=hidden)
        self.w = nn.Linear(1, hidden)

    def forward(self):
        self.scatter(torch.tanh(self.w(self.pull())))


class Node(sv.VertexFunction):
    """A layer over the two children."""

    arity = 2

    def __init__(self, hidden: int):
        super().__init__(h=hidden)
        self.u = nn.Linear(2 * hidden, hidden)

    def forward(self):
        left, right = self.gather(0), self.gather(1)
        self.scatter(torch.tanh(self.u(torch.cat([left.h, right.h], 1))))


def complete(leaves: int) -> sv.InputGraph:
    """The complete binary tree over so many leaves, a power of two."""
    level, parents = list(range(leaves)), [-1] * (2 * leaves - 1)
    while len(level) > 1:
        above = range(level[-1] + 1, level[-1] + 1 + len(level) // 2)
        for i, child in enumerate(level):
            parents[child] = above[i // 2]
        level = list(above)
    types = ["leaf"] * leaves + ["node"] * (leaves - 1)
    return sv.from_parents(parents, types)


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leaves", type=int, default=256)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--steps", type=int, default=30)
    chosen = parser.parse_args(arguments)
    torch.manual_seed(0)
    functions = nn.ModuleDict({"leaf": Leaf(chosen.hidden), "node": Node(chosen.hidden)})
    classify = nn.Linear(chosen.hidden, 2)
    parameters = [*functions.parameters(), *classify.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=3e-3)
    batch = sv.batch([complete(chosen.leaves)] * chosen.batch)
    right = 0.0
    for step in range(chosen.steps):
        start = time.perf_counter()
        x = torch.randn(chosen.batch, chosen.leaves) + torch.randn(chosen.batch, 1)
        result = sv.run(functions, batch, {"leaf": x.view(-1, 1)})
        scores = classify(result.roots.states["h"])
        labels = (x > 0).float().mean(1).gt(0.5).long()
        loss = F.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right = 0.9 * right + 0.1 * float((scores.argmax(1) == labels).float().mean())
        if step % 10 == 0 or step == chosen.steps - 1:
            milliseconds = 1e3 * (time.perf_counter() - start)
            print(f"step {step}: loss {float(loss.detach()):.3f}, {milliseconds:.0f} ms")
    return right / (1 - 0.9**chosen.steps)


if __name__ == "__main__":
    main()

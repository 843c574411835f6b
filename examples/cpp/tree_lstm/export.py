"""Writes the parameters of a Tree-LSTM, trees, and their states for `main.cpp`.

python examples/cpp/tree_lstm/export.py FOLDER
"""

from __future__ import annotations

import argparse
import pathlib
import random
from typing import Any

import torch
from torch import nn

import smex.vertex as sv


class TreeLSTM(sv.VertexFunction):
    """The N-ary Tree-LSTM of Tai et al. (2015) for two children or none."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__(h=hidden, c=hidden)
        self.w = nn.Linear(inputs, 5 * hidden)
        self.u = nn.Linear(2 * hidden, 5 * hidden, bias=False)

    def forward(self) -> None:
        left, right = self.gather(0), self.gather(1)
        gates = self.w(self.pull()) + self.u(torch.cat([left.h, right.h], 1))
        h, c = sv.tree_lstm(gates, [left.c, right.c])
        self.scatter(h, c)


def random_tree(leaves: int) -> Any:
    """Nested pairs."""
    if leaves == 1:
        return "word"
    left = random.randrange(1, leaves)
    return random_tree(left), random_tree(leaves - left)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()

    torch.manual_seed(0)
    random.seed(0)
    trees = [sv.tree(random_tree(leaves)) for leaves in (1, 12, 5, 30, 2, 17)]
    sizes = [tree.num_vertices for tree in trees]
    x = torch.randn(sum(sizes), 24)
    function = TreeLSTM(24, 32)
    with torch.no_grad():
        roots = sv.run(function, trees, x).roots.states

    counts = [len(tree.children_of(v)) for tree in trees for v in range(tree.num_vertices)]
    children = [c for tree in trees for v in range(tree.num_vertices) for c in tree.children_of(v)]
    structure = [torch.tensor(numbers) for numbers in (sizes, counts, children)]
    parameters = [p.detach() for p in (function.w.weight, function.w.bias, function.u.weight)]

    options.folder.mkdir(parents=True, exist_ok=True)
    torch.save([*parameters, x, *structure], options.folder / "inputs.pt")
    torch.save([roots["h"], roots["c"]], options.folder / "expected.pt")


if __name__ == "__main__":
    main()

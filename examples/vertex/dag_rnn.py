"""A recurrent network over DAGs: values of arithmetic circuits whose gates share subterms.

    python examples/vertex/dag_rnn.py [--steps 300]

Vertices are inputs, and gates of two types, for the mean and the larger of two. The network is told
the inputs and learns the value of each circuit's output.
"""

from __future__ import annotations

import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn

import smex.vertex as sv


class Input(sv.VertexFunction):
    """A number."""

    arity = (0, 0)

    def __init__(self, hidden: int):
        super().__init__(h=hidden)
        self.w = nn.Linear(1, hidden)

    def forward(self):
        self.scatter(self.w(self.pull()))


class Gate(sv.VertexFunction):
    """What a type of gates makes of the two vertices it reads, in either order."""

    arity = 2

    def __init__(self, hidden: int):
        super().__init__(h=hidden)
        self.inner, self.outer = nn.Linear(hidden, 2 * hidden), nn.Linear(2 * hidden, hidden)

    def forward(self):
        left, right = self.gather(0).h, self.gather(1).h
        both = torch.relu(self.inner(left - right)) + torch.relu(self.inner(right - left))
        self.scatter((left + right) / 2 + self.outer(both))


def circuit(generator: random.Random) -> tuple[sv.InputGraph, list[float], float]:
    """A circuit, its inputs, and its output's value."""
    count = generator.randint(2, 5)
    values = [generator.uniform(-1, 1) for _ in range(count)]
    inputs = list(values)
    children: list[list[int]] = [[] for _ in range(count)]
    types = ["input"] * count
    for _ in range(generator.randint(1, 6)):
        pair = [len(values) - 1, generator.randrange(len(values) - 1)]
        kind = generator.choice(["mean", "max"])
        a, b = (values[v] for v in pair)
        values.append((a + b) / 2 if kind == "mean" else max(a, b))
        children.append(pair)
        types.append(kind)
    return sv.from_children(children, types), inputs, values[-1]


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=32)
    chosen = parser.parse_args(arguments)
    torch.manual_seed(0)
    generator = random.Random(0)
    hidden = chosen.hidden
    functions = nn.ModuleDict({"input": Input(hidden), "mean": Gate(hidden), "max": Gate(hidden)})
    read = nn.Linear(hidden, 1)
    optimizer = torch.optim.Adam([*functions.parameters(), *read.parameters()], lr=3e-3)
    error = 0.0
    for step in range(chosen.steps):
        graphs, inputs, values = zip(*(circuit(generator) for _ in range(chosen.batch)))
        x = torch.tensor([v for one in inputs for v in one]).view(-1, 1)
        result = sv.run(functions, list(graphs), {"input": x})
        # The last vertex of each circuit is its output.
        last = torch.tensor([g.num_vertices for g in graphs]).cumsum(0) - 1
        found = read(result.states["h"][last]).squeeze(1)
        loss = F.mse_loss(found, torch.tensor(values))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        error = float(loss.detach()) ** 0.5
        if step % 50 == 0 or step == chosen.steps - 1:
            print(f"step {step}: root mean square error {error:.3f}, {result.num_tasks} tasks")
    return error


if __name__ == "__main__":
    main()

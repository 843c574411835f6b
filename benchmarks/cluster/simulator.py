"""How many instructions a second the simulator runs, and what makes them.

    python benchmarks/cluster/simulator.py [--layers 60] [--rounds 7]

A training step of a chain of convolutions and of an encoder, on HeteroG's testbed of 8 GPUs, by
strategies as its planner tries them: data parallelism whose gradients all workers add up ("EV-AR")
or whose parameters each lie on one ("EV-PS"), and groups that each go another way ("random").
"Compose" makes a plan of actions, "lower" its program, "seconds" says what each instruction takes,
"simulate" runs it in time and finds the bound, and "peaks" counts memory. The least of the rounds
counts, on one core, in millions of instructions a second; messages are not counted.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from typing import Any

import torch
from sailor import head, row
from torch import nn
from torch.nn import functional as F

import smex
from smex._C import lower, peak_bytes, predicted_seconds, simulate
from smex.cluster import Strategies
from smex.planning.placed import view_targets

BAR = 1e6
STEPS = ("compose", "lower", "seconds", "simulate", "peaks")


def chain(layers: int) -> smex.SemanticGraph:
    with torch.device("meta"):
        blocks: list[nn.Module] = []
        for _ in range(layers):
            blocks += [nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
        tail = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
        model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), *blocks, *tail)
        images, classes = torch.empty(256, 3, 32, 32), torch.empty(256, dtype=torch.int64)
    return smex.capture_graph(model.train(), (images, classes), loss_fn=F.cross_entropy)


def encoder(layers: int) -> smex.SemanticGraph:
    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(512, 8, batch_first=True, dropout=0.0)
        model = nn.TransformerEncoder(layer, layers)
        words = torch.empty(64, 64, 512)
    return smex.capture_graph(model.train(), (words, words), loss_fn=F.mse_loss)


class Steps:
    """The steps of one call of the simulator, each timed."""

    def __init__(self, strategies: Strategies, actions: tuple[int, ...]) -> None:
        self.strategies, self.actions = strategies, actions
        self.least = dict.fromkeys(STEPS, float("inf"))
        self.instructions = self.messages = 0

    def timed(self, name: str, step: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        found = step()
        self.least[name] = min(self.least[name], time.perf_counter() - begin)
        return found

    def run(self) -> None:
        own = self.strategies
        graph, views, machine = own.graph.native, view_targets(own.graph), own._machine
        plan = self.timed("compose", lambda: own._native.plan(self.actions))
        program = self.timed("lower", lambda: lower(graph, plan, views))
        seconds = self.timed("seconds", lambda: predicted_seconds(program, machine, views))
        mesh = list(own.mesh)
        timeline = self.timed("simulate", lambda: simulate(program, seconds, mesh, machine))
        self.timed("peaks", lambda: peak_bytes(program, views))
        self.instructions = sum(len(list_) for lists in seconds for list_ in lists)
        self.messages = sum(map(len, timeline.messages))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    head("strategy", "instructions", "messages", *STEPS, "simulate / bar")
    for name, captured in (("chain", chain), ("encoder", encoder)):
        strategies = Strategies(captured(options.layers), smex.cluster.heterog_testbed())
        rng = random.Random(0)
        drawn = tuple(rng.randrange(len(strategies.names)) for _ in range(strategies.groups))
        cases = {way: strategies.uniform(way) for way in ("EV-AR", "EV-PS")} | {"random": drawn}
        for way, actions in cases.items():
            steps = Steps(strategies, actions)
            for _ in range(options.rounds):
                steps.run()
            rates = {step: steps.instructions / took for step, took in steps.least.items()}
            cells = (f"{rates[step] / 1e6:.2f}" for step in STEPS)
            ratio = f"{rates['simulate'] / BAR:.2f}"
            row(name, way, str(steps.instructions), str(steps.messages), *cells, ratio)


if __name__ == "__main__":
    main()

"""Simulated beside measured training steps on one GPU.

    python benchmarks/cluster/gpu_steps.py [NAME ...] [--batch 32] [--rounds 5]

The models of HeteroG's Table 1, in float32 (`benchmarks/cluster/models.py` has where they come
from). `smex.cluster.profile` measures their calls on the GPU with tiles as 1, 2, 4 and 8 workers
have; "simulated" is the step of one worker by these, "measured" the median over rounds of the same
program, which ends when the GPU has, and "torch" that of the model itself, run eagerly. A step is
forward, loss and backward. "Calls" are the seconds of the profile.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import heterog_models
import torch
from sailor import head, row

import smex
from smex.text import duration_words

STEPS = 5
"""Of each round."""
NAMES = ("VGG-19", "MobileNet-v2", "BERT-large", "Inception-v3", "Transformer")


def seconds_of(step: Callable[[], object], rounds: int) -> float:
    """The median over rounds of the seconds of a step."""
    step()
    step()
    taken = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - started) / STEPS)
    return statistics.median(taken)


def measure(name: str, batch: int, rounds: int) -> list[str]:
    """A line of the table."""
    torch.manual_seed(0)
    model, args, loss_fn = heterog_models.CASES[name].whole(batch)
    model, args = model.cuda().train(), [tensor.cuda() for tensor in args]

    def eager() -> None:
        model.zero_grad()
        loss_fn(model(*args[:-1]), args[-1]).backward()

    graph = smex.capture_graph(model, tuple(args), loss_fn=loss_fn)
    started = time.perf_counter()
    cluster = smex.cluster.profile(graph, device="cuda")
    calls = time.perf_counter() - started
    plan = smex.search(graph, 1, machine=cluster, objective="time")
    simulated = smex.simulate(plan).seconds
    alone = seconds_of(eager, rounds)
    net = smex.partition(model, plan=plan, devices="cuda", loss_fn=loss_fn, args=tuple(args))

    def divided() -> None:
        net.zero_grad()
        net(*args).backward()

    measured = seconds_of(divided, rounds)
    error = f"{simulated / measured - 1:+.1%}"
    return [*map(duration_words, (alone, measured, simulated)), error, f"{calls:.1f} s"]


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of models.py")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {options.batch} rows\n")
    head("torch", "measured", "simulated", "error", "calls")
    for name in options.names or NAMES:
        row(name, *measure(name, options.batch, options.rounds))
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether the plan that is predicted to be the fastest is the fastest when it runs.

    python benchmarks/partition/reality.py [--rounds 15] [--only RNN] [--targets]

Two workers of this computer, as `smex.Machine.calibrate(2)` measures it. The plans are those for
the least time and for the fewest bytes, of every other planner, and random ones; equal plans are
run once. Each is run as training steps: forward, backward and SGD, one thread for each worker. The
plans take turns, round by round, so that what else the computer does hits all alike; the first two
rounds warm up. Per plan the predicted seconds, the median of the measured ones, and its rank by
both; times are compared after each was divided by the median of its round. Then Spearman's and
Kendall's rank correlation of the two, and by how much the plan that is predicted to be the first is
behind the one that is (the bar is 5 %). `--targets` prints where the time of the first, the last
and the measured first went: a worker's mean milliseconds by operator and kind of fetch.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

import scipy.stats
import torch
from torch.nn import functional as F

import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import models

WORKERS, SEEDS, WARM_UP = 2, 3, 2
PLANNERS = ("data_parallel", "fsdp", "all_row", "spartan", "icml18", "equal_chop")

Case = tuple[torch.nn.Module, tuple[torch.Tensor, torch.Tensor], Callable]


def next_token(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross entropy of `[N, T, vocab]` and `[N, T]`."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def cases() -> dict[str, Callable[[], Case]]:
    """Models of which a step takes a few tenths of a second."""
    return {
        "WResNet-26-2": lambda: (
            models.WResNet(26, 2, 10, 3, base_channels=32, small_stem=True),
            (torch.randn(32, 3, 32, 32), torch.randint(10, (32,))),
            F.cross_entropy,
        ),
        "RNN-2-1K": lambda: (
            models.RNN(2, 1024),
            (torch.randn(64, 8, 1024), torch.randn(64, 8, 1024)),
            F.mse_loss,
        ),
        "GPT-4, width 256": lambda: (
            models.GPT(4, 256, 8, vocab=512, context=128),
            (torch.randint(512, (8, 128)), torch.randint(512, (8, 128))),
            next_token,
        ),
    }


@dataclasses.dataclass
class Candidate:
    """A plan and the net that runs it."""

    names: list[str]
    plan: smex.Plan
    net: smex.PartitionedModule
    optimizer: torch.optim.Optimizer
    seconds: list[float] = dataclasses.field(default_factory=list)
    targets: list[dict[str, float]] = dataclasses.field(default_factory=list)

    def step(self, args: tuple[torch.Tensor, ...]) -> float:
        """The seconds of a training step."""
        started = time.perf_counter()
        self.optimizer.zero_grad()
        self.net(*args).backward()
        self.optimizer.step()
        return time.perf_counter() - started


def plans(graph: smex.SemanticGraph, machine: smex.Machine) -> dict[str, smex.Plan]:
    """What is compared, with its time on the machine."""
    found = {
        "by time": smex.search(graph, WORKERS, objective="time", machine=machine),
        "by bytes": smex.search(graph, WORKERS, machine=machine),
    }
    for planner in PLANNERS:
        found[planner] = smex.search(graph, WORKERS, planner=planner, machine=machine)
    for seed in range(SEEDS):
        found[f"random, seed {seed}"] = smex.search(
            graph, WORKERS, planner="random", machine=machine, seed=seed
        )
    return found


def candidates(case: Case, machine: smex.Machine) -> list[Candidate]:
    """The plans that differ, each with a net of its own."""
    model, args, loss_fn = case
    graph = smex.capture_graph(model, args, loss_fn=loss_fn)
    different: dict[tuple, Candidate] = {}
    for name, plan in plans(graph, machine).items():
        key = (tuple(map(tuple, plan.native.values)), tuple(map(tuple, plan.native.ops)))
        if key in different:
            different[key].names.append(name)
            continue
        net = smex.partition(copy.deepcopy(model), loss_fn=loss_fn, args=args, plan=plan)
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
        different[key] = Candidate([name], plan, net, optimizer)
    return list(different.values())


def measure(those: list[Candidate], args: tuple[torch.Tensor, ...], rounds: int) -> None:
    """Runs the candidates in turns, each round in another order."""
    for done in range(WARM_UP + rounds):
        shift = done % len(those)
        for candidate in those[shift:] + those[:shift]:
            seconds = candidate.step(args)
            if done >= WARM_UP:
                stats = candidate.net.stats()
                candidate.seconds.append(seconds)
                candidate.targets.append(
                    stats["seconds_by_target"] | {"waiting": sum(stats["wait_seconds"])}
                )


def relative(those: list[Candidate]) -> list[float]:
    """Per candidate the median of its times over the median of their rounds."""
    rounds = [statistics.median(times) for times in zip(*(c.seconds for c in those), strict=True)]
    return [
        statistics.median(mine / other for mine, other in zip(c.seconds, rounds, strict=True))
        for c in those
    ]


def report(name: str, those: list[Candidate]) -> None:
    """Prints the table and how well its two orders agree."""
    predicted = [candidate.plan.seconds for candidate in those]
    measured = relative(those)
    by_prediction, by_measurement = (
        scipy.stats.rankdata(times, method="min").astype(int) for times in (predicted, measured)
    )
    print(f"\n{name}\n")
    print("| plan | moves | predicted | measured | rank predicted | measured |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for i in sorted(range(len(those)), key=lambda i: predicted[i]):
        times = those[i].seconds
        print(
            f"| {', '.join(those[i].names)} | {those[i].plan.total_bytes / 2**20:.1f} MiB | "
            f"{predicted[i] * 1e3:.1f} ms | {statistics.median(times) * 1e3:.1f} ms "
            f"[{min(times) * 1e3:.1f}, {max(times) * 1e3:.1f}] | {by_prediction[i]} | "
            f"{by_measurement[i]} |"
        )
    first, best = measured[predicted.index(min(predicted))], min(measured)
    print(
        f"\nSpearman {scipy.stats.spearmanr(predicted, measured).statistic:.2f}, Kendall "
        f"{scipy.stats.kendalltau(predicted, measured).statistic:.2f}; the predicted first takes "
        f"{first / best - 1:.1%} more than the measured first",
        flush=True,
    )


def report_targets(those: list[Candidate]) -> None:
    """Prints where the time of three candidates went."""
    order = sorted(those, key=lambda candidate: candidate.plan.seconds)
    measured = relative(those)
    best = those[measured.index(min(measured))]
    shown = list(dict.fromkeys(map(id, (order[0], best, order[-1]))))
    chosen = [next(c for c in those if id(c) == key) for key in shown]
    means = [
        {
            target: statistics.median(run.get(target, 0) for run in c.targets) / WORKERS * 1e3
            for target in set().union(*c.targets)
        }
        for c in chosen
    ]
    largest = {target: max(mean.get(target, 0) for mean in means) for target in set().union(*means)}
    print(f"\n| ms | {' | '.join(c.names[0] for c in chosen)} |")
    print("| --- |" + " ---: |" * len(chosen))
    for target in sorted(largest, key=largest.__getitem__, reverse=True)[:16]:
        cells = " | ".join(f"{mean.get(target, 0):.2f}" for mean in means)
        print(f"| {target} | {cells} |")


def main() -> None:
    """Prints the machine and a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="part of the names of the models")
    parser.add_argument("--targets", action="store_true", help="where the time went")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # autograd's and the optimiser's; the workers have one each
    machine = smex.Machine.calibrate(WORKERS)
    link = machine.levels[0]
    print(
        f"torch {torch.__version__}; {machine}: {machine.flops['float32'] / 1e9:.0f} GFLOP/s, "
        f"memory {machine.memory_bandwidth / 1e9:.1f} GB/s, launch {machine.launch * 1e6:.1f} µs, "
        f"link {link.latency * 1e6:.1f} µs and {link.bandwidth / 1e9:.1f} GB/s"
    )
    for name, build in cases().items():
        if options.only in name:
            case = build()
            those = candidates(case, machine)
            measure(those, case[1], options.rounds)
            report(name, those)
            if options.targets:
                report_targets(those)


if __name__ == "__main__":
    main()

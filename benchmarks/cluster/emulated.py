"""Simulated beside measured iterations on unlike devices that this computer emulates.

    python benchmarks/cluster/emulated.py [NAME ...] [--link 1gbit] [--rounds 7] [--quick]

As root on Linux with cgroup v1: four ranks of one thread with 1 : 1/2 : 1/4 : 1/4 of a processor,
in network namespaces whose links `tc` limits (see `benchmarks/processes/emulate.py`). A rank may
take 0.9 of that, so that what the kernel does has room.

For each model `smex.cluster.profile` first measures the ranks and their links; then plans are made
and simulated on that cluster: HeteroG's four baselines, its searches, exact searches, and each in
the order of a list schedule where that differs; then the ranks run every plan, in turns, and the
medians over the rounds are what was measured. A step is forward and backward, and ends when the
last rank has. "Peak" is the largest error of the predicted peak of a worker.

"Ideal" are the seconds of the whole batch on a rank of the first kind alone, over the sum of the
shares: nothing is faster that divides the work, without anything that is sent.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from sailor import head, row
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

import smex
from smex.cluster.strategies import BASELINES

for folder in ("benchmarks/processes", "examples"):
    sys.path.append(str(pathlib.Path(__file__).parents[2] / folder))
import models
from emulate import emulated, no_quotas, unavailable

SHARES = (1.0, 0.5, 0.25, 0.25)
ROOM = 0.9
WARM_UP = 2

Training = tuple[nn.Module, tuple[torch.Tensor, ...], Callable[..., torch.Tensor]]


class Branches(nn.Module):
    """Towers over the same rows that differ in length, summed: `[N, width] -> [N, width]`."""

    def __init__(self, width: int, depths: tuple[int, ...]) -> None:
        super().__init__()
        self.towers = nn.ModuleList(models.mlp([width] * (depth + 1)) for depth in depths)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Runs the towers one after the other, as a program of one device does."""
        return torch.stack([tower(x) for tower in self.towers]).sum(0)


def convnet(channels: int, batch: int) -> Training:
    """Convolutions with few weights: what data parallelism is for."""
    blocks: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1)]
    for _ in range(5):
        blocks += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1)]
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))
    return model, (torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))), F.cross_entropy


def vgg(channels: int, hidden: int, batch: int) -> Training:
    """Convolutions with few weights before products with many."""
    blocks: list[nn.Module] = []
    for inputs, outputs in ((3, channels), (channels, channels), (channels, 2 * channels)):
        blocks += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    top = models.mlp([2 * channels * 16, hidden, hidden, 10])
    model = nn.Sequential(*blocks, nn.Flatten(), top)
    return model, (torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))), F.cross_entropy


def mlp(width: int, depth: int, batch: int) -> Training:
    """Layers as wide as the batch is large."""
    rows = torch.randn(batch, width), torch.randn(batch, width)
    return models.mlp([width] * (depth + 1)), rows, F.mse_loss


def branches(width: int, depths: tuple[int, ...], batch: int) -> Training:
    """See `Branches`."""
    return (
        Branches(width, depths),
        (torch.randn(batch, width), torch.randn(batch, width)),
        F.mse_loss,
    )


def gpt(layers: int, embed: int, heads: int, vocab: int, length: int, batch: int) -> Training:
    """A language model."""
    words = torch.randint(vocab, (batch, length + 1))
    model = models.GPT(layers, embed, heads, vocab, length, fused_attention=True)
    loss_fn = lambda logits, next_: F.cross_entropy(logits.flatten(0, 1), next_.flatten())  # noqa: E731
    return model, (words[:, :-1].contiguous(), words[:, 1:].contiguous()), loss_fn


CASES: dict[str, Callable[[], Training]] = {
    "convnet": lambda: convnet(128, 64),
    "vgg": lambda: vgg(64, 2048, 128),
    "mlp": lambda: mlp(2048, 4, 1024),
    "branches": lambda: branches(1024, (1, 2, 3, 6), 1536),
    "gpt": lambda: gpt(3, 512, 8, 2048, 128, 8),
}
QUICK: dict[str, Callable[[], Training]] = {
    "convnet": lambda: convnet(16, 16),
    "branches": lambda: branches(64, (1, 3), 64),
}


def made(options: argparse.Namespace, name: str) -> Training:
    """The model and its batch, the same for everyone who calls this."""
    torch.manual_seed(0)
    return (QUICK if options.quick else CASES)[name]()


def captured(options: argparse.Namespace, name: str) -> smex.SemanticGraph:
    """What planners and the profile know of a case."""
    model, batch, loss_fn = made(options, name)
    return smex.capture_graph(model, batch, loss_fn=loss_fn)


# ---- what ranks do ----


def joined() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")


def left() -> None:
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # once in some fifty runs a thread of torch's aborts while Python ends


def profile(options: argparse.Namespace, name: str, folder: pathlib.Path) -> None:
    """Measures the cluster, and the whole batch on each rank."""
    joined()
    cluster = smex.cluster.profile(captured(options, name))
    model, (*inputs, target), loss_fn = made(options, name)
    alone = []
    for _ in range(3):
        dist.barrier()
        if dist.get_rank() == 0:
            started = time.perf_counter()
            loss_fn(model(*inputs), target).backward()
            alone.append(time.perf_counter() - started)
    if dist.get_rank() == 0:
        cluster.save(folder / "cluster.json")
        (folder / "alone.json").write_text(json.dumps(statistics.median(alone)))
    left()


def run(options: argparse.Namespace, name: str, folder: pathlib.Path) -> None:
    """Runs all plans in turns; rank 0 prints what that took."""
    joined()
    mesh = init_device_mesh("cpu", (len(SHARES),))
    nets = {}
    for path in sorted(folder.glob("plan-*.json")):
        model, batch, loss_fn = made(options, name)
        nets[path.stem] = smex.partition(model, mesh=mesh, args=batch, loss_fn=loss_fn, plan=path)
    taken: dict[str, list[float]] = {plan: [] for plan in nets}
    stats = {}
    for number in range(WARM_UP + options.rounds):
        for plan, net in nets.items():
            dist.barrier()
            started = time.perf_counter()
            net(*batch).backward()
            seconds = time.perf_counter() - started
            for parameter in net.parameters():
                parameter.grad = None
            if number >= WARM_UP:
                taken[plan].append(seconds)
            if number == WARM_UP:
                stats[plan] = net.stats()
    ranks: list[Any] = [None] * len(SHARES)
    dist.all_gather_object(ranks, taken)
    if dist.get_rank() == 0:
        found = {}
        for plan in nets:
            rounds = [max(each) for each in zip(*(rank[plan] for rank in ranks), strict=True)]
            words = ("peak_bytes", "compute_seconds", "fetch_seconds", "wait_seconds")
            found[plan] = {"seconds": rounds} | {
                word: stats[plan][word] for word in words if word in stats[plan]
            }
        print(json.dumps(found))
    left()


# ---- what plans there are ----


@dataclasses.dataclass(frozen=True)
class Planned:
    """A plan, and what it takes on paper."""

    name: str
    seconds: float
    peak_bytes: list[int]
    busy: list[float]


def plans(
    graph: smex.SemanticGraph, cluster: smex.Cluster, options: argparse.Namespace
) -> dict[str, smex.Plan]:
    """By name; those in the order of a list schedule behind the others."""
    found = {}
    for planner in (*BASELINES, "critical_path", "random"):
        found[planner] = smex.cluster.plan(
            graph, cluster, planner, calls=options.calls, ordered=False
        ).plan
    for weights in ("even", "speed"):
        found[f"tofu, {weights}"] = smex.search(
            graph, cluster.workers, objective="time", machine=cluster, weights=weights
        )
    for name, plan in list(found.items()):
        ordered = plan.ordered()
        if ordered is not plan:
            found[f"{name}, ordered"] = ordered
    return found


def write_plans(options: argparse.Namespace, name: str, folder: pathlib.Path) -> dict[str, Planned]:
    """Makes and simulates all plans; returns them by the names of their files."""
    cluster = smex.Cluster.load(folder / "cluster.json")
    graph = captured(options, name)
    written = {}
    for number, (words, plan) in enumerate(plans(graph, cluster, options).items()):
        simulation = smex.simulate(plan, cluster)
        stem = f"plan-{number:02}"
        plan.save(folder / f"{stem}.json")
        written[stem] = Planned(words, simulation.seconds, simulation.peak_bytes, simulation.busy)
    return written


# ---- tables ----


def report(options: argparse.Namespace, name: str, folder: pathlib.Path) -> list[dict[str, Any]]:
    """Measures one case, prints its rows and returns them as numbers."""
    flags = ["--rounds", str(options.rounds)] + ["--quick"] * options.quick

    def on_hosts(phase: str) -> str:
        cpus = [ROOM * share for share in SHARES]
        command = [sys.executable, __file__, name, *flags, "--folder", str(folder), "--rank", phase]
        with emulated(len(SHARES), options.link, cpus) as hosts:
            return hosts.run(command, timeout=3600, env={"OMP_NUM_THREADS": "1"})[0]

    if not (folder / "cluster.json").exists():
        started = time.perf_counter()
        on_hosts("profile")
        print(f"{name}: profiled in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    for path in folder.glob("plan-*.json"):
        path.unlink()
    started = time.perf_counter()
    written = write_plans(options, name, folder)
    print(f"{name}: planned in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    measured = json.loads(on_hosts("run").splitlines()[-1])
    ideal = json.loads((folder / "alone.json").read_text()) / sum(SHARES)
    rows = []
    for stem, planned in written.items():
        seconds = statistics.median(measured[stem]["seconds"])
        peaks = [
            abs(predicted / max(actual, 1) - 1)
            for predicted, actual in zip(
                planned.peak_bytes, measured[stem]["peak_bytes"], strict=True
            )
            if actual or predicted
        ]
        rows.append(
            {
                "model": name, "plan": planned.name, "simulated": planned.seconds,
                "measured": seconds, "error": planned.seconds / seconds - 1, "peak": max(peaks),
                "ideal": ideal, "numbers": measured[stem], "busy": planned.busy,
            }
        )  # fmt: skip
        row(
            name, planned.name, f"{planned.seconds:.3f}", f"{seconds:.3f}",
            f"{planned.seconds / seconds - 1:+.1%}", f"{max(peaks):.1%}", f"{ideal / seconds:.0%}",
        )  # fmt: skip
        sys.stdout.flush()
    return rows


def summary(rows: list[dict[str, Any]]) -> None:
    """Prints what the rows say together."""
    from scipy.stats import spearmanr

    errors = [abs(each["error"]) for each in rows]
    within = sum(error <= 0.1 for error in errors)
    ranks = spearmanr([r["simulated"] for r in rows], [r["measured"] for r in rows]).statistic
    print(
        f"\n{len(rows)} plans: error of the simulated seconds {statistics.mean(errors):.1%} in the "
        f"mean, {max(errors):.1%} at most, within 10 % for {within}; Spearman {ranks:.3f}; peaks "
        f"within {max(each['peak'] for each in rows):.1%}"
    )
    for name in dict.fromkeys(each["model"] for each in rows):
        own = {each["plan"]: each for each in rows if each["model"] == name}
        best = min(own[baseline]["measured"] for baseline in BASELINES)
        chosen = min(own.values(), key=lambda each: each["simulated"])
        words = f"{name}: {chosen['plan']} is {best / chosen['measured']:.2f} times as fast as "
        words += "the best baseline"
        for plan, each in own.items():
            if (other := own.get(f"{plan}, ordered")) is not None:
                words += f"; {plan} in a list schedule's order takes "
                words += f"{other['measured'] / each['measured'] - 1:+.1%} "
                words += f"({other['simulated'] / each['simulated'] - 1:+.1%} simulated)"
        print(words)


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--link", default="1gbit", help="of each rank, as tc writes it")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=60, help="of the simulator, for searches")
    parser.add_argument("--quick", action="store_true", help="small models, which show nothing")
    parser.add_argument(
        "--folder", help="keeps clusters and plans; a cluster there is not measured"
    )
    parser.add_argument("--rank", choices=("profile", "run"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        phase = profile if options.rank == "profile" else run
        phase(options, options.names[0], pathlib.Path(options.folder))
        return 0
    if reason := unavailable() or no_quotas():
        print(f"skipped: {reason}")
        return 0
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {len(SHARES)} ranks of one thread, {options.link}\n")
    head("plan", "simulated, s", "measured, s", "error", "peak", "of the ideal")
    rows = []
    with tempfile.TemporaryDirectory() as made_folder:
        for name in options.names or (QUICK if options.quick else CASES):
            folder = pathlib.Path(options.folder or made_folder) / name
            folder.mkdir(parents=True, exist_ok=True)
            rows += report(options, name, folder)
            if options.folder:
                (folder / "rows.json").write_text(json.dumps(rows))
    summary(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())

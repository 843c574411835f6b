"""Simulated beside measured iterations on unlike devices that this computer emulates.

    python benchmarks/cluster/emulated.py [NAME ...] [--link 1gbit] [--rounds 7] [--quick]

As root on Linux with cgroup v1: four ranks of one thread with 1 : 1/2 : 1/4 : 1/4 of a processor,
in network namespaces whose links `tc` limits (see `benchmarks/processes/emulate.py`). A rank may
take 0.9 of that, so that what the kernel does has room, and processes of the lowest priority take
what is left.

For each model `smex.cluster.profile` first measures the ranks and their links; then plans are made
and simulated on that cluster: HeteroG's four baselines, its searches, exact searches, and each in
the order of a list schedule where that differs; then the ranks run every plan, in turns, and the
medians over the rounds are what was measured. A step is forward and backward, and ends when the
last rank has. "Peak" is the largest error of the predicted peak of a worker.

Processors of shared computers change their pace from second to second, by a third. Around each step
every rank computes a sixteenth of the batch alone, as it did around its profile: "simulated" is on
devices that are so much slower or faster as that took longer or shorter on average, "planned" on
those of the profile. Errors are of the former.

"Ideal" are the seconds of the whole batch on the first rank alone, measured in the same rounds,
over the sum of the shares: nothing is faster that divides the work, with nothing sent. "Apart" are
those of all ranks at once, each with its share of the batch and nothing sent: what they share of
this computer, caches and memory, slows them there as it does in a step.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from sailor import head, row
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

import smex
from smex.cluster.strategies import BASELINES

for folder in ("benchmarks/processes", "examples"):  # the latter before this folder's models.py
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / folder))
import models  # noqa: E402
from emulate import emulated, no_quotas, unavailable  # noqa: E402

SHARES = (1.0, 0.5, 0.25, 0.25)
PROCESSORS = (0, 1, 1, 1)
ROOM = 0.9
WARM_UP = 2
SPIN = """
import os
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while os.getppid() == {parent}:
    for _ in range(10**6):
        pass
"""

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
    "convnet": lambda: convnet(96, 64),
    "vgg": lambda: vgg(96, 2048, 192),
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


@contextlib.contextmanager
def busy_processors() -> Iterator[None]:
    """Keeps each processor busy with what gives way to all else.

    Otherwise a rank is faster while others wait, as processors of one core are, and no device would
    have a speed.
    """
    command = [sys.executable, "-c", SPIN.format(parent=os.getpid())]
    spinning = [
        subprocess.Popen(["taskset", "--cpu-list", str(processor), *command])
        for processor in sorted(set(PROCESSORS))
    ]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


# ---- what ranks do ----


def joined() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")


def left() -> None:
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # once in some fifty runs a thread of torch's aborts while Python ends


class Reference:
    """A part of a case's step on a rank alone, by which its processor's pace is told."""

    def __init__(self, training: Training, parts: float = 16) -> None:
        self.model, batch, self.loss_fn = training
        self.batch = [tensor[: max(2, int(len(tensor) / parts))] for tensor in batch]

    def seconds(self) -> float:
        """The processor's, which no quota changes."""
        started = time.thread_time()
        *inputs, target = self.batch
        self.loss_fn(self.model(*inputs), target).backward()
        return time.thread_time() - started


def profile(options: argparse.Namespace, name: str, folder: pathlib.Path) -> None:
    """Measures the cluster, and how fast the ranks' processors were meanwhile."""
    joined()
    reference = Reference(made(options, name))
    reference.seconds()
    paces = [reference.seconds() for _ in range(options.rounds)]
    cluster = smex.cluster.profile(captured(options, name))
    dist.barrier()
    paces += [reference.seconds() for _ in range(options.rounds)]
    every: list[Any] = [None] * len(SHARES)
    dist.all_gather_object(every, statistics.mean(paces))
    if dist.get_rank() == 0:
        cluster.save(folder / "cluster.json")
        (folder / "paces.json").write_text(json.dumps(every))
    left()


def run(options: argparse.Namespace, name: str, folder: pathlib.Path) -> None:
    """Runs all plans in turns, and the whole batch on rank 0 alone; it prints what that took."""
    joined()
    mesh = init_device_mesh("cpu", (len(SHARES),))
    nets = {}
    for path in sorted(folder.glob("plan-*.json")):
        model, batch, loss_fn = made(options, name)
        nets[path.stem] = smex.partition(model, mesh=mesh, args=batch, loss_fn=loss_fn, plan=path)
    reference = Reference(made(options, name))
    reference.seconds()
    whole = Reference(made(options, name), 1)
    share = Reference(made(options, name), sum(SHARES) / SHARES[dist.get_rank()])
    alone: list[float] = []
    apart: list[float] = []
    taken: dict[str, list[float]] = {plan: [] for plan in nets}
    paces: dict[str, list[float]] = {plan: [] for plan in nets}
    stats = {}
    for number in range(WARM_UP + options.rounds):
        dist.barrier()
        if dist.get_rank() == 0:
            started = time.perf_counter()
            whole.seconds()
            alone += [time.perf_counter() - started] * (number >= WARM_UP)
        dist.barrier()
        started = time.perf_counter()
        share.seconds()
        apart += [time.perf_counter() - started] * (number >= WARM_UP)
        for plan, net in nets.items():
            before = reference.seconds()
            dist.barrier()
            started = time.perf_counter()
            net(*batch).backward()
            seconds = time.perf_counter() - started
            dist.barrier()
            for parameter in net.parameters():
                parameter.grad = None
            if number >= WARM_UP:
                taken[plan].append(seconds)
                paces[plan].append((before + reference.seconds()) / 2)
            if number == WARM_UP:
                stats[plan] = net.stats()
    ranks: list[Any] = [None] * len(SHARES)
    ranks_paces: list[Any] = [None] * len(SHARES)
    dist.all_gather_object(ranks, taken)
    dist.all_gather_object(ranks_paces, paces)
    ranks_apart: list[Any] = [None] * len(SHARES)
    dist.all_gather_object(ranks_apart, apart)
    if dist.get_rank() == 0:
        found: dict[str, Any] = {
            "alone": statistics.median(alone),
            "apart": statistics.median(map(max, zip(*ranks_apart, strict=True))),
        }
        for plan in nets:
            rounds = [max(each) for each in zip(*(rank[plan] for rank in ranks), strict=True)]
            words = ("peak_bytes", "compute_seconds", "fetch_seconds", "wait_seconds")
            found[plan] = {"seconds": rounds, "paces": [each[plan] for each in ranks_paces]} | {
                word: stats[plan][word] for word in words if word in stats[plan]
            }
        (folder / "measured.json").write_text(json.dumps(found))
    left()


# ---- what plans there are ----


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
    kinds: dict[Any, str] = {}
    for name, plan in found.items():  # searches may find what another planner does
        kinds.setdefault(repr((plan.placements(), plan.native.ops)), name)
    found = {name: found[name] for name in kinds.values()}
    for name, plan in list(found.items()):
        ordered = plan.ordered()
        if ordered is not plan:
            found[f"{name}, ordered"] = ordered
    return found


def write_plans(options: argparse.Namespace, name: str, folder: pathlib.Path) -> None:
    """Makes all plans for the cluster that was measured, one file each."""
    cluster = smex.Cluster.load(folder / "cluster.json")
    names = {}
    for number, (words, plan) in enumerate(
        plans(captured(options, name), cluster, options).items()
    ):
        names[f"plan-{number:02}"] = words
        plan.save(folder / f"plan-{number:02}.json")
    (folder / "plans.json").write_text(json.dumps(names))


# ---- tables ----


def measure(options: argparse.Namespace, name: str, folder: pathlib.Path) -> None:
    """Does what is not in the folder yet: profile, plan, run."""
    flags = ["--rounds", str(options.rounds)] + ["--quick"] * options.quick

    def on_hosts(phase: str) -> None:
        cpus = [ROOM * share for share in SHARES]
        command = [sys.executable, __file__, name, *flags, "--folder", str(folder), "--rank", phase]
        hosts_of_shares = emulated(len(SHARES), options.link, cpus, PROCESSORS)
        with busy_processors(), hosts_of_shares as hosts:
            hosts.run(command, timeout=3600, env={"OMP_NUM_THREADS": "1"})

    phases = {
        "cluster.json": lambda: on_hosts("profile"),
        "plans.json": lambda: write_plans(options, name, folder),
        "measured.json": lambda: on_hosts("run"),
    }
    for made_file, phase in phases.items():
        if not (folder / made_file).exists():
            started = time.perf_counter()
            phase()
            took = time.perf_counter() - started
            print(f"{name}: {made_file} after {took:.0f} s", file=sys.stderr)


def report(options: argparse.Namespace, name: str, folder: pathlib.Path) -> list[dict[str, Any]]:
    """Prints the rows of a case that was measured, and returns them as numbers."""
    measured, paces, names = (
        json.loads((folder / f"{what}.json").read_text()) for what in ("measured", "paces", "plans")
    )
    cluster, graph = smex.Cluster.load(folder / "cluster.json"), captured(options, name)
    ideal = measured["alone"] / sum(SHARES)
    rows = []
    for stem, words in names.items():
        own = measured[stem]
        slower = [
            statistics.mean(now) / then for now, then in zip(own["paces"], paces, strict=True)
        ]
        devices = tuple(map(smex.cluster.Device.slower, cluster.devices, slower))
        plan = smex.Plan.load(folder / f"{stem}.json", graph)
        planned = smex.simulate(plan, cluster).seconds
        simulation = smex.simulate(plan, dataclasses.replace(cluster, devices=devices))
        seconds = statistics.median(own["seconds"])
        largest = max(simulation.peak_bytes)
        peaks = [
            predicted / actual - 1
            for predicted, actual in zip(simulation.peak_bytes, own["peak_bytes"], strict=True)
            if actual > 0.01 * largest
        ]
        rows.append(
            {
                "model": name, "plan": words, "planned": planned, "measured": seconds,
                "simulated": simulation.seconds, "error": simulation.seconds / seconds - 1,
                "peak": max(peaks, key=abs), "ideal": ideal, "apart": measured["apart"],
                "slower": slower,
                "busy": simulation.busy, "compute": own["compute_seconds"],
            }
        )  # fmt: skip
        row(
            name, words, f"{planned:.3f}", f"{simulation.seconds:.3f}", f"{seconds:.3f}",
            f"{rows[-1]['error']:+.1%}", f"{rows[-1]['peak']:+.1%}", f"{ideal / seconds:.0%}",
            f"{measured['apart'] / seconds:.0%}",
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
        f"within {max(abs(each['peak']) for each in rows):.1%}"
    )
    for name in dict.fromkeys(each["model"] for each in rows):
        own = {each["plan"]: each for each in rows if each["model"] == name}
        best = min(own[baseline]["measured"] for baseline in BASELINES)
        chosen = min(own.values(), key=lambda each: each["planned"])
        words = f"{name}: {chosen['plan']} is {best / chosen['measured']:.2f} times as fast as "
        words += "the best baseline"
        for plan, each in own.items():
            if (other := own.get(f"{plan}, ordered")) is not None:
                words += f"; {plan} in a list schedule's order takes "
                words += f"{other['measured'] / each['measured'] - 1:+.1%} "
                words += f"({other['planned'] / each['planned'] - 1:+.1%} simulated)"
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
    head(
        "plan", "planned, s", "simulated, s", "measured, s", "error", "peak", "of the ideal",
        "of apart",
    )  # fmt: skip
    rows = []
    with tempfile.TemporaryDirectory() as made_folder:
        for name in options.names or (QUICK if options.quick else CASES):
            folder = pathlib.Path(options.folder or made_folder) / name
            folder.mkdir(parents=True, exist_ok=True)
            measure(options, name, folder)
            rows += report(options, name, folder)
    summary(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())

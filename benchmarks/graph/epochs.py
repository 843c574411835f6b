"""A full-graph epoch on two processes beside one process, DGL and PyG.

    python benchmarks/graph/epochs.py [--quick] [--models train_gcn] [--rounds 7]

An epoch is forward, cross entropy over all nodes, backward and a step of Adam of a model of two
layers, of ogbn-arxiv's sizes, as in training.py: GCN and GraphSAGE of width 64, GAT of 8 heads.
"smex, 2 processes" are two ranks of one thread on this computer, whose plan is that of
`objective="time"`. The others are one process each, of one or two threads. All take turns, round by
round; cells are the median [least, most] of the rounds in ms, ratios the median of those in a
round. Two processes have as many cores as two threads. The bound is what two processes of this
computer do that have nothing to do with each other: each trains the whole graph alone, both at
once, and together they make so many times the epochs of one that has the computer to itself.

Before that the gradients of the ranks are compared with those of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import harness
import numpy as np
import report
import torch
import torch.distributed as dist
from harness import OURS, Entry, Measured
from systems.base import Case
from torch import nn
from torch.nn import functional

import smex
import smex.graph as sg

RANKS = 2
FEATURES, CLASSES, HEADS = 128, 40, 8
MODELS = {"train_gcn": (64, 0), "train_sage": (64, 0), "train_gat": (64, HEADS)}
PEERS = ("dgl", "pyg")
WARM_UP = 3
TOLERANCE = 1e-3
BARS = {
    "1 process of 1 thread / 2 processes": 1.6,
    "DGL, 2 threads / 2 processes": 1.0,
    "PyG, 2 threads / 2 processes": 1.0,
}


class TwoLayers(nn.Module):
    """The models of `benchmarks/peers/systems`, of our layers."""

    def __init__(self, name: str, width: int):
        super().__init__()
        sizes = [(FEATURES, width), (width, CLASSES)]
        allow = {"allow_zero_in_degree": True}
        if name == "train_gcn":
            layers = [sg.nn.GraphConv(*size, norm="both", **allow) for size in sizes]
        elif name == "train_sage":
            layers = [sg.nn.SAGEConv(*size, "mean") for size in sizes]
        else:
            first = sg.nn.GATConv(FEATURES, width // HEADS, HEADS, **allow)
            layers = [first, sg.nn.GATConv(width, CLASSES, 1, **allow)]
        self.first, self.second = layers
        self.between = functional.elu if name == "train_gat" else functional.relu

    def forward(self, g, x):
        return self.second(g, self.between(self.first(g, x).flatten(1))).flatten(1)


# ---- the ranks ----


def serve(folder: pathlib.Path, name: str, nodes: int) -> None:
    """Answers each line that rank 0 reads with the seconds of so many epochs, of both kinds."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    src, dst = (torch.from_numpy(np.load(folder / f"{end}.npy")) for end in ("src", "dst"))
    g = sg.graph((src, dst), num_nodes=nodes)
    torch.manual_seed(0)
    x, y = torch.randn(nodes, FEATURES), torch.randint(CLASSES, (nodes,))
    model = TwoLayers(name, MODELS[name][0])
    net = smex.partition(
        model, args=(g, x, y), loss_fn=functional.cross_entropy, objective="time", keep_model=True
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    own = torch.optim.Adam(model.parameters(), lr=0.01)

    def epoch() -> None:
        optimizer.zero_grad()
        net(g, x, y).backward()
        optimizer.step()

    def alone() -> None:
        own.zero_grad()
        functional.cross_entropy(model(g, x), y).backward()
        own.step()

    def seconds(what: Callable[[], None], count: int) -> float:
        taken = []
        for _ in range(count):
            dist.barrier()
            started = time.perf_counter()
            what()
            dist.barrier()
            taken.append(time.perf_counter() - started)
        return statistics.median(taken)

    net(g, x, y).backward()
    functional.cross_entropy(model(g, x), y).backward()
    found = net.full_grads()
    for key, parameter in model.named_parameters() if rank == 0 else ():
        error = (found[key] - parameter.grad).abs().max() / parameter.grad.abs().max()
        assert error < TOLERANCE, f"{key} differs by {error:.2g} of its largest gradient"
    for _ in range(WARM_UP):
        epoch()
        alone()
    stats = net.stats()
    told: dict[str, Any] = {"moved": stats["bytes_moved"], "plan": net.plan.timeline().seconds}
    while True:
        count = [0]
        if rank == 0:
            print(json.dumps(told), flush=True)
            count = [int(sys.stdin.readline() or 0)]
        dist.broadcast_object_list(count)
        if not count[0]:
            break
        told["seconds"] = seconds(epoch, count[0])
        told["alone"] = seconds(alone, count[0])
    sys.stdout.flush()
    os._exit(0)  # once in some fifty runs a thread of torch's aborts while Python ends


class Ranks:
    """Two processes that train together when asked to."""

    def __init__(self, folder: pathlib.Path, name: str, nodes: int):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self.started = [
            subprocess.Popen(
                [sys.executable, __file__, "--serve", str(folder), name, str(nodes)],
                stdin=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                text=True,
                env={
                    **os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS),
                    "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(RANKS),
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1",
                },
            )
            for rank in range(RANKS)
        ]  # fmt: skip
        self.told = self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self.started[0].stdout.readline()
        if not line:
            raise SystemExit("a rank failed; its error is above")
        return json.loads(line)

    def seconds(self, epochs: int) -> tuple[float, float]:
        """Returns the medians of so many epochs of both, and of each alone beside the other."""
        self.started[0].stdin.write(f"{epochs}\n")
        self.started[0].stdin.flush()
        told = self._answer()
        return told["seconds"], told["alone"]

    def close(self) -> None:
        """Ends both."""
        self.started[0].stdin.close()
        for process in self.started:
            process.wait()


# ---- the table ----


def spread(seconds: list[float]) -> str:
    """Returns the median, the least and the most in ms."""
    found = [1e3 * s for s in seconds]
    return f"{statistics.median(found):.0f} [{min(found):.0f}, {max(found):.0f}]"


def tell(peers: Any, options: argparse.Namespace, graph: str, name: str, bars: report.Bars) -> None:
    """Measures a model on a graph and prints its line."""
    edges = {graph: harness.load(peers, options, graph)}
    width, heads = MODELS[name]
    case = Case(name, width, heads, backward=True, features=FEATURES, classes=CLASSES)
    result = Measured({})
    asked = [Entry(system, graph, case, 1) for system in peers.of_system]
    entries = harness.prepare_all(peers, asked, edges, result)
    folder = peers.folder
    for end in ("src", "dst"):
        np.save(folder / f"{end}.npy", getattr(edges[graph], end))
    ranks = Ranks(folder, name, edges[graph].num_nodes)
    taken: dict[tuple[str, int], list[float]] = {}
    both: list[float] = []
    beside: list[float] = []
    turns: list[Any] = [(entry, threads) for entry in entries for threads in (1, 2)] + [None]
    for number in range(options.rounds):
        shift = number % len(turns)
        for turn in turns[shift:] + turns[:shift]:
            if turn is None:
                together, alone = ranks.seconds(options.repeats)
                both.append(together)
                beside.append(alone)
                continue
            entry, threads = turn
            worker = peers.of_system[entry.worker]
            took = worker.ask("measure", key=entry.key, threads=threads, repeats=options.repeats)
            taken.setdefault((entry.system, threads), []).append(took["seconds"])
    ranks.close()
    row = [f"{name}, {width}", graph, spread(both)]

    def against(system: str, threads: int, bar: str | None) -> None:
        mine = {key: s for key, s in taken.items() if key[0].startswith(system)}
        of_threads = {key: s for key, s in mine.items() if key[1] == threads}
        if not of_threads:
            row.extend(["-", "-"])
            return
        key = min(of_threads, key=lambda key: statistics.median(of_threads[key]))
        ratio = statistics.median(o / b for o, b in zip(of_threads[key], both, strict=True))
        row.extend([spread(of_threads[key]), f"**{ratio:.2f}**"])
        if bar:
            bars.add(bar, f"{name}, {graph}", ratio)

    one, dgl, pyg = BARS
    against(OURS, 1, one)
    bounds = [RANKS * a / b for a, b in zip(taken.get((OURS, 1), ()), beside)]
    row.append(f"{statistics.median(bounds):.2f}" if bounds else "-")
    against(OURS, 2, None)
    against("dgl", 2, dgl)
    against("pyg", 2, pyg)
    print(report.line([*row, f"{ranks.told['moved'] / 1e6:.1f}"]), flush=True)
    report.print_notes(result)
    peers.tell_all("release")
    peers.tell_all("forget_graph", name=graph)
    peers.clear_features()


def main() -> None:
    """Prints the table."""
    if sys.argv[1:2] == ["--serve"]:
        folder, name, nodes = sys.argv[2:]
        serve(pathlib.Path(folder), name, int(nodes))
        return
    parser = harness.parser(
        __doc__, rounds=7, graphs=["uniform", "power-law-1e6"], peers=["smex", *PEERS]
    )
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    options = harness.prepared(parser.parse_args())
    bars = report.Bars(BARS)
    with harness.started(options) as peers:
        print(f"{peers.versions()}\nids {options.idtype}, seed {options.seed}\n")
        heads = ["model", "graph", "2 processes, ms", "smex, 1 thread", "ratio", "bound"]
        for system in ("smex", *PEERS):
            heads += [f"{system}, 2 threads", "ratio"]
        heads.append("MB moved")
        print(report.header(heads))
        for graph in options.graphs:
            for name in options.models:
                tell(peers, options, graph, name, bars)
    print(f"\n{bars.table()}")


if __name__ == "__main__":
    main()

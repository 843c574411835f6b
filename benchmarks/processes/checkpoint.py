"""Saving and loading beside torch.distributed.checkpoint (DCP), on one disk, in turns.

    python benchmarks/processes/checkpoint.py --megabytes 500 --ranks 1 --folder /tmp

A net of a few layers with AdamW, whose parameters and states have `--megabytes` in all, is saved
with 4 workers and loaded into 3 (of several processes: with 2 each, into 1 each), by `smex` and by
DCP in the same processes, in turns.
Both wait for the disk (DCP with `sync_files`). "load" is with the files in the page cache; "load,
cold" after they were dropped from it. Then: how long a save in the background stalls its caller,
beside a copy of the tensors alone; and what a load adds to the process's memory (RssAnon), sampled
each millisecond in another thread, beside the largest tile, in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn

import smex


def net_of(megabytes: float, workers: int) -> tuple:
    torch.manual_seed(0)
    layers = 6
    width = max(64, int((megabytes * 1e6 / 12 / layers) ** 0.5) // 64 * 64)
    model = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])
    x = torch.randn(16, width)
    net = smex.partition(model, workers=workers, args=(x,), replicate_bytes=0)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    return net, opt, x


def train(net, opt, x) -> None:
    net(x).square().mean().backward()
    opt.step()
    opt.zero_grad()


def drop_cache(folder: str) -> None:
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def told(values) -> str:
    return f"{statistics.median(values):.2f} s [{min(values):.2f}, {max(values):.2f}]"


def rss_anon() -> int:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no RssAnon in /proc/self/status")


def load_dcp(folder, net, opt) -> None:
    state = net.sharded_state_dict(opt, for_loading=True)
    dcp.load(state, checkpoint_id=folder)
    net.load_sharded_state_dict(state, opt)


def memory(folder: str, megabytes: float) -> None:
    """Prints what a load adds beyond what stays, with optimisers that have their state already."""
    net, opt, x = net_of(megabytes, 3)
    train(net, opt, x)
    smex.load(folder, net, opt)
    largest = max(p.nbytes for p in net.parameters())
    peak, stop = [0], threading.Event()
    before = rss_anon()

    def watch() -> None:
        while not stop.is_set():
            peak[0] = max(peak[0], rss_anon())
            time.sleep(0.001)

    thread = threading.Thread(target=watch)
    thread.start()
    smex.load(folder, net, opt)
    stop.set()
    thread.join()
    added = peak[0] - before
    print(
        f"| extra memory of a load | {added / 1e6:.1f} MB | largest tile {largest / 1e6:.1f} MB | "
        f"{added / largest:.2f} × |"
    )


class Turns:
    """Seconds of what all ranks do together, by name."""

    def __init__(self) -> None:
        self.found: dict[str, list[float]] = {}

    def time(self, what: str, call) -> None:
        together()
        start = time.perf_counter()
        call()
        together()
        self.note(what, time.perf_counter() - start)

    def note(self, what: str, took: float) -> None:
        self.found.setdefault(what, []).append(took)

    def beside(self, what: str) -> str:
        mine, others = self.found[f"{what} smex"], self.found[f"{what} dcp"]
        ratios = [a / b for a, b in zip(mine, others, strict=True)]
        spread = f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"
        totals = sum(mine) / sum(others)
        return f"| {what} | {told(mine)} | {told(others)} | {spread} | {totals:.2f} |"


def together() -> None:
    if dist.is_initialized():
        dist.barrier()


def turn(number: int, root: str, nets: tuple, turns: Turns, is_first: bool) -> tuple[str, str]:
    """Saves and loads by both, the one that begins changing from turn to turn."""
    (net, opt, _), (other, other_opt, _) = nets
    ours, theirs = f"{root}/smex-{number}", f"{root}/dcp-{number}"
    state = net.sharded_state_dict(opt)
    saves = [
        ("save smex", lambda: smex.save(ours, net, opt)),
        ("save dcp", lambda: dcp.save(state, checkpoint_id=theirs)),
    ]
    for what, save in saves if number % 2 else saves[::-1]:
        os.sync()
        turns.time(what, save)
    for way in ("load", "load, cold"):
        loads = [
            (f"{way} smex", ours, lambda: smex.load(ours, other, other_opt)),
            (f"{way} dcp", theirs, lambda: load_dcp(theirs, other, other_opt)),
        ]
        for what, folder, load in loads if number % 2 else loads[::-1]:
            if "cold" in what and is_first:
                drop_cache(folder)
            other_opt.state.clear()
            turns.time(what, load)
    return ours, theirs


def behind(root: str, net, opt, turns: Turns) -> None:
    """Times the stall of a save in the background, and a copy of the same tensors."""
    tiles = [p.detach() for p in net.parameters()]
    tiles += [t for s in opt.state.values() for t in s.values() if t.dim()]
    copies: list = []
    for what in ("copy", "stall"):
        together()
        if what == "stall":
            save = smex.save(f"{root}/behind", net, opt, background=True)
            turns.note(what, save.stall_seconds)
            save.wait()
        else:
            start = time.perf_counter()
            copies.extend(tile.clone() for tile in tiles)
            turns.note(what, time.perf_counter() - start)
            copies.clear()
    together()


def compare(rank: int, args: argparse.Namespace, root: str) -> None:
    warnings.simplefilter("ignore")
    if args.ranks > 1:
        store = f"file://{root}/store"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=args.ranks)
    before, after = (4, 3) if args.ranks == 1 else (2 * args.ranks, args.ranks)
    nets = net_of(args.megabytes, before), net_of(args.megabytes, after)
    net, opt, _ = nets[0]
    for _ in range(2):
        train(*nets[0])
    turns = Turns()
    for number in range(args.repeats):
        ours, theirs = turn(number, root, nets, turns, rank == 0)
        behind(root, net, opt, turns)
        if rank == 0:
            shutil.rmtree(f"{root}/behind")
            shutil.rmtree(theirs)
            if number + 1 < args.repeats:
                shutil.rmtree(ours)
        together()
    if rank == 0:
        size = sum(p.nbytes for p in net.parameters()) * 3 * args.ranks
        print(
            f"{size / 1e6:.0f} MB of parameters and states, {args.ranks} processes, {before} "
            f"workers into {after}, {args.repeats} turns, torch {torch.__version__}, "
            f"{torch.get_num_threads()} threads each"
        )
        print("| what | smex | DCP | ratio | of totals |\n|---|---|---|---|---|")
        for what in ("save", "load", "load, cold"):
            print(turns.beside(what))
        stall, copy = turns.found["stall"], turns.found["copy"]
        ratio = statistics.median(a / b for a, b in zip(stall, copy, strict=True))
        total = sum(stall) / sum(copy)
        print(f"| stall in the background | {told(stall)} | its copy {told(copy)} | "
              f"{ratio:.2f} | {total:.2f} |")  # fmt: skip
    if dist.is_initialized():
        dist.destroy_process_group()


def run(args: argparse.Namespace) -> None:
    root = tempfile.mkdtemp(dir=args.folder)
    try:
        if args.ranks == 1:
            compare(0, args, root)
        else:
            torch.multiprocessing.spawn(compare, (args, root), nprocs=args.ranks)
        last = f"{root}/smex-{args.repeats - 1}"
        command = [sys.executable, __file__, "--memory", last, "--megabytes", str(args.megabytes)]
        subprocess.run(command, check=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--folder")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.memory:
        memory(arguments.memory, arguments.megabytes)
    else:
        run(arguments)

"""Saving and loading beside torch.distributed.checkpoint (DCP), on one disk, in turns.

    python benchmarks/processes/checkpoint.py --megabytes 500 --folder /tmp

A net of a few layers with AdamW, whose parameters and states have `--megabytes` in all, is saved
with 4 workers and loaded into 3 (resharded), by `smex` and by DCP in the same process, in turns.
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


def seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


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


def compare(args: argparse.Namespace) -> None:
    net, opt, x = net_of(args.megabytes, 4)
    for _ in range(2):
        train(net, opt, x)
    other, other_opt, _ = net_of(args.megabytes, 3)
    root = tempfile.mkdtemp(dir=args.folder)
    size = sum(p.nbytes for p in net.parameters()) * 3
    found: dict[str, list[float]] = {}
    print(f"{size / 1e6:.0f} MB of parameters and states, {args.repeats} turns, torch "
          f"{torch.__version__}, {torch.get_num_threads()} threads")  # fmt: skip

    def note(what: str, took: float) -> None:
        found.setdefault(what, []).append(took)

    try:
        for turn in range(args.repeats):
            ours, theirs = f"{root}/smex-{turn}", f"{root}/dcp-{turn}"
            state = net.sharded_state_dict(opt)

            def save_ours(path=ours) -> None:
                smex.save(path, net, opt)

            def save_theirs(path=theirs, state=state) -> None:
                dcp.save(state, checkpoint_id=path, no_dist=True)

            saves = [("save smex", save_ours), ("save dcp", save_theirs)]
            for what, save in saves if turn % 2 else saves[::-1]:
                os.sync()
                note(what, seconds(save))
            for way in ("load", "load, cold"):
                loads = [
                    (f"{way} smex", ours, lambda: smex.load(ours, other, other_opt)),  # noqa: B023
                    (f"{way} dcp", theirs, lambda: load_dcp(theirs, other, other_opt)),  # noqa: B023
                ]
                for what, folder, load in loads if turn % 2 else loads[::-1]:
                    if "cold" in what:
                        drop_cache(folder)
                    other_opt.state.clear()
                    note(what, seconds(load))
            behind = smex.save(f"{root}/behind", net, opt, background=True)
            note("stall", behind.stall_seconds)
            behind.wait()
            shutil.rmtree(f"{root}/behind")
            tiles = [p for p in net.parameters()]
            tiles += [t for s in opt.state.values() for t in s.values() if t.dim()]
            copies: list = []
            note("copy", seconds(lambda: copies.extend(tile.detach().clone() for tile in tiles)))
            del copies
            for folder in (ours, theirs):
                if turn + 1 < args.repeats or folder == theirs:
                    shutil.rmtree(folder)
        print("| what | smex | DCP | ratio |\n|---|---|---|---|")
        for what in ("save", "load", "load, cold"):
            mine, other_times = found[f"{what} smex"], found[f"{what} dcp"]
            ratios = [a / b for a, b in zip(mine, other_times, strict=True)]
            print(f"| {what} | {told(mine)} | {told(other_times)} | "
                  f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}] |")  # fmt: skip
        stall, copy = found["stall"], found["copy"]
        ratio = statistics.median(a / b for a, b in zip(stall, copy, strict=True))
        print(f"| stall of a save in the background | {told(stall)} | its copy {told(copy)} | "
              f"{ratio:.2f} |")  # fmt: skip
        command = [sys.executable, __file__, "--memory", ours, "--megabytes", str(args.megabytes)]
        subprocess.run(command, check=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.memory:
        memory(arguments.memory, arguments.megabytes)
    else:
        compare(arguments)

"""SIGKILLs at random moments of saves: the last complete checkpoint loads each time.

    python benchmarks/processes/kills.py --kills 200 --ranks 2 --folder /tmp

Processes train a small net whose workers they share and save after each step: into a folder of its
own, over a checkpoint that is there, and in the background, in turns. They are killed, all or one
of them, between 0 and `--longest` seconds after they began to save. Then `smex.latest` has to find
a checkpoint, it has to load bit by bit as it was saved (its step tells what it holds), and it must
be none before the last that a save had returned from. The next processes go on from there.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

import smex
from smex.distributed.world import World

WORKERS = 4


def net_of(width: int) -> tuple:
    model = nn.Sequential(nn.Linear(width, width), nn.Linear(width, width))
    net = smex.partition(model, workers=WORKERS, args=(torch.ones(4, width),), replicate_bytes=0)
    return net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def fill(net, opt, step: int) -> None:
    """Gives all tensors values that tell the step: a counter of their elements besides."""
    with torch.no_grad():
        for number, param in enumerate(net.parameters()):
            param.copy_(torch.arange(param.numel()).view(param.shape) % 97 + step + number)
            opt.state[param]["momentum_buffer"] = param.detach() * 2


def divide(net, opt, world: World):
    """Leaves a rank the tiles of its workers."""
    if world.is_alone:
        return opt
    net._world = world
    mine = []
    for cut in net._state.cuts.values():
        for worker in range(WORKERS):
            if worker not in world.workers:
                cut.tiles[worker] = None
        vars(cut.pieces).pop("unique", None)
        mine += [tile for tile, _ in cut.unique]
    own = torch.optim.SGD(mine, lr=0.1, momentum=0.9)
    own.state.update({tile: opt.state[tile] for tile in mine})
    return own


def survive(*args) -> None:
    """Trains until the process is killed, or another was."""
    with contextlib.suppress(RuntimeError):
        train(*args)


def train(rank: int, size: int, root: str, begin: int, net, opt, ready) -> None:
    world = World.alone(WORKERS)
    if size > 1:
        store = f"file://{root}/store-{begin}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
        world = World.of(range(size), WORKERS, "cpu", timeout=1800)
    fill(net, opt, begin)
    own = divide(net, opt, world)
    ready.put(os.getpid())
    while not os.path.exists(f"{root}/go-{begin}"):
        time.sleep(0.002)
    for step in range(begin + 1, begin + 10_000):
        with torch.no_grad():
            for group in own.param_groups:
                for param in group["params"]:
                    param += 1
                    own.state[param]["momentum_buffer"] += 2
        name = "same" if step % 3 == 0 else f"step-{step}"
        kept = smex.save(f"{root}/saved/{name}", net, own, {"step": step}, background=step % 3 == 1)
        if step % 3 != 1:  # it has returned: this one is safe
            pathlib.Path(f"{root}/safe-{rank}").write_text(str(step))
        del kept


def check(root: str, net, opt) -> int:
    """Loads the last checkpoint; returns its step."""
    path = smex.latest(f"{root}/saved")
    safe = pathlib.Path(f"{root}/safe-0")
    if path is None:
        assert not safe.exists(), "a save returned, and no checkpoint is complete"
        return 0
    step = smex.load(path, net, opt)["step"]
    loaded = [p.detach().clone() for p in net.parameters()]
    states = [opt.state[p]["momentum_buffer"].clone() for p in net.parameters()]
    fill(net, opt, step)
    for p, value, state in zip(net.parameters(), loaded, states, strict=True):
        assert torch.equal(p, value), f"{path} is not what was saved"
        assert torch.equal(opt.state[p]["momentum_buffer"], state), f"{path}: a state is not"
    text = safe.read_text() if safe.exists() else ""
    assert step >= int(text or 0), f"step {step} after {text} was saved"
    return step


def run(kills: int, size: int, longest: float, width: int, folder: str | None, seed: int) -> str:
    """Kills so many times; returns what was seen."""
    draw = random.Random(seed)
    root = tempfile.mkdtemp(dir=folder)
    torch.set_num_threads(1)  # others do not survive a fork
    context = multiprocessing.get_context("fork")  # the net is there, so a round takes no seconds
    left, loaded = {"temporary": 0, "complete": 0}, []
    net, opt = net_of(width)
    try:
        for kill in range(kills):
            begin = check(root, net, opt)
            loaded.append(begin)
            for old in pathlib.Path(root).glob("go-*"):
                old.unlink()
            ready = context.Queue()
            pathlib.Path(f"{root}/store-{begin}").unlink(missing_ok=True)
            args = (size, root, begin, net, opt, ready)
            processes = [
                context.Process(target=survive, args=(rank, *args), daemon=True)
                for rank in range(size)
            ]
            for process in processes:
                process.start()
            for _ in processes:
                ready.get(timeout=120)
            pathlib.Path(f"{root}/go-{begin}").write_text("")
            time.sleep(draw.uniform(0, longest))
            first = draw.randrange(size)
            os.kill(processes[first].pid, signal.SIGKILL)
            if kill % 2:
                time.sleep(draw.uniform(0, 0.02))  # the others see it, or not
            for process in processes:
                process.kill()
                process.join()
            names = os.listdir(f"{root}/saved") if os.path.isdir(f"{root}/saved") else []
            left["temporary"] += any(".tmp-" in name for name in names)
            left["complete"] += any(".tmp-" not in name for name in names)
            for name in names:  # so that each round begins with a clean folder but for the last
                path = os.path.join(root, "saved", name)
                if path != smex.latest(f"{root}/saved"):
                    shutil.rmtree(path)
        loaded.append(check(root, net, opt))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return (
        f"{kills} kills of {size} processes: {left['temporary']} left an unfinished save, the last "
        f"complete checkpoint loaded {len(loaded)} times, up to step {loaded[-1]}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--longest", type=float, default=0.3)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--folder")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(run(arguments.kills, arguments.ranks, arguments.longest, arguments.width,
              arguments.folder, arguments.seed))  # fmt: skip

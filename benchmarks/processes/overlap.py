"""How much of what two processes send each other is on its way while they compute.

    python benchmarks/processes/overlap.py [--rounds 5] [--only GPT] [--links 200mbit]

Two ranks of one thread on emulated hosts (see `emulate`). By planner and link a step with fetches
waited for where their results are read, and the same with each waited for at once
(SMEX_OVERLAP=0), in turns in one run; the predicted peak is the same. A step is forward and
backward, and ends when the last rank has. Medians of the rounds.

"Could" is the most that any order of messages could hide, with whatever memory: what a step with
fetches waited for at once takes beyond the bound of `plan.timeline().least`. That is of the machine
that `smex.Machine.calibrate(mesh=mesh)` measures in the same run, its arithmetic and memory scaled
so that workers are as busy as was measured. "Hidden" is what the step is shorter, and its share of
that. "Predicted" is `plan.timeline()`, unscaled, with fetches in the two ways.

The planner "time" is `objective="time"`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from cases import CASES, SMALL
from emulate import emulated
from steps import LINKS, RANKS
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import smex

PLANNERS = ("data_parallel", "fsdp", "tofu", "time")
WARM_UP = 2


def measure(
    options: argparse.Namespace, planner: str, machine: smex.Machine, mesh: DeviceMesh
) -> dict[str, Any]:
    """Returns the numbers of one planner; all ranks call this."""
    case = (SMALL if options.small else CASES)[options.worker]
    model, batch = case.make()
    nets = {}
    asked = {"objective": "time"} if planner == "time" else {"planner": planner}
    for word in ("0", "1"):
        os.environ["SMEX_OVERLAP"] = word
        nets[word] = smex.partition(
            model, mesh=mesh, args=batch, loss_fn=case.loss_fn, machine=machine, **asked
        )

    def step(net: smex.PartitionedModule) -> float:
        dist.barrier()
        started = time.perf_counter()
        net(*batch).backward()
        seconds = time.perf_counter() - started
        for parameter in net.parameters():
            parameter.grad = None
        return seconds

    taken: dict[str, list[float]] = {"0": [], "1": []}
    busy: list[float] = []
    for number in range(WARM_UP + options.rounds):
        for word, net in nets.items():
            seconds = step(net)
            stats = net.stats()
            if number < WARM_UP:
                continue
            taken[word].append(seconds)
            if word == "0":
                of_workers = zip(stats["compute_seconds"], stats["fetch_seconds"], strict=True)
                busy.append(max(map(sum, of_workers)))
    ranks: list[Any] = [None] * RANKS
    dist.all_gather_object(ranks, taken)
    slowest = {
        word: statistics.median(map(max, zip(*(each[word] for each in ranks), strict=True)))
        for word in taken
    }
    plan = nets["1"].plan
    link = machine.levels[0]
    late, at_once = plan.timeline(), plan.timeline(overlap=False)
    slower = statistics.median(busy) / max(at_once.busy)
    as_measured = dataclasses.replace(
        machine,
        flops={dtype: rate / slower for dtype, rate in machine.flops.items()},
        memory_bandwidth=machine.memory_bandwidth / slower,
        launch=machine.launch * slower,
    )
    return {
        "off": slowest["0"],
        "on": slowest["1"],
        "least": plan.on(as_measured).timeline().least,
        "busy": statistics.median(busy),
        "transfer": max(stats["received_bytes"]) / link.bandwidth,
        "predicted": [at_once.seconds, late.seconds],
        "peak": max(plan.peak_bytes()),
        "moved": plan.total_bytes,
    }


def worker(options: argparse.Namespace) -> None:
    """Measures one case as one rank; rank 0 prints JSON."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (RANKS,))
    machine = smex.Machine.calibrate(mesh=mesh)
    found = {planner: measure(options, planner, machine, mesh) for planner in options.planners}
    if dist.get_rank() == 0:
        level = machine.levels[0]
        link = [level.latency, level.bandwidth, level.overlap]
        print(json.dumps({"link": link, "planners": found}))
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # once in some fifty runs a thread of torch's aborts while Python ends


def row(name: str, link: str, planner: str, found: dict[str, Any]) -> str:
    """Returns a line of the table."""
    could = found["off"] - found["least"]
    hidden = found["off"] - found["on"]
    share = f"{hidden / could:.0%}" if could > 0.01 * found["off"] else "nothing could be"
    return (
        f"| {name} | {link} | {planner} | {found['moved'] / 1e6:.0f} MB | {found['busy']:.2f} s | "
        f"{found['transfer']:.2f} s | {found['off']:.2f} s | {found['on']:.2f} s | "
        f"{max(could, 0):.2f} s | {hidden:.2f} s | {share} | "
        f"{found['predicted'][0]:.2f} s | {found['predicted'][1]:.2f} s |"
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="part of the names of the models")
    parser.add_argument("--links", nargs="*", choices=[*LINKS], default=["1gbit", "200mbit"])
    parser.add_argument("--planners", nargs="*", default=[*PLANNERS])
    parser.add_argument("--small", action="store_true", help="models that take milliseconds")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options)
        return
    print(f"torch {torch.__version__}, {RANKS} ranks of 1 thread\n")
    heads = (
        "model", "link", "planner", "moved", "busy", "transfer", "at once", "overlapped", "could",
        "hidden", "share", "predicted at once", "overlapped",
    )  # fmt: skip
    print(f"| {' | '.join(heads)} |")
    print("| --- | --- | --- |" + " ---: |" * (len(heads) - 3), flush=True)
    links = {}
    for name in [name for name in (SMALL if options.small else CASES) if options.only in name]:
        for link in options.links:
            flags = ["--rounds", str(options.rounds), "--planners", *options.planners]
            flags += ["--small"] * options.small + ["--worker", name]
            with emulated(RANKS, LINKS[link]) as hosts:
                command = [sys.executable, __file__, *flags]
                said = hosts.run(command, timeout=3600, env={"OMP_NUM_THREADS": "1"})[0]
            found = json.loads(said.splitlines()[-1])
            links[link] = found["link"]
            for planner, numbers in found["planners"].items():
                print(row(name, link, planner, numbers), flush=True)
    for link, (latency, bandwidth, overlap) in links.items():
        print(
            f"\n{link}: {latency * 1e6:.0f} µs, {bandwidth / 1e6:.1f} MB/s, of a transfer's time "
            f"{overlap:.0%} left to compute in"
        )


if __name__ == "__main__":
    main()

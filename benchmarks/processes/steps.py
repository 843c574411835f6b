"""Seconds and bytes of a training step over two processes: smex beside DDP, FSDP2 and DTensor's TP.

    python benchmarks/processes/steps.py [--rounds 9] [--only MLP] [--links 200mbit] [--peers]

Two ranks of one thread on emulated hosts (see `emulate`): over loopback, and over links of 1 Gbit/s
and 200 Mbit/s. All systems are made in one run and take turns, round by round, so that what else
the computer does hits all alike. A step is forward, backward and AdamW on the same batch; it has
ended when the last rank has. Each cell is the median [least, most] of the rounds and the bytes that
the kernel has counted at the interfaces of both ranks, without headers, in a step. The last column
is the quickest peer's time over that of smex on processes: the median of the rounds' ratios.

Before that three steps of each system warm up; their losses are compared with those of the plain
model in one process. "smex, threads" are two workers in one process, of which the other rank waits.

The plan of smex is the one of least time for this computer, calibrated, and the link as the ranks
measure it. A second table has what the plan predicts beside what was measured. A system that does
not run has a note.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from cases import CASES, SMALL, Case
from emulate import Counters, emulated
from peers import PEERS, RefusedError, losses, losses_of_one_process, optimizer_of
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import smex

RANKS = 2
LINKS = {"loopback": None, "1gbit": "1gbit", "200mbit": "200mbit"}
WARM_UP = 3
TOLERANCE = 0.01  # of how much the steps change the loss: of a gradient, whatever its scale
ROUNDING = 1e-6  # of the loss itself
THREADS, PROCESSES = "smex, threads", "smex, processes"
SYSTEMS = (*PEERS, THREADS, PROCESSES)


@dataclasses.dataclass
class System:
    """What takes a turn in each round.

    Attributes:
        step: a training step, which returns the loss; None for a rank that only waits.
        net: of smex.
        parts: into how many the batch is divided.
    """

    step: Callable[[], float] | None
    net: Any = None
    parts: int = 1
    seconds: list[float] = dataclasses.field(default_factory=list)
    sent: list[int] = dataclasses.field(default_factory=list)


def smex_system(case: Case, optimizer: str, machine: smex.Machine, **where: Any) -> System:
    """A net of the plan of least time."""
    model, batch = case.make()
    net = smex.partition(
        model, args=batch, loss_fn=case.loss_fn, objective="time", machine=machine, **where
    )
    made = optimizer_of(net.parameters(), optimizer)

    def step() -> float:
        made.zero_grad()
        loss = net(*batch)
        loss.backward()
        made.step()
        return loss.item()

    return System(step, net)


def systems(
    case: Case, mesh: DeviceMesh, machine: smex.Machine, options: argparse.Namespace
) -> tuple[dict[str, System], dict[str, str]]:
    """What runs, and why the others do not."""
    found, refused = {}, {}
    for name, make in PEERS.items():
        try:
            step = make(case, mesh, options.optimizer)
            found[name] = System(step, parts=step.parts)
        except RefusedError as error:
            refused[name] = str(error)
    if options.peers:
        return found, refused
    here = mesh.get_local_rank() == 0
    found[THREADS] = System(None)
    if here:
        found[THREADS] = smex_system(case, options.optimizer, machine, workers=RANKS, processes=1)
    linked = dataclasses.replace(machine, levels=smex.Machine.calibrate(mesh=mesh).levels)
    try:
        found[PROCESSES] = smex_system(case, options.optimizer, linked, mesh=mesh)
    except smex.SmexError as error:
        refused[PROCESSES] = f"not there yet: {error}"
    return found, refused


def check(name: str, system: System, mesh: DeviceMesh, wanted: dict[int, list[float]]) -> None:
    """Warms a system up and raises where its losses are not those of one process."""
    if system.step is None:
        return
    if system.parts > 1:
        got = losses(system.step, WARM_UP, mesh)
    else:
        got = [system.step() for _ in range(WARM_UP)]
    want = wanted[system.parts]
    allowed = TOLERANCE * (max(want) - min(want)) + ROUNDING * max(map(abs, want))
    if any(not abs(mine - one) <= allowed for mine, one in zip(got, want, strict=True)):
        raise AssertionError(f"{name}: losses {got}, of one process {want}, allowed ± {allowed}")


def turn(system: System) -> None:
    """One step, timed and counted by this rank."""
    dist.barrier()
    before, started = Counters.read(), time.perf_counter()
    if system.step is not None:
        system.step()
    system.seconds.append(time.perf_counter() - started)
    dist.barrier()  # until here the other rank sends; a barrier is some hundred bytes
    system.sent.append((Counters.read() - before).sent_payload)


def worker(options: argparse.Namespace) -> None:
    """Measures one case as one rank; rank 0 prints JSON."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (RANKS,))
    case = (SMALL if options.small else CASES)[options.worker]
    machine = smex.Machine.from_contents(json.loads(options.machine))
    those, refused = systems(case, mesh, machine, options)
    wanted = {
        parts: losses_of_one_process(case, parts, WARM_UP, options.optimizer)
        for parts in {system.parts for system in those.values()}
    }
    for name, system in those.items():
        check(name, system, mesh, wanted)
    for done in range(options.rounds):
        order = list(those.values())
        shift = done % len(order)
        for system in order[shift:] + order[:shift]:
            turn(system)
    ranks = [None] * RANKS
    dist.all_gather_object(ranks, {n: (s.seconds, s.sent) for n, s in those.items()})
    moved = {n: s.net.stats()["bytes_moved"] for n, s in those.items() if s.net is not None}
    if mesh.get_local_rank() == 0:
        print(json.dumps(summary(those, refused, ranks, moved, options)))
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # once in some fifty runs a thread of torch's aborts while Python ends


def summary(
    those: dict[str, System],
    refused: dict[str, str],
    ranks: list[Any],
    moved: dict[str, int],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """By system what was measured, of all ranks, and what smex has predicted and counted itself."""
    measured = {}
    for name, system in those.items():
        seconds = [max(of_ranks) for of_ranks in zip(*(rank[name][0] for rank in ranks))]
        # On loopback each rank has read the counters of both.
        counted = ranks if options.link != "loopback" else ranks[:1]
        sent = [sum(of_ranks) for of_ranks in zip(*(rank[name][1] for rank in counted))]
        measured[name] = {"seconds": seconds, "sent": statistics.median(sent)}
        if system.net is not None:
            measured[name] |= {
                "predicted_seconds": system.net.plan.timeline().seconds,
                "predicted_bytes": system.net.plan.total_bytes,
                "moved_bytes": moved[name],
            }
    return {"measured": measured, "refused": refused}


def cell(measured: dict[str, Any] | None) -> str:
    if measured is None:
        return "none"
    seconds = measured["seconds"]
    return (
        f"{statistics.median(seconds):.2f} s [{min(seconds):.2f}, {max(seconds):.2f}], "
        f"{measured['sent'] / 1e6:.0f} MB"
    )


def ratio(measured: dict[str, Any], ours: str = PROCESSES) -> str:
    """The quickest peer's time over smex's."""
    if ours not in measured:
        return "none"
    best = min(
        (name for name in PEERS if name in measured),
        key=lambda name: statistics.median(measured[name]["seconds"]),
    )
    pairs = zip(measured[best]["seconds"], measured[ours]["seconds"], strict=True)
    return f"{statistics.median(peer / mine for peer, mine in pairs):.2f} ({best})"


def prediction(measured: dict[str, Any]) -> str:
    return (
        f"{measured['predicted_seconds']:.2f} s | {statistics.median(measured['seconds']):.2f} s | "
        f"{measured['predicted_bytes'] / 1e6:.2f} MB | {measured['moved_bytes'] / 1e6:.2f} MB | "
        f"{measured['sent'] / 1e6:.2f} MB |"
    )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="over slow links a half of them")
    parser.add_argument("--only", default="", help="part of the names of the models")
    parser.add_argument("--links", nargs="*", choices=[*LINKS], default=[*LINKS])
    parser.add_argument("--optimizer", choices=["sgd", "adamw"], default="adamw")
    parser.add_argument("--peers", action="store_true", help="without smex")
    parser.add_argument("--small", action="store_true", help="models that take milliseconds")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--machine", help=argparse.SUPPRESS)
    parser.add_argument("--link", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options)
        return
    machine = smex.Machine.calibrate(RANKS)
    print(
        f"torch {torch.__version__}, {RANKS} ranks of 1 thread, {options.optimizer}; "
        f"{machine.flops['float32'] / 1e9:.0f} GFLOP/s, "
        f"memory {machine.memory_bandwidth / 1e9:.1f} GB/s\n"
    )
    print(f"| model | link | {' | '.join(SYSTEMS)} | best peer over smex |")
    print("| --- | --- |" + " ---: |" * (len(SYSTEMS) + 1), flush=True)
    notes: dict[str, None] = {}
    predictions = []
    for name in [name for name in (SMALL if options.small else CASES) if options.only in name]:
        for link in options.links:
            rounds = options.rounds if link != "200mbit" else (options.rounds + 1) // 2
            flags = ["--rounds", str(rounds), "--optimizer", options.optimizer, "--link", link]
            flags += ["--peers"] * options.peers + ["--small"] * options.small
            flags += ["--machine", json.dumps(machine.contents()), "--worker", name]
            with emulated(RANKS, LINKS[link]) as hosts:
                command = [sys.executable, __file__, *flags]
                said = hosts.run(command, timeout=3600, env={"OMP_NUM_THREADS": "1"})[0]
            found = json.loads(said.splitlines()[-1])
            measured = found["measured"]
            cells = " | ".join(cell(measured.get(system)) for system in SYSTEMS)
            print(f"| {name} | {link} | {cells} | {ratio(measured)} |", flush=True)
            for system, why in found["refused"].items():
                notes[f"{name}, {system}: {why}"] = None
            for system in (THREADS, PROCESSES):
                if system in measured:
                    predictions.append(
                        f"| {name} | {link} | {system} | {prediction(measured[system])}"
                    )
    if predictions:
        print(
            "\n| model | link | system | predicted | measured | predicted | moved | the kernel's |"
        )
        print("| --- | --- | --- |" + " ---: |" * 5)
        print("\n".join(predictions))
    for note in notes:
        print(f"\n{note}")


if __name__ == "__main__":
    main()

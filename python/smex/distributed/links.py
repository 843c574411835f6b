"""What links between processes carry, measured as programs of nets use them."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch

from smex._C import (
    Binding,
    ComputeInstr,
    CopyPart,
    Executor,
    FetchInstr,
    FreeInstr,
    Program,
    ValueRef,
    WorkerProgram,
)
from smex.distributed.world import World, synchronize

_SHORT, _LONG = 1 << 8, 1 << 20
"""Elements of a message and of a tile, of 4 bytes."""
_ROWS = 256
"""Of the matrices that are multiplied while tiles are on their way."""
_HANDOVERS = 50
"""Messages one after another, of which each waits for the one before."""
_ROUNDS = 5


def measured_link(
    world: World, shape: Sequence[int], dim: int, device: torch.device
) -> tuple[float, float, float]:
    """Measures the links along a dimension of a mesh of processes, which all call this.

    Each worker receives a tile from the next along the dimension while all do.

    Args:
        world: of one worker a process.
        shape: of the mesh.
        dim: the dimension.
        device: of this process's tiles.

    Returns:
        Seconds that a message takes, bytes a second that a worker receives, and the share of a
        transfer's time that is left to compute in (`smex.Level.overlap`).
    """
    sources = [_next(worker, shape, dim) for worker in range(math.prod(shape))]
    latency = _seconds(world, device, _chain(sources, _SHORT), _SHORT) / _HANDOVERS
    moving = _seconds(world, device, _program(sources, _LONG, 0), _LONG)
    product = _seconds(world, device, _program([], _LONG, 16, world.size), _LONG) / 16
    count = max(4, round(moving / product))  # about as long as the transfer
    computing = _seconds(world, device, _program([], _LONG, count, world.size), _LONG)
    both = _seconds(world, device, _program(sources, _LONG, count), _LONG)
    return latency, 4 * _LONG / moving, _hidden(moving, computing, both)


def measured_overlaps(world: World, device: torch.device) -> list[float]:
    """Measures by process what share of a transfer's time is left to compute in; all call this.

    Processes may differ: who has a small part of a processor moves bytes with all of it.

    Args:
        world: of one worker a process.
        device: of this process's tiles.
    """
    sources = [_next(worker, [world.size], 0) for worker in range(world.size)]
    moving = _own_seconds(world, device, _program(sources, _LONG, 0), _LONG)
    products = _own_seconds(world, device, _program([], _LONG, 16, world.size), _LONG)
    counts = [
        max(4, round(16 * of_transfer / of_products))  # about as long as the transfer
        for of_transfer, of_products in zip(moving, products, strict=True)
    ]
    computing = _own_seconds(world, device, _program([], _LONG, counts, world.size), _LONG)
    both = _own_seconds(world, device, _program(sources, _LONG, counts), _LONG)
    return [_hidden(*seconds) for seconds in zip(moving, computing, both, strict=True)]


def measured_pair(world: World, to: int, source: int, device: torch.device) -> tuple[float, float]:
    """Measures the link between two processes while all others are silent; all call this.

    Args:
        world: of one worker a process.
        to: the worker that receives.
        source: whose tiles.
        device: of this process's tiles.

    Returns:
        Seconds that a message takes, and bytes a second that the worker receives.
    """
    both: list[int | None] = [None] * world.size
    both[to], both[source] = source, to
    latency = _seconds(world, device, _chain(both, _SHORT), _SHORT, (to, source)) / _HANDOVERS
    one = [source if worker == to else None for worker in range(world.size)]
    moving = _seconds(world, device, _program(one, _LONG, 0), _LONG, (to,))
    return latency, 4 * _LONG / max(moving - latency, 1e-9)


def _hidden(moving: float, computing: float, both: float) -> float:
    """Returns which share of the shorter of two is hidden, by their seconds and those of both."""
    return min(1.0, max(0.0, (moving + computing - both) / min(moving, computing)))


def _next(worker: int, shape: Sequence[int], dim: int) -> int:
    """Returns the worker that follows along a dimension, the last one's being the first."""
    stride = math.prod(shape[dim + 1 :])
    place = worker // stride % shape[dim]
    return worker + ((place + 1) % shape[dim] - place) * stride


def _chain(sources: Sequence[int | None], elements: int) -> Program:
    """Workers that fetch what their source has fetched before, again and again; None does nothing.

    A single message would be measured with the time between the processes' beginnings.
    """
    box = [(0, elements)]
    lists = []
    matrix, tile = range(2)
    slots = tile + _HANDOVERS + 1
    for source in sources:
        instrs: list[Any] = []
        for n in range(_HANDOVERS):
            if source is None:
                break
            part = CopyPart(source, tile + n, box, box)
            instrs.append(FetchInstr(tile + n + 1, [elements], "float32", [part], relayout=n))
        lists.append(WorkerProgram(slots, instrs, slot_itemsizes=[4] * slots))
    every = len(lists)
    return Program(lists, [Binding(0, [tile] * every), Binding(1, [matrix] * every)], [])


def _program(
    sources: Sequence[int | None], elements: int, products: int | Sequence[int], workers: int = 0
) -> Program:
    """Workers that fetch a tile each, from `sources`, and multiply matrices meanwhile.

    So many times, all of them or each.
    """
    lists = []
    tile, matrix, fetched, made = range(4)
    box = [(0, elements)]
    for worker in range(len(sources) or workers):
        instrs: list[Any] = []
        source = sources[worker] if sources else None
        count = products if isinstance(products, int) else products[worker]
        if source is not None:
            part = CopyPart(source, tile, box, box)
            due = 1 + 2 * count if count else -1
            instrs.append(FetchInstr(fetched, [elements], "float32", [part], relayout=0, due=due))
        for n in range(made, made + count):
            arguments = [ValueRef(matrix), ValueRef(matrix)]
            instrs += [ComputeInstr("aten::mm", arguments, [n]), FreeInstr(n)]
        itemsizes = [4] * (made + count)
        lists.append(WorkerProgram(len(itemsizes), instrs, slot_itemsizes=itemsizes))
    every = len(lists)
    return Program(lists, [Binding(0, [tile] * every), Binding(1, [matrix] * every)], [])


def _seconds(
    world: World,
    device: torch.device,
    program: Program,
    elements: int,
    of: Sequence[int] | None = None,
) -> float:
    """Returns how long a program takes from when the last process has begun it.

    Args:
        world: of one worker a process.
        device: of this process's tiles.
        program: that all run.
        elements: of its tiles.
        of: the processes that do something; by default all.
    """
    everywhere = _rounds(world, device, program, elements)
    counted = everywhere if of is None else [everywhere[rank] for rank in of]
    # Who begins last waits for no one's beginning.
    return statistics.median(min(of_round) for of_round in zip(*counted, strict=True))


def _own_seconds(
    world: World, device: torch.device, program: Program, elements: int
) -> list[float]:
    """Returns by process how long its own part of a program takes."""
    return [statistics.median(rounds) for rounds in _rounds(world, device, program, elements)]


def _rounds(
    world: World, device: torch.device, program: Program, elements: int
) -> list[list[float]]:
    """Runs a program some times; returns by process the seconds of each."""
    devices = [str(device)] * len(world.ranks)  # those of others do not matter
    executor = Executor(program, devices=devices, take=True, **world.executor_options())
    here = [worker in world.workers for worker in range(len(world.ranks))]
    # Of the types that the program says, whatever the user's defaults are.
    made: dict[str, Any] = {"dtype": torch.float32, "device": device}
    tiles = [torch.ones(elements, **made) if mine else None for mine in here]
    matrices = [torch.ones(_ROWS, _ROWS, **made) if mine else None for mine in here]
    taken = []
    for _ in range(_ROUNDS + 1):
        session = executor.start([tiles, matrices])
        world.gather(None)  # all begin together
        started = time.perf_counter()
        session.run_forward()
        synchronize(device)
        taken.append(time.perf_counter() - started)
    found: list[list[float]] = world.gather(taken[1:])
    return found

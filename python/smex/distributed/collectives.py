"""Which relayouts of a program go through torch's collectives: where these measure faster."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from smex._C import Collective, Executor, find_collectives, sample_collective
from smex._logging import logger
from smex.distributed.world import World, synchronize
from smex.text import duration_words, size_words

MODES = ("auto", "never", "always")
_SIZES = (4 << 10, 64 << 10, 512 << 10)
"""Bytes that are measured, see `Collective.bytes`."""
_RUNS = 4
_MARGIN = 0.8
"""A collective has to take less than so much of what packets take: measurements are noisy."""


@dataclasses.dataclass(frozen=True)
class CollectiveOptions:
    """What the user says of collectives.

    Attributes:
        mode: one of `MODES`.
        deterministic: forbids those that add up in an order of their own.
    """

    mode: str = "auto"
    deterministic: bool = True


class Chosen(NamedTuple):
    """The collectives that a program uses.

    Attributes:
        collectives: for its Executor.
        reasons: why packets are used where a collective could be, for each kind and size of groups
            once.
    """

    collectives: list[Collective]
    reasons: list[str]


class Measured(NamedTuple):
    """The least seconds of one relayout by `_SIZES`, as packets and as a collective."""

    packets: list[float]
    collective: list[float]

    def gains(self, nbytes: int) -> bool:
        """Whether the collective is faster for so many bytes."""
        packets, collective = (_interpolated(seconds, nbytes) for seconds in self)
        return collective < _MARGIN * packets


def choose_collectives(
    world: World, program: Any, devices: Sequence[torch.device], options: CollectiveOptions
) -> Chosen:
    """Returns the relayouts that go through collectives; all processes call this together.

    Where these are measured for the first time, it takes up to seconds over slow links. Between
    processes that share memory they are not: a collective copies through the kernel what one copy
    brings (see `benchmarks/processes/transports.py`).

    Args:
        world: of the processes.
        program: the same on all.
        devices: of the workers.
        options: the same on all.

    Raises:
        RankFailure: a process has failed.
    """
    if world.links is None or options.mode == "never":
        return Chosen([], [])
    found = find_collectives(program, world.ranks, not options.deterministic)
    chosen: list[Collective] = []
    reasons: dict[tuple[str, int], str] = {}  # by kind and the size of groups
    for collective in found:
        groups = [tuple(group) for group in collective.groups]
        key = collective.kind, tuple(groups)
        size = len(groups[0])
        if options.mode == "auto" and all(map(world.links.shares_memory, groups)):
            reasons[collective.kind, 0] = f"{collective.kind}: processes share memory"
            continue
        world.links.connect(groups, devices[world.workers[0]])
        if options.mode == "auto":
            if key not in world.links.measured:
                world.links.measured[key] = _measure(world, devices, collective)
            if not world.links.measured[key].gains(collective.bytes):
                reason = _compared(collective.kind, size, world.links.measured[key])
                reasons.setdefault((collective.kind, size), reason)
                continue
        chosen.append(collective)
    return Chosen(chosen, list(reasons.values()))


def _measure(world: World, devices: Sequence[torch.device], like: Collective) -> Measured:
    measured = Measured([], [])
    for nbytes in _SIZES:
        program = sample_collective(like.kind, like.groups, world.ranks, nbytes)
        collectives = find_collectives(program, world.ranks, True)
        for seconds, used in zip(measured, ([], collectives), strict=True):
            executor = Executor(
                program,
                threads_per_worker=1,
                devices=[str(device) for device in devices],
                collectives=used,
                **world.executor_options(),
            )
            seconds.append(_least_seconds(executor, world, devices))
    everyone = world.gather(measured)  # ranks in no group have nothing to wait for
    agreed = Measured(*(list(map(max, zip(*rows, strict=True))) for rows in zip(*everyone)))
    logger.info("%s", _compared(like.kind, len(like.groups[0]), agreed))
    return agreed


def _least_seconds(executor: Any, world: World, devices: Sequence[torch.device]) -> float:
    binding = executor.program.inputs[0]
    tiles = [
        torch.zeros(
            [hi - lo for lo, hi in binding.regions[worker]],
            dtype=torch.float32,
            device=devices[worker],
        )
        if binding.slots[worker] >= 0 and worker in world.workers
        else None
        for worker in range(len(world.ranks))
    ]
    runs = []
    for _ in range(_RUNS):
        session = executor.start([tiles])
        started = time.perf_counter()
        session.run_forward()
        synchronize(devices[world.workers[0]])
        runs.append(time.perf_counter() - started)
    return min(runs)


def _interpolated(seconds: Sequence[float], nbytes: int) -> float:
    """Seconds for so many bytes: as the least up to that, then along lines, the last for more."""
    points = list(zip(_SIZES, seconds, strict=True))
    if nbytes <= points[0][0]:
        return points[0][1]
    for (size, before), (next_size, after) in itertools.pairwise(points):
        if nbytes <= next_size or next_size == _SIZES[-1]:
            slope = max(0.0, after - before) / (next_size - size)
            return before + slope * (nbytes - size)
    raise AssertionError("there are several sizes")


def _compared(kind: str, size: int, measured: Measured) -> str:
    packets, collective = (duration_words(seconds[-1]) for seconds in measured)
    words = f"{size_words(_SIZES[-1])} take {collective}, packets {packets}"
    return f"{kind} of {size} processes: {words}"

"""The few numbers that describe a machine to the objective "time"."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from smex._C import Cluster as _Cluster
from smex.distributed.links import measured_link
from smex.distributed.world import World, members_of
from smex.errors import SmexTypeError, SmexValueError
from smex.planning.call_costs import Calls, calls_of
from smex.planning.device_page import (
    ShownDevice,
    device_fragment,
    device_overview,
    device_page,
)
from smex.planning.devices import device_of
from smex.planning.rates import DTYPES, GpuRates, Rates, ThreadRates, one_thread
from smex.planning.showing import show

GB = 1e9
_ITEM_SIZES = {"float16": 2, "float32": 4, "float64": 8}

# Within these, sums of all times and their ratios are finite.
_SLOWEST, _FASTEST = 1e-3, 1e30
_LONGEST = 1e9
_MOST_WORKERS = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Level:
    """Workers that are connected alike: the GPUs of a node, the nodes of a cluster.

    Attributes:
        size: how many of the level below it joins: of workers, at the lowest level.
        latency: seconds that a message takes at least.
        bandwidth: bytes a second that one worker receives while all do.
        overlap: the share of a transfer's time in which a worker can compute as if there were none:
            1 where a device of its own moves the bytes, 0 where the worker copies them.
    """

    size: int
    latency: float
    bandwidth: float
    overlap: float = 0.0


@dataclasses.dataclass(frozen=True)
class Machine:
    """Workers of one kind and how they are connected.

    An op takes the longest of three times: the shortest time of a kernel, its arithmetic over the
    worker's rate, its bytes over the memory's (the roofline of its largest tile). What goes along
    edges reads the cache lines of a source's row for each edge, at a rate of its own. What a step
    of a plan moves takes the latency and the bytes over the bandwidth of the slowest link between
    its parts. The search adds all of that up; what goes on at the same time, `plan.timeline()`
    tells.

    Attributes:
        name: for people.
        flops: by dtype operations a second of a worker, a multiplication and an addition being two:
            "float16" (and bfloat16), "float32", "float64".
        memory_bandwidth: bytes a second of a worker's own memory.
        launch: seconds of the shortest kernel.
        memory: bytes of a worker.
        levels: from the fastest links to the slowest; the workers of a plan fill them in order.
        gather_bandwidth: bytes a second of rows that are read one by one, in any order, by one
            worker; None: as `memory_bandwidth`.
        calls: what calls were measured to take, by kind of call or operator and by the bytes of an
            element of the result; see `smex.profile`.

    Example:
        >>> machine = smex.Machine.h100_nvlink(nodes=8)
        >>> machine
        Machine(8 nodes of 8 H100 SXM: 64 workers of 80 GB)
        >>> [level.size for level in machine.levels]
        [8, 8]
    """

    name: str
    flops: dict[str, float]
    memory_bandwidth: float
    launch: float
    memory: float
    levels: tuple[Level, ...]
    gather_bandwidth: float | None = None
    calls: Calls = dataclasses.field(default_factory=dict, hash=False, repr=False)

    def __post_init__(self) -> None:
        native_flops(self.flops, "Machine")
        levels = () if not isinstance(self.levels, Iterable) else tuple(self.levels)
        if not levels or not all(isinstance(level, Level) for level in levels):
            raise SmexTypeError(
                f"Machine: expected levels of smex.Level in a tuple, found {self.levels!r}"
            )
        object.__setattr__(self, "levels", levels)
        rates = {"memory_bandwidth": self.memory_bandwidth, "memory": self.memory}
        if self.gather_bandwidth is not None:
            rates["gather_bandwidth"] = self.gather_bandwidth
        seconds = {"launch": self.launch}
        for n, level in enumerate(self.levels):
            rates[f"bandwidth of level {n}"] = level.bandwidth
            seconds[f"latency of level {n}"] = level.latency
            require_within(f"overlap of level {n}", level.overlap, 0, 1)
            if type(level.size) is not int or not 1 <= level.size <= _MOST_WORKERS:
                raise SmexValueError(
                    f"Machine: size of level {n}: expected an int from 1 to {_MOST_WORKERS}, "
                    f"found {level.size!r}"
                )
        for what, number in rates.items():
            require_within(what, number, _SLOWEST, _FASTEST)
        for what, number in seconds.items():
            require_within(what, number, 0, _LONGEST)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return math.prod(level.size for level in self.levels)

    def __repr__(self) -> str:
        return f"Machine({self.name}: {self.workers} workers of {self.memory / GB:.0f} GB)"

    def show(self, path: str | os.PathLike[str] | None = None) -> pathlib.Path | None:
        """Draws how well the seconds of a worker's measured calls are told.

        As `Cluster.show` does for each device.

        Args:
            path: of the page to write, a single file that needs no network. Without one a notebook
                shows it, and elsewhere a temporary file is written and its path printed.

        Returns:
            The path that was written, None in a notebook.
        """
        shown = repr(self), self._shown()
        return show("machine", lambda: device_fragment(*shown), lambda: device_page(*shown), path)

    def _repr_html_(self) -> str:
        return device_overview(repr(self), self._shown())

    def _shown(self) -> list[ShownDevice]:
        return [ShownDevice(self, f"{self.workers:,} worker{'s' * (self.workers > 1)}")]

    def links(self, mesh: Sequence[int]) -> list[Level]:
        """By step of a mesh the slowest level between the parts that the step makes.

        Workers are numbered with the first step slowest, so that the first steps are between the
        nodes, where a plan moves the least (Tofu §5.2, theorem 2).

        Raises:
            SmexValueError: the mesh has more workers than the machine.
        """
        return [self.levels[n] for n in self.cluster.levels_of(list(mesh))]

    def mesh(self, workers: int) -> list[int] | None:
        """A step for each level, the slowest first: between nodes, then between the GPUs of one.

        Each level is filled as far as the number divides: 12 workers on nodes of 8 are 2 of 6.
        None where they are more than the machine has, or a prime number too large for a level.
        """
        found: list[int] | None = self.cluster.mesh(workers)
        return found

    @property
    def cluster(self) -> Any:
        """The machine as the native library has it."""
        flops, bandwidth, launch, gather, calls = native_worker(self, "Machine")
        levels = [dataclasses.astuple(level) for level in self.levels]
        return _Cluster(repr(self), flops, bandwidth, launch, levels, gather, calls)

    def native(self, mesh: Sequence[int]) -> Any:
        """Returns the machine as the steps of a mesh see it."""
        return self.cluster.on(list(mesh))

    def contents(self) -> dict[str, Any]:
        """Returns the numbers, for a plan's file."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_contents(content: dict[str, Any]) -> Machine:
        """Returns the machine whose numbers `contents` gave."""
        _require_keys(Machine, content)
        if not isinstance(content["levels"], (list, tuple)):
            raise SmexTypeError(f"Machine: expected a list of levels, found {content['levels']!r}")
        for level in content["levels"]:
            _require_keys(Level, level)
        levels = tuple(Level(**level) for level in content["levels"])
        calls = calls_of(content.get("calls", {}))
        return Machine(**{**content, "levels": levels, "calls": calls})

    # ---- machines of data sheets ----

    @staticmethod
    def k80_pcie() -> Machine:
        """Tofu's testbed (§7.1): 8 K80 of 12 GB on PCIe with 21 GB/s between two of them."""
        return Machine(
            "8 K80 on PCIe", {"float32": 4.4e12, "float64": 1.45e12}, 240 * GB, 10e-6, 12 * GB,
            (Level(8, 20e-6, 21 * GB),),
        )  # fmt: skip

    @staticmethod
    def v100_pcie() -> Machine:
        """8 V100 of 16 GB on PCIe 3.0 with 21 GB/s between two of them, as in Tofu's testbed."""
        return Machine(
            "8 V100 on PCIe", {"float16": 112e12, "float32": 14e12, "float64": 7e12}, 900 * GB,
            5e-6, 16 * GB, (Level(8, 15e-6, 21 * GB),),
        )  # fmt: skip

    @staticmethod
    def h100_nvlink(nodes: int = 1) -> Machine:
        """Nodes of 8 H100 SXM of 80 GB with NVLink, joined by InfiniBand NDR, one port per GPU."""
        return _nodes("H100 SXM", {"float16": 989e12, "float32": 67e12, "float64": 67e12},
                      3350 * GB, 80 * GB, nodes)  # fmt: skip

    @staticmethod
    def h200_nvlink(nodes: int = 1) -> Machine:
        """Nodes of 8 H200 SXM of 141 GB with NVLink, joined by InfiniBand NDR, one port per GPU."""
        return _nodes("H200 SXM", {"float16": 989e12, "float32": 67e12, "float64": 67e12},
                      4800 * GB, 141 * GB, nodes)  # fmt: skip

    @staticmethod
    def calibrate(
        workers: int | None = None,
        *,
        mesh: DeviceMesh | None = None,
        processes: int | None = None,
        device: str | torch.device | None = None,
    ) -> Machine:
        """This computer, its GPUs, or the processes of a mesh, measured.

        Takes some seconds; other programs that run meanwhile falsify it.

        Args:
            workers: threads of this process that compute at once, 2 by default, or the first of its
                GPUs, by default all. Over processes there is one worker each.
            mesh: of processes, which all call this. Each dimension is a level, with the latency and
                bandwidth of its links and their `overlap`, as programs of nets use them. By default
                all ranks that `torchrun` has started, in one level.
            processes: 1 for this process alone, also under `torchrun`.
            device: what workers compute on, "cpu", "cuda" or one GPU of this process's; by default
                that of the mesh, else the CPU. GPUs of one process are taken to be alike.

        Raises:
            SmexValueError: there are no such workers or no such device, or a DeviceMesh is given
                for one process.
            RankFailure: another process has failed.
        """
        if processes not in (None, 1) or isinstance(processes, bool):
            raise SmexValueError(
                "calibrate: processes must be 1, or None for those of the mesh or of torch's "
                f"default group, got {processes!r}"
            )
        if mesh is not None and processes == 1:
            raise SmexValueError("calibrate: a mesh is of several processes; leave out one of them")
        if workers is not None and (type(workers) is not int or workers < 1):
            raise SmexValueError(f"calibrate: expected at least 1 worker, found {workers!r}")
        members = [0] if processes == 1 else members_of(mesh)
        place = device_of(device, mesh, "calibrate")
        with one_thread():
            if len(members) > 1:
                world = World.of(members, len(members), place.type, _TIMEOUT)
                return _calibrated(world, mesh, workers, place)
            if place.type == "cpu":
                count = workers or 2
                level = Level(count, *ThreadRates(count).link())
                return _machine(f"this computer, {count} threads", ThreadRates(count), (level,))
            gpus = _gpus(device, place, workers)
            level = Level(len(gpus), *GpuRates(gpus).link())
            name = f"{len(gpus)} {torch.cuda.get_device_name(place)}"
            return _machine(name, GpuRates(gpus), (level,))


_TIMEOUT = 1800.0
"""Seconds after which torch's groups give up."""


def measured_worker(device: torch.device) -> Machine:
    """Returns this process as a machine of one worker, without links, as `calibrate` measures."""
    rates = ThreadRates(1) if device.type == "cpu" else GpuRates([device])
    return _machine("", rates, (Level(1, 0.0, 1.0),))


def _gpus(
    device: str | torch.device | None, place: torch.device, workers: int | None
) -> list[torch.device]:
    """Returns the GPUs that are measured: the first of all of them for "cuda", else one."""
    is_any = device is not None and torch.device(device).index is None
    count = torch.cuda.device_count()
    found = [torch.device("cuda", n) for n in range(count)] if is_any else [place]
    if workers is not None and workers > len(found):
        raise SmexValueError(
            f"calibrate: expected at most {len(found)} workers, one for each GPU, found {workers}"
        )
    return found[:workers]


def _machine(name: str, rates: Rates, levels: tuple[Level, ...]) -> Machine:
    """Returns what was measured of a worker, with these links."""
    flops = {dtype: rates.flops(getattr(torch, dtype)) for dtype in DTYPES}
    bandwidth, gathers, launch = rates.memory_bandwidth(), rates.gather_bandwidth(), rates.launch()
    pace = rates.pace()
    return Machine(
        name, {dtype: rate / pace for dtype, rate in flops.items()}, bandwidth / pace,
        launch * pace, rates.memory(), levels, gathers / pace,
    )  # fmt: skip


def _calibrated(
    world: World, mesh: DeviceMesh | None, workers: int | None, device: torch.device
) -> Machine:
    """Returns the machine that some processes are, one worker each."""
    if workers not in (None, world.size):
        raise SmexValueError(
            f"calibrate: {workers} workers; processes are measured with one each, {world.size}"
        )
    shape = [world.size] if mesh is None else [size for size in mesh.mesh.shape if size > 1]
    with world.during("smex.Machine.calibrate"):
        world.gather(None)  # all begin together
        own = measured_worker(device)
        machines = world.gather(own)
        links = [measured_link(world, shape, dim, device) for dim in range(len(shape))]
    levels = [Level(shape[dim], *links[dim]) for dim in reversed(range(len(shape)))]
    return Machine(
        f"{world.size} processes",
        {dtype: min(each.flops[dtype] for each in machines) for dtype in own.flops},
        min(each.memory_bandwidth for each in machines),
        max(each.launch for each in machines),
        min(each.memory for each in machines),
        tuple(levels),
        min(each.gather_bandwidth for each in machines),
    )


def native_worker(worker: Any, whose: str) -> tuple[Any, ...]:
    """Returns what a machine or a `smex.cluster.Device` tells of a worker, as the library takes it.

    Rates by bytes of an element, bytes a second, seconds of a kernel, gathered bytes a second,
    and costs of calls.
    """
    gathers = worker.gather_bandwidth or worker.memory_bandwidth
    calls = {
        kind: {size: cost.native() for size, cost in costs.items()}
        for kind, costs in worker.calls.items()
    }
    flops = native_flops(worker.flops, whose)
    return flops, worker.memory_bandwidth, worker.launch, gathers, calls


def native_flops(flops: Any, whose: str) -> dict[int, float]:
    """Returns rates by bytes of an element.

    Raises:
        SmexValueError: they are not by these dtypes, or out of range.
    """
    if not isinstance(flops, dict) or not flops or flops.keys() - _ITEM_SIZES.keys():
        raise SmexValueError(
            f"{whose}: expected flops by {', '.join(_ITEM_SIZES)}, found {flops!r}"
        )
    for dtype, rate in flops.items():
        require_within(f"flops of {dtype}", rate, _SLOWEST, _FASTEST, whose)
    found = {_ITEM_SIZES[dtype]: rate for dtype, rate in flops.items()}
    found.setdefault(1, found[min(found)])
    found.setdefault(16, found[max(found)])  # complex numbers
    return found


def require_within(
    what: str, number: Any, least: float, most: float, whose: str = "Machine"
) -> None:
    """Refuses what is no number, NaN too, and what exceeds the bounds."""
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    if not is_number or not least <= number <= most:
        raise SmexValueError(
            f"{whose}: {what}: expected a number from {least:g} to {most:g}, found {number!r}"
        )


def _require_keys(kind: type[Machine] | type[Level], content: Any) -> None:
    """Refuses what is no object with the attributes of a machine or level."""
    fields = dataclasses.fields(kind)
    missing = dataclasses.MISSING
    needed = [f.name for f in fields if f.default is missing and f.default_factory is missing]
    keys = set(content) if isinstance(content, dict) else set()
    if set(needed) - keys or keys - {field.name for field in fields}:
        names = ", ".join(needed)
        raise SmexTypeError(f"{kind.__name__}: expected {names}; found {content!r:.200}")


def _nodes(
    gpu: str, flops: dict[str, float], bandwidth: float, memory: float, nodes: int
) -> Machine:
    if not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 1:
        raise SmexValueError(f"Machine: expected at least 1 node, found {nodes!r}")
    levels = [Level(8, 5e-6, 450 * GB)]
    if nodes > 1:
        levels.append(Level(nodes, 10e-6, 50 * GB))
    name = f"{nodes} nodes of 8 {gpu}" if nodes > 1 else f"8 {gpu} on NVLink"
    return Machine(name, flops, bandwidth, 4e-6, memory, tuple(levels))

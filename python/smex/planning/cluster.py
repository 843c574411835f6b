"""Workers that differ, and the links between them (HeteroG, §3.3)."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from smex._C import Cluster as _Cluster
from smex.errors import SmexTypeError, SmexValueError
from smex.planning.call_costs import Calls, calls_of
from smex.planning.device_page import (
    ShownDevice,
    device_fragment,
    device_overview,
    device_page,
)
from smex.planning.machine import GB, Machine, native_flops, native_worker, require_within
from smex.planning.showing import show

FORMAT = "smex-cluster-1"


@dataclasses.dataclass(frozen=True)
class Device:
    """What the time and the memory of one worker are told from.

    Attributes:
        name: the kind of device: "Tesla V100".
        flops: by dtype operations a second, a multiplication and an addition being two: "float16"
            (and bfloat16), "float32", "float64".
        memory_bandwidth: bytes a second of its own memory.
        launch: seconds of the shortest kernel.
        memory: bytes.
        gather_bandwidth: bytes a second of rows that are read one by one; None: as
            `memory_bandwidth`.
        calls: what calls were measured to take; see `smex.profile`.
    """

    name: str
    flops: dict[str, float]
    memory_bandwidth: float
    launch: float
    memory: float
    gather_bandwidth: float | None = None
    calls: Calls = dataclasses.field(default_factory=dict, hash=False, repr=False)

    def __post_init__(self) -> None:
        native_flops(self.flops, f"Device {self.name}")
        for what in ("memory_bandwidth", "memory", "gather_bandwidth"):
            number = getattr(self, what)
            if what != "gather_bandwidth" or number is not None:
                require_within(what, number, 1e-3, 1e30, f"Device {self.name}")
        require_within("launch", self.launch, 0, 1e9, f"Device {self.name}")

    @staticmethod
    def of(machine: Machine) -> Device:
        """Returns a worker of a machine."""
        return Device(
            machine.name, machine.flops, machine.memory_bandwidth, machine.launch, machine.memory,
            machine.gather_bandwidth, machine.calls,
        )  # fmt: skip

    def slower(self, factor: float) -> Device:
        """Returns a device that takes `factor` times as long for everything; for what-if."""
        require_within("factor", factor, 1e-6, 1e6, f"Device {self.name}")
        gathers = None if self.gather_bandwidth is None else self.gather_bandwidth / factor
        return dataclasses.replace(
            self, name=f"{self.name} / {factor:g}",
            flops={dtype: rate / factor for dtype, rate in self.flops.items()},
            memory_bandwidth=self.memory_bandwidth / factor, launch=self.launch * factor,
            gather_bandwidth=gathers,
            calls={
                kind: {size: cost.scaled(factor) for size, cost in costs.items()}
                for kind, costs in self.calls.items()
            },
        )  # fmt: skip

    def native(self) -> tuple[Any, ...]:
        """Returns the numbers as the native library takes them."""
        return native_worker(self, f"Device {self.name}")


@dataclasses.dataclass(frozen=True)
class Link:
    """What a worker receives another's tiles over.

    Attributes:
        latency: seconds that a message takes at least.
        bandwidth: bytes a second.
        overlap: the share of a transfer's time in which the receiver can compute as if there were
            none.
    """

    latency: float
    bandwidth: float
    overlap: float = 0.0

    def __post_init__(self) -> None:
        require_within("latency", self.latency, 0, 1e9, "Link")
        require_within("bandwidth", self.bandwidth, 1e-3, 1e30, "Link")
        require_within("overlap", self.overlap, 0, 1, "Link")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Workers that may differ, and what connects them.

    Worker `w` of a plan is device `w`. Where it is a machine, as in `smex.search(machine=...)`, an
    op takes as long as the worker that takes the longest for its tile.

    Attributes:
        name: for people.
        devices: by worker.
        nodes: by worker the node that it is in. Workers of one node share its port for what they
            receive of other nodes, and one for what they send, each one message at a time.
        inside: the link of workers of one node.
        ports: by node the link of its port; between two nodes a message goes at the pace of the
            slower one.

    Example:
        >>> cluster = smex.cluster.heterog_testbed()
        >>> cluster
        Cluster(HeteroG's testbed: 2 Tesla V100, 4 GTX 1080 Ti, 2 Tesla P100 in 4 nodes)
        >>> cluster.link(0, 1).bandwidth > cluster.link(0, 2).bandwidth
        True
    """

    name: str
    devices: tuple[Device, ...]
    nodes: tuple[int, ...]
    inside: Link
    ports: tuple[Link, ...]

    def __post_init__(self) -> None:
        _require_all("devices", self.devices, Device)
        _require_all("ports", self.ports, Link)
        object.__setattr__(self, "devices", tuple(self.devices))
        object.__setattr__(self, "nodes", tuple(self.nodes))
        object.__setattr__(self, "ports", tuple(self.ports))
        if not isinstance(self.inside, Link):
            raise SmexTypeError(f"Cluster: inside must be a Link, found {self.inside!r}")
        numbers = set(self.nodes)
        if len(self.nodes) != len(self.devices) or numbers != set(range(len(numbers))):
            raise SmexValueError(
                f"Cluster: nodes must be numbers from 0 on, one for each of {len(self.devices)} "
                f"devices, found {self.nodes!r}"
            )
        if len(self.ports) != len(numbers):
            raise SmexValueError(
                f"Cluster: expected a port for each of {len(numbers)} nodes, found "
                f"{len(self.ports)}"
            )

    @staticmethod
    def of_nodes(name: str, nodes: Sequence[tuple[Device, int, Link]], inside: Link) -> Cluster:
        """Returns nodes of several devices of a kind each.

        Args:
            name: for people.
            nodes: the device, how many of it there are, and the node's port, for each node.
            inside: the link of workers of one node.
        """
        devices, numbers = [], []
        for number, (device, count, _) in enumerate(nodes):
            devices += [device] * count
            numbers += [number] * count
        ports = tuple(port for _, _, port in nodes)
        return Cluster(name, tuple(devices), tuple(numbers), inside, ports)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return len(self.devices)

    @property
    def is_unlike(self) -> bool:
        """Whether any two devices differ."""
        nameless = [dataclasses.replace(device, name="") for device in self.devices]
        return any(device != nameless[0] for device in nameless)

    @property
    def memory(self) -> float:
        """Bytes of the smallest device."""
        return min(device.memory for device in self.devices)

    def link(self, to: int, source: int) -> Link:
        """Returns what worker `to` receives the tiles of worker `source` over."""
        if self.nodes[to] == self.nodes[source]:
            return self.inside
        there, here = self.ports[self.nodes[to]], self.ports[self.nodes[source]]
        return Link(
            max(there.latency, here.latency), min(there.bandwidth, here.bandwidth),
            there.overlap,
        )  # fmt: skip

    def first(self, workers: int) -> Cluster:
        """Returns the cluster of the first workers only."""
        if type(workers) is not int or not 1 <= workers <= self.workers:
            raise SmexValueError(
                f"Cluster: expected from 1 to {self.workers} workers, found {workers!r}"
            )
        used = sorted(set(self.nodes[:workers]), key=self.nodes.index)
        numbers = {node: number for number, node in enumerate(used)}
        return dataclasses.replace(
            self, devices=self.devices[:workers],
            nodes=tuple(numbers[node] for node in self.nodes[:workers]),
            ports=tuple(self.ports[node] for node in used),
        )  # fmt: skip

    def _kinds(self) -> tuple[list[Device], list[int]]:
        """Returns the device objects, each once, and by worker the number of its own."""
        kinds = {id(device): device for device in self.devices}
        numbers = {key: number for number, key in enumerate(kinds)}
        return list(kinds.values()), [numbers[id(device)] for device in self.devices]

    # ---- as a machine ----

    @property
    def cluster(self) -> Any:
        """The cluster as the native library has it."""
        kinds, numbers = self._kinds()
        every = range(self.workers)
        shared = self.nodes if len(self.ports) > 1 else ()
        return _Cluster.of_unlike(
            repr(self),
            [kind.native() for kind in kinds],
            numbers,
            [[dataclasses.astuple(self.link(to, source)) for source in every] for to in every],
            list(shared),
        )

    def native(self, mesh: Sequence[int]) -> Any:
        """Returns the cluster as the steps of a mesh see it."""
        return self.cluster.on(list(mesh))

    def links(self, mesh: Sequence[int]) -> list[Link]:
        """By step of a mesh the slowest of the links that connect its parts."""
        return [Link(*numbers) for numbers in self.native(mesh).links]

    # ---- files ----

    def contents(self) -> dict[str, Any]:
        """Returns the numbers, each device once, for files."""
        kinds, numbers = self._kinds()
        return {
            "format": FORMAT,
            "name": self.name,
            "kinds": [dataclasses.asdict(kind) for kind in kinds],
            "devices": numbers,
            "nodes": list(self.nodes),
            "inside": dataclasses.asdict(self.inside),
            "ports": [dataclasses.asdict(port) for port in self.ports],
        }

    @staticmethod
    def from_contents(content: Any) -> Cluster:
        """Returns the cluster whose numbers `contents` gave.

        Raises:
            SmexTypeError: it is no such object.
            SmexValueError: a number is out of range.
        """
        keys = {"format", "name", "kinds", "devices", "nodes", "inside", "ports"}
        if not isinstance(content, dict) or content.keys() != keys:
            raise SmexTypeError(
                f"Cluster: expected an object with {', '.join(sorted(keys))}, found "
                f"{content!r:.200}"
            )
        if content["format"] != FORMAT:
            raise SmexValueError(
                f"Cluster: its format is {content['format']!r}, expected {FORMAT!r}"
            )
        try:
            kinds = [
                Device(**{**kind, "calls": calls_of(kind.get("calls", {}))})
                for kind in content["kinds"]
            ]
            return Cluster(
                content["name"], tuple(kinds[number] for number in content["devices"]),
                tuple(content["nodes"]), Link(**content["inside"]),
                tuple(Link(**port) for port in content["ports"]),
            )  # fmt: skip
        except (TypeError, IndexError) as error:
            raise SmexTypeError(f"Cluster: it is not one that was saved: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the cluster as JSON."""
        pathlib.Path(path).write_text(json.dumps(self.contents(), indent=1) + "\n")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Cluster:
        """Reads what `save` wrote.

        Raises:
            SmexValueError: it is not JSON, or a number is out of range.
            SmexTypeError: it is no cluster.
            OSError: it cannot be read.
        """
        try:
            content = json.loads(pathlib.Path(path).read_text())
        except ValueError as error:
            raise SmexValueError(f"Cluster: {path} is not JSON: {error}") from error
        return Cluster.from_contents(content)

    # ---- for people ----

    def show(self, path: str | os.PathLike[str] | None = None) -> pathlib.Path | None:
        """Draws how well the seconds of measured calls are told, device by device.

        Each measured call lies, on logarithmic axes, where its seconds meet those that the other
        calls of its kind predict; a table has the kinds, those with the largest errors first. What
        was never measured takes what the roofline tells, which is drawn too.

        Args:
            path: of the page to write, a single file that needs no network. Without one a notebook
                shows it, and elsewhere a temporary file is written and its path printed.

        Returns:
            The path that was written, None in a notebook.
        """
        shown = repr(self), self._shown()
        return show("cluster", lambda: device_fragment(*shown), lambda: device_page(*shown), path)

    def _repr_html_(self) -> str:
        return device_overview(repr(self), self._shown())

    def _shown(self) -> list[ShownDevice]:
        """Returns the devices, each once, and which workers have it."""
        kinds, numbers = self._kinds()
        found = []
        for kind, device in enumerate(kinds):
            own = [str(worker) for worker, number in enumerate(numbers) if number == kind]
            words = f"worker{'s' * (len(own) > 1)} {', '.join(own)}"
            found.append(ShownDevice(device, words))
        return found

    def __repr__(self) -> str:
        kinds: dict[str, int] = {}
        for device in self.devices:
            kinds[device.name] = kinds.get(device.name, 0) + 1
        words = ", ".join(f"{count} {name}" for name, count in kinds.items())
        count = len(self.ports)
        return f"Cluster({self.name}: {words} in {count} {'node' if count == 1 else 'nodes'})"


def _require_all(what: str, given: Any, kind: type) -> None:
    items = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else []
    if not items or not all(isinstance(item, kind) for item in items):
        raise SmexTypeError(
            f"Cluster: {what} must be a tuple of smex.cluster.{kind.__name__}, found {given!r}"
        )


# ---- presets, by data sheets ----


def _gpu(name: str, half: float, single: float, double: float, bandwidth: float, memory: float
         ) -> Device:  # fmt: skip
    """Rates in 10^12 a second, bandwidth and memory in GB."""
    flops = {"float16": half * 1e12, "float32": single * 1e12, "float64": double * 1e12}
    return Device(name, flops, bandwidth * GB, 5e-6, memory * GB)


def heterog_testbed(gpus: int = 8) -> Cluster:
    """HeteroG's testbed (§6.1): V100, GTX 1080 Ti and P100 in five machines on a 100 Gbit/s switch.

    Devices by their data sheets, workers of a machine by PCIe 3.0 x16 (12 GB/s of 15.75), machines
    by their 100 or 50 Gbit/s cards, 12 microseconds a message.

    Args:
        gpus: 8, as in the paper's tables 1 to 4 (2 V100, 4 GTX 1080 Ti, 2 P100), or all 12.

    Raises:
        SmexValueError: another number of GPUs.
    """
    if gpus not in (8, 12):
        raise SmexValueError(f"heterog_testbed: expected 8 or 12 GPUs, found {gpus!r}")
    v100 = _gpu("Tesla V100", 112, 14, 7, 900, 16)
    gtx = _gpu("GTX 1080 Ti", 11.3, 11.3, 0.35, 484, 11)
    p100 = _gpu("Tesla P100", 18.7, 9.3, 4.7, 549, 12)
    fast, slow = Link(12e-6, 100e9 / 8, 1.0), Link(12e-6, 50e9 / 8, 1.0)
    few = gpus == 8
    nodes = [(v100, 2 if few else 4, fast), (gtx, 2, slow), (gtx, 2, slow), (p100, 2, slow)]
    if not few:
        nodes.append((p100, 2, slow))
    return Cluster.of_nodes("HeteroG's testbed", nodes, Link(12e-6, 12 * GB, 1.0))


def mixed_nodes() -> Cluster:
    """A node of 8 H100, one of 8 A100 and one of 4 RTX 4090: what groups that grew own today.

    Devices by their data sheets; NVLink inside (PCIe in the node of RTX 4090 is taken for as fast,
    as one number describes the inside of all nodes), cards of 400, 200 and 100 Gbit/s.
    """
    h100 = _gpu("H100 SXM", 989, 67, 67, 3350, 80)
    a100 = _gpu("A100 SXM", 312, 19.5, 19.5, 2039, 80)
    rtx = _gpu("RTX 4090", 165, 82.6, 1.3, 1008, 24)
    nodes = [
        (h100, 8, Link(10e-6, 50 * GB, 1.0)),
        (a100, 8, Link(10e-6, 25 * GB, 1.0)),
        (rtx, 4, Link(10e-6, 12.5 * GB, 1.0)),
    ]
    return Cluster.of_nodes("mixed nodes", nodes, Link(5e-6, 300 * GB, 1.0))

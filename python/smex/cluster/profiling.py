"""What the processes of a mesh are, and what connects them, measured (HeteroG, §3.3)."""

from __future__ import annotations

import itertools
import socket
import statistics

import torch
from torch.distributed.device_mesh import DeviceMesh

from smex.capture import CapturedGraph
from smex.distributed.links import measured_overlaps, measured_pair
from smex.distributed.world import World, members_of
from smex.errors import SmexTypeError
from smex.planning.call_costs import Calls
from smex.planning.cluster import Cluster, Device, Link
from smex.planning.devices import device_of
from smex.planning.machine import measured_worker
from smex.planning.profiling import fitted, measured
from smex.planning.rates import one_thread
from smex.planning.semantic import SemanticGraph

_TIMEOUT = 1800.0
"""Seconds after which torch's groups give up."""


def profile(
    graph: SemanticGraph | CapturedGraph | None = None,
    *,
    mesh: DeviceMesh | None = None,
    verbose: bool = False,
    device: str | torch.device | None = None,
) -> Cluster:
    """Measures the processes of a mesh, which may differ, and the links between them.

    Each process is a worker with a device of its own: rates as `Machine.calibrate` measures them,
    and what the calls of a model take there, with tiles of several sizes. All measure at once, as
    they compute at once; links are measured one pair after the other. Takes some seconds, and for k
    processes k (k - 1) messages of 4 MB and fifty short ones, a few times.

    Args:
        graph: of the model whose calls are measured; without one the roofline tells all times.
        mesh: of processes, which all call this; by default those of torch's default group. Without
            one the cluster is this process.
        verbose: whether a bar shows how far the calls of rank 0 are.
        device: of this process, by default the current one of the mesh's type, else the CPU.

    Returns:
        The cluster, the same on all ranks. Processes of one host that share memory are a node.

    Raises:
        SmexTypeError: no graph.
        SmexValueError: there is no such device.
        SmexImportError: scipy is not installed, which tells times of calls.
        RankFailure: another process has failed.
    """
    if isinstance(graph, CapturedGraph):
        graph = SemanticGraph(graph)
    if graph is not None and not isinstance(graph, SemanticGraph):
        raise SmexTypeError(
            f"profile: expected what smex.capture returns, got {type(graph).__name__}"
        )
    members = members_of(mesh)
    place = device_of(device, mesh, "profile")
    with one_thread():
        if len(members) == 1:
            only, own = Link(0.0, 1e12), _device(graph, 0, verbose, place)
            return Cluster(socket.gethostname(), (own,), (0,), only, (only,))
        world = World.of(members, len(members), place.type, _TIMEOUT)
        with world.during("smex.cluster.profile"):
            world.gather(None)  # all begin together
            own = _device(graph, world.rank, verbose and world.rank == 0, place)
            return _connected(world, tuple(world.gather(own)), place)


def _device(graph: SemanticGraph | None, rank: int, verbose: bool, place: torch.device) -> Device:
    """Returns what this process is."""
    calls: Calls = {} if graph is None else fitted(measured(graph, verbose, place))
    own = Device.of(measured_worker(place))
    kind = f", {torch.cuda.get_device_name(place)}" if place.type == "cuda" else ""
    return Device(
        f"rank {rank} of {socket.gethostname()}{kind}", own.flops, own.memory_bandwidth, own.launch,
        own.memory, own.gather_bandwidth, calls,
    )  # fmt: skip


def _connected(world: World, devices: tuple[Device, ...], place: torch.device) -> Cluster:
    """Returns the devices with what connects them: who shares memory is a node."""
    ranks, links = range(world.size), world.links
    assert links is not None  # of several processes
    nodes = [
        next(first for first in ranks if first == rank or links.shares_memory((first, rank)))
        for rank in ranks
    ]
    numbers = {node: number for number, node in enumerate(dict.fromkeys(nodes))}
    numbered = tuple(numbers[node] for node in nodes)
    overlaps = measured_overlaps(world, place)
    pairs = {
        (to, source): measured_pair(world, to, source, place)
        for to, source in itertools.permutations(ranks, 2)
    }
    inside = [found for (a, b), found in pairs.items() if numbered[a] == numbered[b]]
    ports = []
    for node in range(len(numbers)):
        own = [share for share, at in zip(overlaps, numbered, strict=True) if at == node]
        # Between two nodes the slower port counts: the fastest message of a node is its own's pace.
        between = [
            found
            for (a, b), found in pairs.items()
            if (numbered[a] == node) != (numbered[b] == node)
        ]
        overlap = statistics.median(own)
        ports.append(_link(between, overlap) if between else Link(0.0, 1e12, overlap))
    latencies, bandwidths = zip(*inside, strict=True) if inside else ((0.0,), (1e12,))
    return Cluster(
        f"{world.size} processes", devices, numbered,
        Link(
            statistics.median(latencies), statistics.median(bandwidths),
            statistics.median(overlaps),
        ), tuple(ports),
    )  # fmt: skip


def _link(found: list[tuple[float, float]], overlap: float) -> Link:
    return Link(
        statistics.median(latency for latency, _ in found),
        max(bandwidth for _, bandwidth in found),
        overlap,
    )

"""Random graphs, drawn with torch's generator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.constants import DEFAULT_ETYPE, DEFAULT_NTYPE
from smex.graph.graph import Graph
from smex.graph.structure.relation import Relation
from smex.graph.words import CanonicalType, counted

__all__ = ["rand_bipartite", "rand_graph", "seed"]

_CPU = torch.device("cpu")
_generator: ContextVar[torch.Generator | None] = ContextVar("generator", default=None)
_DENSE = 4  # from a quarter of all pairs on, a permutation costs less than drawing again


def seed(val: int) -> None:
    """Seeds torch's generators, which all random functions of this package draw from.

    Example:
        >>> import smex.graph as sg
        >>> sg.seed(0)
    """
    torch.manual_seed(val)


@contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """Within the context, samplers draw from a generator of their own with this seed.

    Other threads, and torch's own functions, are not concerned.
    """
    token = _generator.set(torch.Generator().manual_seed(seed))
    try:
        yield
    finally:
        _generator.reset(token)


def current_generator() -> torch.Generator | None:
    """Returns the generator that samplers draw from; None: torch's."""
    return _generator.get()


def draw_seed() -> int:
    """Returns an integer of [0, 2^62) from the generator that samplers draw from."""
    return int(torch.randint(2**62, (), generator=current_generator()))


def rand_graph(
    num_nodes: int,
    num_edges: int,
    idtype: torch.dtype = torch.int64,
    device: torch.device | str = _CPU,
) -> Graph:
    """Returns a graph with edges drawn uniformly among all pairs of nodes, none twice.

    Self loops may occur. The result follows ``torch.manual_seed`` and is the same on every device.

    Args:
        num_nodes: number of nodes.
        num_edges: number of edges, at most ``num_nodes ** 2``.
        idtype: ``torch.int32`` or ``torch.int64``.
        device: where the graph is made.

    Raises:
        SmexValueError: there are fewer pairs than edges.

    Example:
        >>> import smex.graph as sg
        >>> sg.rand_graph(100, 10).num_edges()
        10
    """
    relation = _rand_relation("rand_graph", num_nodes, num_nodes, num_edges, idtype, device)
    return Graph({DEFAULT_ETYPE: relation}, {DEFAULT_NTYPE: num_nodes})


def rand_bipartite(
    utype: str,
    etype: str,
    vtype: str,
    num_src_nodes: int,
    num_dst_nodes: int,
    num_edges: int,
    idtype: torch.dtype = torch.int64,
    device: torch.device | str = _CPU,
) -> Graph:
    """Returns a graph from `utype` to `vtype` with edges drawn as by :func:`rand_graph`.

    Args:
        utype: type of the sources.
        etype: type of the edges.
        vtype: type of the destinations.
        num_src_nodes: number of sources.
        num_dst_nodes: number of destinations.
        num_edges: number of edges, at most ``num_src_nodes * num_dst_nodes``.
        idtype: ``torch.int32`` or ``torch.int64``.
        device: where the graph is made.

    Raises:
        SmexValueError: there are fewer pairs than edges, or one type gets two sizes.

    Example:
        >>> import smex.graph as sg
        >>> sg.rand_bipartite("user", "buys", "game", 50, 100, 10).num_nodes("game")
        100
    """
    if utype == vtype and num_src_nodes != num_dst_nodes:
        raise SmexValueError(
            f'rand_bipartite: sources and destinations both are of type "{utype}", expected one '
            f"number of nodes, found {num_src_nodes} and {num_dst_nodes}"
        )
    sizes = (num_src_nodes, num_dst_nodes)
    canonical: CanonicalType = (utype, etype, vtype)
    relation = _rand_relation("rand_bipartite", *sizes, num_edges, idtype, device)
    num_nodes = {utype: num_src_nodes, vtype: num_dst_nodes}
    return Graph({canonical: relation}, {t: num_nodes[t] for t in sorted(num_nodes)})


def _rand_relation(op, num_src, num_dst, num_edges, idtype, device) -> Relation:
    pairs = num_src * num_dst
    if not 0 <= num_edges <= pairs:
        raise SmexValueError(
            f"{op}: expected between 0 and {num_src} × {num_dst} = {counted(pairs, 'edge')}, found "
            f"{num_edges}"
        )
    drawn = _draw(pairs, num_edges)
    src = torch.div(drawn, max(num_dst, 1), rounding_mode="floor")
    src, dst = (ids.to(device=device, dtype=idtype) for ids in (src, drawn - src * num_dst))
    return Relation.from_coo(src, dst, num_src, num_dst, check=False)


def _draw(population: int, number: int) -> Tensor:
    """`number` different integers below `population`, each subset and order equally likely."""
    if number * _DENSE >= population:
        return torch.randperm(population)[:number]
    drawn = torch.empty(0, dtype=torch.int64)
    while drawn.shape[0] < number:
        missing = number - drawn.shape[0]
        more = torch.randint(population, (missing + missing // 8 + 8,))
        drawn = _first_of_each(torch.cat([drawn, more]))
    return drawn[:number]


def _first_of_each(values: Tensor) -> Tensor:
    """Returns the values without repetitions, in the order of their first appearance."""
    ordered, order = torch.sort(values, stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return values[torch.sort(order[first]).values]

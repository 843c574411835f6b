"""Random graphs, drawn with torch's generator."""

from __future__ import annotations

import math
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

__all__ = ["choice", "rand_bipartite", "rand_graph", "seed"]

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


def choice(
    a: int | Tensor,
    size: int | tuple[int, ...],
    replace: bool = True,
    prob: Tensor | None = None,
) -> Tensor:
    """Elements drawn by chance, from torch's generator; as ``numpy.random.choice``.

    Args:
        a: what is drawn from, a tensor by its rows, or an integer for those below it.
        size: how many, or the shape that they have.
        replace: whether an element may come more than once.
        prob: ``[num_elements]`` of at least 0, in proportion to which they are drawn; without
            `replace` one after another. None: equally.

    Returns:
        int64 of the shape `size`, or with a tensor its rows in this shape.

    Raises:
        SmexValueError: there are not as many weights as elements, or without `replace` fewer
            elements of a weight above 0 than are asked for.

    Example:
        >>> import smex.graph as sg
        >>> sg.random.choice(4, 2, replace=False, prob=torch.tensor([0, 1.0, 0, 2])).sort().values
        tensor([1, 3])
    """
    shape = tuple(size) if isinstance(size, tuple) else (int(size),)
    number, population = math.prod(shape), len(a) if isinstance(a, Tensor) else int(a)
    if prob is not None and prob.shape != (population,):
        raise SmexValueError(
            f"choice: expected a weight for each of {counted(population, 'element')}, found shape "
            f"{list(prob.shape)}"
        )
    possible = population if prob is None else int((prob > 0).sum())
    if number > possible and (not replace or possible == 0):
        raise SmexValueError(
            f"choice: expected at most as many as there are elements to draw, {possible}, found "
            f"{number}; pass replace=True or fewer"
        )
    drawn = torch.empty(0, dtype=torch.int64)
    if number:
        drawn = _chosen(population, number, replace, prob)
    if isinstance(a, Tensor):
        return a[drawn.to(a.device)].view(*shape, *a.shape[1:])
    return drawn.view(shape)


def _chosen(population: int, number: int, replace: bool, prob: Tensor | None) -> Tensor:
    """Numbers below `population`, which are possible."""
    generator = current_generator()
    if prob is None:
        if replace:
            return torch.randint(population, (number,), generator=generator)
        return _draw(population, number)
    weights = prob.detach().cpu().double()
    if replace:
        sums = weights.cumsum(0)
        place = torch.rand(number, dtype=torch.float64, generator=generator) * sums[-1]
        return torch.searchsorted(sums, place, right=True).clamp(max=int(weights.nonzero()[-1]))
    # The first of races whose speeds are the weights (Efraimidis and Spirakis, 2006).
    arrival = torch.empty(population, dtype=torch.float64).exponential_(generator=generator)
    return (arrival / weights).topk(number, largest=False).indices


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

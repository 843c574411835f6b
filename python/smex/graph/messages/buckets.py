"""Reduce functions on buckets of nodes that got the same number of messages (thesis §4.6.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.core.hop import Hop, checked_columns
from smex.graph.features.column import Scheme
from smex.graph.features.frame import Frame
from smex.graph.udf import EdgeBatch, Mailbox, NodeBatch
from smex.graph.words import counted, named


class Bucket(NamedTuple):
    """Rows of a compressed structure that have the same length."""

    degree: int
    rows: Tensor  # [n], ascending
    edges: Tensor  # [n * degree]: edge ids of the first row, of the second, ...


def buckets_of(edges: list[Tensor]) -> Iterator[Bucket]:
    """Buckets by ascending degree; rows without edges are left out.

    Args:
        edges: ``[indptr, indices]`` or ``[indptr, indices, eids]``.
    """
    indptr = edges[0]
    degrees = indptr.diff()
    order = torch.argsort(degrees, stable=True)
    values, counts = torch.unique_consecutive(degrees[order], return_counts=True)
    for degree, rows in zip(values.tolist(), order.split(counts.tolist())):
        if degree == 0:
            continue
        steps = torch.arange(degree, dtype=indptr.dtype, device=indptr.device)
        positions = (indptr[rows].unsqueeze(1) + steps).view(-1)
        ids = positions if len(edges) == 2 else edges[2][positions]
        yield Bucket(degree, rows, ids)


def reduce_in_buckets(
    hop: Hop, function: Callable[..., Any], messages: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Calls a reduce function once for each number of messages that nodes got.

    The mailbox is ``[n, degree, ...]``: nodes by ascending id, messages by ascending edge id. Rows
    of nodes without messages hold what the frame's initialisers say. Without any message the
    function is not called, and there is no result.

    Returns:
        Columns ``[num_dst, ...]``.

    Raises:
        SmexValueError: results of two buckets differ in their names, or in the shape or dtype of
            their rows.
    """
    results: list[Mapping[str, Tensor]] = []
    rows: list[Tensor] = []
    degrees: list[int] = []
    for bucket in buckets_of(hop.relation.in_edges()):
        degrees.append(bucket.degree)
        results.append(_reduce(hop, function, messages, bucket))
        rows.append(bucket.rows)
    if not results:
        return {}
    remedy = "results are [nodes, ...]: reduce over dimension 1 of the mailbox"
    _check_alike("reduce", "message", degrees, results, remedy)
    order = torch.cat(rows)
    return {name: _spread(hop, name, [r[name] for r in results], order) for name in results[0]}


def _reduce(
    hop: Hop, function: Callable[..., Any], messages: Mapping[str, Tensor], bucket: Bucket
) -> Mapping[str, Tensor]:
    shape = (bucket.rows.shape[0], bucket.degree)
    mailbox = Mailbox(
        (name, value.index_select(0, bucket.edges).view(*shape, *value.shape[1:]))
        for name, value in messages.items()
    )
    nodes = bucket.rows.to(hop.relation.idtype)
    ids = nodes if hop.dst_nodes is None else hop.dst_nodes[nodes]
    batch = NodeBatch(hop.graph, ids, hop.etype[2], hop.dst.subframe(nodes), mailbox)
    owner = f"node with {counted(bucket.degree, 'message')}"
    return checked_columns("reduce", function(batch), shape[0], owner)


def _spread(hop: Hop, name: str, parts: list[Tensor], rows: Tensor) -> Tensor:
    """Returns the buckets' results in the order of nodes."""
    values = torch.cat(parts)
    num_dst = hop.relation.num_dst
    if rows.shape[0] == num_dst:
        out = torch.empty_like(values)
    else:
        out = hop.dst._fill(name, Scheme(tuple(values.shape[1:]), values.dtype), values.device)
    return out.index_copy(0, rows, values)


def _check_alike(
    kind: str, noun: str, sizes: list[int], results: list[Mapping[str, Tensor]], remedy: str
) -> None:
    """Raise unless a function returned the same kind of columns for buckets of every size."""
    first = {name: (x.dtype, x.shape[1:]) for name, x in results[0].items()}
    for size, result in zip(sizes[1:], results[1:]):
        other = {name: (x.dtype, x.shape[1:]) for name, x in result.items()}
        if other != first:
            raise SmexValueError(
                f"{kind} function: expected the same names, dtypes and row shapes for every number "
                f"of {noun}s, found {_listed(first)} for {counted(sizes[0], noun)} and "
                f"{_listed(other)} for {counted(size, noun)}; {remedy}"
            )


def _listed(schemes: Mapping[str, Any]) -> str:
    found = [f"{named(n)} {dtype} {list(shape)}" for n, (dtype, shape) in schemes.items()]
    return ", ".join(found) or "nothing"


def apply_in_groups(
    hop: Hop, function: Callable[..., Any], edges: list[Tensor], ends: tuple[Tensor, Tensor]
) -> dict[str, Tensor]:
    """Calls a function of edges once for each size that groups of edges have.

    Features are ``[n, size, ...]``: ``n`` groups of edges that share a node.

    Args:
        hop: edges and features.
        function: takes an EdgeBatch, returns columns ``[n, size, ...]``.
        edges: the edges grouped by the node they share.
        ends: (source, destination) of every edge.

    Returns:
        Columns ``[num_edges, ...]`` in the order of edge ids.
    """
    results: list[Mapping[str, Tensor]] = []
    ids: list[Tensor] = []
    sizes: list[int] = []
    for bucket in buckets_of(edges):
        sizes.append(bucket.degree)
        shape = (bucket.rows.shape[0], bucket.degree)
        src, dst = (x[bucket.edges] for x in ends)
        sides = (
            (hop.src, src, "source node"),
            (hop.edge, bucket.edges, "edge"),
            (hop.dst, dst, "destination node"),
        )
        frames = [_grouped(*side, shape) for side in sides]
        source, own, destination = frames
        ids_in_graph = bucket.edges if hop.edge_ids is None else hop.edge_ids[bucket.edges]
        batch = EdgeBatch(hop.graph, ids_in_graph, hop.etype, source, own, destination, src, dst)
        owner = f"group of {counted(bucket.degree, 'edge')}"
        found = checked_columns("group", function(batch), shape[0], owner)
        results.append({name: _ungrouped(name, x, shape) for name, x in found.items()})
        ids.append(bucket.edges)
    if not results:
        return {}
    _check_alike("group", "edge", sizes, results, "results are [groups, edges, ...]")
    order = torch.argsort(torch.cat(ids))
    return {name: torch.cat([r[name] for r in results])[order] for name in results[0]}


def _grouped(frame: Frame, rows: Tensor, kind: str, shape: tuple[int, int]) -> Frame:
    """Rows of every column, in groups."""
    columns = {name: frame.read_rows(name, rows) for name in frame}
    result = Frame(shape[0], {name: x.view(*shape, *x.shape[1:]) for name, x in columns.items()})
    result.owner = frame.owner_as(kind)
    return result


def _ungrouped(name: str, x: Tensor, shape: tuple[int, int]) -> Tensor:
    """Returns a column that a function of groups returned, edge by edge."""
    if x.dim() < 2 or x.shape[1] != shape[1]:
        raise SmexValueError(
            f"feature {named(name)} from the group function: expected [{shape[0]}, {shape[1]}, "
            f"...], a row for each edge of each group, found shape {list(x.shape)}"
        )
    return x.flatten(0, 1)

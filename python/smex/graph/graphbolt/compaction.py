"""Numbers from 0 for the nodes of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.graphbolt.base import CSCFormatBase, etype_str_to_tuple

__all__ = ["compact_csc_format", "unique_and_compact", "unique_and_compact_csc_formats"]

_ONE = "_N:_E:_N"
"""The edge type of a graph that has no types."""


def unique_and_compact(nodes: Any) -> tuple[Any, Any]:
    """Numbers nodes in the order in which they first come.

    Args:
        nodes: a list of tensors [n] of ids, or by node type such a list.

    Returns:
        The distinct ids, whose place is their number, and lists with the numbers; by node type
        where `nodes` is.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> gb.unique_and_compact([torch.tensor([7, 5]), torch.tensor([5, 9])])
        (tensor([7, 5, 9]), [tensor([0, 1]), tensor([1, 2])])
    """
    if isinstance(nodes, Mapping):
        found = {ntype: _numbered(lists) for ntype, lists in nodes.items()}
        return {t: ids for t, (ids, _) in found.items()}, {t: ns for t, (_, ns) in found.items()}
    return _numbered(nodes)


def _numbered(lists: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    device = lists[0].device
    ids, numbers = torch.ops.smex.relabel_ids([each.cpu() for each in lists])
    return ids.to(device), [each.to(device) for each in numbers]


def unique_and_compact_csc_formats(
    csc_formats: CSCFormatBase | Mapping[str, CSCFormatBase], unique_dst_nodes: Any
) -> tuple[Any, Any]:
    """Numbers the rows of edges by column: those of the columns first.

    Args:
        csc_formats: edges, by edge type where there are several, whose `indices` are ids.
        unique_dst_nodes: ids of the columns [num_columns]; by node type.

    Returns:
        The distinct ids, whose place is their number, by node type, and the edges with numbers.

    Raises:
        SmexValueError: there are not as many columns as ids.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> edges = gb.CSCFormatBase(torch.tensor([0, 2, 3]), torch.tensor([5, 9, 7]))
        >>> nodes, edges = gb.unique_and_compact_csc_formats(edges, torch.tensor([7, 5]))
        >>> nodes, edges.indices
        (tensor([7, 5, 9]), tensor([1, 2, 0]))
    """
    if isinstance(csc_formats, CSCFormatBase):
        nodes, edges = unique_and_compact_csc_formats({_ONE: csc_formats}, {"_N": unique_dst_nodes})
        return nodes["_N"], edges[_ONE]
    lists: dict[str, list[Tensor]] = {}
    for ntype, ids in unique_dst_nodes.items():
        lists[ntype] = [ids]
    for etype, edges_of in csc_formats.items():
        source, _, destination = etype_str_to_tuple(etype)
        _check_columns(etype, edges_of, unique_dst_nodes.get(destination))
        lists.setdefault(source, [edges_of.indices[:0]]).append(edges_of.indices)
    nodes, numbers = unique_and_compact(lists)
    compacted = {}
    for etype, edges_of in csc_formats.items():
        source = etype_str_to_tuple(etype)[0]
        compacted[etype] = CSCFormatBase(edges_of.indptr, numbers[source].pop(1))
    return nodes, compacted


def _check_columns(etype: str, edges: CSCFormatBase, ids: Tensor | None) -> None:
    count = 0 if ids is None else len(ids)
    if len(edges.indptr) != count + 1:
        raise SmexValueError(
            f"compact: edges {etype} have {len(edges.indptr) - 1} columns, found {count} ids of "
            "nodes for them"
        )


def compact_csc_format(
    csc_formats: CSCFormatBase | Mapping[str, CSCFormatBase],
    dst_nodes: Any,
    dst_timestamps: Any = None,
) -> tuple[Any, ...]:
    """Numbers the rows of edges one after another, equal ids too, after those of the columns.

    Args:
        csc_formats: as for :func:`unique_and_compact_csc_formats`.
        dst_nodes: ids of the columns, by node type.
        dst_timestamps: of the columns; then rows have that of their column.

    Returns:
        The ids by number, the edges with numbers, and with `dst_timestamps` those of the ids.

    Raises:
        SmexValueError: there are not as many columns as ids.
    """
    if isinstance(csc_formats, CSCFormatBase):
        times = None if dst_timestamps is None else {"_N": dst_timestamps}
        found = compact_csc_format({_ONE: csc_formats}, {"_N": dst_nodes}, times)
        return (found[0]["_N"], found[1][_ONE], *(each["_N"] for each in found[2:]))
    ids = {ntype: [nodes] for ntype, nodes in dst_nodes.items()}
    counts = {ntype: len(nodes) for ntype, nodes in dst_nodes.items()}
    stamps = {ntype: [times] for ntype, times in (dst_timestamps or {}).items()}
    compacted = {}
    for etype, edges in csc_formats.items():
        source, _, destination = etype_str_to_tuple(etype)
        _check_columns(etype, edges, dst_nodes.get(destination))
        begin, count = counts.get(source, 0), len(edges.indices)
        ids.setdefault(source, []).append(edges.indices)
        counts[source] = begin + count
        numbers = torch.arange(
            begin, begin + count, dtype=edges.indices.dtype, device=edges.indices.device
        )
        compacted[etype] = CSCFormatBase(edges.indptr, numbers)
        if dst_timestamps is not None:
            of_edges = dst_timestamps[destination].repeat_interleave(edges.indptr.diff().long())
            stamps.setdefault(source, []).append(of_edges)
    nodes = {ntype: torch.cat(lists) for ntype, lists in ids.items()}
    if dst_timestamps is None:
        return nodes, compacted
    return nodes, compacted, {ntype: torch.cat(lists) for ntype, lists in stamps.items()}

"""The structure's algorithms by torch's own operators, for devices without kernels of ours.

Each function takes and returns what the operator ``smex::`` of the same name does.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["induced_edges", "merge_parallel", "relabel_ids", "take_rows"]


def _positions(starts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """``starts[i]`` to ``starts[i] + lengths[i]`` one after another, and each one's i."""
    owner = torch.repeat_interleave(lengths.long())
    first = torch.cumsum(lengths.long(), 0) - lengths
    offset = torch.arange(owner.shape[0], device=starts.device) - first[owner]
    return starts.long()[owner] + offset, owner


def _eids(eids: Tensor | None, positions: Tensor, like: Tensor) -> Tensor:
    return positions.to(like.dtype) if eids is None else eids[positions]


def take_rows(
    indptr: Tensor, indices: Tensor, eids: Tensor | None, rows: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(columns, rows, edge ids) of the edges in `rows`, one row after another."""
    starts = indptr[rows.long()]
    positions, owner = _positions(starts, indptr[rows.long() + 1] - starts)
    return indices[positions], rows[owner], _eids(eids, positions, indices)


def induced_edges(
    indptr: Tensor, indices: Tensor, eids: Tensor | None, rows: Tensor, names: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(place in `rows`, new column, edge id) of the edges whose column has a name."""
    starts = indptr[rows.long()]
    positions, owner = _positions(starts, indptr[rows.long() + 1] - starts)
    columns = names[indices[positions].long()]
    kept = columns >= 0
    return owner[kept].to(names.dtype), columns[kept], _eids(eids, positions[kept], indices)


def merge_parallel(
    indptr: Tensor, indices: Tensor, eids: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(row, column, number of edges) of each pair, and each edge's pair; columns ascend."""
    num_edges = indices.shape[0]
    rows = torch.arange(indptr.shape[0] - 1, dtype=indptr.dtype, device=indptr.device)
    rows = torch.repeat_interleave(rows, indptr.diff().long(), output_size=num_edges)
    is_first = torch.ones(num_edges, dtype=torch.bool, device=indices.device)
    is_first[1:] = (rows[1:] != rows[:-1]) | (indices[1:] != indices[:-1])
    group = torch.cumsum(is_first, 0) - 1
    pairs = rows[is_first]
    counts = torch.bincount(group, minlength=pairs.shape[0]).to(indices.dtype)
    edge_map = torch.empty_like(indices)
    positions = torch.arange(num_edges, device=indices.device)
    edge_map[_eids(eids, positions, indices).long()] = group.to(indices.dtype)
    return pairs, indices[is_first], counts, edge_map


def relabel_ids(lists: list[Tensor], num_ids: int | None = None) -> tuple[Tensor, list[Tensor]]:
    """The different ids in the order of their first appearance, and the lists numbered so."""
    joined = torch.cat(lists)
    values, inverse = torch.unique(joined, sorted=True, return_inverse=True)
    steps = torch.arange(joined.shape[0], device=joined.device)
    first = torch.full(values.shape, joined.shape[0], dtype=torch.int64, device=joined.device)
    order = torch.argsort(first.scatter_reduce(0, inverse, steps, "amin"))
    number = torch.empty_like(order)
    number[order] = torch.arange(order.shape[0], device=order.device)
    numbers = number[inverse].to(joined.dtype)
    return values[order], list(numbers.split([ids.shape[0] for ids in lists]))

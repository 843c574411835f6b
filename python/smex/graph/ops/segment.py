"""Reductions and softmax over consecutive rows."""

from __future__ import annotations

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.ops.kernels import REDUCERS, no_edges


def segment_reduce(seglen: Tensor, value: Tensor, reducer: str = "sum") -> Tensor:
    """Reduces consecutive rows: the first ``seglen[0]`` rows, the next ``seglen[1]``, and so on.

    Args:
        seglen: ``[num_segments]`` numbers of rows; they add up to the rows of ``value``.
        value: ``[num_rows, *f]``.
        reducer: ``sum``, ``mean``, ``max`` or ``min``.

    Returns:
        ``[num_segments, *f]``; an empty segment gives 0.

    Raises:
        SmexValueError: the reducer is unknown, or the lengths do not add up to the rows.

    Example:
        >>> sg.ops.segment_reduce(torch.tensor([2, 0, 1]), torch.tensor([1.0, 2.0, 5.0]))
        tensor([3., 0., 5.])
    """
    if reducer not in REDUCERS:
        raise SmexValueError(
            f"segment_reduce: unknown reducer {reducer!r}; expected one of {', '.join(REDUCERS)}"
        )
    edges = _segments("segment_reduce", seglen, value)
    if not value.dtype.is_floating_point:
        return _reduce_plainly(seglen, value, reducer)
    ops = torch.ops.smex
    if reducer in ("sum", "mean"):
        return ops.spmm.default(edges, no_edges(edges), "e0", reducer, [value])
    none = no_edges(edges)
    return ops.spmm_extremum.default(edges, none, "e0", reducer, [value], True, False)[0]


def _reduce_plainly(seglen: Tensor, value: Tensor, reducer: str) -> Tensor:
    """For dtypes that the kernels do not have."""
    row = torch.repeat_interleave(seglen.to(value.device).long())
    out = value.new_zeros(seglen.shape[0], *value.shape[1:])
    if reducer == "sum":
        return out.index_add(0, row, value)
    if reducer == "mean":
        raise SmexTypeError(
            f"segment_reduce: the mean needs floating point values, found {value.dtype}; convert "
            "them"
        )
    index = row.view(-1, *(1,) * (value.dim() - 1)).expand_as(value)
    return out.scatter_reduce(0, index, value, "a" + reducer, include_self=False)


def segment_softmax(seglen: Tensor, value: Tensor) -> Tensor:
    """Softmax over consecutive rows, see :func:`segment_reduce`.

    Returns:
        ``[num_rows, *f]``.

    Example:
        >>> sg.ops.segment_softmax(torch.tensor([2, 1]), torch.tensor([1.0, 1.0, 3.0]))
        tensor([0.5000, 0.5000, 1.0000])
    """
    return torch.ops.smex.edge_softmax.default(_segments("segment_softmax", seglen, value), value)


def _segments(op: str, seglen: Tensor, value: Tensor) -> list[Tensor]:
    """Rows as edges into their segments."""
    ends = torch.cumsum(seglen, 0, dtype=torch.int64).to(value.device)
    indptr = torch.nn.functional.pad(ends, (1, 0))
    num_rows = value.shape[0]
    if torch.compiler.is_compiling():
        return [indptr, torch.arange(num_rows, device=value.device)]
    if bool((seglen < 0).any()):
        raise SmexValueError(
            f"{op}: the segments' lengths must not be negative, found {int(seglen.min())}"
        )
    if int(indptr[-1]) != num_rows:
        raise SmexValueError(
            f"{op}: the segments' lengths must add up to the number of rows of the values, "
            f"{num_rows}, found {int(indptr[-1])}"
        )
    return [indptr, torch.arange(num_rows, device=value.device)]

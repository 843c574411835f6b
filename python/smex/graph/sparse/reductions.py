"""What rows, columns and all of the non-zeros come to."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.ops.kernels import aggregate, softmax_over_edges
from smex.graph.sparse.matrix import SparseMatrix, val_like

__all__ = ["reduce", "smax", "smean", "smin", "softmax", "sprod", "sum"]

_KERNELS = {"sum": "sum", "smean": "mean", "smax": "max", "smin": "min"}
_ALL: dict[str, Any] = {
    "sum": Tensor.sum, "smax": Tensor.amax, "smin": Tensor.amin, "smean": Tensor.mean,
    "sprod": Tensor.prod,
}  # fmt: skip
_SCATTERED = {"sum": "sum", "smax": "amax", "smin": "amin", "smean": "mean", "sprod": "prod"}


def reduce(input: SparseMatrix, dim: int | None = None, rtype: str = "sum") -> Tensor:
    """Returns what the non-zeros come to; zeros do not count.

    Args:
        input: the matrix.
        dim: 0: those of each column, ``[columns, ...]``; 1: of each row, ``[rows, ...]``; None:
            all of them. Rows and columns without non-zeros are 0.
        rtype: sum, smax, smin, smean or sprod. The gradient of an extremum goes to the first of
            equal values.

    Raises:
        SmexValueError: `dim` or `rtype` is another one.

    Example:
        >>> import smex.graph.sparse as sp
        >>> A = sp.spmatrix(torch.tensor([[0, 1, 1], [0, 0, 2]]), torch.tensor([1.0, 2.0, 5.0]))
        >>> sp.reduce(A, 1, "smax"), sp.sum(A), A.sum(dim=0)
        (tensor([1., 5.]), tensor(8.), tensor([3., 0., 5.]))
    """
    if rtype not in _ALL or dim not in (None, 0, 1):
        raise SmexValueError(
            f"reduce: expected rtype {', '.join(_ALL)} and dim 0, 1 or None, found {rtype!r} and "
            f"{dim!r}"
        )
    val = input.val
    if dim is None:
        found: Tensor = _ALL[rtype](val, 0)
        return found
    relation = input.relation if dim == 1 else input.relation.reverse()
    if rtype in _KERNELS and val.dtype.is_floating_point:
        return aggregate(relation, "e0", _KERNELS[rtype], [val])
    index = relation.coo()[1].long().view(-1, *[1] * (val.dim() - 1)).expand_as(val)
    out = val.new_zeros((relation.num_dst, *val.shape[1:]))
    return out.scatter_reduce(0, index, val, _SCATTERED[rtype], include_self=False)


def sum(input: SparseMatrix, dim: int | None = None) -> Tensor:
    """Returns sums; see :func:`reduce`."""
    return reduce(input, dim, "sum")


def smax(input: SparseMatrix, dim: int | None = None) -> Tensor:
    """Returns the largest non-zeros; see :func:`reduce`."""
    return reduce(input, dim, "smax")


def smin(input: SparseMatrix, dim: int | None = None) -> Tensor:
    """Returns the smallest non-zeros; see :func:`reduce`."""
    return reduce(input, dim, "smin")


def smean(input: SparseMatrix, dim: int | None = None) -> Tensor:
    """Returns the means of the non-zeros; see :func:`reduce`."""
    return reduce(input, dim, "smean")


def sprod(input: SparseMatrix, dim: int | None = None) -> Tensor:
    """Returns the products of the non-zeros; see :func:`reduce`."""
    return reduce(input, dim, "sprod")


def softmax(input: SparseMatrix, dim: int = 1) -> SparseMatrix:
    """Returns the matrix with the softmax of the non-zeros of each row (dim 1) or column (dim 0).

    Raises:
        SmexValueError: `dim` is another one.

    Example:
        >>> import smex.graph.sparse as sp
        >>> A = sp.spmatrix(torch.tensor([[0, 1, 1], [0, 0, 2]]), torch.zeros(3))
        >>> sp.softmax(A).val
        tensor([1.0000, 0.5000, 0.5000])
    """
    if dim not in (0, 1):
        raise SmexValueError(f"softmax: expected dim 0 (columns) or 1 (rows), found {dim!r}")
    norm_by = "dst" if dim == 1 else "src"
    return val_like(input, softmax_over_edges(input.relation, input.val, norm_by))

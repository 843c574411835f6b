"""Reductions over rows, columns or all entries, and softmax over those of each row or column."""

from __future__ import annotations

from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.function import COPIES
from smex.graph.ops.kernels import aggregate, softmax_over_edges
from smex.graph.sparse.core import Matrix, MatrixCore, check_matrix

_KERNELS = {"sum": "sum", "smax": "max", "smean": "mean", "smin": "min"}
_BY_TORCH = {"sum": "sum", "smax": "amax", "smean": "mean", "smin": "amin", "sprod": "prod"}


def reduce(input: MatrixCore, dim: int | None = None, rtype: str = "sum") -> Tensor:
    """Reduces the entries of each column, of each row, or all; zeros without an entry do not count.

    Args:
        input: ``[L, M]`` with values ``[nnz, *d]``.
        dim: 0 reduces over rows, 1 over columns, None over both.
        rtype: ``sum``, ``smax``, ``smean``, ``smin`` or ``sprod``.

    Returns:
        ``[M, *d]`` for 0, ``[L, *d]`` for 1, ``[*d]`` for None. Rows and columns without entries
        give 0, and so do the extrema of a matrix without any. Gradients flow into the values.

    Raises:
        SmexTypeError: ``input`` is no sparse matrix.
        SmexValueError: ``dim`` or ``rtype`` is another.

    Example:
        >>> A = sg.sparse.spmatrix(torch.tensor([[0, 0], [0, 1]]), torch.tensor([2.0, 3.0]))
        >>> sg.sparse.reduce(A, 1, "smax")
        tensor([3.])
    """
    check_matrix("reduce", "input", input)
    if rtype not in _BY_TORCH:
        raise SmexValueError(
            f"reduce: unknown reduction {rtype!r}; expected one of {', '.join(sorted(_BY_TORCH))}"
        )
    if dim is None:
        return _of_all(input.val, rtype)
    _check_dim("reduce", dim)
    relation = input._relation if dim == 1 else input._relation.reverse()
    if rtype in _KERNELS and input.dtype.is_floating_point:
        return aggregate(relation, COPIES["e"], _KERNELS[rtype], [input.val])
    val = input.val
    index = relation.coo()[1].long().view(-1, *(1,) * (val.dim() - 1)).expand_as(val)
    out = val.new_zeros((relation.num_dst, *val.shape[1:]))
    return out.scatter_reduce(0, index, val, _BY_TORCH[rtype], include_self=False)


def _of_all(val: Tensor, rtype: str) -> Tensor:
    if val.shape[0] == 0 and rtype in ("smax", "smin"):
        return val.sum(0).to(val.dtype)
    out: Tensor = getattr(val, _BY_TORCH[rtype])(0)
    return out


def _check_dim(op: str, dim: int) -> None:
    if dim not in (0, 1):
        raise SmexValueError(f"{op}: expected dim 0, rows, or 1, columns, found {dim!r}")


def sum(input: MatrixCore, dim: int | None = None) -> Tensor:
    """The sums of entries, see :func:`reduce`.

    Example:
        >>> sg.sparse.sum(sg.sparse.identity((2, 3)), dim=0)
        tensor([1., 1., 0.])
    """
    return reduce(input, dim, "sum")


def smax(input: MatrixCore, dim: int | None = None) -> Tensor:
    """The largest entries, see :func:`reduce`.

    Example:
        >>> sg.sparse.smax(sg.sparse.diag(torch.tensor([2.0, -1.0])), dim=1)
        tensor([ 2., -1.])
    """
    return reduce(input, dim, "smax")


def smin(input: MatrixCore, dim: int | None = None) -> Tensor:
    """The least entries, see :func:`reduce`.

    Example:
        >>> sg.sparse.smin(sg.sparse.diag(torch.tensor([2.0, -1.0])))
        tensor(-1.)
    """
    return reduce(input, dim, "smin")


def smean(input: MatrixCore, dim: int | None = None) -> Tensor:
    """The means of entries, see :func:`reduce`.

    Example:
        >>> sg.sparse.smean(sg.sparse.diag(torch.tensor([2.0, -1.0])))
        tensor(0.5000)
    """
    return reduce(input, dim, "smean")


def sprod(input: MatrixCore, dim: int | None = None) -> Tensor:
    """The products of entries, see :func:`reduce`.

    Example:
        >>> sg.sparse.sprod(sg.sparse.diag(torch.tensor([2.0, -1.0])))
        tensor(-2.)
    """
    return reduce(input, dim, "sprod")


def softmax(input: Matrix, dim: int = 1) -> Matrix:
    """Returns the matrix with the softmax of the entries of each row or column.

    Args:
        input: ``[L, M]`` with floating point values ``[nnz]`` or ``[nnz, D]``; each of the D is
            normalised by itself.
        dim: 1 makes the entries of each row sum to 1, 0 those of each column.

    Returns:
        A matrix with the same places. Gradients flow into the values.

    Raises:
        SmexTypeError: ``input`` is no sparse matrix, or its values are not floating point.
        SmexValueError: ``dim`` is another.

    Example:
        >>> A = sg.sparse.spmatrix(torch.tensor([[0, 0, 1], [0, 1, 0]]))
        >>> sg.sparse.softmax(A).val
        tensor([0.5000, 0.5000, 1.0000])
    """
    check_matrix("softmax", "input", input)
    _check_dim("softmax", dim)
    if not input.dtype.is_floating_point:
        raise SmexTypeError(
            f"softmax: expected floating point values, found {input.dtype}; call float() first"
        )
    by = "dst" if dim == 1 else "src"
    return input._like(softmax_over_edges(input._relation, input.val, by))

"""Linear algebra: unknown functions of whole matrices, applied to each place of a batch.

Batch dimensions broadcast. Each right-hand side of a linear system has its own solution.
"""

from __future__ import annotations

import torch

from smex.specs.common import all_of, element, named
from smex.tdl import Opaque, spec


def _per_matrix(name, outputs, *operands):
    """Returns one lambda for each of `outputs`.

    An output is given as the names of the dimensions that follow those of the batch, or None where
    it stays empty; an operand as a tensor and such names, ":" where all of a dimension is read. An
    output does not depend on operands with a name that it lacks.
    """
    given = [(x, names) for x, names in operands if x is not None]
    return tuple(None if names is None else _output(name, names, given) for names in outputs)


def _output(name, names, operands):
    used = [(x, read) for x, read in operands if set(read) <= {":", *names}]

    def body(*i):
        batch, last = i[: len(i) - len(names)], dict(zip(names, i[len(i) - len(names) :]))
        reads = []
        for x, read in used:
            ndim = x.ndim - len(read)
            sizes = zip(x.shape[:ndim], batch[len(batch) - ndim :])
            at = [0 if size == 1 else b for size, b in sizes]
            reads.append(x[(*at, *(last.get(n, slice(None)) for n in read))])
        return Opaque(name, *reads)

    rank = max(x.ndim - len(read) for x, read in used)
    return named(body, [*_batch(rank), *names])


def _batch(rank):
    """Returns the names of batch dimensions, which broadcasting counts from the last."""
    return [f"b{rank - dim}" for dim in range(rank)]


def _is_vector(a, b):
    """Whether b holds one right-hand side for each matrix of a, without a dimension for them."""
    return b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])


def _right_sides(b, left=True):
    """Returns a right-hand side's read, and the solution's dimensions."""
    return ((b, ":j"), "rj") if left else ((b, "j:"), "jr")


@spec("aten::cholesky_inverse")
def cholesky_inverse(factor, upper):
    return _per_matrix("cholesky_inverse", ["rc"], (factor, "::"))


@spec("aten::cholesky_solve")
def cholesky_solve(b, factor, upper):
    return _per_matrix("cholesky_solve", ["rj"], (b, ":j"), (factor, "::"))


@spec("aten::geqrf")
def geqrf(a):
    return _per_matrix("qr", ["rc", "k"], (a, "::"))


@spec("aten::_linalg_check_errors")
def linalg_check_errors(info, name, is_matrix):
    """Ends the program where a number is not 0."""
    return (None,)  # it returns nothing


@spec("aten::linalg_cholesky_ex")
def linalg_cholesky_ex(a, upper, check_errors):
    return _per_matrix("cholesky", ["rc", ""], (a, "::"))


@spec("aten::_linalg_det")
def linalg_det(a):
    return _per_matrix("det", ["", "rc", "k"], (a, "::"))


@spec("aten::linalg_eig")
def linalg_eig(a):
    return _per_matrix("eig", ["k", "rk"], (a, "::"))


@spec("aten::_linalg_eigh")
def linalg_eigh(a, uplo, vectors):
    return _per_matrix("eigh", ["k", "rk" if vectors else None], (a, "::"))


@spec("aten::linalg_householder_product")
def linalg_householder_product(a, tau):
    return _per_matrix("householder", ["rc"], (a, "::"), (tau, ":"))


@spec("aten::linalg_inv_ex")
def linalg_inv_ex(a, check_errors):
    return _per_matrix("inverse", ["rc", ""], (a, "::"))


@spec("aten::linalg_ldl_factor_ex")
def linalg_ldl_factor_ex(a, hermitian, check_errors):
    return _per_matrix("ldl", ["rc", "k", ""], (a, "::"))


@spec("aten::linalg_ldl_solve")
def linalg_ldl_solve(factor, pivots, b, hermitian):
    return _per_matrix("ldl_solve", ["rj"], (factor, "::"), (pivots, ":"), (b, ":j"))


@spec("aten::linalg_lstsq")
def linalg_lstsq(a, b, rcond, driver):
    right, solution, residuals = (b, ":j"), "rj", "j"
    if _is_vector(a, b):
        right, solution, residuals = (b, ":"), "r", "o"
    names = [
        solution,
        residuals if driver not in (None, "gelsy") and a.shape[-2] > a.shape[-1] else None,
        None if driver == "gels" else "",
        "k" if driver in ("gelss", "gelsd") else None,
    ]
    outputs = _per_matrix("lstsq", names, (a, "::"), right)
    return _without_residuals(a, outputs) if names[1] and driver != "gels" else outputs


def _without_residuals(a, outputs):
    """The residuals of all are empty where one matrix lacks rank: the batch is whole then."""
    solution, residuals, ranks, values = outputs
    rank = a.ndim - 2
    default = {name: f"i{dim}" for dim, name in enumerate([*_batch(rank), "j"])}
    for output in (solution, ranks, values):
        output.index_names = [default.get(name, name) for name in output.index_names]

    def maybe(*i):
        return residuals(*i) if len(i) > rank else Opaque("lstsq", all_of(a))

    return solution, maybe, ranks, values


@spec("aten::linalg_lu")
def linalg_lu(a, pivot):
    return _per_matrix("lu", ["rp" if pivot else None, "rk", "kc"], (a, "::"))


@spec("aten::linalg_lu_factor_ex")
def linalg_lu_factor_ex(a, pivot, check_errors):
    return _per_matrix("lu", ["rc", "k", ""], (a, "::"))


@spec("aten::linalg_lu_solve")
def linalg_lu_solve(factor, pivots, b, left, adjoint):
    columns, solution = _right_sides(b, left)
    return _per_matrix("lu_solve", [solution], (factor, "::"), (pivots, ":"), columns)


@spec("aten::linalg_matrix_exp")
def linalg_matrix_exp(a):
    return _per_matrix("matrix_exp", ["rc"], (a, "::"))


if hasattr(torch.ops.aten, "linalg_matrix_sqrth"):  # torch 2.15 has it

    @spec("aten::linalg_matrix_sqrth")
    def linalg_matrix_sqrth(a):
        return _per_matrix("matrix_sqrt", ["rc"], (a, "::"))


@spec("aten::linalg_pinv.atol_rtol_tensor")
def linalg_pinv(a, atol, rtol, hermitian):
    return _per_matrix("pseudoinverse", ["rc"], (a, "::"), (atol, ""), (rtol, ""))


if hasattr(torch.ops.aten, "linalg_polar"):  # torch 2.15 has it

    @spec("aten::linalg_polar")
    def linalg_polar(a):
        return _per_matrix("polar", ["rc", "kc"], (a, "::"))


@spec("aten::linalg_qr")
def linalg_qr(a, mode):
    return _per_matrix("qr", [None if mode == "r" else "rk", "kc"], (a, "::"))


@spec("aten::_linalg_slogdet")
def linalg_slogdet(a):
    return _per_matrix("slogdet", ["", "", "rc", "k"], (a, "::"))


@spec("aten::_linalg_solve_ex")
def linalg_solve_ex(a, b, left, check_errors):
    matrix, (columns, solution) = (a, "::"), _right_sides(b, left)
    if _is_vector(a, b):
        columns, solution = (b, ":"), "r"
    elif b.ndim == a.ndim - 1:  # some tiles of it would be taken for vectors
        matrix, columns = (a, ":" * a.ndim), (b, ":" * b.ndim)
        solution = [f"x{dim}" for dim in range(a.ndim)]
    (result,) = _per_matrix("solve", [solution], matrix, columns)
    return (result, *_per_matrix("lu", ["pq", "k", ""], (a, "::")))


@spec("aten::linalg_solve_triangular")
def linalg_solve_triangular(a, b, upper, left, unitriangular):
    columns, solution = _right_sides(b, left)
    return _per_matrix("solve_triangular", [solution], (a, "::"), columns)


@spec("aten::_linalg_svd")
def linalg_svd(a, full_matrices, vectors, driver):
    u, v = ("rk", "kc") if vectors else (None, None)
    return _per_matrix("svd", [u, "k", v], (a, "::"))


@spec("aten::lu_unpack")
def lu_unpack(factor, pivots, data, permutation):
    lower, upper = ("rk", "kc") if data else (None, None)
    names = ["rp" if permutation else None, lower, upper]
    return _per_matrix("lu_unpack", names, (factor, "::"), (pivots, ":"))


@spec("aten::ormqr")
def ormqr(a, tau, b, left, transpose):
    columns, product = _right_sides(b, left)
    return _per_matrix("householder_product", [product], (a, "::"), (tau, ":"), columns)


@spec("aten::triangular_solve")
def triangular_solve(b, a, upper, transpose, unitriangular):
    (solution,) = _per_matrix("triangular_solve", ["rj"], (b, ":j"), (a, "::"))

    def clone(*i):
        return element(a, i)

    names = [*_batch(max(a.ndim, b.ndim) - 2), "p", "q"]
    return solution, named(clone, names)

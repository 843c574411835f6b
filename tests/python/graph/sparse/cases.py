"""What DGL 2.1's sparse matrices make of some inputs, and what is made here.

    DGL_INTERPRETER cases.py | gzip -9n > recorded.json.gz

records it in an environment that has DGL (`benchmarks/peers/environments.py dgl`). Inputs are drawn
by NumPy. Matrices are recorded as dense ones with their places, gradients as they are.
"""

import json
import sys

import numpy as np
import torch

CASES = {}
REPEATS = 8


def case(function):
    CASES[function.__name__] = function
    return function


def plain(value):
    """Matrices as places and values in the order of places, numbers to seven digits."""
    if hasattr(value, "coo"):
        row, col = value.coo()
        key = row * value.shape[1] + col
        order = key.argsort(stable=True)
        return [list(value.shape), key[order].tolist(), plain(value.val[order])]
    if isinstance(value, torch.Tensor):
        if value.dtype.is_floating_point:
            return [float(f"{x:.7g}") + 0.0 for x in value.double().reshape(-1).tolist()]
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def drawn(sp, rng, rows=6, columns=5, width=None, places=12, grad=True):
    """A matrix with distinct places in any order, and its values."""
    where = rng.permutation(rows * columns)[:places]
    indices = torch.from_numpy(np.stack([where // columns, where % columns]))
    size = (places,) if width is None else (places, width)
    val = torch.from_numpy(rng.normal(size=size)).requires_grad_(grad)
    return sp.spmatrix(indices, val, shape=(rows, columns)), val


def dense(rng, *size):
    return torch.from_numpy(rng.normal(size=size)).requires_grad_()


def with_gradients(result, *inputs):
    """The result, and the gradients of a weighted sum of it."""
    found = result.val if hasattr(result, "coo") else result
    if hasattr(result, "coo"):  # by place, whatever the order of the non-zeros
        key = (result.row * result.shape[1] + result.col + 1).double()
        weights = key.view(-1, *[1] * (found.dim() - 1)).sin()
    else:
        weights = torch.arange(1, found.numel() + 1).double().sin().view(found.shape)
    grads = torch.autograd.grad((found * weights).sum(), inputs)
    return [plain(result), [plain(each) for each in grads]]


@case
def products_with_dense(sp, rng):
    A, val = drawn(sp, rng)
    X, x = dense(rng, 5, 3), dense(rng, 5)
    B, wide = drawn(sp, rng, width=4)
    Y = dense(rng, 5, 3, 4)
    return [
        with_gradients(sp.spmm(A, X), val, X), with_gradients(A @ x, val, x),
        with_gradients(sp.bspmm(B, Y), wide, Y), with_gradients(sp.matmul(A, X), val, X),
    ]  # fmt: skip


@case
def products_of_sparse(sp, rng):
    A, a = drawn(sp, rng)
    B, b = drawn(sp, rng, 5, 7)
    square = sp.diag(dense(rng, 5))
    return [
        with_gradients(sp.spspmm(A, B), a, b), with_gradients(A @ B, a, b),
        with_gradients(A @ square, a, square.val), with_gradients(square @ B, b, square.val),
    ]  # fmt: skip


@case
def products_where_there_are_non_zeros(sp, rng):
    A, val = drawn(sp, rng)
    x, y = dense(rng, 6, 3), dense(rng, 3, 5)
    u, v = dense(rng, 6), dense(rng, 5)
    B, wide = drawn(sp, rng, width=4)
    p, q = dense(rng, 6, 3, 4), dense(rng, 3, 5, 4)
    return [
        with_gradients(sp.sddmm(A, x, y), val, x, y), with_gradients(sp.sddmm(A, u, v), val, u, v),
        with_gradients(sp.bsddmm(B, p, q), wide, p, q), with_gradients(sp.sddmm(A, p, q), val, p, q),
    ]  # fmt: skip


@case
def element_by_element(sp, rng):
    A, a = drawn(sp, rng)
    B, b = drawn(sp, rng)
    # The same places in another order.
    order = torch.from_numpy(rng.permutation(12))
    c = dense(rng, 12)
    C = sp.spmatrix(A.indices()[:, order], c, shape=A.shape)
    D, E = sp.diag(dense(rng, 5), (6, 5)), sp.diag(dense(rng, 5), (6, 5))
    results = [
        with_gradients(A * B, a, b), with_gradients(A / C, a, c), with_gradients(2.5 * A, a),
        with_gradients(A / 2.0, a), with_gradients(A**2, a), with_gradients(-A, a),
        with_gradients(D + E, D.val, E.val), with_gradients(D * E, D.val, E.val),
        with_gradients(D / E, D.val, E.val), with_gradients(D - E, D.val, E.val),
    ]  # fmt: skip
    added = [A + B, A - B, A + D, sp.add(A, B), sp.sub(B, A), sp.mul(A, 3), sp.power(A, 3)]
    return [results, plain(added), plain([sp.div(A, 4.0), sp.neg(A)])]


@case
def vectors_by_row_and_column(sp, rng):
    A, a = drawn(sp, rng)
    B, b = drawn(sp, rng, width=2)
    row, column, line = dense(rng, 6, 1), dense(rng, 1, 5), dense(rng, 5)
    found = []
    for function in (sp.sp_add_v, sp.sp_sub_v, sp.sp_mul_v, sp.sp_div_v):
        for v in (row, column, line):
            found.append(with_gradients(function(A, v), a))
            found.append(with_gradients(function(B, v), b))
    return found


@case
def reductions(sp, rng):
    found = []
    for width in (None, 3):
        A, val = drawn(sp, rng, width=width, places=9)
        for name in ("sum", "smax", "smin", "smean", "sprod"):
            for dim in (None, 0, 1):
                found.append(with_gradients(getattr(sp, name)(A, dim), val))
                found.append(plain(getattr(A, name)(dim)))
                found.append(plain(sp.reduce(A, dim, name)))
    return found


@case
def softmaxes(sp, rng):
    found = []
    for width in (None, 3):
        A, val = drawn(sp, rng, width=width)
        for dim in (0, 1):
            found.append(with_gradients(sp.softmax(A, dim), val))
        found.append(with_gradients(A.softmax(), val))
    return found


@case
def formats_and_forms(sp, rng):
    A, _ = drawn(sp, rng, grad=False)
    csr, csc = A.csr(), A.csc()
    by_row = sp.from_csr(csr[0], csr[1], A.val[csr[2]], A.shape)
    by_column = sp.from_csc(csc[0], csc[1], A.val[csc[2]], A.shape)
    twice = sp.spmatrix(torch.tensor([[1, 0, 1, 1], [0, 2, 0, 1]]), torch.arange(4.0))
    return plain([
        A, by_row, by_column, A.to_dense(), A.T, A.t().to_dense(), A.transpose(), csr[0], csc[0],
        sp.val_like(A, torch.arange(12)), A.float().dtype == torch.float32, A.nnz, list(A.shape),
        twice.has_duplicate(), A.has_duplicate(), twice.coalesce(), A.coalesce(),
        list(twice.shape), sp.from_torch_sparse(sp.to_torch_sparse_coo(A)),
        sp.from_torch_sparse(sp.to_torch_sparse_csr(A)),
        sp.from_torch_sparse(sp.to_torch_sparse_csc(A)),
        sp.to_torch_sparse_csr(A).to_dense(), sp.to_torch_sparse_csc(A).to_dense(),
        sp.identity((3, 4)), sp.identity((3, 3), d=2), sp.diag(torch.arange(3.0), (3, 5)),
        sp.inv(sp.diag(torch.arange(1.0, 4.0))), sp.diag(torch.arange(2.0)).is_diag(), A.is_diag(),
        sp.diag(torch.arange(2.0)).T.is_diag(), sp.from_coo(*A.coo()),
    ])  # fmt: skip


@case
def parts(sp, rng):
    A, _ = drawn(sp, rng, grad=False)
    rows, columns = torch.from_numpy(rng.integers(6, size=4)), torch.tensor([4, 0])
    low, high = sorted(rng.permutation(6)[:2].tolist())
    lead = torch.from_numpy(rng.permutation(5)[:2])
    return plain([
        A.index_select(0, rows), A.index_select(1, columns), A.range_select(0, slice(low, high)),
        A.range_select(1, slice(1, 4)), A.compact(0), A.compact(1), A.compact(1, lead),
        A.compact(0, lead), A.sample(0, 9, torch.arange(6)), A.sample(1, 9, torch.tensor([3, 1])),
    ])  # fmt: skip


def results(sp):
    """By case what is made of each of several inputs."""
    found = {}
    for name, function in CASES.items():
        found[name] = [
            json.loads(json.dumps(function(sp, np.random.default_rng([n, len(name)]))))
            for n in range(REPEATS)
        ]
    return found


if __name__ == "__main__":
    import dgl.sparse

    stdout, sys.stdout = sys.stdout, sys.stderr
    torch.set_num_threads(1)
    json.dump(results(dgl.sparse), stdout, separators=(",", ":"))

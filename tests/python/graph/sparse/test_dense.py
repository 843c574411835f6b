"""Sparse matrices beside dense tensors: values, gradients and second gradients."""

import itertools

import pytest
import torch

import smex.graph as sg
from smex.graph import sparse as sp

DTYPES = [torch.float32, torch.float64]


def random_matrix(seed, rows, cols, nnz, *features, dtype=torch.float64, twice=True):
    generator = torch.Generator().manual_seed(seed)
    if twice:
        row = torch.randint(rows, (nnz,), generator=generator)
        col = torch.randint(cols, (nnz,), generator=generator)
    else:
        place = torch.randperm(rows * cols, generator=generator)[:nnz]
        row, col = place // cols, place % cols
    val = torch.randn(nnz, *features, generator=generator, dtype=torch.float64).to(dtype)
    return sp.from_coo(row, col, val.requires_grad_(), (rows, cols))


def dense(A):
    """The dense matrix by a loop, with gradients."""
    out = {}
    for r, c, v in zip(A.row.tolist(), A.col.tolist(), A.val):
        out[r, c] = out.get((r, c), 0) + v
    zero = A.val.sum(0) * 0
    rows = [
        torch.stack([out.get((r, c), zero) for c in range(A.shape[1])]) for r in range(A.shape[0])
    ]
    return torch.stack(rows)


def same_gradients(ours, oracle, leaves):
    torch.testing.assert_close(ours, oracle)
    weight = torch.linspace(-1, 2, ours.numel(), dtype=ours.dtype).reshape(ours.shape)
    got = torch.autograd.grad((ours * weight).sum(), leaves, retain_graph=True)
    expected = torch.autograd.grad((oracle * weight).sum(), leaves)
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "cols", "nnz"), [(1, 1, 1), (4, 7, 0), (5, 3, 12), (17, 33, 90)])
def test_products(rows, cols, nnz, dtype):
    A = random_matrix(nnz, rows, cols, nnz, dtype=dtype)
    torch.testing.assert_close(A.to_dense(), dense(A))
    for shape in ((cols,), (cols, 3)):
        X = torch.randn(shape, dtype=dtype, requires_grad=True)
        same_gradients(A @ X, dense(A) @ X, [A.val, X])
    Y = torch.randn(rows, 2, dtype=dtype, requires_grad=True)
    same_gradients(A.T @ Y, dense(A).T @ Y, [A.val, Y])
    B = random_matrix(nnz + 1, cols, 6, nnz, dtype=dtype)
    same_gradients((A @ B).to_dense(), dense(A) @ dense(B), [A.val, B.val])
    assert not (A @ B).has_duplicate()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("nnz", [0, 1, 20])
def test_batches(nnz, dtype):
    A = random_matrix(nnz, 5, 4, nnz, 3, dtype=dtype)
    X = torch.randn(4, 2, 3, dtype=dtype, requires_grad=True)
    same_gradients(sp.bspmm(A, X), torch.einsum("lmk,mnk->lnk", dense(A), X), [A.val, X])
    left = torch.randn(5, 2, 3, dtype=dtype, requires_grad=True)
    right = torch.randn(2, 4, 3, dtype=dtype, requires_grad=True)
    product = torch.einsum("lmk,mnk->lnk", left, right)
    found = sp.bsddmm(A, left, right).to_dense()
    same_gradients(found, product * dense(A), [A.val, left, right])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "cols", "nnz"), [(1, 1, 1), (4, 7, 0), (5, 3, 12), (17, 33, 90)])
def test_sampled_products(rows, cols, nnz, dtype):
    A = random_matrix(nnz, rows, cols, nnz, dtype=dtype)
    X1 = torch.randn(rows, 3, dtype=dtype, requires_grad=True)
    X2 = torch.randn(3, cols, dtype=dtype, requires_grad=True)
    same_gradients(sp.sddmm(A, X1, X2).to_dense(), (X1 @ X2) * dense(A), [A.val, X1, X2])
    u = torch.randn(rows, dtype=dtype, requires_grad=True)
    v = torch.randn(cols, dtype=dtype, requires_grad=True)
    same_gradients(sp.sddmm(A, u, v).to_dense(), torch.outer(u, v) * dense(A), [A.val, u, v])


@pytest.mark.parametrize("features", [(), (2,)])
@pytest.mark.parametrize("nnz", [0, 1, 20])
def test_arithmetic(nnz, features):
    A = random_matrix(3, 6, 5, nnz, *features)
    B = random_matrix(4, 6, 5, 11, *features)
    same_gradients((A + B).to_dense(), dense(A) + dense(B), [A.val, B.val])
    same_gradients((A - B).to_dense(), dense(A) - dense(B), [A.val, B.val])
    same_gradients((A * 3 - B / 2).to_dense(), dense(A) * 3 - dense(B) / 2, [A.val, B.val])
    same_gradients(A.coalesce().to_dense(), dense(A), [A.val])
    one = random_matrix(5, 6, 5, nnz, *features, twice=False)
    other = random_matrix(6, 6, 5, 11, *features, twice=False)
    same_gradients((one * other).to_dense(), dense(one) * dense(other), [one.val, other.val])


def test_quotients_keep_the_order_of_the_first():
    A = random_matrix(7, 6, 5, 9, twice=False)
    order = torch.randperm(9)
    B = sp.from_coo(A.row[order], A.col[order], torch.rand(9).double() + 1, A.shape)
    quotient = A / B
    assert quotient.row.equal(A.row)
    torch.testing.assert_close(quotient.val, A.val / B.to_dense()[A.row, A.col])


def test_numbers_that_have_gradients():
    A, two = random_matrix(8, 3, 3, 5), torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    for result in (A * two, two * A, A / two, A ** two.detach()):
        assert isinstance(result, sp.SparseMatrix)
    same_gradients((two * A).to_dense(), two * dense(A), [A.val, two])


@pytest.mark.parametrize("features", [(), (2,)])
@pytest.mark.parametrize(
    ("how", "dim"), [*itertools.product(("sum", "smax", "smin", "smean", "sprod"), (0, 1))]
)
def test_reductions(how, dim, features):
    A = random_matrix(9, 7, 6, 15, *features)
    torch_name = {"smax": "amax", "smin": "amin", "smean": "mean", "sprod": "prod"}.get(how, "sum")
    lines = A.col if dim == 0 else A.row
    zero = A.val.new_zeros(features)
    rows = [
        getattr(A.val[lines == i], torch_name)(0) if (lines == i).any() else zero
        for i in range(A.shape[1 - dim])
    ]
    same_gradients(getattr(A, how)(dim), torch.stack(rows), [A.val])
    same_gradients(getattr(sp, how)(A), getattr(A.val, torch_name)(0), [A.val])
    assert getattr(random_matrix(1, 3, 2, 0), how)(dim).tolist() == [0] * (2 if dim == 0 else 3)


@pytest.mark.parametrize("features", [(), (2,)])
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax(dim, features):
    A = random_matrix(10, 5, 6, 14, *features)
    lines = A.col if dim == 0 else A.row
    out = torch.zeros_like(A.val)
    for i in range(A.shape[1 - dim]):
        at = (lines == i).nonzero().view(-1)
        out = out.index_put((at,), A.val[at].softmax(0))
    same_gradients(A.softmax(dim).val, out, [A.val])


@pytest.mark.parametrize("op", ["add", "sub", "mul", "truediv"])
def test_vectors(op):
    A = random_matrix(11, 4, 5, 9, 2)
    by_column, by_row = torch.rand(5).double() + 1, torch.rand(4, 1).double() + 1
    for vector, element in ((by_column, by_column[A.col]), (by_row, by_row[A.row, 0])):
        expected = getattr(__import__("operator"), op)(A.val, element[:, None])
        torch.testing.assert_close(sp.sp_broadcast_v(A, vector, op).val, expected)


@pytest.mark.parametrize("dim", [0, 1])
def test_selections(dim):
    A = random_matrix(12, 6, 7, 20)
    index = torch.tensor([3, 0, 3, 5])
    same_gradients(
        A.index_select(dim, index).to_dense(), dense(A).index_select(dim, index), [A.val]
    )
    for part in (slice(1, 4), slice(None), slice(-2, None), slice(3, 3), slice(4, 2)):
        expected = dense(A)[part] if dim == 0 else dense(A)[:, part]
        torch.testing.assert_close(A.range_select(dim, part).to_dense(), expected)


@pytest.mark.parametrize(
    ("dim", "idtype"), [*itertools.product((0, 1), (torch.int32, torch.int64))]
)
def test_samples_are_entries(dim, idtype):
    torch.manual_seed(0)
    A = random_matrix(13, 6, 7, 30, twice=False).to(dtype=torch.float32)
    A = sp.from_coo(A.row.to(idtype), A.col.to(idtype), A.val.detach().abs(), A.shape)
    ids = torch.tensor([4, 1])
    B = A.sample(dim, 2, ids)
    kept = A.index_select(dim, ids).to_dense()
    assert ((B.to_dense() == kept) | (B.to_dense() == 0)).all()
    counts = (B.to_dense() != 0).sum(1 - dim)
    assert counts.equal((kept != 0).sum(1 - dim).clamp(max=2))
    assert A.sample(dim, 4, replace=True).nnz == 4 * int((A.to_dense() != 0).any(1 - dim).sum())
    heavy = sp.val_like(A, torch.where(A.row == A.row[0], 1.0, 0.0))
    assert heavy.sample(1, 3, replace=True, bias=True).val.eq(1).all()


@pytest.mark.parametrize("dim", [0, 1])
def test_compacted(dim):
    A = sp.from_coo(torch.tensor([5, 2, 2]), torch.tensor([1, 4, 6]), shape=(8, 9))
    ids = A.row if dim == 0 else A.col
    B, order = A.compact(dim)
    assert order.tolist() == sorted(set(ids.tolist()))
    torch.testing.assert_close(B.to_dense(), A.to_dense().index_select(dim, order))
    B, order = A.compact(dim, [7, 2])
    assert order[:2].tolist() == [7, 2] and len(set(order.tolist())) == len(order)
    torch.testing.assert_close(B.to_dense(), A.to_dense().index_select(dim, order))
    assert B.val is A.val


def test_diagonals_stay_diagonal():
    D, E = sp.diag(torch.rand(3)), sp.identity((3, 3))
    A = sp.from_coo(torch.tensor([2, 0]), torch.tensor([0, 1]), shape=(3, 3))
    for result in (D + E, D - E, D * E, D / E, D @ E, D * 2, D.T, D.inv(), -D, D**2, D.float()):
        assert result.is_diag()
    for result in (D + A, A + D, D * A, D @ A, A @ D, D.coalesce()):
        assert not result.is_diag()
    flat, upright = sp.diag(torch.rand(3), (3, 5)), sp.diag(torch.rand(4), (5, 4))
    torch.testing.assert_close((flat @ upright).to_dense(), flat.to_dense() @ upright.to_dense())
    torch.testing.assert_close((upright.T @ flat.T).to_dense(), (flat @ upright).T.to_dense())
    wide = sp.from_coo(torch.tensor([0, 4]), torch.tensor([1, 0]), shape=(5, 2))
    torch.testing.assert_close((flat @ wide).to_dense(), flat.to_dense() @ wide.to_dense())


def test_formats_are_made_once_and_shared():
    A = random_matrix(14, 5, 6, 12)
    assert A.csr()[0] is (A * 2).T.csc()[0] and A.csc()[1] is A.softmax().csc()[1]
    for matrix, compressed in ((A, A.csr()), (A.T, A.csc())):
        indptr, others, position = compressed
        position = torch.arange(A.nnz) if position is None else position
        for line in range(matrix.shape[0]):
            at = position[indptr[line] : indptr[line + 1]]
            assert matrix.row[at].eq(line).all()
            assert matrix.col[at].equal(others[indptr[line] : indptr[line + 1]])


def test_indices_are_not_copied():
    indices = torch.tensor([[0, 2], [1, 1]])
    assert sp.spmatrix(indices).indices() is indices
    tensor = sp.to_torch_sparse_coo(sp.spmatrix(indices))
    assert tensor._indices().data_ptr() == indices.data_ptr()


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_torch_sparse(layout):
    A = random_matrix(15, 5, 6, 12, twice=False)
    tensor = getattr(sp, f"to_torch_sparse_{layout}")(A)
    assert tensor.layout == getattr(torch, f"sparse_{layout}")
    torch.testing.assert_close(tensor.to_dense(), A.to_dense())
    torch.testing.assert_close(sp.from_torch_sparse(tensor).to_dense(), A.to_dense())


def test_whole_numbers():
    A = sp.from_coo(
        torch.tensor([0, 1, 1]), torch.tensor([1, 0, 1]), torch.tensor([2, 3, 4], dtype=torch.int32)
    )
    assert A.sum(1).dtype == torch.int32 and A.sum(1).tolist() == [2, 7]
    assert (A @ torch.tensor([1, 2], dtype=torch.int32)).tolist() == [4, 11]
    assert (A @ A).to_dense().tolist() == [[6, 8], [12, 22]] and (A @ A).dtype == torch.int32
    assert A.double().dtype == torch.float64 and A.int() is A and A.long().dtype == torch.int64


def test_second_gradients_of_sparse_products():
    A, B = random_matrix(16, 3, 4, 6, twice=False), random_matrix(17, 4, 3, 6, twice=False)
    row, col = A.row, A.col

    def product(a, b):
        return (sp.val_like(A, a) @ sp.val_like(B, b)).to_dense()

    values = (A.val.detach().requires_grad_(), B.val.detach().requires_grad_())
    assert torch.autograd.gradcheck(product, values)
    assert A.row is row and A.col is col


def test_moves_and_text():
    A = sp.identity((2, 2), d=1)
    assert (
        A.cpu() is A and A.to("cpu", torch.float32) is A and A.to(dtype=torch.int64).val.sum() == 2
    )
    assert repr(A).endswith("shape=(2, 2), nnz=2, val_size=(1,))")
    assert sg.sparse is sp

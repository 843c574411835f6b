"""Sparse matrices: beside what DGL has made of the same inputs, dense ones, and what is refused."""

import gzip
import importlib.util
import json
import math
import pathlib

import numpy as np
import pytest
import torch

import smex
import smex.graph.sparse as sp

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CS. tensor support")

FOLDER = pathlib.Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("sparse_cases", FOLDER / "cases.py")
cases = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(cases)
RECORDED = json.loads(gzip.decompress((FOLDER / "recorded.json.gz").read_bytes()))


def are_close(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(are_close, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(a, b, rel_tol=2e-6, abs_tol=1e-9)
    return a == b


def test_all_cases_are_recorded():
    assert RECORDED.keys() == cases.CASES.keys()
    assert {len(each) for each in RECORDED.values()} == {cases.REPEATS}


@pytest.mark.parametrize("number", range(cases.REPEATS))
@pytest.mark.parametrize("name", cases.CASES)
def test_as_recorded(name, number):
    found = cases.CASES[name](sp, np.random.default_rng([number, len(name)]))
    assert are_close(json.loads(json.dumps(found)), RECORDED[name][number])


def with_duplicates(dtype=torch.float64, seed=0, rows=7, columns=5, nnz=30):
    generator = torch.Generator().manual_seed(seed)
    row = torch.randint(rows, (nnz,), generator=generator)
    col = torch.randint(columns, (nnz,), generator=generator)
    val = torch.randint(-5, 6, (nnz,), generator=generator).to(dtype)
    return sp.from_coo(row, col, val, (rows, columns))


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.float16])
def test_equal_places_add_up(dtype, idtype):
    A = with_duplicates(dtype)
    A = sp.from_coo(A.row.to(idtype), A.col.to(idtype), A.val, A.shape)
    whole = torch.zeros(7, 5, dtype=torch.float64)
    for r, c, v in zip(A.row, A.col, A.val, strict=True):
        whole[r, c] += v
    assert A.has_duplicate()
    assert torch.equal(A.to_dense().double(), whole)
    assert torch.equal(A.coalesce().to_dense().double(), whole)
    assert not A.coalesce().has_duplicate()
    for dim in (0, 1):
        assert torch.equal(A.sum(dim).double(), whole.sum(dim))
    assert torch.equal((A + A).to_dense().double(), 2 * whole)
    X = torch.randint(-3, 4, (5, 2)).to(dtype)
    assert torch.equal((A @ X).double(), whole @ X.double())
    assert torch.equal((A.T @ torch.ones(7, dtype=dtype)).double(), whole.sum(0))


def test_matrices_without_non_zeros():
    none = torch.zeros(0, dtype=torch.int64)
    A = sp.from_coo(none, none, torch.zeros(0), (3, 4))
    full = sp.from_coo(torch.tensor([0]), torch.tensor([2]), torch.ones(1), (3, 4))
    assert (A @ torch.ones(4, 2)).tolist() == [[0, 0]] * 3
    assert A.sum(1).tolist() == [0, 0, 0] and A.smax(0).tolist() == [0] * 4
    assert (A + full).nnz == 1 and (A * full).nnz == (full * A).nnz == 0
    assert (full @ A.T).nnz == 0 and A.coalesce().nnz == 0 and A.softmax().nnz == 0
    assert A.index_select(0, torch.tensor([1, 1])).shape == (2, 4)
    assert A.compact(0)[0].shape == (0, 4)
    assert sp.from_coo(none, none).shape == (0, 0)
    assert "nnz=0" in repr(A)


def test_gradients_of_second_order_and_shared_structure():
    A = with_duplicates().coalesce()
    val = A.val.clone().requires_grad_()
    X = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    B = sp.val_like(A, val)
    assert B.relation is A.relation
    assert torch.autograd.gradcheck(lambda v, x: sp.val_like(A, v) @ x, (val, X))
    assert torch.autograd.gradgradcheck(lambda v, x: sp.val_like(A, v) @ x, (val, X))
    assert torch.autograd.gradcheck(lambda v: (sp.val_like(A, v) @ A.T).val, (val,))
    assert torch.autograd.gradcheck(lambda v: sp.val_like(A, v).softmax(0).val, (val,))
    other = with_duplicates(seed=1).coalesce()
    assert torch.autograd.gradcheck(lambda v: (sp.val_like(A, v) + other).val, (val,))
    assert torch.autograd.gradcheck(lambda v: (sp.val_like(A, v) - other).to_dense(), (val,))


def test_draws():
    torch.manual_seed(0)
    A = sp.from_torch_sparse(torch.ones(40, 60).to_sparse_coo())
    some = A.sample(0, 3, torch.tensor([5, 5, 7]))
    assert some.shape == (3, 60) and some.sum(1).tolist() == [3, 3, 3]
    assert not some.has_duplicate() and not torch.equal(some.to_dense()[0], some.to_dense()[1])
    assert A.sample(1, 2).sum(0).tolist() == [2] * 60
    assert A.sample(0, 100, replace=True).nnz == 4000
    weighed = sp.val_like(A, (A.col == 3).double())
    assert weighed.sample(0, 1, bias=True).col.tolist() == [3] * 40
    assert A.sample(0, 100).nnz == 2400


def test_columns_and_rows_of_diagonals():
    d = sp.diag(torch.tensor([1.0, 2.0]), (2, 3))
    other = torch.randn(3, 4, dtype=torch.float64).float()
    B = sp.from_torch_sparse(other.to_sparse_coo())
    torch.testing.assert_close((d @ B).to_dense(), d.to_dense() @ other)
    torch.testing.assert_close((B.T @ d.T).to_dense(), (d.to_dense() @ other).T)
    wide = sp.diag(torch.tensor([3.0, 4.0, 5.0]), (3, 5))
    torch.testing.assert_close((d @ wide).to_dense(), d.to_dense() @ wide.to_dense())
    torch.testing.assert_close((wide.T @ d.T).to_dense(), wide.to_dense().T @ d.to_dense().T)
    assert (d @ wide).is_diag() and not (d @ B).is_diag()
    long = sp.diag(torch.tensor([1.0, 2.0]), (5, 2)) @ sp.diag(torch.ones(2), (2, 5))
    assert long.shape == (5, 5) and long.val.tolist() == [1, 2, 0, 0, 0]


def test_a_matrix_somewhere_else():
    A = with_duplicates()
    assert A.to("cpu") is A and A.cpu() is A and A.double() is A
    assert A.float().dtype == torch.float32 and A.float().relation is A.relation
    assert A.int().val.dtype == torch.int32 and A.long().dtype == torch.int64
    assert A.to("meta").device.type == "meta"


A = sp.from_coo(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.ones(2), (2, 2))
WIDE = sp.val_like(A, torch.ones(2, 3))
TWICE = sp.from_coo(torch.tensor([0, 0]), torch.tensor([1, 1]), torch.ones(2), (2, 2))
ONES = torch.ones(2, 2)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: sp.spmatrix(torch.ones(3, 2).long()), ValueError, r"shape \[2, nnz\]"),
        (lambda: sp.spmatrix(torch.tensor([[0], [1]]), torch.ones(2)), ValueError, r"\[1, d\]"),
        (lambda: sp.spmatrix(torch.tensor([[5], [1]]), shape=(2, 2)), ValueError, "5"),
        (lambda: sp.val_like(A, [1.0, 2.0]), TypeError, "val must be a tensor"),
        (lambda: sp.val_like(A, torch.ones(2, device="meta")), ValueError, "move one"),
        (lambda: sp.diag(torch.ones(2), (3, 3)), ValueError, "expected 3 values"),
        (lambda: sp.from_torch_sparse(ONES), TypeError, "layout COO, CSR or CSC"),
        (lambda: sp.spmm(ONES, ONES), TypeError, "A must be a SparseMatrix"),
        (lambda: sp.spmm(A, A), TypeError, "X must be a tensor"),
        (lambda: A @ torch.ones(3, 2), ValueError, "found A"),
        (lambda: WIDE @ ONES, ValueError, "found A"),
        (lambda: A @ ONES.double(), TypeError, "one dtype"),
        (lambda: sp.spspmm(A, ONES), TypeError, "B must be a SparseMatrix"),
        (lambda: A @ WIDE, ValueError, "numbers as values"),
        (lambda: A @ A.double(), TypeError, "one dtype"),
        (lambda: A @ TWICE, ValueError, "at one place"),
        (lambda: sp.matmul(ONES, A), TypeError, "on the left"),
        (lambda: sp.sddmm(A, ONES, torch.ones(3, 2)), ValueError, "sddmm: expected"),
        (lambda: sp.sddmm(A, ONES, ONES.double()), TypeError, "of one dtype"),
        (lambda: A + 1, TypeError, "two sparse matrices"),
        (lambda: A + A.index_select(0, torch.tensor([0])), ValueError, "of one shape"),
        (lambda: A * TWICE, ValueError, "at one place"),
        (lambda: A / sp.identity((2, 2)), ValueError, "different places"),
        (lambda: A**A, TypeError, "as exponent"),
        (lambda: A.inv(), ValueError, "square diagonal matrix"),
        (lambda: sp.sp_mul_v(A, torch.ones(3)), ValueError, "expected a vector"),
        (lambda: A.sum(2), ValueError, "dim 0, 1 or None"),
        (lambda: A.reduce(0, "max"), ValueError, "expected rtype"),
        (lambda: A.softmax(2), ValueError, "dim 0"),
        (lambda: A.index_select(2, torch.tensor([0])), ValueError, "dim 0"),
        (lambda: A.index_select(0, [0]), TypeError, "tensor of ids"),
        (lambda: A.index_select(0, torch.tensor([2])), ValueError, "2"),
        (lambda: A.range_select(0, 1), TypeError, "expected a slice"),
        (lambda: A.range_select(0, slice(0, 2, 2)), ValueError, "step 1"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text) as caught:
        call()
    assert isinstance(caught.value, (smex.SmexError, ValueError))

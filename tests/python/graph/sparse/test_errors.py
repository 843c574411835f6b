"""What sparse matrices say of mistakes."""

import pytest
import torch

import smex
from smex.graph import sparse as sp

IDS = torch.tensor([[0, 2], [1, 0]])
A = sp.spmatrix(IDS, torch.rand(2), (3, 4))
V = sp.spmatrix(IDS, torch.rand(2, 5), (3, 4))
TWICE = sp.spmatrix(torch.tensor([[0, 0], [1, 1]]), shape=(3, 4))

MISTAKES = {
    "spmatrix: expected indices of shape": lambda: sp.spmatrix(torch.zeros(3, 2).long()),
    "spmatrix: expected a shape, since": lambda: sp.spmatrix(torch.zeros(2, 0).long()),
    "from_coo: dst has id 2, expected ids in [0, 2)": lambda: sp.from_coo(*IDS, shape=(2, 4)),
    "src and dst must be vectors of one length": lambda: sp.from_coo(IDS[0], IDS[1, :1]),
    "spmatrix: expected a shape of two numbers": lambda: sp.spmatrix(IDS, shape=(3,)),
    "spmatrix: expected values of shape [2] or [2, D]": lambda: sp.spmatrix(IDS, torch.rand(3)),
    "val_like: expected values of shape": lambda: sp.val_like(A, torch.rand(2, 2, 2)),
    "val_like: expected values on cpu": lambda: sp.val_like(A, torch.rand(2, device="meta")),
    "val_like: expected mat to be a SparseMatrix, found Tensor": lambda: sp.val_like(IDS, IDS),
    "diag: expected values of shape [N] or [N, D]": lambda: sp.diag(torch.tensor(1.0)),
    "diag: expected as many values as the diagonal": lambda: sp.diag(torch.rand(3), (2, 5)),
    "from_torch_sparse: expected a tensor of layout": lambda: sp.from_torch_sparse(IDS),
    "add: expected two sparse matrices of one shape": lambda: A + A.T,
    "mul: expected two sparse matrices of one dtype": lambda: A * A.double(),
    "sub: expected values of one size": lambda: A - V,
    "mul: expected one entry at each place, found several in B": lambda: A * TWICE,
    "div: expected two matrices with entries at the same": lambda: A / sp.identity((3, 4)),
    "mul: expected a SparseMatrix or a number, found a tensor": lambda: A * torch.rand(3, 4),
    "div: expected a SparseMatrix or a number, found str": lambda: A / "2",
    "mul: expected a SparseMatrix or a number, found list": lambda: sp.mul(2, [1]),
    "power: expected a number as exponent": lambda: sp.power(A, A),
    "inv: expected a square diagonal matrix": lambda: A.inv(),
    "sp_broadcast_v: unknown operation 'pow'": lambda: sp.sp_broadcast_v(A, torch.rand(4), "pow"),
    "sp_broadcast_v: expected a vector of shape [4]": lambda: sp.sp_add_v(A, torch.rand(3)),
    "spmm: expected a dense matrix of shape [4] or [4, N]": lambda: A @ torch.rand(3),
    "spmm: expected a dense matrix of shape [4, N, 5]": lambda: V @ torch.rand(4, 2, 3),
    "spmm: expected X to be a tensor, found list": lambda: sp.spmm(A, [1]),
    "spmm: expected operands on one device": lambda: A @ torch.rand(4, device="meta"),
    "operands must have one dtype": lambda: A @ torch.rand(4).double(),
    "spspmm: expected as many columns of A": lambda: A @ A,
    "spspmm: expected values of shape [nnz], found [2, 5] of B": lambda: A.T @ V,
    "spspmm: expected one dtype": lambda: A.T @ A.double(),
    "sddmm: expected dense matrices of shapes [3, M]": lambda: sp.sddmm(
        A, torch.rand(3, 2), torch.rand(4, 2)
    ),
    "matmul: expected a tensor after a tensor": lambda: torch.rand(4, 3) @ A,
    "reduce: unknown reduction 'max'": lambda: A.reduce(0, "max"),
    "reduce: expected dim 0, rows, or 1, columns, found 2": lambda: A.sum(2),
    "softmax: expected floating point values": lambda: A.long().softmax(),
    "index_select: expected a tensor of ids": lambda: A.index_select(0, [1]),
    "index_select: expected ids as a vector": lambda: A.index_select(0, torch.rand(2)),
    "index_select: expected ids in [0, 3), found 3": lambda: A.index_select(0, torch.tensor([3])),
    "range_select: expected a slice, found int": lambda: A.range_select(0, 1),
    "range_select: expected a slice with step 1, found step 2": lambda: A.range_select(
        0, slice(0, 3, 2)
    ),
    "sample: expected a fanout of 0 or more": lambda: A.sample(0, -1),
    "sample: expected values of shape [nnz] as weights": lambda: V.sample(0, 1, bias=True),
    "compact: expected leading_indices without repetition": lambda: A.compact(0, [1, 1]),
    "compact: expected ids in [0, 3), found -1": lambda: A.compact(0, [-1]),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes(text):
    with pytest.raises(smex.SmexError) as caught:
        MISTAKES[text]()
    assert text in str(caught.value)


@pytest.mark.parametrize("use", [lambda: A + 1, lambda: A - 1, lambda: A**A, lambda: A + "1"])
def test_operators_without_a_meaning(use):
    with pytest.raises(TypeError, match="unsupported operand type"):
        use()

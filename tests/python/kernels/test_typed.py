"""Messages and rows that are multiplied by the matrix of their type."""

import pytest
import torch
from torch.testing import assert_close

import smex  # noqa: F401

ROWS, SOURCES, EDGES, TYPES, BLOCKS = 7, 9, 40, 4, 2
ops = torch.ops.smex


def compressed(row, column, rows):
    order = torch.argsort(row, stable=True)
    ends = torch.bincount(row, minlength=rows).cumsum(0)
    return [torch.cat([torch.zeros(1, dtype=torch.int64), ends]), column[order], order]


class Case:
    """Edges in both directions, their types, and the tensors that a product has."""

    def __init__(self, idtype=torch.int64, dtype=torch.float64, edges=EDGES):
        torch.manual_seed(0)
        self.source = torch.randint(SOURCES, (edges,))
        self.row = torch.randint(ROWS - 1, (edges,))  # the last one has no edges
        self.types = torch.randint(TYPES - 1, (edges,))  # the last one has none either
        self.by_row = [t.to(idtype) for t in compressed(self.row, self.source, ROWS)]
        self.by_source = [t.to(idtype) for t in compressed(self.source, self.row, SOURCES)]
        self.x = torch.randn(SOURCES, BLOCKS, 3, dtype=dtype, requires_grad=True)
        self.y = torch.randn(ROWS, BLOCKS, 5, dtype=dtype, requires_grad=True)
        self.weight = torch.randn(TYPES, BLOCKS, 3, 5, dtype=dtype, requires_grad=True)
        self.factor = torch.randn(edges, BLOCKS, dtype=dtype, requires_grad=True)

    def messages(self, factor):
        """By edge, one after the other."""
        product = torch.einsum("ebi,ebio->ebo", self.x[self.source], self.weight[self.types])
        return product if factor is None else product * factor.unsqueeze(-1)


def factors(case):
    return [None, case.factor[:, :1], case.factor]


@pytest.mark.parametrize("idtype", [torch.int64, torch.int32])
def test_all_three_are_what_edge_by_edge_gives(idtype):
    case = Case(idtype)
    for factor in factors(case):
        wanted = torch.zeros_like(case.y).index_add(0, case.row, case.messages(factor))
        args = (case.by_row, case.by_source, case.x, case.weight, case.types, factor)
        assert_close(ops.typed_spmm(*args), wanted)
        pairs = torch.einsum("ebi,ebo->ebio", case.x[case.source], case.y[case.row])
        pairs = pairs if factor is None else pairs * factor[:, :, None, None]
        outer = torch.zeros_like(case.weight).index_add(0, case.types, pairs)
        args = (case.by_row, case.by_source, case.x, case.y, case.types, factor, TYPES)
        assert_close(ops.typed_outer(*args), outer)
    dots = (case.messages(None) * case.y[case.row]).sum(-1)
    args = (case.by_row, case.by_source, case.x, case.weight, case.y, case.types)
    assert_close(ops.typed_sddmm(*args), dots)


@pytest.mark.parametrize("number", range(3))
def test_gradients_of_gradients(number):
    case = Case(edges=12)
    factor = factors(case)[number]
    given = [] if factor is None else [factor.detach().requires_grad_()]
    edges = case.by_row, case.by_source

    def spmm(x, weight, *factor):
        return ops.typed_spmm(*edges, x, weight, case.types, *factor)

    def outer(x, y, *factor):
        return ops.typed_outer(*edges, x, y, case.types, *(factor or (None,)), TYPES)

    def sddmm(x, weight, y):
        return ops.typed_sddmm(*edges, x, weight, y, case.types)

    cases = [(spmm, (case.x, case.weight, *given)), (outer, (case.x, case.y, *given))]
    for function, operands in [*cases, (sddmm, (case.x, case.weight, case.y))]:
        assert torch.autograd.gradcheck(function, operands)
        assert torch.autograd.gradgradcheck(function, operands)


def test_rows_are_taken_in_ranges():
    """More edges than one range has, and one row with many of them."""
    case = Case(edges=200_000)
    case.row[:120_000] = 2
    by_row = compressed(case.row, case.source, ROWS)
    wanted = torch.zeros_like(case.y).index_add(0, case.row, case.messages(None))
    found = ops.typed_spmm(by_row, [], case.x.detach(), case.weight.detach(), case.types)
    assert_close(found, wanted.detach())


def test_rows_with_a_matrix_each():
    torch.manual_seed(1)
    a = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    b = torch.randn(TYPES, 3, 5, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([2, 0, 0, 2, 1, 2])
    assert_close(ops.gather_mm(a, b, index), torch.einsum("ni,nio->no", a, b[index]))
    assert torch.autograd.gradcheck(lambda a, b: ops.gather_mm(a, b, index), (a, b))
    assert torch.autograd.gradgradcheck(lambda a, b: ops.gather_mm(a, b, index), (a, b))
    assert ops.gather_mm(a[:0], b, index[:0]).shape == (0, 5)


def test_halves_are_taken_and_autocast_makes_them():
    case = Case(dtype=torch.float32)
    wanted = ops.typed_spmm(case.by_row, [], case.x.detach(), case.weight.detach(), case.types)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        found = ops.typed_spmm(case.by_row, [], case.x, case.weight, case.types)
        assert ops.gather_mm(case.x[:, 0], case.weight[:, 0], case.source[:SOURCES] % 3).dtype == (
            torch.bfloat16
        )
    assert found.dtype == torch.bfloat16
    assert_close(found.float(), wanted, rtol=0.05, atol=0.2)


def test_what_does_not_exist_is_refused():
    case = Case()
    args = case.by_row, [], case.x.detach(), case.weight.detach()
    with pytest.raises(IndexError, match="expected types below 4, found 4"):
        ops.typed_spmm(*args, case.types + 2)
    with pytest.raises(IndexError, match="expected types below 4, found -1"):
        ops.typed_spmm(*args, case.types - 1)
    with pytest.raises(ValueError, match="a type for each of 40 edges, found .3."):
        ops.typed_spmm(*args, case.types[:3])
    with pytest.raises(TypeError, match="types of edges as int64, found Int"):
        ops.typed_spmm(*args, case.types.int())
    indptr, indices, eids = case.by_row
    with pytest.raises(IndexError, match="expected sources below 9, found 1"):
        ops.typed_spmm([indptr, indices + 10, eids], *args[1:], case.types)
    with pytest.raises(IndexError, match="expected numbers of edges below 40"):
        ops.typed_spmm([indptr, indices, eids + 40], *args[1:], case.types)
    with pytest.raises(ValueError, match="expected factors .40, 2. or of 1 column, found .40, 3."):
        ops.typed_spmm(*args, case.types, torch.ones(40, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="the gradient of x needs out_edges, found none"):
        ops.typed_spmm(case.by_row, [], case.x, case.weight, case.types)

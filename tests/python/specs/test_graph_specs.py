"""Specs of messages along edges: what they mean, and every way of dividing them, by execution."""

import pytest
import torch

import smex
from smex.capture.records import ValueRef
from smex.specs.strategies import OperatorCall


def r(*shape):
    return torch.randn(shape, dtype=torch.float64)


def structure(rows, columns, edges, with_ids, idtype):
    """Edges by row, of which some rows have none, and perhaps their numbers."""
    row = torch.randint(rows, (edges,)).sort().values
    indptr = torch.bincount(row, minlength=rows).cumsum(0)
    tensors = [
        torch.cat([torch.zeros(1, dtype=torch.int64), indptr]),
        torch.randint(columns, (edges,)),
    ]
    if with_ids:
        tensors.append(torch.randperm(edges))
    return [tensor.to(idtype) for tensor in tensors]


def cases(edges):
    """Messages and their operands."""
    rows, columns, number = edges[0].numel() - 1, 7, edges[1].numel()
    u, v, e = r(columns, 3), r(rows, 3), r(number, 3)
    yield "u0", [u]
    yield "e0", [e]
    yield "u0 * e1", [u, e[:, :1].contiguous()]
    yield "u0 * c1", [u, r(1, 3)]
    yield "leaky_relu(u0 + v1, 0.2)", [u, v]
    yield "exp(u0) / maximum(v1, e2)", [u, v.abs() + 1, e]
    yield "sum_last(u0 * v1)", [u, v]
    yield "u0 * sum_last(u1 * v2)", [u, u.clone(), v]
    yield "u0 * e1", [r(columns, 2, 3), r(number, 2, 1)]
    yield "u0", [r(columns)]


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("idtype", [torch.int64, torch.int32])
def test_sums_and_means_are_divided_by_rows_places_and_features(with_ids, idtype):
    torch.manual_seed(0)
    edges = structure(6, 7, 11, with_ids, idtype)
    for message, operands in cases(edges):
        for reduce, kinds in (("sum", 2), ("mean", 1)):
            call = (edges, [], message, reduce, operands)
            executed = smex.specs.verify("smex::spmm", [call])
            assert executed >= 2 * kinds, (message, reduce)


@pytest.mark.parametrize("reduce", ["max", "min"])
@pytest.mark.parametrize("zero_empty", [False, True])
def test_extremes_are_divided_by_rows_and_features(reduce, zero_empty):
    torch.manual_seed(1)
    edges = structure(6, 7, 11, with_ids=True, idtype=torch.int64)
    for message, operands in cases(edges):
        if "sum_last" in message and not message.startswith("sum_last"):
            continue  # the kernel takes sums as the whole message only
        for need_winner in (False, True):
            call = (edges, [], message, reduce, operands, zero_empty, need_winner)
            assert smex.specs.verify("smex::spmm_extremum", [call]) >= 2


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("idtype", [torch.int64, torch.int32])
def test_what_winners_get_and_give_is_divided_by_rows_and_features(with_ids, idtype):
    torch.manual_seed(4)
    edges = structure(6, 7, 11, with_ids, idtype)
    call = (edges, [], "u0", "max", [r(7, 3)])
    _, winner = torch.ops.smex.spmm_extremum(*call)
    to_sources = [(r(6, 3), winner, edges[1], 7, shape, False) for shape in ([3], [1], [])]
    wide = (r(6, 2, 3), winner.unsqueeze(1), edges[1], 7, [2, 3], False)
    to_edges = (r(6, 3), winner, edges[2] if with_ids else None, 11, [3], True)
    for call in (*to_sources, wide, to_edges):
        assert smex.specs.verify("smex::scatter_winners", [call]) >= 2
    for call in ((r(7, 3), winner, edges[1], [3], False), (r(7, 1), winner, edges[1], [3], False)):
        assert smex.specs.verify("smex::gather_winners", [call]) >= 2


def test_rows_of_a_tile_are_those_that_its_edges_come_from():
    indptr, indices = torch.tensor([0, 2, 3, 5]), torch.tensor([4, 0, 4, 2, 1])
    call = OperatorCall(
        torch.ops.smex.spmm.default, ([indptr, indices], [], "u0", "sum", [r(5, 3)]), {}
    )
    by_row = next(s for s in call.strategies(3) if s["name"] == "v")
    (own_indptr, own_indices), _, _, _, (x,) = by_row["workers"][0]["args"]
    assert x["rows"] == [0, [0, 4]]
    assert own_indptr["table"] == [0, 2]
    assert own_indices["table"] == [1, 0]


def test_without_the_structure_only_features_are_divided():
    edges = structure(6, 7, 11, with_ids=False, idtype=torch.int64)
    shapes = [tuple(t.shape) for t in (*edges, torch.empty(7, 3))]
    references = [ValueRef(n) for n in range(3)]
    args = [references[:2], [], "u0", "sum", references[2:]]
    spec, _ = smex.specs.instantiate("smex::spmm", args, shapes, [(6, 3)])
    assert [spec.indices[s.index].name for s in spec.splits()] == ["f0"]


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("idtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("blocks", [1, 2])
def test_messages_by_type_are_divided_by_rows_places_blocks_and_features(with_ids, idtype, blocks):
    torch.manual_seed(2)
    edges = structure(6, 7, 11, with_ids, idtype)
    types = torch.randint(3, (11,))
    x, weight, y = r(7, blocks, 3), r(3, blocks, 3, 2), r(6, blocks, 2)
    for factor in (None, r(11, 1), r(11, blocks)):
        call = (edges, [], x, weight, types, factor)
        assert smex.specs.verify("smex::typed_spmm", [call]) >= 4 + (blocks > 1)
        call = (edges, [], x, y, types, factor, 3)
        assert smex.specs.verify("smex::typed_outer", [call]) >= 4 + (blocks > 1)
    if not with_ids:
        call = (edges, [], x, weight, y, types)
        assert smex.specs.verify("smex::typed_sddmm", [call]) >= 1 + (blocks > 1)


def test_rows_with_a_matrix_each_are_divided_by_rows_and_features():
    torch.manual_seed(3)
    index = torch.randint(3, (6,))
    assert smex.specs.verify("smex::gather_mm", [(r(6, 4), r(3, 4, 2), index)]) >= 3
    assert smex.specs.verify("smex::gather_outer", [(r(6, 4), r(6, 2), index, 3)]) >= 3


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("idtype", [torch.int64, torch.int32])
def test_graph_attention_is_divided_by_rows_heads_and_features(with_ids, idtype):
    torch.manual_seed(5)
    edges = structure(6, 7, 11, with_ids, idtype)
    left, right, value = r(7, 2), r(6, 2), r(7, 2, 3)
    assert smex.specs.verify("smex::gat_attention", [(edges, [], left, right, value, 0.2)]) >= 3
    _, log_sum = torch.ops.smex.gat_attention(edges, [], left, right, value, 0.2)
    numbers = (log_sum, r(6, 2), r(6, 2, 3), 0.2)
    call = (edges, left, right, value, *numbers)
    assert smex.specs.verify("smex::gat_gradient_by_destination", [call]) >= 3
    reverse = structure(7, 6, 11, with_ids, idtype)
    call = (reverse, left, right, value, log_sum.clamp_min(-9), *numbers[1:])
    assert smex.specs.verify("smex::gat_gradient_by_source", [call]) >= 3

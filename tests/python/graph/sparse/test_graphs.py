"""Products and sums of adjacency matrices as graphs, beside dense ones."""

import pytest
import torch

import smex
import smex.graph as sg


def weighted(num_src, num_dst, num_edges, kinds=("a", "r", "b")):
    places = torch.randperm(num_src * num_dst)[:num_edges]
    ends = (places // num_dst, places % num_dst)
    g = sg.heterograph({kinds: ends}, {kinds[0]: num_src, kinds[2]: num_dst})
    g.edata["w"] = torch.randn(num_edges, dtype=torch.double, requires_grad=True)
    return g


def dense(g):
    return g.adj(eweight_name="w").to_dense()


@pytest.mark.parametrize("edges", [0, 1, 12])
def test_products(edges):
    torch.manual_seed(edges)
    A, B = weighted(5, 4, edges), weighted(4, 6, 2 * edges, ("b", "s", "c"))
    C = sg.adj_product_graph(A, B, "w", "t")
    assert C.canonical_etypes == [("a", "t", "c")] and C.num_nodes("c") == 6
    torch.testing.assert_close(dense(C), dense(A) @ dense(B))
    loss = dense(C).square().sum()
    expected = (dense(A) @ dense(B)).square().sum()
    for found, wanted in zip(
        torch.autograd.grad(loss, [A.edata["w"], B.edata["w"]]),
        torch.autograd.grad(expected, [A.edata["w"], B.edata["w"]]),
    ):
        torch.testing.assert_close(found, wanted)


def test_products_of_one_node_type():
    torch.manual_seed(1)
    A, B = weighted(5, 4, 9), weighted(4, 5, 9, ("b", "s", "a"))
    C = sg.transforms.adj_product_graph(A, B, "w")
    assert C.ntypes == ["a"] and C.etypes == ["_E"] and C.num_nodes() == 5
    with pytest.raises(smex.SmexValueError, match="as many sources as destinations of one node"):
        sg.adj_product_graph(A, weighted(4, 6, 9, ("b", "s", "a")), "w")


def test_sums():
    torch.manual_seed(2)
    graphs = [weighted(5, 4, n) for n in (9, 0, 14)]
    C = sg.adj_sum_graph(graphs, "w")
    assert C.canonical_etypes == [("a", "r", "b")]
    torch.testing.assert_close(dense(C), sum(dense(g) for g in graphs))
    C.edata["w"].sum().backward()
    assert all((g.edata["w"].grad == 1).all() for g in graphs)
    places = C.edges()[0] * 4 + C.edges()[1]
    assert places.unique().numel() == len(places)
    with pytest.raises(smex.SmexValueError, match="adj_sum_graph: expected at least one graph"):
        sg.adj_sum_graph([], "w")

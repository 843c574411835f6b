"""Graphs with other ids: the same edges between the same nodes, features in their places."""

from __future__ import annotations

import pytest
import torch

import smex.graph as sg
import smex.graph.function as fn


def sample(idtype: torch.dtype = torch.int64) -> sg.Graph:
    torch.manual_seed(0)
    g = sg.rand_graph(20, 60, idtype=idtype)
    g.ndata["h"] = torch.randn(20, 3)
    g.edata["w"] = torch.randn(60, 1)
    return g


def triples(g: sg.Graph) -> list[tuple]:
    """Every edge by the features of its ends and its own."""
    src, dst = g.edges()
    ends = torch.cat([g.ndata["h"][src.long()], g.ndata["h"][dst.long()], g.edata["w"]], 1)
    return sorted(map(tuple, ends.tolist()))


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("edges", ["src", "dst", None])
@pytest.mark.parametrize("nodes", ["rcmk", "metis", None])
def test_features_move_along(nodes, edges, idtype):
    if nodes:
        pytest.importorskip({"rcmk": "scipy", "metis": "pymetis"}[nodes])
    g = sample(idtype)
    r = sg.reorder_graph(g, nodes, edges, permute_config={"k": 3})
    assert r.idtype == idtype and triples(r) == triples(g)
    assert torch.equal(g.ndata["h"][r.ndata[sg.NID].long()], r.ndata["h"])
    assert torch.equal(g.edata["w"][r.edata[sg.EID].long()], r.edata["w"])
    src, dst = r.edges()
    if edges:
        assert ((src if edges == "src" else dst).diff() >= 0).all()
    assert sg.NID not in g.ndata and sg.EID not in g.edata


def test_edges_of_one_node_stay_in_order():
    g = sg.graph(([0, 1, 2, 0], [2, 0, 2, 2]))
    r = sg.reorder_graph(g, edge_permute_algo="dst")
    assert r.edata[sg.EID].tolist() == [1, 0, 2, 3]


def test_edges_by_destination_have_no_stored_ids():
    r = sg.reorder_graph(sample(), edge_permute_algo="dst", store_ids=False)
    assert r.relation().csc().eids is None
    assert sg.NID not in r.ndata and sg.EID not in r.edata


def test_messages_are_the_same():
    g = sample()
    r = sg.reorder_graph(g, "rcmk", "dst")
    for each in (g, r):
        each.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "out"))
    torch.testing.assert_close(r.ndata["out"], g.ndata["out"][r.ndata[sg.NID]])


def test_own_orders():
    g = sample()
    nodes, edges = torch.randperm(20), torch.randperm(60)
    config = {"nodes_perm": nodes, "edges_perm": edges.tolist()}
    r = sg.reorder_graph(g, "custom", "custom", permute_config=config)
    assert torch.equal(r.ndata[sg.NID], nodes) and torch.equal(r.edata[sg.EID], edges)
    assert triples(r) == triples(g)


def test_metis_puts_parts_together():
    pytest.importorskip("pymetis")
    ring = torch.arange(8)
    two = torch.cat([ring[:4] * 2, ring[:4] * 2 + 1])  # even and odd nodes, a ring of each
    g = sg.graph((two, torch.cat([two[:4].roll(1), two[4:].roll(1)])))
    r = sg.reorder_graph(g, "metis", permute_config={"k": 2})
    first = r.ndata[sg.NID][:4] % 2
    assert (first == first[0]).all()


def test_no_edges_and_no_nodes():
    for g in (sg.graph(([], []), num_nodes=3), sg.graph(([], []))):
        for edges in ("src", "dst", None):
            r = sg.reorder_graph(g, edge_permute_algo=edges)
            assert r.num_nodes() == g.num_nodes() and r.num_edges() == 0


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"node_permute_algo": "degree"}, ValueError, "expected node_permute_algo 'rcmk'"),
        ({"edge_permute_algo": "both"}, ValueError, "expected edge_permute_algo 'src'"),
        ({"node_permute_algo": "custom"}, ValueError, "nodes_perm"),
        ({"edge_permute_algo": "custom"}, ValueError, "edges_perm"),
        ({"node_permute_algo": "metis"}, ValueError, "number of parts"),
        (
            {"node_permute_algo": "custom", "permute_config": {"nodes_perm": [0, 0]}},
            ValueError,
            "must hold each of 0 to 19 once",
        ),
    ],
)
def test_errors(arguments, error, text):
    with pytest.raises(error, match=text):
        sg.reorder_graph(sample(), **arguments)


def test_several_types():
    g = sg.heterograph({("a", "x", "b"): ([0], [1])})
    with pytest.raises(TypeError, match="one node type and one edge type"):
        sg.reorder_graph(g)

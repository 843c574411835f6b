"""Selection of edge and node types."""

import pytest
import torch

import smex
import smex.graph as sg

DEV_MAKES, DEV_PLAYS = ("dev", "makes", "game"), ("dev", "plays", "game")
FOLLOWS, PLAYS = ("user", "follows", "user"), ("user", "plays", "game")


@pytest.fixture(params=[torch.int32, torch.int64], ids=["int32", "int64"])
def g(request):
    g = sg.heterograph(
        {
            FOLLOWS: ([0, 1], [1, 2]),
            PLAYS: ([0, 1, 2], [0, 0, 1]),
            DEV_MAKES: ([0], [1]),
            DEV_PLAYS: ([0], [1]),
        },
        idtype=request.param,
    )
    for ntype in g.ntypes:
        g.nodes[ntype].data["h"] = torch.arange(g.num_nodes(ntype)).float()
    g.nodes["user"].data["only"] = torch.ones(3)
    for etype in g.canonical_etypes:
        g.edges[etype].data["w"] = torch.arange(g.num_edges(etype)) + 10.0
    return g


@pytest.mark.parametrize("key", ["follows", FOLLOWS, ("user", slice(None), "user")])
def test_one_edge_type_shares_features(g, key):
    part = g[key]
    assert part.is_homogeneous and part.ntypes == ["user"] and part.num_edges() == 2
    part.ndata["new"] = torch.ones(3)
    part.edata["new"] = torch.ones(2)
    assert "new" in g.nodes["user"].data and "new" in g.edges["follows"].data
    assert g.ndata["h"]["user"] is part.ndata["h"]


def test_one_edge_type_between_two_node_types(g):
    part = g["user", "plays", "game"]
    assert part.ntypes == ["user", "game"] and part.is_unibipartite
    assert part.srcdata.keys() == {"h", "only"} and part.dstdata.keys() == {"h"}


def test_several_edge_types_are_joined(g):
    part = g["plays"]
    assert part.canonical_etypes == [("dev+user", "plays+plays", "game")]
    assert part.num_nodes("dev+user") == 4 and part.idtype == g.idtype
    assert [end.tolist() for end in part.edges()] == [[0, 1, 2, 3], [1, 0, 0, 1]]
    assert part.srcdata["h"].tolist() == [0, 0, 1, 2] and "only" not in part.srcdata
    assert part.srcdata[sg.NTYPE].tolist() == [0, 2, 2, 2]
    assert part.srcdata[sg.NID].tolist() == [0, 0, 1, 2]
    assert part.edata["w"].tolist() == [10, 10, 11, 12]
    assert part.edata[sg.ETYPE].tolist() == [1, 3, 3, 3]
    assert part.edata[sg.EID].tolist() == [0, 0, 1, 2] and part.edata[sg.EID].dtype == g.idtype


def test_edge_types_between_overlapping_node_types(g):
    part = g[:]
    assert part.ntypes == ["dev+user", "game+user"] and part.num_edges() == 7
    assert part.num_nodes("game+user") == 5
    src, dst = (end.tolist() for end in part.edges())
    assert (src, dst) == ([0, 0, 1, 2, 1, 2, 3], [1, 1, 3, 4, 0, 0, 1])
    only = g["user", :, :]
    assert only.ntypes == ["user", "game+user"] and only.srcdata["only"].shape == (3,)


def test_all_edge_types_of_one_node_type():
    g = sg.heterograph({("a", "x", "a"): ([0], [1]), ("a", "y", "a"): ([1], [0])})
    part = g[:]
    assert part.canonical_etypes == [("a", "x+y", "a")] and part.num_nodes() == 2
    part.ndata["h"] = torch.zeros(2)


def test_blocks_stay_blocks():
    g = sg.create_block({("u", "r", "v"): ([0, 1], [1, 2]), ("v", "s", "v"): ([0, 1], [1, 2])})
    assert repr(g["s"]) == "Block(num_src_nodes=2, num_dst_nodes=3, num_edges=2)"
    assert repr(g[:]) == "Block(num_src_nodes=4, num_dst_nodes=3, num_edges=4)"
    assert g.edge_type_subgraph(["r"]).is_block and g.node_type_subgraph(["v"]).etypes == ["s"]
    g["s"].dstdata["h"] = torch.zeros(3)
    assert "h" in g.dstdata


def test_subgraphs_of_types(g):
    part = g.edge_type_subgraph([FOLLOWS, "makes"])
    assert part.etypes == ["follows", "makes"] and part.ntypes == ["dev", "game", "user"]
    part.nodes["dev"].data["new"] = torch.ones(1)
    assert "new" in g.nodes["dev"].data
    assert g.edge_type_subgraph("follows").is_homogeneous
    assert g.edge_type_subgraph(PLAYS).canonical_etypes == [PLAYS]
    assert g.node_type_subgraph("user").canonical_etypes == [FOLLOWS]
    assert g.node_type_subgraph(["user", "game"]).canonical_etypes == [FOLLOWS, PLAYS]


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda g: g["zz"], r"g\['zz'\]: no edge type matches"),
        (lambda g: g["user", :, "dev"], r"g\['user', :, 'dev'\]: no edge type matches"),
        (lambda g: g["user", "plays"], r"g\['user', 'plays'\]: expected g\['etype'\]"),
        (lambda g: g.edge_type_subgraph(["zz"]), "edge type: the graph has no 'zz'"),
        (lambda g: g.edge_type_subgraph([]), "edge_type_subgraph: expected at least one"),
        (lambda g: g.node_type_subgraph(["zz"]), "node type: the graph has no 'zz'"),
        (lambda g: g.node_type_subgraph(["dev"]), 'node_type_subgraph: no edge type joins "dev"'),
    ],
)
def test_errors(g, ask, text):
    with pytest.raises(smex.SmexValueError, match=text):
        ask(g)


def test_a_graph_is_no_collection():
    g = sg.graph(([0, 1], [1, 2]))
    with pytest.raises(
        smex.SmexTypeError, match=r"g\[key\]: expected an edge type, found int; node"
    ):
        g[0]
    with pytest.raises(TypeError, match="'Graph' object is not iterable"):
        list(g)
    with pytest.raises(TypeError, match="Graph"):
        3 in g  # noqa: B015

"""Message passing along some edges and to some nodes, and in steps."""

import pytest
import torch

import smex.graph as sg
import smex.graph.function as fn
from support.message_functions import (
    KINDS,
    frames_of,
    graph_of,
    reduce_udf,
    set_features,
    small,
    udf_of,
    unfused,
)


def results(nodes):
    return {"out": nodes.mailbox["m"].sum(1)}


REDUCES = [fn.sum("m", "out"), results, unfused(results)]


@pytest.mark.parametrize("reduce", REDUCES)
def test_pull(reduce):
    g = small()
    g.ndata["out"] = torch.full((4, 2), 7.0)
    g.pull([3, 1, 1], fn.copy_u("h", "m"), reduce)
    assert g.ndata["out"].tolist() == [[7, 7], [4, 7], [7, 7], [0, 0]]


@pytest.mark.parametrize("reduce", REDUCES)
def test_push_and_send_and_recv(reduce):
    g = small()
    g.push([2], fn.copy_u("h", "m"), reduce)
    assert g.ndata.pop("out").tolist() == [[4, 5], [4, 5], [0, 0], [0, 0]]
    g.send_and_recv(([0, 2], [1, 0]), fn.copy_u("h", "m"), reduce)
    assert g.ndata.pop("out").tolist() == [[4, 5], [0, 1], [0, 0], [0, 0]]
    g.send_and_recv([0, 0, 3], fn.copy_u("h", "m"), reduce)
    assert g.ndata.pop("out").tolist() == [[4, 5], [0, 2], [0, 0], [0, 0]]
    g.send_and_recv([], fn.copy_u("h", "m"), reduce)
    assert "out" not in g.ndata


def test_a_part_sees_ids_of_the_graph():
    g = small()

    def message(edges):
        assert [x.tolist() for x in edges.edges()] == [[0, 0, 2], [1, 1, 1], [4, 0, 2]]
        return {"m": edges.data["w"]}

    def reduce(nodes):
        assert nodes.nodes().tolist() == [1] and nodes.data["h"].tolist() == [[2, 3]]
        assert nodes.mailbox["m"].tolist() == [[5, 1, 3]]
        return {"out": nodes.mailbox["m"].sum(1)}

    def apply(nodes):
        assert nodes.nodes().tolist() == [1] and sorted(nodes.data) == ["h", "out"]
        return {"out": nodes.data["out"] * 2}

    g.send_and_recv([4, 0, 2], message, reduce, apply)
    assert g.ndata["out"].tolist() == [0, 18, 0, 0]


def test_gradients_flow_through_written_rows():
    g = small()
    h = g.ndata["h"].clone().requires_grad_()
    g.ndata["h"] = h
    g.pull([1], fn.copy_u("h", "m"), fn.sum("m", "h"))
    g.ndata["h"].sum().backward()
    assert h.grad.tolist() == [[3, 3], [0, 0], [2, 2], [1, 1]]


def test_apply_functions_replace_the_results():
    g = small()
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"), lambda n: {"q": n.data["out"] + 1})
    assert "out" not in g.ndata and g.ndata["q"][3].tolist() == [1, 1]


def test_apply_nodes_and_edges():
    g = small()
    g.apply_nodes(lambda n: {"h": n.data["h"] * 2, "k": n.data["h"][:, 0]}, [1, 2])
    assert g.ndata["h"].tolist() == [[0, 1], [4, 6], [8, 10], [6, 7]]
    assert g.ndata["k"].tolist() == [0, 2, 4, 0]
    g.apply_edges(lambda e: {"w": e.data["w"] * 2, "k": e.src["h"]}, [1, 2])
    assert g.edata["w"].tolist() == [1, 4, 6, 4, 5] and g.edata["k"][1].tolist() == [4, 6]
    g.apply_edges(fn.u_sub_v("h", "h", "d"), ([2], [1]))
    assert g.edata["d"].tolist() == [[0, 0], [0, 0], [4, 4], [0, 0], [0, 0]]
    g.apply_nodes(lambda n: {"h": n.data["h"].double()})
    assert g.ndata["h"].dtype == torch.float64


@pytest.mark.parametrize("group_by", ["src", "dst"])
def test_group_apply_edges(group_by):
    g = small()
    g.group_apply_edges(group_by, lambda e: {"p": e.data["w"] / e.data["w"].sum(1, keepdim=True)})
    ends = g.edges()[group_by == "dst"]
    for edge, (end, w) in enumerate(zip(ends.tolist(), g.edata["w"])):
        torch.testing.assert_close(g.edata["p"][edge], w / g.edata["w"][ends == end].sum())
    g.group_apply_edges(group_by, lambda e: {"q": e.data["w"] * e.src["h"][..., 0]}, [1, 4])
    assert g.edata["q"].tolist() == [0, 4, 0, 0, 0]
    seen = []
    g.group_apply_edges(group_by, lambda e: seen.append(e.edges()[2].flatten().tolist()) or {}, [3])
    assert seen == [[3]]


def test_propagation():
    g = sg.graph(([0, 1, 2, 3], [2, 2, 4, 4]))
    for call in (
        lambda: sg.prop_nodes(g, [[2], [4]], fn.copy_u("x", "m"), fn.sum("m", "x")),
        lambda: sg.prop_edges(g, [[0, 1], ([2, 3], [4, 4])], fn.copy_u("x", "m"), fn.sum("m", "x")),
        lambda: g.prop_nodes([[2], [4]], fn.copy_u("x", "m"), fn.sum("m", "x")),
    ):
        g.ndata["x"] = torch.ones(5)
        call()
        assert g.ndata["x"].tolist() == [1, 1, 2, 1, 3]
    copy, add = fn.copy_u("x", "m"), fn.sum("m", "x")
    g.ndata["x"] = torch.ones(5)
    sg.prop_nodes_bfs(g, [1], copy, add)
    assert g.ndata["x"].tolist() == [1, 0, 1, 1, 2]
    g.ndata["x"] = torch.ones(5)
    sg.prop_nodes_topo(g, copy, add, apply_node_func=lambda n: {"x": n.data["x"] + 1})
    assert g.ndata["x"].tolist() == [1, 1, 3, 1, 5]
    sg.prop_edges_dfs(g, [0], copy, fn.sum("m", "y"))
    assert g.ndata["y"].tolist() == [0, 0, 1, 0, 3]


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep", [unfused, lambda function: function])
def test_parts_are_what_the_whole_gives(keep, kind, idtype):
    g, etype = graph_of(kind)
    g = g.astype(idtype)
    set_features(g, etype)
    functions = (keep(udf_of("u_mul_e")), keep(reduce_udf("mean")))
    dst = frames_of(g, etype)[1]
    g.update_all(*functions, etype=etype)
    whole = dst.pop("out")
    g.pull([1, 2, 4], *functions, etype=etype)
    part = dst.pop("out")
    torch.testing.assert_close(part[[1, 2, 4]], whole[[1, 2, 4]])
    assert not part[[0, 3]].any()
    g.send_and_recv(torch.arange(8), *functions, etype=etype)
    torch.testing.assert_close(dst.pop("out"), whole)
    g.push([0, 1, 2, 4, 5], *functions, etype=etype)
    torch.testing.assert_close(dst.pop("out"), whole)

"""What functions of edges and nodes see: mailboxes in buckets, and nodes without messages."""

import pytest
import torch

import smex
import smex.graph as sg
import smex.graph.function as fn
from support.message_functions import REDUCERS, small, unfused


def test_the_mailbox():
    g, seen = small(), []

    def reduce(nodes):
        seen.append((nodes.nodes().tolist(), nodes.mailbox["m"].tolist(), nodes.batch_size()))
        assert nodes.data["h"].equal(g.ndata["h"][nodes.nodes()])
        return {"out": nodes.mailbox["m"].sum(1)}

    g.update_all(lambda edges: {"m": edges.data["w"]}, reduce)
    assert seen == [([0, 2], [[4.0], [2.0]], 2), ([1], [[1.0, 3.0, 5.0]], 1)]
    assert g.ndata["out"].tolist() == [4, 9, 2, 0]


def test_a_message_function_sees_edges():
    g = small().int()

    def message(edges):
        src, dst, eid = edges.edges()
        assert eid.dtype == torch.int32 and eid.tolist() == [0, 1, 2, 3, 4]
        assert edges.src["h"].equal(g.ndata["h"][src.long()])
        assert edges.dst["h"].equal(g.ndata["h"][dst.long()])
        assert len(edges) == edges.batch_size() == 5
        assert edges.canonical_etype == ("_N", "_E", "_N")
        return {"m": edges.data["w"]}

    g.update_all(message, fn.sum("m", "out"))
    assert g.ndata["out"].tolist() == [4, 9, 2, 0]


@pytest.mark.parametrize("existing", [False, True])
def test_nodes_without_messages(existing):
    g = small()
    if existing:
        g.ndata["a"] = g.ndata["b"] = torch.full((4, 2), 7.0)
    g.update_all(fn.copy_u("h", "m"), fn.max("m", "a"))
    g.update_all(fn.copy_u("h", "m"), unfused(lambda n: {"b": n.mailbox["m"].max(1)[0]}))
    assert g.ndata["a"].equal(g.ndata["b"]) and g.ndata["a"][3].tolist() == [0, 0]


@pytest.mark.parametrize("keep", [unfused, lambda function: function])
def test_an_initialiser_fills_nodes_without_messages(keep):
    g = small()
    g.set_n_initializer(lambda shape, dtype, ctx, ids: torch.full(shape, 9, dtype=dtype))
    g.update_all(fn.copy_u("h", "m"), keep(lambda n: {"out": n.mailbox["m"].sum(1)}))
    assert g.ndata["out"].tolist() == [[4, 5], [4, 7], [2, 3], [9, 9]]


def test_buckets_must_agree():
    g = small()
    with pytest.raises(smex.SmexValueError, match=r'the same names.*"a".*"b"'):
        g.update_all(
            fn.copy_u("h", "m"),
            lambda n: {"a" if n.mailbox["m"].shape[1] == 1 else "b": n.mailbox["m"].sum(1)},
        )


def test_no_edges():
    g = sg.graph(([], []), num_nodes=3)
    g.ndata["h"] = torch.ones(3, 2)
    for reduce in REDUCERS:
        g.update_all(fn.copy_u("h", "m"), getattr(fn, reduce)("m", "out"))
        assert g.ndata.pop("out").equal(torch.zeros(3, 2))
    g.update_all(lambda e: {"m": e.src["h"]}, fn.sum("m", "out"))
    assert g.ndata.pop("out").equal(torch.zeros(3, 2))
    g.apply_edges(lambda e: {"k": e.src["h"]})
    assert g.edata["k"].shape == (0, 2)


def test_no_nodes_and_no_features():
    g = sg.graph(([], []), num_nodes=0)
    g.ndata["h"] = torch.ones(0, 2)
    g.update_all(fn.copy_u("h", "m"), fn.mean("m", "out"))
    assert g.ndata["out"].shape == (0, 2)
    g = small()
    g.ndata["h"] = torch.ones(4, 0)
    g.update_all(fn.copy_u("h", "m"), fn.max("m", "out"))
    assert g.ndata["out"].shape == (4, 0)


def test_index_types_stay():
    g = small().int()
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"))
    assert g.idtype == torch.int32 and g.ndata["out"].dtype == torch.float32


def fused_sum(nodes):
    return {"out": nodes.mailbox["m"].sum(1)}


def unfused_sum(nodes):
    return {"out": nodes.mailbox["m"].cumsum(1)[:, -1]}


def test_without_edges_sums_are_zero_and_other_functions_are_not_called():
    for reduce in (fn.sum("m", "out"), fused_sum):
        g = sg.graph(([], []), num_nodes=2)
        g.ndata["h"], g.ndata["out"] = torch.ones(2, 3), torch.ones(2, 1)
        g.update_all(fn.copy_u("h", "m"), reduce)
        assert g.ndata["out"].tolist() == [[0] * 3] * 2
    g.ndata["out"] = torch.ones(2, 1)
    g.update_all(fn.copy_u("h", "m"), unfused_sum)
    assert g.ndata["out"].tolist() == [[1], [1]]


@pytest.mark.parametrize("reduce", [fn.sum("m", "out"), fused_sum, unfused_sum])
@pytest.mark.parametrize("cross", ["sum", "min", "max", "mean", "stack"])
def test_an_edge_type_without_edges_takes_no_part(cross, reduce):
    edges = {("a", "x", "b"): ([0], [0]), ("c", "y", "b"): ([], [])}
    g = sg.heterograph(edges, {"a": 1, "b": 2, "c": 1})
    g.nodes["a"].data["h"] = g.nodes["c"].data["h"] = torch.tensor([[5.0]])
    pair = (fn.copy_u("h", "m"), reduce)
    g.multi_update_all({"x": pair, "y": pair}, cross)
    out = g.nodes["b"].data["out"]
    assert out.flatten().tolist() == [5, 0] and out.dim() == (3 if cross == "stack" else 2)

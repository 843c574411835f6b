"""Readouts: each graph of a batch by itself is the oracle."""

import pytest
import torch

import smex
import smex.graph as sg


def batch():
    """Three graphs, the second without nodes."""
    graphs = [
        sg.graph(([0, 1, 2], [1, 2, 0])),
        sg.graph(([], []), num_nodes=0),
        sg.graph(([0, 1], [1, 0])),
    ]
    g = sg.batch(graphs)
    g.ndata["h"] = torch.rand(5, 2)
    g.edata["h"] = torch.rand(5, 2)
    g.ndata["w"] = g.edata["w"] = torch.rand(5, 1)
    return g


def parts(x):
    return [x[:3], x[:0], x[3:]]


@pytest.mark.parametrize("where", ["nodes", "edges"])
@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("op", ["sum", "mean", "max", "min"])
def test_readout(op, weight, where):
    g = batch()
    data = g.ndata if where == "nodes" else g.edata
    x = data["h"] * data["w"] if weight else data["h"]
    expected = []
    for part in parts(x):
        if part.shape[0] == 0:
            expected.append(torch.zeros(2))
        else:
            value = getattr(part, op)(0)
            expected.append(value if op in ("sum", "mean") else value.values)
    out = getattr(sg, f"readout_{where}")(g, "h", weight, op=op)
    torch.testing.assert_close(out, torch.stack(expected))
    if op != "min":
        assert out.equal(getattr(sg, f"{op}_{where}")(g, "h", weight))


@pytest.mark.parametrize("where", ["nodes", "edges"])
def test_softmax(where):
    g = batch()
    x = (g.ndata if where == "nodes" else g.edata)["h"]
    out = getattr(sg, f"softmax_{where}")(g, "h")
    torch.testing.assert_close(out, torch.cat([part.softmax(0) for part in parts(x)]))


@pytest.mark.parametrize("where", ["nodes", "edges"])
def test_broadcast(where):
    g = batch()
    call = getattr(sg, f"broadcast_{where}")
    x = torch.rand(3, 4)
    assert call(g, x).equal(x[[0, 0, 0, 2, 2]])
    one = sg.graph(([0, 1], [1, 0]))
    assert call(one, torch.arange(3.0)).equal(torch.arange(3.0).expand(2, 3))
    assert call(one, torch.ones(1, 3)).equal(torch.ones(2, 3))
    with pytest.raises(smex.SmexValueError, match=f"broadcast_{where}: expected 3 rows"):
        call(g, torch.ones(1, 2))


@pytest.mark.parametrize("where", ["nodes", "edges"])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("sortby", [None, 0, -1])
@pytest.mark.parametrize("k", [0, 1, 2, 4])
def test_topk(k, sortby, descending, where):
    g = batch()
    x = (g.ndata if where == "nodes" else g.edata)["h"]
    values, index = getattr(sg, f"topk_{where}")(g, "h", k, descending=descending, sortby=sortby)
    assert values.shape == (3, k, 2)
    assert index.shape == ((3, k, 2) if sortby is None else (3, k))
    for i, part in enumerate(parts(x)):
        n = min(k, part.shape[0])
        keys = part if sortby is None else part[:, sortby, None].expand_as(part)
        order = keys.sort(dim=0, descending=descending).indices[:n]
        assert values[i, :n].equal(part.gather(0, order))
        assert index[i, :n].equal(order if sortby is None else order[:, 0])
        assert not values[i, n:].any()
        assert (index[i, n:] >= part.shape[0]).all()


def test_topk_of_a_vector_and_of_low_values():
    g = sg.graph(([0], [2]))
    g.ndata["h"] = torch.tensor([float("-inf"), -2, -1])
    values, index = sg.topk_nodes(g, "h", 4)
    assert index.tolist() == [[2, 1, 0, 3]]
    assert values.tolist() == [[-1, -2, float("-inf"), 0]]


def test_types():
    g = sg.heterograph({("a", "x", "b"): ([0, 1], [0, 0])})
    g.nodes["a"].data["h"] = torch.ones(2)
    g.edges["x"].data["h"] = torch.ones(2)
    assert sg.sum_nodes(g, "h", ntype="a").tolist() == [2]
    assert sg.mean_edges(g, "h", etype="x").tolist() == [1]


def test_gradients():
    g = batch()
    h = torch.rand(5, 2, requires_grad=True)
    g.ndata["h"] = h
    sg.sum_nodes(g, "h").sum().backward()
    assert h.grad.equal(torch.ones(5, 2))
    values, _ = sg.topk_nodes(g, "h", 1)
    assert torch.autograd.grad(values.sum(), h)[0].sum() == 4


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda g: sg.readout_nodes(g, "h", op="prod"), "unknown reducer 'prod'"),
        (lambda g: sg.readout_nodes(g, "x"), 'feature "x" is not set for nodes'),
        (
            lambda g: (g.ndata.update(w=torch.ones(5, 3)), sg.sum_nodes(g, "h", "w")),
            r'weight "w" of shape \[5, 3\] .* feature "h" of shape \[5, 2\]; .* \[5, 1\]',
        ),
        (
            lambda g: sg.topk_nodes(g, "h", 1, sortby=2),
            "topk_nodes: sortby must be one of 2 columns",
        ),
        (lambda g: sg.topk_nodes(g, "h", -1), "topk_nodes: expected a feature of one or two"),
    ],
)
def test_mistakes(call, text):
    with pytest.raises(smex.SmexValueError, match=text):
        call(batch())

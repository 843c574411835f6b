"""Graphs and functions for tests of message passing and of its fusion."""

import torch

import smex.graph as sg
import smex.graph.function as fn

REDUCERS = ("sum", "mean", "max", "min")
KINDS = ("homogeneous", "hetero", "block")
FIELDS = {"u": "x", "v": "y", "e": "z"}
ADD = fn.sum("m", "out")


def graph(dtype=torch.float64):
    """Features h, k [6, 4], s [6] of nodes; w [8, 1], z [8, 4], t [8] of edges."""
    g = sg.graph(([0, 1, 2, 2, 0, 5, 4, 1], [1, 2, 1, 0, 1, 3, 3, 1]), num_nodes=6)
    for data, columns in (
        (g.ndata, {"h": (6, 4), "k": (6, 4), "s": (6,), "heads": (6, 2, 3)}),
        (g.edata, {"w": (8, 1), "z": (8, 4), "t": (8,), "a": (8, 2, 1), "flat": (8, 6)}),
    ):
        for name, shape in columns.items():
            data[name] = (torch.rand(shape, dtype=dtype) + 0.5).requires_grad_()
    return g


def graph_of(kind):
    """A graph with multi-edges, a self loop and nodes without edges, and its edge type."""
    src, dst = [0, 1, 2, 2, 0, 5, 4, 1], [1, 2, 1, 0, 1, 3, 3, 1]
    if kind == "homogeneous":
        return sg.graph((src, dst), num_nodes=6), None
    if kind == "block":
        return sg.create_block((src, dst), num_src_nodes=6, num_dst_nodes=5), None
    other = ("b", "back", "a")
    edges = {("a", "to", "b"): (src, dst), other: ([0], [0])}
    return sg.heterograph(edges, {"a": 6, "b": 5}), ("a", "to", "b")


def small():
    g = sg.graph(([0, 1, 2, 2, 0], [1, 2, 1, 0, 1]), num_nodes=4)
    g.ndata["h"] = torch.arange(8.0).view(4, 2)
    g.edata["w"] = torch.arange(5.0) + 1
    return g


def two_ways():
    edges = {
        ("user", "plays", "game"): ([0, 1, 2], [0, 0, 1]),
        ("dev", "makes", "game"): ([0, 1], [0, 2]),
        ("user", "follows", "user"): ([0], [1]),
    }
    g = sg.heterograph(edges, {"user": 3, "game": 4, "dev": 2})
    g.nodes["user"].data["h"] = torch.tensor([[1.0], [2.0], [-3.0]])
    g.nodes["dev"].data["h"] = torch.tensor([[-5.0], [-6.0]])
    return g


def frames_of(g, etype):
    src, _, dst = g.to_canonical_etype(etype)
    return g._src_frames[src], g._dst_frames[dst], g._edge_frames[g.to_canonical_etype(etype)]


def set_features(g, etype, shape=(3,)):
    """Random features x of sources, y of destinations and z of edges; returns them."""
    found = []
    for name, frame in zip("xyz", frames_of(g, etype)):
        value = torch.rand(frame.num_rows, *shape, dtype=torch.float64) + 0.5
        frame[name] = value.requires_grad_()
        found.append(frame[name])
    return found


def unfused(function):
    """The same function, which nothing can fuse."""
    if isinstance(function, fn.BuiltinFunction):
        return function

    def wrapper(batch):
        print(end="")
        return function(batch)

    return wrapper


def side(edges, letter):
    return {"u": edges.src, "v": edges.dst, "e": edges.data}[letter][FIELDS[letter]]


def udf_of(name):
    left, op, right = name.split("_")

    def message(edges):
        a, b = side(edges, left), side(edges, right)
        out = {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b}
        return {"m": (a * b).sum(-1, keepdim=True) if op == "dot" else out[op]}

    return message


def reduce_udf(name):
    def reduce(nodes):
        x = getattr(nodes.mailbox["m"], name)(1)
        return {"out": x if name in ("sum", "mean") else x[0]}

    return reduce


def total(nodes):
    return {"out": nodes.mailbox["m"].sum(1)}


def run(g, message, reduce):
    """Results, and gradients of a projection of each."""
    before = set(g.ndata)
    g.update_all(message, reduce)
    out = {name: g.ndata.pop(name) for name in set(g.ndata) - before}
    leaves = [*g.ndata.values(), *g.edata.values()]
    grads = {}
    for name, x in out.items():
        weight = torch.linspace(-1, 2, x.numel(), dtype=x.dtype).view_as(x)
        grads[name] = torch.autograd.grad(
            (x * weight).sum(), leaves, allow_unused=True, retain_graph=True
        )
    return out, grads


def assert_fused(message, reduce, *texts):
    g = graph()
    explanation = sg.explain(g, message, reduce)
    assert explanation.fused, explanation
    for text in texts:
        assert text in repr(explanation), explanation
    out, grads = run(g, message, reduce)
    expected, expected_grads = run(g, unfused(message), unfused(reduce))
    assert out.keys() == expected.keys() and out, (out.keys(), expected.keys())
    for name in out:
        torch.testing.assert_close(out[name], expected[name])
        for a, b in zip(grads[name], expected_grads[name]):
            assert_same_gradient(a, b)


def assert_same_gradient(a, b):
    """No gradient is as good as one of zeros."""
    if a is None or b is None:
        assert all(x is None or not x.any() for x in (a, b)), (a, b)
    else:
        torch.testing.assert_close(a, b)


class Counter:
    def __init__(self):
        self.count = 0
        self.kept = []

    def counts(self, edges):
        self.count += 1
        return {"m": edges.src["h"]}

    def keeps(self, edges):
        self.kept.append(edges.src["h"])
        return {"m": edges.src["h"]}

    @property
    def scale(self):
        self.count += 1
        return 2.0

    def asks(self, edges):
        return {"m": edges.src["h"] * self.scale}

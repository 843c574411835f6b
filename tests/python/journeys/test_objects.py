"""Objects and graphs that hold tensors, as arguments and results: each test is one sequence.

| sequence | test |
| --- | --- |
| objects with slots, dicts with attributes, pytrees without keys as arguments and results | test_objects_of_every_kind |
| tensors in slots, sets and bound arguments | test_hidden_tensors_are_found |
| a batch of graphs, with other sizes | test_sizes_of_a_batch_tell_graphs_apart |
| a graph changed in forward; its copy changed | test_graphs_keep_their_structure |
| data of PyG with a new feature, a new type | test_stores_of_pyg_keep_their_types |
"""

import collections
import copy
import dataclasses
import functools
import types

import pytest
import torch
from pairs import WIDTH, Calls, SubSlots, captured, close, pair, rows, weight
from torch.utils import _pytree as pytree

import smex
import smex.graph as sg
import smex.graph.function as fn

# ---- objects ----


@dataclasses.dataclass
class Named(collections.OrderedDict):
    value: torch.Tensor = None
    note: str = "a"


@dataclasses.dataclass(slots=True)
class Lean:
    value: torch.Tensor


class Extra(Lean):
    __slots__ = ("extra",)


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: torch.Tensor


class Keyless:
    def __init__(self, *parts):
        self.parts = parts


pytree.register_pytree_node(
    Keyless, lambda k: (list(k.parts), None), lambda parts, _: Keyless(*parts)
)


def _extra():
    found = Extra(rows())
    found.extra = rows()
    return found


def _named():
    found = Named(rows())
    found["item"] = rows()
    return found


def _with_extra(self, o):
    made = Extra(o.value @ self.w)
    made.extra = o.extra * 2
    return made, o


def _with_items(self, o):
    made = Named(o.value @ self.w, note="b")
    made["more"] = o["item"] * 2
    o["new"] = made.value
    return made, o


def _with_frozen(self, o):
    return Frozen(o.value @ self.w), o


def _with_keyless(self, o):
    return Keyless(o.parts[0] @ self.w, [o.parts[1]["a"] * 2]), Keyless(o.parts[0] * 3)


OBJECTS = {
    "slots of a class": (_with_extra, _extra),
    "dict": (_with_items, _named),
    "frozen": (_with_frozen, lambda: Frozen(rows())),
    "no keys": (_with_keyless, lambda: Keyless(rows(), {"a": rows()})),
}


def parts_of(thing):
    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, (list, tuple)):
        return [part for item in thing for part in parts_of(item)]
    held = {name: getattr(thing, name) for name in ("value", "extra", "note", "parts")
            if hasattr(thing, name)}  # fmt: skip
    held |= dict(thing) if isinstance(thing, dict) else {}
    return [part for name in sorted(held) for part in (name, *parts_of_value(held[name]))]


def parts_of_value(value):
    return parts_of(value) if not isinstance(value, (str, dict)) else [str(value)[:1]]


@pytest.mark.parametrize("case", OBJECTS)
def test_objects_of_every_kind(case):
    function, make = OBJECTS[case]
    net, plain = pair(Calls(function, w=weight()))
    for _ in range(2):
        given = make()
        mine, theirs = copy.deepcopy(given), copy.deepcopy(given)
        found, wanted = net(mine), plain(theirs)
        pairs = [(found, wanted), (mine, theirs)]
        for a, b in pairs:
            for one, other in zip(parts_of(a), parts_of(b), strict=True):
                if isinstance(one, torch.Tensor):
                    close(one, other)
                else:
                    assert one == other
        if case != "no keys":
            assert found[1] is mine
        assert type(found[0]) is type(wanted[0])


def test_keyless_attributes():
    net, plain = pair(Calls(lambda s, x: x @ s.w @ s.kept.parts[0], w=weight()))
    net._model[0].kept = plain.kept = Keyless(rows(WIDTH))
    x = rows()
    close(net(x), plain(x))
    plain.kept.parts[0].requires_grad_()
    with pytest.raises(smex.CaptureError, match="would get no gradient"):
        net(rows(3))


def _slotted():
    found = SubSlots()
    found.hold(rows())
    return found


class Listed(list):
    pass


def _listed():
    found = Listed()
    found.value = rows()
    return found


HIDDEN = {
    "slot": (_slotted, "_Slots__private"),
    "deque": (lambda: collections.deque([rows()]).copy(), None),
    "partial": (lambda: functools.partial(torch.add, rows()), r"\.args\[0\]"),
    "attribute of a list": (_listed, r"\.value"),
    "object in a slot": (
        lambda: types.SimpleNamespace(a=_slotted()),
        r"\.a\._Slots__private",
    ),
}


@pytest.mark.parametrize("case", HIDDEN)
def test_hidden_tensors_are_found(case):
    make, where = HIDDEN[case]
    net, _ = pair(Calls(lambda s, x, o: x @ s.w, w=weight()))
    if where is None:
        net(rows(), make())  # a node of pytrees
        return
    with pytest.raises(smex.SmexTypeError, match=rf"args\[1\] is a .* tensor in .*{where}"):
        net(rows(), make())
    net, _ = pair(Calls(lambda s, x: (x @ s.w, make()), w=weight()))
    with pytest.raises(smex.SmexTypeError, match=f"the result.* tensor in .*{where}"):
        net(rows())


# ---- graphs ----


def graph(nodes=6):
    found = sg.add_self_loop(sg.rand_graph(nodes, 2 * nodes))
    found.ndata["x"] = rows(nodes)
    return found


@pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")
def test_sizes_of_a_batch_tell_graphs_apart():
    net, plain = pair(Calls(lambda s, g: sg.readout_nodes(g, "x", op="sum") @ s.w, w=weight()))
    g = graph()
    for sizes in ([2, 4], [1, 5], [6], [3, 3]):
        g.set_batch_num_nodes(torch.tensor(sizes))
        g.set_batch_num_edges(torch.tensor([0] * (len(sizes) - 1) + [g.num_edges()]))
        count = len(net._programs)
        for _ in range(2):
            close(net(g.clone()), plain(g.clone()))
        assert len(net._programs) == count + 1


def _adds_edges(self, g):
    g.add_edges([0], [1])
    return g.ndata["x"] @ self.w


def _adds_nodes(self, g):
    g.ndata.pop("x")
    g.add_nodes(2)
    return self.w * 2


def _sets_batch(self, g):
    g.set_batch_num_nodes(torch.tensor([2, 4]))
    return g.ndata["x"] @ self.w


@pytest.mark.filterwarnings("ignore::smex.MissingSpecWarning")
@pytest.mark.parametrize("function", [_adds_edges, _adds_nodes, _sets_batch])
def test_graphs_keep_their_structure(function):
    _, net = captured(lambda self, x, held: function(self, held["g"]))
    g = graph()
    edges = g.num_edges()
    with pytest.raises(
        smex.CaptureError, match=r"structure of its argument args\[1\]\['g'\].*g.clone\(\)"
    ):
        net(rows(), {"g": g})
    assert (g.num_nodes(), g.num_edges()) == (6, edges)

    def changes_a_copy(self, g):
        g = g.clone()
        g.add_edges([0], [1])
        g.ndata["h"] = g.ndata["x"] @ self.w
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
        return g.ndata["h"]

    net, plain = pair(Calls(changes_a_copy, w=weight()))
    close(net(g), plain(g))


def test_stores_of_pyg_keep_their_types():
    data = pytest.importorskip("torch_geometric.data")

    def sets_feature(self, d):
        d["a"].h = d["a"].x @ self.w
        return d["a"].h.sum()

    def adds_type(self, d):
        d["new"].x = d["a"].x @ self.w
        return d["new"].x.sum()

    given = data.HeteroData()  # without edges
    given["a"].x, given["b"].x = rows(), rows(2)
    net, plain = pair(Calls(sets_feature, w=weight()))
    mine, theirs = given.clone(), given.clone()
    close(net(mine), plain(theirs))
    close(mine["a"].h, theirs["a"].h)
    _, net = captured(adds_type)
    with pytest.raises(smex.CaptureError, match=r"structure of its argument args\[0\]"):
        net(given)
    assert given.node_types == ["a", "b"]

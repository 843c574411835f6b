"""Adding and removing nodes and edges, against a model of plain lists."""

import hypothesis
import hypothesis.strategies as st
import pytest
import torch

import smex
import smex.graph as sg

IDTYPES = [torch.int32, torch.int64]
TYPES = [("a", "x", "b"), ("a", "y", "a"), ("b", "x", "a")]


class Model:
    """A graph as lists: a feature for each node, (source, destination, feature) for each edge."""

    def __init__(self, sizes, edges):
        self.nodes = {t: [float(i) for i in range(n)] for t, n in sizes.items()}
        self.edges = {
            c: [(u, v, e) for e, (u, v) in enumerate(pairs)] for c, pairs in edges.items()
        }

    def graph(self, idtype):
        data = {
            c: (torch.tensor([u for u, _, _ in es]), torch.tensor([v for _, v, _ in es]))
            for c, es in self.edges.items()
        }
        sizes = {t: len(n) for t, n in self.nodes.items()}
        g = sg.heterograph(data, sizes, idtype=idtype)
        for t, values in self.nodes.items():
            g.nodes[t].data["h"] = torch.tensor(values)
        for c, es in self.edges.items():
            g.edges[c].data["w"] = torch.tensor([e for _, _, e in es], dtype=torch.int64)
        return g

    def add_nodes(self, ntype, values):
        self.nodes[ntype] += values

    def add_edges(self, etype, pairs):
        for u, v in pairs:
            for ntype, node in ((etype[0], u), (etype[2], v)):
                missing = node + 1 - len(self.nodes[ntype])
                self.add_nodes(ntype, [0.0] * max(missing, 0))
            self.edges[etype].append((u, v, 0))

    def remove_edges(self, etype, eids):
        kept = [edge for e, edge in enumerate(self.edges[etype]) if e not in eids]
        self.edges[etype] = kept

    def remove_nodes(self, ntype, nids):
        new = {}
        for node in range(len(self.nodes[ntype])):
            if node not in nids:
                new[node] = len(new)
        self.nodes[ntype] = [self.nodes[ntype][node] for node in new]
        for (s, name, d), edges in self.edges.items():
            us = new if s == ntype else range(10**6)
            vs = new if d == ntype else range(10**6)
            kept = [(us[u], vs[v], e) for u, v, e in edges if u in us and v in vs]
            self.edges[s, name, d] = sorted(kept, key=lambda edge: edge[0]) if nids else edges

    def check(self, g):
        for t, values in self.nodes.items():
            assert g.num_nodes(t) == g.num_src_nodes(t) == g.num_dst_nodes(t) == len(values)
            assert g.nodes[t].data["h"].tolist() == values
        for c, edges in self.edges.items():
            src, dst, eid = g.edges("all", etype=c)
            assert src.dtype == dst.dtype == eid.dtype == g.idtype
            found = zip(src.tolist(), dst.tolist(), g.edges[c].data["w"].tolist())
            assert list(found) == edges and eid.tolist() == list(range(len(edges)))
            assert g.in_degrees(etype=c).shape[0] == len(self.nodes[c[2]])
            assert g.relation(c).num_src == len(self.nodes[c[0]])


def draw_pairs(data, model, etype, beyond):
    ends = [st.integers(0, len(model.nodes[t]) - 1 + beyond) for t in (etype[0], etype[2])]
    return data.draw(st.lists(st.tuples(*ends), max_size=6))


@hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
@hypothesis.given(st.data())
def test_random_changes_agree_with_lists(data):
    sizes = {"a": data.draw(st.integers(1, 5)), "b": data.draw(st.integers(1, 5))}
    model = Model(sizes, {c: [] for c in TYPES})
    for c in TYPES:
        model.edges[c] = [(u, v, e) for e, (u, v) in enumerate(draw_pairs(data, model, c, 0))]
    g = model.graph(data.draw(st.sampled_from(IDTYPES)))
    for _ in range(data.draw(st.integers(1, 6))):
        etype, ntype = data.draw(st.sampled_from(TYPES)), data.draw(st.sampled_from(["a", "b"]))
        change = data.draw(
            st.sampled_from(["add_nodes", "add_edges", "remove_edges", "remove_nodes"])
        )
        if change == "add_nodes":
            values = data.draw(st.lists(st.just(7.0), max_size=3))
            g.add_nodes(len(values), {"h": torch.tensor(values)}, ntype=ntype)
            model.add_nodes(ntype, values)
        elif change == "add_edges":
            pairs = draw_pairs(data, model, etype, 2)
            g.add_edges([u for u, _ in pairs], [v for _, v in pairs], etype=etype)
            model.add_edges(etype, pairs)
        elif change == "remove_edges" and model.edges[etype]:
            eids = data.draw(st.lists(st.integers(0, len(model.edges[etype]) - 1), max_size=4))
            g.remove_edges(eids, etype=etype)
            model.remove_edges(etype, eids)
        elif change == "remove_nodes" and model.nodes[ntype]:
            nids = data.draw(st.lists(st.integers(0, len(model.nodes[ntype]) - 1), max_size=3))
            g.remove_nodes(nids, ntype=ntype)
            model.remove_nodes(ntype, nids)
        model.check(g)


# ---- features ----


@pytest.fixture(params=IDTYPES, ids=["int32", "int64"])
def g(request):
    g = sg.graph(([0, 1, 1, 2, 0], [1, 2, 2, 0, 1]), idtype=request.param)
    g.ndata["x"] = torch.ones(3, 2)
    g.edata["w"] = torch.arange(5, dtype=torch.float64)
    return g


def test_new_features(g):
    g.add_nodes(2, {"x": torch.full((2, 2), 3.0), "y": torch.ones(2)})
    assert g.ndata["x"].tolist() == [[1, 1]] * 3 + [[3, 3]] * 2
    assert g.ndata["y"].tolist() == [0, 0, 0, 1, 1]
    g.add_edges(0, [1, 4], {"w": torch.tensor([7.0, 8.0], dtype=torch.float64)})
    assert g.edata["w"].tolist() == [0, 1, 2, 3, 4, 7, 8]
    g.add_edges([6], 0)
    assert g.num_nodes() == 7 and g.ndata["x"].shape == (7, 2) and g.edata["w"][-1] == 0


def test_initialisers(g):
    def sevens(shape, dtype, device, ids):
        return torch.full(shape, 7, dtype=dtype, device=device) + ids.start

    g.set_n_initializer(sevens)
    g.set_n_initializer(sg.init.zero_initializer, field="y", ntype="_N")
    g.set_e_initializer(sevens, field="w", etype="_E")
    g.ndata["y"] = torch.ones(3)
    g.add_edges([3], [0])
    assert g.ndata["x"][-1].tolist() == [10, 10] and g.ndata["y"][-1] == 0
    assert g.edata["w"][-1] == 12
    g.nodes[[0]].data["z"] = torch.ones(1)
    assert g.ndata["z"].tolist() == [1, 7, 7, 7]
    assert g.local_var().ndata["x"] is g.ndata["x"]
    part = g.clone()
    part.add_nodes(1)
    assert part.ndata["x"][-1].tolist() == [11, 11]


def test_ids_are_stored(g):
    g.remove_edges([0, 2, 0], store_ids=True)
    assert g.edata[sg.EID].tolist() == [1, 3, 4] and sg.NID not in g.ndata
    assert g.edata["w"].tolist() == [1, 3, 4] and g.edata[sg.EID].dtype == g.idtype
    g.remove_nodes([0], store_ids=True)
    assert g.ndata[sg.NID].tolist() == [1, 2] and g.edata[sg.EID].tolist() == [0]
    assert g.edata["w"].tolist() == [1]


def test_ids_of_other_types_are_stored():
    g = sg.heterograph({("a", "x", "b"): ([0, 1], [0, 1]), ("b", "y", "a"): ([0, 1], [1, 0])})
    g.remove_edges([0], etype="x", store_ids=True)
    assert g.edata[sg.EID][("b", "y", "a")].tolist() == [0, 1] and len(g.ndata) == 0
    g.remove_nodes([0], ntype="b", store_ids=True)
    assert g.ndata[sg.NID]["a"].tolist() == [0, 1] and g.ndata[sg.NID]["b"].tolist() == [1]
    assert g.edata[sg.EID][("b", "y", "a")].tolist() == [1]


def test_gradients_pass_through_changes(g):
    x = torch.ones(3, 2, requires_grad=True)
    g.ndata["x"] = x
    g.add_nodes(1)
    g.remove_nodes([0])
    (g.ndata["x"] * 2).sum().backward()
    assert x.grad.tolist() == [[0, 0], [2, 2], [2, 2]]


# ---- blocks, batches, shared structure ----


def test_blocks():
    g = sg.create_block(([0, 1], [1, 2]))
    g.srcdata["h"] = torch.ones(2)
    g.add_nodes(1, ntype="_N")
    g.add_nodes(2, ntype="DST/_N")
    g.add_edges([4], [0])
    assert repr(g) == "Block(num_src_nodes=5, num_dst_nodes=5, num_edges=3)"
    assert g.srcdata["h"].tolist() == [1, 1, 0, 0, 0]
    g.remove_edges(0)
    assert g.num_edges() == 2
    with pytest.raises(smex.SmexValueError, match="remove_nodes: expected a graph, found a block"):
        g.remove_nodes([0], ntype="_N")


def test_a_changed_batch_is_one_graph(g):
    for change in (
        lambda: g.add_nodes(1),
        lambda: g.add_edges(0, 1),
    ):
        g.set_batch_num_nodes([1, 2])
        change()
        assert g.batch_size == 1 and g.batch_num_nodes().tolist() == [g.num_nodes()]


def test_what_is_removed_is_taken_off_the_sizes_of_a_batch():
    one = sg.graph(([0, 0, 1, 1], [1, 0, 1, 2]))
    g = sg.batch([one, one, one])
    g.remove_edges([0, 4, 5])
    assert g.batch_num_nodes().tolist() == [3, 3, 3] and g.batch_num_edges().tolist() == [3, 2, 4]
    g = sg.batch([one, one, one]).int()
    g.remove_nodes([0, 4, 5])
    assert g.batch_num_nodes().tolist() == [2, 1, 3] and g.batch_num_edges().tolist() == [2, 1, 4]
    assert g.batch_num_nodes().dtype == torch.int32
    first, second, third = sg.unbatch(g)
    assert first.num_edges() == 2 and second.num_nodes() == 1
    assert torch.equal(third.edges()[0], one.edges()[0].int())


def test_changes_of_nothing_leave_a_batch(g):
    g.set_batch_num_nodes([1, 2])
    g.add_nodes(0)
    g.add_edges([], [])
    g.remove_edges([], store_ids=True)
    g.remove_nodes([], store_ids=True)
    assert g.batch_size == 2 and g.num_edges() == 5 and sg.EID not in g.edata


def test_other_graphs_keep_the_old_structure(g):
    other, part = g.local_var(), g["_E"]
    g.add_edges([0], [0])
    g.remove_nodes([2])
    assert other.num_edges() == part.num_edges() == 5 and other.num_nodes() == 3


# ---- errors leave everything as it was ----


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            lambda g: g.add_nodes(-1),
            smex.SmexValueError,
            "add_nodes: expected a number of at least 0",
        ),
        (lambda g: g.add_nodes(1.5), smex.SmexValueError, "found 1.5"),
        (lambda g: g.add_nodes(2, {"x": torch.ones(1, 2)}), smex.SmexValueError, "expected 2 rows"),
        (lambda g: g.add_nodes(1, {"x": torch.ones(1, 3)}), smex.SmexTypeError, "expected rows of"),
        (lambda g: g.add_nodes(1, {"x": [1]}), smex.SmexTypeError, "expected a tensor, found list"),
        (
            lambda g: g.add_nodes(1, {"q": torch.ones(1, device="meta")}),
            smex.SmexValueError,
            "on cpu",
        ),
        (lambda g: g.add_nodes(1, ntype="zz"), smex.SmexValueError, "no 'zz'"),
        (
            lambda g: g.add_edges([0, 1, 2], [0, 1]),
            smex.SmexValueError,
            "add_edges: expected as many",
        ),
        (lambda g: g.add_edges([0, -1], [0, 9]), smex.SmexValueError, "at least 0, found -1"),
        (
            lambda g: g.add_edges([0], [9], {"w": torch.ones(1)}),
            smex.SmexTypeError,
            "expected rows of",
        ),
        (lambda g: g.remove_edges([0, 5]), smex.SmexValueError, "remove_edges: .* found 5"),
        (lambda g: g.remove_nodes([0, 3]), smex.SmexValueError, "remove_nodes: .* found 3"),
    ],
)
def test_errors(g, change, error, text):
    g.set_batch_num_nodes([1, 2])
    before, ndata, edata = repr(g), dict(g.ndata), dict(g.edata)
    with pytest.raises(error, match=text):
        change(g)
    assert repr(g) == before and g.batch_size == 2
    assert all(g.ndata[k] is v for k, v in ndata.items())
    assert all(g.edata[k] is v for k, v in edata.items())


def test_an_initialiser_that_fails_changes_nothing(g):
    g.set_n_initializer(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        g.add_edges([0], [9])
    assert g.num_nodes() == 3 and g.num_edges() == 5

"""Methods of layers, transforms and samplers that programs replace in subclasses of their own."""

import pytest
import torch

import smex.graph as sg
from smex.graph import nn

NODES, EDGES = 3, 4
TYPES = torch.tensor([0, 1, 1, 2])


def drawn(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1))


LAYERS = {
    "GINEConv": (
        lambda: (nn.GINEConv, torch.nn.Linear(4, 4)), lambda f, g: f(g, drawn(3, 4), drawn(4, 4))
    ),
    "RelGraphConv": (
        lambda: (nn.RelGraphConv, 4, 3, 3, "basis", 2),
        lambda f, g: f(g, drawn(3, 4), TYPES, drawn(4, 1)),
    ),
    "RelGraphConv of blocks": (
        lambda: (nn.RelGraphConv, 4, 4, 3, "bdd", 2), lambda f, g: f(g, drawn(3, 4), TYPES)
    ),
    "EGNNConv": (
        lambda: (nn.EGNNConv, 4, 5, 3, 4),
        lambda f, g: torch.cat(f(g, drawn(3, 4), drawn(3, 3), drawn(4, 4)), 1),
    ),
    "EGNNConv without edge features": (
        lambda: (nn.EGNNConv, 4, 5, 3),
        lambda f, g: torch.cat(f(g, drawn(3, 4), drawn(3, 3)), 1),
    ),
    "HGTConv": (
        lambda: (nn.HGTConv, 4, 3, 2, 2, 3),
        lambda f, g: f(g, drawn(3, 4), torch.tensor([0, 1, 1]), TYPES),
    ),
}  # fmt: skip


@pytest.fixture
def g():
    graph = sg.graph(([0, 1, 2, 0], [1, 2, 0, 2]))
    graph.ndata["h"] = torch.ones(NODES)
    return graph


def built(kind, args):
    torch.manual_seed(1)
    return kind(*args).eval()


@pytest.mark.parametrize("name", LAYERS)
def test_a_message_of_ones_own_is_called(g, name):
    make, call = LAYERS[name]
    kind, *args = make()

    class Own(kind):
        times = 0

        def message(self, edges):
            Own.times += 1
            return super().message(edges)

    plain, own = built(kind, args), built(Own, args)
    expected, found = call(plain, g), call(own, g)
    assert Own.times == 1 and set(g.ndata) == {"h"} and not g.edata
    torch.testing.assert_close(found, expected)
    expected.square().sum().backward()
    found.square().sum().backward()
    for (key, p), q in zip(plain.named_parameters(), own.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), key
        if p.grad is not None:
            torch.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=1e-5)

    class Tenfold(kind):
        def message(self, edges):
            return {key: 10 * rows for key, rows in super().message(edges).items()}

    assert not torch.allclose(call(built(Tenfold, args), g), expected.detach())


def test_the_message_of_a_class_between_is_called(g):
    class Between(nn.GINEConv):
        def message(self, edges):
            return {"m": torch.zeros_like(edges.src["hn"])}

    class Last(Between):
        pass

    assert Last()(g, drawn(3, 4), drawn(4, 4)).equal(drawn(3, 4))


def test_steps_of_transforms(g):
    called = []

    def told(kind, method, **arguments):
        def step(self, *args):
            called.append((kind.__name__, method))
            return getattr(kind, method)(self, *args)

        return type("Own", (kind,), {method: step})(**arguments)

    g.ndata["x"], g.edata["w"] = drawn(3, 2), drawn(4)
    for kind, method, arguments in (
        (sg.RowFeatNormalizer, "row_normalize", {"node_feat_names": ["x"]}),
        (sg.AddSelfLoop, "transform_etype", {}),
        (sg.RemoveSelfLoop, "transform_etype", {}),
        (sg.GCNNorm, "calc_etype", {}),
        (sg.PPR, "get_eps", {}),
        (sg.HeatKernel, "get_eps", {}),
        *((sg.SIGNDiffusion, op, {"k": 2, "in_feat_name": "x", "diffuse_op": op})
          for op in ("raw", "rw", "gcn", "ppr")),
    ):  # fmt: skip
        own, plain = told(kind, method, **arguments)(g), kind(**arguments)(g)
        assert called.pop() == (kind.__name__, method) and not called
        assert own.num_edges() == plain.num_edges()
        for name, rows in plain.ndata.items():
            torch.testing.assert_close(own.ndata[name], rows)


@pytest.mark.parametrize("copy_edata", [False, True])
@pytest.mark.parametrize("sym_new_etype", [False, True])
def test_steps_that_add_reverse_edges(copy_edata, sym_new_etype):
    g = sg.heterograph({("a", "x", "b"): ([0, 1], [1, 1]), ("a", "y", "a"): ([0, 2], [1, 0])})
    g.nodes["a"].data["h"], g.edges["x"].data["w"] = drawn(3), drawn(2)
    g.edges["y"].data["w"] = drawn(2, 2)
    called = []

    class Own(sg.AddReverse):
        def transform_asymmetric_etype(self, c_etype, graph, data_dict):
            called.append(c_etype[1])
            super().transform_asymmetric_etype(c_etype, graph, data_dict)

    class OneWay(sg.AddReverse):
        def transform_symmetric_etype(self, c_etype, graph, data_dict):
            data_dict[c_etype] = graph.edges(etype=c_etype)

    pair = [kind(copy_edata, sym_new_etype)(sg.batch([g, g])) for kind in (Own, sg.AddReverse)]
    for etype in pair[1].canonical_etypes:
        assert torch.equal(*(batch.batch_num_edges(etype) for batch in pair))
    called.clear()
    own, plain = (kind(copy_edata, sym_new_etype)(g) for kind in (Own, sg.AddReverse))
    assert called == (["x", "y"] if sym_new_etype else ["x"])
    assert own.canonical_etypes == plain.canonical_etypes and own.num_nodes("b") == 2
    assert torch.equal(own.nodes["a"].data["h"], g.nodes["a"].data["h"])
    for etype in plain.canonical_etypes:
        for one, other in zip(own.edges(etype=etype), plain.edges(etype=etype), strict=True):
            assert torch.equal(one, other)
        assert own.edges[etype].data.keys() == plain.edges[etype].data.keys()
        for name, rows in plain.edges[etype].data.items():
            assert torch.equal(own.edges[etype].data[name], rows)
    del g.edges["y"].data["w"]
    assert OneWay(copy_edata, sym_new_etype)(g).num_edges("y") == 2


@pytest.mark.parametrize("mode", ["node", "edge", "walk"])
def test_nodes_of_a_sampler(g, mode):
    def chosen(self, graph):
        return torch.tensor([2, 0, 2])

    own = type("Own", (sg.dataloading.SAINTSampler,), {f"{mode}_sampler": chosen})
    part = own(mode, (2, 3) if mode == "walk" else 2).sample(g)
    assert part.ndata[sg.NID].tolist() == [0, 2] and part.num_edges() == 2

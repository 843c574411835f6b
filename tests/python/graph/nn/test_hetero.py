"""Layers with a module for each type."""

import pytest
import torch

import smex
import smex.graph as sg


def users_and_games():
    return sg.heterograph(
        {
            ("user", "follows", "user"): ([0, 1, 2, 0], [1, 2, 0, 2]),
            ("user", "plays", "game"): ([0, 1, 2], [0, 0, 1]),
            ("store", "sells", "game"): ([0, 1], [1, 1]),
        }
    )


def some_features(g):
    return {t: torch.rand(g.num_nodes(t), 4, dtype=torch.double) for t in g.ntypes}


def layer_of(kind=lambda: sg.nn.GraphConv(4, 3), **kwargs):
    mods = {e: kind() for e in ("follows", "plays", "sells")}
    return sg.nn.HeteroGraphConv(mods, **kwargs).double()


@pytest.mark.parametrize("aggregate", ["sum", "mean", "max", "min", "stack"])
def test_edge_types_are_reduced(aggregate):
    g = users_and_games()
    conv, h = layer_of(aggregate=aggregate), some_features(g)
    found = conv(g, h)
    parts = [
        conv.mods[e](g[e], (h[s], h["game"])) for s, e in (("store", "sells"), ("user", "plays"))
    ]
    stacked = torch.stack(parts, 1)
    expected = {"sum": stacked.sum(1), "mean": stacked.mean(1), "stack": stacked}
    if aggregate in ("max", "min"):
        expected[aggregate] = getattr(stacked, aggregate)(1).values
    torch.testing.assert_close(found["game"], expected[aggregate])
    alone = conv.mods["follows"](g["follows"], h["user"])
    torch.testing.assert_close(found["user"].view(alone.shape), alone)
    assert list(found) == ["game", "user"]


def test_a_function_reduces_edge_types():
    g = users_and_games()
    seen = []

    def aggregate(parts, ntype):
        seen.append((ntype, len(parts)))
        return parts[0]

    layer_of(aggregate=aggregate)(g, some_features(g))
    assert sorted(seen) == [("game", 2), ("user", 1)]


def test_types_without_features_take_no_part():
    g = users_and_games()
    h = some_features(g)
    conv = layer_of()
    assert list(conv(g, ({"store": h["store"]}, {"game": h["game"]}))) == ["game"]


def test_destinations_without_features_are_named():
    g = users_and_games()
    h = some_features(g)
    del h["game"]
    with pytest.raises(
        smex.SmexValueError, match='HeteroGraphConv: there are no features of "game"'
    ):
        layer_of()(g, h)
    with pytest.raises(smex.SmexTypeError, match="HeteroGraphConv: expected a dict from node type"):
        layer_of()(g, h["user"])


def test_a_block_has_its_destinations_first():
    g = users_and_games()
    block = sg.to_block(g, {"user": torch.tensor([0, 1, 2]), "game": torch.tensor([0, 1])})
    h = some_features(g)
    rows = {t: h[t][block.srcnodes[t].data[sg.NID]] for t in block.srctypes}
    conv = layer_of(lambda: sg.nn.SAGEConv(4, 3, "pool"))
    for ntype, found in conv(block, rows).items():
        torch.testing.assert_close(found, conv(g, h)[ntype])


def test_arguments_of_layers():
    g, weight = users_and_games(), torch.rand(3, dtype=torch.double)
    h, conv = some_features(g), layer_of(lambda: sg.nn.SAGEConv(4, 3, "mean"))
    found = conv(g, h, mod_kwargs={"plays": {"edge_weight": weight}})
    assert torch.equal(found["game"], conv(g, h, mod_args={"plays": (weight,)})["game"])
    assert not torch.allclose(found["game"], conv(g, h)["game"])


def test_layers_by_triples():
    g = users_and_games()
    mods = {c: sg.nn.SAGEConv(4, 3, "mean") for c in g.canonical_etypes}
    conv = sg.nn.HeteroGraphConv(mods).double()
    assert set(conv(g, some_features(g))) == {"user", "game"}
    del conv.mods[str(("user", "plays", "game"))]
    with pytest.raises(smex.SmexValueError, match="HeteroGraphConv: no layer for edges of type"):
        conv(g, some_features(g))
    with pytest.raises(smex.SmexValueError, match="aggregate must be a function or one of sum"):
        layer_of(aggregate="median")


def test_hetero_linear():
    layer = sg.nn.HeteroLinear({"user": 4, ("user", "plays", "game"): 3}, 2)
    x = {"user": torch.rand(5, 4), ("user", "plays", "game"): torch.rand(6, 3)}
    found = layer(x)
    for key, rows in x.items():
        one = layer.linears[str(key)]
        torch.testing.assert_close(found[key], rows @ one.weight.T + one.bias)
    with pytest.raises(smex.SmexValueError, match="HeteroLinear: unknown type 'game'; types are"):
        layer({"game": torch.rand(1, 4)})


def test_hetero_embedding():
    layer = sg.nn.HeteroEmbedding({"user": 4, ("user", "plays", "game"): 3}, 2)
    assert {k: tuple(w.shape) for k, w in layer.weight.items()} == {
        "user": (4, 2),
        ("user", "plays", "game"): (3, 2),
    }
    ids = torch.tensor([3, 0, 3])
    torch.testing.assert_close(layer({"user": ids})["user"], layer.weight["user"][ids])
    before = layer.weight["user"].clone()
    layer.reset_parameters()
    assert not torch.equal(before, layer.weight["user"])
    with pytest.raises(smex.SmexValueError, match="HeteroEmbedding: unknown type 'game'"):
        layer({"game": ids})


@pytest.mark.parametrize("regularizer", [None, "basis", "bdd"])
def test_typed_linear(regularizer):
    layer = sg.nn.TypedLinear(6, 4, 3, regularizer, 2).double()
    x, types = torch.rand(10, 6, dtype=torch.double), torch.tensor([2, 0, 0, 2, 2, 0, 2, 0, 2, 0])
    matrices = layer.get_weight()
    if regularizer == "bdd":
        matrices = torch.stack([torch.block_diag(*m) for m in layer.W.view(3, 2, 3, 2)])
    expected = torch.einsum("ni,nio->no", x, matrices[types])
    torch.testing.assert_close(layer(x, types), expected)
    order = types.argsort(stable=True)
    torch.testing.assert_close(layer(x[order], types[order], True), expected[order])
    assert torch.autograd.gradcheck(lambda x: layer(x, types), x.requires_grad_())
    assert str(layer).startswith("TypedLinear(in_size=6, out_size=4, num_types=3")


def test_a_weight_basis_is_sums_of_shared_matrices():
    layer = sg.nn.WeightBasis((4, 2), 3, 5)
    a, v = layer.w_comp, layer.weight
    expected = torch.stack([sum(a[t, b] * v[b] for b in range(3)) for t in range(5)])
    assert torch.allclose(layer(), expected)
    layer().sum().backward()
    assert a.grad.abs().sum() > 0 and v.grad.abs().sum() > 0
    assert sg.nn.WeightBasis((6,), 1, 1)().shape == (1, 6)

"""GraphConv and GATConv against PyG's layers, dense formulas, and DGL's rules for their inputs."""

import re

import pytest
import torch
from torch import nn

import smex
import smex.graph as sg


def random_graph(num_nodes=30, num_edges=120):
    # Without multi-edges, so that PyG's dense forms agree.
    pairs = torch.randperm(num_nodes * num_nodes)[:num_edges]
    g = sg.graph((pairs // num_nodes, pairs % num_nodes), num_nodes=num_nodes)
    return sg.add_self_loop(sg.remove_self_loop(g))


def edge_index(g):
    return torch.stack(g.edges())


# ---- GraphConv ----


def test_graph_conv_equals_pyg():
    pyg = pytest.importorskip("torch_geometric.nn")
    g = random_graph()
    g = sg.to_bidirected(g)  # PyG divides by in-degrees on both ends
    x = torch.rand(30, 8, dtype=torch.double)
    ours = sg.nn.GraphConv(8, 5).double()
    theirs = pyg.GCNConv(8, 5, add_self_loops=False).double()
    with torch.no_grad():
        theirs.lin.weight.copy_(ours.weight.T)
        ours.bias.uniform_()
        theirs.bias.copy_(ours.bias)
    torch.testing.assert_close(ours(g, x), theirs(x, edge_index(g)))


def test_graph_conv_of_normalised_weights_equals_pyg_on_a_directed_graph():
    pyg = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    edges = torch.randint(30, (2, 90)).unique(dim=1)
    g = sg.remove_self_loop(sg.graph(tuple(edges), num_nodes=30))
    x = torch.rand(30, 8)
    ours, theirs = sg.nn.GraphConv(8, 5, norm="none"), pyg.GCNConv(8, 5)
    with torch.no_grad():
        theirs.lin.weight.copy_(ours.weight.T)
    weighted = sg.GCNNorm()(sg.add_self_loop(g))
    found = ours(weighted, x, edge_weight=weighted.edata["w"])
    torch.testing.assert_close(found, theirs(x, edge_index(g)))


@pytest.mark.parametrize("norm", ["none", "both", "left", "right"])
@pytest.mark.parametrize("out_feats", [3, 12])
@pytest.mark.parametrize("weighted", [False, True])
def test_graph_conv_equals_its_formula(norm, out_feats, weighted):
    g = random_graph()
    x = torch.rand(30, 6, dtype=torch.double, requires_grad=True)
    w = torch.rand(g.num_edges(), dtype=torch.double) if weighted else None
    layer = sg.nn.GraphConv(6, out_feats, norm=norm).double()
    src, dst = g.edges()
    adjacency = torch.zeros(30, 30, dtype=torch.double)
    adjacency.index_put_((dst, src), torch.ones_like(src, dtype=torch.double) if w is None else w)
    ins, outs = g.in_degrees().double(), g.out_degrees().double()
    scale = {
        "none": torch.ones(30, 30),
        "both": 1 / (ins[:, None] * outs[None]).sqrt(),
        "left": 1 / outs[None],
        "right": 1 / ins[:, None],
    }[norm]
    expected = (adjacency * scale) @ x @ layer.weight + layer.bias
    found = layer(g, x, edge_weight=w)
    torch.testing.assert_close(found, expected)
    inputs = [x, layer.weight]
    for ours, theirs in zip(
        torch.autograd.grad(found.square().sum(), inputs),
        torch.autograd.grad(expected.square().sum(), inputs),
    ):
        torch.testing.assert_close(ours, theirs)


def test_graph_conv_takes_a_weight_from_outside():
    g, x, w = random_graph(), torch.rand(30, 4), torch.rand(4, 2)
    layer = sg.nn.GraphConv(4, 2, weight=False, bias=False)
    own = sg.nn.GraphConv(4, 2, bias=False)
    with torch.no_grad():
        own.weight.copy_(w)
    torch.testing.assert_close(layer(g, x, weight=w), own(g, x))
    with pytest.raises(smex.SmexValueError, match="expected no weight beside the layer's own"):
        own(g, x, weight=w)


def test_graph_conv_rejects_an_unknown_norm():
    with pytest.raises(smex.SmexValueError, match="norm must be one of none, both, right, left"):
        sg.nn.GraphConv(4, 2, norm="max")


def test_nodes_without_in_edges_have_to_be_allowed():
    g = sg.graph(([0, 1], [1, 2]))
    for layer in (sg.nn.GraphConv(4, 2), sg.nn.GATConv(4, 2, 3)):
        with pytest.raises(smex.SmexValueError, match=r"1 node without in-edges.*add_self_loop"):
            layer(g, torch.ones(3, 4))
        layer.set_allow_zero_in_degree(True)
        assert not layer(g, torch.ones(3, 4))[0].any()


@pytest.mark.parametrize("out_feats", [2, 8])
def test_features_have_to_fit_the_layer(out_feats):
    g = random_graph()
    for layer in (sg.nn.GraphConv(4, out_feats), sg.nn.GATConv(4, out_feats, 2)):
        name = type(layer).__name__
        for shape in ((30, 5), (29, 4)):
            text = f"{name}: expected features of 30 source nodes, 4 wide, found torch.float32 "
            with pytest.raises(smex.SmexValueError, match=re.escape(text + str(list(shape)))):
                layer(g, torch.ones(shape))
        with pytest.raises(smex.SmexValueError, match=f"{name}: .* found list"):
            layer(g, [[1.0]])
    pair = (torch.ones(30, 4), torch.ones(30, 5))
    with pytest.raises(smex.SmexValueError, match="of 30 destination nodes, 3 wide, found"):
        sg.nn.GATConv((4, 3), 2, 2)(g, pair)


def test_layers_leave_the_graph_as_it_was():
    g = random_graph()
    g.ndata["h"] = torch.ones(30, 4)
    sg.nn.GraphConv(4, 2)(g, torch.rand(30, 4))
    sg.nn.GATConv(4, 2, 1)(g, torch.rand(30, 4))
    assert list(g.ndata) == ["h"] and not g.edata and g.ndata["h"].eq(1).all()


# ---- dimensions between nodes and features ----


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
@pytest.mark.parametrize(
    "layer",
    [
        lambda: sg.nn.GATConv(4, 2, 3, residual=True),
        lambda: sg.nn.GATConv(6, 2, 3, residual=True),
        lambda: sg.nn.GATConv((4, 4), 2, 3),
        lambda: sg.nn.AGNNConv(),
    ],
    ids=["GATConv", "GATConv-same", "GATConv-pair", "AGNNConv"],
)
def test_slices_stay_apart(layer, shape):
    torch.manual_seed(0)
    g = random_graph()
    layer = layer().double()
    pair = hasattr(layer, "fc_src")
    width = 4 if pair or not hasattr(layer, "fc") else layer.fc.in_features
    feat = torch.randn(30, *shape, width, dtype=torch.double, requires_grad=True)

    def call(rows):
        return layer(g, (rows, rows) if pair else rows)

    slices = feat.flatten(1, -2).unbind(1)
    expected = torch.stack([call(part) for part in slices], 1).unflatten(1, shape)
    torch.testing.assert_close(call(feat), expected)
    seed = torch.randn_like(expected)
    found, wanted = (torch.autograd.grad(y, feat, seed)[0] for y in (call(feat), expected))
    torch.testing.assert_close(found, wanted)


def test_attention_and_edge_weights_of_slices():
    torch.manual_seed(0)
    g, layer = random_graph(), sg.nn.GATConv(4, 2, 3).double()
    feat = torch.randn(30, 5, 4, dtype=torch.double)
    weight = torch.rand(g.num_edges(), dtype=torch.double)
    rows, attention = layer(g, feat, edge_weight=weight, get_attention=True)
    for n in range(5):
        expected, own = layer(g, feat[:, n], edge_weight=weight, get_attention=True)
        torch.testing.assert_close(rows[:, n], expected)
        torch.testing.assert_close(attention[:, n], own)


# ---- GATConv ----


def pyg_gat(ours, heads, out_feats):
    pyg = pytest.importorskip("torch_geometric.nn")
    theirs = pyg.GATConv(ours._in_src_feats, out_feats, heads, add_self_loops=False).double()
    with torch.no_grad():
        ours.bias.uniform_()
        theirs.lin.weight.copy_(ours.fc.weight)
        theirs.att_src.copy_(ours.attn_l)
        theirs.att_dst.copy_(ours.attn_r)
        theirs.bias.copy_(ours.bias)
    return theirs


def test_gat_conv_gradients_that_can_be_differentiated_are_the_same():
    """The scores are made of the values, whose gradient must not count them twice."""
    g, layer = random_graph(), sg.nn.GATConv(7, 5, 2).double()
    x = torch.rand(30, 7, dtype=torch.double, requires_grad=True)
    inputs = [x, *layer.parameters()]
    plain = torch.autograd.grad(layer(g, x).square().sum(), inputs)
    again = torch.autograd.grad(layer(g, x).square().sum(), inputs, create_graph=True)
    for a, b in zip(plain, again):
        torch.testing.assert_close(a, b)


def test_gat_conv_for_a_pair_takes_a_pair():
    g = random_graph()
    with pytest.raises(smex.SmexValueError, match="GATConv: made for a pair of sizes"):
        sg.nn.GATConv((5, 5), 2, 2)(g, torch.ones(30, 5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_graph_conv_with_more_neighbours_than_a_half_counts(dtype):
    num = 70_000  # infinity in float16
    g = sg.graph((torch.arange(num), torch.zeros(num, dtype=torch.long)), num_nodes=num)
    layer = sg.nn.GraphConv(1, 1, norm="right", weight=False, bias=False, allow_zero_in_degree=True)
    found = layer(g, torch.ones(num, 1, dtype=dtype))
    torch.testing.assert_close(found[0].float(), torch.ones(1), rtol=0.01, atol=0)


@pytest.mark.parametrize(("heads", "out_feats"), [(1, 5), (8, 8), (3, 16), (2, 33)])
def test_gat_conv_equals_pyg(heads, out_feats):
    g = random_graph()
    x = torch.rand(30, 7, dtype=torch.double, requires_grad=True)
    ours = sg.nn.GATConv(7, out_feats, heads).double()
    theirs = pyg_gat(ours, heads, out_feats)
    found, expected = ours(g, x).flatten(1), theirs(x, edge_index(g))
    torch.testing.assert_close(found, expected)
    pairs = [
        (x, x),
        (ours.fc.weight, theirs.lin.weight),
        (ours.attn_l, theirs.att_src),
        (ours.attn_r, theirs.att_dst),
    ]
    one = torch.autograd.grad(found.square().sum(), [a for a, _ in pairs])
    other = torch.autograd.grad(expected.square().sum(), [b for _, b in pairs])
    for a, b in zip(one, other):
        torch.testing.assert_close(a, b)


def test_gat_conv_is_the_same_with_and_without_stored_weights():
    g, x = random_graph(), torch.rand(30, 7, dtype=torch.double)
    layer = sg.nn.GATConv(7, 4, 3, residual=True, activation=torch.tanh).double()
    plain = layer(g, x)
    stored, weight = layer(g, x, get_attention=True)
    torch.testing.assert_close(plain, stored)
    assert weight.shape == (g.num_edges(), 3, 1)
    sums = sg.ops.copy_e_sum(g, weight)
    torch.testing.assert_close(sums, torch.ones_like(sums))
    ones = torch.ones(g.num_edges(), dtype=torch.double)
    torch.testing.assert_close(plain, layer(g, x, edge_weight=ones))


def test_parameters_of_gat_conv_have_the_names_of_dgl():
    def shapes(*sizes, **options):
        layer = sg.nn.GATConv(*sizes, **options)
        return {name: list(value.shape) for name, value in layer.state_dict().items()}

    attention = {"attn_l": [1, 2, 3], "attn_r": [1, 2, 3]}
    own = {**attention, "bias": [6], "fc.weight": [6, 6]}
    assert shapes(6, 3, 2) == shapes(6, 3, 2, residual=True) == own
    residual = {"res_fc.weight": [6, 4], "res_fc.bias": [6], "fc.weight": [6, 4]}
    assert shapes(4, 3, 2, residual=True) == {**attention, **residual}
    del residual["res_fc.bias"]
    assert shapes(4, 3, 2, residual=True, bias=False) == {**attention, **residual}


def test_gat_conv_adds_the_bias_of_its_projected_residual():
    g, x = random_graph(), torch.rand(30, 4)
    layer, plain = sg.nn.GATConv(4, 3, 2, residual=True), sg.nn.GATConv(4, 3, 2, bias=False)
    torch.nn.init.normal_(layer.res_fc.bias)
    plain.load_state_dict(layer.state_dict(), strict=False)
    expected = plain(g, x) + layer.res_fc(x).unflatten(1, (2, 3))
    torch.testing.assert_close(layer(g, x), expected)


def test_gat_conv_drops_attention_in_training_only():
    g, x = random_graph(), torch.rand(30, 7)
    layer = sg.nn.GATConv(7, 4, 3, attn_drop=0.5)
    assert not torch.equal(layer(g, x), layer(g, x))
    layer.eval()
    assert torch.equal(layer(g, x), layer(g, x))


def test_gat_conv_on_a_bipartite_graph_and_a_block():
    g = sg.heterograph({("a", "r", "b"): ([0, 1, 2, 2], [0, 0, 1, 2])})
    layer = sg.nn.GATConv((5, 4), 3, 2)
    assert layer(g, (torch.rand(3, 5), torch.rand(3, 4))).shape == (3, 2, 3)
    whole = random_graph()
    block = sg.to_block(sg.in_subgraph(whole, [3, 7]), [3, 7])
    layer = sg.nn.GATConv(5, 3, 2, residual=True).double()
    x = torch.rand(30, 5, dtype=torch.double)
    expected = layer(whole, x)[[3, 7]]
    torch.testing.assert_close(layer(block, x[block.srcdata[sg.NID]]), expected)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_two_layers_compile_without_a_graph_break(backend):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = sg.nn.GATConv(7, 4, 2)
            self.second = sg.nn.GraphConv(8, 3)

        def forward(self, g, x):
            return self.second(g, self.first(g, x).flatten(1).relu())

    net, g, x = Net(), random_graph(), torch.rand(30, 7)
    compiled = torch.compile(net, fullgraph=True, backend=backend)
    found, expected = compiled(g, x), net(g, x)
    torch.testing.assert_close(found, expected)
    found_grads = torch.autograd.grad(found.square().sum(), list(net.parameters()))
    grads = torch.autograd.grad(expected.square().sum(), list(net.parameters()))
    for a, b in zip(found_grads, grads):
        torch.testing.assert_close(a, b)


def test_layers_one_after_another():
    g, x = random_graph(), torch.rand(30, 16)
    one, two = sg.nn.GraphConv(16, 8), sg.nn.GINConv(nn.Linear(8, 4))
    net = sg.nn.Sequential(one, two)
    assert torch.equal(net(g, x), two(g, one(g, x)))
    other = sg.reverse(g)
    assert torch.equal(net([g, other], x), two(other, one(g, x)))
    pair = sg.nn.GatedGCNConv(16, 16, 16, batch_norm=False)
    e = torch.rand(g.num_edges(), 16)
    for found, expected in zip(sg.nn.Sequential(pair, pair)(g, x, e), pair(g, *pair(g, x, e))):
        assert torch.equal(found, expected)


def test_layers_pickle(tmp_path):
    layer = sg.nn.GATConv(7, 4, 2)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    other = sg.nn.GATConv(7, 4, 2)
    other.load_state_dict(torch.load(tmp_path / "layer.pt"))
    g, x = random_graph(), torch.rand(30, 7)
    assert torch.equal(layer(g, x), other(g, x))


def test_layers_under_autocast():
    g, x = random_graph(), torch.rand(30, 16)
    for layer in (sg.nn.GraphConv(16, 8), sg.nn.GATConv(16, 8, 2)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = layer(g, x)
        torch.testing.assert_close(low.float(), layer(g, x), rtol=0.05, atol=0.05)
        low.float().sum().backward()

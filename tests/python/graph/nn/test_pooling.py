"""Layers from nodes to graphs, against each graph of the batch by itself."""

import pytest
import torch
import torch.nn.functional as F

import smex.graph as sg

nn = sg.nn
D = 4
SIZES = [3, 1, 0, 5]


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return sg.batch([sg.rand_graph(n, n) for n in SIZES])


def rows(g):
    return torch.randn(g.num_nodes(), D, dtype=torch.double, requires_grad=True)


def attention_pooling(layer, x):
    return (layer.gate_nn(x).softmax(0) * layer.feat_nn(x)).sum(0)


def set2set(layer, x):
    state = (torch.zeros(2, 1, D, dtype=x.dtype),) * 2
    answer = torch.zeros(1, 2 * D, dtype=x.dtype)
    for _ in range(layer.n_iters):
        query, state = layer.lstm(answer.unsqueeze(0), state)
        weight = (x @ query[0, 0]).softmax(0)
        answer = torch.cat([query[0], (weight @ x).unsqueeze(0)], 1)
    return answer[0]


def sort_pooling(layer, x):
    ordered = x.sort(1).values
    chosen = ordered[ordered[:, -1].argsort(descending=True)][: layer.k]
    return F.pad(chosen, (0, 0, 0, layer.k - len(chosen))).flatten()


def attention(mha, x, memory):
    heads = (mha.num_heads, mha.d_head)
    q, k, v = (
        p(t).unflatten(1, heads)
        for p, t in ((mha.proj_q, x), (mha.proj_k, memory), (mha.proj_v, memory))
    )
    weight = (torch.einsum("xhd,yhd->hxy", q, k) / heads[1] ** 0.5).softmax(-1)
    x = mha.norm_in(x + mha.proj_o(torch.einsum("hxy,yhd->xhd", weight, v).flatten(1)))
    return mha.norm_inter(x + mha.ffn(x))


def encoder(layer, x):
    for block in layer.layers:
        if layer.block_type == "sab":
            x = attention(block.mha, x, x)
        else:
            x = attention(block.mha[1], x, attention(block.mha[0], block.inducing_points, x))
    return x


def decoder(layer, x):
    x = attention(layer.pma.mha, layer.pma.seed_vectors, layer.pma.ffn(x))
    for block in layer.layers:
        x = attention(block.mha, x, x)
    return x.flatten()


LAYERS = [
    (nn.SumPooling, lambda layer, x: x.sum(0)),
    (nn.AvgPooling, lambda layer, x: x.mean(0)),
    (nn.MaxPooling, lambda layer, x: x.amax(0)),
    (lambda: nn.SortPooling(2), sort_pooling),
    (lambda: nn.WeightAndSum(D), lambda layer, x: (layer.atom_weighting(x) * x).sum(0)),
    (lambda: nn.GlobalAttentionPooling(torch.nn.Linear(D, 1), torch.nn.Linear(D, 3)), attention_pooling),
    (lambda: nn.Set2Set(D, 3, 2), set2set),
    (lambda: nn.SetTransformerDecoder(D, 2, 3, 6, 2, 3), decoder),
]  # fmt: skip
NAMES = [make().__class__.__name__ for make, _ in LAYERS]


@pytest.mark.parametrize(("make", "formula"), LAYERS, ids=NAMES)
def test_pooling_equals_each_graph_by_itself(batch, make, formula):
    layer, x = make().double(), rows(batch)
    found = layer(batch, x)
    parts = x.split(SIZES)
    expected = [formula(layer, part) for part in parts if len(part)]
    present = [i for i, n in enumerate(SIZES) if n]
    torch.testing.assert_close(found[present], torch.stack(expected))
    assert found.shape[0] == len(SIZES) and found.isfinite().all()
    inputs = [x, *layer.parameters()]
    ours = torch.autograd.grad(found[present].sin().sum(), inputs)
    theirs = torch.autograd.grad(torch.stack(expected).sin().sum(), inputs)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(("make", "formula"), LAYERS[:5], ids=NAMES[:5])
def test_a_graph_without_nodes_pools_to_zero(batch, make, formula):
    assert not make().double()(batch, rows(batch))[SIZES.index(0)].any()


@pytest.mark.parametrize(("make", "formula"), LAYERS, ids=NAMES)
def test_pooling_under_autocast(batch, make, formula):
    layer, x = make(), rows(batch).detach().float().requires_grad_()
    expected = layer(batch, x)
    onednn = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # else its LSTM refuses bfloat16
    with torch.backends.mkldnn.flags(enabled=onednn), torch.autocast("cpu", torch.bfloat16):
        found = layer(batch, x)
    torch.testing.assert_close(found.float(), expected, rtol=0.1, atol=0.1)
    found.float().sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("options", [{}, {"n_layers": 2}, {"block_type": "isab", "m": 3}])
def test_set_transformer_encoder(batch, options):
    layer, x = nn.SetTransformerEncoder(D, 2, 3, 6, **options).double(), rows(batch)
    expected = torch.cat([encoder(layer, part) for part in x.split(SIZES)])
    torch.testing.assert_close(layer(batch, x), expected)


def test_global_attention_returns_its_weights(batch):
    layer, x = nn.GlobalAttentionPooling(torch.nn.Linear(D, 1)).double(), rows(batch)
    pooled, weight = layer(batch, x, get_attention=True)
    torch.testing.assert_close(pooled, layer(batch, x))
    expected = torch.cat([layer.gate_nn(part).softmax(0) for part in x.split(SIZES)])
    torch.testing.assert_close(weight, expected)


@pytest.mark.parametrize("norm_type", ["sym", "row"])
@pytest.mark.parametrize("options", [{}, {"clamp": False}, {"normalize": True}, {"reset": True}])
def test_label_propagation(norm_type, options):
    torch.manual_seed(0)
    g = sg.rand_graph(8, 30)
    labels, mask = torch.randint(3, (8,)), torch.tensor([0, 3, 4])
    matrix = torch.zeros(8, 8).index_put((g.edges()[1], g.edges()[0]), torch.ones(()), True)
    ins, outs = g.in_degrees().clamp(min=1.0), g.out_degrees().clamp(min=1.0)
    matrix = matrix / ins[:, None] if norm_type == "row" else matrix / (ins[:, None] * outs).sqrt()
    hot = F.one_hot(labels).float()
    known = torch.zeros_like(hot).index_copy(0, mask, hot[mask])
    y = known
    for _ in range(4):
        y = 0.7 * matrix @ y + 0.3 * known
        if options.get("clamp", True):
            y = y.clamp(0, 1)
        if options.get("normalize"):
            y = y / y.sum(1, keepdim=True).clamp(min=1e-12)
        if options.get("reset"):
            y[mask] = hot[mask]
    layer = nn.LabelPropagation(4, 0.7, norm_type, **options)
    torch.testing.assert_close(layer(g, labels, mask), y)
    is_known = torch.zeros(8, dtype=torch.bool).index_fill(0, mask, True)
    torch.testing.assert_close(layer(g, hot, is_known), y)


def test_label_propagation_equals_pyg():
    pyg = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
    g = sg.to_bidirected(sg.remove_self_loop(sg.rand_graph(8, 20)))
    labels, mask = torch.randint(3, (8,)), torch.arange(8) < 4
    expected = pyg.LabelPropagation(5, 0.6)(labels, torch.stack(g.edges()), mask)
    torch.testing.assert_close(nn.LabelPropagation(5, 0.6)(g, labels, mask), expected)


@pytest.mark.parametrize("op", ["dot", "cos", "ele", "cat"])
def test_edge_predictor(op):
    a, b = torch.randn(6, D), torch.randn(6, D)
    plain = {
        "dot": (a * b).sum(1, keepdim=True),
        "cos": (a * b).sum(1, keepdim=True) / (a.norm(dim=1) * b.norm(dim=1))[:, None],
        "ele": a * b,
        "cat": torch.cat([a, b], 1),
    }[op]
    torch.testing.assert_close(nn.EdgePredictor(op)(a, b), plain)
    layer = nn.EdgePredictor(op, D, 3, bias=True)
    layer.reset_parameters()
    torch.testing.assert_close(layer(a, b), plain @ layer.linear.weight.T + layer.linear.bias)


@pytest.mark.parametrize("p", [1, 2])
def test_scores_of_triples(p):
    a, b, relations = torch.randn(6, D), torch.randn(6, D), torch.tensor([1, 0, 2, 1, 0, 0])
    one, other = nn.TransE(3, D, p), nn.TransR(3, 2, D, p)
    one.reset_parameters(), other.reset_parameters()
    translated = a + one.rel_emb.weight[relations] - b
    torch.testing.assert_close(
        one(a, b, relations), -torch.linalg.vector_norm(translated, p, dim=1)
    )
    matrices = other.rel_project.weight[relations].view(6, D, 2)
    projected = torch.einsum("ni,nio->no", a, matrices) - torch.einsum("ni,nio->no", b, matrices)
    translated = projected + other.rel_emb.weight[relations]
    torch.testing.assert_close(
        other(a, b, relations), -torch.linalg.vector_norm(translated, p, dim=1)
    )


def test_odd_moments_of_principal_neighbourhood_aggregation():
    torch.manual_seed(0)
    g = sg.graph(
        tuple(x.flatten() for x in torch.meshgrid(torch.arange(7), torch.arange(7), indexing="ij"))
    )
    layer = nn.PNAConv(D, D, ["moment3", "moment5"], ["identity"], 1.0).double()
    x, tower = rows(g), layer.towers[0]
    ends = [x.unsqueeze(0).expand(7, 7, D), x.unsqueeze(1).expand(7, 7, D)]
    message = tower.M(torch.cat(ends, 2))
    centred = message - message.mean(1, keepdim=True)
    moments = [(centred**n).mean(1) for n in (3, 5)]
    roots = [m.sign() * m.abs() ** (1 / n) for m, n in zip(moments, (3, 5))]
    expected = layer.mixing_layer(tower.batchnorm(tower.U(torch.cat([x, *roots], 1)) / 7**0.5)) + x
    torch.testing.assert_close(layer(g, x), expected)

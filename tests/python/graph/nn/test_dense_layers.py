"""Layers on matrices and padded batches, against layers on graphs and those of torch."""

import pytest
import torch

import smex
import smex.graph as sg

nn = sg.nn
IN, OUT = 5, 3


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def graph_and_matrix(num_src=9, num_dst=7):
    adjacency = (torch.rand(num_dst, num_src) < 0.4).double()
    dst, src = adjacency.nonzero(as_tuple=True)
    g = sg.heterograph({("a", "r", "b"): (src, dst)}, {"a": num_src, "b": num_dst})
    return g, adjacency


@pytest.mark.parametrize("norm", ["none", "both", "right"])
@pytest.mark.parametrize("out_feats", [3, 8])
def test_graph_conv(norm, out_feats):
    g, adjacency = graph_and_matrix()
    dense, sparse = (
        kind(IN, out_feats, norm).double() for kind in (nn.DenseGraphConv, nn.GraphConv)
    )
    sparse.load_state_dict(dense.state_dict())
    sparse.set_allow_zero_in_degree(True)
    x = torch.randn(9, IN, dtype=torch.double)
    torch.testing.assert_close(dense(adjacency, x), sparse(g, (x, x[:7])))


def test_sage_conv():
    g, adjacency = graph_and_matrix()
    dense, sparse = nn.DenseSAGEConv(IN, OUT).double(), nn.SAGEConv(IN, OUT, "gcn").double()
    with torch.no_grad():
        sparse.fc_neigh.weight.copy_(dense.fc.weight)
        sparse.bias.copy_(dense.fc.bias)
    pair = (torch.randn(9, IN, dtype=torch.double), torch.randn(7, IN, dtype=torch.double))
    torch.testing.assert_close(dense(adjacency, pair), sparse(g, pair))


@pytest.mark.parametrize("largest", [None, 1.6])
def test_cheb_conv(largest):
    half = (torch.rand(8, 8) < 0.4).double().triu(1)
    adjacency = half + half.T
    g = sg.graph(adjacency.nonzero(as_tuple=True), num_nodes=8)
    dense, sparse = nn.DenseChebConv(IN, OUT, 4).double(), nn.ChebConv(IN, OUT, 4, None).double()
    with torch.no_grad():
        dense.bias.uniform_()
        sparse.linear.weight.copy_(dense.W.flatten(0, 1).T)
        sparse.linear.bias.copy_(dense.bias)
    scale = adjacency.sum(1).clamp(min=1) ** -0.5
    laplacian = torch.eye(8, dtype=torch.double) - scale[:, None] * adjacency * scale
    found = torch.linalg.eigvalsh(laplacian).max() if largest is None else largest
    x = torch.randn(8, IN, dtype=torch.double)
    torch.testing.assert_close(dense(adjacency, x, largest), sparse(g, x, [float(found)]))


def copy_attention(ours, theirs):
    projections = (ours.q_proj, ours.k_proj, ours.v_proj)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
        theirs.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
        theirs.out_proj.weight.copy_(ours.out_proj.weight)
        theirs.out_proj.bias.copy_(ours.out_proj.bias)


def padded():
    x = torch.randn(4, 6, 8, dtype=torch.double)
    bias = torch.randn(4, 6, 6, 2, dtype=torch.double)
    mask = (torch.rand(4, 6, 6) < 0.3) & ~torch.eye(6, dtype=torch.bool)
    together = bias.masked_fill(mask.unsqueeze(-1), -torch.inf).permute(0, 3, 1, 2).flatten(0, 1)
    return x, bias, mask, together


def test_attention_with_a_bias_equals_torch():
    ours = nn.BiasedMHA(8, 2, attn_drop=0).double()
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True).double()
    copy_attention(ours, theirs)
    x, bias, mask, together = padded()
    expected = theirs(x, x, x, attn_mask=together, need_weights=False)[0]
    torch.testing.assert_close(ours(x, bias, mask), expected)
    plain = theirs(x, x, x, need_weights=False)[0]
    torch.testing.assert_close(ours(x), plain)
    hidden = theirs(x, x, x, attn_mask=mask.repeat_interleave(2, 0), need_weights=False)[0]
    torch.testing.assert_close(ours(x, attn_mask=mask), hidden)


def test_attention_times_a_bias():
    layer = nn.BiasedMHA(8, 2, attn_bias_type="mul", attn_drop=0).double()
    x, bias, mask, _ = padded()
    q, k, v = (p(x).view(4, 6, 2, 4) for p in (layer.q_proj, layer.k_proj, layer.v_proj))
    score = torch.einsum("bxhd,byhd->bxyh", q, k) / 2 * bias
    weight = score.masked_fill(mask.unsqueeze(-1), -torch.inf).softmax(2)
    expected = layer.out_proj(torch.einsum("bxyh,byhd->bxhd", weight, v).flatten(2))
    torch.testing.assert_close(layer(x, bias, mask), expected)


@pytest.mark.parametrize("norm_first", [False, True])
def test_graphormer_layer_equals_torch(norm_first):
    ours = nn.GraphormerLayer(8, 16, 2, norm_first=norm_first, dropout=0, attn_dropout=0).double()
    theirs = torch.nn.TransformerEncoderLayer(
        8, 2, 16, 0.0, batch_first=True, norm_first=norm_first
    ).double()
    copy_attention(ours.attn, theirs.self_attn)
    pairs = [(ours.ffn[0], theirs.linear1), (ours.ffn[3], theirs.linear2)]
    pairs += [(ours.attn_layer_norm, theirs.norm1), (ours.ffn_layer_norm, theirs.norm2)]
    for a, b in pairs:
        b.load_state_dict(a.state_dict())
    x, bias, mask, together = padded()
    torch.testing.assert_close(ours(x, bias, mask), theirs(x, src_mask=together))


@pytest.mark.parametrize("kind", ["add", "mul"])
def test_graphormer_layer_under_autocast(kind):
    layer = nn.GraphormerLayer(8, 16, 2, attn_bias_type=kind).eval()
    x, bias, mask, _ = padded()
    expected = layer(x.float(), bias.float(), mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(x.float(), bias.float(), mask)
    torch.testing.assert_close(found.float(), expected, rtol=0.1, atol=0.1)


def test_degrees_have_vectors():
    g = sg.graph(([0, 0, 0, 1], [1, 2, 3, 2]))
    degrees = torch.stack([g.in_degrees(), g.out_degrees()]).unsqueeze(1)
    layer = sg.nn.DegreeEncoder(2, 5)
    into, out = layer.encoder1.weight, layer.encoder2.weight
    expected = torch.stack([out[2], into[1] + out[1], into[2], into[1]])  # 3 counts as 2
    torch.testing.assert_close(layer(degrees), expected.unsqueeze(0))
    alone = sg.nn.DegreeEncoder(2, 5, direction="in")
    torch.testing.assert_close(alone(degrees[0])[0, 2], alone.encoder.weight[2])
    for wrong in (degrees[0], degrees[:1]):
        with pytest.raises(smex.SmexValueError, match="DegreeEncoder: expected degrees"):
            layer(wrong)
    with pytest.raises(smex.SmexValueError, match="direction must be one of in, out, both"):
        sg.nn.DegreeEncoder(2, 5, direction="down")


def test_distances_have_biases():
    dist = sg.shortest_dist(sg.graph(([0, 1, 2], [1, 2, 3]))).unsqueeze(0)
    layer = sg.nn.SpatialEncoder(max_dist=2, num_heads=3)
    found, table = layer(dist), layer.embedding_table.weight
    for u in range(4):
        for v in range(4):
            expected = torch.zeros(3) if v < u else table[min(v - u, 2) + 1]
            torch.testing.assert_close(found[0, u, v], expected)


def test_paths_have_biases():
    g = sg.graph(([0, 1, 2, 0], [1, 2, 3, 2]))
    feat = torch.cat([torch.rand(4, 5), torch.zeros(1, 5)])
    dist, path = sg.shortest_dist(g, return_paths=True)
    layer = nn.PathEncoder(max_len=2, feat_dim=5, num_heads=3)
    table = layer.embedding_table.weight.view(2, 3, 5)
    found = layer(dist[None], feat[path[..., :2]][None])[0]
    torch.testing.assert_close(found[0, 2], table[0] @ feat[3])
    torch.testing.assert_close(found[0, 3], (table[0] @ feat[3] + table[1] @ feat[2]) / 2)
    assert not found[3].any() and not found.diagonal().any()
    torch.testing.assert_close(layer(dist[None], feat[path[..., :1]][None])[0, 0, 1], found[0, 1])
    with pytest.raises(smex.SmexValueError, match="PathEncoder: expected the features of paths"):
        layer(dist[None], feat[path.repeat(1, 1, 2)][None])


@pytest.mark.parametrize("typed", [False, True])
def test_places_have_biases(typed):
    layer = nn.SpatialEncoder3d(4, num_heads=3, max_node_type=2).double()
    with torch.no_grad():
        layer.gamma.weight.uniform_()
        layer.beta.weight.uniform_()
    coord = torch.rand(2, 5, 3, dtype=torch.double)
    types = torch.tensor([[0, 1, 1, 0, -1], [1, 0, 0, 1, 1]]) if typed else None
    found = layer(coord, types)
    std, pi = layer.stds.abs() + 1e-2, torch.pi
    for b, u, v in torch.cartesian_prod(*map(torch.arange, (2, 5, 5))).tolist():
        rows = [int(types[b, u]) + 2, int(types[b, v]) + 5] if typed else [0, 0]
        gamma, beta = (table.weight[rows].sum() for table in (layer.gamma, layer.beta))
        place = gamma * (coord[b, u] - coord[b, v]).norm() + beta
        density = torch.exp(-0.5 * ((place - layer.means) / std) ** 2) / ((2 * pi) ** 0.5 * std)
        hidden = torch.nn.functional.gelu(layer.linear_layer_1(density))
        torch.testing.assert_close(found[b, u, v], layer.linear_layer_2(hidden))
    for wrong in (coord[0], coord[:, :3]):
        with pytest.raises(smex.SmexValueError, match="SpatialEncoder3d: expected points"):
            layer(wrong, torch.zeros(2, 5, dtype=torch.long))


@pytest.mark.parametrize("kind", ["Transformer", "DeepSet"])
@pytest.mark.parametrize("options", [{}, {"batch_norm": True, "num_post_layer": 2}], ids=str)
def test_eigenvectors_have_positions(kind, options):
    values, vectors = torch.rand(7, 4), torch.randn(7, 4, requires_grad=True)
    values[2:, 3] = values[5] = torch.nan
    layer = nn.LapPosEncoder(kind, 2, 4, 8, n_head=2, **options).eval()
    found = layer(values, vectors)
    for node in range(7):
        known = values[node].nan_to_num()
        pairs = torch.stack([vectors[node], known], -1)
        if layer.raw_norm is not None:
            pairs = pairs / (1 + layer.raw_norm.eps) ** 0.5
        rows = layer.pe_encoder(layer.linear(pairs[~values[node].isnan()])[None])[0].sum(0)
        rows = rows if layer.post_mlp is None else layer.post_mlp(rows)
        torch.testing.assert_close(found[node], rows)
    found.square().sum().backward()
    assert vectors.grad.isfinite().all() and vectors.grad[:2].all() and not vectors.grad[5].any()


def test_mistakes_with_eigenvectors():
    with pytest.raises(smex.SmexValueError, match="model_type must be one of Transformer, DeepSet"):
        nn.LapPosEncoder("MLP", 2, 4, 8)
    with pytest.raises(smex.SmexValueError, match="LapPosEncoder: expected eigenvalues and"):
        nn.LapPosEncoder("DeepSet", 2, 4, 8)(torch.rand(7, 4), torch.rand(7, 3))


@pytest.mark.parametrize("masked", [False, True])
def test_edge_augmented_transformer(masked):
    layer = nn.EGTLayer(6, 4, num_heads=2, num_virtual_nodes=1).double()
    x, e = (torch.randn(*size, dtype=torch.double) for size in ((2, 5, 6), (2, 5, 5, 4)))
    hidden = torch.eye(5, dtype=torch.double).roll(1, 0) > 0
    mask = torch.zeros(2, 5, 5, dtype=torch.double).masked_fill(hidden, -torch.inf)
    nodes, pairs = layer(x, e, mask if masked else None)
    q, k, v = (part.view(2, 5, 3, 2) for part in layer.qkv_proj(layer.mha_ln_h(x)).chunk(3, -1))
    norm = layer.mha_ln_e(e)
    rows, scores = [], []
    for b, u in torch.cartesian_prod(torch.arange(2), torch.arange(5)).tolist():
        seen = [w for w in range(5) if not (masked and hidden[u, w])]
        dots = (q[b, u] * k[b]).sum(1).clamp(-5, 5) + layer.edge_input(norm[b, u])  # [w, heads]
        gate = layer.gate(norm[b, u]).sigmoid()[seen]
        mixed = ((dots[seen].softmax(0) * gate).unsqueeze(1) * v[b, seen]).sum(0)
        mixed = mixed if u == 0 else mixed * (1 + gate.sum(0)).log()
        rows.append(layer.node_output(mixed.flatten()))
        scores.append(layer.edge_output(dots))
    x = x + torch.stack(rows).view(2, 5, 6)
    e = e + torch.stack(scores).view(2, 5, 5, 4)
    torch.testing.assert_close(nodes, x + layer.node_ffn(x))
    torch.testing.assert_close(pairs, e + layer.edge_ffn(e))


def test_edge_augmented_transformer_of_nodes_alone():
    layer = nn.EGTLayer(6, 4, 2, 0, edge_update=False)
    assert layer(torch.rand(2, 5, 6), torch.rand(2, 5, 5, 4)).shape == (2, 5, 6)
    assert not any(name.startswith("edge_ffn") for name in layer.state_dict())
    with pytest.raises(smex.SmexValueError, match="EGTLayer: expected nodes .batch, nodes, 6."):
        layer(torch.rand(2, 5, 6), torch.rand(2, 5, 4, 4))
    with pytest.raises(smex.SmexValueError, match="num_heads must divide feat_size, found 4 and 6"):
        nn.EGTLayer(6, 4, 4, 0)

"""More of the table of layers: those of pairs of ends, of edges' features and of statistics."""

import torch
import torch.nn.functional as F

from support.layer_cases import (
    IN,
    NUM_TYPES,
    ONE_TENSOR,
    OUT,
    SQUARE,
    Case,
    edge_rows,
    edge_types,
    edge_weights,
    nn,
    weighted_normalised,
)

# ---- formulas ----


def gated_graph(layer, d, x, y, types=None):
    types = torch.zeros(len(d.u), dtype=torch.long) if types is None else types
    weight = torch.stack([linear.weight for linear in layer.linears])[types]
    bias = torch.stack([linear.bias for linear in layer.linears])[types]
    hidden = F.pad(x, (0, layer._out_feats - x.shape[1]))
    for _ in range(layer._n_steps):
        message = torch.einsum("ei,eoi->eo", d.at_src(hidden), weight) + bias
        hidden = layer.gru(d.sum(message), hidden)
    return hidden


def with_residual(layer, result, own):
    result = result if layer.res_fc is None else result + layer.res_fc(own)
    return result if layer.bias is None else result + layer.bias


def nn_conv(reduce):
    def formula(layer, d, x, y, e):
        matrices = layer.edge_func(e).view(len(e), IN, OUT)
        message = d.at_src(x).unsqueeze(-1) * matrices
        return with_residual(layer, d.reduce(reduce, message).sum(1), y)

    return formula


def gmm(reduce):
    def formula(layer, d, x, y, e):
        distance = (e.unsqueeze(1) - layer.mu) * layer.inv_sigma
        weight = torch.exp(-0.5 * (distance**2).sum(-1, keepdim=True))
        message = d.at_src(layer.fc(x)).unflatten(-1, (*weight.shape[1:2], -1)) * weight
        return with_residual(layer, d.reduce(reduce, message).sum(1), y)

    return formula


def edge_conv(layer, d, x, y):
    message = layer.theta(d.at_dst(y) - d.at_src(x)) + layer.phi(d.at_dst(y))
    return d.max(layer.bn(message) if layer.batch_norm else message)


def dot_gat(layer, d, x, y):
    heads = (layer._num_heads, layer._out_feats)
    own = layer.fc_dst if layer._pair else layer.fc
    left = (layer.fc_src if layer._pair else layer.fc)(x).unflatten(-1, heads)
    score = (d.at_src(left) * d.at_dst(own(y).unflatten(-1, heads))).sum(-1, keepdim=True)
    return d.sum(d.at_src(left) * d.softmax(score / heads[1] ** 0.5))


def agnn(layer, d, x, y):
    score = layer.beta * F.cosine_similarity(d.at_src(x), d.at_dst(y)).unsqueeze(-1)
    return d.sum(d.at_src(x) * d.softmax(score))


def statistic(d, name, message):
    """What a node makes of its messages, written for each node alone."""
    rows = []
    for node in range(d.num_dst):
        mine = message[d.v == node]
        if not len(mine):
            rows.append(message.new_zeros(message.shape[1]))
        elif name in ("var", "std"):
            var = mine.var(0, unbiased=False)
            rows.append(var if name == "var" else (var + 1e-30).sqrt())
        elif name.startswith("moment"):
            moment = ((mine - mine.mean(0)) ** int(name[-1])).mean(0)
            rows.append(moment.sign() * (moment.abs() + 1e-30) ** (1 / int(name[-1])))
        else:
            found = getattr(mine, name)(0)
            rows.append(found if isinstance(found, torch.Tensor) else found.values)
    return torch.stack(rows)


def pna(layer, d, x, y, e=None):
    results = []
    width = layer.tower_in_size
    for n, tower in enumerate(layer.towers):
        part = x[:, n * width : (n + 1) * width]
        ends = [d.at_src(part), d.at_dst(part), *([] if e is None else [e])]
        message = tower.M(torch.cat(ends, 1))
        reduced = torch.cat([statistic(d, name, message) for name in tower.aggregators], 1)
        log = (d.ins.clamp(min=1) + 1).log()
        scale = {
            "identity": 1,
            "amplification": log / tower.delta,
            "attenuation": tower.delta / log,
        }
        scaled = [reduced * scale[name] for name in tower.scalers]
        results.append(tower.batchnorm(tower.U(torch.cat([part, *scaled], 1)) / d.num_dst**0.5))
    result = layer.mixing_layer(torch.cat(results, 1))
    return result + x if layer.residual else result


def dgn(layer, d, x, y, e, eig):
    """Directions written for each node alone, as eq. 5 and 6 have them."""
    results = []
    width = layer.tower_in_size
    field = torch.zeros(0) if eig is None else d.at_src(eig) - d.at_dst(eig)
    for n, tower in enumerate(layer.towers):
        part = x[:, n * width : (n + 1) * width]
        ends = [d.at_src(part), d.at_dst(part), *([] if e is None else [e])]
        message = tower.M(torch.cat(ends, 1))
        columns = []
        for name in tower.aggregators:
            if not name.startswith("dir"):
                columns.append(statistic(d, name, message))
                continue
            along = field[:, int(name[3]) - 1]
            size = d.sum(along.abs()[:, None]).clamp(min=1e-30)
            share = (along.abs() if name.endswith("av") else along)[:, None] / d.at_dst(size)
            if name.endswith("av"):
                columns.append(d.sum(message * share))
            else:
                columns.append(d.sum((message - d.at_dst(part)) * share).abs())
        log = (d.ins.clamp(min=1) + 1).log()
        reduced = torch.cat(columns, 1)
        scaled = [reduced, reduced * log / tower.delta]
        results.append(tower.batchnorm(tower.U(torch.cat([part, *scaled], 1)) / d.num_dst**0.5))
    result = layer.mixing_layer(torch.cat(results, 1))
    return result + x if layer.residual else result


def eigenvectors(num_features, num_vectors):
    def extra(g):
        torch.manual_seed(5)
        vectors = torch.randn(g.num_nodes(), num_vectors, dtype=torch.double)
        return (*(edge_rows(num_features)(g) if num_features else (None,)), vectors)

    return extra


def gcn2(layer, d, x, y, first, w=None):
    matrix = d.normalised() if w is None else weighted_normalised(d, w)
    eye = torch.eye(IN, dtype=x.dtype)
    one = (1 - layer.beta) * eye + layer.beta * layer.weight1
    other = one if layer.weight2 is None else (1 - layer.beta) * eye + layer.beta * layer.weight2
    return (1 - layer.alpha) * matrix @ x @ one + layer.alpha * first @ other + layer.bias


def egat(layer, d, x, y, e, w=None):
    heads = (layer._num_heads, -1)
    edges = d.at_src(layer.fc_ni(x)) + d.at_dst(layer.fc_nj(y)) + layer.fc_fij(e) + layer.bias
    edges = F.leaky_relu(edges).unflatten(-1, heads)
    weight = d.softmax((edges * layer.attn).sum(-1, keepdim=True))
    weight = weight if w is None else weight * w[:, None, None]
    return d.sum(d.at_src(layer.fc_node_src(x)).unflatten(-1, heads) * weight), edges


def edge_gat(layer, d, x, y, e):
    heads = (layer._num_heads, -1)
    left, right = (layer.fc_src, layer.fc_dst) if layer._pair else (layer.fc, layer.fc)
    value, edges = d.at_src(left(x)).unflatten(-1, heads), layer.fc_edge(e).unflatten(-1, heads)
    own = d.at_dst(right(y)).unflatten(-1, heads)
    score = (value * layer.attn_l + own * layer.attn_r + edges * layer.attn_edge).sum(-1, True)
    result = d.sum((value + edges) * d.softmax(F.leaky_relu(score, 0.2)))
    result = result + layer.bias.unflatten(-1, heads)
    return result if layer.res_fc is None else result + layer.res_fc(y).unflatten(-1, heads)


def gated_gcn(layer, d, x, y, e):
    edges = d.at_src(layer.D(x)) + d.at_dst(layer.E(x)) + layer.C(e)
    gate = edges.sigmoid()
    nodes = layer.A(x) + d.sum(gate * d.at_src(layer.B(x))) / (d.sum(gate) + 1e-6)
    if layer.batch_norm:
        nodes, edges = layer.bn_node(nodes), layer.bn_edge(edges)
    nodes, edges = F.relu(nodes), F.relu(edges)
    return (x + nodes, e + edges) if layer.residual else (nodes, edges)


def egnn(layer, d, x, y, points, e=None):
    difference = d.at_src(points) - d.at_dst(points)
    distance = difference.norm(dim=1, keepdim=True)
    parts = [d.at_src(x), d.at_dst(x), distance**2, *([] if e is None else [e])]
    message = layer.edge_mlp(torch.cat(parts, 1))
    nodes = layer.node_mlp(torch.cat([x, d.sum(message)], 1))
    direction = difference / distance.where(distance > 0, 1)
    return nodes, points + d.mean(direction * layer.coord_mlp(message))


def cfconv(layer, d, x, y, e):
    return layer.project_out(d.sum(d.at_src(layer.project_node(x)) * layer.project_edge(e)))


def twirls(layer, d, x, y):
    """On the graph with a self-loop at each node, as a dense matrix."""
    steps = layer.unfolding
    eye = torch.eye(d.num_dst, dtype=x.dtype)
    there = d.adjacency * (1 - eye) + eye

    def weights(rows):
        rows = rows if steps.etas is None else rows * steps.etas
        distance = (rows.unsqueeze(0) - rows.unsqueeze(1)).pow(2).sum(-1)
        least = ((distance + 1e-7) ** (1 - 0.5 * reweighting.p)).clamp(min=reweighting.tau)
        beyond = (least > reweighting.T) & (reweighting.T > 0)
        return there * (torch.where(beyond, 0, 1 / least) + 1e-9)

    hidden = x
    for n, linear in enumerate(layer.mlp_bef.layers):
        hidden = linear(F.relu(hidden) if n else hidden)
    reweighting = steps.init_attn
    a = there if reweighting is None else weights(hidden)
    first = rows = hidden
    for n in range(steps.prop_step):
        degrees = a.sum(1)
        diagonal = steps.lam * degrees + 1 - steps.lam if steps.precond else degrees
        smooth = (a / (diagonal[:, None] * diagonal).sqrt()) @ rows
        if steps.precond:
            rows = (1 - steps.alp) * rows + steps.alp * (
                steps.lam * smooth + first / diagonal[:, None]
            )
        else:
            rows = rows + steps.alp * (steps.lam * (smooth - rows) + first - rows)
        if steps.attn_layer is not None and n == steps.attn_aft - 1:
            reweighting = steps.attn_layer
            a = weights(rows)
    for n, linear in enumerate(layer.mlp_aft.layers):
        rows = linear(F.relu(rows) if n or layer.mlp_aft.init_activate else rows)
    return rows


def node_rows(g):
    return (torch.randn(g.num_src_nodes(), IN, dtype=torch.double),)


def edge_func():
    return torch.nn.Linear(2, IN * OUT)


def cugraph_sage(layer, d, x, y):
    return layer.linear(torch.cat([d.reduce(layer.aggr, d.at_src(x)), y], 1))


def cugraph_gat(layer, d, x, y):
    heads = (layer.num_heads, layer.out_feats)
    left, right = layer.attn_weights.view(2, *heads)
    value, own = layer.fc(x).unflatten(-1, heads), layer.fc(y).unflatten(-1, heads)
    ends = d.at_src((value * left).sum(-1)) + d.at_dst((own * right).sum(-1))
    weight = d.softmax(F.leaky_relu(ends, layer.negative_slope)).unsqueeze(-1)
    result = d.sum(d.at_src(value) * weight) + layer.bias.view(heads)
    return result if layer.res_fc is None else result + layer.res_fc(y).unflatten(-1, heads)


def cugraph_rel(layer, d, x, y, types):
    weight = layer.W[:-1] if layer.self_loop else layer.W
    if layer.coeff is not None:
        weight = torch.einsum("rb,bio->rio", layer.coeff, weight)
    message = torch.einsum("ei,eio->eo", d.at_src(x), weight[types])
    if layer.apply_norm:
        same = (d.v[:, None] == d.v) & (types[:, None] == types)
        message = message / same.sum(1, keepdim=True)
    result = d.sum(message) + layer.bias
    return result + y @ layer.W[-1] if layer.self_loop else result


# ---- the table ----

# Odd moments of two messages are 0 but for rounding, of which a root is taken.
STATISTICS = ["mean", "sum", "max", "min", "std", "var", "moment4"]
DIRECTIONS = ["dir1-av", "dir2-av", "dir1-dx", "dir3-dx", "max"]
SCALERS = ["identity", "amplification", "attenuation"]

# fmt: off
CASES = [
    Case("GatedGraphConv", lambda: nn.GatedGraphConv(IN, 7, 3, 1), gated_graph, kinds=SQUARE),
    Case("GatedGraphConv-types", lambda: nn.GatedGraphConv(IN, 7, 2, NUM_TYPES), gated_graph, edge_types, SQUARE),
    *[
        Case(f"NNConv-{reduce}", lambda reduce=reduce: nn.NNConv(IN, OUT, edge_func(), reduce, residual=True), nn_conv(reduce), edge_rows(2))
        for reduce in ("sum", "mean", "max")
    ],
    *[
        Case(f"GMMConv-{reduce}", lambda reduce=reduce: nn.GMMConv(IN, OUT, 2, 4, reduce, residual=True), gmm(reduce), edge_rows(2), lonely="refused")
        for reduce in ("sum", "mean", "max")
    ],
    Case("EdgeConv", lambda: nn.EdgeConv(IN, OUT), edge_conv, lonely="refused"),
    Case("EdgeConv-norm", lambda: nn.EdgeConv(IN, OUT, batch_norm=True), edge_conv, lonely="refused", empty=False),
    Case("DotGatConv", lambda pair=False: nn.DotGatConv((IN, 4) if pair else IN, OUT, 2), dot_gat, lonely="refused", dst_width=4),
    Case("DotGatConv-one-size", lambda: nn.DotGatConv(IN, OUT, 2), dot_gat, lonely="refused"),
    Case("AGNNConv", lambda: nn.AGNNConv(1.5), agnn, lonely="refused"),
    Case("PNAConv", lambda: nn.PNAConv(IN, 4, STATISTICS, SCALERS, 1.3), pna, kinds=SQUARE, tolerance=0.2),
    Case("PNAConv-towers", lambda: nn.PNAConv(IN, IN, STATISTICS, SCALERS, 1.3, num_towers=5, edge_feat_size=2), pna, edge_rows(2), SQUARE, tolerance=0.5),
    Case("DGNConv", lambda: nn.DGNConv(IN, 4, DIRECTIONS, SCALERS[:2], 1.3), dgn, eigenvectors(0, 3), SQUARE, tolerance=0.5),
    Case("DGNConv-towers", lambda: nn.DGNConv(IN, IN, ["dir1-dx", "mean"], SCALERS[:2], 1.3, num_towers=5, edge_feat_size=2), dgn, eigenvectors(2, 1), SQUARE, tolerance=0.5),
    Case("GCN2Conv", lambda: nn.GCN2Conv(IN, 3, 0.2, 0.7), gcn2, node_rows, SQUARE, lonely="refused"),
    Case("GCN2Conv-two", lambda: nn.GCN2Conv(IN, 2, project_initial_features=False), gcn2, lambda g: node_rows(g) + edge_weights(g), SQUARE, lonely="refused"),
    Case("EGATConv", lambda pair=False: nn.EGATConv((IN, 4) if pair else IN, 2, OUT, 4, 3), egat, edge_rows(2), lonely="refused", dst_width=4),
    Case("EGATConv-weighted", lambda: nn.EGATConv(IN, 2, OUT, 4, 3), egat, lambda g: edge_rows(2)(g) + edge_weights(g), lonely="refused"),
    Case("EdgeGATConv", lambda pair=False: nn.EdgeGATConv((IN, 4) if pair else IN, 2, OUT, 3), edge_gat, edge_rows(2), lonely="refused", dst_width=4),
    Case("EdgeGATConv-plain", lambda: nn.EdgeGATConv(IN, 2, OUT, 3, residual=False), edge_gat, edge_rows(2), lonely="refused"),
    Case("GatedGCNConv", lambda: nn.GatedGCNConv(IN, 2, OUT), gated_gcn, edge_rows(2), SQUARE, empty=False, tolerance=0.2),
    Case("GatedGCNConv-residual", lambda: nn.GatedGCNConv(IN, IN, IN, batch_norm=False), gated_gcn, edge_rows(IN), SQUARE),
    Case("EGNNConv", lambda: nn.EGNNConv(IN, 4, OUT), egnn, node_rows, SQUARE),
    Case("EGNNConv-edges", lambda: nn.EGNNConv(IN, 4, OUT, 2), egnn, lambda g: node_rows(g) + edge_rows(2)(g), SQUARE),
    Case("CFConv", lambda: nn.CFConv(IN, 2, 4, OUT), cfconv, edge_rows(2)),
    *[
        Case(f"CuGraphSAGEConv-{name}", lambda name=name, size=size: nn.CuGraphSAGEConv(IN, size, name), cugraph_sage, kinds=ONE_TENSOR)
        for name, size in (("mean", OUT), ("sum", 8), ("min", OUT), ("max", OUT))
    ],
    Case("CuGraphGATConv", lambda: nn.CuGraphGATConv(IN, OUT, 2), cugraph_gat, kinds=ONE_TENSOR),
    Case("CuGraphGATConv-residual", lambda: nn.CuGraphGATConv(IN, OUT, 2, negative_slope=0.1, residual=True), cugraph_gat, kinds=ONE_TENSOR),
    Case("CuGraphGATConv-identity", lambda: nn.CuGraphGATConv(IN, 1, IN, residual=True), cugraph_gat, kinds=ONE_TENSOR),
    Case("CuGraphRelGraphConv", lambda: nn.CuGraphRelGraphConv(IN, OUT, NUM_TYPES), cugraph_rel, edge_types, ONE_TENSOR),
    Case("CuGraphRelGraphConv-norm", lambda: nn.CuGraphRelGraphConv(IN, OUT, NUM_TYPES, self_loop=False, apply_norm=True), cugraph_rel, edge_types, ONE_TENSOR),
    Case("CuGraphRelGraphConv-basis", lambda: nn.CuGraphRelGraphConv(IN, OUT, NUM_TYPES, "basis", 2, apply_norm=True), cugraph_rel, edge_types, ONE_TENSOR),
    Case("TWIRLSConv", lambda: nn.TWIRLSConv(IN, OUT, 4, 3), twirls, kinds=SQUARE),
    Case("TWIRLSConv-plain", lambda: nn.TWIRLSConv(IN, OUT, 4, 3, 2, 2, precond=False, lam=0.5), twirls, kinds=SQUARE),
    Case("TWIRLSConv-attention", lambda: nn.TWIRLSConv(IN, OUT, 4, 4, attention=True, attn_bef=True, use_eta=True, T=2.0, p=0.7, lam=0.6), twirls, kinds=SQUARE),
    Case("TWIRLSConv-no-layers", lambda: nn.TWIRLSConv(IN, OUT, 4, 2, num_mlp_before=0), twirls, kinds=SQUARE),
]
# fmt: on

"""More of the table of layers: those of pairs of ends, of edges' features and of statistics."""

import torch
import torch.nn.functional as F
from layer_cases import (
    IN,
    NUM_TYPES,
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


def gcn2(layer, d, x, y, first, w=None):
    matrix = d.normalised() if w is None else weighted_normalised(d, w)
    eye = torch.eye(IN, dtype=x.dtype)
    one = (1 - layer.beta) * eye + layer.beta * layer.weight1
    other = one if layer.weight2 is None else (1 - layer.beta) * eye + layer.beta * layer.weight2
    return (1 - layer.alpha) * matrix @ x @ one + layer.alpha * first @ other + layer.bias


def node_rows(g):
    return (torch.randn(g.num_src_nodes(), IN, dtype=torch.double),)


def edge_func():
    return torch.nn.Linear(2, IN * OUT)


# ---- the table ----

# Odd moments of two messages are 0 but for rounding, of which a root is taken.
STATISTICS = ["mean", "sum", "max", "min", "std", "var", "moment4"]
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
    Case("GCN2Conv", lambda: nn.GCN2Conv(IN, 3, 0.2, 0.7), gcn2, node_rows, SQUARE, lonely="refused"),
    Case("GCN2Conv-two", lambda: nn.GCN2Conv(IN, 2, project_initial_features=False), gcn2, lambda g: node_rows(g) + edge_weights(g), SQUARE, lonely="refused"),
]
# fmt: on

"""Layers and what they compute, written with dense matrices: the table that the tests run over.

Each case names how a layer is made, which kinds of graphs it takes, what it is called with beside
graph and features, and its formula. Kinds are ``homogeneous``, ``bipartite`` (the layer gets a pair)
and ``block`` (it gets the features of the sources, the first of which are the destinations).
"""

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F

import smex.graph as sg

KINDS = ("homogeneous", "bipartite", "block")
IN, OUT = 5, 3
NUM_TYPES = 3


@dataclasses.dataclass
class Case:
    name: str
    make: Callable
    """The layer; for a bipartite graph with ``pair=True``."""
    formula: Callable
    """(layer, dense graph, sources' rows, destinations' rows, *extra) -> the result."""
    extra: Callable = lambda g: ()
    """The other arguments, floating point ones in float64."""
    kinds: tuple = KINDS
    lonely: str = "fine"
    """Nodes without in-edges are ``fine`` or ``refused``, which allow_zero_in_degree lifts."""
    dst_width: int = IN
    empty: bool = True
    """Whether the layer runs on a graph without edges."""
    tolerance: float = 0.05
    """Of results under autocast, times their largest number."""

    def layer(self, kind):
        return self.make(kind == "bipartite") if self.dst_width != IN else self.make()

    def width(self, kind):
        return self.dst_width if kind == "bipartite" else IN


def graph_of(kind, lonely=False):
    """A graph without parallel edges; with ``lonely`` one destination has no in-edges."""
    num_src, num_dst = (12, 12) if kind == "homogeneous" else (14, 9)
    pairs = torch.randperm(num_src * num_dst)[:40]
    src, dst = pairs // num_dst, pairs % num_dst
    if lonely:
        src, dst = src[dst != 4], dst[dst != 4]
    else:  # an edge into each node
        missing = torch.tensor([v for v in range(num_dst) if v not in set(dst.tolist())])
        src = torch.cat([src, torch.zeros_like(missing)]).long()
        dst = torch.cat([dst, missing]).long()
    if kind == "homogeneous":
        return sg.graph((src, dst), num_nodes=num_src)
    if kind == "bipartite":
        return sg.heterograph({("a", "r", "b"): (src, dst)}, {"a": num_src, "b": num_dst})
    return sg.create_block((src, dst), num_src_nodes=num_src, num_dst_nodes=num_dst)


def features(g, kind, width=IN, dst_width=IN):
    """(what the layer is called with, sources' rows, destinations' rows) in float64."""
    source = torch.randn(g.num_src_nodes(), width, dtype=torch.double, requires_grad=True)
    if kind == "bipartite":
        own = torch.randn(g.num_dst_nodes(), dst_width, dtype=torch.double, requires_grad=True)
        return (source, own), source, own
    return source, source, source[: g.num_dst_nodes()]


def edge_weights(g):
    return (torch.rand(g.num_edges(), dtype=torch.double) + 0.5,)


def edge_rows(width):
    return lambda g: (torch.randn(g.num_edges(), width, dtype=torch.double),)


def edge_types(g):
    return (torch.arange(g.num_edges()) % NUM_TYPES,)


# ---- formulas ----


def sage_mean(layer, d, x, y, w=None):
    message = d.at_src(x) if w is None else d.at_src(x) * w[:, None]
    return layer.fc_self(y) + layer.fc_neigh(d.mean(message))


def sage_gcn(layer, d, x, y, w=None):
    message = d.at_src(x) if w is None else d.at_src(x) * w[:, None]
    return layer.fc_neigh((d.sum(message) + y) / (d.ins + 1)) + layer.bias


def sage_pool(layer, d, x, y):
    return layer.fc_self(y) + layer.fc_neigh(d.max(d.at_src(F.relu(layer.fc_pool(x)))))


def sage_lstm(layer, d, x, y):
    rows = []
    for node in range(d.num_dst):
        mine = x[d.u[d.v == node]]
        rows.append(layer.lstm(mine)[1][0][0] if len(mine) else x.new_zeros(x.shape[1]))
    return layer.fc_self(y) + layer.fc_neigh(torch.stack(rows))


def gatv2(layer, d, x, y):
    heads = (layer._num_heads, layer._out_feats)
    left, right = (
        f(rows).unflatten(-1, heads) for f, rows in ((layer.fc_src, x), (layer.fc_dst, y))
    )
    score = (F.leaky_relu(d.at_src(left) + d.at_dst(right), 0.2) * layer.attn).sum(-1, keepdim=True)
    result = d.sum(d.at_src(left) * d.softmax(score))
    if layer.res_fc is not None:
        result = result + layer.res_fc(y).unflatten(-1, heads)
    return result


def gin(reduce):
    def formula(layer, d, x, y, w=None):
        message = d.at_src(x) if w is None else d.at_src(x) * w[:, None]
        return layer.apply_func((1 + layer.eps) * y + d.reduce(reduce, message))

    return formula


def gine(layer, d, x, y, e):
    return layer.apply_func((1 + layer.eps) * y + d.sum(F.relu(d.at_src(x) + e)))


def typed_matrices(linear):
    """The matrices ``[types, in, out]``, blocks written out."""
    if linear.regularizer != "bdd":
        return linear.get_weight()
    blocks = linear.W.view(linear.num_types, linear.num_bases, linear.submat_in, linear.submat_out)
    return torch.stack([torch.block_diag(*of_type) for of_type in blocks])


def rel_graph(layer, d, x, y, types, norm=None):
    message = torch.einsum("ei,eio->eo", d.at_src(x), typed_matrices(layer.linear_r)[types])
    if norm is not None:
        message = message * norm[:, None]
    result = d.sum(message)
    if layer.layer_norm:
        result = layer.layer_norm_weight(result)
    return result + layer.h_bias + x[: d.num_dst] @ layer.loop_weight


def hops(matrix, x, k):
    result = [x]
    for _ in range(k):
        result.append(matrix @ result[-1])
    return result


def weighted_normalised(d, w):
    adjacency = torch.zeros(d.num_dst, d.num_src, dtype=w.dtype).index_put((d.v, d.u), w)
    ends = adjacency.sum(1, keepdim=True) * adjacency.sum(0)
    return adjacency / torch.where(ends > 0, ends, 1).sqrt()


def sgc(layer, d, x, y, w=None):
    matrix = d.normalised() if w is None else weighted_normalised(d, w)
    return layer.fc(hops(matrix, x, layer._k)[-1])


def tag(layer, d, x, y, w=None):
    matrix = d.normalised() if w is None else weighted_normalised(d, w)
    return layer.lin(torch.cat(hops(matrix, x, layer._k), 1))


def appnp(layer, d, x, y, w=None):
    matrix = d.normalised(d.outs) if w is None else weighted_normalised(d, w)
    hidden = x
    for _ in range(layer._k):
        hidden = (1 - layer._alpha) * matrix @ hidden + layer._alpha * x
    return hidden


def cheb(layer, d, x, y, largest=None):
    largest = 2.0 if largest is None else largest
    eye = torch.eye(d.num_dst, dtype=x.dtype)
    laplacian = 2 * (eye - d.normalised()) / largest - eye
    terms = [x, laplacian @ x]
    while len(terms) < layer._k:
        terms.append(2 * laplacian @ terms[-1] - terms[-2])
    return layer.activation(layer.linear(torch.cat(terms[: layer._k], 1)))


def hgt(layer, d, x, y, ntype, etype):
    heads = (layer.num_heads, layer.head_size)

    def of_node(linear, rows, types):
        return torch.einsum("ni,nio->no", rows, linear.W[types])

    def of_edge(linears, rows):
        return torch.stack(
            [torch.einsum("ei,eio->eo", rows[:, h], linears[h].W[etype]) for h in range(heads[0])],
            1,
        )

    own, own_type = x[: d.num_dst], ntype[: d.num_dst]
    key = of_node(layer.linear_k, x, ntype).unflatten(-1, heads)
    value = of_node(layer.linear_v, x, ntype).unflatten(-1, heads)
    query = of_node(layer.linear_q, own, own_type).unflatten(-1, heads)
    prior = torch.stack([p[etype] for p in layer.relation_pri], 1)
    score = (of_edge(layer.relation_att, d.at_src(key)) * d.at_dst(query)).sum(-1) * prior
    weight = d.softmax(score / heads[1] ** 0.5).unsqueeze(-1)
    mean = d.sum(of_edge(layer.relation_msg, d.at_src(value)) * weight).flatten(1)
    share = layer.skip[own_type].sigmoid()[:, None]
    own = own @ layer.residual_w if hasattr(layer, "residual_w") else own
    result = of_node(layer.linear_a, mean, own_type) * share + own * (1 - share)
    return layer.norm(result) if layer.use_norm else result


def hgt_types(g):
    return torch.arange(g.num_src_nodes()) % 2, *edge_types(g)


# ---- the table ----

nn = sg.nn
SQUARE = ("homogeneous",)
ONE_TENSOR = ("homogeneous", "block")


def mlp():
    return torch.nn.Linear(IN, OUT)


CASES = [
    Case(
        "SAGEConv-mean",
        lambda pair=False: nn.SAGEConv((IN, 4) if pair else IN, OUT, "mean"),
        sage_mean,
        dst_width=4,
    ),
    Case("SAGEConv-mean-wide", lambda: nn.SAGEConv(IN, 8, "mean"), sage_mean),
    Case("SAGEConv-mean-weighted", lambda: nn.SAGEConv(IN, OUT, "mean"), sage_mean, edge_weights),
    Case("SAGEConv-gcn", lambda: nn.SAGEConv(IN, OUT, "gcn"), sage_gcn),
    Case("SAGEConv-gcn-wide", lambda: nn.SAGEConv(IN, 8, "gcn"), sage_gcn, edge_weights),
    Case("SAGEConv-pool", lambda: nn.SAGEConv(IN, OUT, "pool"), sage_pool),
    Case("SAGEConv-lstm", lambda: nn.SAGEConv(IN, OUT, "lstm"), sage_lstm),
    Case(
        "GATv2Conv",
        lambda pair=False: nn.GATv2Conv((IN, 4) if pair else IN, OUT, 2),
        gatv2,
        lonely="refused",
        dst_width=4,
    ),
    Case(
        "GATv2Conv-shared",
        lambda: nn.GATv2Conv(IN, OUT, 2, residual=True, share_weights=True),
        gatv2,
        lonely="refused",
    ),
    *[
        Case(
            f"GINConv-{reduce}",
            lambda reduce=reduce: nn.GINConv(mlp(), reduce, 0.5, True),
            gin(reduce),
        )
        for reduce in ("sum", "mean", "max")
    ],
    Case("GINConv-weighted", lambda: nn.GINConv(mlp()), gin("sum"), edge_weights),
    Case("GINEConv", lambda: nn.GINEConv(mlp(), 0.5, True), gine, edge_rows(IN)),
    Case(
        "RelGraphConv",
        lambda: nn.RelGraphConv(IN, OUT, NUM_TYPES),
        rel_graph,
        edge_types,
        ONE_TENSOR,
    ),
    Case(
        "RelGraphConv-basis",
        lambda: nn.RelGraphConv(IN, OUT, NUM_TYPES, "basis", 2, layer_norm=True),
        rel_graph,
        edge_types,
        ONE_TENSOR,
    ),
    Case(
        "RelGraphConv-bdd",
        lambda: nn.RelGraphConv(IN, 10, NUM_TYPES, "bdd", 5),
        rel_graph,
        edge_types,
        ONE_TENSOR,
    ),
    *[
        Case(
            f"RelGraphConv-{kind}-norm",
            lambda kind=kind: nn.RelGraphConv(IN, 5, NUM_TYPES, kind, 5),
            rel_graph,
            lambda g: edge_types(g) + edge_weights(g),
            ONE_TENSOR,
        )
        for kind in (None, "basis", "bdd")
    ],
    Case("SGConv", lambda: nn.SGConv(IN, OUT, 3), sgc, kinds=SQUARE, lonely="refused"),
    Case("SGConv-wide", lambda: nn.SGConv(IN, 8, 2), sgc, edge_weights, SQUARE, lonely="refused"),
    Case("TAGConv", lambda: nn.TAGConv(IN, OUT, 2), tag, kinds=SQUARE),
    Case("TAGConv-weighted", lambda: nn.TAGConv(IN, OUT, 3), tag, edge_weights, SQUARE),
    Case("APPNPConv", lambda: nn.APPNPConv(4, 0.2), appnp, kinds=SQUARE),
    Case("APPNPConv-weighted", lambda: nn.APPNPConv(4, 0.2), appnp, edge_weights, SQUARE),
    Case("ChebConv", lambda: nn.ChebConv(IN, OUT, 4, torch.tanh), cheb, kinds=SQUARE),
    Case(
        "ChebConv-eigenvalue",
        lambda: nn.ChebConv(IN, OUT, 3, torch.tanh),
        cheb,
        lambda g: (torch.tensor([1.7]),),
        SQUARE,
    ),
    Case(
        "ChebConv-one-term",
        lambda: nn.ChebConv(IN, OUT, 1),
        lambda layer, d, x, y: F.relu(layer.linear(x)),
        kinds=SQUARE,
    ),
    Case(
        "HGTConv",
        lambda: nn.HGTConv(IN, OUT, 2, 2, NUM_TYPES, dropout=0.0),
        hgt,
        hgt_types,
        ONE_TENSOR,
    ),
    Case(
        "HGTConv-same-width",
        lambda: nn.HGTConv(IN, 1, 5, 2, NUM_TYPES, dropout=0.0, use_norm=True),
        hgt,
        hgt_types,
        ONE_TENSOR,
    ),
]

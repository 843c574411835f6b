"""Layers against those of PyTorch Geometric, with the weights copied over."""

import dataclasses
from collections.abc import Callable

import pytest
import torch

import smex.graph as sg
from support.layer_cases import IN, NUM_TYPES, OUT, features, graph_of

pyg = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
nn = sg.nn


@dataclasses.dataclass
class Twin:
    """Two layers that compute the same."""

    name: str
    ours: Callable
    theirs: Callable
    weights: Callable
    """(ours, theirs) -> pairs of tensors: those of the other library get the values of ours."""
    call: Callable = lambda ours, theirs, g, feat, edges: (ours(g, feat), theirs(feat, edges))
    kinds: tuple = ("homogeneous",)
    undirected: bool = False


def linear_pairs(*pairs):
    """Weights, and biases where both have one."""
    result = []
    for a, b in pairs:
        result.append((a.weight, b.weight))
        if a.bias is not None and b.bias is not None:
            result.append((a.bias, b.bias))
    return result


def with_edges(*shape):
    """Calls both with features of edges."""

    def call(ours, theirs, g, feat, edges):
        values = torch.rand(g.num_edges(), *shape, dtype=torch.double)
        return ours(g, feat, values), theirs(feat, edges, values)

    return call


def with_types(ours, theirs, g, feat, edges):
    types = torch.arange(g.num_edges()) % NUM_TYPES
    return ours(g, feat, types), theirs(feat, edges, types)


def mlp():
    return torch.nn.Linear(IN, OUT)


def same_module(a, b):
    return list(zip(a.apply_func.parameters(), b.nn.parameters()))


def tag_weights(a, b):
    parts = a.lin.weight.split(IN, 1)
    return [*zip(parts, (lin.weight for lin in b.lins)), (a.lin.bias, b.bias)]


def cheb_weights(a, b):
    parts = a.linear.weight.split(IN, 1)
    return [*zip(parts, (lin.weight for lin in b.lins)), (a.linear.bias, b.bias)]


def rel_weights(a, b):
    own = [(a.loop_weight, b.root), (a.h_bias, b.bias)]
    if a.linear_r.regularizer == "bdd":
        return [(a.linear_r.W.view(b.weight.shape), b.weight), *own]
    bases = [(a.linear_r.coeff, b.comp)] if a.linear_r.regularizer else []
    return [(a.linear_r.W, b.weight), *bases, *own]


def nn_conv_weights(a, b):
    return [*zip(a.edge_func.parameters(), b.nn.parameters())]


def gmm_weights(a, b):
    own = [(a.res_fc.weight, b.root.weight), (a.bias, b.bias)]
    return [(a.fc.weight.T, b.g), (a.mu, b.mu), (1 / a.inv_sigma, b.sigma), *own]


def with_first(ours, theirs, g, feat, edges):
    first = torch.rand_like(feat)
    return ours(g, feat, first), theirs(feat, first, edges)


def gcn2_weights(a, b):
    return [(a.weight1, b.weight1)] + ([] if a.weight2 is None else [(a.weight2, b.weight2)])


def without_edges(ours, theirs, g, feat, edges):
    return ours(g, feat), theirs(feat, torch.zeros(len(feat), dtype=torch.long))


def layers_of(ours, theirs, g, feat, edges):
    several = [feat, feat.sin(), feat.cos()]
    return ours(several), theirs(several)


def same_parameters(a, b):
    return list(zip(a.parameters(), b.parameters()))


def gate():
    return torch.nn.Linear(IN, 1)


BOTH = ("homogeneous", "bipartite")

TWINS = [
    *[
        Twin(
            f"SAGEConv-{ours}",
            lambda ours=ours: nn.SAGEConv(IN, OUT, ours),
            lambda theirs=theirs, pool=pool: pyg.SAGEConv((IN, IN), OUT, theirs, project=pool),
            lambda a, b: (
                [
                    *linear_pairs(
                        (a.fc_neigh, b.lin_l),
                        (a.fc_self, b.lin_r),
                        *([(a.fc_pool, b.lin)] if hasattr(a, "fc_pool") else []),
                    ),
                    (a.fc_self.bias, b.lin_l.bias),
                ]
            ),
            kinds=BOTH,
        )
        for ours, theirs, pool in (("mean", "mean", False), ("pool", "max", True))
    ],
    *[
        Twin(
            f"GATv2Conv-{shared}",
            lambda shared=shared: nn.GATv2Conv(IN, OUT, 2, share_weights=shared),
            lambda shared=shared: pyg.GATv2Conv(
                IN, OUT, 2, add_self_loops=False, share_weights=shared, bias=False
            ),
            lambda a, b: [*linear_pairs((a.fc_src, b.lin_l), (a.fc_dst, b.lin_r)), (a.attn, b.att)],
        )
        for shared in (False, True)
    ],
    Twin(
        "GINConv",
        lambda: nn.GINConv(mlp(), "sum", 0.3),
        lambda: pyg.GINConv(mlp(), 0.3),
        same_module,
        kinds=BOTH,
    ),
    Twin(
        "GINEConv",
        lambda: nn.GINEConv(mlp(), 0.3),
        lambda: pyg.GINEConv(mlp(), 0.3),
        same_module,
        with_edges(IN),
        BOTH,
    ),
    Twin(
        "SGConv",
        lambda: nn.SGConv(IN, OUT, 3),
        lambda: pyg.SGConv(IN, OUT, 3, add_self_loops=False),
        lambda a, b: linear_pairs((a.fc, b.lin)),
        undirected=True,
    ),
    Twin(
        "TAGConv",
        lambda: nn.TAGConv(IN, OUT, 3),
        lambda: pyg.TAGConv(IN, OUT, 3),
        tag_weights,
        undirected=True,
    ),
    Twin(
        "APPNPConv",
        lambda: nn.APPNPConv(4, 0.2),
        lambda: pyg.APPNP(4, 0.2, add_self_loops=False),
        lambda a, b: [],
        undirected=True,
    ),
    Twin(
        "ChebConv",
        lambda: nn.ChebConv(IN, OUT, 3, None),
        lambda: pyg.ChebConv(IN, OUT, 3),
        cheb_weights,
        undirected=True,
    ),
    Twin(
        "RelGraphConv",
        lambda: nn.RelGraphConv(IN, OUT, NUM_TYPES),
        lambda: pyg.RGCNConv(IN, OUT, NUM_TYPES, aggr="sum"),
        rel_weights,
        with_types,
    ),
    Twin(
        "RelGraphConv-basis",
        lambda: nn.RelGraphConv(IN, OUT, NUM_TYPES, "basis", 2),
        lambda: pyg.RGCNConv(IN, OUT, NUM_TYPES, num_bases=2, aggr="sum"),
        rel_weights,
        with_types,
    ),
    Twin(
        "RelGraphConv-bdd",
        lambda: nn.RelGraphConv(IN, 10, NUM_TYPES, "bdd", 5),
        lambda: pyg.RGCNConv(IN, 10, NUM_TYPES, num_blocks=5, aggr="sum"),
        rel_weights,
        with_types,
    ),
    *[
        Twin(
            f"NNConv-{aggr}",
            lambda aggr=aggr: nn.NNConv(IN, OUT, torch.nn.Linear(2, IN * OUT), aggr, bias=False),
            lambda aggr=aggr: pyg.NNConv(
                IN, OUT, torch.nn.Linear(2, IN * OUT), aggr, root_weight=False, bias=False
            ),
            nn_conv_weights,
            with_edges(2),
            BOTH,
        )
        for aggr in ("sum", "mean")
    ],
    *[
        Twin(
            f"GMMConv-{aggr}",
            lambda aggr=aggr: nn.GMMConv(IN, OUT, 2, 4, aggr, residual=True),
            lambda aggr=aggr: pyg.GMMConv(IN, OUT, 2, 4, aggr=aggr),
            gmm_weights,
            with_edges(2),
            BOTH,
        )
        for aggr in ("sum", "mean")
    ],
    Twin(
        "AGNNConv",
        nn.AGNNConv,
        lambda: pyg.AGNNConv(add_self_loops=False),
        lambda a, b: [(a.beta, b.beta)],
    ),
    *[
        Twin(
            f"GCN2Conv-{shared}",
            lambda shared=shared: nn.GCN2Conv(IN, 3, 0.2, 0.7, shared),
            lambda shared=shared: pyg.GCN2Conv(IN, 0.2, 0.7, 3, shared, add_self_loops=False),
            gcn2_weights,
            with_first,
            undirected=True,
        )
        for shared in (True, False)
    ],
    Twin(
        "Set2Set",
        lambda: nn.Set2Set(IN, 3, 2),
        lambda: pyg.Set2Set(IN, 3, num_layers=2),
        same_parameters,
        without_edges,
    ),
    Twin(
        "GlobalAttentionPooling",
        lambda: nn.GlobalAttentionPooling(gate(), mlp()),
        lambda: pyg.AttentionalAggregation(gate(), mlp()),
        same_parameters,
        without_edges,
    ),
    *[
        Twin(
            f"JumpingKnowledge-{mode}",
            lambda mode=mode: nn.JumpingKnowledge(mode, IN, 3),
            lambda mode=mode: pyg.JumpingKnowledge(mode, IN, 3),
            same_parameters,
            layers_of,
        )
        for mode in ("cat", "max", "lstm")
    ],
]
PAIRS = [pytest.param(t, k, id=f"{t.name}-{k}") for t in TWINS for k in t.kinds]


@pytest.mark.parametrize(("twin", "kind"), PAIRS)
def test_forward_and_gradients_equal_pyg(twin, kind):
    torch.manual_seed(0)
    g = graph_of(kind)
    if twin.undirected:  # the other library divides by in-degrees on both ends
        g = sg.to_bidirected(sg.remove_self_loop(g))
    ours, theirs = twin.ours().double(), twin.theirs().double()
    pairs = twin.weights(ours, theirs)
    with torch.no_grad():
        for a, b in pairs:
            b.copy_(a)
    feat, source, own = features(g, kind)
    edges = torch.stack(g.edges())
    found, expected = twin.call(ours, theirs, g, feat, edges)
    found, expected = (x.reshape(x.shape[0], -1) for x in (found, expected))
    torch.testing.assert_close(found, expected)
    rows = [source] if own is source or not own.is_leaf else [source, own]
    pairs = [(a, b) for a, b in pairs if a.is_leaf]  # not those of parts of a matrix
    one, other = (
        torch.autograd.grad(
            result.sin().sum(), rows + list(inputs), retain_graph=True, allow_unused=True
        )
        for result, inputs in ((found, [a for a, _ in pairs]), (expected, [b for _, b in pairs]))
    )
    for a, b in zip(one, other):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b)

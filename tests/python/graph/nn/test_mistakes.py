"""What layers say about arguments that do not fit."""

import pytest
import torch

import smex
import smex.graph as sg

nn = sg.nn


def ring():
    return sg.graph(([0, 1, 2], [1, 2, 0]))


def call(layer, *extra):
    return lambda: layer()(ring(), torch.ones(3, 4), *extra)


MISTAKES = [
    (lambda: nn.SAGEConv(4, 2, "median"), "SAGEConv: aggregator_type must be one of mean, gcn, pool, lstm, found 'median'"),
    (call(lambda: nn.SAGEConv(5, 2, "mean")), "SAGEConv: expected features of 3 source nodes, 5 wide, found"),
    (call(lambda: nn.SAGEConv(4, 2, "mean"), torch.ones(2)), "SAGEConv: expected a weight for each of 3 edges, found torch.float32 [2]"),
    (call(lambda: nn.GATv2Conv(5, 2, 1)), "GATv2Conv: expected features of 3 source nodes, 5 wide"),
    (lambda: nn.GINConv(None, "median"), "GINConv: aggregator_type must be one of sum, max, mean, found 'median'"),
    (call(lambda: nn.GINEConv(), torch.ones(2, 4)), "GINEConv: expected features of 3 edges, found torch.float32 [2, 4]; the layer takes one row for each"),
    (lambda: nn.CuGraphSAGEConv(4, 2, "gcn"), "CuGraphSAGEConv: aggregator_type must be one of mean, sum, min, max, found 'gcn'"),
    (call(lambda: nn.CuGraphSAGEConv(5, 2)), "CuGraphSAGEConv: expected features of 3 source nodes, 5 wide, found"),
    (lambda: nn.CuGraphGATConv(4, 3, 0), "CuGraphGATConv: expected num_heads of at least 1, found 0"),
    (call(lambda: nn.CuGraphGATConv(5, 2, 1)), "CuGraphGATConv: expected features of 3 source nodes, 5 wide"),
    (lambda: nn.CuGraphRelGraphConv(4, 2, 3, "bdd", 2), "CuGraphRelGraphConv: regularizer must be one of None, basis, found 'bdd'"),
    (lambda: nn.CuGraphRelGraphConv(4, 2, 3, "basis"), "CuGraphRelGraphConv: regularizer 'basis' needs num_bases, found None"),
    (call(lambda: nn.CuGraphRelGraphConv(4, 2, 2), torch.tensor([0, 1])), "CuGraphRelGraphConv: expected one integer for each of 3 edges, its type, found torch.int64 [2]"),
    (lambda: nn.EdgeWeightNorm("left"), "EdgeWeightNorm: norm must be one of none, both, right, found 'left'"),
    (lambda: nn.EdgeWeightNorm()(ring(), torch.ones(3, 2)), "EdgeWeightNorm: expected one weight for each of 3 edges, found torch.float32 [3, 2]"),
    (lambda: nn.EdgeWeightNorm()(ring(), torch.tensor([1.0, -2.0, 3.0])), "EdgeWeightNorm: norm='both' expects positive weights, found -2.0"),
    (lambda: nn.TypedLinear(4, 2, 3, "l2"), "TypedLinear: regularizer must be None, 'basis' or 'bdd', found 'l2'"),
    (lambda: nn.TypedLinear(4, 2, 3, "basis"), "TypedLinear: regularizer 'basis' needs num_bases, found None"),
    (lambda: nn.WeightBasis((4, 2), 0, 3), "WeightBasis: expected num_bases and num_outputs of 1 at least, found 0 and 3"),
    (lambda: nn.TypedLinear(4, 3, 3, "bdd", 2), "TypedLinear: num_bases must divide both sizes, found sizes 4 and 3 and num_bases=2"),
    (call(lambda: nn.RelGraphConv(4, 2, 2), torch.tensor([0, 1])), "RelGraphConv: expected one integer for each of 3 edges, its type, found torch.int64 [2]"),
    (call(lambda: nn.RelGraphConv(4, 2, 2), torch.tensor([0, 1, 2])), "RelGraphConv: edge types"),
    (call(lambda: nn.SGConv(5, 2)), "SGConv: expected features of 3 nodes, 5 wide"),
    (call(lambda: nn.TAGConv(5, 2)), "TAGConv: expected features of 3 nodes, 5 wide"),
    (call(lambda: nn.ChebConv(5, 2, 2)), "ChebConv: expected features of 3 nodes, 5 wide"),
    (call(lambda: nn.HGTConv(5, 2, 2, 1, 1), torch.zeros(3).long(), torch.zeros(3).long()), "HGTConv: expected features of 3 source nodes, 5 wide"),
    (call(lambda: nn.GMMConv(4, 2, 3, 2), torch.ones(3, 2)), "GMMConv: expected features of 3 edges, 3 wide, found torch.float32 [3, 2]; the layer takes one row for each"),
    (call(lambda: nn.NNConv(4, 2, torch.nn.Linear(3, 7)), torch.ones(3, 3)), "NNConv: edge_func: expected features of 3 edges, 8 wide, found torch.float32 [3, 7]"),
    (lambda: nn.NNConv(4, 2, None, "min"), "NNConv: aggregator_type must be one of sum, mean, max, found 'min'"),
    (lambda: nn.GMMConv(4, 2, 3, 2, "min"), "GMMConv: aggregator_type must be one of sum, mean, max, found 'min'"),
    (lambda: nn.GatedGraphConv(4, 3, 1, 1), "GatedGraphConv: expected out_feats of at least in_feats, 4, since rows are padded, found 3"),
    (call(lambda: nn.GatedGraphConv(4, 5, 1, 2)), "GatedGraphConv: made for 2 edge types, expected etypes, found None"),
    (lambda: nn.PNAConv(4, 4, ["median"], ["identity"], 1), "PNAConv: aggregators must be one of mean, sum, max, min, std, var, moment3"),
    (lambda: nn.PNAConv(4, 4, ["mean"], ["none"], 1), "PNAConv: scalers must be one of identity, amplification, attenuation, found 'none'"),
    (lambda: nn.PNAConv(4, 3, ["mean"], ["identity"], 1, num_towers=2), "PNAConv: num_towers must divide both sizes, found sizes 4 and 3 and num_towers=2"),
    (call(lambda: nn.DGNConv(4, 3, ["dir2-av"], ["identity"], 1), None, torch.ones(3, 1)), "DGNConv: expected 2 eigenvectors of 3 nodes or more as eig_vec, found torch.float32 [3, 1]; sg.LapPE"),
    (lambda: nn.PNAConv(4, 3, ["dir1-av"], ["identity"], 1), "PNAConv: aggregators must be one of mean, sum"),
    (call(lambda: nn.PNAConv(4, 3, ["mean"], ["identity"], 1, edge_feat_size=2)), "PNAConv: expected features of 3 edges, 2 wide, found NoneType"),
    (lambda: nn.GCN2Conv(4, 0), "GCN2Conv: expected layer of at least 1, found 0"),
    (lambda: nn.ChebConv(4, 3, 0), "ChebConv: expected k of at least 1, found 0"),
    (lambda: nn.GATConv(4, 3, 0), "GATConv: expected num_heads of at least 1, found 0"),
    (lambda: nn.GATv2Conv(4, 3, 0), "GATv2Conv: expected num_heads of at least 1, found 0"),
    (lambda: nn.DotGatConv(4, 3, 0), "DotGatConv: expected num_heads of at least 1, found 0"),
    (lambda: nn.EGATConv(4, 3, 2, 2, 0), "EGATConv: expected num_heads of at least 1, found 0"),
    (call(lambda: nn.GCN2Conv(4, 1), torch.ones(2, 4)), "GCN2Conv: expected features of 3 nodes, 4 wide, found torch.float32 [2, 4]"),
    (lambda: nn.MaxPooling()(ring(), torch.ones(2, 4)), "MaxPooling: expected features of 3 nodes, found torch.float32 [2, 4]"),
    (call(lambda: nn.GlobalAttentionPooling(torch.nn.Linear(4, 2))), "GlobalAttentionPooling: expected gate_nn to give one number for each node, found torch.float32 [3, 2]"),
    (call(lambda: nn.Set2Set(5, 1, 1)), "Set2Set: expected features of 3 nodes, 5 wide"),
    (lambda: nn.SetTransformerEncoder(4, 1, 1, 1, block_type="pma"), "SetTransformerEncoder: block_type must be one of sab, isab, found 'pma'"),
    (lambda: nn.SetTransformerEncoder(4, 1, 1, 1, block_type="isab"), "SetTransformerEncoder: block_type='isab' needs m, the number of points, found None"),
    (lambda: nn.JumpingKnowledge("mean"), "JumpingKnowledge: mode must be one of cat, max, lstm, found 'mean'"),
    (lambda: nn.JumpingKnowledge("lstm", 4), "JumpingKnowledge: mode='lstm' needs in_feats and num_layers, found 4 and None"),
    (lambda: nn.LabelPropagation(1, 0.5, "col"), "LabelPropagation: norm_type must be one of sym, row, found 'col'"),
    (lambda: nn.EdgePredictor("sub"), "EdgePredictor: op must be one of dot, cos, ele, cat, found 'sub'"),
    (lambda: nn.DenseGraphConv(4, 2, "left"), "DenseGraphConv: norm must be one of none, both, right, found 'left'"),
    (lambda: nn.DenseSAGEConv(4, 2)(torch.ones(3), torch.ones(3, 4)), "DenseSAGEConv: expected an adjacency matrix [num_dst, num_src], found torch.float32 [3]"),
    (lambda: nn.DenseChebConv(4, 2, 2)(torch.ones(3, 3), torch.ones(2, 4)), "DenseChebConv: expected features of 3 source nodes, 4 wide"),
    (lambda: nn.Sequential(nn.GINConv(), nn.GINConv())([ring()], torch.ones(3, 4)), "Sequential: expected a graph for each of 2 layers, found 1"),
    (lambda: nn.BiasedMHA(8, 3), "BiasedMHA: num_heads must divide feat_size, found 3 and 8"),
    (lambda: nn.BiasedMHA(8, 2, attn_bias_type="sub"), "BiasedMHA: attn_bias_type must be one of add, mul, found 'sub'"),
    (lambda: nn.TWIRLSConv(4, 2, 2, 1, norm="group"), "TWIRLSConv: norm must be one of batch, layer, none, found 'group'"),
    (call(lambda: nn.CFConv(5, 1, 1, 1), torch.ones(3, 1)), "CFConv: expected features of 3 source nodes, 5 wide"),
    (call(lambda: nn.GatedGCNConv(4, 2, 1), torch.ones(3, 1)), "GatedGCNConv: expected features of 3 edges, 2 wide"),
    (call(lambda: nn.EGATConv(4, 2, 1, 1, 1), torch.ones(3, 1)), "EGATConv: expected features of 3 edges, 2 wide"),
    (call(lambda: nn.EdgeGATConv(4, 2, 1, 1), torch.ones(3, 1)), "EdgeGATConv: expected features of 3 edges, 2 wide"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "text"), MISTAKES, ids=[text[:60] for _, text in MISTAKES])
def test_mistakes(action, text):
    with pytest.raises(smex.SmexValueError) as error:
        action()
    assert text in str(error.value)


@pytest.mark.parametrize("regularizer", [None, "basis", "bdd"])
@pytest.mark.parametrize("presorted", [False, True])
def test_types_of_rows_are_checked_by_name(regularizer, presorted):
    linear = nn.TypedLinear(4, 4, 3, regularizer, None if regularizer is None else 2)
    for types, text in (
        ([0, 1, 3], "TypedLinear: x_type: expected ids from 0 to 2, found 3"),
        ([-1, 0, 1], "TypedLinear: x_type: expected ids from 0 to 2, found -1"),
        ([0, 1], "TypedLinear: expected x_type to have one integer for each of 3 rows, its type"),
    ):
        with pytest.raises(smex.SmexValueError) as error:
            linear(torch.ones(3, 4), torch.tensor(types), presorted)
        assert text in str(error.value)
    layer = nn.HGTConv(4, 2, 2, 2, 2)
    good, bad = torch.zeros(3).long(), torch.tensor([0, 1, 2])
    with pytest.raises(smex.SmexValueError, match="HGTConv: ntype: expected ids from 0 to 1"):
        layer(ring(), torch.ones(3, 4), bad, good, presorted=presorted)
    with pytest.raises(smex.SmexValueError, match="HGTConv: edge types: expected ids from 0 to 1"):
        layer(ring(), torch.ones(3, 4), good, bad, presorted=presorted)


FLOATS = {
    "GraphConv": lambda: nn.GraphConv(4, 2),
    "GraphConv without weight": lambda: nn.GraphConv(4, 2, weight=False),
    "SAGEConv": lambda: nn.SAGEConv(4, 2, "mean"),
    "GATConv": lambda: nn.GATConv(4, 2, 1),
    "GATv2Conv": lambda: nn.GATv2Conv(4, 2, 1),
    "DotGatConv": lambda: nn.DotGatConv(4, 2, 1),
    "AGNNConv": lambda: nn.AGNNConv(),
    "GINConv": lambda: nn.GINConv(torch.nn.Linear(4, 2)),
    "GINEConv": lambda: lambda g, x: nn.GINEConv()(g, x, torch.ones(3, 4)),
    "APPNPConv": lambda: nn.APPNPConv(2, 0.1),
    "TAGConv": lambda: nn.TAGConv(4, 2),
    "ChebConv": lambda: nn.ChebConv(4, 2, 2),
    "SGConv": lambda: nn.SGConv(4, 2),
    "EdgeConv": lambda: nn.EdgeConv(4, 2),
    "GatedGraphConv": lambda: nn.GatedGraphConv(4, 5, 1, 1),
    "RelGraphConv": lambda: lambda g, x: nn.RelGraphConv(4, 2, 1)(g, x, torch.zeros(3).long()),
}


@pytest.mark.parametrize("name", list(FLOATS))
def test_integer_features_are_refused_by_name(name):
    rows = torch.ones(3, 4, dtype=torch.int64)
    with pytest.raises(smex.SmexTypeError) as error:
        FLOATS[name]()(ring(), rows)
    text = str(error.value)
    assert text.startswith(f"{name.split()[0]}: expected floating point features of ")
    assert "found torch.int64 [3, 4]; convert them with feat.float()" in text


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: nn.GATv2Conv(4, 2, 1)(ring(), x),
        lambda x: nn.DotGatConv(4, 2, 1)(ring(), x),
        lambda x: nn.EdgeGATConv(4, 5, 2, 1)(ring(), x, torch.ones(3, 5)),
        lambda x: nn.EGATConv(4, 5, 2, 2, 1)(ring(), x, torch.ones(3, 5)),
    ],
)
def test_dimensions_between_nodes_and_features_are_refused_by_name(layer):
    layer(torch.ones(3, 4))
    with pytest.raises(
        smex.SmexValueError, match=r"^[A-Za-z0-9]+Conv: expected features .* of two dimensions"
    ):
        layer(torch.ones(3, 6, 4))

"""State dicts of DGL 2.1's layers load: the same names, shapes and order.

The file has what DGL 2.1.0 says of layers that are made by the same expressions; `benchmarks/graph/
agreement.py` compares what layers compute from them. The lines of `CuGraph...` were read from its
sources, where the layers cannot be made without cugraph.
"""

import json
from pathlib import Path

import pytest
import torch

import smex.graph as sg

STATES = json.loads((Path(__file__).parent / "dgl_2_1_states.json").read_text())
WITHOUT_PARAMETERS = {"HeteroSubgraphX", "SegmentedKNNGraph", "SubgraphX"}


def layer(expression):
    ring = sg.graph(([0, 1, 2], [1, 2, 0]))
    users = sg.heterograph(
        {("u", "buys", "i"): ([0, 1], [1, 0]), ("i", "bought", "u"): ([1, 0], [0, 1])}
    )
    return eval(f"nn.{expression}", {"nn": sg.nn, "torch": torch, "ring": ring, "users": users})


@pytest.mark.parametrize("expression", STATES)
def test_names_and_shapes(expression):
    state = layer(expression).state_dict()
    assert {name: list(x.shape) for name, x in state.items()} == STATES[expression]
    assert list(state) == list(STATES[expression])  # optimisers number parameters by it


def test_every_layer_is_compared():
    compared = {expression.partition("(")[0] for expression in STATES}
    assert set(sg.nn.__all__) - WITHOUT_PARAMETERS == compared


def test_a_bias_of_the_residual_is_added():
    torch.manual_seed(0)
    g, x = sg.graph(([0, 1, 2], [1, 2, 0])), torch.rand(3, 6)
    conv = sg.nn.GATConv(6, 4, 2, residual=True)
    with torch.no_grad():
        before = conv(g, x)
        assert not conv.res_fc.bias.any()
        conv.res_fc.bias.uniform_()
        after = conv(g, x)
    torch.testing.assert_close(after - before, conv.res_fc.bias.view(2, 4).expand(3, 2, 4))

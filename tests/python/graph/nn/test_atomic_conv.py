"""Atoms by their distances, against the sum written for each edge."""

import math

import pytest
import torch

import smex
import smex.graph as sg

CUTOFFS, MEANS, SCALING = (
    torch.tensor([1.5, 2.5]),
    torch.tensor([0.5, 1.0]),
    torch.tensor([2.0, 4.0]),
)


def molecule():
    torch.manual_seed(0)
    g = sg.graph((torch.randint(6, (14,)), torch.randint(6, (14,))), num_nodes=6)
    return g, torch.tensor([[1.0], [6.0], [6.0], [8.0], [1.0], [7.0]]), 3 * torch.rand(14, 1)


def expected(g, rows, distances):
    result = torch.zeros(6, rows.shape[1], 2)
    for u, v, r in zip(*(x.tolist() for x in (*g.edges(), distances.flatten()))):
        for k, (c, m, s) in enumerate(zip(CUTOFFS, MEANS, SCALING)):
            if r <= c:
                near = (math.cos(math.pi * r / c) + 1) / 2
                result[v, :, k] += rows[u] * math.exp(-s * (r - m) ** 2) * near
    return result.flatten(1)


def test_types_are_features():
    g, feat, distances = molecule()
    found = sg.nn.AtomicConv(CUTOFFS, MEANS, SCALING)(g, feat, distances)
    torch.testing.assert_close(found, expected(g, feat, distances))


def test_types_are_told_apart():
    g, feat, distances = molecule()
    types = torch.tensor([1.0, 6.0, 9.0])
    layer = sg.nn.AtomicConv(CUTOFFS, MEANS, SCALING, types)
    found = layer(g, feat, distances)
    torch.testing.assert_close(found, expected(g, (feat == types).float(), distances))
    assert found.shape == (6, 6) and not found[:, 4:].any()
    found.sum().backward()
    assert layer.radial_pooling.rbf_kernel_means.grad.abs().sum() > 0


def test_compiles_without_a_graph_break():
    layer, inputs = sg.nn.AtomicConv(CUTOFFS, MEANS, SCALING), molecule()
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*inputs), layer(*inputs))


def test_filters_of_different_number():
    with pytest.raises(smex.SmexValueError, match="as many cut-offs, means and scaling factors"):
        sg.nn.AtomicConv(CUTOFFS, MEANS, SCALING[:1])

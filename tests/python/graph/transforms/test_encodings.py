"""Encodings of positions against matrices and their factors."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import smex
import smex.graph as sg
from support.graphs import graphs

MANY = settings(max_examples=30, deadline=None)


def adjacency(g, weights=None):
    matrix = torch.zeros(g.num_nodes(), g.num_nodes(), dtype=torch.float64)
    ends = tuple(ids.long() for ids in g.edges())
    values = torch.ones(g.num_edges(), dtype=torch.float64) if weights is None else weights.double()
    return matrix.index_put(ends, values, accumulate=True)


@MANY
@given(graphs())
def test_random_walks(g):
    weights = torch.rand(g.num_edges()) + 0.1
    g.edata["w"] = weights[:, None]
    for name, matrix in ((None, adjacency(g)), ("w", adjacency(g, weights))):
        walk = matrix / matrix.sum(1, keepdim=True).clamp(min=1e-30)
        expected = [torch.linalg.matrix_power(walk, i).diagonal() for i in (1, 2, 3)]
        found = sg.random_walk_pe(g, 3, name)
        torch.testing.assert_close(found, torch.stack(expected, 1).float(), atol=1e-5, rtol=1e-5)
        assert torch.equal(sg.RandomWalkPE(3, "pe", name)(g).ndata["pe"], found)
    assert sg.random_walk_pe(g, 0).shape == (g.num_nodes(), 0)


def laplacian(g):
    matrix = adjacency(g)
    scale = matrix.sum(0).clamp(min=1).rsqrt()
    return torch.eye(g.num_nodes(), dtype=torch.float64) - scale[:, None] * matrix * scale


@MANY
@given(graphs(min_nodes=1))
def test_eigenvectors(g):
    g = sg.add_reverse_edges(g)
    number = g.num_nodes()
    encoding, values = sg.lap_pe(g, number + 2, padding=True, return_eigval=True)
    assert not encoding[:, number - 1 :].any() and values[number - 1 :].isnan().all()
    vectors, values = encoding[:, : number - 1].double(), values[: number - 1].double()
    eye = torch.eye(number - 1, dtype=torch.float64)
    torch.testing.assert_close(vectors.T @ vectors, eye, atol=1e-5, rtol=0)
    torch.testing.assert_close(laplacian(g) @ vectors, vectors * values, atol=1e-5, rtol=0)
    expected = torch.linalg.eigvalsh(laplacian(g))[1:]
    torch.testing.assert_close(values, expected, atol=1e-5, rtol=0)


def test_eigenvectors_of_a_large_graph(monkeypatch):
    pytest.importorskip("scipy", reason="scipy is not installed")
    g = sg.to_bidirected(sg.rand_graph(60, 300))
    monkeypatch.setattr("smex.graph.transforms.encodings._DENSE", 10)
    encoding, values = sg.lap_pe(g, 5, return_eigval=True)
    expected = torch.linalg.eigvalsh(laplacian(g))[1:6].float()
    torch.testing.assert_close(values, expected, atol=1e-5, rtol=0)
    product = laplacian(g) @ encoding.double()
    torch.testing.assert_close(product.float(), encoding * values, atol=1e-5, rtol=0)
    result = sg.LapPE(5, eigval_name="e")(g)
    torch.testing.assert_close(result.ndata["PE"].abs(), encoding.abs(), atol=1e-4, rtol=0)
    torch.testing.assert_close(result.ndata["e"], values.expand(60, 5))
    assert "PE" not in g.ndata and sg.LaplacianPE(2)(g).ndata["PE"].shape == (60, 2)


@pytest.mark.parametrize("sizes", [(70, 30, 1, 20, 1), (20,) * 10, (1,) * 90 + (40,), (200,)])
def test_eigenvalues_of_several_components_are_repeated(sizes, monkeypatch):
    pytest.importorskip("scipy", reason="scipy is not installed")
    torch.manual_seed(0)
    parts = []
    for size in sizes:
        ring = torch.arange(size if size > 1 else 0)
        chords = torch.randint(size, (2, size if size > 1 else 0))
        src, dst = torch.cat([ring, chords[0]]), torch.cat([(ring + 1) % size, chords[1]])
        parts.append(sg.to_bidirected(sg.graph((src, dst), num_nodes=size)))
    g = sg.batch(parts)
    g = sg.node_subgraph(g, torch.randperm(g.num_nodes()))
    monkeypatch.setattr("smex.graph.transforms.encodings._DENSE", 10)
    encoding, values = sg.lap_pe(g, 8, return_eigval=True)
    expected = torch.linalg.eigvalsh(laplacian(g))[1:9].float()
    torch.testing.assert_close(values, expected, atol=1e-5, rtol=0)
    gram = encoding.T @ encoding
    torch.testing.assert_close(gram, torch.eye(8), atol=1e-5, rtol=0)
    product = laplacian(g) @ encoding.double()
    torch.testing.assert_close(product.float(), encoding * values, atol=1e-5, rtol=0)


@pytest.mark.parametrize("dense", [1024, 2])
def test_largest_eigenvalues(dense, monkeypatch):
    pytest.importorskip("scipy", reason="scipy is not installed")
    monkeypatch.setattr("smex.graph.transforms.encodings._DENSE", dense)
    parts = [sg.to_bidirected(sg.rand_graph(n, 4 * n)) for n in (9, 20)]
    star = sg.to_bidirected(sg.graph(([0, 0, 0], [1, 2, 3])))  # bipartite, so 2
    batch = sg.batch([*parts, star])
    expected = [float(torch.linalg.eigvalsh(laplacian(g))[-1]) for g in parts]
    assert sg.laplacian_lambda_max(batch) == pytest.approx([*expected, 2.0])
    assert sg.laplacian_lambda_max(sg.graph(([], []), num_nodes=0)) == [0.0]
    conv, x = sg.nn.ChebConv(2, 3, 3), torch.rand(33, 2)
    found = conv(batch, x, sg.laplacian_lambda_max(batch))
    alone = conv(star, x[29:], [2.0])
    torch.testing.assert_close(found[29:], alone)


@MANY
@given(graphs(min_nodes=1))
def test_singular_vectors(g):
    number = g.num_nodes()
    for flip in (False, True):
        encoding = sg.svd_pe(g, number + 1, padding=True, random_flip=flip).double()
        left, right = encoding[:, : number + 1], encoding[:, number + 1 :]
        torch.testing.assert_close(left @ right.T, adjacency(g), atol=1e-4, rtol=0)
    u, s, _ = np.linalg.svd(adjacency(g).numpy())
    gap = s[0] - s[1] if number > 1 else 1.0
    if gap > 1e-3:
        one = sg.SVDPE(1)(g).ndata["svd_pe"][:, 0].abs().numpy()
        np.testing.assert_allclose(one, np.abs(u[:, 0]) * np.sqrt(s[0]), atol=1e-4)


@pytest.mark.parametrize(("number", "k"), [(1, 0), (2, 1), (5, 2), (5, 4), (40, 7), (300, 3)])
def test_directed_laplacian(number, k):
    """By NumPy's eigenvalues, and by the polynomial that a real part of an eigenvector solves."""
    torch.manual_seed(number)
    g = sg.graph(torch.randint(number, (2, 3 * number)).unbind(), num_nodes=number)
    g.add_edges(0, number - 1)
    matrix = laplacian(g)
    exact = np.linalg.eigvals(matrix.numpy())
    exact = exact[exact.argsort()]
    vectors, values = sg.lap_pe(g, k, return_eigval=True)
    np.testing.assert_allclose(values.numpy(), exact[1 : k + 1].real, atol=1e-4)
    for v, value in zip(vectors.double().T, exact[1 : k + 1]):
        solved = matrix @ (matrix @ v) - 2 * value.real * (matrix @ v) + abs(value) ** 2 * v
        assert solved.abs().max() < 1e-4 and v.abs().max() > 1e-3
    largest = exact[abs(exact).argmax()].real
    assert sg.laplacian_lambda_max(g)[0] == pytest.approx(largest, abs=1e-4)


def test_mistakes():
    g = sg.graph(([0, 1], [1, 2]))
    with pytest.raises(smex.SmexValueError, match="expected k below the number of nodes, 3"):
        sg.lap_pe(sg.to_bidirected(g), 3)
    with pytest.raises(smex.SmexValueError, match="at most the number of nodes, 3, found 4"):
        sg.svd_pe(g, 4)
    with pytest.raises(KeyError, match='there is no edge feature "w"'):
        sg.random_walk_pe(g, 2, "w")
    g.edata["w"] = torch.ones(2, 3)
    with pytest.raises(smex.SmexValueError, match="one number for each edge"):
        sg.random_walk_pe(g, 2, "w")
    with pytest.warns(DeprecationWarning, match="laplacian_pe is now lap_pe"):
        sg.laplacian_pe(sg.to_bidirected(g), 1)

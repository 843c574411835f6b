"""Where a node is in its graph, as features: walks, and eigenvectors or singular vectors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.features.column import MissingFeatureError
from smex.graph.graph import Graph
from smex.graph.packages import optional
from smex.graph.parts.batch import unbatch
from smex.graph.parts.selection import check_one_type

__all__ = ["lap_pe", "laplacian_lambda_max", "laplacian_pe", "random_walk_pe", "svd_pe"]

_DENSE = 256  # nodes up to which all eigenvectors are no slower than some by Lanczos iteration


def random_walk_pe(g: Graph, k: int, eweight_name: str | None = None) -> Tensor:
    """The chances to be back after 1 to `k` random steps (Dwivedi et al., ICLR'22, section 3).

    ``encoding[v, i] = (P ** (i + 1))[v, v]``, where ``P[u, v]`` is the weight of the edges from
    ``u`` to ``v`` over that of all edges out of ``u``.

    Args:
        g: a graph of one node type and one edge type.
        k: number of steps.
        eweight_name: edge feature ``[num_edges]`` or ``[num_edges, 1]`` with weights; None: 1.

    Returns:
        float32 ``[num_nodes, k]``. Memory is quadratic in the number of nodes.

    Raises:
        SmexTypeError: the graph has several types.
        SmexValueError: there is no such feature.

    Example:
        >>> import smex.graph as sg
        >>> sg.random_walk_pe(sg.graph(([0, 1, 1], [1, 0, 1])), 2)
        tensor([[0.0000, 0.5000],
                [0.5000, 0.7500]])
    """
    check_one_type("random_walk_pe", g)
    walk = dense_adjacency("random_walk_pe", g, eweight_name)
    sums = walk.sum(1, keepdim=True)
    walk = torch.where(sums == 0, walk, walk / sums)
    back, power = [], walk
    for step in range(k):
        back.append(power.diagonal())
        power = power @ walk if step + 1 < k else power
    return torch.stack(back, 1) if back else walk.new_empty(g.num_nodes(), 0)


def dense_adjacency(op: str, g: Graph, eweight_name: str | None) -> Tensor:
    """Summed weights of the edges from ``u`` to ``v`` in ``[u, v]``, float32."""
    src, dst = (ids.long() for ids in g.edges())
    weights = torch.ones(src.shape[0], device=g.device)
    if eweight_name is not None:
        weights = edge_weights(op, g, eweight_name).float()
    number = g.num_nodes()
    flat = torch.zeros(number * number, device=g.device)
    return flat.index_add(0, src * number + dst, weights).view(number, number)


def edge_weights(op: str, g: Graph, name: str, etype: Any = None) -> Tensor:
    """Returns an edge feature with one number for each edge, ``[num_edges]``; integers float32."""
    data = g.edges[g.to_canonical_etype(etype)].data
    if name not in data:
        raise MissingFeatureError(f'{op}: there is no edge feature "{name}"; set it first')
    weights = data[name]
    if weights.numel() != weights.shape[0]:
        raise SmexValueError(
            f'{op}: edge feature "{name}" must have one number for each edge, found shape '
            f"{list(weights.shape)}"
        )
    return weights.view(-1) if weights.is_floating_point() else weights.view(-1).float()


def lap_pe(g: Graph, k: int, padding: bool = False, return_eigval: bool = False) -> Any:
    """Eigenvectors of the Laplacian with the smallest eigenvalues (Dwivedi et al. 2020, section 3).

    Of ``I - D**-0.5 A D**-0.5``, without the smallest eigenvalue's. Signs are drawn. Where
    eigenvalues are equal, so in a graph of several components, any basis may come. Where an edge
    has no reverse, D has in-degrees, and of complex eigenvalues and their right eigenvectors there
    are the real parts, in the order of these.

    Args:
        g: a graph of one type.
        k: number of eigenvectors.
        padding: whether zeros (and NaN as eigenvalues) stand where there are no more; there are
            one less than nodes.
        return_eigval: whether to return the eigenvalues, float32 ``[k]``, too.

    Returns:
        float32 ``[num_nodes, k]``. Of more than 256 nodes by SciPy's Lanczos iteration.

    Raises:
        SmexImportError: a large graph, and SciPy is not installed.
        SmexTypeError: the graph has several types.
        SmexValueError: `k` is too large and there is no padding.

    Example:
        >>> import smex.graph as sg
        >>> path = sg.to_bidirected(sg.graph(([0, 1], [1, 2])))
        >>> (sg.lap_pe(path, 1) ** 2).round(decimals=4)
        tensor([[0.5000],
                [0.0000],
                [0.5000]])
    """
    check_one_type("lap_pe", g)
    number = g.num_nodes()
    kept = min(k, max(number - 1, 0))
    if kept < k and not padding:
        raise SmexValueError(
            f"lap_pe: expected k below the number of nodes, {number}, found {k}; pass padding=True "
            "to fill up with zeros"
        )
    values, vectors = _smallest(g, kept)
    signs = torch.randint(2, (kept,), device=g.device) * 2.0 - 1
    encoding = torch.zeros(number, k, device=g.device)
    encoding[:, :kept] = vectors * signs
    if not return_eigval:
        return encoding
    eigenvalues = torch.full((k,), torch.nan, device=g.device)
    eigenvalues[:kept] = values
    return encoding, eigenvalues


def laplacian_pe(g: Graph, k: int, padding: bool = False, return_eigval: bool = False) -> Any:
    """Former name of :func:`lap_pe`."""
    warnings.warn("laplacian_pe is now lap_pe", DeprecationWarning, stacklevel=2)
    return lap_pe(g, k, padding, return_eigval)


def laplacian_lambda_max(g: Graph) -> list[float]:
    """Returns the largest eigenvalue of the normalised Laplacian of each graph of a batch.

    Of ``I - D**-0.5 A D**-0.5``; at most 2. :class:`smex.graph.nn.ChebConv` takes them. Where an
    edge has no reverse, D has in-degrees, and it is the real part of the eigenvalue that is largest
    in magnitude.

    Args:
        g: a graph of one type, or a batch of such.

    Returns:
        A number for each graph; 0 for one without nodes. Of more than 256 nodes by SciPy's
        Lanczos iteration.

    Raises:
        SmexImportError: a large graph, and SciPy is not installed.
        SmexTypeError: the graph has several types.

    Example:
        >>> import smex.graph as sg
        >>> ring = sg.to_bidirected(sg.graph(([0, 1, 2, 3, 4], [1, 2, 3, 4, 0])))
        >>> [round(largest, 4) for largest in sg.laplacian_lambda_max(ring)]
        [1.809]
    """
    check_one_type("laplacian_lambda_max", g)
    return [_largest(part) for part in unbatch(g)]


def _largest(g: Graph) -> float:
    number = g.num_nodes()
    weights = _normalised(g)
    if number == 0:
        return 0.0
    if not _is_symmetric(g):
        values = _directed(g, weights, 1, "LM")[0]
        return float(values[np.argmax(np.abs(values))].real)
    if number <= _DENSE:
        return float(torch.linalg.eigvalsh(_dense_laplacian(g, weights))[-1])
    return float(_lanczos(_matrix(g, weights), 1, "SA")[0][0])


def _smallest(g: Graph, k: int) -> tuple[Tensor, Tensor]:
    """The eigenvalues and eigenvectors but the first, float32 ``[k]`` and ``[num_nodes, k]``."""
    number = g.num_nodes()
    weights = _normalised(g)
    if k == 0:
        return weights.new_empty(0).float(), weights.new_empty(number, 0).float()
    if not _is_symmetric(g):
        values, vectors = _smallest_directed(g, weights, k + 1)
    elif number <= _DENSE or k + 1 >= number // 2:
        values, vectors = torch.linalg.eigh(_dense_laplacian(g, weights))
    else:
        found = _smallest_of_components(_matrix(g, weights), g.in_degrees().cpu().numpy(), k + 1)
        values, vectors = (torch.from_numpy(part).to(g.device) for part in found)
    return values[1 : k + 1].float(), vectors[:, 1 : k + 1].float()


def _smallest_of_components(matrix: Any, degrees: np.ndarray, k: int) -> tuple[Any, Any]:
    """Returns the `k` smallest eigenvalues of ``I - matrix``, ascending, and their eigenvectors.

    Each component has the eigenvalue 0, and Lanczos iteration finds the copies of an eigenvalue
    only by its rounding errors; therefore components are solved by themselves. Nodes without edges
    have the eigenvalue 1.
    """
    connected = optional("lap_pe", "scipy.sparse.csgraph").connected_components
    count, label = connected(matrix, directed=False)
    order = np.argsort(label, kind="stable")
    components = np.split(order, np.cumsum(np.bincount(label, minlength=count))[:-1])
    joined = [nodes for nodes in components if degrees[nodes[0]] > 0]
    found: list[tuple[float, np.ndarray, np.ndarray]] = []
    for nodes in joined[:k]:
        if len(joined) >= k:  # the zeros are enough
            root = np.sqrt(degrees[nodes])
            values, vectors = np.zeros(1), (root / np.linalg.norm(root))[:, None]
        else:
            values, vectors = _smallest_of_one(matrix[nodes][:, nodes], k)
        found += [(value, nodes, vector) for value, vector in zip(values, vectors.T)]
    alone = np.flatnonzero(degrees == 0)[:k]
    found += [(1.0, nodes, np.ones(1)) for nodes in alone[:, None]]
    found = sorted(found, key=lambda part: part[0])[:k]
    result = np.zeros((matrix.shape[0], k))
    for column, (_, nodes, vector) in enumerate(found):
        result[nodes, column] = vector
    return np.array([value for value, _, _ in found]), result


def _smallest_of_one(matrix: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Up to `k` eigenvalues of a component, ascending, and its eigenvectors."""
    number = matrix.shape[0]
    if number > _DENSE and k < number // 2:
        return _lanczos(matrix, k, "LA")
    values, vectors = np.linalg.eigh(np.eye(number) - matrix.toarray())
    return values[:k], vectors[:, :k]


def _smallest_directed(g: Graph, weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The `k` eigenvalues of the smallest real parts, and right eigenvectors; the real parts."""
    values, vectors = _directed(g, weights, k, "SR")
    order = values.argsort()[:k]
    found = (values[order].real, vectors[:, order].real)
    return tuple(torch.from_numpy(part.copy()).to(g.device) for part in found)  # type: ignore


def _directed(g: Graph, weights: Tensor, k: int, which: str) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of a Laplacian that is not symmetric and its eigenvectors, complex.

    Of a small graph all of them. Of a large one those `k` by Arnoldi iteration, or all where it
    does not converge.
    """
    number = g.num_nodes()
    if number > _DENSE and k < number - 1:
        linalg = optional("lap_pe", "scipy.sparse.linalg")
        laplacian = optional("lap_pe", "scipy.sparse").eye(number) - _matrix(g, weights)
        start = np.random.default_rng(0).standard_normal(number)
        try:
            return linalg.eigs(laplacian, k, which=which, v0=start)
        except linalg.ArpackNoConvergence:
            pass
    return np.linalg.eig(_dense_laplacian(g, weights).cpu().numpy())


def _is_symmetric(g: Graph) -> bool:
    """Returns whether as many edges lead from each node to another as back."""
    number = g.num_nodes()
    src, dst = (ids.long() for ids in g.edges())
    there, back = (
        torch.unique(key, return_counts=True) for key in (src * number + dst, dst * number + src)
    )
    return all(torch.equal(a, b) for a, b in zip(there, back))


def _normalised(g: Graph) -> Tensor:
    """Returns the edges' entries of ``D**-0.5 A D**-0.5``."""
    src, dst = (ids.long() for ids in g.edges())
    scale = g.in_degrees().clamp(min=1).double().rsqrt()
    return scale[src] * scale[dst]


def _dense_laplacian(g: Graph, weights: Tensor) -> Tensor:
    number = g.num_nodes()
    src, dst = (ids.long() for ids in g.edges())
    flat = torch.zeros(number * number, dtype=torch.float64, device=g.device)
    normalized = flat.index_add(0, src * number + dst, weights).view(number, number)
    return torch.eye(number, dtype=torch.float64, device=g.device) - normalized


def _matrix(g: Graph, weights: Tensor) -> Any:
    """Returns the normalised adjacency as a matrix of SciPy."""
    number = g.num_nodes()
    ends = tuple(ids.cpu().numpy() for ids in g.edges())
    sparse = optional("lap_pe", "scipy.sparse")
    return sparse.csr_array((weights.cpu().numpy(), ends), shape=(number, number))


def _lanczos(matrix: Any, k: int, which: str) -> tuple[np.ndarray, np.ndarray]:
    """`k` eigenvalues of a large Laplacian, ascending, as one less its adjacency's.

    Those of the largest (``LA``) or the smallest (``SA``) eigenvalues of the adjacency.
    """
    linalg = optional("lap_pe", "scipy.sparse.linalg")
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])  # the same vectors each time
    values, vectors = linalg.eigsh(matrix, k, which=which, v0=start)
    order = np.argsort(-values)
    return 1 - values[order], vectors[:, order]


def svd_pe(g: Graph, k: int, padding: bool = False, random_flip: bool = True) -> Tensor:
    """Singular vectors of the adjacency, times the root of their values (Hussain et al., KDD'22).

    Of ``A = U S V^T`` the columns are the first `k` of ``U sqrt(S)`` and the first `k` of
    ``V sqrt(S)``.

    Args:
        g: a graph of one type.
        k: number of singular values.
        padding: whether zeros stand for those that a small graph does not have.
        random_flip: whether the sign of each pair of vectors is drawn.

    Returns:
        float32 ``[num_nodes, 2 * k]``. Time is cubic in the number of nodes.

    Raises:
        SmexTypeError: the graph has several types.
        SmexValueError: `k` is larger than the number of nodes, and there is no padding.

    Example:
        >>> import smex.graph as sg
        >>> sg.svd_pe(sg.graph(([0, 1], [1, 0])), 2).shape
        torch.Size([2, 4])
    """
    check_one_type("svd_pe", g)
    number = g.num_nodes()
    kept = min(k, number)
    if kept < k and not padding:
        raise SmexValueError(
            f"svd_pe: expected k of at most the number of nodes, {number}, found {k}; pass "
            "padding=True to fill up with zeros"
        )
    u, values, vt = torch.linalg.svd(dense_adjacency("svd_pe", g, None).double())
    scale = values[:kept].sqrt()
    if random_flip:
        scale = scale * (torch.randint(2, (kept,), device=g.device) * 2 - 1)
    result = torch.zeros(number, 2 * k, device=g.device)
    result[:, :kept] = (u[:, :kept] * scale).float()
    result[:, k : k + kept] = (vt.T[:, :kept] * scale).float()
    return result

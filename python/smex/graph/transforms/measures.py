"""What a labelled graph's edges tell about the labels of its nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.parts.selection import check_one_type
from smex.graph.transforms import to_bidirected
from smex.graph.words import counted, describe

__all__ = [
    "adjusted_homophily",
    "edge_homophily",
    "edge_label_informativeness",
    "linkx_homophily",
    "node_homophily",
    "node_label_informativeness",
]


def node_homophily(graph: Graph, y: Tensor) -> float:
    r"""Returns the mean share of neighbours with a node's own class (Pei et al., ICLR'20, eq. 2).

    .. math:: \frac{1}{|V|} \sum_v \frac{|\{u \in N(v): y_u = y_v\}|}{|N(v)|}

    where N(v) are the sources of edges into v; a node without any counts as 0.

    Args:
        graph: a graph of one node type and one edge type.
        y: ``[num_nodes]`` integers from 0, the classes.

    Returns:
        A number from 0 to 1; NaN of a graph without nodes.

    Raises:
        SmexTypeError: the graph has several types.
        SmexValueError: there is not one class for each node.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([1, 2, 0], [0, 0, 1]))
        >>> round(sg.node_homophily(g, torch.tensor([0, 0, 1])), 4)
        0.5
    """
    y = _classes("node_homophily", graph, y)
    same = _same_into(graph, y)
    return float((same / graph.in_degrees().clamp(min=1)).mean())


def edge_homophily(graph: Graph, y: Tensor) -> float:
    r"""The share of edges between nodes of one class (Zhu et al., NeurIPS'20, definition 1).

    Args:
        graph: as for :func:`node_homophily`.
        y: as there.

    Returns:
        A number from 0 to 1; NaN of a graph without edges.

    Raises:
        SmexTypeError: as there.
        SmexValueError: as there.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([1, 2, 0], [0, 0, 1]))
        >>> round(sg.edge_homophily(g, torch.tensor([0, 0, 1])), 4)
        0.6667
    """
    y = _classes("edge_homophily", graph, y)
    src, dst = (y[ids.long()] for ids in graph.edges())
    return float((src == dst).double().mean())


def linkx_homophily(graph: Graph, y: Tensor) -> float:
    r"""Homophily of classes, beyond their sizes (Lim et al., NeurIPS'21, eq. 1 and 2).

    .. math:: \frac{1}{C - 1} \sum_k \max\left(0, \frac{\sum_{v: y_v = k}
              |\{u \in N(v): y_u = y_v\}|}{\sum_{v: y_v = k} |N(v)|} - \frac{|C_k|}{|V|}\right)

    A class without in-edges adds nothing.

    Args:
        graph: as for :func:`node_homophily`.
        y: as there.

    Returns:
        A number from 0 to 1; NaN of a single class.

    Raises:
        SmexTypeError: as there.
        SmexValueError: as there.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3], [1, 2, 0, 4]))
        >>> round(sg.linkx_homophily(g, torch.tensor([0, 0, 0, 0, 1])), 4)
        0.2
    """
    y = _classes("linkx_homophily", graph, y)
    same, degree, size = (
        _by_class(y, rows)
        for rows in (_same_into(graph, y), graph.in_degrees(), torch.ones_like(y))
    )
    excess = (same / degree.clamp(min=1) - size / graph.num_nodes()).clamp(min=0)
    return float(excess.sum() / (len(size) - 1)) if len(size) > 1 else float("nan")


def adjusted_homophily(graph: Graph, y: Tensor) -> float:
    r"""Edge homophily, adjusted for chance (Platonov et al., NeurIPS'23, eq. 3).

    .. math:: \frac{h_{edge} - \sum_k \bar p(k)^2}{1 - \sum_k \bar p(k)^2}, \quad
              \bar p(k) = \frac{\sum_{v: y_v = k} d(v)}{2 |E|}

    of the graph with its edges in both directions, each once. 0 where classes and edges are
    independent, negative where edges avoid the own class.

    Args:
        graph: as for :func:`node_homophily`.
        y: as there.

    Returns:
        A number up to 1; NaN of a single class, or without edges.

    Raises:
        SmexTypeError: as there.
        SmexValueError: as there.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([1, 2, 0, 4], [0, 1, 2, 3]))
        >>> round(sg.adjusted_homophily(g, torch.tensor([0, 0, 0, 0, 1])), 4)
        -0.1429
    """
    joint = _joint("adjusted_homophily", graph, y, per_node=False)
    by_chance = float(joint.sum(0).square().sum())
    found = float(joint.diagonal().sum())
    return (found - by_chance) / (1 - by_chance) if by_chance != 1 else float("nan")


def edge_label_informativeness(graph: Graph, y: Tensor) -> float:
    r"""What a neighbour's class tells about a node's (Platonov et al., NeurIPS'23, section 4).

    .. math:: \frac{I(y_\xi, y_\eta)}{H(y_\xi)}

    for an edge :math:`(\xi, \eta)` drawn among those of the graph with its edges in both
    directions, each once: mutual information over entropy.

    Args:
        graph: as for :func:`node_homophily`.
        y: as there.

    Returns:
        A number from 0 to 1; NaN where all ends of edges are of one class.

    Raises:
        SmexTypeError: as there.
        SmexValueError: as there.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 2, 3, 4], [1, 2, 0, 3, 4, 5]))
        >>> round(sg.edge_label_informativeness(g, torch.tensor([0, 0, 0, 0, 1, 1])), 4)
        0.2518
    """
    joint = _joint("edge_label_informativeness", graph, y, per_node=False)
    return _informativeness(joint, joint.sum(0))


def node_label_informativeness(graph: Graph, y: Tensor) -> float:
    r"""As :func:`edge_label_informativeness`, of a node drawn first and then one of its edges.

    .. math:: \sum_{a, b} p(a, b) \log\frac{p(a, b)}{p(a) \bar p(b)} \Big/ H(p)

    with :math:`\bar p` of :func:`adjusted_homophily`, as the paper has it, for the classes of
    neighbours. Nodes without edges are not drawn.

    Args:
        graph: as for :func:`node_homophily`.
        y: as there.

    Returns:
        A number; NaN where all nodes with edges are of one class.

    Raises:
        SmexTypeError: as there.
        SmexValueError: as there.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 2, 3, 4], [1, 2, 0, 3, 4, 5]))
        >>> round(sg.node_label_informativeness(g, torch.tensor([0, 0, 0, 0, 1, 1])), 4)
        0.3382
    """
    op = "node_label_informativeness"
    neighbours = _joint(op, graph, y, per_node=False).sum(0)
    return _informativeness(_joint(op, graph, y, per_node=True), neighbours)


def _classes(op: str, graph: Graph, y: Any) -> Tensor:
    check_one_type(op, graph)
    plain = isinstance(y, Tensor) and not (y.is_floating_point() or y.is_complex())
    if not plain or y.shape != (graph.num_nodes(),) or (y.numel() and int(y.min()) < 0):
        raise SmexValueError(
            f"{op}: expected a class from 0 for each of {counted(graph.num_nodes(), 'node')}, "
            f"found {describe(y)}"
        )
    return y.to(graph.device).long()


def _same_into(graph: Graph, y: Tensor) -> Tensor:
    """Returns how many edges into each node come from its own class, ``[num_nodes]``."""
    src, dst = (ids.long() for ids in graph.edges())
    return torch.zeros_like(y, dtype=torch.double).index_add(0, dst, (y[src] == y[dst]).double())


def _by_class(y: Tensor, rows: Tensor) -> Tensor:
    """Sums of rows over the nodes of each class."""
    count = int(y.max()) + 1 if y.numel() else 0
    return rows.new_zeros(count, dtype=torch.double).index_add(0, y, rows.double())


def _joint(op: str, graph: Graph, y: Tensor, per_node: bool) -> Tensor:
    """Probabilities ``[classes, classes]`` of the classes of a drawn edge's two ends.

    An edge is drawn evenly, or as one of the edges of a node that is drawn evenly.
    """
    y = _classes(op, graph, y)
    both = to_bidirected(graph.cpu()).to(graph.device)
    src, dst = (ids.long() for ids in both.edges())
    weight = torch.ones_like(src, dtype=torch.double)
    if per_node:
        weight = weight / both.out_degrees().double()[src]
    count = int(y.max()) + 1 if y.numel() else 0
    flat = weight.new_zeros(count * count).index_add(0, y[src] * count + y[dst], weight)
    return flat.view(count, count) / weight.sum()


def _informativeness(joint: Tensor, second: Tensor) -> float:
    first = joint.sum(1)
    independent = first.unsqueeze(1) * second
    mutual = torch.special.xlogy(joint, joint) - torch.special.xlogy(joint, independent)
    entropy = -torch.special.xlogy(first, first).sum()
    return float(mutual.sum() / entropy) if float(entropy) > 0 else float("nan")

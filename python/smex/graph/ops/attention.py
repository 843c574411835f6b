"""Attention over the edges into each node, without a message stored."""

from __future__ import annotations

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.core.graph_core import GraphCore
from smex.graph.ops.kernels import check_sources, edges_of_gradient
from smex.graph.structure.relation import Relation
from smex.graph.words import counted


def gat_attention(
    graph: GraphCore, left: Tensor, right: Tensor, value: Tensor, negative_slope: float = 0.2
) -> Tensor:
    r"""Graph attention (Veličković et al., ICLR'18, §2.1) as one kernel.

    .. math:: out_v = \sum_{u \in N(v)} a_{uv} \; value_u, \quad
              a_{uv} = softmax_u(LeakyReLU(left_u + right_v))

    Nothing is stored per edge: the weights are computed again for the gradient. Deterministic for
    a given number of threads.

    Args:
        graph: a graph with one edge type.
        left: ``[num_src, heads]``, the source's part of the score.
        right: ``[num_dst, heads]``, the destination's part.
        value: ``[num_src, heads, features]``.
        negative_slope: of the leaky ReLU.

    Returns:
        ``[num_dst, heads, features]``; 0 for a node without in-edges.

    Raises:
        ValueError: shapes do not fit each other or the graph.
        TypeError: the operands' dtypes differ or are not floating point.

    Example:
        >>> g = sg.graph(([0, 1], [2, 2]))
        >>> value = torch.tensor([[[1.0]], [[3.0]], [[5.0]]])
        >>> sg.ops.gat_attention(g, torch.zeros(3, 1), torch.zeros(3, 1), value).flatten()
        tensor([0., 0., 2.])
    """
    relation = graph.relation()
    _check_values("gat_attention", relation, value)
    out_edges = edges_of_gradient(relation, [left, right, value])
    out, _ = torch.ops.smex.gat_attention.default(
        relation.in_edges(), out_edges, left, right, value, float(negative_slope)
    )
    return out


def gatv2_attention(
    graph: GraphCore, left: Tensor, right: Tensor, attention: Tensor, negative_slope: float = 0.2
) -> Tensor:
    r"""Graph attention with a score that depends on both ends (Brody et al., ICLR'22, eq. 7).

    .. math:: out_v = \sum_{u \in N(v)} a_{uv} \; left_u, \quad
              a_{uv} = softmax_u(attention \cdot LeakyReLU(left_u + right_v))

    One kernel, which stores nothing per edge. The gradient computes the weights again, and one
    number for each edge and head lives while it does.

    Args:
        graph: a graph with one edge type.
        left: ``[num_src, heads, features]``.
        right: ``[num_dst, heads, features]``.
        attention: ``[heads, features]`` or ``[1, heads, features]``, the same for all edges.
        negative_slope: of the leaky ReLU.

    Returns:
        ``[num_dst, heads, features]``; 0 for a node without in-edges.

    Example:
        >>> g = sg.graph(([0, 1], [2, 2]))
        >>> left = torch.tensor([[[1.0]], [[3.0]], [[5.0]]])
        >>> sg.ops.gatv2_attention(g, left, torch.zeros(3, 1, 1), torch.zeros(1, 1)).flatten()
        tensor([0., 0., 2.])
    """
    relation = graph.relation()
    shared = attention if attention.dim() == left.dim() else attention.unsqueeze(0)
    text = f"dot(leaky_relu(u0 + v1, {float(negative_slope)!r}), c2)"
    _check_values("gatv2_attention", relation, left)
    return attend(relation, text, [left, right, shared], left)


def dot_attention(
    graph: GraphCore, query: Tensor, key: Tensor, value: Tensor, scale: float | None = None
) -> Tensor:
    r"""Dot-product attention along the edges (Vaswani et al., 2017, §3.2.1).

    .. math:: out_v = \sum_{u \in N(v)} a_{uv} \; value_u, \quad
              a_{uv} = softmax_u(scale \cdot query_v \cdot key_u)

    One kernel, which stores nothing per edge; the gradient as that of :func:`gatv2_attention`.

    Args:
        graph: a graph with one edge type.
        query: ``[num_dst, heads, features]``.
        key: ``[num_src, heads, features]``.
        value: ``[num_src, heads, values]``.
        scale: by default 1 / sqrt(features).

    Returns:
        ``[num_dst, heads, values]``; 0 for a node without in-edges.

    Example:
        >>> g = sg.graph(([0, 1], [2, 2]))
        >>> value = torch.tensor([[[1.0]], [[3.0]], [[5.0]]])
        >>> sg.ops.dot_attention(g, torch.zeros(3, 1, 4), torch.zeros(3, 1, 4), value).flatten()
        tensor([0., 0., 2.])
    """
    relation = graph.relation()
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    _check_values("dot_attention", relation, value)
    return attend(relation, "dot(u0, v1)", [key, query * factor], value)


def _check_values(op: str, relation: Relation, value: Tensor) -> None:
    if value.dim() > 0 and value.shape[0] != relation.num_src:
        raise SmexValueError(
            f"{op}: expected values of {counted(relation.num_src, 'source node')}, found shape "
            f"{list(value.shape)}"
        )


def attend(relation: Relation, score: str, operands: list[Tensor], value: Tensor) -> Tensor:
    """The sources' values, weighted by the softmax of a formula over the edges into each node.

    Args:
        relation: the edges.
        score: a message with one value for each head, ``[heads, 1]``.
        operands: features ``[num_src | num_dst | num_edges | 1, heads, ...]`` of the score.
        value: ``[num_src, heads, values]``.

    Returns:
        ``[num_dst, heads, values]``; 0 for a node without in-edges.
    """
    check_sources(relation, score, operands)
    out_edges = edges_of_gradient(relation, [*operands, value])
    return torch.ops.smex.attention.default(relation.in_edges(), out_edges, score, operands, value)

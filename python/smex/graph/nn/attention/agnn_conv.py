"""Graph attention by cosines."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.inputs import RefusesZeroInDegree, check_floats, source_and_destination
from smex.graph.ops.attention import dot_attention


class AGNNConv(RefusesZeroInDegree, nn.Module):
    r"""Attention-based propagation (Thekumparampil et al., 2018, eq. 5).

    .. math:: h_v' = \sum_{u \in N(v)} a_{uv} h_u, \quad
              a_{uv} = softmax_u(\beta \cos(h_u, h_v))

    Runs as one kernel that stores nothing per edge.

    Args:
        init_beta: the first value of β.
        learn_beta: whether β is a parameter.
        allow_zero_in_degree: whether nodes without in-edges, which get 0, are fine.

    Raises:
        SmexValueError: in :meth:`forward` a node without in-edges.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> sg.nn.AGNNConv()(g, torch.ones(3, 4)).shape
        torch.Size([3, 4])
    """

    beta: Tensor

    def __init__(
        self, init_beta: float = 1.0, learn_beta: bool = True, allow_zero_in_degree: bool = False
    ):
        super().__init__()
        self._allow_zero_in_degree = allow_zero_in_degree
        beta = torch.tensor([float(init_beta)])
        if learn_beta:
            self.beta = nn.Parameter(beta)
        else:
            self.register_buffer("beta", beta)

    def forward(self, graph: Graph, feat: Any) -> Tensor:
        """Returns the new features ``[num_dst, ..., features]``.

        Args:
            graph: a graph with one edge type.
            feat: ``[num_src, ..., features]``, or a pair for sources and destinations, equally
                wide. Dimensions between nodes and features stay apart, as heads do.
        """
        self._check_in_degrees(graph)
        source, own = source_and_destination(graph, feat)
        check_floats("AGNNConv", "source node", source)
        key = _as_heads(F.normalize(source, dim=-1))
        query = _as_heads(self.beta * F.normalize(own, dim=-1))
        result = dot_attention(graph, query, key, _as_heads(source), scale=1.0)
        return result.reshape(-1, *source.shape[1:])


def _as_heads(rows: Tensor) -> Tensor:
    """Rows ``[nodes, ..., features]`` as ``[nodes, heads, features]``."""
    return rows.unsqueeze(1).flatten(1, -2)

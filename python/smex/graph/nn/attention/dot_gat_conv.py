"""Graph attention by dot products."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.inputs import (
    RefusesZeroInDegree,
    check_at_least_one,
    check_rows,
    check_two_dims,
    size_pair,
    source_and_destination,
)
from smex.graph.nn.propagation import attention_weights
from smex.graph.ops.attention import dot_attention
from smex.graph.ops.kernels import aggregate


class DotGatConv(RefusesZeroInDegree, nn.Module):
    r"""Graph attention by dot products (Vaswani et al., 2017, eq. 1, along edges).

    .. math:: h_v' = \sum_{u \in N(v)} a_{uv} W_u h_u, \quad
              a_{uv} = softmax_u\left(\frac{(W_u h_u) \cdot (W_v h_v)}{\sqrt{d}}\right)

    for every head. Runs as one kernel that stores nothing per edge.

    Args:
        in_feats: features of an input row, or a pair for sources and destinations.
        out_feats: features of an output row of each head.
        num_heads: heads.
        allow_zero_in_degree: whether nodes without in-edges, which get 0, are fine.

    Raises:
        SmexValueError: in :meth:`forward` a node without in-edges, or features of another width.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> sg.nn.DotGatConv(4, 2, num_heads=3)(g, torch.ones(3, 4)).shape
        torch.Size([3, 3, 2])
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        num_heads: int,
        allow_zero_in_degree: bool = False,
    ):
        super().__init__()
        self._in_src_feats, self._in_dst_feats = size_pair(in_feats)
        check_at_least_one("DotGatConv", "num_heads", num_heads)
        self._out_feats, self._num_heads = out_feats, num_heads
        self._allow_zero_in_degree = allow_zero_in_degree
        width = out_feats * num_heads
        self._pair = isinstance(in_feats, tuple)
        if self._pair:
            self.fc_src = nn.Linear(self._in_src_feats, width, bias=False)
            self.fc_dst = nn.Linear(self._in_dst_feats, width, bias=False)
        else:
            self.fc = nn.Linear(self._in_src_feats, width, bias=False)

    def forward(self, graph: Graph, feat: Any, get_attention: bool = False) -> Any:
        """Returns the new features ``[num_dst, heads, out_feats]``.

        Args:
            graph: a graph with one edge type.
            feat: ``[num_src, in_feats]``, or a pair for sources and destinations.
            get_attention: whether to return the weights ``[num_edges, heads, 1]`` too.
        """
        self._check_in_degrees(graph)
        relation = graph.relation()
        source, own = source_and_destination(graph, feat)
        check_rows("DotGatConv", "source node", source, relation.num_src, self._in_src_feats)
        check_rows("DotGatConv", "destination node", own, relation.num_dst, self._in_dst_feats)
        check_two_dims("DotGatConv", "source node", source)
        left = self._project(source, self.fc_src if self._pair else self.fc)
        if self._pair or isinstance(feat, tuple):
            right = self._project(own, self.fc_dst if self._pair else self.fc)
        else:
            right = left[: relation.num_dst]
        if not get_attention:
            return dot_attention(graph, right, left, left)
        query = right * self._out_feats**-0.5
        weight = attention_weights(relation, "dot(u0, v1)", [left, query])
        return aggregate(relation, "u0 * e1", "sum", [left, weight]), weight

    def _project(self, rows: Tensor, linear: nn.Module) -> Tensor:
        return linear(rows).unflatten(-1, (self._num_heads, self._out_feats))

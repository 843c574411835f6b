"""Edge convolution."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.inputs import RefusesZeroInDegree, check_rows, source_and_destination
from smex.graph.ops.kernels import aggregate, per_edge


class EdgeConv(RefusesZeroInDegree, nn.Module):
    r"""Edge convolution (Wang et al., ACM TOG'19, eq. 8).

    .. math:: h_v' = \max_{u \in N(v)} (\Theta (h_v - h_u) + b_\Theta + \Phi h_v + b_\Phi)

    Both matrices are applied to nodes, not to edges. Messages are stored only to normalise them.

    Args:
        in_feat: features of an input row.
        out_feat: features of an output row.
        batch_norm: whether messages are normalised over all edges.
        allow_zero_in_degree: whether nodes without in-edges, which get 0, are fine.

    Raises:
        SmexValueError: in :meth:`forward` a node without in-edges, or features of another width.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> sg.nn.EdgeConv(4, 2)(g, torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_feat: int,
        out_feat: int,
        batch_norm: bool = False,
        allow_zero_in_degree: bool = False,
    ):
        super().__init__()
        self.batch_norm = batch_norm
        self._allow_zero_in_degree = allow_zero_in_degree
        self.theta = nn.Linear(in_feat, out_feat)
        self.phi = nn.Linear(in_feat, out_feat)
        if batch_norm:
            self.bn = nn.BatchNorm1d(out_feat)

    def forward(self, g: Graph, feat: Any) -> Tensor:
        """Returns the new features ``[num_dst, out_feat]``.

        Args:
            g: a graph with one edge type.
            feat: ``[num_src, in_feat]``, or a pair for sources and destinations.
        """
        self._check_in_degrees(g)
        relation = g.relation()
        source, own = source_and_destination(g, feat)
        width = self.theta.in_features
        check_rows("EdgeConv", "source node", source, relation.num_src, width)
        check_rows("EdgeConv", "destination node", own, relation.num_dst, width)
        operands = [
            nn.functional.linear(source, self.theta.weight),
            self.theta(own) + self.phi(own),
        ]
        if not self.batch_norm:
            return aggregate(relation, "v1 - u0", "max", operands)
        message = self.bn(per_edge(relation, "v1 - u0", operands))
        return aggregate(relation, "e0", "max", [message])

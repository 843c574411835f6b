"""Personalised propagation of predictions."""

from __future__ import annotations

from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.conv.edge_weight_norm import EdgeWeightNorm
from smex.graph.nn.inputs import check_floats, check_graph
from smex.graph.nn.propagation import Propagation


class APPNPConv(nn.Module):
    r"""Approximate personalised propagation of predictions (Gasteiger et al., ICLR'19, eq. 4).

    .. math:: H^{(i+1)} = (1 - \alpha) D_{in}^{-1/2} A D_{out}^{-1/2} H^{(i)} + \alpha H^{(0)}

    Args:
        k: number of iterations.
        alpha: α, the probability to jump back.
        edge_drop: dropout of edges, another one in each iteration.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 0])))
        >>> sg.nn.APPNPConv(k=2, alpha=0.5)(g, torch.tensor([[1.0], [0.0]])).flatten()
        tensor([0.7500, 0.2500])
    """

    def __init__(self, k: int, alpha: float, edge_drop: float = 0.0):
        super().__init__()
        self._k, self._alpha = k, alpha
        self.edge_drop = nn.Dropout(edge_drop)

    def forward(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Returns the propagated features, of the shape of ``feat``.

        Args:
            graph: a graph of one type of nodes and edges.
            feat: ``[num_nodes, *]``.
            edge_weight: ``[num_edges]``, positive: the entries of A, which are normalised by
                :class:`EdgeWeightNorm`.
        """
        check_graph("APPNPConv", graph)
        check_floats("APPNPConv", "node", feat)
        if edge_weight is not None:
            edge_weight = EdgeWeightNorm("both")(graph, edge_weight)
        propagate = Propagation("APPNPConv", graph, feat, edge_weight, by_out_degree=True)
        drops = self.training and self.edge_drop.p > 0
        hidden = feat
        for _ in range(self._k):
            mask = None
            if drops:
                ones = feat.new_ones(graph.num_edges(), *[1] * (feat.dim() - 1))
                mask = self.edge_drop(ones)
            hidden = (1 - self._alpha) * propagate(hidden, mask) + self._alpha * feat
        return hidden

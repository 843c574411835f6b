"""Topology adaptive graph convolution."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.conv.edge_weight_norm import EdgeWeightNorm
from smex.graph.nn.inputs import check_graph, check_rows
from smex.graph.nn.propagation import Propagation


class TAGConv(nn.Module):
    r"""Topology adaptive graph convolution (Du et al., 2017, eq. 1 and 4).

    .. math:: H' = \sum_{i=0}^{k} (D^{-1/2} A D^{-1/2})^i H W_i + b

    Args:
        in_feats: features of an input row.
        out_feats: features of an output row.
        k: number of hops.
        bias: whether there is a bias b.
        activation: applied to the result.

    Raises:
        SmexValueError: in :meth:`forward` features of another width.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> sg.nn.TAGConv(4, 2, k=2)(g, torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        k: int = 2,
        bias: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
    ):
        super().__init__()
        self._in_feats, self._out_feats, self._k = in_feats, out_feats, k
        self._activation = activation
        self.lin = nn.Linear(in_feats * (k + 1), out_feats, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's normal weights with the gain of a ReLU."""
        nn.init.xavier_normal_(self.lin.weight, gain=nn.init.calculate_gain("relu"))

    def forward(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Returns the new features ``[num_nodes, out_feats]``.

        Args:
            graph: a graph of one type of nodes and edges.
            feat: ``[num_nodes, in_feats]``.
            edge_weight: ``[num_edges]``, positive: the entries of A, which are normalised by
                :class:`EdgeWeightNorm`.
        """
        check_graph("TAGConv", graph)
        check_rows("TAGConv", "node", feat, graph.num_nodes(), self._in_feats)
        if edge_weight is not None:
            edge_weight = EdgeWeightNorm("both")(graph, edge_weight)
        propagate = Propagation("TAGConv", graph, feat, edge_weight)
        hops = [feat]
        for _ in range(self._k):
            hops.append(propagate(hops[-1]))
        result = self.lin(torch.cat(hops, -1))
        return result if self._activation is None else self._activation(result)

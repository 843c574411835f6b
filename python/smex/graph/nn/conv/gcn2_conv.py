"""Graph convolution for deep networks."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.conv.edge_weight_norm import EdgeWeightNorm
from smex.graph.nn.inputs import (
    RefusesZeroInDegree,
    check_at_least_one,
    check_rows,
)
from smex.graph.nn.propagation import Propagation


class GCN2Conv(RefusesZeroInDegree, nn.Module):
    r"""Graph convolution with initial residual and identity mapping (Chen et al., ICML'20, eq. 5).

    .. math:: H' = ((1 - \alpha) P H + \alpha H^{(0)}) ((1 - \beta) I + \beta W) + b, \quad
              \beta = \log(\lambda / layer + 1)

    with :math:`P = D^{-1/2} A D^{-1/2}`; without ``project_initial_features`` the two summands have
    matrices of their own.

    Args:
        in_feats: features of a row.
        layer: the layer's number in the network, from 1.
        alpha: α, the share of the first features.
        lambda_: λ.
        project_initial_features: whether the two summands share a matrix.
        allow_zero_in_degree: whether nodes without in-edges are fine.
        bias: whether there is a bias b.
        activation: applied to the result.

    Raises:
        SmexValueError: in :meth:`forward` a node without in-edges, or features of another width.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> sg.nn.GCN2Conv(4, layer=1)(g, torch.ones(3, 4), torch.ones(3, 4)).shape
        torch.Size([3, 4])
    """

    def __init__(
        self,
        in_feats: int,
        layer: int,
        alpha: float = 0.1,
        lambda_: float = 1,
        project_initial_features: bool = True,
        allow_zero_in_degree: bool = False,
        bias: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
    ):
        super().__init__()
        check_at_least_one("GCN2Conv", "layer", layer)
        self._in_feats = in_feats
        self.alpha, self.beta = alpha, math.log(lambda_ / layer + 1)
        self._allow_zero_in_degree = allow_zero_in_degree
        self._activation = activation
        self.weight1 = nn.Parameter(torch.empty(in_feats, in_feats))
        self.weight2: Tensor | None = None
        if not project_initial_features:
            self.weight2 = nn.Parameter(torch.empty(in_feats, in_feats))
        self.bias = nn.Parameter(torch.empty(in_feats)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal matrices and a zero bias."""
        nn.init.normal_(self.weight1)
        if self.weight2 is not None:
            nn.init.normal_(self.weight2)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(
        self, graph: Graph, feat: Tensor, feat_0: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Returns the new features ``[num_nodes, in_feats]``.

        Args:
            graph: a graph of one type of nodes and edges.
            feat: ``[num_nodes, in_feats]``.
            feat_0: ``[num_nodes, in_feats]``, the features that the network started from.
            edge_weight: ``[num_edges]``, positive: the entries of A, which are normalised by
                :class:`EdgeWeightNorm`.
        """
        self._check_in_degrees(graph)
        check_rows("GCN2Conv", "node", feat, graph.num_nodes(), self._in_feats)
        check_rows("GCN2Conv", "node", feat_0, graph.num_nodes(), self._in_feats)
        if edge_weight is not None:
            edge_weight = EdgeWeightNorm("both")(graph, edge_weight)
        smooth = (1 - self.alpha) * Propagation("GCN2Conv", graph, feat, edge_weight)(feat)
        first = self.alpha * feat_0
        if self.weight2 is None:
            result = self._mapped(smooth + first, self.weight1)
        else:
            result = self._mapped(smooth, self.weight1) + self._mapped(first, self.weight2)
        if self.bias is not None:
            result = result + self.bias
        return result if self._activation is None else self._activation(result)

    def extra_repr(self) -> str:
        """Returns the size and the two factors."""
        return f"in={self._in_feats}, alpha={self.alpha}, beta={self.beta}"

    def _mapped(self, x: Tensor, weight: Tensor) -> Tensor:
        return (1 - self.beta) * x + self.beta * (x @ weight)

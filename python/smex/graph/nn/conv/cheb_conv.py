"""Chebyshev graph convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.inputs import (
    check_at_least_one,
    check_graph,
    check_rows,
)
from smex.graph.nn.propagation import Propagation
from smex.graph.readout import broadcast_nodes


class ChebConv(nn.Module):
    r"""Chebyshev graph convolution (Defferrard et al., NeurIPS'16, eq. 4).

    .. math:: H' = \sum_{i=0}^{k-1} Z_i W_i + b, \quad Z_0 = H, \; Z_1 = L H, \;
              Z_i = 2 L Z_{i-1} - Z_{i-2}

    with :math:`L = 2 (I - D^{-1/2} A D^{-1/2}) / \lambda_{max} - I`.

    Args:
        in_feats: features of an input row.
        out_feats: features of an output row.
        k: number of terms.
        activation: applied to the result.
        bias: whether there is a bias b.

    Raises:
        SmexValueError: in :meth:`forward` features of another width, or not one largest eigenvalue
            for each graph.

    Example:
        >>> g = sg.graph(([0, 1], [1, 0]))
        >>> sg.nn.ChebConv(4, 2, k=3)(g, torch.ones(2, 4)).shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        k: int,
        activation: Callable[[Tensor], Tensor] | None = F.relu,
        bias: bool = True,
    ):
        super().__init__()
        check_at_least_one("ChebConv", "k", k)
        self._in_feats, self._out_feats, self._k = in_feats, out_feats, k
        self.activation = activation
        self.linear = nn.Linear(k * in_feats, out_feats, bias)

    def forward(self, graph: Graph, feat: Tensor, lambda_max: Any = None) -> Tensor:
        """Returns the new features ``[num_nodes, out_feats]``.

        Args:
            graph: a graph of one type of nodes and edges, or a batch of such.
            feat: ``[num_nodes, in_feats]``.
            lambda_max: ``[batch_size]`` or ``[batch_size, 1]``, the largest eigenvalue of each
                graph's normalised Laplacian; 2, the most that it can be, where it is None.
        """
        check_graph("ChebConv", graph)
        check_rows("ChebConv", "node", feat, graph.num_nodes(), self._in_feats)
        propagate = Propagation("ChebConv", graph, feat)
        scale: Tensor | float = 1.0
        if lambda_max is not None:
            largest = torch.as_tensor(lambda_max, dtype=feat.dtype, device=feat.device)
            scale = broadcast_nodes(graph, 2.0 / largest.reshape(-1, 1))
        terms = [feat]
        for i in range(1, self._k):
            product = (scale - 1) * terms[-1] - scale * propagate(terms[-1])
            terms.append(product if i == 1 else 2 * product - terms[-2])
        result = self.linear(torch.cat(terms, -1))
        return result if self.activation is None else self.activation(result)

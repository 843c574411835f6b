"""Simplified graph convolution."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.conv.edge_weight_norm import EdgeWeightNorm
from smex.graph.nn.inputs import RefusesZeroInDegree, check_rows
from smex.graph.nn.propagation import Propagation


class SGConv(RefusesZeroInDegree, nn.Module):
    r"""Simplified graph convolution (Wu et al., ICML'19, eq. 8).

    .. math:: H' = (D^{-1/2} A D^{-1/2})^k H W + b

    Args:
        in_feats: features of an input row.
        out_feats: features of an output row.
        k: number of hops.
        cached: whether to keep the propagated features of the first call for all others, which is
            right where graph and features stay as they are.
        bias: whether there is a bias b.
        norm: applied to the propagated features.
        allow_zero_in_degree: whether nodes without in-edges are fine.

    Raises:
        SmexValueError: in :meth:`forward` a node without in-edges, or features of another width.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> sg.nn.SGConv(4, 2, k=2)(g, torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        k: int = 1,
        cached: bool = False,
        bias: bool = True,
        norm: Callable[[Tensor], Tensor] | None = None,
        allow_zero_in_degree: bool = False,
    ):
        super().__init__()
        self.fc = nn.Linear(in_feats, out_feats, bias=bias)
        self._cached = cached
        self._cached_h: Tensor | None = None
        self._k = k
        self.norm = norm
        self._allow_zero_in_degree = allow_zero_in_degree
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's uniform weights and a zero bias."""
        nn.init.xavier_uniform_(self.fc.weight)
        if self.fc.bias is not None:
            nn.init.zeros_(self.fc.bias)

    def forward(self, graph: Graph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Returns the new features ``[num_nodes, out_feats]``.

        Args:
            graph: a graph of one type of nodes and edges.
            feat: ``[num_nodes, in_feats]``.
            edge_weight: ``[num_edges]``, positive: the entries of A, which are normalised by
                :class:`EdgeWeightNorm`.
        """
        self._check_in_degrees(graph)
        if self._cached_h is not None:
            return self.fc(self._cached_h)
        check_rows("SGConv", "node", feat, graph.num_nodes(), self.fc.in_features)
        if edge_weight is not None:
            edge_weight = EdgeWeightNorm("both")(graph, edge_weight)
        propagate = Propagation("SGConv", graph, feat, edge_weight)
        # The narrower rows travel along the edges, where nothing stands between the two products.
        first = (
            not self._cached and self.norm is None and self.fc.in_features > self.fc.out_features
        )
        if first:
            feat = nn.functional.linear(feat, self.fc.weight)
        for _ in range(self._k):
            feat = propagate(feat)
        if first:
            return feat if self.fc.bias is None else feat + self.fc.bias
        if self.norm is not None:
            feat = self.norm(feat)
        if self._cached:
            self._cached_h = feat
        return self.fc(feat)

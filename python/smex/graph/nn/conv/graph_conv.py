"""Graph convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.nn.inputs import (
    RefusesZeroInDegree,
    check_choice,
    check_floats,
    check_rows,
    degree_factor,
    source_and_destination,
)
from smex.graph.nn.propagation import add_to, sum_of_products

NORMS = ("none", "both", "right", "left")


class GraphConv(RefusesZeroInDegree, nn.Module):
    r"""Graph convolution (Kipf and Welling, ICLR'17, eq. 2).

    .. math:: h_v' = b + \sum_{u \in N(v)} \frac{1}{c_{uv}} h_u W

    with :math:`c_{uv} = \sqrt{|N_{out}(u)| |N_{in}(v)|}` for ``norm="both"``.

    Args:
        in_feats: features of an input row.
        out_feats: features of an output row.
        norm: ``both``, ``right`` (divide by the in-degree), ``left`` (by the out-degree) or
            ``none``.
        weight: whether there is a matrix W; otherwise pass it to :meth:`forward`.
        bias: whether there is a bias b.
        activation: applied to the result.
        allow_zero_in_degree: whether nodes without in-edges, which get the bias only, are fine.

    Raises:
        SmexValueError: an unknown ``norm``; in :meth:`forward` a node without in-edges, features
            of another width, or a weight given twice.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> sg.nn.GraphConv(4, 2)(g, torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        norm: str = "both",
        weight: bool = True,
        bias: bool = True,
        activation: Callable[[Tensor], Tensor] | None = None,
        allow_zero_in_degree: bool = False,
    ):
        super().__init__()
        check_choice("GraphConv", "norm", norm, NORMS)
        self._in_feats = in_feats
        self._out_feats = out_feats
        self._norm = norm
        self._allow_zero_in_degree = allow_zero_in_degree
        self.weight = nn.Parameter(torch.empty(in_feats, out_feats)) if weight else None
        self.bias = nn.Parameter(torch.empty(out_feats)) if bias else None
        self._activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's uniform weights and a zero bias."""
        if self.weight is not None:
            nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(
        self,
        graph: Graph,
        feat: Any,
        weight: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """Returns the convolved features ``[num_dst, out_feats]``.

        Args:
            graph: a graph with one edge type.
            feat: ``[num_src, in_feats]``, or a pair for sources and destinations.
            weight: W, where the layer has none.
            edge_weight: ``[num_edges]``, a factor for each message.
        """
        self._check_in_degrees(graph)
        if weight is not None and self.weight is not None:
            raise SmexValueError(
                "GraphConv: expected no weight beside the layer's own; create it with weight=False"
            )
        weight = self.weight if weight is None else weight
        source, _ = source_and_destination(graph, feat)
        check_floats("GraphConv", "source node", source)
        if weight is not None:
            num_src = graph.relation().num_src
            check_rows("GraphConv", "source node", source, num_src, weight.shape[0])
        # The narrower rows travel along the edges.
        if weight is not None and self._in_feats > self._out_feats:
            result = self._aggregate(graph, source @ weight, edge_weight)
            result = result if self.bias is None else add_to(result, self.bias)
        else:
            result = self._aggregate(graph, source, edge_weight)
            if weight is not None:
                result = nn.functional.linear(result, weight.t(), self.bias)
            elif self.bias is not None:
                result = add_to(result, self.bias)
        return result if self._activation is None else self._activation(result)

    def _aggregate(self, graph: Graph, source: Tensor, edge_weight: Tensor | None) -> Tensor:
        """Returns the normalised sum of the sources' rows."""
        relation = graph.relation()
        power = -0.5 if self._norm == "both" else -1.0
        factors: list[tuple[str, Tensor]] = []
        if self._norm in ("both", "left"):
            factors.append(("u", degree_factor(relation, "src", power, source)))
        if edge_weight is not None:
            factors.append(("e", edge_weight.reshape(-1, *[1] * (source.dim() - 1))))
        if self._norm in ("both", "right"):
            factors.append(("v", degree_factor(relation, "dst", power, source)))
        return sum_of_products(relation, source, factors)

    def extra_repr(self) -> str:
        """Returns the sizes, the normalisation and the activation."""
        text = f"in={self._in_feats}, out={self._out_feats}, normalization={self._norm}"
        if isinstance(self._activation, nn.Module):  # shown as a part of the layer
            return text
        return f"{text}, activation={self._activation}"

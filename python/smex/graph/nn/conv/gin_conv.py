"""Graph isomorphism networks, without and with features of edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smex.graph import function as fn
from smex.graph.graph import Graph
from smex.graph.nn.inputs import (
    check_choice,
    check_floats,
    check_graph,
    check_rows,
    source_and_destination,
)
from smex.graph.nn.propagation import weighted
from smex.graph.ops.kernels import aggregate
from smex.graph.udf import EdgeBatch, is_replaced

AGGREGATORS = ("sum", "max", "mean")


class _Isomorphism(nn.Module):
    """The part of both layers that follows the aggregation."""

    eps: Tensor

    def __init__(self, apply_func: Callable[[Tensor], Tensor] | None, init_eps: float, learn: bool):
        super().__init__()
        self.apply_func = apply_func
        eps = torch.tensor([float(init_eps)])
        if learn:
            self.eps = nn.Parameter(eps)
        else:
            self.register_buffer("eps", eps)

    def _combine(self, own: Tensor, neighbours: Tensor) -> Tensor:
        result = (1 + self.eps) * own + neighbours
        return result if self.apply_func is None else self.apply_func(result)


class GINConv(_Isomorphism):
    r"""Graph isomorphism network (Xu et al., ICLR'19, eq. 4.1).

    .. math:: h_v' = f((1 + \epsilon) h_v + aggregate_{u \in N(v)}(h_u))

    Args:
        apply_func: f, applied to the result.
        aggregator_type: ``sum``, ``max`` or ``mean``.
        init_eps: the first value of ε.
        learn_eps: whether ε is a parameter.
        activation: applied at last.

    Raises:
        SmexValueError: an unknown aggregator.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> sg.nn.GINConv()(g, torch.ones(3, 1)).flatten()
        tensor([1., 2., 2.])
    """

    def __init__(
        self,
        apply_func: Callable[[Tensor], Tensor] | None = None,
        aggregator_type: str = "sum",
        init_eps: float = 0,
        learn_eps: bool = False,
        activation: Callable[[Tensor], Tensor] | None = None,
    ):
        super().__init__(apply_func, init_eps, learn_eps)
        check_choice("GINConv", "aggregator_type", aggregator_type, AGGREGATORS)
        self._aggregator_type = aggregator_type
        self.activation = activation

    def forward(self, graph: Graph, feat: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Returns the new features ``[num_dst, *]``, of the width that ``apply_func`` returns.

        Args:
            graph: a graph with one edge type.
            feat: ``[num_src, in_feats]``, or a pair for sources and destinations, equally wide.
            edge_weight: ``[num_edges]``, a factor for each message.
        """
        check_graph("GINConv", graph)
        source, own = source_and_destination(graph, feat)
        check_floats("GINConv", "source node", source)
        neighbours = weighted("GINConv", graph, source, self._aggregator_type, edge_weight)
        result = self._combine(own, neighbours)
        return result if self.activation is None else self.activation(result)


class GINEConv(_Isomorphism):
    r"""Graph isomorphism network with features of edges (Hu et al., ICLR'20, eq. 4.1).

    .. math:: h_v' = f((1 + \epsilon) h_v + \sum_{u \in N(v)} ReLU(h_u + e_{uv}))

    Args:
        apply_func: f, applied to the result.
        init_eps: the first value of ε.
        learn_eps: whether ε is a parameter.

    Raises:
        SmexValueError: in :meth:`forward` features that are not one row for each edge.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> sg.nn.GINEConv()(g, torch.ones(3, 1), torch.tensor([[1.0], [-2.0]])).flatten()
        tensor([1., 3., 1.])
    """

    def __init__(
        self,
        apply_func: Callable[[Tensor], Tensor] | None = None,
        init_eps: float = 0,
        learn_eps: bool = False,
    ):
        super().__init__(apply_func, init_eps, learn_eps)

    def forward(self, graph: Graph, node_feat: Any, edge_feat: Tensor) -> Tensor:
        """Returns the new features ``[num_dst, *]``, of the width that ``apply_func`` returns.

        Args:
            graph: a graph with one edge type.
            node_feat: ``[num_src, in_feats]``, or a pair for sources and destinations, equally
                wide.
            edge_feat: ``[num_edges, in_feats]``.
        """
        check_graph("GINEConv", graph)
        source, own = source_and_destination(graph, node_feat)
        check_floats("GINEConv", "source node", source)
        check_rows("GINEConv", "edge", edge_feat, graph.num_edges())
        if is_replaced(self.message, GINEConv.message):
            with graph.local_scope():
                graph.srcdata["hn"], graph.edata["he"] = source, edge_feat
                graph.update_all(self.message, fn.sum("m", "neigh"))
                return self._combine(own, graph.dstdata["neigh"])
        message = "relu(u0 + e1)"
        return self._combine(own, aggregate(graph.relation(), message, "sum", [source, edge_feat]))

    def message(self, edges: EdgeBatch) -> dict[str, Tensor]:
        """Returns the messages as ``m``, of sources' ``hn`` and edges' ``he``.

        A kernel takes its place; that of a subclass is called.
        """
        return {"m": torch.relu(edges.src["hn"] + edges.data["he"])}

"""GraphSAGE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smex.graph import function as fn
from smex.graph.graph import Graph
from smex.graph.nn.inputs import (
    check_choice,
    check_graph,
    check_rows,
    edge_factor,
    size_pair,
    source_and_destination,
)
from smex.graph.nn.propagation import add_to, weighted
from smex.graph.utils import check_eq_shape

AGGREGATORS = ("mean", "gcn", "pool", "lstm")


class SAGEConv(nn.Module):
    r"""GraphSAGE (Hamilton et al., NeurIPS'17, algorithm 1 and §3.3).

    .. math:: h_v' = W_{self} h_v + W_{neigh} \; aggregate_{u \in N(v)}(h_u) + b

    ``gcn`` has one matrix, for the mean over v and its neighbours. Messages are stored by ``lstm``
    alone, which reads them in the order of edge ids.

    Args:
        in_feats: features of an input row, or a pair for sources and destinations.
        out_feats: features of an output row.
        aggregator_type: ``mean``, ``gcn``, ``pool`` (the maximum of projected rows, eq. 3) or
            ``lstm`` (its last state).
        feat_drop: dropout of the input rows.
        bias: whether there is a bias b.
        norm: applied to the result, after the activation.
        activation: applied to the result.

    Raises:
        SmexValueError: an unknown aggregator; in :meth:`forward` features of another width, or for
            ``gcn`` features of ends that differ in width.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> sg.nn.SAGEConv(4, 2, "mean")(g, torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        out_feats: int,
        aggregator_type: str,
        feat_drop: float = 0.0,
        bias: bool = True,
        norm: Callable[[Tensor], Tensor] | None = None,
        activation: Callable[[Tensor], Tensor] | None = None,
    ):
        super().__init__()
        check_choice("SAGEConv", "aggregator_type", aggregator_type, AGGREGATORS)
        self._in_src_feats, self._in_dst_feats = size_pair(in_feats)
        self._out_feats = out_feats
        self._aggre_type = aggregator_type
        self.norm = norm
        self.feat_drop = nn.Dropout(feat_drop)
        self.activation = activation
        width = self._in_src_feats
        if aggregator_type == "pool":
            self.fc_pool = nn.Linear(width, width)
        if aggregator_type == "lstm":
            self.lstm = nn.LSTM(width, width, batch_first=True)
        self.fc_neigh = nn.Linear(width, out_feats, bias=False)
        if aggregator_type == "gcn":
            self.bias = nn.Parameter(torch.zeros(out_feats)) if bias else None
        else:
            self.fc_self = nn.Linear(self._in_dst_feats, out_feats, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's uniform weights with the gain of a ReLU, drawn in DGL's order."""
        gain = nn.init.calculate_gain("relu")
        if self._aggre_type == "lstm":
            self.lstm.reset_parameters()
        for name in ("fc_pool", "fc_self", "fc_neigh"):
            if hasattr(self, name):
                nn.init.xavier_uniform_(getattr(self, name).weight, gain=gain)

    def forward(self, graph: Graph, feat: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Returns the new features ``[num_dst, out_feats]``.

        Args:
            graph: a graph with one edge type.
            feat: ``[num_src, in_feats]``, or a pair for sources and destinations.
            edge_weight: ``[num_edges]``, a factor for each message.
        """
        check_graph("SAGEConv", graph)
        relation = graph.relation()
        if isinstance(feat, tuple):
            feat = (self.feat_drop(feat[0]), self.feat_drop(feat[1]))
        else:
            feat = self.feat_drop(feat)
        source, own = source_and_destination(graph, feat)
        check_rows("SAGEConv", "source node", source, relation.num_src, self._in_src_feats)
        check_rows("SAGEConv", "destination node", own, relation.num_dst, self._in_dst_feats)
        if self._aggre_type == "gcn":
            check_eq_shape((source, own))
            result = self._mean_with_self(graph, source, own, edge_weight)
            result = result if self.bias is None else result + self.bias
        else:
            result = self._add_neighbours(self.fc_self(own), graph, source, edge_weight)
        if self.activation is not None:
            result = self.activation(result)
        return result if self.norm is None else self.norm(result)

    def _add_neighbours(
        self, own: Tensor, graph: Graph, source: Tensor, edge_weight: Tensor | None
    ) -> Tensor:
        """What the neighbours add, projected before it travels where that makes rows narrower."""
        if self._aggre_type == "mean":
            if self._is_narrower():
                neighbours = self.fc_neigh(source)
                return add_to(weighted("SAGEConv", graph, neighbours, "mean", edge_weight), own)
            return own + self.fc_neigh(weighted("SAGEConv", graph, source, "mean", edge_weight))
        if self._aggre_type == "pool":
            hidden = torch.relu(self.fc_pool(source))
            return own + self.fc_neigh(weighted("SAGEConv", graph, hidden, "max", edge_weight))
        return own + self.fc_neigh(self._last_state(graph, source, edge_weight))

    def _mean_with_self(
        self, graph: Graph, source: Tensor, own: Tensor, edge_weight: Tensor | None
    ) -> Tensor:
        narrower = self._is_narrower()
        if narrower:
            is_shared = own is source
            source = self.fc_neigh(source)
            own = source if is_shared else self.fc_neigh(own)
        total = weighted("SAGEConv", graph, source, "sum", edge_weight) + own
        mean = total / (graph.in_degrees().to(total.dtype) + 1).unsqueeze(-1)
        return mean if narrower else self.fc_neigh(mean)

    def _is_narrower(self) -> bool:
        return self._in_src_feats > self._out_feats

    def _last_state(self, graph: Graph, source: Tensor, edge_weight: Tensor | None) -> Tensor:
        if not graph.num_edges():
            return source.new_zeros(graph.num_dst_nodes(), source.shape[-1])
        with graph.local_scope():
            graph.srcdata["h"] = source
            message: Any = fn.copy_u("h", "m")
            if edge_weight is not None:
                graph.edata["w"] = edge_factor("SAGEConv", graph, edge_weight, source)
                message = fn.u_mul_e("h", "w", "m")
            graph.update_all(message, self._read_mailbox)
            return graph.dstdata["neigh"]

    def _read_mailbox(self, nodes: Any) -> dict[str, Tensor]:
        return {"neigh": self.lstm(nodes.mailbox["m"])[1][0].squeeze(0)}

"""From rows of nodes to one row for each graph of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_graph, check_rows
from smex.graph.ops.attention import attend
from smex.graph.ops.kernels import aggregate
from smex.graph.ops.segment import segment_reduce, segment_softmax
from smex.graph.readout import topk_nodes
from smex.graph.structure.relation import Relation
from smex.graph.words import describe


def nodes_to_graphs(graph: Graph) -> Relation:
    """Returns an edge from each node to the graph of the batch that it belongs to."""
    lengths = graph.batch_num_nodes().to(graph.device)
    num_nodes, num_graphs = graph.num_nodes(), lengths.shape[0]
    ends = torch.nn.functional.pad(torch.cumsum(lengths, 0, dtype=torch.int64), (1, 0))
    nodes = torch.arange(num_nodes + 1, device=graph.device)
    owners = torch.arange(num_graphs, device=graph.device)
    owners = torch.repeat_interleave(owners, lengths, output_size=num_nodes)
    forms = {"csr": (nodes, owners, None), "csc": (ends, nodes[:-1], None)}
    return Relation.from_formats(forms, num_nodes, num_graphs)


class _Pooling(nn.Module):
    op = ""

    def forward(self, graph: Graph, feat: Tensor) -> Tensor:
        """Returns the pooled features ``[batch_size, *]``.

        Args:
            graph: a graph or a batch of graphs, with one node type.
            feat: ``[num_nodes, *]``.
        """
        check_graph(type(self).__name__, graph)
        check_rows(type(self).__name__, "node", feat, graph.num_nodes())
        return segment_reduce(graph.batch_num_nodes(), feat, self.op)


class SumPooling(_Pooling):
    r"""The sum over the nodes of each graph, :math:`r = \sum_v h_v`; 0 without nodes.

    Raises:
        SmexValueError: in :meth:`forward` not one row for each node.

    Example:
        >>> g = sg.batch([sg.graph(([0], [1])), sg.graph(([0], [0]))])
        >>> sg.nn.SumPooling()(g, torch.tensor([[1.0], [2.0], [5.0]])).flatten()
        tensor([3., 5.])
    """

    op = "sum"


class AvgPooling(_Pooling):
    r"""The mean over the nodes of each graph, :math:`r = \frac{1}{N} \sum_v h_v`.

    0 without nodes.

    Raises:
        SmexValueError: in :meth:`forward` not one row for each node.

    Example:
        >>> g = sg.batch([sg.graph(([0], [1])), sg.graph(([0], [0]))])
        >>> sg.nn.AvgPooling()(g, torch.tensor([[1.0], [2.0], [5.0]])).flatten()
        tensor([1.5000, 5.0000])
    """

    op = "mean"


class MaxPooling(_Pooling):
    r"""The maximum over the nodes of each graph, :math:`r = \max_v h_v`; 0 without nodes.

    Raises:
        SmexValueError: in :meth:`forward` not one row for each node.

    Example:
        >>> g = sg.batch([sg.graph(([0], [1])), sg.graph(([0], [0]))])
        >>> sg.nn.MaxPooling()(g, torch.tensor([[1.0], [2.0], [5.0]])).flatten()
        tensor([2., 5.])
    """

    op = "max"


class SortPooling(nn.Module):
    """The k nodes with the largest features of each graph (Zhang et al., AAAI'18, §3.2).

    Each row is sorted, then rows by their last, largest number.

    Args:
        k: how many nodes; graphs with fewer get rows of 0.

    Raises:
        SmexValueError: in :meth:`forward` not one row for each node.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> sg.nn.SortPooling(2)(g, torch.tensor([[1.0, 0.0], [5.0, 2.0], [3.0, 4.0]]))
        tensor([[2., 5., 3., 4.]])
    """

    def __init__(self, k: int):
        super().__init__()
        self.k = k

    def forward(self, graph: Graph, feat: Tensor) -> Tensor:
        """Returns the chosen rows side by side, ``[batch_size, k * features]``.

        Args:
            graph: a graph or a batch of graphs, with one node type.
            feat: ``[num_nodes, features]``.
        """
        check_graph("SortPooling", graph)
        check_rows("SortPooling", "node", feat, graph.num_nodes())
        with graph.local_scope():
            graph.ndata["h"] = feat.sort(dim=-1).values
            return topk_nodes(graph, "h", self.k, sortby=-1)[0].flatten(1)


class WeightAndSum(nn.Module):
    r"""A weighted sum over nodes, :math:`r = \sum_v \sigma(w \cdot h_v + b) h_v`.

    Args:
        in_feats: features of a row.

    Raises:
        SmexValueError: in :meth:`forward` features of another width.

    Example:
        >>> sg.nn.WeightAndSum(4)(sg.graph(([0, 1], [1, 2])), torch.ones(3, 4)).shape
        torch.Size([1, 4])
    """

    def __init__(self, in_feats: int):
        super().__init__()
        self.in_feats = in_feats
        self.atom_weighting = nn.Sequential(nn.Linear(in_feats, 1), nn.Sigmoid())

    def forward(self, g: Graph, feats: Tensor) -> Tensor:
        """Returns the pooled features ``[batch_size, in_feats]``.

        Args:
            g: a graph or a batch of graphs, with one node type.
            feats: ``[num_nodes, in_feats]``.
        """
        check_graph("WeightAndSum", g)
        check_rows("WeightAndSum", "node", feats, g.num_nodes(), self.in_feats)
        weight = self.atom_weighting(feats).to(feats.dtype)
        return aggregate(nodes_to_graphs(g), "u0 * u1", "sum", [feats, weight])


class GlobalAttentionPooling(nn.Module):
    r"""Attention over the nodes of each graph (Li et al., ICLR'16, eq. 7).

    .. math:: r = \sum_v softmax_v(f_{gate}(h_v)) \; f_{feat}(h_v)

    Args:
        gate_nn: f_gate, from rows to one number each.
        feat_nn: f_feat; the rows themselves where it is None.

    Raises:
        SmexValueError: in :meth:`forward` not one row for each node, or gates of more numbers.

    Example:
        >>> pool = sg.nn.GlobalAttentionPooling(torch.nn.Linear(4, 1))
        >>> pool(sg.graph(([0, 1], [1, 2])), torch.ones(3, 4))
        tensor([[1., 1., 1., 1.]], grad_fn=<SqueezeBackward1>)
    """

    def __init__(
        self,
        gate_nn: Callable[[Tensor], Tensor],
        feat_nn: Callable[[Tensor], Tensor] | None = None,
    ):
        super().__init__()
        self.gate_nn = gate_nn
        self.feat_nn = feat_nn

    def forward(self, graph: Graph, feat: Tensor, get_attention: bool = False) -> Any:
        """Returns the pooled features ``[batch_size, *]``.

        Args:
            graph: a graph or a batch of graphs, with one node type.
            feat: ``[num_nodes, features]``.
            get_attention: whether to return the weights ``[num_nodes, 1]`` too.
        """
        check_graph("GlobalAttentionPooling", graph)
        check_rows("GlobalAttentionPooling", "node", feat, graph.num_nodes())
        gate = self.gate_nn(feat)
        if gate.shape[-1] != 1:
            raise SmexValueError(
                "GlobalAttentionPooling: expected gate_nn to give one number for each node, found "
                f"{describe(gate)}"
            )
        value = feat if self.feat_nn is None else self.feat_nn(feat)
        pooled = attend(nodes_to_graphs(graph), "u0", [gate.unsqueeze(1)], value.unsqueeze(1))
        if not get_attention:
            return pooled.squeeze(1)
        return pooled.squeeze(1), segment_softmax(graph.batch_num_nodes(), gate)


class Set2Set(nn.Module):
    r"""Set to set (Vinyals et al., ICLR'16, eq. 3 to 7): an LSTM that asks the nodes n_iters times.

    .. math:: q_t = LSTM(q^*_{t-1}), \quad r_t = \sum_v softmax_v(h_v \cdot q_t) h_v, \quad
              q^*_t = [q_t, r_t]

    Args:
        input_dim: features of a row.
        n_iters: number of iterations.
        n_layers: layers of the LSTM.

    Raises:
        SmexValueError: in :meth:`forward` features of another width.

    Example:
        >>> sg.nn.Set2Set(4, 2, 1)(sg.graph(([0, 1], [1, 2])), torch.ones(3, 4)).shape
        torch.Size([1, 8])
    """

    def __init__(self, input_dim: int, n_iters: int, n_layers: int):
        super().__init__()
        self.input_dim, self.output_dim = input_dim, 2 * input_dim
        self.n_iters, self.n_layers = n_iters, n_layers
        self.lstm = nn.LSTM(self.output_dim, input_dim, n_layers)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Those of the LSTM."""
        self.lstm.reset_parameters()

    def forward(self, graph: Graph, feat: Tensor) -> Tensor:
        """Returns the last q* ``[batch_size, 2 * input_dim]``.

        Args:
            graph: a graph or a batch of graphs, with one node type.
            feat: ``[num_nodes, input_dim]``.
        """
        check_graph("Set2Set", graph)
        check_rows("Set2Set", "node", feat, graph.num_nodes(), self.input_dim)
        relation = nodes_to_graphs(graph)
        rows = feat.unsqueeze(1)
        hidden = feat.new_zeros(self.n_layers, relation.num_dst, self.input_dim)
        state = (hidden, hidden)
        answer = feat.new_zeros(relation.num_dst, self.output_dim)
        for _ in range(self.n_iters):
            query, state = self.lstm(answer.unsqueeze(0), state)
            query = query.squeeze(0)
            read = attend(relation, "dot(u0, v1)", [rows, query.to(rows.dtype).unsqueeze(1)], rows)
            answer = torch.cat([query, read.squeeze(1)], -1)
        return answer

    def extra_repr(self) -> str:
        """Returns the number of iterations."""
        return f"n_iters={self.n_iters}"

"""From features of nodes or edges to one row for each graph of a batch, and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph
from smex.graph.ops.kernels import broadcasts
from smex.graph.ops.segment import segment_reduce, segment_softmax
from smex.graph.words import counted, named


class _Rows(NamedTuple):
    """Features of nodes or edges of a type, and how many of them each graph has.

    `order` brings the rows of each graph together, None where they stand together.
    """

    frame: Frame
    lengths: Tensor
    order: Tensor | None = None

    def together(self, values: Tensor) -> Tensor:
        """Rows, those of each graph one after another."""
        return values if self.order is None else values[self.order]

    def back(self, values: Tensor) -> Tensor:
        """Returns the opposite of :meth:`together`."""
        return values if self.order is None else values[self.order.argsort()]


def _nodes(graph: Graph, ntype: str | None) -> _Rows:
    return _Rows(graph._node_frame(graph._node_slot(ntype)), graph.batch_num_nodes(ntype))


def _edges(graph: Graph, etype: Any) -> _Rows:
    canonical = graph.to_canonical_etype(etype)
    order = graph._edge_order(canonical)
    return _Rows(graph._edge_frames[canonical], graph.batch_num_edges(canonical), order)


def readout_nodes(
    graph: Graph, feat: str, weight: str | None = None, *, op: str = "sum", ntype: str | None = None
) -> Tensor:
    """Reduces a node feature to one row for each graph of a batch.

    Args:
        graph: a graph or a batch of graphs.
        feat: name of a feature ``[num_nodes, *f]``.
        weight: name of a feature that is multiplied first; it broadcasts against ``feat``.
        op: ``sum``, ``mean``, ``max`` or ``min``.
        ntype: node type, where there are several.

    Returns:
        ``[batch_size, *f]``; a graph without nodes has 0. A weighted mean divides by the number of
        nodes, not by the weights.

    Raises:
        SmexValueError: a feature is not set, the weight does not broadcast, or ``op`` is unknown.

    Example:
        >>> g = sg.batch([sg.graph(([0], [1])), sg.graph(([0], [0]))])
        >>> g.ndata["h"] = torch.tensor([1.0, 2.0, 5.0])
        >>> sg.readout_nodes(g, "h")
        tensor([3., 5.])
    """
    return _readout(_nodes(graph, ntype), feat, weight, op)


def readout_edges(
    graph: Graph, feat: str, weight: str | None = None, *, op: str = "sum", etype: Any = None
) -> Tensor:
    """Reduces an edge feature to one row for each graph, see :func:`readout_nodes`."""
    return _readout(_edges(graph, etype), feat, weight, op)


def _readout(rows: _Rows, feat: str, weight: str | None, op: str) -> Tensor:
    values = rows.frame[feat]
    if weight is not None:
        values = _weighted(rows.frame, feat, weight)
    return segment_reduce(rows.lengths, rows.together(values), op)


def _weighted(frame: Frame, feat: str, weight: str) -> Tensor:
    values, factors = frame[feat], frame[weight]
    try:
        return values * factors
    except RuntimeError as error:
        if broadcasts(values.shape, factors.shape):
            raise
        ones = [1] * (values.dim() - 1)
        raise SmexValueError(
            f"readout: weight {named(weight)} of shape {list(factors.shape)} does not broadcast "
            f"against feature {named(feat)} of shape {list(values.shape)}; a weight for each row "
            f"is of shape {[frame.num_rows, *ones]}"
        ) from error


def sum_nodes(
    graph: Graph, feat: str, weight: str | None = None, *, ntype: str | None = None
) -> Tensor:
    """Returns the sum of a node feature over each graph, see :func:`readout_nodes`."""
    return readout_nodes(graph, feat, weight, op="sum", ntype=ntype)


def sum_edges(graph: Graph, feat: str, weight: str | None = None, *, etype: Any = None) -> Tensor:
    """Returns the sum of an edge feature over each graph, see :func:`readout_nodes`."""
    return readout_edges(graph, feat, weight, op="sum", etype=etype)


def mean_nodes(
    graph: Graph, feat: str, weight: str | None = None, *, ntype: str | None = None
) -> Tensor:
    """Returns the mean of a node feature over each graph, see :func:`readout_nodes`."""
    return readout_nodes(graph, feat, weight, op="mean", ntype=ntype)


def mean_edges(graph: Graph, feat: str, weight: str | None = None, *, etype: Any = None) -> Tensor:
    """Returns the mean of an edge feature over each graph, see :func:`readout_nodes`."""
    return readout_edges(graph, feat, weight, op="mean", etype=etype)


def max_nodes(
    graph: Graph, feat: str, weight: str | None = None, *, ntype: str | None = None
) -> Tensor:
    """Returns the largest of a node feature over each graph, see :func:`readout_nodes`."""
    return readout_nodes(graph, feat, weight, op="max", ntype=ntype)


def max_edges(graph: Graph, feat: str, weight: str | None = None, *, etype: Any = None) -> Tensor:
    """Returns the largest of an edge feature over each graph, see :func:`readout_nodes`."""
    return readout_edges(graph, feat, weight, op="max", etype=etype)


def softmax_nodes(graph: Graph, feat: str, *, ntype: str | None = None) -> Tensor:
    """Softmax of a node feature over the nodes of each graph ``[num_nodes, *f]``."""
    rows = _nodes(graph, ntype)
    return segment_softmax(rows.lengths, rows.frame[feat])


def softmax_edges(graph: Graph, feat: str, *, etype: Any = None) -> Tensor:
    """Softmax of an edge feature over the edges of each graph ``[num_edges, *f]``."""
    rows = _edges(graph, etype)
    return rows.back(segment_softmax(rows.lengths, rows.together(rows.frame[feat])))


def broadcast_nodes(graph: Graph, graph_feat: Tensor, *, ntype: str | None = None) -> Tensor:
    """Gives every node its graph's row.

    Args:
        graph: a graph or a batch of graphs.
        graph_feat: ``[batch_size, *f]``; of a single graph also ``[*f]``.
        ntype: node type, where there are several.

    Returns:
        ``[num_nodes, *f]``.

    Raises:
        SmexValueError: there is not one row for each graph.

    Example:
        >>> g = sg.batch([sg.graph(([0], [1])), sg.graph(([0], [0]))])
        >>> sg.broadcast_nodes(g, torch.tensor([1.0, 2.0]))
        tensor([1., 1., 2.])
    """
    return _broadcast("broadcast_nodes", _nodes(graph, ntype), graph_feat)


def broadcast_edges(graph: Graph, graph_feat: Tensor, *, etype: Any = None) -> Tensor:
    """Gives every edge its graph's row, see :func:`broadcast_nodes`."""
    return _broadcast("broadcast_edges", _edges(graph, etype), graph_feat)


def _broadcast(op: str, rows: _Rows, graph_feat: Tensor) -> Tensor:
    lengths = rows.lengths.to(graph_feat.device)
    if lengths.shape[0] == 1 and (graph_feat.dim() == 0 or graph_feat.shape[0] != 1):
        graph_feat = graph_feat.unsqueeze(0)
    if graph_feat.dim() == 0 or graph_feat.shape[0] != lengths.shape[0]:
        raise SmexValueError(
            f"{op}: expected {counted(lengths.shape[0], 'row')}, one for each graph, found shape "
            f"{list(graph_feat.shape)}"
        )
    number = rows.frame.num_rows
    return rows.back(torch.repeat_interleave(graph_feat, lengths, dim=0, output_size=number))


def topk_nodes(
    graph: Graph,
    feat: str,
    k: int,
    *,
    descending: bool = True,
    sortby: int | None = None,
    ntype: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns the ``k`` largest rows of a node feature in each graph.

    Args:
        graph: a graph or a batch of graphs.
        feat: name of a feature ``[num_nodes]`` or ``[num_nodes, d]``.
        k: how many.
        descending: False: the smallest.
        sortby: the column by which whole rows are chosen; without it each column by itself.
        ntype: node type, where there are several.

    Returns:
        Values ``[batch_size, k, d]``, with 0 where a graph has fewer than ``k`` nodes, and their
        positions in the graph, ``[batch_size, k]`` with ``sortby`` and ``[batch_size, k, d]``
        without; where there is no node, positions from the graph's number of nodes on. Without
        ``d`` both are ``[batch_size, k]``.

    Raises:
        SmexValueError: ``sortby`` is no column, ``k`` is negative, or the feature has more
            dimensions.

    Example:
        >>> g = sg.graph(([0], [2]))
        >>> g.ndata["h"] = torch.tensor([[1.0], [3.0], [2.0]])
        >>> sg.topk_nodes(g, "h", 2)
        (tensor([[[3.],
                 [2.]]]), tensor([[[1],
                 [2]]]))
    """
    return _topk("topk_nodes", _nodes(graph, ntype), feat, k, descending, sortby)


def topk_edges(
    graph: Graph,
    feat: str,
    k: int,
    *,
    descending: bool = True,
    sortby: int | None = None,
    etype: Any = None,
) -> tuple[Tensor, Tensor]:
    """Returns the ``k`` largest rows of an edge feature in each graph, see :func:`topk_nodes`."""
    return _topk("topk_edges", _edges(graph, etype), feat, k, descending, sortby)


def _topk(
    op: str, rows: _Rows, feat: str, k: int, descending: bool, sortby: int | None
) -> tuple[Tensor, Tensor]:
    values = rows.together(rows.frame[feat])
    flat = values.dim() == 1
    if flat:
        values = values.unsqueeze(-1)
    _check_topk(op, values, k, sortby)
    grid, is_row = _padded(rows.lengths.to(values.device), values, k)
    keys = grid if sortby is None else grid[..., sortby, None]
    order = _order(keys, is_row, descending)[:, :k]
    taken = grid.gather(1, order.expand(-1, -1, grid.shape[2]))  # rows that do not exist hold 0
    if flat:
        return taken.squeeze(-1), order.squeeze(-1)
    return taken, order if sortby is None else order.squeeze(-1)


def _check_topk(op: str, values: Tensor, k: int, sortby: int | None) -> None:
    if values.dim() != 2 or k < 0:
        raise SmexValueError(
            f"{op}: expected a feature of one or two dimensions and k >= 0, found shape "
            f"{list(values.shape)} and k = {k}"
        )
    columns = values.shape[1]
    if sortby is not None and not -columns <= sortby < columns:
        raise SmexValueError(
            f"{op}: sortby must be one of {counted(columns, 'column')}, found {sortby}"
        )


def _padded(lengths: Tensor, values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Rows of each graph ``[batch_size, longest, d]``, and which of them exist."""
    longest = max(int(lengths.max()) if lengths.numel() else 0, k)
    is_row = torch.arange(longest, device=values.device) < lengths.unsqueeze(1)
    grid = values.new_zeros(lengths.shape[0], longest, values.shape[1])
    return grid.masked_scatter(is_row.unsqueeze(-1), values), is_row


def _order(keys: Tensor, is_row: Tensor, descending: bool) -> Tensor:
    """Positions by key, equal keys in their order, those that do not exist last."""
    order = torch.sort(keys, dim=1, descending=descending, stable=True).indices
    exists = is_row.unsqueeze(-1).expand_as(keys).gather(1, order)
    last = torch.sort((~exists).to(torch.uint8), dim=1, stable=True).indices
    return order.gather(1, last)

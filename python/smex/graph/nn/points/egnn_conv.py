"""Equivariant graph convolution."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_graph, check_rows
from smex.graph.ops.kernels import aggregate, per_edge
from smex.graph.udf import EdgeBatch, is_replaced


class EGNNConv(nn.Module):
    r"""E(n)-equivariant graph convolution (Satorras et al., ICML'21, eq. 3 to 6).

    .. math:: m_{uv} = \phi_e(h_u, h_v, \|x_u - x_v\|^2, a_{uv}), \quad
              h_v' = \phi_h\Big(h_v, \sum_{u \in N(v)} m_{uv}\Big), \quad
              x_v' = x_v + \frac{1}{|N(v)|} \sum_{u \in N(v)}
              \frac{x_u - x_v}{\|x_u - x_v\|} \phi_x(m_{uv})

    Coordinates that are turned or moved give features that stay, and coordinates that turn and
    move with them. Rows of nodes are multiplied by :math:`\phi_e`'s first matrix before they
    travel; messages are stored, since networks of two layers read them.

    Args:
        in_size: features of an input row.
        hidden_size: features of a message.
        out_size: features of an output row.
        edge_feat_size: features of an edge, or 0.

    Raises:
        SmexValueError: in :meth:`forward` features of another width.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> h, x = sg.nn.EGNNConv(4, 8, 2)(g, torch.ones(3, 4), torch.rand(3, 3))
        >>> h.shape, x.shape
        (torch.Size([3, 2]), torch.Size([3, 3]))
    """

    def __init__(self, in_size: int, hidden_size: int, out_size: int, edge_feat_size: int = 0):
        super().__init__()
        self.in_size, self.hidden_size, self.out_size = in_size, hidden_size, out_size
        self.edge_feat_size = edge_feat_size
        self.edge_mlp = nn.Sequential(
            nn.Linear(2 * in_size + edge_feat_size + 1, hidden_size),
            nn.SiLU(),
            nn.Linear(hidden_size, hidden_size),
            nn.SiLU(),
        )
        self.node_mlp = nn.Sequential(
            nn.Linear(in_size + hidden_size, hidden_size),
            nn.SiLU(),
            nn.Linear(hidden_size, out_size),
        )
        self.coord_mlp = nn.Sequential(
            nn.Linear(hidden_size, hidden_size),
            nn.SiLU(),
            nn.Linear(hidden_size, 1, bias=False),
        )

    def forward(
        self, graph: Graph, node_feat: Tensor, coord_feat: Tensor, edge_feat: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns the new features ``[num_nodes, out_size]`` and coordinates ``[num_nodes, size]``.

        Args:
            graph: a graph of one type of nodes and edges.
            node_feat: ``[num_nodes, in_size]``.
            coord_feat: ``[num_nodes, size]``, the coordinates.
            edge_feat: ``[num_edges, edge_feat_size]``, where the layer was made for them.
        """
        check_graph("EGNNConv", graph)
        check_rows("EGNNConv", "node", node_feat, graph.num_nodes(), self.in_size)
        check_rows("EGNNConv", "node", coord_feat, graph.num_nodes())
        if self.edge_feat_size:
            check_rows("EGNNConv", "edge", edge_feat, graph.num_edges(), self.edge_feat_size)
        relation = graph.relation()
        difference = per_edge(relation, "u0 - v1", [coord_feat, coord_feat])
        squared = difference.square().sum(1, keepdim=True)
        # Points at one place have no direction, and a root at 0 no derivative.
        direction = difference / torch.where(squared > 0, squared, 1).sqrt()
        if is_replaced(self.message, EGNNConv.message):
            with graph.local_scope():
                graph.ndata["h"], graph.ndata["x"] = node_feat, coord_feat
                graph.edata["radial"], graph.edata["x_diff"] = squared, direction
                if edge_feat is not None:
                    graph.edata["a"] = edge_feat
                graph.apply_edges(self.message)
                message, shift = graph.edata["msg_h"], graph.edata["msg_x"]
        else:
            message = self.edge_mlp[1:](self._first_layer(graph, node_feat, squared, edge_feat))
            shift = direction * self.coord_mlp(message)
        shift = aggregate(relation, "e0", "mean", [shift])
        received = aggregate(relation, "e0", "sum", [message])
        h = self.node_mlp(torch.cat([node_feat, received.to(node_feat.dtype)], 1))
        return h, coord_feat + shift

    def message(self, edges: EdgeBatch) -> dict[str, Tensor]:
        """Returns ``msg_h`` and ``msg_x`` of ends' ``h`` and edges' ``radial``, ``x_diff``, ``a``.

        Kernels take its place; that of a subclass is called.
        """
        parts = [edges.src["h"], edges.dst["h"], edges.data["radial"]]
        parts += [edges.data["a"]] if self.edge_feat_size else []
        message = self.edge_mlp(torch.cat(parts, -1))
        return {"msg_h": message, "msg_x": self.coord_mlp(message) * edges.data["x_diff"]}

    def _first_layer(
        self, graph: Graph, rows: Tensor, squared: Tensor, edge_feat: Tensor | None
    ) -> Tensor:
        """That of the edges' network, ``[num_edges, hidden_size]``."""
        linear = self.edge_mlp[0]
        assert isinstance(linear, nn.Linear)
        sizes = [self.in_size, self.in_size, 1, self.edge_feat_size]
        of_source, of_destination, of_distance, of_edge = linear.weight.split(sizes, 1)
        source, destination = rows @ of_source.t(), rows @ of_destination.t()
        hidden = per_edge(graph.relation(), "u0 + v1", [source, destination])
        hidden = hidden + squared @ of_distance.t() + linear.bias
        return hidden if edge_feat is None else hidden + edge_feat @ of_edge.t()

"""Principal neighbourhood aggregation, also along directions of the graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_choice, check_graph, check_rows
from smex.graph.ops.kernels import aggregate
from smex.graph.readout import broadcast_nodes
from smex.graph.structure.relation import Relation
from smex.graph.words import counted, describe

AGGREGATORS = ("mean", "sum", "max", "min", "std", "var", "moment3", "moment4", "moment5")
DIRECTIONAL = tuple(f"dir{k}-{kind}" for k in (1, 2, 3) for kind in ("av", "dx"))
SCALERS = ("identity", "amplification", "attenuation")
LEAST = 1e-30
"""Keeps roots of 0 from infinite slopes; types that do not hold it take their least number."""


class _Messages:
    """The messages of a tower as a formula, and the statistics of them; none is stored."""

    def __init__(
        self, relation: Relation, operands: list[Tensor], own: Tensor, eig: Tensor | None = None
    ):
        self.relation, self.operands = relation, operands
        self.own, self.eig = own, eig  # rows of destinations, eigenvectors of the Laplacian
        self.text = "u0 + v1" if len(operands) == 2 else "u0 + v1 + e2"

    def reduced(self, name: str) -> Tensor:
        """Returns one of ``AGGREGATORS`` or ``DIRECTIONAL``."""
        if name in DIRECTIONAL:
            return self._along(int(name[3]) - 1, name[-2:])
        if name in ("mean", "sum", "max", "min"):
            return aggregate(self.relation, self.text, name, self.operands)
        if name == "var":
            return self._moment(2)
        return self._root(2 if name == "std" else int(name[-1]))

    def _root(self, order: int) -> Tensor:
        """Returns the root of a moment, with its sign, of the moment's order."""
        moment = self._moment(order)
        least = max(LEAST, torch.finfo(moment.dtype).tiny)
        root: Tensor = moment.sign() * (moment.abs() + least) ** (1 / order)
        return root

    def _moment(self, order: int) -> Tensor:
        """Returns the mean of a power of the distance to the mean."""
        text = f"pow({self.text} - v{len(self.operands)}, {order})"
        return aggregate(self.relation, text, "mean", [*self.operands, self.reduced("mean")])

    def _along(self, column: int, kind: str) -> Tensor:
        """The mean, or the absolute derivative, in the direction that an eigenvector grows."""
        assert self.eig is not None
        height = self.eig[:, column : column + 1]
        ends = [height, height]
        count = len(self.operands)
        field = f"(u{count} - v{count + 1})"
        operands = [*self.operands, *ends]
        size = aggregate(self.relation, "abs(u0 - v1)", "sum", ends)
        size = size.clamp(min=torch.finfo(size.dtype).tiny)
        if kind == "av":
            text = f"({self.text}) * abs{field}"
            return aggregate(self.relation, text, "sum", operands) / size
        change = aggregate(self.relation, f"({self.text}) * {field}", "sum", operands)
        return ((change - aggregate(self.relation, "u0 - v1", "sum", ends) * self.own) / size).abs()


class PNAConvTower(nn.Module):
    """The convolution of a part of the features."""

    def __init__(
        self,
        in_size: int,
        out_size: int,
        aggregators: Sequence[str],
        scalers: Sequence[str],
        delta: float,
        dropout: float,
        edge_feat_size: int,
    ):
        super().__init__()
        self.in_size, self.edge_feat_size = in_size, edge_feat_size
        self.aggregators, self.scalers, self.delta = aggregators, scalers, delta
        self.M = nn.Linear(2 * in_size + edge_feat_size, in_size)
        self.U = nn.Linear((len(aggregators) * len(scalers) + 1) * in_size, out_size)
        self.dropout = nn.Dropout(dropout)
        self.batchnorm = nn.BatchNorm1d(out_size)

    def forward(
        self, graph: Graph, feat: Tensor, edge_feat: Tensor | None, eig: Tensor | None
    ) -> Tensor:
        """Returns the new features of the part ``[num_nodes, out_size]``."""
        # M is applied to nodes and edges, not to both ends of each edge side by side.
        check_graph(type(self).__name__, graph)
        widths = [self.in_size, self.in_size, self.edge_feat_size]
        of_src, of_dst, of_edge = self.M.weight.split(widths, 1)
        linear = nn.functional.linear
        operands = [linear(feat, of_src), linear(feat, of_dst, self.M.bias)]
        if edge_feat is not None:
            operands.append(linear(edge_feat, of_edge))
        messages = _Messages(graph.relation(), operands, feat, eig)
        reduced = torch.cat([messages.reduced(name) for name in self.aggregators], 1)
        scale = (graph.in_degrees().clamp(min=1).to(feat.dtype) + 1).log().unsqueeze(1)
        factors = {
            "identity": lambda x: x,
            "amplification": lambda x: x * (scale / self.delta),
            "attenuation": lambda x: x * (self.delta / scale),
        }
        scaled = [factors[name](reduced) for name in self.scalers]
        sizes = graph.batch_num_nodes().to(feat.device, feat.dtype)
        result = self.U(torch.cat([feat, *scaled], 1))
        result = result * broadcast_nodes(graph, sizes.clamp(min=1).rsqrt().unsqueeze(1))
        return self.dropout(self.batchnorm(result))


class DGNConvTower(PNAConvTower):
    """The directional convolution of a part of the features."""


class PNAConv(nn.Module):
    r"""Principal neighbourhood aggregation (Corso et al., NeurIPS'20, eq. 7 and 8).

    .. math:: h_v' = U\left(h_v, [S \otimes aggregate_{u \in N(v)}] M(h_u, h_v, e_{uv})\right)

    for each tower, that is for each part of the features; then a linear layer and a leaky ReLU mix
    the towers. Every statistic is a kernel, no message is stored.

    Args:
        in_size: features of an input row.
        out_size: features of an output row.
        aggregators: of ``mean``, ``sum``, ``max``, ``min``, ``std``, ``var``, ``moment3``,
            ``moment4`` and ``moment5`` (roots of central moments).
        scalers: of ``identity``, ``amplification`` (times log(degree + 1) / delta) and
            ``attenuation`` (its inverse).
        delta: the mean of log(degree + 1) over the nodes trained on.
        dropout: of the towers' results.
        num_towers: number of towers.
        edge_feat_size: features of an edge, 0 for none.
        residual: whether to add the input, where sizes are equal.

    Raises:
        SmexValueError: an unknown aggregator or scaler, or sizes that ``num_towers`` does not
            divide; in :meth:`forward` features of another width.

    Example:
        >>> g = sg.graph(([0, 1, 2], [1, 2, 2]))
        >>> layer = sg.nn.PNAConv(4, 2, ["mean", "std"], ["identity", "attenuation"], 1.5)
        >>> layer(g, torch.rand(3, 4)).shape
        torch.Size([3, 2])
    """

    _aggregators: tuple[str, ...] = AGGREGATORS
    _tower: type[PNAConvTower] = PNAConvTower

    def __init__(
        self,
        in_size: int,
        out_size: int,
        aggregators: Sequence[str],
        scalers: Sequence[str],
        delta: float,
        dropout: float = 0.0,
        num_towers: int = 1,
        edge_feat_size: int = 0,
        residual: bool = True,
    ):
        super().__init__()
        layer = type(self).__name__
        for name in aggregators:
            check_choice(layer, "aggregators", name, self._aggregators)
        for name in scalers:
            check_choice(layer, "scalers", name, SCALERS)
        if in_size % num_towers or out_size % num_towers:
            raise SmexValueError(
                f"{layer}: num_towers must divide both sizes, found sizes {in_size} and "
                f"{out_size} and num_towers={num_towers}"
            )
        self.in_size, self.out_size, self.edge_feat_size = in_size, out_size, edge_feat_size
        self.residual = residual and in_size == out_size
        self.tower_in_size = in_size // num_towers
        self.towers = nn.ModuleList(
            self._tower(
                self.tower_in_size,
                out_size // num_towers,
                tuple(aggregators),
                tuple(scalers),
                delta,
                dropout,
                edge_feat_size,
            )
            for _ in range(num_towers)
        )
        self.mixing_layer = nn.Sequential(nn.Linear(out_size, out_size), nn.LeakyReLU())

    def forward(self, graph: Graph, node_feat: Tensor, edge_feat: Tensor | None = None) -> Tensor:
        """Returns the new features ``[num_nodes, out_size]``.

        Args:
            graph: a graph or a batch of graphs, of one type of nodes and edges.
            node_feat: ``[num_nodes, in_size]``.
            edge_feat: ``[num_edges, edge_feat_size]``, where the layer was made for some.
        """
        return self._mixed(graph, node_feat, edge_feat, None)

    def _mixed(
        self, graph: Graph, node_feat: Tensor, edge_feat: Tensor | None, eig: Tensor | None
    ) -> Tensor:
        layer = type(self).__name__
        check_graph(layer, graph)
        check_rows(layer, "node", node_feat, graph.num_nodes(), self.in_size)
        if self.edge_feat_size:
            check_rows(layer, "edge", edge_feat, graph.num_edges(), self.edge_feat_size)
        else:
            edge_feat = None
        parts = node_feat.split(self.tower_in_size, 1)
        towers = [tower(graph, part, edge_feat, eig) for tower, part in zip(self.towers, parts)]
        result = self.mixing_layer(torch.cat(towers, 1))
        return result + node_feat if self.residual else result


class DGNConv(PNAConv):
    r"""Directional graph network (Beaini et al., ICML'21, eq. 5 and 6).

    As :class:`PNAConv`, with two more aggregators for each of the first three eigenvectors φ of the
    Laplacian, whose gradient is the direction :math:`F_{vu} = \phi_u - \phi_v`: ``dir1-av`` to
    ``dir3-av`` smooth along it, ``dir1-dx`` to ``dir3-dx`` differentiate,

    .. math:: av: \sum_{u \in N(v)} \frac{|F_{vu}|}{|F_v|} m_{vu}, \qquad
              dx: \left|\sum_{u \in N(v)} \frac{F_{vu}}{|F_v|} (m_{vu} - h_v)\right|

    with messages m of :class:`PNAConv` and :math:`|F_v| = \sum_{u \in N(v)} |F_{vu}|`. No message
    is stored.

    Args:
        in_size: as of :class:`PNAConv`, as are all others.
        out_size: features of an output row.
        aggregators: those of :class:`PNAConv` and the six above.
        scalers: of ``identity``, ``amplification`` and ``attenuation``.
        delta: the mean of log(degree + 1) over the nodes trained on.
        dropout: of the towers' results.
        num_towers: number of towers.
        edge_feat_size: features of an edge, 0 for none.
        residual: whether to add the input, where sizes are equal.

    Raises:
        SmexValueError: as :class:`PNAConv`; in :meth:`forward` no eigenvectors, or too few.

    Example:
        >>> g = sg.LapPE(1, feat_name="eig")(sg.graph(([0, 1, 1, 2], [1, 0, 2, 1])))
        >>> layer = sg.nn.DGNConv(4, 2, ["dir1-av", "dir1-dx", "sum"], ["identity"], 1.5)
        >>> layer(g, torch.rand(3, 4), eig_vec=g.ndata["eig"]).shape
        torch.Size([3, 2])
    """

    _aggregators = AGGREGATORS + DIRECTIONAL
    _tower = DGNConvTower

    def __init__(
        self,
        in_size: int,
        out_size: int,
        aggregators: Sequence[str],
        scalers: Sequence[str],
        delta: float,
        dropout: float = 0.0,
        num_towers: int = 1,
        edge_feat_size: int = 0,
        residual: bool = True,
    ):
        super().__init__(
            in_size,
            out_size,
            aggregators,
            scalers,
            delta,
            dropout,
            num_towers,
            edge_feat_size,
            residual,
        )
        for module in self.towers.modules():  # DGL makes them after the layer that mixes them
            if isinstance(module, nn.Linear):
                module.reset_parameters()
        columns = (int(name[3]) for name in aggregators if name in DIRECTIONAL)
        self.num_eig_vec = max(columns, default=0)

    def forward(
        self,
        graph: Graph,
        node_feat: Tensor,
        edge_feat: Tensor | None = None,
        eig_vec: Tensor | None = None,
    ) -> Tensor:
        """Returns the new features ``[num_nodes, out_size]``.

        Args:
            graph: a graph or a batch of graphs, of one type of nodes and edges.
            node_feat: ``[num_nodes, in_size]``.
            edge_feat: ``[num_edges, edge_feat_size]``, where the layer was made for some.
            eig_vec: ``[num_nodes, k]``, eigenvectors as :class:`smex.graph.LapPE` makes them, k at
                least the largest number of a direction; it may be left out where there is none.
        """
        if self.num_eig_vec:
            check_graph("DGNConv", graph)
            wide = eig_vec.shape[1] if eig_vec is not None and eig_vec.dim() == 2 else 0
            if eig_vec is None or wide < self.num_eig_vec or len(eig_vec) != graph.num_nodes():
                raise SmexValueError(
                    f"DGNConv: expected {counted(self.num_eig_vec, 'eigenvector')} of "
                    f"{counted(graph.num_nodes(), 'node')} or more as eig_vec, found "
                    f"{describe(eig_vec)}; sg.LapPE({self.num_eig_vec}, feat_name='eig') makes them"
                )
            eig_vec = eig_vec.to(node_feat.dtype)
        return self._mixed(graph, node_feat, edge_feat, eig_vec)

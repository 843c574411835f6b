"""Propagation as the steps of an iterative algorithm."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_choice, check_graph, check_rows
from smex.graph.ops.kernels import aggregate, per_edge
from smex.graph.structure.relation import Relation

NORMS = ("batch", "layer", "none")


class _Reweighting(nn.Module):
    """Weights of edges by the distances of their ends (Yang et al., ICML'21, eq. 27)."""

    def __init__(self, tau: float, T: float, p: float, attn_dropout: float):  # noqa: N803
        super().__init__()
        self.tau, self.T, self.p = tau, T, p
        self.dropout = nn.Dropout(attn_dropout)

    def forward(self, relation: Relation, y: Tensor) -> tuple[Tensor, Tensor]:
        """Weights ``[num_edges, 1]`` and the sums of them ``[num_nodes, 1]``, before dropout."""
        distance = per_edge(relation, "sum_last(pow(u0 - v1, 2))", [y, y])
        least = (distance + 1e-7) ** (1 - 0.5 * self.p)
        least = least.clamp(min=self.tau)
        weight = 1 / least
        if self.T > 0:
            weight = weight.masked_fill(least > self.T, 0)
        weight = weight + 1e-9  # so that no node is without any
        degrees = aggregate(relation, "e0", "sum", [weight])
        return self.dropout(weight), degrees


class TWIRLSUnfoldingAndAttention(nn.Module):
    r"""Steps of gradient descent on an energy, and attention by reweighting (Yang et al., ICML'21).

    .. math:: Y^{(k+1)} = (1 - \alpha) Y^{(k)} + \alpha \lambda \tilde D^{-1/2} A \tilde D^{-1/2}
              Y^{(k)} + \alpha \tilde D^{-1} X, \quad \tilde D = \lambda D + (1 - \lambda) I

    (eq. 28); without ``precond`` by the normalised Laplacian (eq. 30):

    .. math:: Y^{(k+1)} = (1 - \alpha \lambda - \alpha) Y^{(k)} + \alpha \lambda D^{-1/2} A D^{-1/2}
              Y^{(k)} + \alpha X

    Args:
        d: features of a row.
        alp: α, the size of a step; 0 for 1 / (λ + 1).
        lam: λ, how smooth the result is.
        prop_step: number of steps.
        attn_aft: after how many steps edges are weighted anew; -1 for never.
        tau: lower bound of distances.
        T: upper bound of distances, beyond which edges do not count; none if not positive.
        p: power of distances.
        use_eta: whether features have learnt weights in distances.
        init_att: whether edges are weighted before the first step too.
        attn_dropout: dropout of the weights.
        precond: which of the two formulas.

    Raises:
        SmexValueError: in :meth:`forward` not one row for each node.

    Example:
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> sg.nn.TWIRLSUnfoldingAndAttention(4, 1, 1, prop_step=3)(g, torch.ones(3, 4)).shape
        torch.Size([3, 4])
    """

    def __init__(
        self,
        d: int,
        alp: float,
        lam: float,
        prop_step: int,
        attn_aft: int = -1,
        tau: float = 0.2,
        T: float = -1,  # noqa: N803
        p: float = 1,
        use_eta: bool = False,
        init_att: bool = False,
        attn_dropout: float = 0,
        precond: bool = True,
    ):
        super().__init__()
        self.d = d
        self.alp = alp if alp > 0 else 1 / (lam + 1)
        self.lam, self.prop_step, self.attn_aft = lam, prop_step, attn_aft
        self.precond = precond
        bounds = (tau, T, p, attn_dropout)
        self.init_attn = _Reweighting(*bounds) if init_att else None
        self.attn_layer = _Reweighting(*bounds) if attn_aft >= 0 else None
        self.etas = nn.Parameter(torch.ones(d)) if use_eta else None

    def forward(self, g: Graph, X: Tensor) -> Tensor:  # noqa: N803
        """Returns the propagated features ``[num_nodes, d]``.

        Args:
            g: a graph of one type of nodes and edges.
            X: ``[num_nodes, d]``.
        """
        check_graph("TWIRLSUnfoldingAndAttention", g)
        check_rows("TWIRLSUnfoldingAndAttention", "node", X, g.num_nodes())
        return self.unfold(g.relation(), X)

    def unfold(self, relation: Relation, X: Tensor) -> Tensor:  # noqa: N803
        """Returns what :meth:`forward` computes, from the edges alone."""
        weight = X.new_ones(relation.num_edges, 1)
        degrees = relation.in_degrees().to(X.dtype).unsqueeze(1)
        if self.init_attn is not None:
            weight, degrees = self.init_attn(relation, self._scaled(X))
        y = X
        for step in range(self.prop_step):
            y = self._step(relation, y, X, weight, degrees)
            if self.attn_layer is not None and step == self.attn_aft - 1:
                weight, degrees = self.attn_layer(relation, self._scaled(y))
        return y

    def _scaled(self, y: Tensor) -> Tensor:
        return y if self.etas is None else y * self.etas

    def _step(
        self, relation: Relation, y: Tensor, x: Tensor, weight: Tensor, degrees: Tensor
    ) -> Tensor:
        diagonal = self.lam * degrees + (1 - self.lam) if self.precond else degrees
        root = diagonal**-0.5
        operands = [y, root, weight, root]
        smooth = aggregate(relation, "u0 * u1 * e2 * v3", "sum", operands)
        kept = 1 - self.alp if self.precond else 1 - self.alp * self.lam - self.alp
        start = x / diagonal if self.precond else x
        return kept * y + self.alp * self.lam * smooth + self.alp * start


class MLP(nn.Module):
    """Linear layers with normalisation, ReLU and dropout between them, or before them too."""

    def __init__(
        self,
        sizes: tuple[int, int, int],
        num_layers: int,
        dropout: float,
        norm: str,
        init_activate: bool,
    ):
        super().__init__()
        input_d, hidden_d, output_d = sizes
        widths = [input_d, *[hidden_d] * (num_layers - 1), output_d] if num_layers else []
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.init_activate, self.dropout = init_activate, nn.Dropout(dropout)
        kinds = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "none": nn.Identity}
        count = max(num_layers - 1 + int(init_activate), 0)
        self.norms = nn.ModuleList(kinds[norm](hidden_d) for _ in range(count))
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the rows that the layers make of those of `x`."""
        norms = iter(self.norms)
        for i, layer in enumerate(self.layers):
            if i or self.init_activate:
                x = self.dropout(F.relu(next(norms)(x)))
            x = layer(x)
        return x


class TWIRLSConv(nn.Module):
    """Unfolded descent between two networks (Yang et al., ICML'21, §2 and 3).

    Self-loops are added to the graph, in the place of those that it has.

    Args:
        input_d: features of an input row.
        output_d: features of an output row.
        hidden_d: features of hidden rows.
        prop_step: number of steps.
        num_mlp_before: linear layers before the steps.
        num_mlp_after: linear layers after them.
        norm: in these networks: ``batch``, ``layer`` or ``none``.
        precond: see :class:`TWIRLSUnfoldingAndAttention`, as the next six.
        alp: α.
        lam: λ.
        attention: whether edges are weighted anew after half of the steps.
        tau: lower bound of distances.
        T: upper bound of distances.
        p: power of distances.
        use_eta: whether features have learnt weights in distances.
        attn_bef: whether edges are weighted before the first step too.
        dropout: in the networks.
        attn_dropout: dropout of the weights of edges.
        inp_dropout: dropout of the input rows.

    Raises:
        SmexValueError: an unknown ``norm``; in :meth:`forward` features of another width.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> sg.nn.TWIRLSConv(4, 2, 8, prop_step=3)(g, torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        input_d: int,
        output_d: int,
        hidden_d: int,
        prop_step: int,
        num_mlp_before: int = 1,
        num_mlp_after: int = 1,
        norm: str = "none",
        precond: bool = True,
        alp: float = 0,
        lam: float = 1,
        attention: bool = False,
        tau: float = 0.2,
        T: float = -1,  # noqa: N803
        p: float = 1,
        use_eta: bool = False,
        attn_bef: bool = False,
        dropout: float = 0.0,
        attn_dropout: float = 0.0,
        inp_dropout: float = 0.0,
    ):
        super().__init__()
        check_choice("TWIRLSConv", "norm", norm, NORMS)
        self.input_d, self.output_d, self.hidden_d = input_d, output_d, hidden_d
        between = output_d if num_mlp_after == 0 else hidden_d
        between = between if num_mlp_before else input_d
        self.inp_dropout = nn.Dropout(inp_dropout)
        before, after = (input_d, hidden_d, between), (between, hidden_d, output_d)
        self.mlp_bef = MLP(before, num_mlp_before, dropout, norm, init_activate=False)
        activate = num_mlp_before > 0 and num_mlp_after > 0
        self.mlp_aft = MLP(after, num_mlp_after, dropout, norm, activate)
        attn_aft = prop_step // 2 if attention else -1
        bounds = (attn_aft, tau, T, p, use_eta, attn_bef, attn_dropout, precond)
        self.unfolding = TWIRLSUnfoldingAndAttention(between, alp, lam, prop_step, *bounds)

    def forward(self, graph: Graph, feat: Tensor) -> Tensor:
        """Returns the new features ``[num_nodes, output_d]``.

        Args:
            graph: a graph of one type of nodes and edges.
            feat: ``[num_nodes, input_d]``.
        """
        check_graph("TWIRLSConv", graph)
        check_rows("TWIRLSConv", "node", feat, graph.num_nodes(), self.input_d)
        hidden = self.mlp_bef(self.inp_dropout(feat))
        return self.mlp_aft(self.unfolding.unfold(_with_loops(graph.relation()), hidden))


def _with_loops(relation: Relation) -> Relation:
    """Returns the edges between different nodes, then one from each node to itself."""
    src, dst = relation.coo()
    kept = (src != dst).nonzero().view(-1)
    loops = torch.arange(relation.num_src, dtype=src.dtype, device=src.device)
    src, dst = (torch.cat([ends[kept], loops]) for ends in (src, dst))
    return Relation.from_coo(src, dst, relation.num_src, relation.num_dst, check=False)

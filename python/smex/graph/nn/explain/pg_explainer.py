"""Which edges predictions depend on, told by a network that is trained on many of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from smex._calling import call_with
from smex.errors import SmexValueError
from smex.graph.constants import NID
from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_rows
from smex.graph.parts.batch import batch
from smex.graph.parts.homogeneous import to_homogeneous
from smex.graph.parts.subgraph import khop_in_subgraph

HIDDEN = 64
EPSILON = 1e-6
"""Added to probabilities before their logarithm."""
SCALE = 0.99
"""Keeps weights of edges off 0 and 1, where their entropy has no slope."""


class PGExplainer(nn.Module):
    r"""A network that weighs edges by the embeddings of their ends (Luo et al., NeurIPS'20, §4).

    .. math:: \omega_{uv} = MLP([z_u, z_v]) \text{ of graphs}, \quad
              MLP([z_u, z_v, z_w]) \text{ of a node } w

    and the weight of an edge is :math:`\sigma(\omega)`, while it is trained
    :math:`\sigma((\log \epsilon - \log(1 - \epsilon) + \omega) / \tau)` with a random ε (eq. 4);
    an edge and its reverse have their mean. The loss, of :meth:`train_step` and
    :meth:`train_step_node`, is the cross entropy to the model's own prediction, plus the sum and
    the entropy of the weights. Its first part has a gradient, which it has not
    in DGL; the model gets none.

    Args:
        model: called as ``model(graph, feat, embed=, edge_weight=, **kwargs)``: with ``embed=True``
            it returns the embeddings of nodes, otherwise logits, of each graph or of each node; it
            multiplies messages by ``edge_weight [num_edges]``, which it may be called without.
        num_features: features of an embedding.
        num_hops: how many edges away from a node the model looks, to explain nodes.
        explain_graph: whether predictions of graphs are explained, not of nodes.
        coff_budget: of the sum of weights.
        coff_connect: of their entropy.
        sample_bias: keeps ε at least this far from 0 and 1.

    Raises:
        SmexValueError: the explainer was made for the other kind of prediction, it has no
            ``num_hops`` to explain nodes, or there is not one row of features for each node.

    Example:
        >>> class Model(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.conv = sg.nn.GraphConv(4, 8)
        ...     def forward(self, g, h, embed=False, edge_weight=None):
        ...         h = self.conv(g, h, edge_weight=edge_weight)
        ...         return h if embed else sg.nn.AvgPooling()(g, h)
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> explainer = sg.nn.PGExplainer(Model(), num_features=8)
        >>> explainer.train_step(g, torch.rand(3, 4), temperature=1.0).backward()
        >>> probabilities, weights = explainer.explain_graph(g, torch.rand(3, 4))
        >>> probabilities.shape, weights.shape
        (torch.Size([1, 8]), torch.Size([3]))
    """

    def __init__(
        self,
        model: nn.Module,
        num_features: int,
        num_hops: int | None = None,
        explain_graph: bool = True,
        coff_budget: float = 0.01,
        coff_connect: float = 5e-4,
        sample_bias: float = 0.0,
    ):
        super().__init__()
        self.model = model
        self.graph_explanation = explain_graph
        self.num_features = num_features * (2 if explain_graph else 3)
        self.num_hops = num_hops
        self.coff_budget, self.coff_connect = coff_budget, coff_connect
        self.sample_bias = sample_bias
        self.elayers = nn.Sequential(
            nn.Linear(self.num_features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)
        )

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Those of the explaining network: the model is not trained."""
        return self.elayers.parameters(recurse)

    def train_step(self, graph: Graph, feat: Any, temperature: float, **kwargs: Any) -> Tensor:
        """Returns the loss of explaining the predictions of graphs, a number.

        Args:
            graph: a graph or a batch of graphs.
            feat: ``[num_nodes, features]``.
            temperature: τ: the lower, the closer weights are to 0 and 1.
            kwargs: more arguments of the model.
        """
        with torch.no_grad():
            label = self.model(graph, feat, embed=False, **kwargs).argmax(-1)
        values, weights, logits = self._explained(graph, feat, None, temperature, True, kwargs)
        return self._loss(logits, label, values, weights)

    def train_step_node(
        self, nodes: Any, graph: Graph, feat: Any, temperature: float, **kwargs: Any
    ) -> Tensor:
        """Returns the loss of explaining the predictions for nodes, a number.

        Args:
            nodes: ids, or one.
            graph: the graph.
            feat: ``[num_nodes, features]``.
            temperature: τ: the lower, the closer weights are to 0 and 1.
            kwargs: more arguments of the model.
        """
        parts, feat, own, where = self._parts(nodes, graph, feat)
        with torch.no_grad():
            made = self.model(parts, feat, embed=False, **kwargs)
            label = _together(self._rows(made, where)).argmax(-1)
        values, weights, logits = self._explained(parts, feat, own, temperature, True, kwargs)
        return self._loss(_together(self._rows(logits, where)), label, values, weights)

    def explain_graph(
        self,
        graph: Graph,
        feat: Any,
        temperature: float = 1.0,
        training: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, Any]:
        """Returns the predictions with weighed edges, and the weights.

        Args:
            graph: a graph or a batch of graphs.
            feat: ``[num_nodes, features]``.
            temperature: τ, where ``training``.
            training: whether weights are drawn.
            kwargs: more arguments of the model.

        Returns:
            Probabilities ``[batch_size, classes]``, and ``[num_edges]`` between 0 and 1.
        """
        _, weights, logits = self._explained(graph, feat, None, temperature, training, kwargs)
        return logits.softmax(-1), self._by_type(graph, weights)

    def explain_node(
        self,
        nodes: Any,
        graph: Graph,
        feat: Any,
        temperature: float = 1.0,
        training: bool = False,
        **kwargs: Any,
    ) -> tuple[Any, Any, Graph, Any]:
        """Returns the predictions with weighed edges of nodes' subgraphs, and the weights.

        Args:
            nodes: ids, or one.
            graph: the graph.
            feat: ``[num_nodes, features]``.
            temperature: τ, where ``training``.
            training: whether weights are drawn.
            kwargs: more arguments of the model.

        Returns:
            Probabilities ``[num_nodes, classes]`` of the subgraphs' nodes, the weights
            ``[num_edges]`` of their edges, the subgraphs of ``num_hops`` as a batch, and where the
            nodes are in it ``[nodes]``.
        """
        parts, feat, own, where = self._parts(nodes, graph, feat)
        _, weights, logits = self._explained(parts, feat, own, temperature, training, kwargs)
        return _softmax(logits), self._by_type(parts, weights), parts, where

    # ---- steps ----

    def _explained(
        self,
        graph: Graph,
        feat: Any,
        own: Tensor | None,
        temperature: float,
        training: bool,
        kwargs: dict[str, Any],
    ) -> tuple[Tensor, Tensor, Any]:
        """Weights before and after edges and their reverses are made equal, and the logits.

        ``own`` has for each edge the node that is explained; None for graphs.
        """
        self._check(graph, feat)
        self._check_kind(own is None)
        with torch.set_grad_enabled(training and torch.is_grad_enabled()):
            with torch.no_grad():
                embedding = self.model(graph, feat, embed=True, **kwargs)
            flat, rows = self._flat(graph, embedding)
            src, dst = (ids.long() for ids in flat.edges())
            ends = [src, dst] if own is None else [src, dst, own]
            score = self.elayers(torch.cat([rows[ids] for ids in ends], -1)).squeeze(-1)
            if training:
                noise = torch.rand_like(score) * (1 - 2 * self.sample_bias) + self.sample_bias
                score = (noise.log() - (1 - noise).log() + score) / temperature
            values = score.sigmoid()
            reverse = flat.relation().edge_ids(dst, src).long()
            edges = torch.arange(len(reverse), device=reverse.device)
            # An edge without a reverse stands for itself.
            weights = (values + values[torch.where(reverse < 0, edges, reverse)]) / 2
            known = {"edge_weight": self._by_type(graph, weights), **kwargs}
            frozen = {name: p.detach() for name, p in self.model.named_parameters()}
            logits = call_with(self.model, frozen, graph, feat, **known)
        return values, weights, logits

    def _check_kind(self, graphs: bool) -> None:
        if graphs != self.graph_explanation:
            made, found = ("nodes", "graphs") if graphs else ("graphs", "nodes")
            raise SmexValueError(
                f"{type(self).__name__}: made to explain {made}, found a call that explains "
                f"{found}; pass explain_graph={graphs}"
            )

    def _loss(self, logits: Tensor, label: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        chance = logits.softmax(-1).gather(-1, label.unsqueeze(-1))
        loss = -(chance + EPSILON).log().mean()
        size = values.sum()
        if self.coff_budget > 0:
            size = (size - self.coff_budget).relu()
        loss = loss + self.coff_budget * size
        share = weights * (2 * SCALE - 1) + (1 - SCALE)
        entropy = -share * share.log() - (1 - share) * (1 - share).log()
        return loss + self.coff_connect * entropy.mean()

    def _parts(self, nodes: Any, graph: Graph, feat: Any) -> tuple[Graph, Any, Tensor, Any]:
        """The nodes' subgraphs as a batch, its features, each edge's node, and where nodes are.

        Edges and the nodes that they have are numbered as :meth:`_flat` does.
        """
        self._check(graph, feat)
        self._check_kind(False)
        if self.num_hops is None:
            raise SmexValueError(
                f"{type(self).__name__}: expected num_hops, which nodes are explained with, found "
                "None"
            )
        wanted = [(t, node) for t, ids in self._nodes(graph, nodes).items() for node in ids]
        cut = [khop_in_subgraph(graph, {t: node}, self.num_hops) for t, node in wanted]
        parts = batch([part for part, _ in cut])
        where: dict[str, list[int]] = {t: [] for t in graph.ntypes}
        flat = []
        starts = {t: parts.batch_num_nodes(t).cumsum(0) - parts.batch_num_nodes(t) for t in where}
        first = dict(zip(where, itertools.accumulate(map(parts.num_nodes, where), initial=0)))
        for n, (t, _) in enumerate(wanted):
            where[t].append(int(starts[t][n] + cut[n][1][t]))
            flat.append(first[t] + where[t][-1])
        node = torch.tensor(flat, device=graph.device)
        own = torch.cat(
            [node.repeat_interleave(parts.batch_num_edges(e)) for e in parts.canonical_etypes]
        )
        ids = {t: torch.cat([part.nodes[t].data[NID] for part, _ in cut]).long() for t in where}
        places = {
            t: torch.tensor(x, dtype=torch.long, device=node.device) for t, x in where.items()
        }
        return parts, self._rows(feat, ids), own, self._of_types(places)

    # ---- what a graph of one type has ----

    def _check(self, graph: Graph, feat: Any) -> None:
        check_rows(type(self).__name__, "node", feat, graph.num_nodes())

    def _nodes(self, graph: Graph, nodes: Any) -> dict[str, list[int]]:
        """Returns the ids of nodes by type."""
        return {graph.ntypes[0]: torch.as_tensor(nodes).reshape(-1).tolist()}

    def _of_types(self, tensors: dict[str, Tensor]) -> Any:
        """Returns what users are given of tensors by type."""
        return next(iter(tensors.values()))

    def _rows(self, rows: Any, ids: Any) -> Any:
        """Rows by ids, both as users have them or by type."""
        return rows[ids if isinstance(ids, Tensor) else self._of_types(ids)]

    def _flat(self, graph: Graph, embedding: Any) -> tuple[Graph, Tensor]:
        """Returns the graph as one of one type, and the rows of its nodes."""
        return graph, embedding

    def _by_type(self, graph: Graph, weights: Tensor) -> Any:
        """Numbers of the edges of :meth:`_flat` as the model takes them."""
        return weights


class HeteroPGExplainer(PGExplainer):
    """:class:`PGExplainer` of graphs with several types.

    Features, embeddings and logits of nodes, their ids and probabilities are dicts by node type,
    weights of edges dicts by canonical edge type; embeddings of all types have one width. Where an
    edge of one type and an edge of another join the same nodes in opposite directions, they count
    as an edge and its reverse.

    Args:
        model: as of :class:`PGExplainer`, with dicts in the place of tensors; its logits of graphs
            are a tensor.
        num_features: features of an embedding.
        num_hops: how many edges away from a node the model looks, to explain nodes.
        explain_graph: whether predictions of graphs are explained, not of nodes.
        coff_budget: of the sum of weights.
        coff_connect: of their entropy.
        sample_bias: keeps ε at least this far from 0 and 1.

    Raises:
        SmexValueError: as :class:`PGExplainer`.

    Example:
        >>> class Model(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.conv = sg.nn.HeteroGraphConv({"r": sg.nn.GraphConv(4, 8)})
        ...     def forward(self, g, h, embed=False, edge_weight=None):
        ...         kwargs = {e: {"edge_weight": w} for (_, e, _), w in (edge_weight or {}).items()}
        ...         h = self.conv(g, h, mod_kwargs=kwargs)
        ...         return h if embed else h["a"].mean(0, keepdim=True)
        >>> g = sg.heterograph({("a", "r", "a"): ([0, 1], [1, 0])})
        >>> explainer = sg.nn.HeteroPGExplainer(Model(), num_features=8)
        >>> _, weights = explainer.explain_graph(g, {"a": torch.rand(2, 4)})
        >>> weights["a", "r", "a"].shape
        torch.Size([2])
    """

    def _check(self, graph: Graph, feat: Any) -> None:
        for ntype in graph.ntypes:
            rows = feat.get(ntype) if isinstance(feat, dict) else feat
            check_rows(type(self).__name__, f"{ntype!r} node", rows, graph.num_nodes(ntype))

    def _nodes(self, graph: Graph, nodes: Any) -> dict[str, list[int]]:
        return {t: torch.as_tensor(ids).reshape(-1).tolist() for t, ids in nodes.items()}

    def _of_types(self, tensors: dict[str, Tensor]) -> Any:
        return tensors

    def _rows(self, rows: Any, ids: Any) -> Any:
        return {t: rows[t][x] for t, x in ids.items() if len(x) or t in rows}

    def _flat(self, graph: Graph, embedding: Any) -> tuple[Graph, Tensor]:
        return to_homogeneous(graph), torch.cat([embedding[t] for t in graph.ntypes])

    def _by_type(self, graph: Graph, weights: Tensor) -> Any:
        sizes = [graph.num_edges(e) for e in graph.canonical_etypes]
        return dict(zip(graph.canonical_etypes, weights.split(sizes)))


def _softmax(logits: Any) -> Any:
    if isinstance(logits, Tensor):
        return logits.softmax(-1)
    return {t: x.softmax(-1) for t, x in logits.items()}


def _together(rows: Any) -> Tensor:
    """Rows of all types."""
    return rows if isinstance(rows, Tensor) else torch.cat(list(rows.values()))

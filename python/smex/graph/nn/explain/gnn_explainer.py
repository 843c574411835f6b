"""Which edges and features a prediction depends on."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from smex.graph.constants import EID, NID
from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_rows
from smex.graph.parts.subgraph import khop_in_subgraph

LOG = logging.getLogger(__name__)
EPSILON = 1e-15
"""Added to what a logarithm is taken of."""


class _MaskExplainer(nn.Module):
    """Gradient descent on masks of edges and features, for each of their types."""

    def __init__(
        self,
        model: nn.Module,
        num_hops: int,
        lr: float = 0.01,
        num_epochs: int = 100,
        *,
        alpha1: float = 0.005,
        alpha2: float = 1.0,
        beta1: float = 1.0,
        beta2: float = 0.1,
        log: bool = True,
    ):
        super().__init__()
        self.model = model
        self.num_hops, self.lr, self.num_epochs = num_hops, lr, num_epochs
        self.alpha1, self.alpha2 = alpha1, alpha2
        self.beta1, self.beta2 = beta1, beta2
        self.log = log

    def _masks(
        self,
        logits: Callable[..., Tensor],
        feat: dict[Any, Tensor],
        spread: dict[Any, tuple[int, float]],
    ) -> tuple[dict[Any, Tensor], dict[Any, Tensor]]:
        """Returns the masks that keep a model's predictions; the model gets no gradients.

        Args:
            logits: those of the predictions, ``[rows, classes]``, of features and weights of edges
                or None.
            feat: features of each type of nodes.
            spread: number of edges of each type, and the deviation that their mask starts with.
        """
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad():
            label = logits(feat, None).argmax(-1)
        like = next(iter(feat.values()))
        feat_mask = {
            t: (0.1 * torch.randn(1, x.shape[-1]).to(x)).requires_grad_() for t, x in feat.items()
        }
        edge_mask = {
            t: (deviation * torch.randn(size).to(like)).requires_grad_()
            for t, (size, deviation) in spread.items()
        }
        masks = [*feat_mask.values(), *edge_mask.values()]
        optimizer = torch.optim.Adam(masks, lr=self.lr)
        for epoch in range(self.num_epochs):
            shown = {t: x * feat_mask[t].sigmoid() for t, x in feat.items()}
            weights = {t: mask.sigmoid() for t, mask in edge_mask.items()}
            loss = nn.functional.cross_entropy(logits(shown, weights), label)
            loss = loss + self._regularization(weights.values(), feat_mask.values())
            for mask, grad in zip(masks, torch.autograd.grad(loss, masks, allow_unused=True)):
                mask.grad = grad
            optimizer.step()
            if self.log:
                LOG.info("%s: step %d, loss %.4f", type(self).__name__, epoch, loss.item())
        self.model.train(was_training)
        return (
            {t: mask.detach().sigmoid().squeeze(0) for t, mask in feat_mask.items()},
            {t: mask.detach().sigmoid() for t, mask in edge_mask.items()},
        )

    def _regularization(self, weights: Iterable[Tensor], feat_masks: Iterable[Tensor]) -> Tensor:
        shares = [mask.sigmoid() for mask in feat_masks]
        loss = sum(self.beta1 * x.mean() + self.beta2 * _entropy(x).mean() for x in shares)
        for x in weights:
            if x.numel():
                loss = loss + self.alpha1 * x.sum() + self.alpha2 * _entropy(x).mean()
        return torch.as_tensor(loss)


class GNNExplainer(_MaskExplainer):
    r"""Masks of edges and features that keep a prediction (Ying et al., NeurIPS'19, §4.1 and 4.2).

    Gradient descent on masks, through a sigmoid, of

    .. math:: -\log p(y) + \alpha_1 \sum M_E + \alpha_2 \overline{H(M_E)} + \beta_1 \overline{M_F}
              + \beta_2 \overline{H(M_F)}

    with y the model's own prediction and H the entropy of each number of a mask.

    Args:
        model: called as ``model(graph=, feat=, eweight=, **kwargs)``; it multiplies messages by
            ``eweight [num_edges]``, which it may be called without, and returns logits of classes.
        num_hops: how many edges away from a node the model looks.
        lr: learning rate.
        num_epochs: steps.
        alpha1: of the size of the mask of edges.
        alpha2: of its entropy.
        beta1: of the size of the mask of features.
        beta2: of its entropy.
        log: whether the loss is logged, at level INFO.

    Raises:
        SmexValueError: not one row of features for each node.

    Example:
        >>> class Model(torch.nn.Module):
        ...     def forward(self, graph, feat, eweight=None):
        ...         conv = sg.nn.GraphConv(4, 4, weight=False, bias=False, norm="none")
        ...         return conv(graph, feat, edge_weight=eweight)
        >>> g = sg.add_self_loop(sg.graph(([0, 1], [1, 2])))
        >>> explainer = sg.nn.GNNExplainer(Model(), num_hops=1, num_epochs=2)
        >>> node, part, features, edges = explainer.explain_node(1, g, torch.rand(3, 4))
        >>> node, part.num_nodes(), features.shape, edges.shape
        (tensor([1]), 2, torch.Size([4]), torch.Size([3]))
    """

    def explain_node(
        self, node_id: int, graph: Graph, feat: Tensor, **kwargs: Any
    ) -> tuple[Tensor, Graph, Tensor, Tensor]:
        """Returns what the prediction for a node depends on.

        Args:
            node_id: the node.
            graph: a graph of one type of nodes and edges.
            feat: ``[num_nodes, features]``.
            kwargs: more arguments of the model. Tensors with a row for each node, or for each edge,
                are cut down to the subgraph.

        Returns:
            The node's id in the subgraph, the subgraph of ``num_hops``, the masks of features
            ``[features]`` and of the subgraph's edges ``[num_edges]``, between 0 and 1.
        """
        check_rows("GNNExplainer", "node", feat, graph.num_nodes())
        part, node = khop_in_subgraph(graph, node_id, self.num_hops)
        nodes, edges = part.ndata[NID].long(), part.edata[EID].long()
        for name, value in kwargs.items():
            if isinstance(value, Tensor) and value.dim():
                if value.shape[0] == graph.num_nodes():
                    kwargs[name] = value[nodes]
                elif value.shape[0] == graph.num_edges():
                    kwargs[name] = value[edges]
        masks = self._of_rows(part, feat[nodes], node, kwargs)
        return node, part, *masks

    def explain_graph(self, graph: Graph, feat: Tensor, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Returns what the prediction for a graph depends on.

        Args:
            graph: a graph of one type of nodes and edges.
            feat: ``[num_nodes, features]``.
            kwargs: more arguments of the model.

        Returns:
            The masks of features ``[features]`` and of edges ``[num_edges]``, between 0 and 1.
        """
        check_rows("GNNExplainer", "node", feat, graph.num_nodes())
        return self._of_rows(graph, feat, torch.tensor([0], device=feat.device), kwargs)

    def _of_rows(
        self, graph: Graph, feat: Tensor, rows: Tensor, kwargs: dict[str, Any]
    ) -> tuple[Tensor, Tensor]:
        """Returns the masks that keep the predictions of some rows."""

        def logits(shown: dict[None, Tensor], weights: dict[None, Tensor] | None) -> Tensor:
            known = {} if weights is None else {"eweight": weights[None]}
            return self.model(graph=graph, feat=shown[None], **known, **kwargs)[rows.long()]

        number = graph.num_nodes()
        spread = {None: (graph.num_edges(), _deviation(number, number))}
        of_features, of_edges = self._masks(logits, {None: feat}, spread)
        return of_features[None], of_edges[None]


class HeteroGNNExplainer(_MaskExplainer):
    """:class:`GNNExplainer` of graphs with several types: a mask for each.

    Args:
        model: called as ``model(graph=, feat=, eweight=, **kwargs)`` with features by node type and
            weights by canonical edge type, which it may be called without. It returns logits of
            classes: by node type for :meth:`explain_node`, of graphs for :meth:`explain_graph`.
        num_hops: how many edges away from a node the model looks.
        lr: learning rate.
        num_epochs: steps.
        alpha1: of the sizes of the masks of edges.
        alpha2: of their entropies.
        beta1: of the sizes of the masks of features.
        beta2: of their entropies.
        log: whether the loss is logged, at level INFO.

    Raises:
        SmexValueError: not one row of features for each node of a type.

    Example:
        >>> class Model(torch.nn.Module):
        ...     def forward(self, graph, feat, eweight=None):
        ...         conv = sg.nn.GraphConv(4, 4, weight=False, bias=False, norm="none")
        ...         weights = eweight or {}
        ...         kwargs = {e: {"edge_weight": weights.get(t)}
        ...                   for e, t in zip(graph.etypes, graph.canonical_etypes)}
        ...         return sg.nn.HeteroGraphConv({"r": conv})(graph, feat, mod_kwargs=kwargs)
        >>> g = sg.heterograph({("a", "r", "b"): ([0, 1, 2], [0, 0, 1])})
        >>> explainer = sg.nn.HeteroGNNExplainer(Model(), num_hops=1, num_epochs=2)
        >>> feat = {"a": torch.rand(3, 4), "b": torch.rand(2, 4)}
        >>> node, part, features, edges = explainer.explain_node("b", 0, g, feat)
        >>> features["a"].shape, edges["a", "r", "b"].shape
        (torch.Size([4]), torch.Size([2]))
    """

    def explain_node(
        self, ntype: str, node_id: int, graph: Graph, feat: dict[str, Tensor], **kwargs: Any
    ) -> tuple[Tensor, Graph, dict[str, Tensor], dict[tuple[str, str, str], Tensor]]:
        """Returns what the prediction for a node depends on.

        Args:
            ntype: the node's type.
            node_id: the node.
            graph: the graph.
            feat: ``[num_nodes, features]`` for each node type.
            kwargs: more arguments of the model, as they are.

        Returns:
            The node's id in the subgraph, the subgraph of ``num_hops``, the masks of features
            ``[features]`` by node type and of the subgraph's edges ``[num_edges]`` by canonical
            edge type, between 0 and 1.
        """
        self._check(graph, feat)
        part, where = khop_in_subgraph(graph, {ntype: node_id}, self.num_hops)
        node = where[ntype]
        known = {t: x[part.nodes[t].data[NID].long()] for t, x in feat.items()}
        return node, part, *self._of_types(part, known, ntype, node.long(), kwargs)

    def explain_graph(
        self, graph: Graph, feat: dict[str, Tensor], **kwargs: Any
    ) -> tuple[dict[str, Tensor], dict[tuple[str, str, str], Tensor]]:
        """Returns what the prediction for a graph depends on.

        Args:
            graph: the graph.
            feat: ``[num_nodes, features]`` for each node type.
            kwargs: more arguments of the model.

        Returns:
            The masks of features and of edges, as of :meth:`explain_node`.
        """
        self._check(graph, feat)
        return self._of_types(graph, feat, None, torch.tensor([0], device=graph.device), kwargs)

    def _check(self, graph: Graph, feat: dict[str, Tensor]) -> None:
        for ntype, rows in feat.items():
            check_rows("HeteroGNNExplainer", f"{ntype!r} node", rows, graph.num_nodes(ntype))

    def _of_types(
        self,
        graph: Graph,
        feat: dict[str, Tensor],
        ntype: str | None,
        rows: Tensor,
        kwargs: dict[str, Any],
    ) -> tuple[dict[str, Tensor], dict[tuple[str, str, str], Tensor]]:
        """The masks that keep the predictions of some rows, of nodes of a type or of graphs."""

        def logits(shown: dict[str, Tensor], weights: dict | None) -> Tensor:
            known = {} if weights is None else {"eweight": weights}
            made = self.model(graph=graph, feat=shown, **known, **kwargs)
            return (made if ntype is None else made[ntype])[rows]

        spread = {
            etype: (
                graph.num_edges(etype),
                _deviation(graph.num_nodes(etype[0]), graph.num_nodes(etype[2])),
            )
            for etype in graph.canonical_etypes
        }
        return self._masks(logits, feat, spread)


def _deviation(num_src: int, num_dst: int) -> float:
    """He's, of a matrix of as many rows and columns (He et al., ICCV'15, eq. 10)."""
    return nn.init.calculate_gain("relu") * math.sqrt(2 / max(num_src + num_dst, 1))


def _entropy(mask: Tensor) -> Tensor:
    rest = 1 - mask
    return -mask * (mask + EPSILON).log() - rest * (rest + EPSILON).log()

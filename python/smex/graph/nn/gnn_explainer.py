"""Which edges and features a prediction depends on."""

from __future__ import annotations

import logging
import math
from typing import Any

import torch
from torch import Tensor, nn

from smex.graph.constants import EID, NID
from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_rows
from smex.graph.subgraph import khop_in_subgraph

LOG = logging.getLogger(__name__)
EPSILON = 1e-15
"""Added to what a logarithm is taken of."""


class GNNExplainer(nn.Module):
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

    def explain_node(
        self, node_id: int, graph: Graph, feat: Tensor, **kwargs: Any
    ) -> tuple[Tensor, Graph, Tensor, Tensor]:
        """What the prediction for a node depends on.

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
        masks = self._masks(part, feat[nodes], node, kwargs)
        return node, part, *masks

    def explain_graph(self, graph: Graph, feat: Tensor, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """What the prediction for a graph depends on.

        Args:
            graph: a graph of one type of nodes and edges.
            feat: ``[num_nodes, features]``.
            kwargs: more arguments of the model.

        Returns:
            The masks of features ``[features]`` and of edges ``[num_edges]``, between 0 and 1.
        """
        check_rows("GNNExplainer", "node", feat, graph.num_nodes())
        return self._masks(graph, feat, torch.tensor([0], device=feat.device), kwargs)

    def _masks(
        self, graph: Graph, feat: Tensor, rows: Tensor, kwargs: dict[str, Any]
    ) -> tuple[Tensor, Tensor]:
        """The masks that keep the predictions of some rows; the model gets no gradients."""
        rows = rows.long()
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad():
            label = self.model(graph=graph, feat=feat, **kwargs)[rows].argmax(-1)
        spread = nn.init.calculate_gain("relu") / math.sqrt(max(graph.num_nodes(), 1))
        feat_mask = (0.1 * torch.randn(1, feat.shape[-1]).to(feat)).requires_grad_()
        edge_mask = (spread * torch.randn(graph.num_edges()).to(feat)).requires_grad_()
        masks = [feat_mask, edge_mask]
        optimizer = torch.optim.Adam(masks, lr=self.lr)
        for epoch in range(self.num_epochs):
            logits = self.model(
                graph=graph, feat=feat * feat_mask.sigmoid(), eweight=edge_mask.sigmoid(), **kwargs
            )
            loss = nn.functional.cross_entropy(logits[rows], label)
            loss = loss + self._regularization(edge_mask.sigmoid(), feat_mask.sigmoid())
            for mask, grad in zip(masks, torch.autograd.grad(loss, masks, allow_unused=True)):
                mask.grad = grad
            optimizer.step()
            if self.log:
                LOG.info("GNNExplainer: step %d, loss %.4f", epoch, loss.item())
        self.model.train(was_training)
        return feat_mask.detach().sigmoid().squeeze(0), edge_mask.detach().sigmoid()

    def _regularization(self, edge_mask: Tensor, feat_mask: Tensor) -> Tensor:
        loss = self.beta1 * feat_mask.mean() + self.beta2 * _entropy(feat_mask).mean()
        if edge_mask.numel():
            loss = loss + self.alpha1 * edge_mask.sum() + self.alpha2 * _entropy(edge_mask).mean()
        return loss


def _entropy(mask: Tensor) -> Tensor:
    rest = 1 - mask
    return -mask * (mask + EPSILON).log() - rest * (rest + EPSILON).log()

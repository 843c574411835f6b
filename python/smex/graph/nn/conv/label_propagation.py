"""Labels that spread along the edges."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smex.graph.graph import Graph
from smex.graph.nn.inputs import check_choice, check_graph, check_rows, degree_factor
from smex.graph.nn.propagation import sum_of_products

NORM_TYPES = ("sym", "row")


class LabelPropagation(nn.Module):
    r"""Label propagation (Zhu and Ghahramani, 2002, §2; Zhou et al., NeurIPS'03, §2).

    .. math:: Y^{(i+1)} = \alpha D_{in}^{-1/2} A D_{out}^{-1/2} Y^{(i)} + (1 - \alpha) Y^{(0)}

    for ``sym``, :math:`D_{in}^{-1} A` for ``row``. There are no parameters, and no gradients.

    Args:
        k: number of iterations.
        alpha: α, how much of its neighbours a node takes.
        norm_type: ``sym`` or ``row``.
        clamp: whether numbers are kept between 0 and 1.
        normalize: whether rows are made to add up to 1.
        reset: whether known labels are put back after each iteration.

    Raises:
        SmexValueError: an unknown ``norm_type``; in :meth:`forward` not one label for each node.

    Example:
        >>> g = sg.graph(([0, 1, 2, 1], [1, 0, 1, 2]))
        >>> spread = sg.nn.LabelPropagation(k=3, alpha=0.5)
        >>> spread(g, torch.tensor([1, 0, 0]), torch.tensor([0])).argmax(1)
        tensor([1, 1, 1])
    """

    def __init__(
        self,
        k: int,
        alpha: float,
        norm_type: str = "sym",
        clamp: bool = True,
        normalize: bool = False,
        reset: bool = False,
    ):
        super().__init__()
        check_choice("LabelPropagation", "norm_type", norm_type, NORM_TYPES)
        self.k, self.alpha = k, alpha
        self.norm_type, self.clamp = norm_type, clamp
        self.normalize, self.reset = normalize, reset

    @torch.no_grad()
    def forward(self, g: Graph, labels: Tensor, mask: Tensor | None = None) -> Tensor:
        """Returns how much each node has of each label, ``[num_nodes, classes]``.

        Args:
            g: a graph of one type of nodes and edges.
            labels: classes ``[num_nodes]`` or ``[num_nodes, 1]`` as integers, or numbers
                ``[num_nodes, classes]``, such as 1 for each of several labels of a node.
            mask: which labels are known, bools or ids; all by default.
        """
        check_graph("LabelPropagation", g)
        check_rows("LabelPropagation", "node", labels, g.num_nodes())
        if labels.dim() > 1 and labels.shape[1] > 1:
            labels = labels if labels.is_floating_point() else labels.float()
        elif not labels.is_floating_point():
            labels = F.one_hot(labels.flatten().long()).float()
        known = labels
        if mask is not None:
            known = torch.zeros_like(labels)
            known[mask] = labels[mask]
        y = known
        for _ in range(self.k):
            y = self.alpha * self._neighbours(g, y) + (1 - self.alpha) * known
            if self.clamp:
                y = y.clamp(0, 1)
            if self.normalize:
                y = F.normalize(y, p=1)
            if self.reset:
                chosen = slice(None) if mask is None else mask
                y[chosen] = labels[chosen]
        return y

    def _neighbours(self, g: Graph, y: Tensor) -> Tensor:
        relation = g.relation()
        if self.norm_type == "row":
            factors = [("v", degree_factor(relation, "dst", -1.0, y))]
        else:
            factors = [
                ("u", degree_factor(relation, "src", -0.5, y)),
                ("v", degree_factor(relation, "dst", -0.5, y)),
            ]
        return sum_of_products(relation, y, factors)

"""Graphs whose edges are where a feature diffuses to (Klicpera et al., NeurIPS'19).

With the weights ``A[v, u]`` of the edges from ``u`` to ``v``, the new weights are the entries of

* ``alpha (I - (1 - alpha) A)^-1`` for :class:`PPR`,
* ``exp(-t (I - A))`` for :class:`HeatKernel`,
* ``sum_k coefs[k] A^k`` for :class:`GDC`,

of which small ones are left out. All three are dense, with memory quadratic and time cubic in the
number of nodes. `A` is taken as it is: put :class:`GCNNorm` before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from smex.graph.creation.convert import graph
from smex.graph.graph import Graph
from smex.graph.parts.selection import check_one_type
from smex.graph.transforms.encodings import dense_adjacency
from smex.graph.transforms.modules import BaseTransform

__all__ = ["GDC", "PPR", "HeatKernel"]


class _Diffusion(BaseTransform):
    """A matrix of the graph, as a graph.

    Args:
        eweight_name: the edge feature with the weights, 1 where there is none; also of the result.
        eps: the least weight that stays; None: that of the ``avg_degree * num_nodes`` largest ones.
        avg_degree: see `eps`.
    """

    def __init__(self, eweight_name: str, eps: float | None, avg_degree: int):
        self.eweight_name = eweight_name
        self.eps = eps
        self.avg_degree = avg_degree

    @abstractmethod
    def matrix(self, weights: Tensor) -> Tensor:
        """The diffusion, of the weights ``[num_nodes, num_nodes]`` with destinations as rows."""

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph of the diffusion, with the node features; weights are an edge feature.

        Raises:
            SmexTypeError: the graph has several types.
        """
        name = type(self).__name__
        check_one_type(name, g)
        weighted = self.eweight_name if self.eweight_name in g.edata else None
        dense = self.matrix(dense_adjacency(name, g, weighted).T.double())
        dst, src = (
            ((dense >= self.get_eps(g.num_nodes(), dense)) & (dense != 0)).nonzero().unbind(1)
        )
        ends = (src.to(g.idtype), dst.to(g.idtype))
        result = graph(ends, num_nodes=g.num_nodes())
        for feature, rows in g.ndata.items():
            result.ndata[feature] = rows
        result.edata[self.eweight_name] = dense[dst, src].float()
        return result

    def get_eps(self, num_nodes: int, mat: Tensor) -> float:
        """Returns the least weight that stays, of those in the matrix."""
        if self.eps is not None:
            return self.eps
        number = min(self.avg_degree * num_nodes, mat.numel())
        return float(mat.flatten().topk(number).values[-1]) if number else 0.0


class PPR(_Diffusion):
    """Personalised PageRank as weights, see :mod:`smex.graph.transforms.diffusion`.

    Args:
        alpha: the chance to go back to the start, at each step.
        eweight_name: the edge feature with the weights, 1 where there is none; also of the result.
        eps: the least weight that stays; None: that of the ``avg_degree * num_nodes`` largest ones.
        avg_degree: see `eps`.

    Example:
        >>> g = sg.graph(([0, 1, 2, 3, 4], [2, 3, 4, 5, 3]))
        >>> t = sg.Compose([sg.AddSelfLoop(), sg.GCNNorm(), sg.PPR(avg_degree=2)])
        >>> t(g).num_edges()
        12
    """

    def __init__(
        self,
        alpha: float = 0.15,
        eweight_name: str = "w",
        eps: float | None = None,
        avg_degree: int = 5,
    ):
        super().__init__(eweight_name, eps, avg_degree)
        self.alpha = alpha

    def matrix(self, weights: Tensor) -> Tensor:
        """See :mod:`smex.graph.transforms.diffusion`."""
        eye = torch.eye(weights.shape[0], dtype=weights.dtype, device=weights.device)
        return self.alpha * torch.linalg.inv(eye - (1 - self.alpha) * weights)


class HeatKernel(_Diffusion):
    """The heat kernel as weights, see :mod:`smex.graph.transforms.diffusion`.

    Args:
        t: for how long.
        eweight_name: the edge feature with the weights, 1 where there is none; also of the result.
        eps: the least weight that stays; None: that of the ``avg_degree * num_nodes`` largest ones.
        avg_degree: see `eps`.

    Example:
        >>> g = sg.HeatKernel(eps=1e-3)(sg.graph(([0], [1])))
        >>> g.edges(), g.edata["w"]
        ((tensor([0, 0, 1]), tensor([0, 1, 1])), tensor([0.1353, 0.2707, 0.1353]))
    """

    def __init__(
        self,
        t: float = 2.0,
        eweight_name: str = "w",
        eps: float | None = None,
        avg_degree: int = 5,
    ):
        super().__init__(eweight_name, eps, avg_degree)
        self.t = t

    def matrix(self, weights: Tensor) -> Tensor:
        """See :mod:`smex.graph.transforms.diffusion`."""
        eye = torch.eye(weights.shape[0], dtype=weights.dtype, device=weights.device)
        return torch.linalg.matrix_exp(self.t * (weights - eye))


class GDC(_Diffusion):
    """A polynomial of the weights, see :mod:`smex.graph.transforms.diffusion`.

    Args:
        coefs: the factor of each power, that of the identity first.
        eweight_name: the edge feature with the weights, 1 where there is none; also of the result.
        eps: the least weight that stays; None: that of the ``avg_degree * num_nodes`` largest ones.
        avg_degree: see `eps`.

    Example:
        >>> g = sg.GDC([0.5, 0.25, 0.125], eps=0.1)(sg.graph(([0, 1], [1, 2])))
        >>> g.edata["w"]
        tensor([0.5000, 0.2500, 0.5000, 0.1250, 0.2500, 0.5000])
    """

    def __init__(
        self,
        coefs: Sequence[float],
        eweight_name: str = "w",
        eps: float | None = None,
        avg_degree: int = 5,
    ):
        super().__init__(eweight_name, eps, avg_degree)
        self.coefs = coefs

    def matrix(self, weights: Tensor) -> Tensor:
        """See :mod:`smex.graph.transforms.diffusion`."""
        power = torch.eye(weights.shape[0], dtype=weights.dtype, device=weights.device)
        total = torch.zeros_like(weights)
        for step, coefficient in enumerate(self.coefs):
            power = weights @ power if step else power
            total = total + coefficient * power
        return total

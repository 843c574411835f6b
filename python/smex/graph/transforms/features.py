"""Modules that set features: normalised, masked, encoded, diffused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph import function as fn
from smex.graph.features.column import MissingFeatureError
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph
from smex.graph.parts.selection import check_one_type
from smex.graph.transforms.encodings import edge_weights, lap_pe, random_walk_pe, svd_pe
from smex.graph.transforms.modules import BaseTransform, probability
from smex.graph.words import CanonicalType, quoted

__all__ = [
    "SVDPE",
    "FeatMask",
    "GCNNorm",
    "LapPE",
    "LaplacianPE",
    "RandomWalkPE",
    "RowFeatNormalizer",
    "SIGNDiffusion",
]

_OPERATORS = ("raw", "rw", "gcn", "ppr")
_Names = Sequence[str] | None


class _FeatureTransform(BaseTransform):
    """Changes some features of nodes and of edges, one by one."""

    def __init__(self, node_feat_names: _Names, edge_feat_names: _Names):
        self.node_feat_names = node_feat_names
        self.edge_feat_names = edge_feat_names

    def change(self, feature: Tensor) -> Tensor:
        """Returns the feature's new value."""
        raise NotImplementedError

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph with changed features."""
        result = g.clone()
        self._change("node", list(result._src_frames.values()), self.node_feat_names)
        self._change("edge", list(result._edge_frames.values()), self.edge_feat_names)
        return result

    def _change(self, kind: str, frames: list[Frame], names: _Names) -> None:
        for name in names or ():
            if not any(name in frame for frame in frames):
                raise MissingFeatureError(
                    f'{type(self).__name__}: there is no {kind} feature "{name}"; set it first'
                )
            for frame in frames:
                if name in frame:
                    frame[name] = self.change(frame[name])


class RowFeatNormalizer(_FeatureTransform):
    """Divides each row of features by its sum; rows whose sum is 0 stay.

    Args:
        subtract_min: whether the least value of a feature is first subtracted from all of it.
        node_feat_names: node features; None: none.
        edge_feat_names: edge features; None: none.

    Raises:
        MissingFeatureError: when called with a graph that has no such feature.

    Example:
        >>> g = sg.graph(([0], [1]))
        >>> g.ndata["h"] = torch.tensor([[1.0, 3.0], [0.0, 0.0]])
        >>> sg.RowFeatNormalizer(node_feat_names=["h"])(g).ndata["h"]
        tensor([[0.2500, 0.7500],
                [0.0000, 0.0000]])
    """

    def __init__(
        self,
        subtract_min: bool = False,
        node_feat_names: _Names = None,
        edge_feat_names: _Names = None,
    ):
        super().__init__(node_feat_names, edge_feat_names)
        self.subtract_min = subtract_min

    def change(self, feature: Tensor) -> Tensor:
        """See :meth:`row_normalize`."""
        return self.row_normalize(feature)

    def row_normalize(self, feat: Tensor) -> Tensor:
        """Returns the feature with rows that sum to 1."""
        if self.subtract_min and feat.numel():
            feat = feat - feat.min()
        sums = feat.sum(-1, keepdim=True)
        return torch.where(sums == 0, feat, feat / sums)


class FeatMask(_FeatureTransform):
    """Sets drawn columns of features to 0, the same in all rows.

    Args:
        p: the probability of each column.
        node_feat_names: node features; None: none.
        edge_feat_names: edge features; None: none.

    Raises:
        MissingFeatureError: when called with a graph that has no such feature.
        SmexValueError: `p` is not between 0 and 1.

    Example:
        >>> g = sg.graph(([0], [1]))
        >>> g.ndata["h"] = torch.ones(2, 3)
        >>> sg.FeatMask(1.0, ["h"])(g).ndata["h"].sum()
        tensor(0.)
    """

    def __init__(
        self,
        p: float = 0.5,
        node_feat_names: _Names = None,
        edge_feat_names: _Names = None,
    ):
        super().__init__(node_feat_names, edge_feat_names)
        self.p = probability("FeatMask", p)

    def change(self, feature: Tensor) -> Tensor:
        """Returns the feature with some columns set to 0."""
        columns = feature.shape[-1:] if feature.dim() > 1 else (1,)
        masked = torch.rand(columns, device=feature.device) < self.p
        return feature.masked_fill(masked, 0)


# ---- positions ----


class RandomWalkPE(BaseTransform):
    """Sets a node feature to :func:`smex.graph.random_walk_pe`.

    Args:
        k: number of steps.
        feat_name: the feature.
        eweight_name: edge feature with weights.

    Example:
        >>> g = sg.RandomWalkPE(2)(sg.graph(([0, 1, 1], [1, 0, 1])))
        >>> g.ndata["PE"].shape
        torch.Size([2, 2])
    """

    def __init__(self, k: int, feat_name: str = "PE", eweight_name: str | None = None):
        self.k = k
        self.feat_name = feat_name
        self.eweight_name = eweight_name

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph with the feature."""
        result = g.clone()
        result.ndata[self.feat_name] = random_walk_pe(g, self.k, self.eweight_name)
        return result


class LapPE(BaseTransform):
    """Sets a node feature to :func:`smex.graph.lap_pe`.

    Args:
        k: number of eigenvectors.
        feat_name: the feature.
        eigval_name: a node feature for the eigenvalues, the same in all rows; None: none.
        padding: see there.

    Example:
        >>> ring = sg.to_bidirected(sg.graph(([0, 1, 2, 3], [1, 2, 3, 0])))
        >>> sg.LapPE(2, eigval_name="e")(ring).ndata["e"].shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        k: int,
        feat_name: str = "PE",
        eigval_name: str | None = None,
        padding: bool = False,
    ):
        self.k = k
        self.feat_name = feat_name
        self.eigval_name = eigval_name
        self.padding = padding

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph with the feature."""
        result = g.clone()
        encoding, values = lap_pe(g, self.k, self.padding, return_eigval=True)
        result.ndata[self.feat_name] = encoding
        if self.eigval_name is not None:
            result.ndata[self.eigval_name] = values.expand(g.num_nodes(), -1).contiguous()
        return result


class LaplacianPE(LapPE):
    """Former name of :class:`LapPE`, with its arguments."""


class SVDPE(BaseTransform):
    """Sets a node feature to :func:`smex.graph.svd_pe`.

    Args:
        k: number of singular values.
        feat_name: the feature.
        padding: see there.
        random_flip: see there.

    Example:
        >>> sg.SVDPE(1)(sg.graph(([0], [1]))).ndata["svd_pe"].shape
        torch.Size([2, 2])
    """

    def __init__(
        self, k: int, feat_name: str = "svd_pe", padding: bool = False, random_flip: bool = True
    ):
        self.k = k
        self.feat_name = feat_name
        self.padding = padding
        self.random_flip = random_flip

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph with the feature."""
        result = g.clone()
        result.ndata[self.feat_name] = svd_pe(g, self.k, self.padding, self.random_flip)
        return result


# ---- weights and diffusion ----


class GCNNorm(BaseTransform):
    """Sets edge weights to ``w / sqrt(d_u d_v)`` with in-degrees ``d`` (Kipf and Welling, ICLR'17).

    In-degrees are sums of weights; edges from or to nodes without in-edges get 0. Each edge type is
    normalised by itself; those between nodes of two types are left as they are.

    Args:
        eweight_name: the edge feature with the weights, 1 where there is none.

    Example:
        >>> g = sg.GCNNorm()(sg.graph(([0, 1, 2], [0, 0, 1])))
        >>> g.edata["w"]
        tensor([0.5000, 0.7071, 0.0000])
    """

    def __init__(self, eweight_name: str = "w"):
        self.eweight_name = eweight_name

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph with normalised weights."""
        result = g.clone()
        for canonical in g.canonical_etypes:
            if canonical[0] == canonical[2]:
                data = result.edges[canonical].data
                data[self.eweight_name] = self.calc_etype(canonical, g)
        return result

    def calc_etype(self, c_etype: CanonicalType, g: Graph) -> Tensor:
        """Returns the normalised weights of the edges of a type, ``[num_edges]``."""
        return gcn_weights(g, _weights(g, self.eweight_name, c_etype), c_etype)


def _weights(g: Graph, name: str | None, etype: CanonicalType) -> Tensor:
    """Returns the weights of the edges, 1 where there is no such feature."""
    if name is None or name not in g.edges[etype].data:
        return torch.ones(g.num_edges(etype), device=g.device)
    return edge_weights("transform", g, name, etype)


def weighted_in_degrees(g: Graph, weights: Tensor, etype: CanonicalType | None = None) -> Tensor:
    """Returns the sum of the weights of the edges into each node, ``[num_nodes]``."""
    dst = g.edges(etype=etype)[1]
    return weights.new_zeros(g.num_nodes(g.to_canonical_etype(etype)[2])).index_add(0, dst, weights)


def gcn_weights(g: Graph, weights: Tensor, etype: CanonicalType | None = None) -> Tensor:
    """Weights over the square roots of the weighted in-degrees of both ends."""
    degrees = weighted_in_degrees(g, weights, etype)
    scale = torch.where(degrees > 0, degrees.clamp(min=0).rsqrt(), 0)
    src, dst = (ids.long() for ids in g.edges(etype=etype))
    return scale[src] * weights * scale[dst]


class SIGNDiffusion(BaseTransform):
    """Sets node features to those of 1 to `k` steps of diffusion (Frasca et al. 2020).

    Args:
        k: number of steps; features ``out_feat_1`` to ``out_feat_k``.
        in_feat_name: the node feature that diffuses, ``[num_nodes, ...]``.
        out_feat_name: start of the names of the new ones.
        eweight_name: edge feature with weights; None: 1.
        diffuse_op: what a step sums over the in-edges: ``"raw"``: features times weights; ``"rw"``:
            the weighted mean; ``"gcn"``: times the weights of :class:`GCNNorm`; ``"ppr"``:
            ``(1 - alpha)`` times that, and ``alpha`` times the first feature.
        alpha: for ``"ppr"``.

    Raises:
        MissingFeatureError: when called with a graph that has no such feature.
        SmexTypeError: when called with a graph of several types.
        SmexValueError: `diffuse_op` is something else.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> g.ndata["feat"] = torch.tensor([[1.0], [2.0], [3.0]])
        >>> sg.SIGNDiffusion(2)(g).ndata["out_feat_2"].view(-1)
        tensor([0., 0., 1.])
    """

    def __init__(
        self,
        k: int,
        in_feat_name: str = "feat",
        out_feat_name: str = "out_feat",
        eweight_name: str | None = None,
        diffuse_op: str = "raw",
        alpha: float = 0.2,
    ):
        if diffuse_op not in _OPERATORS:
            raise SmexValueError(
                f"SIGNDiffusion: expected diffuse_op among {quoted(_OPERATORS)}, found "
                f'"{diffuse_op}"'
            )
        self.k = k
        self.in_feat_name = in_feat_name
        self.out_feat_name = out_feat_name
        self.eweight_name = eweight_name
        self.diffuse_op = diffuse_op
        self.alpha = alpha

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph with the features."""
        check_one_type("SIGNDiffusion", g)
        if self.in_feat_name not in g.ndata:
            raise MissingFeatureError(
                f'SIGNDiffusion: there is no node feature "{self.in_feat_name}"; set it first'
            )
        features = getattr(self, self.diffuse_op)(g)
        result = g.clone()
        for number, feature in enumerate(features, 1):
            result.ndata[f"{self.out_feat_name}_{number}"] = feature
        return result

    def raw(self, g: Graph) -> list[Tensor]:
        """Returns the feature diffused once to k times by the weights."""
        return self._steps(g, self._edge_weights(g))

    def rw(self, g: Graph) -> list[Tensor]:
        """Returns the feature diffused once to k times by weights over the sum at their ends."""
        weights = self._edge_weights(g)
        return self._steps(g, weights / weighted_in_degrees(g, weights)[g.edges()[1].long()])

    def gcn(self, g: Graph) -> list[Tensor]:
        """Returns the feature diffused once to k times by :class:`GCNNorm`'s weights."""
        return self._steps(g, gcn_weights(g, self._edge_weights(g)))

    def ppr(self, g: Graph) -> list[Tensor]:
        """Returns the feature diffused as in :meth:`gcn`, each time mixed with the first."""
        return self._steps(g, gcn_weights(g, self._edge_weights(g)), self.alpha)

    def _edge_weights(self, g: Graph) -> Tensor:
        if self.eweight_name is None:
            return torch.ones(g.num_edges(), device=g.device)
        return edge_weights("SIGNDiffusion", g, self.eweight_name)

    def _steps(self, g: Graph, weights: Tensor, share: float = 0.0) -> list[Tensor]:
        first = feature = g.ndata[self.in_feat_name]
        weights, found = weights.to(first.dtype), []
        for _ in range(self.k):
            feature = _summed(g, feature, weights)
            if share:
                feature = (1 - share) * feature + share * first
            found.append(feature)
        return found


def _summed(g: Graph, feature: Tensor, weights: Tensor) -> Tensor:
    """Returns the sum of the sources' features times weights, for each node."""
    with g.local_scope():
        g.srcdata["h"] = feature
        g.edata["w"] = weights.view(-1, *[1] * (feature.dim() - 1))
        g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "sum"))
        result: Any = g.ndata["sum"]
    return result

"""Pairs of nodes to be told apart from edges: ``sampler(g, eids)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from smex.graph.creation.random import current_generator
from smex.graph.graph import Graph
from smex.graph.parts.selection import edges_by_type
from smex.graph.sampling.arguments import check_count
from smex.graph.sampling.negative import global_uniform_negative_sampling
from smex.graph.words import CanonicalType

__all__ = ["GlobalUniform", "PerSourceUniform", "Uniform"]

Pairs = tuple[Tensor, Tensor]


class _NegativeSampler:
    """Calls :meth:`_generate` for each edge type of which edges are given."""

    def _generate(self, g: Graph, eids: Tensor, canonical_etype: CanonicalType) -> Pairs:
        raise NotImplementedError

    def __call__(self, g: Graph, eids: Any) -> Any:
        """Pairs for some edges.

        Args:
            g: the graph.
            eids: edge ids, or a dict from edge type to these.

        Returns:
            ``(src, dst)``, or a dict of these by canonical edge type if `eids` is one.
        """
        pairs = {
            canonical: self._generate(g, ids, canonical)
            for canonical, ids in edges_by_type(type(self).__name__, g, eids).items()
        }
        return pairs if isinstance(eids, Mapping) else next(iter(pairs.values()))


class PerSourceUniform(_NegativeSampler):
    """`k` pairs for each edge: its source, and a destination that any node may be.

    Destinations are drawn uniformly from all nodes of their type, so that a pair may happen to be
    an edge.

    Args:
        k: number of pairs for each edge.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> src, dst = sg.dataloading.negative_sampler.PerSourceUniform(2)(g, torch.tensor([0, 2]))
        >>> src
        tensor([0, 0, 2, 2])
    """

    def __init__(self, k: int):
        self.k = check_count("PerSourceUniform", "k", k, 1)

    def _generate(self, g: Graph, eids: Tensor, canonical_etype: CanonicalType) -> Pairs:
        relation = g._relations[canonical_etype]
        src = relation.find_edges(eids)[0].repeat_interleave(self.k)
        drawn = torch.randint(relation.num_dst, src.shape, generator=current_generator())
        return src, drawn.to(device=src.device, dtype=src.dtype)


Uniform = PerSourceUniform


class GlobalUniform(_NegativeSampler):
    """`k` pairs for each edge, of any nodes that no edge joins.

    There may be fewer; see :func:`smex.graph.sampling.global_uniform_negative_sampling`.

    Args:
        k: number of pairs for each edge.
        exclude_self_loops: whether no pair is of a node with itself.
        replace: whether a pair may be drawn more than once.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> src, dst = sg.dataloading.negative_sampler.GlobalUniform(1)(g, torch.tensor([0]))
        >>> g.has_edges_between(src, dst).any().item()
        False
    """

    def __init__(self, k: int, exclude_self_loops: bool = True, replace: bool = False):
        self.k = check_count("GlobalUniform", "k", k, 1)
        self.exclude_self_loops = exclude_self_loops
        self.replace = replace

    def _generate(self, g: Graph, eids: Tensor, canonical_etype: CanonicalType) -> Pairs:
        return global_uniform_negative_sampling(
            g,
            eids.shape[0] * self.k,
            self.exclude_self_loops,
            self.replace,
            canonical_etype,
        )

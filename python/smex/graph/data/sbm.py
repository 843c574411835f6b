"""Graphs of communities, drawn in memory for their edges alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.convert import graph
from smex.graph.data.dataset import DGLDataset, check_index
from smex.graph.graph import Graph
from smex.graph.parts.batch import batch
from smex.graph.parts.derived import line_graph

__all__ = ["SBMMixture", "SBMMixtureDataset"]


class SBMMixtureDataset(DGLDataset):
    """Graphs of stochastic block models (Chen, Li and Bruna, ICLR'19, section 5.1).

    An element is (graph, its line graph without backtracking, in-degrees ``[num_nodes]``,
    in-degrees of the line graph ``[num_edges]``, source of each edge ``[num_edges]``). The nodes
    of a community follow one another; there are no self loops.

    Each pair of nodes is joined or not, independently of the others. That is drawn as the number of
    edges within communities and between them, which are binomial, and then as so many distinct
    pairs, each set of these being as likely as any other: memory and time grow with the edges.

    Args:
        n_graphs: how many.
        n_nodes: number of nodes, a multiple of `n_communities`.
        n_communities: number of communities of equal size.
        k: see `pq`.
        avg_deg: see `pq`.
        pq: ``"Appendix_C"``: of q drawn uniformly from 0 to ``avg_deg - sqrt(avg_deg)`` and
            ``p = k * avg_deg - q`` one is drawn to be the first; or a pair (p, q) for each graph.
            Nodes of a community are joined with probability ``p / n_nodes``, others with
            ``q / n_nodes``.
        rng: a ``numpy.random.Generator``, or a seed; None: drawn.

    Raises:
        SmexValueError: `n_nodes` is no such multiple, or `pq` is something else.

    Example:
        >>> g, lg, degrees, *_ = sg.data.SBMMixtureDataset(2, 20, 2, rng=0)[0]
        >>> g.num_nodes(), lg.num_nodes() == g.num_edges(), degrees.shape
        (20, True, torch.Size([20]))
    """

    def __init__(
        self,
        n_graphs: int,
        n_nodes: int,
        n_communities: int,
        k: int = 2,
        avg_deg: int = 3,
        pq: str | Sequence[tuple[float, float]] = "Appendix_C",
        rng: Any = None,
    ):
        if n_nodes % n_communities:
            raise SmexValueError(
                f"SBMMixtureDataset: expected n_nodes to be a multiple of {n_communities} "
                f"communities, found {n_nodes}"
            )
        self._num_graphs, self._num_nodes, self._size = n_graphs, n_nodes, n_nodes // n_communities
        self._rng = np.random.default_rng(rng)
        self._pairs = [self._drawn_pair(k, avg_deg) for _ in range(n_graphs)]
        if pq != "Appendix_C":
            if isinstance(pq, str) or len(pq) != n_graphs:
                raise SmexValueError(
                    f'SBMMixtureDataset: expected pq="Appendix_C" or {n_graphs} pairs, found {pq!r}'
                )
            self._pairs = list(pq)
        super().__init__("sbmmixture", hash_key=(n_graphs, n_nodes, n_communities, k, avg_deg, pq))

    def _drawn_pair(self, k: int, avg_deg: int) -> tuple[float, float]:
        q = self._rng.uniform(0, avg_deg - math.sqrt(avg_deg))
        p = k * avg_deg - q
        return (p, q) if self._rng.random() < 0.5 else (q, p)

    def _download(self) -> None:
        pass

    def process(self) -> None:
        """Draws the graphs."""
        number, size = self._num_nodes // self._size, self._size
        self._graphs = []
        for p, q in self._pairs:
            pairs = np.concatenate(
                [
                    _within(_drawn(self._rng, number * _pairs(size), p / self._num_nodes), size),
                    _across(_drawn(self._rng, _pairs(number) * size**2, q / self._num_nodes), size),
                ]
            )
            pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
            ends = torch.from_numpy(np.concatenate([pairs, pairs[:, ::-1]]))
            src, dst = (side.contiguous() for side in ends.unbind(1))
            self._graphs.append(graph((src, dst), num_nodes=self._num_nodes))
        self._line_graphs = [line_graph(g, backtracking=False) for g in self._graphs]

    def __getitem__(self, idx: int) -> tuple[Graph, Graph, Tensor, Tensor, Tensor]:
        """Returns a graph, its line graph, the in-degrees of both, and the source of each edge.

        Raises:
            GraphIndexError: there is none at this position.
        """
        check_index("SBMMixtureDataset", idx, len(self))
        g, lg = self._graphs[idx], self._line_graphs[idx]
        return g, lg, g.in_degrees().float(), lg.in_degrees().float(), g.edges()[0]

    def __len__(self) -> int:
        """Number of graphs."""
        return len(self._graphs)

    def collate_fn(self, x: Sequence[tuple]) -> tuple[Graph, Graph, Tensor, Tensor, Tensor]:
        """Elements as one: graphs and line graphs batched, tensors joined, sources shifted."""
        graphs, line_graphs, degrees, line_degrees, sources = zip(*x)
        starts = np.cumsum([0, *(g.num_nodes() for g in graphs[:-1])]).tolist()
        shifted = [source + start for source, start in zip(sources, starts)]
        joined, joined_line = torch.cat(degrees), torch.cat(line_degrees)
        graph_batch, line_batch = batch(list(graphs)), batch(list(line_graphs))
        return graph_batch, line_batch, joined, joined_line, torch.cat(shifted)


SBMMixture = SBMMixtureDataset


def _pairs(size: int) -> int:
    """Number of pairs of `size` things."""
    return size * (size - 1) // 2


def _drawn(rng: np.random.Generator, number: int, probability: float) -> np.ndarray:
    """Returns the numbers below `number` that were drawn, each with a probability; ascending."""
    share = min(max(probability, 0.0), 1.0)
    wanted = int(rng.binomial(number, share)) if number else 0
    if 2 * wanted > number:
        left_out = _distinct(rng, number, number - wanted)
        return np.delete(np.arange(number), left_out)
    return _distinct(rng, number, wanted)


def _distinct(rng: np.random.Generator, number: int, wanted: int) -> np.ndarray:
    """Returns so many different numbers, at most half of all; each set is as likely as another."""
    found = np.empty(0, dtype=np.int64)
    while len(found) < wanted:  # a round finds at least half of what it lacks, on average
        more = rng.integers(number, size=wanted - len(found), dtype=np.int64)
        found = np.unique(np.concatenate([found, more]))
    return found


def _triangle(position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pairs (i, j), j < i, that are at positions of (1, 0), (2, 0), (2, 1), ..."""
    first = ((1 + np.sqrt(1 + 8 * position.astype(np.float64))) / 2).astype(np.int64)
    first -= first * (first - 1) // 2 > position  # where the root was rounded up
    first += first * (first + 1) // 2 <= position  # and down
    return first, position - first * (first - 1) // 2


def _within(position: np.ndarray, size: int) -> np.ndarray:
    """Returns pairs of nodes of one community, community by community."""
    community, rest = np.divmod(position, max(_pairs(size), 1))
    return np.stack(_triangle(rest), 1) + (community * size)[:, None]


def _across(position: np.ndarray, size: int) -> np.ndarray:
    """Returns pairs of nodes of two communities."""
    communities, rest = np.divmod(position, size**2)
    return np.stack(_triangle(communities), 1) * size + np.stack(np.divmod(rest, size), 1)

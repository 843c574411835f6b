"""Neighbours by random walks, as PinSAGE chooses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.sampling.arguments import check_count, check_graph
from smex.graph.sampling.walks import random_walk
from smex.graph.structure.relation import Relation
from smex.graph.words import EdgeType

__all__ = ["PinSAGESampler", "RandomWalkNeighborSampler"]


class RandomWalkNeighborSampler:
    """Neighbours of a node are the nodes that random walks from it visit most often.

    Ying et al., "Graph Convolutional Neural Networks for Web-Scale Recommender Systems" (2018),
    §3.2. Each walk follows the metapath `num_traversals` times; after each time it ends with
    `termination_prob`, and each time the node where it is has been visited.

    Args:
        G: the graph; no block, on the CPU.
        num_traversals: how often a walk follows the metapath, at least 1.
        termination_prob: in [0, 1].
        num_random_walks: number of walks from each node.
        num_neighbors: how many of the visited nodes become neighbours, the most visited first.
        metapath: edge types that lead from a node type to itself; by default the only one.
        weight_column: edge feature of the result that takes the number of visits, int64.

    Raises:
        SmexValueError: the metapath does not lead back to its type, or a number is out of range.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> sampler = sg.sampling.RandomWalkNeighborSampler(g, 1, 0.0, 10, 2)
        >>> neighbours = sampler([0])
        >>> neighbours.edges(), neighbours.edata["weights"]
        ((tensor([1]), tensor([0])), tensor([10]))
    """

    def __init__(
        self,
        G: Graph,  # noqa: N803  DGL's name
        num_traversals: int,
        termination_prob: float,
        num_random_walks: int,
        num_neighbors: int,
        metapath: Sequence[EdgeType] | None = None,
        weight_column: str = "weights",
    ):
        op = "RandomWalkNeighborSampler"
        check_graph(op, G)
        num_traversals = check_count(op, "num_traversals", num_traversals, 1)
        num_random_walks = check_count(op, "num_random_walks", num_random_walks, 1)
        num_neighbors = check_count(op, "num_neighbors", num_neighbors, 1)
        if not 0 <= termination_prob <= 1:
            raise SmexValueError(
                f"{op}: expected termination_prob in [0, 1], found {termination_prob}"
            )
        hops = [G.to_canonical_etype(etype) for etype in ([None] if metapath is None else metapath)]
        if not hops or hops[0][0] != hops[-1][2]:
            raise SmexValueError(
                f"{op}: the metapath must lead from a node type to itself, found {hops}"
            )
        self.G = G
        self.weight_column = weight_column
        self.num_hops = len(hops)
        self.num_random_walks = num_random_walks
        self.num_neighbors = num_neighbors
        self.ntype = hops[0][0]
        self.full_metapath = hops * num_traversals
        self.restart_prob = torch.zeros(len(self.full_metapath))
        self.restart_prob[self.num_hops - 1 :: self.num_hops] = termination_prob

    def __call__(self, seed_nodes: Any) -> Graph:
        """The graph of the node type alone with edges from the neighbours to the given nodes."""
        op = "RandomWalkNeighborSampler"
        seeds = self.G._node_ids(seed_nodes, self.G._node_slot(self.ntype), op)
        starts = seeds.repeat_interleave(self.num_random_walks)
        traces, _ = random_walk(
            self.G, starts, metapath=self.full_metapath, restart_prob=self.restart_prob
        )
        visited = traces[:, self.num_hops :: self.num_hops].reshape(seeds.shape[0], -1)
        size = self.G.num_nodes(self.ntype)
        # By seeds and visited nodes alone: nothing here is as long as there are nodes.
        place = torch.arange(seeds.shape[0]).unsqueeze(1)
        pairs, counts = torch.unique(
            (place * size + visited)[visited >= 0], sorted=True, return_counts=True
        )
        offsets = torch.searchsorted(pairs, torch.arange(seeds.shape[0] + 1) * size)
        rows = (offsets, pairs % max(size, 1), None)
        every = torch.arange(seeds.shape[0])
        ends, src, chosen = torch.ops.smex.select_topk(
            *rows, every, self.num_neighbors, counts.double(), False
        )
        dst = seeds.repeat_interleave(ends.diff())
        relation = Relation.from_coo(src.to(seeds.dtype), dst, size, size, check=False)
        result = Graph({(self.ntype, "_E", self.ntype): relation}, {self.ntype: size})
        result.edata[self.weight_column] = counts[chosen]
        return result


class PinSAGESampler(RandomWalkNeighborSampler):
    """:class:`RandomWalkNeighborSampler` on a bipartite graph, by its node types.

    Args:
        G: a graph with one edge type from `ntype` to `other_type` and one back.
        ntype: type of the nodes whose neighbours are looked for.
        other_type: type of the nodes between them.
        num_traversals: as for :class:`RandomWalkNeighborSampler`.
        termination_prob: as for :class:`RandomWalkNeighborSampler`.
        num_random_walks: as for :class:`RandomWalkNeighborSampler`.
        num_neighbors: as for :class:`RandomWalkNeighborSampler`.
        weight_column: as for :class:`RandomWalkNeighborSampler`.

    Raises:
        SmexValueError: as for :class:`RandomWalkNeighborSampler`, or the types are not joined by
            one edge type in each direction.

    Example:
        >>> import smex.graph as sg
        >>> h = sg.heterograph({
        ...     ("item", "bought-by", "user"): ([0, 1, 2], [0, 0, 1]),
        ...     ("user", "bought", "item"): ([0, 0, 1], [0, 1, 2]),
        ... })
        >>> sampler = sg.sampling.PinSAGESampler(h, "item", "user", 3, 0.5, 20, 2)
        >>> sorted(sampler([0]).edges()[0].tolist())
        [0, 1]
    """

    def __init__(
        self,
        G: Graph,  # noqa: N803  DGL's name
        ntype: str,
        other_type: str,
        num_traversals: int,
        termination_prob: float,
        num_random_walks: int,
        num_neighbors: int,
        weight_column: str = "weights",
    ):
        path = []
        for ends in ((ntype, other_type), (other_type, ntype)):
            found = [c for c in G.canonical_etypes if (c[0], c[2]) == ends]
            if len(found) != 1:
                raise SmexValueError(
                    f'PinSAGESampler: expected one edge type from "{ends[0]}" to "{ends[1]}", '
                    f"found {len(found)}; use RandomWalkNeighborSampler with a metapath"
                )
            path += found
        super().__init__(
            G,
            num_traversals,
            termination_prob,
            num_random_walks,
            num_neighbors,
            path,
            weight_column,
        )

"""Subgraphs of GraphSAINT."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.random import current_generator
from smex.graph.dataloading.base import (
    Sampler,
    prefetch_edge_features,
    prefetch_node_features,
)
from smex.graph.graph import Graph
from smex.graph.parts.selection import check_one_type
from smex.graph.parts.subgraph import node_subgraph
from smex.graph.sampling.arguments import check_count, check_graph
from smex.graph.sampling.walks import random_walk

__all__ = ["SAINTSampler"]


class SAINTSampler(Sampler):
    """The subgraph of nodes that are drawn anew for each batch.

    Zeng et al., "GraphSAINT: Graph Sampling Based Inductive Learning Method" (2020), §3.3. The
    indices that the loader hands out only count the batches.

    Args:
        mode: ``"node"``: nodes by their in-degree; ``"edge"``: the ends of edges, an edge by the
            sum of its ends' inverse degrees; ``"walk"``: the nodes of random walks.
        budget: number of nodes, or of edges, drawn with replacement; for walks
            ``(number of walks, length)``.
        cache: whether the probabilities of the first graph are kept for the next batch.
        prefetch_ndata: names of node features that the loader gathers.
        prefetch_edata: names of edge features that the loader gathers.
        output_device: device of the subgraphs; ``"cpu"`` by default.

    Raises:
        SmexTypeError: when sampling: the graph has several types.
        SmexValueError: the mode does not exist, the budget is less than 1, or, when sampling by
            node or edge, the graph has no edges.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.rand_graph(20, 100)
        >>> sampler = sg.dataloading.SAINTSampler("node", 6)
        >>> loader = sg.dataloading.DataLoader(g, torch.arange(4), sampler)
        >>> [subgraph.num_nodes() <= 6 for subgraph in loader]
        [True, True, True, True]
    """

    def __init__(
        self,
        mode: str,
        budget: Any,
        cache: bool = True,
        prefetch_ndata: Any = None,
        prefetch_edata: Any = None,
        output_device: torch.device | str | None = "cpu",
    ):
        op = "SAINTSampler"
        if mode not in ("node", "edge", "walk"):
            raise SmexValueError(f"{op}: expected mode 'node', 'edge' or 'walk', found {mode!r}")
        pair = mode == "walk" and isinstance(budget, (tuple, list))
        numbers = tuple(budget) if pair else (budget,)
        if mode == "walk" and len(numbers) != 2:
            raise SmexValueError(
                f"{op}: expected budget=(number of walks, length) for walks, found {budget!r}"
            )
        counts = tuple(check_count(op, "budget", number, 1) for number in numbers)
        self.mode = mode
        self.budget: Any = counts if pair else counts[0]
        self.cache = cache
        self.prefetch_ndata = prefetch_ndata
        self.prefetch_edata = prefetch_edata
        self.output_device = output_device
        self._sums: Tensor | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sums": None}

    def _drawn(self, weights: Any, number: int) -> Tensor:
        """`number` places in proportion to the weights that the call ``weights()`` returns."""
        sums = self._sums
        if sums is None:
            sums = torch.cumsum(weights(), 0, dtype=torch.float64)
            if sums.shape[0] == 0 or float(sums[-1]) == 0:
                raise SmexValueError(
                    f"SAINTSampler: mode {self.mode!r} needs a graph with edges, found none"
                )
            if self.cache:
                self._sums = sums
        points = torch.rand(number, dtype=torch.float64, generator=current_generator())
        # Never beyond the last place of positive weight, however the product rounds.
        places = torch.searchsorted(sums, points * sums[-1], right=True)
        return places.clamp_max(int(torch.searchsorted(sums, sums[-1])))

    def node_sampler(self, g: Graph) -> Tensor:
        """Returns nodes drawn in mode ``"node"``, which may come twice."""
        return self._drawn(g.in_degrees, self.budget)

    def edge_sampler(self, g: Graph) -> Tensor:
        """Returns the ends of edges drawn in mode ``"edge"``, which may come twice."""
        src, dst = g.edges()

        def weights() -> Tensor:
            into, out_of = (1 / d.clamp_min(1).double() for d in (g.in_degrees(), g.out_degrees()))
            return into[dst] + out_of[src]

        drawn = self._drawn(weights, self.budget)
        return torch.cat([src[drawn], dst[drawn]])

    def walk_sampler(self, g: Graph) -> Tensor:
        """Returns the nodes of walks in mode ``"walk"``, which may come twice."""
        number, length = self.budget
        roots = torch.randint(g.num_nodes(), (number,), generator=current_generator())
        traces, _ = random_walk(g, roots, length=length)
        return traces[traces >= 0]

    def sample(self, g: Graph, indices: Any = None) -> Graph:
        """Returns the subgraph of nodes that are drawn, with ``NID`` and ``EID``."""
        check_graph("SAINTSampler", g)
        check_one_type("SAINTSampler", g)
        drawn = getattr(self, f"{self.mode}_sampler")(g)
        part = node_subgraph(g, torch.unique(drawn)).to(self.output_device)
        prefetch_node_features(part, self.prefetch_ndata)
        prefetch_edge_features(part, self.prefetch_edata)
        return part

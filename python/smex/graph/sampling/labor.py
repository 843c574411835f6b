"""Layer-neighbour sampling: few nodes in all, as many neighbours for each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.creation.random import draw_seed
from smex.graph.graph import Graph
from smex.graph.sampling.arguments import (
    Neighbors,
    check_count,
    checked,
    drawn_parts,
    excluded_by_type,
    fanouts_by_type,
    graph_of_drawn,
    weights_of,
)
from smex.graph.structure.relation import Compressed
from smex.graph.words import CanonicalType

__all__ = ["LaborDraw", "sample_labors"]


class LaborDraw:
    """How layer-neighbour sampling draws: ``draw(canonical, rows, nodes)``.

    It keeps the importances of what it drew, by edge type, in `importances`.
    """

    def __init__(
        self,
        op: str,
        g: Graph,
        fanout: Any,
        prob: Any = None,
        importance_sampling: int = 0,
        random_seed: Tensor | None = None,
        seed2_contribution: float = 0,
        exclude_edges: Any = None,
    ):
        self.op = op
        self.prob = prob
        self.fanouts = fanouts_by_type(op, g, "fanout", fanout)
        self.weights = weights_of(op, g, prob)
        self.excluded = excluded_by_type(op, g, exclude_edges)
        self.iterations = check_count(op, "importance_sampling", importance_sampling, -1)
        self.seeds = _seeds(op, random_seed, seed2_contribution)
        self.share = float(seed2_contribution)
        self.importances: dict[CanonicalType, Tensor] = {}

    def __call__(
        self, canonical: CanonicalType, rows: Compressed, nodes: Tensor
    ) -> Neighbors | None:
        """Neighbours of the nodes; None where none are asked for."""
        fanout = self.fanouts[canonical]
        if fanout == 0:
            return None
        *drawn, self.importances[canonical] = checked(
            self.op,
            self.prob,
            canonical,
            lambda: torch.ops.smex.sample_labors(
                *rows,
                nodes,
                fanout,
                self.weights[canonical],
                self.excluded.get(canonical),
                self.iterations,
                *self.seeds,
                self.share,
            ),
        )
        return Neighbors(*drawn)


def _seeds(op: str, given: Tensor | None, share: float) -> tuple[int, int]:
    if not 0 <= share <= 1:
        raise SmexValueError(f"{op}: expected seed2_contribution in [0, 1], found {share}")
    if given is None:
        return draw_seed(), draw_seed()
    seeds = [int(seed) for seed in torch.as_tensor(given).reshape(-1)]
    if len(seeds) not in (1, 2) or (len(seeds) == 1 and share):
        raise SmexValueError(
            f"{op}: expected one random seed, or two with seed2_contribution, found {len(seeds)}"
        )
    return seeds[0], seeds[-1]


def sample_labors(
    g: Graph,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: Any = None,
    importance_sampling: int = 0,
    random_seed: Tensor | None = None,
    seed2_contribution: float = 0,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    exclude_edges: Any = None,
    output_device: torch.device | str | None = None,
) -> tuple[Graph, list[Tensor]]:
    """Returns the graph of edges drawn for each of some nodes so that they share neighbours.

    Layer-neighbour sampling of Balin and Çatalyürek, "Layer-Neighbor Sampling: Defusing
    Neighborhood Explosion in GNNs" (2023), §3: each node of the layer before has one random number
    for all its edges. A node of `nodes` has `fanout` edges on average, and all of them if it has no
    more.

    Args:
        g: as for :func:`sample_neighbors`.
        nodes: as for :func:`sample_neighbors`.
        fanout: as for :func:`sample_neighbors`; a mean.
        edge_dir: as for :func:`sample_neighbors`.
        prob: as for :func:`sample_neighbors`; an edge is drawn with a probability proportional to
            its weight, as far as that is less than 1.
        importance_sampling: iterations that make the number of different neighbours smaller while
            the variance of a mean of neighbours stays: 0 is the paper's LABOR-0, ``i`` LABOR-i, -1
            goes on until nothing changes, ``LABOR-*``.
        random_seed: a seed, or two of them; calls with one seed share their random numbers. By
            default a new one.
        seed2_contribution: in [0, 1]: how far the random numbers are on the way from those of the
            first seed to those of the second.
        copy_ndata: as for :func:`sample_neighbors`.
        copy_edata: as for :func:`sample_neighbors`.
        exclude_edges: as for :func:`sample_neighbors`.
        output_device: as for :func:`sample_neighbors`.

    Returns:
        The graph as :func:`sample_neighbors` returns it, and for each edge type the importances of
        its edges, float32 ``[num_drawn]``: the weight (1 without `prob`) divided by the
        probability, scaled to a mean of 1 in each node. Weighing by them makes means unbiased in
        the limit. Without `prob` and importance sampling they are all 1.

    Raises:
        SmexTypeError: as for :func:`sample_neighbors`.
        SmexValueError: as for :func:`sample_neighbors`, or a number is out of its range.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 0, 1, 2], [3, 3, 3, 4, 4, 4]))
        >>> s, importances = sg.sampling.sample_labors(g, [3, 4], 2)
        >>> sorted(s.in_edges(3)[0].tolist()) == sorted(s.in_edges(4)[0].tolist())
        True
    """
    draw = LaborDraw(
        "sample_labors",
        g,
        fanout,
        prob,
        importance_sampling,
        random_seed,
        seed2_contribution,
        exclude_edges,
    )
    parts = drawn_parts("sample_labors", g, nodes, edge_dir, draw)
    none = torch.empty(0)
    importances = [draw.importances.get(canonical, none) for canonical in parts]
    result = graph_of_drawn(g, parts, copy_ndata, copy_edata, output_device)
    return result, [values.to(result.device) for values in importances]

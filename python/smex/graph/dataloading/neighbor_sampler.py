"""Blocks of drawn neighbours (GraphSAGE), or of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from smex.errors import SmexValueError
from smex.graph.dataloading.base import BlockSampler
from smex.graph.dataloading.blocks import sample_layers
from smex.graph.graph import Graph
from smex.graph.sampling.arguments import check_count
from smex.graph.sampling.neighbor import NeighborDraw

__all__ = [
    "MultiLayerFullNeighborSampler",
    "MultiLayerNeighborSampler",
    "NeighborSampler",
    "check_layers",
]


def check_layers(op: str, fanouts: Any, edge_dir: str = "in") -> list[Any]:
    """Returns the fanouts as a list; raise where there are none, or edges lead the other way."""
    if isinstance(fanouts, str) or not hasattr(fanouts, "__len__") or not len(fanouts):
        raise SmexValueError(
            f"{op}: expected a list with a fanout for each layer, found {fanouts!r}"
        )
    if edge_dir != "in":
        raise SmexValueError(
            f"{op}: blocks have edges into the seeds, expected edge_dir='in', found {edge_dir!r}; "
            "sample from smex.graph.reverse(g, copy_edata=True) instead"
        )
    return list(fanouts)


class NeighborSampler(BlockSampler):
    """Blocks of drawn neighbours, layer by layer from the last to the first.

    Hamilton et al., "Inductive Representation Learning on Large Graphs" (2017), §3.1.

    Args:
        fanouts: for each layer, the first computed first, how many edges are drawn for a node, as
            :func:`smex.graph.sampling.sample_neighbors` takes it.
        edge_dir: ``"in"``; blocks have no other edges.
        prob: name of an edge feature with weights to draw by.
        mask: name of a bool edge feature, the edges that may be drawn; not together with `prob`.
        replace: whether an edge may be drawn more than once.
        prefetch_node_feats: as for :class:`BlockSampler`.
        prefetch_labels: as for :class:`BlockSampler`.
        prefetch_edge_feats: as for :class:`BlockSampler`.
        output_device: as for :class:`BlockSampler`.
        fused: taken for compatibility; drawing and renumbering always are one.

    Raises:
        SmexValueError: there are no fanouts, `edge_dir` is not ``"in"``, or both `prob` and `mask`
            are given. When sampling: as ``sample_neighbors``, or a seed is given twice.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> sampler = sg.dataloading.NeighborSampler([5, 5])
        >>> input_nodes, output_nodes, blocks = sampler.sample(g, torch.tensor([2]))
        >>> input_nodes, output_nodes, [block.num_edges() for block in blocks]
        (tensor([2, 1, 0]), tensor([2]), [2, 1])
    """

    def __init__(
        self,
        fanouts: Sequence[Any],
        edge_dir: str = "in",
        prob: str | None = None,
        mask: str | None = None,
        replace: bool = False,
        prefetch_node_feats: Any = None,
        prefetch_labels: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: torch.device | str | None = None,
        fused: bool = True,
    ):
        super().__init__(prefetch_node_feats, prefetch_labels, prefetch_edge_feats, output_device)
        self.fanouts = check_layers("NeighborSampler", fanouts, edge_dir)
        self.edge_dir = edge_dir
        if prob is not None and mask is not None:
            raise SmexValueError(
                "NeighborSampler: expected prob or mask, found both; give the masked edges weight 0"
            )
        self.prob = prob if mask is None else mask
        self.replace = replace
        self.fused = fused

    def sample_blocks(self, g: Graph, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Returns the blocks of some nodes; see :class:`BlockSampler`."""

        def draw_of_layer(layer: int) -> NeighborDraw:
            fanout = self.fanouts[layer]
            return NeighborDraw("NeighborSampler", g, fanout, self.prob, self.replace, exclude_eids)

        return sample_layers(
            "NeighborSampler", g, seed_nodes, len(self.fanouts), draw_of_layer, self.output_device
        )


MultiLayerNeighborSampler = NeighborSampler


class MultiLayerFullNeighborSampler(NeighborSampler):
    """Blocks with all neighbours in each layer.

    Args:
        num_layers: number of layers.
        kwargs: as for :class:`NeighborSampler`.

    Raises:
        SmexValueError: `num_layers` is less than 1.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2], [2, 2, 0]))
        >>> sampler = sg.dataloading.MultiLayerFullNeighborSampler(1)
        >>> sampler.sample(g, [2])[2][0].num_edges()
        2
    """

    def __init__(self, num_layers: int, **kwargs: Any):
        count = check_count("MultiLayerFullNeighborSampler", "num_layers", num_layers, 1)
        super().__init__([-1] * count, **kwargs)

"""Subgraphs around seeds, of drawn neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from smex.graph.constants import EID, NID
from smex.graph.dataloading.base import (
    Sampler,
    prefetch_edge_features,
    prefetch_node_features,
)
from smex.graph.dataloading.blocks import sample_layers
from smex.graph.dataloading.neighbor_sampler import check_layers
from smex.graph.graph import Graph
from smex.graph.parts.selection import edges_by_type
from smex.graph.parts.subgraph import edge_subgraph, node_subgraph
from smex.graph.sampling.neighbor import NeighborDraw

__all__ = ["ShaDowKHopSampler", "without_edges"]


def without_edges(op: str, g: Graph, part: Graph, exclude_eids: Any) -> Graph:
    """`part` of `g` without the edges of these ids in `g`."""
    if exclude_eids is None:
        return part
    excluded = edges_by_type(op, g, exclude_eids)
    kept = {
        canonical: torch.isin(frame[EID], excluded[canonical], invert=True)
        if canonical in excluded
        else torch.ones(frame.num_rows, dtype=torch.bool)
        for canonical, frame in part._edge_frames.items()
    }
    return edge_subgraph(part, kept, relabel_nodes=False, store_ids=False)


class ShaDowKHopSampler(Sampler):
    """The subgraph of the seeds and the neighbours that were drawn, hop by hop.

    Zeng et al., "Decoupling the Depth and Scope of Graph Neural Networks" (2021), §3.

    Args:
        fanouts: for each hop, the last one first, how many neighbours are drawn for a node, as for
            :class:`NeighborSampler`.
        replace: whether an edge may be drawn more than once.
        prob: name of an edge feature with weights to draw by.
        prefetch_node_feats: names of node features that the loader gathers, or a dict by type.
        prefetch_edge_feats: the same of edge features.
        output_device: device of the subgraph; that of the graph by default.

    A batch is ``(input_nodes, output_nodes, subgraph)``: the ids of the subgraph's nodes, the
    seeds, which are its first nodes, and the subgraph with all edges between its nodes.

    Raises:
        SmexValueError: as for :class:`NeighborSampler`.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> sampler = sg.dataloading.ShaDowKHopSampler([5])
        >>> input_nodes, _, subgraph = sampler.sample(g, torch.tensor([2]))
        >>> input_nodes, subgraph.edges()
        (tensor([2, 1]), (tensor([1]), tensor([0])))
    """

    def __init__(
        self,
        fanouts: Sequence[Any],
        replace: bool = False,
        prob: str | None = None,
        prefetch_node_feats: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: torch.device | str | None = None,
    ):
        self.fanouts = check_layers("ShaDowKHopSampler", fanouts)
        self.replace = replace
        self.prob = prob
        self.prefetch_node_feats = prefetch_node_feats
        self.prefetch_edge_feats = prefetch_edge_feats
        self.output_device = output_device

    def sample(self, g: Graph, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Returns the subgraph around some nodes; edges to exclude are neither drawn nor in it."""
        op = "ShaDowKHopSampler"
        input_nodes, output_nodes, _ = sample_layers(
            op,
            g,
            seed_nodes,
            len(self.fanouts),
            lambda layer: NeighborDraw(
                op, g, self.fanouts[layer], self.prob, self.replace, exclude_eids
            ),
            None,
        )
        part = without_edges(op, g, node_subgraph(g, input_nodes), exclude_eids)
        part = part.to(self.output_device)
        prefetch_node_features(part, self.prefetch_node_feats)
        prefetch_edge_features(part, self.prefetch_edge_feats)
        nodes = {ntype: frame[NID] for ntype, frame in part._src_frames.items()}
        inputs = nodes if isinstance(input_nodes, Mapping) else next(iter(nodes.values()))
        return inputs, output_nodes, part

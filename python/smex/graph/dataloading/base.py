"""What samplers have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from smex.errors import SmexTypeError
from smex.graph.graph import Graph
from smex.graph.words import quoted

__all__ = ["BlockSampler", "Sampler", "prefetch_edge_features", "prefetch_node_features"]


_TOLD = (bool, int, float, str, list, tuple, dict)
"""What of a sampler's attributes is shown: settings, and no tensors."""


class Sampler:
    """Makes a mini-batch from the ids of its seeds.

    A subclass implements :meth:`sample`. Random numbers that come from this package's functions
    belong to the batch, so that they do not depend on the number of worker processes.

    Example:
        >>> class Induced(sg.dataloading.Sampler):
        ...     def sample(self, g, indices):
        ...         return g.subgraph(indices)
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> loader = sg.dataloading.DataLoader(g, torch.arange(3), Induced(), batch_size=2)
        >>> [batch.num_edges() for batch in loader]
        [1, 0]
    """

    def sample(self, g: Graph, indices: Any) -> Any:
        """Returns the mini-batch of some seeds.

        Args:
            g: the graph.
            indices: their ids, or a dict of ids by type.
        """
        raise NotImplementedError(f"{type(self).__name__} has no sample(g, indices)")

    def __repr__(self) -> str:
        told = {
            name: value
            for name, value in vars(self).items()
            if name[0] != "_" and isinstance(value, _TOLD) and value not in (False, "", [], {})
        }
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in told.items())})"


class BlockSampler(Sampler):
    """Makes the blocks that a network of several layers computes some nodes with.

    A subclass implements :meth:`sample_blocks`.

    Args:
        prefetch_node_feats: names of node features, or a dict of them by node type: the loader
            gathers those of the first block's sources before it gives the batch out.
        prefetch_labels: the same of the last block's destinations.
        prefetch_edge_feats: names of edge features of all blocks, or a dict by edge type.
        output_device: device of the blocks; that of the graph by default.

    Other features are gathered when they are read.

    Example:
        >>> class OneLayer(sg.dataloading.BlockSampler):
        ...     def sample_blocks(self, g, seed_nodes, exclude_eids=None):
        ...         block = sg.to_block(sg.in_subgraph(g, seed_nodes), seed_nodes)
        ...         return block.srcdata[sg.NID], seed_nodes, [block]
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> OneLayer().sample(g, torch.tensor([2]))[0]
        tensor([2, 1])
    """

    def __init__(
        self,
        prefetch_node_feats: Any = None,
        prefetch_labels: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: torch.device | str | None = None,
    ):
        self.prefetch_node_feats = prefetch_node_feats
        self.prefetch_labels = prefetch_labels
        self.prefetch_edge_feats = prefetch_edge_feats
        self.output_device = output_device

    def sample_blocks(self, g: Graph, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Returns the blocks, without marks of what is to be gathered.

        Args:
            g: the graph.
            seed_nodes: ids of the nodes to be computed, or a dict by type.
            exclude_eids: ids of edges that are left out, or a dict by edge type.

        Returns:
            ``(input_nodes, output_nodes, blocks)``: ids of the first block's sources and of the
            last one's destinations, and the blocks in the order of the layers.
        """
        raise NotImplementedError(f"{type(self).__name__} has no sample_blocks(g, seed_nodes)")

    def assign_lazy_features(self, result: Any) -> Any:
        """Mark the features that the loader gathers.

        Raises:
            SmexValueError: there is no such feature.
        """
        _, _, blocks = result
        prefetch_node_features(blocks[0], self.prefetch_node_feats, "src")
        prefetch_node_features(blocks[-1], self.prefetch_labels, "dst")
        for block in blocks:
            prefetch_edge_features(block, self.prefetch_edge_feats)
        return result

    def sample(self, g: Graph, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Returns what :meth:`sample_blocks` returns, marked."""
        return self.assign_lazy_features(self.sample_blocks(g, seed_nodes, exclude_eids))


def prefetch_node_features(graph: Graph, names: Any, side: str = "src") -> None:
    """Mark node features, by name for the only type or in a dict by type, of one side."""
    frames = graph._src_frames if side == "src" else graph._dst_frames
    _prefetch("node", frames, names, lambda ntype: ntype)


def prefetch_edge_features(graph: Graph, names: Any) -> None:
    """Mark edge features, by name for the only type or in a dict by type."""
    _prefetch("edge", graph._edge_frames, names, graph.to_canonical_etype)


def _prefetch(kind: str, frames: Mapping[Any, Any], names: Any, key_of: Any) -> None:
    if not names:
        return
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise SmexTypeError(
            f"prefetch: expected a list of {kind} feature names, or a dict of them by type, found "
            f"{names!r}"
        )
    if not isinstance(names, Mapping):
        if len(frames) != 1:
            raise SmexTypeError(
                f"prefetch: the graph has several {kind} types, expected a dict from type to names "
                f"of features, found {names!r}; types are {quoted(frames)}"
            )
        names = {next(iter(frames)): names}
    for key, of_type in names.items():
        frame = frames.get(key_of(key))
        if frame is None:
            raise SmexTypeError(
                f"prefetch: the graph has no {kind} type {key!r}; it has {quoted(frames)}"
            )
        frame.prefetch([of_type] if isinstance(of_type, str) else of_type)

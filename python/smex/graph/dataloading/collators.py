"""What makes a batch of some ids, for loaders of torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from smex.graph.dataloading.edge_prediction import EdgePredictionSampler
from smex.graph.dataloading.graph_loader import collated
from smex.graph.graph import Graph
from smex.graph.parts.selection import edges_by_type, nodes_by_type

__all__ = ["Collator", "EdgeCollator", "GraphCollator", "NodeCollator"]


class Collator(ABC):
    """Ids as a data set of ``torch.utils.data.DataLoader``, and its ``collate_fn``."""

    @property
    @abstractmethod
    def dataset(self) -> Any:
        """What a loader takes its items from."""

    @abstractmethod
    def collate(self, items: Sequence[Any]) -> Any:
        """Returns the batch of some items of :attr:`dataset`."""


class NodeCollator(Collator):
    """Batches of nodes, of a loader of torch; :class:`DataLoader` makes the same.

    Args:
        g: the graph.
        nids: ids of nodes, or a dict of these by type.
        graph_sampler: has ``sample_blocks``, such as :class:`NeighborSampler`.

    Raises:
        SmexTypeError: no dict for a graph of several node types.
        SmexValueError: an id or a type does not exist.

    Example:
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> collator = sg.dataloading.NodeCollator(
        ...     g, torch.arange(3), sg.dataloading.NeighborSampler([1]))
        >>> loader = torch.utils.data.DataLoader(
        ...     collator.dataset, batch_size=2, collate_fn=collator.collate)
        >>> [output_nodes for _, output_nodes, _ in loader]
        [tensor([0, 1]), tensor([2])]
    """

    def __init__(self, g: Graph, nids: Any, graph_sampler: Any):
        self.g, self.graph_sampler = g, graph_sampler
        found = nodes_by_type("NodeCollator", g, nids)
        self.nids = found if isinstance(nids, Mapping) else next(iter(found.values()))
        self._dataset = _items(self.nids)

    @property
    def dataset(self) -> Any:
        """The ids, as a tensor or as pairs (type, id)."""
        return self._dataset

    def collate(self, items: Sequence[Any]) -> Any:
        """Returns ``(input_nodes, output_nodes, blocks)`` of some items of :attr:`dataset`."""
        return self.graph_sampler.sample_blocks(self.g, _ids(items))


class EdgeCollator(Collator):
    """Batches of edges, of a loader of torch, as :func:`as_edge_prediction_sampler` makes them.

    Args:
        g: the graph that the edges are of.
        eids: ids of edges, or a dict of these by edge type.
        graph_sampler: as of :class:`NodeCollator`.
        g_sampling: the graph that blocks are sampled from; by default `g`. With it no edges are
            left out.
        exclude: as of :func:`find_exclude_eids`, as are the next two.
        reverse_eids: the reverse of each edge.
        reverse_etypes: the reverse of each edge type.
        negative_sampler: as of :func:`as_edge_prediction_sampler`.

    Raises:
        SmexTypeError: no dict for a graph of several edge types.
        SmexValueError: an id or a type does not exist, or what `exclude` needs is missing.

    Example:
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> collator = sg.dataloading.EdgeCollator(
        ...     g, torch.arange(3), sg.dataloading.NeighborSampler([1]), exclude="self")
        >>> input_nodes, pairs, blocks = collator.collate([0, 1])
        >>> pairs.edata[sg.EID]
        tensor([0, 1])
    """

    def __init__(
        self,
        g: Graph,
        eids: Any,
        graph_sampler: Any,
        g_sampling: Graph | None = None,
        exclude: Any = None,
        reverse_eids: Any = None,
        reverse_etypes: Any = None,
        negative_sampler: Any = None,
    ):
        self.g, self.graph_sampler = g, graph_sampler
        self.g_sampling = g if g_sampling is None else g_sampling
        self.exclude = exclude if g_sampling is None else None
        self.negative_sampler = negative_sampler
        self._sampler = EdgePredictionSampler(
            _BlocksOf(graph_sampler, self.g_sampling),
            self.exclude,
            reverse_eids,
            reverse_etypes,
            negative_sampler,
        )
        found = edges_by_type("EdgeCollator", g, eids)
        self.eids = found if isinstance(eids, Mapping) else next(iter(found.values()))
        self._dataset = _items(self.eids)

    @property
    def dataset(self) -> Any:
        """The ids, as a tensor or as pairs (type, id)."""
        return self._dataset

    def collate(self, items: Sequence[Any]) -> Any:
        """Returns ``(input_nodes, pair_graph, blocks)``, with pairs that are none before blocks."""
        return self._sampler.sample(self.g, _ids(items))


class GraphCollator:
    """Makes a batch of a list of items: graphs become one, the rest is collated as torch does.

    Args:
        graph_collate: of a list of graphs; by default :func:`smex.graph.batch`.

    Example:
        >>> items = [(sg.graph(([0], [1])), n) for n in range(3)]
        >>> graphs, labels = sg.dataloading.GraphCollator().collate(items)
        >>> graphs.batch_size, labels
        (3, tensor([0, 1, 2]))
    """

    def __init__(self, graph_collate: Any = None):
        self.graph_collate = graph_collate

    def collate(self, items: list[Any]) -> Any:
        """Returns the batch of some items."""
        return collated(items, self.graph_collate)


class _BlocksOf:
    """A sampler of blocks that takes them from a graph of its own."""

    def __init__(self, sampler: Any, g: Graph):
        self._sampler, self._g = sampler, g

    def sample(self, g: Graph, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        return self._sampler.sample_blocks(self._g, seed_nodes, exclude_eids=exclude_eids)


def _items(ids: Any) -> Any:
    if not isinstance(ids, Mapping):
        return ids
    return [(key, int(number)) for key, numbers in ids.items() for number in numbers]


def _ids(items: Sequence[Any]) -> Any:
    """Ids of items, which are numbers, or pairs (type, number)."""
    if not isinstance(items[0], tuple):
        return torch.as_tensor(items) if isinstance(items[0], int) else torch.stack(list(items))
    by_type: dict[Any, list[int]] = {}
    for key, number in items:
        by_type.setdefault(key, []).append(int(number))
    return {key: torch.tensor(numbers) for key, numbers in by_type.items()}

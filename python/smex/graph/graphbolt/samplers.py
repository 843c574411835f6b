"""Stages that sample layers for the seeds of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import functional_datapipe

from smex.errors import SmexValueError
from smex.graph.graphbolt.base import etype_str_to_tuple
from smex.graph.graphbolt.compaction import (
    compact_csc_format,
    unique_and_compact,
    unique_and_compact_csc_formats,
)
from smex.graph.graphbolt.minibatch import MiniBatch
from smex.graph.graphbolt.sampling_graph import FusedCSCSamplingGraph
from smex.graph.graphbolt.stages import MiniBatchTransformer
from smex.graph.graphbolt.subgraphs import SampledSubgraph

__all__ = ["InSubgraphSampler", "LayerNeighborSampler", "NeighborSampler", "SubgraphSampler"]


@functional_datapipe("sample_subgraph")
class SubgraphSampler(MiniBatchTransformer):
    """The base of stages that sample: `sample_subgraphs` is a subclass's.

    Args:
        datapipe: the stage before.
        args: taken for subclasses that pass more.
        kwargs: likewise.
    """

    def __init__(self, datapipe: Any, *args: Any, **kwargs: Any):
        super().__init__(datapipe, self._sample)

    def _sample(self, minibatch: MiniBatch) -> MiniBatch:
        seeds = _seeds_of(minibatch)
        times = getattr(minibatch, "timestamp", None)
        minibatch.input_nodes, minibatch.sampled_subgraphs = self.sample_subgraphs(seeds, times)
        return minibatch

    def sample_subgraphs(
        self, seeds: Any, seeds_timestamp: Any
    ) -> tuple[Any, list[SampledSubgraph]]:
        """Samples for distinct nodes.

        Args:
            seeds: ids, by type where there are types.
            seeds_timestamp: what the batch has as `timestamp`.

        Returns:
            The nodes that the first layer reads, and the layers.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: a subclass of SubgraphSampler defines sample_subgraphs"
        )


def _seeds_of(minibatch: MiniBatch) -> Any:
    """Returns the distinct nodes of a batch, and notes pairs by their numbers."""
    if minibatch.node_pairs is not None:
        return _seeds_of_pairs(minibatch)
    if minibatch.seed_nodes is not None:
        return minibatch.seed_nodes
    if minibatch.seeds is None:
        raise SmexValueError(
            "sample: the batch has neither seed_nodes, node_pairs nor seeds; name what the items "
            'are, as in ItemSet(..., names="seed_nodes")'
        )
    return _seeds_of_rows(minibatch)


def _seeds_of_pairs(minibatch: MiniBatch) -> Any:
    pairs, srcs, dsts = minibatch.node_pairs, minibatch.negative_srcs, minibatch.negative_dsts
    if not isinstance(pairs, Mapping):
        parts = [*pairs, *(each.reshape(-1) for each in (srcs, dsts) if each is not None)]
        ids, numbers = unique_and_compact(parts)
        minibatch.compacted_node_pairs = (numbers.pop(0), numbers.pop(0))
        if srcs is not None:
            minibatch.compacted_negative_srcs = numbers.pop(0).view(srcs.shape)
        if dsts is not None:
            minibatch.compacted_negative_dsts = numbers.pop(0).view(dsts.shape)
        return ids
    lists: dict[str, list[Tensor]] = {}
    drawn = {
        end: {etype: ids for etype, ids in (each or {}).items() if ids is not None}
        for end, each in ((0, srcs), (2, dsts))
    }
    for etype, (src, dst) in pairs.items():
        source, _, destination = etype_str_to_tuple(etype)
        lists.setdefault(source, []).append(src)
        lists.setdefault(destination, []).append(dst)
    for end, each in drawn.items():
        for etype, ids in each.items():
            lists.setdefault(etype_str_to_tuple(etype)[end], []).append(ids.reshape(-1))
    nodes, numbers = unique_and_compact(lists)
    compacted = {}
    for etype in pairs:
        source, _, destination = etype_str_to_tuple(etype)
        compacted[etype] = (numbers[source].pop(0), numbers[destination].pop(0))
    found = {
        end: {
            etype: numbers[etype_str_to_tuple(etype)[end]].pop(0).view(ids.shape)
            for etype, ids in each.items()
        }
        for end, each in drawn.items()
    }
    minibatch.compacted_node_pairs = compacted
    minibatch.compacted_negative_srcs = found[0] or None
    minibatch.compacted_negative_dsts = found[2] or None
    return nodes


def _seeds_of_rows(minibatch: MiniBatch) -> Any:
    seeds = minibatch.seeds
    if not isinstance(seeds, Mapping):
        ids, (numbers,) = unique_and_compact([seeds.reshape(-1)])
        minibatch.compacted_seeds = numbers.view(seeds.shape)
        return ids
    lists: dict[str, list[Tensor]] = {}
    ends: dict[str, list[str]] = {}
    for kind, rows in seeds.items():
        columns = rows.view(len(rows), -1)
        ends[kind] = kind.split(":")[::2] if columns.shape[1] == 2 else [kind]
        if columns.shape[1] != len(ends[kind]):
            raise SmexValueError(
                f'sample: seeds of "{kind}" must be nodes [n] or pairs [n, 2], found shape '
                f"{list(rows.shape)}"
            )
        for n, ntype in enumerate(ends[kind]):
            lists.setdefault(ntype, []).append(columns[:, n])
    nodes, numbers = unique_and_compact(lists)
    minibatch.compacted_seeds = {
        kind: torch.stack([numbers[ntype].pop(0) for ntype in ends[kind]], 1).view(rows.shape)
        for kind, rows in seeds.items()
    }
    return nodes


@functional_datapipe("sample_neighbor")
class NeighborSampler(SubgraphSampler):
    """Samples neighbours of the seeds, theirs, and so on.

    Args:
        datapipe: the stage before.
        graph: what to sample from.
        fanouts: for each layer, the first computed first, how many edges are drawn for a node: a
            number, or a tensor with one for each edge type; -1 for all.
        replace: whether an edge may be drawn more than once.
        prob_name: name of an attribute of edges with weights, or a mask.
        deduplicate: whether a node that several edges lead from is sampled for once.
        sampler: draws one layer: ``sampler(nodes, fanouts, replace, prob_name)``; the graph's
            `sample_neighbors` by default.

    Example:
        >>> import smex.graph as sg
        >>> import smex.graph.graphbolt as gb
        >>> g = gb.from_dglgraph(sg.graph(([0, 1, 2, 3], [1, 2, 3, 0])), is_homogeneous=True)
        >>> items = gb.ItemSet(torch.tensor([2]), names="seed_nodes")
        >>> batch = next(iter(gb.ItemSampler(items, 1).sample_neighbor(g, [-1, -1])))
        >>> batch.input_nodes, [block.num_edges() for block in batch.blocks]
        (tensor([2, 1, 0]), [2, 1])
    """

    def __init__(
        self,
        datapipe: Any,
        graph: FusedCSCSamplingGraph,
        fanouts: Sequence[Any],
        replace: bool = False,
        prob_name: str | None = None,
        deduplicate: bool = True,
        sampler: Any = None,
    ):
        super().__init__(datapipe)
        self.graph = graph
        self.fanouts = [
            each if isinstance(each, Tensor) else torch.tensor([int(each)]) for each in fanouts
        ]
        self.replace = replace
        self.prob_name = prob_name
        self.deduplicate = deduplicate
        self.sampler = sampler or graph.sample_neighbors

    def sample_subgraphs(
        self, seeds: Any, seeds_timestamp: Any
    ) -> tuple[Any, list[SampledSubgraph]]:
        """Samples for distinct nodes; see :class:`SubgraphSampler`."""
        nodes = seeds
        if isinstance(seeds, Mapping):  # edges may lead to nodes of any type
            some = next(iter(seeds.values()))
            nodes = {t: seeds.get(t, some[:0]) for t in self.graph.node_type_to_id or seeds}
        compact = unique_and_compact_csc_formats if self.deduplicate else compact_csc_format
        layers: list[SampledSubgraph] = []
        for fanouts in reversed(self.fanouts):
            drawn = self.sampler(nodes, fanouts, self.replace, self.prob_name)
            rows, csc = compact(drawn.sampled_csc, nodes)[:2]
            layers.insert(0, SampledSubgraph(csc, nodes, rows, drawn.original_edge_ids))
            nodes = rows
        return nodes, layers


@functional_datapipe("sample_layer_neighbor")
class LayerNeighborSampler(NeighborSampler):
    """As :class:`NeighborSampler`, so that the nodes of a layer share neighbours.

    See :meth:`FusedCSCSamplingGraph.sample_layer_neighbors`.
    """

    def __init__(
        self,
        datapipe: Any,
        graph: FusedCSCSamplingGraph,
        fanouts: Sequence[Any],
        replace: bool = False,
        prob_name: str | None = None,
        deduplicate: bool = True,
    ):
        super().__init__(
            datapipe, graph, fanouts, replace, prob_name, deduplicate, graph.sample_layer_neighbors
        )


@functional_datapipe("sample_in_subgraph")
class InSubgraphSampler(SubgraphSampler):
    """Takes all edges into the seeds.

    Args:
        datapipe: the stage before.
        graph: what to take them from.
    """

    def __init__(self, datapipe: Any, graph: FusedCSCSamplingGraph):
        super().__init__(datapipe)
        self.graph = graph
        self.sampler = graph.in_subgraph

    def sample_subgraphs(
        self, seeds: Any, seeds_timestamp: Any
    ) -> tuple[Any, list[SampledSubgraph]]:
        """Takes the edges; see :class:`SubgraphSampler`."""
        if isinstance(seeds, Mapping):
            some = next(iter(seeds.values()))
            seeds = {t: seeds.get(t, some[:0]) for t in self.graph.node_type_to_id or seeds}
        found = self.sampler(seeds)
        rows, csc = unique_and_compact_csc_formats(found.sampled_csc, seeds)
        return rows, [SampledSubgraph(csc, seeds, rows, found.original_edge_ids)]

"""Stages that sample layers for the seeds of a batch."""

from __future__ import annotations

import inspect
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

__all__ = [
    "InSubgraphSampler",
    "LayerNeighborSampler",
    "NeighborSampler",
    "SubgraphSampler",
    "TemporalNeighborSampler",
]


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
        # Subclasses of programs written before there were times take seeds alone.
        taken = inspect.signature(self.sample_subgraphs).parameters.values()
        self._takes_times = len(taken) > 1 or any(p.kind is p.VAR_POSITIONAL for p in taken)

    def _sample(self, minibatch: MiniBatch) -> MiniBatch:
        seeds, times = _seeds_of(minibatch, getattr(minibatch, "timestamp", None))
        given = (seeds, times) if self._takes_times else (seeds,)
        minibatch.input_nodes, minibatch.sampled_subgraphs = self.sample_subgraphs(*given)
        return minibatch

    def sample_subgraphs(
        self, seeds: Any, seeds_timestamp: Any
    ) -> tuple[Any, list[SampledSubgraph]]:
        """Samples for nodes, distinct ones unless they have times.

        Args:
            seeds: ids, by type where there are types.
            seeds_timestamp: the time of each, if the batch has a `timestamp`. Then nodes that come
                twice are two seeds; those of a pair, and those drawn for it, have its time.

        Returns:
            The nodes that the first layer reads, and the layers.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: a subclass of SubgraphSampler defines sample_subgraphs"
        )


def _seeds_of(minibatch: MiniBatch, times: Any) -> tuple[Any, Any]:
    """Returns the nodes of a batch and their times, if any, and notes pairs by their numbers."""
    if minibatch.node_pairs is not None:
        return _seeds_of_pairs(minibatch, times)
    if minibatch.seed_nodes is not None:
        return minibatch.seed_nodes, times
    if minibatch.seeds is None:
        raise SmexValueError(
            "sample: the batch has neither seed_nodes, node_pairs nor seeds; name what the items "
            'are, as in ItemSet(..., names="seed_nodes")'
        )
    return _seeds_of_rows(minibatch, times)


class _Nodes:
    """Lists of nodes by type, which are numbered together."""

    def __init__(self, times: Any):
        self._times = times  # of pairs, by edge type where there are types
        self._lists: dict[str, list[Tensor]] = {}
        self._stamps: dict[str, list[Tensor]] = {}

    def add(self, ids: Tensor, ntype: str = "", etype: str | None = None) -> None:
        """Adds nodes, as many for each pair; or each pair once, then as many drawn for each."""
        ids = ids.reshape(-1)
        self._lists.setdefault(ntype, []).append(ids)
        if self._times is not None:
            own = self._times if etype is None else self._times[etype]
            self._stamps.setdefault(ntype, []).append(own.repeat_interleave(_ratio(ids, own)))

    def add_rows(self, ids: Tensor, ntype: str = "", etype: str | None = None) -> None:
        """Adds a node, or several, of each pair, and after all pairs those of pairs drawn."""
        count = len(ids)
        self._lists.setdefault(ntype, []).append(ids.reshape(-1))
        if self._times is not None:
            own = self._times if etype is None else self._times[etype]
            drawn = own.repeat_interleave(max(_ratio(ids, own) - 1, 0))
            wide = ids.numel() // max(count, 1)
            self._stamps.setdefault(ntype, []).append(
                torch.cat((own, drawn)).repeat_interleave(wide)
            )

    def numbered(self) -> tuple[dict[str, Tensor], dict[str, Tensor] | None, dict[str, list]]:
        """Returns by type the nodes, their times, and the numbers of the nodes of each list."""
        if self._times is None:
            ids, numbers = unique_and_compact(self._lists)
            return ids, None, numbers
        nodes = {ntype: torch.cat(lists) for ntype, lists in self._lists.items()}
        times = {ntype: torch.cat(lists) for ntype, lists in self._stamps.items()}
        places = {
            ntype: list(
                torch.arange(len(nodes[ntype]), dtype=lists[0].dtype, device=lists[0].device).split(
                    [len(ids) for ids in lists]
                )
            )
            for ntype, lists in self._lists.items()
        }
        return nodes, times, places


def _ratio(ids: Tensor, times: Tensor) -> int:
    return len(ids) // max(len(times), 1)


def _seeds_of_pairs(minibatch: MiniBatch, times: Any) -> tuple[Any, Any]:
    pairs, srcs, dsts = minibatch.node_pairs, minibatch.negative_srcs, minibatch.negative_dsts
    nodes = _Nodes(times)
    if not isinstance(pairs, Mapping):
        for each in (*pairs, *(drawn for drawn in (srcs, dsts) if drawn is not None)):
            nodes.add(each)
        ids, stamps, lists = nodes.numbered()
        every = lists[""]
        minibatch.compacted_node_pairs = (every.pop(0), every.pop(0))
        if srcs is not None:
            minibatch.compacted_negative_srcs = every.pop(0).view(srcs.shape)
        if dsts is not None:
            minibatch.compacted_negative_dsts = every.pop(0).view(dsts.shape)
        return ids[""], None if stamps is None else stamps[""]
    drawn = {
        end: {etype: ids for etype, ids in (each or {}).items() if ids is not None}
        for end, each in ((0, srcs), (2, dsts))
    }
    for etype, (src, dst) in pairs.items():
        source, _, destination = etype_str_to_tuple(etype)
        nodes.add(src, source, etype)
        nodes.add(dst, destination, etype)
    for end, each in drawn.items():
        for etype, ids in each.items():
            nodes.add(ids, etype_str_to_tuple(etype)[end], etype)
    ids, stamps, numbers = nodes.numbered()
    compacted = {}
    for etype in pairs:
        source, _, destination = etype_str_to_tuple(etype)
        compacted[etype] = (numbers[source].pop(0), numbers[destination].pop(0))
    found = {
        end: {
            etype: numbers[etype_str_to_tuple(etype)[end]].pop(0).view(ids_of.shape)
            for etype, ids_of in each.items()
        }
        for end, each in drawn.items()
    }
    minibatch.compacted_node_pairs = compacted
    minibatch.compacted_negative_srcs = found[0] or None
    minibatch.compacted_negative_dsts = found[2] or None
    return ids, stamps


def _seeds_of_rows(minibatch: MiniBatch, times: Any) -> tuple[Any, Any]:
    seeds, nodes = minibatch.seeds, _Nodes(times)
    if not isinstance(seeds, Mapping):
        nodes.add_rows(seeds)
        ids, stamps, numbers = nodes.numbered()
        minibatch.compacted_seeds = numbers[""][0].view(seeds.shape)
        return ids[""], None if stamps is None else stamps[""]
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
            nodes.add_rows(columns[:, n], ntype, kind)
    ids, stamps, numbers = nodes.numbered()
    minibatch.compacted_seeds = {
        kind: torch.stack([numbers[ntype].pop(0) for ntype in ends[kind]], 1).view(rows.shape)
        for kind, rows in seeds.items()
    }
    return ids, stamps


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


@functional_datapipe("temporal_sample_neighbor")
class TemporalNeighborSampler(SubgraphSampler):
    """Samples neighbours that are older than the seeds, theirs, and so on.

    Items have a `timestamp`; a node that is reached from several seeds is sampled for with the time
    of each, and is as many nodes of the layer.

    Args:
        datapipe: the stage before.
        graph: what to sample from.
        fanouts: as for :class:`NeighborSampler`.
        replace: whether an edge may be drawn more than once.
        prob_name: name of an attribute of edges with weights, or a mask.
        node_timestamp_attr_name: name of an attribute of nodes with times.
        edge_timestamp_attr_name: name of an attribute of edges with times.

    Raises:
        SmexValueError: batches have no `timestamp`.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> g = gb.fused_csc_sampling_graph(
        ...     torch.tensor([0, 0, 0, 2]), torch.tensor([0, 1]),
        ...     node_attributes={"time": torch.tensor([5, 9, 12])})
        >>> items = gb.ItemSet(
        ...     (torch.tensor([2]), torch.tensor([8])), names=("seed_nodes", "timestamp"))
        >>> pipe = gb.ItemSampler(items, 1).temporal_sample_neighbor(
        ...     g, [-1], node_timestamp_attr_name="time")
        >>> next(iter(pipe)).input_nodes
        tensor([2, 0])
    """

    def __init__(
        self,
        datapipe: Any,
        graph: FusedCSCSamplingGraph,
        fanouts: Sequence[Any],
        replace: bool = False,
        prob_name: str | None = None,
        node_timestamp_attr_name: str | None = None,
        edge_timestamp_attr_name: str | None = None,
    ):
        super().__init__(datapipe)
        self.graph = graph
        self.fanouts = [
            each if isinstance(each, Tensor) else torch.tensor([int(each)]) for each in fanouts
        ]
        self.replace = replace
        self.prob_name = prob_name
        self.node_timestamp_attr_name = node_timestamp_attr_name
        self.edge_timestamp_attr_name = edge_timestamp_attr_name
        self.sampler = graph.temporal_sample_neighbors

    def sample_subgraphs(
        self, seeds: Any, seeds_timestamp: Any
    ) -> tuple[Any, list[SampledSubgraph]]:
        """Samples for nodes at times; see :class:`SubgraphSampler`."""
        if seeds_timestamp is None:
            raise SmexValueError(
                "temporal_sample_neighbor: expected a timestamp of the batch, found none; name it, "
                'as in ItemSet(..., names=("seed_nodes", "timestamp"))'
            )
        nodes, times = seeds, seeds_timestamp
        if isinstance(seeds, Mapping):  # edges may lead to nodes of any type
            some, at = next(iter(seeds.values())), next(iter(seeds_timestamp.values()))
            known = self.graph.node_type_to_id or seeds
            nodes = {t: seeds.get(t, some[:0]) for t in known}
            times = {t: seeds_timestamp.get(t, at[:0]) for t in known}
        layers: list[SampledSubgraph] = []
        for fanouts in reversed(self.fanouts):
            drawn = self.sampler(
                nodes,
                times,
                fanouts,
                self.replace,
                self.prob_name,
                self.node_timestamp_attr_name,
                self.edge_timestamp_attr_name,
            )
            rows, csc, times = compact_csc_format(drawn.sampled_csc, nodes, times)
            layers.insert(0, SampledSubgraph(csc, nodes, rows, drawn.original_edge_ids))
            nodes = rows
        return nodes, layers


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

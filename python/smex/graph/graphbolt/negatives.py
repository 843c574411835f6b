"""Stages that draw pairs that are not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import functional_datapipe

from smex.errors import SmexValueError
from smex.graph.graphbolt.minibatch import MiniBatch
from smex.graph.graphbolt.sampling_graph import FusedCSCSamplingGraph
from smex.graph.graphbolt.stages import MiniBatchTransformer
from smex.graph.graphbolt.subgraphs import add_reverse_edges, add_reverse_edges_2

__all__ = ["NegativeSampler", "UniformNegativeSampler", "exclude_seed_edges"]


@functional_datapipe("sample_negative")
class NegativeSampler(MiniBatchTransformer):
    """The base of stages that draw negatives: `_sample_with_etype` is a subclass's.

    Of `node_pairs` they become `negative_srcs` and `negative_dsts` [n, k]. Of `seeds` they are put
    after them, with `labels` and `indexes` of all.

    Args:
        datapipe: the stage before.
        negative_ratio: k, how many for each pair.

    Raises:
        SmexValueError: it is less than 1.
    """

    def __init__(self, datapipe: Any, negative_ratio: int):
        super().__init__(datapipe, self._sample)
        if negative_ratio < 1:
            raise SmexValueError(
                f"NegativeSampler: expected a negative_ratio of at least 1, found {negative_ratio}"
            )
        self.negative_ratio = int(negative_ratio)

    def _sample(self, minibatch: MiniBatch) -> MiniBatch:
        pairs = minibatch.node_pairs
        if pairs is None and minibatch.seeds is None:
            raise SmexValueError(
                "sample_negative: the batch has neither node_pairs nor seeds; name what the items "
                'are, as in ItemSet(..., names="node_pairs")'
            )
        if pairs is None:
            self._extend(minibatch)
        elif isinstance(pairs, Mapping):
            drawn = {t: self._shaped(self._sample_with_etype(p, t)) for t, p in pairs.items()}
            minibatch.negative_srcs = {t: src for t, (src, _) in drawn.items()}
            minibatch.negative_dsts = {t: dst for t, (_, dst) in drawn.items()}
        else:
            drawn = self._shaped(self._sample_with_etype(pairs))
            minibatch.negative_srcs, minibatch.negative_dsts = drawn
        return minibatch

    def _extend(self, minibatch: MiniBatch) -> None:
        seeds = minibatch.seeds
        if not isinstance(seeds, Mapping):
            found = self._sample_with_etype(seeds, use_seeds=True)
            minibatch.seeds, minibatch.labels, minibatch.indexes = found
            return
        by_type = {t: self._sample_with_etype(each, t, use_seeds=True) for t, each in seeds.items()}
        parts: list[dict[str, Tensor]] = [
            {t: each[n] for t, each in by_type.items()} for n in range(3)
        ]
        minibatch.seeds, minibatch.labels, minibatch.indexes = parts

    def _shaped(self, drawn: tuple[Tensor | None, Tensor | None]) -> Any:
        return tuple(None if each is None else each.view(-1, self.negative_ratio) for each in drawn)

    def _sample_with_etype(
        self, node_pairs: Any, etype: str | None = None, use_seeds: bool = False
    ) -> Any:
        """Draws for pairs of one type.

        Args:
            node_pairs: sources [n] and destinations [n]; with `use_seeds` one tensor [n, 2].
            etype: their type; None without types.
            use_seeds: which of the two.

        Returns:
            Sources and destinations [n * k], None where they are the pairs'; with `use_seeds` all
            pairs, their labels, and which pair each belongs to.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: a subclass of NegativeSampler defines _sample_with_etype"
        )


@functional_datapipe("sample_uniform_negative")
class UniformNegativeSampler(NegativeSampler):
    """Draws other destinations from all nodes.

    Args:
        datapipe: the stage before.
        graph: whose nodes.
        negative_ratio: k, how many for each pair.

    Example:
        >>> import smex.graph as sg
        >>> import smex.graph.graphbolt as gb
        >>> g = gb.from_dglgraph(sg.graph(([0, 1, 2], [1, 2, 0])), is_homogeneous=True)
        >>> items = gb.ItemSet(torch.tensor([[0, 1], [1, 2]]), names="node_pairs")
        >>> batch = next(iter(gb.ItemSampler(items, 2).sample_uniform_negative(g, 4)))
        >>> batch.negative_dsts.shape, batch.negative_srcs
        (torch.Size([2, 4]), None)
    """

    def __init__(self, datapipe: Any, graph: FusedCSCSamplingGraph, negative_ratio: int):
        super().__init__(datapipe, negative_ratio)
        self.graph = graph

    def _sample_with_etype(
        self, node_pairs: Any, etype: str | None = None, use_seeds: bool = False
    ) -> Any:
        if not use_seeds:
            return self.graph.sample_negative_edges_uniform(etype, node_pairs, self.negative_ratio)
        if node_pairs.dim() != 2 or node_pairs.shape[1] != 2:
            raise SmexValueError(
                f"sample_uniform_negative: expected seeds [n, 2], found shape "
                f"{list(node_pairs.shape)}"
            )
        count = len(node_pairs)
        seeds = self.graph.sample_negative_edges_uniform_2(etype, node_pairs, self.negative_ratio)
        labels = torch.zeros(len(seeds), dtype=torch.bool, device=seeds.device)
        labels[:count] = True
        numbers = torch.arange(count, device=seeds.device)
        return seeds, labels, torch.cat((numbers, numbers.repeat_interleave(self.negative_ratio)))


def exclude_seed_edges(
    minibatch: MiniBatch,
    include_reverse_edges: bool = False,
    reverse_etypes_mapping: Mapping[str, str] | None = None,
) -> MiniBatch:
    """Leaves the pairs of a batch out of what was sampled for it.

    Args:
        minibatch: after sampling.
        include_reverse_edges: whether to leave out what leads back too.
        reverse_etypes_mapping: from edge types to those of the way back.
    """
    if minibatch.node_pairs is not None:
        edges = minibatch.node_pairs
        if include_reverse_edges:
            edges = add_reverse_edges(edges, reverse_etypes_mapping)
    else:
        edges = minibatch.seeds
        if include_reverse_edges:
            edges = add_reverse_edges_2(edges, reverse_etypes_mapping)
    minibatch.sampled_subgraphs = [
        subgraph.exclude_edges(edges) for subgraph in minibatch.sampled_subgraphs or ()
    ]
    return minibatch

"""Blocks by layer-neighbour sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from smex.graph.creation.random import draw_seed
from smex.graph.dataloading.base import BlockSampler
from smex.graph.dataloading.blocks import sample_layers
from smex.graph.dataloading.neighbor_sampler import check_layers
from smex.graph.graph import Graph
from smex.graph.sampling.arguments import check_count
from smex.graph.sampling.labor import LaborDraw

__all__ = ["LaborSampler"]


class LaborSampler(BlockSampler):
    """Blocks of layer-neighbour sampling; see :func:`smex.graph.sampling.sample_labors`.

    Blocks have the edge feature ``edge_weights``, the importances, wherever they differ from 1:
    with `prob` or importance sampling.

    Args:
        fanouts: as for :class:`NeighborSampler`; means.
        edge_dir: ``"in"``; blocks have no other edges.
        prob: name of an edge feature with weights to draw by.
        importance_sampling: iterations, as for ``sample_labors``.
        layer_dependency: whether all layers of a batch share their random numbers, which makes the
            number of different nodes smaller.
        batch_dependency: over how many batches the random numbers change to new ones; with 1 each
            batch has its own. With more, successive batches of a process share nodes.
        prefetch_node_feats: as for :class:`BlockSampler`.
        prefetch_labels: as for :class:`BlockSampler`.
        prefetch_edge_feats: as for :class:`BlockSampler`.
        output_device: as for :class:`BlockSampler`.

    Raises:
        SmexValueError: as for :class:`NeighborSampler`.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> sampler = sg.dataloading.LaborSampler([5])
        >>> sampler.sample(g, torch.tensor([2]))[0]
        tensor([2, 1])
    """

    def __init__(
        self,
        fanouts: Sequence[Any],
        edge_dir: str = "in",
        prob: str | None = None,
        importance_sampling: int = 0,
        layer_dependency: bool = False,
        batch_dependency: int = 1,
        prefetch_node_feats: Any = None,
        prefetch_labels: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: torch.device | str | None = None,
    ):
        super().__init__(prefetch_node_feats, prefetch_labels, prefetch_edge_feats, output_device)
        self.fanouts = check_layers("LaborSampler", fanouts, edge_dir)
        self.edge_dir = edge_dir
        self.prob = prob
        self.importance_sampling = importance_sampling
        self.layer_dependency = layer_dependency
        self.batch_dependency = check_count("LaborSampler", "batch_dependency", batch_dependency, 1)
        self._batches = 0
        self._seeds: list[Tensor] = []
        self._next_seed: int | None = None

    def set_seed(self, random_seed: int | None = None) -> None:
        """Fixes the random numbers of the next batch, which then draws as any sampler so told does.

        Samplers of one seed draw the same nodes where they sample for the same nodes. Later batches
        have seeds of their own again, or with ``batch_dependency`` go on from this one.

        Args:
            random_seed: the seed; None takes a seed set before back.

        Example:
            >>> import smex.graph as sg
            >>> g = sg.rand_graph(20, 200)
            >>> sampler = sg.dataloading.LaborSampler([2])
            >>> drawn = []
            >>> for _ in range(2):
            ...     sampler.set_seed(7)
            ...     drawn.append(sampler.sample(g, torch.arange(5))[0].tolist())
            >>> drawn[0] == drawn[1]
            True
        """
        self._next_seed = random_seed

    def _seeds_of_batch(self) -> tuple[list[Tensor], float]:
        """Two seeds for each layer, and how far this batch is on the way between them."""
        if self._next_seed is not None:
            first, self._next_seed = self._next_seed, None
            layers = torch.arange(first, first + len(self.fanouts))
            self._seeds = [torch.stack([seed, seed]) for seed in layers]
            self._batches = 1
            return ([self._seeds[0]] * len(layers) if self.layer_dependency else self._seeds), 0.0
        step = self._batches % self.batch_dependency
        if step == 0:
            fresh = [torch.tensor([draw_seed(), draw_seed()]) for _ in self.fanouts]
            # What was on the way to the second seeds goes on from there.
            chained = self.batch_dependency > 1 and self._seeds
            old = self._seeds if chained else [pair.flip(0) for pair in fresh]
            self._seeds = [torch.stack([a[1], b[1]]) for a, b in zip(old, fresh)]
        self._batches += 1
        seeds = [self._seeds[0]] * len(self.fanouts) if self.layer_dependency else self._seeds
        return seeds, step / self.batch_dependency

    def sample_blocks(self, g: Graph, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Returns the blocks of some nodes; see :class:`BlockSampler`."""
        seeds, share = self._seeds_of_batch()
        draws: dict[int, LaborDraw] = {}

        def draw_of_layer(layer: int) -> LaborDraw:
            draws[layer] = LaborDraw(
                "LaborSampler",
                g,
                self.fanouts[layer],
                self.prob,
                self.importance_sampling,
                seeds[layer],
                share,
                exclude_eids,
            )
            return draws[layer]

        result = sample_layers(
            "LaborSampler", g, seed_nodes, len(self.fanouts), draw_of_layer, self.output_device
        )
        if self.prob is not None or self.importance_sampling:
            for layer, block in enumerate(result[2]):
                for canonical, importances in draws[layer].importances.items():
                    block._edge_frames[canonical]["edge_weights"] = importances.to(block.device)
        return result

"""The methods of a graph that are functions of :mod:`smex.graph.sampling` too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from smex.graph.core import EdgeType

if TYPE_CHECKING:
    from smex.graph.graph import Graph

Device = torch.device | str | None


class SamplingMixin:
    """Samples of :class:`smex.graph.Graph`."""

    def sample_neighbors(
        self,
        nodes: Any,
        fanout: Any,
        edge_dir: str = "in",
        prob: str | None = None,
        replace: bool = False,
        copy_ndata: bool = True,
        copy_edata: bool = True,
        _dist_training: bool = False,
        exclude_edges: Any = None,
        output_device: Device = None,
    ) -> Graph:
        """Edges drawn for some nodes, see :func:`smex.graph.sampling.sample_neighbors`."""
        from smex.graph import sampling

        return sampling.sample_neighbors(
            _graph(self),
            nodes,
            fanout,
            edge_dir,
            prob,
            replace,
            copy_ndata,
            copy_edata,
            exclude_edges=exclude_edges,
            output_device=output_device,
        )

    def sample_neighbors_biased(
        self,
        nodes: Any,
        fanout: int,
        bias: Any,
        edge_dir: str = "in",
        tag_offset_name: str = "_TAG_OFFSET",
        replace: bool = False,
        copy_ndata: bool = True,
        copy_edata: bool = True,
        output_device: Device = None,
    ) -> Graph:
        """Edges drawn by tags, see :func:`smex.graph.sampling.sample_neighbors_biased`."""
        from smex.graph import sampling

        return sampling.sample_neighbors_biased(
            _graph(self),
            nodes,
            fanout,
            bias,
            edge_dir,
            tag_offset_name,
            replace,
            copy_ndata,
            copy_edata,
            output_device,
        )

    def sample_etype_neighbors(
        self,
        nodes: Any,
        etype_offset: Sequence[int],
        fanout: Any,
        edge_dir: str = "in",
        prob: str | None = None,
        replace: bool = False,
        copy_ndata: bool = True,
        copy_edata: bool = True,
        etype_sorted: bool = False,
        _dist_training: bool = False,
        output_device: Device = None,
    ) -> Graph:
        """The same of each edge type, see :func:`smex.graph.sampling.sample_etype_neighbors`."""
        from smex.graph import sampling

        return sampling.sample_etype_neighbors(
            _graph(self),
            nodes,
            etype_offset,
            fanout,
            edge_dir,
            prob,
            replace,
            copy_ndata,
            copy_edata,
            output_device=output_device,
        )

    def sample_labors(
        self,
        nodes: Any,
        fanout: Any,
        edge_dir: str = "in",
        prob: str | None = None,
        importance_sampling: int = 0,
        random_seed: Tensor | None = None,
        seed2_contribution: float = 0,
        copy_ndata: bool = True,
        copy_edata: bool = True,
        exclude_edges: Any = None,
        output_device: Device = None,
    ) -> tuple[Graph, list[Tensor]]:
        """Edges that share neighbours, see :func:`smex.graph.sampling.sample_labors`."""
        from smex.graph import sampling

        return sampling.sample_labors(
            _graph(self),
            nodes,
            fanout,
            edge_dir,
            prob,
            importance_sampling,
            random_seed,
            seed2_contribution,
            copy_ndata,
            copy_edata,
            exclude_edges,
            output_device,
        )

    def select_topk(
        self,
        k: Any,
        weight: str,
        nodes: Any = None,
        edge_dir: str = "in",
        ascending: bool = False,
        copy_ndata: bool = True,
        copy_edata: bool = True,
        output_device: Device = None,
    ) -> Graph:
        """The edges of the largest weights, see :func:`smex.graph.sampling.select_topk`."""
        from smex.graph import sampling

        return sampling.select_topk(
            _graph(self),
            k,
            weight,
            nodes,
            edge_dir,
            ascending,
            copy_ndata,
            copy_edata,
            output_device,
        )

    def global_uniform_negative_sampling(
        self,
        num_samples: int,
        exclude_self_loops: bool = True,
        replace: bool = False,
        etype: EdgeType = None,
        redundancy: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Pairs that no edge joins; the function of this name in :mod:`smex.graph.sampling`."""
        from smex.graph import sampling

        return sampling.global_uniform_negative_sampling(
            _graph(self), num_samples, exclude_self_loops, replace, etype, redundancy
        )


def _graph(mixin: SamplingMixin) -> Graph:
    return cast("Graph", mixin)

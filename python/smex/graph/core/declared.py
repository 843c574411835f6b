"""The methods of a graph that are functions of this package too, as their users see them.

The functions make graphs, so they import their class; :mod:`smex.graph.methods` gives them to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smex.graph.core.graph_core import GraphCore
from smex.graph.words import EdgeType

if TYPE_CHECKING:
    from typing_extensions import Self

Device = torch.device | str | None


class FunctionMethods(GraphCore):
    """Transforms, subgraphs, samples and conversions of :class:`smex.graph.Graph`."""

    if TYPE_CHECKING:

        def add_self_loop(
            self,
            edge_feat_names: Sequence[str] | None = None,
            fill_data: float | str = 1.0,
            etype: EdgeType = None,
        ) -> Self:
            """The graph with a self loop at each node, see :func:`smex.graph.add_self_loop`."""

        def adj(self, etype: EdgeType = None, eweight_name: str | None = None) -> Any:
            """The adjacency matrix, a :class:`smex.graph.sparse.SparseMatrix`."""

        adjacency_matrix = adj

        def remove_self_loop(self, etype: EdgeType = None) -> Self:
            """Returns the graph without self loops, see :func:`smex.graph.remove_self_loop`."""

        def reverse(
            self,
            copy_ndata: bool = True,
            copy_edata: bool = False,
            *,
            share_ndata: bool | None = None,
            share_edata: bool | None = None,
        ) -> Self:
            """Returns the graph with every edge turned round, see :func:`smex.graph.reverse`."""

        def shared_memory(
            self, name: str, formats: str | Sequence[str] = ("coo", "csr", "csc")
        ) -> Self:
            """Returns the structure in memory with a name; see `smex.graph.creation.shared`."""

        def to_simple(
            self,
            return_counts: str | None = "count",
            writeback_mapping: bool = False,
            copy_ndata: bool = True,
            copy_edata: bool = False,
            aggregator: str = "arbitrary",
        ) -> Any:
            """Returns the graph without parallel edges, see :func:`smex.graph.to_simple`."""

        def reorder_graph(
            self,
            node_permute_algo: str | None = None,
            edge_permute_algo: str | None = "src",
            store_ids: bool = True,
            permute_config: Mapping[str, Any] | None = None,
        ) -> Self:
            """The graph with other node and edge ids, see :func:`smex.graph.reorder_graph`."""

        def line_graph(self, backtracking: bool = True, shared: bool = False) -> Self:
            """Returns the graph whose nodes are the edges, see :func:`smex.graph.line_graph`."""

        def subgraph(
            self,
            nodes: Any,
            *,
            relabel_nodes: bool = True,
            store_ids: bool = True,
            output_device: Device = None,
        ) -> Self:
            """Returns the subgraph of some nodes, see :func:`smex.graph.node_subgraph`."""

        def edge_subgraph(
            self,
            edges: Any,
            *,
            relabel_nodes: bool = True,
            store_ids: bool = True,
            output_device: Device = None,
            preserve_nodes: bool | None = None,
        ) -> Self:
            """Returns the subgraph of some edges, see :func:`smex.graph.edge_subgraph`."""

        def in_subgraph(
            self,
            nodes: Any,
            *,
            relabel_nodes: bool = False,
            store_ids: bool = True,
            output_device: Device = None,
        ) -> Self:
            """The subgraph of the edges into some nodes, see :func:`smex.graph.in_subgraph`."""

        def out_subgraph(
            self,
            nodes: Any,
            *,
            relabel_nodes: bool = False,
            store_ids: bool = True,
            output_device: Device = None,
        ) -> Self:
            """The subgraph of the edges out of some nodes, see :func:`smex.graph.out_subgraph`."""

        def khop_in_subgraph(
            self,
            nodes: Any,
            k: int,
            *,
            relabel_nodes: bool = True,
            store_ids: bool = True,
            output_device: Device = None,
        ) -> Any:
            """Returns the subgraph around some nodes, see :func:`smex.graph.khop_in_subgraph`."""

        def khop_out_subgraph(
            self,
            nodes: Any,
            k: int,
            *,
            relabel_nodes: bool = True,
            store_ids: bool = True,
            output_device: Device = None,
        ) -> Any:
            """Returns the subgraph around some nodes, see :func:`smex.graph.khop_out_subgraph`."""

        def to_networkx(
            self,
            node_attrs: Iterable[str] | None = None,
            edge_attrs: Iterable[str] | None = None,
            ntype_attr: str = "ntype",
            etype_attr: str = "etype",
            eid_attr: str = "id",
        ) -> Any:
            """The graph as a ``networkx.MultiDiGraph``, see :func:`smex.graph.to_networkx`."""

        def sample_neighbors(
            self,
            nodes: Any,
            fanout: Any,
            edge_dir: str = "in",
            prob: Any = None,
            replace: bool = False,
            copy_ndata: bool = True,
            copy_edata: bool = True,
            _dist_training: bool = False,
            exclude_edges: Any = None,
            output_device: Device = None,
        ) -> Self:
            """Edges drawn for some nodes, see :func:`smex.graph.sampling.sample_neighbors`."""

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
        ) -> Self:
            """Edges drawn by tags, see :func:`smex.graph.sampling.sample_neighbors_biased`."""

        def sample_neighbors_fused(
            self,
            nodes: Any,
            fanout: Any,
            edge_dir: str = "in",
            prob: Any = None,
            replace: bool = False,
            copy_ndata: bool = True,
            copy_edata: bool = True,
            exclude_edges: Any = None,
            mapping: Any = None,
        ) -> Self:
            """The block of some nodes, see :func:`smex.graph.sampling.sample_neighbors_fused`."""

        def sample_etype_neighbors(
            self,
            nodes: Any,
            etype_offset: Sequence[int],
            fanout: Any,
            edge_dir: str = "in",
            prob: Any = None,
            replace: bool = False,
            copy_ndata: bool = True,
            copy_edata: bool = True,
            etype_sorted: bool = False,
            _dist_training: bool = False,
            output_device: Device = None,
        ) -> Self:
            """The same by edge type, see :func:`smex.graph.sampling.sample_etype_neighbors`."""

        def sample_labors(
            self,
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
            output_device: Device = None,
        ) -> tuple[Self, list[Tensor]]:
            """Edges that share neighbours, see :func:`smex.graph.sampling.sample_labors`."""

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
        ) -> Self:
            """The edges of the largest weights, see :func:`smex.graph.sampling.select_topk`."""

        def global_uniform_negative_sampling(
            self,
            num_samples: int,
            exclude_self_loops: bool = True,
            replace: bool = False,
            etype: EdgeType = None,
            redundancy: float | None = None,
        ) -> tuple[Tensor, Tensor]:
            """Pairs that no edge joins; the function of this name in :mod:`smex.graph.sampling`."""

"""The methods of a graph that are functions of :mod:`smex.graph` too.

The functions make graphs and so import their class, which inherits this one; hence the imports
inside the methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch

from smex.graph.core import EdgeType

if TYPE_CHECKING:
    from smex.graph.graph import Graph

Device = torch.device | str | None


class TransformMixin:
    """Transforms, subgraphs and conversions of :class:`smex.graph.Graph`."""

    def add_self_loop(
        self,
        edge_feat_names: Sequence[str] | None = None,
        fill_data: float | str = 1.0,
        etype: EdgeType = None,
    ) -> Graph:
        """The graph with a self loop added to each node, see :func:`smex.graph.add_self_loop`."""
        from smex.graph import transforms

        return transforms.add_self_loop(_graph(self), edge_feat_names, fill_data, etype)

    def remove_self_loop(self, etype: EdgeType = None) -> Graph:
        """The graph without self loops, see :func:`smex.graph.remove_self_loop`."""
        from smex.graph import transforms

        return transforms.remove_self_loop(_graph(self), etype)

    def reverse(
        self,
        copy_ndata: bool = True,
        copy_edata: bool = False,
        *,
        share_ndata: bool | None = None,
        share_edata: bool | None = None,
    ) -> Graph:
        """The graph with every edge turned round, see :func:`smex.graph.reverse`."""
        from smex.graph import transforms

        return transforms.reverse(
            _graph(self), copy_ndata, copy_edata, share_ndata=share_ndata, share_edata=share_edata
        )

    def to_simple(
        self,
        return_counts: str | None = "count",
        writeback_mapping: bool = False,
        copy_ndata: bool = True,
        copy_edata: bool = False,
        aggregator: str = "arbitrary",
    ) -> Any:
        """The graph without parallel edges, see :func:`smex.graph.to_simple`."""
        from smex.graph import transforms

        return transforms.to_simple(
            _graph(self), return_counts, writeback_mapping, copy_ndata, copy_edata, aggregator
        )

    def reorder_graph(
        self,
        node_permute_algo: str | None = None,
        edge_permute_algo: str | None = "src",
        store_ids: bool = True,
        permute_config: Mapping[str, Any] | None = None,
    ) -> Graph:
        """The graph with other node and edge ids, see :func:`smex.graph.reorder_graph`."""
        from smex.graph import reorder

        return reorder.reorder_graph(
            _graph(self), node_permute_algo, edge_permute_algo, store_ids, permute_config
        )

    def line_graph(self, backtracking: bool = True, shared: bool = False) -> Graph:
        """The graph whose nodes are the edges, see :func:`smex.graph.line_graph`."""
        from smex.graph import derived

        return derived.line_graph(_graph(self), backtracking, shared)

    def subgraph(
        self,
        nodes: Any,
        *,
        relabel_nodes: bool = True,
        store_ids: bool = True,
        output_device: Device = None,
    ) -> Graph:
        """The subgraph of some nodes, see :func:`smex.graph.node_subgraph`."""
        from smex.graph.subgraph import node_subgraph

        return node_subgraph(
            _graph(self),
            nodes,
            relabel_nodes=relabel_nodes,
            store_ids=store_ids,
            output_device=output_device,
        )

    def edge_subgraph(
        self,
        edges: Any,
        *,
        relabel_nodes: bool = True,
        store_ids: bool = True,
        output_device: Device = None,
        preserve_nodes: bool | None = None,
    ) -> Graph:
        """The subgraph of some edges, see :func:`smex.graph.edge_subgraph`."""
        from smex.graph.subgraph import edge_subgraph

        return edge_subgraph(
            _graph(self),
            edges,
            relabel_nodes=relabel_nodes,
            store_ids=store_ids,
            output_device=output_device,
            preserve_nodes=preserve_nodes,
        )

    def in_subgraph(
        self,
        nodes: Any,
        *,
        relabel_nodes: bool = False,
        store_ids: bool = True,
        output_device: Device = None,
    ) -> Graph:
        """The subgraph of the edges into some nodes, see :func:`smex.graph.in_subgraph`."""
        from smex.graph.subgraph import in_subgraph

        return in_subgraph(
            _graph(self),
            nodes,
            relabel_nodes=relabel_nodes,
            store_ids=store_ids,
            output_device=output_device,
        )

    def out_subgraph(
        self,
        nodes: Any,
        *,
        relabel_nodes: bool = False,
        store_ids: bool = True,
        output_device: Device = None,
    ) -> Graph:
        """The subgraph of the edges out of some nodes, see :func:`smex.graph.out_subgraph`."""
        from smex.graph.subgraph import out_subgraph

        return out_subgraph(
            _graph(self),
            nodes,
            relabel_nodes=relabel_nodes,
            store_ids=store_ids,
            output_device=output_device,
        )

    def khop_in_subgraph(
        self,
        nodes: Any,
        k: int,
        *,
        relabel_nodes: bool = True,
        store_ids: bool = True,
        output_device: Device = None,
    ) -> Any:
        """The subgraph around some nodes, see :func:`smex.graph.khop_in_subgraph`."""
        from smex.graph.subgraph import khop_in_subgraph

        return khop_in_subgraph(
            _graph(self),
            nodes,
            k,
            relabel_nodes=relabel_nodes,
            store_ids=store_ids,
            output_device=output_device,
        )

    def khop_out_subgraph(
        self,
        nodes: Any,
        k: int,
        *,
        relabel_nodes: bool = True,
        store_ids: bool = True,
        output_device: Device = None,
    ) -> Any:
        """The subgraph around some nodes, see :func:`smex.graph.khop_out_subgraph`."""
        from smex.graph.subgraph import khop_out_subgraph

        return khop_out_subgraph(
            _graph(self),
            nodes,
            k,
            relabel_nodes=relabel_nodes,
            store_ids=store_ids,
            output_device=output_device,
        )

    def to_networkx(
        self,
        node_attrs: Iterable[str] | None = None,
        edge_attrs: Iterable[str] | None = None,
        ntype_attr: str = "ntype",
        etype_attr: str = "etype",
        eid_attr: str = "id",
    ) -> Any:
        """The graph as a ``networkx.MultiDiGraph``, see :func:`smex.graph.to_networkx`."""
        from smex.graph import networkx_io

        return networkx_io.to_networkx(
            _graph(self), node_attrs, edge_attrs, ntype_attr, etype_attr, eid_attr
        )


def _graph(mixin: TransformMixin) -> Graph:
    return cast("Graph", mixin)

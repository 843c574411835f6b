"""Which nodes or edges an argument of a transform selects: ids or masks, perhaps by type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.graph import Graph
from smex.graph.words import CanonicalType, quoted


def graphs_of(op: str, graphs: Any) -> list[Graph]:
    """Returns the graphs of a list of them."""
    if isinstance(graphs, Graph) or not isinstance(graphs, Iterable):
        raise SmexTypeError(
            f"{op}: expected a list of graphs, found {type(graphs).__name__}; pass {op}([g, ...])"
        )
    result = list(graphs)
    for n, graph in enumerate(result):
        if not isinstance(graph, Graph):
            raise SmexTypeError(
                f"{op}: expected a list of graphs, found {type(graph).__name__} at position {n}"
            )
    return result


def reject_block(op: str, graph: Graph) -> None:
    """Raise if the graph is a block."""
    if graph.is_block:
        raise SmexTypeError(f"{op}: expected a graph that is no block, found a block")


def check_one_type(op: str, g: Graph) -> None:
    """Raise unless the graph has one node type and one edge type."""
    if not g.is_homogeneous:
        raise SmexTypeError(
            f"{op}: expected a graph of one node type and one edge type, found {len(g.ntypes)} and "
            f"{len(g.etypes)}; use to_homogeneous"
        )


def check_hops(op: str, k: int) -> None:
    """Raise if a number of hops is negative."""
    if k < 0:
        raise SmexValueError(f"{op}: expected k of at least 0, found {k}")


def nodes_by_type(op: str, graph: Graph, nodes: Any) -> dict[str, Tensor]:
    """Node ids of each type that is given."""
    if not isinstance(nodes, Mapping):
        if len(graph.ntypes) != 1:
            raise SmexTypeError(
                f"{op}: the graph has several node types, expected a dict from type to ids, found "
                f"{type(nodes).__name__}; types are {quoted(graph.ntypes)}"
            )
        nodes = {graph.ntypes[0]: nodes}
    result = {}
    for ntype, ids in nodes.items():
        slot = graph._node_slot(ntype)
        ids = _from_mask(op, ids, graph._slot_size(slot))
        result[slot.ntype] = graph._node_ids(ids, slot, op)
    return result


def edges_by_type(op: str, graph: Graph, edges: Any) -> dict[CanonicalType, Tensor]:
    """Edge ids of each type that is given."""
    if not isinstance(edges, Mapping):
        if len(graph.etypes) != 1:
            raise SmexTypeError(
                f"{op}: the graph has several edge types, expected a dict from type to ids, found "
                f"{type(edges).__name__}; types are {quoted(graph.canonical_etypes)}"
            )
        edges = {graph.canonical_etypes[0]: edges}
    result = {}
    for etype, ids in edges.items():
        canonical = graph.to_canonical_etype(etype)
        ids = _from_mask(op, ids, graph._relations[canonical].num_edges)
        result[canonical] = graph._edge_ids(ids, canonical, op)
    return result


def _from_mask(op: str, ids: Any, size: int) -> Any:
    """Returns the ids that a bool mask selects; anything else as it is."""
    if isinstance(ids, Iterable) and not hasattr(ids, "dtype"):
        ids = list(ids)
        if ids and isinstance(ids[0], bool):
            ids = torch.tensor(ids)
    if str(getattr(ids, "dtype", None)) not in ("bool", "torch.bool"):
        return ids
    mask = torch.as_tensor(ids)
    if mask.shape != (size,):
        raise SmexValueError(
            f"{op}: expected a mask of shape [{size}], found shape {list(mask.shape)}"
        )
    return mask.nonzero().view(-1)

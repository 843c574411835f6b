"""Edges that were sampled for one layer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError
from smex.graph.graphbolt.base import (
    CSCFormatBase,
    etype_str_to_tuple,
    expand_indptr,
    moved,
)

__all__ = [
    "SampledSubgraph",
    "SampledSubgraphImpl",
    "add_reverse_edges",
    "add_reverse_edges_2",
]


@dataclasses.dataclass
class SampledSubgraph:
    """Edges by column, and what their nodes and they are called in the graph.

    Args:
        sampled_csc: the edges; by edge type ``"source:relation:destination"`` of a graph that has
            types.
        original_column_node_ids: ids of the columns; by node type. None where columns have no
            numbers of their own.
        original_row_node_ids: ids of the rows; by node type. None likewise.
        original_edge_ids: ids of the edges; by edge type. None where the graph has none.
    """

    sampled_csc: CSCFormatBase | dict[str, CSCFormatBase]
    original_column_node_ids: Any = None
    original_row_node_ids: Any = None
    original_edge_ids: Any = None

    def exclude_edges(
        self, edges: Any, assume_num_node_within_int32: bool = True
    ) -> SampledSubgraph:
        """Returns the subgraph without some edges.

        Args:
            edges: sources and destinations, a pair of tensors [n] or one tensor [n, 2], as ids of
                the graph; by edge type where the subgraph has types.
            assume_num_node_within_int32: taken for compatibility; ids may be larger.

        Raises:
            SmexTypeError: only one of the two has types.
        """
        if isinstance(self.sampled_csc, Mapping) != isinstance(edges, Mapping):
            raise SmexTypeError(
                "exclude_edges: expected edges by type for a subgraph with types and tensors for "
                f"one without, found a {type(edges).__name__} for a subgraph "
                f"{'with' if isinstance(self.sampled_csc, Mapping) else 'without'} types"
            )
        if isinstance(self.sampled_csc, CSCFormatBase):
            kept = _kept(
                self.sampled_csc, self.original_row_node_ids, self.original_column_node_ids, edges
            )
            csc, ids = _sliced(self.sampled_csc, self.original_edge_ids, kept)
            return type(self)(csc, self.original_column_node_ids, self.original_row_node_ids, ids)
        all_csc: dict[str, CSCFormatBase] = {}
        all_ids: dict[str, Tensor | None] | None = None if self.original_edge_ids is None else {}
        for etype, csc in self.sampled_csc.items():
            ids = None if all_ids is None else self.original_edge_ids[etype]
            if etype in edges:
                source, _, destination = etype_str_to_tuple(etype)
                rows, columns = self.original_row_node_ids, self.original_column_node_ids
                kept = _kept(
                    csc,
                    None if rows is None else rows.get(source),
                    None if columns is None else columns.get(destination),
                    edges[etype],
                )
                csc, ids = _sliced(csc, ids, kept)
            all_csc[etype] = csc
            if all_ids is not None:
                all_ids[etype] = ids
        return type(self)(
            all_csc, self.original_column_node_ids, self.original_row_node_ids, all_ids
        )

    def to(self, device: torch.device | str) -> SampledSubgraph:
        """Moves all tensors, and returns the same object."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, moved(getattr(self, field.name), device))
        return self


SampledSubgraphImpl = SampledSubgraph


def _kept(csc: CSCFormatBase, rows: Tensor | None, columns: Tensor | None, edges: Any) -> Tensor:
    """Returns the places of edges that are not to be left out."""
    src = csc.indices if rows is None else rows[csc.indices]
    dst = expand_indptr(csc.indptr, src.dtype, columns, len(src))
    u, v = (edges[:, 0], edges[:, 1]) if isinstance(edges, Tensor) else edges
    u, v = u.to(src), v.to(dst)
    if len(src) == 0 or len(u) == 0:
        return torch.arange(len(src), device=src.device)
    # A number for each pair: those of sources and destinations are small.
    _, s = torch.unique(torch.cat([src, u]), return_inverse=True)
    _, d = torch.unique(torch.cat([dst, v]), return_inverse=True)
    pairs = s * (int(d.max()) + 1) + d
    return (~torch.isin(pairs[: len(src)], pairs[len(src) :])).nonzero().view(-1)


def _sliced(
    csc: CSCFormatBase, ids: Tensor | None, kept: Tensor
) -> tuple[CSCFormatBase, Tensor | None]:
    indptr = torch.searchsorted(kept, csc.indptr.to(kept.dtype)).to(csc.indptr.dtype)
    return CSCFormatBase(indptr, csc.indices[kept]), None if ids is None else ids[kept]


def add_reverse_edges(edges: Any, reverse_etypes_mapping: Mapping[str, str] | None = None) -> Any:
    """Returns edges and those that lead back.

    Args:
        edges: a pair of sources and destinations, or by edge type.
        reverse_etypes_mapping: from edge types to those of the way back.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> gb.add_reverse_edges((torch.tensor([0, 1]), torch.tensor([2, 3])))
        (tensor([0, 1, 2, 3]), tensor([2, 3, 0, 1]))
    """
    if not isinstance(edges, Mapping):
        u, v = edges
        return torch.cat([u, v]), torch.cat([v, u])
    found = dict(edges)
    for etype, back in (reverse_etypes_mapping or {}).items():
        if etype in edges:
            u, v = edges[etype]
            known = found.get(back, (u[:0], v[:0]))
            found[back] = torch.cat([known[0], v]), torch.cat([known[1], u])
    return found


def add_reverse_edges_2(edges: Any, reverse_etypes_mapping: Mapping[str, str] | None = None) -> Any:
    """As :func:`add_reverse_edges`, of edges [n, 2].

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> gb.add_reverse_edges_2(torch.tensor([[0, 2], [1, 3]]))
        tensor([[0, 2],
                [1, 3],
                [2, 0],
                [3, 1]])
    """
    if not isinstance(edges, Mapping):
        return torch.cat([edges, edges.flip(1)])
    found = dict(edges)
    for etype, back in (reverse_etypes_mapping or {}).items():
        if etype in edges:
            reverse = edges[etype].flip(1)
            found[back] = torch.cat([found[back], reverse]) if back in found else reverse
    return found

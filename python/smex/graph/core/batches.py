"""The sizes of the graphs that a batched graph is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.core.graph_core import GraphCore
from smex.graph.words import CanonicalType, EdgeType

if TYPE_CHECKING:
    from typing_extensions import Self

_Key = TypeVar("_Key")


class BatchMixin(GraphCore):
    """Batch sizes of :class:`smex.graph.Graph`."""

    @property
    def batch_size(self) -> int:
        """Number of graphs in the batch; 1 for a graph that is none."""
        if self._batch_num_nodes is None:
            return 1
        return next(iter(self._batch_num_nodes.values())).shape[0]

    def batch_num_nodes(self, ntype: str | None = None) -> Tensor:
        """Number of nodes of a type in each graph of the batch ``[batch_size]``.

        Example:
            >>> g = sg.batch([sg.graph(([0], [1])), sg.graph(([0], [2]))])
            >>> g.batch_num_nodes()
            tensor([2, 3])
        """
        slot = self._node_slot(ntype)
        if self._batch_num_nodes is None:
            return self._one(self._slot_size(slot))
        if slot.ntype not in self._batch_num_nodes:
            raise SmexValueError(
                f'batch_num_nodes: no sizes were set for node type "{slot.ntype}"; pass them to '
                "set_batch_num_nodes"
            )
        return self._batch_num_nodes[slot.ntype]

    def batch_num_edges(self, etype: EdgeType = None) -> Tensor:
        """Number of edges of a type in each graph of the batch ``[batch_size]``.

        The edges of a graph need not stand together, such as after
        :func:`smex.graph.add_self_loop`, which adds edges behind all others.
        """
        canonical = self.to_canonical_etype(etype)
        if self._batch_num_edges is None:
            return self._one(self._relations[canonical].num_edges)
        if canonical not in self._batch_num_edges:
            raise SmexValueError(
                f"batch_num_edges: no sizes were set for edge type {canonical!r}; pass them to "
                "set_batch_num_edges"
            )
        return self._batch_num_edges[canonical]

    def set_batch_num_nodes(self, val: Any) -> None:
        """Make the graph a batch: the number of nodes in each part, by type if there are several.

        Args:
            val: a vector, or {type: vector}; vectors of one length.

        Raises:
            SmexTypeError: a vector for a graph of several node types.
            SmexValueError: an unknown type, or vectors of different lengths.
        """
        if not isinstance(val, Mapping):
            if len(self._src_num_nodes) != 1:
                raise SmexTypeError(
                    "set_batch_num_nodes: the graph has several node types, expected a dict from "
                    f"type to sizes, found {type(val).__name__}"
                )
            val = {next(iter(self._src_num_nodes)): val}
        sizes = {self._node_slot(key).ntype: value for key, value in val.items()}
        self._batch_num_nodes = self._batch_sizes("set_batch_num_nodes", sizes)

    def set_batch_num_edges(self, val: Any) -> None:
        """Make the graph a batch: the number of edges in each part, by type if there are several.

        See :meth:`set_batch_num_nodes`.
        """
        if not isinstance(val, Mapping):
            if len(self._relations) != 1:
                raise SmexTypeError(
                    "set_batch_num_edges: the graph has several edge types, expected a dict from "
                    f"type to sizes, found {type(val).__name__}"
                )
            val = {None: val}
        sizes = {self.to_canonical_etype(key): value for key, value in val.items()}
        self._batch_num_edges = self._batch_sizes("set_batch_num_edges", sizes)

    def _batched_as(self, g: GraphCore) -> Self:
        """Make this graph a batch of the parts of one with the same nodes, and return it.

        An edge belongs to the part that its source belongs to.
        """
        sizes = g._batch_num_nodes
        if sizes is None:
            return self
        self._batch_num_nodes = {t: s for t, s in sizes.items() if t in self._src_num_nodes}
        self._batch_num_edges = {}
        for canonical, relation in self._relations.items():
            if canonical[0] in sizes:
                own = sizes[canonical[0]]
                part = _parts(own)[relation.coo()[0].long()]
                counts = torch.bincount(part, minlength=own.shape[0])
                self._batch_num_edges[canonical] = counts.to(own.dtype)
        return self

    def _edge_parts(self, canonical: CanonicalType) -> Tensor:
        """Which part of the batch each edge of a type belongs to, int64 ``[num_edges]``.

        That of its source, unless the sizes contradict each other: then edges belong to parts one
        after another, and those beyond the sizes to none of them (``batch_size``).
        """
        edges = self.batch_num_edges(canonical)
        relation = self._relations[canonical]
        ids = torch.arange(relation.num_edges, device=self.device)
        in_order = torch.searchsorted(edges.long().cumsum(0), ids, right=True)
        nodes = (self._batch_num_nodes or {}).get(canonical[0])
        if nodes is None or nodes.shape != edges.shape or int(nodes.sum()) != relation.num_src:
            return in_order
        by_source = _parts(nodes)[relation.coo()[0].long()]
        counts = torch.bincount(by_source, minlength=edges.shape[0])
        return by_source if torch.equal(counts, edges.long()) else in_order

    def _edge_order(self, canonical: CanonicalType) -> Tensor | None:
        """Returns the edges of each part together, part after part.

        None where they are so already.
        """
        if self.batch_size == 1:
            return None
        parts = self._edge_parts(canonical)
        if bool((parts[1:] >= parts[:-1]).all()):
            return None
        return parts.argsort(stable=True)

    def _batch_sizes(self, what: str, sizes: Mapping[_Key, Any]) -> dict[_Key, Tensor]:
        result = {key: self._as_ids(value, what) for key, value in sizes.items()}
        lengths = {value.shape[0] for value in result.values()}
        if len(lengths) != 1:
            raise SmexValueError(
                f"{what}: expected sizes of one length for every type, found {sorted(lengths)}"
            )
        return result

    def _one(self, value: int) -> Tensor:
        return torch.tensor([value], dtype=self.idtype, device=self.device)


def _parts(sizes: Tensor) -> Tensor:
    """Returns the part of each row, where parts of these sizes stand one after another, int64."""
    sizes = sizes.long()
    return torch.arange(sizes.shape[0], device=sizes.device).repeat_interleave(sizes)

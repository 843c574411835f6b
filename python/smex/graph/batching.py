"""The sizes of the graphs that a batched graph is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.core import EdgeType, GraphCore

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
        """Number of edges of a type in each graph of the batch ``[batch_size]``."""
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

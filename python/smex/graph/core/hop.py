"""One hop of message passing: edges, and the features beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexTypeError
from smex.graph.core.graph_core import GraphCore
from smex.graph.features.column import MissingFeatureError, check_column, check_layout
from smex.graph.features.frame import Frame
from smex.graph.function import BuiltinFunction, MessageFunction
from smex.graph.structure.relation import Relation
from smex.graph.udf import EdgeBatch
from smex.graph.words import CanonicalType, EdgeType, describe, named

Columns = Mapping[str, Tensor]

ROLES = {"u": "source node", "v": "destination node", "e": "edge"}
"""Whose features an operand's letter stands for."""


class Hop(NamedTuple):
    """The edges that messages run along, and the features at their ends."""

    graph: Any
    etype: CanonicalType
    relation: Relation
    src: Frame
    dst: Frame
    edge: Frame
    dst_nodes: Tensor | None = None  # ids in the graph of the destinations; None: all
    edge_ids: Tensor | None = None  # ids in the graph of the edges; None: all

    def operands(self, message: MessageFunction) -> list[Tensor]:
        """Returns the features that a built-in message reads."""
        try:
            return [
                (self.src if letter == "u" else self.edge if letter == "e" else self.dst)[field]
                for letter, field in message.operands
            ]
        except MissingFeatureError:
            raise self._missing(message) from None

    def _missing(self, message: MessageFunction) -> MissingFeatureError:
        """Returns the error for the first feature that is not set."""
        frames = {"u": self.src, "v": self.dst, "e": self.edge}
        letter, field = next(pair for pair in message.operands if pair[1] not in frames[pair[0]])
        return frames[letter].missing(field, frames[letter].owner_as(ROLES[letter]))

    def with_names(self, error: Exception, message: MessageFunction) -> Exception:
        """An error of a kernel, which numbers its operands, with the features that they are."""
        frames = {"u": self.src, "v": self.dst, "e": self.edge}
        names = [
            f"{x}{i} is feature {named(field)} of {frames[x].owner_as(ROLES[x]).plural()}"
            for i, (x, field) in enumerate(message.operands)
        ]
        return type(error)(f"{error}; {', '.join(names)}")

    def edge_batch(self) -> EdgeBatch:
        """Returns all edges of the hop, as a message function sees them."""
        src, dst = self.relation.coo()
        ids = self.edge_ids
        if ids is None:
            ids = torch.arange(src.shape[0], dtype=src.dtype, device=src.device)
        ends = dst if self.dst_nodes is None else self.dst_nodes[dst]
        src_rows = self.src.subframe(src, ROLES["u"])
        dst_rows = self.dst.subframe(dst, ROLES["v"])
        edge_rows = self.edge.clone()
        return EdgeBatch(
            self.graph, ids, self.etype, src_rows, edge_rows, dst_rows, src=src, dst=ends
        )

    def all_dst_nodes(self) -> Tensor:
        """Ids in the graph of the destinations."""
        if self.dst_nodes is not None:
            return self.dst_nodes
        relation = self.relation
        return torch.arange(relation.num_dst, dtype=relation.idtype, device=relation.device)


def hop_of(graph: GraphCore, etype: EdgeType) -> Hop:
    """Returns all edges of a type."""
    canonical = graph.to_canonical_etype(etype)
    return Hop(
        graph,
        canonical,
        graph._relations[canonical],
        graph._src_frames[canonical[0]],
        graph._dst_frames[canonical[2]],
        graph._edge_frames[canonical],
    )


def check_function(kind: str, function: Any, builtin: type) -> None:
    """Raise unless it is a built-in of that kind or something to call."""
    if isinstance(function, builtin):
        return
    if isinstance(function, BuiltinFunction) or not callable(function):
        raise SmexTypeError(
            f"{kind} function: expected a built-in {kind} function or a callable, found "
            f"{function!r}; built-ins are in smex.graph.function"
        )


def checked_columns(kind: str, result: Any, num_rows: int, owner: object) -> Columns:
    """Returns what a user's function returned, which must be a dict of columns.

    Args:
        kind: of the function.
        result: what it returned.
        num_rows: how many rows the columns must have.
        owner: what each row is for, in an error message.
    """
    if not isinstance(result, Mapping):
        raise SmexTypeError(
            f"{kind} function: expected a dict from names to tensors as its result, found "
            f"{describe(result)}"
        )
    for name, value in result.items():
        check_column(name, value, num_rows, owner, kind)
        check_layout(name, value)
    return result

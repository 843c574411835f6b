"""One step of message passing: edges, the features beside them, and what runs on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph import fusion
from smex.graph.core import CanonicalType
from smex.graph.degree_bucketing import reduce_in_buckets
from smex.graph.frame import Frame, MissingFeatureError, check_column, check_layout, describe, named
from smex.graph.function import BuiltinFunction, MessageFunction, ReduceFunction
from smex.graph.ops.kernels import aggregate, for_operands, per_edge
from smex.graph.relation import Relation
from smex.graph.udf import EdgeBatch, NodeBatch

Columns = Mapping[str, Tensor]

ROLES = {"u": "source node", "v": "destination node", "e": "edge"}
"""Whose features an operand's letter stands for."""


class Step(NamedTuple):
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
        """The features that a built-in message reads."""
        try:
            return [
                (self.src if letter == "u" else self.edge if letter == "e" else self.dst)[field]
                for letter, field in message.operands
            ]
        except MissingFeatureError:
            raise self._missing(message) from None

    def _missing(self, message: MessageFunction) -> MissingFeatureError:
        """The error for the first feature that is not set."""
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
        """All edges of the step, as a message function sees them."""
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


def pass_messages(
    step: Step, message: Any, reduce: Any, apply: Any = None, zero_empty: bool = True
) -> Columns:
    """What the destinations get: a column for each output of the reduce or the apply function.

    Built-in functions run as one kernel; so does a user's function that can be fused; the others
    run on buckets of nodes with the same number of messages.

    Args:
        step: edges and features.
        message: built-in or function of an EdgeBatch.
        reduce: built-in or function of a NodeBatch with a mailbox.
        apply: function of a NodeBatch that sees the results; its results take their place.
        zero_empty: False: a built-in ``max`` or ``min`` is -inf or inf without messages.
    """
    if isinstance(message, MessageFunction) and isinstance(reduce, ReduceFunction):
        result: Columns = {reduce.out_field: _builtin(step, message, reduce, zero_empty)}
    else:
        result = _with_functions(step, message, reduce, zero_empty)
    return result if apply is None else _applied(step, result, apply)


def _builtin(
    step: Step, message: MessageFunction, reduce: ReduceFunction, zero_empty: bool
) -> Tensor:
    if message.out_field != reduce.msg_field:
        raise SmexValueError(
            f"message passing: {reduce!r} reads {named(reduce.msg_field)}, but {message!r} sends "
            f"{named(message.out_field)}; give both the same name"
        )
    operands = step.operands(message)
    sent = message.message
    try:
        if len(operands) == 2:
            sent = for_operands(sent, operands[0], operands[1])
        return aggregate(step.relation, sent, reduce.name, operands, zero_empty)
    except (TypeError, ValueError) as error:
        raise step.with_names(error, message) from None


def _with_functions(step: Step, message: Any, reduce: Any, zero_empty: bool) -> Columns:
    check_function("message", message, MessageFunction)
    check_function("reduce", reduce, ReduceFunction)
    # Some nodes without any message keep what they have: a user's reduce function has no result.
    keeps = step.dst_nodes is not None and step.relation.num_edges == 0
    is_called = isinstance(reduce, ReduceFunction) or not keeps
    if is_called and not torch.compiler.is_compiling():
        fused = fusion.fuse(step, message, reduce)
        if isinstance(fused, fusion.Fused):
            return fused.run(zero_empty)
    messages = edge_results(step, message, "message")
    if not isinstance(reduce, ReduceFunction):
        return reduce_in_buckets(step, reduce, messages)
    if reduce.msg_field not in messages:
        have = ", ".join(named(name) for name in messages) or "none"
        raise SmexValueError(
            f"message passing: {reduce!r} reads {named(reduce.msg_field)}, which the message "
            f"function does not send; it sends {have}"
        )
    value = messages[reduce.msg_field]
    try:
        out = aggregate(step.relation, "e0", reduce.name, [value], zero_empty)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}; e0 is message {named(reduce.msg_field)}") from None
    return {reduce.out_field: out}


def edge_results(step: Step, function: Any, kind: str) -> Columns:
    """What a message or apply function makes of all edges of the step, ``[num_edges, ...]``."""
    if isinstance(function, MessageFunction):
        operands = step.operands(function)
        sent = function.message
        try:
            if len(operands) == 2:
                sent = for_operands(sent, operands[0], operands[1])
            return {function.out_field: per_edge(step.relation, sent, operands)}
        except (TypeError, ValueError) as error:
            raise step.with_names(error, function) from None
    result = function(step.edge_batch())
    return checked_columns(kind, result, step.relation.num_edges, step.edge.owner)


def _applied(step: Step, result: Columns, apply: Callable[..., Any]) -> Columns:
    data = step.dst.clone()
    data.update(result)
    batch = NodeBatch(step.graph, step.all_dst_nodes(), step.etype[2], data)
    return checked_columns("apply", apply(batch), step.relation.num_dst, step.dst.owner)


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
    """What a user's function returned, which must be a dict of columns.

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

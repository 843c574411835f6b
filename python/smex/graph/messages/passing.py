"""Messages along the edges of one hop, and what the destinations make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.core.hop import Columns, Hop, check_function, checked_columns
from smex.graph.function import MessageFunction, ReduceFunction
from smex.graph.messages.buckets import reduce_in_buckets
from smex.graph.ops.kernels import aggregate, for_operands, per_edge
from smex.graph.tracing import fuse as fusion
from smex.graph.udf import NodeBatch
from smex.graph.words import named


def pass_messages(
    hop: Hop, message: Any, reduce: Any, apply: Any = None, zero_empty: bool = True
) -> Columns:
    """What the destinations get: a column for each output of the reduce or the apply function.

    Built-in functions run as one kernel; so does a user's function that can be fused; the others
    run on buckets of nodes with the same number of messages.

    Args:
        hop: edges and features.
        message: built-in or function of an EdgeBatch.
        reduce: built-in or function of a NodeBatch with a mailbox.
        apply: function of a NodeBatch that sees the results; its results take their place.
        zero_empty: False: a built-in ``max`` or ``min`` is -inf or inf without messages.
    """
    if isinstance(message, MessageFunction) and isinstance(reduce, ReduceFunction):
        result: Columns = {reduce.out_field: _builtin(hop, message, reduce, zero_empty)}
    else:
        result = _with_functions(hop, message, reduce, zero_empty)
    return result if apply is None else _applied(hop, result, apply)


def _builtin(
    hop: Hop, message: MessageFunction, reduce: ReduceFunction, zero_empty: bool
) -> Tensor:
    if message.out_field != reduce.msg_field:
        raise SmexValueError(
            f"message passing: {reduce!r} reads {named(reduce.msg_field)}, but {message!r} sends "
            f"{named(message.out_field)}; give both the same name"
        )
    operands = hop.operands(message)
    sent = message.message
    try:
        if len(operands) == 2:
            sent = for_operands(sent, operands[0], operands[1])
        return aggregate(hop.relation, sent, reduce.name, operands, zero_empty)
    except (TypeError, ValueError) as error:
        raise hop.with_names(error, message) from None


def _with_functions(hop: Hop, message: Any, reduce: Any, zero_empty: bool) -> Columns:
    check_function("message", message, MessageFunction)
    check_function("reduce", reduce, ReduceFunction)
    # Some nodes without any message keep what they have: a user's reduce function has no result.
    keeps = hop.dst_nodes is not None and hop.relation.num_edges == 0
    is_called = isinstance(reduce, ReduceFunction) or not keeps
    if is_called and not torch.compiler.is_compiling():
        fused = fusion.fuse(hop, message, reduce)
        if isinstance(fused, fusion.Fused):
            return fused.run(zero_empty)
    messages = edge_results(hop, message, "message")
    if not isinstance(reduce, ReduceFunction):
        return reduce_in_buckets(hop, reduce, messages)
    if reduce.msg_field not in messages:
        have = ", ".join(named(name) for name in messages) or "none"
        raise SmexValueError(
            f"message passing: {reduce!r} reads {named(reduce.msg_field)}, which the message "
            f"function does not send; it sends {have}"
        )
    value = messages[reduce.msg_field]
    try:
        out = aggregate(hop.relation, "e0", reduce.name, [value], zero_empty)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}; e0 is message {named(reduce.msg_field)}") from None
    return {reduce.out_field: out}


def edge_results(hop: Hop, function: Any, kind: str) -> Columns:
    """What a message or apply function makes of all edges of the hop, ``[num_edges, ...]``."""
    if isinstance(function, MessageFunction):
        operands = hop.operands(function)
        sent = function.message
        try:
            if len(operands) == 2:
                sent = for_operands(sent, operands[0], operands[1])
            return {function.out_field: per_edge(hop.relation, sent, operands)}
        except (TypeError, ValueError) as error:
            raise hop.with_names(error, function) from None
    result = function(hop.edge_batch())
    return checked_columns(kind, result, hop.relation.num_edges, hop.edge.owner)


def _applied(hop: Hop, result: Columns, apply: Callable[..., Any]) -> Columns:
    data = hop.dst.clone()
    data.update(result)
    batch = NodeBatch(hop.graph, hop.all_dst_nodes(), hop.etype[2], data)
    return checked_columns("apply", apply(batch), hop.relation.num_dst, hop.dst.owner)

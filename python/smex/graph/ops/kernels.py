"""From a relation and a message to the ``smex::`` operators that compute it.

A message is data, or the text that the operators read: ``"u0 * e1"`` multiplies operand 0, a
feature of the edge's source, by operand 1, a feature of the edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.formula import Message
from smex.graph.function import binary_message
from smex.graph.ops.formula_values import evaluate
from smex.graph.structure.relation import Relation
from smex.graph.words import counted

REDUCERS = ("sum", "mean", "max", "min")
"""What messages can be reduced by in one kernel."""


def aggregate(
    relation: Relation,
    message: Message | str,
    reduce: str,
    operands: Sequence[Tensor],
    zero_empty: bool = True,
) -> Tensor:
    """Returns what each destination makes of its messages: ``[num_dst, ...]``.

    No message is stored. Integer features take the plain way: messages are stored, and their sum is
    int64, as that of torch.sum.

    Args:
        relation: the edges.
        message: what each edge sends.
        reduce: sum, mean, max or min.
        operands: features ``[num_src | num_dst | num_edges, ...]``, as the message numbers them.
        zero_empty: whether ``max`` and ``min`` are 0 without messages, instead of -inf and inf.
    """
    check_sources(relation, message, operands)
    if not operands[0].dtype.is_floating_point:
        return _reduce_plainly(relation, message, reduce, operands, zero_empty)
    text = str_of(message)
    ops = torch.ops.smex
    out_edges = edges_of_gradient(relation, operands)
    if reduce == "sum" or reduce == "mean":
        return ops.spmm.default(relation.in_edges(), out_edges, text, reduce, operands)
    return ops.spmm_extremum.default(
        relation.in_edges(), out_edges, text, reduce, operands, zero_empty, False
    )[0]


def per_edge(relation: Relation, message: Message | str, operands: Sequence[Tensor]) -> Tensor:
    """Returns the message of every edge: ``[num_edges, ...]``."""
    check_sources(relation, message, operands)
    if not operands[0].dtype.is_floating_point:
        return _message_plainly(relation, message, operands)
    out_edges = edges_of_gradient(relation, operands)
    text = str_of(message)
    return torch.ops.smex.sddmm.default(relation.in_edges(), out_edges, text, operands)


def str_of(message: Message | str) -> str:
    """Returns the text of a message."""
    return message if isinstance(message, str) else message.text


def softmax_over_edges(relation: Relation, score: Tensor, norm_by: str = "dst") -> Tensor:
    """Softmax of ``score [num_edges, ...]`` over the edges into (dst) or out of (src) each node."""
    edges = relation.in_edges() if norm_by == "dst" else relation.out_edges()
    return torch.ops.smex.edge_softmax.default(edges, score)


def for_operands(message: Message, lhs: Tensor, rhs: Tensor) -> Message:
    """Returns the message of a binary built-in for these operands, which are checked.

    A ``dot`` of operands without feature dimensions is their product.

    Raises:
        SmexTypeError: dtypes differ, outside of autocast.
        SmexValueError: the last dimensions of a ``dot`` differ.
    """
    if lhs.dtype != rhs.dtype and not torch.is_autocast_enabled(lhs.device.type):
        raise SmexTypeError(
            f"message {message.text}: operands must have one dtype, found {lhs.dtype} and "
            f"{rhs.dtype}; convert one of them"
        )
    if message.term.op != "dot":
        return message
    if lhs.dim() == 1 and rhs.dim() == 1:
        return binary_message("mul", *message.letters)
    left, right = (x.shape[-1] if x.dim() > 1 else 1 for x in (lhs, rhs))
    if left != right:
        raise SmexValueError(
            f"message {message.text}: the last dimensions must be equal, found {left} and {right}"
        )
    return message


def check_sources(relation: Relation, message: Message | str, operands: Sequence[Tensor]) -> None:
    """Checks what the operators cannot know without edges by source; they check all other rows."""
    text, letters = (message, "") if isinstance(message, str) else ("", message.letters)
    for i, operand in enumerate(operands):
        reads = letters[i] == "u" if letters else f"u{i}" in text
        if reads and operand.dim() and operand.shape[0] != relation.num_src:
            raise SmexValueError(
                f"message {str_of(message)}: expected operand u{i} of "
                f"{counted(relation.num_src, 'row')}, one for each source node, found "
                f"{operand.shape[0]}"
            )


def edges_of_gradient(relation: Relation, operands: Sequence[Tensor]) -> list[Tensor]:
    """Returns the edges by source where a gradient will need them, else none."""
    if torch.is_grad_enabled():
        for operand in operands:
            if operand.requires_grad:
                return relation.out_edges()
    return no_edges(relation.in_edges()) if torch.compiler.is_exporting() else []


def no_edges(edges: Sequence[Tensor]) -> list[Tensor]:
    """Returns what the operators take for none, of the type of edges.

    AOTInductor calls with None where a list is empty.
    """
    return [edges[0].new_empty(0)] if torch.compiler.is_exporting() else []


# ---- dtypes that the kernels do not have ----


def _message_plainly(
    relation: Relation, message: Message | str, operands: Sequence[Tensor]
) -> Tensor:
    """Returns a message by torch, with its operands gathered."""
    if isinstance(message, str):
        message = Message.parse(message)
    src, dst = relation.coo()
    rank = max(x.dim() for x in operands)
    rows = {"u": src, "v": dst}
    gathered = [_gather(x, rows.get(letter), rank) for letter, x in zip(message.letters, operands)]
    try:
        return evaluate(message.term, lambda operand: gathered[operand.number])
    except RuntimeError:
        shapes = [list(x.shape[1:]) for x in operands]
        if len(shapes) == 2 and not broadcasts(*shapes):
            raise SmexValueError(
                f"message {message.text}: feature shapes {shapes[0]} and {shapes[1]} do not "
                "broadcast; reshape one of them"
            ) from None
        raise


def broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    """Returns whether shapes line up from the right."""
    return all(1 in pair or pair[0] == pair[1] for pair in zip(reversed(a), reversed(b)))


def _gather(x: Tensor, index: Tensor | None, rank: int) -> Tensor:
    x = x.reshape(x.shape[0], *(1,) * (rank - x.dim()), *x.shape[1:])
    return x if index is None else x.index_select(0, index)


def _reduce_plainly(
    relation: Relation,
    sent: Message | str,
    reduce: str,
    operands: Sequence[Tensor],
    zero_empty: bool,
) -> Tensor:
    message = _message_plainly(relation, sent, operands)
    if reduce == "mean" or message.dtype == torch.bool or message.is_complex():
        raise SmexTypeError(
            f"{reduce} of messages {str_of(sent)}: expected floating point features (integers too "
            f"for sum, max and min), found {operands[0].dtype}; convert them first"
        )
    dst = relation.coo()[1].long()
    out = message.new_zeros(relation.num_dst, *message.shape[1:])
    if reduce == "sum":  # in int64, as torch.sum adds up integers
        return out.long().index_add(0, dst, message.long())
    index = dst.view(-1, *(1,) * (message.dim() - 1)).expand_as(message)
    if not zero_empty:
        out.fill_(_lowest(message.dtype) if reduce == "max" else _highest(message.dtype))
    return out.scatter_reduce(0, index, message, "a" + reduce, include_self=False)


def _lowest(dtype: torch.dtype) -> Any:
    return torch.iinfo(dtype).min if not dtype.is_floating_point else float("-inf")


def _highest(dtype: torch.dtype) -> Any:
    return torch.iinfo(dtype).max if not dtype.is_floating_point else float("inf")

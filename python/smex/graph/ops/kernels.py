"""From a relation and a message text to the ``smex::`` operators that compute it.

A message text is what the operators read: ``"u0 * e1"`` multiplies operand 0, a feature of the
edge's source, by operand 1, a feature of the edge.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.structure.relation import Relation
from smex.graph.words import counted

REDUCERS = ("sum", "mean", "max", "min")
"""What messages can be reduced by in one kernel."""


def aggregate(
    relation: Relation,
    text: str,
    reduce: str,
    operands: Sequence[Tensor],
    zero_empty: bool = True,
) -> Tensor:
    """What each destination makes of its messages: ``[num_dst, ...]``.

    No message is stored. Integer features take the plain way: messages are stored, and their sum is
    int64, as that of torch.sum.

    Args:
        relation: the edges.
        text: the message.
        reduce: sum, mean, max or min.
        operands: features ``[num_src | num_dst | num_edges, ...]``, as the text numbers them.
        zero_empty: whether ``max`` and ``min`` are 0 without messages, instead of -inf and inf.
    """
    check_sources(relation, text, operands)
    if not operands[0].dtype.is_floating_point:
        return _reduce_plainly(relation, text, reduce, operands, zero_empty)
    ops = torch.ops.smex
    out_edges = edges_of_gradient(relation, operands)
    if reduce == "sum" or reduce == "mean":
        return ops.spmm.default(relation.in_edges(), out_edges, text, reduce, operands)
    return ops.spmm_extremum.default(
        relation.in_edges(), out_edges, text, reduce, operands, zero_empty, False
    )[0]


def per_edge(relation: Relation, text: str, operands: Sequence[Tensor]) -> Tensor:
    """The message of every edge: ``[num_edges, ...]``."""
    check_sources(relation, text, operands)
    if not operands[0].dtype.is_floating_point:
        return _message_plainly(relation, text, operands)
    out_edges = edges_of_gradient(relation, operands)
    return torch.ops.smex.sddmm.default(relation.in_edges(), out_edges, text, operands)


def softmax_over_edges(relation: Relation, score: Tensor, norm_by: str = "dst") -> Tensor:
    """Softmax of ``score [num_edges, ...]`` over the edges into (dst) or out of (src) each node."""
    edges = relation.in_edges() if norm_by == "dst" else relation.out_edges()
    return torch.ops.smex.edge_softmax.default(edges, score)


def binary_text(text: str, lhs: Tensor, rhs: Tensor) -> str:
    """The text of a binary built-in for these operands, which are checked.

    A ``dot`` of operands without feature dimensions is their product.

    Raises:
        SmexTypeError: dtypes differ, outside of autocast.
        SmexValueError: the last dimensions of a ``dot`` differ.
    """
    if lhs.dtype != rhs.dtype and not torch.is_autocast_enabled(lhs.device.type):
        raise SmexTypeError(
            f"message {text}: operands must have one dtype, found {lhs.dtype} and {rhs.dtype}; "
            "convert one of them"
        )
    if text[0] != "d":
        return text
    if lhs.dim() == 1 and rhs.dim() == 1:
        return f"{text[4:6]} * {text[8:10]}"
    left, right = (x.shape[-1] if x.dim() > 1 else 1 for x in (lhs, rhs))
    if left != right:
        raise SmexValueError(
            f"message {text}: the last dimensions must be equal, found {left} and {right}"
        )
    return text


def check_sources(relation: Relation, text: str, operands: Sequence[Tensor]) -> None:
    """What the operators cannot know without edges by source; they check all other rows."""
    for i, operand in enumerate(operands):
        if f"u{i}" in text and operand.dim() and operand.shape[0] != relation.num_src:
            raise SmexValueError(
                f"message {text}: expected operand u{i} of {counted(relation.num_src, 'row')}, one "
                f"for each source node, found {operand.shape[0]}"
            )


def edges_of_gradient(relation: Relation, operands: Sequence[Tensor]) -> list[Tensor]:
    """The edges by source where a gradient will need them, else an empty list."""
    if torch.is_grad_enabled():
        for operand in operands:
            if operand.requires_grad:
                return relation.out_edges()
    return []


# ---- dtypes that the kernels do not have ----

_SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def _message_plainly(relation: Relation, text: str, operands: Sequence[Tensor]) -> Tensor:
    """A built-in message, with its operands gathered."""
    src, dst = relation.coo()
    rank = max(x.dim() for x in operands)
    words = text.removeprefix("dot(").removesuffix(")").replace(",", "").split()
    leaves = [word for word in words if word not in _SIGNS]
    rows = [
        _gather(operands[int(leaf[1:])], {"u": src, "v": dst}.get(leaf[0]), rank) for leaf in leaves
    ]
    if len(rows) == 1:
        return rows[0]
    try:
        if text[0] == "d":
            return (rows[0] * rows[1]).sum(-1, keepdim=True)
        return _SIGNS[words[1]](*rows)
    except RuntimeError:
        shapes = [list(x.shape[1:]) for x in operands]
        if not broadcasts(*shapes):
            raise SmexValueError(
                f"message {text}: feature shapes {shapes[0]} and {shapes[1]} do not broadcast; "
                "reshape one of them"
            ) from None
        raise


def broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether shapes line up from the right."""
    return all(1 in pair or pair[0] == pair[1] for pair in zip(reversed(a), reversed(b)))


def _gather(x: Tensor, index: Tensor | None, rank: int) -> Tensor:
    x = x.reshape(x.shape[0], *(1,) * (rank - x.dim()), *x.shape[1:])
    return x if index is None else x.index_select(0, index)


def _reduce_plainly(
    relation: Relation, text: str, reduce: str, operands: Sequence[Tensor], zero_empty: bool
) -> Tensor:
    message = _message_plainly(relation, text, operands)
    if reduce == "mean" or message.dtype == torch.bool or message.is_complex():
        raise SmexTypeError(
            f"{reduce} of messages {text}: expected floating point features (integers too for sum, "
            f"max and min), found {operands[0].dtype}; convert them first"
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

"""What calls compute along the last dimension, as formulas: sums, norms and softmax.

Sums and the like are columns: they have one number for each row of that dimension.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

from smex.formula import Term
from smex.vertex.compile.formulas import Formula, term
from smex.vertex.compile.simplify import readers
from smex.vertex.compile.trace import Joint

__all__ = ["WIDE", "call_by_rows", "formula_by_rows", "rows_of", "split_gradients"]

aten = torch.ops.aten

LONGEST = 4096
"""What passes between the calls of a program for longer rows no longer fits the caches."""

WIDEST_KEPT = 128
"""Gradients of rows of more numbers are not written to memory for the sake of sums over them."""

WIDE = (torch.float32, torch.float64)
"""Types that programs on CPUs compute with."""


def _sum(x: Formula) -> Term:
    return term("sum_last", x)


def _mean(x: Formula, size: int) -> Term:
    return term("/", _sum(x), size)


def _squares(x: Formula) -> Term:
    return _sum(term("*", x, x))


def _from_max(x: Formula) -> Term:
    return term("-", x, term("max_last", x))


def _softmax(size: int, x: Formula, *_: Any) -> Term:
    share = term("exp", _from_max(x))
    return term("/", share, _sum(share))


def _softmax_backward(size: int, grad: Formula, y: Formula, *_: Any) -> Term:
    return term("*", y, term("-", grad, _sum(term("*", grad, y))))


def _log_softmax(size: int, x: Formula, *_: Any) -> Term:
    return term("-", _from_max(x), term("log", _sum(term("exp", _from_max(x)))))


def _log_softmax_backward(size: int, grad: Formula, y: Formula, *_: Any) -> Term:
    return term("-", grad, term("*", term("exp", y), _sum(grad)))


def _layer_norm(
    size: int, x: Formula, shape: Any, weight: Formula | None, bias: Formula | None, eps: float
) -> list[Term]:
    """The normalised rows, their means, and one over their standard deviations."""
    mean = _mean(x, size)
    centred = term("-", x, mean)
    scale = term("/", 1, term("sqrt", term("+", term("/", _squares(centred), size), eps)))
    y = term("*", centred, scale)
    if weight is not None:
        y = term("*", y, weight)
    if bias is not None:
        y = term("+", y, bias)
    return [y, mean, scale]


def _layer_norm_backward(
    size: int, grad: Formula, x: Formula, shape: Any, mean: Formula, scale: Formula,
    weight: Formula | None, *_: Any,
) -> list[Term]:  # fmt: skip
    """The gradient of the rows."""
    grad = grad if weight is None else term("*", grad, weight)
    centred = term("-", x, mean)
    share = _mean(term("*", grad, centred), size)
    along = term("*", centred, term("*", share, term("*", scale, scale)))
    return [term("*", term("-", term("-", grad, along), _mean(grad, size)), scale)]


_REDUCING: dict[Any, Callable[..., Term]] = {
    aten.amax.default: lambda size, x, *_, **__: term("max_last", x),
    aten.linalg_vector_norm.default: lambda size, x, *_, **__: term("sqrt", _squares(x)),
    aten.mean.dim: lambda size, x, *_, **__: _mean(x, size),
    aten.sum.dim_IntList: lambda size, x, *_, **__: _sum(x),
}
"""Those with a result of one column."""

_SOFTMAX: dict[Any, Callable[..., Term]] = {
    aten._log_softmax.default: _log_softmax,
    aten._log_softmax_backward_data.default: _log_softmax_backward,
    aten._softmax.default: _softmax,
    aten._softmax_backward_data.default: _softmax_backward,
}
_NORMS: dict[Any, Callable[..., list[Term]]] = {
    aten.native_layer_norm.default: _layer_norm,
    aten.native_layer_norm_backward.default: _layer_norm_backward,
}
"""Those with several results."""

_PLACES = {
    aten.linalg_vector_norm.default: 2,
    aten._log_softmax_backward_data.default: 2,
    aten._softmax_backward_data.default: 2,
}
"""Which argument is the dimension, where it is not the second."""


def call_by_rows(node: fx.Node) -> fx.Node | None:
    """Returns the call along rows that makes a value and that a program can make, or None.

    Of several results, and of the call that has them, that call.
    """
    call: Any = node
    if node.target is operator.getitem:
        call = node.args[0]
        if call.target not in _NORMS:
            return None
    return None if rows_of(call) is None else call


def rows_of(call: fx.Node) -> Tensor | None:
    """Returns the rows along which a call computes, as a tensor without values.

    None for a call that a program cannot make.
    """
    if call.target not in _REDUCING and call.target not in _SOFTMAX and call.target not in _NORMS:
        return None
    is_backward = call.target is aten.native_layer_norm_backward.default
    operand: Any = call.args[1 if is_backward else 0]
    rows = operand.meta["val"]
    size = rows.shape[-1] if rows.ndim > 1 else 1
    is_known = rows.device.type == "cpu" and rows.dtype in WIDE and isinstance(size, int)
    if not is_known or not 1 < size <= LONGEST or not _is_along_last(call, rows):
        return None
    return rows


def _is_along_last(call: fx.Node, rows: Tensor) -> bool:
    """Returns whether a call computes along the last dimension alone, and no more than that."""
    target: Any = call.target
    args: Any = call.args
    if target is aten.native_layer_norm_backward.default:
        return len(args[2]) == 1 and list(args[7]) == [True, False, False]
    if target is aten.native_layer_norm.default:
        return len(args[1]) == 1
    place = _PLACES.get(target, 1)
    if len(args) <= place:
        return False
    if target in _SOFTMAX:
        of_type = rows.dtype if place == 2 else False
        return args[place] in (-1, rows.ndim - 1) and bool(args[place + 1] == of_type)
    others = dict(call.kwargs)
    keeps = others.pop("keepdim", args[place + 1] if len(args) > place + 1 else False)
    is_euclidean = target is not aten.linalg_vector_norm.default or args[1] == 2
    is_last = args[place] in ([-1], [rows.ndim - 1])
    return is_euclidean and is_last and keeps is True and not others


def formula_by_rows(node: fx.Node, values: Callable[[fx.Node], Formula]) -> Term:
    """Returns what a value is for which there is a call by rows."""
    call: Any = call_by_rows(node)
    rows: Any = rows_of(call)
    args: Any
    args, kwargs = fx.map_arg((call.args, call.kwargs), values)
    size, place = rows.shape[-1], node.args[-1]
    if call.target in _NORMS:
        return _NORMS[call.target](size, *args, **kwargs)[place]  # type: ignore[index]
    return {**_REDUCING, **_SOFTMAX}[call.target](size, *args, **kwargs)


def split_gradients(joint: Joint) -> None:
    """Takes the gradients of a norm's weight and bias out of the call that has that of its rows.

    They are sums over rows, which may be made once for all; the rest is a part of a program. Wide
    rows that nothing else keeps until then are added up where they are.
    """
    for node in list(joint.graph.nodes):
        if node.target is not aten.native_layer_norm_backward.default:
            continue
        args: Any = node.args
        mask, value, users = args[-1], node.meta["val"], list(node.users)
        node.args = (*args[:-1], [True, False, False])
        rows = rows_of(node)
        if rows is None or not any(mask[1:]) or _is_better_together(args[0], rows):
            node.args = args
            continue
        with joint.graph.inserting_before(node):
            of_sums = (*args[:-1], [False, *mask[1:]])
            sums = joint.graph.call_function(aten.native_layer_norm_backward.default, of_sums)
        node.meta["val"], sums.meta["val"] = (value[0], None, None), (None, *value[1:])
        for use in users:
            if use.args[1] != 0:
                use.replace_input_with(node, sums)
        if not node.users:
            joint.graph.erase_node(node)


def _is_better_together(grad: fx.Node, rows: Tensor) -> bool:
    """Returns whether the gradient of rows would be kept for sums over them alone, and is large."""
    if grad.op == "placeholder" or rows.shape[-1] <= WIDEST_KEPT:
        return False
    return all(reader.target is not aten.mm.default for reader in readers(grad))

"""Views of the rows of features, which are taken before rows are gathered."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from smex.graph.tracing.symbols.symbols import (
    Leaf,
    RefusedError,
    Symbol,
    Tracer,
    Value,
    of_leaf,
    symbol,
)
from smex.graph.tracing.symbols.values import any_value, one_dim, register


def _unsqueeze(tracer: Tracer, input: Any, dim: int) -> Symbol:
    value = any_value(input)
    rank = value.lead + len(value.shape)
    at = dim if dim >= 0 else dim + rank + 1
    if value.dropped and at == rank:
        return symbol(value._replace(shape=(*value.shape, 1), dropped=False))
    if at < value.lead or at > rank:
        raise RefusedError(f"unsqueeze({dim}) adds a dimension before those of the features")
    return _view(value, f".unsqueeze({at - rank - 1})", lambda x: x.unsqueeze(at - rank - 1))


def _squeeze(tracer: Tracer, input: Any, dim: Any = None) -> Symbol:
    value = any_value(input)
    rank = value.lead + len(value.shape)
    at = one_dim(dim)
    at = at + rank if at < 0 else at
    if not value.lead <= at < rank:
        raise RefusedError(f"squeeze({dim}) removes a dimension before those of the features")
    if value.shape[at - value.lead] != 1:
        return symbol(value)
    return _view(value, f".squeeze({at - rank})", lambda x: x.squeeze(at - rank))


def _size(tracer: Tracer, input: Any, dim: Any = None) -> Any:
    return input.shape if dim is None else input.shape[dim]


def _dim(tracer: Tracer, input: Any) -> int:
    return input.ndim


def _getitem(tracer: Tracer, input: Any, index: Any) -> Symbol:
    value = any_value(input)
    parts = index if isinstance(index, tuple) else (index,)
    if value.lead != 1 or type(parts[0]) is not slice or parts[0] != slice(None):
        raise RefusedError(f"the index {index!r} selects among edges or messages")
    if not all(x is None or type(x) in (int, slice, type(Ellipsis)) for x in parts):
        raise RefusedError("an index is a tensor or a list")
    return _view(value, f"[{index!r}]", lambda x: x[parts])


def _reshape(tracer: Tracer, input: Any, *shape: Any) -> Symbol:
    value = any_value(input)
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if value.lead != 1 or not all(type(n) is int for n in shape) or len(shape) < 1:
        raise RefusedError(f"view{shape} is not a view of the features alone")
    feature_shape = shape[1:]
    if (
        shape[0] != -1
        or math.prod(feature_shape) != math.prod(value.shape)
        or min(shape[1:], default=1) < 1
    ):
        raise RefusedError(f"view{shape} is not a view of the features alone; write view(-1, ...)")
    return _view(value, f".view{shape}", lambda x: x.reshape(x.shape[0], *feature_shape))


def _view(value: Value, key: str, view: Callable[[Tensor], Tensor]) -> Symbol:
    """Returns a view of each row, which is taken before rows are gathered; of features only."""
    leaf = value.term.args[0] if value.term.op == "leaf" else None
    if leaf is None or leaf.tensor is None:
        raise RefusedError("a view of a computed value; take the view of the features instead")
    return of_leaf(Leaf(leaf.letter, leaf.key + key, view(leaf.tensor)), value.lead)


def _detach(tracer: Tracer, input: Any) -> Symbol:
    return _view(any_value(input), ".detach()", lambda x: x.detach())


register(_detach, torch.detach, ".detach")
register(_getitem, operator.getitem)
register(_reshape, torch.reshape, ".reshape", ".view")
register(_size, ".size")
register(_dim, ".dim", ".ndimension")
register(_squeeze, torch.squeeze, ".squeeze")
register(_unsqueeze, torch.unsqueeze, ".unsqueeze")

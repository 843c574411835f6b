"""Reductions over the indices of a lambda, and functions that nothing is known of."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from smex._C import tdl as _native
from smex.tdl.expressions import Expr, Operand, as_expr, current


def parameters(function: Callable[..., Any], names: Sequence[str]) -> list[str]:
    """Returns the index names of a lambda.

    Those of `names` that are left stand for its ``*args``.
    """
    result: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            result.extend(names[len(result) :])
        elif parameter.default is inspect.Parameter.empty:
            result.append(parameter.name)
    return result


def index_names(function: Callable[..., Any], default: Sequence[str]) -> list[str]:
    """Returns the names of the indices that an output's lambda takes."""
    return parameters(function, getattr(function, "index_names", default))


def _reduce(kind: Any, function: Callable[..., Any], extents: dict[str, int]) -> Expr:
    trace_ = current()
    weighted = kind == _native.ReduceKind.softmaxmean
    names = parameters(function, list(extents))
    if not names:
        return as_expr(function()[0] if weighted else function())
    unknown = set(extents) - set(names)
    if unknown:
        raise trace_.fail(
            f"{kind.name}: extent of {sorted(unknown)[0]}, which is not among {names}"
        )
    indices = [trace_.bind(name, extents.get(name), strict=False) for name in names]
    body = function(*indices)
    trace_.release(indices)
    bound = trace_.positions(indices)
    if weighted:
        value, score = map(as_expr, body)
        return Expr(_native.softmax_mean(bound, value.node, score.node))
    return Expr(_native.reduce(kind, bound, as_expr(body).node))


def Sum(function: Callable[..., Operand], **extents: int) -> Expr:
    """Returns the sum over the lambda's parameters.

    An extent not given is that of a dimension the index reads alone. A lambda of ``*k`` takes its
    names from the keywords.
    """
    return _reduce(_native.ReduceKind.sum, function, extents)


def Max(function: Callable[..., Operand], **extents: int) -> Expr:
    """Returns the maximum over the lambda's parameters; see :func:`Sum`."""
    return _reduce(_native.ReduceKind.max, function, extents)


def Min(function: Callable[..., Operand], **extents: int) -> Expr:
    """Returns the minimum over the lambda's parameters; see :func:`Sum`."""
    return _reduce(_native.ReduceKind.min, function, extents)


def Prod(function: Callable[..., Operand], **extents: int) -> Expr:
    """Returns the product over the lambda's parameters; see :func:`Sum`."""
    return _reduce(_native.ReduceKind.prod, function, extents)


def LogSumExp(function: Callable[..., Operand], **extents: int) -> Expr:
    """Returns the logarithm of the sum of exponentials over the parameters; see :func:`Sum`."""
    return _reduce(_native.ReduceKind.logsumexp, function, extents)


def SoftmaxMean(function: Callable[..., tuple[Operand, Operand]], **extents: int) -> Expr:
    """Returns the mean over the lambda's parameters, weighted by exponentials; see :func:`Sum`.

    The lambda returns (value, score): the mean is Σ exp(score) value / Σ exp(score), and 0 where
    all scores are -inf. Beside an output that is the ``LogSumExp`` of the same scores it divides
    over its parameters: means of parts merge by these sums.
    """
    return _reduce(_native.ReduceKind.softmaxmean, function, extents)


def Opaque(name: str, *reads: Expr) -> Expr:
    """Returns an unknown function of the elements read; ``x[b, :, :]`` reads whole dimensions.

    Output indices that appear in none of the reads cannot be split.
    """
    return Expr(_native.opaque(name, [as_expr(read).node for read in reads]))

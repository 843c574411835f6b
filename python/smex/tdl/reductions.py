"""Reductions over the indices of a lambda, and functions that nothing is known of."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

from smex._C import tdl as _native
from smex.tdl.expressions import Expr, Operand, as_expr, current


def parameters(function: Callable[..., Any], names: Sequence[str]) -> list[str]:
    """Returns the index names of a lambda.

    Those of `names` that are left stand for its ``*args``.
    """
    own, any_more = _parameters_of(function)
    return own + list(names[len(own) :]) if any_more else own


def _parameters_of(function: Callable[..., Any]) -> tuple[list[str], bool]:
    """Returns the parameters without defaults, and whether ``*args`` follow."""
    plain = isinstance(function, types.FunctionType) and not hasattr(function, "__wrapped__")
    if plain and not function.__code__.co_kwonlyargcount:
        # Lambdas are made anew for each call; `inspect.signature` takes a fifth of a Spec's time.
        code = function.__code__
        count = code.co_argcount - len(function.__defaults__ or ())
        return list(code.co_varnames[:count]), bool(code.co_flags & inspect.CO_VARARGS)
    own, any_more = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            any_more = True
        elif parameter.default is inspect.Parameter.empty:
            own.append(parameter.name)
    return own, any_more


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

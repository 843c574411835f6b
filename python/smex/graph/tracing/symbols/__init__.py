"""Turns what Python functions do to features into formulas, by running them on symbols.

A symbol stands in for a tensor (:mod:`~smex.graph.tracing.symbols.symbols`); it stands for a value,
which is a term and what is known of the tensor (:mod:`~smex.graph.tracing.symbols.values`). What
symbols make of operators, methods and torch functions is registered by the other modules, by topic.
A term becomes text and operands in :mod:`~smex.graph.tracing.symbols.formulas`.
"""

from smex.graph.tracing.symbols import (  # noqa: F401
    arithmetic,
    composed,
    conditions,
    reductions,
    views,
)
from smex.graph.tracing.symbols.formulas import Formula, Reduction, formula_of
from smex.graph.tracing.symbols.symbols import (
    Leaf,
    OnlySymbols,
    RefusedError,
    Symbol,
    Value,
    feature,
    is_known,
    key_of,
    symbol,
)

__all__ = [
    "Formula",
    "Leaf",
    "OnlySymbols",
    "Reduction",
    "RefusedError",
    "Symbol",
    "Value",
    "feature",
    "formula_of",
    "is_known",
    "key_of",
    "symbol",
]

"""Fuses a user's message and reduce functions into one kernel where their meaning allows it.

Thesis §4.6.2 fuses built-in functions. Here the functions that a user writes are run on symbols
(:mod:`smex.graph.tracing.symbols`), which turns them into a formula and a reduction; where that
succeeds they cost what the built-in costs, and no message is stored. They are run anew at each
call, so whatever they refer to counts as it is at that moment; a function that could notice is not
fused (:mod:`smex.graph.tracing.purity`).

What is fused: functions of ``edges.src``, ``edges.dst`` and ``edges.data`` made of ``+ - * /``,
powers, ``exp log sqrt abs sin cos maximum minimum``, activations, comparisons, ``where``, numbers,
tensors that all edges share, views of features and ``(a * b).sum(-1)``; then ``sum``, ``mean``,
``max`` or ``min`` over the mailbox, also of such formulas of several messages and of their softmax
over the mailbox. What a reduce function makes of the results and of ``nodes.data``, by the same
operations and ``cat``, is computed once for all nodes (:mod:`smex.graph.tracing.node_formula`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from smex.formula import Term
from smex.graph.core.graph_core import GraphCore
from smex.graph.core.hop import Hop, check_function, hop_of
from smex.graph.features.frame import Frame
from smex.graph.function import BuiltinFunction, MessageFunction, ReduceFunction
from smex.graph.init import zero_initializer
from smex.graph.ops.kernels import REDUCERS
from smex.graph.structure.relation import Relation
from smex.graph.tracing.explanation import Explanation, Unfused
from smex.graph.tracing.node_formula import NodeFormula
from smex.graph.tracing.purity import Impure, impurity_of
from smex.graph.tracing.symbols import (
    Formula,
    Leaf,
    OnlySymbols,
    Reduction,
    RefusedError,
    Symbol,
    Value,
    feature,
    formula_of,
    is_known,
    key_of,
    symbol,
)
from smex.graph.udf import name_of as _name

FUSED_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class Fused(NamedTuple):
    """A message and a reduce function as kernels."""

    relation: Relation
    outputs: dict[str, Reduction | NodeFormula]
    message_bytes: int

    def run(self, zero_empty: bool = True) -> dict[str, Tensor]:
        """Returns the columns ``[num_dst, ...]`` that the reduce function makes."""
        return {
            field: output.run(self.relation, zero_empty)
            if isinstance(output, Reduction)
            else output.run(self.relation)
            for field, output in self.outputs.items()
        }


class _StopError(Exception):
    """Carries an Unfused out of the tracing."""

    def __init__(self, unfused: Unfused):
        super().__init__(unfused.reason)
        self.unfused = unfused


def fuse(hop: Hop, message: Any, reduce: Any) -> Fused | Unfused:
    """Returns the kernels for a message and a reduce function, or why there are none.

    Either may be built-in. Neither graph nor features are changed.
    """
    message_bytes = None
    try:
        _check_surroundings(hop)
        sent = _messages(hop, message)
        message_bytes = _bytes_of(sent, hop.relation.num_edges)
        outputs = dict(_outputs(hop, reduce, sent))
    except _StopError as stop:
        return stop.unfused._replace(message_bytes=message_bytes)
    return Fused(hop.relation, outputs, message_bytes)


def fuse_edges(hop: Hop, function: Any) -> dict[str, tuple[Formula, bool]] | Unfused:
    """Returns the formulas of a function of edges, and whether to drop their last dimension."""
    try:
        _check_surroundings(hop)
        sent = _messages(hop, function)
    except _StopError as stop:
        return stop.unfused
    return {name: (formula_of(value.term), value.dropped) for name, value in sent.items()}


def _check_surroundings(hop: Hop) -> None:
    if torch.is_autocast_enabled(hop.relation.device.type):
        _stop("autocast is on, where dtypes depend on each call")


def _stop(reason: str, function: str | None = None, line: int | None = None) -> NoReturn:
    raise _StopError(Unfused(reason, function, line))


# ---- stand-ins ----


class _Features:
    """Stands in for the features of edges, or of their ends."""

    def __init__(self, frame: Frame, letter: str):
        self._frame = frame
        self._letter = letter

    def __getitem__(self, field: str) -> Symbol:
        return feature(self._frame, self._letter, field)

    def __contains__(self, field: object) -> bool:
        return field in self._frame

    def __iter__(self) -> Iterator[str]:
        return iter(self._frame)

    def __len__(self) -> int:
        return len(self._frame)

    def keys(self) -> list[str]:
        return self._frame.keys()

    def get(self, field: str, default: Any = None) -> Any:
        return self[field] if field in self._frame else default


class _Edges:
    """Stands in for an EdgeBatch."""

    def __init__(self, hop: Hop):
        self.src = _Features(hop.src, "u")
        self.dst = _Features(hop.dst, "v")
        self.data = _Features(hop.edge, "e")

    def __getattr__(self, name: str) -> NoReturn:
        raise RefusedError(f"edges.{name} is used; only src, dst and data are fused")

    def __len__(self) -> NoReturn:
        raise RefusedError("the number of edges is used")


class _Nodes:
    """Stands in for a NodeBatch with a mailbox."""

    def __init__(self, hop: Hop, sent: Mapping[str, Value]):
        self.data = _Features(hop.dst, "n")
        self.mailbox = {name: symbol(value._replace(lead=2)) for name, value in sent.items()}

    def __getattr__(self, name: str) -> NoReturn:
        raise RefusedError(f"nodes.{name} is used; only data and mailbox are fused")

    def __len__(self) -> NoReturn:
        raise RefusedError("the number of nodes is used")


# ---- tracing ----


def _messages(hop: Hop, message: Any) -> dict[str, Value]:
    """Returns what a message function sends, as formulas."""
    if isinstance(message, MessageFunction):
        return {message.out_field: _builtin_message(hop, message)}
    sent = _trace(message, "message", _Edges(hop))
    for name, value in sent.items():
        if value.lead != 1 or value.reduce is not None:
            _stop(f'message "{name}" is no formula of features', _name(message))
        _check_dtype(value)
    return sent


def _builtin_message(hop: Hop, message: MessageFunction) -> Value:
    operands = hop.operands(message)
    leaves = tuple(
        Term("leaf", (Leaf(letter, key_of(field), x),))
        for (letter, field), x in zip(message.operands, operands)
    )
    shapes = [tuple(x.shape[1:]) for x in operands]
    op = message.message.term.op
    if len(operands) == 2 and op == "dot" and shapes == [(), ()]:
        op = "*"
    try:
        shape = tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        _stop("shapes of features do not broadcast")
    if len({x.dtype for x in operands}) > 1:
        _stop("dtypes of features differ")
    term = leaves[0] if len(operands) == 1 else Term(op, leaves, 3)
    shape = (*shape[:-1], 1) if op == "dot" else shape
    value = Value(term, shape, operands[0].dtype, lead=1)
    _check_dtype(value)
    return value


def _check_dtype(value: Value) -> None:
    dtype = torch.bool if value.is_condition else value.dtype
    if dtype not in FUSED_DTYPES:
        _stop(f"kernels have no {dtype}")


def _outputs(
    hop: Hop, reduce: Any, sent: Mapping[str, Value]
) -> Iterator[tuple[str, Reduction | NodeFormula]]:
    """Yields what a reduce function makes of the messages."""
    if isinstance(reduce, ReduceFunction):
        if reduce.msg_field not in sent:
            _stop(f'there is no message "{reduce.msg_field}"')
        value = sent[reduce.msg_field]
        yield reduce.out_field, Reduction.of(reduce.name, value)
        return
    for name, value in _trace(reduce, "reduce", _Nodes(hop, sent)).items():
        _check_dtype(value)
        if value.lead != 1:
            _stop(f'result "{name}" is no {", ".join(REDUCERS)} of messages', _name(reduce))
        if hop.dst.get_initializer(name) is not zero_initializer:
            _stop(f'feature "{name}" has an initialiser, which nodes without messages get')
        if value.reduce is None:
            yield name, NodeFormula(value.term, value.dropped)
        else:
            yield name, Reduction.of(value.reduce, value)


def _trace(function: Any, kind: str, batch: Any) -> dict[str, Value]:
    """Returns the values of what a function returns for a stand-in."""
    impure: Impure | None = impurity_of(function, is_known)
    if impure is not None:
        _stop(impure.reason, _name(function), impure.line)
    try:
        with OnlySymbols():
            result = function(batch)
    except Exception as error:
        # A mistake of the user's is met again, with the user's traceback, when the function runs.
        reason = (
            str(error) if isinstance(error, RefusedError) else f"{type(error).__name__}: {error}"
        )
        _stop(reason, _name(function), _line_of(error.__traceback__))
    if type(result) is not dict or not all(
        isinstance(name, str) and isinstance(x, Symbol) for name, x in result.items()
    ):
        _stop(f"the {kind} function does not return a dict of tensors", _name(function))
    return {name: x.value for name, x in result.items()}


def _line_of(traceback: TracebackType | None) -> int | None:
    """Returns the last line outside of torch and of this package that an error went through."""
    line = None
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__", "")
        if not module.startswith(("torch.", "smex.graph.")):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _bytes_of(sent: Mapping[str, Value], num_edges: int) -> int:
    total = 0
    for value in sent.values():
        size = value.dtype.itemsize * num_edges
        for n in value.shape:
            size *= n
        total += size
    return total


def explain(g: GraphCore, message: Any, reduce: Any, etype: Any = None) -> Explanation:
    """Says whether ``g.update_all(message, reduce)`` runs fused, as what, and if not, why.

    Args:
        g: a graph whose features are set.
        message: built-in or user's message function.
        reduce: built-in or user's reduce function.
        etype: edge type, where there are several.

    Returns:
        An :class:`Explanation`; it prints.

    Raises:
        SmexTypeError: a function is neither built-in nor callable.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> g.ndata["h"], g.edata["w"] = torch.ones(3, 4), torch.ones(2, 1)
        >>> sg.explain(
        ...     g,
        ...     lambda edges: {"m": edges.data["w"] * edges.src["h"]},
        ...     lambda nodes: {"h": nodes.mailbox["m"].sum(1)},
        ... )
        message <lambda>, reduce <lambda>: fused, no message is stored
          "h" = sum of u.h * e.w  (smex::spmm, the built-in u_mul_e)
          messages would take 32 bytes
    """
    check_function("message", message, MessageFunction)
    check_function("reduce", reduce, ReduceFunction)
    found = fuse(hop_of(g, etype), message, reduce)
    sent, kept = (f if isinstance(f, BuiltinFunction) else _name(f) for f in (message, reduce))
    if isinstance(found, Unfused):
        return Explanation(sent, kept, found.message_bytes, {}, found)
    return Explanation(sent, kept, found.message_bytes, found.outputs)

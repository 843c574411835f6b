"""The tensor-as-lambda language: what an operator's output elements are computed from (Tofu §4).

A spec is a Python function of an operator's arguments that returns one lambda per output::

    import smex
    from smex.tdl import Sum

    @smex.spec("mylib::matmul")
    def matmul(a, b):
        return lambda i, j: Sum(lambda k: a[i, k] * b[k, j])

The lambda's parameters are the output's indices; the same name in two outputs is the same index.
Tensor arguments have ``shape``, ``ndim`` and ``dtype``; absent ones are None; all others are plain
values. The lambdas are traced once per call signature into a native ``Spec``, from which SMEX
derives how the operator may be divided.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from smex import operators
from smex._C import tdl as _native
from smex.errors import SmexValueError, SpecError

__all__ = [
    "Expr",
    "Max",
    "Min",
    "Opaque",
    "Prod",
    "SpecDef",
    "SpecError",
    "Sum",
    "SymbolicTensor",
    "abs_",
    "acos",
    "acosh",
    "and_",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fmod",
    "hypot",
    "isnan",
    "lands",
    "lgamma",
    "like",
    "log",
    "log1p",
    "log2",
    "log10",
    "maximum",
    "minimum",
    "nextafter",
    "not_",
    "or_",
    "pow_",
    "reciprocal",
    "relu",
    "round_",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "spec",
    "sqrt",
    "tan",
    "tanh",
    "tgamma",
    "told",
    "trace",
    "trunc",
    "where",
    "whole",
    "xor_",
]  # fmt: skip

Operand = Union["Expr", float, int, bool]


class _Trace:
    """The indices of the spec being traced, in order of first appearance."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.indices: dict[str, Expr] = {}
        self.extents: dict[str, int | None] = {}
        self.wholes: set[str] = set()
        self.bound: set[str] = set()

    def fail(self, text: str) -> SpecError:
        return SpecError(f"spec of {self.name}: {text}")

    def bind(self, name: str, extent: int | None, *, strict: bool = True) -> Expr:
        """Opens an index; a name of another extent is an error, or another index."""
        while (
            not strict
            and extent is not None
            and self.extents.get(name, extent) not in (extent, None)
        ):
            name += "_"
        if name in self.bound:
            raise self.fail(f"index {name} is bound twice; give the inner one another name")
        self.bound.add(name)
        if name not in self.indices:
            self.indices[name] = Expr(_native.index(len(self.indices)), name)
            self.extents[name] = extent
        elif extent is not None:
            self.set_extent(name, extent)
        return self.indices[name]

    def set_extent(self, name: str, extent: int) -> None:
        known = self.extents[name]
        if known is not None and known != extent:
            raise self.fail(f"index {name}: expected one extent, found {known} and {extent}")
        self.extents[name] = extent

    def release(self, indices: Sequence[Expr]) -> None:
        self.bound.difference_update(index.name for index in indices)

    def positions(self, indices: Sequence[Expr]) -> list[int]:
        order: list[str | None] = list(self.indices)
        return [order.index(index.name) for index in indices]


_trace: contextvars.ContextVar[_Trace | None] = contextvars.ContextVar("smex_trace", default=None)


_ANYWHERE = "smex.tdl: "
"""How an error begins that does not know the operator."""


def _current() -> _Trace:
    trace_ = _trace.get()
    if trace_ is None:
        raise SpecError("smex.tdl: expressions exist only while a spec is traced")
    return trace_


class Expr:
    """An element expression: arithmetic on it builds a larger one."""

    __slots__ = ("name", "node")
    __hash__ = object.__hash__

    def __init__(self, node: Any, name: str | None = None) -> None:
        self.node = node
        self.name = name  # of a plain index

    def __bool__(self) -> bool:
        raise SpecError("smex.tdl: an expression has no truth value; use where(), and_(), or_()")

    def __add__(self, other: Operand) -> Expr:
        return _call("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return _call("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return _call("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return _call("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return _call("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return _call("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return _call("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return _call("div", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return _call("floordiv", self, other)

    def __mod__(self, other: Operand) -> Expr:
        return _call("mod", self, other)

    def __pow__(self, other: Operand) -> Expr:
        return _call("pow", self, other)

    def __rpow__(self, other: Operand) -> Expr:
        return _call("pow", other, self)

    def __neg__(self) -> Expr:
        return _call("neg", self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return _call("eq", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return _call("ne", self, other)

    def __lt__(self, other: Operand) -> Expr:
        return _call("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return _call("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return _call("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return _call("ge", self, other)


def _expr(value: object) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, (bool, int, float)):
        return Expr(_native.const(float(value)))
    if isinstance(value, SymbolicTensor):
        raise SpecError("smex.tdl: a tensor must be indexed before it is used: x[i, j]")
    raise SpecError(f"smex.tdl: expected an expression or a number, found {type(value).__name__}")


def _call(name: str, *args: object) -> Expr:
    return Expr(_native.call(name, [_expr(arg).node for arg in args]))


def _function(name: str, arity: int, doc: str) -> Callable[..., Expr]:
    def function(*args: Operand) -> Expr:
        if len(args) != arity:
            raise SpecError(f"smex.tdl: {name}: expected {arity} arguments, found {len(args)}")
        return _call(name, *args)

    function.__name__ = name
    function.__doc__ = doc
    return function


abs_ = _function("abs", 1, "|x|.")
acos = _function("acos", 1, "Arc cosine.")
acosh = _function("acosh", 1, "Inverse of cosh.")
and_ = _function(
    "and", 2, "1 if both are non-zero, else 0; the second is not evaluated if the first is 0."
)
asin = _function("asin", 1, "Arc sine.")
asinh = _function("asinh", 1, "Inverse of sinh.")
atan = _function("atan", 1, "Arc tangent.")
atan2 = _function("atan2", 2, "The angle of the point (y, x) given as atan2(y, x).")
atanh = _function("atanh", 1, "Inverse of tanh.")
ceil = _function("ceil", 1, "The least integer not below x.")
copysign = _function("copysign", 2, "|x| with the sign of y.")
cos = _function("cos", 1, "Cosine.")
cosh = _function("cosh", 1, "Hyperbolic cosine.")
erf = _function("erf", 1, "The error function.")
erfc = _function("erfc", 1, "1 - erf(x).")
exp = _function("exp", 1, "e to the x.")
exp2 = _function("exp2", 1, "2 to the x.")
expm1 = _function("expm1", 1, "e to the x, less 1.")
floor = _function("floor", 1, "The greatest integer not above x.")
fmod = _function("fmod", 2, "The remainder of x/y, with the sign of x.")
hypot = _function("hypot", 2, "√(x² + y²).")
isnan = _function("isnan", 1, "1 if x is not a number, else 0.")
lands = _function(
    "lands", 2,
    "1 if the index is the position, else 0; a tile of it then needs the places that reach it.",
)  # fmt: skip
lgamma = _function("lgamma", 1, "Logarithm of |Γ(x)|.")
like = _function(
    "like", 2, "The first operand; of the second only the shape matters to the kernel."
)
log = _function("log", 1, "Natural logarithm.")
log10 = _function("log10", 1, "Logarithm to base 10.")
log1p = _function("log1p", 1, "log(1 + x).")
log2 = _function("log2", 1, "Logarithm to base 2.")
maximum = _function("max", 2, "The greater of two.")
minimum = _function("min", 2, "The lesser of two.")
nextafter = _function("nextafter", 2, "The double after x in the direction of y.")
not_ = _function("not", 1, "1 if x is 0, else 0.")
or_ = _function(
    "or", 2, "1 if one is non-zero, else 0; the second is not evaluated if the first is not 0."
)
pow_ = _function("pow", 2, "x to the y.")
reciprocal = _function("reciprocal", 1, "1/x.")
relu = _function("relu", 1, "x where positive, else 0.")
round_ = _function("round", 1, "The nearest integer, halves to even.")
rsqrt = _function("rsqrt", 1, "1/√x.")
sigmoid = _function("sigmoid", 1, "1/(1 + exp(-x)).")
sign = _function("sign", 1, "-1, 0 or 1.")
signbit = _function("signbit", 1, "1 if the sign bit of x is set, else 0.")
sin = _function("sin", 1, "Sine.")
sinh = _function("sinh", 1, "Hyperbolic sine.")
sqrt = _function("sqrt", 1, "Square root.")
tan = _function("tan", 1, "Tangent.")
tanh = _function("tanh", 1, "Hyperbolic tangent.")
tgamma = _function("tgamma", 1, "Γ(x).")
told = _function(
    "told", 1, "The index as a number, of which a local rule tells the kernel where it begins."
)
trunc = _function("trunc", 1, "x without its fraction.")
where = _function("where", 3, "The second operand where the first is non-zero, else the third.")
xor_ = _function("xor", 2, "1 if exactly one is non-zero.")


def whole(index: Expr) -> Expr:
    """Declares that an index is never divided (a kernel's window), and returns it."""
    if not isinstance(index, Expr) or index.name is None:
        raise SpecError("smex.tdl: whole: expected an index")
    _current().wholes.add(index.name)
    return index


class SymbolicTensor:
    """A tensor argument of the operator.

    ``x[i, j]`` reads an element, ``x[:, j]`` in an Opaque all of a dimension, and
    ``x.pad(0.0)[i - 1]`` gives 0.0 outside of the tensor.
    """

    __slots__ = ("_input", "_pad", "dtype", "shape")

    def __init__(
        self, input: int, shape: Sequence[int], dtype: str | None, pad: float | None = None
    ):
        self._input = input
        self._pad = pad
        self.shape = tuple(shape)
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def pad(self, value: float) -> SymbolicTensor:
        """The tensor with `value` around it."""
        return SymbolicTensor(self._input, self.shape, self.dtype, float(value))

    def __getitem__(self, key: Any) -> Expr:
        trace_ = _current()
        indices = key if isinstance(key, tuple) else (key,)
        if len(indices) != self.ndim:
            raise trace_.fail(
                f"read of input {self._input}: expected {self.ndim} indices, found {len(indices)}"
            )
        nodes = []
        for dim, index in enumerate(indices):
            if isinstance(index, slice):
                if index != slice(None):
                    raise trace_.fail(f"read of input {self._input}: expected ':', found a slice")
                nodes.append(_native.whole())
                continue
            expr_ = _expr(index)
            if expr_.name is not None and trace_.extents[expr_.name] is None:
                trace_.set_extent(expr_.name, self.shape[dim])
            nodes.append(expr_.node)
        return Expr(_native.read(self._input, nodes, self._pad))

    def __iter__(self) -> Iterator[Expr]:
        raise SpecError("smex.tdl: a tensor argument cannot be iterated over; index it")


def _parameters(function: Callable[..., Any], names: Sequence[str]) -> list[str]:
    """The index names of a lambda; those of `names` that are left stand for its ``*args``."""
    result: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            result.extend(names[len(result) :])
        elif parameter.default is inspect.Parameter.empty:
            result.append(parameter.name)
    return result


def index_names(function: Callable[..., Any], default: Sequence[str]) -> list[str]:
    """The names of the indices that an output's lambda takes."""
    return _parameters(function, getattr(function, "index_names", default))


def _reduce(kind: Any, function: Callable[..., Operand], extents: dict[str, int]) -> Expr:
    trace_ = _current()
    names = _parameters(function, list(extents))
    if not names:
        return _expr(function())
    unknown = set(extents) - set(names)
    if unknown:
        raise trace_.fail(
            f"{kind.name}: extent of {sorted(unknown)[0]}, which is not among {names}"
        )
    indices = [trace_.bind(name, extents.get(name), strict=False) for name in names]
    body = _expr(function(*indices))
    trace_.release(indices)
    return Expr(_native.reduce(kind, trace_.positions(indices), body.node))


def Sum(function: Callable[..., Operand], **extents: int) -> Expr:
    """The sum over the lambda's parameters.

    An extent not given is that of a dimension the index reads alone. A lambda of ``*k`` takes its
    names from the keywords.
    """
    return _reduce(_native.ReduceKind.sum, function, extents)


def Max(function: Callable[..., Operand], **extents: int) -> Expr:
    """The maximum over the lambda's parameters; see :func:`Sum`."""
    return _reduce(_native.ReduceKind.max, function, extents)


def Min(function: Callable[..., Operand], **extents: int) -> Expr:
    """The minimum over the lambda's parameters; see :func:`Sum`."""
    return _reduce(_native.ReduceKind.min, function, extents)


def Prod(function: Callable[..., Operand], **extents: int) -> Expr:
    """The product over the lambda's parameters; see :func:`Sum`."""
    return _reduce(_native.ReduceKind.prod, function, extents)


def Opaque(name: str, *reads: Expr) -> Expr:
    """An unknown function of the elements read; ``x[b, :, :]`` reads whole dimensions.

    Output indices that appear in none of the reads cannot be split.
    """
    return Expr(_native.opaque(name, [_expr(read).node for read in reads]))


def trace(
    name: str, function: Callable[..., Any], args: Sequence[Any],
    input_shapes: Sequence[Sequence[int]], output_shapes: Sequence[Sequence[int] | None],
) -> Any:  # fmt: skip
    """The native Spec of one operator call.

    Args:
        name: the operator, for error texts.
        function: the spec function.
        args: its arguments, with SymbolicTensors in the tensors' places.
        input_shapes: the shapes of the operator's tensor operands, in order of first appearance.
        output_shapes: the real outputs' shapes; None for one that nobody uses.

    Returns:
        The Spec, or None when the function declines this call by returning None.

    Raises:
        SpecError: the function's outputs do not match the operator's.
    """
    trace_ = _Trace(name)
    token = _trace.set(trace_)
    try:
        lambdas = function(*args)
        if lambdas is None:
            return None
        lambdas = lambdas if isinstance(lambdas, (tuple, list)) else (lambdas,)
        for output in lambdas:
            if output is not None and not callable(output):
                raise trace_.fail(
                    f"expected for each output a function of its indices, found {output!r}"
                )
        if len(lambdas) != len(output_shapes):
            raise trace_.fail(f"expected {len(output_shapes)} outputs, found {len(lambdas)}")
        statements = []
        for position, (output, shape) in enumerate(zip(lambdas, output_shapes)):
            if output is None and shape is not None and math.prod(shape) > 0:
                return None  # something used is not described
            statements.append(_statement(trace_, position, output, shape))
        for index, extent in trace_.extents.items():
            if extent is None:
                raise trace_.fail(
                    f"index {index}: its extent is unknown; give it: Sum(..., {index}=...)"
                )
        indices = [
            (index, trace_.extents[index], index in trace_.wholes) for index in trace_.indices
        ]
    except SpecError as error:
        text = str(error)
        if text.startswith(_ANYWHERE):
            raise trace_.fail(text.removeprefix(_ANYWHERE)) from error
        raise
    except Exception as error:
        lines = [x for x in traceback.extract_tb(error.__traceback__) if x.filename != __file__]
        at = f" at {Path(lines[-1].filename).name}:{lines[-1].lineno}" if lines else ""
        raise trace_.fail(f"its function fails{at}: {type(error).__name__}: {error}") from error
    finally:
        _trace.reset(token)
    try:
        return _native.Spec(indices, [list(shape) for shape in input_shapes], statements)
    except ValueError as error:
        raise SpecError(f"spec of {name}: {error}") from error


def _statement(
    trace_: _Trace,
    position: int,
    output: Callable[..., Operand] | None,
    shape: Sequence[int] | None,
) -> tuple[list[int], Any]:
    if shape is None:
        return [], None
    if output is None:
        names = [f"_{position}_{dim}" for dim in range(len(shape))]
    else:
        default = [f"i{dim}" for dim in range(len(shape))]
        names = index_names(output, default)
    if len(names) != len(shape):
        raise trace_.fail(
            f"output {position}: expected {len(shape)} indices (shape {list(shape)}), "
            f"found {len(names)}"
        )
    named = output is not None and names == _parameters(output, [])
    indices = [trace_.bind(name, extent, strict=named) for name, extent in zip(names, shape)]
    body = None if output is None else _expr(output(*indices)).node
    trace_.release(indices)
    return trace_.positions(indices), body


LOCAL_RULES = (
    *("output_shape", "zero", "max_int", "window", "window_rest", "rows", "offset", "diagonal"),
)


@dataclass(frozen=True)
class SpecDef:
    """A registered spec: the function and, by argument name, how arguments change in a tile."""

    target: str
    function: Callable[..., Any]
    local: dict[str, str]

    @property
    def source(self) -> Callable[..., Any]:
        """The function as it is written: without what fills in arguments or adapts it."""
        return inspect.unwrap(getattr(self.function, "func", self.function))


REGISTRY: dict[str, SpecDef] = {}


def spec(target: Any, *, local: dict[str, str] | None = None) -> Callable[[Any], Any]:
    """Registers the decorated function as what ``target`` means.

    Args:
        target: "namespace::op" for all functional overloads, or "namespace::op.overload" for one;
            or that operator or overload of ``torch.ops``.
        local: argument name → rule for the argument when only a tile is computed: "output_shape"
            (the tile's shape), "zero", "max_int", "window" (padding becomes 0; the input is
            padded instead, or the output cropped where windows land on it), "window_rest" (how far
            the tile reaches beyond where windows land), "rows" (size of dimension 0 of the first
            operand's tile), "offset" (the tile's lower corner), "diagonal" (as counted from the
            tile's first row and column).

    Raises:
        SpecError: there is no such operator, argument or rule.

    Example:
        >>> @smex.spec("mylib::scale")
        ... def scale(x, factor):
        ...     return lambda *i: x[i] * factor
    """
    name = _checked_target(target, local or {})

    def register(function: Any) -> Any:
        if not callable(function):
            raise SpecError(
                f"spec of {name}: expected a function of the operator's arguments, found "
                f"{function!r}"
            )
        REGISTRY[name] = SpecDef(name, function, dict(local or {}))
        _registry_changed()
        return function

    return register


def _checked_target(target: Any, local: dict[str, str]) -> str:
    """The operator's name; a SpecError where it or what is said of its arguments is unknown."""
    if isinstance(target, operators.Overload):
        target = target.name()
    elif isinstance(target, operators.Packet):
        target = target._qualified_op_name
    if not isinstance(target, str):
        raise SpecError(f'spec: expected an operator such as "mylib::op", found {target!r}')
    try:
        name, overload = operators.checked_name(target, f"spec of {target}")
    except SmexValueError as error:
        raise SpecError(str(error)) from None
    known = operators.argument_names_of(name)
    for argument, rule in local.items():
        if argument not in known:
            raise SpecError(
                f"spec of {target}: local rule for {argument}, expected an argument among "
                f"{', '.join(sorted(known))}"
            )
        if rule not in LOCAL_RULES:
            raise SpecError(
                f"spec of {target}: argument {argument}: expected a rule among "
                f"{', '.join(LOCAL_RULES)}, found {rule!r}"
            )
    return f"{name}.{overload}" if overload else name


_listeners: list[Callable[[], None]] = []


def _registry_changed() -> None:
    for listener in _listeners:
        listener()


@contextlib.contextmanager
def registered(target: str, function: Callable[..., Any], **local: str) -> Iterator[None]:
    """A spec for the length of a ``with`` block; the one before it comes back afterwards."""
    before = dict(REGISTRY)
    spec(target, local=local)(function)
    try:
        yield
    finally:
        REGISTRY.clear()
        REGISTRY.update(before)
        _registry_changed()

"""Whether a Python function may be run on stand-ins before it is known that it can be fused.

A message or reduce function is run with symbols in place of tensors at every call of
``update_all``, so nothing that it reads (closures, globals, attributes of modules) is ever frozen.
If it turns out that it cannot be fused, it runs a second time, on tensors. Both must go unnoticed:
a function that could have a side effect, draw a random number, keep a symbol, or tell a symbol from
a tensor is not run on symbols at all.

The bytecode decides, once for each code object: only harmless instructions, and every name that is
read from outside the function is a path such as ``F.relu`` or ``self.slope``. At each call the
paths are followed without running anything, and must end in a number, a string, a function that
symbols know, or another Python function that passes the same test.
"""

from __future__ import annotations

import dis
import math
import types
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

INERT = (int, float, bool, str, type(None), torch.dtype, type(Ellipsis))
PURE_MODULES = (
    *(nn.CELU, nn.CosineSimilarity, nn.ELU, nn.GELU, nn.Hardsigmoid, nn.Hardtanh, nn.Identity),
    *(nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.PReLU, nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU),
    *(nn.Sigmoid, nn.Softplus, nn.Softsign, nn.Tanh, nn.Threshold),
)
_PURE_BUILTINS = frozenset({abs, bool, dict, float, int, list, range, sum, tuple, zip, enumerate})
_MAX_DEPTH = 8

_HARMLESS_NAMES = """
    BINARY_ADD BINARY_AND BINARY_FLOOR_DIVIDE BINARY_MATRIX_MULTIPLY BINARY_MODULO
    BINARY_MULTIPLY BINARY_OP BINARY_OR BINARY_POWER BINARY_SLICE BINARY_SUBSCR BINARY_SUBTRACT
    BINARY_TRUE_DIVIDE BUILD_CONST_KEY_MAP BUILD_LIST BUILD_MAP BUILD_SET BUILD_SLICE BUILD_TUPLE
    CACHE
    CALL CALL_FUNCTION CALL_FUNCTION_EX CALL_FUNCTION_KW CALL_INTRINSIC_1 CALL_KW CALL_METHOD
    COMPARE_OP CONTAINS_OP COPY COPY_FREE_VARS DICT_MERGE DICT_UPDATE DUP_TOP DUP_TOP_TWO
    END_FOR EXTENDED_ARG FOR_ITER GET_ITER IS_OP JUMP_ABSOLUTE JUMP_BACKWARD JUMP_FORWARD
    KW_NAMES LIST_APPEND LIST_EXTEND LIST_TO_TUPLE LOAD_ATTR LOAD_CLOSURE LOAD_CONST LOAD_DEREF
    LOAD_FAST LOAD_FAST_AND_CLEAR LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW
    LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST LOAD_GLOBAL LOAD_METHOD LOAD_SMALL_INT MAKE_CELL
    MAKE_FUNCTION MAP_ADD NOP NOT_TAKEN POP_ITER POP_JUMP_BACKWARD_IF_FALSE
    POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_TRUE
    POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE
    POP_JUMP_FORWARD_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE
    POP_JUMP_IF_TRUE POP_TOP PRECALL PUSH_NULL RESUME RETURN_CONST RETURN_VALUE ROT_FOUR ROT_N
    ROT_THREE ROT_TWO STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST STORE_SUBSCR SWAP
    TO_BOOL UNARY_INVERT UNARY_NEGATIVE UNARY_NOT UNARY_POSITIVE UNPACK_SEQUENCE
"""
_HARMLESS = frozenset(_HARMLESS_NAMES.split())
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_INVISIBLE = ("CACHE", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "PRECALL", "PUSH_NULL", "RESUME")


class Impure(NamedTuple):
    """Why a function is not run on symbols."""

    reason: str
    line: int | None


class Path(NamedTuple):
    """A name from outside the function, and the attributes that are read from it."""

    kind: str  # "global", "free" or "local"
    name: str
    attributes: tuple[str, ...]
    line: int | None

    def __str__(self) -> str:
        return ".".join((self.name, *self.attributes))


class Reads(NamedTuple):
    """What the bytecode of one code object says."""

    impure: Impure | None
    paths: tuple[Path, ...]
    stored: frozenset[str]


@lru_cache(maxsize=4096)
def reads_of(code: types.CodeType) -> Reads:
    """Returns the paths that a code object reads; immutable facts of it, hence cached."""
    stored: set[str] = set()
    paths: list[Path] = []
    line: int | None = code.co_firstlineno
    instructions = [i for i in _with_lines(code) if i[0].opname not in _INVISIBLE]
    for at, (instruction, line) in enumerate(instructions):
        problem = _problem(instruction, instructions[at - 1][0] if at else None)
        if problem:
            return Reads(Impure(problem, line), (), frozenset())
        if instruction.opname.startswith("STORE_FAST"):
            names = _names(instruction)
            stored.update(names if "LOAD" not in instruction.opname else names[:1])
        paths += _paths_at(code, instructions, at, line)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):  # a comprehension or a lambda
            nested = reads_of(inner)
            if nested.impure:
                return nested
            paths += [_lifted(path, code) for path in nested.paths if path.kind != "local"]
    if code.co_flags & (0x20 | 0x80 | 0x100 | 0x200):
        return Reads(Impure("is a generator or a coroutine", line), (), frozenset())
    return Reads(None, tuple(paths), frozenset(stored))


def _with_lines(code: types.CodeType) -> Iterator[tuple[dis.Instruction, int | None]]:
    line: int | None = code.co_firstlineno
    starts = dict(dis.findlinestarts(code))
    for instruction in dis.get_instructions(code):
        line = starts.get(instruction.offset) or line
        yield instruction, line


def _problem(instruction: dis.Instruction, before: dis.Instruction | None) -> str | None:
    """Why an instruction is not harmless."""
    name = instruction.opname
    if name not in _HARMLESS:
        return f"has the instruction {name}, which may have a side effect"
    if name == "BINARY_OP" and instruction.argrepr.endswith("="):
        return f"changes a value in place ({instruction.argrepr})"
    if name == "IS_OP" and not (before and before.opname == "LOAD_CONST" and before.argval is None):
        return "compares identities (is)"
    if name == "CALL_INTRINSIC_1" and "LIST_TO_TUPLE" not in instruction.argrepr:
        return f"has the instruction {name} ({instruction.argrepr})"
    return None


def _names(instruction: dis.Instruction) -> tuple[str, ...]:
    value = instruction.argval
    return tuple(value) if isinstance(value, tuple) else (value,)


def _lifted(path: Path, code: types.CodeType) -> Path:
    """Returns a path of a function within, as the function around it sees its beginning."""
    is_local = path.kind == "free" and path.name in code.co_cellvars
    return path._replace(kind="local") if is_local else path


def _paths_at(
    code: types.CodeType,
    instructions: list[tuple[dis.Instruction, int | None]],
    at: int,
    line: int | None,
) -> list[Path]:
    """Returns the paths that begin with an instruction."""
    instruction = instructions[at][0]
    name = instruction.opname
    if name == "LOAD_GLOBAL":
        kind, names = "global", _names(instruction)
    elif name == "LOAD_DEREF":
        names = _names(instruction)
        kind = "local" if names[0] in code.co_cellvars else "free"
    elif "LOAD_FAST" in name:
        kind, names = "local", _names(instruction)
        names = names[1:] if name == "STORE_FAST_LOAD_FAST" else names
    else:
        return []
    attributes = []
    for following, _ in instructions[at + 1 :]:
        if following.opname not in _ATTRIBUTES:
            break
        attributes.append(following.argval)
    last = Path(kind, names[-1], tuple(attributes), line)
    return [*(Path(kind, n, (), line) for n in names[:-1]), last]


# ---- following the paths ----


class _UnknownError(Exception):
    """A path cannot be followed without running code."""


def impurity_of(
    function: Callable[..., Any], known: Callable[[Any], bool], depth: int = 0
) -> Impure | None:
    """Why a function may not be run on symbols, or None.

    Args:
        function: a function, a method, or an object with ``__call__`` (or a module's ``forward``)
            written in Python.
        known: tells functions that symbols know; asked of everything that paths end in.
        depth: of calls; a function that calls itself ends at a bound.
    """
    plain, bound = plain_function(function)
    if plain is None:
        return Impure(f"is a {type(function).__name__}, not a Python function", None)
    code = plain.__code__
    reads = reads_of(code)
    if reads.impure is not None or depth > _MAX_DEPTH:
        return reads.impure or Impure("calls itself", code.co_firstlineno)
    values = _known_parameters(plain, bound)
    for path in reads.paths:
        if path.kind == "local" and path.name not in values:
            continue  # a symbol, or made of what other paths bring
        if path.name in reads.stored and path.kind == "local":
            return Impure(f"assigns to its parameter {path.name}", path.line)
        impure = _impurity_of_path(path, plain, values, known, depth)
        if impure is not None:
            return impure
    return None


def plain_function(function: Any) -> tuple[types.FunctionType | None, Any]:
    """Returns the Python function, and the object it is bound to."""
    if type(function) is types.FunctionType:
        return function, _UNBOUND
    if type(function) is types.MethodType and type(function.__func__) is types.FunctionType:
        return function.__func__, function.__self__
    if isinstance(function, nn.Module):
        if has_hooks(function):
            return None, None
        call = getattr(type(function), "forward", None)
    else:
        call = _UNBOUND if isinstance(function, type) else vars(type(function)).get("__call__")
    return (call, function) if type(call) is types.FunctionType else (None, None)


_UNBOUND = object()


def has_hooks(module: nn.Module) -> bool:
    """Returns whether calling a module runs more than its ``forward``."""
    own = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    shared = torch.nn.modules.module
    names = ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks")
    return (
        type(module).__call__ is not nn.Module.__call__
        or module._compiled_call_impl is not None
        or "forward" in module.__dict__
        or any(getattr(module, name, None) for name in own)
        or any(getattr(shared, name, None) for name in (*names, "_global_backward_pre_hooks"))
    )


def _known_parameters(function: types.FunctionType, bound: Any) -> dict[str, Any]:
    """Parameters whose values are no symbols: what a method is bound to, and defaults."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    values = dict(zip(reversed(names), reversed(function.__defaults__ or ())))
    values.update(function.__kwdefaults__ or {})
    if bound is not _UNBOUND and names:
        values[names[0]] = bound
    return values


def _impurity_of_path(
    path: Path,
    function: types.FunctionType,
    values: dict[str, Any],
    known: Callable[[Any], bool],
    depth: int,
) -> Impure | None:
    try:
        value = _root(path, function, values)
        for attribute in path.attributes:
            if isinstance(value, INERT):
                return None  # a method of a number or a string
            value = _attribute(value, attribute)
    except _UnknownError:
        return Impure(f"reads {path}, which cannot be looked up without running code", path.line)
    return _impurity_of_value(value, path, known, depth)


def _root(path: Path, function: types.FunctionType, values: dict[str, Any]) -> Any:
    if path.kind == "local":
        return values[path.name]
    if path.kind == "free":
        try:
            index = function.__code__.co_freevars.index(path.name)
            return (function.__closure__ or ())[index].cell_contents
        except (ValueError, IndexError):
            raise _UnknownError from None
    space = function.__globals__
    if path.name in space:
        return space[path.name]
    builtins = space.get("__builtins__", {})
    table = builtins if isinstance(builtins, dict) else vars(builtins)
    if path.name not in table:
        raise _UnknownError
    return table[path.name]


_PLAIN_ACCESS = (object.__getattribute__, types.SimpleNamespace.__getattribute__)


def _attribute(value: Any, name: str) -> Any:
    """Returns an attribute, found without running a property or ``__getattr__``."""
    if isinstance(value, types.ModuleType):
        if name not in value.__dict__:
            raise _UnknownError
        return value.__dict__[name]
    kind = type(value)
    if kind.__getattribute__ not in _PLAIN_ACCESS or not hasattr(value, "__dict__"):
        raise _UnknownError
    own = value.__dict__
    inherited = next((c.__dict__[name] for c in kind.__mro__ if name in c.__dict__), _UNBOUND)
    if inherited is not _UNBOUND and hasattr(type(inherited), "__set__"):
        raise _UnknownError  # a property or another descriptor
    if name in own:
        return own[name]
    if type(inherited) is types.FunctionType:
        return types.MethodType(inherited, value)
    if inherited is not _UNBOUND and not hasattr(type(inherited), "__get__"):
        return inherited
    if isinstance(value, nn.Module) and kind.__getattr__ is nn.Module.__getattr__:
        for table in ("_parameters", "_buffers", "_modules"):
            if name in own[table]:
                return own[table][name]
    raise _UnknownError


def _impurity_of_value(
    value: Any, path: Path, known: Callable[[Any], bool], depth: int
) -> Impure | None:
    """Returns what a path ends in must be known, immutable, or a function without side effects."""
    if known(value) or isinstance(value, INERT):
        return None
    if (
        isinstance(value, tuple)
        and type(value) is tuple
        and all(isinstance(x, INERT) for x in value)
    ):
        return None
    if isinstance(value, Tensor):
        if type(value) in (Tensor, nn.Parameter):
            return None  # only an operand: its attributes and methods are not looked up
        return Impure(f"uses {path}, a {type(value).__name__}, not a plain tensor", path.line)
    if isinstance(value, nn.Module):
        if type(value) in PURE_MODULES and not has_hooks(value):
            return None
        if type(value).__module__.startswith("torch."):
            return _has_no_fused_form(f"the module {path} ({type(value).__name__})", path)
        return impurity_of(value, known, depth + 1)
    if type(value) in (types.FunctionType, types.MethodType):
        if (getattr(value, "__module__", None) or "").startswith("torch"):
            return _has_no_fused_form(str(path), path)
        inner = impurity_of(value, known, depth + 1)
        return inner and Impure(f"calls {path}, which {inner.reason}", path.line)
    if _is_pure_builtin(value):
        return None
    if callable(value):
        return _has_no_fused_form(str(path), path)
    return Impure(f"uses {path}, a {type(value).__name__} that may change", path.line)


def _is_pure_builtin(value: Any) -> bool:
    try:
        return (
            value in _PURE_BUILTINS or getattr(math, getattr(value, "__name__", ""), None) is value
        )
    except TypeError:  # not hashable
        return False


def _has_no_fused_form(what: str, path: Path) -> Impure:
    return Impure(f"calls {what}, which has no fused form", path.line)

"""Operators by their names, and what is said where there is none of that name."""

from __future__ import annotations

import difflib
from typing import Any

import torch

from smex.errors import SmexTypeError, SmexValueError

Overload = torch._ops.OpOverload
Packet = torch._ops.OpOverloadPacket


def operator_named(op: Any, who: str) -> Overload:
    """Returns the overload that a user means.

    Args:
        op: an overload, its name such as "aten::add.Tensor", or a packet with a default overload.
        who: what is asked for it, the beginning of an error's text.

    Raises:
        SmexTypeError: it is neither an overload nor a name.
        SmexValueError: there is no operator of that name, or it has several overloads.
    """
    if isinstance(op, Overload):
        return op
    if isinstance(op, Packet):
        op = op._qualified_op_name
    if not isinstance(op, str):
        raise SmexTypeError(
            f"{who}: expected an operator of torch.ops or its name, such as "
            f'torch.ops.aten.mm.default or "aten::mm", found {op!r}'
        )
    name, overload = checked_name(op, who)
    if overload not in _overloads(name):
        raise _no_overload(name, "none", who)
    namespace, _, op_name = name.partition("::")
    return getattr(getattr(getattr(torch.ops, namespace), op_name), overload or "default")


def checked_name(target: str, who: str) -> tuple[str, str]:
    """("aten::add", "Tensor") of "aten::add.Tensor"; the overload is "" where none is named.

    Raises:
        SmexValueError: there is no operator of that name.
    """
    name, _, overload = target.partition(".")
    overload = "" if overload == "default" else overload
    if not _overloads(name):
        near = _near(name)
        hint = "import the library that defines it" if "::" in name else "names are like aten::mm"
        hint = f"did you mean {' or '.join(near)}?" if near else hint
        raise SmexValueError(f'{who}: there is no operator "{name}"; {hint}')
    if overload and overload not in _overloads(name):
        raise _no_overload(name, repr(overload), who)
    return name, overload


def argument_names_of(name: str) -> set[str]:
    """Returns the names of the arguments of all overloads."""
    return {a.name for schema in _schemas(name) for a in schema.arguments}


def called(op: Overload, args: Any, kwargs: dict[str, Any]) -> str:
    """Returns a call as text, with tensors as their dtypes and shapes."""
    texts = [_argument(x) for x in args] + [f"{k}={_argument(x)}" for k, x in kwargs.items()]
    return f"{op.name()}({', '.join(texts)})"


def _argument(x: Any) -> str:
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
    if isinstance(x, (list, tuple)):
        return f"[{', '.join(map(_argument, x))}]"
    return repr(x)


def _schemas(name: str) -> list[Any]:
    """Of what the dispatcher knows; TorchScript has more, of numbers and strings."""
    if "::" not in name:
        return []
    found = torch._C._jit_get_schemas_for_operator(name)
    return [schema for schema in found if _is_dispatched(name, schema.overload_name)]


def _is_dispatched(name: str, overload: str) -> bool:
    try:
        torch._C._dispatch_find_schema_or_throw(name, overload)
    except RuntimeError:
        return False
    return True


def _overloads(name: str) -> list[str]:
    return [schema.overload_name for schema in _schemas(name)]


def _no_overload(name: str, found: str, who: str) -> SmexValueError:
    there = [f"{name}.{overload}" if overload else name for overload in _overloads(name)]
    return SmexValueError(
        f"{who}: expected an overload of {name}, which are {', '.join(there)}; found {found}"
    )


def _near(name: str) -> list[str]:
    names = {full.partition(".")[0] for full in torch._C._dispatch_get_all_op_names()}
    same = sorted(full for full in names if full.partition("::")[2] == name)
    return same or difflib.get_close_matches(name, names, n=3, cutoff=0.75)

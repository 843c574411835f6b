"""The lookup of a call's Spec."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from smex import tdl
from smex.specs.common import named
from smex.tdl import REGISTRY, SpecDef, SymbolicTensor
from smex.tdl.registry import on_change


def targets() -> list[str]:
    """Returns the registered operators, sorted."""
    return sorted(REGISTRY)


@functools.cache
def definition(target: str) -> SpecDef | None:
    """Returns the spec registered for "ns::op.overload": its own, otherwise that of "ns::op".

    An operator that writes to an argument (``op_``, or an overload with ``out``) means what its
    functional form does.
    """
    own = REGISTRY.get(target) or _mutating(target)
    if own is not None:
        return own
    name, _, overload = target.partition(".")
    general = REGISTRY.get(name)
    if general is None or not overload or _accepts(general.function, len(argument_names(target))):
        return general
    return None  # written for overloads of other arguments


def _accepts(function: Any, count: int) -> bool:
    """Returns whether a function takes so many arguments."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    return True


def _mutating(target: str) -> SpecDef | None:
    """The spec of an operator that writes to its arguments, from that of its functional form."""
    functional = _functional_form(target)
    found = definition(functional) if functional else None
    if found is None:
        return None
    written = _written(target)
    names = argument_names(target)
    if _makes_view(target):
        return SpecDef(target, found.function, found.local)

    @functools.wraps(found.source)
    def function(*args: Any) -> Any:
        assert found is not None
        kept = [arg for name, arg in zip(names, args) if name not in written or name == "self"]
        tensors = [arg for name, arg in zip(names, args) if name in written]
        bodies = found.function(*kept)
        if bodies is None:
            return None
        bodies = bodies if isinstance(bodies, (tuple, list)) else (bodies,)
        if len(bodies) != len(tensors):
            return None
        return tuple(_into(body, tensor) for body, tensor in zip(bodies, tensors))

    return SpecDef(target, function, found.local)


def _into(body: Any, tensor: SymbolicTensor) -> Any:
    """`body` written into a tensor, of which only the shape matters."""
    if body is None or 0 in tensor.shape:  # an empty one takes the shape of what is written
        return body
    names = tdl.index_names(body, [f"i{dim}" for dim in range(tensor.ndim)])

    def written(*i: Any) -> Any:
        return tdl.like(body(*i), tensor[i])

    return named(written, names)


@functools.cache
def _functional_form(target: str) -> str | None:
    """Of "aten::add_.Tensor" it is "aten::add.Tensor"; of "aten::mm.out", "aten::mm"."""
    name, _, overload = target.partition(".")
    if not (name.endswith("_") or "out" in overload) or not _written(target):
        return None
    if name.endswith("_") and not name.endswith("__"):
        return _existing(name[:-1], overload)
    overload = overload.removesuffix("_out") if overload.endswith("_out") else ""
    return _existing(name, overload)


def _existing(name: str, overload: str) -> str | None:
    """The overload if there is one of that name, or the only one that returns something new."""
    namespace, _, op = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), op, None)
    if packet is None:
        return None
    if (overload or "default") in packet.overloads():
        return f"{name}.{overload}" if overload else name
    pure = [o for o in packet.overloads() if not _written(f"{name}.{o}")]
    return f"{name}.{pure[0]}" if len(pure) == 1 else None


@functools.cache
def _makes_view(target: str) -> bool:
    """Returns whether the operator changes its argument's shape in place."""
    return torch.Tag.inplace_view in overload_of(target).tags


@functools.cache
def _written(target: str) -> tuple[str, ...]:
    """Returns the names of the arguments that an operator writes to."""
    return tuple(
        a.name
        for a in schema(target).arguments
        if a.alias_info is not None and a.alias_info.is_write
    )


def instantiate(
    target: str,
    args: Sequence[Any],
    input_shapes: Sequence[Sequence[int]],
    output_shapes: Sequence[Sequence[int] | None],
    input_dtypes: Sequence[str] | None = None,
    *,
    kept: bool = True,
) -> tuple[Any, list[tuple[int, str]]] | None:
    """Returns the Spec of one operator call.

    Args:
        target: "aten::add.Tensor".
        args: every schema argument in schema order; an object with an `id` stands for a tensor.
        input_shapes: shapes of the tensors in order of first appearance, each once.
        output_shapes: shapes of the outputs, None for one that nobody uses.
        input_dtypes: dtypes of the tensors such as "bool", where they are known.
        kept: whether a later call of equal signature is given the same Spec.

    Returns:
        The native Spec, and (argument position, rule) for the arguments that change in a tile; None
        when no registered spec describes the call. Results are shared between calls of equal
        signature, where they are kept.

    Raises:
        SpecError: the registered spec contradicts the operator.
    """
    made = _instantiate if kept else _instantiate.__wrapped__
    return made(*signature(target, args, input_shapes, output_shapes, input_dtypes))


def told(spec: Any, inputs: Sequence[torch.Tensor | None]) -> Any:
    """Returns a Spec that knows the content of those inputs that tell indices.

    Args:
        spec: the native Spec.
        inputs: by operand its content where that is known when a program is made.
    """
    known = {}
    for number in spec.table_inputs():
        numbers = inputs[number]
        if numbers is None or isinstance(numbers, FakeTensor) or numbers.is_meta:
            continue
        if numbers.dtype in (torch.int32, torch.int64):
            known[number] = numbers.cpu().contiguous().numpy()
    return spec.with_tables(known) if known else spec


def signature(
    target: str,
    args: Sequence[Any],
    input_shapes: Sequence[Sequence[Any]],
    output_shapes: Sequence[Sequence[Any] | None],
    input_dtypes: Sequence[str] | None = None,
) -> tuple[Any, ...]:
    """Returns what is equal for calls that mean the same; see :func:`instantiate`."""
    ids: dict[int, int] = {}
    return (
        target.removesuffix(".default"),
        _key(args, ids),
        tuple(tuple(shape) for shape in input_shapes),
        tuple(None if shape is None else tuple(shape) for shape in output_shapes),
        tuple(input_dtypes or [None] * len(input_shapes)),
    )


class _Input(int):
    """A tensor argument in a cache key: its position among the inputs."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Input) and int(self) == int(other)

    def __hash__(self) -> int:
        return hash(("input", int(self)))


class _Typed(tuple):
    """(type, value): 1, 1.0 and True are different arguments."""

    __slots__ = ()


def _key(arg: Any, ids: dict[int, int]) -> Any:
    if isinstance(arg, (list, tuple)):
        return tuple(_key(item, ids) for item in arg)
    if hasattr(arg, "id") and not isinstance(arg, (bool, int, float, str)):
        if arg.id < 0:
            return _Typed((type(None), None))
        return _Input(ids.setdefault(arg.id, len(ids)))
    return _Typed((type(arg), arg))


def _argument(key: Any, shapes: Sequence[Sequence[int]], dtypes: Sequence[str | None]) -> Any:
    if isinstance(key, _Input):
        return SymbolicTensor(int(key), shapes[int(key)], dtypes[int(key)])
    if isinstance(key, _Typed):
        return key[1]
    return [_argument(item, shapes, dtypes) for item in key]


@functools.lru_cache(maxsize=65536)
def _instantiate(
    target: str, key: Any, input_shapes: Any, output_shapes: Any, input_dtypes: Any
) -> Any:
    found = definition(target)
    if found is None:
        return None
    args = _argument(key, input_shapes, input_dtypes)
    spec = tdl.trace(target, found.function, args, input_shapes, output_shapes)
    if spec is None:
        return None
    return spec, _local_rules(target, found, spec)


def _local_rules(target: str, found: SpecDef, spec: Any) -> list[tuple[int, str]]:
    if not found.local:
        return []
    names = argument_names(target)
    rules = [(names.index(name), rule) for name, rule in found.local.items() if name in names]
    if not all(map(spec.describes, range(len(spec.output_axes)))):
        # Its indices are not there either.
        known = {index.name for index in spec.indices}
        rules = [rule for rule in rules if rule[1].partition(":")[2] in ("", *known)]
    return rules


def argument_names(target: str) -> list[str]:
    """Returns the schema's argument names, in order."""
    return [argument.name for argument in schema(target).arguments]


def schema(target: str) -> Any:
    """Returns the schema of "ns::op.overload"."""
    return overload_of(target)._schema


@functools.cache
def overload_of(target: str) -> Any:
    """Returns the overload of that name; the first of the operator where there is none."""
    namespace, _, rest = target.partition("::")
    name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), name)
    return getattr(packet, overload or "default", None) or getattr(packet, packet.overloads()[0])


on_change(_instantiate.cache_clear)
on_change(definition.cache_clear)

"""The lookup of a call's Spec."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from smex import tdl
from smex.tdl import REGISTRY, SpecDef, SymbolicTensor


def targets() -> list[str]:
    """The registered operators, sorted."""
    return sorted(REGISTRY)


def definition(target: str) -> SpecDef | None:
    """The spec registered for "ns::op.overload": its own, otherwise that of "ns::op"."""
    return REGISTRY.get(target) or REGISTRY.get(target.partition(".")[0])


def instantiate(
    target: str,
    args: Sequence[Any],
    input_shapes: Sequence[Sequence[int]],
    output_shapes: Sequence[Sequence[int] | None],
) -> tuple[Any, list[tuple[int, str]]] | None:
    """The Spec of one operator call.

    Args:
        target: "aten::add.Tensor".
        args: every schema argument in schema order; an object with an `id` stands for a tensor.
        input_shapes: shapes of the tensors in order of first appearance, each once.
        output_shapes: shapes of the outputs, None for one that nobody uses.

    Returns:
        The native Spec, and (argument position, rule) for the arguments that change in a tile; None
        when no registered spec describes the call. Results are shared between calls of equal
        signature.

    Raises:
        SpecError: the registered spec contradicts the operator.
    """
    ids: dict[int, int] = {}
    key = (
        target.removesuffix(".default"),
        _key(args, ids),
        tuple(tuple(shape) for shape in input_shapes),
        tuple(None if shape is None else tuple(shape) for shape in output_shapes),
    )
    return _instantiate(*key)


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


def _argument(key: Any, shapes: Sequence[Sequence[int]]) -> Any:
    if isinstance(key, _Input):
        return SymbolicTensor(int(key), shapes[int(key)], None)
    if isinstance(key, _Typed):
        return key[1]
    return [_argument(item, shapes) for item in key]


@functools.lru_cache(maxsize=65536)
def _instantiate(target: str, key: Any, input_shapes: Any, output_shapes: Any) -> Any:
    found = definition(target)
    if found is None:
        return None
    args = _argument(key, input_shapes)
    spec = tdl.trace(target, found.function, args, input_shapes, output_shapes)
    if spec is None:
        return None
    return spec, _local_rules(target, found)


def _local_rules(target: str, found: SpecDef) -> list[tuple[int, str]]:
    if not found.local:
        return []
    names = argument_names(target)
    unknown = set(found.local) - set(names)
    if unknown and len(unknown) == len(found.local):
        raise tdl.SpecError(
            f"spec of {target}: local rule for {sorted(unknown)[0]}, which is not among {names}"
        )
    return [(names.index(name), rule) for name, rule in found.local.items() if name in names]


@functools.cache
def argument_names(target: str) -> list[str]:
    """The schema's argument names, in order."""
    namespace, _, rest = target.partition("::")
    name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), name)
    op = getattr(packet, overload or "default", None) or getattr(packet, packet.overloads()[0])
    return [argument.name for argument in op._schema.arguments]


tdl._listeners.append(_instantiate.cache_clear)

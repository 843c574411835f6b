"""Files of calls of nets, for C++: `PartitionedModule.export`."""

from __future__ import annotations

import json
import os
from typing import Any

import torch
from torch.utils import _pytree as pytree

from smex.capture import CapturedGraph, ValueRef
from smex.errors import SmexValueError
from smex.execution.compiled import Compiled
from smex.execution.shards import ShardedState


def example_call(captured: CapturedGraph) -> tuple[tuple, dict[str, Any]]:
    """Returns arguments of the shapes and types of a captured call, without values.

    Raises:
        SmexValueError: objects that hold tensors are among them.
    """
    values = captured.structure.values
    leaves = [
        torch.empty(captured.shape(leaf.id), dtype=values[leaf.id].dtype)
        if isinstance(leaf, ValueRef)
        else leaf
        for leaf in captured.flat_args
    ]
    args, kwargs = pytree.tree_unflatten(leaves, captured.in_spec)
    packed = [leaf for leaf in (*args, *kwargs.values()) if type(leaf).__module__ == _OBJECTS]
    if packed:
        raise SmexValueError(
            "export: the net was called with objects that hold tensors; pass such a call's "
            "arguments, net.export(path, args=(...))"
        )
    return args, kwargs


_OBJECTS = "smex.capture.objects"


def write(compiled: Compiled, state: ShardedState, path: str | os.PathLike[str]) -> None:
    """Writes a program with the tiles that it is bound to.

    Raises:
        SmexValueError: the model changes objects that are its arguments, or the file cannot be
            written.
    """
    captured = compiled.captured
    if captured.changes_spec.num_leaves:
        raise SmexValueError(
            "export: the model changes objects that are its arguments, which have no place in a "
            "file for C++; let it return what it changes"
        )
    inputs = [
        _described(captured, name, ref)
        for name, ref in zip(compiled.names, captured.input_refs, strict=True)
    ]
    plan = json.dumps(compiled.plan.contents())
    compiled.call(state).export(os.fspath(path), inputs, _results(captured), plan)


_Described = tuple[str, list[int], str]


def _described(captured: CapturedGraph, name: str, ref: ValueRef) -> _Described:
    """Returns a name, and the shape and type of what it stands for."""
    dtype = captured.structure.values[ref.id].dtype
    return name, list(captured.shape(ref.id)), str(dtype).removeprefix("torch.")


def _results(captured: CapturedGraph) -> list[_Described]:
    """Returns the tensors that the model returns by their places: `['logits'][0]`."""
    numbers = pytree.tree_unflatten(range(captured.out_spec.num_leaves), captured.out_spec)
    places = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(numbers)[0]]
    return [
        _described(captured, place, output)
        for place, output in zip(places, captured.flat_outputs, strict=True)
        if isinstance(output, ValueRef)
    ]

"""Running a captured graph op by op: the reference that other ways of running it must equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from smex.capture.records import CapturedGraph, FusionRecord, OpRecord, ValueRef


def replay(
    graph: CapturedGraph,
    state: Mapping[str, torch.Tensor],
    inputs: Sequence[torch.Tensor],
    tangents: Sequence[torch.Tensor] = (),
    *,
    fused: bool = False,
) -> dict[tuple[str, str], torch.Tensor | None]:
    """Runs the graph on real tensors.

    Args:
        graph: what to run.
        state: parameters and buffers by name.
        inputs: the call's tensors in the order of `graph.inputs`.
        tangents: one tensor for each differentiable output, in order.
        fused: run the call of each fusion in place of its members.

    Returns:
        `(kind, name)` of each of `graph.outputs` → tensor, None for a missing gradient.
    """
    env: dict[int, torch.Tensor] = {}
    inputs_left, tangents_left = iter(inputs), iter(tangents)
    with torch.no_grad():
        for value in graph.values:
            if value.role in ("parameter", "buffer"):
                env[value.id] = state[value.name].detach().contiguous()
            elif value.role == "input":
                env[value.id] = next(inputs_left).detach().contiguous()
            elif value.role == "tangent":
                env[value.id] = next(tangents_left).contiguous()
            elif value.role == "constant":
                assert value.tensor is not None
                env[value.id] = value.tensor
        for op in _schedule(graph, fused):
            _run(op, env, graph)
    return {
        (out.kind, out.name): None if out.value is None else env[out.value] for out in graph.outputs
    }


def _schedule(graph: CapturedGraph, fused: bool) -> list[OpRecord]:
    if not fused:
        return graph.ops
    replaced: dict[int, FusionRecord] = {}
    for fusion in sorted(graph.fusions, key=lambda f: len(f.members)):  # of nested ones the outer
        replaced.update(dict.fromkeys(fusion.members, fusion))
    # The fused call stands where its first member stood: it has all their operands.
    starts = {f.members[0]: f.fused for f in replaced.values() if replaced[f.members[0]] is f}
    return [starts.get(op.id, op) for op in graph.ops if op.id not in replaced or op.id in starts]


def _run(op: OpRecord, env: dict[int, torch.Tensor], graph: CapturedGraph) -> None:
    arguments = op.dispatch._schema.arguments
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument, arg in zip(arguments, op.args, strict=True):
        if argument.kwarg_only:
            kwargs[argument.name] = _lookup(arg, env)
        else:
            args.append(_lookup(arg, env))
    results = op.dispatch(*args, **kwargs)
    if isinstance(results, torch.Tensor):
        results = [results]
    for id_, result in zip(op.outputs, results, strict=True):
        if id_ is None:
            continue
        value = graph.values[id_]
        if tuple(result.shape) != value.shape or result.dtype != value.dtype:
            raise AssertionError(
                f"{op.target}: {value.name} is {result.dtype}{list(result.shape)}, "
                f"expected {value.type_str()}"
            )
        env[id_] = result


def _lookup(arg: Any, env: dict[int, torch.Tensor]) -> Any:
    if isinstance(arg, ValueRef):
        return env[arg.id]
    if isinstance(arg, list):
        return [_lookup(item, env) for item in arg]
    return arg

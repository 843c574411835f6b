"""The way of an iteration through torch's autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from smex.capture import ValueRef
from smex.errors import SmexRuntimeError
from smex.execution.calls import refuse_tracer, refuse_tracers
from smex.execution.compiled import Compiled
from smex.execution.iteration import Iteration


class Run(torch.autograd.Function):
    """One iteration: the forward program, and the backward program when it is asked for.

    Called with what starts an iteration, its program, the owner of each shard (a value's id), the
    inputs and then the shards.
    """

    @staticmethod
    def forward(
        ctx: Any,
        start: Callable[[Sequence[torch.Tensor]], Iteration],
        compiled: Compiled,
        owners: Sequence[int],
        *tensors: Any,
    ) -> Any:
        """Returns the results; writes what the model changes."""
        inputs = list(tensors[: len(tensors) - len(owners)])
        ctx.iteration = iteration = start(inputs)
        ctx.devices = [tensor.device for tensor in inputs]
        ctx.set_materialize_grads(False)
        outputs = iteration.results()
        iteration.write_updates(inputs)
        known: set[int] = set()
        for position, tensor in enumerate(outputs):
            if id(tensor) in known:  # a value and its detached self are two outputs
                outputs[position] = tensor.detach()
            known.add(id(tensor))
        differentiable = compiled.captured.differentiable
        ctx.mark_non_differentiable(
            *[out for out, has in zip(outputs, differentiable, strict=True) if not has]
        )
        ctx.save_for_backward(*_watched(compiled, owners, [*tensors, *outputs]))
        return tuple(outputs)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Refuses dual numbers."""
        refuse_tracer("forward-mode differentiation")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Returns the gradients of inputs and shards."""
        refuse_tracers([grad for grad in grads if grad is not None])
        if torch.is_grad_enabled():
            raise SmexRuntimeError(
                "backward: a partitioned net has no second derivative; leave out create_graph=True"
            )
        _ = ctx.saved_tensors  # raises when one was changed in place
        iteration, ctx.iteration = ctx.iteration, None
        if iteration is None:
            raise SmexRuntimeError(
                "backward: this graph was already used and its values are freed; run the net again"
            )
        iteration.run_backward(grads)
        return (None, None, None, *iteration.gradients(grads, ctx.devices))


def _watched(
    compiled: Compiled, owners: Sequence[int], tensors: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Of inputs, shards and outputs those whose memory backward reads: autograd sees changes."""
    captured = compiled.captured
    ids = [ref.id for ref in captured.input_refs]
    ids += owners
    ids += [leaf.id for leaf in captured.flat_outputs if isinstance(leaf, ValueRef)]
    return [
        tensor
        for owner, tensor in zip(ids, tensors, strict=True)
        if owner in compiled.read_back and owner not in compiled.updated  # backward has a copy
    ]

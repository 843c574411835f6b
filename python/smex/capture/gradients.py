"""Gradients that a model takes in its own `forward`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from smex.capture.origin import user_line
from smex.capture.user_code import replaced
from smex.errors import CaptureError


@contextlib.contextmanager
def own_gradients(given: Sequence[torch.Tensor]) -> Iterator[None]:
    """Lets a model take gradients while it is traced, but for those that it would leave in `grad`.

    What a gradient is computed from is kept: the tracer goes through the same values once more when
    the model is done, also where the model's caller would not.

    Args:
        given: the tensors that stand for the model's state and inputs.
    """
    kept = {id(tensor) for tensor in given if tensor.requires_grad}

    def traced(
        outputs: Any, tangents: Any, retain: Any, create: Any, inputs: Any, *rest: Any, **more: Any
    ) -> Any:
        targets = set(map(id, inputs)) if inputs else kept
        if more.get("accumulate_grad") and not kept.isdisjoint(targets):
            _refuse_accumulation(user_line(sys._getframe(1)))
        run = torch.autograd.graph._engine_run_backward
        return run(outputs, tangents, True, create, inputs, *rest, **more)

    with replaced(torch.autograd, "_engine_run_backward", traced):
        yield


def _refuse_accumulation(line: str) -> None:
    raise CaptureError(
        f"capture: the model calls backward(){f' at {line}' if line else ''}, which adds to the "
        "grad of its parameters or inputs, and a divided model does not: use "
        "torch.autograd.grad(loss, x), or loss.backward(inputs=[x]) with an x of its own"
    )

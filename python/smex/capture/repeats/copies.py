"""Tracing one call of a kind, forward and backward, and standing for the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks

from smex.capture.repeats.kinds import Kind
from smex.capture.repeats.operators import ENTER, LEAVE, REPEAT, described
from smex.capture.repeats.structure import Call, Result


class NotRepeatedError(Exception):
    """What was copied ought to have been traced: the capture begins anew without copies."""


@dataclasses.dataclass
class Origin:
    """Where the calls of a copy come from.

    Attributes:
        names: by path of a module of the call that was traced that of this one's; None for the
            traced one itself.
        lines: the same for lines of the source.
        region: the checkpoint that it is inside of.
        first: the number of the call that was traced.
        outer: the checkpoint that that is inside of.
    """

    names: dict[str, str] | None
    lines: dict[str, str]
    region: int | None
    first: int
    outer: int | None

    def of(self, path: str, line: str) -> tuple[str, str]:
        """Returns the path and the line in the place of those of the traced call."""
        if self.names is None:
            return path, line
        return self.names.get(path, path), self.lines.get(line, line)


@dataclasses.dataclass
class Traced:
    """The call of a kind that was traced."""

    number: int
    body: int
    call: Call
    path: str
    region: int | None
    inputs: list[torch.Tensor] = dataclasses.field(default_factory=list)
    wanted: list[int] = dataclasses.field(default_factory=list)  # inputs that require gradients
    outputs: list[torch.Tensor] = dataclasses.field(default_factory=list)
    passes: dict[Hashable, tuple[int, list[int], list[int]]] = dataclasses.field(
        default_factory=dict
    )  # by which gradients come: the body, which inputs get one, and what these are like


class Maker:
    """Makes the results of one call, and the gradients of its inputs.

    Args:
        kind: whose call it is.
        number: of the call.
        traced: the call that it is a copy of; None where no graph is made.
        run: runs the call, if it is the one that is traced.
        new_number: gives numbers.
    """

    def __init__(
        self,
        kind: Kind,
        number: int,
        traced: Traced | None,
        run: Callable[[Any], Any] | None,
        new_number: Callable[[], int],
    ) -> None:
        self.kind = kind
        self._number = number
        self._traced = traced
        self._run = run
        self._new_number = new_number

    def outputs(self, tensors: Sequence[torch.Tensor], grad: bool) -> list[torch.Tensor]:
        """Returns the outputs; to be called without gradients.

        Args:
            tensors: of the call.
            grad: whether gradients are enabled around the call.
        """
        if self._run is not None:
            return self._trace(tensors, grad)
        body = 0 if self._traced is None else self._traced.body
        with torch._C.DisableTorchFunction():
            return list(REPEAT(list(tensors), body, self._number, self.kind.described))

    def _trace(self, tensors: Sequence[torch.Tensor], grad: bool) -> list[torch.Tensor]:
        traced, run = self._traced, self._run
        assert traced is not None
        assert run is not None
        self._run = None
        call = traced.call
        with torch._C.DisableTorchFunction():
            inner = list(ENTER(list(tensors), traced.body, self._number))
            for tensor, given in zip(inner, tensors, strict=True):
                tensor.requires_grad_(given.requires_grad)
            own, state = call.structure.tensors, call.state(inner)
            call.structure.put(state)
        try:
            with torch.set_grad_enabled(grad):
                result = Result.of(run(call.arguments(inner)), inner)
        finally:
            with torch._C.DisableTorchFunction():
                unchanged = call.structure.as_put(state)
                call.structure.put(own)
        with torch._C.DisableTorchFunction():
            if not unchanged or any(tensor._version for tensor in inner):
                raise NotRepeatedError("it changes its state or a tensor that it is given")
            if not self.kind.returns(result):
                raise NotRepeatedError("it returns something else")
            outputs = result.outputs
            left = list(LEAVE(list(outputs), traced.body))
        traced.inputs = inner
        traced.wanted = [n for n, tensor in enumerate(inner) if tensor.requires_grad]
        traced.outputs = outputs
        setup_stacktrace_preservation_hooks([o.grad_fn for o in outputs if o.grad_fn is not None])
        return left

    def gradients(self, grads: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Returns the gradients of the tensors of the call."""
        traced = self._traced
        assert traced is not None
        found: list[torch.Tensor | None] = [None] * len(traced.inputs)
        given = [grad for grad in grads if grad is not None]
        if not given:
            return found
        with torch._C.DisableTorchFunction():
            pattern = tuple(None if g is None else (g.dtype, g.stride()) for g in grads)
            known = traced.passes.get(pattern)
            if known is None:
                return self._trace_backward(traced, pattern, grads, found)
            body, positions, meta = known
            made = REPEAT(given, body, self._number, meta)
        for n, tensor in zip(positions, made, strict=True):
            found[n] = tensor
        return found

    def _trace_backward(
        self,
        traced: Traced,
        pattern: Hashable,
        grads: Sequence[torch.Tensor | None],
        found: list[torch.Tensor | None],
    ) -> list[torch.Tensor | None]:
        body = self._new_number()
        inner = list(ENTER([grad for grad in grads if grad is not None], body, self._number))
        results = torch.autograd.grad(
            [out for out, grad in zip(traced.outputs, grads, strict=True) if grad is not None],
            [traced.inputs[n] for n in traced.wanted],
            inner,
            retain_graph=True,
            allow_unused=True,
        )
        positions = [n for n, r in zip(traced.wanted, results, strict=True) if r is not None]
        made = [r for r in results if r is not None]
        traced.passes[pattern] = (body, positions, described(made))
        for n, tensor in zip(positions, LEAVE(made, body), strict=True):
            found[n] = tensor
        return found


class Copy(torch.autograd.Function):
    """A call as one node of autograd's graph."""

    @staticmethod
    def forward(ctx: Any, maker: Maker, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns the outputs."""
        ctx.maker = maker
        ctx.set_materialize_grads(False)
        outputs = maker.outputs(tensors, grad=True)
        rough = [out for out, is_smooth in zip(outputs, maker.kind.smooth) if not is_smooth]
        ctx.mark_non_differentiable(*rough)
        return tuple(outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Returns the gradients of the tensors."""
        return (None, *ctx.maker.gradients(grads))

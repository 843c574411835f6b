"""Tracing one call of a kind, forward and backward, and standing for the others."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from smex.capture.repeats.kinds import Kind
from smex.capture.repeats.operators import ENTER, LEAVE, REPEAT, described
from smex.capture.repeats.structure import Call, Result, fixed_sizes


class NotRepeatedError(Exception):
    """What was copied ought to have been traced: the capture begins anew without copies."""


Arrival = tuple[int, Node, int]
"""That a gradient is there: its number, the node after which, and after how many sums behind it."""


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
    arrivals: list[Arrival] = dataclasses.field(default_factory=list)

    def forget(self) -> None:
        """Lets its tensors go, which lead back to it by the hooks of their functions."""
        self.inputs, self.outputs = [], []
        self.call.forget()

    def note_arrivals(self) -> None:
        """Notes, in each backward pass, which input's gradient is there after which node."""
        number = {id(tensor): n for n, tensor in enumerate(self.inputs)}
        for function in _functions(self.outputs):
            edges = [
                (
                    None if f is None else (id(f), place),
                    number.get(id(getattr(f, "variable", None))),
                )
                for f, place in function.next_functions
            ]
            function.register_hook(functools.partial(self._arrived, edges))

    def _arrived(self, edges: list[tuple[Any, int | None]], made: Any, given: Any) -> None:
        """Follows torch, which now adds each gradient to what came before it, one by one."""
        node = last_node()
        sums = 0
        for (edge, n), gradient in zip(edges, made, strict=True):
            if gradient is None or edge is None:
                continue
            if n is not None:
                self.arrivals.append((n, node, sums))
            sums += edge in self._reached
            self._reached.add(edge)

    def begin_backward(self) -> None:
        """To be called before each backward pass."""
        self.arrivals = []
        self._reached: set[tuple[int, int]] = set()


def _functions(outputs: Sequence[torch.Tensor]) -> Iterator[Any]:
    """Yields autograd's functions that outputs come from."""
    waiting = [output.grad_fn for output in outputs if output.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        function = waiting.pop()
        yield function
        for following, _ in function.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def _made_at(function: Any) -> int:
    return int(function._sequence_nr())


def last_node() -> Node:
    """Returns the node that was added last to the graph that is traced."""
    mode = get_proxy_mode()
    assert mode is not None
    return mode.tracer.graph._root._prev


class Additions:
    """Which gradients come to others that are there.

    Attributes:
        arrivals: by number of a backward body its results.
        summed: by body and number of a call the results that torch adds to what came before.
        results: of the model.
    """

    def __init__(self) -> None:
        self.arrivals: dict[int, list[Arrival]] = {}
        self.summed: dict[tuple[int, int], list[int]] = {}
        self.results: list[torch.Tensor] = []
        self._first: dict[tuple[Any, int], Any] | None = None

    def later(self, function: Any) -> list[bool]:
        """Returns for each tensor of a call whether it has a gradient before this backward pass.

        Args:
            function: of autograd, which is running.
        """
        if self._first is None:
            self._first = {}
            # Torch runs those that were made last first.
            for each in sorted(_functions(self.results), key=_made_at, reverse=True):
                for edge in each.next_functions:
                    self._first.setdefault(edge, each)
        return [self._first.get(edge) is not function for edge in function.next_functions]

    def forget(self) -> None:
        """Lets the graph of autograd go."""
        self.results, self._first = [], None


class Maker:
    """Makes the results of one call, and the gradients of its inputs.

    Args:
        kind: whose call it is.
        number: of the call.
        traced: the call that it is a copy of; None where no graph is made.
        run: runs the call, if it is the one that is traced.
        new_number: gives numbers.
        additions: is told what the backward passes add up.
    """

    def __init__(
        self,
        kind: Kind,
        number: int,
        traced: Traced | None,
        run: Callable[[Any], Any] | None,
        new_number: Callable[[], int],
        additions: Additions,
    ) -> None:
        self.kind = kind
        self._number = number
        self._traced = traced
        self._run = run
        self._new_number = new_number
        self._additions = additions

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
        from torch._functorch._aot_autograd import logging_utils  # seconds, for captures alone

        traced.inputs = inner
        traced.wanted = [n for n, tensor in enumerate(inner) if tensor.requires_grad]
        traced.outputs = outputs
        traced.note_arrivals()
        logging_utils.setup_stacktrace_preservation_hooks(
            [o.grad_fn for o in outputs if o.grad_fn is not None]
        )
        return left

    def gradients(
        self, grads: Sequence[torch.Tensor | None], function: Any
    ) -> list[torch.Tensor | None]:
        """Returns the gradients of the tensors of the call.

        Args:
            grads: of the outputs.
            function: of autograd, which is running.
        """
        traced = self._traced
        assert traced is not None
        found: list[torch.Tensor | None] = [None] * len(traced.inputs)
        given = [grad for grad in grads if grad is not None]
        if not given:
            return found
        with torch._C.DisableTorchFunction():
            pattern = tuple(
                None if grad is None else (grad.dtype, fixed_sizes(grad.stride())) for grad in grads
            )
            known = traced.passes.get(pattern)
            later = self._additions.later(function)
            if known is None:
                made = self._trace_backward(traced, pattern, grads)
                body, positions, _ = traced.passes[pattern]
            else:
                body, positions, meta = known
                made = REPEAT(given, body, self._number, meta)
        self._additions.summed[body, self._number] = [
            k for k, n in enumerate(positions) if later[n]
        ]
        for n, tensor in zip(positions, made, strict=True):
            found[n] = tensor
        return found

    def _trace_backward(
        self,
        traced: Traced,
        pattern: Hashable,
        grads: Sequence[torch.Tensor | None],
    ) -> list[torch.Tensor]:
        body = self._new_number()
        traced.begin_backward()
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
        self._additions.arrivals[body] = [
            (positions.index(n), node, sums) for n, node, sums in traced.arrivals
        ]
        traced.passes[pattern] = (body, positions, described(made))
        return list(LEAVE(made, body))


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
        return (None, *ctx.maker.gradients(grads, ctx))

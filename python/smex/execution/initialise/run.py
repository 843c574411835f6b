"""Running what initialises a model, on fake tensors, and finding out what it makes of each."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.nn import init as torch_init

from smex._logging import quiet_fakes
from smex.capture.in_shards import own_attributes
from smex.capture.origin import error_line
from smex.capture.swap import StateSlot, swapped
from smex.capture.user_code import replaced
from smex.errors import SmexError, SmexRuntimeError
from smex.execution.initialise.nodes import View
from smex.execution.initialise.recording import Recorder

_METHODS = ("reset_parameters", "_reset_parameters")
"""Of modules; the second is what some of torch's own call it."""


def recorded(
    roots: Sequence[Any],
    slots: Sequence[StateSlot],
    kept: Sequence[bool],
    init_fn: Callable[[torch.nn.Module], Any] | None,
    read: Callable[[View], Any],
) -> list[View | None]:
    """Returns by slot what an initialisation makes of it; None where that leaves it as it is.

    Args:
        roots: the model and the loss.
        slots: their parameters and buffers.
        kept: for each whether it may stay as it is.
        init_fn: see `smex.init`.
        read: see `Recorder`.

    Raises:
        SmexRuntimeError: it fails, reads values, changes shapes, or leaves a tensor without values.
    """
    recorder = Recorder(read)
    fakes = [
        recorder.constant(slot.tensor, slot.names[0])
        if keeps
        else recorder.blank(slot.tensor.shape, slot.tensor.dtype, slot.names[0])
        for slot, keeps in zip(slots, kept, strict=True)
    ]
    before = [recorder.view(fake) for fake in fakes]
    given = [_as(slot, fake) for slot, fake in zip(slots, fakes, strict=True)]
    parts = _children_first(roots)
    with swapped(list(slots), given), _nothing_new([part for _, part in parts]):
        _run(recorder, parts, init_fn)
        known = {id(tensor): tensor for tensor in given}
        made = [_made(recorder, slot, fake, known) for slot, fake in zip(slots, given, strict=True)]
    _refuse_missing(slots, made)
    return [None if now == was else now for now, was in zip(made, before, strict=True)]


def _as(slot: StateSlot, fake: torch.Tensor) -> torch.Tensor:
    """Returns the fake tensor as what stands in the slot."""
    if not isinstance(slot.tensor, torch.nn.Parameter):
        return fake
    parameter = torch.nn.Parameter(fake, requires_grad=slot.tensor.requires_grad)
    vars(parameter).update(
        {k: v for k, v in own_attributes(slot.tensor).items() if k not in vars(parameter)}
    )
    return parameter


def _children_first(roots: Sequence[Any]) -> list[tuple[str, torch.nn.Module]]:
    """Returns all modules once, in the order of `nn.Module.apply`, in which they are made too."""
    found: dict[int, tuple[str, torch.nn.Module]] = {}

    def visit(name: str, module: torch.nn.Module, above: frozenset[int]) -> None:
        if id(module) in above:
            return
        for child_name, child in module.named_children():
            path = f"{name}.{child_name}" if name else child_name
            visit(path, child, above | {id(module)})
        found.setdefault(id(module), (name, module))

    for root in roots:
        if isinstance(root, torch.nn.Module):
            visit("", root, frozenset())
    return list(found.values())


def _run(
    recorder: Recorder,
    parts: Sequence[tuple[str, torch.nn.Module]],
    init_fn: Callable[[torch.nn.Module], Any] | None,
) -> None:
    steps: list[tuple[str, str, Callable[[], Any]]] = []
    for name, module in parts:
        method = next((m for m in _METHODS if callable(getattr(module, m, None))), None)
        if method is not None:
            steps.append((name, f"{type(module).__name__}.{method}", getattr(module, method)))
    if init_fn is not None:
        for name, module in parts:
            steps.append((name, "init_fn", lambda module=module: init_fn(module)))  # type: ignore[misc]
    with (
        quiet_fakes(),
        torch.no_grad(),
        replaced(torch_init, "_no_grad_trunc_normal_", _trunc_normal),
        recorder,
    ):
        for name, what, step in steps:
            try:
                step()
            except SmexError:
                raise
            except Exception as error:
                raise _explained(error, what, name) from error


def _explained(error: Exception, what: str, name: str) -> SmexRuntimeError:
    line = error_line(error, "_run")
    where = f" at {line}" if line else ""
    of = f' of "{name}"' if name else ""
    values = "DataDependent" in type(error).__name__ or "DynamicOutputShape" in type(error).__name__
    if values or "FakeTensor" in str(error):
        return SmexRuntimeError(
            f"init: {what}{of} reads values of tensors{where}: each worker computes its own tiles "
            "only; compute with tensors, torch.where(...), or give the model values by smex.load "
            f"or net.load_state_dict ({error})"
        )
    return SmexRuntimeError(f"init: {what}{of} fails{where}: {type(error).__name__}: {error}")


def _trunc_normal(
    tensor: torch.Tensor, mean: float, std: float, a: float, b: float, generator: Any = None
) -> torch.Tensor:
    """A truncated normal distribution by the inverse of its own, without a loop over rejections.

    In double precision where that lies in a tail, of which few of a float's numbers are.
    """
    low, high = (math.erf((x - mean) / std / math.sqrt(2)) for x in (a, b))
    wide = torch.float32 if tensor.dtype.itemsize <= 2 else tensor.dtype
    if high - low < 0.6:
        wide = torch.float64
    drawn = torch.empty_like(tensor, dtype=wide)
    drawn.uniform_(low, high, generator=generator).erfinv_().mul_(std * math.sqrt(2)).add_(mean)
    tensor.copy_(drawn.clamp_(a, b))
    return tensor


def _made(
    recorder: Recorder, slot: StateSlot, given: torch.Tensor, known: Mapping[int, torch.Tensor]
) -> View:
    """Returns what stands in a slot now."""
    name = slot.names[0]
    now = getattr(*slot.holders[0])
    if not isinstance(now, torch.Tensor) or now.shape != given.shape:
        found = list(now.shape) if isinstance(now, torch.Tensor) else now
        raise SmexRuntimeError(
            f'init: "{name}" gets the shape {found}, its shards have {list(given.shape)}: change '
            "the model before smex.partition"
        )
    is_of_other = now is not given and id(now) in known
    if is_of_other or any(getattr(*holder) is not now for holder in slot.holders[1:]):
        raise SmexRuntimeError(
            f'init: "{name}" is tied to another tensor, or untied, whose shards exist: do it '
            "before smex.partition"
        )
    if now.dtype != given.dtype:
        raise SmexRuntimeError(
            f'init: "{name}" becomes {now.dtype}, its shards are {given.dtype}: convert the model '
            "before smex.partition"
        )
    if not isinstance(now, FakeTensor):  # one that has values was put in its place
        return recorder.view(recorder.constant(now.detach().to("cpu").contiguous(), name))
    view = recorder.view(now)
    recorder.assign(name, view)
    return view


def _refuse_missing(slots: Sequence[StateSlot], made: Sequence[View]) -> None:
    blank = [slot for slot, view in zip(slots, made, strict=True) if view.is_missing()]
    if not blank:
        return
    first = blank[0]
    module, _ = first.holders[0]
    names = ", ".join(f'"{slot.names[0]}"' for slot in blank[:8])
    more = f" and {len(blank) - 8} more" if len(blank) > 8 else ""
    kind = type(module).__name__
    raise SmexRuntimeError(
        f"init: nothing gives values to {names}{more}: "
        + (
            f"give {kind} a method reset_parameters that sets its {first.role}"
            if not hasattr(module, _METHODS[0])
            else f"{kind}.reset_parameters does not set all of its {first.role}"
        )
        + ", pass smex.init(net, init_fn=...), or load values: smex.load, net.load_state_dict"
    )


@contextlib.contextmanager
def _nothing_new(modules: Sequence[torch.nn.Module]) -> Iterator[None]:
    """Refuses tensors that an initialisation leaves in modules beside their state."""
    kinds = ("_parameters", "_buffers", "_modules")
    held = [[dict(getattr(module, kind)) for kind in kinds] for module in modules]
    attributes = [dict(vars(module)) for module in modules]
    try:
        yield
        for module, before, own in zip(modules, held, attributes, strict=True):
            for kind, names in zip(kinds, before, strict=True):
                if set(getattr(module, kind)) != set(names):
                    changed = sorted(set(getattr(module, kind)) ^ set(names))
                    raise SmexRuntimeError(
                        f'init: {type(module).__name__} gets or loses "{changed[0]}", which has '
                        "no shards: change the model before smex.partition"
                    )
            for name, value in vars(module).items():
                if isinstance(value, FakeTensor) and own.get(name) is not value:
                    raise SmexRuntimeError(
                        f"init: {type(module).__name__} gets a tensor as its attribute "
                        f'"{name}", which workers have no tiles of: register it as a buffer'
                    )
    finally:
        for module, before, own in zip(modules, held, attributes, strict=True):
            for kind, names in zip(kinds, before, strict=True):
                _restore(getattr(module, kind), names)
            for name, value in list(vars(module).items()):
                if isinstance(value, FakeTensor):
                    if isinstance(own.get(name), torch.Tensor):
                        vars(module)[name] = own[name]
                    else:
                        del vars(module)[name]


def _restore(members: dict, before: dict) -> None:
    for name in [name for name in members if name not in before]:
        del members[name]
    for name, value in before.items():
        if name not in members:
            members[name] = value

"""Calls of a net that are refused: by tracers and transforms, and of inputs that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any, NoReturn

import torch
from torch._guards import detect_fake_mode
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from smex.capture.memory import overlapping
from smex.errors import SmexRuntimeError, SmexValueError


def foreign_tracer(leaves: Iterable[Any] = ()) -> str:
    """Returns what of torch looks into functions here, or at these arguments.

    Usually nothing, ''.
    """
    if torch._C._are_functorch_transforms_active():
        return "torch.func"
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace"
    if torch.compiler.is_exporting():
        return "torch.export"
    leaves = list(leaves)
    if any(isinstance(leaf, torch.fx.Proxy) for leaf in leaves):
        return "torch.fx"
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if get_proxy_mode() is not None or detect_fake_mode(tensors) is not None:
        return "a tracer"
    if any(map(_is_batched, tensors)):
        return "torch.vmap"
    return ""


def _is_batched(tensor: torch.Tensor) -> bool:
    """Whether it is one of `is_grads_batched=True` or of `jacobian(..., vectorize=True)`."""
    return torch._C._functorch.is_legacy_batchedtensor(tensor)


def refuse_tracer(tracer: str) -> NoReturn:
    """Raises SmexRuntimeError for what wants to look into a net."""
    raise SmexRuntimeError(
        f"partition: {tracer} cannot look into a partitioned net, which is a compiled program: "
        "trace, transform or export the model itself, before smex.partition"
    )


def refuse_tracers(leaves: Iterable[Any] = ()) -> None:
    """Raises SmexRuntimeError where torch traces or transforms what calls this."""
    found = foreign_tracer(leaves)
    if found:
        refuse_tracer(found)


def refuse_export(frame: FrameType) -> None:
    """Raises SmexRuntimeError where a frame is one of ``torch.export``."""
    if frame.f_globals.get("__name__", "").startswith(("torch.export", "torch._export")):
        refuse_tracer("torch.export")


def refuse_meta(tensors: Sequence[torch.Tensor], names: Sequence[str]) -> None:
    """Raises SmexValueError for inputs that have no values."""
    for tensor, name in zip(tensors, names, strict=True):
        if tensor.is_meta:
            raise SmexValueError(
                f'partition: "{name}" is on the meta device and has no values to compute with; '
                "net.prepare((x,)) captures and plans for it"
            )


def refuse_overlaps(changed: set[int], tensors: Sequence[torch.Tensor], names: list[str]) -> None:
    """Raises SmexRuntimeError where a change of one input would be seen in another.

    Args:
        changed: positions of the tensors that the model changes in place.
        tensors: of the call.
        names: of the tensors.
    """
    for n in sorted(changed):
        if torch._debug_has_internal_overlap(tensors[n]) == 1:
            raise SmexRuntimeError(
                f'partition: the model changes its input "{names[n]}" in place, several elements '
                "of which are one in memory: pass x.clone() in place of an expanded tensor"
            )
    for pair in overlapping(tensors) if changed else ():
        if not changed.isdisjoint(pair):
            n, other = pair if pair[0] in changed else pair[::-1]
            raise SmexRuntimeError(
                f'partition: the model changes its input "{names[n]}" in place, whose memory is '
                f'also that of "{names[other]}": pass x.clone() for one of them'
            )

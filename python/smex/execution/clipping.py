"""Clipping the gradients of a net by their norm."""

from __future__ import annotations

import torch

from smex.errors import SmexTypeError, SmexValueError
from smex.execution.module import PartitionedModule
from smex.execution.norms import GradientNorms, refuse_nonfinite


def clip_grad_norm_(
    net: PartitionedModule,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> torch.Tensor:
    """Scales all gradients so that their norm, as that of one vector, is at most `max_norm`.

    Every element of a gradient counts once, however many workers hold it. The result is the same
    for workers that are threads and for those in processes, which each call this. So is
    `torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm)`.

    Args:
        net: what `smex.partition` returned, after its backward pass.
        max_norm: of all gradients together, at least 0.
        norm_type: p of the p-norm; `inf` for the largest magnitude.
        error_if_nonfinite: whether a norm that is nan or infinite is an error.
        foreach: as torch's function takes it; changes nothing.

    Returns:
        The norm before, a scalar on the CPU.

    Raises:
        SmexTypeError: `net` is no net.
        SmexValueError: `max_norm` is negative.
        SmexRuntimeError: the norm is not finite, with `error_if_nonfinite`; nothing is changed.
    """
    if not isinstance(net, PartitionedModule):
        raise SmexTypeError(
            f"clip_grad_norm_: expected what smex.partition returned, got {type(net).__name__}; "
            "torch.nn.utils.clip_grad_norm_ clips the gradients of other modules"
        )
    if not max_norm >= 0:
        raise SmexValueError(f"clip_grad_norm_: max_norm must be at least 0, got {max_norm!r}")
    state = net._state
    with state.world.during("smex.clip_grad_norm_"):
        total = state.cached(GradientNorms).total(float(norm_type))
    if error_if_nonfinite:
        refuse_nonfinite(total, norm_type)
    scale = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    with torch.no_grad():
        for cut in state.cuts.values():
            for tile, _ in cut.unique:
                if tile.grad is not None:
                    tile.grad.mul_(scale.to(tile.grad.device, tile.grad.dtype))
    return total

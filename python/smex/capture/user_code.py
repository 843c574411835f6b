"""What runs otherwise, or may not run, in a model's code while it is traced."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint
from torch.nn import functional as F

from smex.capture.origin import user_line
from smex.errors import CaptureError


@contextlib.contextmanager
def prepared(tell: Callable[[str], None]) -> Iterator[None]:
    """Torch for code that is traced: no fused kernels of one device, no values looked at.

    `tell` is given the text of each warning.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with (
        sdpa_kernel(SDPBackend.MATH),
        torch.jit.optimized_execution(False),  # type: ignore[attr-defined]
        _without_onednn(),
        _without_validation(),
        _without_checkpoints(tell),
        _without_seeds(),
        _replaced(torch.nn.modules.batchnorm._BatchNorm, "forward", _batch_norm),
        # Names for a profiler, which the tracer cannot take.
        _replaced(torch.autograd.profiler.record_function, "__enter__", lambda self: self),
        _replaced(torch.autograd.profiler.record_function, "__exit__", lambda *_: None),
    ):
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = owner.__dict__.get(name, _ABSENT)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _ABSENT:  # inherited
            delattr(owner, name)
        else:
            setattr(owner, name, before)


_ABSENT = object()


@contextlib.contextmanager
def _without_onednn() -> Iterator[None]:
    onednn = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)  # backends.mkldnn.flags warns about unrelated devices
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(onednn)


@contextlib.contextmanager
def _without_validation() -> Iterator[None]:
    """Distributions look at their parameters' values unless they are told not to."""
    base = torch.distributions.Distribution
    before = base._validate_args
    base.set_default_validate_args(False)
    try:
        yield
    finally:
        base.set_default_validate_args(before)


@contextlib.contextmanager
def _without_checkpoints(tell: Callable[[str], None]) -> Iterator[None]:
    """Regions of `torch.utils.checkpoint` run as any other code."""
    told = False

    def warn() -> None:
        nonlocal told
        if not told:
            line = user_line(sys._getframe(2))
            tell(
                f"capture: torch.utils.checkpoint{f' at {line}' if line else ''} has no effect: "
                "what its regions compute is kept for the backward pass. Take more workers or a "
                "smaller batch if memory is short; net.plan.peak_bytes() predicts it"
            )
        told = True

    def region(*_: Any, **__: Any) -> Iterator[None]:
        warn()
        yield

    def apply(function: Callable, preserve: bool, *args: Any) -> Any:
        warn()
        return function(*args)

    module = torch.utils.checkpoint
    with contextlib.ExitStack() as stack:
        for name in ("", "_impl"):  # of torch 2.11 and 2.15
            generator = f"_checkpoint_without_reentrant_generator{name}"
            if hasattr(module, generator):
                stack.enter_context(_replaced(module, generator, region))
        stack.enter_context(_replaced(module.CheckpointFunction, "apply", apply))
        yield


@contextlib.contextmanager
def _without_seeds() -> Iterator[None]:
    def refuse(*_: Any, **__: Any) -> Any:
        line = user_line(sys._getframe(1))
        raise CaptureError(
            f"capture: the model sets the seed{f' at {line}' if line else ''}, which would happen "
            "once, when it is captured: numbers are drawn by place from one seed for each call. "
            "Set it before the call"
        )

    with (
        _replaced(torch, "manual_seed", refuse),
        _replaced(torch.random, "manual_seed", refuse),
        _replaced(torch, "seed", refuse),
        _replaced(torch.random, "seed", refuse),
    ):
        yield


_forward_of_batch_norm = torch.nn.modules.batchnorm._BatchNorm.forward


def _batch_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    """Batch norm; a mean over all batches (`momentum=None`) without looking at their number."""
    counted = self.training and self.track_running_stats and self.num_batches_tracked is not None
    if self.momentum is not None or not counted:
        return _forward_of_batch_norm(self, x)
    self._check_input_dim(x)
    self.num_batches_tracked.add_(1)
    with torch.no_grad():
        share = 1 / self.num_batches_tracked.to(self.running_mean.dtype)
        dims = [d for d in range(x.dim()) if d != 1]
        for running, batch in (
            (self.running_mean, x.mean(dims)),
            (self.running_var, x.var(dims, unbiased=True)),
        ):
            running.copy_(running * (1 - share) + batch.to(running.dtype) * share)
    return F.batch_norm(
        x, None, None, self.weight, self.bias, training=True, momentum=0.0, eps=self.eps
    )

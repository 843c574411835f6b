"""What runs otherwise, or may not run, in a model's code while it is traced."""

from __future__ import annotations

import collections
import contextlib
import functools
import inspect
import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import numpy.random
import torch
import torch.utils.checkpoint
from torch.nn import functional as F

from smex.capture.attention import flex_attention, scaled_dot_product
from smex.capture.origin import user_line
from smex.errors import CaptureError


@contextlib.contextmanager
def prepared(
    tell: Callable[[str], None], region: Callable[[], contextlib.AbstractContextManager[None]]
) -> Iterator[None]:
    """Torch for code that is traced: no fused kernels of one device but attention, no values seen.

    Args:
        tell: is given the text of each warning.
        region: what an activation checkpoint runs in.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with (
        # The CPU's call stands for those of all devices (decompositions.py).
        sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]),
        torch.jit.optimized_execution(False),  # type: ignore[attr-defined]
        _without_onednn(),
        # Distributions look at their parameters' values unless they are told not to.
        replaced(torch.distributions.Distribution, "_validate_args", False),
        _checkpoints(tell, region),
        _flex_attention(region),
        # For code of torch's own, in which no mode sees the call.
        replaced(F, "scaled_dot_product_attention", scaled_dot_product),
        _without(_SEEDING, _sets_seed),
        _without(_DRAWING, _draws),
        replaced(torch.nn.modules.batchnorm._BatchNorm, "forward", _batch_norm),
        # nn.Transformer compares a mask with a causal one, to tell what it passes anyway.
        replaced(torch.nn.modules.transformer, "_detect_is_causal_mask", _told_causal),
        # Names for a profiler, which the tracer cannot take.
        replaced(torch.autograd.profiler.record_function, "__enter__", lambda self: self),
        replaced(torch.autograd.profiler.record_function, "__exit__", lambda *_: None),
    ):
        yield


def _told_causal(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    return is_causal is True


class _Choice:
    """A value of a module or class for the threads that replace it; others find the original."""

    def __init__(self, owner: Any, name: str) -> None:
        self.inherited = name not in vars(owner)
        self.kept = vars(owner).get(name)
        self.original = getattr(owner, name)
        self.of_thread: dict[int, list[Any]] = collections.defaultdict(list)

    def now(self) -> Any:
        values = self.of_thread.get(threading.get_ident())
        return values[-1] if values else self.original


class _Flag(_Choice):
    """One that is true or false."""

    def __bool__(self) -> bool:
        return bool(self.now())

    def __or__(self, other: Any) -> Any:
        return bool(self) | other

    def __and__(self, other: Any) -> Any:
        return bool(self) & other

    __ror__ = __or__
    __rand__ = __and__


_choices: dict[tuple[int, str], _Choice] = {}
_lock = threading.Lock()


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Gives a module or class another function, or flag, for the code of this thread."""
    key, thread = (id(owner), name), threading.get_ident()
    with _lock:
        choice = _choices.get(key)
        if choice is None:
            choice = _choices[key] = (_Flag if type(value) is bool else _Choice)(owner, name)
            setattr(owner, name, choice if type(value) is bool else _stand_in(choice))
        choice.of_thread[thread].append(value)
    try:
        yield
    finally:
        with _lock:
            choice.of_thread[thread].pop()
            if not choice.of_thread[thread]:
                del choice.of_thread[thread]
            if not choice.of_thread:
                del _choices[key]
                _give_back(owner, name, choice)


def _stand_in(choice: _Choice) -> Callable:
    """Returns a function, of which a class makes methods."""
    return functools.wraps(choice.original)(lambda *args, **kwargs: choice.now()(*args, **kwargs))


def _give_back(owner: Any, name: str, choice: _Choice) -> None:
    if choice.inherited:
        delattr(owner, name)
    else:
        setattr(owner, name, choice.kept)


@contextlib.contextmanager
def _without_onednn() -> Iterator[None]:
    onednn = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)  # backends.mkldnn.flags warns about unrelated devices
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(onednn)


@contextlib.contextmanager
def _checkpoints(
    tell: Callable[[str], None], region: Callable[[], contextlib.AbstractContextManager[None]]
) -> Iterator[None]:
    """Regions of `torch.utils.checkpoint` run as any other code, marked as such."""

    def marked(signature: inspect.Signature, *args: Any, **kwargs: Any) -> Iterator[None]:
        policy = signature.bind(*args, **kwargs).arguments.get("context_fn")
        if policy not in (None, torch.utils.checkpoint.noop_context_fn):
            line = user_line(sys._getframe(1))
            tell(
                f"capture: the policy of torch.utils.checkpoint{f' at {line}' if line else ''} "
                "that chooses what is saved has no effect: the backward pass computes all of the "
                "region again. Put a checkpoint around less to save more"
            )
        with region():
            yield

    def apply(function: Callable, preserve: bool, *args: Any) -> Any:
        with region():
            return function(*args)

    module = torch.utils.checkpoint
    with contextlib.ExitStack() as stack:
        for name in ("", "_impl"):  # of torch 2.11 and 2.15
            generator = f"_checkpoint_without_reentrant_generator{name}"
            if hasattr(module, generator):
                marker = functools.partial(marked, inspect.signature(getattr(module, generator)))
                stack.enter_context(replaced(module, generator, marker))
        stack.enter_context(replaced(module.CheckpointFunction, "apply", apply))
        yield


@contextlib.contextmanager
def _flex_attention(
    region: Callable[[], contextlib.AbstractContextManager[None]],
) -> Iterator[None]:
    """Plain operators in the place of the higher-order one, which is compiled elsewhere."""
    import torch.nn.attention.flex_attention as module

    flag = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
    if not hasattr(module, flag):  # an older torch
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(module, flag, True))
        stack.enter_context(replaced(module, "flex_attention_hop", flex_attention(region)))
        # Neither that gradients are for some devices only nor that all scores are stored is true of
        # what takes its place.
        for name in ("_validate_device", "_warn_once"):
            if hasattr(module, name):
                stack.enter_context(replaced(module, name, lambda *_, **__: None))
        yield


def _drawing(module: Any, generator: Any) -> list[str]:
    """Returns the functions of a module that are methods of one generator."""
    return [
        name
        for name, function in vars(module).items()
        if getattr(function, "__self__", None) is generator
        and not name.startswith(("_", "get", "set"))  # which a tracer reads and puts back
    ]


_SEEDING = [(module, name) for module in (torch, torch.random) for name in ("manual_seed", "seed")]
_DRAWING = [
    *((random, name) for name in _drawing(random, random._inst)),
    *((numpy.random, name) for name in _drawing(numpy.random, numpy.random.mtrand._rand)),
]


def _sets_seed(where: str) -> CaptureError:
    return CaptureError(
        f"capture: the model sets the seed{where}, which would happen once, when it is captured: "
        "numbers are drawn by place from one seed for each call. Set it before the call"
    )


def _draws(where: str) -> CaptureError:
    return CaptureError(
        f"capture: the model draws a number with Python or NumPy{where}, which would happen once, "
        "when it is captured: draw it with torch.rand and choose with torch.where, or pass it as "
        "an argument"
    )


@contextlib.contextmanager
def _without(
    functions: Sequence[tuple[Any, str]], error: Callable[[str], CaptureError]
) -> Iterator[None]:
    """Refuses functions of modules that would run once, for all calls."""

    def refuse(*_: Any, **__: Any) -> Any:
        line = user_line(sys._getframe(1))
        raise error(f" at {line}" if line else "")

    with contextlib.ExitStack() as stack:
        for module, name in functions:
            stack.enter_context(replaced(module, name, refuse))
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

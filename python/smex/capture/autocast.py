"""Autocast of the device that a captured model is for: it is traced with tensors of the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from smex._C import CudaAutocastOnCpu
from smex.capture.user_code import replaced

_ASKED = ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype")


@contextlib.contextmanager
def autocast_for(device_type: str) -> Iterator[None]:
    """Inside, CPU tensors are cast as those of a device would be, also by the model's own regions.

    Args:
        device_type: "cpu", which changes nothing, or "cuda".
    """
    if device_type != "cuda":
        yield
        return
    enabled, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    with (
        CudaAutocastOnCpu(),
        torch.autocast("cpu", dtype, enabled, torch.is_autocast_cache_enabled()),
        contextlib.ExitStack() as stack,
    ):
        for name in _ASKED:
            function = _of_cuda_on_cpu(getattr(torch._C, name))
            stack.enter_context(replaced(torch, name, function))
        yield


def _of_cuda_on_cpu(function: Callable) -> Callable:
    """A function that takes a device first: the CPU in CUDA's place, which is meant without one."""

    def of_cpu(*args: Any) -> Any:
        if args and isinstance(args[0], str):
            return function("cpu" if args[0] == "cuda" else args[0], *args[1:])
        return function("cpu", *args)

    return of_cpu

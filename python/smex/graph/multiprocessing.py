"""``torch.multiprocessing``, and tensors that the processes of a group share."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as processes
from torch import Tensor
from torch.multiprocessing import *  # noqa: F403

__all__ = [
    *processes.__all__,
    "Process",
    "call_once_and_share",
    "shared_tensor",
    "thread_wrapped_func",
]

_MEMORY = Path("/dev/shm")


def thread_wrapped_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that runs another in a thread of its own and waits for it.

    Example:
        >>> import smex.graph as sg
        >>> sg.multiprocessing.thread_wrapped_func(max)(2, 3)
        3
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(func, *args, **kwargs).result()

    return wrapped


class Process(processes.Process):
    """A process of ``torch.multiprocessing`` whose function runs in a thread of its own.

    Threads of OpenMP that its parent had do not exist in a process that was forked.

    Args:
        group: None.
        target: the function.
        name: of the process.
        args: of the function.
        kwargs: of the function.
        daemon: whether it ends with its parent.
    """

    def __init__(
        self,
        group: None = None,
        target: Callable[..., Any] | None = None,
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ):
        super().__init__(group, target, name, tuple(args), dict(kwargs or {}), daemon=daemon)

    def run(self) -> None:
        """Runs the function."""
        thread_wrapped_func(super().run)()


def call_once_and_share(
    func: Callable[[], Any], shape: Sequence[int], dtype: torch.dtype, rank: int = 0
) -> Tensor:
    """What one process computes, in memory that all processes of the group on a computer share.

    Args:
        func: returns what the tensor is filled with; called on one rank alone.
        shape: of the tensor.
        dtype: of the tensor.
        rank: who calls the function.

    Returns:
        The tensor, whose memory is freed when no process has it any more. Without a group of
        ``torch.distributed`` it is shared with processes that are started later.

    Example:
        >>> import smex.graph as sg
        >>> sg.multiprocessing.call_once_and_share(lambda: torch.ones(2), (2,), torch.float32)
        tensor([1., 1.])
    """
    if not torch.distributed.is_initialized():
        result = torch.empty(*shape, dtype=dtype).share_memory_()
        result[...] = func()
        return result
    own = torch.distributed.get_rank() == rank
    path = [_new_file(shape, dtype) if own else None]
    try:
        torch.distributed.broadcast_object_list(path, src=rank)
        result = _mapped(str(path[0]), shape, dtype)
        if own:
            result[...] = func()
        torch.distributed.barrier()
    finally:
        if own:
            os.unlink(str(path[0]))
    return result


def _new_file(shape: Sequence[int], dtype: torch.dtype) -> str:
    folder = _MEMORY if _MEMORY.is_dir() else None
    number, path = tempfile.mkstemp(prefix="smex_shared_", dir=folder)
    os.truncate(number, torch.Size(shape).numel() * dtype.itemsize)
    os.close(number)
    return path


def _mapped(path: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    size = torch.Size(shape).numel()
    if not size:  # there is nothing to map
        return torch.empty(*shape, dtype=dtype)
    return torch.from_file(path, shared=True, size=size, dtype=dtype).view(*shape)


def shared_tensor(shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """Returns a tensor of zeros that all processes of the group on a computer share.

    Args:
        shape: of the tensor.
        dtype: of the tensor.

    Example:
        >>> import smex.graph as sg
        >>> sg.multiprocessing.shared_tensor((2, 3)).shape
        torch.Size([2, 3])
    """
    return call_once_and_share(lambda: 0, shape, dtype)

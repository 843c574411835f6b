"""Which device is meant by what a user passes."""

from __future__ import annotations

import torch
from torch.distributed.device_mesh import DeviceMesh

from smex.errors import SmexValueError


def checked_device(device: str | torch.device, whose: str) -> torch.device:
    """Returns a device with its index, as tensors name theirs.

    Args:
        device: "cpu", "cuda", which is the current one, or "cuda:0".
        whose: the call that errors name.

    Raises:
        SmexValueError: there is no such device.
    """
    try:
        found = torch.device(device)
    except RuntimeError:
        raise SmexValueError(
            f'{whose}: devices are like "cpu" or "cuda:0", got {device!r}'
        ) from None
    if found.type not in ("cpu", "cuda"):
        raise SmexValueError(f'{whose}: devices are like "cpu" or "cuda:0", got {device!r}')
    available = torch.cuda.device_count() if found.type == "cuda" else 1
    if found.type == "cuda" and (found.index or 0) >= available:
        raise SmexValueError(
            f'{whose}: there is no device "{found}"; torch sees {available} CUDA devices'
        )
    if found.type == "cuda" and found.index is None:
        found = torch.device("cuda", torch.cuda.current_device())
    return found


def device_of(
    device: str | torch.device | None, mesh: DeviceMesh | None, whose: str
) -> torch.device:
    """Returns the device that is given, else the current one of a mesh's type, else the CPU.

    Raises:
        SmexValueError: there is no such device.
    """
    if device is None:
        device = mesh.device_type if isinstance(mesh, DeviceMesh) else "cpu"
    return checked_device(device, whose)

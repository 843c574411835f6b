"""What `torch.optim.swa_utils.update_bn` sees of a partitioned net's batch norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class RunningStatistics(torch.nn.modules.batchnorm._BatchNorm):
    """Stands for a batch norm of the model, whose statistics are shards of the net.

    Args:
        norm: the model's own module.
        write: gives the net's shards the values of the module's buffers.
    """

    _norm: torch.nn.modules.batchnorm._BatchNorm
    _write: Callable[[], None]

    def __init__(self, norm: torch.nn.modules.batchnorm._BatchNorm, write: Callable[[], None]):
        torch.nn.Module.__init__(self)
        self.__dict__["_norm"] = norm
        self.__dict__["_write"] = write

    def reset_running_stats(self) -> None:
        """Sets the mean to 0 and the variance to 1, in the net too."""
        self._norm.reset_running_stats()
        self._write()

    @property
    def momentum(self) -> Any:
        """The module's own."""
        return self._norm.momentum

    @momentum.setter
    def momentum(self, value: float | None) -> None:
        self._norm.momentum = value

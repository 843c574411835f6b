"""What an epoch of a loader begins with."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["EpochSeedMixin"]


class EpochSeedMixin:
    """Makes epochs draw alike whether workers stay from one epoch to the next or not.

    ``torch.utils.data.DataLoader`` draws a seed for its workers when it starts them. Where they
    persist that is once; the orders and seeds of later epochs, drawn from the same generator, would
    be others than without workers.
    """

    def __iter__(self) -> Any:
        """Returns the batches of an epoch."""
        if getattr(self, "_iterator", None) is not None:  # workers that persist have their seed
            generator = self.generator  # type: ignore[attr-defined]
            torch.empty((), dtype=torch.int64).random_(generator=generator)
        return super().__iter__()  # type: ignore[misc]

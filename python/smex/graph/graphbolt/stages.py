"""The stages that do not sample: moving, changing, and waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import IterDataPipe, functional_datapipe

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.graphbolt.base import moved
from smex.graph.graphbolt.minibatch import MiniBatch

__all__ = ["Bufferer", "CopyTo", "EndMarker", "FutureWaiter", "MiniBatchTransformer", "Waiter"]


@functional_datapipe("copy_to")
class CopyTo(IterDataPipe):
    """Moves each batch to a device.

    Args:
        datapipe: the stage before.
        device: where to.
        extra_attrs: names of what `MiniBatch.to` leaves where it is, and is wanted too.
    """

    def __init__(
        self,
        datapipe: Any,
        device: torch.device | str,
        extra_attrs: Sequence[str] | None = None,
    ):
        super().__init__()
        self.datapipe = datapipe
        self.device = device
        self.extra_attrs = extra_attrs

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            batch = moved(data, self.device)
            for name in self.extra_attrs or ():
                setattr(batch, name, moved(getattr(batch, name), self.device))
            yield batch


@functional_datapipe("transform")
class MiniBatchTransformer(IterDataPipe):
    """Changes each batch by a function.

    Args:
        datapipe: the stage before.
        transformer: takes a :class:`MiniBatch` and returns one; by default the same.
    """

    def __init__(self, datapipe: Any, transformer: Callable[[Any], Any] | None = None):
        super().__init__()
        self.datapipe = datapipe
        self.transformer = transformer

    def __iter__(self) -> Iterator[Any]:
        for batch in self.datapipe:
            yield batch if self.transformer is None else self._changed(batch)

    def _changed(self, batch: Any) -> MiniBatch:
        assert self.transformer is not None
        found = self.transformer(batch)
        if not isinstance(found, MiniBatch):
            raise SmexTypeError(
                f"transform: expected that the function returns a MiniBatch, found a "
                f"{type(found).__name__}"
            )
        return found


@functional_datapipe("mark_end")
class EndMarker(IterDataPipe):
    """Passes everything on."""

    def __init__(self, datapipe: Any):
        super().__init__()
        self.datapipe = datapipe

    def __iter__(self) -> Iterator[Any]:
        yield from self.datapipe


@functional_datapipe("buffer")
class Bufferer(IterDataPipe):
    """Keeps some batches back, so that what they have begun goes on meanwhile.

    Args:
        datapipe: the stage before.
        buffer_size: how many.

    Raises:
        SmexValueError: it is less than 1.
    """

    def __init__(self, datapipe: Any, buffer_size: int = 1):
        super().__init__()
        if buffer_size < 1:
            raise SmexValueError(
                f"buffer: expected a buffer_size of at least 1, found {buffer_size}"
            )
        self.datapipe = datapipe
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator[Any]:
        kept: deque[Any] = deque()
        for data in self.datapipe:
            kept.append(data)
            if len(kept) > self.buffer_size:
                yield kept.popleft()
        yield from kept


@functional_datapipe("wait")
class Waiter(IterDataPipe):
    """Calls `wait` of each batch."""

    def __init__(self, datapipe: Any):
        super().__init__()
        self.datapipe = datapipe

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            data.wait()
            yield data


@functional_datapipe("wait_future")
class FutureWaiter(IterDataPipe):
    """Passes on the results of futures."""

    def __init__(self, datapipe: Any):
        super().__init__()
        self.datapipe = datapipe

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            yield data.result()

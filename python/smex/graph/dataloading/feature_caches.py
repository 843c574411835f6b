"""Features of a loader's graph whose rows are kept on the device of the batches."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.features.column import Pending
from smex.graph.features.frame import Frame
from smex.graph.features.row_cache import RowCache
from smex.graph.graph import Graph

__all__ = ["FeatureCaches"]


class FeatureCaches:
    """Caches of the features that a loader gathers ahead.

    Args:
        graph: the loader's.
        sizes: ``{"node": {name: rows}, "edge": {name: rows}}``, for how many rows of a feature, of
            each type that has it, there is room.
        device: of the batches.

    Raises:
        SmexTypeError: `sizes` is no such dict.
        SmexValueError: it has other keys.
    """

    def __init__(self, graph: Graph, sizes: Any, device: torch.device):
        self._of: dict[int, _Cached] = {}
        self._lock = threading.Lock()  # iterations may have threads of their own
        frames = {"node": _frames_of_nodes(graph), "edge": list(graph._edge_frames.values())}
        for kind, names in _checked(sizes).items():
            for frame in frames[kind]:
                for name in frame:
                    rows = int(names.get(name, 0))
                    if rows > 0 and frame[name].device != device:
                        self._of[id(frame[name])] = _Cached(frame[name], rows, device)

    def __len__(self) -> int:
        return len(self._of)

    def read(self, frame: Frame) -> None:
        """Gathers the marked columns of a frame that there are caches for.

        The tensors have as ``__cache_miss__`` the part of their rows that was not kept.
        """
        for name, column in list(frame._columns.items()):
            if not isinstance(column, Pending) or not column.prefetch or column.rows is None:
                continue
            cached = self._of.get(id(column.source))
            if cached is not None:
                with self._lock:
                    frame._columns[name] = cached.read(column.rows)


class _Cached:
    """A feature and its cache."""

    def __init__(self, source: Tensor, rows: int, device: torch.device):
        self.source = source
        self.cache = RowCache(min(rows, len(source)), source.shape[1:], source.dtype, device)
        self.version = source._version

    def read(self, rows: Tensor) -> Tensor:
        if self.source._version != self.version:  # written since
            self.cache.clear()
            self.version = self.source._version
        before = self.cache.total_miss
        values = self.cache.read(self.source.detach(), rows)
        missed = self.cache.total_miss - before
        values.__cache_miss__ = missed / max(len(rows), 1)  # type: ignore[attr-defined]
        return values


def _frames_of_nodes(graph: Graph) -> list[Frame]:
    found = [*graph._src_frames.values(), *graph._dst_frames.values()]
    return list({id(frame): frame for frame in found}.values())


def _checked(sizes: Any) -> Mapping[str, Mapping[str, int]]:
    if not isinstance(sizes, Mapping) or not all(isinstance(v, Mapping) for v in sizes.values()):
        raise SmexTypeError(
            'DataLoader: gpu_cache must be {"node": {name: rows}, "edge": {name: rows}}, found '
            f"{sizes!r}"
        )
    other = [key for key in sizes if key not in ("node", "edge")]
    if other:
        raise SmexValueError(
            f'DataLoader: gpu_cache has features of "node" and "edge", found {other[0]!r}'
        )
    return sizes

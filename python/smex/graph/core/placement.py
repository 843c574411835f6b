"""Where a graph is and how it is stored: device, dtype of ids, pinned memory, sparse formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.core.scope import ScopeMixin
from smex.graph.features.frame import Frame

if TYPE_CHECKING:
    from typing_extensions import Self

_Key = TypeVar("_Key")


class PlacementMixin(ScopeMixin):
    """Devices, dtypes and formats of :class:`smex.graph.Graph`."""

    def to(self, device: torch.device | str | int | None, **kwargs: Any) -> Self:
        """Returns the graph on a device; features are copied when they are read.

        Args:
            device: None returns the graph itself.
            kwargs: ``non_blocking``, for the structure.

        Example:
            >>> sg.graph(([0], [1])).to("cpu").device
            device(type='cpu')
        """
        if device is None:
            return self
        target = torch.empty(0, device=device).device  # "cuda" becomes the current cuda:0
        result = self.clone()
        result._relations = _mapped(self._relations, lambda r: r.to(target, **kwargs))
        result._set_frames(lambda frame: frame.to(target))
        result._set_batches(lambda sizes: sizes.to(target))
        result._device = target
        return result

    def cpu(self) -> Self:
        """Returns the graph on the CPU; itself if it is there."""
        return self if self.device.type == "cpu" else self.to("cpu")

    def cuda(self, device: int | str | torch.device | None = None) -> Self:
        """Returns the graph on a CUDA device, the current one unless it is given."""
        return self.to("cuda" if device is None else device)

    def astype(self, idtype: torch.dtype) -> Self:
        """Returns the graph with node and edge ids of another dtype; itself if it has it.

        Raises:
            SmexTypeError: neither torch.int32 nor torch.int64.
            SmexValueError: the graph is too large for int32.

        Example:
            >>> sg.graph(([0], [1])).astype(torch.int32).edges()
            (tensor([0], dtype=torch.int32), tensor([1], dtype=torch.int32))
        """
        if idtype not in (torch.int32, torch.int64):
            raise SmexTypeError(f"astype: expected torch.int32 or torch.int64, found {idtype}")
        if idtype == self.idtype:
            return self
        result = self.clone()
        result._relations = _mapped(self._relations, lambda r: r.astype(idtype))
        result._set_batches(lambda sizes: sizes.to(idtype))
        result._idtype = idtype
        return result

    def int(self) -> Self:
        """Returns the graph with ids of int32."""
        return self.astype(torch.int32)

    def long(self) -> Self:
        """Returns the graph with ids of int64."""
        return self.astype(torch.int64)

    def pin_memory_(self) -> Self:
        """Move structure and features into page-locked memory; returns the graph.

        Raises:
            SmexRuntimeError: there is no CUDA device, or the graph is on one.
        """
        for relation in self._relations.values():
            relation.pin_memory_()
        for frame in self._all_frames():
            frame.update({name: column.pin_memory() for name, column in frame.items()})
        return self

    def unpin_memory_(self) -> Self:
        """Move structure and features back into ordinary memory; returns the graph."""
        for relation in self._relations.values():
            relation.unpin_memory_()
        for frame in self._all_frames():
            frame.update({n: c.clone() for n, c in frame.items() if c.is_pinned()})
        return self

    def is_pinned(self) -> bool:
        """Returns whether the structure is in page-locked memory."""
        return bool(self._relations) and all(r.is_pinned() for r in self._relations.values())

    def record_stream(self, stream: Any) -> Self:
        """Tell torch's allocator that a CUDA stream uses the graph; returns the graph.

        Raises:
            SmexValueError: the graph is not on a CUDA device.
        """
        if self.device.type != "cuda":
            raise SmexValueError(
                f"record_stream: expected a graph on a CUDA device, found {self.device}; "
                "call g.to('cuda') first"
            )
        for relation in self._relations.values():
            for name in relation.created_formats():
                for tensor in getattr(relation, name)():
                    if tensor is not None:
                        tensor.record_stream(stream)
        for frame in self._all_frames():
            for column in frame.values():
                column.record_stream(stream)
        return self

    def _set_frames(self, function: Callable[[Frame], Frame]) -> None:
        self._edge_frames = _mapped(self._edge_frames, function)
        self._src_frames = _mapped(self._src_frames, function)
        self._dst_frames = (
            _mapped(self._dst_frames, function) if self._is_block else self._src_frames
        )

    def _set_batches(self, function: Callable[[Tensor], Tensor]) -> None:
        if self._batch_num_nodes is not None:
            self._batch_num_nodes = _mapped(self._batch_num_nodes, function)
        if self._batch_num_edges is not None:
            self._batch_num_edges = _mapped(self._batch_num_edges, function)

    # ---- formats ----

    def formats(self, formats: str | Sequence[str] | None = None) -> Any:
        """Which sparse formats exist, or a graph that is restricted to some.

        Args:
            formats: names among "coo", "csr" and "csc"; None to ask.

        Returns:
            {"created": names, "not created": names}, or a graph.

        Example:
            >>> g = sg.graph(([0, 1], [1, 0]))
            >>> g.formats()
            {'created': ['coo'], 'not created': ['csr', 'csc']}
            >>> g.formats("csc").formats()
            {'created': ['csc'], 'not created': []}
        """
        if formats is None:
            return self._known_formats()
        result = self.clone()
        result._relations = _mapped(self._relations, lambda r: r.formats(formats))
        return result

    def _known_formats(self) -> dict[str, list[str]]:
        relations = list(self._relations.values())
        allowed = relations[0].allowed_formats() if relations else []
        created = [f for f in allowed if all(f in r.created_formats() for r in relations)]
        return {"created": created, "not created": [f for f in allowed if f not in created]}

    def create_formats_(self) -> None:
        """Make all formats that the graph may have, so that no later call has to."""
        for relation in self._relations.values():
            relation.create_formats_()


def _mapped(items: Mapping[_Key, Any], function: Callable[[Any], Any]) -> dict[_Key, Any]:
    return {key: function(value) for key, value in items.items()}

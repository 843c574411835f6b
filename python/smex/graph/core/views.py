"""What ``g.ndata``, ``g.nodes[...]`` and their like return: mappings onto a graph's frames.

A view looks its frame up at each access, so it follows ``local_scope`` and changes of the graph.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.core.graph_core import GraphCore, NodeSlot
from smex.graph.core.queries import QueryMixin
from smex.graph.features.column import LazyFeature, Scheme, check_column, check_layout
from smex.graph.features.frame import Frame
from smex.graph.words import CanonicalType, is_all, named, quoted


class NodeSpace(NamedTuple):
    """What ``g.nodes[key]`` returns."""

    data: ColumnView


class EdgeSpace(NamedTuple):
    """What ``g.edges[key]`` returns."""

    data: ColumnView


class ColumnView(MutableMapping[str, Tensor]):
    """Features of one node or edge type, of all its rows or of some."""

    def __init__(self, graph: GraphCore, rows: Tensor | None = None):
        self._graph = graph
        self._rows = rows

    def _frame(self) -> Frame:
        raise NotImplementedError

    def __getitem__(self, name: str) -> Tensor:
        frame = self._frame()
        return frame[name] if self._rows is None else frame.read_rows(name, self._rows)

    def __setitem__(self, name: str, value: Tensor) -> None:
        self._write({name: value})

    def __delitem__(self, name: str) -> None:
        del self._frame()[name]

    def __contains__(self, name: object) -> bool:
        return name in self._frame()

    def __iter__(self) -> Iterator[str]:
        return iter(self._frame().keys())

    def __len__(self) -> int:
        return len(self._frame())

    def keys(self) -> KeysView[str]:
        """Names of the features, as they are now."""
        return dict.fromkeys(self).keys()

    def values(self) -> ValuesView[Tensor]:
        """Returns the features, as they are now."""
        return dict(self).values()

    def items(self) -> ItemsView[str, Tensor]:
        """Names and features, as they are now."""
        return dict(self).items()

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several features, or none of them if one does not fit."""
        self._write(dict(*args, **kwargs))

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a feature, of all rows, and return what the view shows of it."""
        if default and name not in self:
            return default[0]
        value = self[name]
        del self[name]
        return value

    def clear(self) -> None:
        """Remove all features."""
        self._frame().clear()

    @property
    def schemes(self) -> dict[str, Scheme]:
        """Shape of a row and dtype of each feature, without reading it."""
        return self._frame().schemes()

    def _write(self, values: Mapping[str, Any]) -> None:
        frame = self._frame()
        rows = frame.num_rows
        owner: object = frame.owner
        if self._rows is not None:
            rows, owner = self._rows.shape[0], f"selected {owner or 'row'}"
        for name, value in values.items():
            check_column(name, value, rows, owner)
            check_layout(name, value)
            check_device(name, value, self._graph)
        if self._rows is None:
            frame.update(values)
        else:
            frame.update_rows(self._rows, values)

    def __repr__(self) -> str:
        return repr(dict(self))


class NodeView(ColumnView):
    """Features of the nodes of one type."""

    def __init__(self, graph: GraphCore, slot: NodeSlot, rows: Tensor | None = None):
        super().__init__(graph, rows)
        self._slot = slot

    def _frame(self) -> Frame:
        return self._graph._node_frame(self._slot)


class EdgeView(ColumnView):
    """Features of the edges of one type."""

    def __init__(self, graph: GraphCore, canonical: CanonicalType, rows: Tensor | None = None):
        super().__init__(graph, rows)
        self._canonical = canonical

    def _frame(self) -> Frame:
        return self._graph._edge_frames[self._canonical]


class TypedView(MutableMapping[str, dict[Any, Tensor]]):
    """Features of several types: a name stands for {type: feature} of the types that have it."""

    def __init__(self, graph: GraphCore):
        self._graph = graph

    def _typed_frames(self) -> list[tuple[Any, Frame]]:
        """Types in the order of their ids, with their frames."""
        raise NotImplementedError

    def _frame_of(self, key: Any) -> Frame:
        """Returns the frame of a type as a user names it."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> dict[Any, Tensor]:
        return {key: frame[name] for key, frame in self._typed_frames() if name in frame}

    def __setitem__(self, name: str, value: Mapping[Any, Tensor]) -> None:
        self._write({name: value})

    def __delitem__(self, name: str) -> None:
        for _, frame in self._typed_frames():
            frame.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return any(name in frame for _, frame in self._typed_frames())

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(n for _, frame in self._typed_frames() for n in frame))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def keys(self) -> KeysView[str]:
        """Names of the features, as they are now."""
        return dict.fromkeys(self).keys()

    def values(self) -> ValuesView[dict[Any, Tensor]]:
        """Returns the features, as they are now."""
        return dict(self).values()

    def items(self) -> ItemsView[str, dict[Any, Tensor]]:
        """Names and features, as they are now."""
        return dict(self).items()

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several features, or none of them if one does not fit."""
        self._write(dict(*args, **kwargs))

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a feature from every type that has it and return {type: feature}."""
        found = self[name]
        if not found and default:
            return default[0]
        del self[name]
        return found

    def clear(self) -> None:
        """Remove all features."""
        for _, frame in self._typed_frames():
            frame.clear()

    def _write(self, columns: Mapping[str, Any]) -> None:
        writes: list[tuple[Frame, str, Tensor]] = []
        for name, value in columns.items():
            if not isinstance(value, Mapping):
                keys = quoted(key for key, _ in self._typed_frames())
                raise SmexTypeError(
                    f"feature {named(name)}: the graph has several types, expected a dict from "
                    f"type to tensor, found {type(value).__name__}; types are {keys}"
                )
            for key, tensor in value.items():
                frame = self._frame_of(key)
                check_column(name, tensor, frame.num_rows, frame.owner)
                check_layout(name, tensor)
                check_device(name, tensor, self._graph)
                writes.append((frame, name, tensor))
        for frame, name, tensor in writes:
            frame[name] = tensor

    def __repr__(self) -> str:
        return repr(dict(self))


class TypedNodeView(TypedView):
    """Features of the nodes of several types."""

    def __init__(
        self, graph: GraphCore, slots: list[NodeSlot], resolve: Callable[[str | None], NodeSlot]
    ):
        super().__init__(graph)
        self._slots = slots
        self._resolve = resolve

    def _typed_frames(self) -> list[tuple[Any, Frame]]:
        return [(slot.ntype, self._graph._node_frame(slot)) for slot in self._slots]

    def _frame_of(self, key: Any) -> Frame:
        return self._graph._node_frame(self._resolve(key))


class TypedEdgeView(TypedView):
    """Features of the edges of several types; keys are canonical types, or names when setting."""

    def _typed_frames(self) -> list[tuple[Any, Frame]]:
        return list(self._graph._edge_frames.items())

    def _frame_of(self, key: Any) -> Frame:
        return self._graph._edge_frames[self._graph.to_canonical_etype(key)]


class NodesView:
    """``g.nodes``, ``g.srcnodes`` and ``g.dstnodes``: called for ids, indexed for features."""

    def __init__(self, graph: QueryMixin, resolve: Callable[[str | None], NodeSlot]):
        self._graph = graph
        self._resolve = resolve

    def __call__(self, ntype: str | None = None) -> Tensor:
        """Ids of all nodes of a type."""
        slot = self._resolve(ntype)
        return self._graph._arange(self._graph._slot_size(slot))

    def __getitem__(self, key: Any) -> NodeSpace:
        """Features of a type (``["user"]``), of nodes (``[ids]``) or both (``[ids, "user"]``)."""
        rows, ntype = (None, key) if key is None or isinstance(key, str) else (key, None)
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], str):
            rows, ntype = key
        slot = self._resolve(ntype)
        if rows is not None:
            rows = _rows(self._graph, rows, self._graph._slot_size(slot))
        if rows is not None:
            rows = self._graph._node_ids(rows, slot, "nodes[...]")
        return NodeSpace(data=NodeView(self._graph, slot, rows))


class EdgesView:
    """``g.edges``: called for the edges themselves, indexed for features."""

    def __init__(self, graph: QueryMixin):
        self._graph = graph

    def __call__(self, form: str = "uv", order: str = "eid", etype: Any = None) -> Any:
        """Returns all edges of a type, see :meth:`Graph.all_edges`."""
        return self._graph.all_edges(form=form, order=order, etype=etype)

    def __getitem__(self, key: Any) -> EdgeSpace:
        """Features of a type, of some edges (``[ids]``), or of those between nodes (``[u, v]``)."""
        if key is None or isinstance(key, str) or _is_canonical(key):
            return EdgeSpace(data=EdgeView(self._graph, self._graph.to_canonical_etype(key)))
        canonical = self._graph.to_canonical_etype(None)
        if isinstance(key, tuple) and len(key) == 2 and _is_etype(key[1]):
            canonical = self._graph.to_canonical_etype(key[1])
            key = key[0]
        rows = _rows(self._graph, key, self._graph.num_edges(canonical))
        if rows is not None:
            rows = self._graph._eids_of(rows, canonical, "edges[...]")
        return EdgeSpace(data=EdgeView(self._graph, canonical, rows))


def check_device(name: object, value: Tensor, graph: GraphCore) -> None:
    """Raise unless a feature is where its graph is; models are always traced on the CPU."""
    if isinstance(value, LazyFeature):
        return
    if value.device != graph.device and not torch.compiler.is_compiling():
        raise SmexValueError(
            f"feature {named(name)}: expected a tensor on {graph.device} as the graph is, found "
            f"{value.device}; move one of them with .to()"
        )


def _is_canonical(key: Any) -> bool:
    return isinstance(key, tuple) and len(key) == 3 and all(isinstance(k, str) for k in key)


def _is_etype(key: Any) -> bool:
    return isinstance(key, str) or _is_canonical(key)


def _rows(graph: GraphCore, key: Any, size: int) -> Any:
    """Slices become ids; the full slice and ALL become None."""
    if is_all(key) or (isinstance(key, slice) and key == slice(None)):
        return None
    return range(*key.indices(size)) if isinstance(key, slice) else key

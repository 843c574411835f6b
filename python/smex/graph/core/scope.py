"""Copies that share structure and tensors, and scopes in which features are set for a while."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

from smex.graph.core.graph_core import GraphCore
from smex.graph.features.frame import Frame

if TYPE_CHECKING:
    from typing_extensions import Self


class LocalScope:
    """While it is entered, a graph has frames of its own; afterwards it is as it was before.

    Structure that was changed inside is restored too. The scope belongs to the thread that uses
    the graph: threads that share one take a :meth:`Graph.local_var` each.
    """

    def __init__(self, graph: ScopeMixin):
        self._graph = graph

    def __enter__(self) -> None:
        self._state = self._graph._state()
        self._graph._own_frames()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._graph._restore(self._state)


class ScopeMixin(GraphCore):
    """Copies and scopes of :class:`smex.graph.Graph`."""

    def clone(self) -> Self:
        """Returns a graph with the same structure and tensors, and frames of its own."""
        if torch.compiler.is_compiling():  # torch 2.11 cannot trace __dict__.update
            result = self._rebuilt()
        else:
            result = type(self).__new__(type(self))
            result.__dict__.update(self.__dict__)
        result._own_frames()
        return result

    def _rebuilt(self) -> Self:
        return type(self)(
            self._relations,
            self._src_num_nodes,
            self._dst_num_nodes if self._is_block else None,
            src_frames=self._src_frames,
            dst_frames=self._dst_frames,
            edge_frames=self._edge_frames,
            batch_num_nodes=self._batch_num_nodes,
            batch_num_edges=self._batch_num_edges,
            idtype=self._idtype,
            device=self._device,
        )

    def local_var(self) -> Self:
        """Returns a graph whose features can be set without changing this one's.

        Tensors are shared, so writing into one in place is seen by both.

        Example:
            >>> g = sg.graph(([0], [1]))
            >>> h = g.local_var()
            >>> h.ndata["x"] = torch.ones(2)
            >>> "x" in g.ndata
            False
        """
        return self.clone()

    def local_scope(self) -> LocalScope:
        """Inside ``with g.local_scope():`` features are set for the time of the scope only.

        Example:
            >>> g = sg.graph(([0], [1]))
            >>> with g.local_scope():
            ...     g.ndata["x"] = torch.ones(2)
            >>> "x" in g.ndata
            False
        """
        return LocalScope(self)

    def _own_frames(self) -> None:
        """Replace everything that can be changed by a shallow copy."""
        self._relations = dict(self._relations)
        self._edge_frames = {key: frame.clone() for key, frame in self._edge_frames.items()}
        self._src_num_nodes = dict(self._src_num_nodes)
        self._src_frames = {key: frame.clone() for key, frame in self._src_frames.items()}
        if self._is_block:
            self._dst_num_nodes = dict(self._dst_num_nodes)
            self._dst_frames = {key: frame.clone() for key, frame in self._dst_frames.items()}
        else:
            self._dst_num_nodes, self._dst_frames = self._src_num_nodes, self._src_frames

    def _state(self) -> tuple[Any, ...]:
        return (
            self._relations,
            self._edge_frames,
            self._src_num_nodes,
            self._src_frames,
            self._dst_num_nodes,
            self._dst_frames,
            self._batch_num_nodes,
            self._batch_num_edges,
        )

    def _restore(self, state: tuple[Any, ...]) -> None:
        (
            self._relations,
            self._edge_frames,
            self._src_num_nodes,
            self._src_frames,
            self._dst_num_nodes,
            self._dst_frames,
            self._batch_num_nodes,
            self._batch_num_edges,
        ) = state

    def _all_frames(self) -> list[Frame]:
        frames = [*self._src_frames.values(), *self._edge_frames.values()]
        return [*frames, *self._dst_frames.values()] if self._is_block else frames

    def __copy__(self) -> Self:
        return self.clone()

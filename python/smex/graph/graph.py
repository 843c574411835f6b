"""The graph: typed nodes and edges, their features, and everything that can be asked of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.content import arrays
from smex.graph.content import networkx_graphs as networkx_arrays
from smex.graph.content.arrays import Content
from smex.graph.core import display
from smex.graph.core.adjacency import AdjacencyMixin
from smex.graph.core.batches import BatchMixin
from smex.graph.core.declared import FunctionMethods
from smex.graph.core.mutation import MutationMixin
from smex.graph.core.placement import PlacementMixin
from smex.graph.core.queries import QueryMixin
from smex.graph.core.slicing import SlicingMixin
from smex.graph.core.views import (
    ColumnView,
    EdgesView,
    EdgeView,
    NodesView,
    NodeView,
    TypedEdgeView,
    TypedNodeView,
)
from smex.graph.features.column import Scheme
from smex.graph.features.frame import Initializer
from smex.graph.messages.message_passing import MessagePassingMixin
from smex.graph.words import EdgeType


class Graph(
    QueryMixin,
    MutationMixin,
    SlicingMixin,
    AdjacencyMixin,
    BatchMixin,
    PlacementMixin,
    MessagePassingMixin,
    FunctionMethods,
):
    """A directed graph whose nodes and edges may have several types.

    Made by :func:`smex.graph.graph`, :func:`smex.graph.heterograph` and their like. Node ids of a
    type run from 0; edge ids of a type are the order in which the edges were given. Features are
    tensors whose first dimension is the number of nodes or edges.

    Args:
        data: edges as :func:`smex.graph.graph` takes them, a networkx graph or a SciPy matrix.
        num_nodes: number of nodes; what the largest id asks for if left out.
        args: what only this package passes.
        options: as for :func:`smex.graph.graph`.

    Raises:
        SmexValueError: ``data`` is a graph already.

    Example:
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> g.ndata["h"] = torch.ones(3, 5)
        >>> g
        Graph(num_nodes=3, num_edges=3,
              ndata_schemes={'h': Scheme(shape=(5,), dtype=torch.float32)}
              edata_schemes={})
    """

    def __init__(self, data: Any = ([], []), num_nodes: Any = None, *args: Any, **options: Any):
        """Returns a graph without nodes, or the graph of some edges.

        The parts of this package call it as :class:`GraphCore` says, with relations and sizes.

        Args:
            data: edges as :func:`smex.graph.graph` takes them, a networkx graph or a SciPy matrix.
            num_nodes: number of nodes; what the largest id asks for if left out.
            args: of GraphCore.
            options: of :func:`smex.graph.graph`, or of GraphCore.

        Raises:
            SmexValueError: ``data`` is a graph already.

        Example:
            >>> g = sg.DGLGraph()
            >>> g.add_nodes(3)
            >>> g.add_edges([0, 1], 2)
            >>> g.num_nodes(), g.num_edges()
            (3, 2)
        """
        if isinstance(num_nodes, Mapping):
            super().__init__(data, num_nodes, *args, **options)
        else:
            _content(data, num_nodes, options).fill(self)

    # ---- features ----

    @property
    def nodes(self) -> NodesView:
        """``g.nodes(ntype)`` are ids, ``g.nodes[ntype].data`` features, ``g.nodes[ids].data`` rows.

        Example:
            >>> g = sg.graph(([0, 1], [1, 2]))
            >>> g.nodes[[0, 2]].data["h"] = torch.ones(2)
            >>> g.ndata["h"]
            tensor([1., 0., 1.])
        """
        return NodesView(self, self._node_slot)

    @property
    def srcnodes(self) -> NodesView:
        """As :attr:`nodes`, for the types that edges start from."""
        return NodesView(self, self._src_slot)

    @property
    def dstnodes(self) -> NodesView:
        """As :attr:`nodes`, for the types that edges end in."""
        return NodesView(self, self._dst_slot)

    @property
    def edges(self) -> EdgesView:
        """``g.edges()`` are the edges, ``g.edges[etype].data`` features, ``[ids]`` rows.

        Edges may be named by their nodes too: ``g.edges[u, v].data``.
        ``g.edges()`` returns the graph's own tensors, see :meth:`all_edges`.
        """
        return EdgesView(self)

    @property
    def ndata(self) -> Any:
        """Node features by name; {type: feature} where there are several node types.

        Of a type that is on both sides of a block, the features of its sources.

        Raises:
            SmexTypeError: what is set is not a tensor, or not a dict where one is needed.
            SmexValueError: what is set has another number of rows, or is on another device.

        Example:
            >>> g = sg.graph(([0, 1], [1, 2]))
            >>> g.ndata["h"] = torch.zeros(3, 2)
            >>> g.ndata["h"].shape
            torch.Size([3, 2])
        """
        slots = self._slots()
        if len(slots) == 1:
            return NodeView(self, slots[0])
        first = list(dict.fromkeys(self._node_slot(slot.ntype) for slot in slots))
        return TypedNodeView(self, first, self._node_slot)

    @property
    def srcdata(self) -> Any:
        """As :attr:`ndata`, for the types that edges start from."""
        slots = [self._src_slot(t) for t in self._srctypes]
        if len(slots) == 1:
            return NodeView(self, slots[0])
        return TypedNodeView(self, slots, self._src_slot)

    @property
    def dstdata(self) -> Any:
        """As :attr:`ndata`, for the types that edges end in."""
        slots = [self._dst_slot(t) for t in self._dsttypes]
        if len(slots) == 1:
            return NodeView(self, slots[0])
        return TypedNodeView(self, slots, self._dst_slot)

    @property
    def edata(self) -> Any:
        """Edge features by name; {canonical type: feature} where there are several edge types."""
        if len(self._relations) == 1:
            return EdgeView(self, next(iter(self._relations)))
        return TypedEdgeView(self)

    def node_attr_schemes(self, ntype: str | None = None) -> dict[str, Scheme]:
        """Shape of a row and dtype of each feature of a node type."""
        return self._node_frame(self._node_slot(ntype)).schemes()

    def edge_attr_schemes(self, etype: EdgeType = None) -> dict[str, Scheme]:
        """Shape of a row and dtype of each feature of an edge type."""
        return self._edge_frames[self.to_canonical_etype(etype)].schemes()

    def get_node_storage(self, key: str, ntype: str | None = None) -> ColumnStorage:
        """Returns a node feature as something that mini-batches are fetched from."""
        return ColumnStorage(NodeView(self, self._node_slot(ntype)), key)

    def get_edge_storage(self, key: str, etype: EdgeType = None) -> ColumnStorage:
        """Returns an edge feature as something that mini-batches are fetched from."""
        return ColumnStorage(EdgeView(self, self.to_canonical_etype(etype)), key)

    def set_n_initializer(
        self, initializer: Initializer, field: str | None = None, ntype: str | None = None
    ) -> None:
        """Set what features of new nodes hold; zeros unless set.

        Args:
            initializer: called with (shape, dtype, device, slice of the new ids), returns a tensor.
            field: the feature; None for all that have no initialiser of their own.
            ntype: the node type; None for all of them.

        Example:
            >>> g = sg.graph(([0], [1]))
            >>> g.ndata["h"] = torch.zeros(2)
            >>> g.set_n_initializer(
            ...     lambda shape, dtype, device, ids: torch.ones(shape, dtype=dtype, device=device)
            ... )
            >>> g.add_nodes(1)
            >>> g.ndata["h"]
            tensor([0., 0., 1.])
        """
        slots = self._slots() if ntype is None else [self._node_slot(ntype)]
        for slot in slots:
            self._node_frame(slot).set_initializer(initializer, field)

    def set_e_initializer(
        self, initializer: Initializer, field: str | None = None, etype: EdgeType = None
    ) -> None:
        """Set what features of new edges hold; see :meth:`set_n_initializer`."""
        keys = list(self._relations) if etype is None else [self.to_canonical_etype(etype)]
        for key in keys:
            self._edge_frames[key].set_initializer(initializer, field)

    def materialize_data(self) -> Graph:
        """Gather and copy the features that have not been read yet; returns the graph."""
        for frame in self._all_frames():
            frame.read_all()
        return self

    # ---- in print ----

    def __repr__(self) -> str:
        return display.text(self)

    def _repr_html_(self) -> str:
        return display.html(self)


def _content(data: Any, num_nodes: int | None, options: dict[str, Any]) -> Content:
    if isinstance(data, Graph):
        raise SmexValueError("Graph: expected edges, found a graph already; use g.clone()")
    if hasattr(data, "tocoo"):
        return arrays.from_scipy(data, **options)
    if hasattr(data, "is_directed"):
        return networkx_arrays.from_networkx(data, **options)
    return arrays.graph(data, num_nodes=num_nodes, **options)


class ColumnStorage:
    """One feature, from which a loader fetches the rows of a mini-batch."""

    def __init__(self, view: ColumnView, key: str):
        view[key]  # an unknown name is an error here, not in a worker
        self._view = view
        self._key = key

    @property
    def requires_ddp(self) -> bool:
        """Whether rows are spread over processes."""
        return False

    def fetch(
        self,
        indices: Tensor,
        device: torch.device | str,
        pin_memory: bool = False,
        **kwargs: Any,
    ) -> Tensor:
        """Rows of the feature, on a device.

        Args:
            indices: ``[n]`` ids.
            device: where the rows are wanted.
            pin_memory: stage them in page-locked memory.
            kwargs: passed to ``Tensor.to``.
        """
        column = self._view[self._key]
        rows = column.index_select(0, indices.to(column.device))
        if pin_memory:
            rows = rows.pin_memory()
        return rows.to(device, **kwargs)


class _OfBlocks(type(Graph)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Graph) and instance.is_block


class DGLBlock(Graph, metaclass=_OfBlocks):
    """The type of blocks for ``isinstance`` and in hints: a :class:`Graph` that is a block.

    Example:
        >>> isinstance(sg.to_block(sg.graph(([0], [1]))), sg.DGLBlock)
        True
        >>> isinstance(sg.graph(([0], [1])), sg.DGLBlock)
        False
    """

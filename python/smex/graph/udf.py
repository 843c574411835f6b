"""What a user's message, reduce and apply functions are called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from smex.graph.features.column import MissingFeatureError
from smex.graph.features.frame import Frame
from smex.graph.function import BuiltinFunction
from smex.graph.words import CanonicalType, named


class Mailbox(dict[str, Tensor]):
    """Messages by name; the error for an unknown one lists the others."""

    def __missing__(self, name: object) -> Tensor:
        have = ", ".join(named(key) for key in self) or "none"
        raise MissingFeatureError(
            f"message {named(name)} is not in the mailbox; the message function sends: {have}"
        )


def name_of(function: Any) -> str:
    """Returns a user's function in a message."""
    return getattr(function, "__qualname__", None) or type(function).__name__


def described(function: Any) -> str:
    """Returns a built-in or user's function in a message, with its line where it has one."""
    if isinstance(function, BuiltinFunction) or not callable(function):
        return repr(function)
    code = getattr(function, "__code__", None)
    return name_of(function) + (f" (line {code.co_firstlineno})" if code is not None else "")


class NodeBatch:
    """Nodes of one type, as an apply or reduce function sees them.

    Args:
        graph: the graph that the nodes belong to.
        nodes: ``[n]`` their ids.
        ntype: their type.
        data: their features, each ``[n, ...]``.
        msgs: of a reduce function, the messages of nodes that all have ``degree`` of them, each
            ``[n, degree, ...]``, in the order of edge ids.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> g.filter_nodes(lambda nodes: nodes.nodes() > 0)
        tensor([1, 2])
    """

    def __init__(
        self,
        graph: Any,
        nodes: Tensor,
        ntype: str,
        data: Frame | Mapping[str, Tensor],
        msgs: Frame | Mapping[str, Tensor] | None = None,
    ):
        self._graph = graph
        self._nodes = nodes
        self._ntype = ntype
        self._data = data
        self._msgs = msgs

    @property
    def data(self) -> Any:
        """Features of the nodes by name, each ``[n, ...]``."""
        return self._data

    @property
    def mailbox(self) -> Any:
        """Messages that the nodes got by name, each ``[n, degree, ...]``; None outside a reduce."""
        return self._msgs

    def nodes(self) -> Tensor:
        """Ids of the nodes ``[n]``."""
        return self._nodes

    def batch_size(self) -> int:
        """Number of nodes."""
        return self._nodes.shape[0]

    @property
    def ntype(self) -> str:
        """Type of the nodes."""
        return self._ntype

    def __len__(self) -> int:
        return self.batch_size()


class EdgeBatch:
    """Edges of one type, as a message or apply function sees them.

    Args:
        graph: the graph that the edges belong to.
        eid: ``[n]`` their ids.
        etype: their canonical type.
        src_data: features of their sources, each ``[n, ...]``.
        edge_data: their own features, each ``[n, ...]``.
        dst_data: features of their destinations, each ``[n, ...]``.
        src: ``[n]`` their sources; asked of the graph if left out.
        dst: ``[n]`` their destinations.
    """

    def __init__(
        self,
        graph: Any,
        eid: Tensor,
        etype: CanonicalType,
        src_data: Frame | Mapping[str, Tensor],
        edge_data: Frame | Mapping[str, Tensor],
        dst_data: Frame | Mapping[str, Tensor],
        src: Tensor | None = None,
        dst: Tensor | None = None,
    ):
        self._graph = graph
        self._eid = eid
        self._etype = etype
        self._src_data = src_data
        self._edge_data = edge_data
        self._dst_data = dst_data
        self._ends = None if src is None or dst is None else (src, dst)

    @property
    def src(self) -> Any:
        """Features of the sources by name, each ``[n, ...]``."""
        return self._src_data

    @property
    def dst(self) -> Any:
        """Features of the destinations by name, each ``[n, ...]``."""
        return self._dst_data

    @property
    def data(self) -> Any:
        """Features of the edges by name, each ``[n, ...]``."""
        return self._edge_data

    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """(sources, destinations, edge ids), each ``[n]``."""
        if self._ends is None:
            src, dst = self._graph.relation(self._etype).coo()
            self._ends = (src[self._eid], dst[self._eid])
        return (*self._ends, self._eid)

    def batch_size(self) -> int:
        """Number of edges."""
        return self._eid.shape[0]

    @property
    def canonical_etype(self) -> CanonicalType:
        """Canonical type of the edges."""
        return self._etype

    def __len__(self) -> int:
        return self.batch_size()


def is_replaced(method: Any, own: Callable[..., Any]) -> bool:
    """Whether a method is not that of its class but one of a user's, which is then called."""
    return getattr(method, "__func__", None) is not own

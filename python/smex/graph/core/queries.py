"""Questions about the structure: which nodes and edges there are, and who is joined to whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import ALL
from smex.graph.core.graph_core import GraphCore, NodeSlot
from smex.graph.udf import EdgeBatch, NodeBatch
from smex.graph.words import CanonicalType, EdgeType, check_range, counted, is_all, is_scalar

_FORMS = ("all", "uv", "eid")


class QueryMixin(GraphCore):
    """Queries of :class:`smex.graph.Graph`; ids in and out have the graph's idtype."""

    # ---- nodes ----

    def has_nodes(self, vid: Any, ntype: str | None = None) -> Any:
        """Returns whether nodes exist.

        Args:
            vid: an id, or ids.
            ntype: the node type, where there are several.

        Returns:
            A bool for a single id, a bool tensor for several.

        Raises:
            SmexValueError: an id is negative.

        Example:
            >>> sg.graph(([0, 1], [1, 2])).has_nodes([0, 7])
            tensor([ True, False])
        """
        slot = self._node_slot(ntype)
        ids = self._as_ids(vid, "has_nodes")
        if ids.numel() and int(ids.min()) < 0:
            raise SmexValueError(f"has_nodes: expected ids of at least 0, found {int(ids.min())}")
        found = ids < self._slot_size(slot)
        return bool(found.item()) if is_scalar(vid) else found

    def predecessors(self, v: Any, etype: EdgeType = None) -> Tensor:
        """Sources of the edges into a node, one for each edge.

        Example:
            >>> sg.graph(([0, 1, 0], [1, 2, 1])).predecessors(1)
            tensor([0, 0])
        """
        canonical = self.to_canonical_etype(etype)
        node = self._single(v, self._dst_of(canonical), "predecessors")
        return self._relations[canonical].in_edges_of(node, check=False)[0]

    def successors(self, v: Any, etype: EdgeType = None) -> Tensor:
        """Destinations of the edges out of a node, one for each edge."""
        canonical = self.to_canonical_etype(etype)
        node = self._single(v, self._src_of(canonical), "successors")
        return self._relations[canonical].out_edges_of(node, check=False)[1]

    def in_degrees(self, v: Any = ALL, etype: EdgeType = None) -> Any:
        """Number of edges into nodes.

        Args:
            v: an id, ids, or ALL.
            etype: the edge type, where there are several.

        Returns:
            An int for a single id, else a tensor in the graph's idtype.

        Raises:
            SmexValueError: a node does not exist.

        Example:
            >>> g = sg.graph(([0, 1, 0], [1, 2, 1]))
            >>> g.in_degrees(), g.in_degrees(1)
            (tensor([0, 2, 1]), 2)
        """
        canonical = self.to_canonical_etype(etype)
        degrees = self._relations[canonical].in_degrees
        return self._degrees(degrees, v, self._dst_of(canonical), "in_degrees")

    def out_degrees(self, u: Any = ALL, etype: EdgeType = None) -> Any:
        """Number of edges out of nodes; see :meth:`in_degrees`."""
        canonical = self.to_canonical_etype(etype)
        degrees = self._relations[canonical].out_degrees
        return self._degrees(degrees, u, self._src_of(canonical), "out_degrees")

    def _degrees(
        self, degrees: Callable[..., Tensor], nodes: Any, slot: NodeSlot, what: str
    ) -> Any:
        if is_all(nodes):
            return degrees()
        ids = self._node_ids(nodes, slot, what)
        # The relation checks its ids, which torch.compile cannot trace.
        found = degrees()[ids] if torch.compiler.is_compiling() else degrees(ids, check=False)
        return int(found.item()) if is_scalar(nodes) else found

    # ---- edges ----

    def has_edges_between(self, u: Any, v: Any, etype: EdgeType = None) -> Any:
        """Returns whether there is an edge from ``u[i]`` to ``v[i]``.

        Args:
            u: an id, or ids, of source nodes; a single one goes with every ``v``.
            v: an id, or ids, of destination nodes.
            etype: the edge type, where there are several.

        Returns:
            A bool for single ids, a bool tensor otherwise.

        Raises:
            SmexValueError: a node does not exist, or the numbers of ids differ.

        Example:
            >>> sg.graph(([0, 1], [1, 2])).has_edges_between([0, 1], [1, 1])
            tensor([ True, False])
        """
        canonical = self.to_canonical_etype(etype)
        pairs = self._pairs(u, v, canonical, "has_edges_between")
        found = self._relations[canonical].has_edges(*pairs, check=False)
        return bool(found.item()) if is_scalar(u) and is_scalar(v) else found

    def edge_ids(self, u: Any, v: Any, return_uv: bool = False, etype: EdgeType = None) -> Any:
        """Ids of the edges from ``u[i]`` to ``v[i]``.

        Args:
            u: an id, or ids, of source nodes; a single one goes with every ``v``.
            v: an id, or ids, of destination nodes.
            return_uv: find every one of parallel edges; otherwise the first is found.
            etype: the edge type, where there are several.

        Returns:
            The edge ids (an int for single ids), or with ``return_uv`` (sources, destinations,
            edge ids) of as many edges as there are.

        Raises:
            SmexValueError: a node does not exist, or there is no edge between two of them.

        Example:
            >>> g = sg.graph(([0, 1, 0], [1, 2, 1]))
            >>> g.edge_ids(0, 1), g.edge_ids([0], [1], return_uv=True)[2]
            (0, tensor([0, 2]))
        """
        canonical = self.to_canonical_etype(etype)
        src, dst = self._pairs(u, v, canonical, "edge_ids")
        relation = self._relations[canonical]
        if return_uv:
            return relation.edge_ids_all(src, dst, check=False)
        ids = relation.edge_ids(src, dst, check=False)
        if ids.numel() and int(ids.min()) < 0:
            src, dst = torch.broadcast_tensors(src, dst)
            first = int((ids < 0).nonzero()[0, 0])
            raise SmexValueError(
                f"edge_ids: there is no edge from {int(src[first])} to {int(dst[first])} of type "
                f"{canonical!r}; ask has_edges_between first"
            )
        return int(ids.item()) if is_scalar(u) and is_scalar(v) else ids

    def find_edges(self, eid: Any, etype: EdgeType = None) -> tuple[Tensor, Tensor]:
        """Sources and destinations of edges.

        Raises:
            SmexValueError: an edge does not exist.

        Example:
            >>> sg.graph(([0, 1], [1, 2])).find_edges([1])
            (tensor([1]), tensor([2]))
        """
        canonical = self.to_canonical_etype(etype)
        ids = self._edge_ids(eid, canonical, "find_edges")
        return self._relations[canonical].find_edges(ids, check=False)

    def in_edges(self, v: Any, form: str = "uv", etype: EdgeType = None) -> Any:
        """Edges into nodes, node by node, parallel ones too.

        Args:
            v: an id, or ids.
            form: "uv" for (sources, destinations), "eid" for edge ids, "all" for all three.
            etype: the edge type, where there are several.

        Raises:
            SmexValueError: a node does not exist, or the form is unknown.

        Example:
            >>> sg.graph(([0, 1, 0], [1, 2, 2])).in_edges(2, form="all")
            (tensor([1, 0]), tensor([2, 2]), tensor([1, 2]))
        """
        canonical = self.to_canonical_etype(etype)
        check_form("in_edges", form)
        nodes = self._node_ids(v, self._dst_of(canonical), "in_edges")
        return in_form(form, *self._relations[canonical].in_edges_of(nodes, check=False))

    def out_edges(self, u: Any, form: str = "uv", etype: EdgeType = None) -> Any:
        """Edges out of nodes, node by node; see :meth:`in_edges`."""
        canonical = self.to_canonical_etype(etype)
        check_form("out_edges", form)
        nodes = self._node_ids(u, self._src_of(canonical), "out_edges")
        return in_form(form, *self._relations[canonical].out_edges_of(nodes, check=False))

    def all_edges(self, form: str = "uv", order: str | None = "eid", etype: EdgeType = None) -> Any:
        """Returns all edges of a type.

        In the order of their ids, sources and destinations are the graph's own tensors, which must
        not be changed in place; see :meth:`Graph.adj_tensors`.

        Args:
            form: "uv" for (sources, destinations), "eid" for edge ids, "all" for all three.
            order: "eid" by edge id, "srcdst" by source, then destination, then edge id.
            etype: the edge type, where there are several.

        Raises:
            SmexValueError: the form or the order is unknown.

        Example:
            >>> g = sg.graph(([1, 0], [0, 1]))
            >>> g.all_edges(form="all", order="srcdst")
            (tensor([0, 1]), tensor([1, 0]), tensor([1, 0]))
        """
        check_form("all_edges", form)
        if order not in (None, "eid", "srcdst"):
            raise SmexValueError(
                f'all_edges: expected the order "eid", "srcdst" or None, found {order!r}'
            )
        relation = self.relation(etype)
        if order == "srcdst":
            rows = relation.sorted_csr()
            eids = rows.edge_ids()
            if form == "eid":
                return eids
            return in_form(form, relation.coo()[0][eids], rows.indices, eids)
        if form == "uv":
            return relation.coo()
        return in_form(form, *relation.coo(), self._arange(relation.num_edges))

    @property
    def is_multigraph(self) -> bool:
        """Whether any two nodes are joined by parallel edges of one type."""
        return any(relation.is_multigraph() for relation in self._relations.values())

    # ---- by a predicate ----

    def filter_nodes(
        self,
        predicate: Callable[[NodeBatch], Tensor],
        nodes: Any = ALL,
        ntype: str | None = None,
    ) -> Tensor:
        """Ids of the nodes for which a function says yes.

        Args:
            predicate: takes a :class:`NodeBatch`, returns a tensor of one bool for each, or of one
                number, of which all but 0 say yes.
            nodes: ids to be asked for; ALL for all.
            ntype: the node type, where there are several.

        Raises:
            SmexTypeError: the function does not return a tensor.
            SmexValueError: it returns another number of values.

        Example:
            >>> g = sg.graph(([0, 1], [1, 2]))
            >>> g.ndata["h"] = torch.tensor([1.0, -1.0, 2.0])
            >>> g.filter_nodes(lambda nodes: nodes.data["h"] > 0)
            tensor([0, 2])
        """
        slot = self._node_slot(ntype)
        everything = is_all(nodes)
        ids = (
            self._arange(self._slot_size(slot))
            if everything
            else self._node_ids(nodes, slot, "filter_nodes")
        )
        frame = self._node_frame(slot)
        data = frame if everything else frame.subframe(ids)
        batch = NodeBatch(self, ids, slot.ntype, data)
        return ids[_mask("filter_nodes", predicate(batch), ids)]

    def filter_edges(
        self,
        predicate: Callable[[EdgeBatch], Tensor],
        edges: Any = ALL,
        etype: EdgeType = None,
    ) -> Tensor:
        """Ids of the edges for which a function says yes.

        Args:
            predicate: takes an :class:`EdgeBatch`, returns a tensor of one bool for each, or of one
                number, of which all but 0 say yes.
            edges: edge ids to be asked for, or (sources, destinations); ALL for all.
            etype: the edge type, where there are several.

        Raises:
            SmexTypeError: the function does not return a tensor.
            SmexValueError: it returns another number of values.
        """
        canonical = self.to_canonical_etype(etype)
        everything = is_all(edges)
        ids = (
            self._arange(self._relations[canonical].num_edges)
            if everything
            else self._eids_of(edges, canonical, "filter_edges")
        )
        batch = self._edge_batch(canonical, ids, everything)
        return ids[_mask("filter_edges", predicate(batch), ids)]

    def _edge_batch(self, canonical: CanonicalType, ids: Tensor, everything: bool) -> EdgeBatch:
        src, dst = self._relations[canonical].coo()
        if not everything:
            src, dst = src[ids], dst[ids]
        frame = self._edge_frames[canonical]
        return EdgeBatch(
            self,
            ids,
            canonical,
            self._src_frames[canonical[0]].subframe(src, "source node"),
            frame if everything else frame.subframe(ids),
            self._dst_frames[canonical[2]].subframe(dst, "destination node"),
            src,
            dst,
        )

    # ---- arguments ----

    def _arange(self, size: int) -> Tensor:
        return torch.arange(size, dtype=self.idtype, device=self.device)

    def _src_of(self, canonical: CanonicalType) -> NodeSlot:
        return NodeSlot("src", canonical[0])

    def _dst_of(self, canonical: CanonicalType) -> NodeSlot:
        return NodeSlot("dst" if self._is_block else "src", canonical[2])

    def _single(self, node: Any, slot: NodeSlot, what: str) -> Tensor:
        ids = self._node_ids(node, slot, what)
        if ids.shape[0] != 1:
            raise SmexValueError(f"{what}: expected one node, found {counted(ids.shape[0], 'id')}")
        return ids

    def _pairs(self, u: Any, v: Any, canonical: CanonicalType, what: str) -> tuple[Tensor, Tensor]:
        src = self._as_ids(u, what)
        dst = self._as_ids(v, what)
        if src.shape != dst.shape and 1 not in (src.shape[0], dst.shape[0]):
            raise SmexValueError(
                f"{what}: expected as many sources as destinations, or one of either, found "
                f"{src.shape[0]} and {dst.shape[0]}"
            )
        relation = self._relations[canonical]
        check_range(src, relation.num_src, f'{what}: nodes of type "{canonical[0]}"')
        check_range(dst, relation.num_dst, f'{what}: nodes of type "{canonical[2]}"')
        return src, dst

    def _eids_of(self, edges: Any, canonical: CanonicalType, what: str) -> Tensor:
        """Edge ids of an argument that may name edges by (sources, destinations)."""
        if isinstance(edges, tuple) and len(edges) == 2:
            src, dst = self._pairs(*edges, canonical, what)
            return self.edge_ids(src, dst, etype=canonical)
        return self._edge_ids(edges, canonical, what)


def check_form(what: str, form: str) -> None:
    """Raise unless ``form`` is one that edges can be returned in."""
    if form not in _FORMS:
        raise SmexValueError(f'{what}: expected the form "uv", "eid" or "all", found {form!r}')


def in_form(form: str, src: Tensor, dst: Tensor, eids: Tensor) -> Any:
    """Edges as a caller asked for them."""
    return {"uv": (src, dst), "eid": eids, "all": (src, dst, eids)}[form]


def _mask(what: str, mask: Any, ids: Tensor) -> Tensor:
    if not isinstance(mask, Tensor):
        raise SmexTypeError(
            f"{what}: expected the function to return a bool tensor, found {type(mask).__name__}; "
            "compare, as in nodes.data['h'] > 0"
        )
    if mask.numel() != ids.shape[0]:
        raise SmexValueError(
            f"{what}: expected {counted(ids.shape[0], 'value')} from the function, found shape "
            f"{list(mask.shape)}"
        )
    return mask.reshape(-1) != 0

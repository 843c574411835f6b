"""Message passing as methods of a graph (thesis §4.5.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import ALL
from smex.graph.core.graph_core import GraphCore, NodeSlot
from smex.graph.core.hop import Columns, Hop, check_function, checked_columns, hop_of
from smex.graph.core.traversal import topological_nodes_generator
from smex.graph.function import MessageFunction, ReduceFunction
from smex.graph.messages.buckets import apply_in_groups
from smex.graph.messages.cross_types import CROSS_REDUCERS, merge_types
from smex.graph.messages.passing import edge_results, pass_messages
from smex.graph.ops.spmm import merge_relations
from smex.graph.structure.relation import Relation
from smex.graph.tracing import fuse as fusion
from smex.graph.tracing.explanation import Unfused
from smex.graph.udf import NodeBatch, described
from smex.graph.words import CanonicalType, EdgeType, is_all

Function = Callable[..., Any]


class MessagePassingMixin(GraphCore):
    """``update_all`` and its kin.

    A message function is built-in (:mod:`smex.graph.function`) or takes an EdgeBatch and returns a
    dict of messages ``[num_edges, ...]``. A reduce function is built-in or takes a NodeBatch whose
    ``mailbox`` holds messages ``[n, degree, ...]`` and returns a dict of features ``[n, ...]``. An
    apply function takes a NodeBatch with the results and returns those that take their place.
    Features are never changed in place, so gradients flow.
    """

    if TYPE_CHECKING:

        def _eids_of(self, edges: Any, canonical: CanonicalType, what: str) -> Tensor: ...

    # ---- all edges ----

    def update_all(
        self,
        message_func: Any,
        reduce_func: Any,
        apply_node_func: Function | None = None,
        etype: EdgeType = None,
    ) -> None:
        """Sends messages along all edges of a type and sets what the destinations make of them.

        Built-in functions, and users' functions that :func:`smex.graph.explain` calls fused, run as
        one kernel that stores no message. A node without messages gets 0 from built-in functions
        and what the feature's initialiser says from a user's reduce function.

        Args:
            message_func: what edges send.
            reduce_func: what a node makes of the messages it gets.
            apply_node_func: what becomes of the results; without it they are set as they are.
            etype: edge type. Without it, on a graph of several types, built-in functions run on all
                of them, and what a node gets through several types is reduced like the messages.

        Raises:
            SmexValueError: a feature is not set, the functions do not fit together, or there are
                several edge types and a function is not built-in.
            SmexTypeError: a function is of the wrong kind or returns something else than a dict of
                tensors.

        Example:
            >>> import smex.graph.function as fn
            >>> g = sg.graph(([0, 1], [2, 2]))
            >>> g.ndata["h"] = torch.tensor([[1.0], [2.0], [3.0]])
            >>> g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"))
            >>> g.ndata["out"]
            tensor([[0.],
                    [0.],
                    [3.]])
        """
        if etype is None and len(self._relations) > 1:
            self._update_all_types(message_func, reduce_func, apply_node_func)
            return
        hop = hop_of(self, etype)
        hop.dst.update(pass_messages(hop, message_func, reduce_func, apply_node_func))

    def _update_all_types(self, message: Any, reduce: Any, apply: Function | None) -> None:
        if not isinstance(message, MessageFunction) or not isinstance(reduce, ReduceFunction):
            raise SmexValueError(
                "update_all: on several edge types at once only built-in functions run, found "
                f"{described(message)} and {described(reduce)}; pass etype=, or use "
                "multi_update_all"
            )
        functions = dict.fromkeys(self._relations, (message, reduce))
        if reduce.name == "mean":
            merge_relations([torch.empty(0)] * 2, "mean")
        self.multi_update_all(functions, reduce.name, apply)

    def multi_update_all(
        self,
        etype_dict: Mapping[Any, Sequence[Any]],
        cross_reducer: str | Callable[[list[Tensor]], Tensor],
        apply_node_func: Function | None = None,
    ) -> None:
        """Sends messages along several edge types and reduces what comes through each of them.

        Args:
            etype_dict: (message function, reduce function) or (message, reduce and apply function)
                by edge type.
            cross_reducer: ``sum``, ``min``, ``max``, ``mean`` or ``stack`` (which adds dimension 1,
                edge types by their id), or a function of the list of tensors in the dict's order.
                ``max`` of built-in ``max`` is the largest of all messages; ``min`` likewise.
            apply_node_func: called at last for each type of destinations.

        Raises:
            SmexValueError: the cross reducer is unknown, or an edge type is; or shapes of what
                comes through the edge types differ.
            SmexTypeError: an edge type has no pair of functions.

        Example:
            >>> import smex.graph.function as fn
            >>> g = sg.heterograph({("a", "x", "b"): ([0], [0]), ("a", "y", "b"): ([0], [0])})
            >>> g.nodes["a"].data["h"] = torch.tensor([[1.0]])
            >>> pair = (fn.copy_u("h", "m"), fn.sum("m", "out"))
            >>> g.multi_update_all({"x": pair, "y": pair}, "sum")
            >>> g.nodes["b"].data["out"]
            tensor([[2.]])
        """
        if not callable(cross_reducer) and cross_reducer not in CROSS_REDUCERS:
            raise SmexValueError(
                f"multi_update_all: unknown cross reducer {cross_reducer!r}; expected a function "
                f"or one of {', '.join(CROSS_REDUCERS)}"
            )
        found: dict[str, list[tuple[CanonicalType, Columns]]] = {}
        for key, functions in etype_dict.items():
            canonical = self.to_canonical_etype(key)
            result = self._one_type(canonical, functions, cross_reducer)
            found.setdefault(canonical[2], []).append((canonical, result))
        merged = {t: merge_types(self, parts, cross_reducer) for t, parts in found.items()}
        for ntype, columns in merged.items():
            self._dst_frames[ntype].update(columns)
        if apply_node_func is not None:
            for ntype in merged:
                self._apply_to_slot(apply_node_func, ALL, self._dst_slot_of(ntype))

    def _one_type(
        self, canonical: CanonicalType, functions: Sequence[Any], cross_reducer: Any
    ) -> Columns:
        if not isinstance(functions, (tuple, list)) or len(functions) not in (2, 3):
            many = isinstance(functions, (tuple, list))
            found = f"({', '.join(map(described, functions))})" if many else described(functions)
            raise SmexTypeError(
                f"multi_update_all: expected (message, reduce) or (message, reduce, apply) for "
                f"{canonical!r}, found {found}"
            )
        message, reduce, *rest = functions
        apply = rest[0] if rest else None
        # -inf without messages, so that the largest of all messages is found.
        raw = apply is None and isinstance(reduce, ReduceFunction) and reduce.name == cross_reducer
        return pass_messages(hop_of(self, canonical), message, reduce, apply, not raw)

    # ---- some edges ----

    def send_and_recv(
        self,
        edges: Any,
        message_func: Any,
        reduce_func: Any,
        apply_node_func: Function | None = None,
        etype: EdgeType = None,
    ) -> None:
        """Sends messages along some edges; only their destinations are updated.

        Args:
            edges: edge ids, or (sources, destinations).
            message_func: what the edges send.
            reduce_func: what a node makes of the messages it gets, in the order of ``edges``.
            apply_node_func: what becomes of the results.
            etype: edge type, where there are several.

        Raises:
            SmexValueError: an edge does not exist, and see :meth:`update_all`.
        """
        canonical = self.to_canonical_etype(etype)
        eids = self._eids_of(edges, canonical, "send_and_recv")
        if eids.shape[0] == 0:
            return
        relation = self._relations[canonical]
        src, dst = relation.find_edges(eids, check=False)
        nodes, position = torch.unique(dst, return_inverse=True)
        sub = Relation.from_coo(
            src, position.to(relation.idtype), relation.num_src, nodes.shape[0], check=False
        )
        self._pass_to(canonical, sub, nodes, eids, message_func, reduce_func, apply_node_func)

    def pull(
        self,
        v: Any,
        message_func: Any,
        reduce_func: Any,
        apply_node_func: Function | None = None,
        etype: EdgeType = None,
    ) -> None:
        """Sends messages along the edges into some nodes, which are updated.

        A node among them without in-edges is updated too, to 0 by built-in functions. Where none of
        them has in-edges a user's reduce function is not called and sets nothing.

        Args:
            v: ids of the nodes; each counts once.
            message_func: what the edges send.
            reduce_func: what a node makes of the messages it gets.
            apply_node_func: what becomes of the results.
            etype: edge type, where there are several.
        """
        canonical = self.to_canonical_etype(etype)
        nodes = torch.unique(self._node_ids(v, self._dst_slot_of(canonical[2]), "pull"))
        if nodes.shape[0] == 0:
            return
        relation = self._relations[canonical]
        src, _, eids = relation.in_edges_of(nodes, check=False)
        ends = torch.arange(nodes.shape[0], dtype=relation.idtype, device=relation.device)
        dst = torch.repeat_interleave(ends, relation.in_degrees(nodes, check=False).long())
        sub = Relation.from_coo(src, dst, relation.num_src, nodes.shape[0], check=False)
        self._pass_to(canonical, sub, nodes, eids, message_func, reduce_func, apply_node_func)

    def push(
        self,
        u: Any,
        message_func: Any,
        reduce_func: Any,
        apply_node_func: Function | None = None,
        etype: EdgeType = None,
    ) -> None:
        """Sends messages along the edges out of some nodes; their destinations are updated.

        Args:
            u: ids of the nodes.
            message_func: what the edges send.
            reduce_func: what a node makes of the messages it gets.
            apply_node_func: what becomes of the results.
            etype: edge type, where there are several.
        """
        canonical = self.to_canonical_etype(etype)
        nodes = self._node_ids(u, NodeSlot("src", canonical[0]), "push")
        eids = self._relations[canonical].out_edges_of(nodes, check=False)[2]
        self.send_and_recv(eids, message_func, reduce_func, apply_node_func, canonical)

    def _pass_to(
        self,
        canonical: CanonicalType,
        relation: Relation,
        nodes: Tensor,
        eids: Tensor,
        message: Any,
        reduce: Any,
        apply: Function | None,
    ) -> None:
        """Runs a hop whose destinations are some nodes, and writes their rows."""
        dst = self._dst_frames[canonical[2]]
        hop = Hop(
            self,
            canonical,
            relation,
            self._src_frames[canonical[0]],
            dst.subframe(nodes),
            self._edge_frames[canonical].subframe(eids),
            nodes,
            eids,
        )
        dst.update_rows(nodes, pass_messages(hop, message, reduce, apply))

    # ---- without messages ----

    def apply_nodes(self, func: Function, v: Any = ALL, ntype: str | None = None) -> None:
        """Sets the features that a function of nodes returns.

        Args:
            func: takes a NodeBatch, returns a dict of tensors ``[n, ...]``.
            v: ids of nodes; all by default. Rows of others stay; in a new feature they hold what
                its initialiser says.
            ntype: node type, where there are several.

        Example:
            >>> g = sg.graph(([0], [1]))
            >>> g.ndata["h"] = torch.tensor([1.0, 2.0])
            >>> g.apply_nodes(lambda nodes: {"h": nodes.data["h"] * 10}, [1])
            >>> g.ndata["h"]
            tensor([ 1., 20.])
        """
        self._apply_to_slot(func, v, self._node_slot(ntype))

    def _apply_to_slot(self, func: Function, v: Any, slot: NodeSlot) -> None:
        frame = self._node_frame(slot)
        if is_all(v):
            ids = torch.arange(frame.num_rows, dtype=self.idtype, device=self.device)
            batch = NodeBatch(self, ids, slot.ntype, frame.clone())
            result = checked_columns("apply", func(batch), frame.num_rows, frame.owner)
            frame.update(result)
            return
        ids = self._node_ids(v, slot, "apply_nodes")
        batch = NodeBatch(self, ids, slot.ntype, frame.subframe(ids))
        result = checked_columns("apply", func(batch), ids.shape[0], frame.owner)
        frame.update_rows(ids, result)

    def apply_edges(self, func: Any, edges: Any = ALL, etype: EdgeType = None) -> None:
        """Sets the features that a function of edges makes.

        Args:
            func: a built-in message function, or takes an EdgeBatch and returns a dict of tensors
                ``[n, ...]``.
            edges: edge ids or (sources, destinations); all by default. Rows of others stay.
            etype: edge type. Without it, on a graph of several types, a built-in runs on all.

        Raises:
            SmexValueError: a feature is not set, or shapes do not broadcast.
            SmexTypeError: the function is of the wrong kind, or returns no dict of tensors.

        Example:
            >>> import smex.graph.function as fn
            >>> g = sg.graph(([0, 1], [1, 0]))
            >>> g.ndata["h"] = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
            >>> g.apply_edges(fn.u_dot_v("h", "h", "score"))
            >>> g.edata["score"]
            tensor([[11.],
                    [11.]])
        """
        check_function("message", func, MessageFunction)
        if etype is None and len(self._relations) > 1 and is_all(edges):
            self._apply_to_all_types(func)
            return
        hop = hop_of(self, etype)
        if is_all(edges):
            hop.edge.update(_on_edges(hop, func))
            return
        eids = self._eids_of(edges, hop.etype, "apply_edges")
        frame = hop.edge
        sub = hop.relation.edge_subgraph(eids, check=False)
        hop = hop._replace(relation=sub, edge=frame.subframe(eids), edge_ids=eids)
        frame.update_rows(eids, _on_edges(hop, func))

    def _apply_to_all_types(self, func: Any) -> None:
        if not isinstance(func, MessageFunction):
            raise SmexValueError(
                "apply_edges: on several edge types at once only built-in functions run, found "
                f"{described(func)}; pass etype="
            )
        for canonical in self._relations:
            hop = hop_of(self, canonical)
            hop.edge.update(_on_edges(hop, func))

    def group_apply_edges(
        self, group_by: str, func: Function, edges: Any = ALL, etype: EdgeType = None
    ) -> None:
        """Sets edge features that a function makes of groups of edges that share a node.

        The function is called once for each size of a group, with features ``[n, size, ...]``.

        Args:
            group_by: ``src`` or ``dst``: which node is shared.
            func: takes an EdgeBatch, returns a dict of tensors ``[n, size, ...]``.
            edges: edge ids or (sources, destinations); all by default.
            etype: edge type, where there are several.

        Raises:
            SmexValueError: ``group_by`` is neither of the two.
        """
        if group_by not in ("src", "dst"):
            raise SmexValueError(
                f"group_apply_edges: group_by must be 'src' or 'dst', found {group_by!r}"
            )
        hop = hop_of(self, etype)
        frame, eids = hop.edge, None
        if not is_all(edges):
            eids = self._eids_of(edges, hop.etype, "group_apply_edges")
            sub = hop.relation.edge_subgraph(eids, check=False)
            hop = hop._replace(relation=sub, edge=frame.subframe(eids), edge_ids=eids)
        relation = hop.relation
        groups = relation.in_edges() if group_by == "dst" else relation.out_edges()
        result = apply_in_groups(hop, func, groups, relation.coo())
        if eids is None:
            frame.update(result)
        else:
            frame.update_rows(eids, result)

    # ---- along a path ----

    def prop_nodes(
        self,
        nodes_generator: Iterable[Any],
        message_func: Any,
        reduce_func: Any,
        apply_node_func: Function | None = None,
        etype: EdgeType = None,
    ) -> None:
        """Calls :meth:`pull` for each set of nodes, one after another."""
        for nodes in nodes_generator:
            self.pull(nodes, message_func, reduce_func, apply_node_func, etype)

    def prop_nodes_topo(
        self,
        message_func: Any,
        reduce_func: Any,
        reverse: bool = False,
        apply_node_func: Function | None = None,
    ) -> None:
        """Calls :meth:`pull` for the nodes in topological order: each after its in-neighbours.

        That is a recursion over a DAG, and runs as a vertex function of :mod:`smex.vertex` where
        the functions can be looked into: levelled once for a structure, what does not depend on
        in-neighbours computed once for all nodes, and so are the gradients of parameters. Results
        are those of the calls of :meth:`pull`; they have no second derivatives. Functions are
        traced once for each kind of features, as :class:`smex.vertex.VertexFunction` is.

        Where a function looks at values or at the number of nodes, has a side effect, or mixes
        nodes, and with `reverse`, whose nodes read what was there before, the levels are pulled
        one after another; ``SMEX_LOGS=info`` tells why, ``smex.vertex.options(trace=False)`` asks
        for it.

        Args:
            message_func: what edges send.
            reduce_func: what a node makes of the messages it gets; the first level has none.
            reverse: whether to walk against the edges; messages go along them all the same.
            apply_node_func: what becomes of the results.

        Raises:
            SmexValueError: the graph has a cycle or several types, and see :meth:`update_all`.

        Example:
            >>> import smex.graph.function as fn
            >>> g = sg.graph(([0, 1, 2], [2, 2, 3]))
            >>> g.ndata["n"] = torch.zeros(4)
            >>> g.prop_nodes_topo(
            ...     fn.copy_u("n", "m"),
            ...     fn.sum("m", "n"),
            ...     apply_node_func=lambda nodes: {"n": nodes.data["n"] + 1},
            ... )
            >>> g.ndata["n"]
            tensor([1., 1., 3., 4.])
        """
        if not reverse and self.num_nodes():
            from smex.graph.recursion.propagate import propagate

            if propagate(self, message_func, reduce_func, apply_node_func):
                return
        steps = topological_nodes_generator(self, reverse)
        self.prop_nodes(steps, message_func, reduce_func, apply_node_func)

    def prop_edges(
        self,
        edges_generator: Iterable[Any],
        message_func: Any,
        reduce_func: Any,
        apply_node_func: Function | None = None,
        etype: EdgeType = None,
    ) -> None:
        """Calls :meth:`send_and_recv` for each set of edges, one after another."""
        for edges in edges_generator:
            self.send_and_recv(edges, message_func, reduce_func, apply_node_func, etype)

    def _dst_slot_of(self, ntype: str) -> NodeSlot:
        return NodeSlot("dst" if self._is_block else "src", ntype)


def _on_edges(hop: Hop, func: Any) -> Columns:
    """Returns what a function makes of the edges of a hop, fused where it can be."""
    if not isinstance(func, MessageFunction) and not torch.compiler.is_compiling():
        found = fusion.fuse_edges(hop, func)
        if not isinstance(found, Unfused):
            values = {name: formula.on_edges(hop.relation) for name, (formula, _) in found.items()}
            return {n: x.squeeze(-1) if found[n][1] else x for n, x in values.items()}
    return edge_results(hop, func, "message")

"""Adding and removing nodes and edges.

Relations are immutable, so each change makes new ones; other graphs that share the old ones keep
them. Everything new is made before anything is assigned: an error leaves the graph as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.constants import NID
from smex.graph.core.batches import BatchMixin
from smex.graph.core.graph_core import NodeSlot
from smex.graph.core.views import check_device
from smex.graph.features.column import check_column
from smex.graph.features.frame import Frame
from smex.graph.structure.relation import Relation
from smex.graph.words import CanonicalType, EdgeType, integer

_Key = TypeVar("_Key")
Batches: TypeAlias = tuple[dict[str, Tensor] | None, dict[CanonicalType, Tensor] | None]


class MutationMixin(BatchMixin):
    """Changes of :class:`smex.graph.Graph` in place.

    A batch becomes one graph by what is added; what is removed is taken off its sizes.
    """

    def add_nodes(
        self, num: int, data: Mapping[str, Tensor] | None = None, ntype: str | None = None
    ) -> None:
        """Add nodes after the existing ones.

        Features that ``data`` leaves out are filled by their initialisers, zeros unless set; those
        that only ``data`` has are so for the old nodes.

        Args:
            num: how many.
            data: features of the new nodes, each ``[num, ...]``.
            ntype: the node type, where there are several.

        Raises:
            SmexTypeError: a feature has another dtype or shape than the existing one.
            SmexValueError: a negative number, or a feature with another number of rows.

        Example:
            >>> g = sg.graph(([0], [1]))
            >>> g.ndata["h"] = torch.ones(2)
            >>> g.add_nodes(1)
            >>> g.ndata["h"]
            tensor([1., 1., 0.])
        """
        slot = self._node_slot(ntype)
        number = integer(num)
        if number is None or number < 0:
            raise SmexValueError(f"add_nodes: expected a number of at least 0, found {num!r}")
        frame = self._extended(self._node_frame(slot), number, data)
        if number == 0:
            return
        size = self._slot_size(slot) + number
        relations = self._resized({slot: size})
        self._commit(relations, {}, {slot: frame})

    def add_edges(
        self,
        u: Any,
        v: Any,
        data: Mapping[str, Tensor] | None = None,
        etype: EdgeType = None,
    ) -> None:
        """Add edges from ``u[i]`` to ``v[i]`` after the existing ones.

        Nodes that do not exist are added. Features are filled as in :meth:`add_nodes`.

        Args:
            u: an id, or ids, of source nodes; a single one goes with every ``v``.
            v: an id, or ids, of destination nodes.
            data: features of the new edges, each ``[n, ...]``.
            etype: the edge type, where there are several.

        Raises:
            SmexTypeError: a feature has another dtype or shape than the existing one.
            SmexValueError: the numbers of ids differ, an id is negative, or a feature has another
                number of rows.

        Example:
            >>> g = sg.graph(([0], [1]))
            >>> g.add_edges([1, 2], 0)
            >>> g.edges()
            (tensor([0, 1, 2]), tensor([1, 0, 0]))
        """
        canonical = self.to_canonical_etype(etype)
        src, dst = self._new_ends(u, v)
        relation = self._relations[canonical]
        frame = self._extended(self._edge_frames[canonical], src.shape[0], data)
        if src.shape[0] == 0:
            return
        sizes = self._grown(canonical, src, dst)
        nodes = {
            slot: self._extended(self._node_frame(slot), size - self._slot_size(slot), None)
            for slot, size in sizes.items()
        }
        relations = self._resized(sizes)
        num_src = sizes.get(self._end(canonical, 0), relation.num_src)
        num_dst = sizes.get(self._end(canonical, 2), relation.num_dst)
        old_src, old_dst = relation.coo()
        relations[canonical] = Relation.from_coo(
            torch.cat([old_src, src]), torch.cat([old_dst, dst]), num_src, num_dst, check=False
        )
        self._commit(relations, {canonical: frame}, nodes)

    def remove_edges(self, eids: Any, etype: EdgeType = None, store_ids: bool = False) -> None:
        """Remove edges; the others keep their order and are numbered anew.

        Args:
            eids: an id, or ids; duplicates count once.
            etype: the edge type, where there are several.
            store_ids: keep the old ids of edges as feature "_ID".

        Raises:
            SmexValueError: an edge does not exist.

        Example:
            >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
            >>> g.remove_edges([0])
            >>> g.edges()
            (tensor([1, 2]), tensor([2, 0]))
        """
        canonical = self.to_canonical_etype(etype)
        ids = self._edge_ids(eids, canonical, "remove_edges")
        if ids.numel() == 0:
            return
        self._keep_edges(
            self._others(ids, self._relations[canonical].num_edges), canonical, store_ids
        )

    def _keep_edges(self, kept: Tensor, canonical: CanonicalType, store_ids: bool = False) -> None:
        """Remove the edges of a type that are not among some ids, which ascend."""
        relation = self._relations[canonical]
        src, dst = relation.coo()
        frames = {canonical: self._edge_frames[canonical].subframe(kept)}
        if store_ids:
            self._store_edge_ids(frames, {canonical: kept})
        relations = dict(self._relations)
        relations[canonical] = Relation.from_coo(
            src[kept], dst[kept], relation.num_src, relation.num_dst, check=False
        )
        batches = self._batches_of({}, {canonical: kept})
        self._commit(relations, frames, {}, batches)

    def remove_nodes(self, nids: Any, ntype: str | None = None, store_ids: bool = False) -> None:
        """Remove nodes and the edges at them; the others are numbered anew.

        Remaining nodes keep their order; remaining edges are ordered by source, then as before.

        Args:
            nids: an id, or ids; duplicates count once.
            ntype: the node type, where there are several.
            store_ids: keep the old ids of nodes and edges as feature "_ID".

        Raises:
            SmexValueError: a node does not exist, or the graph is a block.

        Example:
            >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
            >>> g.remove_nodes([0])
            >>> g.edges()
            (tensor([0]), tensor([1]))
        """
        slot = self._node_slot(ntype)
        if self._is_block:
            raise SmexValueError(
                "remove_nodes: expected a graph, found a block, whose sides are numbered apart; "
                "remove nodes before to_block"
            )
        ids = self._node_ids(nids, slot, "remove_nodes")
        if ids.numel() == 0:
            return
        kept = {
            s: self._others(ids[:0] if s != slot else ids, self._slot_size(s))
            for s in self._slots()
        }
        parts = {
            c: self._relations[c].node_subgraph(kept[self._end(c, 0)], kept[self._end(c, 2)])
            for c in self._relations
        }
        nodes = {slot: self._node_frame(slot).subframe(kept[slot])}
        edges = {c: self._edge_frames[c].subframe(eids) for c, (_, eids) in parts.items()}
        if store_ids:
            self._store_edge_ids(edges, {c: eids for c, (_, eids) in parts.items()})
            for s, rows in kept.items():
                nodes.setdefault(s, self._node_frame(s).clone()).update({NID: rows})
        batches = self._batches_of(
            {s.ntype: rows for s, rows in kept.items()}, {c: eids for c, (_, eids) in parts.items()}
        )
        self._commit({c: relation for c, (relation, _) in parts.items()}, edges, nodes, batches)

    # ---- new parts ----

    def _new_ends(self, u: Any, v: Any) -> tuple[Tensor, Tensor]:
        src, dst = self._as_ids(u, "add_edges"), self._as_ids(v, "add_edges")
        if src.shape != dst.shape and 1 not in (src.shape[0], dst.shape[0]):
            raise SmexValueError(
                "add_edges: expected as many sources as destinations, or one of either, found "
                f"{src.shape[0]} and {dst.shape[0]}"
            )
        src, dst = torch.broadcast_tensors(src, dst)
        for ids in (src, dst):
            if ids.numel() and int(ids.min()) < 0:
                raise SmexValueError(
                    f"add_edges: expected node ids of at least 0, found {int(ids.min())}"
                )
        return src, dst

    def _extended(self, frame: Frame, count: int, data: Mapping[str, Tensor] | None) -> Frame:
        for name, value in (data or {}).items():
            check_column(name, value, count, f"new {frame.owner or 'row'}")
            check_device(name, value, self)
        return frame.extended(count, data)

    def _end(self, canonical: CanonicalType, position: int) -> NodeSlot:
        """Returns the node type at the beginning (0) or end (2) of an edge type."""
        side = "dst" if self._is_block and position == 2 else "src"
        return NodeSlot(side, canonical[position])

    def _grown(self, canonical: CanonicalType, src: Tensor, dst: Tensor) -> dict[NodeSlot, int]:
        """New numbers of nodes of the types that edges reach beyond."""
        sizes: dict[NodeSlot, int] = {}
        for slot, ids in ((self._end(canonical, 0), src), (self._end(canonical, 2), dst)):
            needed = int(ids.max()) + 1 if ids.numel() else 0
            if needed > sizes.get(slot, self._slot_size(slot)):
                sizes[slot] = needed
        return sizes

    def _resized(self, sizes: Mapping[NodeSlot, int]) -> dict[CanonicalType, Relation]:
        """Returns all relations, with new numbers of nodes where they change."""
        result = dict(self._relations)
        for canonical, relation in self._relations.items():
            num_src = sizes.get(self._end(canonical, 0), relation.num_src)
            num_dst = sizes.get(self._end(canonical, 2), relation.num_dst)
            if (num_src, num_dst) != (relation.num_src, relation.num_dst):
                src, dst = relation.coo()
                result[canonical] = Relation.from_coo(src, dst, num_src, num_dst, check=False)
        return result

    def _others(self, ids: Tensor, size: int) -> Tensor:
        """Ids below ``size`` that are not among ``ids``, ascending."""
        keep = torch.ones(size, dtype=torch.bool, device=self.device)
        keep[ids.long()] = False
        return keep.nonzero().view(-1).to(self.idtype)

    def _store_edge_ids(
        self, frames: dict[CanonicalType, Frame], kept: Mapping[CanonicalType, Tensor]
    ) -> None:
        for canonical, relation in self._relations.items():
            frame = frames.setdefault(canonical, self._edge_frames[canonical].clone())
            every = torch.arange(relation.num_edges, dtype=self.idtype, device=self.device)
            frame.update({NID: kept.get(canonical, every)})

    def _batches_of(
        self, nodes: Mapping[str, Tensor], edges: Mapping[CanonicalType, Tensor]
    ) -> Batches:
        """Sizes of the parts of a batch when of some types these ids alone remain."""
        node_sizes, edge_sizes = self._batch_num_nodes, self._batch_num_edges
        if node_sizes is not None:
            node_sizes = node_sizes | _remaining(node_sizes, nodes)
        if edge_sizes is not None:
            counts = {}
            for canonical in edges.keys() & edge_sizes.keys():
                old = edge_sizes[canonical]
                number = old.shape[0]
                part = self._edge_parts(canonical)[edges[canonical].long()]
                counts[canonical] = part.bincount(minlength=number)[:number].to(old.dtype)
            edge_sizes = edge_sizes | counts
        return node_sizes, edge_sizes

    def _commit(
        self,
        relations: dict[CanonicalType, Relation],
        edges: Mapping[CanonicalType, Frame],
        nodes: Mapping[NodeSlot, Frame],
        batches: Batches = (None, None),
    ) -> None:
        """Make the changes, none of which can fail; unchanged frames stay the same objects."""
        self._relations = relations
        self._edge_frames = {**self._edge_frames, **edges}
        for slot, frame in nodes.items():
            on_src = slot.side == "src"
            (self._src_num_nodes if on_src else self._dst_num_nodes)[slot.ntype] = frame.num_rows
            (self._src_frames if on_src else self._dst_frames)[slot.ntype] = frame
        self._batch_num_nodes, self._batch_num_edges = batches


def _remaining(sizes: Mapping[_Key, Tensor], kept: Mapping[_Key, Tensor]) -> dict[_Key, Tensor]:
    """Returns how many of the kept ids are in each part."""
    result = {}
    for key, ids in kept.items():
        if key in sizes:
            ends = sizes[key].long().cumsum(0)
            part = torch.searchsorted(ends, ids.long(), right=True)
            counts = torch.bincount(part, minlength=ends.shape[0])[: ends.shape[0]]
            result[key] = counts.to(sizes[key].dtype)
    return result

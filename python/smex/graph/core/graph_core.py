"""What every part of a graph builds on: its types, relations, sizes and frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.features.column import Owner
from smex.graph.features.frame import Frame
from smex.graph.structure.edge_data import id_beyond
from smex.graph.structure.relation import Relation
from smex.graph.words import CanonicalType, EdgeType, check_range, counted, number_of, quoted
from smex.text import near_words


class NodeSlot(NamedTuple):
    """A node type as a graph numbers them; in a block one name may stand on both sides."""

    side: str  # "src" or "dst"; without meaning unless the graph is a block
    ntype: str


class GraphCore:
    """Types, relations, numbers of nodes and frames of a graph.

    Relations are immutable and shared between graphs; frames belong to one graph and share tensors.
    Of a graph that is not a block, both sides are the same dicts.

    Args:
        relations: the structure of each canonical edge type, in the order of edge type ids.
        num_nodes: number of nodes of each type, in the order of node type ids; of a block, of the
            source side.
        dst_num_nodes: makes the graph a block: number of nodes of the destination side.
        src_frames: features of each node type; missing ones are empty.
        dst_frames: of a block, those of the destination side.
        edge_frames: features of each canonical edge type; missing ones are empty.
        batch_num_nodes: number of nodes of each type in each graph of a batch.
        batch_num_edges: number of edges of each type in each graph of a batch.
        idtype: dtype of ids, where there is no relation to tell.
        device: device, where there is no relation to tell.
    """

    _relations: dict[CanonicalType, Relation]
    _src_num_nodes: dict[str, int]
    _dst_num_nodes: dict[str, int]
    _src_frames: dict[str, Frame]
    _dst_frames: dict[str, Frame]
    _edge_frames: dict[CanonicalType, Frame]

    def __init__(
        self,
        relations: Mapping[CanonicalType, Relation],
        num_nodes: Mapping[str, int],
        dst_num_nodes: Mapping[str, int] | None = None,
        *,
        src_frames: Mapping[str, Frame] | None = None,
        dst_frames: Mapping[str, Frame] | None = None,
        edge_frames: Mapping[CanonicalType, Frame] | None = None,
        batch_num_nodes: Mapping[str, Tensor] | None = None,
        batch_num_edges: Mapping[CanonicalType, Tensor] | None = None,
        idtype: torch.dtype = torch.int64,
        device: torch.device | str = "cpu",
    ):
        self._is_block = dst_num_nodes is not None
        self._relations = dict(relations)
        self._src_num_nodes = {t: number_of(n) for t, n in num_nodes.items()}
        sides = ("source node", "destination node") if self._is_block else ("node", "node")
        self._src_frames = _frames(sides[0], self._src_num_nodes, src_frames)
        if dst_num_nodes is None:
            self._dst_num_nodes, self._dst_frames = self._src_num_nodes, self._src_frames
        else:
            self._dst_num_nodes = {t: number_of(n) for t, n in dst_num_nodes.items()}
            self._dst_frames = _frames(sides[1], self._dst_num_nodes, dst_frames)
        edges = {canonical: r.num_edges for canonical, r in self._relations.items()}
        self._edge_frames = _frames("edge", edges, edge_frames)
        self._batch_num_nodes = dict(batch_num_nodes) if batch_num_nodes is not None else None
        self._batch_num_edges = dict(batch_num_edges) if batch_num_edges is not None else None
        first = next(iter(self._relations.values()), None)
        self._idtype = idtype if first is None else first.idtype
        self._device = torch.device(device) if first is None else first.device
        self._index_types()

    def _index_types(self) -> None:
        """Sets what follows from the names of the types alone."""
        self._etype_of_name: dict[str, CanonicalType | None] = {}
        for canonical in self._relations:
            name = canonical[1]
            self._etype_of_name[name] = None if name in self._etype_of_name else canonical
        sources = {s for s, _, _ in self._relations}
        destinations = {d for _, _, d in self._relations}
        self._is_unibipartite = self._is_block or not (sources & destinations)
        self._srctypes = list(self._src_num_nodes)
        self._dsttypes = list(self._dst_num_nodes)
        if self._is_unibipartite and not self._is_block:
            self._srctypes = [t for t in self._srctypes if t not in destinations]
            self._dsttypes = [t for t in self._dsttypes if t in destinations]

    # ---- types ----

    @property
    def ntypes(self) -> list[str]:
        """Names of the node types, by node type id; of a block, the source side's first."""
        if self._is_block:
            return [*self._src_num_nodes, *self._dst_num_nodes]
        return list(self._src_num_nodes)

    @property
    def etypes(self) -> list[str]:
        """Names of the edge types, by edge type id; a name may occur more than once."""
        return [name for _, name, _ in self._relations]

    @property
    def canonical_etypes(self) -> list[CanonicalType]:
        """(source type, edge type, destination type) of each relation, by edge type id."""
        return list(self._relations)

    @property
    def srctypes(self) -> list[str]:
        """Node types that edges start from; all, unless sources and destinations are distinct."""
        return list(self._srctypes)

    @property
    def dsttypes(self) -> list[str]:
        """Node types that edges end in; all, unless sources and destinations are distinct."""
        return list(self._dsttypes)

    @property
    def is_block(self) -> bool:
        """Whether sources and destinations are numbered apart even where their types are equal."""
        return self._is_block

    @property
    def is_unibipartite(self) -> bool:
        """Whether no node type is both a source and a destination."""
        return self._is_unibipartite

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type and one edge type."""
        return not self._is_block and len(self._src_num_nodes) == 1 and len(self._relations) == 1

    def to_canonical_etype(self, etype: EdgeType) -> CanonicalType:
        """Returns the canonical form of an edge type.

        Args:
            etype: a canonical type, a name that only one relation has, or None where there is one
                relation.

        Raises:
            SmexValueError: there is no such type, or there are several.

        Example:
            >>> g = sg.heterograph({("user", "plays", "game"): ([0, 1], [0, 0])})
            >>> g.to_canonical_etype("plays")
            ('user', 'plays', 'game')
        """
        if isinstance(etype, str):
            canonical = self._etype_of_name.get(etype)
            if canonical is not None:
                return canonical
            self._reject_etype_name(etype)
        if etype is None:
            if len(self._relations) != 1:
                raise SmexValueError(
                    f"edge type: the graph has {len(self._relations)} of them, expected a name "
                    f"among {quoted(self._relations)}"
                )
            return next(iter(self._relations))
        if isinstance(etype, list):
            etype = tuple(etype)
        if etype in self._relations:
            return etype
        near = near_words(etype, self._relations)
        raise SmexValueError(
            f"edge type: the graph has no {etype!r}; it has {quoted(self._relations)}{near}"
        )

    def _reject_etype_name(self, name: str) -> None:
        if name in self._etype_of_name:
            same = [canonical for canonical in self._relations if canonical[1] == name]
            raise SmexValueError(f'edge type: "{name}" is ambiguous; pass one of {quoted(same)}')
        near = near_words(name, self._etype_of_name)
        raise SmexValueError(
            f"edge type: the graph has no {name!r}; it has {quoted(self._relations)}{near}"
        )

    def relation(self, etype: EdgeType = None) -> Relation:
        """Returns the structure of an edge type."""
        return self._relations[self.to_canonical_etype(etype)]

    def get_etype_id(self, etype: EdgeType) -> int:
        """Position of an edge type in :attr:`canonical_etypes`."""
        return list(self._relations).index(self.to_canonical_etype(etype))

    def get_ntype_id(self, ntype: str | None) -> int:
        """Position of a node type in :attr:`ntypes`; a name on both sides of a block is the source.

        ``"SRC/name"`` and ``"DST/name"`` name the sides where sources and destinations are
        distinct.
        """
        return self._slots().index(self._node_slot(ntype))

    def get_ntype_id_from_src(self, ntype: str | None) -> int:
        """Position in :attr:`ntypes` of a node type that edges start from."""
        return self._slots().index(self._src_slot(ntype))

    def get_ntype_id_from_dst(self, ntype: str | None) -> int:
        """Position in :attr:`ntypes` of a node type that edges end in."""
        return self._slots().index(self._dst_slot(ntype))

    def _slots(self) -> list[NodeSlot]:
        """Every node type by id."""
        slots = [NodeSlot("src", t) for t in self._src_num_nodes]
        if self._is_block:
            slots += [NodeSlot("dst", t) for t in self._dst_num_nodes]
        return slots

    def _node_slot(self, ntype: str | None) -> NodeSlot:
        if ntype is None:
            slots = self._slots()
            if len(slots) != 1:
                raise SmexValueError(
                    f"node type: the graph has {len(slots)} of them, expected a name among "
                    f"{quoted(self.ntypes)}"
                )
            return slots[0]
        if self._is_unibipartite and isinstance(ntype, str):
            if ntype.startswith("SRC/"):
                return self._src_slot(ntype[4:])
            if ntype.startswith("DST/"):
                return self._dst_slot(ntype[4:])
        if ntype in self._src_num_nodes:
            return NodeSlot("src", ntype)
        if self._is_block and ntype in self._dst_num_nodes:
            return NodeSlot("dst", ntype)
        near = near_words(ntype, self.ntypes)
        raise SmexValueError(
            f"node type: the graph has no {ntype!r}; it has {quoted(self.ntypes)}{near}"
        )

    def _src_slot(self, ntype: str | None) -> NodeSlot:
        return NodeSlot("src", _one_of("source node type", ntype, self._srctypes))

    def _dst_slot(self, ntype: str | None) -> NodeSlot:
        side = "dst" if self._is_block else "src"
        return NodeSlot(side, _one_of("destination node type", ntype, self._dsttypes))

    # ---- sizes ----

    def num_nodes(self, ntype: str | None = None) -> int:
        """Number of nodes of a type, or of all types together.

        Example:
            >>> sg.graph(([0, 1], [1, 2])).num_nodes()
            3
        """
        if ntype is None:
            return sum(self._slot_size(slot) for slot in self._slots())
        return self._slot_size(self._node_slot(ntype))

    def num_src_nodes(self, ntype: str | None = None) -> int:
        """Number of nodes of a source type, or of all source types together."""
        if ntype is None:
            return sum(self._src_num_nodes[t] for t in self._srctypes)
        return self._slot_size(self._src_slot(ntype))

    def num_dst_nodes(self, ntype: str | None = None) -> int:
        """Number of nodes of a destination type, or of all destination types together."""
        if ntype is None:
            return sum(self._dst_num_nodes[t] for t in self._dsttypes)
        return self._slot_size(self._dst_slot(ntype))

    def num_edges(self, etype: EdgeType = None) -> int:
        """Number of edges of a type, or of all types together."""
        if etype is None:
            return sum(relation.num_edges for relation in self._relations.values())
        return self.relation(etype).num_edges

    number_of_nodes = num_nodes
    number_of_src_nodes = num_src_nodes
    number_of_dst_nodes = num_dst_nodes
    number_of_edges = num_edges

    @property
    def idtype(self) -> torch.dtype:
        """Type of node and edge ids: torch.int32 or torch.int64."""
        return self._idtype

    @property
    def device(self) -> torch.device:
        """Where structure and features are."""
        return self._device

    def _slot_size(self, slot: NodeSlot) -> int:
        sizes = self._src_num_nodes if slot.side == "src" else self._dst_num_nodes
        return sizes[slot.ntype]

    def _node_frame(self, slot: NodeSlot) -> Frame:
        frames = self._src_frames if slot.side == "src" else self._dst_frames
        return frames[slot.ntype]

    # ---- ids that users pass ----

    def _as_ids(self, ids: Any, what: str) -> Tensor:
        """Ids as a vector in the graph's idtype on its device.

        Takes integers, sequences of them, arrays and tensors of any integer dtype.
        """
        if isinstance(ids, Tensor):
            tensor = ids
        else:
            try:
                tensor = torch.as_tensor(list(ids) if isinstance(ids, range) else ids)
            except (TypeError, ValueError, RuntimeError) as error:
                raise SmexTypeError(
                    f"{what}: expected ids (integers or a tensor of them), found "
                    f"{type(ids).__name__}"
                ) from error
            if tensor.numel() == 0:
                tensor = tensor.to(self.idtype)
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool:
            raise SmexTypeError(
                f"{what}: expected ids of an integer dtype, found {tensor.dtype}; a mask becomes "
                "ids by mask.nonzero().view(-1)"
            )
        if tensor.dim() > 1:
            raise SmexValueError(
                f"{what}: expected a vector of ids, found shape {list(tensor.shape)}"
            )
        wrong = id_beyond(tensor, self.idtype)
        if wrong is not None:
            raise SmexValueError(
                f"{what}: id {wrong} does not fit into int32, the type of the graph's ids"
            )
        return tensor.reshape(-1).to(device=self.device, dtype=self.idtype)

    def _node_ids(self, ids: Any, slot: NodeSlot, what: str) -> Tensor:
        """Ids of existing nodes."""
        tensor = self._as_ids(ids, what)
        check_range(tensor, self._slot_size(slot), f'{what}: nodes of type "{slot.ntype}"')
        return tensor

    def _edge_ids(self, ids: Any, canonical: CanonicalType, what: str) -> Tensor:
        """Ids of existing edges."""
        tensor = self._as_ids(ids, what)
        size = self._relations[canonical].num_edges
        check_range(tensor, size, f"{what}: edges of type {canonical!r}")
        return tensor


def _one_of(kind: str, ntype: str | None, names: list[str]) -> str:
    if ntype is None:
        if len(names) != 1:
            raise SmexValueError(
                f"{kind}: the graph has {len(names)} of them, expected a name among {quoted(names)}"
            )
        return names[0]
    if ntype not in names:
        near = near_words(ntype, names)
        raise SmexValueError(f"{kind}: the graph has no {ntype!r}; it has {quoted(names)}{near}")
    return ntype


def _frames(
    kind: str, sizes: Mapping[Any, int], given: Mapping[Any, Frame] | None
) -> dict[Any, Frame]:
    """Returns the frame of each type, with what its rows are."""
    given = given or {}
    frames = {key: given[key] if key in given else Frame(n) for key, n in sizes.items()}
    for key, frame in frames.items():
        if frame.num_rows != sizes[key]:
            raise SmexValueError(
                f"frame of {key!r}: expected {counted(sizes[key], 'row')}, found {frame.num_rows}"
            )
        frame.owner = Owner(kind, key)
    return frames

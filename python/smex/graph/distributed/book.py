"""Which part, and which rank, has which nodes and edges: each part a range of ids per type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.constants import DEFAULT_ETYPE, DEFAULT_NTYPE
from smex.graph.structure.edge_data import as_id_tensor
from smex.graph.words import CanonicalType, check_range, named, quoted

__all__ = [
    "EdgePartitionPolicy",
    "GraphPartitionBook",
    "NodePartitionPolicy",
    "PartitionPolicy",
    "RangePartitionBook",
]

_CPU = torch.device("cpu")


def rank_bounds(starts: Sequence[int], world: int) -> list[int]:
    """Returns where the rows of each rank begin, and where the last one's end.

    Parts lie one after another on an axis, each of length 1 whatever its rows; ranks divide the
    axis evenly. As many ranks as parts have a part each, twice as many half a part each.

    Args:
        starts: where the rows of each part begin, and where the last one's end.
        world: number of ranks.
    """
    num_parts = len(starts) - 1
    bounds = []
    for rank in range(world + 1):
        part, rest = divmod(rank * num_parts, world)
        size = starts[part + 1] - starts[part] if rest else 0
        bounds.append(starts[part] + size * rest // world)
    return bounds


class GraphPartitionBook:
    """Says which part has a node or an edge, of a graph that :func:`partition_graph` has written.

    The nodes of a type that a part has are a range of their ids, and so are its edges, which are
    those into its nodes. Ids of all types together ("homogeneous" ones) count part by part, and
    within a part type by type.

    Args:
        part_id: the part of this rank.
        num_parts: number of parts.
        node_map: for each node type where the ids of each part begin, and where the last ones end:
            ``num_parts + 1`` numbers.
        edge_map: the same for each canonical edge type.

    Example:
        >>> import smex.graph.distributed as sgd
        >>> book = sgd.GraphPartitionBook(0, 2, {"_N": [0, 3, 5]}, {("_N", "_E", "_N"): [0, 4, 9]})
        >>> book.nid2partid([0, 3, 4]), book.partid2nids(1)
        (tensor([0, 1, 1]), tensor([3, 4]))
    """

    def __init__(
        self,
        part_id: int,
        num_parts: int,
        node_map: Mapping[str, Sequence[int]],
        edge_map: Mapping[CanonicalType, Sequence[int]],
    ):
        self._part_id = part_id
        self._num_parts = num_parts
        self.node_map = {t: _checked_starts("node", t, s, num_parts) for t, s in node_map.items()}
        self.edge_map = {t: _checked_starts("edge", t, s, num_parts) for t, s in edge_map.items()}
        self._node_homo = _homogeneous(list(self.node_map.values()), num_parts)
        self._edge_homo = _homogeneous(list(self.edge_map.values()), num_parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphPartitionBook) and (
            (self.node_map, self.edge_map) == (other.node_map, other.edge_map)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        nodes = {t: starts[-1] for t, starts in self.node_map.items()}
        return f"GraphPartitionBook(part {self._part_id} of {self._num_parts}, nodes={nodes})"

    # ---- facts ----

    def num_partitions(self) -> int:
        """Returns the number of parts."""
        return self._num_parts

    @property
    def partid(self) -> int:
        """The part of this rank."""
        return self._part_id

    @property
    def ntypes(self) -> list[str]:
        """The node types, in the order of their numbers."""
        return list(self.node_map)

    @property
    def etypes(self) -> list[str]:
        """The edge types."""
        return [canonical[1] for canonical in self.edge_map]

    @property
    def canonical_etypes(self) -> list[CanonicalType]:
        """The edge types with those of their ends."""
        return list(self.edge_map)

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type and one edge type."""
        return len(self.node_map) == len(self.edge_map) == 1

    def metadata(self) -> list[dict[str, Any]]:
        """Returns for each part its number and how many nodes and edges it has, by type."""
        result: list[dict[str, Any]] = []
        for part in range(self._num_parts):
            sizes = [
                {t: starts[part + 1] - starts[part] for t, starts in table.items()}
                for table in (self.node_map, self.edge_map)
            ]
            counts = [next(iter(s.values())) if len(s) == 1 else s for s in sizes]
            result.append({"machine_id": part, "num_nodes": counts[0], "num_edges": counts[1]})
        return result

    def to_canonical_etype(self, etype: Any) -> CanonicalType:
        """Returns an edge type with those of its ends.

        Raises:
            SmexValueError: there is none of that name, or several.
        """
        if etype in self.edge_map:
            return etype
        found = [c for c in self.edge_map if etype is None or c[1] == etype]
        if etype == DEFAULT_ETYPE[1] and len(self.edge_map) == 1:
            found = list(self.edge_map)
        if len(found) != 1:
            raise SmexValueError(
                f"partition book: expected one edge type {named(etype)}, found {len(found)}; there "
                f"are {quoted(self.edge_map)}"
            )
        return found[0]

    def _ntype(self, ntype: str | None) -> str:
        if ntype in self.node_map:
            return ntype
        if ntype in (None, DEFAULT_NTYPE) and len(self.node_map) == 1:
            return next(iter(self.node_map))
        raise SmexValueError(
            f"partition book: expected a node type, found {named(ntype)}; there are "
            f"{quoted(self.node_map)}"
        )

    def _num_nodes(self, ntype: str | None = None) -> int:
        return self.node_map[self._ntype(ntype)][-1]

    def _num_edges(self, etype: Any = None) -> int:
        return self.edge_map[self.to_canonical_etype(etype)][-1]

    # ---- parts of ids ----

    def nid2partid(self, nids: Any, ntype: str | None = DEFAULT_NTYPE) -> Tensor:
        """Returns the part of each node: int64 ``[n]``.

        Raises:
            SmexValueError: there is no such node or type.
        """
        return _part_of("nid2partid", nids, self.node_map[self._ntype(ntype)])

    def eid2partid(self, eids: Any, etype: Any = DEFAULT_ETYPE) -> Tensor:
        """Returns the part of each edge, which is that of its destination: int64 ``[n]``."""
        return _part_of("eid2partid", eids, self.edge_map[self.to_canonical_etype(etype)])

    def partid2nids(self, partid: int, ntype: str | None = DEFAULT_NTYPE) -> Tensor:
        """Returns the ids of the nodes of a part: int64, ascending."""
        return self._ids_of(self.node_map[self._ntype(ntype)], partid)

    def partid2eids(self, partid: int, etype: Any = DEFAULT_ETYPE) -> Tensor:
        """Returns the ids of the edges of a part: int64, ascending."""
        return self._ids_of(self.edge_map[self.to_canonical_etype(etype)], partid)

    def nid2localnid(self, nids: Any, partid: int, ntype: str | None = DEFAULT_NTYPE) -> Tensor:
        """Returns the place of each node among those of its part.

        Raises:
            SmexValueError: a node is of another part.
        """
        return self._local("nid2localnid", nids, self.node_map[self._ntype(ntype)], partid)

    def eid2localeid(self, eids: Any, partid: int, etype: Any = DEFAULT_ETYPE) -> Tensor:
        """Returns the place of each edge among those of its part."""
        starts = self.edge_map[self.to_canonical_etype(etype)]
        return self._local("eid2localeid", eids, starts, partid)

    def _check_part(self, partid: int) -> None:
        if not 0 <= partid < self._num_parts:
            raise SmexValueError(
                f"partition book: expected a part from 0 to {self._num_parts - 1}, found {partid}"
            )

    def _ids_of(self, starts: list[int], partid: int) -> Tensor:
        self._check_part(partid)
        return torch.arange(starts[partid], starts[partid + 1])

    def _local(self, op: str, ids: Any, starts: list[int], partid: int) -> Tensor:
        self._check_part(partid)
        given = as_id_tensor(op, "ids", ids, torch.int64, _CPU)
        local = given - starts[partid]
        wrong = (local < 0) | (local >= starts[partid + 1] - starts[partid])
        if bool(wrong.any()):
            raise SmexValueError(
                f"{op}: expected ids of part {partid}, {starts[partid]} to "
                f"{starts[partid + 1] - 1}, found {int(given[wrong][0])}"
            )
        return local

    # ---- ids of all types together ----

    def map_to_per_ntype(self, ids: Any) -> tuple[Tensor, Tensor]:
        """Returns the number of the type, and the id within it, of each node of all types."""
        return _per_type("map_to_per_ntype", ids, self._node_homo, list(self.node_map.values()))

    def map_to_per_etype(self, ids: Any) -> tuple[Tensor, Tensor]:
        """Returns the number of the type, and the id within it, of each edge of all types."""
        return _per_type("map_to_per_etype", ids, self._edge_homo, list(self.edge_map.values()))

    def map_to_homo_nid(self, ids: Any, ntype: str) -> Tensor:
        """Returns the ids among nodes of all types of some of one type."""
        number = self.ntypes.index(self._ntype(ntype))
        starts = self.node_map[self._ntype(ntype)]
        return _to_all("map_to_homo_nid", ids, starts, self._node_homo[:, number])

    def map_to_homo_eid(self, ids: Any, etype: Any) -> Tensor:
        """Returns the ids among edges of all types of some of one type."""
        canonical = self.to_canonical_etype(etype)
        number = list(self.edge_map).index(canonical)
        return _to_all("map_to_homo_eid", ids, self.edge_map[canonical], self._edge_homo[:, number])

    def with_part(self, part_id: int) -> GraphPartitionBook:
        """Returns the book of a rank that has another part."""
        return GraphPartitionBook(part_id, self._num_parts, self.node_map, self.edge_map)


RangePartitionBook = GraphPartitionBook


def _checked_starts(kind: str, of: object, starts: Sequence[int], num_parts: int) -> list[int]:
    numbers = [int(n) for n in starts]
    if len(numbers) != num_parts + 1 or numbers[0] != 0 or numbers != sorted(numbers):
        raise SmexValueError(
            f"partition book: expected {num_parts + 1} ascending numbers from 0 for {kind}s of "
            f"type {named(of)}, found {numbers}"
        )
    return numbers


def _homogeneous(tables: list[list[int]], num_parts: int) -> Tensor:
    """Where the ids of each part and type begin among all: ``[num_parts, num_types]``."""
    sizes = [[t[part + 1] - t[part] for t in tables] for part in range(num_parts)]
    flat = torch.tensor(sizes, dtype=torch.int64).view(-1)
    return (flat.cumsum(0) - flat).view(num_parts, len(tables))


def _part_of(op: str, ids: Any, starts: list[int]) -> Tensor:
    given = as_id_tensor(op, "ids", ids, torch.int64, _CPU)
    check_range(given, starts[-1], op)
    return torch.searchsorted(torch.tensor(starts), given, right=True) - 1


def _per_type(op: str, ids: Any, begins: Tensor, tables: list[list[int]]) -> tuple[Tensor, Tensor]:
    given = as_id_tensor(op, "ids", ids, torch.int64, _CPU)
    check_range(given, sum(table[-1] for table in tables), op)
    slot = torch.searchsorted(begins.view(-1), given, right=True) - 1
    part, kind = slot // len(tables), slot % len(tables)
    starts = torch.tensor([table[:-1] for table in tables])
    return kind, given - begins.view(-1)[slot] + starts[kind, part]


def _to_all(op: str, ids: Any, starts: list[int], begins: Tensor) -> Tensor:
    part = _part_of(op, ids, starts)
    given = as_id_tensor(op, "ids", ids, torch.int64, _CPU)
    return given - torch.tensor(starts)[part] + begins[part]


class PartitionPolicy:
    """How the rows of a :class:`DistTensor` are divided: as the nodes or edges of a type are.

    Args:
        policy_str: ``"node~TYPE"`` or ``"edge~SOURCE:TYPE:DESTINATION"``.
        partition_book: of the graph.

    Raises:
        SmexValueError: there is no such type.

    Example:
        >>> import smex.graph.distributed as sgd
        >>> book = sgd.GraphPartitionBook(0, 2, {"_N": [0, 3, 5]}, {("_N", "_E", "_N"): [0, 4, 9]})
        >>> policy = sgd.NodePartitionPolicy(book)
        >>> policy.get_size(), policy.get_part_size()
        (5, 3)
    """

    def __init__(self, policy_str: str, partition_book: GraphPartitionBook):
        kind, _, name = policy_str.partition("~")
        if kind not in ("node", "edge"):
            raise SmexValueError(
                f"PartitionPolicy: expected 'node~TYPE' or 'edge~SOURCE:TYPE:DESTINATION', found "
                f"{policy_str!r}"
            )
        self._book = partition_book
        self._is_node = kind == "node"
        self.key: Any
        if self._is_node:
            self.key = partition_book._ntype(name or None)
        else:
            parts = tuple(name.split(":"))
            etype = parts if len(parts) == 3 else name or None
            self.key = partition_book.to_canonical_etype(etype)

    @property
    def starts(self) -> list[int]:
        """Where the rows of each part begin, and where the last one's end."""
        table: Any = self._book.node_map if self._is_node else self._book.edge_map
        return table[self.key]

    @property
    def type_name(self) -> str:
        """The type whose rows they are."""
        return self.key if self._is_node else ":".join(self.key)

    @property
    def policy_str(self) -> str:
        """What makes the policy again."""
        return f"{'node' if self._is_node else 'edge'}~{self.type_name}"

    @property
    def part_id(self) -> int:
        """The part of this rank."""
        return self._book.partid

    @property
    def partition_book(self) -> GraphPartitionBook:
        """The book."""
        return self._book

    @property
    def is_node(self) -> bool:
        """Whether rows are those of nodes."""
        return self._is_node

    def get_size(self) -> int:
        """Returns the number of rows."""
        return self.starts[-1]

    def get_part_size(self) -> int:
        """Returns the number of rows of this rank's part."""
        return self.starts[self.part_id + 1] - self.starts[self.part_id]

    def to_partid(self, ids: Any) -> Tensor:
        """Returns the part of each row."""
        return _part_of("to_partid", ids, self.starts)

    def to_local(self, ids: Any) -> Tensor:
        """Returns the place of each row among those of this rank's part."""
        return self._book._local("to_local", ids, self.starts, self.part_id)

    def get_data_name(self, name: str) -> str:
        """Returns a tensor's name together with the policy's."""
        return f"{self.policy_str}~{name}"


class NodePartitionPolicy(PartitionPolicy):
    """Rows are divided as the nodes of a type are; see :class:`PartitionPolicy`."""

    def __init__(self, partition_book: GraphPartitionBook, ntype: str = DEFAULT_NTYPE):
        super().__init__(f"node~{partition_book._ntype(ntype)}", partition_book)


class EdgePartitionPolicy(PartitionPolicy):
    """Rows are divided as the edges of a type are; see :class:`PartitionPolicy`."""

    def __init__(self, partition_book: GraphPartitionBook, etype: Any = DEFAULT_ETYPE):
        canonical = partition_book.to_canonical_etype(etype)
        super().__init__(f"edge~{':'.join(canonical)}", partition_book)

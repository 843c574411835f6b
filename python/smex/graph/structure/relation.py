"""The structure of one edge type: which source node is joined to which destination node.

A :class:`Relation` is immutable. It holds its edges as a list (``coo``) or compressed by source
(``csr``) or by destination (``csc``), makes the forms that it does not hold on demand, and keeps
them. Compressed forms carry the edge ids of their positions, so nothing that is stored per edge has
to be moved. Within a row edges stand in the order of their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexRuntimeError, SmexTypeError, SmexValueError
from smex.graph.structure.formats import (
    Compressed,
    Structure,
    has_parallel,
    induced_edges,
    kept_tensors,
    merge_parallel,
    relabel,
    take_rows,
)

__all__ = ["FORMATS", "Compressed", "Relation", "unique_and_relabel"]

FORMATS = ("coo", "csr", "csc")
"""The names of the sparse formats, in DGL's order."""


class Relation:
    """Edges from ``num_src`` source nodes to ``num_dst`` destination nodes; immutable.

    Args of the constructors are tensors of ``int32`` or ``int64``, all of one type and on one
    device; they are kept, not copied, and must not be changed afterwards.

    Example:
        >>> import torch
        >>> from smex.graph.structure.relation import Relation
        >>> r = Relation.from_coo(torch.tensor([0, 2, 0]), torch.tensor([1, 1, 0]), 3, 2)
        >>> r.csc().indptr
        tensor([0, 1, 3])
        >>> r.in_degrees()
        tensor([1, 2])
    """

    def __init__(
        self,
        structure: Structure,
        flipped: bool = False,
        allowed: tuple[str, ...] = FORMATS,
    ):
        self._structure = structure
        self._flipped = flipped
        self._allowed = allowed
        self.kept: dict[Hashable, Any] = {}
        """What layers derive from the edges and ask for in every call; it must not be changed."""

    def __getstate__(self) -> dict:
        """Without what is made again on demand at little cost."""
        return {**self.__dict__, "kept": {}}

    # ---- making one ----

    @staticmethod
    def from_coo(
        src: Tensor, dst: Tensor, num_src: int, num_dst: int, *, check: bool = True
    ) -> Relation:
        """Returns the relation with edge ``i`` from ``src[i]`` to ``dst[i]``.

        Args:
            src: ``[num_edges]`` ids in ``[0, num_src)``.
            dst: ``[num_edges]`` ids in ``[0, num_dst)``.
            num_src: number of source nodes.
            num_dst: number of destination nodes.
            check: False leaves out the check that the ids are in range.

        Raises:
            SmexTypeError: the ids are not int32 or int64, or not of one type.
            SmexValueError: shapes or devices differ, or an id is out of range.
        """
        _check_pair("from_coo", src, dst)
        if check:
            _check_ids("from_coo", "src", src, num_src)
            _check_ids("from_coo", "dst", dst, num_dst)
        coo = (src.contiguous(), dst.contiguous())
        return Relation(Structure((num_src, num_dst), coo))

    @staticmethod
    def from_csr(
        indptr: Tensor, indices: Tensor, eids: Tensor | None, num_src: int, num_dst: int
    ) -> Relation:
        """The relation whose source ``u`` points to ``indices[indptr[u]:indptr[u + 1]]``."""
        form = _checked("from_csr", indptr, indices, eids, num_src, num_dst)
        return Relation(Structure((num_src, num_dst), by_source=form))

    @staticmethod
    def from_csc(
        indptr: Tensor, indices: Tensor, eids: Tensor | None, num_src: int, num_dst: int
    ) -> Relation:
        """The relation whose destination ``v`` has sources ``indices[indptr[v]:indptr[v + 1]]``."""
        form = _checked("from_csc", indptr, indices, eids, num_dst, num_src)
        return Relation(Structure((num_src, num_dst), by_destination=form))

    @staticmethod
    def from_formats(
        forms: Mapping[str, Sequence[Tensor | None]], num_src: int, num_dst: int
    ) -> Relation:
        """Returns the relation that has some formats already, which must hold the same edges.

        Args:
            forms: for one or more of ``coo``, ``csr`` and ``csc`` what the method of this name
                returns.
            num_src: number of source nodes.
            num_dst: number of destination nodes.

        Raises:
            SmexTypeError: as for :meth:`from_coo`.
            SmexValueError: a format does not fit the numbers of nodes, or formats differ in their
                number of edges or the ids' type.
        """
        make = {"coo": Relation.from_coo, "csr": Relation.from_csr, "csc": Relation.from_csc}
        made = {name: make[name](*forms[name], num_src, num_dst) for name in forms}  # type: ignore
        found = {name: f"{r.num_edges} of {r.idtype}" for name, r in made.items()}
        if len(set(found.values())) != 1:
            raise SmexValueError(
                f"from_formats: expected formats of the same edges, found numbers of them: {found}"
            )
        coo, csr, csc = (made[n]._structure if n in made else None for n in FORMATS)
        return Relation(
            Structure(
                (num_src, num_dst),
                coo and coo.coo,
                csr and csr.by_source,
                csc and csc.by_destination,
            )
        )

    # ---- facts ----

    @property
    def num_src(self) -> int:
        """Number of source nodes."""
        return self._structure.sizes[1 if self._flipped else 0]

    @property
    def num_dst(self) -> int:
        """Number of destination nodes."""
        return self._structure.sizes[0 if self._flipped else 1]

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return self._structure.any_tensor().shape[0]

    @property
    def idtype(self) -> torch.dtype:
        """torch.int32 or torch.int64."""
        return self._structure.any_tensor().dtype

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self._structure.any_tensor().device

    def __repr__(self) -> str:
        """Returns one line of facts."""
        return (
            f"Relation({self.num_src} -> {self.num_dst}, num_edges={self.num_edges}, "
            f"idtype={self.idtype}, device={self.device}, created={self.created_formats()})"
        )

    # ---- formats ----

    def coo(self) -> tuple[Tensor, Tensor]:
        """(src, dst), each ``[num_edges]``, in the order of edge ids."""
        src, dst = self._structure.get_coo()
        return (dst, src) if self._flipped else (src, dst)

    def csr(self) -> Compressed:
        """Returns the edges by source."""
        if self._flipped:
            return self._structure.get_by_destination()
        return self._structure.get_by_source()

    def csc(self) -> Compressed:
        """Returns the edges by destination."""
        if self._flipped:
            return self._structure.get_by_source()
        return self._structure.get_by_destination()

    def in_edges(self) -> list[Tensor]:
        """:meth:`csc` as the ``smex::`` operators take it."""
        return self.csc().tensors()

    def out_edges(self) -> list[Tensor]:
        """:meth:`csr` as the ``smex::`` operators take it."""
        return self.csr().tensors()

    def reverse(self) -> Relation:
        """Every edge turned round. Shares all tensors, those made later too."""
        swap = {"coo": "coo", "csr": "csc", "csc": "csr"}
        allowed = tuple(f for f in FORMATS if swap[f] in self._allowed)
        return Relation(self._structure, not self._flipped, allowed)

    def allowed_formats(self) -> list[str]:
        """Returns the formats that may be made, of ``coo``, ``csr``, ``csc``."""
        return list(self._allowed)

    def created_formats(self) -> list[str]:
        """Returns the allowed formats that exist."""
        s = self._structure
        forms = [s.coo, s.by_source, s.by_destination]
        if self._flipped:
            forms = [s.coo, s.by_destination, s.by_source]
        return [n for n, form in zip(FORMATS, forms) if form is not None and n in self._allowed]

    def formats(self, formats: str | Sequence[str]) -> Relation:
        """Returns the relation restricted to some formats.

        The first is made where none of them exists.

        Raises:
            SmexValueError: a name is not ``coo``, ``csr`` or ``csc``, or there is none.
        """
        names = [formats] if isinstance(formats, str) else list(formats)
        unknown = [name for name in names if name not in FORMATS]
        if unknown or not names:
            raise SmexValueError(
                f"formats: expected names among 'coo', 'csr', 'csc', found {unknown or names}"
            )
        allowed = tuple(name for name in FORMATS if name in names)
        result = Relation(self._structure.map(lambda t: t), self._flipped, allowed)
        if not result.created_formats():
            result.make_format(allowed[0])
        result._drop_disallowed()
        return result

    def _drop_disallowed(self) -> None:
        s = self._structure
        by_source, by_destination = ("csc", "csr") if self._flipped else ("csr", "csc")
        if "coo" not in self._allowed:
            s.coo = None
        if by_source not in self._allowed:
            s.by_source = None
        if by_destination not in self._allowed:
            s.by_destination = None
        s.sorted = None

    def make_format(self, name: str) -> None:
        """Makes ``coo``, ``csr`` or ``csc`` if it does not exist."""
        getattr(self, name)()

    def create_formats_(self) -> None:
        """Makes every allowed format."""
        for name in self._allowed:
            self.make_format(name)

    # ---- moving ----

    def _mapped(self, change) -> Relation:
        return Relation(self._structure.map(change), self._flipped, self._allowed)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Relation:
        """Returns the relation with its existing formats on `device`; itself where it is there."""
        if torch.device(device) == self.device:
            return self
        return self._mapped(lambda t: t.to(device, non_blocking=non_blocking))

    def astype(self, dtype: torch.dtype) -> Relation:
        """Returns the relation with ids of `dtype`; itself where they are.

        Raises:
            SmexTypeError: `dtype` is not int32 or int64.
            SmexValueError: numbers of nodes or edges do not fit into int32.
        """
        if dtype == self.idtype:
            return self
        if dtype not in (torch.int32, torch.int64):
            raise SmexTypeError(f"astype: expected torch.int32 or torch.int64, found {dtype}")
        largest = max(self.num_src, self.num_dst, self.num_edges)
        if dtype == torch.int32 and largest > torch.iinfo(torch.int32).max:
            raise SmexValueError(
                f"astype: {largest} nodes or edges do not fit into int32; use torch.int64"
            )
        return self._mapped(lambda t: t.to(dtype))

    def pin_memory_(self) -> Relation:
        """Puts every existing format into page-locked memory; returns itself.

        Raises:
            SmexRuntimeError: it is not on the CPU, or there is no CUDA device.
        """
        if self.device.type != "cpu":
            raise SmexRuntimeError(
                f"pin_memory_: the graph must be on the CPU, found {self.device}; call cpu() first"
            )
        if not torch.cuda.is_available():
            raise SmexRuntimeError("pin_memory_: pinned memory needs a CUDA device, found none")
        self._structure = self._structure.map(lambda t: t.pin_memory())
        return self

    def unpin_memory_(self) -> Relation:
        """Puts pinned formats back into ordinary memory; returns itself."""
        if self.is_pinned():
            self._structure = self._structure.map(lambda t: t.clone())
        return self

    def is_pinned(self) -> bool:
        """Returns whether the formats are in page-locked memory."""
        return self.device.type == "cpu" and self._structure.any_tensor().is_pinned()

    # ---- degrees ----

    def in_degrees(self, v: Tensor | None = None, *, check: bool = True) -> Tensor:
        """In-degrees of the destinations `v`, or of all: ``[num_dst]``, in the ids' dtype."""
        s = self._structure
        form = s.by_source if self._flipped else s.by_destination
        return self._degrees("in_degrees", form, self.num_dst, 1, v, check)

    def out_degrees(self, u: Tensor | None = None, *, check: bool = True) -> Tensor:
        """Out-degrees of the sources `u`, or of all: ``[num_src]``, in the ids' dtype."""
        s = self._structure
        form = s.by_destination if self._flipped else s.by_source
        return self._degrees("out_degrees", form, self.num_src, 0, u, check)

    def _degrees(
        self,
        op: str,
        form: Compressed | None,
        size: int,
        end: int,
        nodes: Tensor | None,
        check: bool,
    ) -> Tensor:
        if nodes is not None:
            nodes = self._ids(op, "nodes", nodes, size, check)
        if form is not None and nodes is not None:
            return form.indptr[nodes + 1] - form.indptr[nodes]
        if form is not None:
            return form.indptr.diff()
        degrees = torch.ops.smex.count_ids(self.coo()[end], size)
        return degrees if nodes is None else degrees[nodes]

    def degree_power(self, end: str, power: float, dtype: torch.dtype) -> Tensor:
        """Returns the degrees of one end to a power; a degree of 0 counts as 1.

        Layers ask for it in every call, so it is kept: it must not be changed.

        Args:
            end: ``dst`` for in-degrees, ``src`` for out-degrees.
            power: the exponent.
            dtype: of the result; a type of 16 bits is rounded to last.

        Returns:
            ``[num_dst]`` or ``[num_src]``.
        """
        key = ("degree_power", end, power, dtype)
        found = self.kept.get(key)
        if found is not None and not torch.compiler.is_compiling():
            return found
        with kept_tensors(self._structure.any_tensor()):
            degrees = self.in_degrees() if end == "dst" else self.out_degrees()
            wide = torch.promote_types(dtype, torch.float32)
            found = (degrees.clamp(min=1).to(wide) ** power).to(dtype)
        # Those of a tracer stand for numbers only while it runs.
        if type(found) is Tensor and not torch.compiler.is_compiling():
            self.kept[key] = found
        return found

    def keep(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns what `make` derives from the edges, made once for a key and :attr:`kept`."""
        if key not in self.kept:
            with kept_tensors(self._structure.any_tensor()):
                self.kept[key] = make()
        return self.kept[key]

    # ---- queries ----
    #
    # With `check=False` the caller has made sure that ids are in range: reading all of them takes
    # longer than many a query, and on a device waits for it.

    def _ids(self, op: str, name: str, ids: Tensor, size: int, check: bool) -> Tensor:
        """`ids` in the type of the relation's, all in ``[0, size)``."""
        if check:
            _check_ids(op, name, ids, size)
        return ids.to(self.idtype)

    def _pairs(self, op: str, u: Tensor, v: Tensor, check: bool) -> tuple[Tensor, Tensor]:
        """Queries of one length, as the shared structure has them."""
        u = self._ids(op, "u", u, self.num_src, check)
        v = self._ids(op, "v", v, self.num_dst, check)
        if u.shape != v.shape and 1 not in (u.shape[0], v.shape[0]):
            raise SmexValueError(
                f"{op}: u and v must have one length, or one of them length 1, "
                f"found {u.shape[0]} and {v.shape[0]}"
            )
        u, v = (t.contiguous() for t in torch.broadcast_tensors(u, v))
        return (v, u) if self._flipped else (u, v)

    def find_edges(self, eids: Tensor, *, check: bool = True) -> tuple[Tensor, Tensor]:
        """(src, dst) of the edges `eids`.

        Raises:
            SmexValueError: an edge id is out of range.
        """
        eids = self._ids("find_edges", "eids", eids, self.num_edges, check)
        src, dst = self._structure.ends_of(eids)
        return (dst, src) if self._flipped else (src, dst)

    def sorted_csr(self) -> Compressed:
        """Returns the edges by source, destinations of a source ascending, then by edge id."""
        if not self._flipped:
            return self._structure.get_sorted()
        sizes = (self.num_src, self.num_dst)
        return Structure(sizes, self.coo(), by_destination=self.csc()).get_sorted()

    def has_edges(self, u: Tensor, v: Tensor, *, check: bool = True) -> Tensor:
        """Returns whether there is an edge from ``u[i]`` to ``v[i]``: bool ``[n]``.

        Sizes broadcast.

        Raises:
            SmexValueError: a node id is out of range, or the sizes do not broadcast.
        """
        return self._structure.first_edge(*self._pairs("has_edges", u, v, check)) >= 0

    def edge_ids(self, u: Tensor, v: Tensor, *, check: bool = True) -> Tensor:
        """Returns the first edge from ``u[i]`` to ``v[i]``, or -1: ``[n]``; sizes broadcast."""
        return self._structure.first_edge(*self._pairs("edge_ids", u, v, check))

    def edge_ids_all(
        self, u: Tensor, v: Tensor, *, check: bool = True
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(u, v, edge id) of every edge between ``u[i]`` and ``v[i]``, query by query."""
        rows, columns = self._pairs("edge_ids_all", u, v, check)
        form, first, count = self._structure.find_sorted(rows, columns)
        # The answers are rows of their own: query i has positions first[i] to first[i] + count[i].
        owner = torch.repeat_interleave(count.long())
        begin = torch.cumsum(count, 0) - count
        positions = torch.arange(owner.shape[0], device=owner.device) + (first - begin)[owner]
        rows, columns = rows[owner], columns[owner]
        eids = form.edge_ids()[positions]
        return (columns, rows, eids) if self._flipped else (rows, columns, eids)

    def is_multigraph(self) -> bool:
        """Returns whether two edges join the same nodes in the same direction."""
        return has_parallel(self._structure.get_sorted())

    def predecessors(self, v: int | Tensor) -> Tensor:
        """Sources of the edges into node `v`, one for each edge."""
        return self.in_edges_of(self._node(v))[0]

    def successors(self, u: int | Tensor) -> Tensor:
        """Destinations of the edges out of node `u`, one for each edge."""
        return self.out_edges_of(self._node(u))[1]

    def _node(self, node: int | Tensor) -> Tensor:
        return torch.as_tensor(node, dtype=self.idtype, device=self.device).reshape(1)

    def in_edges_of(self, v: Tensor, *, check: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """(src, dst, edge id) of the edges into the nodes `v`, node by node, then by edge id."""
        return take_rows(self.csc(), self._ids("in_edges", "v", v, self.num_dst, check))

    def out_edges_of(self, u: Tensor, *, check: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """(src, dst, edge id) of the edges out of the nodes `u`, node by node, then by edge id."""
        dst, src, eids = take_rows(self.csr(), self._ids("out_edges", "u", u, self.num_src, check))
        return src, dst, eids

    # ---- subgraphs ----

    def edge_subgraph(self, eids: Tensor, *, check: bool = True) -> Relation:
        """Returns the edges `eids`, renumbered in this order, between the same nodes."""
        src, dst = self.find_edges(eids, check=check)
        return Relation.from_coo(src, dst, self.num_src, self.num_dst, check=False)

    def in_subgraph(self, v: Tensor) -> tuple[Relation, Tensor]:
        """Returns the edges into `v` between the same nodes, and their ids here.

        Order: in_edges_of.
        """
        src, dst, eids = self.in_edges_of(v)
        return Relation.from_coo(src, dst, self.num_src, self.num_dst, check=False), eids

    def out_subgraph(self, u: Tensor) -> tuple[Relation, Tensor]:
        """Returns the edges out of `u` between the same nodes, and their ids here.

        Order: out_edges_of.
        """
        src, dst, eids = self.out_edges_of(u)
        return Relation.from_coo(src, dst, self.num_src, self.num_dst, check=False), eids

    def node_subgraph(
        self, src_nodes: Tensor, dst_nodes: Tensor, *, check: bool = True
    ) -> tuple[Relation, Tensor]:
        """Returns the edges between the given nodes, which are renumbered by their position.

        Edges stand in the order of their new source, then of their id. A destination that is given
        twice has its edges at its last position, a source that is given twice has them twice.

        Returns:
            The relation, and the edge ids here of its edges.
        """
        src_nodes = self._ids("node_subgraph", "src_nodes", src_nodes, self.num_src, check)
        dst_nodes = self._ids("node_subgraph", "dst_nodes", dst_nodes, self.num_dst, check)
        names = torch.full((self.num_dst,), -1, dtype=self.idtype, device=self.device)
        sizes = (src_nodes.shape[0], dst_nodes.shape[0])
        names[dst_nodes.long()] = torch.arange(sizes[1], dtype=self.idtype, device=self.device)
        src, dst, eids = induced_edges(self.csr(), src_nodes, names)
        return Relation.from_coo(src, dst, *sizes, check=False), eids

    def to_simple(self) -> tuple[Relation, Tensor, Tensor]:
        """Returns one edge for each joined pair of nodes, ordered by source, then destination.

        Returns:
            The relation, ``counts [its num_edges]`` of edges merged into each of its edges, and
            ``edge_map [num_edges]`` from an edge here to its edge there; both in the ids' dtype.
        """
        src, dst, counts, edge_map = merge_parallel(self.sorted_csr())
        simple = Relation.from_coo(src, dst, self.num_src, self.num_dst, check=False)
        return simple, counts, edge_map


def unique_and_relabel(
    ids: list[Tensor], preserve: Tensor | None = None, num_ids: int | None = None
) -> tuple[Tensor, list[Tensor]]:
    """The distinct ids in the order of their first appearance, and the lists renumbered by it.

    Args:
        ids: lists of ids, of one integer type and device, read one after another.
        preserve: ids that come first whether or not they appear; duplicates count once.
        num_ids: ids are below it; makes a table of all ids instead of a hash table possible.

    Raises:
        SmexValueError: there is no list.

    Returns:
        ``unique``, with ``unique[new[i][j]] == ids[i][j]`` for the second result ``new``.

    Example:
        >>> import torch
        >>> from smex.graph.structure.relation import unique_and_relabel
        >>> unique_and_relabel([torch.tensor([7, 3, 7]), torch.tensor([9, 3])])
        (tensor([7, 3, 9]), [tensor([0, 1, 0]), tensor([2, 1])])
    """
    if not ids:
        raise SmexValueError("unique_and_relabel: expected at least one list of ids, found none")
    unique, new = relabel(ids if preserve is None else [preserve, *ids], num_ids)
    return unique, new if preserve is None else new[1:]


# ---- checks ----


def _check_pair(op: str, src: Tensor, dst: Tensor) -> None:
    for name, ids in (("src", src), ("dst", dst)):
        if ids.dtype not in (torch.int32, torch.int64):
            raise SmexTypeError(
                f"{op}: {name} must be torch.int32 or torch.int64, found {ids.dtype}"
            )
    if src.dtype != dst.dtype:
        raise SmexTypeError(f"{op}: ids must have one dtype, found {src.dtype} and {dst.dtype}")
    if src.dim() != 1 or src.shape != dst.shape:
        raise SmexValueError(
            f"{op}: src and dst must be vectors of one length, found shapes "
            f"{list(src.shape)} and {list(dst.shape)}"
        )
    if src.device != dst.device:
        raise SmexValueError(
            f"{op}: ids must be on one device, found {src.device} and {dst.device}"
        )


def _checked(
    op: str, indptr: Tensor, indices: Tensor, eids: Tensor | None, rows: int, columns: int
) -> Compressed:
    _check_pair(op, indices, indices if eids is None else eids)
    if indptr.dtype != indices.dtype or indptr.shape != (rows + 1,):
        raise SmexValueError(
            f"{op}: indptr must be {indices.dtype} of shape [{rows + 1}], "
            f"found {indptr.dtype} of shape {list(indptr.shape)}"
        )
    _check_ids(op, "indices", indices, columns)
    _check_bounds(op, indptr, indices.shape[0])
    if eids is not None:
        _check_permutation(op, eids)
    return Compressed(
        indptr.contiguous(), indices.contiguous(), None if eids is None else eids.contiguous()
    )


def _check_bounds(op: str, indptr: Tensor, num_edges: int) -> None:
    if torch.compiler.is_compiling():
        return  # values are not known before the program runs
    fits = int(indptr[0]) == 0 and int(indptr[-1]) == num_edges and bool((indptr.diff() >= 0).all())
    if not fits:
        raise SmexValueError(
            f"{op}: indptr must ascend from 0 to the number of edges, {num_edges}, "
            f"found values from {int(indptr[0])} to {int(indptr[-1])}"
        )


def _check_permutation(op: str, eids: Tensor) -> None:
    _check_ids(op, "eids", eids, eids.shape[0])
    if torch.compiler.is_compiling():
        return
    if eids.shape[0] and int(torch.ops.smex.count_ids(eids, eids.shape[0]).max()) > 1:
        raise SmexValueError(
            f"{op}: eids must name every edge from 0 to {eids.shape[0] - 1} once, found one twice"
        )


def _check_ids(op: str, name: str, ids: Tensor, size: int) -> None:
    """Names the first id that is not in ``[0, size)``."""
    if ids.dtype not in (torch.int32, torch.int64):
        raise SmexTypeError(f"{op}: {name} must be torch.int32 or torch.int64, found {ids.dtype}")
    if torch.compiler.is_compiling() or ids.numel() == 0:
        return
    low, high = torch.aminmax(ids)
    if int(low) >= 0 and int(high) < size:
        return
    wrong = int(ids[(ids < 0) | (ids >= size)][0])
    raise SmexValueError(f"{op}: {name} has id {wrong}, expected ids in [0, {size})")

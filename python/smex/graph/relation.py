"""The structure of one edge type: which source node is joined to which destination node.

A :class:`Relation` is immutable. It holds its edges as a list (``coo``) or compressed by source
(``csr``) or by destination (``csc``), makes the forms that it does not hold on demand, and keeps
them. Compressed forms carry the edge ids of their positions, so nothing that is stored per edge has
to be moved. Within a row edges stand in the order of their ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexRuntimeError, SmexTypeError, SmexValueError

__all__ = ["FORMATS", "Compressed", "Relation", "unique_and_relabel"]

FORMATS = ("coo", "csr", "csc")
"""The names of the sparse formats, in DGL's order."""


class Compressed(NamedTuple):
    """Edges grouped by row: sources in a ``csr``, destinations in a ``csc``.

    Row ``r`` is joined to ``indices[indptr[r]:indptr[r + 1]]``; position ``p`` is edge ``eids[p]``,
    or edge ``p`` where ``eids`` is None.
    """

    indptr: Tensor  # [num_rows + 1]
    indices: Tensor  # [num_edges]
    eids: Tensor | None  # [num_edges]; None: the identity

    def edge_ids(self) -> Tensor:
        """Edge id of each position ``[num_edges]``."""
        if self.eids is not None:
            return self.eids
        return torch.arange(
            self.indices.shape[0], dtype=self.indices.dtype, device=self.indices.device
        )

    def tensors(self) -> list[Tensor]:
        """As ``smex::`` operators take it; two tensors where ids are the identity."""
        if self.eids is None:
            return [self.indptr, self.indices]
        return [self.indptr, self.indices, self.eids]


def _map(form: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """`change` applied to the tensors of a tuple of tensors and Nones."""
    if form is None:
        return None
    changed = [None if t is None else change(t) for t in form]
    return type(form)(*changed) if isinstance(form, Compressed) else tuple(changed)


def _compress(rows: Tensor, columns: Tensor, num_rows: int, num_columns: int) -> Compressed:
    """Groups an edge list by row, stably."""
    sorted_rows, order = torch.sort(rows, stable=True)
    bounds = torch.arange(num_rows + 1, dtype=rows.dtype, device=rows.device)
    indptr = torch.searchsorted(sorted_rows, bounds).to(rows.dtype)
    return Compressed(indptr, columns[order], order.to(rows.dtype))


def _rows(indptr: Tensor, num_edges: int) -> Tensor:
    """Row of each position ``[num_edges]``."""
    rows = torch.arange(indptr.shape[0] - 1, dtype=indptr.dtype, device=indptr.device)
    return torch.repeat_interleave(rows, indptr.diff(), output_size=num_edges)


def _ranges(starts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Positions ``starts[i] .. starts[i] + lengths[i]`` one after another, and each one's i."""
    owner = torch.repeat_interleave(lengths)
    first = torch.cumsum(lengths, 0) - lengths
    offset = torch.arange(owner.shape[0], device=starts.device) - first[owner]
    return (starts[owner] + offset).to(starts.dtype), owner


class _Structure:
    """Formats of one edge set, shared by a relation and its reverse; "0" source, "1" destination.

    A format is written once by a single assignment of a finished tuple: threads that race make it
    twice, and either result is right.
    """

    def __init__(self, sizes, coo=None, by_source=None, by_destination=None):
        self.sizes: tuple[int, int] = sizes
        self.coo: tuple[Tensor, Tensor] | None = coo
        self.by_source: Compressed | None = by_source
        self.by_destination: Compressed | None = by_destination
        self.sorted: Compressed | None = None  # by source, columns ascending

    def any_tensor(self) -> Tensor:
        """A tensor of `num_edges` elements."""
        if self.coo is not None:
            return self.coo[0]
        form = self.by_source if self.by_source is not None else self.by_destination
        assert form is not None
        return form.indices

    def get_coo(self) -> tuple[Tensor, Tensor]:
        if self.coo is None:
            by_source = self.by_source is not None
            form = self.by_source if by_source else self.by_destination
            assert form is not None
            rows = _rows(form.indptr, form.indices.shape[0])
            pair = (rows, form.indices)
            if form.eids is not None:
                position = torch.empty_like(form.eids)
                position[form.eids.long()] = torch.arange(
                    rows.shape[0], dtype=rows.dtype, device=rows.device
                )
                pair = (rows[position], form.indices[position])
            self.coo = pair if by_source else (pair[1], pair[0])
        return self.coo

    def get_by_source(self) -> Compressed:
        if self.by_source is None:
            src, dst = self.get_coo()
            self.by_source = _compress(src, dst, *self.sizes)
        return self.by_source

    def get_by_destination(self) -> Compressed:
        if self.by_destination is None:
            src, dst = self.get_coo()
            self.by_destination = _compress(dst, src, self.sizes[1], self.sizes[0])
        return self.by_destination

    def get_sorted(self) -> Compressed:
        """By source, the columns of a row ascending, parallel edges in the order of their ids."""
        if self.sorted is None:
            form = self.get_by_destination()
            columns = _rows(form.indptr, form.indices.shape[0])
            rows = _compress(form.indices, columns, *self.sizes)
            assert rows.eids is not None
            self.sorted = Compressed(rows.indptr, rows.indices, form.edge_ids()[rows.eids])
        return self.sorted

    def map(self, change) -> _Structure:
        """Every format that exists, changed."""
        forms = [_map(f, change) for f in (self.coo, self.by_source, self.by_destination)]
        result = _Structure(self.sizes, *forms)
        result.sorted = _map(self.sorted, change)
        return result


class Relation:
    """Edges from ``num_src`` source nodes to ``num_dst`` destination nodes; immutable.

    Args of the constructors are tensors of ``int32`` or ``int64``, all of one type and on one
    device; they are kept, not copied, and must not be changed afterwards.

    Example:
        >>> import torch
        >>> from smex.graph.relation import Relation
        >>> r = Relation.from_coo(torch.tensor([0, 2, 0]), torch.tensor([1, 1, 0]), 3, 2)
        >>> r.csc().indptr
        tensor([0, 1, 3])
        >>> r.in_degrees()
        tensor([1, 2])
    """

    def __init__(
        self,
        structure: _Structure,
        flipped: bool = False,
        allowed: tuple[str, ...] = FORMATS,
    ):
        self._structure = structure
        self._flipped = flipped
        self._allowed = allowed

    # ---- making one ----

    @staticmethod
    def from_coo(
        src: Tensor, dst: Tensor, num_src: int, num_dst: int, *, check: bool = True
    ) -> Relation:
        """The relation with edge ``i`` from ``src[i]`` to ``dst[i]``.

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
        return Relation(_Structure((num_src, num_dst), coo))

    @staticmethod
    def from_csr(
        indptr: Tensor, indices: Tensor, eids: Tensor | None, num_src: int, num_dst: int
    ) -> Relation:
        """The relation whose source ``u`` points to ``indices[indptr[u]:indptr[u + 1]]``."""
        form = _checked("from_csr", indptr, indices, eids, num_src, num_dst)
        return Relation(_Structure((num_src, num_dst), by_source=form))

    @staticmethod
    def from_csc(
        indptr: Tensor, indices: Tensor, eids: Tensor | None, num_src: int, num_dst: int
    ) -> Relation:
        """The relation whose destination ``v`` has sources ``indices[indptr[v]:indptr[v + 1]]``."""
        form = _checked("from_csc", indptr, indices, eids, num_dst, num_src)
        return Relation(_Structure((num_src, num_dst), by_destination=form))

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
        """One line of facts."""
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
        """The edges by source."""
        if self._flipped:
            return self._structure.get_by_destination()
        return self._structure.get_by_source()

    def csc(self) -> Compressed:
        """The edges by destination."""
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
        """The formats that may be made, of ``coo``, ``csr``, ``csc``."""
        return list(self._allowed)

    def created_formats(self) -> list[str]:
        """The allowed formats that exist."""
        s = self._structure
        forms = [s.coo, s.by_source, s.by_destination]
        if self._flipped:
            forms = [s.coo, s.by_destination, s.by_source]
        return [n for n, form in zip(FORMATS, forms) if form is not None and n in self._allowed]

    def formats(self, formats: str | list[str] | tuple[str, ...]) -> Relation:
        """The relation restricted to some formats; the first is made where none of them exists.

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
        """The relation with its existing formats on `device`; itself where it is there."""
        if torch.device(device) == self.device:
            return self
        return self._mapped(lambda t: t.to(device, non_blocking=non_blocking))

    def astype(self, dtype: torch.dtype) -> Relation:
        """The relation with ids of `dtype`; itself where they are.

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
        """Whether the formats are in page-locked memory."""
        return self.device.type == "cpu" and self._structure.any_tensor().is_pinned()

    # ---- degrees ----

    def in_degrees(self, v: Tensor | None = None) -> Tensor:
        """In-degrees of the destinations `v`, or of all: ``[num_dst]``, in the ids' dtype."""
        s = self._structure
        form = s.by_source if self._flipped else s.by_destination
        return self._degrees("in_degrees", form, self.num_dst, 1, v)

    def out_degrees(self, u: Tensor | None = None) -> Tensor:
        """Out-degrees of the sources `u`, or of all: ``[num_src]``, in the ids' dtype."""
        s = self._structure
        form = s.by_destination if self._flipped else s.by_source
        return self._degrees("out_degrees", form, self.num_src, 0, u)

    def _degrees(
        self, op: str, form: Compressed | None, size: int, end: int, nodes: Tensor | None
    ) -> Tensor:
        if nodes is not None:
            _check_ids(op, "nodes", nodes, size)
        if form is not None and nodes is not None:
            return form.indptr[nodes + 1] - form.indptr[nodes]
        if form is not None:
            return form.indptr.diff()
        ends = self.coo()[end]
        degrees = torch.zeros(size, dtype=ends.dtype, device=ends.device)
        degrees.scatter_add_(0, ends.long(), torch.ones_like(ends))
        return degrees if nodes is None else degrees[nodes]

    # ---- queries ----

    def find_edges(self, eids: Tensor) -> tuple[Tensor, Tensor]:
        """(src, dst) of the edges `eids`.

        Raises:
            SmexValueError: an edge id is out of range.
        """
        _check_ids("find_edges", "eids", eids, self.num_edges)
        src, dst = self.coo()
        return src[eids], dst[eids]

    def sorted_csr(self) -> Compressed:
        """The edges by source, destinations of a source ascending, then by edge id; cached."""
        if self._flipped:
            form = self.csc()
            columns = _rows(form.indptr, form.indices.shape[0])
            rows = _compress(form.indices, columns, self.num_src, self.num_dst)
            assert rows.eids is not None
            return Compressed(rows.indptr, rows.indices, form.edge_ids()[rows.eids])
        return self._structure.get_sorted()

    def _find(self, op: str, u: Tensor, v: Tensor) -> tuple[Compressed, Tensor, Tensor]:
        """The sorted form, and for each query the first position and the number of its edges."""
        _check_ids(op, "u", u, self.num_src)
        _check_ids(op, "v", v, self.num_dst)
        u, v = torch.broadcast_tensors(u, v)
        form = self.sorted_csr()
        keys = _rows(form.indptr, self.num_edges).long() * self.num_dst + form.indices
        wanted = u.long() * self.num_dst + v
        first = torch.searchsorted(keys, wanted)
        count = torch.searchsorted(keys, wanted, right=True) - first
        return form, first, count

    def has_edges(self, u: Tensor, v: Tensor) -> Tensor:
        """Whether there is an edge from ``u[i]`` to ``v[i]``: bool ``[n]``; sizes broadcast.

        Raises:
            SmexValueError: a node id is out of range.
        """
        return self._find("has_edges", u, v)[2] > 0

    def edge_ids(self, u: Tensor, v: Tensor) -> Tensor:
        """The first edge from ``u[i]`` to ``v[i]``, or -1: ``[n]``; sizes broadcast."""
        form, first, count = self._find("edge_ids", u, v)
        if self.num_edges == 0:
            return torch.full_like(first, -1, dtype=self.idtype)
        found = form.edge_ids()[first.clamp_max(self.num_edges - 1)]
        return torch.where(count > 0, found, torch.full_like(found, -1))

    def edge_ids_all(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(u, v, edge id) of every edge between ``u[i]`` and ``v[i]``, query by query."""
        form, first, count = self._find("edge_ids_all", u, v)
        u, v = torch.broadcast_tensors(u, v)
        positions, owner = _ranges(first, count)
        return u[owner], v[owner], form.edge_ids()[positions]

    def is_multigraph(self) -> bool:
        """Whether two edges join the same nodes in the same direction."""
        form = self.sorted_csr()
        rows = _rows(form.indptr, self.num_edges)
        same = (rows[1:] == rows[:-1]) & (form.indices[1:] == form.indices[:-1])
        return bool(same.any())

    def predecessors(self, v: int | Tensor) -> Tensor:
        """Sources of the edges into node `v`, one for each edge."""
        return self.in_edges_of(self._node(v))[0]

    def successors(self, u: int | Tensor) -> Tensor:
        """Destinations of the edges out of node `u`, one for each edge."""
        return self.out_edges_of(self._node(u))[1]

    def _node(self, node: int | Tensor) -> Tensor:
        return torch.as_tensor(node, dtype=self.idtype, device=self.device).reshape(1)

    def in_edges_of(self, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(src, dst, edge id) of the edges into the nodes `v`, node by node, then by edge id."""
        _check_ids("in_edges", "v", v, self.num_dst)
        src, dst, eids = _take_rows(self.csc(), v)
        return src, dst, eids

    def out_edges_of(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(src, dst, edge id) of the edges out of the nodes `u`, node by node, then by edge id."""
        _check_ids("out_edges", "u", u, self.num_src)
        dst, src, eids = _take_rows(self.csr(), u)
        return src, dst, eids

    # ---- subgraphs ----

    def edge_subgraph(self, eids: Tensor) -> Relation:
        """The edges `eids`, renumbered in this order, between the same nodes."""
        src, dst = self.find_edges(eids)
        return Relation.from_coo(src, dst, self.num_src, self.num_dst, check=False)

    def in_subgraph(self, v: Tensor) -> tuple[Relation, Tensor]:
        """The edges into `v` between the same nodes, and their ids here; order: in_edges_of."""
        src, dst, eids = self.in_edges_of(v)
        return Relation.from_coo(src, dst, self.num_src, self.num_dst, check=False), eids

    def out_subgraph(self, u: Tensor) -> tuple[Relation, Tensor]:
        """The edges out of `u` between the same nodes, and their ids here; order: out_edges_of."""
        src, dst, eids = self.out_edges_of(u)
        return Relation.from_coo(src, dst, self.num_src, self.num_dst, check=False), eids

    def node_subgraph(self, src_nodes: Tensor, dst_nodes: Tensor) -> tuple[Relation, Tensor]:
        """The edges between the given nodes, which are renumbered by their position.

        Edges stand in the order of their new source, then of their id.

        Returns:
            The relation, and the edge ids here of its edges.
        """
        _check_ids("node_subgraph", "dst_nodes", dst_nodes, self.num_dst)
        _, dst, eids = self.out_edges_of(src_nodes)
        degrees = self.out_degrees(src_nodes).long()
        new_src = torch.repeat_interleave(degrees).to(self.idtype)
        position = torch.full((self.num_dst,), -1, dtype=self.idtype, device=self.device)
        position[dst_nodes.long()] = torch.arange(
            dst_nodes.shape[0], dtype=self.idtype, device=self.device
        )
        new_dst = position[dst.long()]
        keep = new_dst >= 0
        sizes = (src_nodes.shape[0], dst_nodes.shape[0])
        relation = Relation.from_coo(new_src[keep], new_dst[keep], *sizes, check=False)
        return relation, eids[keep]

    def to_simple(self) -> tuple[Relation, Tensor, Tensor]:
        """One edge for each joined pair of nodes, ordered by source, then destination.

        Returns:
            The relation, ``counts [its num_edges]`` of edges merged into each of its edges, and
            ``edge_map [num_edges]`` from an edge here to its edge there; both in the ids' dtype.
        """
        form = self.sorted_csr()
        rows = _rows(form.indptr, self.num_edges)
        first = torch.ones(self.num_edges, dtype=torch.bool, device=self.device)
        first[1:] = (rows[1:] != rows[:-1]) | (form.indices[1:] != form.indices[:-1])
        group = (torch.cumsum(first, 0) - 1).to(self.idtype)
        edge_map = torch.empty_like(group)
        edge_map[form.edge_ids().long()] = group
        src, dst = rows[first], form.indices[first]
        counts = torch.bincount(group.long(), minlength=src.shape[0]).to(self.idtype)
        simple = Relation.from_coo(src, dst, self.num_src, self.num_dst, check=False)
        return simple, counts, edge_map


def _take_rows(form: Compressed, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(columns, rows, edge ids) of the edges in `rows`, one row after another."""
    starts = form.indptr[rows]
    positions, owner = _ranges(starts, form.indptr[rows + 1] - starts)
    eids = positions if form.eids is None else form.eids[positions]
    return form.indices[positions], rows[owner].to(form.indices.dtype), eids


def unique_and_relabel(
    ids: list[Tensor], preserve: Tensor | None = None
) -> tuple[Tensor, list[Tensor]]:
    """The distinct ids in the order of their first appearance, and the lists renumbered by it.

    Args:
        ids: lists of ids, of one integer type and device, read one after another.
        preserve: ids that come first whether or not they appear; duplicates count once.

    Returns:
        ``unique``, with ``unique[new[i][j]] == ids[i][j]`` for the second result ``new``.

    Example:
        >>> import torch
        >>> from smex.graph.relation import unique_and_relabel
        >>> unique_and_relabel([torch.tensor([7, 3, 7]), torch.tensor([9, 3])])
        (tensor([7, 3, 9]), [tensor([0, 1, 0]), tensor([2, 1])])
    """
    parts = ids if preserve is None else [preserve, *ids]
    joined = torch.cat(parts)
    values, inverse = torch.unique(joined, sorted=True, return_inverse=True)
    first = torch.full_like(values, joined.shape[0], dtype=torch.int64)
    steps = torch.arange(joined.shape[0], device=joined.device)
    first = first.scatter_reduce(0, inverse, steps, "amin")
    order = torch.argsort(first)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(order.shape[0], device=order.device)
    new = rank[inverse].to(joined.dtype).split([p.shape[0] for p in parts])
    return values[order], list(new if preserve is None else new[1:])


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
    return Compressed(
        indptr.contiguous(), indices.contiguous(), None if eids is None else eids.contiguous()
    )


def _check_ids(op: str, name: str, ids: Tensor, size: int) -> None:
    """Names the first id that is not in ``[0, size)``."""
    if ids.dtype not in (torch.int32, torch.int64):
        raise SmexTypeError(f"{op}: {name} must be torch.int32 or torch.int64, found {ids.dtype}")
    if ids.numel() == 0:
        return
    low, high = torch.aminmax(ids)
    if int(low) >= 0 and int(high) < size:
        return
    wrong = int(ids[(ids < 0) | (ids >= size)][0])
    raise SmexValueError(f"{op}: {name} has id {wrong}, expected ids in [0, {size})")

"""A graph that is written in parts, as all ranks see it."""

from __future__ import annotations

import hashlib
import itertools
import os
import pathlib
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from smex.errors import SmexKeyError, SmexTypeError, SmexValueError
from smex.graph.constants import ALL
from smex.graph.distributed.book import (
    EdgePartitionPolicy,
    GraphPartitionBook,
    NodePartitionPolicy,
    PartitionPolicy,
    rank_bounds,
)
from smex.graph.distributed.context import Context, context
from smex.graph.distributed.dist_tensor import DistTensor
from smex.graph.distributed.files import FileEntry, map_column
from smex.graph.distributed.partition import WrittenGraph, part_of_graph, read_graph
from smex.graph.distributed.rows import SharedRows
from smex.graph.features.column import Pending, Scheme
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph
from smex.graph.parts.subgraph import edge_subgraph
from smex.graph.sampling.neighbor import sample_neighbors
from smex.graph.words import CanonicalType, is_all, named, quoted

__all__ = ["DistGraph"]


class DistColumn(Pending):
    """A feature whose rows lie on several ranks: read when needed, and kept if it is fixed."""

    def may_be_kept(self) -> bool:
        """Returns whether what is read now serves later readers too: rows may be written."""
        source: Any = self.source
        return source.is_read_only


class DistGraph:
    """A graph that :func:`partition_graph` has written, for several ranks that work on it together.

    All ranks make it together, each maps the files. The edges of the whole graph lie there once for
    each machine, whose ranks share the pages that they use: any of them samples from anywhere
    without asking others. Features are :class:`DistTensor` objects whose rows are divided among the
    ranks: those of as many parts as ranks by their parts, otherwise evenly between the bounds of
    parts.

    Whatever a :class:`smex.graph.Graph` can be asked, this can too, for the whole graph
    (:attr:`graph`); samplers take it like one.

    Args:
        graph_name: its name, as it was given to :func:`partition_graph`.
        gpb: its book, which is compared with that of the files.
        part_config: the manifest (``OUT_PATH/GRAPH_NAME.json``), or its folder; by default what the
            environment variable ``DGL_CONF_PATH`` names, which DGL's launcher sets for programs
            that leave it out.
        verify: whether the files' sums are compared with the manifest's first. Ranks of a machine
            share the reading; False reads nothing ahead.

    Raises:
        SmexValueError: there is no manifest, it is another program's or of another graph, or ranks
            have different ones.
        SmexRuntimeError: a file is missing, or is not what was written. What one rank finds is
            raised on all.
        RankFailure: a rank does not come, or fails.

    Example:
        >>> import tempfile
        >>> import smex.graph as sg
        >>> folder = tempfile.mkdtemp()
        >>> small = sg.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> small.ndata["x"] = torch.arange(4.0)
        >>> sg.distributed.partition_graph(small, "ring", 2, folder, part_method="range")
        >>> g = sg.distributed.DistGraph("ring", part_config=f"{folder}/ring.json")
        >>> g.num_nodes(), g.ndata["x"][[3, 0]]
        (4, tensor([3., 0.]))
    """

    def __init__(
        self,
        graph_name: str,
        gpb: GraphPartitionBook | None = None,
        part_config: str | os.PathLike | None = None,
        *,
        verify: bool = True,
    ):
        if part_config is None:
            part_config = os.environ.get("DGL_CONF_PATH")
        if part_config is None:
            raise SmexValueError(
                "DistGraph: expected part_config, the manifest that partition_graph has written "
                "(OUT_PATH/GRAPH_NAME.json), found None, and no DGL_CONF_PATH in the environment; "
                "there are no servers that know it"
            )
        self._context = context()
        here: Context = self._context
        read: list[WrittenGraph] = []
        here.together(lambda: read.append(_read(here, graph_name, part_config, verify)))
        self._written: WrittenGraph = read.pop()
        _compare(here, self._written)
        self._book = self._written.book
        part = here.rank * self._book.num_partitions() // here.size
        self._book = self._book.with_part(part)
        if gpb is not None and gpb != self._book:
            raise SmexValueError(
                f"DistGraph: expected a book of {self._written.manifest}, found that of another "
                "graph; leave gpb out"
            )
        self.graph_name = graph_name
        self._policies: dict[Any, PartitionPolicy] = {
            **{t: NodePartitionPolicy(self._book, t) for t in self._book.ntypes},
            **{c: EdgePartitionPolicy(self._book, c) for c in self._book.canonical_etypes},
        }
        for policy in self._policies.values():
            here.policies[f"{graph_name}/{policy.policy_str}"] = policy
        self._tensors: dict[Any, dict[str, DistTensor]] = {
            key: {n: self._mapped(key, n, e) for n, e in self._written.columns[key].items()}
            for key in self._policies
        }
        here.barrier()  # all serve their rows
        self._graph = self._whole()
        self._local: Graph | None = None
        self._out_degrees: dict[CanonicalType, Tensor] = {}

    # ---- making it ----

    def _mapped(self, key: Any, name: str, entries: list[FileEntry]) -> DistTensor:
        """The tensor of a feature: each piece of a file that has rows of one rank is a piece."""
        here, policy = self._context, self._policies[key]
        bounds = rank_bounds(policy.starts, here.size)
        cuts = sorted(set(policy.starts) | set(bounds))
        files: dict[int, Tensor] = {}
        pieces, owners = [], []
        for begin, end in itertools.pairwise(cuts):
            part = _last_at_most(policy.starts, begin)
            owner = _last_at_most(bounds, begin)
            if here.shares_memory(owner):
                if part not in files:
                    files[part] = map_column(self._written.folder, entries[part])
                first = policy.starts[part]
                pieces.append(files[part][begin - first : end - first])
            else:
                pieces.append(_no_rows(entries[part]))
            owners.append(owner)
        if not pieces:  # of no rows at all
            cuts, pieces, owners = [0, 0], [_no_rows(entries[0])], [0]
        rows = SharedRows(here, next(here.numbers), cuts, pieces, owners, read_only=True)
        here.serve(rows.number, bounds[here.rank], rows.own())
        return DistTensor.of_rows(rows, policy, name, (cuts[-1], *pieces[0].shape[1:]))

    def _whole(self) -> Graph:
        book = self._book
        nodes = {t: book._num_nodes(t) for t in book.ntypes}
        frames = {
            key: Frame(policy.get_size(), {
                name: _column(tensor) for name, tensor in self._tensors[key].items()
            })
            for key, policy in self._policies.items()
        }  # fmt: skip
        return Graph(
            self._written.relations(),
            nodes,
            src_frames={t: frames[t] for t in book.ntypes},
            edge_frames={c: frames[c] for c in book.canonical_etypes},
            idtype=self._written.idtype,
        )

    # ---- facts ----

    def __getattr__(self, name: str) -> Any:
        if name in ("_graph", "_context"):
            raise AttributeError(name)
        return getattr(self._graph, name)

    def __repr__(self) -> str:
        nodes = {t: self.num_nodes(t) for t in self.ntypes}
        edges = {c: self.num_edges(c) for c in self.canonical_etypes}
        return (
            f"DistGraph({self.graph_name!r}, rank {self._context.rank} of {self._context.size}, "
            f"num_nodes={nodes}, num_edges={edges})"
        )

    @property
    def graph(self) -> Graph:
        """The whole graph, whose edges are mapped and whose features are read as they are used."""
        return self._graph

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    @property
    def idtype(self) -> torch.dtype:
        """Type of the ids of nodes and edges."""
        return self._written.idtype

    def is_pinned(self) -> bool:
        """Returns False."""
        return False

    @property
    def ntypes(self) -> list[str]:
        """The node types."""
        return self._book.ntypes

    @property
    def etypes(self) -> list[str]:
        """The edge types."""
        return self._book.etypes

    @property
    def canonical_etypes(self) -> list[CanonicalType]:
        """The edge types with those of their ends."""
        return self._book.canonical_etypes

    def to_canonical_etype(self, etype: Any) -> CanonicalType:
        """Returns an edge type with those of its ends."""
        return self._graph.to_canonical_etype(etype)

    def get_ntype_id(self, ntype: str | None) -> int:
        """Returns the number of a node type."""
        return self.ntypes.index(self._book._ntype(ntype))

    def get_etype_id(self, etype: Any) -> int:
        """Returns the number of an edge type."""
        return self.canonical_etypes.index(self.to_canonical_etype(etype))

    def num_nodes(self, ntype: str | None = None) -> int:
        """Returns the number of nodes of a type, or of all types, on all ranks."""
        if ntype is None:
            return sum(starts[-1] for starts in self._book.node_map.values())
        return self._book._num_nodes(ntype)

    def num_edges(self, etype: Any = None) -> int:
        """Returns the number of edges of a type, or of all types, on all ranks."""
        if etype is None:
            return sum(starts[-1] for starts in self._book.edge_map.values())
        return self._book._num_edges(self.to_canonical_etype(etype))

    number_of_nodes = num_nodes
    number_of_edges = num_edges

    def rank(self) -> int:
        """Returns the number of this rank."""
        return self._context.rank

    @property
    def _client(self) -> Context:
        """What programs for DGL call ``barrier()`` of."""
        return self._context

    def barrier(self) -> None:
        """Waits until all ranks have come here; what they have written is seen by all then.

        Raises:
            RankFailure: one has failed.
        """
        self._context.barrier()

    def get_partition_book(self) -> GraphPartitionBook:
        """Returns the book; its :attr:`GraphPartitionBook.partid` is that of this rank."""
        return self._book

    def get_node_partition_policy(self, ntype: str | None = None) -> PartitionPolicy:
        """Returns how rows of nodes are divided."""
        return self._policies[self._book._ntype(ntype)]

    def get_edge_partition_policy(self, etype: Any = None) -> PartitionPolicy:
        """Returns how rows of edges are divided."""
        return self._policies[self.to_canonical_etype(etype)]

    @property
    def local_partition(self) -> Graph:
        """The part of this rank, as of :func:`load_partition`; made when it is asked for."""
        if self._local is None:
            self._local = part_of_graph(self._written, self._graph._relations, self._book.partid)
        return self._local

    # ---- features ----

    @property
    def ndata(self) -> DistData:
        """The features of nodes, where there is one type."""
        return DistData(self, self._only(self.ntypes, "node"))

    @property
    def edata(self) -> DistData:
        """The features of edges, where there is one type."""
        return DistData(self, self._only(self.canonical_etypes, "edge"))

    def _only(self, types: list[Any], kind: str) -> Any:
        if len(types) != 1:
            raise SmexTypeError(
                f"DistGraph: expected one {kind} type, found {quoted(types)}; use "
                f"g.{kind}s[type].data"
            )
        return types[0]

    @property
    def nodes(self) -> DistTypes:
        """By node type what :attr:`ndata` is of the only one: ``g.nodes["user"].data``."""
        return DistTypes(self, self._book._ntype)

    @property
    def edges(self) -> DistTypes:
        """By edge type what :attr:`edata` is of the only one."""
        return DistTypes(self, self.to_canonical_etype)

    def node_attr_schemes(self, ntype: str | None = None) -> dict[str, Scheme]:
        """Returns the shape of a row and dtype of each feature of nodes."""
        return self._schemes(self._book._ntype(ntype))

    def edge_attr_schemes(self, etype: Any = None) -> dict[str, Scheme]:
        """Returns the shape of a row and dtype of each feature of edges."""
        return self._schemes(self.to_canonical_etype(etype))

    def _schemes(self, key: Any) -> dict[str, Scheme]:
        return {n: Scheme(tuple(t.shape[1:]), t.dtype) for n, t in self._tensors[key].items()}

    def _frame(self, key: Any) -> Frame:
        return (
            self._graph._src_frames[key] if isinstance(key, str) else self._graph._edge_frames[key]
        )

    def set_feature(self, key: Any, name: str, tensor: DistTensor) -> None:
        """Sets a feature of a node type or a canonical edge type."""
        rows = self._policies[key].get_size()
        if not isinstance(tensor, DistTensor) or tensor.shape[0] != rows:
            found = list(tensor.shape) if isinstance(tensor, (DistTensor, Tensor)) else ""
            raise SmexTypeError(
                f"DistGraph: expected a DistTensor of {rows} rows as feature {named(name)}, found "
                f"{type(tensor).__name__} {found}"
            )
        self._tensors[key][name] = tensor
        self._frame(key)._columns[name] = _column(tensor)

    def drop_feature(self, key: Any, name: str) -> None:
        """Removes a feature."""
        del self._tensors[key][name]
        self._frame(key)._columns.pop(name, None)

    # ---- edges ----

    def in_degrees(self, v: Any = ALL, etype: Any = None) -> Tensor:
        """Returns the in-degrees of some nodes, or of all."""
        return self._graph.in_degrees(v, etype)

    def out_degrees(self, u: Any = ALL, etype: Any = None) -> Tensor:
        """Returns the out-degrees of some nodes, or of all; reads all edges the first time."""
        canonical = self.to_canonical_etype(etype)
        if canonical not in self._out_degrees:
            sources = self._graph._relations[canonical].csc().indices
            size = self._book._num_nodes(canonical[0])
            self._out_degrees[canonical] = torch.ops.smex.count_ids(sources, size)
        degrees = self._out_degrees[canonical]
        if is_all(u):
            return degrees
        slot = self._graph._node_slot(canonical[0])
        return degrees[self._graph._node_ids(u, slot, "out_degrees").long()]

    def find_edges(self, edges: Any, etype: Any = None) -> tuple[Tensor, Tensor]:
        """Returns the sources and destinations of some edges."""
        return self._graph.find_edges(edges, etype=etype)

    def edge_subgraph(
        self, edges: Any, relabel_nodes: bool = True, store_ids: bool = True
    ) -> Graph:
        """Returns the graph of some edges, as :func:`smex.graph.edge_subgraph`."""
        return edge_subgraph(self._graph, edges, relabel_nodes=relabel_nodes, store_ids=store_ids)

    def sample_neighbors(
        self,
        seed_nodes: Any,
        fanout: Any,
        edge_dir: str = "in",
        prob: str | None = None,
        exclude_edges: Any = None,
        replace: bool = False,
        etype_sorted: bool = True,
        output_device: torch.device | str | None = None,
    ) -> Graph:
        """Returns the graph of edges drawn for some nodes; see :func:`sample_neighbors`."""
        return drawn(
            self._graph, seed_nodes, fanout, edge_dir, prob, exclude_edges, replace, output_device
        )


def drawn(
    graph: Graph,
    nodes: Any,
    fanout: Any,
    edge_dir: str,
    prob: str | None,
    exclude_edges: Any,
    replace: bool,
    output_device: torch.device | str | None,
) -> Graph:
    """Returns the graph of edges drawn from a whole one, without features."""
    return sample_neighbors(
        graph,
        nodes,
        fanout,
        edge_dir,
        prob,
        replace,
        copy_ndata=False,
        copy_edata=False,
        exclude_edges=exclude_edges,
        output_device=output_device,
    )


class DistData(MutableMapping):
    """The features of one type by name: :class:`DistTensor` objects."""

    def __init__(self, graph: DistGraph, key: Any):
        self._graph = graph
        self._key = key

    @property
    def _columns(self) -> dict[str, DistTensor]:
        return self._graph._tensors[self._key]

    def __getitem__(self, name: str) -> DistTensor:
        if name not in self._columns:
            raise SmexKeyError(
                f"DistGraph: expected a feature of {self._key!r}, found {named(name)}; there are "
                f"{quoted(self._columns)}"
            )
        return self._columns[name]

    def __setitem__(self, name: str, tensor: DistTensor) -> None:
        self._graph.set_feature(self._key, name, tensor)

    def __delitem__(self, name: str) -> None:
        self[name]
        self._graph.drop_feature(self._key, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return repr(self._columns)


class DistTypes:
    """Features by type: ``g.nodes["user"].data["x"]``."""

    class Space(NamedTuple):
        """What there is of one type."""

        data: DistData

    def __init__(self, graph: DistGraph, key_of: Any):
        self._graph = graph
        self._key_of = key_of

    def __getitem__(self, key: Any) -> Space:
        return DistTypes.Space(DistData(self._graph, self._key_of(key)))


def _column(tensor: DistTensor) -> DistColumn:
    source: Any = tensor
    return DistColumn(source)


def _no_rows(entry: FileEntry) -> Tensor:
    dtype: torch.dtype = getattr(torch, entry.dtype)
    return torch.empty((0, *entry.shape[1:]), dtype=dtype)


def _last_at_most(starts: list[int], row: int) -> int:
    """The last place that begins at or before a row."""
    return max(n for n, start in enumerate(starts[:-1]) if start <= row)


def _read(here: Context, name: str, part_config: str | os.PathLike, verify: bool) -> WrittenGraph:
    """Returns what the manifest tells, whose files are there and are what was written."""
    path = pathlib.Path(part_config)
    if path.is_dir():
        path = path / f"{name}.json"
    graph = read_graph(path, "DistGraph")
    if graph.name != name:
        raise SmexValueError(
            f"DistGraph: expected a graph named {name!r} in {path}, found {graph.name!r}"
        )
    near = [rank for rank in range(here.size) if here.shares_memory(rank)]
    shares = len(near) if verify else 0
    graph.verify(near.index(here.rank) if verify else -1, max(shares, 1))
    return graph


def _compare(here: Context, graph: WrittenGraph) -> None:
    """Raise, on all ranks, where they read different manifests."""
    told: Mapping[int, Any] = dict(
        enumerate(here.gather(hashlib.sha256(graph.manifest.read_bytes()).hexdigest()))
    )
    for rank, digest in told.items():
        if digest != told[0]:
            raise SmexValueError(
                f"DistGraph: expected one manifest on all ranks, found another {graph.manifest} on "
                f"rank {rank} than on rank 0; copy one folder to all machines"
            )

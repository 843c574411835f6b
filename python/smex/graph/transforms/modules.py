"""Changes of graphs as objects, to be composed and given to data sets.

A module is called with a graph and returns another; its argument stays as it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.creation.convert import heterograph
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph
from smex.graph.parts.derived import khop_graph, line_graph
from smex.graph.parts.selection import check_one_type, reject_block
from smex.graph.structure.relation import Relation
from smex.graph.transforms.edits import (
    add_edges,
    add_self_loop,
    remove_edges,
    remove_nodes,
    remove_self_loop,
    to_simple,
)
from smex.graph.transforms.paths import metapath_reachable_graph
from smex.graph.udf import is_replaced
from smex.graph.words import CanonicalType, EdgeType

__all__ = [
    "AddEdge",
    "AddMetaPaths",
    "AddReverse",
    "AddSelfLoop",
    "BaseTransform",
    "Compose",
    "DropEdge",
    "DropNode",
    "KHopGraph",
    "LineGraph",
    "NodeShuffle",
    "RemoveSelfLoop",
    "ToLevi",
    "ToSimple",
]


class BaseTransform(ABC):
    """A change of a graph; a subclass has ``__call__``."""

    @abstractmethod
    def __call__(self, g: Graph) -> Any:
        """Returns the changed graph."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Compose(BaseTransform):
    """Several changes, one after another.

    Args:
        transforms: functions of a graph that return a graph.

    Raises:
        SmexTypeError: they are no list, or one of them cannot be called.

    Example:
        >>> t = sg.Compose([sg.AddSelfLoop(), sg.AddReverse()])
        >>> t(sg.graph(([0], [1]))).num_edges()
        6
    """

    def __init__(self, transforms: Iterable[Callable[[Graph], Any]]):
        if not isinstance(transforms, Iterable):
            raise SmexTypeError(
                f"Compose: expected a list of transforms, found {transforms!r}; pass [...]"
            )
        self.transforms = list(transforms)
        for place, transform in enumerate(self.transforms):
            if not callable(transform):
                raise SmexTypeError(
                    "Compose: expected functions of a graph that return a graph, found "
                    f"{transform!r} at place {place}"
                )

    def __call__(self, g: Graph) -> Any:
        """Returns the graph after all changes."""
        for transform in self.transforms:
            g = transform(g)
        return g

    def __repr__(self) -> str:
        inside = ",\n".join(f"  {transform!r}" for transform in self.transforms)
        return f"{type(self).__name__}([\n{inside}\n])"


# ---- edges that follow from others ----


class AddSelfLoop(BaseTransform):
    """Adds a self loop to each node, for each edge type whose two node types are the same.

    Batches are kept.

    Args:
        allow_duplicate: whether self loops that exist stay beside the new ones.
        new_etypes: give each node type an edge type ``self`` with its self loops as well.
        edge_feat_names: see :func:`smex.graph.add_self_loop`; features that an edge type does not
            have are left out there.
        fill_data: likewise.

    Example:
        >>> sg.AddSelfLoop()(sg.graph(([0, 1], [1, 1]))).edges()
        (tensor([0, 0, 1]), tensor([1, 0, 1]))
    """

    def __init__(
        self,
        allow_duplicate: bool = False,
        new_etypes: bool = False,
        edge_feat_names: Sequence[str] | None = None,
        fill_data: float | str = 1.0,
    ):
        self.allow_duplicate = allow_duplicate
        self.new_etypes = new_etypes
        self.edge_feat_names = edge_feat_names
        self.fill_data = fill_data

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph with self loops."""
        for canonical in _types_within(g):
            g = self.transform_etype(canonical, g)
        if not self.new_etypes:
            return g
        loops = {(t, "self", t): _loops(g, t) for t in g.ntypes}
        return with_relations(g, {t: r for t, r in loops.items() if t not in g._relations})

    def transform_etype(self, c_etype: CanonicalType, g: Graph) -> Graph:
        """Returns the graph with self loops of an edge type, whose ends are of one type."""
        if not self.allow_duplicate:
            g = remove_self_loop(g, c_etype)
        names = self.edge_feat_names
        if names is not None:
            names = [name for name in names if name in g.edges[c_etype].data]
        return add_self_loop(g, names, self.fill_data, c_etype)


class RemoveSelfLoop(BaseTransform):
    """Removes self loops, for each edge type whose two node types are the same.

    Example:
        >>> sg.RemoveSelfLoop()(sg.graph(([0, 1], [1, 1]))).edges()
        (tensor([0]), tensor([1]))
    """

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph without self loops."""
        for canonical in _types_within(g):
            g = self.transform_etype(canonical, g)
        return g

    def transform_etype(self, c_etype: CanonicalType, g: Graph) -> Graph:
        """Returns the graph without self loops of an edge type, whose ends are of one type."""
        return remove_self_loop(g, c_etype)


class AddReverse(BaseTransform):
    """Adds a reverse edge for each edge, self loops too.

    Between nodes of one type it is of the same edge type; otherwise of the new type
    ``(destination, "rev_...", source)``. Batches are kept.

    Args:
        copy_edata: whether reverse edges have the features of those that they reverse; otherwise
            zeros, or none if their type is new.
        sym_new_etype: whether reverse edges between nodes of one type get a new edge type too.

    Example:
        >>> sg.AddReverse()(sg.graph(([0], [1]))).edges()
        (tensor([0, 1]), tensor([1, 0]))
    """

    def __init__(self, copy_edata: bool = False, sym_new_etype: bool = False):
        self.copy_edata = copy_edata
        self.sym_new_etype = sym_new_etype

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph with reverse edges."""
        reject_block("AddReverse", g)
        if any(
            is_replaced(getattr(self, name), getattr(AddReverse, name))
            for name in ("transform_etype", *_STEPS)
        ):
            return self._step_by_step(g)
        relations: dict[CanonicalType, Relation] = {}
        frames: dict[CanonicalType, Frame] = {}
        for (source, etype, destination), relation in dict(g._relations).items():
            frame = g._edge_frames[source, etype, destination]
            if source == destination and not self.sym_new_etype:
                src, dst = relation.coo()
                data = dict(frame.items()) if self.copy_edata else None
                g = add_edges(g, dst, src, data, (source, etype, destination))._batched_as(g)
                continue
            key = (destination, f"rev_{etype}", source)
            relations[key] = relation.reverse()
            if self.copy_edata:
                frames[key] = frame.clone()
        return with_relations(g, relations, frames) if relations else g

    def transform_etype(self, c_etype: CanonicalType, g: Graph, data_dict: dict[Any, Any]) -> None:
        """Adds to a dict of edges by type those of a type and their reverse ones.

        It is called, as are the two below, where a subclass has one of the three.
        """
        step = _STEPS[c_etype[0] != c_etype[2]]
        getattr(self, step)(c_etype, g, data_dict)

    def transform_symmetric_etype(
        self, c_etype: CanonicalType, g: Graph, data_dict: dict[Any, Any]
    ) -> None:
        """As :meth:`transform_etype`, of a type between nodes of one type."""
        if self.sym_new_etype:
            self.transform_asymmetric_etype(c_etype, g, data_dict)
            return
        src, dst = g.edges(etype=c_etype)
        data_dict[c_etype] = torch.cat([src, dst]), torch.cat([dst, src])

    def transform_asymmetric_etype(
        self, c_etype: CanonicalType, g: Graph, data_dict: dict[Any, Any]
    ) -> None:
        """As :meth:`transform_etype`, of a type between nodes of two types."""
        (source, etype, destination), (src, dst) = c_etype, g.edges(etype=c_etype)
        data_dict[c_etype] = src, dst
        data_dict[destination, f"rev_{etype}", source] = dst, src

    def _step_by_step(self, g: Graph) -> Graph:
        edges: dict[Any, Any] = {}
        for c_etype in g.canonical_etypes:
            self.transform_etype(c_etype, g, edges)
        result = heterograph(edges, {ntype: g.num_nodes(ntype) for ntype in g.ntypes}, g.idtype)
        for ntype in g.ntypes:
            result.nodes[ntype].data.update(g.nodes[ntype].data)
        for source, etype, destination in g.canonical_etypes:
            rows = result.edges[source, etype, destination].data
            is_new = source != destination or self.sym_new_etype
            for name, feat in g.edges[source, etype, destination].data.items():
                again = feat if self.copy_edata else torch.zeros_like(feat)
                rows[name] = feat if is_new else torch.cat([feat, again])
                if is_new and self.copy_edata:
                    result.edges[destination, f"rev_{etype}", source].data[name] = feat
        return result._batched_as(g)


_STEPS = ("transform_symmetric_etype", "transform_asymmetric_etype")
"""Of :class:`AddReverse`, for types between nodes of one type and of two."""


class ToSimple(BaseTransform):
    """Puts one edge in the place of parallel ones, see :func:`smex.graph.to_simple`.

    Args:
        return_counts: see there.
        aggregator: see there.

    Example:
        >>> sg.ToSimple()(sg.graph(([0, 0], [1, 1]))).edata["count"]
        tensor([2])
    """

    def __init__(self, return_counts: str = "count", aggregator: str = "arbitrary"):
        self.return_counts = return_counts
        self.aggregator = aggregator

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph without parallel edges."""
        return to_simple(g, self.return_counts, copy_edata=True, aggregator=self.aggregator)


class LineGraph(BaseTransform):
    """The graph of the edges, with their features, see :func:`smex.graph.line_graph`.

    Args:
        backtracking: see there.

    Example:
        >>> sg.LineGraph()(sg.graph(([0, 1], [1, 2]))).edges()
        (tensor([0]), tensor([1]))
    """

    def __init__(self, backtracking: bool = True):
        self.backtracking = backtracking

    def __call__(self, g: Graph) -> Graph:
        """Returns the line graph."""
        return line_graph(g, self.backtracking, shared=True)


class KHopGraph(BaseTransform):
    """The graph with an edge for each walk of `k` edges, see :func:`smex.graph.khop_graph`.

    Args:
        k: length of the walks.

    Example:
        >>> sg.KHopGraph(2)(sg.graph(([0, 1], [1, 2]))).edges()
        (tensor([0]), tensor([2]))
    """

    def __init__(self, k: int):
        self.k = k

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph of the walks."""
        return khop_graph(g, self.k)


class AddMetaPaths(BaseTransform):
    """Adds an edge type for each metapath, see :func:`smex.graph.metapath_reachable_graph`.

    Args:
        metapaths: {name of the new edge type: edge types, one after another}.
        keep_orig_edges: whether the edges that were there stay.

    Raises:
        SmexValueError: when called, a metapath's types do not follow one another.

    Example:
        >>> g = sg.heterograph({("a", "x", "b"): ([0], [0]), ("b", "y", "c"): ([0], [1])})
        >>> sg.AddMetaPaths({"xy": ["x", "y"]})(g).edges(etype="xy")
        (tensor([0]), tensor([1]))
    """

    def __init__(self, metapaths: Mapping[str, Sequence[EdgeType]], keep_orig_edges: bool = True):
        self.metapaths = metapaths
        self.keep_orig_edges = keep_orig_edges

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph with the new types."""
        relations = {}
        for name, metapath in self.metapaths.items():
            ((source, _, destination), relation), *_ = metapath_reachable_graph(
                g, metapath
            )._relations.items()
            relations[source, name, destination] = relation
        return with_relations(g, relations, keep=self.keep_orig_edges)


class ToLevi(BaseTransform):
    """The Levi graph: nodes and edges become nodes, ``u -> edge -> v`` for each edge.

    Node types ``node`` and ``edge`` have the features of nodes and edges; edge types are ``n2e``
    and ``e2n``.

    Raises:
        SmexTypeError: when called with a graph of several types.

    Example:
        >>> sg.ToLevi()(sg.graph(([0, 1], [1, 2]))).edges(etype="e2n")
        (tensor([0, 1]), tensor([1, 2]))
    """

    def __call__(self, g: Graph) -> Graph:
        """Returns the Levi graph."""
        check_one_type("ToLevi", g)
        src, dst = g.edges()
        number, edges = g.num_nodes(), g.num_edges()
        ids = torch.arange(edges, dtype=g.idtype, device=g.device)
        frames = {
            "edge": next(iter(g._edge_frames.values())).clone(),
            "node": next(iter(g._src_frames.values())).clone(),
        }
        return Graph(
            {
                ("edge", "e2n", "node"): Relation.from_coo(ids, dst, edges, number, check=False),
                ("node", "n2e", "edge"): Relation.from_coo(src, ids, number, edges, check=False),
            },
            {"edge": edges, "node": number},
            src_frames=frames,
        )


# ---- at random ----


class NodeShuffle(BaseTransform):
    """Gives the features of each node to another one, drawn; those of one node stay together.

    Example:
        >>> sg.NodeShuffle()(sg.graph(([0], [1]))).num_edges()
        1
    """

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph with other features."""
        result = g.clone()
        for ntype in g.ntypes:
            order = torch.randperm(g.num_nodes(ntype), device=g.device)
            for name, rows in g.nodes[ntype].data.items():
                result.nodes[ntype].data[name] = rows[order]
        return result


class DropNode(BaseTransform):
    """Removes each node with a probability, and its edges.

    Args:
        p: the probability.

    Raises:
        SmexValueError: it is not between 0 and 1.

    Example:
        >>> sg.DropNode(1.0)(sg.graph(([0], [1]))).num_nodes()
        0
    """

    def __init__(self, p: float = 0.5):
        self.p = probability("DropNode", p)

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph of the other nodes."""
        for ntype in g.ntypes:
            g = remove_nodes(g, _drawn(g, g.num_nodes(ntype), self.p), ntype)
        return g


class DropEdge(BaseTransform):
    """Removes each edge with a probability.

    Args:
        p: the probability.

    Raises:
        SmexValueError: it is not between 0 and 1.

    Example:
        >>> sg.DropEdge(1.0)(sg.graph(([0], [1]))).num_edges()
        0
    """

    def __init__(self, p: float = 0.5):
        self.p = probability("DropEdge", p)

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph of the other edges."""
        for canonical in g.canonical_etypes:
            g = remove_edges(g, _drawn(g, g.num_edges(canonical), self.p), canonical)
        return g


class AddEdge(BaseTransform):
    """Adds edges between drawn nodes, parallel ones and self loops among them.

    They may join different graphs of a batch, which becomes one graph.

    Args:
        ratio: number of new edges of a type, as a share of those that are there.

    Raises:
        SmexValueError: it is negative.

    Example:
        >>> sg.AddEdge(0.5)(sg.graph(([0, 1], [1, 2]))).num_edges()
        3
    """

    def __init__(self, ratio: float = 0.2):
        if ratio < 0:
            raise SmexValueError(f"AddEdge: expected a ratio of at least 0, found {ratio}")
        self.ratio = ratio

    def __call__(self, g: Graph) -> Graph:
        """Returns the graph with more edges."""
        for canonical in g.canonical_etypes:
            relation = g._relations[canonical]
            number = int(relation.num_edges * self.ratio)
            if number:
                src, dst = (
                    torch.randint(size, (number,), dtype=g.idtype, device=g.device)
                    for size in (relation.num_src, relation.num_dst)
                )
                g = add_edges(g, src, dst, etype=canonical)
        return g


# ---- building blocks ----


def probability(what: str, p: float) -> float:
    """Returns the probability itself.

    Raises:
        SmexValueError: it is not between 0 and 1.
    """
    if not 0 <= p <= 1:
        raise SmexValueError(f"{what}: expected a probability from 0 to 1, found {p}")
    return p


def with_relations(
    g: Graph,
    relations: Mapping[CanonicalType, Relation],
    frames: Mapping[CanonicalType, Frame] | None = None,
    keep: bool = True,
) -> Graph:
    """Returns the graph with more edge types; without `keep` with these alone."""
    edge_frames = {t: f.clone() for t, f in g._edge_frames.items()} if keep else {}
    everything = {**(g._relations if keep else {}), **relations}
    return Graph(
        {canonical: everything[canonical] for canonical in sorted(everything)},
        g._src_num_nodes,
        src_frames={t: f.clone() for t, f in g._src_frames.items()},
        edge_frames={**edge_frames, **(frames or {})},
        idtype=g.idtype,
        device=g.device,
    )._batched_as(g)


def _types_within(g: Graph) -> list[CanonicalType]:
    """Edge types whose two node types are the same."""
    reject_block("transform", g)
    return [canonical for canonical in g.canonical_etypes if canonical[0] == canonical[2]]


def _loops(g: Graph, ntype: str) -> Relation:
    number = g.num_nodes(ntype)
    ids = torch.arange(number, dtype=g.idtype, device=g.device)
    return Relation.from_coo(ids, ids, number, number, check=False)


def _drawn(g: Graph, number: int, p: float) -> Tensor:
    """Ids below `number`, each with a probability."""
    return (torch.rand(number, device=g.device) < p).nonzero().view(-1).to(g.idtype)

"""Mini-batches of edges: the edges, pairs that are none, and blocks that compute their ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import NID
from smex.graph.dataloading.base import Sampler, prefetch_edge_features
from smex.graph.dataloading.blocks import one_or_all
from smex.graph.graph import Graph
from smex.graph.parts.compact import compact_graphs
from smex.graph.parts.selection import edges_by_type
from smex.graph.parts.subgraph import edge_subgraph
from smex.graph.structure.relation import Relation
from smex.graph.words import CanonicalType, EdgeType, check_range, counted, describe

__all__ = [
    "EdgePredictionSampler",
    "SpotTarget",
    "as_edge_prediction_sampler",
    "find_exclude_eids",
]

_EXCLUDES = (None, "self", "reverse_id", "reverse_types")


def find_exclude_eids(
    g: Graph,
    seed_edges: Any,
    exclude: Any,
    reverse_eids: Any = None,
    reverse_etypes: Mapping[EdgeType, EdgeType] | None = None,
    output_device: torch.device | str | None = None,
) -> Any:
    """Returns the edges that the blocks of some edges must not have.

    Args:
        g: the graph.
        seed_edges: edge ids, or a dict from edge type to these.
        exclude: None: none; ``"self"``: the edges; ``"reverse_id"``: and the reverse of each by
            `reverse_eids`; ``"reverse_types"``: and the edges with the same ids of the reverse
            type; or a function of `seed_edges`; or edge ids, a tensor or a dict of them by type.
        reverse_eids: the reverse of each edge, ``[num_edges]`` as a tensor or a list, or a dict
            from edge type to these.
        reverse_etypes: the reverse of each edge type; types that are not in it have none.
        output_device: device of the result; that of the graph by default.

    Returns:
        None, or ids: a vector if `seed_edges` are no dict, otherwise a dict from canonical edge
        type to these; what the function returns, if it is one.

    Raises:
        SmexValueError: `exclude` is none of these, or what it needs is missing or of another
            length.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1], [1, 0]))
        >>> reverse = torch.tensor([1, 0])
        >>> sg.dataloading.find_exclude_eids(g, torch.tensor([0]), "reverse_id", reverse)
        tensor([0, 1])
    """
    op = "find_exclude_eids"
    if callable(exclude):
        return exclude(seed_edges)
    if _are_ids(exclude):
        return exclude
    _check_exclude(op, exclude, reverse_eids, reverse_etypes)
    if exclude is None:
        return None
    edges = edges_by_type(op, g, seed_edges)
    lists = {canonical: [ids] for canonical, ids in edges.items()}
    if exclude == "reverse_id":
        reverse = _as_tensors(reverse_eids)
        if not isinstance(reverse, Mapping):
            reverse = {g.to_canonical_etype(None): reverse}
        by_type = {g.to_canonical_etype(etype): ids for etype, ids in reverse.items()}
        for canonical, ids in edges.items():
            if canonical in by_type:
                number = g._relations[canonical].num_edges
                if by_type[canonical].shape != (number,):
                    raise SmexValueError(
                        f"{op}: reverse_eids must have the reverse of each of "
                        f"{counted(number, 'edge')} of type {canonical}, found "
                        f"{describe(by_type[canonical])}"
                    )
                lists[canonical].append(by_type[canonical].to(ids)[ids.long()])
    if exclude == "reverse_types":
        assert reverse_etypes is not None
        for etype, reverse_etype in reverse_etypes.items():
            canonical, other = g.to_canonical_etype(etype), g.to_canonical_etype(reverse_etype)
            if canonical in edges:
                lists.setdefault(other, []).append(edges[canonical])
    join = torch.cat if exclude == "reverse_id" else _distinct
    result = {canonical: join(ids).to(output_device) for canonical, ids in lists.items()}
    return result if isinstance(seed_edges, Mapping) else next(iter(result.values()))


def _distinct(lists: list[Tensor]) -> Tensor:
    """Returns the ids of all lists, each once where there are several."""
    return lists[0] if len(lists) == 1 else torch.unique(torch.cat(lists))


def _as_tensors(reverse_eids: Any) -> Any:
    """Returns the map, or the maps by edge type, as tensors, where edges are sampled."""
    if isinstance(reverse_eids, Mapping):
        return {etype: torch.as_tensor(ids).cpu() for etype, ids in reverse_eids.items()}
    return reverse_eids if reverse_eids is None else torch.as_tensor(reverse_eids).cpu()


class SpotTarget:
    """Which edges a batch leaves out, if only those at nodes of few edges (Zhu et al., WSDM'24).

    A prediction that sees its own edge learns nothing, but without it a node of one or two edges
    is another node; where both ends have many the edge is no loss to leave in. An edge is left out
    if the smaller one of its ends' in-degrees is below `degree_threshold`.

    Args:
        g: a graph of one edge type.
        exclude: what leaving out an edge means, as for :func:`find_exclude_eids`.
        degree_threshold: see above.
        reverse_eids: as for :func:`find_exclude_eids`.
        reverse_etypes: as for :func:`find_exclude_eids`.

    Raises:
        SmexValueError: `exclude` does not exist, or what it needs is missing.

    Example:
        >>> g = sg.graph(([0, 1, 2, 2], [1, 2, 1, 2]))
        >>> sg.dataloading.SpotTarget(g, "self", 2)(torch.tensor([0, 1]))
        tensor([0])
    """

    def __init__(
        self,
        g: Graph,
        exclude: Any,
        degree_threshold: int = 10,
        reverse_eids: Any = None,
        reverse_etypes: Any = None,
    ):
        if not callable(exclude):
            _check_exclude("SpotTarget", exclude, reverse_eids, reverse_etypes)
        self.g, self.exclude, self.degree_threshold = g, exclude, degree_threshold
        self.reverse_eids, self.reverse_etypes = reverse_eids, reverse_etypes

    def __call__(self, seed_edges: Tensor) -> Any:
        """The edges that a batch of `seed_edges` leaves out, as of :func:`find_exclude_eids`."""
        ends = self.g.find_edges(seed_edges)
        smaller = torch.minimum(*(self.g.in_degrees(end) for end in ends))
        few = seed_edges[smaller < self.degree_threshold]
        return find_exclude_eids(self.g, few, self.exclude, self.reverse_eids, self.reverse_etypes)


def _are_ids(exclude: Any) -> bool:
    """Returns whether edges are given that all batches leave out, a tensor or a dict of them."""
    if isinstance(exclude, Mapping):
        return all(isinstance(ids, Tensor) for ids in exclude.values())
    return isinstance(exclude, Tensor)


def _check_exclude(op: str, exclude: Any, reverse_eids: Any, reverse_etypes: Any) -> None:
    if _are_ids(exclude):
        return
    if exclude not in _EXCLUDES:
        raise SmexValueError(
            f"{op}: expected exclude 'self', 'reverse_id', 'reverse_types', a function, edge ids "
            f"or None, found {exclude!r}"
        )
    if exclude == "reverse_id" and reverse_eids is None:
        raise SmexValueError(f"{op}: exclude='reverse_id' needs reverse_eids, found None")
    if exclude == "reverse_types" and reverse_etypes is None:
        raise SmexValueError(f"{op}: exclude='reverse_types' needs reverse_etypes, found None")


class EdgePredictionSampler(Sampler):
    """A sampler of nodes, for the ends of edges; see :func:`as_edge_prediction_sampler`."""

    def __init__(
        self,
        sampler: Any,
        exclude: Any = None,
        reverse_eids: Any = None,
        reverse_etypes: Mapping[EdgeType, EdgeType] | None = None,
        negative_sampler: Callable[[Graph, Any], Any] | None = None,
        prefetch_labels: Any = None,
    ):
        op = "as_edge_prediction_sampler"
        if not callable(exclude):
            _check_exclude(op, exclude, reverse_eids, reverse_etypes)
        if not hasattr(sampler, "sample"):
            raise SmexTypeError(
                f"{op}: expected a sampler with a method sample, found {type(sampler).__name__}"
            )
        self.sampler = sampler
        self.exclude = exclude
        self.reverse_eids = _as_tensors(reverse_eids)
        self.reverse_etypes = reverse_etypes
        self.negative_sampler = negative_sampler
        self.prefetch_labels = prefetch_labels

    @property
    def output_device(self) -> Any:
        """Device of the batch."""
        return getattr(self.sampler, "output_device", None)

    def sample(self, g: Graph, seed_edges: Any) -> Any:
        """Returns the batch of some edges: ids, or a dict of them by type."""
        device = self.output_device
        graphs = [edge_subgraph(g, seed_edges, relabel_nodes=False)]
        if self.negative_sampler is not None:
            graphs.append(_graph_of_pairs(g, self.negative_sampler(g, seed_edges)))
        graphs = compact_graphs(graphs)
        seeds = {ntype: frame[NID] for ntype, frame in graphs[0]._src_frames.items()}
        excluded = find_exclude_eids(
            g, seed_edges, self.exclude, self.reverse_eids, self.reverse_etypes
        )
        input_nodes, _, result = self.sampler.sample(g, one_or_all(seeds), excluded)
        prefetch_edge_features(graphs[0], self.prefetch_labels)
        return (input_nodes, *(graph.to(device) for graph in graphs), result)


def _graph_of_pairs(g: Graph, pairs: Any) -> Graph:
    """Returns the graph with the nodes of `g` and these pairs as its edges."""
    if not isinstance(pairs, Mapping):
        pairs = {g.to_canonical_etype(None): pairs}
    given = {g.to_canonical_etype(etype): ends for etype, ends in pairs.items()}
    none: Tensor = torch.empty(0, dtype=g.idtype, device=g.device)
    relations = {}
    for canonical, relation in g._relations.items():
        src, dst = _checked_pairs(canonical, relation, given.get(canonical, (none, none)))
        sizes = (relation.num_src, relation.num_dst)
        relations[canonical] = Relation.from_coo(src.to(none), dst.to(none), *sizes, check=False)
    return Graph(relations, g._src_num_nodes)


def _checked_pairs(
    canonical: CanonicalType, relation: Relation, pairs: Any
) -> tuple[Tensor, Tensor]:
    """Pairs of nodes of an edge type that a negative sampler returned."""
    op = "as_edge_prediction_sampler: negative_sampler"
    if not isinstance(pairs, (tuple, list)) or len(pairs) != 2:
        raise SmexTypeError(
            f"{op} must return (src, dst), or a dict of these by edge type, found "
            f"{describe(pairs)} for {canonical}"
        )
    src, dst = (torch.as_tensor(ids) for ids in pairs)
    if src.dim() != 1 or src.shape != dst.shape:
        raise SmexValueError(
            f"{op} must return as many sources as destinations, found {describe(src)} and "
            f"{describe(dst)} for {canonical}"
        )
    for end, ids, size in (
        ("sources", src, relation.num_src),
        ("destinations", dst, relation.num_dst),
    ):
        check_range(ids, size, f"{op}: {end} of {canonical}")
    return src, dst


def as_edge_prediction_sampler(
    sampler: Any,
    exclude: Any = None,
    reverse_eids: Any = None,
    reverse_etypes: Mapping[EdgeType, EdgeType] | None = None,
    negative_sampler: Callable[[Graph, Any], Any] | None = None,
    prefetch_labels: Any = None,
) -> EdgePredictionSampler:
    """Returns a sampler of edges from a sampler of nodes: it samples for the ends of the edges.

    Args:
        sampler: a sampler of nodes, such as :class:`NeighborSampler`.
        exclude: which edges the blocks leave out; see :func:`find_exclude_eids`.
        reverse_eids: as for :func:`find_exclude_eids`.
        reverse_etypes: as for :func:`find_exclude_eids`.
        negative_sampler: makes pairs that are no edges, see
            :mod:`smex.graph.dataloading.negative_sampler`; or any function of the graph and edge
            ids that returns such pairs.
        prefetch_labels: names of edge features of the pair graph that the loader gathers, or a dict
            by edge type.

    Returns:
        A sampler whose batches are ``(input_nodes, pair_graph, blocks)``, and with
        `negative_sampler` ``(input_nodes, pair_graph, negative_pair_graph, blocks)``: the graph of
        the edges, with ``EID`` and without other nodes, the graph of the pairs with the same nodes,
        and what `sampler` returns for these nodes.

    Raises:
        SmexTypeError: `sampler` is no sampler.
        SmexValueError: `exclude` does not exist, or what it needs is missing.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> sampler = sg.dataloading.as_edge_prediction_sampler(
        ...     sg.dataloading.NeighborSampler([2]), exclude="self")
        >>> input_nodes, pairs, blocks = sampler.sample(g, torch.tensor([1]))
        >>> input_nodes, pairs.edges(), blocks[0].num_edges()
        (tensor([1, 2, 0]), (tensor([0]), tensor([1])), 1)
    """
    return EdgePredictionSampler(
        sampler, exclude, reverse_eids, reverse_etypes, negative_sampler, prefetch_labels
    )

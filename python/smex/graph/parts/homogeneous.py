"""Between graphs of several types and graphs whose types are features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import DEFAULT_ETYPE, DEFAULT_NTYPE, EID, ETYPE, NID, NTYPE
from smex.graph.creation.convert import block_to_graph
from smex.graph.features.column import MissingFeatureError
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph
from smex.graph.structure.relation import Relation
from smex.graph.words import CanonicalType, quoted

__all__ = ["to_heterogeneous", "to_homogeneous"]


def to_homogeneous(
    G: Graph,  # noqa: N803  (DGL's name)
    ndata: Sequence[str] | None = None,
    edata: Sequence[str] | None = None,
    store_type: bool = True,
    return_count: bool = False,
) -> Any:
    """Returns one node type and one edge type in the place of several.

    Nodes of the first type come first, then those of the second; so do edges. The features
    ``NID`` and ``EID`` hold ids in the given graph, ``NTYPE`` and ``ETYPE`` type ids (int64).

    Args:
        G: the graph; of a block, sources come before destinations.
        ndata: node features to concatenate, of one shape and dtype. One that only some types have
            is left out; types without nodes need none.
        edata: edge features to concatenate, likewise.
        store_type: whether to store type ids.
        return_count: whether to return how many nodes and edges each type has.

    Returns:
        The graph; with `return_count` a tuple (graph, nodes of each type, edges of each type).

    Raises:
        SmexValueError: no type has a feature, or it differs in shape or dtype between types.

    Example:
        >>> import smex.graph as sg
        >>> h = sg.heterograph({("user", "plays", "game"): ([0, 1], [0, 0])})
        >>> g = sg.to_homogeneous(h)
        >>> g.ndata[sg.NTYPE], g.edges()
        (tensor([0, 1, 1]), (tensor([1, 2]), tensor([0, 0])))
    """
    if G.is_block:
        return to_homogeneous(block_to_graph(G), ndata, edata, store_type, return_count)
    node_counts = list(G._src_num_nodes.values())
    starts = dict(zip(G._src_num_nodes, accumulate(node_counts, initial=0)))
    ends = [
        (src + starts[s], dst + starts[d])
        for (s, _, d), (src, dst) in ((c, r.coo()) for c, r in G._relations.items())
    ]
    src, dst = (torch.cat([_ids(G, 0), *side]) for side in (zip(*ends) if ends else ((), ())))
    num_nodes = sum(node_counts)
    edge_counts = [r.num_edges for r in G._relations.values()]
    node_columns = _concatenated("node", G._src_frames, ndata)
    edge_columns = _concatenated("edge", G._edge_frames, edata)
    node_columns[NID], edge_columns[EID] = _numbers(G, node_counts), _numbers(G, edge_counts)
    if store_type:
        node_columns[NTYPE], edge_columns[ETYPE] = _types(G, node_counts), _types(G, edge_counts)
    result = Graph(
        {DEFAULT_ETYPE: Relation.from_coo(src, dst, num_nodes, num_nodes, check=False)},
        {DEFAULT_NTYPE: num_nodes},
        src_frames={DEFAULT_NTYPE: Frame(num_nodes, node_columns)},
        edge_frames={DEFAULT_ETYPE: Frame(sum(edge_counts), edge_columns)},
    )
    return (result, node_counts, edge_counts) if return_count else result


def to_heterogeneous(
    G: Graph,  # noqa: N803  (DGL's name)
    ntypes: Sequence[str],
    etypes: Sequence[str],
    ntype_field: str = NTYPE,
    etype_field: str = ETYPE,
    metagraph: Any = None,
) -> Graph:
    """Several types in the place of type ids: the inverse of :func:`to_homogeneous`.

    Edges of one edge type id between different node types become different edge types. Nodes and
    edges of a type keep their order; ``NID`` and ``EID`` hold their ids in the given graph, and
    all other features but the type ids are taken over.

    Args:
        G: a graph of one node type and one edge type.
        ntypes: name of each node type id.
        etypes: name of each edge type id.
        ntype_field: node feature that holds type ids.
        etype_field: edge feature that holds type ids.
        metagraph: a networkx multigraph of node types whose keys are edge types, as
            :meth:`Graph.metagraph` returns it; by default the types that occur.

    Raises:
        SmexTypeError: the graph has several types, or type ids are not integers.
        SmexValueError: a field is missing, a type id has no name, or an edge is of no type of the
            metagraph.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1], [2, 2]))
        >>> g.ndata[sg.NTYPE] = torch.tensor([0, 0, 1])
        >>> g.edata[sg.ETYPE] = torch.tensor([0, 0])
        >>> sg.to_heterogeneous(g, ["user", "game"], ["plays"]).canonical_etypes
        [('user', 'plays', 'game')]
    """
    if not G.is_homogeneous:
        raise SmexTypeError(
            "to_heterogeneous: expected a graph of one node type and one edge type, found "
            f"{len(G.ntypes)} and {len(G.etypes)}"
        )
    nodes, edges = next(iter(G._src_frames.values())), next(iter(G._edge_frames.values()))
    ntype_ids = _type_ids("node", nodes, ntype_field, ntypes)
    etype_ids = _type_ids("edge", edges, etype_field, etypes)
    none = torch.empty(0, dtype=torch.int64, device=G.device)
    by_type = _grouped(ntype_ids, len(ntypes))
    of_type = {n: by_type.get(n, none) for n in range(len(ntypes))}
    local = torch.empty_like(ntype_ids, dtype=G.idtype)
    for rows in of_type.values():
        local[rows] = torch.arange(rows.shape[0], dtype=G.idtype, device=G.device)
    src, dst = next(iter(G._relations.values())).coo()
    keys = (ntype_ids[src.long()] * len(etypes) + etype_ids) * len(ntypes) + ntype_ids[dst.long()]
    node_frames = {
        ntypes[n]: _part(nodes, rows, NID, ntype_field, G.idtype) for n, rows in of_type.items()
    }
    sizes = {ntypes[n]: of_type[n].shape[0] for n in sorted(of_type, key=lambda n: ntypes[n])}
    relations, edge_frames = {}, {}
    for canonical, rows in _edges_by_type(keys, ntypes, etypes, metagraph).items():
        ends = (local[src[rows].long()], local[dst[rows].long()])
        s, _, d = canonical
        relations[canonical] = Relation.from_coo(*ends, sizes[s], sizes[d], check=False)
        edge_frames[canonical] = _part(edges, rows, EID, etype_field, G.idtype)
    return Graph(
        relations,
        sizes,
        src_frames=node_frames,
        edge_frames=edge_frames,
        idtype=G.idtype,
        device=G.device,
    )


def _edges_by_type(
    keys: Tensor, ntypes: Sequence[str], etypes: Sequence[str], metagraph: Any
) -> dict[CanonicalType, Tensor]:
    """Edge ids of each canonical type, in alphabetical order of types.

    Keys are ``(source type * number of edge types + edge type) * number of node types +
    destination type``.
    """
    found = {}
    for key, rows in _grouped(keys, len(ntypes) ** 2 * len(etypes)).items():
        start, d = divmod(key, len(ntypes))
        s, e = divmod(start, len(etypes))
        found[ntypes[s], etypes[e], ntypes[d]] = rows
    if metagraph is not None:
        expected = [(s, e, d) for s, d, e in metagraph.edges(keys=True)]
        strays = [canonical for canonical in found if canonical not in expected]
        if strays:
            raise SmexValueError(
                f"to_heterogeneous: expected edges of the metagraph's types {expected}, found "
                f"edges of type {strays[0]!r}"
            )
        none = torch.empty(0, dtype=torch.int64, device=keys.device)
        found = {canonical: found.get(canonical, none) for canonical in expected}
    return {canonical: found[canonical] for canonical in sorted(found)}


def _grouped(keys: Tensor, num_keys: int) -> dict[int, Tensor]:
    """Positions of each key that occurs, ascending."""
    by_key = Relation.from_coo(keys, torch.zeros_like(keys), num_keys, 1, check=False).csr()
    counts = by_key.indptr.diff()
    present = counts.nonzero().view(-1).tolist()
    return dict(zip(present, by_key.edge_ids().split(counts[present].tolist())))


def _part(frame: Frame, rows: Tensor, id_name: str, type_name: str, idtype: torch.dtype) -> Frame:
    part = frame.subframe(rows)
    for name in {type_name, NTYPE, NID}:
        if name in part:
            del part._columns[name]
    part[id_name] = rows.to(idtype)
    return part


def _type_ids(kind: str, frame: Frame, field: str, names: Sequence[str]) -> Tensor:
    ids = frame[field]
    if ids.dim() != 1 or ids.is_floating_point() or ids.dtype == torch.bool:
        raise SmexTypeError(
            f'to_heterogeneous: {kind} types in "{field}" must be a vector of integers, found '
            f"{ids.dtype} of shape {list(ids.shape)}"
        )
    if ids.numel():
        low, high = (int(x) for x in torch.aminmax(ids))
        if low < 0 or high >= len(names):
            raise SmexValueError(
                f'to_heterogeneous: {kind} types in "{field}" must be in [0, {len(names)}), one '
                f"for each name, found {low if low < 0 else high}"
            )
    return ids.long()


def _concatenated(
    kind: str, frames: Mapping[Any, Frame], names: Iterable[str] | None
) -> dict[str, Tensor]:
    columns = {}
    filled = {key: frame for key, frame in frames.items() if frame.num_rows} or frames
    for name in names or ():
        schemes = {key: frame.schemes()[name] for key, frame in filled.items() if name in frame}
        if not schemes:
            raise MissingFeatureError(
                f'to_homogeneous: no {kind} type has a feature "{name}", of {quoted(filled)}; set '
                "it in each of them"
            )
        if len(schemes) < len(filled):
            continue
        if len(set(schemes.values())) > 1:
            raise SmexValueError(
                f'to_homogeneous: feature "{name}" must have one shape and dtype in all {kind} '
                f"types, found {schemes}"
            )
        columns[name] = torch.cat([frame[name] for frame in filled.values()])
    return columns


def _ids(graph: Graph, size: int) -> Tensor:
    return torch.arange(size, dtype=graph.idtype, device=graph.device)


def _numbers(graph: Graph, counts: list[int]) -> Tensor:
    """0, 1, ... for each type, one after another."""
    return torch.cat([_ids(graph, n) for n in counts]) if counts else _ids(graph, 0)


def _types(graph: Graph, counts: list[int]) -> Tensor:
    """Type id of each node or edge."""
    return torch.repeat_interleave(torch.tensor(counts, dtype=torch.int64, device=graph.device))

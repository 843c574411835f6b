"""Many graphs as one whose parts are not joined, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.constants import ALL, EID, NID
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph
from smex.graph.parts.selection import graphs_of, reject_block
from smex.graph.structure.relation import Relation
from smex.graph.words import CanonicalType, quoted

__all__ = ["batch", "slice_batch", "unbatch"]

Names = Sequence[str] | str | None


def batch(graphs: Sequence[Graph], ndata: Names = ALL, edata: Names = ALL) -> Graph:
    """Returns one graph whose parts are the given graphs, numbered one after another.

    Sizes of the parts are in ``batch_num_nodes`` and ``batch_num_edges``; a batch among `graphs`
    counts as its parts. Features are concatenated.

    Args:
        graphs: at least one graph, all of the same types, idtype and device; no blocks.
        ndata: names of the node features to batch; all by default, None for none.
        edata: names of the edge features to batch; all by default, None for none.

    Raises:
        SmexTypeError: `graphs` is no list of graphs, a graph is a block, or names are no list of
            strings.
        SmexValueError: there is no graph, or graphs differ in types, idtype, device or features.
            Graphs without nodes (or edges) of a type need not have its features.

    Example:
        >>> import smex.graph as sg
        >>> b = sg.batch([sg.graph(([0], [1])), sg.graph(([0, 1], [1, 2]))])
        >>> b.edges(), b.batch_num_nodes()
        ((tensor([0, 2, 3]), tensor([1, 3, 4])), tensor([2, 3]))
    """
    graphs = graphs_of("batch", graphs)
    _check_alike(graphs)
    first = graphs[0]
    sizes = {t: [g._src_num_nodes[t] for g in graphs] for t in first.ntypes}
    relations = {c: _joined(c, [g._relations[c] for g in graphs], sizes) for c in first._relations}
    return Graph(
        relations,
        {t: sum(numbers) for t, numbers in sizes.items()},
        src_frames={
            t: _cat("ndata", t, [g._src_frames[t] for g in graphs], ndata) for t in first.ntypes
        },
        edge_frames={
            c: _cat("edata", c, [g._edge_frames[c] for g in graphs], edata)
            for c in first._relations
        },
        batch_num_nodes={t: _part_sizes(graphs, Graph.batch_num_nodes, t) for t in first.ntypes},
        batch_num_edges={c: _part_sizes(graphs, Graph.batch_num_edges, c) for c in relations},
        idtype=first.idtype,
        device=first.device,
    )


def unbatch(g: Graph, node_split: Any = None, edge_split: Any = None) -> list[Graph]:
    """Returns the graphs that a batch is made of, with their parts of its features.

    Args:
        g: the graph; no block.
        node_split: number of nodes of each part: a vector, or {type: vector} with several types.
            By default ``batch_num_nodes``.
        edge_split: number of edges of each part, likewise.

    Raises:
        SmexTypeError: the graph is a block, or several types are split by one vector.
        SmexValueError: sizes do not add up to the graph's, types have different numbers of parts,
            or an edge joins different parts.

    Example:
        >>> import smex.graph as sg
        >>> b = sg.batch([sg.graph(([0], [1])), sg.graph(([0, 1], [1, 2]))])
        >>> [part.num_nodes() for part in sg.unbatch(b)]
        [2, 3]
    """
    reject_block("unbatch", g)
    if node_split is None:
        node_split = {t: g.batch_num_nodes(t) for t in g.ntypes}
    if edge_split is None:
        edge_split = {c: g.batch_num_edges(c) for c in g._relations}
        g = _part_by_part(g)
    node_sizes = _split("node_split", node_split, g._src_num_nodes, lambda t: t)
    totals = {c: r.num_edges for c, r in g._relations.items()}
    edge_sizes = _split("edge_split", edge_split, totals, g.to_canonical_etype)
    counts = {len(sizes) for sizes in [*node_sizes.values(), *edge_sizes.values()]}
    if len(counts) != 1:
        raise SmexValueError(
            f"unbatch: all types must have the same number of parts, found {sorted(counts)}"
        )
    node_starts = {t: _starts(sizes) for t, sizes in node_sizes.items()}
    pieces = {
        c: _pieces(c, r, node_sizes, edge_sizes[c], node_starts) for c, r in g._relations.items()
    }
    node_frames = {t: _cut(g._src_frames[t], sizes) for t, sizes in node_sizes.items()}
    edge_frames = {c: _cut(g._edge_frames[c], sizes) for c, sizes in edge_sizes.items()}
    return [
        Graph(
            {c: pieces[c][n] for c in g._relations},
            {t: node_sizes[t][n] for t in g.ntypes},
            src_frames={t: node_frames[t][n] for t in g.ntypes},
            edge_frames={c: edge_frames[c][n] for c in g._relations},
        )
        for n in range(counts.pop())
    ]


def slice_batch(g: Graph, gid: int, store_ids: bool = False) -> Graph:
    """Returns one graph of a batch, with its part of the features.

    Args:
        g: the batch.
        gid: which of its graphs.
        store_ids: whether features ``NID`` and ``EID`` hold the ids in the batch.

    Raises:
        SmexTypeError: the graph is a block.
        SmexValueError: the batch has no such graph.

    Example:
        >>> import smex.graph as sg
        >>> b = sg.batch([sg.graph(([0], [1])), sg.graph(([0, 1], [1, 2]))])
        >>> sg.slice_batch(b, 1).edges()
        (tensor([0, 1]), tensor([1, 2]))
    """
    reject_block("slice_batch", g)
    if not 0 <= gid < g.batch_size:
        raise SmexValueError(f"slice_batch: expected gid of 0 to {g.batch_size - 1}, found {gid}")
    nodes = {t: _range(g.batch_num_nodes(t), gid) for t in g.ntypes}
    edges = {c: _range(g.batch_num_edges(c), gid) for c in g._relations}
    ids_of = {c: _part_edges(g, c, bounds) for c, bounds in edges.items()}
    relations = {}
    for (s, e, d), relation in g._relations.items():
        src, dst = (ids[ids_of[s, e, d]] for ids in relation.coo())
        sizes = (nodes[s][1] - nodes[s][0], nodes[d][1] - nodes[d][0])
        relations[s, e, d] = Relation.from_coo(src - nodes[s][0], dst - nodes[d][0], *sizes)
    return Graph(
        relations,
        {t: end - start for t, (start, end) in nodes.items()},
        src_frames={t: _rows(g, g._src_frames[t], nodes[t], NID, store_ids) for t in nodes},
        edge_frames={c: _edge_rows(g, c, ids_of[c], store_ids) for c in edges},
        idtype=g.idtype,
        device=g.device,
    )


# ---- joining ----


def _check_alike(graphs: Sequence[Graph]) -> None:
    if not graphs:
        raise SmexValueError("batch: expected at least one graph, found none")
    first = graphs[0]
    expected = (first.ntypes, first.canonical_etypes, first.idtype, first.device)
    for n, graph in enumerate(graphs):
        reject_block("batch", graph)
        found = (graph.ntypes, graph.canonical_etypes, graph.idtype, graph.device)
        if found == expected:
            continue
        names = ("node types", "edge types", "idtype", "device")
        what, theirs, own = next(t for t in zip(names, expected, found) if t[1] != t[2])
        raise SmexValueError(
            f"batch: all graphs must have the same {what}, graph 0 has {theirs} and graph {n} has "
            f"{own}"
        )


def _part_sizes(graphs: Sequence[Graph], sizes_of: Callable[..., Tensor], key: Any) -> Tensor:
    """Number of nodes or edges of each part; a batch counts as its parts."""
    sizes: list[int] = []
    for graph in graphs:
        if graph._batch_num_nodes is None and graph._batch_num_edges is None:
            nodes = isinstance(key, str)
            sizes.append(graph._src_num_nodes[key] if nodes else graph._relations[key].num_edges)
        else:
            sizes += sizes_of(graph, key).tolist()
    return torch.tensor(sizes, dtype=graphs[0].idtype, device=graphs[0].device)


def _joined(
    canonical: CanonicalType, relations: list[Relation], sizes: Mapping[str, list[int]]
) -> Relation:
    """Disjoint union of the relations of one type."""
    s, _, d = canonical
    pairs = [relation.coo() for relation in relations]
    src, dst = (torch.cat(side) for side in zip(*pairs))
    counts = torch.tensor([relation.num_edges for relation in relations])
    for ids, starts in ((src, _starts(sizes[s])), (dst, _starts(sizes[d]))):
        offsets = torch.tensor(starts, dtype=ids.dtype)
        ids += torch.repeat_interleave(offsets, counts, output_size=ids.shape[0]).to(ids.device)
    return Relation.from_coo(src, dst, sum(sizes[s]), sum(sizes[d]), check=False)


def _cat(argument: str, key: Any, frames: list[Frame], names: Names) -> Frame:
    """Rows of all frames, of the columns that are asked for."""
    total = sum(frame.num_rows for frame in frames)
    if names is None:
        return Frame(total)
    chosen = _column_names(argument, key, frames, names)
    return Frame(total, {n: torch.cat([f[n] for f in frames if n in f]) for n in chosen})


def _column_names(
    argument: str, key: Any, frames: list[Frame], names: Sequence[str] | str
) -> list[str]:
    """Returns the columns to concatenate, which all frames with rows have alike."""
    everything = isinstance(names, str) and names == ALL
    if not everything and (isinstance(names, str) or not all(isinstance(n, str) for n in names)):
        raise SmexTypeError(
            f"batch: {argument} must be a list of feature names or None, found {names!r}"
        )
    filled = [(n, frame.schemes()) for n, frame in enumerate(frames) if frame.num_rows]
    if not filled:
        filled = [(0, frames[0].schemes())]
    expected = filled[0][1]
    if not everything:
        missing = [name for name in names if name not in expected]
        if missing:
            raise SmexValueError(
                f'batch: {argument} asks for "{missing[0]}" of {key!r}, graph {filled[0][0]} has: '
                f"{quoted(expected)}"
            )
        expected = {name: expected[name] for name in names}
    for n, schemes in filled:
        found = schemes if everything else {k: v for k, v in schemes.items() if k in expected}
        if found != expected:
            raise SmexValueError(
                f"batch: {argument} of {key!r} must have the same features in all graphs, graph "
                f"{filled[0][0]} has {expected} and graph {n} has {found}; pass {argument}= names, "
                "or None"
            )
    return list(expected)


# ---- splitting ----


def _part_by_part(g: Graph) -> Graph:
    """Returns the graph with the edges of each part together, which need not be so in a batch."""
    orders = {c: g._edge_order(c) for c in g._relations}
    if all(order is None for order in orders.values()):
        return g
    result = g.clone()
    for canonical, order in orders.items():
        if order is not None:
            result._keep_edges(order.to(g.idtype), canonical)
    return result


def _split(name: str, split: Any, totals: Mapping[Any, int], resolve: Any) -> dict[Any, list[int]]:
    """Sizes of the parts of each type."""
    if not isinstance(split, Mapping):
        if len(totals) != 1:
            raise SmexTypeError(
                f"unbatch: the graph has several types, expected a dict for {name}, found "
                f"{type(split).__name__}"
            )
        split = dict.fromkeys(totals, split)
    given = {resolve(key): torch.as_tensor(sizes).tolist() for key, sizes in split.items()}
    for key, total in totals.items():
        if sum(given.get(key, [])) != total or min(given.get(key, [0]), default=0) < 0:
            raise SmexValueError(
                f"unbatch: {name} of {key!r} must add up to {total}, found {given.get(key)}"
            )
    return {key: given[key] for key in totals}


def _pieces(
    canonical: CanonicalType,
    relation: Relation,
    node_sizes: Mapping[str, list[int]],
    edge_sizes: list[int],
    node_starts: Mapping[str, list[int]],
) -> list[Relation]:
    """Returns the relation of each part, its nodes numbered from 0."""
    local: list[Sequence[Tensor]] = []
    for ids, ntype in zip(relation.coo(), canonical[::2]):
        per_part = torch.tensor([edge_sizes, node_starts[ntype], node_sizes[ntype]])
        counts, starts, sizes = per_part.to(ids.device)
        own = ids - torch.repeat_interleave(starts, counts).to(ids.dtype)
        outside = (own < 0) | (own >= torch.repeat_interleave(sizes, counts))
        if bool(outside.any()):
            edge = int(outside.nonzero()[0])
            raise SmexValueError(
                f"unbatch: edge {edge} of type {canonical!r} joins different parts; change "
                "node_split or edge_split"
            )
        local.append(torch.split(own, edge_sizes))
    src_sizes, dst_sizes = node_sizes[canonical[0]], node_sizes[canonical[2]]
    return [
        Relation.from_coo(src, dst, num_src, num_dst, check=False)
        for src, dst, num_src, num_dst in zip(*local, src_sizes, dst_sizes)
    ]


def _cut(frame: Frame, sizes: list[int]) -> list[Frame]:
    columns = {name: torch.split(column, sizes) for name, column in frame.items()}
    return [Frame(size, {k: c[n] for k, c in columns.items()}) for n, size in enumerate(sizes)]


def _part_edges(g: Graph, canonical: CanonicalType, bounds: tuple[int, int]) -> Tensor:
    """Ids of the edges of a part, which begins and ends at `bounds`."""
    order = g._edge_order(canonical)
    if order is None:
        return torch.arange(*bounds, device=g.device)
    return order[slice(*bounds)]


def _rows(g: Graph, frame: Frame, bounds: tuple[int, int], id_name: str, store: bool) -> Frame:
    part = Frame(bounds[1] - bounds[0], {n: c[slice(*bounds)] for n, c in frame.items()})
    if store:
        part[id_name] = torch.arange(*bounds, dtype=g.idtype, device=g.device)
    return part


def _edge_rows(g: Graph, canonical: CanonicalType, ids: Tensor, store: bool) -> Frame:
    frame = g._edge_frames[canonical]
    part = Frame(ids.shape[0], {n: c[ids] for n, c in frame.items()})
    if store:
        part[EID] = ids.to(g.idtype)
    return part


def _range(sizes: Tensor, n: int) -> tuple[int, int]:
    """Returns where part `n` starts and ends."""
    starts = _starts(sizes.tolist())
    return starts[n], starts[n] + int(sizes[n])


def _starts(sizes: Sequence[int]) -> list[int]:
    return list(accumulate(sizes, initial=0))[:-1]

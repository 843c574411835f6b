"""Edges drawn for each of some nodes, or those of the largest weight."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.creation.random import draw_seed
from smex.graph.graph import Graph
from smex.graph.parts.selection import check_one_type
from smex.graph.sampling.arguments import (
    Neighbors,
    checked,
    drawn_parts,
    excluded_by_type,
    fanouts_by_type,
    graph_of_drawn,
    weights_of,
)
from smex.graph.structure.formats import take_rows
from smex.graph.structure.relation import Compressed, Relation
from smex.graph.words import CanonicalType, counted, integer

__all__ = ["NeighborDraw", "sample_etype_neighbors", "sample_neighbors", "select_topk"]

_FEW = 8  # times fewer nodes than there are: their weights are gathered first


class NeighborDraw:
    """How neighbours are drawn from a graph, checked once: ``draw(canonical, rows, nodes)``."""

    def __init__(
        self,
        op: str,
        g: Graph,
        fanout: Any,
        prob: Any = None,
        replace: bool = False,
        exclude_edges: Any = None,
    ):
        self.op = op
        self.prob = prob
        self.replace = replace
        self.fanouts = fanouts_by_type(op, g, "fanout", fanout)
        self.weights = weights_of(op, g, prob)
        self.excluded = excluded_by_type(op, g, exclude_edges)
        self.seed = draw_seed()
        self.etypes = {canonical: n for n, canonical in enumerate(g.canonical_etypes)}

    def __call__(
        self, canonical: CanonicalType, rows: Compressed, nodes: Tensor
    ) -> Neighbors | None:
        """Neighbours of the nodes; None where none are asked for."""
        fanout = self.fanouts[canonical]
        if fanout == 0:
            return None
        return checked(
            self.op,
            self.prob,
            canonical,
            lambda: Neighbors(
                *torch.ops.smex.sample_neighbors(
                    *rows,
                    nodes,
                    fanout,
                    self.replace,
                    self.weights[canonical],
                    self.excluded.get(canonical),
                    self.seed + self.etypes[canonical],
                )
            ),
        )


def sample_neighbors(
    g: Graph,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: Any = None,
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    _dist_training: bool = False,
    exclude_edges: Any = None,
    output_device: torch.device | str | None = None,
) -> Graph:
    """Returns the graph of edges drawn for each of some nodes.

    Without `prob` every set of `fanout` edges of a node is equally likely. With it, edges are drawn
    one after another in proportion to their weights. A node that is given twice is drawn for twice.

    Args:
        g: the graph; no block, on the CPU.
        nodes: node ids, or a bool mask; with several node types a dict from type to these. Types
            that are left out have no edges drawn.
        fanout: how many edges of each type are drawn for a node, -1 for all of them; an integer, or
            a dict with one for each edge type. A node with fewer edges has all of them, unless
            `replace`.
        edge_dir: ``"in"``: edges into the nodes, ``"out"``: out of them.
        prob: name of an edge feature ``[num_edges]`` with weights of at least 0, or a bool mask.
            They need no normalisation; edges of weight 0 are never drawn. Types of edges without
            the feature are drawn from uniformly. Or the weights themselves: a tensor, a list with
            one for each edge type, in which None or no elements mean uniformly, or a dict by edge
            type.
        replace: whether an edge may be drawn more than once; a node with edges then has exactly
            `fanout`.
        copy_ndata: whether the result has the node features.
        copy_edata: whether the result has the edge features.
        _dist_training: taken for compatibility.
        exclude_edges: ids of edges that are not drawn, or a dict from edge type to these.
        output_device: device of the result; that of the graph by default.

    Returns:
        A graph with all nodes of `g` and the drawn edges, node by node; edge feature ``EID`` has
        their ids in `g`. The seed is drawn from torch's generator, and the result does not depend
        on the number of threads.

    Raises:
        SmexTypeError: ids are not integers, or the graph is a block.
        SmexValueError: an id or type does not exist, a fanout is less than -1 or missing, a weight
            that is looked at is negative, infinite or NaN, or the graph is not on the CPU.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3, 4], [5, 5, 5, 5, 0]))
        >>> s = sg.sampling.sample_neighbors(g, [5, 0], 2)
        >>> s.in_degrees([5, 0]), s.num_nodes()
        (tensor([2, 1]), 6)
    """
    draw = NeighborDraw("sample_neighbors", g, fanout, prob, replace, exclude_edges)
    parts = drawn_parts("sample_neighbors", g, nodes, edge_dir, draw)
    return graph_of_drawn(g, parts, copy_ndata, copy_edata, output_device)


def sample_etype_neighbors(
    g: Graph,
    nodes: Any,
    etype_offset: Sequence[int],
    fanout: Any,
    edge_dir: str = "in",
    prob: Any = None,
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    etype_sorted: bool = False,
    _dist_training: bool = False,
    output_device: torch.device | str | None = None,
) -> Graph:
    """Returns the graph of edges drawn for each of some nodes, some of each edge type.

    As :func:`sample_neighbors`, where one edge type stands for several.

    Args:
        g: a graph of one node type and one edge type, such as :func:`smex.graph.to_homogeneous`
            makes; on the CPU.
        nodes: as for :func:`sample_neighbors`.
        etype_offset: ``num_etypes + 1`` ascending numbers from 0 to the number of edges: edges
            ``etype_offset[i]`` to ``etype_offset[i + 1]`` are of type ``i``.
        fanout: an integer for each edge type, -1 for all edges, or one for all types.
        edge_dir: as for :func:`sample_neighbors`.
        prob: as for :func:`sample_neighbors`.
        replace: as for :func:`sample_neighbors`.
        copy_ndata: as for :func:`sample_neighbors`.
        copy_edata: as for :func:`sample_neighbors`.
        etype_sorted: taken for compatibility; sorted edges need no announcement.
        _dist_training: taken for compatibility.
        output_device: as for :func:`sample_neighbors`.

    Returns:
        As :func:`sample_neighbors`, with edges of the first type before those of the second.

    Raises:
        SmexTypeError: as for :func:`sample_neighbors`, or the graph has several types.
        SmexValueError: as for :func:`sample_neighbors`, or the numbers of fanouts and types differ.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 3], [4, 4, 4, 4]))
        >>> s = sg.sampling.sample_etype_neighbors(g, [4], [0, 3, 4], [1, -1])
        >>> s.num_edges()
        2
    """
    op = "sample_etype_neighbors"
    check_one_type(op, g)
    bounds = [int(n) for n in etype_offset]
    if len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != g.num_edges() or bounds != sorted(bounds):
        raise SmexValueError(
            f"{op}: etype_offset must ascend from 0 to the number of edges, {g.num_edges()}, found "
            f"{bounds}"
        )
    num_etypes = len(bounds) - 1
    one = integer(fanout)
    fanouts = [int(n) for n in fanout] if one is None else [one] * num_etypes
    if len(fanouts) != num_etypes:
        raise SmexValueError(
            f"{op}: expected a fanout for each of {counted(num_etypes, 'edge type')}, found "
            f"{len(fanouts)}"
        )
    (canonical,) = g.canonical_etypes
    src: list[Tensor] = []
    dst: list[Tensor] = []
    eids: list[Tensor] = []
    for number, (begin, end) in zip(fanouts, itertools.pairwise(bounds)):
        draw = NeighborDraw(op, g, number, prob, replace)
        draw.weights[canonical] = _of_range(draw.weights[canonical], begin, end, g.num_edges())
        relation, ids = drawn_parts(op, g, nodes, edge_dir, draw)[canonical]
        for lists, part in zip((src, dst), relation.coo()):
            lists.append(part)
        eids.append(ids)
    sizes = (g.num_nodes(), g.num_nodes())
    drawn = Relation.from_coo(torch.cat(src), torch.cat(dst), *sizes, check=False)
    parts = {canonical: (drawn, torch.cat(eids))}
    return graph_of_drawn(g, parts, copy_ndata, copy_edata, output_device)


def _of_range(weights: Tensor | None, begin: int, end: int, size: int) -> Tensor:
    """Returns the weights of edges `begin` to `end`, none elsewhere."""
    if weights is None:
        weights = torch.ones(size, dtype=torch.bool)
    result = torch.zeros_like(weights)
    result[begin:end] = weights[begin:end]
    return result


def select_topk(
    g: Graph,
    k: Any,
    weight: str,
    nodes: Any = None,
    edge_dir: str = "in",
    ascending: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    output_device: torch.device | str | None = None,
) -> Graph:
    """Returns the graph of the edges with the largest weights of each node.

    Args:
        g: the graph; no block, on the CPU.
        k: how many edges of each type a node has, -1 for all of them; an integer, or a dict with
            one for each edge type.
        weight: name of an edge feature ``[num_edges]``, which every edge type with edges has. NaN
            counts as less than every number; of equal weights the lower edge id is taken.
        nodes: as for :func:`sample_neighbors`; by default all nodes.
        edge_dir: as for :func:`sample_neighbors`.
        ascending: whether the smallest weights are taken.
        copy_ndata: as for :func:`sample_neighbors`.
        copy_edata: as for :func:`sample_neighbors`.
        output_device: as for :func:`sample_neighbors`.

    Returns:
        A graph with all nodes of `g` and the edges, node by node, the first in order of weight
        first; edge feature ``EID`` has their ids in `g`.

    Raises:
        SmexTypeError: as for :func:`sample_neighbors`, or `weight` is no name.
        SmexValueError: as for :func:`sample_neighbors`, or the feature is missing.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2], [3, 3, 3]))
        >>> g.edata["w"] = torch.tensor([1.0, 3.0, 2.0])
        >>> sg.sampling.select_topk(g, 2, "w").edges()[0]
        tensor([1, 2])
    """
    op = "select_topk"
    if not isinstance(weight, str):
        raise SmexTypeError(
            f"{op}: expected the name of an edge feature, found {type(weight).__name__}"
        )
    numbers = fanouts_by_type(op, g, "k", k)
    values = weights_of(op, g, weight, (torch.float32, torch.float64))
    for canonical, frame in g._edge_frames.items():
        if values[canonical] is None and frame.num_rows and numbers[canonical]:
            raise frame.missing(weight, frame.owner)
    if nodes is None:
        nodes = {ntype: torch.arange(g.num_nodes(ntype), dtype=g.idtype) for ntype in g.ntypes}

    def take(canonical: CanonicalType, rows: Compressed, chosen: Tensor) -> Neighbors | None:
        of_type = values[canonical]
        if of_type is None:
            return None
        if _FEW * chosen.shape[0] < rows.indptr.shape[0]:
            return _topk_of_few(rows, chosen, numbers[canonical], of_type, ascending)
        drawn = torch.ops.smex.select_topk(*rows, chosen, numbers[canonical], of_type, ascending)
        return Neighbors(*drawn)

    parts = drawn_parts(op, g, nodes, edge_dir, take)
    return graph_of_drawn(g, parts, copy_ndata, copy_edata, output_device)


def _topk_of_few(
    rows: Compressed, chosen: Tensor, k: int, values: Tensor, ascending: bool
) -> Neighbors:
    """What the operator finds, of the weights of these rows alone: it reads all as float64."""
    ends, _, eids = take_rows(rows, chosen)
    sizes = rows.indptr[chosen + 1] - rows.indptr[chosen]
    offsets = torch.nn.functional.pad(sizes.cumsum(0, dtype=chosen.dtype), (1, 0))
    # Among equal weights the lower id counts, which in a row that ascends is the earlier place.
    rises = eids.diff() > 0
    rises[offsets[(offsets > 0) & (offsets < eids.shape[0])] - 1] = True
    in_order, local = eids, None
    if not bool(rises.all()):
        in_order, place = eids.sort()
        local = torch.empty_like(eids)
        local[place] = torch.arange(eids.shape[0], dtype=eids.dtype)
    every = torch.arange(chosen.shape[0], dtype=chosen.dtype)
    drawn = torch.ops.smex.select_topk(offsets, ends, local, every, k, values[in_order], ascending)
    return Neighbors(drawn[0], drawn[1], in_order[drawn[2]])

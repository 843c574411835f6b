"""Tags of neighbours, by which edges can be drawn."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexValueError
from smex.graph.graph import Graph
from smex.graph.structure.relation import Relation
from smex.graph.words import counted, describe

__all__ = ["TAGS", "sort_csc_by_tag", "sort_csr_by_tag"]

TAGS = {"in": "_IN_TAG", "out": "_OUT_TAG"}
"""The edge features that have the tags of edges into and out of nodes."""


def sort_csc_by_tag(
    g: Graph, tag: Any, tag_offset_name: str = "_TAG_OFFSET", tag_type: str = "node"
) -> Graph:
    """Returns the graph whose nodes have their in-edges sorted by tag, for biased samples.

    Ids of edges stay; in the format ``csc``, and so among a node's predecessors, edges stand by
    tag, those of one tag as before. Edge feature ``_IN_TAG`` has their tags, which
    :func:`smex.graph.sampling.sample_neighbors_biased` reads.

    Args:
        g: a graph with one edge type.
        tag: ``[num_src]`` integers from 0, the tags of sources; or ``[num_edges]``.
        tag_offset_name: the new feature of destinations.
        tag_type: ``"node"`` or ``"edge"``, what the tags are of.

    Returns:
        A graph with the feature ``[num_dst, tags + 1]`` of destinations: the numbers of in-edges
        with a tag below 0, 1, … up to the number of tags.

    Raises:
        SmexValueError: the graph has several edge types, or there is not one tag for each.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2, 0], [3, 3, 3, 1]))
        >>> sg.sort_csc_by_tag(g, torch.tensor([1, 0, 1, 0])).dstdata["_TAG_OFFSET"]
        tensor([[0, 0, 0],
                [0, 0, 1],
                [0, 0, 0],
                [0, 1, 3]])
    """
    return _by_tag("sort_csc_by_tag", g, tag, tag_offset_name, tag_type, outgoing=False)


def sort_csr_by_tag(
    g: Graph, tag: Any, tag_offset_name: str = "_TAG_OFFSET", tag_type: str = "node"
) -> Graph:
    """As :func:`sort_csc_by_tag`, of out-edges and the tags of destinations, ``_OUT_TAG``.

    Args:
        g: a graph with one edge type.
        tag: ``[num_dst]`` integers from 0, the tags of destinations; or ``[num_edges]``.
        tag_offset_name: the new feature of sources.
        tag_type: ``"node"`` or ``"edge"``, what the tags are of.

    Returns:
        A graph with the feature ``[num_src, tags + 1]`` of sources.

    Raises:
        SmexValueError: as there.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 0, 1], [0, 1, 0]))
        >>> sg.sort_csr_by_tag(g, torch.tensor([1, 0])).srcdata["_TAG_OFFSET"]
        tensor([[0, 1, 2],
                [0, 0, 1]])
    """
    return _by_tag("sort_csr_by_tag", g, tag, tag_offset_name, tag_type, outgoing=True)


def _by_tag(op: str, g: Graph, tag: Any, name: str, tag_type: str, outgoing: bool) -> Graph:
    relation = g.relation()
    if tag_type not in ("node", "edge"):
        raise SmexValueError(f'{op}: tag_type must be "node" or "edge", found {tag_type!r}')
    neighbours = relation.num_dst if outgoing else relation.num_src
    size = neighbours if tag_type == "node" else relation.num_edges
    plain = isinstance(tag, Tensor) and not (tag.is_floating_point() or tag.dtype == torch.bool)
    if not plain or tag.shape != (size,) or (size and int(tag.min()) < 0):
        raise SmexValueError(
            f"{op}: expected a tag from 0 for each of {counted(size, tag_type)}, found "
            f"{describe(tag)}"
        )
    source, destination = (ids.long() for ids in relation.coo())
    own, other = (source, destination) if outgoing else (destination, source)
    num_own = relation.num_src if outgoing else relation.num_dst
    tags = tag.long()[other] if tag_type == "node" else tag.long()
    count = int(tag.max()) + 1 if size else 0
    found = torch.bincount(own * count + tags, minlength=num_own * count).view(num_own, count)
    result = g.clone()
    result._relations[g.to_canonical_etype(None)] = _sorted(relation, tags, outgoing)
    offsets = torch.nn.functional.pad(found.cumsum(1), (1, 0)).to(g.idtype)
    (result.srcdata if outgoing else result.dstdata)[name] = offsets
    result.edata[TAGS["out" if outgoing else "in"]] = tags
    return result


def _sorted(relation: Relation, tags: Tensor, outgoing: bool) -> Relation:
    """Returns the relation with the edges of each row by tag, then as they were."""
    rows = relation.csr() if outgoing else relation.csc()
    eids = rows.edge_ids()
    row = torch.ops.smex.expand_rows(rows.indptr, eids.shape[0]).long()
    order = tags[eids.long()].argsort(stable=True)
    order = order[row[order].argsort(stable=True)]
    form = [rows.indptr, rows.indices[order], eids[order]]
    forms = {"coo": relation.coo(), "csr" if outgoing else "csc": form}
    return Relation.from_formats(forms, relation.num_src, relation.num_dst)

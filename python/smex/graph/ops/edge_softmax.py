"""Softmax over the edges of each node."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.core.graph_core import GraphCore
from smex.graph.ops.kernels import softmax_over_edges
from smex.graph.structure.relation import Relation
from smex.graph.words import counted, is_all


def edge_softmax(graph: GraphCore, logits: Any, eids: Any = "__ALL__", norm_by: str = "dst") -> Any:
    r"""Softmax of the edges' scores over the edges into each node.

    .. math:: a_{uv} = \exp(z_{uv}) \; / \; \sum_{w \in N(v)} \exp(z_{wv})

    The largest score of a node is subtracted first, so large scores do not overflow.

    Args:
        graph: a graph.
        logits: ``[num_edges, *f]``, or ``[len(eids), *f]``; a dict by edge type where there are
            several: a node's edges of all types are then normalised together.
        eids: the edges that take part, all by default; the others do not count.
        norm_by: ``dst`` or ``src``: whether edges into a node or out of it sum to 1.

    Returns:
        Tensor of the shape of ``logits``, or a dict by canonical edge type.

    Raises:
        SmexValueError: ``norm_by`` is neither of the two, or the number of scores is not that of
            the edges.
        SmexTypeError: scores are not floating point.

    Example:
        >>> g = sg.graph(([0, 1, 1], [2, 2, 0]))
        >>> sg.ops.edge_softmax(g, torch.tensor([0.0, 0.0, 5.0]))
        tensor([0.5000, 0.5000, 1.0000])
    """
    if norm_by not in ("dst", "src"):
        raise SmexValueError(f"edge_softmax: norm_by must be 'dst' or 'src', found {norm_by!r}")
    if isinstance(logits, dict):
        return _softmax_by_type(graph, logits, norm_by)
    relation = graph.relation()
    if not is_all(eids):
        canonical = graph.canonical_etypes[0]
        eids = graph._edge_ids(eids, canonical, "edge_softmax")
        relation = relation.edge_subgraph(eids, check=False)
    return _checked_softmax(relation, logits, norm_by)


def _checked_softmax(relation: Relation, logits: Tensor, norm_by: str) -> Tensor:
    if not logits.dtype.is_floating_point:
        raise SmexTypeError(
            f"edge_softmax: expected floating point scores, found {logits.dtype}; convert them"
        )
    if logits.dim() == 0 or logits.shape[0] != relation.num_edges:
        raise SmexValueError(
            f"edge_softmax: expected {counted(relation.num_edges, 'row')} of scores, one for each "
            f"edge, found shape {list(logits.shape)}"
        )
    return softmax_over_edges(relation, logits, norm_by)


def _softmax_by_type(
    graph: GraphCore, logits: dict[Any, Tensor], norm_by: str
) -> dict[Any, Tensor]:
    """Normalises together what ends (or starts) in the same nodes."""
    end = 2 if norm_by == "dst" else 0
    groups: dict[str, list[Any]] = {}
    for key in logits:
        canonical = graph.to_canonical_etype(key)
        groups.setdefault(canonical[end], []).append((canonical, logits[key]))
    result: dict[Any, Tensor] = {}
    for members in groups.values():
        relations = [graph.relation(canonical) for canonical, _ in members]
        scores = [score for _, score in members]
        if len(members) == 1:
            result[members[0][0]] = _checked_softmax(relations[0], scores[0], norm_by)
            continue
        both = _joined(relations, norm_by)
        soft = _checked_softmax(both, torch.cat(scores), norm_by)
        parts = soft.split([relation.num_edges for relation in relations])
        result.update({canonical: part for (canonical, _), part in zip(members, parts)})
    return {c: result[c] for c in graph.canonical_etypes if c in result}


def _joined(relations: list[Relation], norm_by: str) -> Relation:
    """Returns the edges of all relations one after another; the other end's ids do not matter."""
    ends = torch.cat([r.coo()[1 if norm_by == "dst" else 0] for r in relations])
    size = relations[0].num_dst if norm_by == "dst" else relations[0].num_src
    other = torch.zeros_like(ends)
    if norm_by == "dst":
        return Relation.from_coo(other, ends, 1, size, check=False)
    return Relation.from_coo(ends, other, size, 1, check=False)

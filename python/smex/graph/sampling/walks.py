"""Random walks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.creation.random import draw_seed
from smex.graph.graph import Graph
from smex.graph.sampling.arguments import (
    check_count,
    check_graph,
    check_positive,
    checked,
    weights_of,
)
from smex.graph.words import CanonicalType, EdgeType, describe

__all__ = ["node2vec_random_walk", "pack_traces", "random_walk"]


def random_walk(
    g: Graph,
    nodes: Any,
    *,
    metapath: Sequence[EdgeType] | None = None,
    length: int | None = None,
    prob: Any = None,
    restart_prob: float | Tensor | None = None,
    return_eids: bool = False,
) -> tuple[Tensor, ...]:
    """Walks along random edges, one from each of some nodes.

    Args:
        g: the graph; no block, on the CPU.
        nodes: ids ``[num_walks]`` of the nodes to start from, of the type that the metapath starts
            from.
        metapath: the edge type of each step. By default the only one, `length` times.
        length: number of steps, where there is no metapath.
        prob: name of an edge feature with weights of at least 0, or a bool mask; an edge out of a
            node is drawn in proportion to it. Types of edges without the feature are drawn from
            uniformly.
        restart_prob: the probability that a walk ends after a step; or a tensor ``[length]`` with
            one for each step.
        return_eids: whether the ids of the edges are returned.

    Returns:
        ``traces [num_walks, length + 1]``: ids of the nodes, the first in column 0, and -1 after
        the end of a walk that ended early or came to a node without edges; with `return_eids`
        ``eids [num_walks, length]``; and ``types [length + 1]``, the node type id of each
        column. All have the graph's dtype of ids.

    Raises:
        SmexTypeError: ids are not integers, or the graph is a block.
        SmexValueError: a node does not exist, neither or both of `metapath` and `length` are given,
            a step of the metapath does not start where the one before ends, a weight that is looked
            at is negative, infinite or NaN, or a probability is not in [0, 1].

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2], [1, 2, 3]))
        >>> sg.sampling.random_walk(g, [0, 2], length=2)
        (tensor([[ 0,  1,  2],
                [ 2,  3, -1]]), tensor([0, 0, 0]))
    """
    op = "random_walk"
    check_graph(op, g)
    path = _path(op, g, metapath, length)
    start = path[0][0] if path else g.ntypes[0]
    seeds = g._node_ids(nodes, g._node_slot(start), op)
    restart = _restart(op, restart_prob, len(path))
    ids = [g.get_ntype_id(t) for t in [start, *(c[2] for c in path)]]
    types = torch.tensor(ids, dtype=g.idtype)
    used = list(dict.fromkeys(path)) or g.canonical_etypes[:1]
    forms = [g._relations[canonical].csr() for canonical in used]
    weights = weights_of(op, g, prob)
    traces, eids = checked(
        op,
        prob,
        ", ".join(map(str, used)),
        lambda: torch.ops.smex.random_walk(
            [form.indptr for form in forms],
            [form.indices for form in forms],
            [form.eids for form in forms],
            [weights[canonical] for canonical in used],
            [used.index(canonical) for canonical in path],
            seeds,
            restart,
            draw_seed(),
        ),
    )
    return (traces, eids, types) if return_eids else (traces, types)


def _path(
    op: str, g: Graph, metapath: Sequence[EdgeType] | None, length: int | None
) -> list[CanonicalType]:
    if (metapath is None) == (length is None):
        raise SmexValueError(f"{op}: expected either metapath or length, found both or none")
    if metapath is None:
        path = [g.to_canonical_etype(None)] * check_count(op, "length", length)
    else:
        path = [g.to_canonical_etype(etype) for etype in metapath]
    for step, (before, after) in enumerate(itertools.pairwise(path)):
        if before[2] != after[0]:
            raise SmexValueError(
                f"{op}: step {step + 1} must start from the type where the one before ends, "
                f'"{before[2]}", found {after}'
            )
    return path


def _restart(op: str, probability: float | Tensor | None, steps: int) -> Tensor | None:
    if probability is None:
        return None
    given = torch.as_tensor(probability, dtype=torch.float64).cpu().detach()
    if given.dim() == 0:
        given = given.reshape(1)
    elif given.shape != (steps,):
        raise SmexValueError(
            f"{op}: restart_prob must be a number or have one for each of {steps} steps, found "
            f"{describe(given)}"
        )
    if not bool(((given >= 0) & (given <= 1)).all()):
        raise SmexValueError(f"{op}: restart_prob must be in [0, 1], found {given.tolist()}")
    return given


def node2vec_random_walk(
    g: Graph,
    nodes: Any,
    p: float,
    q: float,
    walk_length: int,
    prob: Any = None,
    return_eids: bool = False,
) -> Any:
    """Walks of node2vec (Grover and Leskovec 2016, §3.2), one from each of some nodes.

    From the second step on, an edge counts by ``1 / p`` if it leads back to the node before, by 1
    if its end has an edge to the node before, and by ``1 / q`` otherwise.

    Args:
        g: a graph of one edge type, from a node type to itself; on the CPU.
        nodes: ids ``[num_walks]`` of the nodes to start from.
        p: return parameter, above 0.
        q: in-out parameter, above 0.
        walk_length: number of steps.
        prob: as for :func:`random_walk`; multiplied with the above.
        return_eids: whether the ids of the edges are returned.

    Returns:
        ``traces [num_walks, walk_length + 1]``, and with `return_eids` ``eids [num_walks,
        walk_length]``, as :func:`random_walk` returns them.

    Raises:
        SmexTypeError: as for :func:`random_walk`.
        SmexValueError: as for :func:`random_walk`; the graph has several types, or a parameter is
            not above 0.

    Example:
        >>> import smex.graph as sg
        >>> g = sg.graph(([0, 1, 2], [1, 2, 0]))
        >>> sg.sampling.node2vec_random_walk(g, [0, 1], 1.0, 2.0, walk_length=3)
        tensor([[0, 1, 2, 0],
                [1, 2, 0, 1]])
    """
    op = "node2vec_random_walk"
    check_graph(op, g)
    check_positive(op, "p", p)
    check_positive(op, "q", q)
    walk_length = check_count(op, "walk_length", walk_length)
    canonical = g.to_canonical_etype(None)
    if canonical[0] != canonical[2]:
        raise SmexValueError(
            f'{op}: expected edges from a node type to itself, found "{canonical[0]}" to '
            f'"{canonical[2]}"'
        )
    relation = g._relations[canonical]
    seeds = g._node_ids(nodes, g._node_slot(canonical[0]), op)
    ordered = relation.sorted_csr()
    weights = weights_of(op, g, prob)[canonical]
    traces, eids = checked(
        op,
        prob,
        canonical,
        lambda: torch.ops.smex.node2vec_walk(
            *relation.csr(),
            weights,
            ordered.indptr,
            ordered.indices,
            seeds,
            walk_length,
            float(p),
            float(q),
            draw_seed(),
        ),
    )
    return (traces, eids) if return_eids else traces


def pack_traces(traces: Tensor, types: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Walks one after another, without the -1 after their ends.

    Args:
        traces: ``[num_walks, length + 1]`` as :func:`random_walk` returns them.
        types: ``[length + 1]`` node type ids.

    Returns:
        ``nodes [total]`` and ``node types [total]`` of all walks, ``lengths [num_walks]``, and
        ``offsets [num_walks]``, where each walk starts; types as they were
        given, lengths and offsets int64.

    Raises:
        SmexTypeError: an argument is no tensor of integers.
        SmexValueError: the shapes do not fit together.

    Example:
        >>> import smex.graph as sg
        >>> traces = torch.tensor([[0, 1, 2], [2, 3, -1]])
        >>> sg.sampling.pack_traces(traces, torch.tensor([0, 0, 0]))
        (tensor([0, 1, 2, 2, 3]), tensor([0, 0, 0, 0, 0]), tensor([3, 2]), tensor([0, 3]))
    """
    for name, value in (("traces", traces), ("types", types)):
        if not isinstance(value, Tensor) or value.dtype not in (torch.int32, torch.int64):
            raise SmexTypeError(
                f"pack_traces: {name} must be a tensor of int32 or int64, found {describe(value)}"
            )
    if traces.dim() != 2 or types.shape != traces.shape[1:]:
        raise SmexValueError(
            "pack_traces: expected traces [num_walks, n] and types [n], found shapes "
            f"{list(traces.shape)} and {list(types.shape)}"
        )
    there = traces >= 0
    lengths = there.sum(1)
    offsets = torch.cumsum(lengths, 0) - lengths
    return traces[there], types.expand_as(traces)[there], lengths, offsets

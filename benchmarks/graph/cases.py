"""The shapes of each operation's inputs, and the bytes that it has to move."""

from __future__ import annotations

import pathlib
import sys
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))

from graphs import EdgeList
from systems.base import Case

REDUCTIONS = ("sum", "mean", "max", "min")
WIDTH_SIZED = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}


class Bounds(NamedTuple):
    """Bytes that an operation reads and writes.

    Attributes:
        compulsory: every operand, index and result once.
        gather: no reuse, so each edge reads the features of its source; a destination's features
            are read or written once, as they are by a loop over destinations.
    """

    compulsory: int
    gather: int


def shapes(case: Case, edges: EdgeList) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs by role, in the order of the operation's arguments, "out" the last."""
    nodes, heads = edges.num_nodes, case.heads
    split = (heads, case.width // heads) if heads else (case.width,)
    node, edge = (nodes, *split), (edges.num_edges, *((heads, 1) if heads else (1,)))
    wide_edge = (edges.num_edges, *split)
    if case.op == "gat_layer":
        weight = {"weight": (case.width, case.width), "left": (1, *split), "right": (1, *split)}
        return {"x": (nodes, case.width), **weight, "out": (nodes, case.width)}
    if case.op == "gcn_layer":
        weight = {"weight": (case.width, case.width), "bias": (case.width,)}
        return {"x": (nodes, case.width), **weight, "out": (nodes, case.width)}
    if case.op.startswith("call_"):
        square, ends = (case.width, case.width), {"left": (1, *split), "right": (1, *split)}
        others = {"call_sage": {"own": square}, "call_gat": ends}.get(case.op, {})
        x = {"x": (nodes, case.width), "weight": square, **others}
        return {**x, "bias": (case.width,), "out": (nodes, case.width)}
    if case.op == "net":
        return {"input": (nodes, case.width), "out": (nodes, case.width)}
    if case.op.startswith("train_"):
        return _model_shapes(case, nodes)
    if case.op.startswith("sampled_"):
        return {"order": (nodes,)}
    if case.op in ("to_csc", "memory_copy"):
        return {}
    if case.op == "edge_softmax":
        return {"e": edge, "out": edge}
    if case.op == "u_dot_v":
        return {"u": node, "v": node, "out": edge}
    if case.op == "u_add_v":
        return {"u": node, "v": node, "out": wide_edge}
    if case.op == "copy_e_sum":
        return {"e": wide_edge, "out": node}
    if "u_mul_e" in case.op:
        return {"u": node, "e": edge, "out": node}
    return {"u": node, "v": node, "out": node} if "gated" in case.op else {"u": node, "out": node}


def _model_shapes(case: Case, nodes: int) -> dict[str, tuple[int, ...]]:
    """Features, labels and the parameters of two layers, matrices as `nn.Linear` has them."""
    found: dict[str, tuple[int, ...]] = {
        "x": (nodes, case.features),
        "labels": (nodes, case.classes),
    }
    sizes = [(case.features, case.width, max(1, case.heads)), (case.width, case.classes, 1)]
    for number, (wide, out, heads) in enumerate(sizes, 1):
        found[f"weight{number}"] = (out, wide)
        if case.op == "train_sage":
            found[f"own{number}"] = (out, wide)
        if case.op == "train_gat":
            found[f"left{number}"] = found[f"right{number}"] = (1, heads, out // heads)
        found[f"bias{number}"] = (out,)
    return found


def bounds(case: Case, edges: EdgeList, id_bytes: int) -> Bounds | None:
    """Bytes of an operator; None for a layer. A backward pass adds the bytes of its products."""
    if case.op == "to_csc":  # reads both ends; writes sources, edge ids and the row pointer
        return Bounds(*[(4 * edges.num_edges + edges.num_nodes + 1) * id_bytes] * 2)
    size = WIDTH_SIZED[case.dtype]
    node = edges.num_nodes * case.width * size
    gathered = edges.num_edges * case.width * size
    scalars = edges.num_edges * max(1, case.heads) * size
    indices = (edges.num_nodes + 1 + edges.num_edges) * id_bytes
    eids = edges.num_edges * id_bytes
    spmm = Bounds(2 * node + indices, gathered + node + indices)
    sddmm = Bounds(2 * node + indices + eids + scalars, gathered + node + indices + eids + scalars)
    scatter = Bounds(gathered + node + indices + eids, gathered + node + indices + eids)
    weighted = Bounds(*(bytes_ + scalars + eids for bytes_ in spmm))
    softmax = Bounds(*[2 * scalars + eids + edges.num_nodes * id_bytes] * 2)
    softmax_backward = Bounds(*(bytes_ + scalars for bytes_ in softmax))
    add = Bounds(2 * node + gathered + indices + eids, 2 * gathered + node + indices + eids)
    parts = {
        "copy_u": ([spmm], [spmm]),
        "copy_e": ([scatter], [scatter]),
        "u_mul_e": ([weighted], [weighted, sddmm]),
        "edge_softmax": ([softmax], [softmax_backward]),
        "u_dot_v": ([sddmm], [weighted, weighted]),
        "u_add_v": ([add], [scatter, scatter]),
    }
    stem, _, reduce = case.op.rpartition("_")
    found = parts.get(stem if reduce in REDUCTIONS else case.op)
    if found is None:
        return None
    chosen = found[0] + (found[1] if case.backward else [])
    return Bounds(*(sum(part) for part in zip(*chosen)))

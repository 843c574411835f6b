"""Gives a graph the methods that are functions of this package: one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from smex.graph.creation.dgl_pickles import set_state
from smex.graph.creation.networkx_io import to_networkx
from smex.graph.creation.shared import shared_memory
from smex.graph.graph import Graph
from smex.graph.parts.derived import line_graph
from smex.graph.parts.subgraph import (
    edge_subgraph,
    in_subgraph,
    khop_in_subgraph,
    khop_out_subgraph,
    node_subgraph,
    out_subgraph,
)
from smex.graph.sampling.biased import sample_neighbors_biased
from smex.graph.sampling.fused import sample_neighbors_fused
from smex.graph.sampling.labor import sample_labors
from smex.graph.sampling.negative import global_uniform_negative_sampling
from smex.graph.sampling.neighbor import sample_etype_neighbors, sample_neighbors, select_topk
from smex.graph.sparse.adjacency import adj
from smex.graph.transforms.edits import add_self_loop, remove_self_loop, reverse, to_simple
from smex.graph.transforms.reorder import reorder_graph

METHODS: Mapping[str, Callable[..., Any]] = {
    "add_self_loop": add_self_loop,
    "adj": adj,
    "adjacency_matrix": adj,
    "edge_subgraph": edge_subgraph,
    "global_uniform_negative_sampling": global_uniform_negative_sampling,
    "in_subgraph": in_subgraph,
    "khop_in_subgraph": khop_in_subgraph,
    "khop_out_subgraph": khop_out_subgraph,
    "line_graph": line_graph,
    "out_subgraph": out_subgraph,
    "remove_self_loop": remove_self_loop,
    "reorder_graph": reorder_graph,
    "reverse": reverse,
    "sample_etype_neighbors": sample_etype_neighbors,
    "sample_labors": sample_labors,
    "sample_neighbors": sample_neighbors,
    "sample_neighbors_biased": sample_neighbors_biased,
    "sample_neighbors_fused": sample_neighbors_fused,
    "select_topk": select_topk,
    "shared_memory": shared_memory,
    "subgraph": node_subgraph,
    "to_networkx": to_networkx,
    "to_simple": to_simple,
}
"""The functions by the names of the methods; their first argument is the graph."""


def bind() -> None:
    """Gives :class:`Graph` the methods that :class:`FunctionMethods` declares, and unpickling."""
    Graph.__setstate__ = set_state  # type: ignore[attr-defined]
    for name, function in METHODS.items():
        setattr(Graph, name, function)

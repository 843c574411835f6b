"""Features that a loader gathers when a batch is wanted, marked by names in samplers."""

from __future__ import annotations

from typing import Any

from smex.graph.dataloading.base import prefetch_edge_features, prefetch_node_features
from smex.graph.graph import Graph

__all__ = [
    "set_dst_lazy_features",
    "set_edge_lazy_features",
    "set_node_lazy_features",
    "set_src_lazy_features",
]


def set_node_lazy_features(g: Graph, feature_names: Any) -> None:
    """Marks node features of a sampled graph, which the loader gathers on its way to the device.

    Args:
        g: what a sampler returns; it has the features of the graph that it was sampled from.
        feature_names: a list of names, or with several node types a dict from type to these.

    Raises:
        SmexTypeError: no list of names, or a type does not exist.
        MissingFeatureError: there is no such feature.

    Example:
        >>> g = sg.graph(([0, 1], [1, 2]))
        >>> g.ndata["h"] = torch.arange(3.0)
        >>> part = sg.node_subgraph(g, [1, 2])
        >>> sg.dataloading.set_node_lazy_features(part, ["h"])
        >>> part.ndata["h"]
        tensor([1., 2.])
    """
    prefetch_node_features(g, feature_names)


def set_src_lazy_features(g: Graph, feature_names: Any) -> None:
    """As :func:`set_node_lazy_features`, of the sources of a block."""
    prefetch_node_features(g, feature_names, "src")


def set_dst_lazy_features(g: Graph, feature_names: Any) -> None:
    """As :func:`set_node_lazy_features`, of the destinations of a block."""
    prefetch_node_features(g, feature_names, "dst")


def set_edge_lazy_features(g: Graph, feature_names: Any) -> None:
    """As :func:`set_node_lazy_features`, of edges."""
    prefetch_edge_features(g, feature_names)

"""Features that a loader gathers when a batch is wanted, marked by names in samplers."""

from __future__ import annotations

from typing import Any

from smex.graph.constants import EID, NID
from smex.graph.dataloading.base import prefetch_edge_features, prefetch_node_features
from smex.graph.features.frame import Frame
from smex.graph.graph import Graph

__all__ = [
    "gather_lazy_features",
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


def gather_lazy_features(part: Graph, g: Graph) -> None:
    """Replaces each :class:`LazyFeature` of a sampled graph by rows of `g`, yet to be read.

    Raises:
        SmexValueError: `g` has no such feature, or the sampled graph no ids.
    """
    sides = [part._src_frames, part._dst_frames] if part.is_block else [part._src_frames]
    for side in sides:
        for ntype, frame in side.items():
            _gather(frame, NID, {**g._dst_frames, **g._src_frames}.get(ntype))
    for canonical, frame in part._edge_frames.items():
        _gather(frame, EID, g._edge_frames.get(canonical))


def _gather(frame: Frame, ids: str, source: Frame | None) -> None:
    columns = Frame(0) if source is None else source
    frame.gather_lazy(frame.get(ids), columns)

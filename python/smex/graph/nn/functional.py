"""Functions that belong to layers."""

from smex.graph.ops.edge_softmax import edge_softmax

__all__ = ["edge_softmax"]

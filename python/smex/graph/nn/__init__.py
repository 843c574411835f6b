"""Layers of graph neural networks, with DGL's names and arguments."""

from smex.graph.nn import functional as functional
from smex.graph.nn import pytorch as pytorch
from smex.graph.nn.layers import *  # noqa: F403
from smex.graph.nn.layers import __all__ as __all__
from smex.graph.ops import edge_softmax as edge_softmax
from smex.graph.transforms import knn_graph as knn_graph
from smex.graph.transforms import radius_graph as radius_graph
from smex.graph.transforms import segmented_knn_graph as segmented_knn_graph

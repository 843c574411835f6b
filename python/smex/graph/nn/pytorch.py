"""The layers of :mod:`smex.graph.nn` by the names that programs written for DGL import.

DGL divides them among modules, ``dgl.nn.pytorch.conv``, ``dgl.nn.pytorch.glob`` and so on; here
each of these names is this module.
"""

import sys

from torch.nn import Identity as Identity

from smex.graph.nn import layers
from smex.graph.nn.layers import *  # noqa: F403
from smex.graph.ops import edge_softmax as edge_softmax
from smex.graph.transforms import knn_graph as knn_graph
from smex.graph.transforms import radius_graph as radius_graph
from smex.graph.transforms import segmented_knn_graph as segmented_knn_graph

_MODULES = (
    "conv",
    "explain",
    "factory",
    "glob",
    "gt",
    "hetero",
    "linear",
    "link",
    "network_emb",
    "softmax",
    "utils",
)

__all__ = [
    *layers.__all__,
    "edge_softmax",
    "knn_graph",
    "radius_graph",
    "segmented_knn_graph",
]

__path__: list[str] = []  # it has modules, so that their names can be imported

for _name in _MODULES:
    # An import looks here first, and for attributes of the parent afterwards.
    sys.modules[f"{__name__}.{_name}"] = globals()[_name] = sys.modules[__name__]

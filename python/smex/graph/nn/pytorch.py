"""The layers of :mod:`smex.graph.nn` by the name that programs written for DGL import."""

from smex.graph import nn
from smex.graph.nn import *  # noqa: F403

__all__ = nn.__all__

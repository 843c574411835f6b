"""The base class of errors, which is that of :mod:`smex.graph.base`."""

from smex.graph.constants import DGLError

__all__ = ["DGLError"]

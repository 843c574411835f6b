"""The edges of a graph: sorted by source or destination, looked up, cut out, renumbered."""

from smex.graph.structure.formats import Compressed, Structure

__all__ = ["Compressed", "Structure"]

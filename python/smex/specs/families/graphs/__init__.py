"""Messages along the edges of graphs."""

from smex.specs.families.graphs import messages

__all__ = ["messages"]

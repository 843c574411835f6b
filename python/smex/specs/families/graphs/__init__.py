"""Messages along the edges of graphs."""

from smex.specs.families.graphs import messages, typed

__all__ = ["messages", "typed"]

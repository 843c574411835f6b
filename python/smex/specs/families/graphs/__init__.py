"""Messages along the edges of graphs."""

from smex.specs.families.graphs import messages, typed, winners

__all__ = ["messages", "typed", "winners"]

"""Message passing in topological order as a vertex function of :mod:`smex.vertex`."""

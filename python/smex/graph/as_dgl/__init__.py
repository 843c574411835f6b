"""The folder that has a package called dgl; see :mod:`smex.graph.alias`."""

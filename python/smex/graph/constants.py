"""Names that programs written for DGL use: reserved feature names, and the base of all errors."""

from __future__ import annotations

from smex.errors import SmexError

ALL = "__ALL__"
"""All nodes, edges or features, where some of them could be named."""

NID = "_ID"
"""Node feature that holds the node ids of the graph from which a graph was made."""

EID = "_ID"
"""Edge feature that holds the edge ids of the graph from which a graph was made."""

NTYPE = "_TYPE"
"""Node feature that holds node type ids, see :func:`smex.graph.to_homogeneous`."""

ETYPE = "_TYPE"
"""Edge feature that holds edge type ids, see :func:`smex.graph.to_homogeneous`."""

DEFAULT_NTYPE = "_N"
"""Node type of a graph whose types have no names."""

DEFAULT_ETYPE = (DEFAULT_NTYPE, "_E", DEFAULT_NTYPE)
"""Edge type of a graph whose types have no names."""

DGLError = SmexError
"""What ``except dgl.DGLError`` catches: the errors that SMEX raises on purpose, but for those of
operators, such as shapes that do not broadcast, which are plain ``ValueError`` or ``TypeError``."""

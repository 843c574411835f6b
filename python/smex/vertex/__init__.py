"""Networks whose structure differs from sample to sample, at the speed of a static one (Cavs).

A :class:`VertexFunction` says what one vertex computes from its children; an input graph says, for
each sample, which vertices there are. :func:`run` evaluates the function on all vertices of a
mini-batch, as few large batched calls.
"""

from smex.vertex.cells import lstm, tree_lstm
from smex.vertex.function import State, VertexFunction
from smex.vertex.graphs import (
    GraphBatch,
    InputGraph,
    batch,
    chain,
    from_children,
    from_graph,
    from_parents,
    tree,
)
from smex.vertex.options import Options, options
from smex.vertex.run import Result, Values, run

__all__ = [
    "GraphBatch",
    "InputGraph",
    "Options",
    "Result",
    "State",
    "Values",
    "VertexFunction",
    "batch",
    "chain",
    "from_children",
    "from_graph",
    "from_parents",
    "lstm",
    "options",
    "run",
    "tree",
    "tree_lstm",
]

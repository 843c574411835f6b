"""Networks whose structure differs from sample to sample, at the speed of a static one (Cavs).

A :class:`VertexFunction` says what one vertex computes from its children; an input graph says, for
each sample, which vertices there are. :func:`run` evaluates the function on all vertices of a
mini-batch, as few large batched calls.

``words`` has what users say, ``compile`` makes one program for many vertices of it, ``execution``
schedules and runs that on batches.
"""

from smex._module_names import also_named as _also_named
from smex.vertex.execution.run import Result, Values, run
from smex.vertex.words.cells import lstm, tree_lstm
from smex.vertex.words.function import State, VertexFunction
from smex.vertex.words.graphs import (
    GraphBatch,
    InputGraph,
    batch,
    chain,
    from_children,
    from_graph,
    from_parents,
    tree,
)
from smex.vertex.words.options import Options, options

# Names that pickled objects have of modules, and programs before there were folders.
_also_named(
    __name__,
    {
        "cells": "words.cells",
        "function": "words.function",
        "graphs": "words.graphs",
        "program": "compile.program",
        "run": "execution.run",
        "schedule": "execution.schedule",
        "trace": "compile.trace",
    },
)

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

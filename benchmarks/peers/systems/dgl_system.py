"""DGL: `dgl.ops` for operators, its own interface for the rest."""

from __future__ import annotations

import dgl
from edge_list import Edges
from systems.base import Case, Operator
from systems.dgl_api import DglApi


class Dgl(DglApi):
    """`dgl.ops`; extremes give ∓inf where a node has no in-edges."""

    name = "dgl"

    def __init__(self) -> None:
        super().__init__(dgl)

    def operator(self, case: Case, edges: Edges) -> Operator:
        plain = getattr(dgl.ops, case.op, None)
        if plain is None:
            return super().operator(case, edges)
        g = self.graph(edges)
        return Operator(lambda **inputs: plain(g, *inputs.values()))


def set_num_threads(threads: int) -> None:
    dgl.utils.set_num_threads(threads)


SYSTEMS = (Dgl,)
VERSIONS = {"dgl": dgl.__version__}

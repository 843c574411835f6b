"""smex.graph: its `smex::` operators, and DGL's interface for layers and the rest."""

from __future__ import annotations

import importlib

import torch
from edge_list import Compressed, Edges
from systems import models
from systems.base import Case, Operator, Unsupported, in_csc_order
from systems.dgl_api import DglApi
from torch import Tensor

import smex

MESSAGES = {"copy_u": "u0", "copy_e": "e0", "u_mul_e": "u0 * e1"}


def _tensors(structure: Compressed) -> list[Tensor]:
    return [tensor.contiguous() for tensor in structure]


class Smex(DglApi):
    """`torch.ops.smex` over the sorted forms of a graph."""

    name = "smex"

    def __init__(self) -> None:
        super().__init__(None)  # the package is imported by the first operation that wants it

    def operator(self, case: Case, edges: Edges) -> Operator:
        if not hasattr(self, f"op_{case.op}"):
            message, _, reduce = case.op.rpartition("_")
            if message in MESSAGES:
                return self._reduced(edges, MESSAGES[message], reduce)
        elif self.module is None and hasattr(DglApi, f"op_{case.op}"):
            self.module = self._package()
        return super().operator(case, edges)

    def _package(self):
        try:
            return importlib.import_module("smex.graph")
        except ImportError as error:
            raise Unsupported(f"smex.graph: {error}") from None

    def _native(self, name: str):
        if not hasattr(torch.ops.smex, name):
            raise Unsupported(f"torch.ops.smex.{name} is not built")
        return getattr(torch.ops.smex, name)

    def _structure(self, edges: Edges) -> tuple[list[Tensor], list[Tensor]]:
        return _tensors(edges.csc(by_id=True)), _tensors(edges.csr(by_id=True))

    def _reduced(self, edges: Edges, message: str, reduce: str) -> Operator:
        into, out = self._structure(edges)
        if reduce in ("sum", "mean"):
            spmm = self._native("spmm")
            return Operator(lambda **inputs: spmm(into, out, message, reduce, [*inputs.values()]))
        extremum = self._native("spmm_extremum")

        def function(**inputs: Tensor) -> Tensor:
            # As smex.graph calls it: with gradients the operator keeps the winners by itself.
            operands, zero_empty, need_winner = [*inputs.values()], True, False
            return extremum(into, out, message, reduce, operands, zero_empty, need_winner)[0]

        return Operator(function)

    def _per_edge(self, edges: Edges, message: str) -> Operator:
        sddmm, (into, out) = self._native("sddmm"), self._structure(edges)
        return Operator(lambda **inputs: sddmm(into, out, message, [*inputs.values()]))

    def op_u_dot_v(self, case: Case, edges: Edges) -> Operator:
        return self._per_edge(edges, "dot(u0, v1)")

    def op_u_add_v(self, case: Case, edges: Edges) -> Operator:
        return self._per_edge(edges, "u0 + v1")

    def op_net(self, case: Case, edges: Edges) -> Operator:
        rows = torch.zeros(edges.num_nodes, case.width, requires_grad=case.backward)
        return Operator(smex.partition(models.small_net(case.width), workers=1, args=(rows,)))

    def op_edge_softmax(self, case: Case, edges: Edges) -> Operator:
        softmax, (into, _) = self._native("edge_softmax"), self._structure(edges)
        return Operator(lambda e: softmax(into, e))


class SmexSorted(Smex):
    """As above with edges numbered in the order of destinations (`sg.reorder_graph`)."""

    name = "smex sorted"

    def operator(self, case: Case, edges: Edges) -> Operator:
        if case.op not in ("u_mul_e_sum", "copy_e_sum", "edge_softmax", "u_dot_v", "u_add_v"):
            raise Unsupported("the order of edges makes no difference")
        found = super().operator(case, edges)
        layout = in_csc_order(edges, edge_output=case.op in ("edge_softmax", "u_dot_v", "u_add_v"))
        return Operator(found.function, **layout)

    def _structure(self, edges: Edges) -> tuple[list[Tensor], list[Tensor]]:
        """Positions are edge ids; of the transpose they are the places by destination."""
        rows, back = edges.csc(), edges.csr()
        position = torch.empty_like(rows.eids)
        position[rows.eids.long()] = torch.arange(
            edges.num_edges, dtype=position.dtype, device=position.device
        )
        back = back._replace(eids=position[back.eids.long()])
        return _tensors(rows)[:2], _tensors(back)


SYSTEMS = (Smex, SmexSorted)
VERSIONS = {"smex": smex.__version__}

"""Plain torch over CSR matrices whose rows are the destinations."""

from __future__ import annotations

import torch
from edge_list import Compressed, Edges
from systems.base import Case, Operator, System, Unsupported, in_csc_order
from systems.scatter import gcn_norm
from torch import Tensor


def matrix(rows: Compressed, values: Tensor, columns: int) -> Tensor:
    shape = (rows.indptr.numel() - 1, columns)
    return torch.sparse_csr_tensor(rows.indptr, rows.indices, values, shape, check_invariants=False)


class _Product(torch.autograd.Function):
    """`A @ x` with the transpose of a constant A made before."""

    @staticmethod
    def forward(ctx, x: Tensor, a: Tensor, transposed: Tensor) -> Tensor:
        ctx.transposed = transposed
        return torch.mm(a, x)

    @staticmethod
    def backward(ctx, grad: Tensor):
        return torch.mm(ctx.transposed, grad), None, None


class _WeightedProduct(torch.autograd.Function):
    """Per head h, `A(e[h]) @ u[h]`; the transpose's structure and its edge order are made before.

    u is `[H, V, D]`, e is `[H, E]`; the weights' gradient is a sampled product.
    """

    @staticmethod
    def forward(ctx, u: Tensor, e: Tensor, rows: Compressed, back: Compressed) -> Tensor:
        ctx.save_for_backward(u, e)
        ctx.rows, ctx.back = rows, back
        return torch.stack([torch.mm(matrix(rows, w, len(x)), x) for x, w in zip(u, e)])

    @staticmethod
    def backward(ctx, grad: Tensor):
        u, e = ctx.saved_tensors
        rows, back, nodes = ctx.rows, ctx.back, u.shape[1]
        grad_u = [torch.mm(matrix(back, w[back.eids], nodes), g) for g, w in zip(grad, e)]
        zeros = torch.zeros_like(e[0])
        grad_e = [
            torch.sparse.sampled_addmm(matrix(rows, zeros, nodes), g, x.t(), beta=0.0).values()
            for g, x in zip(grad, u)
        ]
        return torch.stack(grad_u), torch.stack(grad_e), None, None


class TorchCsr(System):
    """`torch.sparse.mm`; a mean has 1/degree for values, heads are one product each."""

    name = "torch csr"

    def _product(self, edges: Edges, key: str, values: Tensor) -> Operator:
        """A product with constant values `[E]`, given in edge-id order."""

        def make() -> tuple[Tensor, Tensor]:
            pair = (edges.csc(), edges.csr())
            return tuple(matrix(c, values[c.eids.long()], edges.num_nodes) for c in pair)

        a, transposed = edges.keep(("csr", key, values.dtype), make)
        return Operator(lambda u: _Product.apply(u, a, transposed))

    def op_copy_u_sum(self, case: Case, edges: Edges) -> Operator:
        dtype = getattr(torch, case.dtype)
        ones = torch.ones(edges.num_edges, dtype=dtype, device=edges.src.device)
        return self._product(edges, "ones", ones)

    def op_copy_u_mean(self, case: Case, edges: Edges) -> Operator:
        values = 1 / edges.in_degrees()[edges.dst.long()].to(getattr(torch, case.dtype))
        return self._product(edges, "mean", values)

    def op_copy_e_sum(self, case: Case, edges: Edges) -> Operator:
        """A product with the incidence matrix of destinations and edges."""
        rows, dtype = edges.csc(), getattr(torch, case.dtype)
        order = torch.arange(edges.num_edges, dtype=rows.indices.dtype, device=rows.indices.device)
        ones = torch.ones(edges.num_edges, dtype=dtype, device=order.device)
        a = matrix(Compressed(rows.indptr, order, order), ones, edges.num_edges)
        dst = edges.sorted_edges()[1]

        class Incidence(torch.autograd.Function):
            @staticmethod
            def forward(ctx, e: Tensor) -> Tensor:
                return torch.mm(a, e)

            @staticmethod
            def backward(ctx, grad: Tensor) -> Tensor:
                return grad.index_select(0, dst)

        return Operator(lambda e: Incidence.apply(e), **in_csc_order(edges))

    def op_u_mul_e_sum(self, case: Case, edges: Edges) -> Operator:
        rows, back = edges.csc(), self._transpose_in_csc_order(edges)
        eids, heads = rows.eids.long(), max(1, case.heads)

        def split(tensor: Tensor) -> Tensor:  # [V, H, D] -> [H, V, D]
            return tensor.view(len(tensor), heads, -1).transpose(0, 1).contiguous()

        def join(tensor: Tensor) -> Tensor:
            joined = tensor.transpose(0, 1)
            return joined.contiguous() if case.heads else joined.flatten(1)

        def split_edges(tensor: Tensor) -> Tensor:  # [E, H, 1] -> [H, E] in CSC order
            return tensor.view(len(tensor), heads)[eids].t().contiguous()

        def join_edges(tensor: Tensor) -> Tensor:
            joined = torch.empty_like(tensor.t()).index_copy_(0, eids, tensor.t())
            return joined.unsqueeze(-1) if case.heads else joined

        return Operator(
            lambda u, e: _WeightedProduct.apply(u, e, rows, back),
            enter={"u": split, "out": split, "e": split_edges},
            leave={"u": join, "out": join, "e": join_edges},
        )

    def _transpose_in_csc_order(self, edges: Edges) -> Compressed:
        """The CSR form with, for eids, the positions of its edges in CSC order."""

        def make() -> Compressed:
            rows, back = edges.csc(), edges.csr()
            position = torch.empty_like(rows.eids)
            ids = rows.eids.long()
            position[ids] = torch.arange(len(ids), dtype=ids.dtype).to(position)
            return back._replace(eids=position[back.eids.long()].long())

        return edges.keep("transpose in csc order", make)

    def op_u_dot_v(self, case: Case, edges: Edges) -> Operator:
        if case.heads or case.backward:
            raise Unsupported("sampled_addmm has one head and is measured forward only")
        rows = edges.csc()
        zeros = torch.zeros(edges.num_edges, dtype=getattr(torch, case.dtype)).to(
            rows.indptr.device
        )
        a = matrix(rows, zeros, edges.num_nodes)

        def function(u: Tensor, v: Tensor) -> Tensor:
            return torch.sparse.sampled_addmm(a, v, u.t(), beta=0.0).values().unsqueeze(1)

        return Operator(function, **in_csc_order(edges, edge_output=True))

    def op_gcn_layer(self, case: Case, edges: Edges) -> Operator:
        product = self._product(edges, "gcn", gcn_norm(edges)).function
        return Operator(lambda x, weight, bias: product(u=x @ weight.t()) + bias)


class TorchReduce(System):
    """`torch.sparse.mm(a, x, reduce)`, on CPUs."""

    name = "torch reduce"

    def _reduced(self, case: Case, edges: Edges, reduce: str) -> Operator:
        if edges.src.device.type != "cpu":
            raise Unsupported("torch.sparse.mm with reduce is for CPUs")
        ones = torch.ones(edges.num_edges, dtype=getattr(torch, case.dtype))
        a = matrix(edges.csc(), ones, edges.num_nodes)
        return Operator(lambda u: torch.sparse.mm(a, u, reduce))

    def op_copy_u_sum(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(case, edges, "sum")

    def op_copy_u_mean(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(case, edges, "mean")

    def op_copy_u_max(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(case, edges, "amax")

    def op_copy_u_min(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(case, edges, "amin")

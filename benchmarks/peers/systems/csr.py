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


class _SampledProduct(torch.autograd.Function):
    """Per head, the products of the rows of u and v at the edges, `[H, E]`."""

    @staticmethod
    def forward(ctx, u: Tensor, v: Tensor, rows: Compressed, back: Compressed) -> Tensor:
        ctx.save_for_backward(u, v)
        ctx.rows, ctx.back = rows, back
        a = matrix(rows, u.new_zeros(rows.indices.numel()), u.shape[1])
        products = [torch.sparse.sampled_addmm(a, y, x.t(), beta=0.0) for x, y in zip(u, v)]
        return torch.stack([product.values() for product in products])

    @staticmethod
    def backward(ctx, grad: Tensor):
        u, v = ctx.saved_tensors
        rows, back, nodes = ctx.rows, ctx.back, u.shape[1]
        grad_u = [torch.mm(matrix(back, g[back.eids], nodes), y) for g, y in zip(grad, v)]
        grad_v = [torch.mm(matrix(rows, g, nodes), x) for g, x in zip(grad, u)]
        return torch.stack(grad_u), torch.stack(grad_v), None, None


class _PerHead:
    """Features with the head first, contiguous; edge scalars in CSC order too."""

    def __init__(self, case: Case, eids: Tensor) -> None:
        self.split_heads, self.heads, self.eids = bool(case.heads), max(1, case.heads), eids

    def split(self, tensor: Tensor) -> Tensor:
        """`[V, H, D]` to `[H, V, D]`."""
        return tensor.view(len(tensor), self.heads, -1).transpose(0, 1).contiguous()

    def join(self, tensor: Tensor) -> Tensor:
        joined = tensor.transpose(0, 1)
        return joined.contiguous() if self.split_heads else joined.flatten(1)

    def split_edges(self, tensor: Tensor) -> Tensor:
        """`[E, H, 1]` to `[H, E]`."""
        return tensor.view(len(tensor), self.heads)[self.eids].t().contiguous()

    def join_edges(self, tensor: Tensor) -> Tensor:
        joined = torch.empty_like(tensor.t()).index_copy_(0, self.eids, tensor.t())
        return joined.unsqueeze(-1) if self.split_heads else joined


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
        layout = _PerHead(case, rows.eids.long())
        return Operator(
            lambda u, e: _WeightedProduct.apply(u, e, rows, back),
            enter={"u": layout.split, "out": layout.split, "e": layout.split_edges},
            leave={"u": layout.join, "out": layout.join, "e": layout.join_edges},
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
        rows, back = edges.csc(), self._transpose_in_csc_order(edges)
        layout = _PerHead(case, rows.eids.long())
        return Operator(
            lambda u, v: _SampledProduct.apply(u, v, rows, back),
            enter={"u": layout.split, "v": layout.split, "out": layout.split_edges},
            leave={"u": layout.join, "v": layout.join, "out": layout.join_edges},
        )

    def op_gcn_layer(self, case: Case, edges: Edges) -> Operator:
        product = self._product(edges, "gcn", gcn_norm(edges)).function
        return Operator(lambda x, weight, bias: product(u=x @ weight.t()) + bias)


class TorchReduce(System):
    """`torch.sparse.mm(a, x, reduce)`, on CPUs.

    Gradients are asked with int64 ids: those of a mean came out wrong with int32 (torch 2.15).
    """

    name = "torch reduce"

    def _reduced(self, case: Case, edges: Edges, reduce: str) -> Operator:
        if edges.src.device.type != "cpu":
            raise Unsupported("torch.sparse.mm with reduce is for CPUs")
        ones = torch.ones(edges.num_edges, dtype=getattr(torch, case.dtype))
        rows = edges.csc().long() if case.backward else edges.csc()
        a = matrix(rows, ones, edges.num_nodes)
        return Operator(lambda u: torch.sparse.mm(a, u, reduce))

    def op_copy_u_sum(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(case, edges, "sum")

    def op_copy_u_mean(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(case, edges, "mean")

    def op_copy_u_max(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(case, edges, "amax")

    def op_copy_u_min(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(case, edges, "amin")

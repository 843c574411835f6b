"""Plain torch over an edge list sorted by destination: index_select, arithmetic, scatter."""

from __future__ import annotations

import torch
from edge_list import Edges
from systems import models
from systems.base import Case, Operator, System, in_csc_order
from torch import Tensor
from torch.nn import functional as F


def scatter_softmax(score: Tensor, dst: Tensor, num_nodes: int) -> Tensor:
    """Softmax of `score [E, ...]` over the edges of each destination, with torch's scatters."""
    index = dst.view(-1, *[1] * (score.dim() - 1)).expand_as(score)
    top = score.new_zeros(num_nodes, *score.shape[1:])
    top = top.scatter_reduce(0, index, score.detach(), "amax", include_self=False)
    weight = (score - top.index_select(0, dst)).exp()
    total = torch.zeros_like(top).index_add(0, dst, weight)
    return weight / total.index_select(0, dst)


class TorchScatter(System):
    """`index_add` for sums and means, `scatter_reduce` for extremes."""

    name = "torch scatter"

    def _reduced(self, edges: Edges, reduce: str, message) -> Operator:
        src, dst = edges.sorted_edges()
        degrees = edges.in_degrees().clamp(min=1)

        def function(**inputs: Tensor) -> Tensor:
            messages = message(src, **inputs)
            out = messages.new_zeros(edges.num_nodes, *messages.shape[1:])
            if reduce in ("max", "min"):
                index = dst.view(-1, *[1] * (messages.dim() - 1)).expand_as(messages)
                return out.scatter_reduce(0, index, messages, "a" + reduce, include_self=False)
            out = out.index_add(0, dst, messages)
            return out / degrees.view(-1, 1).to(out.dtype) if reduce == "mean" else out

        return Operator(function, **in_csc_order(edges))

    def _copied(self, edges: Edges, reduce: str) -> Operator:
        return self._reduced(edges, reduce, lambda src, u: u.index_select(0, src))

    def op_copy_u_sum(self, case: Case, edges: Edges) -> Operator:
        return self._copied(edges, "sum")

    def op_copy_u_mean(self, case: Case, edges: Edges) -> Operator:
        return self._copied(edges, "mean")

    def op_copy_u_max(self, case: Case, edges: Edges) -> Operator:
        return self._copied(edges, "max")

    def op_copy_u_min(self, case: Case, edges: Edges) -> Operator:
        return self._copied(edges, "min")

    def op_copy_e_sum(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(edges, "sum", lambda src, e: e)

    def op_u_mul_e_sum(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(edges, "sum", lambda src, u, e: u.index_select(0, src) * e)

    def op_edge_softmax(self, case: Case, edges: Edges) -> Operator:
        dst = edges.sorted_edges()[1]
        return Operator(
            lambda e: scatter_softmax(e, dst, edges.num_nodes),
            **in_csc_order(edges, edge_output=True),
        )

    def op_u_dot_v(self, case: Case, edges: Edges) -> Operator:
        src, dst = edges.sorted_edges()
        return Operator(
            lambda u, v: (u.index_select(0, src) * v.index_select(0, dst)).sum(-1, keepdim=True),
            **in_csc_order(edges, edge_output=True),
        )

    def op_u_add_v(self, case: Case, edges: Edges) -> Operator:
        src, dst = edges.sorted_edges()
        return Operator(
            lambda u, v: u.index_select(0, src) + v.index_select(0, dst),
            **in_csc_order(edges, edge_output=True),
        )

    def op_gat_layer(self, case: Case, edges: Edges) -> Operator:
        src, dst = edges.sorted_edges()
        nodes = edges.num_nodes

        def function(x: Tensor, weight: Tensor, left: Tensor, right: Tensor) -> Tensor:
            h = (x @ weight.t()).view(nodes, case.heads, -1)
            from_src, to_dst = (h * left).sum(-1), (h * right).sum(-1)
            score = from_src.index_select(0, src) + to_dst.index_select(0, dst)
            alpha = scatter_softmax(F.leaky_relu(score, 0.2), dst, nodes)
            messages = h.index_select(0, src) * alpha.unsqueeze(-1)
            return h.new_zeros(h.shape).index_add(0, dst, messages).flatten(1)

        return Operator(function)

    def op_gcn_layer(self, case: Case, edges: Edges) -> Operator:
        src, dst = edges.sorted_edges()
        norm = gcn_norm(edges)[edges.csc().eids.long()].unsqueeze(1)

        def function(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            h = x @ weight.t()
            return torch.zeros_like(h).index_add(0, dst, h.index_select(0, src) * norm) + bias

        return Operator(function)

    def op_to_csc(self, case: Case, edges: Edges) -> Operator:
        def function() -> tuple[Tensor, ...]:
            eids = torch.argsort(edges.dst, stable=True)
            counts = torch.bincount(edges.dst, minlength=edges.num_nodes)
            return counts.cumsum(0), edges.src[eids], eids

        return Operator(function)

    def op_net(self, case: Case, edges: Edges) -> Operator:
        return Operator(models.small_net(case.width))

    def op_memory_copy(self, case: Case, edges: Edges) -> Operator:
        """Reads `width / 2` bytes and writes as many."""
        source = torch.zeros(max(1, case.width // 2), dtype=torch.uint8, device=edges.src.device)
        target = torch.zeros_like(source)
        return Operator(lambda: target.copy_(source))


def gcn_norm(edges: Edges) -> Tensor:
    """The symmetric normalisation of each edge, `[E]`, in edge-id order."""
    left = edges.out_degrees().clamp(min=1).float().rsqrt()
    right = edges.in_degrees().clamp(min=1).float().rsqrt()
    return left[edges.src.long()] * right[edges.dst.long()]

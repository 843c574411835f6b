"""PyG: message passing over an edge list sorted by destination, and over `adj_t` in CSR.

PyG reads the source of a layer's `forward` to generate its `propagate`.
"""

from __future__ import annotations

import torch
import torch_geometric
from edge_list import Edges
from systems import models
from systems.base import Case, Operator, System, Unsupported, in_csc_order
from systems.csr import matrix
from systems.sampling import FEW, MANY, Draw, counted
from systems.scatter import gcn_norm
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.index import index2ptr
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GATConv, GCNConv, MessagePassing, SAGEConv
from torch_geometric.sampler import NeighborSampler
from torch_geometric.utils import softmax, sort_edge_index, spmm


class _Copied(MessagePassing):
    def forward(self, edge_index: Tensor, x: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)

    def message(self, x_j: Tensor) -> Tensor:
        return x_j


class _Weighted(MessagePassing):
    def forward(self, edge_index: Tensor, x: Tensor, e: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x, e=e)

    def message(self, x_j: Tensor, e: Tensor) -> Tensor:
        return x_j * e


class _PerEdge(MessagePassing):
    def __init__(self, op) -> None:
        super().__init__(node_dim=0)
        self.op = op

    def forward(self, edge_index: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return self.edge_updater(edge_index, a=a, b=b)

    def edge_update(self, a_j: Tensor, b_i: Tensor) -> Tensor:
        return self.op(a_j, b_i)


def _edge_index(edges: Edges) -> Tensor:
    return edges.keep("edge_index", lambda: torch.stack(edges.sorted_edges()))


class _Models:
    """Models of two layers over a structure, whose edges have weights in a GCN.

    Parameters are those of DGL's models: `weight` is that of neighbours, `own` of the node itself.
    """

    def _structure(self, edges: Edges, norm: Tensor | None = None) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def op_train_gcn(self, case: Case, edges: Edges) -> Operator:
        structure = self._structure(edges, gcn_norm(edges)[edges.csc().eids.long()])
        layers = [GCNConv(*sizes, normalize=False) for sizes in models.sizes(case)]
        names = {"weight": "lin.weight", "bias": "bias"}
        return models.trained(layers, names, lambda layer, x: layer(x, *structure), torch.relu)

    def op_train_gat(self, case: Case, edges: Edges) -> Operator:
        structure, options = self._structure(edges), {"add_self_loops": False}
        hidden = GATConv(case.features, case.width // case.heads, case.heads, **options)
        layers = [hidden, GATConv(case.width, case.classes, 1, **options)]
        names = {"weight": "lin.weight", "left": "att_src", "right": "att_dst", "bias": "bias"}
        return models.trained(layers, names, lambda layer, x: layer(x, *structure), F.elu)

    def op_train_sage(self, case: Case, edges: Edges) -> Operator:
        structure = self._structure(edges)
        layers = [SAGEConv(*sizes, "mean") for sizes in models.sizes(case)]
        names = {"weight": "lin_l.weight", "own": "lin_r.weight", "bias": "lin_l.bias"}
        return models.trained(layers, names, lambda layer, x: layer(x, *structure), torch.relu)

    def _called(self, structure: tuple[Tensor, ...], layer, names: dict[str, str]) -> Operator:
        return models.called(layer, names, lambda layer, x: layer(x, *structure))

    def op_call_gcn(self, case: Case, edges: Edges) -> Operator:
        structure = self._structure(edges, gcn_norm(edges)[edges.csc().eids.long()])
        layer = GCNConv(case.width, case.width, normalize=False)
        return self._called(structure, layer, {"weight": "lin.weight", "bias": "bias"})

    def op_call_gat(self, case: Case, edges: Edges) -> Operator:
        width = case.width // case.heads
        layer = GATConv(case.width, width, case.heads, add_self_loops=False)
        names = {"weight": "lin.weight", "left": "att_src", "right": "att_dst", "bias": "bias"}
        return self._called(self._structure(edges), layer, names)

    def op_call_sage(self, case: Case, edges: Edges) -> Operator:
        layer = SAGEConv(case.width, case.width, "mean")
        names = {"weight": "lin_l.weight", "own": "lin_r.weight", "bias": "lin_l.bias"}
        return self._called(self._structure(edges), layer, names)


def _gat(case: Case, edges: Edges, structure: Tensor) -> Operator:
    layer = GATConv(
        case.width, case.width // case.heads, case.heads, add_self_loops=False, bias=False
    ).to(edges.src.device)

    def function(x: Tensor, weight: Tensor, left: Tensor, right: Tensor) -> Tensor:
        parameters = {"lin.weight": weight, "att_src": left, "att_dst": right}
        return torch.func.functional_call(layer, parameters, (x, structure))

    return Operator(function)


def _gcn(case: Case, structure: Tensor, *weights: Tensor) -> Operator:
    layer = GCNConv(case.width, case.width, normalize=False)

    def function(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        parameters = {"lin.weight": weight, "bias": bias}
        return torch.func.functional_call(layer, parameters, (x, structure, *weights))

    return Operator(function)


class PygEdgeIndex(_Models, System):
    """`MessagePassing` with `edge_index`: a message per edge, then a scatter."""

    name = "pyg edge_index"

    def _structure(self, edges: Edges, norm: Tensor | None = None) -> tuple[Tensor, ...]:
        return (_edge_index(edges),) if norm is None else (_edge_index(edges), norm)

    def op_sampled_edges(self, case: Case, edges: Edges) -> Operator:
        return self._drawn(edges, MANY)

    def op_sampled_few(self, case: Case, edges: Edges) -> Operator:
        return self._drawn(edges, FEW)

    def _drawn(self, edges: Edges, draw: Draw) -> Operator:
        data = Data(edge_index=_edge_index(edges), num_nodes=edges.num_nodes)
        fanouts = draw.fanouts[::-1]
        sampler = NeighborSampler(data, fanouts)  # sorts the edges, once
        options = {"batch_size": draw.batch_size, "neighbor_sampler": sampler}

        def function(order: Tensor) -> Tensor:
            loader = NeighborLoader(data, fanouts, input_nodes=order, **options)
            return counted((into_seeds(batch), batch.num_edges) for batch in loader)

        def into_seeds(batch: Data) -> int:
            return int((batch.edge_index[1] < batch.batch_size).sum())

        return Operator(function, enter={"order": draw.seeds})

    def _copied(self, edges: Edges, reduce: str) -> Operator:
        layer, index = _Copied(aggr=reduce, node_dim=0), _edge_index(edges)
        return Operator(lambda u: layer(index, u))

    def op_copy_u_sum(self, case: Case, edges: Edges) -> Operator:
        return self._copied(edges, "sum")

    def op_copy_u_mean(self, case: Case, edges: Edges) -> Operator:
        return self._copied(edges, "mean")

    def op_copy_u_max(self, case: Case, edges: Edges) -> Operator:
        return self._copied(edges, "max")

    def op_copy_u_min(self, case: Case, edges: Edges) -> Operator:
        return self._copied(edges, "min")

    def op_u_mul_e_sum(self, case: Case, edges: Edges) -> Operator:
        layer, index = _Weighted(aggr="sum", node_dim=0), _edge_index(edges)
        return Operator(lambda u, e: layer(index, u, e), **in_csc_order(edges))

    def op_edge_softmax(self, case: Case, edges: Edges) -> Operator:
        dst, nodes = edges.sorted_edges()[1], edges.num_nodes
        return Operator(
            lambda e: softmax(e, dst, num_nodes=nodes), **in_csc_order(edges, edge_output=True)
        )

    def _per_edge(self, edges: Edges, op) -> Operator:
        layer, index = _PerEdge(op), _edge_index(edges)
        return Operator(
            lambda u, v: layer(index, u, v),
            **in_csc_order(edges, edge_output=True),
        )

    def op_u_dot_v(self, case: Case, edges: Edges) -> Operator:
        return self._per_edge(edges, lambda a, b: (a * b).sum(-1, keepdim=True))

    def op_u_add_v(self, case: Case, edges: Edges) -> Operator:
        return self._per_edge(edges, lambda a, b: a + b)

    def op_gat_layer(self, case: Case, edges: Edges) -> Operator:
        return _gat(case, edges, _edge_index(edges))

    def op_gcn_layer(self, case: Case, edges: Edges) -> Operator:
        norm = gcn_norm(edges)[edges.csc().eids.long()]
        return _gcn(case, _edge_index(edges), norm)

    def op_to_csc(self, case: Case, edges: Edges) -> Operator:
        ids, nodes = torch.arange(edges.num_edges, device=edges.src.device), edges.num_nodes
        index = torch.stack([edges.src, edges.dst])

        def function() -> tuple[Tensor, ...]:
            (src, dst), eids = sort_edge_index(index, ids, nodes, sort_by_row=False)
            return index2ptr(dst, nodes), src, eids

        return Operator(function)


class PygAdjT(_Models, System):
    """`adj_t` as torch's CSR, which PyG hands to `spmm`."""

    name = "pyg adj_t"

    def _structure(self, edges: Edges, norm: Tensor | None = None) -> tuple[Tensor, ...]:
        if norm is not None:
            return (self._adj_t(edges, norm),)
        rows = edges.csc().long()  # PyG asks for int64 in GAT; for a mean as for TorchReduce
        ones = torch.ones(edges.num_edges, device=edges.src.device)
        return (matrix(rows, ones, edges.num_nodes),)

    def _adj_t(self, edges: Edges, values: Tensor) -> Tensor:
        return matrix(edges.csc(), values, edges.num_nodes)

    def _reduced(self, case: Case, edges: Edges, reduce: str) -> Operator:
        dtype = getattr(torch, case.dtype)
        ones = torch.ones(edges.num_edges, dtype=dtype, device=edges.src.device)
        rows = edges.csc().long() if case.backward else edges.csc()  # as for TorchReduce
        adj_t = matrix(rows, ones, edges.num_nodes)
        return Operator(lambda u: spmm(adj_t, u, reduce=reduce))

    def op_copy_u_sum(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(case, edges, "sum")

    def op_copy_u_mean(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(case, edges, "mean")

    def op_copy_u_max(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(case, edges, "max")

    def op_copy_u_min(self, case: Case, edges: Edges) -> Operator:
        return self._reduced(case, edges, "min")

    def op_u_mul_e_sum(self, case: Case, edges: Edges) -> Operator:
        if case.heads:
            raise Unsupported("an adj_t has one value per edge")
        layout = in_csc_order(edges)
        return Operator(lambda u, e: spmm(self._adj_t(edges, e.flatten()), u), **layout)

    def op_edge_softmax(self, case: Case, edges: Edges) -> Operator:
        indptr = edges.csc().indptr.long()
        return Operator(lambda e: softmax(e, ptr=indptr), **in_csc_order(edges, edge_output=True))

    def op_gat_layer(self, case: Case, edges: Edges) -> Operator:
        rows = edges.csc().long()  # PyG asks for int64 here
        ones = torch.ones(edges.num_edges, device=edges.src.device)
        return _gat(case, edges, matrix(rows, ones, edges.num_nodes))

    def op_gcn_layer(self, case: Case, edges: Edges) -> Operator:
        return _gcn(case, self._adj_t(edges, gcn_norm(edges)[edges.csc().eids.long()]))


SYSTEMS = (PygAdjT, PygEdgeIndex)
VERSIONS = {"torch_geometric": torch_geometric.__version__}

"""Programs written for DGL's interface, run with any module that offers it.

The same lines measure DGL and its drop-in replacement: `module` is `dgl` or `smex.graph`.
"""

from __future__ import annotations

import dataclasses
from types import ModuleType

import torch
from edge_list import Edges
from systems import models
from systems.base import Case, Operator, System, Unsupported
from systems.sampling import FEW, MANY, Draw, counted
from torch import Tensor
from torch.nn import functional


class DglApi(System):
    """`update_all`, user functions, layers and construction."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def graph(self, edges: Edges):
        """The graph with all of its sorted forms made."""

        def make():
            g = self.module.graph((edges.src, edges.dst), num_nodes=edges.num_nodes)
            g.create_formats_()
            return g

        return edges.keep((self.name, "graph"), make)

    def _update_all(self, edges: Edges, message, reduce) -> Operator:
        g = self.graph(edges)

        def function(u: Tensor, **others: Tensor) -> Tensor:
            with g.local_scope():
                g.ndata["h"] = u
                if "e" in others:
                    g.edata["w"] = others["e"]
                if "v" in others:
                    g.ndata["k"] = others["v"]
                g.update_all(message, reduce)
                return g.ndata["out"]

        return Operator(function)

    def op_update_all(self, case: Case, edges: Edges) -> Operator:
        fn = self.module.function
        return self._update_all(edges, fn.copy_u("h", "m"), fn.sum("m", "out"))

    op_builtin_copy_u_sum = op_update_all

    def op_udf_copy_u_sum(self, case: Case, edges: Edges) -> Operator:
        return self._update_all(edges, _copied, _summed)

    def op_builtin_u_mul_e_sum(self, case: Case, edges: Edges) -> Operator:
        fn = self.module.function
        return self._update_all(edges, fn.u_mul_e("h", "w", "m"), fn.sum("m", "out"))

    def op_udf_u_mul_e_sum(self, case: Case, edges: Edges) -> Operator:
        return self._update_all(edges, _weighted, _summed)

    def op_builtin_copy_u_max(self, case: Case, edges: Edges) -> Operator:
        fn = self.module.function
        return self._update_all(edges, fn.copy_u("h", "m"), fn.max("m", "out"))

    def op_udf_copy_u_max(self, case: Case, edges: Edges) -> Operator:
        return self._update_all(edges, _copied, _largest)

    def op_udf_gated_sum(self, case: Case, edges: Edges) -> Operator:
        """An expression that no built-in has."""
        return self._update_all(edges, _gated, _summed)

    def op_builtin_gated_sum(self, case: Case, edges: Edges) -> Operator:
        """The same with built-ins as far as they go: the gate is a tensor per edge."""
        fn, g = self.module.function, self.graph(edges)

        def function(u: Tensor, v: Tensor) -> Tensor:
            with g.local_scope():
                g.ndata["h"], g.ndata["k"] = u, v
                g.apply_edges(fn.u_add_v("h", "k", "gate"))
                g.edata["gate"] = g.edata["gate"].sigmoid()
                g.update_all(fn.u_mul_e("h", "gate", "m"), fn.sum("m", "out"))
                return g.ndata["out"]

        return Operator(function)

    def op_gat_layer(self, case: Case, edges: Edges) -> Operator:
        g, nn = self.graph(edges), _layers(self.module)
        layer = nn.GATConv(
            case.width, case.width // case.heads, case.heads, bias=False, allow_zero_in_degree=True
        ).to(edges.src.device)

        def function(x: Tensor, weight: Tensor, left: Tensor, right: Tensor) -> Tensor:
            parameters = {"fc.weight": weight, "attn_l": left, "attn_r": right}
            return torch.func.functional_call(layer, parameters, (g, x)).flatten(1)

        return Operator(function)

    def op_gcn_layer(self, case: Case, edges: Edges) -> Operator:
        g, nn = self.graph(edges), _layers(self.module)
        layer = nn.GraphConv(case.width, case.width, norm="both", allow_zero_in_degree=True)

        def function(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            parameters = {"weight": weight.t(), "bias": bias}
            return torch.func.functional_call(layer, parameters, (g, x))

        return Operator(function)

    def _trained(self, edges: Edges, layers: list, names: dict, between) -> Operator:
        g = self.graph(edges)
        return models.trained(layers, names, lambda layer, x: layer(g, x).flatten(1), between)

    def op_train_gcn(self, case: Case, edges: Edges) -> Operator:
        conv, sizes = _layers(self.module).GraphConv, models.sizes(case)
        layers = [conv(*size, norm="both", allow_zero_in_degree=True) for size in sizes]
        found = self._trained(edges, layers, {"weight": "weight", "bias": "bias"}, torch.relu)
        transposed = dict.fromkeys(("weight1", "weight2"), lambda weight: weight.t())
        return dataclasses.replace(found, enter=transposed, leave=transposed)

    def op_train_gat(self, case: Case, edges: Edges) -> Operator:
        conv, options = _layers(self.module).GATConv, {"allow_zero_in_degree": True}
        hidden = conv(case.features, case.width // case.heads, case.heads, **options)
        layers = [hidden, conv(case.width, case.classes, 1, **options)]
        names = {"weight": "fc.weight", "left": "attn_l", "right": "attn_r", "bias": "bias"}
        return self._trained(edges, layers, names, functional.elu)

    def op_train_sage(self, case: Case, edges: Edges) -> Operator:
        conv = _layers(self.module).SAGEConv
        layers = [conv(*sizes, "mean") for sizes in models.sizes(case)]
        names = {"weight": "fc_neigh.weight", "own": "fc_self.weight", "bias": "fc_self.bias"}
        return self._trained(edges, layers, names, torch.relu)

    def _called(self, edges: Edges, layer, names: dict) -> Operator:
        g = self.graph(edges)
        return models.called(layer, names, lambda layer, x: layer(g, x).flatten(1))

    def op_call_gcn(self, case: Case, edges: Edges) -> Operator:
        conv = _layers(self.module).GraphConv
        layer = conv(case.width, case.width, norm="both", allow_zero_in_degree=True)
        found = self._called(edges, layer, {"weight": "weight", "bias": "bias"})
        return dataclasses.replace(found, enter={"weight": lambda weight: weight.t().contiguous()},
                                   leave={"weight": lambda weight: weight.t()})  # fmt: skip

    def op_call_gat(self, case: Case, edges: Edges) -> Operator:
        conv, width = _layers(self.module).GATConv, case.width // case.heads
        layer = conv(case.width, width, case.heads, allow_zero_in_degree=True)
        names = {"weight": "fc.weight", "left": "attn_l", "right": "attn_r", "bias": "bias"}
        return self._called(edges, layer, names)

    def op_call_sage(self, case: Case, edges: Edges) -> Operator:
        layer = _layers(self.module).SAGEConv(case.width, case.width, "mean")
        names = {"weight": "fc_neigh.weight", "own": "fc_self.weight", "bias": "fc_self.bias"}
        return self._called(edges, layer, names)

    def op_sampled_edges(self, case: Case, edges: Edges) -> Operator:
        return self._drawn(edges, MANY)

    def op_sampled_few(self, case: Case, edges: Edges) -> Operator:
        return self._drawn(edges, FEW)

    def _drawn(self, edges: Edges, draw: Draw) -> Operator:
        g, loading = self.graph(edges), self.module.dataloading
        sampler = loading.NeighborSampler(draw.fanouts)

        def function(order: Tensor) -> Tensor:
            loader = loading.DataLoader(g, order, sampler, batch_size=draw.batch_size)
            blocks_of = (blocks for _, _, blocks in loader)
            return counted(
                (blocks[-1].num_edges(), sum(block.num_edges() for block in blocks))
                for blocks in blocks_of
            )

        return Operator(function, enter={"order": lambda order: draw.seeds(order).to(g.idtype)})

    def op_to_csc(self, case: Case, edges: Edges) -> Operator:
        def function() -> tuple[Tensor, ...]:
            g = self.module.graph((edges.src, edges.dst), num_nodes=edges.num_nodes)
            return g.adj_tensors("csc")

        return Operator(function)


def _layers(module: ModuleType) -> ModuleType:
    try:
        return __import__(f"{module.__name__}.nn", fromlist=["nn"])
    except ImportError as error:
        raise Unsupported(f"no layers: {error}") from None


def _copied(edges):
    return {"m": edges.src["h"]}


def _weighted(edges):
    return {"m": edges.src["h"] * edges.data["w"]}


def _gated(edges):
    return {"m": edges.src["h"] * torch.sigmoid(edges.src["h"] + edges.dst["k"])}


def _summed(nodes):
    return {"out": nodes.mailbox["m"].sum(1)}


def _largest(nodes):
    return {"out": nodes.mailbox["m"].max(1).values}

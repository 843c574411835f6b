"""Layers as programs of torch.export, of graphs that are arguments, and compiled ahead of time."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import smex
import smex.graph as sg
from support.layer_cases import CASES, IN, graph_of

OPEN = torch.export.Dim.DYNAMIC


class OfTensors(nn.Module):
    """A layer of a graph's ends, the nodes' rows and what else it takes."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, src, dst, x, *extra):
        return self.layer(sg.graph((src, dst), num_nodes=x.shape[0]), x, *extra)


def args_of(case, g):
    extra = (x.float() if x.is_floating_point() else x for x in case.extra(g))
    return (*g.edges(), torch.randn(g.num_nodes(), IN), *extra)


def other_graph(num_nodes, num_edges):
    """A graph with an edge into each node."""
    src, dst = torch.randint(0, num_nodes, (2, num_edges))
    ends = torch.arange(num_nodes)
    return sg.graph((torch.cat([src, ends]), torch.cat([dst, ends])), num_nodes=num_nodes)


def exported(module, args, sizes):
    """The program, in which sizes of first dimensions are open where they are among some."""
    opened = [{0: OPEN} if isinstance(x, Tensor) and x.shape[0] in sizes else None for x in args]
    shapes = (*opened[:3], tuple(opened[3:])) if len(opened) > 3 else tuple(opened)
    with torch.no_grad():
        return torch.export.export(module, args, dynamic_shapes=shapes).module()


# SAGEConv-lstm reads mailboxes by degree.
EXPORTED = [c for c in CASES if "homogeneous" in c.kinds and c.name != "SAGEConv-lstm"]


@pytest.mark.costly(cases=30)
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in EXPORTED])
def test_layers_of_graphs_of_any_size(case):
    g = graph_of("homogeneous")
    module = OfTensors(case.layer("homogeneous")).eval()
    program = exported(module, args_of(case, g), {g.num_nodes(), g.num_edges()})
    for size in ((40, 100), (3, 50), (7, 0)):
        args = args_of(case, other_graph(*size))
        with torch.no_grad():
            for one, other in zip(*(pytree.tree_leaves(f(*args)) for f in (program, module))):
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


class OfBlock(nn.Module):
    """A layer of a block's row pointers, its sources' numbers and their rows."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, indptr, indices, x):
        edges = ("csc", (indptr, indices, indptr.new_empty(0)))
        targets = indptr.shape[0] - 1
        return self.layer(sg.create_block(edges, x.shape[0], targets), (x, x[:targets]))


def block_args(num_src, num_dst, num_edges):
    dst = torch.randint(0, num_dst, (num_edges,))
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(dst, minlength=num_dst)])
    return indptr.cumsum(0), torch.randint(0, num_src, (num_edges,)), torch.randn(num_src, IN)


LAYERS = {
    "GraphConv": lambda: sg.nn.GraphConv(IN, 3, allow_zero_in_degree=True),
    "SAGEConv": lambda: sg.nn.SAGEConv(IN, 3, "pool"),
    "GATConv": lambda: sg.nn.GATConv(IN, 3, 2, allow_zero_in_degree=True),
}


@pytest.mark.costly(cases=1)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_compiled_ahead_of_time(name, tmp_path):
    module = OfBlock(LAYERS[name]()).eval()
    with torch.no_grad():
        program = torch.export.export(
            module, block_args(30, 12, 100), dynamic_shapes=({0: OPEN},) * 3
        )
        path = str(tmp_path / "layer.pt2")
        torch._inductor.aoti_compile_and_package(program, package_path=path)
        compiled = torch._inductor.aoti_load_package(path)
        for size in ((30, 12, 100), (200, 90, 1000), (9, 4, 3)):
            args = block_args(*size)
            torch.testing.assert_close(compiled(*args), module(*args))


def test_a_program_without_gradients_says_so():
    args = block_args(30, 12, 100)
    with torch.no_grad():
        program = torch.export.export(OfBlock(sg.nn.SAGEConv(IN, 3, "mean")), args).module()
    with pytest.raises(ValueError, match="the gradient of u0 needs out_edges, found none"):
        program(*args[:2], args[2].requires_grad_())


def test_a_program_with_gradients_trains_as_the_layer():
    args = block_args(30, 12, 100)
    module = OfBlock(sg.nn.SAGEConv(IN, 3, "mean"))
    program = torch.export.export(module, args).module()
    x = args[2].clone().requires_grad_()
    for one in (module, program):
        one(*args[:2], x).square().sum().backward()
    wanted = [*module.parameters()]
    found = [program.get_parameter(name) for name, _ in module.named_parameters()]
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one.grad, other.grad)


class Unknown(nn.Module):
    def forward(self, src, dst):
        return sg.graph((src, dst)).in_degrees()


def test_the_number_of_nodes_has_to_be_given():
    with pytest.raises(smex.SmexValueError, match="expected the number of nodes of type"):
        torch.export.export(Unknown(), graph_of("homogeneous").edges())

"""Runs away from the CPU, on tensors without memory: no GPU is needed.

On meta tensors nothing can ask for a value, as nothing on a GPU may without waiting for it. Fake
tensors of device "cuda" tell of operands on different devices. Autograd needs a GPU for these, so
traces are made on the CPU and turned, and backward is called by hand.
"""

import dataclasses
import importlib
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

import smex
import smex.vertex as sv
from smex._C import TaskPlan
from smex.vertex.execution import schedule
from support.vertex_functions import Average, Binary, ChildSum, loss_of, random_graph, star

pytestmark = pytest.mark.costly

GRAPHS = [random_graph(20, 2, 3), star(2), sv.chain(0), random_graph(9, 2, 4, shared=False)]
VERTICES = sum(g.num_vertices for g in GRAPHS)
OPTIONS = {
    "all": {},
    "neither": {"hoist": False, "lazy": False, "fuse": False},
    "not traced": {"trace": False},
}
run_module = importlib.import_module("smex.vertex.run")  # sv.run is the function


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("cls", [Binary, ChildSum, Average])
def test_no_value_is_asked_for(cls, options):
    function = cls(3, 4).to("meta")
    x = torch.empty(VERTICES, 3, device="meta", requires_grad=True)
    with sv.options(**options):
        result = sv.run(function, GRAPHS, x)
        loss_of(list(result.states.values()), result.outputs["out"]).backward()
    assert result.states["h"].shape[0] == VERTICES
    for tensor in (x, *function.parameters()):
        assert tensor.grad.device.type == "meta"
        assert tensor.grad.shape == tensor.shape


# ---- on fake CUDA tensors ----


class _Stream:
    """Stands for a stream, and remembers the events it waited for."""

    def __init__(self):
        self.waited = []

    def record_event(self):
        return object()

    def wait_event(self, event):
        self.waited.append(event)


class _Cuda:
    """What stands for CUDA: the current stream, and whether it is captured."""

    def __init__(self):
        self.stream = _Stream()
        self.is_capturing = False
        self.recorded = []  # (tensor, stream)


class _Whole:
    """Stands for the run as an operation of autograd: forward, and backward at once."""

    @staticmethod
    def apply(execution, *tensors):
        with torch.no_grad():
            values = execution.forward(tensors, True)
            grads = execution.backward(tuple(torch.empty_like(v) for v in values))
        for tensor, grad in zip(tensors, grads):
            assert grad is None or grad.device == tensor.device
            assert grad is None or grad.shape == tensor.shape
        return values


def _trace_on_cpu(function, signature):
    def real(tensors):
        return {n: torch.empty(t.shape, dtype=t.dtype) for n, t in tensors.items()}

    with _disable_current_modes():
        params, inputs = real(signature.params), real(signature.inputs)
        there = dataclasses.replace(signature, params=params, inputs=inputs)
        joint = _TRACE(function, there)
    for node in joint.graph.nodes:
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": torch.device("cuda", 0)}
    return joint


_TRACE = run_module.trace


class _NoOtherDevice(TorchDispatchMode):
    """Refuses calls that read tensors elsewhere than on CUDA, or bring what they read elsewhere."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        reads = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        made = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
        for x in [*reads, *(made if reads else [])]:
            assert x.device.type == "cuda", f"{func} has to do with a tensor on {x.device}"
        return result


@pytest.fixture
def fake_cuda(monkeypatch):
    """Modes and stand-ins under which "cuda" is a device."""
    cuda = _Cuda()
    monkeypatch.setattr(run_module, "trace", _trace_on_cpu)
    monkeypatch.setattr(run_module, "_Run", _Whole)
    monkeypatch.setattr(schedule, "_cache", OrderedDict())
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    monkeypatch.setattr(
        torch.Tensor, "record_stream", lambda self, stream: cuda.recorded.append((self, stream))
    )
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: cuda.stream)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: cuda.is_capturing)
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield cuda


def _on_cuda(cls):
    with torch.device("cuda"):
        return cls(3, 4), torch.empty(VERTICES, 3).requires_grad_()


@pytest.mark.parametrize("part_rows", [schedule.PART_ROWS, 4])
@pytest.mark.parametrize("options", [OPTIONS["all"], OPTIONS["neither"]], ids=["all", "neither"])
@pytest.mark.parametrize("cls", [Binary, ChildSum, Average])
def test_all_is_on_the_device_of_the_parameters(fake_cuda, cls, options, part_rows, monkeypatch):
    monkeypatch.setattr(schedule, "PART_ROWS", part_rows)
    function, x = _on_cuda(cls)
    batch = sv.batch(GRAPHS)
    with sv.options(**options):
        sv.run(function, batch, x)  # makes the schedule, and copies it
        with _NoOtherDevice():
            result = sv.run(function, batch, x)
            values = [*result.states.values(), *result.outputs.values()]
            values += [result.roots.states["h"], result.root_vertices]
    assert {v.device for v in values} == {torch.device("cuda", 0)}


def test_inputs_of_several_types(fake_cuda):
    with torch.device("cuda"):
        functions = nn.ModuleDict({"leaf": Binary(3, 4), "pair": Binary(3, 4)})
        inputs = {"leaf": torch.empty(3, 3), "pair": {"x": torch.empty(2, 3).requires_grad_()}}
    graph = sv.tree(((1, 2), 3), lambda label, children: "pair" if children else "leaf")
    batch = sv.batch([graph])
    sv.run(functions, batch, inputs)
    with _NoOtherDevice():
        result = sv.run(functions, batch, inputs)
        assert result.states["h"].device == torch.device("cuda", 0)


def test_an_index_on_another_device_would_be_found(fake_cuda):
    function, x = _on_cuda(Binary)
    batch = sv.batch(GRAPHS)
    sv.run(function, batch, x)
    (planned,) = batch.schedules.values()
    native, index, whole = planned.kinds[0].native, planned.index, slice(None)
    assert (native.slot_first < 0).any()
    orders = index.part("edge_orders", whole), index.part("slot_orders", whole)
    elsewhere = torch.zeros(len(native.slot_rows), dtype=torch.int64)
    planned.task_plan = TaskPlan(
        native, index["edge_rows"], index["task_parents"], elsewhere, *orders
    )
    with pytest.raises(RuntimeError, match="device"):
        sv.run(function, batch, x)


def test_another_stream_waits_for_the_index(fake_cuda):
    function, x = _on_cuda(Binary)
    batch, first, second = sv.batch(GRAPHS), fake_cuda.stream, _Stream()
    sv.run(function, batch, x)
    sv.run(function, batch, x)
    assert not first.waited
    fake_cuda.stream = second
    sv.run(function, batch, x)
    assert len(second.waited) == 1
    (planned,) = batch.schedules.values()
    held = {id(tensor) for tensor, stream in fake_cuda.recorded if stream is second}
    index = planned.index
    assert {id(index["rows"]._base), id(index["slot_orders"]), id(index["edge_orders"])} <= held


def test_a_capture_needs_the_schedule(fake_cuda):
    function, x = _on_cuda(Binary)
    batch = sv.batch(GRAPHS)
    fake_cuda.is_capturing = True
    with pytest.raises(smex.SmexRuntimeError, match="while a CUDA graph is captured"):
        sv.run(function, batch, x)
    fake_cuda.is_capturing = False
    sv.run(function, batch, x)
    fake_cuda.is_capturing = True
    sv.run(function, batch, x)


def test_what_a_capture_computes_is_not_kept(fake_cuda):
    function, x = _on_cuda(Binary)
    batch = sv.batch(GRAPHS)
    sv.run(function, batch, x)
    (planned,) = batch.schedules.values()
    fake_cuda.is_capturing = True
    once = planned.index.kept("new", lambda: torch.zeros(3, device="cuda"))
    assert planned.index.kept("new", lambda: torch.zeros(3, device="cuda")) is not once
    fake_cuda.is_capturing = False
    once = planned.index.kept("new", lambda: torch.zeros(3, device="cuda"))
    assert planned.index.kept("new", lambda: torch.zeros(3, device="cuda")) is once


# ---- indices of schedules for devices ----


def test_orders_in_which_gradients_are_added(monkeypatch):
    """As they are made for CUDA; here their values can be looked at."""
    monkeypatch.setattr(schedule, "IN_SERIES", set())
    monkeypatch.setattr(schedule, "_cache", OrderedDict())
    batch = sv.batch(GRAPHS)
    for cls in (Binary, ChildSum):
        sv.run(cls(3, 4), batch, torch.zeros(VERTICES, 3))
    tasks = [t for plan in batch.schedules.values() for kind in plan.kinds for t in kind.tasks]
    pairs = [(task.edges, task.edge_order) for task in tasks]
    for task in tasks:
        places = zip(task.slots, task.slot_orders)
        pairs += [(place, order) for place, order in places if isinstance(place, torch.Tensor)]
    assert len(pairs) > len(tasks)
    for index, order in pairs:
        assert order.tolist() == sorted(range(len(index)), key=index.tolist().__getitem__)

"""Calls that are told to be as the last one was, and what a call leaves behind."""

import copy
import os

import pytest
import torch
from torch.nn import functional as F

import smex
from smex._C import (
    Binding,
    ComputeInstr,
    CopyPart,
    Executor,
    FetchInstr,
    Program,
    ValueRef,
    WorkerProgram,
)


def make(workers=1):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    return model, smex.partition(copy.deepcopy(model), workers=workers)


def programs(net):
    return len(net._programs)


def test_a_usual_call_makes_no_program():
    model, net = make()
    for _ in range(3):
        x = torch.randn(5, 6)
        torch.testing.assert_close(net(x), model(x))
    assert programs(net) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[:4],
        lambda x: x.double(),
        lambda x: x.clone().requires_grad_(),
        lambda x: torch.nn.Parameter(x.clone()),
    ],
    ids=["shape", "dtype", "requires_grad", "parameter"],
)
def test_another_input_is_no_usual_call(change):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(6))

        def forward(self, x):
            return (x * self.w.to(x.dtype)).sum(-1)

    model = Model()
    net = smex.partition(copy.deepcopy(model), workers=2)
    x = torch.randn(5, 6)
    net(x).sum().backward()
    other = change(x)
    theirs = other.detach().clone().requires_grad_(other.requires_grad)
    found, wanted = net(other), model(theirs)
    torch.testing.assert_close(found, wanted)
    found.sum().backward()
    wanted.sum().backward()
    assert (other.grad is None) == (theirs.grad is None)
    if theirs.grad is not None:
        torch.testing.assert_close(other.grad, theirs.grad)
    torch.testing.assert_close(net(x), model(x))


def test_other_modes_are_no_usual_calls():
    _, net = make()
    x = torch.randn(5, 6)
    assert net(x).requires_grad
    with torch.no_grad():
        assert not net(x).requires_grad
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert net(x).dtype == torch.bfloat16
    assert net(x).dtype == torch.float32
    for p in net.parameters():
        p.requires_grad_(False)
    assert not net(x).requires_grad


def test_keywords_count_by_name():
    class Model(torch.nn.Module):
        def forward(self, a, b):
            return a - 2 * b

    model = Model()
    net = smex.partition(model, workers=1)
    a, b = torch.randn(3), torch.randn(3)
    for call in ({"a": a, "b": b}, {"a": b, "b": a}, {"b": b, "a": a}, {"b": a, "a": b}):
        torch.testing.assert_close(net(**call), model(**call))
    torch.testing.assert_close(net(a, b=b), model(a, b=b))
    torch.testing.assert_close(net(b, a), model(b, a))


def test_a_replaced_parameter_is_no_usual_call():
    model, net = make()
    x = torch.randn(5, 6)
    net(x)
    new = torch.nn.Parameter(torch.randn(8, 6))
    net._model[0][0].weight = new
    list(net.parameters())  # looks at the model before the next call does
    model[0].weight = torch.nn.Parameter(new.detach().clone())
    torch.testing.assert_close(net(x), model(x))


def test_an_attribute_is_seen_in_a_usual_call():
    class Model(torch.nn.Module):
        scale = 2.0

        def forward(self, x):
            return x * self.scale

    model = Model()
    net = smex.partition(model, workers=1)
    x = torch.randn(3)
    for scale in (3.0, 4.0, 3.0):
        model.scale = scale
        torch.testing.assert_close(net(x), x * scale)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_call_without_backward_is_let_go(workers):
    """The result's node keeps the run, which must not keep the result."""
    numbers = 1 << 20

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(numbers))

        def forward(self, x):
            return x * self.w

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    net = smex.partition(Model(), workers=workers)
    x = torch.randn(numbers)
    for _ in range(5):
        net(x)
    before = resident()
    for _ in range(60):
        net(x)
    assert resident() - before < 30 * 4 * numbers


def test_two_parameters_of_one_gradient_both_have_it():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Parameter(torch.randn(3))
            self.b = torch.nn.Parameter(torch.randn(3))

        def forward(self, x):
            return ((self.a + self.b) * x).sum()

    for workers in (1, 2):
        net = smex.partition(Model(), workers=workers)
        for times in (1, 2):
            x = torch.randn(3)
            net.zero_grad()
            for _ in range(times):
                net(x).backward()
            grads = net.full_grads()
            torch.testing.assert_close(grads["a"], times * x)
            torch.testing.assert_close(grads["b"], times * x)


def test_replicas_compute_once():
    model, _ = make()
    x, y = torch.randn(4, 6), torch.randint(3, (4,))
    net = smex.partition(copy.deepcopy(model), workers=2, loss_fn=F.cross_entropy, args=(x, y))
    for _ in range(2):
        net.zero_grad()
        model.zero_grad()
        net(x, y).backward()
        F.cross_entropy(model(x), y).backward()
        for name, grad in net.full_grads().items():
            torch.testing.assert_close(grad, model.get_parameter(name).grad)
    stats = net.stats()
    assert stats["bytes_moved"] == 0
    assert stats["compute_seconds"][0] > 0 == stats["compute_seconds"][1]
    assert stats["peak_bytes"][0] == stats["peak_bytes"][1]
    assert list(stats["peak_bytes"]) == list(stats["predicted_peak_bytes"])


def test_the_loss_by_class_is_the_fused_call_where_nothing_is_cut():
    _, net = make()
    x, y = torch.randn(4, 6), torch.randint(3, (4,))
    loss = smex.partition(net._model[0], workers=1, loss_fn=F.cross_entropy, args=(x, y))
    loss(x, y).backward()
    targets = loss.stats()["seconds_by_target"]
    assert "aten::nll_loss_forward" in targets
    assert "aten::nll_loss_backward" in targets
    assert "aten::where.self" not in targets


def test_small_steps_take_turns_on_the_calling_thread():
    """Each worker reads what the other has made before; the second run is known to be small."""

    def forward(w):
        return [
            ComputeInstr("aten::mul.Tensor", [ValueRef(0), 2.0], [1]),
            FetchInstr(2, [3], "float32", [CopyPart(1 - w, 1, [(0, 3)], [(0, 3)])]),
        ]

    workers = [WorkerProgram(3, forward(w), [], remote_reads=[0, 1, 0]) for w in (0, 1)]
    program = Program(workers, [Binding(0, [0, 0])], [Binding(1, [2, 2])])
    executor = Executor(program)
    threads = []
    for _ in range(4):
        tiles = [torch.randn(3), torch.randn(3)]
        session = executor.start([tiles])
        session.run_forward()
        for made, wanted in zip(session.outputs(0), [2 * tiles[1], 2 * tiles[0]], strict=True):
            torch.testing.assert_close(made, wanted)
        threads.append(session.stats()["wait_seconds"])
    assert threads[-1] == [0, 0]

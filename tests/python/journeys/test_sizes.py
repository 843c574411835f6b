"""Calls of other sizes: batches and lengths that change are captured once for all.

| what a user does | test |
|---|---|
| lengths and batch sizes that vary while training, then evaluates | test_lengths_and_batches |
| images of several sizes, the last batch smaller | test_images |
| a model that branches on a size | test_a_branch_on_a_size |
| a model that makes a number of a size | test_a_size_as_a_number |
| one token after a prompt, empty batches | test_sizes_of_one_and_none |
| a dropout's masks | test_dropout_is_that_of_one_worker |
| sizes among the results | test_sizes_among_the_results |
| modes and settings change between | test_modes_and_settings_in_between |
| plans, graphs and statistics of a later size | test_what_is_told_of_a_later_size |
| a model that cannot be traced with symbols | test_what_cannot_be_symbolic_is_captured_each_time |
"""

import copy
import re

import models
import pytest
import torch
from torch.nn import functional as F

import smex
from smex.capture.family import Family
from smex.planning.semantic import SemanticGraph

pytestmark = pytest.mark.costly


def traces(net):
    """How often the model was traced for its calls."""
    return sum(alike.captures.traces for alike in net._calls._known.values())


def token_loss(y, target):
    return F.cross_entropy(y.flatten(0, 1), target.flatten())


def check(net, model, *args, rtol=1e-9, atol=1e-11):
    """A training step of both, compared."""
    model.zero_grad()
    net.zero_grad()
    wanted, found = token_loss(model(args[0]), args[1]), net(*args)
    torch.testing.assert_close(found, wanted, rtol=rtol, atol=atol)
    wanted.backward()
    found.backward()
    grads = net.full_grads()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(grads[name], parameter.grad, rtol=1e-7, atol=1e-10)


@pytest.mark.costly(cases=2)
@pytest.mark.parametrize("kind", [models.Llama, models.GPT])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_lengths_and_batches(kind, workers):
    torch.manual_seed(0)
    model = kind.small().double()
    vocabulary = 13
    limit = kind.small_inputs()[0].shape[1] if kind is models.GPT else 40
    reference = copy.deepcopy(model)
    net = smex.partition(model, workers=workers, loss_fn=token_loss)
    shapes = [(2, 5), (2, 4), (3, 4), (5, 2), (2, 3), (4, 5), (7, 2), (6, 3)]
    for batch, length in shapes:
        length = min(length, limit)
        x, target = torch.randint(0, vocabulary, (2, batch, length))
        check(net, reference, x, target)
    assert traces(net) <= 4
    net.eval()
    for batch, length in shapes:
        x, target = torch.randint(0, vocabulary, (2, batch, min(length, limit)))
        with torch.no_grad():
            wanted = token_loss(reference(x), target)
            torch.testing.assert_close(net(x, target), wanted, rtol=1e-9, atol=1e-11)
    assert len(net._programs) == 2 * len({(b, min(n, limit)) for b, n in shapes})
    assert traces(net) <= 8


class Images(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.norm, self.group = torch.nn.BatchNorm2d(8), torch.nn.GroupNorm(2, 8)
        self.second, self.out = torch.nn.Conv2d(8, 8, 3), torch.nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(self.norm(self.first(x)).relu(), 2)
        x = F.interpolate(self.group(self.second(x)), scale_factor=2)
        return self.out(x.mean((2, 3)))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_images(workers):
    torch.manual_seed(0)
    model = Images().double()
    reference = copy.deepcopy(model)
    net = smex.partition(model, workers=workers)
    for batch, height, width in [(4, 32, 32), (3, 32, 32), (4, 40, 32), (2, 36, 48), (5, 44, 64)]:
        x = torch.randn(batch, 3, height, width).double()
        out, wanted = net(x), reference(x)
        torch.testing.assert_close(out, wanted, rtol=1e-9, atol=1e-10)
        grad = torch.randn_like(wanted)
        net.zero_grad()
        reference.zero_grad()
        out.backward(grad)
        wanted.backward(grad)
        grads = net.full_grads()
        for name, parameter in reference.named_parameters():
            torch.testing.assert_close(grads[name], parameter.grad, rtol=1e-7, atol=1e-9)
    state = net.state_dict()
    for name, buffer in reference.named_buffers():
        torch.testing.assert_close(state[name], buffer, rtol=1e-9, atol=1e-11)


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.w, self.function = torch.nn.Linear(6, 6), function

    def forward(self, x):
        return self.function(self.w(x), x)


def lengths_of(net, model, lengths, width=6):
    for length in lengths:
        x = torch.randn(length, width)
        found, wanted = net(x), model(x)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_branch_on_a_size():
    model = Function(lambda y, x: y.sum(0) if x.shape[0] > 10 else y.mean(0) * 3)
    net = smex.partition(model, workers=2)
    lengths_of(net, model, [4, 5, 6, 20, 21, 30, 7, 11, 10])
    assert traces(net) <= 4  # one size, and one of each branch


def test_a_size_as_a_number():
    model = Function(lambda y, x: y * float(x.shape[0]) + torch.arange(int(x.shape[0]))[:, None])
    net = smex.partition(model, workers=2)
    lengths_of(net, model, [4, 5, 6, 7, 8, 4])


def test_a_table_of_each_size():
    table = {4: 1.0, 5: 2.0, 6: 4.0, 7: 8.0}
    model = Function(lambda y, x: y * table[x.shape[0]])
    net = smex.partition(model, workers=2)
    lengths_of(net, model, [4, 5, 6, 7])
    with pytest.raises(smex.CaptureError, match="KeyError"):
        net(torch.randn(8, 6))
    lengths_of(net, model, [7, 4])


def test_sizes_of_one_and_none():
    model = Function(lambda y, x: y.softmax(0) + x.sum(0, keepdim=True))
    net = smex.partition(model, workers=2)
    lengths_of(net, model, [8, 1, 9, 1, 0, 2, 3, 12])
    assert traces(net) <= 6


def test_broadcasting_is_not_taken_for_granted():
    """A size of one broadcasts, an equal one does not; both are other graphs."""
    model = torch.nn.Module()
    model.forward = lambda a, b: a * b + a
    net = smex.partition(model, workers=2)
    for first, second in [(4, 4), (5, 5), (6, 1), (1, 7), (8, 8), (9, 1)]:
        a, b = torch.randn(first, 3), torch.randn(second, 3)
        torch.testing.assert_close(net(a, b), a * b + a)
    with pytest.raises(smex.SmexError):
        net(torch.randn(4, 3), torch.randn(5, 3))


def test_dropout_is_that_of_one_worker():
    model = Function(lambda y, x: F.dropout(y, 0.5) * 2)
    found = []
    for workers in (1, 2, 3):
        net = smex.partition(model, workers=workers)
        torch.manual_seed(3)
        found.append([net(torch.ones(length, 6)).detach() for length in (4, 6, 9, 12)])
    for other in found[1:]:
        for mine, theirs in zip(other, found[0], strict=True):
            torch.testing.assert_close(mine, theirs)


def test_sizes_among_the_results():
    model = Function(lambda y, x: {"y": y, "length": x.shape[0], "twice": (2 * x.shape[0], "a")})
    net = smex.partition(model, workers=2)
    for length in (4, 5, 6, 9):
        out = net(torch.randn(length, 6))
        assert out["length"] == length and out["twice"] == (2 * length, "a")
        assert type(out["length"]) is int


def test_modes_and_settings_in_between():
    model = Function(lambda y, x: F.dropout(y, 0.5, training=model.training) * model.scale)
    model.scale = 1.0
    net = smex.partition(model, workers=2).eval()
    lengths_of(net, model, [4, 5, 6])
    model.scale = 3.0
    lengths_of(net, model, [4, 5, 6, 7])
    net.train()
    assert (net(torch.ones(64, 6)) == 0).float().mean() > 0.3
    net.eval()
    lengths_of(net, model, [8, 9, 4])


def test_what_cannot_be_symbolic_is_captured_each_time():
    def function(y, x):
        if isinstance(x.shape[0], torch.SymInt):
            raise RuntimeError("no symbols here")
        return y * 2

    model = Function(function)
    net = smex.partition(model, workers=2)
    lengths_of(net, model, [4, 5, 6, 7])
    assert traces(net) == 5  # one in vain


def test_an_error_of_the_model_is_told_as_ever():
    model = Function(lambda y, x: y.view(-1, 4))
    net = smex.partition(model, workers=2)
    lengths_of(net, model, [4, 6])
    with pytest.raises(smex.CaptureError, match="shape '\\[-1, 4\\]' is invalid"):
        net(torch.randn(5, 6))
    lengths_of(net, model, [8, 10])


@pytest.mark.costly(cases=2)
@pytest.mark.parametrize("kind", [models.GPT, models.Llama, models.WResNet, models.UNet])
def test_the_graph_is_that_of_a_capture(kind):
    """Of a call that was traced with symbols the calls are those of one without."""
    model = kind.small()
    inputs = kind.small_inputs(torch.float32)
    batches = [tuple(torch.cat([x] * n) for x in inputs[:1]) for n in (3, 4, 5)]
    family = Family()
    for args in batches:
        graph = SemanticGraph(family.capture(model, args, {}, None, True))
        plain = smex.capture_graph(model, args, training=True)
        assert calls(graph) == calls(plain)
    assert family.traces == 2


def test_what_is_told_of_a_later_size():
    """Plans, graphs and statistics of a size that was made of a trace with symbols."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    net = smex.partition(model, workers=2)
    for batch in (6, 8, 10, 7):
        x = torch.randn(batch, 8)
        net(x).sum().backward()
    assert traces(net) == 2
    later = list(net._programs)[-1]
    plain = smex.capture_graph(model, x, training=True)
    assert str(later.graph) == str(plain)
    assert calls(later.graph) == calls(plain)
    lines = r"  # .*"  # the user's, which differ
    assert re.sub(lines, "", str(later.captured)) == re.sub(lines, "", str(plain.captured))
    assert net.stats()["predicted_peak_bytes"] == later.plan.peak_bytes()
    assert net.stats()["bytes_moved"] == net.stats()["predicted_bytes_moved"]
    assert "0.weight" in str(later.plan)
    assert str(later.plan.explain("0.weight"))
    placed = smex.search(plain, 2, pinned={"0.weight": later.plan.placement("0.weight")})
    assert placed.placement("0.weight") == later.plan.placement("0.weight")


def calls(graph):
    """What a graph computes, in order, with shapes."""
    values = graph.captured.values
    return [
        (op.target, [values[i].shape for i in op.inputs()], op.module_path)
        for op in graph.captured.ops
        if op.target != "aten::full"
    ]


def test_a_copy_captures_for_itself():
    model = Function(lambda y, x: y.relu())
    net = smex.partition(model, workers=2)
    lengths_of(net, model, [4, 5, 6])
    other = copy.deepcopy(net)
    lengths_of(other, model, [7, 8, 4])

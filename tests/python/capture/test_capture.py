"""A captured graph, replayed op by op, equals the model run eagerly."""

from __future__ import annotations

import copy
import inspect

import models
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree

from smex.capture import capture, replay
from smex.capture.records import OpRecord, operand_ids
from smex.errors import CaptureError

pytestmark = pytest.mark.costly

SEED = 7


@pytest.fixture(autouse=True)
def _float64_and_seed():
    torch.manual_seed(SEED)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def check(
    model, args, *, kwargs=None, loss_fn=None, training=None, rtol=1e-10, atol=1e-12, graph=None
):
    """Captures, replays expanded and fused, and compares with an eager copy of the model."""
    kwargs = kwargs or {}
    if graph is None:
        graph = capture(model, args, kwargs=kwargs, loss_fn=loss_fn, training=training)
    check_wellformed(graph)
    state = dict(model.named_parameters(remove_duplicate=False))
    state |= dict(model.named_buffers(remove_duplicate=False))
    state = {name: tensor.detach().clone() for name, tensor in state.items()}
    tensors = [a for a in pytree.tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
    inputs = [t.detach().clone() for t in tensors]

    result = model(*args, **kwargs) if loss_fn is None else loss_fn(model(*args[:-1]), args[-1])
    leaves, spec = pytree.tree_flatten(result)
    assert spec == graph.out_spec
    outputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    smooth = [out for out in outputs if out.requires_grad]
    tangents = [torch.randn_like(out) for out in smooth] if graph.training else []
    expected = {("output", str(i)): out.detach() for i, out in enumerate(outputs)}
    if graph.training:
        wanted = dict(model.named_parameters())
        wanted |= {
            graph.values[i].name: t
            for i, t in zip(graph.inputs, tensors, strict=True)
            if t.requires_grad
        }
        wanted = {name: t for name, t in wanted.items() if t.requires_grad}
        grads = torch.autograd.grad(smooth, list(wanted.values()), tangents, allow_unused=True)
        expected |= {("gradient", n): g for n, g in zip(wanted, grads, strict=True)}
    buffers = dict(model.named_buffers())
    for fused in (False, True):
        got = replay(graph, state, inputs, tangents, fused=fused)
        for key in got:
            if key[0] == "buffer_update":
                expected[key] = buffers[key[1]]
        changed = {n for n, b in buffers.items() if not torch.equal(b, state[n])}
        assert changed <= {name for kind, name in got if kind == "buffer_update"}
        assert got.keys() == expected.keys()
        for key, value in expected.items():
            assert (got[key] is None) == (value is None), key
            if value is not None:
                torch.testing.assert_close(
                    got[key], value, rtol=rtol, atol=atol, msg=lambda m, k=key: f"{k}: {m}"
                )
    return graph


def check_wellformed(graph):
    known = {v.id for v in graph.values if v.role != "intermediate"}
    assert [v.id for v in graph.values] == list(range(len(graph.values)))
    used = {out.value for out in graph.outputs}
    for position, op in enumerate(graph.ops):
        assert op.id == position
        check_operands(op, known)
        used |= set(operand_ids(op.args))
        known |= set(op.outputs) - {None}
    assert all(not used.isdisjoint(op.outputs) for op in graph.ops)
    for fusion in graph.fusions:
        produced = {i for k in fusion.members for i in graph.ops[k].outputs}
        assert set(fusion.fused.outputs) - {None} <= produced
        assert len(fusion.members) > 1
        outside = {i for k in fusion.members for i in graph.ops[k].inputs()} - produced
        assert outside <= set(fusion.fused.inputs())


def check_operands(op: OpRecord, known):
    assert set(operand_ids(op.args)) <= known, op.target
    assert len(op.args) == len(op.dispatch._schema.arguments)
    overload = op.dispatch._schema.overload_name
    assert op.target == op.dispatch._schema.name + (f".{overload}" if overload else "")


def token_loss(logits, target):
    return F.cross_entropy(logits.flatten(0, -2), target.flatten())


MODELS = {
    "wresnet": (models.WResNet, models.WResNet.small, F.cross_entropy),
    "rnn": (models.RNN, models.RNN.small, token_loss),
    "gpt": (models.GPT, models.GPT.small, token_loss),
    "gpt_fused_attention": (models.GPT, lambda: models.GPT.small(True), token_loss),
    "unet": (models.UNet, models.UNet.small, F.mse_loss),
    "dlrm": (models.DLRM, models.DLRM.small, F.binary_cross_entropy_with_logits),
}


@pytest.mark.parametrize("name", MODELS)
def test_model_training(name):
    family, build, loss_fn = MODELS[name]
    check(build(), family.small_inputs(), loss_fn=loss_fn)


@pytest.mark.parametrize("name", MODELS)
def test_model_eval(name):
    family, build, _ = MODELS[name]
    graph = check(build().eval(), family.small_inputs()[:-1], training=False)
    assert not graph.training
    assert not any(op.backward for op in graph.ops)
    assert not graph.with_role("tangent")
    assert {out.kind for out in graph.outputs} == {"output"}


def test_no_grad_captures_forward_only():
    with torch.no_grad():
        graph = capture(nn.Linear(3, 2), (torch.randn(4, 3),))
    assert not graph.training


def test_meta_model_needs_no_memory():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(10**6, 10**6), nn.BatchNorm1d(10**6))
        graph = capture(model, (torch.empty(4, 10**6),))
    assert graph.values[graph.outputs[0].value].shape == (4, 10**6)


def convnet():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(True), nn.Flatten(), nn.Linear(64, 5)
    )


def image(requires_grad=True):
    return torch.randn(4, 3, 6, 6, requires_grad=requires_grad)


def test_batch_norm_training_updates_buffers():
    graph = check(convnet(), (image(),))
    updates = {out.name for out in graph.outputs if out.kind == "buffer_update"}
    assert updates == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("stats", [False, True])
@pytest.mark.parametrize("train", [False, True])
def test_batch_norm_variants(affine, stats, train):
    model = nn.BatchNorm1d(3, affine=affine, track_running_stats=stats).train(train)
    check(model, (torch.randn(5, 3, requires_grad=True),))
    check(model, (torch.randn(2, 3, 4, requires_grad=True),))


@pytest.mark.parametrize("train", [False, True])
def test_scripted(train):
    with pytest.warns(Warning):
        model = torch.jit.script(convnet()).train(train)
    before = dict(model.named_parameters())
    check(model, (image(),))
    assert all(before[name] is p for name, p in model.named_parameters())


def test_traced():
    with pytest.warns(Warning):
        model = torch.jit.trace(convnet().eval(), (image(False),))
    graph = check(model, (image(),))
    assert "aten::convolution" in {op.target for op in graph.ops}


class Tied(nn.Module):
    """Tied weights, an unused parameter, nested inputs, aliased outputs, a counter."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.unused = nn.Parameter(torch.ones(2))
        self.constant = torch.arange(4.0)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, inputs, scale, *, flag):
        x, (y, index) = inputs["x"], inputs["pair"]
        self.calls.add_(1)
        h = self.second(self.first(x)) * scale + self.constant + self.calls
        return {
            "h": h,
            "again": h,
            "view": h.view(-1),
            "input": y,
            "weight": self.first.weight,
            "flag": flag,
            "index": h.argmax(-1),
            "rest": (h.detach(), index[1:], [self.calls * 2]),
        }


def tied_call():
    pair = [torch.randn(3, requires_grad=True), torch.arange(3)]
    return ({"x": torch.randn(2, 4, requires_grad=True), "pair": pair}, 3)


def test_tied_nested_and_aliased():
    graph = check(Tied(), tied_call(), kwargs={"flag": "on"})
    weight = next(v for v in graph.values if v.name == "first.weight")
    assert weight.aliases == ("second.weight",)
    assert [graph.values[i].name for i in graph.inputs] == [
        "inputs['x']",
        "inputs['pair'][0]",
        "inputs['pair'][1]",
    ]
    result = pytree.tree_unflatten(graph.flat_outputs, graph.out_spec)
    assert result["flag"] == "on"
    assert result["h"] == result["again"]
    assert graph.values[result["input"].id].role == "input"
    unused = next(out for out in graph.outputs if out.name == "unused")
    assert unused.value is None
    tangents = [t for out, t in zip(graph.flat_outputs, graph.tangents) if out != "on"]
    assert [t is not None for t in tangents] == graph.differentiable
    assert True in graph.differentiable and False in graph.differentiable
    assert sum(graph.differentiable) == 5


def test_model_is_left_as_it_was():
    model, args = Tied(), tied_call()
    before = copy.deepcopy(model.state_dict())
    parameters = dict(model.named_parameters())
    capture(model, args, kwargs={"flag": 1})
    assert all(parameters[name] is p for name, p in model.named_parameters())
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())


def test_frozen_parameter_has_no_gradient():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    model[0].requires_grad_(False)
    graph = check(model, (torch.randn(4, 3),))
    assert {o.name for o in graph.outputs if o.kind == "gradient"} == {"1.weight", "1.bias"}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore_index", [-100, 2])
@pytest.mark.parametrize("shape", [(5,), (6, 5), (2, 5, 3, 3)])
def test_cross_entropy(reduction, weighted, ignore_index, shape):
    target = torch.randint(5, (shape[0], *shape[2:])) if len(shape) > 1 else torch.tensor(3)
    if target.dim():
        target.view(-1)[:2] = ignore_index

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.rand(5) + 0.5 if weighted else None)

        def forward(self, x, target):
            return F.cross_entropy(
                x, target, self.weight, ignore_index=ignore_index, reduction=reduction
            )

    check(Loss(), (torch.randn(shape, requires_grad=True), target))


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Conv1d(4, 6, 3, groups=2, padding=1),
        lambda: nn.Conv2d(4, 6, 3, stride=2, dilation=2, padding=2, bias=False),
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1),
        lambda: nn.Conv3d(4, 2, 2),
        lambda: nn.InstanceNorm2d(4, affine=True),
        lambda: nn.GroupNorm(2, 4),
    ],
)
def test_spatial_layers(build):
    model = build()
    rank = {nn.Conv1d: 1, nn.Conv3d: 3}.get(type(model), 2)
    check(model, (torch.randn(2, 4, *[7] * rank, requires_grad=True),))


def test_library_lstm():
    check(nn.LSTM(3, 4, 2, batch_first=True), (torch.randn(2, 5, 3, requires_grad=True),))


def test_transformer_layer():
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    check(model, (torch.randn(2, 5, 8, requires_grad=True),))


@pytest.mark.parametrize("function", ["chunk", "split", "split_with_sizes", "unbind"])
def test_splits_become_slices(function):
    class Split(nn.Module):
        def forward(self, x):
            arg = {"chunk": 2, "split": 3, "split_with_sizes": [1, 4], "unbind": 0}[function]
            pieces = getattr(torch, function)(x, arg)
            return pieces[0] * 2, pieces[-1].exp()

    graph = check(Split(), (torch.randn(5, 3, requires_grad=True),))
    assert {"aten::slice.Tensor", "aten::select.int"} & {op.target for op in graph.ops}


class Drops(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        x = F.dropout(x, self.p, self.training)
        return F.dropout2d(x, self.p, self.training)


@pytest.mark.parametrize("training", [False, True])
def test_dropout_masks(training):
    x = image()
    graph = capture(Drops(0.4), (x,), training=training)
    masks = [op for op in graph.ops if op.target == "smex::dropout_mask"]
    assert [op.args[2:4] for op in masks] == [[0, 0], [0, 1]]
    assert [op.args[4:6] for op in masks] == [[[0] * 4, [4, 3, 6, 6]], [[0] * 4, [4, 3, 1, 1]]]
    tangents = [torch.ones_like(x)] if training else []
    got = replay(graph, {}, [x], tangents)
    scale = got["output", "0"] / x.detach()
    kept = scale != 0
    torch.testing.assert_close(scale[kept], torch.full_like(scale[kept], 1 / 0.6**2))
    assert 0.1 < kept.double().mean() < 0.7
    if training:
        torch.testing.assert_close(got["gradient", "x"], scale)


def test_idle_dropout_disappears():
    assert capture(Drops(0.4).eval(), (image(),)).ops == []
    assert capture(Drops(0.0), (image(),)).ops == []


def test_autocast_region():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.fc = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(64, 5)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                h = self.fc(self.norm(self.conv(x)).flatten(1))
            return h.float() + x.mean()

    x = image(False).float().requires_grad_()
    graph = check(Mixed().float(), (x,), rtol=0.1, atol=0.1)
    mm = next(op for op in graph.ops if op.target == "aten::mm")
    assert graph.values[mm.outputs[0]].dtype == torch.bfloat16
    assert all(v.dtype == torch.float32 for v in graph.with_role("parameter"))


def test_origin_names_module_and_line():
    graph = capture(models.GPT.small(), models.GPT.small_inputs()[:1])
    calls = [*graph.ops, *(fusion.fused for fusion in graph.fusions)]
    softmax = next(op for op in calls if op.target == "aten::_softmax")
    assert softmax.module_path == "blocks.0.attention"
    lines, first = inspect.getsourcelines(models.SelfAttention.forward)
    offset = next(i for i, line in enumerate(lines) if "softmax" in line)
    assert softmax.source == f"models.py:{first + offset}"
    backward = next(op for op in calls if op.target == "aten::_softmax_backward_data")
    assert backward.module_path == "blocks.1.attention"
    assert backward.backward


class Branches(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x  # the line


class Shapes(nn.Module):
    def forward(self, x):
        return x[x > 0].sum()  # the line


class Mismatch(nn.Module):
    def forward(self, x):
        return x @ x.new_ones(99)  # the line


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize("family", [Branches, Mismatch, Shapes])
def test_error_names_the_line(family, scripted):
    model = family()
    lines, first = inspect.getsourcelines(family)
    number = first + next(i for i, line in enumerate(lines) if "the line" in line)
    if scripted:
        with pytest.warns(Warning):
            model = torch.jit.script(model)
    with pytest.raises(CaptureError, match=f"test_capture.py:{number}"):
        capture(model, (torch.randn(4, 5),))


def test_model_knows_that_it_is_captured():
    class Asks(nn.Module):
        def forward(self, x):
            if not torch.compiler.is_compiling() and (x > 0).all():  # what capture cannot know
                return x
            return x * 2

    assert "aten::mul" in str(capture(Asks(), (torch.randn(3),)))
    assert not torch.compiler.is_compiling()


def test_an_input_that_is_changed_in_place_is_a_result():
    class Changes(nn.Module):
        def forward(self, x, y):
            return x.add_(y) * 2

    x, y = torch.randn(3), torch.randn(3)
    graph = capture(Changes(), (x, y))
    (update,) = [out for out in graph.outputs if out.kind == "input_update"]
    assert (update.name, update.target) == ("x", graph.inputs[0])
    torch.testing.assert_close(replay(graph, {}, [x, y])["input_update", "x"], x + y)


def test_text():
    graph = capture(nn.Linear(3, 2), (torch.randn(5, 3),))
    assert repr(graph) == (
        "CapturedGraph(Linear, forward+backward, 7 ops, 11 values, 1 fusions, 2 parameters)"
    ), str(graph)
    assert "= aten::mm(" in str(graph)


def test_tabular(capsys):
    capture(nn.Linear(3, 2), (torch.randn(5, 3),)).print_tabular()
    assert "aten::mm" in capsys.readouterr().out

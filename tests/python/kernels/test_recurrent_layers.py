"""Recurrent layers as one operator each, beside torch's own and beside plain tensors."""

import copy
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn as packing

import smex

pytestmark = pytest.mark.costly

aten = torch.ops.aten


def _columns(x, count):
    width = x.shape[1] // count
    return [aten.slice.Tensor(x, 1, k * width, (k + 1) * width) for k in range(count)]


def _rows(steps):
    return torch.cat([step.unsqueeze(0) for step in steps])


def lstm_layer(x, h, c, weight):
    """Returns the hidden states, the cells and the gates of each step."""
    made = []
    for t in range(x.shape[0]):
        i, f, g, o = _columns(x.select(0, t) + torch.mm(h, weight.t()), 4)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c = f * c + i * g
        h = o * c.tanh()
        made.append((h, c, torch.cat([i, f, g, o], 1)))
    return tuple(map(_rows, zip(*made, strict=True)))


def lstm_layer_backward(grad, *rest):
    """Returns the gradients of the gates before their functions, and of the states."""
    *grad_cells, weight, gates, cells, first_c = rest
    dh = dc = None
    made = []
    for t in reversed(range(gates.shape[0])):
        i, f, g, o = _columns(gates.select(0, t), 4)
        squashed = cells.select(0, t).tanh()
        before = cells.select(0, t - 1) if t else first_c
        dh = grad.select(0, t) if dh is None else grad.select(0, t) + dh
        for more in grad_cells:
            if more is not None:
                dc = more.select(0, t) if dc is None else dc + more.select(0, t)
        own = dh * o * (1 - squashed * squashed)
        dc = own if dc is None else dc + own
        parts = [
            dc * g * i * (1 - i),
            dc * before * f * (1 - f),
            dc * i * (1 - g * g),
            dh * squashed * o * (1 - o),
        ]
        made.append(torch.cat(parts, 1))
        dc = dc * f
        dh = torch.mm(made[-1], weight)
    return _rows(made[::-1]), dh, dc


def arguments(steps, rows, width, dtype=torch.float64, layout=lambda x: x):
    torch.manual_seed(0)
    shapes = [(steps, rows, 4 * width), (rows, width), (rows, width), (4 * width, width)]
    return [layout(torch.randn(shape, dtype=dtype)).requires_grad_() for shape in shapes]


SIZES = [(1, 1, 1), (3, 2, 5), (4, 5, 8), (2, 9, 33), (5, 1, 7)]


@pytest.mark.parametrize("size", SIZES)
def test_values_are_those_of_its_steps(size):
    made = torch.ops.smex.lstm_layer(*arguments(*size))
    for found, wanted in zip(made, lstm_layer(*arguments(*size)), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("has_cells", [False, True])
def test_gradients_are_those_of_its_steps(size, has_cells):
    fast, plain = arguments(*size), arguments(*size)
    for layer, tensors in ((torch.ops.smex.lstm_layer, fast), (lstm_layer, plain)):
        out, cells, _ = layer(*tensors)
        loss = (out * torch.arange(out.numel()).view(out.shape).sin()).sum()
        (loss + (cells * cells).sum() if has_cells else loss).backward()
    for found, wanted in zip(fast, plain, strict=True):
        torch.testing.assert_close(found.grad, wanted.grad)


def test_only_the_cells_have_a_gradient():
    fast, plain = arguments(3, 2, 5), arguments(3, 2, 5)
    torch.ops.smex.lstm_layer(*fast)[1].sum().backward()
    lstm_layer(*plain)[1].sum().backward()
    for found, wanted in zip(fast, plain, strict=True):
        torch.testing.assert_close(found.grad, wanted.grad)


@pytest.mark.parametrize("has_cells", [False, True])
def test_the_written_out_gradient_is_the_kernels(has_cells):
    x, h, c, weight = (t.detach() for t in arguments(4, 3, 5))
    _, cells, gates = torch.ops.smex.lstm_layer(x, h, c, weight)
    grad = torch.randn_like(cells)
    rest = [torch.randn_like(cells) if has_cells else None, weight, gates, cells, c]
    made = torch.ops.smex.lstm_layer_backward(grad, *rest)
    for found, wanted in zip(made, lstm_layer_backward(grad, *rest), strict=True):
        torch.testing.assert_close(found, wanted)


def test_strided_operands():
    def strided(x):
        return x.repeat_interleave(2, -1)[..., ::2]

    made = torch.ops.smex.lstm_layer(*arguments(3, 4, 6, layout=strided))
    for found, wanted in zip(made, lstm_layer(*arguments(3, 4, 6, layout=strided)), strict=True):
        torch.testing.assert_close(found, wanted)


def test_other_types_go_step_by_step():
    tensors = [t.detach().bfloat16() for t in arguments(3, 2, 4)]
    made = torch.ops.smex.lstm_layer(*tensors)
    wanted = lstm_layer(*tensors)
    torch.testing.assert_close(made[0], wanted[0], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("sizes", [(0, 2, 3), (2, 0, 3)])
def test_nothing(sizes):
    x, h, c, weight = (t.detach() for t in arguments(*sizes))
    out, cells, gates = torch.ops.smex.lstm_layer(x, h, c, weight)
    assert list(out.shape) == list(cells.shape) == list(sizes)
    assert gates.shape == x.shape


def test_shapes_that_do_not_fit():
    x, h, c, weight = (t.detach() for t in arguments(3, 2, 4))
    with pytest.raises(ValueError, match=r"smex::lstm_layer: expected x \[T, N, 4H\]"):
        torch.ops.smex.lstm_layer(x, h[:1], c, weight)
    with pytest.raises(TypeError, match="expected tensors of one type"):
        torch.ops.smex.lstm_layer(x, h.float(), c, weight)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 3, 4), (129, 65, 130)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_product(sizes, dtype):
    """The largest goes to the library."""
    rows, inner, columns = sizes
    torch.manual_seed(0)
    a = torch.randn(inner, rows, dtype=dtype).t().requires_grad_()
    b = torch.randn(columns, inner, dtype=dtype).requires_grad_()
    made = torch.ops.smex.recurrent_product(a, b)
    torch.testing.assert_close(made, a @ b.t())
    weight = torch.randn_like(made)
    found = torch.autograd.grad((made * weight).sum(), (a, b))
    wanted = torch.autograd.grad((a @ b.t() * weight).sum(), (a, b))
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_products_that_do_not_fit():
    with pytest.raises((ValueError, RuntimeError)):
        torch.ops.smex.recurrent_product(torch.randn(2, 3), torch.randn(2, 4))
    with pytest.raises((ValueError, RuntimeError)):
        torch.ops.smex.recurrent_product(torch.randn(2, 3), torch.randn(4, 3), torch.randn(3))


@pytest.mark.parametrize("sizes", [(5, 3, 4), (129, 65, 130)])
def test_product_with_a_bias(sizes):
    rows, inner, columns = sizes
    a, b, bias = torch.randn(rows, inner), torch.randn(columns, inner), torch.randn(columns)
    tensors = [t.requires_grad_() for t in (a, b, bias)]
    made = torch.ops.smex.recurrent_product(*tensors)
    torch.testing.assert_close(made, a @ b.t() + bias)
    weight = torch.randn_like(made)
    found = torch.autograd.grad((made * weight).sum(), tensors)
    wanted = torch.autograd.grad(((a @ b.t() + bias) * weight).sum(), tensors)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (5, 3, 4), (128, 7, 64), (300, 129, 65), (130, 40, 16)]
)
def test_gradient_of_a_product(sizes, dtype):
    """Rows about a block, columns about tiles and panels, and rows that lie apart."""
    rows, columns, inner = sizes
    torch.manual_seed(0)
    grads = torch.randn(rows, columns + 3, dtype=dtype)[:, 2 : columns + 2]
    a = torch.randn(rows, inner, dtype=dtype)
    weight, bias = torch.ops.smex.recurrent_gradient(grads, a)
    torch.testing.assert_close(weight, grads.t() @ a, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(bias, grads.sum(0), rtol=1e-4, atol=1e-4)
    other = torch.ops.smex.recurrent_gradient(grads.t().contiguous().t(), a)
    torch.testing.assert_close(other, (weight, bias))


def test_gradients_of_nothing_and_that_do_not_fit():
    gradient = torch.ops.smex.recurrent_gradient
    weight, bias = gradient(torch.randn(0, 3), torch.randn(0, 4))
    assert torch.equal(weight, torch.zeros(3, 4)) and torch.equal(bias, torch.zeros(3))
    with pytest.raises(ValueError, match=r"smex::recurrent_gradient: expected grads \[M, N\]"):
        gradient(torch.randn(2, 3), torch.randn(3, 3))
    with pytest.raises(TypeError, match="smex::recurrent_gradient: expected tensors of one type"):
        gradient(torch.randn(2, 3), torch.randn(2, 3).double())


def by_layer(module, x, *states):
    """Returns what a module of one layer gives, by its operator."""
    ops, (w_ih, w_hh, *biases) = torch.ops.smex, module.parameters()
    total = sum(biases) if biases else None
    if isinstance(module, nn.GRU):
        total = biases[0] if biases else None
    gates = ops.recurrent_product(x.flatten(0, 1), w_ih, total).view(*x.shape[:2], -1)
    states = [state[0] for state in states]
    if isinstance(module, nn.LSTM):
        out, cells, _ = ops.lstm_layer(gates, *states, w_hh)
        return out, out[-1], cells[-1]
    if isinstance(module, nn.GRU):
        out, _ = ops.gru_layer(gates, *states, w_hh, *biases[1:])
    else:
        out = ops.rnn_layer(gates, *states, w_hh, module.nonlinearity == "relu")
    return out, out[-1]


def by_torch(module, x, *states):
    out, last = module(x, states if isinstance(module, nn.LSTM) else states[0])
    return out, *(state[0] for state in (last if isinstance(last, tuple) else (last,)))


def results(layer, module, inputs):
    """Returns what a layer gives, and the gradients of all that it reads."""
    made = layer(module, *inputs)
    torch.manual_seed(5)
    loss = sum((t * torch.randn_like(t)).sum() for t in made)
    return *made, *torch.autograd.grad(loss, [*inputs, *module.parameters()])


def inputs_of(module, steps, rows, dtype, layout=lambda x: x):
    torch.manual_seed(1)
    states = 2 if isinstance(module, nn.LSTM) else 1
    shapes = [(steps, rows, module.input_size), *[(1, rows, module.hidden_size)] * states]
    return [layout(torch.randn(shape, dtype=dtype)).detach().requires_grad_() for shape in shapes]


def relu_rnn(*sizes, **options):
    return nn.RNN(*sizes, nonlinearity="relu", **options)


MODULES = [nn.LSTM, nn.GRU, nn.RNN, relu_rnn]
# Steps, rows, inputs, hidden numbers: about a vector, a panel, a tile of rows and threads' shares.
LAYERS = [
    (1, 1, 1, 1),
    (3, 2, 5, 4),
    (2, 7, 3, 15),
    (4, 13, 2, 16),
    (2, 6, 2, 33),
    (3, 1, 4, 65),
    (2, 19, 7, 129),
    (2, 2, 3, 520),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sizes", LAYERS)
@pytest.mark.parametrize("build", MODULES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_layers_are_torchs(build, sizes, threads, dtype):
    steps, rows, inner, width = sizes
    bias = rows % 2 == 1
    torch.manual_seed(0)
    module = build(inner, width, bias=bias).to(dtype)
    inputs = inputs_of(module, steps, rows, dtype)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        found = results(by_layer, module, inputs)
    finally:
        torch.set_num_threads(before)
    wanted = results(by_torch, module, inputs)
    tolerances = {"rtol": 1e-10, "atol": 1e-10} if dtype == torch.float64 else {"atol": 1e-4}
    torch.testing.assert_close(found, wanted, **{"rtol": 1e-4, **tolerances})


@pytest.mark.parametrize("build", MODULES)
def test_layers_of_strided_tensors(build):
    module = build(4, 6).double()
    inputs = inputs_of(module, 3, 4, torch.float64, lambda x: x.repeat_interleave(2, -1)[..., ::2])
    torch.testing.assert_close(results(by_layer, module, inputs), results(by_torch, module, inputs))


@pytest.mark.parametrize("build", MODULES)
def test_a_row_does_not_depend_on_its_neighbours(build):
    """Bit by bit: a tile of a batch is the batch's."""
    module = build(4, 37)
    inputs = inputs_of(module, 3, 13, torch.float32)
    whole = by_layer(module, *inputs)[0]
    gates = [x[:, 5:10] for x in inputs]
    assert torch.equal(by_layer(module, *gates)[0], whole[:, 5:10])


@pytest.mark.costly(cases=1)
@pytest.mark.parametrize("isa", ["default", "avx2"])
def test_other_instruction_sets(isa):
    """The layers of this file again, in a process that asks for less."""
    code = """
import torch, test_recurrent_layers as tests
for build in tests.MODULES:
    for steps, rows, inner, width in tests.LAYERS[:7]:
        for dtype in torch.float32, torch.float64:
            module = build(inner, width).to(dtype)
            inputs = tests.inputs_of(module, steps, rows, dtype)
            torch.testing.assert_close(
                tests.results(tests.by_layer, module, inputs),
                tests.results(tests.by_torch, module, inputs), rtol=1e-4, atol=1e-4)
"""
    here = os.path.dirname(__file__)
    environment = {**os.environ, "SMEX_CPU_CAPABILITY": isa}
    environment["PYTHONPATH"] = os.pathsep.join([here, *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_numbers_that_are_none():
    """NaN goes through relu, as torch's."""
    x = torch.full((1, 1, 3), torch.nan)
    h, weight = torch.zeros(1, 3), torch.eye(3)
    assert torch.ops.smex.rnn_layer(x, h, weight, True).isnan().all()
    grad, _ = torch.ops.smex.rnn_layer_backward(torch.ones_like(x), weight, x, True)
    assert torch.equal(grad, torch.ones_like(x))


@pytest.mark.parametrize("sizes", [(0, 2, 3), (2, 0, 3)])
def test_layers_of_nothing(sizes):
    steps, rows, width = sizes
    h = torch.zeros(rows, width)
    out, gates = torch.ops.smex.gru_layer(
        torch.zeros(steps, rows, 3 * width), h, torch.zeros(3 * width, width)
    )
    assert list(out.shape) == list(sizes) and list(gates.shape) == [steps, rows, 4 * width]
    made = torch.ops.smex.gru_layer_backward(out, torch.zeros(3 * width, width), gates, out, h)
    assert [list(t.shape) for t in made] == [[steps, rows, 3 * width], list(sizes), [rows, width]]
    out = torch.ops.smex.rnn_layer(torch.zeros(sizes), h, torch.zeros(width, width))
    assert list(out.shape) == list(sizes)
    made = torch.ops.smex.rnn_layer_backward(out, torch.zeros(width, width), out)
    assert [list(t.shape) for t in made] == [list(sizes), [rows, width]]


def test_layers_that_do_not_fit():
    x, h, weight = torch.zeros(2, 3, 12), torch.zeros(3, 4), torch.zeros(12, 4)
    with pytest.raises(ValueError, match=r"smex::gru_layer: expected x \[T, N, 3H\]"):
        torch.ops.smex.gru_layer(x, h[:2], weight)
    with pytest.raises(ValueError, match=r"expected bias \[3H\]"):
        torch.ops.smex.gru_layer(x, h, weight, torch.zeros(11))
    with pytest.raises(TypeError, match="smex::gru_layer: expected tensors of one type"):
        torch.ops.smex.gru_layer(x, h, weight, torch.zeros(12).double())
    with pytest.raises(ValueError, match=r"smex::rnn_layer: expected x \[T, N, H\]"):
        torch.ops.smex.rnn_layer(x, h, torch.zeros(4, 4))


def test_no_second_derivatives():
    inputs = [torch.randn(s, requires_grad=True) for s in [(2, 3, 12), (3, 4), (12, 4)]]
    out, _ = torch.ops.smex.gru_layer(*inputs)
    with pytest.raises(RuntimeError, match="smex::gru_layer: has no second derivative"):
        torch.autograd.grad(out.sum(), inputs, create_graph=True)


NETS = [
    (nn.LSTM, {}),
    (nn.LSTM, {"batch_first": True, "num_layers": 2}),
    (nn.LSTM, {"bidirectional": True, "num_layers": 2}),
    (nn.LSTM, {"bias": False}),
    (nn.LSTM, {"proj_size": 3}),
    (nn.GRU, {}),
    (nn.GRU, {"batch_first": True, "num_layers": 2, "bidirectional": True}),
    (nn.GRU, {"bias": False}),
    (nn.RNN, {"num_layers": 2}),
    (nn.RNN, {"bidirectional": True, "bias": False}),
    (relu_rnn, {"batch_first": True}),
]


def states_of(state):
    return state if isinstance(state, tuple) else (state,)


def compare(net, model, args):
    model.zero_grad()
    net.zero_grad()
    for module in (model, net):
        out, state = module(*args)
        (out.square().sum() + sum(s.sin().sum() for s in states_of(state))).backward()
    for name, grad in net.full_grads().items():
        wanted = model.get_parameter(name).grad
        torch.testing.assert_close(grad, wanted, rtol=1e-10, atol=1e-10)
    with torch.no_grad():
        torch.testing.assert_close(net(*args), model(*args))


@pytest.mark.costly(cases=6)
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize(("build", "options"), NETS)
def test_a_net_of_it(workers, build, options):
    """Training, `no_grad`, evaluation, training, of several lengths and batches, with states."""
    torch.manual_seed(1)
    model = build(4, 6, **options).double()
    net = smex.partition(copy.deepcopy(model), workers=workers)
    for sizes in [(3, 5), (4, 7), (5, 1)] if workers == 2 else [(3, 5), (1, 4)]:
        x = torch.randn(*sizes, 4, dtype=torch.float64)
        compare(net, model, (x,))
        net.eval()
        torch.testing.assert_close(net(x)[0], model(x)[0])
        net.train()
    state = model(x)[1]
    given = [torch.randn_like(s) for s in states_of(state)]
    compare(net, model, (x, tuple(given) if isinstance(state, tuple) else given[0]))


@pytest.mark.parametrize("build", MODULES)
def test_a_net_of_one_sample(build):
    model = build(4, 6).double()
    net = smex.partition(copy.deepcopy(model), workers=2)
    compare(net, model, (torch.randn(3, 4, dtype=torch.float64),))


@pytest.mark.parametrize(
    ("build", "name"), [(nn.LSTM, "lstm"), (nn.GRU, "gru"), (nn.RNN, "rnn"), (relu_rnn, "rnn")]
)
def test_a_net_calls_it(build, name):
    net = smex.partition(build(4, 6), workers=1)
    net(torch.randn(3, 5, 4))[0].sum().backward()
    stats = net.stats()
    assert f"smex::{name}_layer" in stats["seconds_by_target"]
    assert f"smex::{name}_layer_backward" in stats["seconds_by_target"]
    assert not {"aten::sigmoid", "aten::tanh"} & set(stats["seconds_by_target"])
    assert list(stats["peak_bytes"]) == list(stats["predicted_peak_bytes"])


@pytest.mark.parametrize("build", MODULES)
def test_a_net_that_is_cut_along_the_batch_calls_it(build):
    x = torch.randn(3, 8, 4)
    net = smex.partition(
        build(4, 6),
        workers=2,
        args=(x,),
        pins=[smex.pin("input", "S1")],
        replicate_bytes=0,
    )
    model = copy.deepcopy(net._model[0])
    net(x)[0].square().sum().backward()
    model(x)[0].square().sum().backward()
    for name, grad in net.full_grads().items():
        torch.testing.assert_close(grad, model.get_parameter(name).grad)


@pytest.mark.parametrize("pin", [smex.pin("input", "S2"), smex.pin("weight_ih_l0", "S1")])
@pytest.mark.parametrize("build", MODULES)
def test_a_net_whose_inputs_are_cut_adds_up_their_product(build, pin):
    x = torch.randn(3, 8, 4, dtype=torch.float64)
    model = build(4, 6).double()
    options = {"workers": 2, "args": (x,), "replicate_bytes": 0}
    net = smex.partition(copy.deepcopy(model), pins=[pin], **options)
    compare(net, model, (x,))


@pytest.mark.parametrize("pin", [smex.pin("weight_hh_l0", "S0"), smex.pin("weight_hh_l0", "S1")])
@pytest.mark.parametrize("build", MODULES)
def test_a_net_whose_hidden_numbers_are_cut_computes_them_whole(build, pin):
    x = torch.randn(3, 8, 4, dtype=torch.float64)
    model = build(4, 6).double()
    options = {"workers": 2, "args": (x,), "replicate_bytes": 0}
    net = smex.partition(copy.deepcopy(model), pins=[pin], **options)
    compare(net, model, (x,))


@pytest.mark.parametrize("build", MODULES)
def test_dropout_between_layers(build):
    """Each number is kept or not as one draw says, for any number of workers; not in the last."""
    x, made = torch.randn(4, 6, 3), []
    model = build(3, 8, num_layers=2, dropout=0.5)
    for workers in (1, 2):
        torch.manual_seed(3)
        made.append(smex.partition(copy.deepcopy(model), workers=workers)(x)[0])
    torch.testing.assert_close(*made)
    assert not torch.allclose(made[0], model.eval()(x)[0])
    net = smex.partition(model.train(), workers=2)
    assert not torch.equal(net(x)[0], net(x)[0])
    net.eval()
    torch.testing.assert_close(net(x)[0], model.eval()(x)[0])


def test_all_that_is_between_layers_may_be_dropped():
    """What the second layer makes of zeros, its own states aside."""
    model = nn.GRU(3, 8, num_layers=2, dropout=1.0)
    net = smex.partition(model, workers=1)
    x = torch.randn(4, 6, 3)
    torch.testing.assert_close(net(x)[0], model(x)[0])


@pytest.mark.parametrize("build", MODULES)
def test_autocast(build):
    """Types are eager's, numbers those of bfloat16; the layer is still one call."""
    torch.manual_seed(2)
    model = build(8, 16, num_layers=2)
    net = smex.partition(copy.deepcopy(model), workers=2)
    x = torch.randn(5, 6, 8)
    made = []
    # oneDNN's LSTM refuses bfloat16 on older CPUs; torch's own leaves the cells in float32.
    refused = build is nn.LSTM and not torch.ops.mkldnn._is_mkldnn_bf16_supported()
    for module in (net, model):
        with (
            torch.backends.mkldnn.flags(enabled=not refused),
            torch.autocast("cpu", torch.bfloat16),
        ):
            out, state = module(x)
            loss = out.float().square().sum()
        loss.backward()
        made.append((out, *states_of(state)))
    for found, wanted in zip(*made, strict=True):
        assert found.dtype == (torch.bfloat16 if refused else wanted.dtype)
        torch.testing.assert_close(found, wanted.to(found.dtype), rtol=3e-2, atol=3e-2)
    for name, grad in net.full_grads().items():
        wanted = model.get_parameter(name).grad
        assert (grad - wanted).norm() < 3e-2 * wanted.norm(), name
    assert any("_layer" in name for name in net.stats()["seconds_by_target"])


@pytest.mark.parametrize("build", MODULES)
def test_other_types_of_modules_go_step_by_step(build):
    model = build(4, 6).bfloat16()
    net = smex.partition(copy.deepcopy(model), workers=1)
    x = torch.randn(3, 5, 4).bfloat16()
    torch.testing.assert_close(net(x)[0], model(x)[0], rtol=3e-2, atol=3e-2)
    assert not any("_layer" in name for name in net.stats()["seconds_by_target"])


class Packed(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        packed = packing.pack_padded_sequence(x, [4, 3, 1])
        return packing.pad_packed_sequence(self.layer(packed)[0])[0]


def test_packed_sequences_are_refused():
    """How many samples a step has are values, which decide about shapes."""
    net = smex.partition(Packed(nn.GRU(4, 6)), workers=1)
    with pytest.raises(smex.CaptureError, match="structure depends on a tensor's values"):
        net(torch.randn(4, 3, 4))

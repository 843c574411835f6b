"""A layer of an LSTM as one operator, beside torch's own and beside plain tensors."""

import copy

import pytest
import torch

import smex

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
    made = torch.ops.smex.lstm_product(a, b)
    torch.testing.assert_close(made, a @ b.t())
    weight = torch.randn_like(made)
    found = torch.autograd.grad((made * weight).sum(), (a, b))
    wanted = torch.autograd.grad((a @ b.t() * weight).sum(), (a, b))
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_products_that_do_not_fit():
    with pytest.raises((ValueError, RuntimeError)):
        torch.ops.smex.lstm_product(torch.randn(2, 3), torch.randn(2, 4))


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_first": True, "num_layers": 2},
        {"bidirectional": True},
        {"bias": False},
        {"proj_size": 3},
    ],
    ids=lambda options: " ".join(options) or "plain",
)
def test_a_net_of_it(workers, options):
    """Training, `no_grad`, evaluation, training; the states count too."""
    torch.manual_seed(1)
    model = torch.nn.LSTM(4, 6, **options).double()
    net = smex.partition(copy.deepcopy(model), workers=workers)
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    for _ in range(2):
        model.zero_grad()
        net.zero_grad()
        for module in (model, net):
            out, (h, c) = module(x)
            (out.square().sum() + h.sin().sum() + c.cos().sum()).backward()
        for name, grad in net.full_grads().items():
            torch.testing.assert_close(grad, model.get_parameter(name).grad)
        with torch.no_grad():
            for found, wanted in zip(net(x)[1], model(x)[1], strict=True):
                torch.testing.assert_close(found, wanted)
        net.eval()
        torch.testing.assert_close(net(x)[0], model(x)[0])
        net.train()


def test_a_net_calls_it():
    net = smex.partition(torch.nn.LSTM(4, 6), workers=1)
    net(torch.randn(3, 5, 4))[0].sum().backward()
    stats = net.stats()
    assert "smex::lstm_layer" in stats["seconds_by_target"]
    assert "smex::lstm_layer_backward" in stats["seconds_by_target"]
    assert "aten::sigmoid" not in stats["seconds_by_target"]
    assert list(stats["peak_bytes"]) == list(stats["predicted_peak_bytes"])


def test_a_net_that_is_cut_along_the_batch_calls_it():
    x = torch.randn(3, 8, 4)
    net = smex.partition(
        torch.nn.LSTM(4, 6),
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

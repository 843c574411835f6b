"""Softmax, losses, variances, norms and extremes are cut along the rows that they reduce."""

import copy
import json
import math
import re

import pytest
import torch
from torch.nn import functional as F

import smex

pytestmark = pytest.mark.costly


class Rows(torch.nn.Module):
    """A linear layer whose columns are cut, and a function of whole rows."""

    def __init__(self, function, columns=64):
        super().__init__()
        self.w, self.function = torch.nn.Linear(16, columns), function

    def forward(self, x):
        return self.function(self.w(x))


def loss_of(y):
    return F.cross_entropy(y, torch.arange(len(y)) * 5 % y.shape[1])


def ignoring(y):
    target = torch.arange(len(y)) * 5 % y.shape[1]
    target[2] = -100
    return F.cross_entropy(y, target, torch.linspace(0.5, 2, y.shape[1]).to(y), label_smoothing=0.1)


FUNCTIONS = {
    "softmax": lambda y: y.softmax(-1),
    "softmax of the middle": lambda y: y.view(2, 4, 64).transpose(1, 2).softmax(1),
    "log_softmax": lambda y: y.log_softmax(-1),
    "safe softmax": lambda y: torch.ops.aten._safe_softmax(y, -1),
    "logsumexp": lambda y: y.logsumexp(-1),
    "logsumexp of all": lambda y: y.logsumexp((0, 1), keepdim=True),
    "cross entropy": loss_of,
    "weighted cross entropy": ignoring,
    "var": lambda y: y.var(-1),
    "std": lambda y: y.std(-1, correction=0, keepdim=True),
    "var of all": lambda y: y.var(),
    "var_mean": lambda y: torch.stack(torch.var_mean(y, -1)),
    "std_mean": lambda y: torch.stack(torch.std_mean(y, 1, keepdim=True)),
    "norm": lambda y: torch.linalg.vector_norm(y, 2, -1),
    "norm of all": lambda y: y.norm(),
    "norm 1": lambda y: torch.linalg.vector_norm(y, 1, -1, keepdim=True),
    "norm 3": lambda y: torch.linalg.vector_norm(y, 3, -1),
    "norm inf": lambda y: torch.linalg.vector_norm(y, math.inf, -1),
    "norm -inf": lambda y: torch.linalg.vector_norm(y, -math.inf, -1),
    "normalize": lambda y: F.normalize(y, dim=-1),
    "max": lambda y: y.max(-1).values,
    "min": lambda y: y.min(-1, keepdim=True).values,
    "max with positions": lambda y: y.max(-1)[0] * y.max(-1)[1],
    "argmax": lambda y: y.argmax(-1) * y.sum(-1),
    "argmin": lambda y: y.argmin(-1, keepdim=True) * y,
    "argmax of all": lambda y: y.argmax() * y,
    "topk": lambda y: y.topk(3, -1)[0] * y.topk(3, -1)[1],
    "smallest": lambda y: y.topk(2, 1, largest=False)[0],
    "layer norm": lambda y: F.layer_norm(y, [64]),
    "layer norm of the last two": lambda y: F.layer_norm(y.view(2, 4, 64), [4, 64]),
    "layer norm with weights": lambda y: F.layer_norm(y, [64], y[0].cos(), y[1].sin()),
    "layer norm of all": lambda y: F.layer_norm(y, [8, 64]),
    "rms norm": lambda y: F.rms_norm(y, [64], y[0].cos()),
    "batch statistics": lambda y: F.batch_norm(y.t(), None, None, training=True),
    "group norm": lambda y: F.group_norm(y.view(8, 32, 2), 4),
    "amax": lambda y: y.amax(-1) + y.amin(-1),
    "median": lambda y: y.median(-1).values + y.kthvalue(5, 1).values,
    "sorted": lambda y: y.sort(-1).values * torch.arange(64),
    "gather": lambda y: y.gather(1, torch.arange(24).view(8, 3) * 7 % 64),
    "gather twice": lambda y: y.gather(1, torch.tensor([[5, 5, 63]]).expand(8, 3)),
    "cumsum": lambda y: y.cumsum(-1),
    "cumprod": lambda y: (1 + y / 50).cumprod(-1),
    "logcumsumexp": lambda y: y.logcumsumexp(-1),
    "cumsum of columns": lambda y: y.t().cumsum(0).t(),
}  # fmt: skip


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward = function


def operators(net, path, *args):
    """Returns the operators that ran; of element-wise ones that are joined each."""
    net.trace(path / "trace.json", *args)
    events = json.loads((path / "trace.json").read_text())["traceEvents"]
    names = {event["name"] for event in events if event.get("ph") == "X"}
    return names | {part for name in names for part in re.findall(r"aten::[\w.]+", name)}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_equals_the_whole(name, workers):
    torch.manual_seed(0)
    model = Rows(FUNCTIONS[name]).double()
    x = torch.randn(8, 16).double()
    out = model(x)
    grad = torch.randn_like(out)
    wanted = torch.autograd.grad(out, list(model.parameters()), grad)
    pins = {"w.weight": 0, "w.bias": 0, "x": "R"} if workers > 1 else {}
    net = smex.partition(model, workers=workers, args=(x,), pins=pins, replicate_bytes=0)
    for _ in range(2):
        net.zero_grad()
        found = net(x)
        torch.testing.assert_close(found.detach(), out.detach(), rtol=1e-10, atol=1e-12)
        found.backward(grad)
    grads = net.full_grads()
    for (key, _), full in zip(model.named_parameters(), wanted, strict=True):
        torch.testing.assert_close(grads[key], full, rtol=1e-9, atol=1e-11)
    with torch.no_grad():
        torch.testing.assert_close(net(x), out.detach(), rtol=1e-10, atol=1e-12)
    stats = net.stats()
    assert stats["bytes_moved"] == stats["predicted_bytes_moved"]


CUT = {
    "softmax": "aten::amax",
    "cross entropy": "aten::amax",
    "logsumexp": "aten::amax",
    "var": "aten::sub.Tensor",
    "norm": "aten::sqrt",
    "max with positions": "smex::first_position",
    "argmax": "smex::first_position",
    "layer norm": "smex::row_squares",
    "cumsum": "aten::constant_pad_nd",
}


@pytest.mark.parametrize("name", CUT)
def test_one_call_where_rows_are_whole(name, tmp_path):
    """The members run only where they are needed."""
    model, x = Rows(FUNCTIONS[name]), torch.randn(8, 16)
    rows = smex.partition(model, workers=2, args=(x,), planner="data_parallel")
    columns = smex.partition(
        model, workers=2, args=(x,), pins={"w.weight": 0, "x": "R"}, replicate_bytes=0
    )
    with torch.no_grad():
        assert CUT[name] not in operators(rows, tmp_path, x)
        assert CUT[name] in operators(columns, tmp_path, x)


class Normalized(torch.nn.Module):
    """A layer norm between two linear layers."""

    def __init__(self, columns=64, bias=True, affine=True):
        super().__init__()
        self.first = torch.nn.Linear(16, columns)
        self.norm = torch.nn.LayerNorm(columns, bias=bias, elementwise_affine=affine)
        self.last = torch.nn.Linear(columns, 16)

    def forward(self, x):
        return self.last(self.norm(self.first(x)))


COLUMNS_CUT = {"first.weight": 0, "first.bias": 0, "last.weight": 1, "x": "R"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layer_norm_is_one_call_where_rows_are_whole(dtype, tmp_path):
    model, x = Normalized().to(dtype), torch.randn(8, 16, dtype=dtype)
    rows = smex.partition(model, workers=2, args=(x,), planner="data_parallel")
    rows.trace(tmp_path / "rows.json", x, backward=True)
    columns = smex.partition(model, workers=2, args=(x,), pins=COLUMNS_CUT, replicate_bytes=0)
    columns.trace(tmp_path / "columns.json", x, backward=True)
    own, fused = "smex::row_", "aten::native_layer_norm"
    found = {
        name: [
            event["name"]
            for event in json.loads((tmp_path / f"{name}.json").read_text())["traceEvents"]
            if event.get("ph") == "X" and event["name"].startswith((own, fused))
        ]
        for name in ("rows", "columns")
    }
    assert set(found["rows"]) == {fused, f"{fused}_backward"}
    assert len(found["rows"]) == 2 * 2  # of each worker, once
    assert {name.startswith(own) for name in found["columns"]} == {True}


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("columns", [1, 5, 37])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"affine": False}], ids=str)
def test_layer_norm_trains_with_cut_rows(columns, workers, options):
    """Training, evaluation, training; other batches; bytes and memory as predicted."""
    torch.manual_seed(0)
    model = Normalized(columns, **options).double()
    pins = COLUMNS_CUT if 1 < workers <= columns else {}
    reference = copy.deepcopy(model)
    net = smex.partition(
        model, workers=workers, args=(torch.randn(5, 16).double(),), pins=pins, replicate_bytes=0
    )
    pairs = [(m, torch.optim.SGD(m.parameters(), lr=0.1)) for m in (reference, net)]
    for batch, training in ((5, True), (5, True), (4, False), (3, True)):
        x = torch.randn(batch, 16).double()
        results = []
        for trained, optimizer in pairs:
            with torch.set_grad_enabled(trained.train(training).training):
                results.append(trained(x))
            if training:
                optimizer.zero_grad()
                results[-1].square().sum().backward()
                optimizer.step()
        torch.testing.assert_close(results[1], results[0], rtol=1e-10, atol=1e-12)
        stats = net.stats()
        assert stats["bytes_moved"] == stats["predicted_bytes_moved"]
        pairs_of_bytes = zip(stats["peak_bytes"], stats["predicted_peak_bytes"], strict=True)
        assert all(peak <= predicted for peak, predicted in pairs_of_bytes)  # of one ahead
        assert workers > 1 or stats["peak_bytes"] == stats["predicted_peak_bytes"]
    for name, wanted in reference.state_dict().items():
        torch.testing.assert_close(net.state_dict()[name], wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("mean", [1e4, -1e6])
def test_a_variance_far_from_zero_keeps_its_digits(mean):
    """Squares about the mean, not the mean of squares less a square."""
    torch.manual_seed(0)
    x = torch.randn(6, 64) + mean
    wanted = F.layer_norm(x.double(), [64])
    net = smex.partition(
        Function(lambda x: F.layer_norm(x, [64])), workers=2, args=(x,), pins={"x": 1},
        replicate_bytes=0,
    )  # fmt: skip
    rounding = torch.finfo(torch.float32).eps * abs(mean)
    torch.testing.assert_close(net(x).double(), wanted, rtol=0, atol=4 * rounding)


GRADIENTS = {
    "max": lambda x: x.max(1)[0],
    "min": lambda x: x.min(1, keepdim=True)[0],
    "topk": lambda x: x.topk(3, 1)[0],
    "amax": lambda x: x.amax(1),
    "median": lambda x: x.median(1)[0],
    "max of columns": lambda x: x.max(0)[0],
}


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_chosen_elements(name, workers):
    """Not a number, infinities; and ties, where the operator says which of them is chosen."""
    function = GRADIENTS[name]
    x = torch.randn(6, 40, generator=torch.Generator().manual_seed(0)).double()
    if name != "topk":
        x = x.round()
    x[1, 7] = math.nan
    x[2, 39] = math.inf
    x[3, 0] = -math.inf
    if name != "topk":
        x[4] = 2.0
    whole = x.clone().requires_grad_()
    out = function(whole)
    grad = torch.arange(out.numel()).view(out.shape).double() + 1
    out.backward(grad)
    for dim in (0, 1):
        cut = x.clone().requires_grad_()
        net = smex.partition(
            Function(function), workers=workers, args=(cut,), pins={"x": dim}, replicate_bytes=0
        )
        found = net(cut)
        found.backward(grad)
        torch.testing.assert_close(found, out, equal_nan=True)
        torch.testing.assert_close(cut.grad, whole.grad, equal_nan=True)


def test_the_gradient_of_a_maximum_moves_one_number_a_row():
    moved = []
    for columns in (64, 4096):
        x = torch.randn(8, columns, requires_grad=True)
        net = smex.partition(
            Function(lambda x: x.max(1)[0]), workers=2, args=(x,), pins={"x": 1}, replicate_bytes=0
        )
        net(x).sum().backward()
        moved.append(net.stats()["bytes_moved"])
    assert moved[0] == moved[1]


def test_what_is_written_twice_stays_the_last():
    """Only gradients are sums: what a user writes at one place several times is not."""
    index = torch.tensor([[1, 1, 3]]).expand(4, 3)

    def function(x):
        return torch.zeros(4, 6).scatter(1, index, x)

    x = torch.randn(4, 3)
    net = smex.partition(Function(function), workers=2, args=(x,))
    torch.testing.assert_close(net(x), function(x))


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("size", [1, 2, 7, 40, 96])
def test_running_reductions(size, workers):
    """Within blocks and from block to block; integers, halves, zeros, and what is no number."""
    x = torch.randn(5, size, generator=torch.Generator().manual_seed(0)).double()
    x[1, size // 2] = 0
    x[2, size // 3] = -math.inf
    x[3, size // 2] = math.nan

    def function(x):
        whole = torch.nan_to_num(x * 4, neginf=-3).long()
        return (
            x.cumsum(1), x.cumprod(1), x.logcumsumexp(1), whole.cumsum(1),
            (x > 0).cumsum(1), whole.cumprod(1, dtype=torch.float64), x.t().cumsum(0),
        )  # fmt: skip

    net = smex.partition(
        Function(function), workers=workers, args=(x,), pins={"x": 1} if size >= workers else {},
        replicate_bytes=0,
    )  # fmt: skip
    for found, wanted in zip(net(x), function(x), strict=True):
        torch.testing.assert_close(found, wanted, equal_nan=True)


def test_a_running_sum_moves_totals_of_blocks():
    moved = []
    for columns in (64, 4096):
        x = torch.randn(8, columns)
        net = smex.partition(
            Function(lambda x: x.cumsum(1)), workers=2, args=(x,), pins={"x": 1}, replicate_bytes=0
        )
        net(x)
        moved.append(net.stats()["bytes_moved"])
    assert moved[0] == moved[1]


def test_a_loss_over_cut_classes_moves_numbers_of_tokens():
    """Megatron's vocabulary-parallel loss: three numbers a token, however many classes there are."""
    torch.manual_seed(0)
    x = torch.randn(8, 16)
    moved = []
    for classes in (64, 4096):
        net = smex.partition(
            Rows(loss_of, classes), workers=2, args=(x,),
            pins={"w.weight": 0, "w.bias": 0, "x": "R"}, replicate_bytes=0,
        )  # fmt: skip
        net(x).backward()
        moved.append(net.stats()["bytes_moved"])
    assert moved[0] == moved[1] < 8 * 4 * 2 * 8


@pytest.mark.parametrize("workers", [2, 3])
def test_extremes_are_the_first_and_numbers_that_are_none(workers):
    torch.manual_seed(0)
    x = torch.randint(0, 4, (6, 40)).double()
    x[1, 7] = x[1, 30] = math.nan
    x[2] = -math.inf
    x[3, 39] = math.inf

    def function(x):
        return torch.stack([x.max(1)[1], x.min(1)[1], x.argmax(1), x.argmin(1)])

    def values(x):
        return torch.stack([x.max(1)[0], x.min(1)[0], x.logsumexp(1)])

    for whole in (function, values):
        net = smex.partition(
            Function(whole), workers=workers, args=(x,), pins={"x": 1}, replicate_bytes=0
        )
        torch.testing.assert_close(net(x), whole(x), equal_nan=True)


@pytest.mark.parametrize("workers", [2, 3])
def test_rows_that_are_hidden(workers):
    x = torch.randn(4, 24)
    x[0] = -math.inf
    x[1, :20] = -math.inf
    x[2, 3] = math.inf

    def function(x):
        return torch.cat([x.softmax(1), x.log_softmax(1), torch.ops.aten._safe_softmax(x, 1)])

    net = smex.partition(
        Function(function), workers=workers, args=(x,), pins={"x": 1}, replicate_bytes=0
    )
    torch.testing.assert_close(net(x), function(x), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_added_in_float32(dtype):
    x = (torch.randn(4, 4096) * 3).to(dtype)

    def function(x):
        rows = [
            x.softmax(1).sum(1),
            x.log_softmax(1)[:, 0],
            x.var(1),
            x.norm(dim=1),
            x.logsumexp(1),
        ]
        return torch.stack(
            [x.softmax(1, dtype=torch.float32)[:, 0], *(row.float() for row in rows)]
        )

    net = smex.partition(Function(function), workers=2, args=(x,), pins={"x": 1}, replicate_bytes=0)
    near = torch.finfo(dtype).eps
    torch.testing.assert_close(net(x), function(x), rtol=2 * near, atol=near)


def test_sizes_for_which_there_is_no_formula():
    """Empty rows, no dimension, one element: the call stays as it is."""

    def function(x, empty, one):
        return (
            x.softmax(0), x.argmax(), x.max(), empty.softmax(1), empty.log_softmax(0),
            one.var(1), one.std(1), empty.logsumexp(1), one.topk(1, 1)[1],
        )  # fmt: skip

    args = torch.tensor(1.5), torch.zeros(3, 0), torch.randn(3, 1)
    net = smex.partition(Function(function), workers=2, args=args)
    for found, wanted in zip(net(*args), function(*args), strict=True):
        torch.testing.assert_close(found, wanted, equal_nan=True)

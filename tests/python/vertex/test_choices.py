"""Comparisons and what chooses by them, in element-wise programs, against torch's calls."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import smex.vertex as sv
from support.functions_of_rows import (
    GRAPHS,
    INF,
    NAN,
    Of,
    assert_gradients_are_those_of_differences,
    assert_same,
    calls_of,
    eager,
    rows_of,
)

# Each compares and chooses among calls that are element-wise, of which there are two at least.
FUNCTIONS = {
    "where": lambda s, x, y, h: torch.where(x > 0, x * y, h + 1),
    "where, a number": lambda s, x, y, h: torch.where(x > y, x * y, 0.1),
    "where, zero": lambda s, x, y, h: torch.where(x > y, x * y, 0.0),
    "where, zero first": lambda s, x, y, h: torch.where(x > y, 0, x * y),
    "where, -0": lambda s, x, y, h: torch.where(x > y, x * y, -0.0) * 2,
    "where, infinite": lambda s, x, y, h: torch.where(x > y, -INF, x * y),
    "where, two numbers": lambda s, x, y, h: torch.where(x > y, 2.0, -1.0) * x,
    "where, filled": lambda s, x, y, h: torch.where(
        x > y, torch.ones_like(x), torch.full_like(y, 3)
    ) * x,
    "where, zeros": lambda s, x, y, h: torch.where(x > y, x * y, torch.zeros_like(x)),
    "where, a row": lambda s, x, y, h: torch.where(x > s.row, x * y, s.row),
    "where, a row of bool": lambda s, x, y, h: torch.where(s.mask, x * y, h - x),
    "where, a row of bool and what is filled": lambda s, x, y, h: (
        torch.where(s.mask, torch.full_like(x, 0.1), 0.3) * torch.where(s.mask, x, 0.7)
    ),
    "where, rows and what is filled": lambda s, x, y, h: (
        torch.where(s.mask, torch.full_like(x, 0.1), s.row).neg()
    ),
    "where, a row of bool and numbers": lambda s, x, y, h: torch.where(s.mask, x * 0 + 1, 2.0),
    "where, one of a row": lambda s, x, y, h: torch.where(x[:, :1] > 0, x * y, h - y),
    "where, turned": lambda s, x, y, h: torch.where((x > y).t(), (x * y).t(), y.t()).t() * x,
    "lt": lambda s, x, y, h: (x < y) * x + y,
    "le": lambda s, x, y, h: torch.where(x <= y, x * y, y),
    "ge": lambda s, x, y, h: torch.where(x >= y, x * y, y),
    "eq": lambda s, x, y, h: torch.where(x == y, x * y, y),
    "ne": lambda s, x, y, h: torch.where(x != y, x * y, y),
    "lt, a number": lambda s, x, y, h: torch.where(x < 1, x * y, y),
    "le, a number": lambda s, x, y, h: torch.where(x <= 1, x * y, y),
    "ge, a number": lambda s, x, y, h: torch.where(x >= 0, x * y, y),
    "eq, a number": lambda s, x, y, h: torch.where(x == 0, x * y, y),
    "ne, a number": lambda s, x, y, h: torch.where(x != INF, x * y, y),
    "and": lambda s, x, y, h: torch.where((x > 0) & (y > 0), x * y, y),
    "or": lambda s, x, y, h: torch.where((x > 0) | (y < 0), x * y, y),
    "xor": lambda s, x, y, h: torch.where((x > 0) ^ (y < 0), x * y, y),
    "not": lambda s, x, y, h: torch.where(~(x > 0), x * y, y),
    "logical_and": lambda s, x, y, h: torch.where(torch.logical_and(x > 0, y > 0), x * y, y),
    "logical_or": lambda s, x, y, h: torch.where(torch.logical_or(x > 0, y > 0), x * y, y),
    "logical_not": lambda s, x, y, h: torch.where(torch.logical_not(x > 0), x * y, y),
    "logical_and of numbers": lambda s, x, y, h: torch.where(torch.logical_and(x, y), x * y, y),
    "isnan": lambda s, x, y, h: torch.where(torch.isnan(x * y), 0.0, x * y),
    "of a mask": lambda s, x, y, h: torch.where(s.mask & (x > y), x * y, y),
    "numbers of bool": lambda s, x, y, h: (x > y).to(x.dtype) * y + x,
    "bool is a factor": lambda s, x, y, h: (x > y) * y * x,
    "bool is a term": lambda s, x, y, h: x * y + (x > y),
    "bools are compared": lambda s, x, y, h: torch.where((x > 0) == (y > 0), x * y, y),
    "bool and a number": lambda s, x, y, h: torch.where((x > y) == 1, x * y, y),
    "clamp": lambda s, x, y, h: (x * y).clamp(-1, 3) * 2,
    "clamp, turned bounds": lambda s, x, y, h: (x * y).clamp(3, -1) * x,
    "clamp, one bound": lambda s, x, y, h: (x * y).clamp(max=1) + (x + y).clamp(min=0),
    "clamp_min": lambda s, x, y, h: torch.clamp_min(x * y, 0) * 2,
    "clamp_max": lambda s, x, y, h: torch.clamp_max(x * y, 0) * 2,
    "clamp, infinite": lambda s, x, y, h: (x * y).clamp(-INF, 3) * 2,
    "clamp, tensors": lambda s, x, y, h: (x * y).clamp(h - 1, y) * 2,
    "clamp_min, tensor": lambda s, x, y, h: torch.clamp(x * y, min=y) * 2,
    "hardtanh": lambda s, x, y, h: F.hardtanh(x * y) * 2,
    "hardtanh, bounds": lambda s, x, y, h: F.hardtanh(x * y, -0.5, 3.0) * 2,
    "relu6": lambda s, x, y, h: F.relu6(x + y) * 2,
    "elu": lambda s, x, y, h: F.elu(x * y) * 2,
    "elu, alpha": lambda s, x, y, h: F.elu(x * y, 0.3) * 2,
    "selu": lambda s, x, y, h: F.selu(x * y) * 2,
    "celu": lambda s, x, y, h: F.celu(x * y, 0.5) * 2,
    "hardsigmoid": lambda s, x, y, h: F.hardsigmoid(x * y) * 2,
    "hardswish": lambda s, x, y, h: F.hardswish(x + y) * 2,
    "mish": lambda s, x, y, h: F.mish(x + y) * 2,
    "softplus": lambda s, x, y, h: F.softplus(x * y) * 2,
    "softsign": lambda s, x, y, h: F.softsign(x + y) * 2,
    "masked_fill": lambda s, x, y, h: (x * y).masked_fill(x > y, 1.5) * 2,
    "masked_fill, infinite": lambda s, x, y, h: (x * y).masked_fill(x > y, -INF).exp(),
    "masked_fill, a row": lambda s, x, y, h: (x * y).masked_fill(s.mask, 0) * y,
    "masked_fill, a tensor": lambda s, x, y, h: (
        (x * y).masked_fill(x > y, torch.ones((), dtype=x.dtype)) * 2
    ),
    "an output of bool": lambda s, x, y, h: (x * y > h) & (x > 0),
}  # fmt: skip


# torch's vectors give another zero, and another gradient at NaN, than its loop behind them.
EITHER_ZERO = {"clamp, tensors", "clamp_min, tensor"}
EITHER_AT_NAN = {"hardtanh", "hardtanh, bounds", "relu6"}
ANY_AT_NAN = {"elu", "elu, alpha", "selu", "celu", "hardswish"}
IN_SINGLE = {"hardsigmoid"}  # torch's gradient has a sixth in float32


@pytest.mark.parametrize("special", [False, True], ids=["numbers", "special"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_torch(name, dtype, special):
    x, y = rows_of(dtype, special)
    function = Of(FUNCTIONS[name], x.shape[1]).to(dtype)
    tolerance = 1e-5 if dtype is torch.float32 or name in IN_SINGLE else 1e-12
    wanted = eager(function, x, y)
    for _ in range(2):
        with torch.no_grad():
            found = sv.run(function, GRAPHS, {"x": x, "y": y}).outputs["out"]
        assert_same(found, wanted, tolerance, name in EITHER_ZERO)
        leaves = [x.clone().requires_grad_(), y.clone().requires_grad_(), function.row]
        values = eager(function, *leaves[:2])
        result = sv.run(function, GRAPHS, dict(zip("xy", leaves))).outputs["out"]
        assert_same(result, wanted, tolerance, name in EITHER_ZERO)
        if not wanted.is_floating_point():
            continue
        weights = torch.linspace(-2, 2, wanted.numel(), dtype=dtype).view(wanted.shape)
        given = weights.masked_fill(weights > 1.5, INF) if special else weights
        if name in EITHER_AT_NAN:
            given = given.masked_fill(wanted.isnan(), 0)
        grads = [
            torch.autograd.grad(out, leaves, given, allow_unused=True) for out in (result, values)
        ]
        for leaf, one, other in zip(leaves, *grads):
            one, other = (torch.zeros_like(leaf) if g is None else g for g in (one, other))
            if name in ANY_AT_NAN and leaf is not function.row:
                one, other = (g.masked_fill(wanted.isnan(), 0) for g in (one, other))
            torch.testing.assert_close(
                one, other, rtol=10 * tolerance, atol=10 * tolerance, equal_nan=True
            )


@pytest.mark.parametrize("name", ["where", "clamp", "hardtanh", "masked_fill", "where, a row"])
def test_gradients_are_those_of_differences(name):
    assert_gradients_are_those_of_differences(FUNCTIONS[name], 6)


CHOOSING = [
    "elu",
    "hardswish",
    "mish",
    "softplus",
    "softsign",
    "where, a number",
    "where, filled",
    "and",
    "not",
    "clamp",
    "hardtanh",
    "masked_fill",
    "isnan",
]


@pytest.mark.parametrize("name", CHOOSING)
def test_they_are_part_of_programs(name):
    names = calls_of(Of(FUNCTIONS[name], 10))
    apart = {"where", "gt", "lt", "clamp", "hardtanh", "masked_fill", "isnan", "full_like"}
    apart |= {"elu", "elu_backward", "hardswish", "hardswish_backward", "mish", "mish_backward"}
    apart |= {"softplus", "softplus_backward", "sgn"}
    assert not {f"aten::{name}" for name in apart} & set(names)
    # Of vertices with and without a child, forward and, where it is more than one call, backward.
    assert names.count("smex::pointwise") == (2 if name == "where, filled" else 4)


def test_a_branch_that_is_not_taken_has_no_gradient():
    function = Of(lambda s, x, y, h: torch.where(x > 0, x, y).neg(), 2)
    x, y = torch.tensor([[-1.0, 2.0]]), torch.tensor([[3.0, INF]])
    result = sv.run(function, [sv.chain(1)], {"x": x.requires_grad_(), "y": y.requires_grad_()})
    result.outputs["out"].backward(torch.tensor([[INF, NAN]]))
    assert torch.equal(x.grad[0, :1], torch.zeros(1)) and torch.equal(y.grad[0, 1:], torch.zeros(1))
    assert y.grad[0, 0] == -INF and x.grad[0, 1].isnan()


class Filled(sv.VertexFunction):
    """Chooses between values of the recursion and constants that are shaped like them."""

    def __init__(self, filled):
        super().__init__(h=4)
        self.l = nn.Linear(4, 4)
        self.filled = filled

    def forward(self):
        h, x = self.gather(0).h, self.pull()
        self.scatter(self.cell(h, x))

    def cell(self, h, x):
        return torch.where(h > 0, self.l(h) + x, self.filled(h)) + x.tanh()


@pytest.mark.parametrize(
    "options", [{}, {"hoist": False}, {"lazy": False}, {"hoist": False, "lazy": False}], ids=str
)
@pytest.mark.parametrize(
    "filled",
    [
        torch.zeros_like,
        torch.ones_like,
        lambda h: torch.full_like(h, 0.5),
        lambda h: h.new_zeros(h.shape),
        lambda h: torch.zeros_like(h).sub(h),
    ],
)
def test_constants_shaped_like_what_is_gathered(filled, options):
    torch.manual_seed(0)
    function = Filled(filled).double()
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    states = [function.cell(x.new_zeros(1, 4), x[:1])]
    for row in range(1, 5):
        states.append(function.cell(states[-1], x[row : row + 1]))
    wanted = [x, *function.parameters()]
    expected = torch.autograd.grad(torch.cat(states).square().sum(), wanted)
    with sv.options(**options):
        for _ in range(2):
            found = sv.run(function, [sv.chain(5)], x).states["h"]
            torch.testing.assert_close(found, torch.cat(states))
            for one, two in zip(torch.autograd.grad(found.square().sum(), wanted), expected):
                torch.testing.assert_close(one, two)

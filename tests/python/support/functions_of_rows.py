"""Functions of a vertex's rows in a net of chains, beside what eager torch computes of them."""

from __future__ import annotations

import torch
from torch import nn

import smex.vertex as sv

NAN, INF = float("nan"), float("inf")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 6.0, 3.0, INF, -INF, NAN]


class Of(sv.VertexFunction):
    """A function of the input, another input and the state of one child."""

    arity = 1

    def __init__(self, of, width):
        super().__init__(h=width)
        self.of = of
        self.mask = torch.arange(width) % 2 == 0
        self.row = nn.Parameter(torch.linspace(-1, 1, width))

    def forward(self):
        x, y, h = self.pull("x"), self.pull("y"), self.gather(0).h
        self.scatter(h + y)
        self.push(self.of(self, x, y, h))


def rows_of(dtype, special):
    """The inputs of three samples, with a pair of any two special numbers."""
    if special:
        x = torch.tensor(SPECIAL, dtype=dtype).repeat_interleave(len(SPECIAL)).view(10, 10)
        y = torch.tensor(SPECIAL, dtype=dtype).repeat(len(SPECIAL)).view(10, 10)
        return x, y
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(10, 20, dtype=torch.float64, generator=generator) for _ in range(2))
    x, y = (x * 4).round() / 4, (y * 4).round() / 4  # with ties
    return x.to(dtype)[:, ::2], y.to(dtype)[:, 5:15]


GRAPHS = [sv.chain(5), sv.chain(1), sv.chain(4)]


def eager(function, x, y):
    h = torch.zeros_like(y)
    for first, last in ((0, 5), (5, 6), (6, 10)):
        for row in range(first + 1, last):
            h = torch.cat([h[:row], (h[row - 1] + y[row - 1])[None], h[row + 1 :]])
    return function.of(function, x, y, h)


def assert_same(found, wanted, tolerance, either_zero):
    """Equal, NaN as NaN, and zeros of one sign."""
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    if wanted.is_floating_point() and not either_zero:
        zero = wanted == 0
        assert torch.equal(torch.signbit(found[zero]), torch.signbit(wanted[zero]))


def run(function, x, y):
    """The output of all vertices."""
    return sv.run(function, GRAPHS, {"x": x, "y": y}).outputs["out"]


def assert_gradients_are_those_of_differences(of, width):
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(10, width, dtype=torch.float64, generator=generator) for _ in range(2))
    function = Of(of, width).double()
    inputs = (x.requires_grad_(), y.requires_grad_())
    assert torch.autograd.gradcheck(lambda x, y: run(function, x, y), inputs)


def calls_of(function):
    """The names of what is called forward and backward, but for the first time."""
    x, y = (t.clone().requires_grad_() for t in rows_of(torch.float32, special=False))
    run(function, x, y).sum().backward()
    with torch.profiler.profile() as profile:
        run(function, x, y).sum().backward()
    return [e.name for e in profile.events()]

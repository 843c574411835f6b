"""Random operators of a captured model: what they draw, and that it does not depend on the workers."""

import math

import pytest
import torch
from torch import nn

import smex

N = (300, 200)


def like():
    return torch.empty(N, dtype=torch.float64)


DISTRIBUTIONS = {
    "rand": (lambda x: torch.rand(N, dtype=x.dtype), 0.5, 1 / 12),
    "rand_like": (torch.rand_like, 0.5, 1 / 12),
    "uniform_": (lambda x: torch.empty_like(x).uniform_(-1, 3), 1.0, 16 / 12),
    "randn": (lambda x: torch.randn(N, dtype=x.dtype), 0.0, 1.0),
    "randn_like": (torch.randn_like, 0.0, 1.0),
    "normal_": (lambda x: torch.empty_like(x).normal_(2, 3), 2.0, 9.0),
    "normal": (lambda x: torch.normal(x, 2.0), 0.5, 4.0),
    "log_normal_": (
        lambda x: torch.empty_like(x).log_normal_(0, 0.5),
        math.exp(0.125),
        (math.exp(0.25) - 1) * math.exp(0.25),
    ),
    "exponential_": (lambda x: torch.empty_like(x).exponential_(2.0), 0.5, 0.25),
    "geometric_": (lambda x: torch.empty_like(x).geometric_(0.25), 4.0, 12.0),
    "bernoulli": (torch.bernoulli, 0.5, 0.25),
    "bernoulli_": (lambda x: torch.empty_like(x).bernoulli_(0.3), 0.3, 0.21),
    "randint": (lambda x: torch.randint(-2, 4, N).double(), 0.5, 35 / 12),
    "randint_like": (lambda x: torch.randint_like(x, 6), 2.5, 35 / 12),
}


def drawn(function, workers, seed=5):
    class Draws(nn.Module):
        def forward(self, x):
            return function(x) + 0 * x

    net = smex.partition(Draws(), workers=workers, replicate_bytes=0)
    torch.manual_seed(seed)
    x = torch.full(N, 0.5, dtype=torch.float64)
    return net(x), net


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution_and_independence_of_the_workers(name):
    function, mean, variance = DISTRIBUTIONS[name]
    one, net = drawn(function, 1)
    targets = {op.target for op in net.plan.graph.captured.ops}
    assert targets & {"smex::uniform", "smex::dropout_mask"}
    assert not any(
        torch.Tag.nondeterministic_seeded in op.dispatch.tags for op in net.plan.graph.captured.ops
        if op.target.startswith("aten::")
    ), targets  # fmt: skip
    error = 6 * math.sqrt(variance / one.numel())
    assert abs(one.mean() - mean) < error
    assert abs(one.var() - variance) < 0.1 * variance
    for workers in (2, 3):
        assert torch.equal(drawn(function, workers)[0], one)
    assert not torch.equal(drawn(function, 1, seed=6)[0], one)


@pytest.mark.parametrize(
    ("function", "mean", "variance"),
    [(torch.rand_like, 0.5, 1 / 12), (torch.randn_like, 0.0, 0.5)],
    ids=["rand", "randn"],
)
def test_complex_numbers(function, mean, variance):
    """The parts are independent; normal numbers have a variance of 1 together."""
    x = torch.zeros(N, dtype=torch.complex128)

    class Draws(nn.Module):
        def forward(self, x):
            return function(x) + 0 * x

    found = []
    for workers in (1, 2):
        torch.manual_seed(5)
        found.append(smex.partition(Draws(), workers=workers, replicate_bytes=0)(x))
    assert torch.equal(*found)
    parts = torch.view_as_real(found[0]).flatten(0, -2).T
    assert (parts.mean(1) - mean).abs().max() < 6 * math.sqrt(variance / x.numel())
    expected = variance * torch.eye(2, dtype=torch.float64)
    torch.testing.assert_close(parts.cov(), expected, rtol=0.1, atol=0.05 * variance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_narrow_dtypes(dtype):
    graph = smex.capture_graph(
        lambda x: (torch.rand_like(x), torch.randn_like(x)), (like().to(dtype),)
    )
    assert {v.dtype for v in graph.captured.values} <= {dtype, torch.float32}
    net = smex.partition(Both(), workers=2, replicate_bytes=0)
    u, n = net(torch.zeros(N, dtype=dtype))
    assert u.dtype == n.dtype == dtype
    assert u.min() >= 0 and u.max() < 1 and n.isfinite().all()
    assert abs(n.float().var() - 1) < 0.05


class Both(nn.Module):
    def forward(self, x):
        return torch.rand_like(x) + 0 * x, torch.randn_like(x) + 0 * x


def test_two_calls_and_two_iterations_draw_other_numbers():
    net = smex.partition(Both(), workers=2)
    x = torch.zeros(8, 8)
    first, second = net(x), net(x)
    assert not torch.equal(first[0], second[0]) and not torch.equal(first[1], second[1])


def test_a_variational_autoencoder_trains_the_same_on_any_number_of_workers():
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean, self.scale, self.out = nn.Linear(8, 6), nn.Linear(8, 6), nn.Linear(6, 8)

        def forward(self, x):
            mean, scale = self.mean(x), self.scale(x).exp()
            return self.out(mean + scale * torch.randn_like(mean))

    torch.manual_seed(1)
    model, x = Encoder().double(), torch.randn(12, 8, dtype=torch.float64)
    gradients = []
    for workers in (1, 2, 4):
        net = smex.partition(model, workers=workers, replicate_bytes=0)
        torch.manual_seed(2)
        net(x).square().sum().backward()
        gradients.append(net.full_grads())
    for other in gradients[1:]:
        for name, gradient in gradients[0].items():
            torch.testing.assert_close(other[name], gradient)


class Applied(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (torch.bernoulli, r"bernoulli: expected probabilities in \[0, 1\]"),
        (lambda x: torch.zeros(N).bernoulli_(x), r"expected probabilities in \[0, 1\]"),
        (lambda x: torch.normal(x, 1 - x), "normal: expected no std below 0"),
    ],
)
@pytest.mark.parametrize("value", [1.5, math.nan])
def test_parameters_that_no_distribution_has(function, text, value):
    x = torch.full(N, 0.5, dtype=torch.float64)
    net = smex.partition(Applied(function), workers=2, replicate_bytes=0)
    x[-1, -1] = value  # of which one worker knows
    with pytest.raises(RuntimeError, match=text):
        net(x)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: x.clone().uniform_(3, 1), "uniform_: expected from <= to"),
        (lambda x: torch.bernoulli(x, p=1.5), r"bernoulli: expected p in \[0, 1\], found 1.5"),
    ],
)
def test_numbers_that_no_distribution_has(function, text):
    with pytest.raises(smex.CaptureError, match=text):
        smex.partition(Applied(function), workers=2, args=torch.rand(4, 4))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, g: torch.randn(4, 4, generator=g),
        lambda x, g: torch.empty_like(x).normal_(generator=g),
        lambda x, g: torch.randint(0, 3, (4, 4), generator=g),
        lambda x, g: torch.randperm(4, generator=g),
        lambda x, g: torch.bernoulli(x, generator=g),
    ],
)
def test_a_generator_is_refused_with_what_helps(function):
    generator = torch.Generator()
    model = Applied(lambda x: function(x, generator) + x)
    with pytest.raises(
        smex.CaptureError, match=r"test_random_ops.py:\d+.*[gG]enerator.*torch.manual_seed"
    ):
        smex.partition(model, workers=2, args=torch.rand(4, 4))

"""Text that is generated token by token, in the ways in which users write it.

| what a user does | test |
|---|---|
| no cache: each call has one token more | test_a_text_that_grows |
| keys and values that are given, returned and grow | test_a_growing_cache |
| a static cache, written at an int or a tensor | test_a_static_cache |
| an int as an index, a bound, a size, a number, an argument by name | test_ints |
| a text, then training, then the text again | test_a_text_between_steps |
| an int on which the model's structure depends | test_an_int_that_counts_layers |
| negative ints between others | test_negative_ints |
"""

import copy
import pathlib
import sys
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "benchmarks" / "runtime"))
import decoding

TOKENS = 9


def traces(net):
    return sum(alike.captures.traces for alike in net._calls._known.values())


def small(kind, layers=2):
    torch.manual_seed(0)
    return kind(layers, embed=12, heads=3, most=16).double()


def both(model, workers):
    return copy.deepcopy(model), smex.partition(copy.deepcopy(model), workers=workers)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_text_that_grows(workers):
    model, net = both(small(decoding.Whole), workers)
    text = torch.randint(0, 1000, (1, TOKENS))
    for _ in range(2):
        for length in range(1, TOKENS):
            with torch.no_grad():
                torch.testing.assert_close(
                    net(text[:, :length]), model(text[:, :length]), rtol=0, atol=1e-10
                )
    assert traces(net) <= 4  # a length of 1 is none of a symbol
    assert len(net._programs) == TOKENS - 1


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_growing_cache(workers):
    model, net = both(small(decoding.Growing), workers)
    text = torch.randint(0, 1000, (1, TOKENS))
    with torch.no_grad():
        for _ in range(2):
            wanted = found = [torch.zeros(1, 3, 0, 4).double() for _ in range(4)]
            for n in range(TOKENS):
                logits, wanted = model(text[:, n : n + 1], wanted)
                own, found = net(text[:, n : n + 1], found)
                torch.testing.assert_close(own, logits, rtol=0, atol=1e-10)
                torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)
    assert traces(net) <= 4


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize(("kind", "most"), [(decoding.AtInt, 4), (decoding.AtTensor, 1)])
def test_a_static_cache(kind, most, workers):
    model, net = both(small(kind), workers)
    text = torch.randint(0, 1000, (1, 16))
    with torch.no_grad():
        for _ in range(2):
            for n in range(12):
                place = n if kind is decoding.AtInt else torch.tensor([n])
                wanted, found = model(text[:, n : n + 1], place), net(text[:, n : n + 1], place)
                torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)
    assert traces(net) <= most
    for name, value in net.state_dict().items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=0, atol=1e-10)


class Ints(nn.Module):
    """An int as an index, a bound, a size, a number, in a list, and returned."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(12, 5).double())

    def forward(self, x, n, *, lags=(0,)):
        row = self.table[n] + self.table[..., n % 5 - 5 if n > 100 else 1].sum()
        some = self.table[:n].sum(0) + self.table[None, n, 1:].sum()
        at = self.table[torch.tensor([n, 0])] + self.table[[n, 1]]
        mask = torch.arange(12, device=x.device)[:, None] <= n
        y = x * row + some * n + torch.where(mask, self.table, 0.0).sum(0) + at.sum(0)
        out = self.table * 2
        out[n] = y[0]
        out[n, 1:3] += 1.0
        return y + torch.full((5,), n), out, x.new_ones(abs(n), 2), n + 1, lags[-1] * y


@pytest.mark.parametrize("workers", [1, 2])
def test_ints(workers):
    torch.manual_seed(0)
    model, net = both(Ints(), workers)
    x = torch.randn(4, 5).double()
    for n, lag in [(0, 3), (1, 3), (2, 3), (3, 4), (7, 5), (11, 2), (5, 9), (2, 3)]:
        wanted, found = model(x, n, lags=[1, lag]), net(x, n, lags=[1, lag])
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)
        model.zero_grad()
        net.zero_grad()
        for result in (wanted, found):
            (result[0].square().sum() + result[1].sum() + result[4].sum()).backward()
        grad = net.full_grads()["table"]
        torch.testing.assert_close(grad, model.table.grad, rtol=1e-9, atol=1e-9)
    assert traces(net) <= 6
    with pytest.raises(Exception, match=r"12"):
        net(x, 12, lags=[1, 2])


def test_a_text_between_steps():
    model, net = both(small(decoding.Whole), 2)
    own = torch.optim.SGD(net.parameters(), 0.1) if net._first else None
    text = torch.randint(0, 1000, (3, TOKENS))
    for _ in range(2):
        for length in (3, 5, 2):
            with torch.no_grad():
                wanted, found = model(text[:1, :length]), net(text[:1, :length])
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)
        for batch in (3, 2, 1):
            own = own or torch.optim.SGD(net.parameters(), 0.1)
            steps = [(model, torch.optim.SGD(model.parameters(), 0.1)), (net, own)]
            for one, optimiser in steps:
                optimiser.zero_grad()
                F.cross_entropy(one(text[:batch, :-1]), text[:batch, -1]).backward()
                optimiser.step()
        net.load_state_dict(net.state_dict())
        for name, value in net.state_dict().items():
            torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-9, atol=1e-9)


class Depth(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4).double()

    def forward(self, x, depth):
        for _ in range(depth):
            x = self.layer(x).relu()
        return x


def test_an_int_that_counts_layers():
    model, net = both(Depth(), 2)
    x = torch.randn(3, 4).double()
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        for depth in range(12):
            torch.testing.assert_close(net(x, depth), model(x, depth), rtol=0, atol=1e-10)
    told = [str(w.message) for w in caught if issubclass(w.category, smex.CaptureWarning)]
    assert len(told) == 1
    assert '"depth" is another int in each call' in told[0]


def test_negative_ints():
    model, net = both(Ints(), 2)
    x = torch.randn(4, 5).double()
    with torch.no_grad():
        for n in (-1, -3, -12, 4, -2, 6):
            torch.testing.assert_close(net(x, n), model(x, n), rtol=1e-10, atol=1e-10)

"""Random modules with what real ones have: ties, shared parts, dead branches, buffers, odd names."""

import dataclasses
import math
import random

import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 12
WORDS = 7


@dataclasses.dataclass
class Outputs:
    """Several results, of which a loss reads some."""

    main: torch.Tensor
    others: dict
    count: int


class Heads(nn.Module):
    """Attention between the rows' own heads: parameters seen as heads in views."""

    def __init__(self, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).view(x.shape[0], 3, self.heads, WIDTH // self.heads).unbind(1)
        scores = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1)
        return self.out((scores @ v).reshape(x.shape[0], WIDTH))


class Gated(nn.Module):
    """A parameter of its own beside that of a part, under names that differ in a dot alone."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(WIDTH, WIDTH)
        self.a__weight = nn.Parameter(torch.randn(WIDTH, WIDTH))
        self.unused = nn.Parameter(torch.randn(3))

    def forward(self, x):
        return torch.sigmoid(self.a(x)) * (x @ self.a__weight)


class Counted(nn.Module):
    """Buffers: one that counts, a running mean that is assigned, one that no state has."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("shift", torch.linspace(-1, 1, WIDTH), persistent=False)
        self.scale = torch.tensor(0.5)

    def forward(self, x):
        if self.training:
            self.calls += 1
            self.mean = (0.9 * self.mean + 0.1 * x.detach().mean(0)).to(self.mean.dtype)
        return (x - self.mean) * self.scale + self.shift.to(x.dtype)


class Clamped(nn.Module):
    """A parameter that forward keeps within bounds."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x):
        self.weight.data.clamp_(-0.5, 0.5)
        return x * self.weight


class Folded(nn.Module):
    """A convolution over the row, and a view of its kernel."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 6, 3, padding=1)

    def forward(self, x):
        y = self.conv(x.view(x.shape[0], 3, WIDTH // 3)).mean(-1)
        return F.pad(y, (0, WIDTH - 6)) + self.conv.weight.view(-1)[:WIDTH]


class Remembering(nn.Module):
    """A cache of what follows from parameters alone, as position biases have."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(5))
        self.register_buffer("places", torch.arange(WIDTH) % 5, persistent=False)
        self.cache = {}

    def train(self, mode=True):
        self.cache = {}
        return super().train(mode)

    def _apply(self, fn, recurse=True):
        self.cache = {}
        return super()._apply(fn, recurse)

    def forward(self, x):
        if torch.is_grad_enabled():  # what a cache holds has no gradient, and may change now
            self.cache.clear()
            return x + self.table[self.places]
        if "bias" not in self.cache:
            self.cache["bias"] = self.table[self.places]
        return x + self.cache["bias"]


def _linear():
    return nn.Linear(WIDTH, WIDTH)


def _mlp():
    return nn.Sequential(nn.Linear(WIDTH, 17), nn.GELU(), nn.Linear(17, WIDTH))


def _twice():
    part = nn.Linear(WIDTH, WIDTH)
    return nn.Sequential(part, nn.Tanh(), part)


def _tied():
    first, second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
    second.weight = first.weight
    return nn.Sequential(first, nn.Tanh(), second)


def _normed():
    return nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))


def _frozen_norm():
    return nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, WIDTH)).eval()


KINDS = (
    _linear, _mlp, _twice, _tied, _normed, _frozen_norm, Gated, Counted, Clamped, Folded,
    Remembering, lambda: Heads(2), lambda: Heads(3), lambda: nn.LayerNorm(WIDTH),
    lambda: nn.BatchNorm1d(WIDTH), lambda: nn.BatchNorm1d(WIDTH, momentum=None),
    lambda: nn.GroupNorm(3, WIDTH), lambda: nn.Dropout(0.0),
)  # fmt: skip


class Random(nn.Module):
    """A random graph of parts over rows of numbers and of words."""

    def __init__(self, seed: int):
        super().__init__()
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.parts = nn.ModuleList(draw.choice(KINDS)() for _ in range(draw.randint(2, 5)))
        self.dead = draw.choice(KINDS)()
        if draw.random() < 0.3:
            self.parts.append(draw.choice(list(self.parts)))  # a part in two places
        self.head = nn.Linear(WIDTH, WORDS, bias=draw.random() < 0.5)
        if draw.random() < 0.5:
            self.head.weight = self.words.weight
        self.steps = [
            (draw.randrange(len(self.parts)), draw.random(), draw.random())
            for _ in range(draw.randint(2, 4))
        ]
        self.aside = draw.randrange(len(self.parts))
        self.form = draw.choice(["dataclass", "tuple", "dict"])
        self.computes_dead = draw.random() < 0.5
        for part in self.parts:
            if draw.random() < 0.2:
                part.eval()

    def forward(self, x, words):
        seen = [x, self.words(words).to(x.dtype)]
        for number, left, mix in self.steps:
            y = self.parts[number](seen[int(left * len(seen))])
            seen.append(y + seen[-1] if mix < 0.5 else torch.tanh(y))
        if self.computes_dead:
            self.dead(seen[0])
        main = self.head(seen[-1])
        others = {"aside": self.parts[self.aside](x) * 2, "middle": seen[2], "still": x.detach()}
        if self.form == "dataclass":
            return Outputs(main, others, len(seen))
        if self.form == "tuple":
            return main, others, len(seen)
        return {"main": main, "others": others, "count": len(seen)}


def parts_of(result):
    """The outputs of any form, as (main, others, count)."""
    if isinstance(result, Outputs):
        return result.main, result.others, result.count
    return result if isinstance(result, tuple) else tuple(result.values())

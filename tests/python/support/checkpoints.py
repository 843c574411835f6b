"""Small nets with optimisers, and what of them a checkpoint has to bring back."""

import torch
from torch import nn
from torch.nn import functional as F

import smex
from smex.execution.saved import Members, tensors_of


class Net(nn.Module):
    """Tied weights, buffers, a parameter of no dimensions, sizes that no number of workers divides."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(11, 24, bias=False)
        self.norm = nn.BatchNorm1d(24)
        self.up = nn.Linear(24, 26)
        self.down = nn.Linear(26, 24)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("unused", torch.arange(3.0))
        self.register_buffer("mask", torch.ones(24), persistent=False)
        self.out = nn.Linear(24, 11, bias=False)
        self.head = nn.Linear(11, 24, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        h = self.norm(self.embed(x)) * self.mask
        h = h + self.down(F.relu(self.up(h))) * self.scale
        return self.head(self.out(h))


def data(batch=12):
    generator = torch.Generator().manual_seed(5)
    make = lambda size: torch.randn(batch, size, dtype=torch.float64, generator=generator)  # noqa: E731
    return make(11), make(24)


def adamw(params):
    return torch.optim.AdamW(params, lr=1e-2, betas=(0.8, 0.99))


def net_of(workers, seed=0, make_opt=adamw, model=None):
    """A net that moves as little as possible, cut as far as its sizes go."""
    torch.manual_seed(seed)
    model = Net().double() if model is None else model
    net = smex.partition(model, workers=workers, args=data(), loss_fn=F.mse_loss, replicate_bytes=0)
    return net, make_opt(net.parameters())


def train(net, opt, steps):
    """Returns the losses of a few steps."""
    losses = []
    for _ in range(steps):
        loss = net(*data())
        loss.backward()
        opt.step()
        opt.zero_grad()
        losses.append(loss.item())
    return losses


def whole_state(net, opt):
    """Every tensor of a net and its optimiser, whole, by name; numbers once."""
    found = dict(net.state_dict())
    tensors = tensors_of(net._state)
    members = Members(opt, tensors)
    for saved in tensors:
        cut = net._state.cuts.get(saved.name)
        tiles = [tile for tile in saved.tiles if tile is not None]
        if saved.name not in members.tiles or tiles[0] not in opt.state:
            continue
        for key, first in opt.state[tiles[0]].items():
            name = f"{saved.name}.{key}"
            if isinstance(first, torch.Tensor) and first.shape == tiles[0].shape and first.dim():
                pieces = [None if t is None else opt.state[t][key] for t in saved.tiles]
                found[name] = cut.pieces.whole(pieces)
            else:
                found[name] = first
    return found


def assert_same(actual, expected):
    """Bit by bit."""
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            assert actual[name].dtype == value.dtype, name
            assert torch.equal(actual[name], value), name
        else:
            assert actual[name] == value, name

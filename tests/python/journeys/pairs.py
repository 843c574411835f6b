"""A net beside the plain module, for what users do with both."""

import copy

import torch
from torch import nn

import smex

WIDTH = 12


def pair(model, **options):
    """A net and the plain module."""
    model = model.double()
    options = {"workers": 2, "replicate_bytes": 0, **options}
    return smex.partition(copy.deepcopy(model), **options), model


def rows(count=6, width=WIDTH):
    return torch.randn(count, width, dtype=torch.float64)


def close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


def both(net, plain, *args):
    close(net(*args), plain(*args))


def same_state(net, plain):
    state = net.state_dict()
    assert list(state) == list(plain.state_dict())
    for name, tensor in plain.state_dict().items():
        close(state[name], tensor)


def same_grads(net, plain):
    grads = net.full_grads()
    for name, parameter in plain.named_parameters():
        assert (name in grads) == (parameter.grad is not None), name
        if parameter.grad is not None:
            close(grads[name], parameter.grad)


class Calls(nn.Module):
    """A module whose forward is given as a function of itself and the inputs."""

    def __init__(self, function, **members):
        super().__init__()
        self.function = function
        for name, member in members.items():
            setattr(self, name, member)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


def weight(*shape):
    return nn.Parameter(torch.randn(*(shape or (WIDTH, WIDTH)), dtype=torch.float64))


def trained(net, plain, x, steps=2):
    """Both after some steps of an optimiser that is made now."""
    net(x)
    plain(x)
    for module in (net, plain):
        module.zero_grad()
        optimiser = torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)
        for _ in range(steps):
            optimiser.zero_grad()
            module(x).square().sum().backward()
            optimiser.step()
    same_state(net, plain)


def backward(found):
    """Sums the results up and adds the gradients, where there are any."""
    leaves = [t for t in torch.utils._pytree.tree_leaves(found) if t.requires_grad]
    if leaves:
        sum(leaf.sum() for leaf in leaves).backward()


def captured(function, **members):
    """A model, and a net of it itself."""
    model = Calls(function, w=weight(), **members).double()
    return model, smex.partition(model, workers=2, replicate_bytes=0)


def heads(outputs=WIDTH):
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, outputs))


class Slots:
    __slots__ = ("__private", "value")

    def hold(self, tensor):
        self.__private = tensor


class SubSlots(Slots):
    pass

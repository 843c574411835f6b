"""Modules, tensors and hooks that users replace between calls: each test beside the plain module.

| sequence | test |
| --- | --- |
| call, replace a module or tensor, train, evaluate | test_a_replaced_module_is_followed, ... |
| call, register a hook, call, remove it, call | test_hooks_that_come_and_go |
| train, wrap a module (LoRA), train on with the same optimiser | test_a_module_that_is_wrapped_keeps_its_shards |
| freeze, put a new head on, train | test_a_trainable_head_on_a_frozen_model, test_gradients_and_optimisers_of_what_is_replaced |
| train, load into the model, prune or remove a parametrisation, train | test_what_torch_computes_from_the_model_s_values |
| two nets of one model, which is changed | test_two_nets_of_one_model_that_is_changed |
"""

import copy

import pytest
import torch
from pairs import WIDTH, both, close, heads, pair, rows, same_grads, same_state, trained, weight
from torch import nn
from torch.nn.utils import prune

import smex
from smex.errors import SmexRuntimeError

# ---- modules, tensors, hooks ----


@pytest.mark.parametrize("outputs", [5, WIDTH])
def test_a_replaced_module_is_followed(outputs):
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)))
    x = rows()
    both(net, plain, x)
    trained(net, plain, x)
    head = nn.Linear(WIDTH, outputs).double()
    model = net._model[0]
    before = model[2], plain[2]
    model[2], plain[2] = copy.deepcopy(head), head
    both(net, plain, x)
    trained(net, plain, x)
    # What left has what it learned, and comes back with it.
    close(before[0].weight, before[1].weight)
    model[2], plain[2] = before
    both(net, plain, x)
    trained(net, plain, x)


def test_modules_that_are_added_and_removed():
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()))
    x = rows()
    trained_net = net(x)
    close(trained_net, plain(x))
    more = nn.Linear(WIDTH, 3).double()
    net._model[0].append(copy.deepcopy(more))
    plain.append(more)
    with pytest.raises(SmexRuntimeError, match="were not there when it was captured"):
        list(net.parameters())
    both(net, plain, x)
    trained(net, plain, x)
    for each in (net._model[0], plain):
        del each[2]
    both(net, plain, x)
    assert len(list(net.parameters())) == 4
    trained(net, plain, x)


def test_a_parameter_and_a_buffer_that_are_assigned():
    plain = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))
    net, plain = pair(plain)
    x = rows()
    trained(net, plain, x)
    new = weight()
    mean = torch.randn(WIDTH, dtype=torch.float64)
    for each in (net._model[0], plain):
        each[0].weight = nn.Parameter(new.detach().clone())
        each[1].running_mean = mean.clone()
        each.eval()
    net.eval()
    both(net, plain, x)
    programs = len(net._programs)
    net._model[0][1].running_mean, plain[1].running_mean = mean + 1, mean + 1
    both(net, plain, x)
    assert len(net._programs) == programs
    same_state(net, plain)


def test_weights_that_are_tied_late():
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)))
    x = rows()
    trained(net, plain, x)
    for each in (net._model[0], plain):
        each[0].weight = each[2].weight
    both(net, plain, x)
    same_state(net, plain)
    trained(net, plain, x)
    both(net, plain, x)


def test_hooks_that_come_and_go():
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()))
    x = rows()
    both(net, plain, x)
    handles = [
        each[0].register_forward_hook(lambda m, a, y: 2 * y) for each in (net._model[0], plain)
    ]
    both(net, plain, x)
    for handle in handles:
        handle.remove()
    both(net, plain, x)
    assert len(net._programs) == 2


# ---- parts that are replaced while a model trains ----


def test_hooks_of_all_modules():
    net, plain = pair(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()))
    x = rows()
    both(net, plain, x)

    def double(module, args, result):
        return 2 * result if isinstance(module, nn.Tanh) else None

    handle = torch.nn.modules.module.register_module_forward_hook(double)
    try:
        both(net, plain, x)
    finally:
        handle.remove()
    both(net, plain, x)


def step(net, plain, x, optimisers):
    for each, optimiser in zip((net, plain), optimisers, strict=True):
        each(x).square().sum().backward()
        optimiser.step()


def test_a_trainable_head_on_a_frozen_model():
    net, plain = pair(heads().requires_grad_(False))
    x = rows()
    both(net, plain, x)
    head = nn.Linear(WIDTH, WIDTH).double()
    net._model[0][2], plain[2] = copy.deepcopy(head), head
    assert net(x).requires_grad
    trained(net, plain, x)
    frozen = nn.Linear(WIDTH, WIDTH).double().requires_grad_(False)
    net._model[0][2], plain[2] = copy.deepcopy(frozen), frozen
    assert not net(x).requires_grad
    both(net, plain, x)


def test_gradients_and_optimisers_of_what_is_replaced():
    net, plain = pair(heads())
    x = rows()
    both(net, plain, x)
    optimisers = [torch.optim.SGD(each.parameters(), 0.1) for each in (net, plain)]
    for each in (net, plain):
        each(x).square().sum().backward()
    head = nn.Linear(WIDTH, WIDTH).double()
    net._model[0][2], plain[2] = copy.deepcopy(head), head
    same_grads(net, plain)
    step(net, plain, x, optimisers)
    same_grads(net, plain)
    same_state(net, plain)


@pytest.mark.parametrize("when", ["before", "between"])
def test_a_module_that_is_wrapped_keeps_its_shards(when):
    net, plain = pair(heads())
    x = rows()
    both(net, plain, x)
    optimisers = [torch.optim.SGD(e.parameters(), 0.1, momentum=0.9) for e in (net, plain)]
    step(net, plain, x, optimisers)
    results = [each(x).square().sum() for each in (net, plain)]
    if when == "before":
        for result in results:
            result.backward()
    for each in (net._model[0], plain):
        each[2] = nn.Sequential(each[2], nn.Tanh())
    if when == "between":
        for result in results:
            result.backward()
    same_grads(net, plain)
    step(net, plain, x, optimisers)
    same_grads(net, plain)
    same_state(net, plain)
    assert any(name.endswith("2.0.weight") for name, _ in net.named_parameters())


@pytest.mark.parametrize("part", [nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)])
@pytest.mark.parametrize("copied", [False, True])
def test_one_of_two_places_of_a_module(part, copied):
    net, plain = pair(nn.Sequential(part, nn.Tanh(), part))
    x = rows()
    trained(net, plain, x)
    if copied:
        net, plain = copy.deepcopy((net, plain))
    for each in (net._model[0], plain):
        torch.manual_seed(1)
        each[0] = type(part)(*[WIDTH] * (1 + isinstance(part, nn.Linear))).double()
    same_state(net, plain)
    both(net, plain, x)
    trained(net, plain, x)


def test_two_nets_of_one_model_that_is_changed():
    model = heads().double()
    plains = [copy.deepcopy(model) for _ in range(2)]
    nets = [smex.partition(model, workers=n, replicate_bytes=0) for n in (2, 3)]
    x = rows()
    for net, plain in zip(nets, plains, strict=True):
        trained(net, plain, x, steps=1 + nets.index(net))
    model[0] = nn.Sequential(model[0])
    for plain in plains:
        plain[0] = nn.Sequential(plain[0])
    for net, plain in zip(nets, plains, strict=True):
        same_state(net, plain)
        both(net, plain, x)


def test_what_torch_computes_from_the_model_s_values():
    def made():  # twice: copies of a parametrised module share its class, which is changed
        normed = nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))
        return nn.Sequential(normed, nn.Tanh()).double()

    model, plain, x = made(), made(), rows()
    model.load_state_dict(plain.state_dict())
    net = smex.partition(model, workers=2, replicate_bytes=0)
    trained(net, plain, x)
    model.load_state_dict(net.state_dict())
    for each in (model, plain):
        nn.utils.parametrize.remove_parametrizations(each[0], "weight")
    both(net, plain, x)
    trained(net, plain, x)
    model.load_state_dict(net.state_dict())
    for each in (model, plain):
        prune.l1_unstructured(each[0], "weight", amount=0.5)
    both(net, plain, x)
    trained(net, plain, x)
    model.load_state_dict(net.state_dict())
    for each in (model, plain):
        prune.remove(each[0], "weight")
    both(net, plain, x)
    trained(net, plain, x)

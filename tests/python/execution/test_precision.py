"""A partitioned model in float32 is as near to float64 as the model itself in float32."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

import smex
from support.families import FAMILIES

pytestmark = pytest.mark.costly

# On the CPU ATen's batch norm sums float32 in double precision; its parts on several workers do not.
# (A ReLU whose input is within rounding of 0 would flip and change gradients by thousands of
# epsilons; with this seed none does.)
FACTORS = {"wresnet": 16}
EPSILON = torch.finfo(torch.float32).eps


def in_dtype(tensors, dtype):
    return tuple(t.to(dtype) if t.is_floating_point() else t for t in tensors)


def iteration(model, args, target, loss_fn, grads):
    """Output and gradients of one training step, by name, in float64."""
    output = model(*args)
    loss_fn(output, target).backward()
    results = {"output": output, **{f"gradient of {n}": g for n, g in grads().items()}}
    return {name: value.detach().double() for name, value in results.items()}


def error(actual, exact, name):
    """The largest difference, relative to the largest element.

    Some gradients vanish but for rounding, as that of a bias before a softmax: they are measured
    against a thousandth of the largest gradient.
    """
    scale = max(exact[name].abs().max(), 1e-3 * max(v.abs().max() for v in exact.values()))
    return ((actual[name] - exact[name]).abs().max() / scale).item()


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_float32_is_as_accurate_as_the_model(family, workers):
    torch.manual_seed(0)
    cls, loss_fn = FAMILIES[family]
    model = cls.small().float().train()
    *inputs, target = cls.small_inputs(torch.float32)
    with torch.no_grad():
        shape = copy.deepcopy(model)(*inputs).shape
    if not (target.is_floating_point() and target.shape == shape) and loss_fn is F.mse_loss:
        target = torch.randn(shape)
    double = copy.deepcopy(model).double()
    eager = copy.deepcopy(model)
    net = smex.partition(model, workers=workers, replicate_bytes=0)

    def grads_of(module):
        return lambda: {name: p.grad for name, p in module.named_parameters()}

    exact_args, exact_target = in_dtype(inputs, torch.float64), in_dtype([target], torch.float64)[0]
    exact = iteration(double, exact_args, exact_target, loss_fn, grads_of(double))
    theirs = iteration(eager, inputs, target, loss_fn, grads_of(eager))
    ours = iteration(net, inputs, target, loss_fn, net.full_grads)
    for name in exact:
        found, eager_error = error(ours, exact, name), error(theirs, exact, name)
        bound = FACTORS.get(family, 4) * eager_error + 8 * EPSILON
        assert found <= bound, (
            f"{name}: {found / EPSILON:.1f} epsilon, eager {eager_error / EPSILON:.1f}"
        )

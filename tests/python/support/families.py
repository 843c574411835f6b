"""The six model families of the examples, each with its loss."""

import copy

import models
import torch
from torch.nn import functional as F


def next_token(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


FAMILIES = {
    "wresnet": (models.WResNet, F.cross_entropy),
    "rnn": (models.RNN, F.mse_loss),
    "gpt": (models.GPT, next_token),
    "llama": (models.Llama, next_token),
    "unet": (models.UNet, F.mse_loss),
    "dlrm": (models.DLRM, F.binary_cross_entropy_with_logits),
}


def small_case(family):
    """A small model of a family in float64, its inputs, its target and its loss."""
    torch.manual_seed(0)
    cls, loss_fn = FAMILIES[family]
    model = cls.small().double()
    *inputs, target = cls.small_inputs()
    with torch.no_grad():
        shape = copy.deepcopy(model)(*inputs).shape
    if loss_fn is F.mse_loss:
        target = torch.randn(shape, dtype=torch.float64)
    elif loss_fn is F.binary_cross_entropy_with_logits:
        target = torch.rand(shape, dtype=torch.float64)
    return model, tuple(inputs), target, loss_fn

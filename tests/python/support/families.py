"""The six model families of the examples, each with its loss."""

import models
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

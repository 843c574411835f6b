"""The five model families of the examples, each with its loss."""

import sys
from pathlib import Path

from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import models

FAMILIES = {
    "wresnet": (models.WResNet, F.cross_entropy),
    "rnn": (models.RNN, F.mse_loss),
    "gpt": (models.GPT, lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten())),
    "unet": (models.UNet, F.mse_loss),
    "dlrm": (models.DLRM, F.binary_cross_entropy_with_logits),
}

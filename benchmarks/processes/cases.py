"""The models that are trained over several processes, of a size that two cores train.

A step of the plain model takes 0.5 to 2 s on one thread. The first four are wide: they have more
bytes of weights than of activations, so what is cut decides what moves. The last has a batch that
is large beside its weights, where replicas of the model are the right plan.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
import models


def next_token(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy of `[N, T, vocab]` and `[N, T]`."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def tokens(vocab: int, batch: int, length: int) -> tuple[Tensor, Tensor]:
    """Random tokens and the tokens that follow them: `[batch, length]` both."""
    drawn = torch.randint(vocab, (batch, length + 1))
    return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with a batch.

    Attributes:
        family: "mlp", "wresnet", "rnn" or "gpt", by which peers know how to divide it.
        build: makes the model.
        batch: draws inputs and targets, of the whole batch.
        layers: the modules of a model that are gathered and given up one by one where weights are
            sharded.
    """

    family: str
    build: Callable[[], nn.Module]
    batch: Callable[[], tuple[Tensor, Tensor]]
    loss_fn: Callable[[Tensor, Tensor], Tensor]
    layers: Callable[[nn.Module], list[nn.Module]]

    def make(self) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
        """The model and its batch, the same for everyone who calls this."""
        torch.manual_seed(0)
        return self.build(), self.batch()


def of_kind(kind: type) -> Callable[[nn.Module], list[nn.Module]]:
    """All modules of a kind."""
    return lambda model: [part for part in model.modules() if isinstance(part, kind)]


def mlp(width: int, depth: int, batch: int) -> Case:
    return Case(
        "mlp",
        lambda: models.mlp([width] * (depth + 1)),
        lambda: (torch.randn(batch, width), torch.randn(batch, width)),
        F.mse_loss,
        of_kind(nn.Linear),
    )


def wresnet(depth: int, width: int, base: int, size: int, batch: int) -> Case:
    return Case(
        "wresnet",
        lambda: models.WResNet(depth, width, 10, 3, base_channels=base, small_stem=True),
        lambda: (torch.randn(batch, 3, size, size), torch.randint(10, (batch,))),
        F.cross_entropy,
        of_kind(models.Bottleneck),
    )


def rnn(layers: int, hidden: int, steps: int, batch: int) -> Case:
    return Case(
        "rnn",
        lambda: models.RNN(layers, hidden),
        lambda: (torch.randn(batch, steps, hidden), torch.randn(batch, steps, hidden)),
        F.mse_loss,
        lambda model: [],  # a cell runs at each step, and would be sent as often
    )


def gpt(layers: int, embed: int, heads: int, vocab: int, length: int, batch: int) -> Case:
    return Case(
        "gpt",
        lambda: models.GPT(layers, embed, heads, vocab, length, fused_attention=True),
        lambda: tokens(vocab, batch, length),
        next_token,
        of_kind(models.GPTBlock),
    )


CASES = {
    "MLP, 8 layers of 2048, batch 512": mlp(2048, 8, 512),
    "WResNet-26-4, 32 × 32, batch 8": wresnet(26, 4, 32, 32, 8),
    "LSTM, 3 layers of 1024, 10 steps, batch 64": rnn(3, 1024, 10, 64),
    "GPT, 4 layers of 1024, 64 tokens, batch 4": gpt(4, 1024, 16, 4096, 64, 4),
    "GPT, 4 layers of 256, 128 tokens, batch 32": gpt(4, 256, 8, 1024, 128, 32),
}

SMALL = {
    "mlp": mlp(8, 4, 4),
    "wresnet": wresnet(26, 1, 4, 16, 4),
    "rnn": rnn(2, 6, 3, 4),
    "gpt": gpt(2, 8, 2, 16, 6, 4),
}
"""The same families in a size for tests."""

"""Trains a model over all ranks of torchrun, and goes on after a failure.

    torchrun --nproc-per-node 4 --max-restarts 3 examples/processes.py --folder ckpt
    python examples/processes.py --folder ckpt                   # the same, alone

The model is made on the meta device: no process ever holds all of it. Kill a rank, or end the
program and start it with another number of ranks: it goes on from the latest checkpoint, with the
losses that it would have had.
"""

from __future__ import annotations

import argparse
import os

import torch
from torch import nn

import smex


class Classifier(nn.Module):
    """A few wide layers."""

    def __init__(self, width: int = 256, classes: int = 10):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, width), nn.GELU(), nn.Dropout(0.1),
            nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(),
            nn.Linear(width, classes),
        )  # fmt: skip

    def forward(self, x):
        return self.layers(x)


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The whole batch of a step, which depends on nothing else: the loader's state is the step."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(96, 64, generator=generator)
    return x, (x[:, :10].argmax(1) + (x[:, 10] > 0)) % 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="of checkpoints, which all ranks see")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=10, help="steps between two checkpoints")
    parser.add_argument("--fail", type=int, help="a step in which the last rank ends, once")
    options = parser.parse_args()

    with torch.device("meta"):
        model = Classifier()
    net = smex.partition(
        model, args=batch(0), loss_fn=nn.functional.cross_entropy, replicate_bytes=1024
    )
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    start = smex.latest(options.folder)
    extra = smex.load(start, net, opt) if start else smex.init(net, seed=0)
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if rank == 0:
        print(net.plan.summary())
        print(f"goes on from {start}" if start else "begins")
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))

    for step in range(extra.get("step", -1) + 1, options.steps):
        torch.manual_seed(step)  # of dropout
        loss = net(*batch(step))
        loss.backward()
        smex.clip_grad_norm_(net, 1.0)
        opt.step()
        opt.zero_grad()
        if step == options.fail and rank == ranks - 1 and restarts == 0:
            raise RuntimeError(f"rank {rank} has had enough in step {step}")
        if step % options.every == options.every - 1:
            smex.save(
                f"{options.folder}/step-{step}", net, opt, extra={"step": step}, background=True
            )
            if rank == 0:
                print(f"step {step}: loss {loss.item():.6f}")


if __name__ == "__main__":
    main()

"""Trains four small models on 4 workers, on data that every installation has.

Digits images (scikit-learn) go to a WResNet and a U-Net, Python's own help texts to an LSTM stack
and a transformer. Each model is trained beside its unpartitioned twin; the losses, the bytes moved
and the peak memory per worker are printed, and each plan is drawn on a page in `demo_plans`.

    pip install scikit-learn tqdm
    python examples/demo.py [--workers 4] [--steps 15] [--out demo_plans]
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import pathlib
import pydoc
from collections.abc import Callable

import models
import torch
from sklearn.datasets import load_digits
from torch.nn import functional as F
from tqdm import tqdm

import smex


@dataclasses.dataclass
class Task:
    """A model, its loss, and a function that draws a batch `(input, target)`."""

    name: str
    model: torch.nn.Module
    loss_fn: Callable
    batch: Callable[[], tuple[torch.Tensor, torch.Tensor]]


def digits_tasks(batch_size: int) -> list[Task]:
    """Classifying and denoising the 8×8 digits."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float64).unsqueeze(1) / 16
    labels = torch.tensor(data.target)

    def labelled() -> tuple[torch.Tensor, torch.Tensor]:
        pick = torch.randint(len(images), (batch_size,))
        return images[pick], labels[pick]

    def noisy() -> tuple[torch.Tensor, torch.Tensor]:
        clean = images[torch.randint(len(images), (batch_size,))]
        return clean + 0.3 * torch.randn_like(clean), clean

    resnet = models.WResNet(26, 1, 10, 1, base_channels=16, small_stem=True)
    unet = models.UNet(1, 1, channels=16, depth=2, groups=4)
    return [
        Task("WResNet on digits", resnet, F.cross_entropy, labelled),
        Task("U-Net denoising digits", unet, F.mse_loss, noisy),
    ]


def text_tasks(batch_size: int, steps: int) -> list[Task]:
    """Predicting the next character of the help topics that come with Python."""
    text = "".join(
        pydoc.getdoc(item) + "\n" for item in (str, list, dict, int, print, sorted, open)
    )
    alphabet = sorted(set(text))
    codes = torch.tensor([alphabet.index(letter) for letter in text])

    def window() -> tuple[torch.Tensor, torch.Tensor]:
        starts = torch.randint(len(codes) - steps - 1, (batch_size,))
        rows = torch.stack([codes[start : start + steps + 1] for start in starts])
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def loss_fn(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(scores.flatten(0, 1), target.flatten())

    rnn = models.RNN(layers=2, hidden=96, vocab=len(alphabet))
    gpt = models.GPT(2, 64, 4, len(alphabet), steps)
    return [
        Task("LSTM on text", rnn, loss_fn, window),
        Task("transformer on text", gpt, loss_fn, window),
    ]


def train(task: Task, workers: int, steps: int) -> smex.PartitionedModule:
    """Trains the model and its twin on the same batches and prints what was measured."""
    twin = copy.deepcopy(task.model)
    net = smex.partition(
        task.model, workers=workers, loss_fn=task.loss_fn, args=task.batch(), replicate_bytes=1024
    )
    ours = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    theirs = torch.optim.SGD(twin.parameters(), lr=0.05, momentum=0.9)
    bar = tqdm(range(steps), desc=task.name, leave=False)
    for _ in bar:
        x, y = task.batch()
        ours.zero_grad()
        theirs.zero_grad()
        loss = net(x, y)
        expected = task.loss_fn(twin(x), y)
        loss.backward()
        expected.backward()
        ours.step()
        theirs.step()
        bar.set_postfix(loss=f"{loss.item():.4f}", model=f"{expected.item():.4f}")
    stats = net.stats()
    print(f"\n{task.name}")
    print("\n".join(str(net.plan).splitlines()[:12]))
    print(f"loss after {steps} steps: {loss.item():.6f}, unpartitioned {expected.item():.6f}")
    print(
        f"bytes moved in an iteration: predicted {stats['predicted_bytes_moved']:,}, "
        f"counted {stats['bytes_moved']:,}"
    )
    for what in ("predicted_peak_bytes", "peak_bytes"):
        peaks = ", ".join(f"{peak / 2**20:.2f}" for peak in stats[what])
        print(f"peak MiB per worker, {'predicted' if 'pred' in what else 'counted'}: {peaks}")
    return net


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo_plans"))
    options = parser.parse_args()
    # In float32 a ReLU whose input is 1e-8 may go either way, and the two losses drift apart.
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    options.out.mkdir(exist_ok=True)
    for task in [*digits_tasks(batch_size=32), *text_tasks(batch_size=16, steps=20)]:
        net = train(task, options.workers, options.steps)
        page = options.out / f"{task.name.replace(' ', '_')}.html"
        net.plan.show(page)
        print(f"the plan is drawn in {page}")


if __name__ == "__main__":
    main()

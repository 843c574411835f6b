"""A training step of six models: eager, `torch.compile`, and nets of 1 and 2 workers, in one run.

    python benchmarks/peers/environments.py models
    python benchmarks/runtime/beside_compiler.py [NAME ...] [--seconds 12] [--no-compile]

A step is `zero_grad`, loss, backward pass and SGD; "passes" are loss and backward pass alone.
Eager, the compiled model and 1 worker use all threads, 2 workers share them. In a round each takes
its turn, with as many steps as take 10 ms; medians of the time of a step, and of the ratios to
others in the same round. "First step" is the time from the model to the end of its first passes: of
`smex.partition` with capture, search and lowering, and of `torch.compile`, whose cache on disk is
empty. The first loss and gradients are compared with eager's.
"""

from __future__ import annotations

import argparse
import copy
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

import smex

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "peers"))
import environments

Case = tuple[torch.nn.Module, torch.Tensor, torch.Tensor, Callable[[Any, torch.Tensor], Any]]
TURN = 0.01
"""Seconds of a turn; more if a step takes longer."""


def tiny_mlp() -> Case:
    nn = torch.nn
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    return model, torch.randn(8, 16), torch.randint(4, (8,)), F.cross_entropy


def mlp() -> Case:
    nn = torch.nn
    hidden = [layer for _ in range(3) for layer in (nn.Linear(512, 512), nn.GELU())]
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), *hidden, nn.Linear(512, 10))
    return model, torch.randn(128, 256), torch.randint(10, (128,)), F.cross_entropy


def lstm() -> Case:
    class Tagger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(64, 128, num_layers=2, batch_first=True)
            self.head = torch.nn.Linear(128, 32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.lstm(x)[0])

    return (
        Tagger(),
        torch.randn(16, 32, 64),
        torch.randint(32, (16, 32)),
        lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten()),
    )


def resnet() -> Case:
    from torchvision.models import resnet18

    return (
        resnet18(num_classes=10),
        torch.randn(16, 3, 64, 64),
        torch.randint(10, (16,)),
        F.cross_entropy,
    )


def vit() -> Case:
    from timm.models.vision_transformer import VisionTransformer

    model = VisionTransformer(
        img_size=32, patch_size=4, embed_dim=192, depth=6, num_heads=3, num_classes=10
    )
    return model, torch.randn(8, 3, 32, 32), torch.randint(10, (8,)), F.cross_entropy


def llama() -> Case:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=512,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=128,
        use_cache=False,
    )

    def loss(output: Any, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output.logits.flatten(0, 1), target.flatten())

    ids = torch.randint(3, 512, (4, 129))
    return LlamaForCausalLM(config), ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), loss


CASES: dict[str, Callable[[], Case]] = {
    "tiny MLP": tiny_mlp,
    "MLP": mlp,
    "LSTM": lstm,
    "ResNet-18": resnet,
    "ViT": vit,
    "Llama": llama,
}


class Contender:
    """Somebody's training step."""

    def __init__(self, make: Callable[[], tuple[torch.nn.Module, Callable[[], torch.Tensor]]]):
        started = time.perf_counter()
        self.module, self.loss = make()
        self.first_loss = self.passes()
        self.first_step = time.perf_counter() - started
        self.optimiser = torch.optim.SGD(self.module.parameters(), lr=1e-4)
        self.times: list[float] = []
        self.pass_times: list[float] = []

    def passes(self) -> torch.Tensor:
        """Returns the loss."""
        loss = self.loss()
        loss.backward()
        return loss.detach()

    def turn(self, steps: int) -> tuple[float, float]:
        """Returns the seconds of a step, and of its loss and backward pass."""
        in_passes = 0.0
        started = time.perf_counter()
        for _ in range(steps):
            self.optimiser.zero_grad()
            begin = time.perf_counter()
            self.passes()
            in_passes += time.perf_counter() - begin
            self.optimiser.step()
        return (time.perf_counter() - started) / steps, in_passes / steps


def contenders(case: Case, with_compiler: bool) -> dict[str, Contender]:
    """Makes them all of one model, and compares their first steps."""
    model, x, y, loss_fn = case

    def eager() -> Any:
        own = copy.deepcopy(model)
        return own, lambda: loss_fn(own(x), y)

    def compiled() -> Any:
        own = copy.deepcopy(model)
        both = torch.compile(lambda x, y: loss_fn(own(x), y))
        return own, lambda: both(x, y)

    def net(workers: int) -> Any:
        own = copy.deepcopy(model)
        net = smex.partition(own, workers=workers, loss_fn=loss_fn, args=(x, y))
        return net, lambda: net(x, y)

    made = {"eager": Contender(eager)}
    made["1 worker"] = Contender(lambda: net(1))
    made["2 workers"] = Contender(lambda: net(2))
    if with_compiler:
        made["compiled"] = Contender(compiled)
    wanted = {name: p.grad for name, p in made["eager"].module.named_parameters()}
    for name, each in made.items():
        torch.testing.assert_close(
            each.first_loss, made["eager"].first_loss, rtol=1e-4, atol=1e-5, msg=name
        )
        found = (
            each.module.full_grads()
            if isinstance(each.module, smex.PartitionedModule)
            else {n: p.grad for n, p in each.module.named_parameters()}
        )
        for parameter, grad in wanted.items():
            assert (found[parameter] - grad).norm() <= 1e-2 * grad.norm() + 1e-6, (name, parameter)
    return made


def ratio(of: list[float], to: list[float]) -> str:
    """The median of the ratios in the same round."""
    return f"{statistics.median(a / b for a, b in zip(of, to, strict=True)):.2f}"


def measure(name: str, seconds: float, with_compiler: bool) -> str:
    """Returns the model's row of the table."""
    torch.manual_seed(0)
    made = contenders(CASES[name](), with_compiler)
    steps = {}
    for key, each in made.items():
        each.turn(3)
        steps[key] = max(1, min(200, int(TURN / each.turn(3)[0])))
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends or len(made["eager"].times) < 9:
        for key, each in made.items():
            step, passes = each.turn(steps[key])
            each.times.append(step)
            each.pass_times.append(passes)
    cells = [name]
    for key in ("eager", "compiled", "1 worker", "2 workers"):
        if key in made:
            cells.append(f"{statistics.median(made[key].times) * 1e3:.3g} ms")
    eager, one, two = made["eager"], made["1 worker"], made["2 workers"]
    cells.append(f"{ratio(one.times, eager.times)} ({ratio(one.pass_times, eager.pass_times)})")
    if "compiled" in made:
        cells.append(ratio(one.times, made["compiled"].times))
    cells.append(ratio(two.times, one.times))
    cells.append(f"{one.first_step:.1f} s")
    if "compiled" in made:
        cells.append(f"{made['compiled'].first_step:.1f} s")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    python = environments.interpreter("models")
    if python is None:
        sys.exit("its environment is missing: python benchmarks/peers/environments.py models")
    if pathlib.Path(sys.prefix) != python.parent.parent:
        package = str(pathlib.Path(smex.__file__).parents[1])
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        with tempfile.TemporaryDirectory() as cache:
            own = {"PYTHONPATH": os.pathsep.join(paths), "TORCHINDUCTOR_CACHE_DIR": cache}
            sys.exit(subprocess.run([python, *sys.argv], env={**os.environ, **own}).returncode)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}; all")
    parser.add_argument("--seconds", type=float, default=12, help="that a model is measured for")
    parser.add_argument("--no-compile", action="store_true", help="leave the compiler out")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, CPU, {torch.get_num_threads()} threads")
    columns = ["model", "eager", "compiled", "1 worker", "2 workers", "1 / eager (passes)"]
    columns += ["1 / compiled", "2 / 1 worker", "first step", "compiled"]
    if options.no_compile:
        columns = [column for column in columns if "compiled" not in column]
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for name in options.names or CASES:
        print(measure(name, options.seconds, not options.no_compile), flush=True)


if __name__ == "__main__":
    main()

"""``python -m smex``: what this build is, what it runs on, and whether it computes what it should.

Each check prints a line with "ok" or "FAIL" and why; the exit status is 1 where one fails, or the
native library is missing. ``--facts`` leaves the checks out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

import smex


def _devices() -> Iterator[str]:
    import torch

    for index in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(index)
        yield (
            f"cuda:{index}  {found.name}, {found.total_memory / 2**30:.0f} GiB, "
            f"compute capability {found.major}.{found.minor}"
        )


def _model_on_two_workers(device: str) -> str:
    import torch
    from torch import nn
    from torch.nn import functional

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 4)).to(device)
    x, target = torch.randn(8, 12, device=device), torch.randn(8, 4, device=device)
    functional.mse_loss(model(x), target).backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    net = smex.partition(
        model, args=(x, target), workers=2, loss_fn=functional.mse_loss, devices=[device] * 2
    )
    net(x, target).backward()
    for name, gradient in net.full_grads().items():
        torch.testing.assert_close(gradient, expected[name])
    return "a model on two workers has the gradients of the whole one"


def _messages(device: str) -> str:
    import torch

    import smex.graph as sg
    from smex.graph import function as fn

    src, dst = torch.tensor([0, 0, 1, 3, 3]), torch.tensor([1, 2, 2, 0, 2])
    g = sg.graph((src, dst), num_nodes=4).to(device)
    g.ndata["h"] = torch.arange(8.0, device=device).view(4, 2)
    g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"))
    expected = torch.zeros(4, 2).index_add_(0, dst, torch.arange(8.0).view(4, 2)[src])
    torch.testing.assert_close(g.ndata["out"].cpu(), expected)
    return "messages along edges arrive at their nodes"


def _recursion(device: str) -> str:
    import torch

    import smex.vertex as sv

    class Sum(sv.VertexFunction):
        def __init__(self) -> None:
            super().__init__(total=1)

        def forward(self) -> None:
            total = self.gather_sum().total + self.pull()
            self.scatter(total)
            self.push(total)

    numbers = torch.arange(5.0, device=device).view(5, 1)
    found = sv.run(Sum().to(device), [sv.tree((("a", "b"), "c"))], numbers)
    torch.testing.assert_close(found.roots.outputs["out"], numbers.sum().view(1, 1))
    return "a vertex function sums over a tree"


CHECKS: tuple[Callable[[str], str], ...] = (_model_on_two_workers, _messages, _recursion)


def _check(device: str) -> bool:
    """Prints a line for each check; whether all are well."""
    is_well = True
    for check in CHECKS:
        begin = time.perf_counter()
        try:
            text = f"ok    {check(device)}"
        except Exception as error:  # whatever is wrong is what is asked for
            text = f"FAIL  {check.__name__.strip('_').replace('_', ' ')}: {error!r}"
            is_well = False
        print(f"{device:<8}{text} ({time.perf_counter() - begin:.1f} s)", flush=True)
    return is_well


COMMANDS = (
    "  python -m smex.specs          which operators have a Spec, and what it says",
    "  python -m smex.distributed    what processes that run one plan did before one failed",
    "  python -m smex.graph.run      runs a program that was written for DGL",
    "  python -m smex.graph.migrate  lists the names of DGL that programs use",
)
"""Of the package, beside this one."""


def main() -> int:
    """Runs the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m smex",
        description="What this build is, what it runs on, and whether it computes what it should.",
        epilog="Other commands, each with --help:\n" + "\n".join(COMMANDS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--facts", action="store_true", help="without the checks")
    options = parser.parse_args()
    config = smex.show_config()
    print(config)
    if not config.native:
        return 1
    for device in _devices():
        print(device)
    if options.facts:
        return 0
    print()
    devices = ["cpu"]
    if config.cuda and config.gpus:
        devices.append("cuda")
    failed = [device for device in devices if not _check(device)]
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

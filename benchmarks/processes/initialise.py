"""`smex.init` of models on the meta device: equal bits, memory of one process, and seconds.

Equal: six models, divided by 1, 2, 3, 4, 6 and 8 workers and two planners, on meta and not, and by
processes that compute their own workers' tiles alone. Memory: a process that holds one worker of
many initialises it, and what its anonymous memory grows by (`RssAnon`, sampled every 2 ms) stands
beside its shards and the largest of them. Seconds: beside `reset_parameters` of the same model on
the CPU.

    python benchmarks/processes/initialise.py [equal] [memory] [seconds]
"""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from examples.models import GPT, RNN, Llama, WResNet

import smex
from smex.distributed.world import World

MIB = 2**20
COUNTS = (1, 2, 3, 4, 6, 8)


class Experts(nn.Module):
    """A gate and experts in one tensor: `[N, width] -> [N, width]`."""

    def __init__(self, width: int = 16, experts: int = 6, hidden: int = 24) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.empty(experts, width, hidden))
        self.down = nn.Parameter(torch.empty(experts, hidden, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As a linear layer's, expert by expert."""
        for part in (self.up, self.down):
            for expert in part:
                nn.init.kaiming_uniform_(expert, a=math.sqrt(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.einsum("nw,ewh->neh", x, self.up).relu()
        return torch.einsum("neh,ehw,ne->nw", y, self.down, self.gate(x).softmax(-1))


class Layered(nn.Module):
    """Two layers of an LSTM: `[N, T, 6] -> [N, T, 3]`."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 12, 2, batch_first=True), nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0])


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 40))


def _tokens(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def gpt_2(module: nn.Module) -> None:
    """GPT-2's: normal of 0.02, truncated here, and smaller where a residual ends."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
    for name, parameter in module.named_parameters(recurse=False):
        if name == "bias":
            parameter.zero_()
    for name, part in module.named_children():
        if name in ("proj", "down"):
            part.weight.mul_(1 / math.sqrt(2 * 12))


FAMILIES: dict[str, tuple[Callable, Callable, Callable | None, Callable | None]] = {
    "MLP": (_mlp, lambda: (torch.randn(8, 40),), None, None),
    "WResNet": (
        WResNet.small, lambda: WResNet.small_inputs(torch.float32), F.cross_entropy, None,
    ),
    "RNN": (RNN.small, lambda: RNN.small_inputs(torch.float32), _tokens, None),
    "LSTM": (Layered, lambda: (torch.randn(4, 3, 6),), None, None),
    "GPT": (GPT.small, lambda: GPT.small_inputs(torch.float32), _tokens, gpt_2),
    "Llama": (Llama.small, lambda: Llama.small_inputs(torch.float32), _tokens, None),
    "MoE": (Experts, lambda: (torch.randn(8, 16),), None, None),
}  # fmt: skip


def _on_meta(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.device("meta"):
        return make()


def equal() -> Iterator[tuple[str, int, int]]:
    """Yields a model, in how many ways it was divided, and how many tensors differed in a bit."""
    for family, (make, inputs, loss_fn, init_fn) in FAMILIES.items():
        wanted: dict[str, torch.Tensor] = {}
        ways = differ = 0
        for workers in COUNTS:
            for planner in ("tofu", "fsdp"):
                for on_meta in (True, False):
                    net = smex.partition(
                        _on_meta(make) if on_meta else make(), workers=workers, args=inputs(),
                        loss_fn=loss_fn, replicate_bytes=0, planner=planner,
                    )  # fmt: skip
                    for rank in range(workers):
                        if on_meta:  # each worker's tiles by a process of its own
                            net._world = World(rank, tuple(range(workers)))
                        smex.init(net, seed=11, init_fn=init_fn)
                        if not on_meta:
                            break
                    state = net.state_dict()
                    wanted = wanted or state
                    ways += 1
                    differ += sum(not torch.equal(state[n], wanted[n]) for n in wanted)
        yield family, ways, differ


# ---- memory ----

CASES: dict[str, dict[str, Any]] = {
    "GPT, 155 M parameters": {"layers": 48, "embed": 512, "heads": 8, "vocab": 8192},
    "GPT, 860 M parameters": {"layers": 16, "embed": 2048, "heads": 16, "vocab": 26000},
}


def _gpt(options: dict[str, Any]) -> nn.Module:
    return _on_meta(lambda: GPT(context=128, fused_attention=True, **options))


def _rss() -> int:
    status = pathlib.Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


def one_of(options: dict[str, Any], workers: int, gpt_2_too: bool) -> dict[str, Any]:
    """Initialises one worker's tiles in this process and returns the bytes that it took."""
    net = smex.partition(_on_meta(_mlp), workers=2, args=(torch.randn(8, 40),))
    smex.init(net, init_fn=gpt_2 if gpt_2_too else None)  # loads what torch loads when first used
    vocab = options["vocab"]
    net = smex.partition(_gpt(options), workers=workers, args=(torch.randint(vocab, (8, 128)),))
    rank = workers // 2
    net._world = World(rank, tuple(range(workers)))
    tiles = [tile for name in net._state.cuts for tile, _ in net._state.tiles_of(name, [rank])]
    before, most, done = _rss(), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.002):
            most = max(most, _rss())

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    smex.init(net, init_fn=gpt_2 if gpt_2_too else None)
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    return {
        "shards": sum(tile.nbytes for tile in tiles),
        "largest": max(tile.nbytes for tile in tiles),
        "peak": max(most, _rss()) - before,
        "model": sum(parameter.nbytes for parameter in net._model[0].parameters()),
        "seconds": seconds,
    }


def memory() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yields what `one_of` returns in processes of their own."""
    for case, options in CASES.items():
        for workers, gpt_2_too in ((4, False), (8, False), (8, True), (32, False)):
            call = json.dumps({"options": options, "workers": workers, "gpt_2_too": gpt_2_too})
            run = subprocess.run(
                [sys.executable, __file__, "one", call], check=True, capture_output=True, text=True
            )
            name = f"{case}{', init_fn' if gpt_2_too else ''}"
            yield name, workers, json.loads(run.stdout.splitlines()[-1])


# ---- seconds ----


def _best(call: Callable[[], Any], rounds: int = 3) -> float:
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return min(found)


def seconds() -> Iterator[tuple[str, float]]:
    """Yields what initialises a model, and its seconds."""
    for init_fn in (None, gpt_2):
        kind = f"48 layers{', init_fn' if init_fn else ''}"
        options = CASES["GPT, 155 M parameters"]
        plain = GPT(context=128, fused_attention=True, **options)

        def reset(plain: nn.Module = plain, init_fn: Callable | None = init_fn) -> None:
            with torch.no_grad():
                for module in plain.modules():
                    if hasattr(module, "reset_parameters"):
                        module.reset_parameters()
                if init_fn is not None:
                    plain.apply(init_fn)

        yield f"{kind}: torch", _best(reset)
        x = torch.randint(options["vocab"], (8, 128))
        for workers in (1, 4, 8):
            net = smex.partition(_gpt(options), workers=workers, args=(x,))
            call = lambda net=net, init_fn=init_fn: smex.init(net, 0, init_fn)  # noqa: E731
            yield f"{kind}: smex, {workers} workers in a process", _best(call)
        net._world = World(3, tuple(range(8)))
        yield f"{kind}: smex, one process of 8", _best(call)


def main() -> None:
    warnings.filterwarnings("ignore")
    asked = sys.argv[1:] or ["equal", "memory", "seconds"]
    if asked[0] == "one":
        print(json.dumps(one_of(**json.loads(asked[1]))))
        return
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    if "equal" in asked:
        for family, ways, differ in equal():
            print(f"{family:8} divided in {ways} ways: {differ} tensors differ", flush=True)
    if "memory" in asked:
        for case, workers, found in memory():
            mib = {name: found[name] / MIB for name in ("model", "shards", "largest", "peak")}
            over = mib["peak"] - mib["shards"] - mib["largest"]
            print(
                f"{case}, one of {workers:2} workers: model {mib['model']:7.1f} MiB, "
                f"shards {mib['shards']:6.1f} + largest {mib['largest']:5.1f}, grew by "
                f"{mib['peak']:6.1f} (over: {over:5.1f}), {found['seconds']:.2f} s",
                flush=True,
            )
    if "seconds" in asked:
        for what, took in seconds():
            print(f"{what:48} {took:6.2f} s", flush=True)


if __name__ == "__main__":
    main()

"""The training step of DDP, FSDP2 and DTensor's tensor parallelism, as torch's own guides write it.

Each takes a case, whose model and batch every rank makes alike, and returns a `Step`. Data parallel
systems run the rank's part of the batch. What torch refuses raises `RefusedError` with its message.

Batch norm of DDP and FSDP2 normalises over the rank's part of the batch: `SyncBatchNorm` takes no
tensors on the CPU. `losses_of_one_process` computes what each has to give.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable

import models
import torch
import torch.distributed as dist
from cases import Case
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional as F

LEARNING_RATE = 1e-3


class RefusedError(RuntimeError):
    """torch does not divide this model so; the text is torch's."""


@dataclasses.dataclass
class Step:
    """A training step of one rank.

    Attributes:
        parts: into how many the batch is divided; the losses are of the parts.
        around: what forward and backward run in.
    """

    model: nn.Module
    batch: tuple[Tensor, Tensor]
    loss_fn: Callable[[Tensor, Tensor], Tensor]
    optimizer: torch.optim.Optimizer
    parts: int = 1
    around: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext

    def __call__(self) -> float:
        """Forward, backward and the optimiser; returns the loss."""
        self.optimizer.zero_grad()
        with self.around():
            x, y = self.batch
            loss = self.loss_fn(self.model(x), y)
            loss.backward()
        self.optimizer.step()
        return (loss.full_tensor() if isinstance(loss, DTensor) else loss).item()


def optimizer_of(parameters, name: str) -> torch.optim.Optimizer:
    """ "sgd" or "adamw", with the same numbers for all systems."""
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=LEARNING_RATE)
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=LEARNING_RATE / 10)
    raise ValueError(f"optimizer {name!r}, expected sgd or adamw")


def part_of(batch: tuple[Tensor, Tensor], mesh: DeviceMesh) -> tuple[Tensor, Tensor]:
    """The rank's samples."""
    x, y = (whole.chunk(mesh.size())[mesh.get_local_rank()].contiguous() for whole in batch)
    return x, y


def ddp(case: Case, mesh: DeviceMesh, optimizer: str = "adamw") -> Step:
    """DistributedDataParallel; buckets of the default size, gradients live in them."""
    model, batch = case.make()
    wrapped = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    made = optimizer_of(wrapped.parameters(), optimizer)
    return Step(wrapped, part_of(batch, mesh), case.loss_fn, made, mesh.size())


def fsdp2(case: Case, mesh: DeviceMesh, optimizer: str = "adamw") -> Step:
    """`fully_shard` of each layer, then of what is left."""
    model, batch = case.make()
    for layer in case.layers(model):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    made = optimizer_of(model.parameters(), optimizer)
    return Step(model, part_of(batch, mesh), case.loss_fn, made, mesh.size())


def tensor_parallel(case: Case, mesh: DeviceMesh, optimizer: str = "adamw") -> Step:
    """`parallelize_module` with the plan of the family: columns, then rows (Megatron-LM §3).

    Raises:
        RefusedError: there is no style for a layer.
    """
    model, batch = case.make()
    around = contextlib.nullcontext
    try:
        model = PLANS[case.family](model, mesh)
    except NotImplementedError as error:
        raise RefusedError(f"{type(error).__name__}: {error}") from error
    if case.family == "gpt":
        around = loss_parallel
    return Step(
        model, batch, case.loss_fn, optimizer_of(model.parameters(), optimizer), around=around
    )


def mlp_plan(model: nn.Sequential, mesh: DeviceMesh) -> nn.Module:
    """Every second layer by columns, the one after it by rows."""
    layers = [name for name, layer in model.named_children() if isinstance(layer, nn.Linear)]
    styles: list[ParallelStyle] = [ColwiseParallel(), RowwiseParallel()]
    return parallelize_module(
        model, mesh, {name: styles[place % 2] for place, name in enumerate(layers)}
    )


def wresnet_plan(model: models.WResNet, mesh: DeviceMesh) -> nn.Module:
    """As the transformer's network: the first convolution of a block by columns, the last by rows.

    There is no style for convolutions, and DTensor has no rule for one whose channels are cut
    (`torch/distributed/tensor/_ops/_conv_ops.py`): the batch or the width, weights replicated.
    """
    blocks = (name for name, part in model.named_modules() if isinstance(part, models.Bottleneck))
    styles = {f"{name}.conv1": ColwiseParallel() for name in blocks}
    return parallelize_module(model, mesh, styles)


class LocalCell(nn.Module):
    """An LSTM step that has a part of the hidden units: `x, (h, c) [N, hidden / ranks]`."""

    def __init__(self, cell: models.LSTMCell, mesh: DeviceMesh) -> None:
        super().__init__()
        self.input, self.recurrent = cell.input, cell.recurrent
        # The rows are those of i, f, g and o; a rank needs the same units of each.
        hidden = cell.recurrent.in_features
        order = torch.arange(4 * hidden).view(4, mesh.size(), -1).transpose(0, 1).flatten()
        with torch.no_grad():
            for rows in (self.input.weight, self.input.bias, self.recurrent.weight):
                rows.copy_(rows[order])

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        h, c = state
        i, f, g, o = (self.input(x) + self.recurrent(h)).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def rnn_plan(model: models.RNN, mesh: DeviceMesh) -> nn.Module:
    """Each rank has a part of the hidden units; `h` is gathered before it is multiplied.

    `nn.LSTM` has no style ("ColwiseParallel currently only support nn.Linear and nn.Embedding!"),
    and the gates of a DTensor are gathered when they are told apart: cells that know that they have
    a part are what a user writes.
    """
    model.cells = nn.ModuleList(LocalCell(cell, mesh) for cell in model.cells)
    model.hidden //= mesh.size()
    gathering = ColwiseParallel(input_layouts=Shard(-1))
    styles: dict[str, ParallelStyle] = {"cells.*.recurrent": gathering}
    for place in range(len(model.cells)):
        styles[f"cells.{place}.input"] = gathering if place else ColwiseParallel()
    parallelize_module(model, mesh, styles)
    whole = PrepareModuleOutput(output_layouts=Shard(-1), desired_output_layouts=Replicate())
    return parallelize_module(model, mesh, whole)


class LocalAttention(models.SelfAttention):
    """Attention of the heads that a rank has; DTensor has no rule for the CPU's fused call."""

    def forward(self, x: Tensor) -> Tensor:
        n, t, e = x.shape
        shape = (n, t, -1, e // self.heads)
        q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).flatten(2))


def gpt_plan(model: models.GPT, mesh: DeviceMesh) -> nn.Module:
    """Heads and the inner width by columns, their outputs by rows, the vocabulary by rows."""
    styles: dict[str, ParallelStyle] = {
        "tokens": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(use_local_output=False),
        # One gradient of what query, key and value have in common.
        "blocks.*.attention": PrepareModuleInput(
            input_layouts=Replicate(), desired_input_layouts=Replicate()
        ),
        "blocks.*.up": ColwiseParallel(),
        "blocks.*.down": RowwiseParallel(),
        "blocks.*.attention.proj": RowwiseParallel(),
    }
    for name in ("query", "key", "value"):
        styles[f"blocks.*.attention.{name}"] = ColwiseParallel()
    for block in model.blocks:
        block.attention.__class__ = LocalAttention
    parallelize_module(model, mesh, styles)
    model.head.weight = model.tokens.weight  # each has got a parameter of its own
    return model


PLANS: dict[str, Callable[[nn.Module, DeviceMesh], nn.Module]] = {
    "gpt": gpt_plan,
    "mlp": mlp_plan,
    "rnn": rnn_plan,
    "wresnet": wresnet_plan,
}

PEERS: dict[str, Callable[[Case, DeviceMesh, str], Step]] = {
    "DDP": ddp,
    "FSDP2": fsdp2,
    "TP": tensor_parallel,
}


def losses_of_one_process(
    case: Case, parts: int, steps: int, optimizer: str = "adamw"
) -> list[float]:
    """The losses of the plain model, which gets its batch in so many parts for each step."""
    model, (x, y) = case.make()
    made = optimizer_of(model.parameters(), optimizer)
    found = []
    for _ in range(steps):
        made.zero_grad()
        total = 0.0
        for some_x, some_y in zip(x.chunk(parts), y.chunk(parts), strict=True):
            loss = case.loss_fn(model(some_x), some_y) / parts
            loss.backward()
            total += loss.item()
        made.step()
        found.append(total)
    return found


def losses(step: Step, steps: int, mesh: DeviceMesh) -> list[float]:
    """The step's losses, over all parts of the batch."""
    found = torch.tensor([step() for _ in range(steps)], dtype=torch.float64)
    if step.parts > 1:
        dist.all_reduce(found, group=mesh.get_group())
        found /= step.parts
    return found.tolist()
